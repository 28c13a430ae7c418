"""A language model as the judge of what a collector leaves.

Given a context, how likely is what the agent really did next? Nothing is extracted, and there is no
rule that a strategy could know.

contexts.py   what each collector would show a model at chosen steps of recorded runs
model.py      lays out the model's weights and tokenizer
score.py      asks the model; stands alone, for a machine with a GPU
report.py     compares collectors by the scores
"""
