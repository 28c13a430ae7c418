"""What all tools share.

Arguments are read leniently where the meaning is clear; unknown parameters are refused. An error
says what was found, what was expected and what to do. Every answer is one block of text within a
token limit that the call may set: sentences in the small set, JSON in the full one. No tool
declares an output schema: the protocol would then ask for the same data a second time as structured
content, some clients show only one of the two, and others pay for both.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from typing import Any, Generic, Self, TypeVar, get_args

import msgspec
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import TypeAdapter, ValidationError, create_model
from pydantic_core import ErrorDetails

from marksweep.errors import MarksweepError
from marksweep.mcp.bounds import LEAST_TOKENS, MAX_TOKENS, as_json, bounded, bounded_data
from marksweep.mcp.server_state import ServerState

Ctx = Context[ServerState, Any]
"""The context of a call."""

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
"""Changes nothing."""
ADDS = ToolAnnotations(destructive_hint=False, idempotent_hint=False, open_world_hint=False)
"""Loses nothing; not idempotent."""
SETS = ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""Loses nothing; idempotent."""
SWEEPS = ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False)
"""May delete, once that is confirmed."""

BOUND = {"type": "integer", "default": MAX_TOKENS}
"""The parameter of every tool that limits its answer."""

SUMMARY_TOKENS = 100
"""Maximum tokens of the summary that an answer in JSON begins with."""

MAX_VALUE_CHARS = 120
"""Characters of a wrong value that an error quotes."""

logger = logging.getLogger(__name__)


Data = TypeVar("Data")


class Answer(msgspec.Struct, Generic[Data], frozen=True):
    """What a tool answers: words for people, data for programs."""

    words: str
    data: Data


class VerbatimError(ToolError):
    """An error whose text goes to the agent unchanged."""


class StrictTool(Tool):
    """A tool that refuses unknown parameters and explains errors."""

    fields: tuple[str, ...] = ()
    """Field names in the JSON of its answer; `cut` is there only if something is missing."""

    @classmethod
    def of(cls, function: Callable[..., object], title: str, hints: ToolAnnotations) -> Self:
        """Turn a function into a tool: its name, its docstring and its signature."""
        description = " ".join((function.__doc__ or "").split())
        made = cls.from_function(
            function,
            title=title,
            description=description,
            annotations=hints,
            structured_output=False,
        )
        assert isinstance(made, cls)  # noqa: S101
        strict = create_model(
            made.fn_metadata.arg_model.__name__,
            __base__=made.fn_metadata.arg_model,
            __cls_kwargs__={"extra": "forbid", "coerce_numbers_to_str": True},
        )
        (data,) = get_args(signature(function, eval_str=True).return_annotation)
        made.fields = ("summary", "cut", *getattr(data, "__struct_fields__", ()))
        made.fn_metadata.arg_model = strict
        made.parameters = _without_titles(strict.model_json_schema(by_alias=True))
        made.parameters["properties"].setdefault("max_tokens", BOUND)
        return made

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,  # noqa: ARG002
    ) -> CallToolResult | InputRequiredResult:
        """Run the tool, and report how it went."""
        started = time.perf_counter()
        given = understood(arguments, self.parameters)
        most = _bound(given.get("max_tokens", MAX_TOKENS))
        if "max_tokens" not in self.fn_metadata.arg_model.model_fields:
            given.pop("max_tokens", None)
        try:
            result = await super().run(given, context)
        except ToolError as error:
            context.request_context.lifespan_context.note_failure(self.name, error.__cause__)
            raise VerbatimError(bounded(_in_words(self, error), most)) from error.__cause__
        if not isinstance(result, Answer):
            assert isinstance(result, InputRequiredResult)  # noqa: S101
            return result
        took = time.perf_counter() - started
        context.request_context.lifespan_context.monitor.took(self.name, took)
        logger.info("%s done", self.name, extra={"tool": self.name, "ms": round(1000 * took, 1)})
        return self.sent(result, most)

    def sent(self, answer: Answer[object], most: int) -> CallToolResult:
        """Send the data as JSON that begins with a summary."""
        first_line = answer.words.partition("\n")[0]
        summary = bounded(first_line, SUMMARY_TOKENS).replace("\n", " ")
        data = {"summary": summary} | msgspec.to_builtins(answer.data)
        return CallToolResult(content=[TextContent(text=as_json(bounded_data(data, most)))])


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the titles that pydantic makes from names; they add nothing and cost tokens."""
    kept = {name: value for name, value in schema.items() if name != "title"}
    return {
        name: {each: _without_titles(one) for each, one in value.items()}
        if name in ("properties", "$defs")
        else _without_titles(value)
        if isinstance(value, dict)
        else value
        for name, value in kept.items()
    }


_WHOLE_NUMBER = TypeAdapter(int)


def _bound(given: object) -> int:
    try:
        most = _WHOLE_NUMBER.validate_python(given)
    except ValidationError:
        most = 0
    if most < LEAST_TOKENS:
        raise VerbatimError(
            f"max_tokens is {_quoted(given)}; expected a whole number, at least {LEAST_TOKENS}."
        )
    return most


ALSO_CALLED = {
    "text": ("content", "note", "memory", "message", "fact"),
    "query": ("q", "words", "question", "text", "search"),
    "words": ("query", "q", "text"),
    "ids": ("id", "memory_id", "memory_ids", "segment_id", "segment_ids"),
    "segment_ids": ("ids", "id", "segment_id"),
    "memory_ids": ("ids", "id", "memory_id"),
    "segments": ("segment", "items"),
    "symbol": ("name", "function", "query"),
    "path": ("folder", "directory", "root"),
    "root": ("path", "folder", "repository"),
    "tags": ("tag",),
}
"""Aliases that models use for a parameter, where no parameter has that name."""


def understood(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Normalize arguments: accept an alias for a name, one item for a list, null for nothing."""
    return _read_object(arguments, schema, schema.get("$defs", {}))


