"""The hooks of Claude Code: shorten tool output, and save what a compaction would lose.

post-tool-use   shortens bulky output in the tool's own shape and stashes the rest
pre-compact     stashes the conversation before the client summarizes it
session-start   after a compaction, injects the task and pinned segments again

fit             makes requests of other clients' plugins fit, one per line

Each takes the client's event and returns the answer to it. `marksweep swept` finds what is in the
stash, by the id in the output or by words.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from marksweep.dialects.base import Json
from marksweep.dialects.history import History, read, read_lines
from marksweep.errors import BadInput
from marksweep.fit import PREFIX, Fit
from marksweep.messages import said_in, starts_turn
from marksweep.model import Segment
from marksweep.sections import Gap, Piece, Section, Sections, sections, shown
from marksweep.segments import Segments
from marksweep.stores.base import Store
from marksweep.tokens import count

MAX_OUTPUT_TOKENS = 2_000
"""Tokens of one output that stay. Higher keeps more; lower fills the window more slowly."""

MAX_PINNED_TOKENS = 1_000
"""Tokens of pinned segments that are injected again after a compaction."""

SHORTENED = "Bash|Grep|Glob|WebFetch|WebSearch|mcp__.*"
"""The tools whose output is shortened, as the client's matcher."""

SESSION = "session"
"""The one live segment, written anew with each stash: without it, a session with everything stashed
would not be listed, and its age says when the session expires."""

SESSION_NUMBERS = 100_000
"""Range of the session number in ids. Higher makes ids longer; lower makes collisions likelier."""

Hook = Callable[[Json, Store, datetime], Json]


def stashed(store: Store, session: str, texts: Sequence[str], now: datetime) -> list[str]:
    """Store texts in the stash of a session; return their ids."""
    workspace = f"{PREFIX}hook:{session}"
    with store.lock(workspace):  # the hooks of parallel calls run at once, and number what they add
        marker = _segment(SESSION, f"Kept for session {session}.", now)
        store.segments.write(workspace, put=[marker])
        kept = Segments(store, workspace=workspace, actor="hook", clock=lambda: now)
        first = store.stash.count(workspace) + len(kept.list())  # the marker, and what was restored
        of_session = zlib.crc32(session.encode()) % SESSION_NUMBERS
        made = [_segment(f"h{of_session}.{n}", text, now) for n, text in enumerate(texts, first)]
        names = [segment.segment_id for segment in made]
        if names:
            kept.add(*made)
            kept.collect(kept.plan_for(names))
    return names


def _segment(name: str, text: str, now: datetime) -> Segment:
    return Segment(segment_id=name, type="message", created_at=now, text=text)


def post_tool_use(event: Json, store: Store, now: datetime) -> Json:
    """Shorten a tool's output in the tool's own shape; None if it is short."""
    given = event.get("tool_response")
    if not isinstance(given, dict):
        return None
    tool, asked = str(event.get("tool_name", "")), event.get("tool_input")
    what = str(next(iter(asked.values()), "")) if isinstance(asked, dict) else ""
    what = " ".join(f"{tool} {what}".split())[:60]
    long = {k: v for k, v in given.items() if isinstance(v, str) and count(v) > MAX_OUTPUT_TOKENS}
    if not long or given.get("isImage") is True:
        return None
    names = stashed(store, _session(event), list(long.values()), now)
    short = {
        key: shortened(text, what, name)
        for (key, text), name in zip(long.items(), names, strict=True)
    }
    said = {"hookEventName": "PostToolUse", "updatedToolOutput": {**given, **short}}
    return {"hookSpecificOutput": said}


def shortened(text: str, what: str, name: str) -> str:
    """Show the first and last sections of a text, and one line for the rest."""
    cut = sections(text)
    pieces = list(cut.pieces)
    room = MAX_OUTPUT_TOKENS // 2
    head, tail = _fitting(pieces, room), _fitting(pieces[::-1], room)
    if head + tail >= len(pieces):
        return text
    middle = pieces[head : len(pieces) - tail]
    size = sum(p.size if isinstance(p, Gap) else p.size(cut.measure) for p in middle)
    gone = sum(p.tokens if isinstance(p, Gap) else count(p.text) for p in middle)
    left = (*pieces[:head], Gap(size, gone), *pieces[len(pieces) - tail :])
    return shown(Sections(left, cut.measure), what, name)


def _fitting(pieces: Sequence[Piece], room: int) -> int:
    """Count the first pieces that fit."""
    for number, piece in enumerate(pieces):
        room -= count(piece.text) if isinstance(piece, Section) else piece.tokens
        if room < 0:
            return number
    return len(pieces)


def fitted(event: Json, fit: Fit) -> Json:
    """Return what to send of a request: messages by index, or their replacements; None: all."""
    if not isinstance(event, dict) or not isinstance(event.get("request"), dict):
        raise BadInput('not a request; expected {"key": …, "request": {…}}.')
    request, key = event["request"], str(event.get("key") or "")
    model = str(request.get("model") or "")
    found = fit.follow(request, key, event.get("dialect") or None, model=model)
    if not found.is_changed:
        return {"kept": None}
    kept = [{"at": k.key, "message": k.message if k.is_changed else None} for k in found.kept]
    return {"kept": kept}


def pre_compact(event: Json, store: Store, now: datetime) -> Json:
    """Save the conversation before the client summarizes it."""
    said = [said_in(message) for message in _transcript(event).messages]
    stashed(store, _session(event), [text for text in said if text.strip()], now)


def session_start(event: Json, store: Store, now: datetime) -> Json:
    """Inject the task and pinned segments again after a compaction."""
    del now
    if event.get("source") != "compact":
        return None
    parts = list(_task(event))
    room = MAX_PINNED_TOKENS
    for workspace in store.segments.workspaces():
        if workspace.startswith(PREFIX):
            continue
        for segment in store.segments.changes(workspace).put:
            room -= segment.tokens if segment.pinned else 0
            parts += [segment.text] if segment.pinned and room >= 0 else []
    if not parts:
        return None
    how = (
        "To find what the compaction left out, call the tool recall or run `marksweep swept WORDS`."
    )
    said = {"hookEventName": "SessionStart", "additionalContext": "\n\n".join([*parts, how])}
    return {"hookSpecificOutput": said}


def _task(event: Json) -> Iterator[str]:
    """Yield the user's first request, even if a compaction removed it."""
    history = _transcript(event)
    lines = history.given if isinstance(history.given, list) else []
    inner = [line["message"] for line in lines if isinstance(line, dict) and "message" in line]
    for message in read(inner, "anthropic").messages if inner else ():
        if starts_turn(message) and message.text.strip():
            yield f"The task, in the user's words:\n{message.text[:4_000]}"
            return


def _transcript(event: Json) -> History:
    path = Path(str(event.get("transcript_path", ""))).expanduser()
    if not path.is_file():
        raise BadInput(f"{path} is not a transcript.")
    with path.open("rb") as file:
        return read_lines(file, "claude_code")


def _session(event: Json) -> str:
    return str(event.get("session_id", ""))


HOOKS: dict[str, Hook] = {
    "post-tool-use": post_tool_use,
    "pre-compact": pre_compact,
    "session-start": session_start,
}
"""The hooks by the names that `marksweep hook` takes."""
