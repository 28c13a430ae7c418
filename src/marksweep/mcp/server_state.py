"""What one server works on: its store, its workspaces, and the folders it may read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

import msgspec

from marksweep.core.roots import Focus
from marksweep.errors import BadInput, Refused, StoreError
from marksweep.graph.place import ProjectPaths, place_of
from marksweep.monitoring import Monitor, Reading, cause_of
from marksweep.paths import expanded
from marksweep.segments import FocusArgs, Segments
from marksweep.settings import Settings, load_settings
from marksweep.stores.base import Store
from marksweep.stores.open import open_store

if TYPE_CHECKING:
    from marksweep.graph.memory import GraphMemory

ACTOR = "mcp"
"""The actor in the journal."""

logger = logging.getLogger(__name__)

Changes = Mapping[str, Mapping[str, object]]
"""Settings by group and name, in the shape of the settings file."""


class ToolSet(StrEnum):
    """Which tools a server offers."""

    FEW = "few"
    """Remember, recall, forget, index, who calls, prune: short definitions, text as answers."""
    ALL = "all"
    """These and the tools that steer the working set and its collector, with data as answers."""


class Access(msgspec.Struct, frozen=True):
    """What the caller of a request may see."""

    only: tuple[str, ...] | None = None
    """The caller's workspaces; None: all."""
    chosen: str = ""
    """The workspace it asked for; empty: its own first one, or the server's."""
    caller: str = "stdio"
    """The caller's name in the log: a digest of its token, or its address."""


ACCESS: ContextVar[Access] = ContextVar("marksweep_access", default=Access())  # noqa: B039
"""The access of the current request. Not set on stdio: the client started us."""


class Workspace:
    """An open workspace: one caller at a time, with settings that can be changed."""

    def __init__(
        self,
        name: str,
        changes: Changes,
        opener: Callable[[str, Changes], Segments],
        keep_cited: Callable[[Segments], None],
    ) -> None:
        self.name = name
        self._changes = changes
        self._open = opener
        self._keep_cited = keep_cited
        self._guard = RLock()
        self._focus_args = FocusArgs()
        self._segments = opener(name, changes)

    @contextmanager
    def segments(self) -> Iterator[Segments]:
        """Lock the working set, with what memories cite now; other callers of this server wait."""
        with self._guard:
            self._keep_cited(self._segments)
            yield self._segments

    def focus(self, args: FocusArgs) -> None:
        """Set what the agent works on; a change of settings keeps it."""
        with self._guard:
            self._segments.focus(**args._asdict())
            self._focus_args = args

    def current_focus(self) -> Focus:
        """Return what the agent works on, as the rules see it now."""
        with self._guard:
            return self._segments.current_focus()

    def configure(self, changes: Changes) -> Settings:
        """Change settings until this server ends; return those now in force."""
        with self._guard:
            merged = {
                group: {**self._changes.get(group, {}), **changes.get(group, {})}
                for group in {**self._changes, **changes}
            }
            segments = self._open(self.name, merged)
            segments.focus(**self._focus_args._asdict())
            self._segments, self._changes = segments, merged
            return self._segments.settings


