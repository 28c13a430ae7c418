"""The report as one HTML file: opens offline, refers to nothing outside itself.

    page(result, chosen, timelines)

The recommended setting, the front as a picture, the figures as a table, the timelines, and what
was and was not replayed. report.js draws the timelines from the data in the page, and report.css is
its style. Same input, same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import msgspec

from marksweep.money import dollars
from marksweep.replay import catalog
from marksweep.replay.catalog import CLAIRVOYANT
from marksweep.replay.html_front import Mark, drawn, front, marks, picture, symbol, wrapped
from marksweep.replay.recommend import Recommendation, gap_text
from marksweep.replay.table import EvidenceRow, Result, Row
from marksweep.replay.timeline import Timeline, most_missed

STYLE, SCRIPT = Path(__file__).with_name("report.css"), Path(__file__).with_name("report.js")

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""What the page may load: nothing. A browser enforces it."""


def page(result: Result, chosen: Recommendation | None, timelines: Sequence[Timeline] = ()) -> str:
    """Write the whole report."""
    body = [_head(result)]
    if result.rows:
        body += [_recommended(result, chosen), _front(result, chosen), _figures(result)]
    if result.evidence:
        body.append(_evidence(result))
    if timelines:
        body += [_timelines(timelines), _changed(timelines[0])]
    body.append(_about(result))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>marksweep replay</title>
<style>{STYLE.read_text("utf-8")}</style>
</head>
<body>
<main>
{"".join(body)}
</main>
<script>{SCRIPT.read_text("utf-8")}</script>
</body>
</html>
"""


def _head(result: Result) -> str:
    needs = sum(line.need_steps for line in result.transcripts)
    steps = sum(line.steps for line in result.transcripts)
    replayed = len(result.transcripts)
    count = "One transcript" if replayed == 1 else f"{replayed:,} transcripts"
    return f"""<header>
<h1>What stays, what is missed, what it costs</h1>
<p>{count} with {result.tokens:,} tokens replayed. Of {steps:,} steps,
 {needs:,} used something from before. The figures say whether that was still in
 context; not whether the agent did its task.</p>
</header>
"""


def _section(name: str, title: str, body: str) -> str:
    return f"""<section id="{name}" aria-labelledby="h-{name}">
<h2 id="h-{name}">{title}</h2>
{body}
</section>
"""


def _table(within: str, heads: Sequence[str], body: str) -> str:
    """A table that scrolls, if it has to, within its section."""
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return f"""<div class="scroll" tabindex="0" role="region" aria-labelledby="h-{within}">
<table class="figures"><thead><tr>{columns}</tr></thead>{body}</table>
</div>"""


def _row(name: str, *cells: str) -> str:
    """A row of a table: its name as HTML, and its cells."""
    return f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _recommended(result: Result, chosen: Recommendation | None) -> str:
    if chosen is None:
        nothing = (
            "<p>None of the strategies that were replayed can be recommended: they are references, "
            "or broke a rule.</p>"
        )
        return _section("recommended", "Recommended", nothing)
    floor = result.row(catalog.TRUNCATE, chosen.budget)
    ceiling = result.row(CLAIRVOYANT, chosen.budget)
    row = result.row(chosen.strategy, chosen.budget)
    gap = "no room" if chosen.gap is None else f"{chosen.gap:.0f}<small> %</small>"
    tuning = (
        "<p>Or let the project's settings say it, with these figures as comments:</p>"
        + _code(chosen.command, "Command that writes the recommended setting")
        if catalog.settings_for(chosen.strategy) is not None
        else ""
    )
    body = f"""<p class="choice">{wrapped(chosen.strategy)} <span>at {escape(chosen.budget)}, about
 {chosen.limit_tokens:,} tokens</span></p>
<dl class="tiles">
<div><dt>Recall</dt><dd>{chosen.recall:.1f}<small> %</small></dd>
<dd class="beside">truncate {floor.recall:.1f}, clairvoyant {ceiling.recall:.1f}</dd></div>
<div><dt>Cost</dt><dd>{chosen.cost:.2f}<small> ×</small></dd>
<dd class="beside">of no collection; truncate {floor.cost:.2f}</dd></div>
<div><dt>Money</dt><dd>{dollars(row.dollars)}</dd>
<dd class="beside">for all input; without collection {dollars(result.dollars_uncollected)}</dd>
</div>
<div><dt>Gap closed</dt><dd>{gap}</dd>
<dd class="beside">of the way from truncation to the clairvoyant</dd></div>
</dl>
<p>Why: {escape(chosen.reason).replace(" %", "&nbsp;%")}. It rewrites the beginning of the prompt
 on {row.rewrites:.0f}&nbsp;% of the requests after the limit is reached.</p>
