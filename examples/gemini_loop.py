"""An agent on Gemini whose context never overflows."""

from __future__ import annotations

from google import genai
from google.genai import types
from stand_in import read_file, serving

from marksweep import Conversation

READ_FILE = types.FunctionDeclaration(
    name="read_file",
    description="Read a file.",
    parameters_json_schema={"type": "object", "properties": {"path": {"type": "string"}}},
)
CONFIG = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[READ_FILE])],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)

with serving() as address:  # yours: client = genai.Client()
    client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=address))
    talk = Conversation(limit=8_000, dialect="gemini")
    talk.extend([{"role": "user", "parts": [{"text": "Where are retries limited?"}]}])
    while True:
        answer = client.models.generate_content(
            model="gemini-3-pro", contents=talk.messages, config=CONFIG
        )
        usage = answer.usage_metadata
        if usage and usage.prompt_token_count:
            talk.observe(usage.prompt_token_count, usage.cached_content_token_count)
        talk.extend([each.content for each in answer.candidates or ()])
        if not answer.function_calls:
            break
        texts = [(call.name, read_file(**(call.args or {}))) for call in answer.function_calls]
        results = [
            {"functionResponse": {"name": name, "response": {"output": text}}}
            for name, text in texts
        ]
        talk.extend([{"role": "user", "parts": results}])

print(answer.text)
print(f"{talk.tokens:,} tokens in the window, {len(talk.journal())} entries in the journal")
