"""Token counting: exact and the same from every source, safe on hostile text, fast, labelled."""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import re
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marksweep import tokens
from marksweep.tokens import (
    REPORTS_KEPT,
    WORTH_CACHING,
    Calibration,
    TokenCounter,
    cached,
    data_tokens,
    detached_copy,
    estimate,
)
from tests import token_texts

Count = Callable[[str], int]

SIGNS = " |  |\t|\n|\n\n|\r\n|/|'s|'|_|-|==|);|\u00a0|\u0301|😀"
WORDS = "a|A|word|HTTPServer|1|2026|é|中文|の|한|ǅ|ʰ"
FRAGMENTS = [*SIGNS.split("|"), *WORDS.split("|")]
TEXTS = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join),
    st.text(max_size=40),
)
MEGABYTE = 1_000_000


def seams(text: str) -> list[int]:
    """Return where a text can be cut."""
    return [match.start() for match in re.finditer(tokens._SEAM, text)]


@pytest.fixture(scope="session")
def o200k() -> Count:
    counter = tokens.from_rs_bpe()
    assert counter, "rs-bpe is missing: install marksweep[exact] on CPython 3.11, 3.12 or 3.13"
    return counter.count


@pytest.fixture(scope="session")
def ranks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a cache folder like tiktoken's, with ranks from rs-bpe's vocabulary."""
    vocabulary = importlib.import_module("rs_bpe.bpe").openai.o200k_base().bpe()
    lines = (
        base64.b64encode(vocabulary.decode_tokens([rank])) + f" {rank}\n".encode()
        for rank in range(199_998)
    )
    folder = tmp_path_factory.mktemp("ranks")
    name = hashlib.sha1(tokens._RANKS_URL.encode(), usedforsecurity=False).hexdigest()
    (folder / name).write_bytes(b"".join(lines))
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> NoReturn:
        pytest.fail("tried to open a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def tiktoken(ranks_folder: Path, monkeypatch: pytest.MonkeyPatch, offline: None) -> TokenCounter:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(ranks_folder))
    counter = tokens.from_tiktoken()
    assert counter, "tiktoken is missing: install marksweep[dev]"
    return counter


class TestExact:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", 0),
            ("hello world", 2),
            ("<|endoftext|>", 7),
            ("\x00", 1),
            ("a\ud800b", 3),
            (" " * 1_000, 9),
            ("日本語のテキスト", 6),
            ("\ud83d\ude00", 1),
        ],
    )
    def test_known_texts_have_their_known_counts(
        self, o200k: Count, text: str, expected: int
    ) -> None:
        assert o200k(text) == expected

    def test_special_token_text_is_counted_as_plain_text(self, o200k: Count) -> None:
        assert o200k("<|endoftext|>") == o200k("<|") + o200k("endoftext") + o200k("|>")

    @settings(max_examples=500)
    @given(TEXTS)
    def test_the_count_of_a_whole_is_the_sum_of_its_parts_at_every_seam(
        self, o200k: Count, text: str
    ) -> None:
        for seam in seams(text):
            assert o200k(text[:seam]) + o200k(text[seam:]) == o200k(text)

    @given(TEXTS, st.integers(1, 20))
    def test_chunks_are_the_text_and_are_cut_at_seams_where_there_are_any(
        self, text: str, size: int
    ) -> None:
        parts = tokens.chunks(text, size)
        assert "".join(parts) == text
        known, position = set(seams(text)), 0
        for part in parts[:-1]:
            assert len(part) <= size
            window = set(range(position + 1, position + size + 1))
            position += len(part)
            assert position in known or (len(part) == size and not window & known)

    @given(
        st.lists(st.text("abz019 \t\n", min_size=1, max_size=8).map(lambda w: f"x{w} "), min_size=3)
    )
    def test_chunks_with_seams_in_reach_keep_the_count_exact(
        self, o200k: Count, words: list[str]
    ) -> None:
        text = "".join(words)
        assert sum(map(o200k, tokens.chunks(text, 40))) == o200k(text)

    def test_both_sources_agree(self, tiktoken: TokenCounter, o200k: Count) -> None:
        @settings(max_examples=500)
        @given(TEXTS)
        def agree(text: str) -> None:
            assert tiktoken.count(text) == o200k(text)

        agree()
        code = "".join(token_texts.source_code())
        assert len(code) > 2 * tokens.CHUNK_CHARS
        assert tiktoken.count(code) == o200k(code)

    def test_tiktoken_takes_a_million_blanks(self, tiktoken: TokenCounter, o200k: Count) -> None:
        """One seamless run is cut every CHUNK characters; that adds at most a token per cut."""
        cuts = MEGABYTE // tokens.CHUNK_CHARS
        assert 0 <= tiktoken.count(" " * MEGABYTE) - o200k(" " * MEGABYTE) <= cuts

    @pytest.mark.parametrize("content", [None, b"IQ== 0\n"])
    def test_tiktoken_never_downloads(
        self, content: bytes | None, ranks_folder: Path, tmp_path: Path, offline: None
    ) -> None:
        name = next(ranks_folder.iterdir()).name
        if content is not None:
            (tmp_path / name).write_bytes(content)
        assert tokens.from_tiktoken({"TIKTOKEN_CACHE_DIR": str(tmp_path)}) is None
        assert (tmp_path / name).exists() == (content is not None)

    def test_tiktoken_without_a_cache_folder_is_not_used(self, offline: None) -> None:
        assert tokens.from_tiktoken({"TIKTOKEN_CACHE_DIR": ""}) is None

    def test_a_panic_of_a_tokeniser_yields_an_estimate(self) -> None:
        panic = type("PanicException", (BaseException,), {})

        def count(text: str) -> int:
            raise panic

        assert tokens._safe(count)("some words here") == estimate("some words here")

    def test_an_interrupt_is_not_taken_for_a_panic(self) -> None:
        def count(text: str) -> int:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            tokens._safe(count)("text")


def hostile_texts() -> Iterator[tuple[str, str]]:
    for character in " a=-*\t\n\x00é中\ud800":
        yield f"a megabyte of {character!r}", character * MEGABYTE
    yield "special tokens", "<|endoftext|>" * (MEGABYTE // 13)
    yield "one long line", "lorem ipsum " * (MEGABYTE // 12)
    yield "blanks before a word", " " * MEGABYTE + "x"
    yield "blank, break, blank", " \n" * (MEGABYTE // 2)
    yield "capitals without end", "A" * MEGABYTE + "a"
    yield "surrogates the wrong way round", "\udc00\ud800" * (MEGABYTE // 2)


HOSTILE = dict(hostile_texts())


class TestHostileText:
    @pytest.mark.parametrize("name", HOSTILE)
    @pytest.mark.parametrize("counter", ["exact", "estimate"])
    def test_a_megabyte_takes_under_two_seconds_of_processor_time(
        self, name: str, counter: str, o200k: Count
    ) -> None:
        count = o200k if counter == "exact" else estimate
        started = time.process_time()
        assert count(HOSTILE[name]) > 0
        assert time.process_time() - started < 2

    @given(st.text(st.characters(codec=None, categories=("Cs", "Cc", "Lu", "Mn", "Zs", "So"))))
    def test_every_text_has_a_count(self, o200k: Count, text: str) -> None:
        assert (o200k(text) > 0) == (estimate(text) > 0) == (text != "")


def mean_error(texts: Sequence[str], o200k: Count) -> float:
    return sum(abs(estimate(text) - o200k(text)) / o200k(text) for text in texts) / len(texts)


class TestEstimate:
    """Measured: code 3 %, prose 2 %, JSON 1 %, Chinese 9 %, Japanese 7 %, Korean 10 %."""

    @pytest.mark.parametrize(
        ("texts", "at_most"),
        [
            (token_texts.source_code(), 0.06),
            (token_texts.english_prose(), 0.06),
            (token_texts.json_logs(), 0.06),
            (token_texts.CHINESE, 0.15),
            (token_texts.JAPANESE, 0.15),
            (token_texts.KOREAN, 0.15),
        ],
        ids=["code", "prose", "json", "chinese", "japanese", "korean"],
    )
    def test_it_is_close_on_average(
        self, texts: Sequence[str], at_most: float, o200k: Count
    ) -> None:
        assert mean_error(texts, o200k) <= at_most

    def test_it_does_not_depend_on_the_hash_seed(self) -> None:
        code = (
            "from tests.token_texts import *; from marksweep.tokens import estimate;"
            "print([estimate(t) for t in (*CHINESE, *KOREAN, *json_logs(files=2))])"
        )
        printed = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
                check=True,
                capture_output=True,
            ).stdout
            for seed in "12"
        }
        assert len(printed) == 1

    def test_the_cost_of_an_estimate_grows_linearly(self) -> None:
        text = "".join(token_texts.json_logs())

        def seconds(copies: int) -> float:
            started = time.process_time()
            estimate(text * copies)
            return time.process_time() - started

        assert min(seconds(16) for _ in range(3)) < 12 * min(seconds(4) for _ in range(3))


class TestDefault:
    @pytest.fixture(autouse=True)
    def _fresh_choice(self) -> Iterator[None]:
        tokens.default_counter.cache_clear()
        yield
        tokens.default_counter.cache_clear()

    def test_importing_does_not_load_a_tokeniser(self) -> None:
        code = "import sys, marksweep.tokens; sys.exit('rs_bpe' in sys.modules)"
        path = os.pathsep.join(sys.path)
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False
        )
        assert done.returncode == 0

    def test_the_exact_counter_comes_first(self, o200k: Count) -> None:
        assert tokens.default_counter().exact
        assert tokens.count("hello world") == o200k("hello world")

    def test_tiktoken_steps_in_for_rs_bpe(
        self, tiktoken: TokenCounter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
        assert tokens.default_counter().name == tiktoken.name

    def test_without_a_vocabulary_the_estimator_counts(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        assert tokens.default_counter().name == tokens.ESTIMATOR.name
        assert not tokens.default_counter().exact
        assert tokens.count("some words") == estimate("some words")

    def test_an_estimate_is_labelled_as_one(self) -> None:
        assert tokens.ESTIMATOR.label(12_345) == "≈12,345"
        assert TokenCounter("o200k_base", exact=True, count=len).label(12_345) == "12,345"


class CountingCounter:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return len(text)


class WeakText(str):
    """A text that can be weakly referenced."""

    __slots__ = ("__weakref__",)


class TestCache:
    @pytest.fixture
    def inner(self) -> CountingCounter:
        return CountingCounter()

    def wrap(self, inner: CountingCounter, max_bytes: int = 1_000_000) -> Count:
        return cached(TokenCounter("inner", exact=True, count=inner.count), max_bytes).count

    def test_the_same_content_is_counted_once(self, inner: CountingCounter) -> None:
        count = self.wrap(inner)
        first, again = "é" * WORTH_CACHING, "".join(["é"] * WORTH_CACHING)
        assert count(first) == count(again) == WORTH_CACHING
        assert inner.asked == 1

    def test_short_texts_are_not_remembered(self, inner: CountingCounter) -> None:
        count = self.wrap(inner)
        count("short")
        count("short")
        assert inner.asked == 2

    def test_texts_that_differ_in_one_character_are_distinguished(
        self, inner: CountingCounter
    ) -> None:
        count = self.wrap(inner)
        for last in ("a", "b", "\ud800", "\ud801"):
            count("x" * WORTH_CACHING + last)
        assert inner.asked == 4

    def test_the_least_recently_used_goes_first(self, inner: CountingCounter) -> None:
        count = self.wrap(inner, max_bytes=2 * 160)
        one, two, three = (letter * WORTH_CACHING for letter in "abc")
        for text in (one, two, one, three, one):
            count(text)
        assert inner.asked == 3
        count(two)
        assert inner.asked == 4

    def test_memory_stays_within_its_bound(self) -> None:
        import tracemalloc

        bound = 200_000
        count = cached(TokenCounter("length", exact=True, count=len), bound).count
        tracemalloc.start()
        try:
            for number in range(5_000):
                count(f"{number:0{WORTH_CACHING + 500 + number}}")
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < bound * 1.25

    def test_no_text_is_kept_alive(self, inner: CountingCounter) -> None:
        count = self.wrap(inner)
        text = WeakText("x" * 10 * WORTH_CACHING)
        watched = weakref.ref(text)
        count(text)
        del text
        assert watched() is None

    def test_threads_share_it(self, inner: CountingCounter) -> None:
        count = self.wrap(inner, max_bytes=10 * 160)
        texts = [letter * (WORTH_CACHING + index) for index, letter in enumerate("abcdefghijklmno")]
        with ThreadPoolExecutor(8) as pool:
            counted = list(pool.map(count, texts * 200))
        assert counted == [len(text) for text in texts] * 200


class TestCalibration:
    def test_without_a_report_figures_stay_as_they_are(self) -> None:
        assert Calibration().apply(1_234) == 1_234

    def test_it_learns_what_the_provider_reports(self) -> None:
        assert Calibration().observe(1_000, 1_200).apply(500) == 600

    def test_observing_leaves_the_old_value_alone(self) -> None:
        before = Calibration()
        assert before.observe(1_000, 1_500) != before
        assert before.ratio == 1

    @given(
        honest=st.lists(st.floats(1.1, 1.3), min_size=8, max_size=8),
        wild=st.lists(st.floats(0.001, 1_000), max_size=7),
        data=st.data(),
    )
    def test_fewer_wild_reports_than_honest_ones_do_not_move_it_out_of_their_range(
        self, honest: list[float], wild: list[float], data: st.DataObject
    ) -> None:
        calibration = Calibration()
        for ratio in data.draw(st.permutations(honest + wild)):
            calibration = calibration.observe(100_000, round(100_000 * ratio))
        assert min(honest) - 0.001 <= calibration.ratio <= max(honest) + 0.001

    def test_it_follows_a_change_of_model(self) -> None:
        calibration = Calibration()
        for reported in [1_000] * 50 + [1_400] * REPORTS_KEPT:
            calibration = calibration.observe(1_000, reported)
        assert calibration.ratio == 1.4
        assert len(calibration.ratios) == REPORTS_KEPT

    @pytest.mark.parametrize(
        ("estimated", "reported"), [(0, 10), (50, 400), (1_000, 0), (1_000, 3)]
    )
    def test_a_report_that_teaches_nothing_is_left_out(self, estimated: int, reported: int) -> None:
        assert Calibration().observe(estimated, reported) == Calibration()

    def test_a_small_request_does_not_raise_the_limit_in_proportion(self) -> None:
        """The excess may be tool definitions, which do not grow."""
        calibration = Calibration().observe(1_000, 700)
        assert round(12_000 / calibration.ratio_at(12_000)) == 12_300
        assert round(12_000 / calibration.observe(12_000, 8_400).ratio_at(12_000)) == 15_600
        assert Calibration().observe(1_000, 1_200).ratio_at(12_000) == 1.2

    def test_it_survives_being_saved(self) -> None:
        calibration = Calibration().observe(1_000, 1_250)
        saved = msgspec.json.encode(calibration)
        assert msgspec.json.decode(saved, type=Calibration) == calibration


class TestInlineData:
    def test_an_image_does_not_weigh_what_its_base64_would(self) -> None:
        assert data_tokens("image/png", "A" * MEGABYTE) == tokens.IMAGE_TOKENS
        assert data_tokens("image/png", "https://example.org/a.png") == tokens.IMAGE_TOKENS

    def test_a_long_document_weighs_more_than_a_short_one(self) -> None:
        short, long = (data_tokens("application/pdf", "A" * size) for size in (1_000, MEGABYTE))
        assert tokens.IMAGE_TOKENS == short < long


@pytest.mark.parametrize("text", ["plain", "naïve → 漢字 🙂", "\ud83d", "\ud83d\ude00 two halves"])
def test_a_detached_copy_is_the_same_text(text: str) -> None:
    assert detached_copy(text) == text
    assert (detached_copy(text) is text) == text.isascii()


def test_a_limit_of_nothing_has_a_ratio() -> None:
    assert Calibration().ratio_at(0) == 1.0
    assert Calibration((0.5,), 1_000).ratio_at(0) == 0.5
