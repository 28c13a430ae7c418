"""`marksweep validate`: would a provider accept this history?"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.table import Table

from marksweep.cli import render, transcripts
from marksweep.cli.common import NOTHING, emit, json_option
from marksweep.cli.common import command as make_command
from marksweep.dialects import repair, validate
from marksweep.dialects.base import Finding


@make_command("validate")
@click.argument("transcript")
@click.option("--check", is_flag=True, help="Exit with 1 if there are findings.")
@click.option("--repair", "output", type=click.Path(path_type=Path), help="Repair into this file.")
@click.option("--dialect", help="The format; detected if left out.")
@json_option
def command(
    transcript: str, check: bool, output: Path | None, dialect: str | None, as_json: bool
) -> None:
    """Find where a history breaks its provider's rules, and repair it.

    Example:  marksweep validate history.json --repair repaired.json
    """
    loaded = transcripts.load(transcript, dialect)
    history = loaded.transcript.history
    found = validate(history.given, history.dialect)
    emit(found, _render(found), as_json=as_json)
    if output is not None:
        repaired, _ = repair(history.given, history.dialect)
        data = loaded.transcript.encoded(repaired)
        transcripts.save_result(loaded, output, data, "Name another file.")
    if check and found:
        sys.exit(NOTHING)


def _render(found: list[Finding]) -> Table | str:
    if not found:
        return " valid: nothing to find"
    table = render.table("message", "rule", "what", "how to repair it")
    for finding in found:
        table.add_row(str(finding.position), finding.rule, finding.what, finding.mend)
    return table
