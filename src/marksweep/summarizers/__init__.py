"""Summarizers: text in, shorter text out.

1. base.py         What a summarizer is, and the rule that a summary must shrink.
2. transcript.py   A conversation as text.
3. extractive.py   Offline and deterministic: picks the sentences and names worth keeping.
4. asking.py       Asks a function, or a model behind any OpenAI-compatible URL, and falls back to
                   extractive when that fails. Start reading at `make_summarizer`.
5. digesting.py    Summaries of segments, for strategies on any heap.
"""

from marksweep.summarizers.asking import (
    CallableSummarizer,
    EndpointSummarizer,
    Guarded,
    make_summarizer,
)
from marksweep.summarizers.base import Summarizer, Summary
from marksweep.summarizers.extractive import Extractive
from marksweep.summarizers.transcript import transcript

__all__ = [
    "CallableSummarizer",
    "EndpointSummarizer",
    "Extractive",
    "Guarded",
    "Summarizer",
    "Summary",
    "make_summarizer",
    "transcript",
]
