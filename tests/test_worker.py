"""Workers are isolated, and none outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from marksweep.worker import ProcessWorker, WorkerEnded, folders_of

MODULE = """
import os, sys, time
from marksweep.worker import take_pipes

def main(greeting):
    requests, answer = take_pipes()
    print("this goes to standard error")
    answer(greeting.encode())
    for request in requests:
        if request == b"hang":
            time.sleep(600)
        if request == b"die":
            os._exit(7)
        if request == b"where":
            answer(os.getcwd().encode())
        elif request == b"path":
            answer("\\n".join(sys.path).encode())
        elif request == b"variables":
            answer("\\n".join(name for name in os.environ if name.startswith("PYTHON")).encode())
        else:
            answer(request + sys.stdin.read().encode())
"""


@pytest.fixture
def path(tmp_path: Path) -> list[str]:
    (tmp_path / "echoing.py").write_text(MODULE)
    return [*folders_of("marksweep"), str(tmp_path)]


@pytest.fixture
def worker(path: list[str]) -> Iterator[ProcessWorker]:
    worker = ProcessWorker("echoing", "hello", path=path)
    assert worker.greeting(60) == b"hello"
    yield worker
    worker.close()


def test_ctrl_c_does_not_reach_it_while_it_starts(path: list[str]) -> None:
    worker = ProcessWorker("echoing", "hello", path=path)
    os.kill(worker.pid, signal.SIGINT)
    assert worker.greeting(60) == b"hello"
    worker.close()


def test_it_answers_whatever_the_size_and_what_it_prints_disturbs_nobody(
    worker: ProcessWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    for request in (b"", b"a\nb", b"\0" * 3_000_000):
        assert worker.ask(request, 60) == request
    assert capfd.readouterr().out == ""


def test_it_runs_in_its_own_folder_which_is_removed_with_it(worker: ProcessWorker) -> None:
    folder = Path(worker.ask(b"where").decode())
    assert list(folder.iterdir()) == []
    assert folder != Path.cwd()
    worker.close()
    assert not folder.exists()


def test_it_imports_from_pythons_own_folders_first_and_otherwise_only_from_the_given_path(
    path: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.chdir(tmp_path)
    worker = ProcessWorker("echoing", "", path=path)
    worker.greeting(60)
    found = worker.ask(b"path").decode().split("\n")
    assert found[-len(path) :] == path
    assert not {"", ".", "/elsewhere"} & set(found)
    assert worker.ask(b"variables") == b"PYTHONHASHSEED"
    worker.close()


def test_one_that_hangs_is_killed_even_if_it_does_not_read(worker: ProcessWorker) -> None:
    with pytest.raises(WorkerEnded) as ended:
        worker.ask(b"hang", 0.2)
    assert ended.value.late


def test_one_that_dies_says_how(worker: ProcessWorker) -> None:
    with pytest.raises(WorkerEnded, match="exit code 7") as ended:
        worker.ask(b"die", 60)
    assert (ended.value.code, ended.value.late) == (7, False)


def test_one_that_cannot_start_says_so(path: list[str]) -> None:
    with pytest.raises(WorkerEnded, match="exit code 1"):
        ProcessWorker("no_such_module", path=path).greeting(60)


def test_it_ends_with_whoever_started_it_even_in_the_middle_of_work(path: list[str]) -> None:
    script = (
        "from marksweep.worker import ProcessWorker\n"
        f"worker = ProcessWorker('echoing', 'hello', path={path!r})\n"
        "worker.greeting()\n"
        "print(worker.ask(b'where').decode(), flush=True)\n"
        "worker.ask(b'hang')\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert parent.stdout is not None
    folder = Path(parent.stdout.readline().decode().strip())
    assert folder.is_dir()
    parent.kill()
    parent.communicate(timeout=60)  # the worker holds standard error as long as it lives
    assert not folder.exists()


def test_one_whose_caller_was_killed_while_it_started_leaves_nothing_behind(
    path: list[str], tmp_path: Path
) -> None:
    script = (
        "import os, signal\n"
        "from marksweep.worker import ProcessWorker\n"
        f"worker = ProcessWorker('echoing', 'hello', path={path!r})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folders = tmp_path / "temporary"
    folders.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(folders)},
        stderr=subprocess.PIPE,  # the worker holds it as long as it lives
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    assert b"Traceback" not in done.stderr
    assert list(folders.iterdir()) == []
