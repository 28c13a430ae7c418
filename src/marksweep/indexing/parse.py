"""Turn a file into its part of the graph: chunks, entities, mentions, relations.

By its syntax tree if the language has a grammar, else as blocks of text. A pure function of the
file's path and content. The result does not depend on any other file, so the graph of a repository
is the sum of its files, in whatever order they are added and removed.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections import defaultdict
from functools import lru_cache

import msgspec

from marksweep.indexing.chunking import blocks_of_text, cut
from marksweep.indexing.languages import Language, language_of
from marksweep.indexing.tree import Call, Definition, Findings, find, innermost
from marksweep.search.words import stemmed
from marksweep.stores.graph.nouns import (
    Entity,
    Memory,
    Mention,
    Piece,
    Record,
    Relation,
    chunks_of,
    entity_id,
)

LAYOUT = "5"
"""Version of the parser. Raised when parsing, chunking or what is left out changes: all files are
read again."""

_DECLARATION = re.compile(
    rb"coding[:=][ \t]*[\"']?((?:latin|iso|cp|windows|koi8|mac|shift|euc|gb|big5)[-\w]*)", re.I
)
"""An encoding as Python, Ruby, XML and editors declare it. Only character sets: Python knows others
as well, of which some take time that grows with the square of the file."""

_DECLARATION_BYTES = 1_000
"""Bytes in which a declaration is looked for; it is on the first or second line."""

ID_CACHE = 65_536
"""Entity ids in the cache: names such as `append` occur in most files."""

_entity_id = lru_cache(maxsize=ID_CACHE)(entity_id)


def parse(memory: Memory, content: bytes) -> Record:
    """Parse a file with its grammar, or as text if it has none; fill in its memory."""
    language = language_of(memory.relative_path)
    if not language.grammar:
        return parse_text(memory, content)
    text, source = _decoded(content)
    lines = _lines(text)
    findings = find(language, source, lines)
    part = _Part(memory, list(cut(lines, findings.definitions)))
    part.read(language, findings)
    kinds = [definition.kind for definition in findings.definitions]
    return part.record(len(lines), kinds.count("function"), kinds.count("class"))


def parse_text(memory: Memory, content: bytes) -> Record:
    """Parse a file as blocks of text, whatever its language."""
    text, _ = _decoded(content)
    lines = _lines(text)
    return _Part(memory, list(blocks_of_text(lines))).record(len(lines), 0, 0)


def _decoded(content: bytes) -> tuple[str, bytes]:
    """Decode; return the text and its bytes in UTF-8.

    What is not UTF-8 is read in the encoding that its first lines declare. Bytes that are invalid
    then become U+FFFD.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode("utf-8"), content
    except UnicodeDecodeError:
        text = _in_declared_encoding(content) or content.decode("utf-8", "replace")
        return text, text.encode("utf-8")


def _in_declared_encoding(content: bytes) -> str | None:
    first = content[:_DECLARATION_BYTES].split(b"\n", 2)[:2]
    declared = next(filter(None, map(_DECLARATION.search, first)), None)
    if declared is None:
        return None
    try:
        return content.decode(declared[1].decode("ascii"))
    except (LookupError, UnicodeError):
        return None


def _lines(text: str) -> list[str]:
    """Split at line feeds only, as grammars do; drop a carriage return before one."""
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    if not lines[-1]:
        lines.pop()
    return lines


