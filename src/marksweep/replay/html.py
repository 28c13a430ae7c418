"""The report as one HTML file: opens offline, refers to nothing outside itself.

    page(result, chosen, timelines)

The recommended setting, the front as a picture, the figures as a table, the timelines, and what
was and was not replayed. Same input, same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from marksweep.money import dollars
from marksweep.replay import catalog
from marksweep.replay.catalog import CLAIRVOYANT
from marksweep.replay.html_front import Mark, drawn, front, marks, picture, symbol, wrapped
from marksweep.replay.html_style import SCRIPT, STYLE
from marksweep.replay.html_timeline import section
from marksweep.replay.recommend import Recommendation, gap_text
from marksweep.replay.table import Result, Row
from marksweep.replay.timeline import Timeline, most_missed

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""What the page may load: nothing. A browser enforces it."""


def page(result: Result, chosen: Recommendation | None, timelines: Sequence[Timeline] = ()) -> str:
    """Write the whole report."""
    body = [_head(result)]
    if result.rows:
        body += [_recommended(result, chosen), _front(result, chosen), _table(result)]
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
<style>{STYLE}</style>
</head>
<body>
<main>
{"".join(body)}
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _head(result: Result) -> str:
    needs = sum(line.need_steps for line in result.transcripts)
    steps = sum(line.steps for line in result.transcripts)
    return f"""<header>
<h1>What stays, what is missed, what it costs</h1>
<p>{_counted(len(result.transcripts))} with {result.tokens:,} tokens replayed. Of {steps:,} steps,
 {needs:,} used something from before. The figures say whether that was still in
 context; not whether the agent did its task.</p>
</header>
"""


def _counted(transcripts: int) -> str:
    return "One transcript" if transcripts == 1 else f"{transcripts:,} transcripts"


def _recommended(result: Result, chosen: Recommendation | None) -> str:
    if chosen is None:
        return (
            '<section id="recommended"><h2>Recommended</h2><p>None of the strategies that were '
            "replayed can be recommended: they are references, or broke a rule.</p></section>\n"
        )
    floor = result.row(catalog.TRUNCATE, chosen.budget)
    ceiling = result.row(CLAIRVOYANT, chosen.budget)
    row = result.row(chosen.strategy, chosen.budget)
    return f"""<section id="recommended" aria-labelledby="h-recommended">
<h2 id="h-recommended">Recommended</h2>
<p class="choice">{wrapped(chosen.strategy)} <span>at {escape(chosen.budget)}, about
 {chosen.limit_tokens:,} tokens</span></p>
<dl class="tiles">
<div><dt>Recall</dt><dd>{chosen.recall:.1f}<small> %</small></dd>
<dd class="beside">truncate {floor.recall:.1f}, clairvoyant {ceiling.recall:.1f}</dd></div>
<div><dt>Cost</dt><dd>{chosen.cost:.2f}<small> ×</small></dd>
<dd class="beside">of no collection; truncate {floor.cost:.2f}</dd></div>
<div><dt>Money</dt><dd>{dollars(row.dollars)}</dd>
<dd class="beside">for all input; without collection {dollars(result.dollars_uncollected)}</dd>
</div>
<div><dt>Gap closed</dt><dd>{_gap_tile(chosen.gap)}</dd>
<dd class="beside">of the way from truncation to the clairvoyant</dd></div>
</dl>
<p>Why: {escape(chosen.reason).replace(" %", "&nbsp;%")}. It rewrites the beginning of the prompt
 on {row.rewrites:.0f}&nbsp;% of the requests after the limit is reached.</p>
<p class="fine">Money: {escape(str(result.price))}; what is not cached is written to the cache.</p>
{_code(chosen.code, "Code to use the recommended setting")}
{_tuning(chosen)}</section>
"""


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
    return f"""<section id="changed" aria-labelledby="h-changed">
<h2 id="h-changed">What went, and what the model saw in its place</h2>
<p>{wrapped(timeline.strategy)} on {wrapped(timeline.transcript)}, the transcript that missed most:
 the largest cuts, before and after.</p>
{cuts or "<p>Nothing was cut.</p>"}
<h3>What the agent missed most</h3>
{f'<ul class="plain">{missed}</ul>' if missed else "<p>Nothing was missed.</p>"}
</section>
"""


def _tuning(chosen: Recommendation) -> str:
    if catalog.settings_for(chosen.strategy) is None:
        return ""
    return f"""<p>Or let the project's settings say it, with these figures as comments:</p>
{_code(chosen.command, "Command that writes the recommended setting")}
"""


def _code(text: str, label: str) -> str:
    return (
        '<div class="code"><button type="button" class="copy">Copy</button>'
        f'<pre tabindex="0" aria-label="{label}"><code>{escape(text)}</code></pre></div>'
    )


def _gap_tile(gap: float | None) -> str:
    return "no room" if gap is None else f"{gap:.0f}<small> %</small>"


