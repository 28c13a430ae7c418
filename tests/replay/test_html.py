"""The report as text: self-contained, escaped, deterministic, and consistent with the figures."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from marksweep.replay.catalog import CLAIRVOYANT
from marksweep.replay.html import page
from marksweep.replay.html_front import front
from marksweep.replay.inputs import Passed
from marksweep.replay.report import Replayed
from marksweep.replay.table import timeless
from tests.replay.stories import replay_sample

VOID = {"meta", "input", "br", "link", "img", "wbr"}


@pytest.fixture(scope="module")
def found() -> Replayed:
    return replay_sample()


@pytest.fixture(scope="module")
def report(found: Replayed) -> str:
    return page(timeless(found.result), found.chosen, found.timelines)


class Elements(HTMLParser):
    """Checks that elements close in order, and collects their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"


def parsed(report: str) -> Elements:
    elements = Elements()
    elements.feed(report)
    assert elements.open == []
    return elements


def test_elements_close_in_order_and_ids_are_unique(report: str) -> None:
    ids = [attributes["id"] for _, attributes in parsed(report).seen if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_same_input_gives_the_same_bytes(report: str) -> None:
    again = replay_sample()
    assert page(timeless(again.result), again.chosen, again.timelines) == report


def test_it_refers_to_nothing_outside_itself(report: str) -> None:
    for tag, attributes in parsed(report).seen:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "href", "action", "srcset"} & attributes.keys()
    assert "url(" not in report
    assert "@import" not in report
    assert "default-src 'none'" in report


def test_every_row_is_in_the_table_with_its_figures(found: Replayed, report: str) -> None:
    table = report[report.index('id="figures"') : report.index('id="timeline"')]
    assert table.count('<th scope="row">') == len(found.result.rows)
    for row in found.result.rows:
        assert f">{row.recall:.1f}</td><td>{row.cost:.2f}</td>" in table


def test_every_row_is_a_mark_in_both_pictures(found: Replayed, report: str) -> None:
    for row in found.result.rows:
        said = f"{row.strategy} at {row.budget}: recall {row.recall:.1f} %, cost {row.cost:.2f}"
        assert report.count(f"<title>{said}</title>") == 2


def test_the_recommended_code_and_command_are_there(found: Replayed, report: str) -> None:
    assert found.chosen is not None
    assert f"{found.chosen.limit_tokens:_}" in found.chosen.code
    first = found.chosen.code.split("\n")[0]
    assert first in report
    assert "marksweep tune" in report


def test_the_front_holds_what_no_online_setting_beats(found: Replayed) -> None:
    best = front(found.result.rows)
    online = [row for row in found.result.rows if row.strategy != CLAIRVOYANT]
    assert best
    for row in online:
        beaten = any(
            other.recall >= row.recall
            and other.cost <= row.cost
            and (other.recall, other.cost) != (row.recall, row.cost)
            for other in online
        )
        on_front = any((b.recall, b.cost) == (row.recall, row.cost) for b in best)
        assert on_front is not beaten


def test_what_a_transcript_says_cannot_become_markup(found: Replayed) -> None:
    evil = "</script><script>alert(1)</script><b>"
    timeline = found.timelines[0]
    moments = tuple(msgspec.structs.replace(moment, action=evil) for moment in timeline.moments)
    lives = tuple(msgspec.structs.replace(life, text=evil) for life in timeline.lives)
    named = msgspec.structs.replace(timeline, transcript=evil, moments=moments, lives=lives)
    result = msgspec.structs.replace(found.result, passed=(Passed(evil, evil),))
    written = page(result, found.chosen, [named])
    assert "alert(1)</script>" not in written
    assert len(re.findall("<script", written)) == 2
    parsed(written)


def test_nothing_to_recommend_and_no_timeline_is_a_page_too(found: Replayed) -> None:
    assert found.chosen is not None
    bare = page(found.result, None, ())
    parsed(bare)
    assert found.chosen.code not in bare
    assert len(bare) < len(page(found.result, found.chosen, found.timelines))


def test_times_are_in_it_only_if_kept(found: Replayed, report: str) -> None:
    assert '<th scope="col">ms</th>' not in report
    assert '<th scope="col">ms</th>' in page(found.result, found.chosen)


def test_a_strategy_that_broke_a_rule_is_named_and_is_not_in_the_picture(found: Replayed) -> None:
    first, *others = found.result.rows
    bad = msgspec.structs.replace(
        first,
        strategy="my.module:Broken",
        cost=99.0,
        violations={"peeked": 2},
        failures=("chat, step 7: peeked",),
    )
    result = msgspec.structs.replace(found.result, rows=(bad, first, *others))
    shown = page(timeless(result), found.chosen, ())
    assert "chat, step 7: peeked" in shown
    figures = shown[shown.index('id="front"') : shown.index('id="figures"')]
    assert "Broken" not in figures
