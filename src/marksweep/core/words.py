"""How ages and amounts are written in reasons."""

from __future__ import annotations


def age_in_words(hours: float) -> str:
    """Write an age in its largest fitting unit: `5 min`, `3 h`, `12 days`."""
    return minutes_in_words(rounded_minutes(hours))


def rounded_minutes(hours: float) -> int:
    """Round an age down to the precision with which it is written."""
    if hours < 1:
        return int(hours * 60)
    return int(hours) * 60 if hours < 48 else int(hours / 24) * 24 * 60


def minutes_in_words(minutes: int) -> str:
    """Write an age that `rounded_minutes` returned."""
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def references_in_words(count: int) -> str:
    """Write how many segments refer to one."""
    if count == 0:
        return "no references"
    return "1 reference" if count == 1 else f"{count} references"
