"""Write the generated parts of docs/: the references of the command line, its JSON and MCP.

python tools/docs.py            write
python tools/docs.py --check    report whether anything would change
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import anyio
import click
import msgspec
from mcp.server import MCPServer
from mcp_types import Prompt, Tool, ToolAnnotations

from marksweep.cli.analyze import Analysis, WorkingSetPlan
from marksweep.cli.app import app
from marksweep.cli.collect import TranscriptPlan
from marksweep.cli.config import Checked, Trusted
from marksweep.cli.doctor import Check
from marksweep.cli.memory_group import MemoryPins, Migrated
from marksweep.cli.prune import Erased
from marksweep.cli.store import StoreFile
from marksweep.cli.working_set import Pinned, Put, Restored, Shortened, Undone, Why
from marksweep.dialects import Finding
from marksweep.graph.agent_memory import ForgetResult, Recalled, Remembered
from marksweep.graph.backup import BackupInfo
from marksweep.graph.call_graph import Linked
from marksweep.graph.erasure import Forgotten
from marksweep.graph.memory import Answer
from marksweep.graph.pruning import Preview, PruneResult
from marksweep.graph.roots import Root
from marksweep.indexing.report import IndexReport
from marksweep.mcp.agent_tools import TextTool
from marksweep.mcp.app import ALL, build_server
from marksweep.mcp.server_state import ServerState, ToolSet
from marksweep.model import Entry, Plan, Report, Segment, Stashed
from marksweep.replay import Replayed
from marksweep.settings import Settings
from marksweep.stores.graph.base import Nodes

ROOT = Path(__file__).resolve().parent.parent
CLI = ROOT / "docs/cli.md"
JSON = ROOT / "docs/json.md"
SCHEMA = ROOT / "docs/json.schema.json"
MCP = ROOT / "docs/mcp.md"
MARKER = "<!-- Written by `make docs` from the server. Do not edit below. -->"
WIDTH = 100


SHAPES: Mapping[str, object] = {
    "analyze TRANSCRIPT": Analysis,
    "analyze": WorkingSetPlan,
    "collect TRANSCRIPT": TranscriptPlan,
    "collect": Report,
    "replay": Replayed,
    "tune": Replayed,
    "validate": list[Finding],
    "index": IndexReport,
    "watch": IndexReport,
    "search": Answer,
    "remember": Remembered,
    "recall": list[Recalled],
    "forget": ForgetResult,
    "forget --everywhere": Forgotten,
    "callers": Linked,
    "prune": Preview,
    "prune --apply": PruneResult,
    "prune --yes": PruneResult,
    "prune --restore": Nodes,
    "prune --purge": Erased,
    "memory backups": list[BackupInfo],
    "memory export": BackupInfo,
    "memory import": BackupInfo,
    "memory roots": list[Root],
    "memory drop-root": Forgotten,
    "memory pin": MemoryPins,
    "memory merge": Plan,
    "memory merge --apply": Report,
    "memory merge --yes": Report,
    "memory migrate": Migrated,
    "store export": StoreFile,
    "store import": StoreFile,
    "store verify": StoreFile,
    "live": list[Segment],
    "stash list": list[Stashed],
    "stash search": list[Stashed],
    "stash put": Put,
    "stash compress": Shortened,
    "stash restore": Restored,
    "journal": list[Entry],
    "undo": Undone,
    "why": Why,
    "pin": Pinned,
    "config show": Settings,
    "config check": Checked,
    "config trust": list[Trusted],
    "doctor": list[Check],
}
"""The shape of each command's output. `watch` prints one line of JSON after every change."""

