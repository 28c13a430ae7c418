"""What images and other inline data weigh. Providers count them by size on screen, not as text."""

from __future__ import annotations

IMAGE_TOKENS = 1_500
"""Tokens of an image: what a full screenshot costs. Higher lets images go sooner."""

_CHARACTERS_PER_TOKEN = 32
"""Of base64 in documents and sound: a page of 50 kB weighs as much as an image."""


def data_tokens(mime_type: str, data: str) -> int:
    """Estimate the tokens of inline data, given as base64 or as an address."""
    if mime_type.startswith("image/"):
        return IMAGE_TOKENS
    return max(IMAGE_TOKENS, len(data) // _CHARACTERS_PER_TOKEN)
