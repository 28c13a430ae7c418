"""Which files of a repository a run looks at: languages, tests, kinds left out."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

import msgspec

from marksweep.errors import BadInput
from marksweep.indexing.files import LeftOut, read_source
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
"""Names of test files, by the conventions of each language."""


def is_test(path: str) -> bool:
    """Return whether a file is a test, judged by its path."""
    return _TEST_PATH.search(path) is not None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run covers. Other files are neither indexed nor marked stale."""

    languages: frozenset[str] = frozenset()
    """Names of languages; empty for all."""
    include_tests: bool = True
    include: frozenset[Kind] = frozenset()
    """Kinds of files to include although they are left out by default."""

    @classmethod
    def of(
        cls,
        languages: Collection[str] = (),
        *,
        include_tests: bool = True,
        include: Collection[str] = (),
    ) -> Selection:
        """Make a selection from the words a caller uses."""
        for name, given in (("languages", languages), ("include", include)):
            if isinstance(given, str):
                raise BadInput(f"{name} is {given!r}; expected a list of names.")
        return cls(
            languages=chosen(languages),
            include_tests=include_tests,
            include=kinds(include),
        )

    def takes(self, path: str) -> bool:
        """Return whether a file is covered, judged by its name."""
        if self.languages and language_of(path).name not in self.languages:
            return False
        return self.include_tests or not is_test(path)

    def leaves_out_folder(self, name: str, beside: Collection[str]) -> str:
        """Return why a whole folder is left out; empty if it is not."""
        return self._unless_included(kind_of_folder(name, beside))

    def leaves_out_file(self, name: str) -> str:
        """Return why a file is left out because of its name; empty if it is not."""
        return self._unless_included(kind_of_file(name))

    def read(self, root: Path, path: str) -> tuple[bytes, os.stat_result]:
        """Read a file that can be indexed and is not left out; Unfit says why it cannot."""
        content, state = read_source(root / path)
        if reason := self._unless_included(kind_of_content(path, content)):
            raise LeftOut(reason)
        return content, state

    def _unless_included(self, kind: Kind | None) -> str:
        return "" if kind is None or kind in self.include else REASONS[kind]

    @property
    def words(self) -> str:
        """A description of the selection, for people and for comparing runs."""
        languages = ", ".join(sorted(self.languages)) or "every language"
        tests = "with tests" if self.include_tests else "without tests"
        included = "".join(f", {kind}" for kind in sorted(self.include))
        return f"{languages}, {tests}{included}"