<p class="fine">Money: {escape(str(result.price))}; what is not cached is written to the cache.</p>
{_code(chosen.code, "Code to use the recommended setting")}
{tuning}"""
    return _section("recommended", "Recommended", body)


def _changed(timeline: Timeline) -> str:
    """The largest cuts of one transcript, before and after, and what was missed most."""
    cuts = "".join(
        f"<figure class='cut'><figcaption>Step {cut.step + 1}: message {cut.at} "
        f"({escape(cut.role)}), {cut.tokens:,} tokens</figcaption>"
        f'<div class="code"><pre tabindex="0" aria-label="Before">{escape(cut.before)}</pre></div>'
        f'<div class="code"><pre tabindex="0" aria-label="After">'
        f"{escape(cut.after) or '(removed whole)'}</pre></div></figure>"
        for cut in timeline.cuts
    )
    missed = "".join(
        f"<li><code>{escape(atom)}</code> at {steps} step{'s' if steps > 1 else ''}</li>"
        for atom, steps in most_missed(timeline)
    )
    body = f"""<p>{wrapped(timeline.strategy)} on {wrapped(timeline.transcript)}, the transcript
 that missed most: the largest cuts, before and after.</p>
{cuts or "<p>Nothing was cut.</p>"}
<h3>What the agent missed most</h3>
{f'<ul class="plain">{missed}</ul>' if missed else "<p>Nothing was missed.</p>"}"""
    return _section("changed", "What went, and what the model saw in its place", body)


def _code(text: str, label: str) -> str:
    return (
        '<div class="code"><button type="button" class="copy">Copy</button>'
        f'<pre tabindex="0" aria-label="{label}"><code>{escape(text)}</code></pre></div>'
    )


def _front(result: Result, chosen: Recommendation | None) -> str:
    shown = {row.strategy for row in drawn(result)}
    items = "".join(
        f"<li>{symbol(mark)}{wrapped(name)}</li>"
        for name, mark in marks(result).items()
        if name in shown
    )
    ring = "<li><span class='ringkey' aria-hidden='true'></span>recommended</li>" if chosen else ""
    body = f"""<p>Up and to the left is better. Each line is a strategy, each mark one of its
 budgets, the smallest first. The wide band joins the settings that none beats in both.</p>
