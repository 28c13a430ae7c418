from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marksweep.errors import MarksweepError
from marksweep.indexing.readers import Inline, Reading, Source, Worker
from marksweep.stores.graph.nouns import Memory
from tests.graph.graphs import START
from tests.indexing.trees import index, items_of, live, sqlite_at, write

SLOW_FOR_ITS_GRAMMAR = b"a?" * 40_000


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker(parse_seconds=1.0)
    yield worker
    worker.close()


def source(path: str, content: bytes) -> Source:
    memory = Memory(
        memory_id=path, workspace_id="w", source="s", created_at=START, relative_path=path
    )
    return Source(memory, content)


def functions_of(reading: Reading) -> object:
    return reading.record.memory.metadata["functions"]


def pid_of(worker: Worker) -> int:
    assert worker._process is not None
    return worker._process.pid


def test_a_worker_reads_what_this_process_would(worker: Worker) -> None:
    for path, content in (("a.py", b"def f():\n    g()\n"), ("a.md", b"# x\n"), ("b.js", b"'\xff")):
        assert worker.read(source(path, content)) == Inline().read(source(path, content))


def test_a_file_that_takes_too_long_is_read_as_text_and_the_next_one_is_not(worker: Worker) -> None:
    slow = worker.read(source("slow.py", SLOW_FOR_ITS_GRAMMAR))
    assert slow.trouble == "parsing took more than 1 s of processor time; read as text"
    assert "".join(chunk.text for chunk in slow.record.chunks).encode() == SLOW_FOR_ITS_GRAMMAR
    assert functions_of(worker.read(source("a.py", b"def f(): pass\n"))) == 1


def test_a_worker_that_crashes_costs_one_file_its_symbols_and_no_more(worker: Worker) -> None:
    worker.read(source("a.py", b"x = 1\n"))
    os.kill(pid_of(worker), signal.SIGSEGV)
    crashed = worker.read(source("b.py", b"def f(): pass\n"))
    assert crashed.trouble == f"its grammar failed (exit code {-signal.SIGSEGV}); read as text"
    assert [chunk.text for chunk in crashed.record.chunks] == ["def f(): pass"]
    assert functions_of(worker.read(source("b.py", b"def f(): pass\n"))) == 1


def test_a_worker_that_fails_in_python_is_not_reported_as_slow(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.Popen
    failing = "import sys; sys.stdout.buffer.write(bytes([0, 0, 0, 5]) + b'ready'); sys.exit(3)"
    monkeypatch.setattr(
        subprocess, "Popen", lambda _, **options: real([sys.executable, "-c", failing], **options)
    )
    reading = worker.read(source("a.py", b"def f(): pass\n"))
    assert reading.trouble == "its grammar failed (exit code 3); read as text"


def test_a_worker_that_cannot_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _command, **options: real(["false"], **options))
    with pytest.raises(MarksweepError, match=r"Install marksweep\[index\]"):
        Worker().read(source("a.py", b"x = 1\n"))


def test_an_index_names_the_files_that_were_read_as_text(tmp_path: Path, worker: Worker) -> None:
    write(tmp_path, "src/a.py", "def f(): pass\n")
    write(tmp_path, "src/slow.py", SLOW_FOR_ITS_GRAMMAR)
    report = index(sqlite_at(tmp_path / "graph.db"), tmp_path / "src", reader=worker)
    assert [each.path for each in report.as_text] == ["slow.py"]
    assert "Read as text: 1\n  slow.py: parsing took more than 1 s" in str(report)
    assert report.functions == 1


def test_an_index_through_a_worker_is_the_same_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def recorded(*command: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*command, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", recorded)
    write(tmp_path, "src/a.py", "def f():\n    g()\n")
    write(tmp_path, "src/b.go", "package p\nfunc F() {}\n")
    through, inline = sqlite_at(tmp_path / "1.db"), sqlite_at(tmp_path / "2.db")
    index(through, tmp_path / "src", reader=None)
    index(inline, tmp_path / "src")
    assert live(items_of(through)) == live(items_of(inline))
    assert [process.poll() is not None for process in started] == [True]
