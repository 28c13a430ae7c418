"""Test conversations: written once, rendered in every provider's format.

A `Script` is what happens: the user speaks; the model answers, calls tools, thinks. `render_script`
writes it in a dialect as its SDK would. The hypothesis strategies make random scripts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

PIXEL = "R0lGODlhAQABAAAAACwAAAAAAQABAAA="
"""A picture, as base64."""

PIXEL_URL = f"data:image/gif;base64,{PIXEL}"

Raw = dict[str, Any]


class Said(msgspec.Struct, frozen=True):
    """The user says something, perhaps with a picture."""

    text: str
    pictures: int = 0


class Call(msgspec.Struct, frozen=True):
    """One call and its result; None: no result yet."""

    name: str
    args: dict[str, Any]
    result: str | None
    is_error: bool = False


class Answered(msgspec.Struct, frozen=True):
    """The model answers, perhaps after thinking, calling tools, or letting its provider search."""

    text: str = ""
    thought: str = ""
    calls: tuple[Call, ...] = ()
    searched: str = ""
    """The query to a server tool, in formats that have these."""
    remark: str = ""
    """What the user says together with the results, in formats that allow it."""
    instructed: str = ""
    """A system message right before, in formats that allow one between user and assistant."""


class Script(msgspec.Struct, frozen=True):
    """A conversation, independent of any format."""

    beats: tuple[Said | Answered, ...]
    system: tuple[str, ...] = ()
    """Instructions at the start, in formats that have them among the messages."""
    extras: bool = False
    """Whether messages carry fields that no documentation mentions."""


def render_script(script: Script, dialect: str) -> list[Raw]:
    """Render a script in a dialect."""
    return RENDERERS[dialect](script)


def _extra(script: Script, raw: Raw, at: int) -> Raw:
    return {**raw, "x_unknown": {"at": at, "deep": [None, 1.5]}} if script.extras else raw


def _content(said: Said, picture: Raw, kind: str = "text") -> str | list[Raw]:
    """Return what the user says: a text, or parts if there are pictures."""
    parts = [{"type": kind, "text": said.text}, *[picture] * said.pictures]
    return parts if said.pictures else said.text


def _chat(script: Script) -> list[Raw]:
    out: list[Raw] = [{"role": "system", "content": text} for text in script.system]
    for at, beat in enumerate(script.beats):
        if isinstance(beat, Said):
            content = _content(beat, {"type": "image_url", "image_url": {"url": PIXEL_URL}})
            out.append(_extra(script, {"role": "user", "content": content}, at))
            continue
        message: Raw = {"role": "assistant", "content": beat.text or None}
        if beat.thought:
            message["reasoning_content"] = beat.thought
        if beat.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{at}_{n}",
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.args)},
                }
                for n, call in enumerate(beat.calls)
            ]
        elif not beat.text:
            message["content"] = ""
        out.append(_extra(script, message, at))
        for call_id, result in _results(beat, at):
            out.append({"role": "tool", "tool_call_id": call_id, "content": result})
        out += _remark(beat)
    return out


def _responses(script: Script) -> list[Raw]:
    out: list[Raw] = [{"role": "developer", "content": text} for text in script.system]
    for at, beat in enumerate(script.beats):
        if isinstance(beat, Said):
            picture = {"type": "input_image", "image_url": PIXEL_URL}
            content = _content(beat, picture, "input_text")
            out.append(_extra(script, {"type": "message", "role": "user", "content": content}, at))
            continue
        if beat.thought:
            summary = [{"type": "summary_text", "text": beat.thought}]
            item = {"type": "reasoning", "id": f"rs_{at}", "summary": summary}
            out.append({**item, "encrypted_content": "gAAAA" * 3})
        if beat.searched:
            action = {"type": "search", "query": beat.searched}
            out.append({"type": "web_search_call", "id": f"ws_{at}", "action": action})
        if beat.text or not beat.calls:
            said = [{"type": "output_text", "text": beat.text, "annotations": []}]
            item = {"type": "message", "role": "assistant", "content": said}
            out.append(_extra(script, item, at))
        out += [
            {
                "type": "function_call",
                "call_id": f"call_{at}_{n}",
                "name": call.name,
                "arguments": json.dumps(call.args),
            }
            for n, call in enumerate(beat.calls)
        ]
        out += [
            {"type": "function_call_output", "call_id": call_id, "output": result}
            for call_id, result in _results(beat, at)
        ]
        out += _remark(beat)
    return out


def _anthropic(script: Script) -> list[Raw]:
    out: list[Raw] = []
    for at, beat in enumerate(script.beats):
        if isinstance(beat, Said):
            source = {"type": "base64", "media_type": "image/gif", "data": PIXEL}
            content = _content(beat, {"type": "image", "source": source})
            if at == 0 and not beat.pictures:
                mark = {"type": "ephemeral"}
                content = [{"type": "text", "text": beat.text, "cache_control": mark}]
            out.append(_extra(script, {"role": "user", "content": content}, at))
            continue
        if beat.instructed and out and out[-1]["role"] == "user":
            out.append({"role": "system", "content": beat.instructed})
        blocks = _anthropic_blocks(beat, at)
        out.append(_extra(script, {"role": "assistant", "content": blocks}, at))
        results: list[Raw] = [
            {"type": "tool_result", "tool_use_id": f"toolu_{at}_{n}", "content": call.result}
            | ({"is_error": True} if call.is_error else {})
            for n, call in enumerate(beat.calls)
            if call.result is not None
        ]
        if beat.remark and _is_done(beat):
            results.append({"type": "text", "text": beat.remark})
        if results:
            out.append({"role": "user", "content": results})
    return out


def _anthropic_blocks(beat: Answered, at: int) -> list[Raw]:
    blocks: list[Raw] = []
    if beat.thought:
        blocks.append({"type": "thinking", "thinking": beat.thought, "signature": f"sig{at}"})
    if beat.searched:
        name, given = f"srvtoolu_{at}", {"query": beat.searched}
        blocks.append({"type": "server_tool_use", "id": name, "name": "web_search", "input": given})
        found = {"type": "web_search_tool_result", "tool_use_id": name, "content": []}
        blocks.append(found)
    if beat.text or not beat.calls:
        blocks.append({"type": "text", "text": beat.text or "."})
    return blocks + [
        {"type": "tool_use", "id": f"toolu_{at}_{n}", "name": call.name, "input": call.args}
        for n, call in enumerate(beat.calls)
    ]


def _gemini(script: Script) -> list[Raw]:
    out: list[Raw] = []
    for at, beat in enumerate(script.beats):
        if isinstance(beat, Said):
            parts: list[Raw] = [{"text": beat.text}]
            parts += [{"inlineData": {"mimeType": "image/gif", "data": PIXEL}}] * beat.pictures
            out.append(_extra(script, {"role": "user", "parts": parts}, at))
            continue
        parts = [{"text": beat.thought, "thought": True}] if beat.thought else []
        if beat.text or not beat.calls:
            parts.append({"text": beat.text or "."})
        for n, call in enumerate(beat.calls):
            part: Raw = {"functionCall": {"name": call.name, "args": call.args}}
            parts.append(part if n else {**part, "thoughtSignature": f"sig{at}"})
        if out[-1]["role"] == "model":
            out[-1] = {**out[-1], "parts": [*out[-1]["parts"], *parts]}
        else:
            out.append(_extra(script, {"role": "model", "parts": parts}, at))
        results: list[Raw] = [
            {"functionResponse": {"name": call.name, "response": {"output": call.result}}}
            for call in beat.calls
            if call.result is not None
        ]
        if results:
            out.append({"role": "user", "parts": results})
        if beat.remark and _is_done(beat):
            out.append({"role": "user", "parts": [{"text": beat.remark}]})
    return out


def _results(beat: Answered, at: int) -> list[tuple[str, str]]:
    """Return the results of the calls that were answered, each with the call's id."""
    return [
        (f"call_{at}_{n}", call.result)
        for n, call in enumerate(beat.calls)
        if call.result is not None
    ]


