"""A heartbeat that renews a lease while it is held."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from marksweep.errors import StoreError

RENEWED_AFTER = 1 / 3
"""Fraction of a lease after which it is renewed. Lower survives more lost renewals."""

log = logging.getLogger(__name__)


@contextmanager
def renewing(renew: Callable[[], object], lease_seconds: float) -> Iterator[None]:
    """Renew a lease at intervals, in a separate thread, until the block ends."""
    released = threading.Event()

    def beat() -> None:
        while not released.wait(lease_seconds * RENEWED_AFTER):
            try:
                renew()
            except StoreError:
                log.warning("a lease could not be renewed", exc_info=True)

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        released.set()
