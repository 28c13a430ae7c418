"""The report in a real browser: its parts are there, its script runs, nothing is loaded."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import pytest

from marksweep.replay.html import page
from marksweep.replay.report import Replayed
from marksweep.replay.table import timeless
from tests.replay.browser import Browser, Pixel
from tests.replay.stories import replay_sample

BLUE, RED = (0x2A, 0x78, 0xD6), (0xC8, 0x32, 0x2F)
BLUE_IN_DARK, RED_IN_DARK = (0x5A, 0xA2, 0xF2), (0xFF, 0x7D, 0x76)
LIGHT, DARK = (0xFB, 0xFB, 0xF9), (0x15, 0x16, 0x14)

PROBE = """<script>{
document.querySelector("[data-go='1']").click();
document.body.dataset.first = document.querySelector(".moment h3").textContent;
document.querySelector("[data-go='1']").click();
document.body.dataset.second = document.querySelector(".moment h3").textContent;
document.body.dataset.lost = document.querySelector(".moment .miss b").textContent;
const range = document.querySelector(".cursor input");
range.value = 1;
range.dispatchEvent(new Event("input"));
document.body.dataset.third = document.querySelector(".moment h3").textContent;
const which = document.getElementById("which");
which.value = "timeline-1";
which.dispatchEvent(new Event("change"));
document.body.dataset.shown = [...document.querySelectorAll(".timeline")]
  .filter(box => box.offsetHeight).map(box => box.id).join();
}</script>"""

PHONE = """<!doctype html>
<iframe style="width:390px;height:3000px;border:0" srcdoc="{page}"></iframe>
<script>
addEventListener("load", () => {{
  const inner = document.querySelector("iframe").contentDocument, root = inner.documentElement;
  document.body.dataset.wide = root.scrollWidth;
  document.body.dataset.fonts = Math.min(...[...inner.querySelectorAll("p,td,th,li,dd,dt,text")]
    .filter(each => each.getClientRects().length)
    .map(each => parseFloat(inner.defaultView.getComputedStyle(each).fontSize) *
      (each.getScreenCTM ? each.getScreenCTM().a : 1)));
  document.body.dataset.pictures = [...inner.querySelectorAll("svg.front")]
    .filter(each => each.getClientRects().length).map(each => each.getAttribute("class")).join();
}});
</script>"""


@pytest.fixture(scope="module")
def found() -> Replayed:
    return replay_sample()


@pytest.fixture(scope="module")
def report(found: Replayed) -> str:
    return page(timeless(found.result), found.chosen, found.timelines)


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(tmp_path)


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_main_parts_are_rendered_and_the_console_is_quiet(
    report: str, browser: Browser, tmp_path: Path
) -> None:
    seen = browser.elements(put(tmp_path, "report.html", report))
    assert 'data-ready="yes"' in seen
    for part in ("recommended", "front", "figures", "timeline", "changed", "transcripts"):
        assert f'<section id="{part}"' in seen
    assert browser.console == []


def test_the_cursor_moves_and_another_timeline_can_be_chosen(
    report: str, browser: Browser, tmp_path: Path
) -> None:
    seen = browser.elements(put(tmp_path, "probed.html", report.replace("</body>", PROBE)))
    said = dict(re.findall(r'data-(\w+)="([^"]*)"', seen[seen.index("<body") :][:400]))
    assert said["lost"] == "Missed"
    assert said["first"] != said["second"]
    assert said["third"].startswith("Step 1 of ")
    assert said["shown"] == "timeline-1"
    assert browser.console == []


def test_the_largest_cuts_are_seen_before_and_after_with_what_was_missed_and_what_it_costs(
    report: str, browser: Browser, tmp_path: Path
) -> None:
    look = """<script>
    const seen = where => [...document.querySelectorAll(where)].filter(each => each.offsetHeight);
    document.body.dataset.before = seen("#changed [aria-label=Before]").length;
    document.body.dataset.after = seen("#changed [aria-label=After]").length;
    document.body.dataset.gap = seen("#changed [aria-label=After]")[0].innerText;
    document.body.dataset.missed = seen("#changed li code").length;
    document.body.dataset.money = seen(".tiles dd").map(each => each.innerText).join(" ");
    </script>"""
    seen = browser.elements(put(tmp_path, "cuts.html", report.replace("</body>", look)))
    said = dict(re.findall(r'data-(\w+)="([^"]*)"', seen[seen.index("<body") :][:2000]))
    assert said["before"] == said["after"] == "3"
    assert said["gap"]
    assert int(said["missed"]) > 0
    assert re.search(r"\$\d.*without collection \$\d", said["money"])
    assert browser.console == []


def test_each_miss_says_what_and_when_it_was_last_in_context(
    found: Replayed, report: str, browser: Browser, tmp_path: Path
) -> None:
    seen = browser.elements(put(tmp_path, "report.html", report))
    table = re.search(r'<table class="stack">.*?</table>', seen, re.DOTALL)
    assert table
    rows = re.findall("<tr><td.*?</tr>", table[0], re.DOTALL)
    moments = found.timelines[0].moments
    misses = [(k, miss) for k, moment in enumerate(moments) for miss in moment.missed]
    assert misses
    for (k, miss), row in zip(misses, rows, strict=True):
        assert miss.last_seen is None or miss.last_seen < k
        last = miss.last_seen
        said = "never in context" if last is None else f"last in context at step {last + 1}"
        assert f'<td data-label="step">{k + 1}</td>' in row
        assert f"<code>{escape(miss.atoms[0], quote=False)}</code>" in row
        assert f'<td data-label="last in context">{said}</td>' in row


def test_pictures_have_names_and_controls_have_labels(
    report: str, browser: Browser, tmp_path: Path
) -> None:
    seen = browser.elements(put(tmp_path, "report.html", report))
    seen = seen[: seen.index('"use strict"')]
    pictures = re.findall("<svg[^>]*>", seen)
    assert len(pictures) > 4
    assert all("aria-label=" in each or 'aria-hidden="true"' in each for each in pictures)
    controls = re.findall("<input[^>]*>", seen)
    assert controls
    assert all("aria-label=" in each for each in controls)


def test_at_phone_width_nothing_sticks_out_and_text_stays_readable(
    report: str, browser: Browser, tmp_path: Path
) -> None:
    wrapper = PHONE.format(page=escape(report, quote=True))
    seen = browser.elements(put(tmp_path, "phone.html", wrapper))
    said = dict(re.findall(r'data-(\w+)="([^"]*)"', seen))
    assert int(said["wide"]) <= 390
    assert float(said["fonts"]) >= 11
    assert said["pictures"] == "front w360"
    assert browser.console == []


@pytest.mark.parametrize(
    ("scheme", "palette"),
    [("light", (LIGHT, BLUE, RED)), ("dark", (DARK, BLUE_IN_DARK, RED_IN_DARK))],
)
def test_the_screen_shows_lines_bars_and_misses_in_both_schemes(
    report: str, browser: Browser, tmp_path: Path, scheme: str, palette: tuple[Pixel, Pixel, Pixel]
) -> None:
    found = browser.pixels(put(tmp_path, "report.html", report), 600, 3600, scheme=scheme)
    ground, line, miss = palette
    assert found[ground] > 50_000
    assert found[line] > 100, "the recommended strategy's line and marks"
    assert found[miss] > 500, "misses in the timeline"
    assert browser.console == []
