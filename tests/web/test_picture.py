"""The picture: correct areas, text that cannot break out, the same bytes every time."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.budget import Budget
from marksweep.web.picture import Box, Shown, alone, picture, squarified
from marksweep.web.sources import Look
from marksweep.web.tiles import By, State, Tile
from tests.web.support import HOSTILE

PLACE = Box(10, 20, 300, 200)


def look(*sizes: int, said: str = "text", limit: int = 0) -> Look:
    states = list(State)
    tiles = tuple(
        Tile(f"{said}{n}", said, size, states[n % 4], said, said, tool=said, file=said)
        for n, size in enumerate(sizes)
    )
    return Look(tiles=tiles, budget=Budget.of(limit) if limit else None)


@given(st.lists(st.integers(0, 10**6), max_size=60))
def test_boxes_are_as_large_as_what_they_show_and_stay_inside(sizes: list[int]) -> None:
    sizes.sort(reverse=True)
    boxes = squarified(sizes, PLACE)
    assert len(boxes) == len(sizes)
    for size, box in zip(sizes, boxes, strict=True):
        share = size / sum(sizes) if sum(sizes) else 0.0
        assert abs(box.area - share * PLACE.area) < 0.01
        assert box.x >= PLACE.x - 0.01
        assert box.y >= PLACE.y - 0.01
        assert box.x + box.w <= PLACE.x + PLACE.w + 0.01
        assert box.y + box.h <= PLACE.y + PLACE.h + 0.01


@given(st.lists(st.integers(0, 10**5), max_size=40), st.text(max_size=30), st.sampled_from(By))
def test_any_text_gives_a_well_formed_picture(sizes: list[int], said: str, by: By) -> None:
    shown = Shown(look(*sizes, said=said, limit=1_000), said, by)
    drawn = picture(shown, 600)
    ElementTree.fromstring(drawn)  # noqa: S314 - it is ours
    assert drawn == picture(shown, 600)


def test_hostile_text_stays_text() -> None:
    drawn = alone(Shown(look(100, said=HOSTILE), HOSTILE), 2_000)
    root = ElementTree.fromstring(drawn)  # noqa: S314 - it is ours
    tags = {each.tag.partition("}")[2] for each in root.iter()}
    assert tags == {"svg", "style", "defs", "pattern", "g", "rect", "text", "title"}
    assert HOSTILE.partition("\x00")[0] in "".join(root.itertext())
    assert not [key for each in root.iter() for key in each.attrib if key.startswith("on")]


def test_ten_thousand_segments_are_drawn_as_a_few_hundred_tiles() -> None:
    drawn = picture(Shown(look(*range(10_000)), "many"), 1_400)
    assert 100 < drawn.count('class="tile ') < 2_000
    assert len(drawn) < 500_000
    assert "small ones" in drawn


def test_a_file_has_its_style_and_follows_the_readers_theme() -> None:
    drawn = alone(Shown(look(60, 40, limit=200), "t"), 900)
    assert "prefers-color-scheme:dark" in drawn
    assert "100 of 200 tokens" in drawn
    assert "free 100" in drawn
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
