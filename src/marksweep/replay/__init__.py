"""The replay lab: how far a strategy is from the best possible, on recorded runs.

1. records.py      Read trajectories and conversations.
2. atoms.py        Find the names and lines of a text: what can be needed again.
3. needs.py        Say what each step takes from the past.
4. drive.py        Run a collector over a trajectory, told past messages only.
5. guards.py       Refuse what no collector may do.
6. hits.py         Test whether what was needed was verbatim in context.
7. measures.py     Need recall, gap closed, churn, priced cost, time.
8. references.py   Simple collectors to read every figure beside.
9. clairvoyant.py  The best that dropping whole messages can do.
10. lab.py         All of it, over sets, in parallel.

evidence.py does the same for conversations with questions.
"""
