"""A language model judges what a collector leaves.

Given a context, how likely is what the agent really did next? Nothing is extracted, and there is no
rule that a strategy could exploit.

contexts.py   what each collector would show a model at chosen steps of recorded runs
model.py      lays out the model's weights and tokenizer
score.py      queries the model; self-contained, for a machine with a GPU
report.py     compares collectors by the scores
"""