def _read_object(
    given: dict[str, Any], schema: dict[str, Any], defs: dict[str, Any]
) -> dict[str, Any]:
    known = schema.get("properties", {})
    given = {
        name: value
        for name, value in given.items()
        if value is not None or name not in known or {"type": "null"} in _forms(known[name], defs)
    }
    names = {
        other: name
        for name, others in ALSO_CALLED.items()
        if name in known and name not in given
        for other in reversed(others)
        if other in given and other not in known
    }
    renamed = {names.get(name, name): value for name, value in given.items()}
    return {
        name: _read_value(value, known[name], defs) if name in known else value
        for name, value in renamed.items()
    }


def _read_value(value: object, schema: dict[str, Any], defs: dict[str, Any]) -> object:
    forms = _forms(schema, defs)
    for choice in next((form["enum"] for form in forms if "enum" in form), ()):
        if str(value).strip().casefold() == str(choice).casefold():
            return choice
    fields = next((form for form in forms if "properties" in form), None)
    if fields is not None:
        is_text = isinstance(value, str) and "text" in fields["properties"]
        given = {"text": value} if is_text else value
        return _read_object(given, fields, defs) if isinstance(given, dict) else given
    array = next((form for form in forms if form.get("type") == "array"), None)
    if array is None or value is None or any(form.get("type") == "string" for form in forms):
        return value
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        with suppress(msgspec.DecodeError):
            value = msgspec.json.decode(value)
    listed = value if isinstance(value, list) else [value] if value != "" else []
    return [_read_value(one, array.get("items", {}), defs) for one in listed]


def _forms(schema: dict[str, Any], defs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the forms that a value may have, those with a name from `defs`."""
    found = [schema, *schema.get("anyOf", ())]
    named = (form["$ref"].rpartition("/")[2] for form in found if "$ref" in form)
    return [*found, *(defs.get(name, {}) for name in named)]


def _in_words(tool: Tool, error: ToolError) -> str:
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        found = "; ".join(_problem(each) for each in cause.errors()[:5])
        known = ", ".join(tool.parameters.get("properties", {})) or "none"
        return f"{tool.name}: {found}. Its parameters are: {known}."
    return str(cause if isinstance(cause, MarksweepError | ToolError) else error)


_PYDANTIC_PHRASES = re.compile(r"^\w+ should (be|have) |^Value error, | after validation, not \d+$")


def _problem(found: ErrorDetails) -> str:
    """Describe one error of pydantic."""
    place = ".".join(str(part) for part in found["loc"]) or "the arguments"
    if found["type"] == "extra_forbidden":
        return f"there is no parameter {_quoted(place)}"
    if found["type"] == "missing":
        return f"{place!r} is missing"
    expected = _PYDANTIC_PHRASES.sub("", found["msg"])
    return f"{_quoted(place)} is {_quoted(found['input'])}; expected {expected}"


def _quoted(value: object) -> str:
    """Quote a value, or the beginning of a long one."""
    shown = ascii(value)
    return shown if len(shown) <= MAX_VALUE_CHARS else f"{shown[:MAX_VALUE_CHARS]}…"
