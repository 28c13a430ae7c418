"""`marksweep config`: the settings in force, and whether a file is right."""

from __future__ import annotations

import click
import msgspec

from marksweep.cli.common import command as make_command
from marksweep.cli.common import emit, json_option, settings


@click.group("config")
def config() -> None:
    """Show or check the settings."""


@make_command("show")
@json_option
def show(as_json: bool) -> None:
    """Print the settings in force: environment over file over defaults."""
    if as_json:
        emit(settings(), as_json=True)
        return
    for group, values in msgspec.to_builtins(settings()).items():
        click.echo(f"[{group}]")
        for key, value in values.items():
            click.echo(f"{key} = {value!r}")
        click.echo()


class Checked(msgspec.Struct, frozen=True):
    """Settings that could be read."""

    ok: bool


@make_command("check")
@json_option
def check(as_json: bool) -> None:
    """Say whether the settings can be read; an error names the file and the key."""
    settings()
    emit(Checked(ok=True), " The settings are right.", as_json=as_json)


config.add_command(show)
config.add_command(check)
