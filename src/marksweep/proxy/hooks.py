"""What Claude Code's own hooks can do: shorten what enters, and save what a compaction would lose.

post-tool-use   bulky output is shortened in the tool's own shape, the rest is in the stash
pre-compact     what was said goes to the stash before the client summarizes it
session-start   after a compaction, the task and what is pinned are said again

Each takes the event that the client passes, and gives what it is to do. What is in the stash is
found by `marksweep swept`, by the id that stands in the output or by words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from marksweep.dialects.base import Json
from marksweep.dialects.history import History, read, read_lines
from marksweep.errors import BadInput
from marksweep.fit import PREFIX
from marksweep.messages import said_in, starts_turn
from marksweep.model import Segment, Stashed
from marksweep.sections import Gap, Piece, Section, Sections, sections, shown
from marksweep.stores.base import Store
from marksweep.tokens import count

MOST_TOKENS = 2_000
"""Tokens of one output that stay. Higher keeps more at hand; lower fills the window more slowly."""

MOST_PINNED = 1_000
"""Tokens of pinned segments that are said again after a compaction."""

SHORTENED = "Bash|Grep|Glob|WebFetch|WebSearch|mcp__.*"
"""The tools whose output is shortened, as the client matches them."""

Hook = Callable[[Json, Store, datetime], Json]


class Stashing:
    """Puts texts into the stash of one session, under ids of their own."""

    def __init__(self, store: Store, session: str, plan_id: str, now: datetime) -> None:
        self._store = store
        self._workspace = f"{PREFIX}hook:{session}"
        self._plan_id = plan_id
        self._now = now

    def put(self, texts: Sequence[str], reason: str) -> list[str]:
        """Keep texts; give their ids."""
        first = self._store.stash.count(self._workspace) + 1
        kept = [
            Segment(
                segment_id=f"h{number}",
                type="message",
                created_at=self._now,
                text=text,
                tokens=count(text),
                position=number,
                project_id=self._workspace,
            )
            for number, text in enumerate(texts, first)
        ]
        entries = [Stashed(each, self._plan_id, self._now, reason) for each in kept]
        if entries:
            self._store.stash.put(self._workspace, entries)
            self._store.segments.write(self._workspace, put=[kept[-1]])
        return [each.segment_id for each in kept]


def post_tool_use(event: Json, store: Store, now: datetime) -> Json:
    """Shorten what a tool gave, in its own shape; None if it is short."""
    given = event.get("tool_response")
    if not isinstance(given, dict):
        return None
    stash = Stashing(store, _session(event), f"hook-{now:%Y%m%d%H%M%S%f}", now)
    tool, asked = str(event.get("tool_name", "")), event.get("tool_input")
    what = str(next(iter(asked.values()), "")) if isinstance(asked, dict) else ""
    what = " ".join(f"{tool} {what}".split())[:60]
    long = {k: v for k, v in given.items() if isinstance(v, str) and count(v) > MOST_TOKENS}
    if not long or given.get("isImage") is True:
        return None
    names = stash.put(list(long.values()), f"{tool} gave more than {MOST_TOKENS:,} tokens")
    short = {
        key: shortened(text, what, name)
        for (key, text), name in zip(long.items(), names, strict=True)
    }
    said = {"hookEventName": "PostToolUse", "updatedToolOutput": {**given, **short}}
    return {"hookSpecificOutput": said}


def shortened(text: str, what: str, name: str, tokens: int = MOST_TOKENS) -> str:
    """Show the beginning and the end of a text, whole sections, and a line for the rest."""
    cut = sections(text)
    pieces = list(cut.pieces)
    room = tokens // 2
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


def pre_compact(event: Json, store: Store, now: datetime) -> Json:
    """Save what was said before the client summarizes it."""
    stash = Stashing(store, _session(event), f"compact-{now:%Y%m%d%H%M%S%f}", now)
    said = [said_in(message) for message in _transcript(event).messages]
    stash.put([text for text in said if text.strip()], "before a compaction")


def session_start(event: Json, store: Store, now: datetime) -> Json:
    """Say the task and what is pinned again after a compaction."""
    del now
    if event.get("source") != "compact":
        return None
    parts = list(_task(event))
    room = MOST_PINNED
    for workspace in store.segments.workspaces():
        if workspace.startswith(PREFIX):
            continue
        for segment in store.segments.changes(workspace).put:
            room -= segment.tokens if segment.pinned else 0
            parts += [segment.text] if segment.pinned and room >= 0 else []
    if not parts:
        return None
    how = "What the compaction left out is found by the tool recall, or by `marksweep swept WORDS`."
    said = {"hookEventName": "SessionStart", "additionalContext": "\n\n".join([*parts, how])}
    return {"hookSpecificOutput": said}


def _task(event: Json) -> Iterator[str]:
    """Give what the user asked for first, also if a compaction left it behind."""
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
"""By the names that `marksweep hook` knows them."""
