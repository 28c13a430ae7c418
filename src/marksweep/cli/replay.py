"""`marksweep replay` and `marksweep tune`: strategies against your own transcripts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

import click
import msgspec
from rich.console import Group

from marksweep.cli import transcripts
from marksweep.cli.common import INTERRUPTED, confirmed, emit, errors
from marksweep.cli.common import command as make_command
from marksweep.cli.progress import progress
from marksweep.cli.replay_options import Given, request_of, shared, with_budgets
from marksweep.cli.replay_shown import shown
from marksweep.errors import BadInput
from marksweep.replay import datasets
from marksweep.replay.catalog import is_usable, settings_for
from marksweep.replay.counting import exact
from marksweep.replay.html import page
from marksweep.replay.inputs import gather
from marksweep.replay.recommend import Recommendation, settings_file
from marksweep.replay.records import Conversation, read_conversations
from marksweep.replay.report import Report, Request, replay, replay_cases
from marksweep.replay.table import Result, timeless
from marksweep.replay.timeline import Timeline
from marksweep.settings.layers import FILES, FOLDER

TUNED = ("10%", "20%", "35%", "50%", "75%")
"""Budgets that `tune` tries."""


@make_command("replay")
@shared
def command(
    paths: tuple[str, ...], html: Path | None, as_json: bool, **given: Unpack[Given]
) -> None:
    """Show how strategies would have done on recorded transcripts. Nothing is sent anywhere.

    PATHS are files, folders or patterns of transcripts in any format (Claude Code and Codex logs,
    requests, lists of messages; .xz and .gz too), or - for standard input. Without PATHS the sets
    in MARKSWEEP_DATA are replayed.

    Example:  marksweep replay ~/.claude/projects --budget 32k --html report.html
    """
    if html is not None:
        _check_one(paths, given["sets"])
    found = _run(paths, given)
    if html is not None:
        _write_html(html, found, times=given["times"])
    looks = None if as_json else Group(*(shown(name, each) for name, each in found.items()))
    plain = {name: _plain(each, times=given["times"]) for name, each in found.items()}
    emit(
        plain[""] if len(plain) == 1 and "" in plain else plain,
        looks,
        as_json=as_json,
    )
    if html is not None and not as_json:
        click.echo(f"The report is in {html}.")


@make_command("tune")
@shared
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Settings file.  [default: .marksweep/settings.toml]",
)
@click.option("--yes", is_flag=True, help="Change a settings file that is there, without asking.")
def tune(
    paths: tuple[str, ...],
    html: Path | None,
    as_json: bool,
    output: Path | None,
    yes: bool,
    **given: Unpack[Given],
) -> None:
    """Find the best setting for your transcripts, and write it to the settings, with the evidence.

    What a settings file says besides is kept; the file as it was stays beside it as FILE.orig.

    Example:  marksweep tune ~/.claude/projects
    """
    _check_one(paths, given["sets"])
    path = output or _settings_path()
    found = _run(paths, with_budgets(given, TUNED), writable)
    report = next(iter(found.values()))
    if report.chosen is None:
        raise BadInput(
            "no strategy that was replayed can be written to a settings file: they are references, "
            "plugins or your own, or broke a rule. Name others with -s."
        )
    if html is not None:
        _write_html(html, found, times=given["times"])
    plain = _plain(report, times=given["times"])
    emit(plain, None if as_json else shown("", report), as_json=as_json)
    before = path.read_text("utf-8") if path.exists() else ""
    text = settings_file(report.chosen, report.result, before)
    if before == text:
        return
    if before:
        if not confirmed(f"Change {path}?", yes=yes):
            sys.exit(1)
        transcripts.save(path.with_name(path.name + ".orig"), before.encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    transcripts.save(path, text.encode())
    errors().print(f"Written: {path}", soft_wrap=True)


def writable(strategy: str) -> bool:
    """Whether a settings file can say a strategy."""
    return settings_for(strategy) is not None


def _settings_path() -> Path:
    folder = Path(FOLDER)
    other = folder / FILES[1]
    if other.exists():
        raise BadInput(f"{other} is there and holds no comments. Move it, or name a file with -o.")
    return folder / FILES[0]


def _run(
    paths: Sequence[str], given: Given, usable_as: Callable[[str], bool] = is_usable
) -> dict[str, Report]:
    """Replay what the options say, by name of the set."""
    request = msgspec.structs.replace(request_of(paths, given), usable_as=usable_as)
    try:
        if paths:
            inputs = gather(paths, given["dialect"], leave_out=given["keep"])
            with progress("replaying") as told:
                return {"": replay(inputs, request, lambda done, jobs: told(done, jobs, ""))}
        return _recorded(given["sets"], request)
    except KeyboardInterrupt:
        kept = (
            ""
            if request.how.folder is None
            else f" What is done is in {request.how.folder}; run it again."
        )
        errors().print(f"marksweep: stopped.{kept}")
        sys.exit(INTERRUPTED)


def _check_one(paths: Sequence[str], sets: Sequence[str]) -> None:
    """Refuse several sets, before any work, where the outcome is about one."""
    if os.environ.get(datasets.VARIABLE) and not paths and len(set(sets)) != 1:
        raise BadInput(
            f"a report or a setting is for one set, not for all in {datasets.VARIABLE}. Name one "
            "with --set, or name transcripts."
        )


def _recorded(sets: Sequence[str], request: Request) -> dict[str, Report]:
    """Replay the sets in MARKSWEEP_DATA."""
    if not os.environ.get(datasets.VARIABLE):
        raise BadInput(
            f"no transcripts. Name files or folders, such as ~/.claude/projects, or set "
            f"{datasets.VARIABLE}."
        )
    known = [*(source.name for source in datasets.DEVELOPMENT), *datasets.CONVERSATIONS]
    unknown = set(sets) - set(known)
    if unknown:
        raise BadInput(f"no set named {min(unknown)!r}; known are {', '.join(known)}.")
    wanted = [name for name in known if name in sets] if sets else known
    cases = datasets.load(exact(), request.extractor)
    out = {}
    for name in wanted:
        talks: tuple[Conversation, ...] = ()
        if name in datasets.CONVERSATIONS:
            talks = tuple(read_conversations(datasets.folder() / f"{name}.jsonl.xz"))
        with progress(name) as told:
            out[name] = replay_cases(
                cases.get(name, ()), talks, (), request, lambda done, jobs: told(done, jobs, "")
            )
    return out


def _write_html(path: Path, found: dict[str, Report], *, times: bool) -> None:
    report = next(iter(found.values()))
    result = report.result if times else timeless(report.result)
    transcripts.save(path, page(result, report.chosen, report.timelines).encode())


class Replayed(msgspec.Struct, frozen=True):
    """What goes out as JSON."""

    result: Result
    recommended: Recommendation | None
    timelines: tuple[Timeline, ...]


def _plain(report: Report, *, times: bool) -> Replayed:
    result = report.result if times else timeless(report.result)
    return Replayed(result, report.chosen, report.timelines)
