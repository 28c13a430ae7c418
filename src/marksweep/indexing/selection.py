"""Which files of a repository a run looks at: languages, tests, limits."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from marksweep.indexing.files import MAX_FILE_BYTES
from marksweep.indexing.languages import chosen, language_of

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
    """Tell by its path whether a file is a test."""
    return _TEST_PATH.search(path) is not None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a run looks at. What lies outside is neither indexed nor made stale."""

    languages: frozenset[str] = frozenset()
    """Names of languages; empty for all."""
    include_tests: bool = True
    max_bytes: int = MAX_FILE_BYTES

    @classmethod
    def of(
        cls,
        languages: Collection[str] = (),
        *,
        include_tests: bool = True,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> Selection:
        """Make a selection from the words a caller uses."""
        return cls(
            languages=chosen(languages),
            include_tests=include_tests,
            max_bytes=max_bytes,
        )

    def takes(self, path: str) -> bool:
        """Tell by its name whether a file is looked at."""
        if self.languages and language_of(path).name not in self.languages:
            return False
        return self.include_tests or not is_test(path)

    def covers(self, path: str, size: int) -> bool:
        """Tell whether a file that had this size when it was indexed would be looked at."""
        return size <= self.max_bytes and self.takes(path)

    @property
    def words(self) -> str:
        """What is looked at, for people and for comparing runs."""
        languages = ", ".join(sorted(self.languages)) or "every language"
        tests = "with tests" if self.include_tests else "without tests"
        return f"{languages}, {tests}, up to {self.max_bytes:,} bytes"
