"""Which files of a repository a run looks at: languages, tests, limits, kinds left out."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

import msgspec

from marksweep.indexing.files import MAX_FILE_BYTES, LeftOut, read_source
from marksweep.indexing.languages import chosen, language_of
from marksweep.indexing.left_out import (
    REASONS,
    Kind,
    kind_of_content,
    kind_of_file,
    kind_of_folder,
    kinds,
)

_TEST_PATH = re.compile(
    r"""(^|/)(tests?|testing|__tests__|specs?)/
    | (^|/)(test_[^/]*|conftest)\.py$
    | _test\.(py|go|rs|cc|cpp|c)$
    | \.(test|spec)\.[cm]?[jt]sx?$
    | (^|/)[^/]*Tests?\.java$""",
    re.VERBOSE,
)
"""What tests are called, by the customs of each language."""


def is_test(path: str) -> bool:
    """Return whether, by its path, a file is a test."""
    return _TEST_PATH.search(path) is not None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run looks at. What lies outside is neither indexed nor made stale."""

    languages: frozenset[str] = frozenset()
    """Names of languages; empty for all."""
    include_tests: bool = True
    max_bytes: int = MAX_FILE_BYTES
    include: frozenset[Kind] = frozenset()
    """Kinds of files that are looked at although they are otherwise left out."""

    @classmethod
    def of(
        cls,
        languages: Collection[str] = (),
        *,
        include_tests: bool = True,
        max_bytes: int = MAX_FILE_BYTES,
        include: Collection[str] = (),
    ) -> Selection:
        """Make a selection from the words a caller uses."""
        return cls(
            languages=chosen(languages),
            include_tests=include_tests,
            max_bytes=max_bytes,
            include=kinds(include),
        )

    def takes(self, path: str) -> bool:
        """Return whether, by its name, a file is looked at."""
        if self.languages and language_of(path).name not in self.languages:
            return False
        return self.include_tests or not is_test(path)

    def leaves_out_folder(self, name: str, beside: Collection[str]) -> str:
        """Say why a folder is left out as a whole; nothing if it is not."""
        return self._unless_included(kind_of_folder(name, beside))

    def leaves_out_file(self, name: str) -> str:
        """Say by its name why a file is left out; nothing if it is not."""
        return self._unless_included(kind_of_file(name))

    def read(self, root: Path, path: str) -> tuple[bytes, os.stat_result]:
        """Read a file that can be indexed and is not to be left out; Unfit says why it is not."""
        content, state = read_source(root / path, self.max_bytes)
        if reason := self._unless_included(kind_of_content(path, content)):
            raise LeftOut(reason)
        return content, state

    def _unless_included(self, kind: Kind | None) -> str:
        return "" if kind is None or kind in self.include else REASONS[kind]

    def covers(self, path: str, size: int) -> bool:
        """Return whether a file that had this size when it was indexed would be looked at."""
        return size <= self.max_bytes and self.takes(path)

    @property
    def words(self) -> str:
        """What is looked at, for people and for comparing runs."""
        languages = ", ".join(sorted(self.languages)) or "every language"
        tests = "with tests" if self.include_tests else "without tests"
        included = "".join(f", {kind}" for kind in sorted(self.include))
        return f"{languages}, {tests}, up to {self.max_bytes:,} bytes{included}"
