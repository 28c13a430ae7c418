"""OpenAI Responses: `input` is a flat list of items matched by `call_id`; and its rules.

{"type": "reasoning", "id": …, "encrypted_content": …}
{"type": "function_call", "call_id": …, "name": …, "arguments": "…"}
{"type": "function_call_output", "call_id": …, "output": "…"}
"""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.dialects import base, rulebook
from marksweep.dialects.base import Json, Messages, Rule, Slot, word
from marksweep.dialects.rulebook import Answers, all_after, each_run, separately
from marksweep.messages import FunctionCall, InlineData, Message, Part, Role, ToolResult

FUNCTION_CALLING = "https://platform.openai.com/docs/guides/function-calling"
REASONING = "https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context"

APPROVALS = "https://platform.openai.com/docs/guides/tools-connectors-mcp#approvals"


def _refers(message: Message) -> bool:
    """Whether an item stands for one that the provider stores: a thought, a call or a text."""
    return any(
        isinstance(part.raw, dict) and part.raw.get("type") == "item_reference"
        for part in message.parts
    )


def _first_reference(messages: Messages) -> int:
    return next((i for i, message in enumerate(messages) if _refers(message)), len(messages))


ANSWERS = Answers(each_run, all_after, separately, known=_first_reference)


def _asked(part: Part) -> FunctionCall | None:
    """Return what must be answered: a call, or the provider's request to approve one."""
    item = part.raw if isinstance(part.raw, dict) else {}
    if item.get("type") == "mcp_approval_request":
        return FunctionCall(word(item.get("id")), word(item.get("name")))
    return part.function_call


def _answered(part: Part) -> ToolResult | None:
    """Return what answers that."""
    item = part.raw if isinstance(part.raw, dict) else {}
    if item.get("type") == "mcp_approval_response":
        return ToolResult(word(item.get("approval_request_id")))
    return part.function_response


def _loose_approvals(messages: Messages) -> dict[Slot, str]:
    orphans = base.match(messages, _asked, _answered).orphans
    loose = [s for s in orphans if not messages[s.message].parts[s.part].function_response]
    return dict.fromkeys(loose, "an approval of a request that is not there")


def _loose_thoughts(messages: Messages) -> dict[Slot, str]:
    loose: list[Slot] = []
    followed = False
    for i in range(len(messages) - 1, -1, -1):
        message = messages[i]
        thinks = any(part.thought is not None for part in message.parts)
        if thinks and not followed:
            loose.append(Slot(i, 0))
        else:
            followed = message.role is Role.MODEL
    what = "a reasoning item is not followed by what the model said or did"
    return dict.fromkeys(reversed(loose), what)


RULES = (
    Rule(
        "call-ids-unique",
        f"{FUNCTION_CALLING}: an output is matched to its call by call_id.",
        "Give each call its own call_id, and the same to its output.",
        *rulebook.renaming(
            rulebook.repeated_ids(
                base.call_of, "a call has no call_id, or that of an earlier call"
            ),
            ANSWERS,
        ),
    ),
    Rule(
        "outputs-have-calls",
        "The API answers 'No tool call found for function call output with call_id …'; "
        f"{FUNCTION_CALLING}.",
        "Drop the output, or put back its call before it.",
        *rulebook.results_without_call(
            ANSWERS, "an output answers {result.call_id!r}, which no earlier call asks for"
        ),
    ),
    Rule(
        "calls-have-outputs",
        "The API answers 'No tool output found for function call …'; "
        f"{FUNCTION_CALLING}. A call at the very end may still be waiting.",
        "Add an output for the call.",
        *rulebook.calls_unanswered(ANSWERS, "call {call.id!r} has no output"),
    ),
    Rule(
        "approvals-have-requests",
        f"{APPROVALS}: an mcp_approval_response names the mcp_approval_request it answers.",
        "Drop the response, or put back its request before it.",
        *rulebook.dropping(_loose_approvals),
    ),
    Rule(
        "reasoning-followed",
        "The API answers \"Item 'rs_…' of type 'reasoning' was provided without its required "
        f'following item"; {REASONING}.',
        "Drop the reasoning item, or put back the item that followed it.",
        *rulebook.dropping(_loose_thoughts),
    ),
)
"""In the order in which a repair applies them."""


ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.MODEL,
}

CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
"""Items that ask for a call, and where each keeps its arguments. Each is answered by an item of
type `<its type>_output`. Other `…_call` items are run by the provider and hold their result."""

OUTPUTS = {f"{kind}_output": kind for kind in CALLS}

TEXTS = ("input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text")


class StoredTying(base.Tying):
    """Also keeps together what belongs to calls that the provider stores.

    A reference may stand for a thought or a call: it is tied to the model's items beside it, and
    to outputs of calls that are not in the history. Such an output without a reference before it
    must stay, since its call does.
    """

    def __init__(self) -> None:
        super().__init__(_asked, _answered)
        self._referring: tuple[int, ...] = ()
        """The references in the model's last run."""
        self._is_run = False
        self._to_stored: set[int] = set()

    def thinks(self, message: Message) -> bool:
        """Whether an item is a thought, or may be one."""
        return _refers(message) or super().thinks(message)

    def feed(self, i: int, message: Message) -> list[int]:
        """Read the next item; return the numbers of those it is tied to."""
        tied = super().feed(i, message)
        was_run, self._is_run = self._is_run, message.role is Role.MODEL
        if self._is_run:
            before = self._referring if was_run else ()
            self._referring = (*before, i) if _refers(message) else before
        elif message.role is Role.TOOL and not tied:
            tied = list(self._referring)
            if not tied:
                self._to_stored.add(i)
        return tied

    def held(self) -> set[int]:
        """Return the numbers of items that must stay."""
        return super().held() | self._to_stored


