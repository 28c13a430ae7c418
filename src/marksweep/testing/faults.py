"""Faults: a store that fails, or whose program dies, at a chosen moment.

for at in count(1):
    fault = Fault(at)                          # Fault(at, StoreError) fails instead of dying
    with contextlib.suppress(Killed):
        work(FaultyStore(store, fault))
    check(store)                               # as the next program finds it
    if not fault.struck:
        break                                  # there are no more moments
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marksweep.stores.base import Store

WRITES = frozenset({"put", "write", "append", "remove"})
"""The methods of a store's parts that change it."""


class Killed(BaseException):
    """The program dies here; none of its code may catch this."""


class Fault:
    """Raises at the n-th moment, and at every later one. A write has one before and one after."""

    def __init__(self, at: int, error: type[BaseException] = Killed) -> None:
        self._left = at
        self._error = error
        self.struck = False

    def __call__(self) -> None:
        """Count one moment; raise if the fault is due."""
        self._left -= 1
        if self._left <= 0:
            self.struck = True
            raise self._error("a fault was asked for here")


class FaultyStore:
    """A store that calls `moment` before and after every write to one of its parts."""

    def __init__(self, store: Store, moment: Callable[[], None]) -> None:
        self.segments: Any = _Face(store.segments, moment)
        self.stash: Any = _Face(store.stash, moment)
        self.journal: Any = _Face(store.journal, moment)
        self.scrub = store.scrub
        self.lock = store.lock
        self.size = store.size
        self.all_workspaces = store.all_workspaces
        self.close = store.close


class _Face:
    """One part of a store."""

    def __init__(self, face: object, moment: Callable[[], None]) -> None:
        self._face = face
        self._moment = moment

    def __getattr__(self, name: str) -> object:
        method: Callable[..., object] = getattr(self._face, name)
        if name not in WRITES:
            return method

        def call(*args: object, **kwargs: object) -> object:
            self._moment()
            done = method(*args, **kwargs)
            self._moment()
            return done

        return call
