"""The reference of tools, resources and prompts, written from the server itself.

    python -m marksweep.mcp.reference docs/mcp.md

rewrites what comes after the marker in that file, and leaves what comes before it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp_types import Prompt, Tool, ToolAnnotations

from marksweep.mcp.app import build_server
from marksweep.mcp.server_state import ServerState
from marksweep.schemas import Shape

MARKER = "<!-- Written by marksweep.mcp.reference from the server. Do not edit below. -->"


async def reference() -> str:
    """Write the reference."""
    server = build_server(ServerState())
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
    fields = ", ".join(f"`{name}`" for name in Shape.read(tool.output_schema or {}).properties)
    hints = _hints(tool.annotations)
    lines = [f"### {tool.name}", f"*{tool.title}; {hints}.* {tool.description}"]
    return "\n\n".join([*lines, *(["\n".join(table)] if table else []), f"Gives: {fields}."])


def _default(name: str, given: Shape) -> str:
    return "required" if name in given.required else given.properties[name].default_in_words()


def _cell(shape: Shape) -> str:
    """Give a description in one line that a table can hold."""
    return " ".join(shape.description.split()).replace("|", "\\|")


def _hints(hints: ToolAnnotations | None) -> str:
    if hints is None or hints.read_only_hint:
        return "reads only"
    words = ["may delete once confirmed" if hints.destructive_hint else "loses nothing"]
    words += ["twice is the same as once"] if hints.idempotent_hint else []
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


def updated(document: str) -> str:
    """Give a document with its generated part rewritten."""
    prose, marker, _ = document.partition(MARKER)
    if not marker:
        raise ValueError(f"no line {MARKER!r}: say where the reference goes.")
    return f"{prose}{MARKER}\n\n{anyio.run(reference)}"


def main() -> None:
    """Rewrite the files that are named."""
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(updated(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
