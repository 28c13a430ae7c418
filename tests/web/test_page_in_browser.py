"""The page in a real browser: clicks that collect and undo, keys, light, dark, narrow, wide."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import marksweep.cli
from marksweep import Segments
from tests.proxy.test_proxy import proxy
from tests.replay.browser import colours
from tests.web.support import Page, filled, web
from tests.web.tab import Tab

READY = "document.documentElement.dataset.version && document.querySelector('#picture svg')"
USED = "#figures dd"
LAG_MS = 300
"""Milliseconds that the page may work after a click with ten thousand segments; more is noticeable.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    filled(folder / "heap.db").close()
    with web(folder, "--store", "heap.db", "--limit", "2k") as running:
        yield running


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Tab]:
    tab = Tab(folder)
    yield tab
    tab.close()


@pytest.fixture
def tab(browser: Tab, page: Page) -> Iterator[Tab]:
    browser.size(1_400)
    browser.go(page.address)
    browser.wait(READY)
    yield browser
    assert browser.console == []


def wait_for_size(tab: Tab, size: str) -> None:
    tab.wait(f"document.querySelector('{USED}').textContent.startsWith('{size} ')")


def test_a_click_plans_one_collects_exactly_that_and_one_undoes_it(tab: Tab) -> None:
    assert tab.text(USED).startswith("1,840 ")
    assert tab.value("document.querySelectorAll('#picture .tile').length") > 50
    tab.click("#make-plan")
    tab.wait("document.querySelector('#card code')")
    plan = tab.text("#card code")
    assert plan.startswith("plan-")
    tab.wait("document.querySelectorAll('#picture .goes').length > 10")
    tab.click("#collect")
    tab.wait("document.querySelector('#said')")
    assert tab.text("#said").startswith(f"Collected {plan}: 1,840 → 1,180 tokens.")
    wait_for_size(tab, "1,180")
    assert "Collected: 1,840 → 1,180" in tab.text(f"#done li[data-plan='{plan}']")
    tab.click("#undo")
    tab.wait("document.querySelector('#said').textContent.startsWith('Undone')")
    wait_for_size(tab, "1,840")
    assert "Undone" in tab.text("#done li")


def test_changes_by_others_appear_by_themselves_and_an_outdated_plan_is_reported(
    tab: Tab, folder: Path
) -> None:
    tab.click("#make-plan")
    tab.wait("document.querySelector('#collect')")
    other = Segments(folder / "heap.db", limit=1_000_000)
    other.write("word " * 10, segment_id="new")
    tab.wait("document.querySelector('#card .bad')")
    tab.click("#collect")
    tab.wait("!document.querySelector('#problem').hidden")
    assert "changed since" in tab.text("#problem")
    (refused,) = tab.console
    assert "409" in refused
    tab.console.clear()
    other.collect(other.plan_for(["new"]))
    other.close()
    wait_for_size(tab, "1,840")


HOLD = """(() => {
  const real = window.fetch;
  window.fetch = async (url, options) => {
    const answer = await real(url, options);
    if (url.includes("api/view") && url.includes("default") && answer.status === 200)
      await new Promise(done => { window.release = done; });
    return answer;
  };
})()"""
"""Hold back the next view of the heap `default` until it is released."""


def test_a_late_answer_for_a_heap_that_was_left_is_not_shown(browser: Tab, tmp_path: Path) -> None:
    first = filled(tmp_path / "two.db")
    filled(tmp_path / "two.db", 5, "other").close()
    with web(tmp_path, "--store", "two.db", "--limit", "2k") as two:
        browser.size(1_400)
        browser.go(two.address)
        browser.wait(READY)
        browser.value(HOLD)
        first.write("word " * 10, segment_id="new")
        browser.wait("window.release")
        browser.value(
            "(() => { const h = document.querySelector('#heap'); h.value = 'segments:other';"
            "h.dispatchEvent(new Event('change')); })()"
        )
        wait_for_size(browser, "190")
        browser.value("window.release()")
        browser.value("new Promise(done => setTimeout(done, 300))")
        assert browser.text(USED).startswith("190 ")
    first.close()
    browser.go("about:blank")


