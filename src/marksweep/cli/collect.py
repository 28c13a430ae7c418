"""`marksweep collect`: make a transcript or the working set fit."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Group

from marksweep.cli import render, transcripts
from marksweep.cli.common import (
    NOTHING,
    CommandContext,
    at_options,
    confirm,
    errors,
    in_workspace,
    progress,
    propose,
    refuse_focus,
    say,
    settings,
)
from marksweep.cli.common import command as make_command
from marksweep.dialects import Skipped
from marksweep.errors import BadInput
from marksweep.model import Plan, Report
from marksweep.segments import FocusArgs
from marksweep.settings import Conversation, Window
from marksweep.sizes import Size
from marksweep.strategies.registry import DEAR
from marksweep.strategies.scored import Disposal


class TranscriptPlan(Plan, frozen=True):
    """What a collection of a transcript would do, and what of the file cannot be read."""

    skipped: tuple[Skipped, ...] = ()
    """Lines and messages that are kept unchanged, in their places."""


@make_command("collect")
@click.argument("transcript", required=False)
@click.option(
    "--limit", metavar="SIZE", help="Tokens, 32k, or a share such as 60%; default: the settings."
)
@click.option(
    "--strategy",
    help="Names, tried in order, such as superseded+mask; default: the settings. "
    f"coverage_quality {DEAR}. Of the working set: {', '.join(Disposal)}.",
)
@click.option("--dialect", help="The format; detected if left out.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the result here.")
@click.option("--write", is_flag=True, help="Replace the file; the original stays as FILE.orig.")
@click.option("--apply", "plan_id", metavar="PLAN", help="Collect a saved plan of the working set.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@at_options
@in_workspace
def command(
    transcript: str | None,
    limit: str | None,
    strategy: str | None,
    dialect: str | None,
    output: Path | None,
    write: bool,
    plan_id: str | None,
    yes: bool,
    at: FocusArgs,
    cli: CommandContext,
) -> int:
    """Show the plan, and apply it.

    With TRANSCRIPT the result goes to --output, to the file itself with --write, or for - to
    standard output; without any of these only the plan is shown. Without TRANSCRIPT the working set
    in the store is collected after confirmation, or with --apply PLAN exactly that saved plan. It
    goes to the stash; --strategy auto deletes old logs and notes that nothing refers to, and
    --strategy delete deletes all of it. What the agent is working on (--task, --active-file,
    --open-file, --breakpoint) stays.

    What cannot be read in TRANSCRIPT stays in its place, byte for byte. --write follows links, and
    refuses a file that changed since it was read or that another program has open for writing. Only
    Linux can detect the latter; elsewhere stop that program first, or its new lines go to
    FILE.orig.

    \b
    Examples:  marksweep collect session.jsonl --limit 32k -o smaller.jsonl
               marksweep collect --workspace shop --breakpoint src/app.py:42
    """
    refuse_focus(at, transcript)
    if transcript is None:
        if output is not None or write or dialect is not None:
            raise BadInput("-o, --write and --dialect need a transcript. Name one.")
        return _working_set(cli, limit, plan_id, strategy, at, yes=yes)
    if plan_id is not None:
        raise BadInput(f"--apply is for the working set. Leave {transcript} out.")
    found = settings()
    if limit is None and found.window.limit_tokens == Window().limit_tokens:
        raise BadInput(
            "a transcript needs --limit, for example --limit 32k or --limit 60%, or a limit in the "
            "settings, as `marksweep tune` writes it."
        )
    talk = found.conversation
    if strategy is not None:
        talk = talk.named(strategy)
    size = limit or str(found.window.limit_tokens)
    return _transcript(transcript, size, talk, dialect, output, cli, write=write, yes=yes)


def _transcript(
    name: str,
    limit: str,
    talk: Conversation,
    dialect: str | None,
    output: Path | None,
    cli: CommandContext,
    *,
    write: bool,
    yes: bool,
) -> int:
    if write and (output is not None or name == transcripts.STDIN):
        raise BadInput("--write replaces the file that was named. Name one, and leave -o out.")
    with progress("reading") as advance:
        loaded = transcripts.load(name, dialect)
        history = loaded.transcript.history
        advance(1, 3, "counting tokens")
        reading = transcripts.landing(history, limit, talk)
        advance(2, 3, "planning")
        plan = reading.conversation.plan()
    is_stream = name == transcripts.STDIN and output is None
    shown = Group(render.plan(plan), *render.skipped(history.skipped, "kept unchanged"))
    if is_stream:
        errors().print(shown)
    else:
        result = TranscriptPlan(**msgspec.structs.asdict(plan), skipped=history.skipped)
        cli.emit(result, shown)
    if write and plan.steps:
        confirm(f"Replace {name}?", yes=yes)
    reading.conversation.collect(plan)
    data = loaded.transcript.encoded(reading.written() if plan.steps else history.given)
    if is_stream:
        sys.stdout.buffer.write(data)
    elif output is not None:
        instead = "Name another file, or replace it with --write: the original is kept then."
        transcripts.save_result(loaded, output, data, instead)
        say(f"{output} is written.")
    elif write and plan.steps:
        arrived = transcripts.replace(loaded, data)
        also = f" with {arrived} new lines that another program wrote meanwhile" * bool(arrived)
        say(f"{loaded.path} is replaced{also}.")
        propose("To undo", shlex.join(["marksweep", "undo", name]))
    elif plan.steps:
        say("Only shown. To do it, add -o FILE, or --write to replace the file.")
    return 0 if plan.steps else NOTHING


def _working_set(
    cli: CommandContext,
    limit: str | None,
    plan_id: str | None,
    strategy: str | None,
    at: FocusArgs,
    *,
    yes: bool,
) -> int:
    context = cli.segments(at)
    if plan_id is not None:
        if limit is not None or strategy is not None:
            raise BadInput("--apply does what the plan says. Leave --limit and --strategy out.")
        plan = context.saved(plan_id)
    else:
        target = None if limit is None else Size.read(limit).of(context.tokens)
        plan = context.plan(target_tokens=target, disposal=_disposal(strategy))
        context.save(plan)
        if not cli.as_json:
            render.console().print(render.plan(plan))
        if not plan.steps:
            if cli.as_json:
                cli.emit(Report(plan.plan_id, plan.tokens_before, plan.tokens_before))
            return NOTHING
    question = "Collect exactly that?" + " Some of it is deleted." * plan.deletes
    if plan_id is None or plan.deletes:
        confirm(question, yes=yes)
    report = context.collect(plan, confirm=plan.plan_id)
    freed = render.line(f"{report.tokens_freed:,} tokens freed.")
    cli.emit(report, Group(freed, render.command("To undo", cli.again("undo", plan.plan_id))))
    return 0


def _disposal(strategy: str | None) -> Disposal:
    if strategy is None:
        return Disposal.STASH
    if strategy not in [*Disposal]:
        raise BadInput(
            f"strategy {strategy!r} of the working set; expected {', '.join(Disposal)}. Strategies "
            "of a transcript need its file."
        )
    return Disposal(strategy)
