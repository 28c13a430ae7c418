"""The ledger: what fills the context window, by source, and how easily each part may go.

1. entries.py        SourceEntry, InstructionSource, and the default policy of every kind of child.
2. conversation.py   The entries of a conversation, derived from its history by message id.
3. budget.py         InstructionBudget: all of it against the context limit.
4. snapshot.py       A budget at one moment: shown, or saved.
5. text.py           The ledger as text, with bars.
6. counting.py       Each message counted once.
"""

from marksweep.ledger.budget import InstructionBudget
from marksweep.ledger.entries import ChildKind, InstructionSource, SourceEntry
from marksweep.ledger.snapshot import BudgetSnapshot
from marksweep.ledger.text import render

__all__ = [
    "BudgetSnapshot",
    "ChildKind",
    "InstructionBudget",
    "InstructionSource",
    "SourceEntry",
    "render",
]
