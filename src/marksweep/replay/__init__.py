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

And in front of it, for anybody's transcripts:

inputs.py     Find transcripts in any dialect; pass over what cannot be replayed, with a reason.
catalog.py    Collectors by name; apart.py drives GC plugins in processes of their own.
front.py      All of them at several budgets.
table.py      The figures as data.
recommend.py  Which setting to use, and the file that says so.
timeline.py   What was in context at each step, what went, what was missed.
report.py     A whole replay in one call.
html.py       The report for a browser; html_front, html_timeline and html_style are its parts.
"""
