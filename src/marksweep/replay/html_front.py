"""The picture of the front: need recall against priced cost, one line per strategy, as SVG."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from marksweep.replay import catalog
from marksweep.replay.catalog import CLAIRVOYANT
from marksweep.replay.recommend import Recommendation
from marksweep.replay.table import Result, Row

MAX_COLOURS = 5
"""Colours for strategies that can be used; references are grey, and differ in shape."""
SHAPES = ("circle", "square", "triangle", "diamond", "cross")
NARROW_PIXELS = 500
"""Pixels up to which a picture has no room for names; the legend has them."""
LABEL_ROOM = 230
"""Pixels that names may take at most, beside the picture."""
LABEL_CHARS = 30
"""Characters of a name that fit there."""
LINE_HEIGHT = 15.0
"""Pixels between two labels, at least."""


class Frame(NamedTuple):
    """The size of a picture and the values at its edges."""

    width: int
    height: int
    left: int
    right: int
    low: float
    """Recall at the bottom; 100 at the top."""
    cheap: float
    dear: float

    def x(self, cost: float) -> float:
        """The x coordinate of a cost."""
        room = self.width - self.left - self.right
        return round(self.left + (cost - self.cheap) / (self.dear - self.cheap) * room, 1)

    def y(self, recall: float) -> float:
        """The y coordinate of a recall."""
        return round(20 + (100 - recall) / (100 - self.low) * (self.height - 64), 1)


class Mark(NamedTuple):
    """How a strategy is drawn."""

    style: str
    shape: str


def marks(result: Result) -> dict[str, Mark]:
    """Assign each strategy a colour and a shape, in the order of the table."""
    names = list(dict.fromkeys(row.strategy for row in result.rows))
    usable = sorted((n for n in names if catalog.is_usable(n)), key=_fixed)
    others = [n for n in names if n not in usable and n != CLAIRVOYANT]
    drawn = {
        name: Mark(f"s{at % MAX_COLOURS + 1}", SHAPES[at // MAX_COLOURS % len(SHAPES)])
        for at, name in enumerate(usable)
    }
    drawn |= {name: Mark("ref", SHAPES[1 + at % 4]) for at, name in enumerate(others)}
    if CLAIRVOYANT in names:
        drawn[CLAIRVOYANT] = Mark("bound", "circle")
    return drawn


def _fixed(name: str) -> tuple[int, str]:
    """Known strategies keep their colour whatever else is replayed."""
    order = (catalog.ECONOMY, catalog.QUALITY, catalog.TRUNCATE, "mask last 10", "coverage")
    return (order.index(name) if name in order else len(order), name)


def picture(result: Result, chosen: Recommendation | None, *, width: int, height: int) -> str:
    """Draw the front for a screen of this width."""
    rows = drawn(result)
    frame = _frame(rows, width, height)
    looks = marks(result)
    lines = [
        _line([row for row in rows if row.strategy == name], mark, frame)
        for name, mark in reversed(looks.items())
    ]
    title = "Need recall against priced cost, per strategy and budget"
    best = " ".join(f"{frame.x(row.cost)},{frame.y(row.recall)}" for row in front(rows))
    body = [_grid(frame), f'<polyline class="pareto" points="{best}"/>', *lines]
    if chosen:
        row = result.row(chosen.strategy, chosen.budget)
        x, y = frame.x(row.cost), frame.y(row.recall)
        body.append(f'<circle class="ring" cx="{x}" cy="{y}" r="10"/>')
    body.append(_labels(rows, looks, frame))
    return (
        f'<svg class="front w{width}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{title}">{"".join(body)}</svg>'
    )


def drawn(result: Result) -> list[Row]:
    """The rows that the picture shows: a strategy that broke rules has no place on it."""
    bad = {row.strategy for row in result.rows if row.violations}
    return [row for row in result.rows if row.strategy not in bad]


def symbol(mark: Mark) -> str:
    """Draw a strategy's mark for a legend or a table."""
    return (
        '<svg class="key" viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true">'
        f'<g class="{mark.style}">{_shape(mark.shape, 0, 0)}</g></svg>'
    )


def front(rows: Sequence[Row]) -> list[Row]:
    """The rows that no other online row beats in both recall and cost, cheapest first."""
    online = [row for row in rows if row.strategy != CLAIRVOYANT and not row.violations]
    best: list[Row] = []
    for row in sorted(online, key=lambda r: (r.cost, -r.recall)):
        if not best or row.recall > best[-1].recall:
            best.append(row)
    return best


