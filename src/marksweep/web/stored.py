"""The heaps of a store: its working sets, its conversations and the memory beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from marksweep.conversation import Conversation
from marksweep.fit import Fit
from marksweep.graph.memory import KnowledgeGraph
from marksweep.segments import Segments
from marksweep.settings import Settings
from marksweep.stores.base import Store
from marksweep.web.heaps import HeapKind, Heaps, Opener
from marksweep.web.sources import Remembered, Source, Talk, WorkingSet

ACTOR = "web"
"""The actor in the journal."""


class Stored:
    """Opens each heap of a store once, on first use."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        memory: Callable[[], KnowledgeGraph],
        *,
        limit: int | None = None,
        focus: Callable[[Segments], object] = lambda _: None,
        segments: Opener | None = None,
    ) -> None:
        """Take the store and its memory.

        `focus` sets what a working set's agent works on; `segments` opens working sets that are
        already open elsewhere.
        """
        self._store = store
        self._settings = settings
        self._memory = memory
        self._limit = limit
        self._focus = focus
        self._openers: dict[HeapKind, Opener] = {
            HeapKind.SEGMENTS: segments or self._open_segments,
            HeapKind.CONVERSATION: self._open_conversation,
            HeapKind.MEMORY: self._open_memory,
        }
        self._segments: dict[str, Segments] = {}
        self._talks: dict[str, Conversation] = {}

    def heaps(self, only: Sequence[str] | None = None) -> Heaps:
        """Return the heaps of these workspaces, or of all (None), the configured one first."""

        def workspaces() -> Sequence[str]:
            if only is not None:
                return only
            own = self._settings.store.workspace
            return list(dict.fromkeys((own, *self._store.segments.workspaces())))

        def memories() -> Sequence[str]:
            found = self._memory().graph.workspaces()
            return [name for name in found if only is None or name in only]

        return Heaps(self._store.segments, self._openers, workspaces=workspaces, memories=memories)

    @contextmanager
    def _open_segments(self, workspace: str) -> Iterator[Source]:
        found = self._segments.get(workspace)
        if found is None:
            found = self._segments[workspace] = Segments(
                self._store,
                workspace=workspace,
                settings=self._settings,
                limit=self._limit,
                actor=ACTOR,
            )
            self._focus(found)
        if self._settings.memory.keeps_segments:
            found.keep(self._memory().cited_segments(workspace_id=workspace))
        yield WorkingSet(found)

    @contextmanager
    def _open_conversation(self, workspace: str) -> Iterator[Source]:
        found = self._talks.get(workspace)
        if found is None:
            found = self._talks[workspace] = Conversation.from_settings(
                self._settings,
                limit=self._limit,
                store=self._store,
                workspace=workspace,
                actor=ACTOR,
            )
        yield Talk(found)

    @contextmanager
    def _open_memory(self, workspace: str) -> Iterator[Source]:
        yield Remembered(self._memory().acting_as(ACTOR), workspace)


def conversations(fit: Fit) -> Heaps:
    """Return the proxy's conversations; those in use are read from memory."""
    return _talks(fit.store, fit.conversation, fit.workspaces)


def one_conversation(talk: Conversation) -> Heaps:
    """Return the heap of one conversation, read from its own store."""
    return _talks(talk.store, lambda _: talk, lambda: [talk.workspace])


def _talks(
    store: Store, find: Callable[[str], Conversation], workspaces: Callable[[], Sequence[str]]
) -> Heaps:
    @contextmanager
    def opened(workspace: str) -> Iterator[Source]:
        yield Talk(find(workspace))

    return Heaps(store.segments, {HeapKind.CONVERSATION: opened}, workspaces=workspaces)
