"""Leases: exclusive access to a workspace, across processes and machines.

A lease expires unless it is renewed, so a crashed machine does not block others for long. The lease
of a dead process on this machine, detected by its pid, is taken over at once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from marksweep.errors import StoreBusy, StoreError

LEASE_SECONDS = 30.0
"""Lifetime of a lease without renewal. Shorter recovers sooner from a crashed machine, but a holder
that stalls that long loses its lease."""

RENEWED_AFTER = 1 / 3
"""Fraction of a lease after which it is renewed. Lower survives more lost renewals."""

CHANGE = "change"
"""The purpose of all operations that delete or restore: prune, merge, restore, purge, erase."""

FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1
"""Seconds between two attempts to acquire a lease that is held; doubles up to the longest."""

log = logging.getLogger(__name__)


class Leases(Protocol):
    """Keeps leases."""

    def acquire(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> str:
        """Acquire the lease for a purpose if it is free; return '' or the current holder."""
        ...

    def renew(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> bool:
        """Renew a lease; return False if it was lost."""
        ...

    def release(self, workspace_id: str, purpose: str, holder: str) -> bool:
        """Release a lease; return False if it was lost."""
        ...


class Lease:
    """A held lease. Call `check` before each step that must not overlap with another holder's."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check


@contextmanager
def hold(
    leases: Leases,
    workspace_id: str,
    purpose: str,
    *,
    wait_seconds: float = 0.0,
    seconds: float = LEASE_SECONDS,
    holder: str = "",
) -> Iterator[Lease]:
    """Hold and renew a workspace's lease for one purpose; raise StoreBusy if it is taken."""
    holder = holder or new_holder()
    deadline, pause = time.monotonic() + wait_seconds, FIRST_PAUSE
    while other := leases.acquire(workspace_id, purpose, holder, seconds):
        if time.monotonic() + pause > deadline:
            raise StoreBusy(
                f"workspace {workspace_id!r} is held for {purpose} by {describe(other)}; waited "
                f"{wait_seconds:g} s. Try again when that has finished; a dead process's lease "
                f"ends within {seconds:g} s."
            )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)

    def check() -> None:
        if not leases.renew(workspace_id, purpose, holder, seconds):
            raise StoreBusy(
                f"the lease for {purpose} of workspace {workspace_id!r} was lost: this process "
                f"stalled for more than {seconds:g} s. Nothing is damaged; run again."
            )

    try:
        with _renewing(check, seconds):
            yield Lease(check)
    finally:
        if not leases.release(workspace_id, purpose, holder):
            log.warning(
                "the lease for %s of workspace %r expired while it was held; another process may "
                "have worked on it meanwhile. This one was delayed or disconnected.",
                purpose,
                workspace_id,
            )


@contextmanager
def _renewing(renew: Callable[[], None], seconds: float) -> Iterator[None]:
    """Renew a lease at intervals, in a separate thread, until the block ends."""
    released = threading.Event()

    def beat() -> None:
        while not released.wait(seconds * RENEWED_AFTER):
            try:
                renew()
            except StoreError:
                log.warning("a lease could not be renewed", exc_info=True)

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        released.set()


_TAKE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''"""
"""Acquire a lease that is free, ours, or held by a dead process."""

_KEEP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])"""
"""Renew a lease, but only if it is still ours."""

_DROP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])"""
"""Release a lease, but only if it is still ours."""


class ServerLeases:
    """Leases on a server that has Redis' commands: keys with the holder's name, which expire."""

    def __init__(
        self, command: Callable[..., object], key: Callable[[str, str], str | bytes]
    ) -> None:
        """Take what runs a command, and what names the key of a workspace and purpose."""
        self._command = command
        self._key = key

    def acquire(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> str:
        """Acquire a lease if it is free; return '' or the current holder."""
        key, life = self._key(workspace_id, purpose), int(seconds * 1000)
        other = _text(self._command("EVAL", _TAKE, 1, key, holder, life, ""))
        if other and is_dead(other):
            other = _text(self._command("EVAL", _TAKE, 1, key, holder, life, other))
        return other

    def renew(self, workspace_id: str, purpose: str, holder: str, seconds: float) -> bool:
        """Renew a lease; return False if it was lost."""
        key = self._key(workspace_id, purpose)
        return self._command("EVAL", _KEEP, 1, key, holder, int(seconds * 1000)) == 1

    def release(self, workspace_id: str, purpose: str, holder: str) -> bool:
        """Release a lease; return False if it was lost."""
        return self._command("EVAL", _DROP, 1, self._key(workspace_id, purpose), holder) == 1


def _text(answer: object) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def new_holder() -> str:
    """Build a holder name, unique to this process and acquisition."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"


def this_host() -> str:
    """Return an alphanumeric id of this machine."""
    name = socket.gethostname().encode()
    return hashlib.blake2b(name, digest_size=16).hexdigest()[:8]


def describe(holder: str) -> str:
    """Describe a holder."""
    host, pid = _host_and_pid(holder)
    return f"process {pid} on {host}" if pid else "another process"


def is_dead(holder: str) -> bool:
    """Return whether a holder was a process on this machine that has ended."""
    host, pid = _host_and_pid(holder)
    if not pid or host != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _host_and_pid(holder: str) -> tuple[str, int]:
    """Parse what `new_holder` built; no pid if the holder has another kind of name."""
    host, _, rest = holder.rpartition(":")[0].rpartition(":")
    return (host, int(rest)) if rest.isdecimal() else ("", 0)