<figure>
{picture(result, chosen, width=860, height=440)}
{picture(result, chosen, width=360, height=380)}
<ul class="legend names">{items}{ring}</ul>
</figure>"""
    return _section("front", "Recall against cost", body)


def _figures(result: Result) -> str:
    looks = marks(result)
    best = {(row.strategy, row.budget) for row in front(result.rows)}
    timed = any(row.times for row in result.rows)
    heads = ["strategy", "recall", "cost", "gap closed", "any", "src", "÷ truncate", "churn"]
    heads += ["rewritten", "money"]
    heads += ["ms"] if timed else []
    heads.append("violations")
    groups = "".join(
        f'<tbody><tr class="group"><th colspan="{len(heads)}" scope="rowgroup">'
        f"{escape(bound.budget)} <span>{bound.limit:,} tokens in the middle transcript; bound "
        f"{bound.how}</span></th></tr>"
        + "".join(
            _figure(
                row, looks[row.strategy], timed=timed, on_front=(row.strategy, row.budget) in best
            )
            for row in sorted(
                (r for r in result.rows if r.budget == bound.budget), key=lambda r: -r.recall
            )
        )
        + "</tbody>"
        for bound in result.bounds
    )
    body = f"""{_table("figures", heads, groups)}
{_failures(result)}
<p class="fine">Recall is the mean of <i>any</i> (the agent's own words count as a source) and
 <i>src</i> (only what it was shown counts). Gap closed: 0 is truncation, 100 is the best that
 dropping whole messages can do knowing the future, with a 95 % interval over transcripts. Cost:
 uncached tokens at 1, cached at 0.1, as a ratio to no collection. Churn: old tokens read again
 per step.
 ★ none is better in both recall and cost.</p>"""
    return _section("figures", "Figures", body)


def _failures(result: Result) -> str:
    """Who broke a rule or failed, and where first."""
    rows: tuple[Row | EvidenceRow, ...] = (*result.rows, *result.evidence)
    items = "".join(
        f"<li><b>{wrapped(row.strategy)} at {escape(row.budget)}</b> "
        f"<small>{escape(said)}</small></li>"
        for row in rows
        for said in row.failures
    )
    return f'<h3 class="broken">Rules broken</h3><ul class="plain">{items}</ul>' if items else ""


def _figure(row: Row, mark: Mark, *, timed: bool, on_front: bool) -> str:
    broken = ", ".join(f"{escape(name)} {count}" for name, count in row.violations.items())
    interval = f" <small>[{row.gap_low:.0f}, {row.gap_high:.0f}]</small>"
    has_spread = row.gap is not None and row.gap_low < row.gap_high
    gap = gap_text(row) + (interval if has_spread else "")
    star = ' <span class="star" title="none is better in both recall and cost">★</span>'
    cells = [
        f'<td class="bar" style="--share:{row.recall:.1f}%">{row.recall:.1f}</td>',
        f"<td>{row.cost:.2f}</td><td>{gap}</td>",
        f"<td>{row.recall_any:.0f}</td><td>{row.recall_src:.0f}</td>",
        f"<td>{row.cost_to_truncate:.2f}</td><td>{row.churn:,.0f}</td>",
        f"<td>{row.rewrites:.0f}&nbsp;%</td><td>{dollars(row.dollars)}</td>",
    ]
    if timed:
        cells.append(f"<td>{row.times.mean:.1f}</td>" if row.times else "<td></td>")
    cells.append(f'<td class="broken">{broken}</td>' if broken else "<td>none</td>")
    name = f"{symbol(mark)}{wrapped(row.strategy)}{star if on_front else ''}"
    return f'<tr><th scope="row">{name}</th>{"".join(cells)}</tr>'


def _evidence(result: Result) -> str:
    heads = ("strategy", "budget", "in context, %", "with recall, %", "questions")
    rows = "".join(
        _row(
            escape(row.strategy),
            escape(row.budget),
            f"{row.blind:.1f}",
            "–" if row.recalled is None else f"{row.recalled:.1f}",
            f"{row.questions:,}",
        )
        for row in result.evidence
    )
    body = _table("evidence", heads, f"<tbody>{rows}</tbody>")
    return _section("evidence", "Evidence for questions", body)


def _timelines(timelines: Sequence[Timeline]) -> str:
    options = "".join(
        f'<option value="timeline-{n}">{escape(t.transcript)} · {escape(t.strategy)} at '
        f"{escape(t.budget)}</option>"
        for n, t in enumerate(timelines)
    )
    boxes = "".join(
        f'<div class="timeline" id="timeline-{n}"{" hidden" if n else ""}>'
        f'<script type="application/json">{_data(timeline)}</script></div>'
        for n, timeline in enumerate(timelines)
    )
    body = f"""<p><label for="which">Transcript and strategy</label>
 <select id="which">{options}</select></p>
{boxes}"""
    return _section("timeline", "Timeline", body)


def _data(timeline: Timeline) -> str:
    """The timeline for the script; no `<` can end its element."""
    return msgspec.json.encode(timeline).decode().replace("<", "\\u003c")


def _about(result: Result) -> str:
    rows = "".join(
        _row(
            escape(line.name),
            *(f"{n:,}" for n in (line.messages, line.tokens, line.steps, line.need_steps)),
        )
        for line in result.transcripts
    )
    heads = ("name", "messages", "tokens", "steps", "with needs")
    passed = "".join(
        f"<li><code>{escape(each.name)}</code> {escape(each.reason)}</li>" for each in result.passed
    )
    skipped = (
        f"<details><summary>{len(result.passed):,} skipped, with reasons</summary>"
        f"<ul>{passed}</ul></details>"
        if passed
        else ""
    )
    body = f"""<details><summary>{len(result.transcripts):,} replayed</summary>
{_table("transcripts", heads, f"<tbody>{rows}</tbody>")}</details>
{skipped}
<p class="fine">Atoms found by the extractor <code>{escape(result.extractor)}</code>. This
 file holds excerpts of your transcripts; nothing was sent anywhere to make it, and it loads
 nothing.</p>"""
    return _section("transcripts", "Transcripts", body)