class ServerState:
    """What a server works on, known once it has its folders."""

    def __init__(
        self,
        folders: Sequence[str | Path] | None = None,
        *,
        store: str = "",
        workspace: str = "",
        tools: str = ToolSet.FEW,
    ) -> None:
        """Prepare it. Without folders they are the client's, named at its first call."""
        self.tools = ToolSet(tools)
        self._workspace = workspace
        self._changes: Changes = {"store": {"location": store}} if store else {}
        self._guard = RLock()
        self._workspaces: dict[str, Workspace] = {}
        self._store: Store | None = None
        self._paths: ProjectPaths
        self._memory: GraphMemory | None = None
        self.monitor = Monitor(self._readings, self._measure)
        self.settings = Settings()
        """The project's settings, once the folders are known."""
        self.folders: tuple[Path, ...] = ()
        self.shown_plans: dict[tuple[str, str], str] = {}
        """The memory plans shown last, by workspace and strategy: a deletion applies these."""
        if folders is not None:
            self.settle(folders)

    @property
    def is_settled(self) -> bool:
        """Whether the folders are known."""
        return self._store is not None

    def settle(self, folders: Sequence[str | Path]) -> None:
        """Take the folders that may be read; the first is the project, whose store is opened."""
        with self._guard:
            if self.is_settled:
                return
            found = tuple(expanded(folder).resolve() for folder in folders)
            missing = [str(folder) for folder in found if not folder.is_dir()]
            if missing or not found:
                raise BadInput(
                    f"no such folder: {', '.join(missing) or 'none was named'}. "
                    "Start the server with --root FOLDER."
                )
            self.settings = settings = load_settings(found[0], explicit=self._changes)
            self._paths = place_of(settings, found[0])
            self._store = open_store(self._paths.store, settings.store.retention)
            self._workspace = self._workspace or settings.store.workspace
            self.folders = found

    def open_workspace(self, workspace: str = "") -> Workspace:
        """Return the workspace of the current request, or another that its caller may see."""
        with self._guard:
            name = self.workspace(workspace)
            if name not in self._workspaces:
                self._workspaces[name] = Workspace(
                    name, self._changes, self._open_segments, self._keep_cited
                )
            return self._workspaces[name]

    def _open_segments(self, workspace: str, changes: Changes) -> Segments:
        settings = load_settings(self.folders[0], explicit=changes)
        watch = self.monitor.watch
        return Segments(
            self.store, workspace=workspace, settings=settings, actor=ACTOR, watch=watch
        )

    def _keep_cited(self, segments: Segments) -> None:
        if self.settings.memory.keeps_segments:
            segments.keep(self.memory().sync.cited_segments(workspace_id=segments.workspace))

    def opened(self) -> Workspace | None:
        """Return the workspace of the current request if it is already open. Never waits."""
        return self._workspaces.get(self.workspace())

    def workspace(self, wanted: str = "") -> str:
        """Return the name of the current request's workspace; Refused if it is not the caller's."""
        access = ACCESS.get()
        own = access.only[0] if access.only else self._workspace
        name = wanted or access.chosen or own
        if access.only is not None and name not in access.only:
            raise Refused(
                f"workspace {name!r} is not open to this token; it may use "
                f"{', '.join(map(repr, access.only))}. Name one of these, or none."
            )
        return name

    @property
    def store(self) -> Store:
        """The store all workspaces are in."""
        if self._store is None:
            raise Refused(
                "this server does not know its folder yet. Call a tool first, or start it with "
                "--root FOLDER."
            )
        return self._store

    def allowed(self, path: str) -> Path:
        """Resolve a path with its links; Refused if it is outside the allowed folders."""
        if "\0" in path or not path.strip():
            raise BadInput(f"{path!r} is not a path. Name a file or folder.")
        given = expanded(path)
        try:
            found = (self.folders[0] / given).resolve()
        except (OSError, RuntimeError) as error:
            raise BadInput(f"{path!r} cannot be followed: {error}.") from error
        if not any(found.is_relative_to(folder) for folder in self.folders):
            raise Refused(
                f"{str(found)!r} is outside the folders this server may read: "
                f"{', '.join(map(str, self.folders))}. Start it with --root to allow more."
            )
        return found

    def memory(self) -> GraphMemory:
        """Return the long-term memory of all workspaces."""
        from marksweep.graph.memory import GraphMemory, KnowledgeGraph
        from marksweep.graph.pruning import MemorySettings
        from marksweep.stores.graph.open import open_graph

        with self._guard:
            if self._memory is None:
                store = self.store
                self._memory = GraphMemory(
                    KnowledgeGraph(
                        open_graph(self._paths.graph),
                        store,
                        backups=self._paths.backups,
                        settings=MemorySettings.of(self.settings),
                        actor=ACTOR,
                        focus=self._focus,
                        watch=self.monitor.watch,
                    )
                )
            return self._memory

    def _focus(self, workspace: str, now: datetime) -> Focus:
        """Return what the agent of a workspace works on, if it is one of ours."""
        opened = self._workspaces.get(workspace)
        return opened.current_focus() if opened else Focus(now=now)

    def _readings(self) -> list[Reading]:
        return [Reading("marksweep_live_conversations", len(self._workspaces))]

    def _measure(self) -> int:
        """Measure the store; StoreError if it or the memory does not answer."""
        if self._memory is not None:
            self._memory.sync.graph.workspaces()
        return self.store.size()

    def note_failure(self, what: str, error: BaseException | None) -> None:
        """Count failures; log an outage with the affected caller."""
        self.monitor.count("marksweep_failures_total", cause=cause_of(error))
        if isinstance(error, StoreError):
            access = ACCESS.get()
            own = access.only[0] if access.only else self._workspace
            about = {"workspace": access.chosen or own, "client": access.caller, "tool": what}
            logger.warning("%s failed: %s", what, error, extra=about)

    async def close(self) -> None:
        """Close the store and the memory."""
        if self._memory is not None:
            self._memory.graph.close()
        if self._store is not None:
            self._store.close()
