"""Tokens: how much of the window a text takes.

    from marksweep.tokens import count, default_counter

    count("def hello(): ...")            # exact where a vocabulary is installed, else an estimate
    default_counter().label(12_000)      # "12,000", or "≈12,000" when it is an estimate

1. Estimates without a vocabulary: split as o200k does, then price each piece by its shape. o200k
   splits a text into words, numbers, signs and white space before any lookup. Splitting needs no
   vocabulary, so it is done the same way here; the price of a piece is an average over code,
   prose and JSON. Linear in the text and the same on every run.
2. What a counter is; a bounded cache for the counts of long texts, by content.
3. o200k_base from rs-bpe, or from tiktoken if its ranks are already on this disk. Both give the
   same counts. rs-bpe is linear and takes any text whole; tiktoken panics on a million blanks, so
   it gets long texts in chunks, cut where its own pre-tokeniser cuts too.
4. Images and other data that are not text: providers count them by size on screen.
5. The best counter available.
6. The result of a call: what it says, its pictures and files, and its tokens. It is a text, a list
   of blocks, each with a type, or data. A block is a text, a picture or a file, or it holds others.
   All fields of data count.
7. Calibration: from these counts to those that a provider reports.

Nothing here uses the network, and nothing heavy is imported before the first count.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from marksweep.errors import BadInput

_UPPER = "A-ZÀ-ÖØ-Þ"
_LOWER = "a-zß-öø-ɏ\u1e00-\u1eff"
_SIGNS = r"!-/:-@\[-`{-~"

_PIECES = re.compile(
    # a Latin word, with the one sign or blank before it and an English ending behind it
    rf"(?:_|[^\r\n\w])?(?:[{_UPPER}]*+[{_LOWER}]+|[{_UPPER}]+)(?:'(?:[stmd]|re|ve|ll))?"
    r"|[0-9]{1,3}"
    rf"| ?[{_SIGNS}]+[\r\n/]*"
    r"| ?[\u0370-\u0eff]+"  # Greek, Cyrillic, Hebrew, Arabic, the scripts of India, Thai
    r"| ?[\u0f00-\u1dff]+"  # Tibetan, Georgian, Ethiopic, Khmer, Mongolian
    r"|[\u3040-\u30ff]+|[\u3400-\u4dbf\u4e00-\u9fff]+| ?[\uac00-\ud7a3]+"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    r"|.",
    re.DOTALL,
)

_VOWEL = re.compile("[aeiouyAEIOUY]")

LETTERS_AT_ONE_TOKEN = 6
"""Latin words up to this length count as one token. Lower raises the count of all prose."""

_PICTURES = re.compile("[\u2600-\u2fff\U00010000-\U0010ffff]")

_PER_LETTER = (
    ("\u0370", "\u0eff", 0.36),
    ("\u0f00", "\u1dff", 1.8),
    ("\u3040", "\u30ff", 0.73),
    ("\u3400", "\u9fff", 0.74),
    ("\uac00", "\ud7a3", 0.74),
)
"""Tokens per letter of scripts that are priced by length, as ranges of characters."""


def estimate(text: str) -> int:
    """Estimate the o200k tokens of a text; within 15 % on average for code, prose, JSON and CJK."""
    if not text:
        return 0
    pieces = Counter(_PIECES.findall(text))
    return max(1, round(sum(_price(piece) * times for piece, times in pieces.items())))


def _price(piece: str) -> float:
    """Tokens of one piece, from its shape."""
    if piece.isspace():
        return 1 + (len(piece) - 1) // (16 if piece.strip(" ") else 128)
    last = piece[-1]
    if last.isalpha() and (last <= "\u024f" or "\u1e00" <= last <= "\u1eff"):
        return _word(piece)
    if last.isascii():
        return 1 if last.isdigit() else _signs(piece)
    for first_letter, last_letter, rate in _PER_LETTER:
        if first_letter <= last <= last_letter:
            return max(1.0, rate * len(piece.lstrip(" ")))
    return 1.6 if _PICTURES.match(last) else 1


def _word(piece: str) -> float:
    """Tokens of a Latin word. Blanks before it are free; signs, capitals and length cost."""
    bare = piece if piece[0].isalpha() else piece[1:]
    letters = len(bare)
    if letters > 16 and len(set(bare)) <= 2:
        return letters / 8
    if not bare.isascii():
        return max(1.0, 0.36 * letters)
    if bare.isupper():
        return max(1.0, 0.5 + 0.24 * letters)
    if letters > 2 and not _VOWEL.search(bare):
        return 0.5 + 0.4 * letters
    spare = letters - LETTERS_AT_ONE_TOKEN
    if spare <= 0:
        return 1.0 if piece[0].isalpha() or piece[0] == " " else 1.13
    started = 0.0 if piece[0] == " " else 0.25 if piece[0].isalpha() else 0.5
    return 1 + started + 0.05 * min(spare, 5) + 0.25 * max(0, spare - 5)


def _signs(piece: str) -> float:
    """Tokens of a run of signs: common pairs are one token, and so is a ruled line."""
    length = len(piece)
    if length > 8 and len(set(piece)) <= 4:
        return 1 + length / 48
    return 1 + 0.5 * max(0, length - 3)


CACHE_BYTES = 4 * 1024 * 1024
"""Memory for cached counts. Higher caches more texts: about 6,500 per megabyte."""

WORTH_CACHING = 256
"""Length from which counts are cached: there, a lookup is eight times as fast as counting.