REFERENCE = "#/$defs/{name}"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON Schema of a value, as far as it is described in text."""

    ref: str = msgspec.field(name="$ref", default="")
    any_of: tuple[Shape, ...] = msgspec.field(name="anyOf", default=())
    enum: tuple[object, ...] = ()
    type: str = ""
    format: str = ""
    description: str = ""
    default: object = None
    items: Shape | bool | None = None
    properties: dict[str, Shape] = {}
    required: tuple[str, ...] = ()
    other_properties: Shape | bool | None = msgspec.field(name="additionalProperties", default=None)
    minimum: int | float | None = None
    above: int | float | None = msgspec.field(name="exclusiveMinimum", default=None)
    maximum: int | float | None = None
    defs: dict[str, Shape] = msgspec.field(name="$defs", default_factory=dict)

    @classmethod
    def read(cls, schema: object) -> Shape:
        """Read a schema from a library; skip what has no text."""
        return msgspec.convert(schema, cls)

    def default_in_words(self) -> str:
        """Return the default as text."""
        return f"`{json.dumps(self.default)}`"

    def in_words(self, named: Callable[[str], str]) -> str:
        """Describe the valid values; `named` returns the text for a named type."""
        if self.ref:
            return named(self.ref.rpartition("/")[2])
        if self.enum:
            return " ".join(f"`{value}`" for value in self.enum)
        if self.any_of:
            return " or ".join(each.in_words(named) for each in self.any_of)
        if self.properties:
            return f"object ({', '.join(self.properties)})"
        return self._plain(named)

    def _plain(self, named: Callable[[str], str]) -> str:
        held = {"array": self.items, "object": self.other_properties}.get(self.type)
        if isinstance(held, Shape) and held != Shape():
            return f"{_WORDS[self.type]} of {held.in_words(named)}"
        bounds = (("≥", self.minimum), (">", self.above), ("≤", self.maximum))
        limits = [f"{sign} {bound:,}" for sign, bound in bounds if bound is not None]
        return " ".join([_WORDS.get(self.format or self.type, "anything"), *limits])


_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "nothing",
    "array": "list",
    "object": "object",
    "date-time": "time",
    "duration": "duration",
}


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """One JSON Schema: what each command prints, and all that it is made of."""

    dialect: str = msgspec.field(
        name="$schema", default="https://json-schema.org/draft/2020-12/schema"
    )
    title: str = "What marksweep prints with --json"
    commands: Mapping[str, object]
    parts: Mapping[str, object] = msgspec.field(name="$defs")


def schema() -> Schema:
    """Return one schema of all SHAPES."""
    shapes, parts = msgspec.json.schema_components(list(SHAPES.values()), ref_template=REFERENCE)
    for part in parts.values():
        if "description" in part:  # Python before 3.13 leaves a docstring indented
            part["description"] = inspect.cleandoc(part["description"])
    return Schema(commands=dict(zip(SHAPES, shapes, strict=True)), parts=parts)


def json_reference() -> str:
    """Write what every command prints with `--json`."""
    whole = schema()
    lines = [
        "# JSON",
        "",
        "Generated by `make docs` from the code. Every command with a result prints it as JSON "
        "with `--json`; [json.schema.json](json.schema.json) is the JSON Schema. Times "
        "are in UTC; fields with a default may be left out.",
        "",
        "| command | prints |",
        "|---|---|",
    ]
    for name, shape in whole.commands.items():
        lines.append(f"| `marksweep {name}` | {Shape.read(shape).in_words(_link)} |")
    for name, part in sorted(whole.parts.items()):
        lines += ["", f"## {name}", "", *_part(Shape.read(part))]
    return "\n".join(lines) + "\n"


def _part(part: Shape) -> Iterator[str]:
    if part.description:
        yield part.description.partition("\n")[0]
        yield ""
    if part.enum:
        yield "One of " + ", ".join(f"`{value}`" for value in part.enum) + "."
        return
    yield "| field | type | default |"
    yield "|---|---|---|"
    for field, shape in part.properties.items():
        default = "" if field in part.required else shape.default_in_words()
        yield f"| `{field}` | {shape.in_words(_link)} | {default} |"


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def cli_reference() -> str:
    """Write what `--help` says of every command."""
    parts = [
        "# Command line",
        "",
        "Generated by `make docs` from the commands' own help.",
        "",
        "Exit codes: 0 done, 1 nothing to do or findings, 2 bad usage or input, 3 refused, "
        "4 a store problem, 130 interrupted. What is printed with `--json` is in "
        "[json.md](json.md). Output is coloured on a terminal, unless `NO_COLOR` is set.",
        "",
        "The shell completes commands and options:",
        "",
        "```sh",
        'eval "$(_MARKSWEEP_COMPLETE=bash_source marksweep)"        # bash; in ~/.bashrc',
        'eval "$(_MARKSWEEP_COMPLETE=zsh_source marksweep)"         # zsh; in ~/.zshrc',
        "_MARKSWEEP_COMPLETE=fish_source marksweep | source         # fish; in its config.fish",
        "```",
    ]
    for path, command in _commands(app, ("marksweep",)):
        context = click.Context(
            command, info_name=" ".join(path), max_content_width=WIDTH, **app.context_settings
        )
        context.terminal_width = WIDTH
        parts += ["", f"## {' '.join(path)}", "", "```", command.get_help(context), "```"]
    return "\n".join(parts) + "\n"


async def mcp_reference() -> str:
    """Write the reference of tools, resources and prompts, from the server itself."""
    server = build_server(ServerState(tools=ToolSet.ALL))
    parts = ["## Tools", *[_tool(tool) for tool in await server.list_tools()]]
    parts += ["## Resources", await _resources(server)]
    parts += ["## Prompts", *[_prompt(prompt) for prompt in await server.list_prompts()]]
    return "\n\n".join(parts) + "\n"


def _tool(tool: Tool) -> str:
    given = Shape.read(tool.input_schema)

    def inlined(name: str) -> str:
        return given.defs[name].in_words(inlined)

    rows = [
        f"| `{name}` | {each.in_words(inlined)} | {_default(name, given)} | {_cell(each)} |"
        for name, each in given.properties.items()
    ]
    table = ["| parameter | type | default | |", "|---|---|---|---|", *rows] if rows else []
    made = ALL[tool.name]
    fields = ", ".join(f"`{name}`" for name in made.fields)
    gives = (
        "Answers in sentences." if isinstance(made, TextTool) else f"Answers with JSON: {fields}."
    )
    hints = _hints(tool.annotations)
    lines = [f"### {tool.name}", f"*{tool.title}; {hints}.* {tool.description}"]
    return "\n\n".join([*lines, *(["\n".join(table)] if table else []), gives])


def _default(name: str, given: Shape) -> str:
    return "required" if name in given.required else given.properties[name].default_in_words()


def _cell(shape: Shape) -> str:
    """Return a description on one line, for a table cell."""
    return " ".join(shape.description.split()).replace("|", "\\|")


def _hints(hints: ToolAnnotations | None) -> str:
    if hints is None or hints.read_only_hint:
        return "reads only"
    words = ["may delete once confirmed" if hints.destructive_hint else "loses nothing"]
    words += ["idempotent"] if hints.idempotent_hint else []
    return ", ".join(words)


async def _resources(server: MCPServer[ServerState]) -> str:
    rows = [
        (each.uri_template, each.description) for each in await server.list_resource_templates()
    ]
    rows += [(str(each.uri), each.description) for each in await server.list_resources()]
    return "\n".join(f"- `{address}`: {words}" for address, words in rows)


def _prompt(prompt: Prompt) -> str:
    given = "; ".join(f"`{each.name}`: {each.description}" for each in prompt.arguments or ())
    return f"### {prompt.name}\n\n{prompt.description} {given}"


def mcp_page() -> str:
    """Return the page on the server with its generated part replaced."""
    prose, marker, _ = MCP.read_text("utf-8").partition(MARKER)
    if not marker:
        raise ValueError(f"no line {MARKER!r}: add it where the reference goes.")
    return f"{prose}{MARKER}\n\n{anyio.run(mcp_reference)}"


def generated() -> dict[Path, str]:
    """Return the text of each generated document."""
    whole = json.dumps(msgspec.to_builtins(schema()), indent=1, sort_keys=True) + "\n"
    return {CLI: cli_reference(), JSON: json_reference(), SCHEMA: whole, MCP: mcp_page()}


def _commands(
    command: click.Command, path: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                found += _commands(child, (*path, name))
    return found


def main() -> int:
    """Write the documents, or report whether they are out of date."""
    for path, text in generated().items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is out of date: run `make docs`")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
