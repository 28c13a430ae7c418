"""Work spread over processes: the biggest first, results by the number of their job."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context, parent_process
from typing import TypeVar

J = TypeVar("J")
R = TypeVar("R")


def spread(
    work: Callable[[J], R],
    jobs: Sequence[J],
    workers: int,
    size: Callable[[J], int] = lambda _: 0,
) -> Iterator[tuple[int, R]]:
    """Do jobs in so many processes, and give each result with its job's number as it comes.

    Leaves no process behind when it is stopped or killed.
    """
    if workers <= 1:
        for at, job in enumerate(jobs):
            yield at, work(job)
        return
    order = sorted(range(len(jobs)), key=lambda at: -size(jobs[at]))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_quiet)
    try:
        waiting = {pool.submit(work, jobs[at]): at for at in order}
        for future in as_completed(waiting):
            yield waiting.pop(future), future.result()
    except BaseException:
        for child in active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)  # Its thread must not outlive it: Python could not end.


def _quiet() -> None:
    """End without a traceback when the user stops the run, and when the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed parent notifies nobody: its processes would wait for jobs for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
