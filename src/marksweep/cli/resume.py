"""`marksweep resume`: a session of Claude Code or Codex, collected, under a new id."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import click
import msgspec

from marksweep.cli import render, sessions, transcripts
from marksweep.cli.common import NOTHING, confirm, propose, say, settings
from marksweep.cli.common import command as make_command
from marksweep.dialects import validate
from marksweep.dialects.base import Json
from marksweep.dialects.chain import renamed
from marksweep.errors import BadInput, NotFound, Refused

Lines = list[Json]


class Agent(msgspec.Struct, frozen=True):
    """A client whose sessions can be resumed."""

    dialect: str
    sessions: Callable[[Path], Iterator[Path]]
    """Its sessions of a folder."""
    rename: Callable[[Lines, str], Lines]
    """Return the lines of a session under another id."""
    command: tuple[str, ...]
    """What resumes a session; its id follows."""


def _codex_lines(lines: Lines, session_id: str) -> Lines:
    """Set the id in the first line of a rollout, and number its lines again."""
    out: Lines = []
    is_numbered = any(isinstance(line, dict) and "ordinal" in line for line in lines[:1])
    written_at = None
    for line in lines:
        if not isinstance(line, dict):  # not a line of Codex, or cut: kept as it is
            out.append(line)
            continue
        made = line
        payload = line.get("payload")
        if line.get("type") == "session_meta" and isinstance(payload, dict):
            named = {key: session_id for key in ("id", "session_id") if key in payload}
            made = {**line, "payload": {**payload, **named}}
        if "timestamp" not in made and out:
            made = {"timestamp": written_at, **made}
        if is_numbered:
            made = {**made, "ordinal": len(out)}
        written_at = made.get("timestamp")
        out.append(made)
    return out


AGENTS = {
    "claude": Agent("claude_code", sessions.claude_code, renamed, ("claude", "--resume")),
    "codex": Agent("codex", sessions.codex, _codex_lines, ("codex", "resume")),
}

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@make_command("resume")
@click.argument("agent", required=False)
@click.argument("session", required=False)
@click.option("--limit", default="60k", show_default=True, help="Tokens of the copy: 60k or 50%.")
@click.option(
    "--run", is_flag=True, help="Resume the copy at once instead of printing the command."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(agent: str | None, session: str | None, limit: str, run: bool, yes: bool) -> int:
    """Continue a session of this folder in a smaller copy.

    Shows what would be removed, and writes a collected copy of the session under a new id. The
    session itself is not changed. AGENT is claude or codex; SESSION is an id. Without them it is
    the newest session of this folder.

    Example:  marksweep resume claude --limit 60k
    """
    name, path = _found(agent, session)
    client = AGENTS[name]
    loaded = transcripts.load(str(path), client.dialect)
    history = loaded.transcript.history
    reading = transcripts.landing(history, limit, settings().conversation)
    plan = reading.conversation.plan()
    render.console().print(render.plan(plan))
    if not plan.steps:
        say(f"{path} fits.")
        propose("To continue", " ".join([*client.command, _id_of(path)]))
        return NOTHING
    session_id = str(_new_id(name))
    copy = path.with_name(path.name.replace(_id_of(path), session_id))
    confirm(f"Write a collected copy to {copy}?", yes=yes)
    reading.conversation.collect(plan)
    lines = client.rename(reading.written(), session_id)
    wrong = {finding.what for finding in validate(lines, client.dialect)} - {
        finding.what for finding in validate(history.given, client.dialect)
    }
    if wrong:
        raise Refused(f"the copy would not be valid: {sorted(wrong)[0]}. Nothing was written.")
    transcripts.save(copy, loaded.transcript.encoded(lines))
    words = [*client.command, session_id]
    say(f"{copy} is written; {path.name} is unchanged.")
    propose("To continue", " ".join(words))
    if run:
        binary = shutil.which(words[0])
        if binary is None:
            raise NotFound(f"{words[0]} is not installed, or not on the PATH.")
        os.execv(binary, words)  # noqa: S606 - the user's own client
    return 0


def _new_id(name: str) -> UUID:
    """Return an id in the client's form: those of Codex begin with the time."""
    made = uuid4()
    if name == "claude":
        return made
    import time

    milliseconds = int(time.time() * 1000)
    value = (milliseconds << 80) | (made.int & ((1 << 80) - 1))
    value = (value & ~(0xF << 76)) | (7 << 76)
    return UUID(int=value)


def _found(agent: str | None, session: str | None) -> tuple[str, Path]:
    """Find the session that is meant, and whose it is."""
    if agent is not None and agent not in AGENTS:
        raise BadInput(f"{agent!r} is not a client; expected {' or '.join(AGENTS)}.")
    names = [agent] if agent else list(AGENTS)
    here = Path.cwd()
    found = [(name, path) for name in names for path in AGENTS[name].sessions(here)]
    if session is not None:
        found = [(name, path) for name, path in found if session in path.name]
    if not found:
        which = f"session {session}" if session else "session"
        raise NotFound(f"no {which} of {' or '.join(names)} in {here}.")
    return max(found, key=lambda each: sessions.written(each[1]))


def _id_of(path: Path) -> str:
    ids = _UUID.findall(path.name)
    if not ids:
        raise BadInput(f"{path.name} has no id in its name; expected that of a session.")
    return str(ids[-1])
