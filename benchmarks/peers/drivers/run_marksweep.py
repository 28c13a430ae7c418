"""marksweep: a whole collection, with plan, reasons, stash, journal and a valid history after.

`whole` and `mask_whole` are timed from a bare list: reading, counting, everything. The others are
timed as in a session: the messages have arrived, and were counted then; if all bulky results are
to be masked, their shorter form was made then, too.
"""

from __future__ import annotations

from stopwatch import Messages, Work, main, tokens  # type: ignore[import-not-found]

from marksweep import Conversation
from marksweep.messages import Message
from marksweep.strategies.registry import Choice

TIERS = ("superseded", "mask", "truncate")
FRAME = 3


def counter(message: Message) -> int:
    """The counter that all peers get."""
    total = FRAME
    for part in message.parts:
        if part.text is not None:
            total += tokens(part.text)
        elif part.function_call is not None:
            total += tokens(part.function_call.name) + tokens(str(part.function_call.args))
        elif part.function_response is not None:
            total += tokens(str(part.function_response.result))
    return total


def collect(messages: Messages, budget: int) -> Work:
    """Remove what is superseded, then bulky, then old, until the budget is met."""
    return _collection(_arrived(messages, TIERS), budget)


def truncate(messages: Messages, budget: int) -> Work:
    """The oldest units, until the budget is met."""
    return _collection(_arrived(messages, "truncate"), budget)


def mask(messages: Messages, budget: int) -> Work:  # noqa: ARG001
    """Mask every bulky result but the last three, as peers without a budget do.

    The target is what that leaves, so that the plan does not report a missed target.
    """
    least = _arrived(messages, "mask").plan(0).tokens_after
    return _collection(_arrived(messages, "mask"), least)


def whole(messages: Messages, budget: int) -> Work:
    """From a list of messages to one that fits."""

    def work() -> Messages:
        return _collection(_arrived(messages, TIERS), budget)()

    return work


def mask_whole(messages: Messages, budget: int) -> Work:  # noqa: ARG001
    """The same as `mask`, from a list of messages."""
    least = _arrived(messages, "mask").plan(0).tokens_after

    def work() -> Messages:
        return _collection(_arrived(messages, "mask"), least)()

    return work


def _arrived(messages: Messages, strategy: Choice) -> Conversation:
    talk = Conversation(limit=10**9, strategy=strategy, counter=counter)
    talk.extend(messages)
    return talk


def _collection(talk: Conversation, budget: int) -> Work:
    def work() -> Messages:
        report = talk.collect(talk.plan(budget))
        assert report.swept
        return talk.messages

    return work


if __name__ == "__main__":
    calls = {
        "collect": collect,
        "truncate": truncate,
        "mask": mask,
        "whole": whole,
        "mask_whole": mask_whole,
    }
    main("marksweep", calls)
