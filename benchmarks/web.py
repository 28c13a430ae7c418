"""The page in a real Chromium: 10,000 segments, and a memory of 100,000 files.

Times are by the clock: from a click until what it asked for is drawn, and the longest time that
the page's thread was blocked meanwhile (what a user feels as lag). Needs chromium.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.proxy import megabytes
from benchmarks.rows import Row
from marksweep.model import utc_now
from marksweep.stores.graph.nouns import CODE_INDEXER, Chunk, Memory, Record
from marksweep.stores.graph.sqlite import SqliteGraphStore
from tests.web.support import Page, filled, web
from tests.web.tab import Tab

SEGMENTS = 10_000
FILES = 100_000
BATCH = 5_000

MOST_BLOCKED_MS = 100.0
"""Milliseconds that the page's thread may be blocked; a longer block is noticeable."""

MOST_CLICK_MS = 1_000.0
"""Milliseconds until a click with 10,000 segments is answered and drawn, the server included."""

MOST_MEGABYTES = 400.0

READY = "document.documentElement.dataset.version && document.querySelector('#picture svg')"

WATCH = """(() => {
  window.blocked = [0];
  new PerformanceObserver(list => list.getEntries().forEach(e => window.blocked.push(e.duration)))
    .observe({type: "longtask"});
})()"""
"""Record every task that blocks the page's thread for 50 ms or more."""


class Clock:
    """Measures the page."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab
        tab.value(WATCH)

    def until(self, selector: str, condition: str) -> tuple[float, float]:
        """Click, wait for a condition; return milliseconds by the clock, and the longest block."""
        self._tab.value("window.blocked = [0]")
        started = time.perf_counter()
        self._tab.click(selector)
        self._tab.wait(condition)
        took = 1000 * (time.perf_counter() - started)
        self._tab.value("new Promise(done => setTimeout(done, 150))")  # entries come late
        return took, float(self._tab.value("Math.max(...window.blocked)"))


def segments(tab: Tab, folder: Path) -> list[Row]:
    """Open the page with 10,000 segments, and click."""
    filled(folder / "large.db", SEGMENTS).close()
    rows = []
    with web(folder, "--store", "large.db", "--limit", "5000000") as page:
        started = time.perf_counter()
        tab.go(page.address)
        tab.wait(READY)
        first = 1000 * (time.perf_counter() - started)
        rows.append(_row("the first look", first, MOST_CLICK_MS * 3))
        clock = Clock(tab)
        clicks = {
            "group by file": (
                "#by input[value=file]",
                "document.querySelector('#picture').textContent.includes('src/3.py')",
            ),
            "plan": ("#make-plan", "document.querySelectorAll('#picture .goes').length > 100"),
            "show more rows": ("#more", "document.querySelector('#tiles').rows.length > 150"),
            "open a segment": ("#tiles tbody button", "document.querySelector('#detail').open"),
        }
        for what, (selector, condition) in clicks.items():
            took, blocked = clock.until(selector, condition)
            rows.append(_row(what, took, MOST_CLICK_MS))
            rows.append(_row(f"{what}: the page's thread blocked", blocked, MOST_BLOCKED_MS))
        elements = tab.value("document.querySelectorAll('*').length")
        rows.append(Row("web: elements of the page", "", f"{elements:,}", ok=True))
        rows.append(_memory(f"{SEGMENTS:,} segments", page))
    return rows


def files(tab: Tab, folder: Path) -> list[Row]:
    """Open the page on a memory of 100,000 files."""
    (folder / ".marksweep").mkdir()
    with closing(SqliteGraphStore(folder / ".marksweep" / "graph.db")) as graph:
        for start in range(0, FILES, BATCH):
            graph.put("default", [_file(n) for n in range(start, start + BATCH)])
    with web(folder) as page:
        started = time.perf_counter()
        tab.go(page.address)
        tab.wait("document.querySelector('#heap').options.length > 1")
        tab.value(WATCH)
        tab.value(
            "(() => { const h = document.querySelector('#heap');"
            "h.value = [...h.options].find(o => o.value.startsWith('memory')).value;"
            "h.dispatchEvent(new Event('change')); })()"
        )
        tab.wait("document.querySelector('#h-window').textContent === 'The memory'")
        tab.wait("document.querySelector('#picture').textContent.includes('project')")
        first = time.perf_counter() - started
        tab.value("new Promise(done => setTimeout(done, 150))")
        blocked = float(tab.value("Math.max(...window.blocked)"))
        what = f"a memory of {FILES:,} files, first view"
        return [
            _row(what, first * 1000, 30_000),
            _row(f"{what}: the page's thread blocked", blocked, MOST_BLOCKED_MS),
            _memory(f"a memory of {FILES:,} files", page),
        ]


def _file(n: int) -> Record:
    now = utc_now() - timedelta(days=1)
    name = f"memory-{n:06}"
    path = f"package{n % 500}/module{n}.py"
    memory = Memory(
        memory_id=name,
        workspace_id="default",
        source=CODE_INDEXER,
        created_at=now,
        repository="/project",
        relative_path=path,
        file_path=f"/project/{path}",
        lines=40,
    )
    chunk = Chunk(
        chunk_id=f"chunk-{n:06}", workspace_id="default", memory_id=name, text=f"def m{n}(): pass"
    )
    return Record(memory=memory, chunks=(chunk,))


def _row(what: str, milliseconds: float, most: float) -> Row:
    short = "under 50 ms" if milliseconds == 0 else f"{milliseconds:,.0f} ms"
    return Row(f"web: {what}", f"≤ {most:,.0f} ms", short, ok=milliseconds <= most)


def _memory(what: str, page: Page) -> Row:
    found = megabytes(page.pid)
    what = f"web: memory of the server, {what}"
    return Row(what, f"≤ {MOST_MEGABYTES:g} MB", f"{found:.0f} MB", found <= MOST_MEGABYTES)


def rows() -> list[Row]:
    """Measure; the load of the machine is reported too."""
    with TemporaryDirectory(prefix="marksweep-web-") as name:
        folder = Path(name)
        for part in ("segments", "files"):
            (folder / part).mkdir()
        tab = Tab(folder)
        try:
            tab.size(1_400)
            found = [*segments(tab, folder / "segments"), *files(tab, folder / "files")]
        finally:
            tab.close()
    load = f"{os.getloadavg()[0]:.1f}"
    return [*found, Row("load of the machine over the last minute", "", load, ok=True)]
