"""Find what was swept from conversations of `Fit`, by id or by words."""

from __future__ import annotations

import re

from marksweep.errors import NotFound
from marksweep.fit import PREFIX
from marksweep.heaps.stash_search import search_stash
from marksweep.model import Stashed
from marksweep.stores.base import Query, Store
from marksweep.tokens import count

DESCRIPTION = (
    "Bring back what marksweep left out of this conversation. A line such as "
    '[marksweep: … recall("m6")] names what is missing: pass that id, or words to search for.'
)
"""The tool's description for a model."""

RECALL_TOKENS = 4_000
"""Tokens returned per call. More fills the window that was just emptied."""

MOST_FOUND = 5
"""Messages that a search gives back, as far as they fit."""

_ID = re.compile(r"\s*[\"']?([mh](?:\d+\.)?\d+)[\"']?\s*")


def recall(
    store: Store, what: str, start: int = 0, limit: int = RECALL_TOKENS, group: str = PREFIX
) -> str:
    """Return a swept message by its id, from a character on, or those that contain these words.

    Branches of a conversation share ids, and so do conversations of older stores: the most recently
    swept one is returned. `group` is a prefix of the conversations' names, `Fit.group`, or one
    whole name.
    """
    names = [n for n in store.segments.workspaces() if n.startswith(group)]
    names = [group] if group in names else names
    named = _ID.fullmatch(what)
    if named is None:
        return _found(store, names, what, limit)
    swept = [entry for name in names for entry in store.stash.get(name, [named[1]])]
    if not swept:
        raise NotFound(f"nothing was swept under {named[1]!r}. Search with words of it instead.")
    newest = max(swept, key=lambda entry: entry.stashed_at).segment.project_id
    whole = max(
        (entry.segment for entry in swept if entry.segment.project_id == newest),
        key=lambda segment: segment.tokens,
    )
    text = whole.text[start:]
    shown = _cut(text, limit)
    end = start + len(shown)
    rest = len(whole.text) - end
    more = f'\n[{rest:,} more characters: recall("{named[1]}", start={end})]' if rest > 0 else ""
    return shown + more


def _found(store: Store, names: list[str], words: str, limit: int) -> str:
    query = Query(words=words, limit=MOST_FOUND)
    hits = [hit for name in names for hit in search_stash(store.stash, name, query)]
    hits.sort(key=lambda hit: hit.score, reverse=True)
    best: dict[str, Stashed] = {}
    for hit in hits:
        best.setdefault(f"{hit.found.segment.project_id} {hit.found.segment.segment_id}", hit.found)
    if not best:
        raise NotFound(f"nothing that was swept speaks of {words!r}. Try other words.")
    out: list[str] = []
    for entry in list(best.values())[:MOST_FOUND]:
        if limit <= 0:
            break
        shown = _cut(entry.segment.text, limit)
        out.append(f"[{entry.segment.segment_id}]\n{shown}")
        limit -= count(shown)
    return "\n\n".join(out)


def _cut(text: str, tokens: int) -> str:
    """Return the beginning of a text, in so many tokens."""
    if count(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= tokens else (low, middle - 1)
    return text[:low]
