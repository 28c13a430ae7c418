"""The commands by name. Each lives in its own module, imported when it is called."""

from __future__ import annotations

import errno
from importlib import import_module
from typing import IO

import click

import marksweep
from marksweep.cli import interrupted

COMMANDS = {
    "demo": ("demo:command", "Show what marksweep does, on a recorded coding session."),
    "analyze": ("analyze:command", "Show what fills the window and what is dead weight."),
    "collect": ("collect:command", "Make a transcript or the working set fit."),
    "resume": ("resume:command", "Continue an agent's session in a smaller copy."),
    "replay": ("replay:command", "Compare strategies on your transcripts."),
    "tune": ("replay:tune", "Find the best setting for your transcripts, and save it."),
    "validate": ("validate:command", "Find where a history breaks its provider's rules."),
    "proxy": ("proxy:proxy", "Make the requests of any agent fit, by its base URL."),
    "wrap": ("proxy:wrap", "Run an agent through its own proxy."),
    "swept": ("proxy:swept", "Find what the proxy swept, by id or by words."),
    "plugin": ("plugin:plugin", "Write a ready-to-use plugin for an agent."),
    "hook": ("plugin:hook", "Run the hook of an agent's plugin."),
    "index": ("memory:index", "Index a codebase into memory, reading only what changed."),
    "watch": ("memory:watch", "Index a codebase after every change, until stopped."),
    "search": ("memory:search", "Search memory."),
    "remember": ("agent:remember", "Keep a fact for later sessions."),
    "recall": ("agent:recall", "Search all memory: notes, code, the working set, the stash."),
    "forget": ("agent:forget", "Delete what is remembered, by id, or restore it."),
    "callers": ("agent:callers", "Ask the call graph: who calls, imports, inherits."),
    "prune": ("prune:command", "Show what in memory is stale, and delete it."),
    "memory": ("memory_group:memory", "Backups, roots and pins of memory; merging."),
    "live": ("working_set:live", "List or search the working set."),
    "stash": ("working_set:stash", "Look at what was swept, and bring it back."),
    "journal": ("working_set:journal", "Show what was planned and done."),
    "undo": ("working_set:undo", "Reverse a whole sweep."),
    "why": ("working_set:why", "Say what keeps a segment, or why it is gone."),
    "pin": ("working_set:pin", "Protect a segment from every collection."),
    "web": ("web:command", "Show the heap as a page: what fills it, what is garbage, undo."),
    "serve": ("serve:command", "Serve the tools to an agent, over MCP."),
    "store": ("store:store", "Export a store to a file, import it, or compare both."),
    "config": ("config:config", "Show or check the settings."),
    "doctor": ("doctor:command", "Check the store, the counter and what is installed."),
}
"""Where each command lives below marksweep.cli, and what it does in a line."""


EXTRAS = {
    **dict.fromkeys(("index", "search", "watch"), "index"),
    **dict.fromkeys(("proxy", "swept", "wrap"), "proxy"),
    "serve": "mcp",
    "web": "web",
}
"""The extra that installs what a command needs beyond `cli`."""


class Unusable(click.ClickException):
    """A command needs a package that is not installed, or a file that the system refuses."""

    exit_code = 2

    def show(self, file: IO[str] | None = None) -> None:
        """Print the error as every other error."""
        click.echo(f"marksweep: {self.format_message()}", file=file, err=True)


def _explain(command: str | None, error: ModuleNotFoundError) -> None:
    """Raise Unusable with what to install, if the command has an extra."""
    if command in EXTRAS:
        raise Unusable(
            f"{command} needs the package {error.name}. "
            f"Install it: pip install 'marksweep[{EXTRAS[command]}]'"
        ) from error


class Lazy(click.Group):
    """A group that knows its commands' names and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        try:
            command = getattr(import_module(f"marksweep.cli.{module}"), name)
        except ModuleNotFoundError as error:
            _explain(cmd_name, error)
            raise
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; suggest similar names if there is none."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            from difflib import get_close_matches

            if near := get_close_matches(args[0], COMMANDS):
                ctx.fail(
                    f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, near))}?"
                )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Load and run a command; report what is missing, what the system refuses, and Ctrl-C."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            _explain(ctx.invoked_subcommand, error)
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:  # click ends quietly: nobody reads any more
                raise
            where = f"{error.filename}: " if error.filename is not None else ""
            reason = error.strerror or str(error)
            raise Unusable(f"{where}{reason}. Check the path, and who may use it.") from error
        except KeyboardInterrupt:
            interrupted()
        except click.Abort as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # at a question
                interrupted()
            raise

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
