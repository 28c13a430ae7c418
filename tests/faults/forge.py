"""A server that forks children, which do some work and are killed.

It is small and has one thread, so a fork takes milliseconds; a test process can have threads and
should not fork. It reads jobs as lines of JSON, and writes outcomes the same way.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from marksweep.errors import StoreError
from marksweep.segments import Segments
from marksweep.testing.faults import FaultyStore
from tests.faults.workload import KINDS, Note, Worker, clock_of, open_heap

NEVER = 10**9
OPENED = b"open\n"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one child."""

    kind: str
    path: str
    note: str
    run: int = 0
    """The number of the run on one store; the same number does the same work."""
    operations: int = NEVER
    """How many operations to do before a normal exit."""
    kill_at_edge: int = NEVER
    """Die at this moment, counting the moments before and after each write to the store."""
    kill_after: float | None = None
    """Seconds after which the server kills the child, from the opening of the store."""
    largest_file: int | None = None
    """Maximum size of a file in bytes, as on a full disk."""
    user: int | None = None
    """Drop the rights of root for those of this user."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended."""

    killed: bool = False
    edges: int = 0
    """Moments at which it could have died."""
    store_error: str = ""
    """The store's error that ended the child."""
    failed_at: str = ""
    """The operation that failed."""
    unchanged: bool = True
    """Whether the heap was the same before and after that error."""
    crash: str = ""
    """The traceback of an unexpected error."""


class Tripwire:
    """Counts the moments before and after each write, and kills the process at one of them."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.edges = 0

    def edge(self) -> None:
        """Pass one moment, or die there."""
        self.edges += 1
        if self.edges == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class Forge:
    """The server, as the tests use it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def run(self, *jobs: Job) -> list[Outcome]:
        """Run jobs at the same time, and wait for all of them."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(msgspec.json.encode(jobs) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the forge has died; its last output is above"
        outcomes = msgspec.json.decode(line, type=list[Outcome])
        for outcome in outcomes:
            assert not outcome.crash, outcome.crash
        return outcomes

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


def serve() -> None:
    """Run jobs until there are no more."""
    for line in sys.stdin.buffer:
        jobs = msgspec.json.decode(line, type=list[Job])
        children = [_start(job) for job in jobs]
        outcomes = [_finish(job, *child) for job, child in zip(jobs, children, strict=True)]
        sys.stdout.buffer.write(msgspec.json.encode(outcomes) + b"\n")
        sys.stdout.buffer.flush()


def _start(job: Job) -> tuple[int, int]:
    """Fork a child; return its process id and a pipe with its messages."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        _run_child(job, send)
    os.close(send)
    return child, receive


def _finish(job: Job, child: int, receive: int) -> Outcome:
    """Kill a child if its job says so; return how it ended."""
    with os.fdopen(receive, "rb") as messages:
        first = messages.readline()
        if job.kill_after is not None:
            time.sleep(job.kill_after)
            os.kill(child, signal.SIGKILL)
        last = first.removeprefix(OPENED) + messages.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return Outcome(killed=True)
    if last:
        return msgspec.json.decode(last, type=Outcome)
    return Outcome(crash=f"a child ended with status {status} and without a message")


def _run_child(job: Job, send: int) -> NoReturn:
    try:
        outcome = _work(job, send)
    except BaseException:  # noqa: BLE001 - the child must not run on into the server's loop
        outcome = Outcome(crash=traceback.format_exc())
    os.write(send, msgspec.json.encode(outcome))
    os._exit(0)


def _work(job: Job, send: int) -> Outcome:
    _drop_privileges(job)
    wire = Tripwire(job.kill_at_edge)
    clock = clock_of(job.run)
    before: object = None
    heap: Segments | None = None
    worker: Worker | None = None
    try:
        store = FaultyStore(KINDS[job.kind](Path(job.path)), wire.edge)
        heap = open_heap(store, clock)
        os.write(send, OPENED)
        worker = Worker(heap, clock, Note(Path(job.note)), f"run{job.run}")
        operations = worker.work()
        for _ in range(job.operations):
            before = heap.list()
            next(operations)
    except StoreError as error:
        return Outcome(
            edges=wire.edges,
            store_error=str(error),
            failed_at=worker.doing if worker else "open",
            unchanged=heap is None or heap.list() == before,
        )
    return Outcome(edges=wire.edges)


def _drop_privileges(job: Job) -> None:
    if job.largest_file is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (job.largest_file, job.largest_file))
    if job.user is not None:
        os.setgid(job.user)
        os.setuid(job.user)


if __name__ == "__main__":
    serve()
