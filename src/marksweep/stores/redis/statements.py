"""Every key of the Redis store, with its purpose."""

from __future__ import annotations

import hashlib


def encode(text: str) -> bytes:
    """Encode any string as bytes, including lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decode(found: bytes) -> str:
    """Decode what `encode` returned."""
    return found.decode("utf-8", "surrogatepass")


class Keys:
    """The keys of one workspace, or of one word index in it."""

    def __init__(self, prefix: str, workspace: str) -> None:
        tag = hashlib.sha256(encode(workspace)).hexdigest()[:16]
        self._base = encode(prefix) + b":{" + tag.encode() + b"}:"
        self.lock = self._base + b"lock"
        """The token of the lock's holder; expires."""
        self.live = self._base + b"live"
        """Hash: segment id → live segment."""
        self.live_state = self._base + b"live:state"
        """Hash: version, floor. Every write changes it, so writers watch it."""
        self.put_at = self._base + b"live:put"
        """Sorted set: segment ids by the version that put them."""
        self.removed_at = self._base + b"live:removed"
        """Sorted set: removed segment ids by the version that removed them."""
        self.live_words = WordKeys(self._base + b"live:words:")
        self.stash = self._base + b"stash"
        """Hash: row → stash entry. A higher row was put later."""
        self.stash_state = self._base + b"stash:state"
        """Hash: the last row. Every write changes it, so writers watch it."""
        self.stash_order = self._base + b"stash:order"
        """Sorted set: rows by row number."""
        self.stash_expiring = self._base + b"stash:expiring"
        """Sorted set: rows by the time their deletion becomes final."""
        self.stash_words = WordKeys(self._base + b"stash:words:")
        self.journal = self._base + b"journal"
        """List: entries in order; an entry's number is its position, from 1. Expired: empty."""
        self.shown = self._base + b"journal:shown"
        """Hash: shown plan → number and time of its entry. Applied plans are not in it."""

    def plan(self, plan_id: str) -> bytes:
        """Return the key of a plan's hash: segment id → row."""
        return self._base + b"stash:plan:" + encode(plan_id)

    def segment(self, segment_id: str) -> bytes:
        """Return the key of a segment's set of rows."""
        return self._base + b"stash:segment:" + encode(segment_id)


class WordKeys:
    """The keys of one word index."""

    def __init__(self, base: bytes) -> None:
        self._base = base
        self.lengths = base + b"=lengths"
        """Hash: document → word count."""
        self.total = base + b"=total"
        """Total word count of all documents."""

    def having(self, word: str) -> bytes:
        """Return the key of a word's hash: document → occurrences."""
        return self._base + encode(word)


def workspaces(prefix: str) -> bytes:
    """Return the key of the set of all workspaces ever written to."""
    return encode(prefix) + b":workspaces"
