"""A text apart from the one that is kept, to hand to code that works on UTF-8."""

from __future__ import annotations


def apart(text: str) -> str:
    """Give a text that is equal, and another object if it is beyond ASCII.

    Python keeps the UTF-8 form of such a text beside it, once C code has asked for it, for as long
    as the text lives: half as much memory again. This one's goes with it.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")
