"""The window as a treemap in SVG: area is size, colour is state.

The page embeds it; with its style included it is a standalone file. The free part of a budget
stays empty. Tiles too small to see are merged by state. The same input gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import msgspec

from marksweep.core.budget import Budget
from marksweep.model import Plan, Unit
from marksweep.web.sources import Look
from marksweep.web.tiles import By, State, Tile, shares

STYLE = Path(__file__).with_name("picture.css")

MIN_WIDTH, MAX_WIDTH = 280, 2_400
"""Widths that a picture may have, in pixels."""

MIN_AREA = 24.0
"""Square pixels below which tiles are merged."""

AREA_PER_TILE = 700.0
"""Average square pixels per separate tile. Lower draws more tiles, and takes longer."""

MAX_GROUPS = 24
"""How many of the largest groups are drawn separately."""

HEAD, BAR, LEGEND = 26.0, 14.0, 26.0
"""Heights of the line above, the bar, and the legend below, in pixels."""

GROUP_LINE = 17.0
"""Height of a group's name."""

CHAR, STRONG_CHAR = 6.3, 9.2
"""Approximate widths of a letter on a tile, and of one in the headline."""

GAP = 2.0

MIN_USED = 0.7
"""Minimum share of the treemap for the content; only the bar above is to scale."""

