"""Exact counts of o200k_base, offline: rs-bpe brings the vocabulary, tiktoken may have it on disk.

Both give the same counts. rs-bpe is linear and takes any text at once; tiktoken panics on a million
blanks, so it gets long texts in chunks, cut at seams where its own pre-tokeniser cuts too.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from marksweep.tokens.counter import TokenCounter, detached_copy
from marksweep.tokens.estimator import estimate

CHUNK = 200_000
"""Characters tiktoken gets at once. It panics on about 900,000 blanks; lower only costs time."""

_SEAM = r"(?<=[A-Za-z0-9])(?=[ \t\r\n])|(?<=\n)(?=[A-Za-z0-9])"

_RANKS_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


def from_rs_bpe() -> TokenCounter | None:
    """Count with rs-bpe; None where it is not installed."""
    try:
        encoding = importlib.import_module("rs_bpe.bpe").openai.o200k_base()
    except (ImportError, AttributeError):
        return None
    return TokenCounter("o200k_base (rs-bpe)", exact=True, count=_safe(encoding.count))


def from_tiktoken(environment: Mapping[str, str] = os.environ) -> TokenCounter | None:
    """Count with tiktoken; None where it is not installed or would have to download its ranks."""
    if not _ranks_are_on_disk(environment):
        return None
    try:
        encoding = importlib.import_module("tiktoken").get_encoding("o200k_base")
    except ImportError:
        return None

    def count(text: str) -> int:
        return sum(len(encoding.encode_ordinary(chunk)) for chunk in chunks(text, CHUNK))

    return TokenCounter("o200k_base (tiktoken)", exact=True, count=_safe(count))


def seams(text: str) -> Iterator[int]:
    """Return where a text can be cut so that the counts of the parts add up to that of the whole.

    No o200k piece has a letter or digit before white space, or a line break before a letter or
    digit, and none looks back; so every piece ends at such a place, cut or not.
    """
    return (match.start() for match in re.finditer(_SEAM, text))


def chunks(text: str, size: int) -> list[str]:
    """Cut a text into parts of at most `size` characters, at its seams.

    A stretch without a seam is cut where it has to be: each such cut may add a token or two.
    """
    if len(text) <= size:
        return [text]
    return re.findall(rf"(?s).{{1,{size}}}(?:{_SEAM}|\Z)|.{{1,{size}}}", text)


def _ranks_are_on_disk(environment: Mapping[str, str]) -> bool:
    """Look where tiktoken would. A file with another hash it deletes and downloads again."""
    folder = environment.get("TIKTOKEN_CACHE_DIR", environment.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir(), "data-gym-cache"))
    if not folder:
        return False
    name = hashlib.sha1(_RANKS_URL.encode(), usedforsecurity=False).hexdigest()
    try:
        ranks = Path(folder, name).read_bytes()
    except OSError:
        return False
    return hashlib.sha256(ranks).hexdigest() == _RANKS_SHA256


def _safe(count: Callable[[str], int]) -> Callable[[str], int]:
    """Make a counter total: lone surrogates count as U+FFFD, and a panic yields an estimate."""

    def total(text: str) -> int:
        try:
            return count(detached_copy(text))
        except UnicodeEncodeError:
            return count(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        except BaseException as panic:
            # Rust panics arrive as a BaseException of a type that cannot be imported.
            if type(panic).__name__ != "PanicException":
                raise
            return estimate(text)

    return total