def test_what_was_swept_is_searched_and_restored_by_clicks(tab: Tab, folder: Path) -> None:
    other = Segments(folder / "heap.db", limit=1_000_000)
    other.collect(other.plan_for(["log-0"]))
    other.close()
    tab.wait("document.querySelector('#swept').textContent.includes('log-0')")
    tab.click("#swept-words")
    tab.type("parser failed")
    tab.click("#find-swept button")
    tab.wait("document.querySelectorAll('#swept li').length === 1")
    assert "<img src=x onerror=alert(1)>" in tab.text("#swept li"), "hostile text is only text"
    tab.click("#swept li .link")
    tab.wait("document.querySelector('#detail').open")
    assert tab.text("#detail-why").startswith("swept at ")
    tab.click("#detail-actions button")
    tab.wait("!document.querySelector('#detail').open")
    wait_for_size(tab, "1,840")


def test_a_tile_opens_by_keys_alone_and_says_what_keeps_it(tab: Tab) -> None:
    tab.value("document.querySelector('#picture').focus()")
    tab.press("ArrowRight")
    assert "tokens" in tab.text("#pointed")
    tab.press("Enter")
    tab.wait("document.querySelector('#detail').open")
    name = tab.text("#detail-name")
    assert name in tab.text("#detail-why")
    tab.click("#detail-actions button")
    tab.wait(f"document.querySelector('#pin-list').textContent.includes('{name}')")
    tab.click("#detail-actions button")
    tab.wait(f"!document.querySelector('#pin-list').textContent.includes('{name}')")
    tab.press("Escape")
    tab.wait("!document.querySelector('#detail').open")


