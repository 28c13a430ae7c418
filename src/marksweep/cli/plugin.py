"""`marksweep plugin` and `marksweep hook`: a ready plugin for an agent, and what it calls."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import click

import marksweep
from marksweep.cli.common import command as make_command
from marksweep.cli.common import propose, say, settings, store_option, tokens_in
from marksweep.cli.proxy import LIMIT
from marksweep.dialects.base import Json
from marksweep.errors import BadInput, Refused
from marksweep.fit import Fit
from marksweep.model import utc_now

SECONDS = 20
"""How long the client waits for a hook."""

PLUGINS = {
    "claude": "claude --plugin-dir {}",
    "opencode": "name {}/index.js under plugin in opencode.json",
    "pi": "pi --extension {}",
}
"""The agents, and how the folder is used."""

README = """\
# marksweep for Claude Code

Output of tools that is longer than 2,000 tokens is shortened to its beginning and its end before it
enters the conversation. The rest is kept on this machine; a line in its place says how to get it
back: by the tool `recall`, or by `/marksweep:swept`. The conversation is kept the same way before
a compaction, and after it the task is injected again. Written by `marksweep plugin claude`;
try it with `claude --plugin-dir` and the name of this folder.
"""


@make_command("plugin")
@click.argument("agent")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--limit", default=LIMIT, show_default=True, help="Tokens of a request; not claude.")
def plugin(agent: str, folder: Path, limit: str) -> None:
    """Write a ready-to-use plugin for claude, opencode or pi into a new folder.

    For Claude Code: bulky output is shortened as it enters and can be recalled; what a compaction
    would lose is saved; the task is injected again after it; the tools and two commands. For
    opencode and pi: every request fits the limit, as with the proxy, and the model can recall.

    Example:  marksweep plugin claude ./marksweep-plugin && claude --plugin-dir ./marksweep-plugin
    """
    if agent not in PLUGINS:
        raise BadInput(f"there is no plugin for {agent!r}; there are for {', '.join(PLUGINS)}.")
    if folder.exists() and any(folder.iterdir()):
        raise Refused(f"{folder} is not empty, and nothing is overwritten. Name a new folder.")
    tokens_in(limit)
    written = _claude_files() if agent == "claude" else _script_files(agent, limit)
    for name, text in written.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    use = PLUGINS[agent].format(shlex.quote(str(folder.absolute())))
    say(f"{folder} is written.")
    propose("To use it", use)


def _script_files(agent: str, limit: str) -> dict[str, str]:
    """Return the files of a JavaScript plugin that calls this installation of marksweep."""
    scripts = files("marksweep.cli") / "agent_plugins"
    asking = (scripts / "fit.js").read_text()
    command = json.dumps([sys.executable, "-m", "marksweep"])
    asking = asking.replace('["marksweep"]', command).replace('"100k"', json.dumps(limit))
    package: Json = {"name": f"marksweep-{agent}", "version": marksweep.__version__}
    package["type"] = "module"
    package |= {"pi": {"extensions": ["./index.js"]}} if agent == "pi" else {"main": "index.js"}
    return {
        "fit.js": asking,
        "index.js": (scripts / f"{agent}.js").read_text(),
        "package.json": json.dumps(package, indent=2),
    }


def _claude_files() -> dict[str, str]:
    from marksweep.proxy.hooks import SHORTENED

    own = [sys.executable, "-m", "marksweep"]

    def hook(name: str, matcher: str = "") -> Json:
        call = {"type": "command", "command": shlex.join([*own, "hook", name]), "timeout": SECONDS}
        return [{"matcher": matcher, "hooks": [call]}]

    manifest = {
        "name": "marksweep",
        "version": marksweep.__version__,
        "description": "Shortens bulky output with a way back, and saves what compaction loses.",
        "author": {"name": "marksweep"},
        "license": "Apache-2.0",
    }
    hooks = {
        "PostToolUse": hook("post-tool-use", SHORTENED),
        "PreCompact": hook("pre-compact"),
        "SessionStart": hook("session-start", "compact"),
    }
    servers = {
        "marksweep": {"command": own[0], "args": [*own[1:], "serve"]},
        "swept": {"command": own[0], "args": [*own[1:], "swept", "--mcp"]},
    }
    return {
        ".claude-plugin/plugin.json": json.dumps(manifest, indent=2),
        "hooks/hooks.json": json.dumps({"hooks": hooks}, indent=2),
        ".mcp.json": json.dumps({"mcpServers": servers}, indent=2),
        "commands/swept.md": "---\ndescription: Find what marksweep left out\n---\n\n"
        f"Run `{shlex.join([*own, 'swept'])} $ARGUMENTS` and use what it prints.\n",
        "commands/window.md": "---\ndescription: Show what uses the window\n---\n\n"
        f"Run `{shlex.join([*own, 'analyze'])}` and show me what it prints, shortly.\n",
        "README.md": README,
    }


@make_command("hook")
@click.argument("name")
@click.option("--limit", default=LIMIT, show_default=True, help="Tokens of a request, for fit.")
@store_option
def hook(name: str, limit: str, store: str | None) -> None:
    """Run a plugin's hook: read an event, print the answer to the client.

    fit reads requests, one per line, until the input ends, and answers each with one line.

    Errors go to stderr, and the client continues as if there were no hook.
    """
    from marksweep.proxy.hooks import HOOKS
    from marksweep.stores.open import open_store

    if name == "fit":
        _fit_lines(Fit(tokens_in(limit), store=settings(store).store.location, actor="hook"))
        return
    if name not in HOOKS:
        raise BadInput(f"{name!r} is not a hook; known are {', '.join(HOOKS)} and fit.")
    try:
        event = json.load(sys.stdin.buffer)
        with closing(open_store(settings(store).store.location)) as opened:
            answer = HOOKS[name](event, opened, utc_now())
        if answer is not None:
            click.echo(json.dumps(answer))
    except Exception as error:  # noqa: BLE001 - the client goes on
        click.echo(f"marksweep hook {name}: {type(error).__name__}: {error}", err=True)


def _fit_lines(fit: Fit) -> None:
    """Answer requests, one per line; null after an error, which goes to stderr."""
    from marksweep.proxy.hooks import fitted

    with closing(fit):
        for line in sys.stdin.buffer:
            try:
                answer = fitted(json.loads(line), fit)
            except Exception as error:  # noqa: BLE001 - the client goes on
                click.echo(f"marksweep hook fit: {type(error).__name__}: {error}", err=True)
                answer = {"kept": None}
            click.echo(json.dumps(answer))
