"""Leases: exclusive access to a workspace, across processes and machines.

A lease expires after LEASE_SECONDS unless renewed, so a crashed machine does not block others for
long. The lease of a dead process on this machine, detected by its pid, is taken over at once.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from marksweep.errors import StoreBusy
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.nouns import hash_content
from marksweep.stores.heartbeat import renewing

LEASE_SECONDS = 30.0
"""Lifetime of a lease without renewal. Shorter recovers sooner from a crashed machine, but a holder
that stalls that long loses its lease."""

CHANGE = "change"
"""The purpose of all operations that delete or restore: prune, merge, restore, purge, erase."""

POLL_SECONDS = 0.05
"""Time between two attempts to acquire a lease that is held."""


class Lease:
    """A held lease. Call `check` before each step that must not overlap with another holder's."""

    def __init__(self, store: GraphStore, workspace_id: str, purpose: str, holder: str) -> None:
        self.holder = holder
        self._store = store
        self._workspace_id = workspace_id
        self._purpose = purpose

    def check(self) -> None:
        """Renew the lease; raise StoreBusy if it was lost."""
        if not self._store.renew(self._workspace_id, self._purpose, self.holder, LEASE_SECONDS):
            raise StoreBusy(
                f"the lease for {self._purpose} of workspace {self._workspace_id!r} was lost: this "
                f"process stalled for more than {LEASE_SECONDS:.0f} s. Nothing is damaged; run "
                "again."
            )


@contextmanager
def hold(
    store: GraphStore, workspace_id: str, purpose: str, *, wait_seconds: float = 0.0
) -> Iterator[Lease]:
    """Hold and renew a workspace's lease for one purpose; raise StoreBusy if it is taken."""
    holder = new_holder()
    deadline = time.monotonic() + wait_seconds
    while other := store.acquire(workspace_id, purpose, holder, LEASE_SECONDS):
        if time.monotonic() >= deadline:
            raise StoreBusy(
                f"workspace {workspace_id!r} is held for {purpose} by {describe(other)}; waited "
                f"{wait_seconds:.0f} s. Try again when that has finished."
            )
        time.sleep(POLL_SECONDS)
    lease = Lease(store, workspace_id, purpose, holder)
    try:
        with renewing(lease.check, LEASE_SECONDS):
            yield lease
    finally:
        store.release(workspace_id, purpose, holder)


def new_holder() -> str:
    """Build a holder name, unique to this process and acquisition."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"


def this_host() -> str:
    """Return an alphanumeric id of this machine."""
    return hash_content(socket.gethostname().encode())[:8]


def describe(holder: str) -> str:
    """Describe a holder."""
    host, pid, _ = holder.rsplit(":", 2)
    return f"process {pid} on {host}"


def is_dead(holder: str) -> bool:
    """Return whether a holder was a process on this machine that has ended."""
    host, pid, _ = holder.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
