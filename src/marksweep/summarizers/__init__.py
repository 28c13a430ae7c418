"""Summarizers: text in, shorter text out.

1. base.py         What a summarizer is, and the rule that a summary must shrink.
2. transcript.py   A conversation as text.
3. extractive.py   Offline and deterministic: picks the sentences and names worth keeping.
4. endpoint.py     Asks a model behind any OpenAI-compatible URL.
5. callables.py    Asks a function.
6. guarded.py      Falls back to extractive when the model or the function fails.
7. make.py         A summarizer from what a configuration says.
8. digesting.py    Summaries of segments, for strategies on any heap.
"""

from marksweep.summarizers.base import Summarizer, Summary
from marksweep.summarizers.callables import CallableSummarizer
from marksweep.summarizers.endpoint import EndpointSummarizer
from marksweep.summarizers.extractive import Extractive
from marksweep.summarizers.guarded import Guarded
from marksweep.summarizers.make import make_summarizer
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
