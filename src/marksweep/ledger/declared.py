"""What a host says its conversation weighs, where its budget follows no history.

The tokens of an entry are divided among the messages it names, so that the sum is what the host
says. Messages that no entry names are not counted. A message that a collection makes or shortens
is counted, and scaled as its entry is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marksweep.ledger.entries import SourceEntry
from marksweep.messages import Counter, Message


class DeclaredCounts:
    """A counter of messages by what the entries of a conversation declare."""

    def __init__(self, entry: SourceEntry, history: Sequence[Message], counter: Counter) -> None:
        self._counter = counter
        self._sizes = {message.message_id: counter(message) for message in history}
        self._shares: dict[str, int] = {}
        self.without_messages: dict[str, SourceEntry] = {}
        """Entries that name no message of the history: only their tokens can go."""
        if not entry.children:
            self._share_out(entry.tokens, list(self._sizes))
        for key, child in entry.children.items():
            names = [n for n in child.message_ids if n in self._sizes and n not in self._shares]
            if names:
                self._share_out(child.total_tokens(), names)
            elif child.total_tokens():
                self.without_messages[key] = child

    def __call__(self, message: Message) -> int:
        """Tokens of a message, as declared if it is one of the history."""
        name, counted = message.message_id, self._counter(message)
        before = self._sizes.get(name)
        if before is None:
            return counted
        share = self._shares.get(name, 0)
        return share if counted == before else round(share * counted / max(1, before))

    def names(self, message_id: str) -> bool:
        """Whether an entry names this message."""
        return message_id in self._shares

    def _share_out(self, tokens: int, names: Sequence[str]) -> None:
        """Divide tokens by size, without a remainder."""
        sizes: Mapping[str, int] = {name: self._sizes[name] for name in names}
        whole = sum(sizes.values())
        seen = given = 0
        for at, name in enumerate(names, 1):
            seen += sizes[name]
            upto = tokens * seen // whole if whole else tokens * at // len(names)
            self._shares[name] = upto - given
            given = upto