def _frame(rows: Sequence[Row], width: int, height: int) -> Frame:
    costs = [row.cost for row in rows] + [1.0]
    low = max(0.0, 10 * math.floor(min(row.recall for row in rows) / 10 - 0.2))
    cheap = max(0.0, math.floor(10 * min(costs) - 0.5) / 10)
    dear = math.ceil(10 * max(costs) + 0.5) / 10
    longest = max(len(row.strategy) for row in rows)
    right = min(LABEL_ROOM, int(28 + 7.6 * longest)) if width > NARROW_PIXELS else 16
    return Frame(width, height, 40, right, min(low, 90.0), cheap, dear)


def _grid(frame: Frame) -> str:
    out = []
    step = 10 if frame.low >= 40 else 20
    for recall in range(int(math.ceil(frame.low / step) * step), 101, step):
        y = frame.y(recall)
        out.append(f'<path class="grid" d="M{frame.left} {y}H{frame.width - frame.right}"/>')
        out.append(f'<text x="{frame.left - 6}" y="{y + 4}" text-anchor="end">{recall}</text>')
    bottom = frame.height - 44
    span = frame.dear - frame.cheap
    tick = next(t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 100) if span / t <= frame.width / 70)
    at = math.ceil(frame.cheap / tick - 1e-9) * tick
    while at <= frame.dear + 1e-9:
        x = frame.x(at)
        out.append(f'<path class="grid" d="M{x} {bottom}v5"/>')
        out.append(f'<text x="{x}" y="{bottom + 19}" text-anchor="middle">{at:.1f}</text>')
        at += tick
    x = frame.x(1.0)
    out.append(f'<path class="one" d="M{x} 20V{bottom}"/>')
    out.append(f'<path class="axis" d="M{frame.left} {bottom}H{frame.width - frame.right}"/>')
    middle = (frame.left + frame.width - frame.right) / 2
    out.append(
        f'<text class="name" x="{middle}" y="{frame.height - 6}" text-anchor="middle">'
        "priced cost, 1.0 = no collection  (cheaper ←)</text>"
        '<text class="name" x="4" y="11">need recall, %</text>'
    )
    return "".join(out)


def _line(rows: Sequence[Row], mark: Mark, frame: Frame) -> str:
    points = [(frame.x(row.cost), frame.y(row.recall)) for row in rows]
    path = " ".join(f"{x},{y}" for x, y in points)
    dots = [
        f"<g>{_shape(mark.shape, x, y)}<title>{escape(row.strategy)} at {escape(row.budget)}: "
        f"recall {row.recall:.1f} %, cost {row.cost:.2f}</title></g>"
        for row, (x, y) in zip(rows, points, strict=True)
    ]
    return f'<g class="{mark.style}"><polyline points="{path}"/>{"".join(dots)}</g>'


def _labels(rows: Sequence[Row], looks: dict[str, Mark], frame: Frame) -> str:
    """Name each line at its end, on wide pictures, moved so that they do not overlap."""
    if frame.width <= NARROW_PIXELS:
        return ""
    ends = []
    for name, mark in looks.items():
        own = [row for row in rows if row.strategy == name]
        if own:
            ends.append((frame.y(own[-1].recall), frame.x(own[-1].cost), name, mark))
    ends.sort(key=lambda end: (end[0], end[1]))
    places: list[float] = []
    for y, *_ in ends:
        places.append(max(y, places[-1] + LINE_HEIGHT) if places else y)
    over = max(0.0, places[-1] - (frame.height - 48)) if places else 0.0
    x = frame.width - frame.right + 12
    out = []
    for (y, end, name, mark), place in zip(ends, places, strict=True):
        at = place - over
        out.append(f'<path class="lead" d="M{end + 7} {y}L{x - 3} {at:.1f}"/>')
        out.append(
            f'<text class="label {mark.style}" x="{x}" y="{at + 4:.1f}">'
            f"{escape(_short(name))}</text>"
        )
    return "".join(out)


def _short(name: str) -> str:
    return name if len(name) <= LABEL_CHARS else name[: LABEL_CHARS - 1] + "…"


def wrapped(name: str) -> str:
    """A name as HTML that may break where its parts meet."""
    return re.sub(r"([+:,._])", r"\1<wbr>", escape(name))


def _shape(shape: str, x: float, y: float) -> str:
    if shape == "circle":
        return f'<circle cx="{x}" cy="{y}" r="4.5"/>'
    path = {
        "square": "m-4-4h8v8h-8z",
        "triangle": "m0-5l5 9h-10z",
        "diamond": "m0-5.5l5.5 5.5l-5.5 5.5l-5.5-5.5z",
        "cross": "m-4.5-4.5l9 9m0-9l-9 9",
    }[shape]
    return f'<path d="M{x} {y}{path}"/>'
