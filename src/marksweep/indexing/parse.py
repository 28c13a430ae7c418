"""Parse one file: by its syntax tree if the language has a grammar, else as blocks of text."""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections import defaultdict

import msgspec

from marksweep.indexing.chunking import cut
from marksweep.indexing.languages import Language, language_of
from marksweep.indexing.tree import Call, Definition, Findings, find
from marksweep.stores.graph import nouns


class Name(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An entity before it has an id."""

    kind: str
    """function, class, module or path."""
    name: str


class Piece(nouns.Piece, frozen=True, gc=False, array_like=True):
    """A piece of a file, and the names that occur in it."""

    names: tuple[int, ...] = ()
    """Indexes into the file's names, sorted."""


class Tie(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A relation between two names of the file, by index."""

    source: int
    target: int
    relation: str
    """calls, imports or inherits."""
    lines: tuple[int, ...] = ()
    """Line number, counted from 1."""


class Parsed(msgspec.Struct, frozen=True, array_like=True):
    """A parsed file. The same path and content always give the same result."""

    language: str
    lines: int
    functions: int = 0
    classes: int = 0
    pieces: tuple[Piece, ...] = ()
    names: tuple[Name, ...] = ()
    ties: tuple[Tie, ...] = ()


def parse(path: str, content: bytes) -> Parsed:
    """Parse a file with its grammar, or as text if it has none."""
    language = language_of(path)
    if not language.grammar:
        return parse_text(path, content)
    text, source = _decoded(content)
    lines = _lines(text)
    findings = find(language, source, lines)
    names = _Names(path, _runs_of_code(lines, findings.definitions))
    names.read(language, findings)
    kinds = [definition.kind for definition in findings.definitions]
    return Parsed(
        language=language.name,
        lines=len(lines),
        functions=kinds.count("function"),
        classes=kinds.count("class"),
        pieces=names.pieces(),
        names=tuple(names.known),
        ties=tuple(Tie(*tie, tuple(dict.fromkeys(rows))) for tie, rows in names.ties.items()),
    )


def parse_text(path: str, content: bytes) -> Parsed:
    """Parse a file as blocks of text, whatever its language."""
    text, _ = _decoded(content)
    lines = _lines(text)
    runs = [Piece("text", "", run.first + 1, run.last + 1, run.text) for run in cut(lines, ())]
    names = _Names(path, runs)
    return Parsed(
        language=language_of(path).name,
        lines=len(lines),
        pieces=names.pieces(),
        names=tuple(names.known),
    )


def _decoded(content: bytes) -> tuple[str, bytes]:
    """Decode; return the text and its bytes. Invalid bytes become U+FFFD in both."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode("utf-8"), content
    except UnicodeDecodeError:
        text = content.decode("utf-8", "replace")
        return text, text.encode("utf-8")


def _lines(text: str) -> list[str]:
    """Split at line feeds only, as grammars do; drop a carriage return before one."""
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    if not lines[-1]:
        lines.pop()
    return lines


def _runs_of_code(lines: list[str], definitions: list[Definition]) -> list[Piece]:
    pieces = []
    for run in cut(lines, definitions):
        kind, symbol = "block", ""
        if run.owner >= 0:
            owner = definitions[run.owner]
            kind = "block" if owner.kind == "scope" else owner.kind
            symbol = owner.qualified
        pieces.append(Piece(kind, symbol, run.first + 1, run.last + 1, run.text))
    return pieces


class _Names:
    """The names of one file: where each is mentioned, and the calls and imports between them."""

    def __init__(self, path: str, runs: list[Piece]) -> None:
        self.known: dict[Name, int] = {}
        self.ties: defaultdict[tuple[int, int, str], list[int]] = defaultdict(list)
        """The lines on which one name relates to another."""
        self._path = path
        self._runs = runs
        self._first_rows = [run.start_line - 1 for run in runs]
        self._mentioned: list[set[int]] = [set() for _ in runs]
        self._file = self._mention(0, "path", path) if runs else -1

    def pieces(self) -> tuple[Piece, ...]:
        """Return the runs with the names that each mentions."""
        return tuple(
            msgspec.structs.replace(run, names=tuple(sorted(names)))
            for run, names in zip(self._runs, self._mentioned, strict=True)
        )

    def read(self, language: Language, findings: Findings) -> None:
        """Add the contents of the tree."""
        if not self._runs:
            return
        for found in findings.imports:
            module = self._mention(found.row, "module", absolute(self._path, found.module))
            self.ties[self._file, module, "imports"].append(found.row + 1)
        definitions = findings.definitions
        own, owners = self._define(definitions), _owners(definitions)
        kinds = {d.qualified: d.kind for d in reversed(definitions) if d.kind != "scope"}
        around: list[int] = []
        following = 0
        for call in findings.calls:
            while following < len(definitions) and definitions[following].start <= call.start:
                around.append(following)
                following += 1
            while around and definitions[around[-1]].end <= call.start:
                around.pop()
            caller, owner = (own[around[-1]], owners[around[-1]]) if around else (self._file, "")
            name = _target(call, owner, kinds, language)
            target = self._mention(call.row, name.kind, name.name)
            self.ties[caller, target, "calls"].append(call.row + 1)
        self._inherit(findings)

    def _inherit(self, findings: Findings) -> None:
        heirs = {d.start: d for d in findings.definitions if d.kind != "function"}
        for base in findings.bases:
            heir = heirs.get(base.owner)
            if heir is None:  # a class without a name
                continue
            source = self._mention(heir.row, "class", heir.qualified)
            target = self._mention(base.row, "class", base.name)
            self.ties[source, target, "inherits"].append(base.row + 1)

    def _define(self, definitions: list[Definition]) -> list[int]:
        """Add the definitions; return the name that calls inside each definition start from."""
        own: list[int] = []
        for definition in definitions:
            if definition.kind == "scope":
                own.append(own[definition.parent] if definition.parent >= 0 else self._file)
                continue
            own.append(self._mention(definition.row, definition.kind, definition.qualified))
            bare = definition.qualified.rpartition(".")[2]
            if bare:
                self._mention(definition.row, definition.kind, bare)
        return own

    def _mention(self, row: int, kind: str, name: str) -> int:
        index = self.known.setdefault(Name(kind, name), len(self.known))
        self._mentioned[max(0, bisect_right(self._first_rows, row) - 1)].add(index)
        return index


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


def _target(call: Call, owner: str, kinds: dict[str, str], language: Language) -> Name:
    """Name the callee: a definition in this file if known, else the bare name."""
    if call.is_new:
        return Name("class", call.name)
    by_self = call.on_self or language.methods_need_no_self
    if by_self and owner and (method := f"{owner}.{call.name}") in kinds:
        return Name(kinds[method], method)
    if call.name in kinds:
        return Name(kinds[call.name], call.name)
    is_class = language.capitals_are_classes and call.name[:1].isupper()
    return Name("class" if is_class else "function", call.name)
