"""`marksweep demo`: a working set, a graph and a conversation, each collected and brought back.

Everything starts from one recorded session, demo_session.jsonl: an agent debugs a small booking
service, and much later needs again what it saw early on.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

import marksweep
from marksweep.cli import INTERRUPTED, render
from marksweep.cli.app import app
from marksweep.cli.common import command as make_command
from marksweep.dialects.base import Json
from marksweep.model import Reference, Segment, utc_now
from marksweep.preview import excerpt
from marksweep.segments import Segments

SESSION = Path(__file__).with_name("demo_session.jsonl")

TRANSCRIPT = "session.jsonl"
PICTURE = "window.svg"
LIMIT = "6k"

LASTED = timedelta(hours=44)
"""Time over which the session is spread: logs of its first day are old."""

TASK = "double-refunds"
EARLIER_TASK = "reproduce"
SOURCE = "read_file"
"""The tool whose results are code; those of all others are logs."""

WORDS = "redis-cli retry"

NEXT = {
    "What is dead weight in a session of yours": "analyze SESSION.jsonl",
    "Which strategy suits you": "replay ~/.claude/projects",
    "Run your agent through it": "wrap claude",
    "Give your agent a memory": "serve --print-config claude-code",
}
"""What to try next, and the command."""


@make_command("demo")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the store in this new file.")
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Write the session's picture (SVG) here."
)
def command(store: Path | None, picture: Path | None) -> None:
    """Show what marksweep does, on a recorded coding session and on its own code.

    Example:  marksweep demo --store demo.db --picture window.svg
    """
    if store is not None and store.exists():
        raise click.UsageError(f"{store} exists; name a file that does not.")
    tour = _Tour(render.console())
    tour.out.print(
        render.line(
            "marksweep collects what an agent no longer needs: it shows what would go and why, "
            "does exactly that, and gets it back. All of this happens in a temporary folder."
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        tour.working_set(store or Path(folder) / "demo.db")
        with chdir(folder):
            tour.graph()
            tour.conversation()
            tour.picture(Path(folder) / PICTURE)
        if picture is not None:
            shutil.copy(Path(folder) / PICTURE, picture)
            tour.out.print(render.line(f"The picture is in {picture}."))
    tour.your_turn()
    if store is not None:
        tour.out.print(render.line(f"The store is in {store}."))


class _Tour:
    """Shows one step after the other, numbered, most of them by the command that does it."""

    def __init__(self, out: Console) -> None:
        self.out = out
        self._numbers = count(1)

    def working_set(self, where: Path) -> None:
        """Fill a working set, plan, collect, restore, undo."""
        gathered = segments_of(recorded(), utc_now())
        context = Segments(where, limit=sum(len(each.text) for each in gathered), actor="demo")
        context.add(*gathered)
        limit = int(context.tokens / 0.95 / 100) * 100
        context.close()

        context = Segments(where, limit=limit, actor="demo")
        context.focus(task=TASK, file="harbor/refunds.py", open_files=["harbor/queue.py"])
        self._section("A coding session fills its window", "All that an agent has gathered so far.")
        self.out.print(render.ledger(context.ledger()))
        self.out.print(render.gauge(context.tokens, context.budget))

        self._section("What would go, and why", "A plan. Nothing is touched yet.")
        plan = context.plan()
        self.out.print(render.plan(plan, most=4))

        self._section("What stays, and why", f"The current task is {TASK}.")
        swept = {name for step in plan.steps for name in step.segments}
        for name in _one_of_each([s for s in context.list() if s.segment_id not in swept]):
            self.out.print(render.line(context.why(name)))

        self._section("Collect exactly that")
        report = context.collect(plan)
        self.out.print(render.gauge(context.tokens, context.budget))

        self._section("Nothing is lost: one comes back by its words, or the whole sweep is undone")
        name = context.search_stash(WORDS, limit=1)[0].found.segment.segment_id
        context.restore(name)
        found = f"search {WORDS!r} → {name}, restored: {context.tokens:,} tokens"
        self.out.print(render.line(found))
        back = context.undo(plan.plan_id)
        before = f"{context.tokens:,} tokens, as before ({report.tokens_before:,})"
        self.out.print(render.line(f"undo → {render.counted(back, 'segment')} are back: {before}"))
        context.close()

    def graph(self) -> None:
        """Index a codebase, delete a file, and prune what is stale."""
        core = Path(marksweep.__file__).parent / "core"
        shutil.copytree(core, "code", ignore=shutil.ignore_patterns("__pycache__"))
        self._section("A codebase, indexed into long-term memory", "A copy of marksweep's core.")
        self._run("index", "code")
        self._run("search", "what", "the", "roots", "reach", "--limit", "2")
        self._section("A file is deleted: what is stale in memory, and prune it")
        self.out.print(render.line("$ rm code/why.py", style="bold"))
        Path("code/why.py").unlink()
        self._run("index", "code")
        self._run("prune", "--yes", "--workspace", "default")

    def conversation(self) -> None:
        """Analyse and collect a transcript, look at what the model sees, and undo."""
        shutil.copy(SESSION, TRANSCRIPT)
        self._section("The same session as a conversation", "Any provider's, or an agent's log.")
        self._run("analyze", TRANSCRIPT, "--limit", LIMIT)
        self._section("Collect it", "It stays valid for its provider: no call without its result.")
        self._run("collect", TRANSCRIPT, "--limit", LIMIT, "--write", "--yes")
        self._run("validate", TRANSCRIPT)
        self._section("What the model sees now")
        lines = Path(TRANSCRIPT).read_text("utf-8").splitlines()
        self._compare(recorded(), [json.loads(line) for line in lines])
        self._section("Undo that")
        self._run("undo", TRANSCRIPT)

    def _compare(self, before: Sequence[Json], after: Sequence[Json]) -> None:
        """Show one trimmed result, and count what must hold of all messages."""
        was = {m["tool_call_id"]: m["content"] for m in before if m["role"] == "tool"}
        now = {m["tool_call_id"]: m["content"] for m in after if m["role"] == "tool"}
        trimmed = [name for name, text in now.items() if text != was[name]]
        shown = trimmed[0]
        self.out.print(render.quoted("before", excerpt(was[shown])))
        self.out.print(render.quoted("after", excerpt(now[shown])))
        asked, left = _calls(before), _calls(after)
        rewritten = sum(left[name] != asked[name] for name in left)
        user = [[m["content"] for m in said if m["role"] == "user"] for said in (before, after)]
        kept = sum(text in user[1] for text in user[0])
        facts = (
            f"the user's messages: {kept} of {len(user[0])} kept, word for word",
            f"calls: {len(left)} of {len(asked)} kept, with their results; {rewritten} rewritten",
            f"results: {len(trimmed)} trimmed; each says what is missing and how to get it back",
        )
        for fact in facts:
            self.out.print(render.line(fact))

    def picture(self, where: Path) -> None:
        """Draw the session as the page of `marksweep web` does."""
        self._section("The window as a picture", "`marksweep web` has it as a page, live.")
        self._run("web", TRANSCRIPT, "--limit", "20k", "--by", "tool", "--svg", where.name)

    def your_turn(self) -> None:
        """Say what to try next."""
        self._section("Your turn")
        for about, words in NEXT.items():
            self.out.print(render.line(f"{about}:"))
            self.out.print(render.line(f"  $ marksweep {words}", style="bold"))

    def _section(self, title: str, about: str = "") -> None:
        heading = Text(f"{next(self._numbers)}. {title}", style="bold cyan")
        self.out.print(Padding(heading, (1, 0, 0, 0), expand=False))
        if about:
            self.out.print(render.line(about, style="dim"))

    def _run(self, *words: str) -> None:
        """Show a command, and carry it out as if it had been typed."""
        self.out.print(render.line(Text("$ marksweep " + " ".join(words), style="bold")))
        try:
            app(list(words), prog_name="marksweep", standalone_mode=False)
        except (SystemExit, click.exceptions.Exit) as ended:
            code = getattr(ended, "code", None) or getattr(ended, "exit_code", 0)
            if code == INTERRUPTED:
                raise
            if code:
                self.out.print(render.line(f"(exit code {code})", style="dim"))


def recorded() -> list[Json]:
    """Return the messages of the recorded session, as chat completions have them."""
    return [json.loads(line) for line in SESSION.read_text("utf-8").splitlines()]


def _calls(messages: Sequence[Json]) -> dict[str, Json]:
    """Return what was called, by id."""
    return {call["id"]: call["function"] for m in messages for call in m.get("tool_calls") or ()}


def segments_of(messages: Sequence[Json], now: datetime) -> list[Segment]:
    """Make a working set of a session: requests, files that were read, logs, a decision."""
    made: list[Segment] = []
    calls = _calls(messages)
    for at, message in enumerate(messages):
        share = at / len(messages)
        fields = {
            "created_at": now - LASTED * (1 - share),
            "task_id": TASK if share > 0.5 else EARLIER_TASK,
        }
        if message["role"] == "tool":
            made += _of_result(at, message["content"], calls[message["tool_call_id"]], fields)
        elif message["role"] == "assistant" and message["content"]:
            made.append(_segment("decision", at, message["content"], fields))
        elif message["role"] != "assistant":
            made.append(_segment("message", at, message["content"], fields))
    return made


def _of_result(at: int, text: str, call: Json, fields: dict[str, Json]) -> Iterator[Segment]:
    """Keep what a tool gave; of an edit, a note that refers to it."""
    arguments = json.loads(call["arguments"])
    path = arguments.get("path")
    if call["name"] == SOURCE:
        yield _segment("code", at, text, {**fields, "file_path": path, "symbol": path})
        return
    log = _segment("log", at, f"$ {call['name']} {call['arguments']}\n{text}", fields)
    yield log
    if path:
        held = (Reference(log.segment_id),)
        note = {**fields, "file_path": path, "references": held, "tags": ("todo",)}
        yield _segment("note", at, f"{call['name']} of {path}", note)


def _segment(type: str, at: int, text: str, fields: dict[str, Json]) -> Segment:
    return Segment(segment_id=f"{type}-{at:03d}", type=type, text=text, **fields)


def _one_of_each(kept: Sequence[Segment]) -> list[str]:
    """Pick the newest of some types."""
    newest = {segment.type: segment.segment_id for segment in kept}
    return [newest[kind] for kind in ("decision", "code", "note", "log") if kind in newest]