@pytest.mark.parametrize("width", [400, 1_400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_narrow_and_wide_in_light_and_dark(
    tab: Tab, page: Page, width: int, scheme: str
) -> None:
    tab.size(width, 400 if width > 1_000 else 700, scheme=scheme)
    tab.go(page.address)
    tab.wait(READY)
    assert tab.value("document.documentElement.scrollWidth") == width, "nothing sticks out"
    assert tab.value("document.querySelector('#picture svg').viewBox.baseVal.width") <= width
    paper = {"light": (0xFB, 0xFB, 0xF9), "dark": (0x15, 0x16, 0x14)}[scheme]
    seen = colours(tab.shot())
    assert seen[paper] > 1_000
    root = {"light": (0x2A, 0x6F, 0xBB), "dark": (0x2F, 0x6F, 0xB8)}[scheme]
    assert seen[root] > 10, "what must stay is drawn"
    assert tab.value(CONTRAST) >= 4.5


CONTRAST = """(() => {
  const light = css => {
    const [r, g, b] = css.match(/[0-9.]+/g).slice(0, 3).map(v => {
      v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    });
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const found = getComputedStyle(node).backgroundColor;
      if (!found.endsWith(", 0)")) return found;
    }
    return "rgb(255, 255, 255)";
  };
  let worst = 21;
  for (const node of document.querySelectorAll("main *, header *")) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!own || !node.getClientRects().length || node.closest("svg")) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    worst = Math.min(worst, (a + .05) / (b + .05));
  }
  for (const tile of document.querySelectorAll(".heap .tile text")) {
    const rect = tile.parentElement.querySelector("rect");
    let fill = getComputedStyle(rect).fill;
    if (fill.startsWith("url")) fill = getComputedStyle(document.querySelector(".hatch1")).fill;
    const [a, b] = [light(getComputedStyle(tile).fill), light(fill)].sort((x, y) => y - x);
    worst = Math.min(worst, (a + .05) / (b + .05));
  }
  return worst;
})()"""
"""The worst contrast of any text on the page."""


def test_the_headline_and_the_sizes_are_in_their_places_on_a_phone(
    browser: Tab, tmp_path: Path
) -> None:
    session = Path(marksweep.cli.__file__).with_name("demo_session.jsonl")
    with web(tmp_path, str(session), "--limit", "20k") as page:
        browser.size(360, 700)
        browser.go(page.address)
        browser.wait(READY)
        box = "document.querySelector('#picture text.{}')?.getBoundingClientRect()"
        left, right = box.format("strong"), box.format("muted[text-anchor]")
        assert browser.value(f"{left}.right < ({right}?.left ?? 360)"), "they do not overlap"
        sizes = "[...document.querySelectorAll('#tiles td.n')]"
        ends = f"{sizes}.map(each => Math.round(each.getBoundingClientRect().right))"
        assert browser.value(f"new Set({ends}).size") == 1
    browser.go("about:blank")


FAIL_ONE_POLL = """(() => {
  const real = window.fetch;
  window.fetch = async (url, options) => {
    if (url.includes("api/view") && !window.failed) { window.failed = true; throw new Error(); }
    if (url.includes("api/view")) window.polls = (window.polls ?? 0) + 1;
    return real(url, options);
  };
})()"""
"""Fail the next request for a view, and count those after it."""


def test_a_refusal_stays_after_the_connection_was_lost_and_found_again(tab: Tab) -> None:
    tab.value(FAIL_ONE_POLL)
    tab.wait("document.querySelector('#problem').textContent.includes('does not answer')")
    tab.wait("document.querySelector('#problem').hidden")
    tab.click("#target")
    tab.type("9" * 30)
    tab.click("#make-plan")
    tab.wait("!document.querySelector('#problem').hidden")
    tab.value("window.polls = 0")
    tab.wait("window.polls > 1")
    assert "cannot be read" in tab.text("#problem")
    (refused,) = tab.console
    assert "400" in refused
    tab.console.clear()


def test_rows_that_were_asked_for_stay_when_the_heap_changes(browser: Tab, tmp_path: Path) -> None:
    context = filled(tmp_path / "rows.db", 250)
    with web(tmp_path, "--store", "rows.db", "--limit", "1000000") as page:
        browser.size(1_400)
        browser.go(page.address)
        browser.wait(READY)
        browser.click("#more")
        browser.wait("document.querySelectorAll('#tiles tbody tr').length === 200")
        context.write("word " * 500, segment_id="new")
        browser.wait("document.querySelector('#tiles tbody').textContent.includes('new')")
        assert browser.value("document.querySelectorAll('#tiles tbody tr').length") == 200
        browser.click("#more")
        browser.wait("document.querySelectorAll('#tiles tbody tr').length === 252")
    context.close()
    browser.go("about:blank")


def test_a_proxy_without_conversations_is_connected(browser: Tab, tmp_path: Path) -> None:
    with proxy(tmp_path, "http://127.0.0.1:9") as running:
        browser.size(1_400)
        assert running.process.stdout is not None
        browser.go(running.process.stdout.readline().split()[-1])
        browser.wait("!document.querySelector('#problem').hidden")
        assert browser.text("#problem").startswith("There is nothing to show yet.")
        assert browser.text("#live") == "live"
        assert browser.console == []
    browser.go("about:blank")


def test_ten_thousand_segments_do_not_lag(browser: Tab, tmp_path: Path) -> None:
    filled(tmp_path / "large.db", 10_000).close()
    with web(tmp_path, "--store", "large.db", "--limit", "5000000") as large:
        browser.size(1_400)
        browser.go(large.address)
        browser.wait(READY)
        busy = [browser.busy_ms()]
        browser.click("#make-plan")
        browser.wait("document.querySelectorAll('#picture .goes').length > 100")
        busy.append(browser.busy_ms())
        browser.click("#by input[value=file]")
        browser.wait("document.querySelector('#picture').textContent.includes('src/3.py')")
        busy.append(browser.busy_ms())
        assert max(after - before for before, after in pairwise(busy)) < LAG_MS
        assert browser.value("document.querySelectorAll('*').length") < 6_000
    browser.go("about:blank")
