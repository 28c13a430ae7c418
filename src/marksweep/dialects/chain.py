"""The chain of a Claude Code session: which lines are live, and links that hold after a collection.

A line names the one before it in `parentUuid`. The client walks back from the last line, so lines
before a rewind or a compaction are still in the file but no longer in the conversation. It stops at
the first missing line: a program that removes lines must link the others again.

Parallel calls are written one line each, and the parent of a result is the line of its call; so
lines of the same response, and the results attached to them, are live together.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid5

from marksweep.dialects.base import Fault, Json, spelled, word

SPOKEN = ("user", "assistant")

NAMES = UUID("6d61726b-7377-4565-8000-000000000000")
"""Namespace for the ids of lines that a collection wrote: they are deterministic."""

COPIED = ("sessionId", "cwd", "version", "gitBranch", "userType", "entrypoint", "timestamp")
"""Fields that a line written by a collection copies from the line before it."""

USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

BYTES_PER_TOKEN = 4
"""Fields of the reported window, which shrink along with the lines."""


def live(lines: Sequence[Json]) -> set[int]:
    """Return the indices of the lines that the client would send; all, if there is no chain."""
    linked = {line["uuid"]: i for i, line in enumerate(lines) if _has_link(line)}
    ends = [i for i in linked.values() if lines[i].get("type") in SPOKEN and _is_linked(lines[i])]
    leaf = ends[-1] if ends else None
    if leaf is None:
        return set(range(len(lines)))
    found: set[int] = set()
    at: int | None = leaf
    while at is not None and at not in found:
        found.add(at)
        at = linked.get(lines[at].get("parentUuid"))
    responses = {name for i in found if (name := _response(lines[i]))}
    found |= {i for i in linked.values() if _response(lines[i]) in responses}
    uuids = {lines[i]["uuid"] for i in found if lines[i].get("type") == "assistant"}
    return found | {
        i
        for i in linked.values()
        if lines[i].get("parentUuid") in uuids and _is_result(lines[i]) and i <= leaf
    }


def _has_link(line: Json) -> bool:
    return (
        isinstance(line, dict)
        and isinstance(line.get("uuid"), str)
        and isinstance(line.get("parentUuid", False), str | None)
    )


def _is_linked(line: Json) -> bool:
    """Whether a line is linked and not of a sub-agent's side chain."""
    return _has_link(line) and line.get("isSidechain") is not True


def _message(line: Json) -> Json:
    message = line.get("message")
    return message if isinstance(message, dict) else {}


def _response(line: Json) -> str | None:
    return word(_message(line).get("id")) if line.get("type") == "assistant" else None


def _is_result(line: Json) -> bool:
    content = _message(line).get("content")
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)


def faults(lines: Sequence[Json]) -> list[Fault]:
    """Find where the chain of a session is broken."""
    uuids = {line["uuid"] for line in lines if _has_link(line)}
    if not uuids:
        return []
    found = []
    for i, line in enumerate(lines):
        if _is_linked(line):
            parent = line.get("parentUuid")
            if parent is not None and parent not in uuids:
                found.append(Fault(i, f"the line before it, {parent!r}, is not there"))
        elif _is_spoken(line) and line.get("isSidechain") is not True:
            found.append(Fault(i, "a message has no uuid, so the client does not see it"))
    return found


def mended(lines: Sequence[Json]) -> tuple[list[Json], list[Fault]]:
    """Link lines without a parent to the line before; return the lines and what was done."""
    broken = {fault.position for fault in faults(lines)}
    out: list[Json] = []
    last: Json = None
    for i, line in enumerate(lines):
        made = line
        if i in broken:
            made = line if _has_link(line) else _named(line, last, i)
            made = {**made, "parentUuid": last["uuid"] if last else None}
        if _is_linked(made):
            last = made
        out.append(made)
    return out, [Fault(i, "linked it to the line before it") for i in sorted(broken)]


def _is_spoken(line: Json) -> bool:
    return isinstance(line, dict) and line.get("type") in SPOKEN and "message" in line


def relinked(before: Sequence[Json], after: Sequence[Json]) -> list[Json]:
    """Link the lines that a collection left, one after the other; lines off the chain stay.

    A shortened result is also shortened in the copy that the client displays, and the window that
    the last response reported shrinks by as much as the lines.
    """
    if not any(_is_linked(line) for line in before):
        return list(after)
    known = {before[i]["uuid"]: before[i] for i in live(before) if _is_linked(before[i])}
    out: list[Json] = []
    last: Json = None
    for line in after:
        is_new = isinstance(line, dict) and "uuid" not in line and line.get("type") in SPOKEN
        if not is_new and not (_is_linked(line) and line["uuid"] in known):
            out.append(line)
            continue
        made = _named(line, last, len(out)) if is_new else _consistent(line, known[line["uuid"]])
        parent = last["uuid"] if last is not None else None
        if made.get("parentUuid") != parent:
            made = {**made, "parentUuid": parent}
        out.append(made)
        last = made
    return _with_usage(out, _size(before, live(before)) - _size(out, live(out)))


def _named(line: Json, last: Json, at: int) -> Json:
    """Add the fields that every line has to a line that a collection wrote."""
    uuid = str(uuid5(NAMES, f"{last and last['uuid']} {at} {spelled(line).decode()}"))
    copied = {key: last[key] for key in COPIED if key in last} if last else {}
    return {**copied, "parentUuid": None, "isSidechain": False, **line, "uuid": uuid}


def _consistent(line: Json, old: Json) -> Json:
    """Make the copy of a result that the client displays equal to the result."""
    if "toolUseResult" not in line or line.get("message") == old.get("message"):
        return line
    said = [
        block["content"]
        for block in _message(line).get("content", ())
        if isinstance(block, dict) and isinstance(block.get("content"), str)
    ]
    return {**line, "toolUseResult": "\n".join(said)}


def _size(lines: Sequence[Json], indices: set[int]) -> int:
    found = [lines[i] for i in indices if isinstance(lines[i], dict)]
    return sum(len(spelled(_message(line))) for line in found)


def _with_usage(lines: list[Json], freed: int) -> list[Json]:
    """Subtract freed bytes from the window that the last response reported."""
    for i in sorted(live(lines), reverse=True):
        usage = _message(lines[i]).get("usage") if isinstance(lines[i], dict) else None
        if isinstance(usage, dict) and freed > 0:
            left, new = freed // BYTES_PER_TOKEN, dict(usage)
            for name in reversed(USAGE):
                if isinstance(new.get(name), int):
                    taken = min(left, new[name])
                    new[name] -= taken
                    left -= taken
            lines[i] = {**lines[i], "message": {**lines[i]["message"], "usage": new}}
            break
    return lines


def renamed(lines: Sequence[Json], session_id: str) -> list[Json]:
    """Return the lines of a session under another id."""
    return [
        {**line, "sessionId": session_id}
        if isinstance(line, dict) and "sessionId" in line
        else line
        for line in lines
    ]
