"""What dialects have in common: content in blocks, results tied to calls, data as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from marksweep.dialects.base import Json, Messages, Unreadable, encoded
from marksweep.dialects.pairing import Tying, ties_of
from marksweep.messages import Message, Part


class TiedByCalls:
    """A dialect in which results are tied to their calls, and any two messages may meet."""

    def tying(self) -> Tying:
        """Tie results to their calls, and thoughts to what the model did next."""
        return Tying()

    def ties(self, messages: Messages) -> Iterator[tuple[int, int]]:
        """Tie results to their calls, and thoughts to what the model did next."""
        return ties_of(self.tying(), messages)

    def joins(self, before: Message, after: Message) -> bool:  # noqa: ARG002
        """Never: any two messages may follow each other."""
        return False


def parts_of(content: Json, part: Callable[[dict[str, Json]], Part]) -> Iterator[Part]:
    """Read content that is a text or a list of texts and blocks; `part` understands a block."""
    if content is None:
        return
    if isinstance(content, str):
        yield Part(text=content, raw=content)
        return
    if not isinstance(content, list):
        raise Unreadable(f"content is {type(content).__name__}; expected text or a list of blocks")
    for block in content:
        if isinstance(block, str):
            yield Part(text=block, raw=block)
        elif isinstance(block, dict):
            yield part(block)
        else:
            raise Unreadable(f"a content block is {type(block).__name__}; expected an object")


def as_url(mime: str, data: str) -> str:
    """Give an address for data: its own if it has one, else a data URL."""
    if "://" in data[:16] or data.startswith("data:"):
        return data
    return f"data:{mime.replace('*', 'octet-stream')};base64,{data}"


def as_text(result: Json) -> str:
    """Write a result as text."""
    return "" if result is None else encoded(result)
