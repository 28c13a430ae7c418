"""`marksweep config`: the effective settings, whether a file is valid, and trust."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import RenderableType

from marksweep.cli import render
from marksweep.cli.common import NOTHING, confirm, emit, json_option, say, settings
from marksweep.cli.common import command as make_command
from marksweep.model import utc_now
from marksweep.plugins.files import project_claims as plugin_claims
from marksweep.settings import Settings
from marksweep.settings import trust as agreements
from marksweep.settings.layers import project_claims
from marksweep.urls import redacted


@click.group("config")
def config() -> None:
    """Show or check the settings, and agree to where they send data."""


@make_command("show", config)
@json_option
def show(as_json: bool) -> None:
    """Print the effective settings: environment over file over defaults."""
    found = _redacted(settings())
    if as_json:
        emit(found, as_json=True)
        return
    for group, values in msgspec.to_builtins(found).items():
        click.echo(f"[{group}]")
        for key, value in values.items():
            click.echo(f"{key} = {value!r}")
        click.echo()


def _redacted(found: Settings) -> Settings:
    """Leave the credentials out of every location."""
    return msgspec.structs.replace(
        found,
        store=msgspec.structs.replace(found.store, location=redacted(found.store.location)),
        memory=msgspec.structs.replace(found.memory, location=redacted(found.memory.location)),
    )


class Checked(msgspec.Struct, frozen=True):
    """Settings that could be read."""

    ok: bool


@make_command("check", config)
@json_option
def check(as_json: bool) -> None:
    """Check that the settings are valid; an error names the file and the key."""
    settings()
    emit(Checked(ok=True), " The settings are right.", as_json=as_json)


class Trusted(msgspec.Struct, frozen=True):
    """Where a project's own file sends something, and whether the user has agreed to it."""

    source: str
    key: str
    target: str
    agreed: bool


@make_command("trust", config)
@click.option("--revoke", is_flag=True, help="Revoke what was agreed to for this project.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def trust(revoke: bool, yes: bool, as_json: bool) -> int:
    """Agree to where this project's files send your data.

    A store, a memory or a model that a file of the project puts on another host or outside the
    project is refused until you agree, once. The agreement is kept in your own configuration
    folder and holds for this project and exactly this place.
    """
    is_done = agreements.revoke(Path()) if revoke else True
    claims = (*project_claims(), *plugin_claims())
    new = [claim for claim in claims if not agreements.is_agreed(claim)]
    if new and not revoke:
        for claim in new:
            say(f" {claim}.")
        confirm("May what is remembered go there?", yes=yes)
        agreements.agree(new, utc_now())
    found = [
        Trusted(claim.source, claim.key, redacted(claim.target), agreements.is_agreed(claim))
        for claim in claims
    ]
    emit(found, _render(found), as_json=as_json)
    return 0 if is_done else NOTHING


def _render(found: Sequence[Trusted]) -> RenderableType:
    if not found:
        return " The files of this project send nothing elsewhere."
    table = render.table("", "file", "setting", "leads to")
    for each in found:
        table.add_row("agreed" if each.agreed else "refused", each.source, each.key, each.target)
    return table
