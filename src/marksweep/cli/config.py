"""`marksweep config`: the settings in force, and whether a file is right."""

from __future__ import annotations

import click
import msgspec

from marksweep.cli.common import command as make_command
from marksweep.cli.common import json_option, settings


@click.group("config")
def config() -> None:
    """Show or check the settings."""


@make_command("show")
@json_option
def show(as_json: bool) -> None:
    """Print the settings in force: environment over file over defaults."""
    found = msgspec.to_builtins(settings())
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    for group, values in found.items():
        click.echo(f"[{group}]")
        for key, value in values.items():
            click.echo(f"{key} = {value!r}")
        click.echo()


@make_command("check")
def check() -> None:
    """Say whether the settings can be read; an error names the file and the key."""
    settings()
    click.echo("The settings are right.")


config.add_command(show)
config.add_command(check)
