"""Words: how ages and amounts are said in reasons, the same everywhere."""

from __future__ import annotations


def age_in_words(hours: float) -> str:
    """Say an age in its largest fitting unit: `5 min`, `3 h`, `12 days`."""
    if hours < 1:
        return f"{int(hours * 60)} min"
    if hours < 48:
        return f"{int(hours)} h"
    return f"{int(hours / 24)} days"


def references_in_words(count: int) -> str:
    """Say how many segments refer to one."""
    if count == 0:
        return "no references"
    return "1 reference" if count == 1 else f"{count} references"
