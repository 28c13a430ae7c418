"""The timeline of a transcript as HTML: its size at each step, the lives of its messages, misses.

Everything is there without a script; the script only moves the cursor from step to step.
"""

from __future__ import annotations

from html import escape

import msgspec

from marksweep.replay.timeline import Life, Missed, Moment, State, Timeline

ROW_PIXELS = 7
"""Pixels of a message's row, where there are few enough."""
MAX_HEIGHT = 460
"""Pixels that all rows may take."""
MIN_MARK_PIXELS = 5
"""Pixels that the mark of a miss has, at least, to be seen among thin rows."""
MAX_DROPPED = 12
"""Messages named among those that went at a step, here and in the script."""
MAX_MISSES = 200
"""Misses listed in the table."""


def section(timeline: Timeline, number: int) -> str:
    """One timeline, with its own cursor; all but the first wait to be chosen."""
    moments = timeline.moments
    start = next((k for k, moment in enumerate(moments) if moment.missed), len(moments) - 1)
    misses = sum(len(moment.missed) for moment in moments)
    hidden = " hidden" if number else ""
    return f"""<div class="timeline" id="timeline-{number}"{hidden}>
<p class="facts"><b>{escape(timeline.strategy)}</b> at {escape(timeline.budget)}:
 {timeline.limit:,} tokens, {timeline.pinned:,} of them pinned · {len(moments)} steps ·
 {len(timeline.lives)} messages · {_plural(misses, "miss", "misses")}</p>
<figure>
<figcaption>Tokens in context at each step; the line is the limit</figcaption>
{_sizes(timeline, start)}
<figcaption>Each row is a message, oldest on top; a bar is while it was in context</figcaption>
{_lives(timeline, start)}
<div class="cursor">
<button type="button" data-go="-1">‹ miss</button>
<input type="range" min="1" max="{len(moments)}" value="{start + 1}" aria-label="Step">
<button type="button" data-go="1">miss ›</button>
</div>
{_legend()}
</figure>
<div class="moment" aria-live="polite">{moment_html(timeline, start)}</div>
{_misses(timeline, misses)}
<script type="application/json">{_data(timeline)}</script>
</div>"""


def _sizes(timeline: Timeline, start: int) -> str:
    moments = timeline.moments
    top = max([timeline.limit, *(moment.tokens for moment in moments)]) * 1.05 or 1
    bars = "".join(
        f'<rect class="{"bad" if m.missed or m.violation else "size"}" x="{k + 0.08:g}" '
        f'y="{100 - 100 * m.tokens / top:.2f}" width="0.84" height="{100 * m.tokens / top:.2f}"/>'
        for k, m in enumerate(moments)
    )
    line = 100 - 100 * timeline.limit / top
    return (
        f'<svg class="steps sizes" viewBox="0 0 {len(moments)} 100" preserveAspectRatio="none" '
        f'role="img" aria-label="Tokens in context at each step">{bars}'
        f'<path class="limit" d="M0 {line:.2f}H{len(moments)}"/>{_cursor(start, 100)}</svg>'
    )


def _lives(timeline: Timeline, start: int) -> str:
    rows = {life.at: row for row, life in enumerate(timeline.lives)}
    height = min(MAX_HEIGHT, ROW_PIXELS * max(8, len(rows)))
    tall = max(1.2, MIN_MARK_PIXELS * len(rows) / height)
    bars = "".join(_life(life, row) for row, life in enumerate(timeline.lives))
    lost = "".join(
        _lost(miss, k, rows[miss.source], tall)
        for k, moment in enumerate(timeline.moments)
        for miss in moment.missed
        if miss.source in rows
    )
    return (
        f'<svg class="steps lives" viewBox="0 0 {len(timeline.moments)} {len(rows)}" '
        f'style="height:{height}px" preserveAspectRatio="none" role="img" '
        f'aria-label="When each message was in context">{bars}{lost}'
        f"{_cursor(start, len(rows))}</svg>"
    )


def _life(life: Life, row: int) -> str:
    role = life.role if life.role in ("user", "assistant", "tool") else "user"
    return "".join(
        f'<rect class="{role}{" part" if span.state is State.PART else ""}" x="{span.first}" '
        f'y="{row + 0.08:g}" width="{span.last - span.first + 1}" height="0.84"/>'
        for span in life.spans
    )


def _lost(miss: Missed, k: int, row: int, tall: float) -> str:
    since = (
        ""
        if miss.last_seen is None
        else f'<path class="gone" d="M{miss.last_seen + 1} {row + 0.5}H{k}"/>'
    )
    top = row + 0.5 - tall / 2
    return (
        f'{since}<rect class="lost" x="{k + 0.1:g}" y="{top:.2f}" width="0.8" height="{tall:.2f}"/>'
    )


