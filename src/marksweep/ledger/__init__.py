"""The ledger: what fills the context window, by source, and how easily each part may go.

1. entries.py        SourceEntry, InstructionSource, the default policy of every kind of child; a
                     budget at one moment, and as text.
2. conversation.py   The entries of a conversation, derived from its history by message id.
3. declared.py       What a host says they weigh, where its budget follows no history.
4. budget.py         InstructionBudget: all of it against the context limit.
"""

from marksweep.ledger.budget import InstructionBudget
from marksweep.ledger.entries import (
    BudgetSnapshot,
    ChildKind,
    InstructionSource,
    SourceEntry,
    render,
)

__all__ = [
    "BudgetSnapshot",
    "ChildKind",
    "InstructionBudget",
    "InstructionSource",
    "SourceEntry",
    "render",
]
