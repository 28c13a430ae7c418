"""Messages in neutral form, and the one definition of what follows from them.

1. message.py   Message, Part, Role: what every provider's messages become, and plugins work on.
2. text.py      What a message says, as text to search in and to shorten; what its calls came to.
3. turns.py     Where a turn begins, and what a collection wrote with the user's voice.
4. weight.py    Tokens of a message.
"""

from marksweep.messages.message import (
    Counter,
    FunctionCall,
    InlineData,
    Message,
    Outcome,
    Part,
    Path,
    Place,
    Role,
    Text,
    ToolResult,
)

__all__ = [
    "Counter",
    "FunctionCall",
    "InlineData",
    "Message",
    "Outcome",
    "Part",
    "Path",
    "Place",
    "Role",
    "Text",
    "ToolResult",
]