Lower caches short texts, which are seldom counted twice, at the expense of long ones.
"""

_ENTRY_BYTES = 160
"""What one count takes: a digest, a number, and their place in the table."""


class TokenCounter(msgspec.Struct, frozen=True):
    """A way of counting tokens: its name, and whether its figures are exact."""

    name: str
    exact: bool
    count: Callable[[str], int]

    def label(self, tokens: int) -> str:
        """Write a figure for people to read; an estimate is marked as one."""
        return f"{tokens:,}" if self.exact else f"≈{tokens:,}"


def in_whole(counter: Callable[..., float]) -> Callable[..., int]:
    """Wrap a caller's counter so that it gives whole tokens: a fraction is rounded up."""

    def count(*given: object) -> int:
        figure = counter(*given)
        if type(figure) is int and figure >= 0:
            return figure
        if isinstance(figure, int | float) and 0 <= figure < math.inf:
            return math.ceil(figure)
        raise BadInput(
            f"the token counter gave {figure!r}; expected a number of tokens, 0 or more."
        )

    return count


def cached(counter: TokenCounter, max_bytes: int = CACHE_BYTES) -> TokenCounter:
    """Cache the counts of a counter, evicting the least recently used."""
    remembered = _Counts(counter, max_bytes // _ENTRY_BYTES)
    return TokenCounter(counter.name, counter.exact, remembered.count)


class _Counts:
    """Counts by digest of the text, in order of use. Safe to share between threads."""

    def __init__(self, counter: TokenCounter, capacity: int) -> None:
        self._compute = counter.count
        self._capacity = capacity
        self._counts: dict[bytes, int] = {}
        self._lock = Lock()

    def count(self, text: str) -> int:
        """Return the cached count, or count."""
        if len(text) < WORTH_CACHING:
            return self._compute(text)
        content = text.encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(content, digest_size=16).digest()
        with self._lock:
            known = self._counts.pop(key, None)
            if known is not None:
                self._counts[key] = known
                return known
        tokens = self._compute(text)
        with self._lock:
            self._counts[key] = tokens
            while len(self._counts) > self._capacity:
                del self._counts[next(iter(self._counts))]
        return tokens


def detached_copy(text: str) -> str:
    """Copy a text, if it is beyond ASCII.

    Python caches the UTF-8 form of such a text, once C code has asked for it, for as long as the
    text lives: half as much memory again. The copy's is freed with the copy.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


CHUNK_CHARS = 200_000
"""Characters per call of tiktoken. It panics on about 900,000 blanks; lower only costs time."""

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
        return sum(len(encoding.encode_ordinary(chunk)) for chunk in chunks(text, CHUNK_CHARS))

    return TokenCounter("o200k_base (tiktoken)", exact=True, count=_safe(count))


def chunks(text: str, size: int) -> list[str]:
    """Cut a text into parts of at most `size` characters, at its seams: where their counts add up.

    No o200k piece has a letter or digit before white space, or a line break before a letter or
    digit, and none looks back; so every piece ends at such a place, cut or not.

    A stretch without a seam is cut at the size: each such cut may add a token or two.
    """
    if len(text) <= size:
        return [text]
    return re.findall(rf"(?s).{{1,{size}}}(?:{_SEAM}|\Z)|.{{1,{size}}}", text)


def _ranks_are_on_disk(environment: Mapping[str, str]) -> bool:
    """Look where tiktoken would. It deletes and downloads again a file with another hash."""
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
    """Make a counter that never fails: lone surrogates are U+FFFD, a panic yields an estimate."""

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


IMAGE_TOKENS = 1_500
"""Tokens of an image: what a full screenshot costs. Higher lets images go sooner."""

_CHARACTERS_PER_TOKEN = 32
"""For base64 in documents and audio: a page of 50 kB counts as much as an image."""

_CHARACTERS_PER_TOKEN_OF_TEXT = 5
"""For base64 of plain text: four characters of it are three of the text."""


def data_tokens(mime_type: str, data: str) -> int:
    """Estimate the tokens of inline data, given as base64 or as an address."""
    if mime_type.startswith("image/"):
        return IMAGE_TOKENS
    if mime_type.startswith("text/") and "://" not in data[:16]:
        return len(data) // _CHARACTERS_PER_TOKEN_OF_TEXT
    return max(IMAGE_TOKENS, len(data) // _CHARACTERS_PER_TOKEN)


ESTIMATOR = TokenCounter(name="estimate", exact=False, count=estimate)
"""Counts without a vocabulary. Within 15 % on average for code, prose, JSON and CJK."""


@cache
def default_counter() -> TokenCounter:
    """Choose the best counter available: rs-bpe, tiktoken with ranks on disk, the estimator."""
    return cached(from_rs_bpe() or from_tiktoken() or ESTIMATOR)


def count(text: str) -> int:
    """Count the tokens of a text with the default counter. Special tokens count as plain text."""
    return default_counter().count(text)


MEDIA = {
    "image": "image/*",
    "image_url": "image/*",
    "input_image": "image/*",
    "computer_screenshot": "image/*",
    "document": "application/*",
    "input_file": "application/*",
    "file": "application/*",
    "audio": "audio/*",
    "input_audio": "audio/*",
    "video": "video/*",
}
"""Blocks in results that are not text, and what they are."""

LONG_FIELD_CHARS = 100
"""Characters from which a field beside the text of a result says something itself.

Lower writes more results as JSON; higher hides longer fields of data.
"""


def result_text(result: object) -> str:
    """Return what a result says, also if it is wrapped; one without text is written as JSON.

    A result that is only pictures and files names them.
    """
    if isinstance(result, str):
        return result
    if isinstance(result, dict) and len(result) == 1:
        (only,) = result.values()
        if isinstance(only, str):
            return only
    named = ("[image]" if _is_image(block) else "[file]" for block in media_in(result))
    return _text_in(result) or "\n".join(named) or plain(result)


def media_in(value: object) -> Iterator[dict[str, Any]]:
    """Return the blocks of a result that are pictures or files."""
    if isinstance(value, list):
        for each in value:
            yield from media_in(each)
    elif isinstance(value, dict) and isinstance(kind := value.get("type"), str):
        if kind not in MEDIA:
            yield from media_in(value.get("content"))
        elif not _text_in(value):
            yield value


def _text_in(value: object) -> str:
    """Return the text in a block or a result, at any depth; images and numbers have none."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _text_of_block(value)
    if isinstance(value, list):
        said = [_text_in(each) for each in value]
        if any(said):
            data = ["" if is_block(each) else plain(each) for each in value]
            said = [text or written for text, written in zip(said, data, strict=True)]
        return "\n".join(filter(None, said))
    return ""


def _text_of_block(block: dict[str, Any]) -> str:
    """Return the text of a block; of data none, if its other fields say more than that."""
    source = block.get("source")
    if block.get("type") == "document" and isinstance(source, dict):
        held = {"text": source.get("data"), "content": source.get("content")}
        return _text_in(held.get(str(source.get("type"))))
    others = [value for key, value in block.items() if key not in ("text", "content")]
    if not is_block(block) and any(map(_says_much, others)):
        return ""
    return _text_in(block.get("text") or block.get("content") or "")


def _says_much(value: object) -> bool:
    if isinstance(value, str):
        return len(value) >= LONG_FIELD_CHARS
    return isinstance(value, dict | list) and bool(value)


def is_block(value: object) -> bool:
    """Whether it is a block, which has a type, and not data."""
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def plain(value: object) -> str:
    """Write data as JSON, and a text as it is."""
    if value in (None, "", {}, []):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def result_tokens(value: object) -> int:
    """Count a result block by block, so that an image counts as an image, not as base64 text."""
    if isinstance(value, list):
        return sum(map(result_tokens, value))
    if not isinstance(value, dict) or not is_block(value):
        return count(plain(value))
    media = list(media_in(value))
    if not media:
        return count(_text_in(value) or plain(value))
    if media[0] is value:
        return _weigh_media(value)
    rest = {key: each for key, each in value.items() if key != "content"}
    return result_tokens(value["content"]) + count(plain(rest))


def _weigh_media(block: dict[str, Any]) -> int:
    data = "" if _is_image(block) else json.dumps(block, default=str)
    return data_tokens(MEDIA[block["type"]], data)


def _is_image(block: dict[str, Any]) -> bool:
    return MEDIA[block["type"]].startswith("image/")


def media_tokens(result: object, raw: object) -> int:
    """Count the pictures and files of a result, and those beside it in the provider's value."""
    return sum(map(_weigh_media, media_in(result))) + attached_tokens(raw)


def attached_tokens(raw: object) -> int:
    """Count the pictures and files that Gemini has beside a result."""
    raw = raw if isinstance(raw, dict) else {}
    held = raw.get("functionResponse", raw.get("function_response"))
    attached = held.get("parts") if isinstance(held, dict) else None
    if not isinstance(attached, list):
        return 0
    tokens = 0
    for each in attached:
        data = each.get("inlineData", each.get("inline_data")) if isinstance(each, dict) else None
        data = data if isinstance(data, dict) else {}
        mime = data.get("mimeType", data.get("mime_type"))
        tokens += data_tokens(str(mime), str(data.get("data", "")))
    return tokens


REPORTS_KEPT = 15
"""Reports that are kept. Higher is steadier; lower follows a change of model sooner."""

MIN_REPORT_TOKENS = 100
"""Smaller requests are ignored: what a provider adds to each outweighs their text."""

LARGEST_RATIO = 4.0
"""Factor beyond which a report is not about the same text, such as one without cached tokens.

Higher accepts more reports; no tokeniser in use is that far from o200k.
"""


class Calibration(msgspec.Struct, frozen=True):
    """Ratio of a provider's counts to these: the median of recent reports, against outliers."""

    ratios: tuple[float, ...] = ()
    """Reported over counted, oldest first."""
    surplus: int = 0
    """How much more was counted here than reported, in the latest report."""

    @property
    def ratio(self) -> float:
        """Provider's tokens per token counted here; 1 until there is a report."""
        ordered = sorted(self.ratios)
        middle = len(ordered) // 2
        if len(ordered) % 2:
            return ordered[middle]
        return (ordered[middle - 1] + ordered[middle]) / 2 if ordered else 1.0

    def observe(self, estimated: int, reported: int) -> Calibration:
        """Add our count and the provider's report for one request."""
        if estimated < MIN_REPORT_TOKENS or reported <= 0:
            return self
        ratio = reported / estimated
        if not 1 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
            return self
        recent = (*self.ratios, ratio)[-REPORTS_KEPT:]
        return Calibration(recent, max(0, estimated - reported))

    def ratio_at(self, limit: int) -> float:
        """Give the ratio to convert a limit with, which is often larger than any request so far.

        What is counted too much may be the same in every request, such as tool definitions. So
        the limit is raised by no more than the surplus that was seen.
        """
        return max(self.ratio, limit / (limit + self.surplus) if self.surplus else 1.0)

    def apply(self, tokens: int) -> int:
        """Convert a count into what the provider will report."""
        return round(tokens * self.ratio)
