"""What a strategy is asked for by: a name, and options behind it.

coverage                                     a strategy of a Conversation
superseded+mask+truncate:spare=5             tiers of them, with options
gc_hybrid:preserve_recent_turns=2            a GC plugin
mypackage.mine:Keeper:depth=3                anything that can be imported
"""

from __future__ import annotations

import msgspec

from marksweep.errors import BadInput


class Spec(msgspec.Struct, frozen=True):
    """A name, and options that were given with it."""

    name: str
    options: dict[str, object]

    @property
    def is_imported(self) -> bool:
        """Whether the name says where to import it from."""
        return ":" in self.name


def parse(text: str) -> Spec:
    """Read a name with options."""
    name, _, said = text.partition(":")
    first, _, more = said.partition(":")
    if first.isidentifier():
        name, said = f"{name}:{first}", more
    options: dict[str, object] = {}
    for pair in filter(None, said.split(",")):
        key, is_there, value = pair.partition("=")
        if not is_there or not key.strip():
            raise BadInput(
                f"{pair!r} in {text!r} is not an option; expected key=value, as in mask:spare=5."
            )
        options[key.strip()] = _value(value.strip())
    return Spec(name, options)


def _value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
