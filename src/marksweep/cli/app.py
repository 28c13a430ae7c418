"""The commands by name. Each lives in a module of its own, imported when it is called."""

from __future__ import annotations

from importlib import import_module

import click

import marksweep

COMMANDS = {
    "demo": ("marksweep.cli.demo.tour", "Show what marksweep does, on a made-up coding session."),
    "serve": ("marksweep.cli.serve", "Serve the tools to an agent, over MCP."),
}
"""Where each command lives, and what it does in a line."""


class Lazy(click.Group):
    """A group that knows its commands' names and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(marksweep.__version__, prog_name="marksweep")
def app() -> None:
    """One garbage collector for everything an agent remembers.

    Start with:  marksweep demo
    """