class OpenAIResponses(base.TiedByCalls):
    """Reads and writes Responses items."""

    name = "openai_responses"
    rules: tuple[Rule, ...] = RULES

    def tying(self) -> base.Tying:
        """Tie results to their calls, approvals to their requests, thoughts to what followed."""
        return StoredTying()

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Parse one item."""
        if not isinstance(raw, dict):
            raise base.Unreadable(f"{type(raw).__name__} where an item object was expected")
        kind = word(raw.get("type")) or ("message" if "role" in raw else "")
        if kind == "message":
            return base.role_in(raw, ROLES), tuple(base.parts_of(raw.get("content"), _part))
        if kind in CALLS:
            name = word(raw.get("name")) or kind
            call = FunctionCall(word(raw.get("call_id")), name, base.decoded(raw.get(CALLS[kind])))
            return Role.MODEL, (Part(function_call=call, raw=raw),)
        if kind in OUTPUTS:
            result = ToolResult(word(raw.get("call_id")), word(raw.get("name")), raw.get("output"))
            return Role.TOOL, (Part(function_response=result, raw=raw),)
        if kind == "reasoning":
            return Role.MODEL, (Part(thought=_thought(raw), raw=raw),)
        if kind:
            return Role.MODEL, (Part(raw=raw),)
        raise base.Unreadable("an item without type or role")

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy the item with these parts."""
        if not parts:
            return {**raw, "content": ""}
        if "content" not in raw or raw.get("type", "message") != "message":
            return parts[0].raw
        blocks = [part.raw for part in parts]
        if len(blocks) == 1 and isinstance(blocks[0], str):
            return {**raw, "content": blocks[0]}
        kind = "output_text" if raw.get("role") == "assistant" else "input_text"
        blocks = [{"type": kind, "text": b} if isinstance(b, str) else b for b in blocks]
        return {**raw, "content": blocks}

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Make items: one for all that is said, one per call and result."""
        items: list[Json] = []
        said = [part for part in parts if part.text is not None or part.inline_data]
        others = [part for part in parts if part.function_call or part.function_response]
        if said or not others:
            items.append(_message(role, said))
        for part in others:
            if part.raw is not None:
                items.append(part.raw)
            elif part.function_call:
                call = part.function_call
                args = base.encoded(call.args if call.args is not None else {})
                item = {"type": "function_call", "call_id": call.id, "name": call.name}
                items.append({**item, "arguments": args})
            elif part.function_response:
                result = part.function_response
                output = base.as_text(result.result)
                item = {"type": "function_call_output", "call_id": result.call_id}
                items.append({**item, "output": output})
        return items

    def answer(self, asked: Part, text: str) -> Part:
        """Make a result for a call, of the kind that matches it."""
        call = asked.function_call or FunctionCall("", "")
        kind = asked.raw["type"] if asked.raw else "function_call"
        raw = {"type": f"{kind}_output", "call_id": call.id, "output": text}
        return Part(function_response=ToolResult(call.id, call.name, text), raw=raw)

    def with_call_id(self, part: Part, call_id: str) -> Part:
        """Return the same call or result under another id."""
        return _edited(part, call_id=call_id)

    def with_result(self, part: Part, text: str) -> Part:
        """Replace what a result says."""
        if part.function_response is None or isinstance(part.raw.get("output"), dict):
            return part
        return _edited(part, output=base.shortened(part.raw.get("output"), text, "input_text"))


def _edited(part: Part, **fields: Json) -> Part:
    """Return the call or result of an item with other fields."""
    _, (edited,) = OPENAI_RESPONSES.read({**part.raw, **fields})
    return edited


def _part(block: dict[str, Json]) -> Part:
    kind = block.get("type")
    if kind in TEXTS:
        text = block.get("text", block.get("refusal"))
        return Part(text=word(text), raw=block)
    if kind == "input_image":
        address = word(block.get("image_url") or block.get("file_id"))
        return Part(inline_data=InlineData("image/*", address), raw=block)
    if kind == "input_file":
        held = word(block.get("file_data") or block.get("file_url") or block.get("file_id"))
        return Part(inline_data=InlineData("application/*", held), raw=block)
    audio = block.get("input_audio")
    if kind == "input_audio" and isinstance(audio, dict):
        data = InlineData(f"audio/{audio.get('format', '*')}", word(audio.get("data")))
        return Part(inline_data=data, raw=block)
    return Part(raw=block)


def _thought(raw: dict[str, Json]) -> str:
    """Return the readable text of a reasoning item; encrypted content stays in `raw`."""
    shown = [*_list(raw.get("summary")), *_list(raw.get("content"))]
    return "\n".join(word(item.get("text")) for item in shown if isinstance(item, dict))


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _message(role: Role, parts: Sequence[Part]) -> Json:
    written = {Role.SYSTEM: "system", Role.MODEL: "assistant"}.get(role, "user")
    if all(part.inline_data is None for part in parts):
        text = "\n".join(part.text or "" for part in parts)
        return {"type": "message", "role": written, "content": text}
    return {"type": "message", "role": written, "content": [_written(part) for part in parts]}


def _written(part: Part) -> Json:
    if part.inline_data is None:
        return {"type": "input_text", "text": part.text}
    mime = part.inline_data.mime_type
    address = base.as_url(mime, part.inline_data.data)
    if mime.startswith("image/"):
        return {"type": "input_image", "image_url": address}
    return {"type": "input_file", "file_data": address}


OPENAI_RESPONSES = OpenAIResponses()