def _remark(beat: Answered) -> list[Raw]:
    """Return what the user says after the results, if all results are there."""
    return [{"role": "user", "content": beat.remark}] if beat.remark and _is_done(beat) else []


def _is_done(beat: Answered) -> bool:
    return bool(beat.calls) and all(call.result is not None for call in beat.calls)


RENDERERS: dict[str, Callable[[Script], list[Raw]]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}

words = st.sampled_from(
    [
        "fix the parser",
        "ok",
        "src/app.py",
        "日本語のメモ",
        "née, 12 %",
        "a\nb\nc",
        "all " * 40 + "!",
    ]
)
ENORMOUS = "".join(f"{n}: a line of a log that nobody reads to its end\n" for n in range(1_000))
results = (
    words
    | st.just("")
    | st.integers(1, 60).map(lambda n: f"line of output {n}\n" * n)
    | st.integers(0, 15).map(lambda n: ENORMOUS if n == 0 else f"short {n}")
)
calls = st.builds(
    Call,
    name=st.sampled_from(["read", "bash", "search"]),
    args=st.fixed_dictionaries({"path": st.sampled_from(["a.py", "b.py", "c/d.py"])}),
    result=results,
    is_error=st.booleans(),
)
saids = st.builds(Said, text=words, pictures=st.sampled_from([0, 0, 0, 1, 2]))
answers = st.builds(
    Answered,
    text=st.just("") | words,
    thought=st.just("") | words,
    calls=st.lists(calls, max_size=3).map(tuple),
    searched=st.just("") | st.just("") | words,
    remark=st.just("") | words,
    instructed=st.just("") | st.just("") | words,
)


def _pending(beat: Answered, answered: int) -> Answered:
    """Make a beat's calls pending, except the first few."""
    waiting = tuple(
        call if n < answered else msgspec.structs.replace(call, result=None)
        for n, call in enumerate(beat.calls)
    )
    return msgspec.structs.replace(beat, calls=waiting, remark="")


@st.composite
def scripts(draw: st.DrawFn, max_beats: int = 12) -> Script:
    """Make random conversations. They start with a request and may end with pending calls."""
    beats: list[Said | Answered] = [draw(saids)]
    beats += draw(st.lists(saids | answers, max_size=max_beats))
    last = beats[-1]
    if isinstance(last, Answered) and last.calls and draw(st.booleans()):
        beats[-1] = _pending(last, draw(st.integers(0, len(last.calls) - 1)))
    system = draw(st.lists(words, max_size=3))
    return Script(tuple(beats), tuple(system), draw(st.booleans()))


def valid(dialect: str, max_beats: int = 12) -> st.SearchStrategy[list[Raw]]:
    """Make random valid histories of a dialect."""
    return scripts(max_beats).map(lambda script: render_script(script, dialect))
