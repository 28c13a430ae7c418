"""A conversation with a model, collected automatically.

1. session.py      Session, and what it reports to its host. Start reading here.
2. history.py      Its messages in a store; what a plugin returns as a plan, checked and undone.
3. collecting.py   One run of a plugin, made safe.
4. providers.py    Models: a callable, an OpenAI-compatible endpoint, an Anthropic endpoint.
5. tools.py        Tools a session offers its model.
"""

from marksweep.session.providers import (
    Answer,
    AnthropicProvider,
    CallableProvider,
    OpenAIProvider,
    Provider,
    Usage,
)
from marksweep.session.session import Happened, Session, SessionEvent
from marksweep.session.tools import Tool

__all__ = [
    "Answer",
    "AnthropicProvider",
    "CallableProvider",
    "Happened",
    "OpenAIProvider",
    "Provider",
    "Session",
    "SessionEvent",
    "Tool",
    "Usage",
]
