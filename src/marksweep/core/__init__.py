"""The collector's algorithm. Pure: no I/O, no clock, no randomness, no logging.

1. roots.py    Name the segments that must stay, each with a reason.
2. mark.py     Follow references from the roots. What is not reached is garbage.
3. units.py    Tie together segments that must live or die as one.
4. score.py    Say how little each segment is worth; high goes first.
5. budget.py   Say how much must go, how high the pressure is, and whether a collection is due.
6. plan.py     Take from a strategy's ranking until the budget is met. Nothing is applied.

Beside them: laws.py (did the plan keep the promises?).
"""