STATES = {
    State.ROOT: "must stay",
    State.REACHED: "in use",
    State.RELATED: "related",
    State.GARBAGE: "garbage",
}
"""Names of the states in the legend."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Box(NamedTuple):
    """A rectangle."""

    x: float
    y: float
    w: float
    h: float

    @property
    def area(self) -> float:
        """Its area."""
        return self.w * self.h

    def inset(self, by: float, top: float = 0.0) -> Box:
        """Return what is left inside a margin."""
        w, h = max(0.0, self.w - 2 * by), max(0.0, self.h - 2 * by - top)
        return Box(self.x + by, self.y + by + top, w, h)


class Shown(msgspec.Struct, frozen=True):
    """What to draw."""

    look: Look
    title: str
    by: By = By.KIND
    plan: Plan | None = None
    """The tiles that it would sweep are marked."""


def picture(shown: Shown, width: int, *, style: str = "") -> str:
    """Draw a heap; with a style it is standalone."""
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    height = 320 if width >= 700 else 420
    tiles, budget = shown.look.tiles, shown.look.budget
    size = sum(tile.size for tile in tiles)
    goes = {name for step in shown.plan.steps for name in step.segments} if shown.plan else set()
    room = max(size, budget.limit if budget else 0)
    top = HEAD + BAR + 10
    box = Box(0, top, width, height - top - LEGEND)
    used, free = _split(box, max(size / room, MIN_USED) if size else 0.0)
    parts = [
        *_headline(shown, size, width),
        *_bar(shown.look, size, room, Box(0, HEAD, width, BAR)),
        *_treemap(tiles, shown.by, used, goes, shown.look.unit),
    ]
    if free.area > MIN_AREA:
        parts += [_rect(free.inset(1), "free"), *_label(free, f"free {room - size:,}", "muted")]
    parts += _legend(width, height - 8, shown.plan is not None)
    said = escape(_said(shown, size), quote=True)
    inner = f"<style>{style}</style>" if style else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="heap" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{said}">{inner}'
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="hatch0" width="6" height="6"/>'
        '<rect class="hatch1" width="2.4" height="6"/></pattern></defs>'
        f'<rect class="paper" width="{width}" height="{height}"/>{"".join(parts)}</svg>'
    )


def alone(shown: Shown, width: int) -> str:
    """Draw a heap with its style included, for a file."""
    return picture(shown, width, style=STYLE.read_text("utf-8"))


def _said(shown: Shown, size: int) -> str:
    parts = [f"{shown.title}: {size:,} {shown.look.unit}"]
    found = {share.name: share.size for share in shares(shown.look.tiles, lambda t: t.state)}
    parts += [f"{name} {found[state]:,}" for state, name in STATES.items() if found.get(state)]
    return clean(", ".join(parts))


def _headline(shown: Shown, size: int, width: float) -> Iterator[str]:
    budget, unit = shown.look.budget, shown.look.unit
    of = f" of {budget.limit:,}" if budget else ""
    left = f"{size:,}{of} {unit}"
    yield f'<text class="strong" x="0" y="16">{left}</text>'
    room = int((width - STRONG_CHAR * len(left) - 24) / CHAR)
    title = _cut(clean(shown.title), room)
    if title:
        yield f'<text class="muted" x="{width}" y="16" text-anchor="end">{escape(title)}</text>'


def _bar(look: Look, size: int, room: int, box: Box) -> Iterator[str]:
    """Draw how full the window is, by state, with the limits of its budget."""
    yield _rect(box, "track")
    if not room:
        return
    sizes = {share.name: share.size for share in shares(look.tiles, lambda tile: tile.state)}
    x = box.x
    for state in State:
        w = box.w * sizes.get(state, 0) / room
        if w > 0:
            yield _rect(Box(x, box.y, w, box.h), state)
        x += w
    yield from _lines(look.budget, size, room, box)


def _lines(budget: Budget | None, size: int, room: int, box: Box) -> Iterator[str]:
    if budget is None:
        return
    named = {"target": budget.target, "a collection starts": budget.soft_limit}
    if size > budget.limit:
        named["limit"] = budget.limit
    for what, at in named.items():
        x = box.x + box.w * min(at, room) / room
        yield (
            f'<path class="mark" d="M{x:.1f} {box.y - 3:.1f}v{box.h + 6:.1f}">'
            f"<title>{what}: {at:,}</title></path>"
        )


def _treemap(
    tiles: Sequence[Tile], by: By, box: Box, goes: Collection[str], unit: Unit
) -> Iterator[str]:
    sized = [tile for tile in tiles if tile.size > 0]
    found = shares(sized, lambda tile: tile.group(by))
    named = {share.name for share in found[: MAX_GROUPS - (len(found) > MAX_GROUPS)]}
    groups: dict[str, list[Tile]] = {}
    for tile in sized:
        group = tile.group(by)
        groups.setdefault(group if group in named else "\0", []).append(tile)
    order = sorted(groups.items(), key=lambda each: (-sum(t.size for t in each[1]), each[0]))
    boxes = squarified([sum(tile.size for tile in group) for _, group in order], box)
    titles = {"\0": "others", "": f"no {by}", **{str(s): name for s, name in STATES.items()}}
    for (name, members), place in zip(order, boxes, strict=True):
        yield from _group(clean(titles.get(name, name)), members, place, goes, unit)


def _group(
    name: str, tiles: list[Tile], box: Box, goes: Collection[str], unit: Unit
) -> Iterator[str]:
    size = sum(tile.size for tile in tiles)
    has_line = box.h > 2.5 * GROUP_LINE and box.w > 40
    inner = box.inset(GAP, GROUP_LINE if has_line else 0.0)
    yield f'<g class="group"><title>{escape(name)}: {size:,} {unit}</title>'
    yield _rect(box.inset(1), "frame")
    if has_line:
        room = int((box.w - 10) / CHAR)
        full = f"{name} {size:,}"
        text = escape(full if len(full) <= room else _cut(name, room))
        yield f'<text class="name" x="{box.x + 5:.1f}" y="{box.y + 14:.1f}">{text}</text>'
    yield "</g>"
    drawn = _drawn(tiles, inner.area, goes)
    for each, place in zip(drawn, squarified([d.size for d in drawn], inner), strict=True):
        yield from each.svg(place.inset(0.5), unit)


class _Drawn(NamedTuple):
    """One tile, or many small ones of one state."""

    size: int
    state: State
    goes: bool
    name: str
    said: str
    """The tooltip."""
    label: str

    def svg(self, box: Box, unit: Unit) -> Iterator[str]:
        kind = f"tile {self.state}{' goes' if self.goes else ''}"
        named = f' data-name="{escape(clean(self.name), quote=True)}"' if self.name else ""
        said = escape(clean(f"{self.size:,} {unit} · {self.said}"))
        yield f'<g class="{kind}"{named}><title>{said}</title>{_rect(box, "")}'
        yield from _label(box, self.label, "")
        yield "</g>"


def _drawn(tiles: list[Tile], area: float, goes: Collection[str]) -> list[_Drawn]:
    """Draw the largest tiles separately, and merge the rest of each state."""
    scale = area / sum(tile.size for tile in tiles)
    order = sorted(tiles, key=lambda tile: (-tile.size, tile.name))
    most = max(4, int(area / AREA_PER_TILE))
    groups: dict[tuple[State, bool, int], list[Tile]] = {}
    for n, tile in enumerate(order):
        is_small = n >= most or tile.size * scale < MIN_AREA
        groups.setdefault((tile.state, tile.name in goes, 0 if is_small else n + 1), []).append(
            tile
        )
    found: list[_Drawn] = []
    for (state, going, _), few in groups.items():
        tile, size = few[0], sum(tile.size for tile in few)
        if len(few) == 1:
            said = f"{tile.name or tile.kind} · {STATES[state]}: {tile.reason}"
            found.append(_Drawn(size, state, going, tile.name, said, tile.label or tile.name))
        else:
            said = f"{len(few):,} small ones · {STATES[state]}"
            found.append(_Drawn(size, state, going, "", said, f"{len(few):,} small"))
    return sorted(found, key=lambda each: (-each.size, each.state, each.name))


def _legend(width: float, y: float, has_plan: bool) -> Iterator[str]:
    x = 0.0
    names = [(str(state), name) for state, name in STATES.items()]
    names += [("goes", "would go")] if has_plan else []
    for kind, name in names:
        if x + 20 + CHAR * len(name) > width:
            return
        swatch = _rect(Box(x, y - 10, 11, 11), "")
        yield f'<g class="tile {"garbage " if kind == "goes" else ""}{kind}">{swatch}</g>'
        yield f'<text class="muted" x="{x + 16:.1f}" y="{y:.1f}">{name}</text>'
        x += 34 + CHAR * len(name)


def _label(box: Box, text: str, kind: str) -> Iterator[str]:
    room = int((box.w - 8) / CHAR)
    if box.h >= 15 and room >= 4 and text:
        shown = escape(_cut(clean(text), room))
        place = f'x="{box.x + 4:.1f}" y="{box.y + 12.5:.1f}"'
        yield f"<text{f' class={kind!r}' if kind else ''} {place}>{shown}</text>".replace("'", '"')


def _rect(box: Box, kind: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return (
        f'<rect{named} x="{box.x:.1f}" y="{box.y:.1f}" '
        f'width="{max(0.0, box.w):.1f}" height="{max(0.0, box.h):.1f}"/>'
    )


def _split(box: Box, share: float) -> tuple[Box, Box]:
    """Cut a box in two, across its longer side."""
    if box.w >= box.h:
        w = box.w * share
        return Box(box.x, box.y, w, box.h), Box(box.x + w, box.y, box.w - w, box.h)
    h = box.h * share
    return Box(box.x, box.y, box.w, h), Box(box.x, box.y + h, box.w, box.h - h)


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    return f"{text[: room - 1]}…" if room > 1 else ""


def clean(text: str) -> str:
    """Replace what XML must not contain: control characters and lone surrogates."""
    return _NOT_XML.sub("�", text)


def squarified(sizes: Sequence[int], box: Box) -> list[Box]:
    """Fill a box with one box for each size, as square as possible. Sizes are largest first."""
    total = sum(sizes)
    if not total or box.area <= 0:
        return [Box(box.x, box.y, 0, 0) for _ in sizes]
    areas = [size * box.area / total for size in sizes]
    placed: list[Box] = []
    start = 0
    while start < len(areas):
        side = min(box.w, box.h)
        end, row = start + 1, areas[start]
        while end < len(areas) and _worst(areas, start, end + 1, row + areas[end], side) <= _worst(
            areas, start, end, row, side
        ):
            row += areas[end]
            end += 1
        depth = row / side if side else 0.0
        at = 0.0
        for area in areas[start:end]:
            long = area / depth if depth else 0.0
            if box.w >= box.h:
                placed.append(Box(box.x, box.y + at, depth, long))
            else:
                placed.append(Box(box.x + at, box.y, long, depth))
            at += long
        if box.w >= box.h:
            box = Box(box.x + depth, box.y, max(0.0, box.w - depth), box.h)
        else:
            box = Box(box.x, box.y + depth, box.w, max(0.0, box.h - depth))
        start = end
    return placed


def _worst(areas: Sequence[float], start: int, end: int, row: float, side: float) -> float:
    """Return the worst aspect ratio in a row of boxes along a side."""
    if not row or not side:
        return float("inf")
    square = side * side / (row * row)
    least = areas[end - 1]
    return max(square * areas[start], 1 / (square * least) if least else float("inf"))
