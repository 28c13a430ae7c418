"""The ledger: what fills the context window, by source, and how easily each part may go.

1. entries.py        SourceEntry, InstructionSource, and the default policy of every kind of child.
2. conversation.py   The entries of a conversation, derived from its history by message id.
3. declared.py       What a host says they weigh, where its budget follows no history.
4. budget.py         InstructionBudget: all of it against the context limit.
5. snapshot.py       A budget at one moment: shown, or saved.
6. text.py           The ledger as text, with bars.
7. counting.py       Each message counted once.
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