def _cursor(start: int, height: int) -> str:
    return f'<rect class="now" x="{start}" y="0" width="1" height="{height}"/>'


def _legend() -> str:
    kinds = (
        ("user", "user"),
        ("assistant", "agent"),
        ("tool", "tool result"),
        ("tool part", "in part"),
        ("lost", "missed"),
    )
    items = "".join(
        f'<li><svg class="key" viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">'
        f'<rect class="{style}" width="14" height="14"/></svg>{name}</li>'
        for style, name in kinds
    )
    return f'<ul class="legend">{items}</ul>'


def moment_html(timeline: Timeline, k: int) -> str:
    """One step as text; the script writes the same for others."""
    moment = timeline.moments[k]
    lives = {life.at: life for life in timeline.lives}
    held = [s.state for life in timeline.lives for s in life.spans if s.first <= k <= s.last]
    known = sum(1 for life in timeline.lives if life.at < moment.at)
    whole = held.count(State.WHOLE)
    part = len(held) - whole
    recall = "nothing from before" if moment.recall is None else f"{moment.recall:.0f} % was there"
    notes = f" · {moment.notes:,} tokens of notes" if moment.notes else ""
    broken = (
        f'<p class="miss"><b>Rule broken:</b> {escape(moment.violation)}</p>'
        if moment.violation
        else ""
    )
    return (
        f"<h3>Step {k + 1} of {len(timeline.moments)}</h3>"
        f'<p class="action"><code>{escape(moment.action)}</code></p>'
        f"<p>{moment.tokens:,} of {timeline.limit:,} tokens · {whole} whole, {part} in part, "
        f"{max(0, known - whole - part)} gone{notes} · needed: {recall}</p>{broken}"
        f"{_missed_list(moment, lives)}{_dropped_list(moment, lives)}"
    )


def _missed_list(moment: Moment, lives: dict[int, Life]) -> str:
    items = "".join(
        f'<li class="miss"><b>Missed</b> {_atoms(miss)} <small>{_from(miss, lives)}; '
        f"{_seen(miss)}</small></li>"
        for miss in moment.missed
    )
    return f"<ul>{items}</ul>" if items else ""


def _dropped_list(moment: Moment, lives: dict[int, Life]) -> str:
    dropped = [lives[m] for m in moment.dropped if m in lives]
    items = [
        f"<li><b>Dropped</b> {escape(life.role)}, {life.tokens:,} tokens "
        f"<small>{escape(life.text[:90])}</small></li>"
        for life in dropped[:MAX_DROPPED]
    ]
    if len(dropped) > MAX_DROPPED:
        items.append(f"<li>and {len(dropped) - MAX_DROPPED} more</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _misses(timeline: Timeline, count: int) -> str:
    if not count:
        return "<p>Nothing was missed.</p>"
    lives = {life.at: life for life in timeline.lives}
    every = [(k, miss) for k, moment in enumerate(timeline.moments) for miss in moment.missed]
    rows = "".join(
        f'<tr><td data-label="step">{k + 1}</td><td data-label="needed">{_atoms(miss)}</td>'
        f'<td data-label="from">{_from(miss, lives)}</td>'
        f'<td data-label="last in context">{_seen(miss)}</td></tr>'
        for k, miss in every[:MAX_MISSES]
    )
    more = (
        f"<p>{len(every) - MAX_MISSES} more are in the JSON.</p>" if len(every) > MAX_MISSES else ""
    )
    return (
        f"<details><summary>All {_plural(count, 'miss', 'misses')} as a table</summary>"
        '<table class="stack"><thead><tr><th>step</th><th>needed</th><th>from</th>'
        f"<th>last in context</th></tr></thead><tbody>{rows}</tbody></table>{more}</details>"
    )


def _atoms(miss: Missed) -> str:
    named = " ".join(f"<code>{escape(atom)}</code>" for atom in miss.atoms)
    return f"{named} and {miss.more} more" if miss.more else named


def _from(miss: Missed, lives: dict[int, Life]) -> str:
    life = lives.get(miss.source)
    return f"message {miss.source}" + (f" ({life.role}, {life.tokens:,} tokens)" if life else "")


def _seen(miss: Missed) -> str:
    return (
        "never in context"
        if miss.last_seen is None
        else f"last in context at step {miss.last_seen + 1}"
    )


def _data(timeline: Timeline) -> str:
    """The timeline for the script; no `<` can end its element."""
    return msgspec.json.encode(timeline).decode().replace("<", "\\u003c")


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