class _Part:
    """The part of the graph of one file: what its chunks mention, and the relations between."""

    def __init__(self, memory: Memory, pieces: list[Piece]) -> None:
        self._memory = memory
        self._chunks = chunks_of(memory.workspace_id, memory.memory_id, pieces)
        self._first_rows = [piece.start_line - 1 for piece in pieces]
        self._entities: dict[str, Entity] = {}
        self._mentions: dict[tuple[str, str], None] = {}
        self._relations: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
        """The lines on which one entity relates to another."""
        self._file = self._mention(0, "path", memory.relative_path) if pieces else ""

    def record(self, lines: int, functions: int, classes: int) -> Record:
        """Return what was found, with the search words of each chunk."""
        memory = self._memory
        return Record(
            memory=msgspec.structs.replace(
                memory,
                language=language_of(memory.relative_path).name,
                lines=lines,
                metadata={"functions": functions, "classes": classes},
            ),
            chunks=self._chunks,
            entities=tuple(sorted(self._entities.values(), key=lambda entity: entity.entity_id)),
            mentions=tuple(Mention(*each) for each in self._mentions),
            relations=tuple(
                Relation(*ends, memory.memory_id, tuple(dict.fromkeys(rows)))
                for ends, rows in self._relations.items()
            ),
            words=tuple(stemmed(chunk.text) for chunk in self._chunks),
        )

    def read(self, language: Language, findings: Findings) -> None:
        """Add the contents of the tree."""
        if not self._chunks:
            return
        for found in findings.imports:
            name = absolute(self._memory.relative_path, found.name)
            module = self._mention(found.row, "module", name)
            self._relations[self._file, module, "imports"].append(found.row + 1)
        definitions = findings.definitions
        own, owners = self._define(definitions), _owners(definitions)
        kinds = {d.qualified: d.kind for d in reversed(definitions) if d.kind != "scope"}
        starts = (call.start for call in findings.calls)
        for call, around in zip(findings.calls, innermost(definitions, starts), strict=True):
            caller, owner = (own[around], owners[around]) if around >= 0 else (self._file, "")
            target = self._mention(call.row, *_target(call, owner, kinds, language))
            self._relations[caller, target, "calls"].append(call.row + 1)
        self._inherit(findings)

    def _inherit(self, findings: Findings) -> None:
        heirs = {d.start: d for d in findings.definitions if d.kind != "function"}
        for base in findings.bases:
            heir = heirs.get(base.start)
            if heir is None:  # a class without a name
                continue
            source = self._mention(heir.row, "class", heir.qualified)
            target = self._mention(base.row, "class", base.name)
            self._relations[source, target, "inherits"].append(base.row + 1)

    def _define(self, definitions: list[Definition]) -> list[str]:
        """Add the definitions; return the entity that calls inside each definition start from."""
        own: list[str] = []
        for definition in definitions:
            if definition.kind == "scope":
                own.append(own[definition.parent] if definition.parent >= 0 else self._file)
                continue
            own.append(self._mention(definition.row, definition.kind, definition.qualified))
            bare = definition.qualified.rpartition(".")[2]
            if bare:
                self._mention(definition.row, definition.kind, bare)
        return own

    def _mention(self, row: int, kind: str, name: str) -> str:
        """Add an entity that the chunk at a row mentions; return its id."""
        workspace_id = self._memory.workspace_id
        known = _entity_id(workspace_id, kind, name)
        if known not in self._entities:
            self._entities[known] = Entity(
                entity_id=known, workspace_id=workspace_id, name=name, kind=kind
            )
        chunk = self._chunks[max(0, bisect_right(self._first_rows, row) - 1)]
        self._mentions[chunk.chunk_id, known] = None
        return known


def absolute(path: str, module: str) -> str:
    """Resolve a relative import, such as `.models` or `../lib/x`, from the file's path."""
    folder, _, name = path.rpartition("/")
    if module.startswith(("./", "../")):
        return posixpath.normpath(f"{folder}/{module}" if folder else module)
    if not module.startswith(".") or not name.endswith((".py", ".pyi")):
        return module
    parts = folder.split("/") if folder else []
    rest = module.lstrip(".")
    up = len(module) - len(rest) - 1
    kept = parts[: len(parts) - up] if up else parts
    return ".".join([*kept, *([rest] if rest else [])]) or module


def _owners(definitions: list[Definition]) -> list[str]:
    """Return, for each definition, the innermost class or scope that its code belongs to."""
    owners: list[str] = []
    for definition in definitions:
        if definition.kind != "function":
            owners.append(definition.qualified)
        elif definition.parent >= 0:
            owners.append(owners[definition.parent])
        else:
            owners.append(definition.name.rpartition(".")[0])
    return owners


def _target(call: Call, owner: str, kinds: dict[str, str], language: Language) -> tuple[str, str]:
    """Return the callee's kind and name: a definition in this file if known, else the bare name."""
    if call.is_new:
        return "class", call.name
    by_self = call.on_self or (language.methods_need_no_self and not call.has_receiver)
    if by_self and owner and (method := f"{owner}.{call.name}") in kinds:
        return kinds[method], method
    if call.name in kinds:
        return kinds[call.name], call.name
    is_class = language.capitals_are_classes and call.name[:1].isupper()
    return "class" if is_class else "function", call.name
