"""`marksweep web` as a process, and a store for it to show."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from marksweep import Segments
from marksweep.model import Segment, utc_now

HOSTILE = "<img src=x onerror=alert(1)>\x00\x1b[31m'\"]]></title><script>alert(2)</script>"


class Page:
    """A running page."""

    def __init__(self, address: str, pid: int = 0) -> None:
        self.address = address
        self.pid = pid
        base, _, self.token = address.partition("#")
        self.client = httpx.Client(
            base_url=base, headers={"Authorization": f"Bearer {self.token}"}, timeout=60
        )

    def get(self, path: str, **query: Any) -> Any:
        answer = self.client.get(f"api/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        answer = self.client.post(f"api/{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()


@contextmanager
def web(folder: Path, *options: str) -> Iterator[Page]:
    """Run `marksweep web` while the block runs."""
    command = [sys.executable, "-m", "marksweep", "web", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    assert process.stdout is not None
    try:
        page = Page(process.stdout.readline().split()[-1], process.pid)
        with page.client:
            yield page
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def filled(path: Path, count: int = 60, workspace: str = "default") -> Segments:
    """Make a working set with segments in every state, over its soft limit of 2,000 tokens."""
    context = Segments(path, workspace=workspace, limit=10 * count * count)
    old = utc_now() - timedelta(days=3)
    made = [
        Segment(
            segment_id=f"log-{n}",
            type="log",
            created_at=old + timedelta(minutes=n),
            text=f"the parser failed at step {n}: {HOSTILE}" if n == 0 else f"step {n} went well",
            tokens=30 if count < 1_000 else 1 + n * n % 997,
            file_path=f"src/{n % 4}.py",
        )
        for n in range(count)
    ]
    made.append(
        Segment(
            segment_id="note",
            type="note",
            created_at=old,
            text="Ada owns the parser.",
            tokens=40,
            references=("log-1",),  # type: ignore[arg-type]
        )
    )
    context.add(*made)
    context.pin("note", by="ada", why="who to ask")
    return context
