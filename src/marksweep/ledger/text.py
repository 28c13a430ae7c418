"""The ledger as text: one line per source and its heaviest children, with bars."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.ledger.entries import SourceEntry
from marksweep.ledger.snapshot import BudgetSnapshot

BAR = 24
"""Characters of a bar for the whole context window."""

CHILDREN = 5
"""Children shown per source, heaviest first; the rest are one line."""

_EIGHTHS = "▏▎▍▌▋▊▉█"


def bar(tokens: int, whole: int, width: int = BAR) -> str:
    """A bar for a share of the window, exact to an eighth of a character, padded to its width."""
    eighths = min(width * 8, round(width * 8 * tokens / whole)) if whole else 0
    if tokens and not eighths:
        eighths = 1
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part - 1] if part else "")).ljust(width)


def render(ledger: BudgetSnapshot, *, children: int = CHILDREN) -> str:
    """Write the ledger out."""
    rows = [*_rows(ledger, children), ("total", "", ledger.total_tokens)]
    name = max(len(row[0]) for row in rows)
    policy = max(len(row[1]) for row in rows)
    lines = [
        f"{label.ljust(name)}  {kept.ljust(policy)}  {bar(tokens, ledger.context_limit)} "
        f"{tokens:>10,}  {100 * tokens / ledger.context_limit:5.1f} %"
        for label, kept, tokens in rows
    ]
    lines.append(
        f"limit {ledger.context_limit:,}: {ledger.available_tokens:,} free, "
        f"{ledger.gc_eligible_tokens:,} may go, {ledger.preservable_tokens:,} under pressure, "
        f"{ledger.locked_tokens:,} locked"
    )
    return "\n".join(lines)


def _rows(ledger: BudgetSnapshot, shown: int) -> Iterator[tuple[str, str, int]]:
    for source, entry in ledger.entries.items():
        yield source.value, "" if entry.children else entry.gc_policy.value, entry.total_tokens()
        ranked = sorted(entry.children.items(), key=_heaviest_first)
        for key, child in ranked[:shown]:
            yield f"  {key}", child.gc_policy.value, child.total_tokens()
        if rest := ranked[shown:]:
            yield f"  {len(rest)} more", "", sum(child.total_tokens() for _, child in rest)


def _heaviest_first(item: tuple[str, SourceEntry]) -> tuple[int, str]:
    return -item[1].total_tokens(), item[0]