def _front(result: Result, chosen: Recommendation | None) -> str:
    shown = {row.strategy for row in drawn(result)}
    items = "".join(
        f"<li>{symbol(mark)}{wrapped(name)}</li>"
        for name, mark in marks(result).items()
        if name in shown
    )
    ring = "<li><span class='ringkey' aria-hidden='true'></span>recommended</li>" if chosen else ""
    return f"""<section id="front" aria-labelledby="h-front">
<h2 id="h-front">Recall against cost</h2>
<p>Up and to the left is better. Each line is a strategy, each mark one of its budgets, the smallest
 first. The wide band joins the settings that none beats in both.</p>
<figure>
{picture(result, chosen, width=860, height=440)}
{picture(result, chosen, width=360, height=380)}
<ul class="legend names">{items}{ring}</ul>
</figure>
</section>
"""


def _table(result: Result) -> str:
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
            _row(row, looks[row.strategy], timed=timed, on_front=(row.strategy, row.budget) in best)
            for row in sorted(
                (r for r in result.rows if r.budget == bound.budget), key=lambda r: -r.recall
            )
        )
        + "</tbody>"
        for bound in result.bounds
    )
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return f"""<section id="figures" aria-labelledby="h-figures">
<h2 id="h-figures">Figures</h2>
<div class="scroll" tabindex="0" role="region" aria-labelledby="h-figures">
<table class="figures"><thead><tr>{columns}</tr></thead>{groups}</table>
</div>
{_failures(result)}
<p class="fine">Recall is the mean of <i>any</i> (the agent's own words count as a source) and
 <i>src</i> (only what it was shown counts). Gap closed: 0 is truncation, 100 is the best that
 dropping whole messages can do knowing the future, with a 95 % interval over transcripts. Cost:
 uncached tokens at 1, cached at 0.1, as a ratio to no collection. Churn: old tokens read again
 per step.
 ★ none is better in both recall and cost.</p>
</section>
"""


def _failures(result: Result) -> str:
    """Who broke a rule or failed, and where first."""
    failures = [(f"{r.strategy} at {r.budget}", said) for r in result.rows for said in r.failures]
    failures += [
        (f"{r.strategy} at {r.budget}", said) for r in result.evidence for said in r.failures
    ]
    items = "".join(
        f"<li><b>{wrapped(who)}</b> <small>{escape(what)}</small></li>" for who, what in failures
    )
    return f'<h3 class="broken">Rules broken</h3><ul class="plain">{items}</ul>' if items else ""


def _row(row: Row, mark: Mark, *, timed: bool, on_front: bool) -> str:
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
    rows = "".join(
        f'<tr><th scope="row">{escape(row.strategy)}</th><td>{escape(row.budget)}</td>'
        f"<td>{row.blind:.1f}</td>"
        f"<td>{'–' if row.recalled is None else f'{row.recalled:.1f}'}</td>"
        f"<td>{row.questions:,}</td></tr>"
        for row in result.evidence
    )
    return f"""<section id="evidence" aria-labelledby="h-evidence">
<h2 id="h-evidence">Evidence for questions</h2>
<div class="scroll" tabindex="0" role="region" aria-labelledby="h-evidence">
<table class="figures"><thead><tr><th scope="col">strategy</th><th scope="col">budget</th>
<th scope="col">in context, %</th><th scope="col">with recall, %</th><th scope="col">questions</th>
</tr></thead><tbody>{rows}</tbody></table></div>
</section>
"""


def _timelines(timelines: Sequence[Timeline]) -> str:
    options = "".join(
        f'<option value="timeline-{n}">{escape(t.transcript)} · {escape(t.strategy)} at '
        f"{escape(t.budget)}</option>"
        for n, t in enumerate(timelines)
    )
    return f"""<section id="timeline" aria-labelledby="h-timeline">
<h2 id="h-timeline">Timeline</h2>
<p><label for="which">Transcript and strategy</label>
 <select id="which">{options}</select></p>
{"".join(section(timeline, n) for n, timeline in enumerate(timelines))}
</section>
"""


def _about(result: Result) -> str:
    lines = "".join(
        f'<tr><th scope="row">{escape(line.name)}</th><td>{line.messages:,}</td>'
        f"<td>{line.tokens:,}</td><td>{line.steps:,}</td><td>{line.need_steps:,}</td></tr>"
        for line in result.transcripts
    )
    passed = "".join(
        f"<li><code>{escape(each.name)}</code> {escape(each.reason)}</li>" for each in result.passed
    )
    skipped = (
        f"<details><summary>{len(result.passed):,} skipped, with reasons</summary>"
        f"<ul>{passed}</ul></details>"
        if passed
        else ""
    )
    return f"""<section id="transcripts" aria-labelledby="h-transcripts">
<h2 id="h-transcripts">Transcripts</h2>
<details><summary>{len(result.transcripts):,} replayed</summary>
<div class="scroll" tabindex="0" role="region" aria-labelledby="h-transcripts">
<table class="figures"><thead><tr><th scope="col">name</th><th scope="col">messages</th>
<th scope="col">tokens</th><th scope="col">steps</th><th scope="col">with needs</th></tr></thead>
<tbody>{lines}</tbody></table></div></details>
{skipped}
<p class="fine">Atoms found by the extractor <code>{escape(result.extractor)}</code>. This file
 holds excerpts of your transcripts; nothing was sent anywhere to make it, and it loads nothing.</p>
</section>
"""
