"""What an agent does with its memory: remember, recall, forget, on every heap.

A note goes to the long-term memory. Recall ranks the working set, the stash, notes and code
together, and returns excerpts with ids. Forgetting can be undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from marksweep.errors import BadInput, NotFound, member
from marksweep.graph.erasure import Forgotten
from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.notes import known_note, time_to_live
from marksweep.model import listed
from marksweep.search.ranking import Asked, Match, fields, held, ranked, score, weighed
from marksweep.search.words import stems
from marksweep.segments import Segments
from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.nouns import CODE_INDEXER, Memory
from marksweep.strategies.scored import Disposal
from marksweep.tokens import count

AGENT = "agent"
"""The source of an agent's notes."""

RECALLED_TOKENS = 2_000
"""Default limit, in tokens, of all that is recalled."""

LEAST_EXCERPT, HEAD_TOKENS = 30, 45
"""Minimum tokens of an excerpt; also the allowance for the line with its id and place."""

FROM_EACH = 30
"""Matches of each heap that are ranked together, or the limit if that is higher."""

NOTE_WEIGHT = 2
"""Weight of a match in a note, compared with code or context: a note was written to be found.

Higher ranks notes above code that has more of the words.
"""

ALIKE = 0.6
"""Share of a new note's words that an older one must have to be named as possibly replaced.

Higher names fewer.
"""

ALIKE_CHARS = 200
"""Characters that are shown of a note that says nearly the same."""

PLAN_PREFIX = "plan-"
"""What the ids of plans begin with."""

NEWEST = frozenset({"", "*", "latest", "newest", "recent"})
"""Queries that ask for the newest notes."""


class Where(StrEnum):
    """Where something is remembered."""

    LIVE = "live"
    """In the working set."""
    STASHED = "stashed"
    """Swept from the working set."""
    NOTE = "note"
    CODE = "code"

    @classmethod
    def named(cls, names: Sequence[str]) -> tuple[Where, ...]:
        """Look up names; none means all."""
        return tuple(member(cls, name, "cannot look in") for name in names) or tuple(cls)


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A note that was remembered."""

    memory_id: str
    known: bool
    """Whether the same text was remembered before."""
    replaced: tuple[str, ...] = ()
    """Notes that are no longer valid."""
    alike: tuple[tuple[str, str], ...] = ()
    """Ids and texts of valid notes that say nearly the same: possibly replaced by this one."""

    def __str__(self) -> str:
        """Write it for people and models."""
        lines = [f"{'Already known' if self.known else 'Remembered'}: {self.memory_id}"]
        if self.replaced:
            replaced = ", ".join(self.replaced)
            lines.append(f"No longer valid, kept for recall as of earlier: {replaced}")
        lines += [
            f"Says nearly the same: [{memory_id}] {' '.join(text.split())[:ALIKE_CHARS]} "
            "(if it is untrue now: remember again with replaces)"
            for memory_id, text in self.alike
        ]
        return "\n".join(lines)


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """A match, cut to the token limit."""

    id: str
    where: Where
    place: str
    """The file with its lines and symbol, or what kind of segment or note it is."""
    text: str
    cut: bool = False
    """Whether the text is an excerpt."""
    score: float = 0.0
    created_at: datetime
    valid_until: datetime | None = None
    replaced_by: str = ""


class ForgetResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten or restored, and what was not."""

    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """Ids that were left alone, each with the reason."""
    restored: bool = False
    """Whether they were restored instead of forgotten."""

    def __str__(self) -> str:
        """Write it for people and models."""
        verb = "Restored" if self.restored else "Forgotten"
        head = f"{verb}: {', '.join(self.done) or 'nothing'}"
        return "\n".join([head, *(f"Not: {each}" for each in self.left)])


class AgentMemory:
    """The memory of the agent in one workspace: its graph and its working set."""

    def __init__(self, memory: KnowledgeGraph, segments: Segments) -> None:
        self._memory = memory
        self._segments = segments
        self._workspace = segments.workspace

    def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        replaces: Sequence[str] = (),
        pinned: bool = False,
        ttl: str = "",
    ) -> Remembered:
        """Save a note for later sessions; those that it replaces, such as `latest`, become invalid.

        They stay, and `recall` as of an earlier time still finds them. A note with a `ttl`, such as
        30d, is no longer recalled after that time, and a prune of `expired` deletes it.
        """
        life = time_to_live(ttl)
        replaces = self._named(listed("replaces", replaces))
        graph, now = self._memory.graph, self._memory.now()
        before, _ = known_note(graph, self._workspace, AGENT, text, now)
        alike = self._alike(text)
        kept = self._memory.add_memory(
            text,
            tags=tags,
            source=AGENT,
            replaces=replaces,
            ttl=life,
            pinned_by=AGENT if pinned else "",
            workspace_id=self._workspace,
        )
        gone = {kept.memory_id, *replaces}
        return Remembered(
            memory_id=kept.memory_id,
            known=before is not None,
            replaced=tuple(each for each in replaces if each != kept.memory_id),
            alike=tuple((m.memory_id, m.text) for m in alike if m.memory_id not in gone),
        )

    def _alike(self, text: str) -> list[Memory]:
        """Find valid notes that contain most of a text's words."""
        words = set(stems(text))
        query = GraphQuery(sources=(AGENT, "user"), limit=3)
        hits = self._memory.search_memory(text, workspace_id=self._workspace, query=query).hits
        found = {hit.memory.memory_id: hit.memory for hit in hits}
        return [
            memory
            for memory in found.values()
            if words and len(words & set(stems(memory.text))) >= ALIKE * len(words)
        ]

    def recall(
        self,
        query: str,
        *,
        where: Sequence[str] = (),
        tags: Sequence[str] = (),
        path: str = "",
        as_of: datetime | None = None,
        limit: int = 10,
        tokens: int = RECALLED_TOKENS,
    ) -> tuple[Recalled, ...]:
        """Find what is remembered, best first; an id returns that one item in full.

        `as_of` asks which notes were valid then. Without words, returns the newest notes. Texts are
        cut to excerpts if together they exceed `tokens`.
        """
        if limit < 1 or tokens < 1:
            raise BadInput(f"limit is {limit} and tokens {tokens}; expected 1 or more.")
        wanted = query.strip()
        if whole := self._by_id(wanted):
            return (whole,)
        places = Where.named(where)
        newest = wanted.casefold() in NEWEST
        graph = GraphQuery(
            tags=listed("tags", tags),
            path=path or None,
            as_of=as_of,
            sources=_sources(places, newest=newest),
            limit=max(FROM_EACH, limit),
        )
        found = self._from_graph("" if newest else wanted, places, graph, limit)
        if not newest and as_of is None:
            found += self._from_segments(wanted, places, graph)
        best = found[:limit] if newest else _ranked(wanted, found, limit)
        notes = [each.id for each in best if each.where is Where.NOTE]
        if notes:
            self._memory.touch(notes, workspace_id=self._workspace)
        words = set(stems(wanted))
        room = max(LEAST_EXCERPT, tokens // max(1, len(best)) - HEAD_TOKENS)
        return tuple(_excerpt(each, words, room) for each in best)

    def _by_id(self, name: str) -> Recalled | None:
        if not name or " " in name:
            return None
        for record in self._memory.graph.fetch(self._workspace, [name]):
            if record.memory.deleted_at is None:
                self._memory.touch([name], workspace_id=self._workspace)
                text = "\n".join(chunk.text for chunk in record.chunks)
                return _of_memory(record.memory, record.memory.text or text)
        if (live := self._segments.get(name)) is not None:
            return Recalled(
                id=name, where=Where.LIVE, place=live.type, text=live.text,
                created_at=live.created_at,
            )  # fmt: skip
        for entry in self._segments.store.stash.get(self._workspace, [name]):
            return Recalled(
                id=name, where=Where.STASHED, place=entry.segment.type, text=entry.segment.text,
                created_at=entry.segment.created_at,
            )  # fmt: skip
        return None

    def _from_graph(
        self, words: str, places: Sequence[Where], query: GraphQuery, limit: int
    ) -> list[Recalled]:
        """Search the graph. A note is one match, however many of its chunks match."""
        if Where.NOTE not in places and Where.CODE not in places:
            return []
        while True:
            hits = self._memory.search_memory(words, workspace_id=self._workspace, query=query).hits
            found: dict[str, Recalled] = {}
            for hit in hits:
                each = _of_hit(hit)
                is_note = each.where is Where.NOTE
                if each.where in places:
                    found.setdefault(each.id if is_note else hit.chunk.chunk_id, each)
            if len(found) >= limit or len(hits) < query.limit:
                return list(found.values())
            query = msgspec.structs.replace(query, limit=2 * query.limit)

    def _from_segments(
        self, words: str, places: Sequence[Where], query: GraphQuery
    ) -> Iterator[Recalled]:
        filters: dict[str, object] = {"tags": query.tags, "limit": query.limit}
        if query.path:
            filters["file_path"] = query.path
        if Where.LIVE in places:
            for live in self._segments.search(words, **filters):
                yield Recalled(
                    id=live.found.segment_id,
                    where=Where.LIVE,
                    place=live.found.file_path or live.found.type,
                    text=live.found.text,
                    created_at=live.found.created_at,
                )
        if Where.STASHED in places:
            for hit in self._segments.search_stash(words, **filters):
                segment = hit.found.segment
                yield Recalled(
                    id=segment.segment_id,
                    where=Where.STASHED,
                    place=segment.file_path or segment.type,
                    text=segment.text,
                    created_at=segment.created_at,
                )

    def forget(self, ids: Sequence[str]) -> ForgetResult:
        """Delete notes, files and live segments by id; they can be restored for the grace period.

        What is pinned stays. `latest` is the newest note.
        """
        wanted = self._named(listed("ids", ids))
        memories, live, left = [], [], []
        known = {r.memory.memory_id for r in self._memory.graph.fetch(self._workspace, wanted)}
        for each in dict.fromkeys(wanted):
            if each in known:
                memories.append(each)
            elif self._segments.get(each) is not None:
                live.append(each)
            elif self._segments.store.stash.get(self._workspace, [each]):
                left.append(
                    f"{each}: swept already; it is kept in the stash until that expires, or erased "
                    "for good by `marksweep forget --everywhere`"
                )
            else:
                left.append(f"{each}: nothing has this id")
        done: list[str] = []
        if memories:
            gone = self._memory.forget(memories, workspace_id=self._workspace)
            done += gone.gone.memories
            left += gone.unreached
        if live:
            plan = self._segments.plan_for(live, Disposal.DELETE)
            done += self._segments.collect(plan, confirm=plan.plan_id).swept
            left += [f"{each}: pinned or in use" for each in live if each not in done]
        return ForgetResult(done=tuple(done), left=tuple(left))

    def erase(self, ids: Sequence[str]) -> Forgotten:
        """Erase notes and files permanently, pinned ones too, in every copy that can be reached."""
        return self._memory.forget(
            self._named(listed("ids", ids)), workspace_id=self._workspace, everywhere=True
        )

    def restore(self, ids: Sequence[str]) -> ForgetResult:
        """Restore what was forgotten, pruned or swept: by id, by plan, or the latest deletion."""
        done: list[str] = []
        left: list[str] = []
        for each in dict.fromkeys(listed("ids", ids)):
            try:
                done += self._taken_back(each)
            except NotFound as missing:
                left.append(f"{each}: {missing}")
        return ForgetResult(done=tuple(done), left=tuple(left), restored=True)

    def _taken_back(self, name: str) -> Sequence[str]:
        workspace = self._workspace
        if name.casefold() == "latest":
            name = self._memory.collector(workspace).latest() or ""
            if not name:
                raise NotFound("nothing was deleted from the memory recently.")
        if self._segments.store.stash.get(workspace, [name]):
            return self._segments.restore(name)
        if not name.startswith(PLAN_PREFIX):
            return self._memory.restore(memory_ids=[name], workspace_id=workspace).memories
        try:
            return self._memory.restore(plan_id=name, workspace_id=workspace).memories
        except NotFound:
            return self._segments.undo(name)

    def _named(self, ids: Sequence[str]) -> list[str]:
        return [self._latest() if each.casefold() == "latest" else each for each in ids]

    def _latest(self) -> str:
        query = GraphQuery(sources=(AGENT, "user"), limit=1)
        hits = self._memory.search_memory("", workspace_id=self._workspace, query=query).hits
        if not hits:
            raise NotFound("there is no latest note: nothing is remembered yet.")
        return hits[0].memory.memory_id


def _sources(places: Sequence[Where], *, newest: bool) -> tuple[str, ...]:
    """Return which memories to search: only code, only notes for the newest, else all."""
    if Where.NOTE not in places:
        return (CODE_INDEXER,)
    return (AGENT, "user") if newest or Where.CODE not in places else ()


def _of_hit(hit: GraphHit) -> Recalled:
    chunk = hit.chunk
    made = _of_memory(hit.memory, chunk.text)
    if made.where is Where.NOTE:
        return msgspec.structs.replace(made, cut=chunk.text != hit.memory.text)
    symbol = f" {chunk.symbol}" if chunk.symbol else ""
    place = f"{hit.memory.relative_path}:{chunk.start_line}-{chunk.end_line}{symbol}"
    return msgspec.structs.replace(made, place=place)


def _of_memory(memory: Memory, text: str) -> Recalled:
    is_code = memory.source == CODE_INDEXER
    return Recalled(
        id=memory.memory_id,
        where=Where.CODE if is_code else Where.NOTE,
        place=memory.relative_path if is_code else " ".join(memory.tags),
        text=text,
        created_at=memory.created_at,
        valid_until=memory.valid_until,
        replaced_by=memory.superseded_by,
    )


def _ranked(query: str, found: Sequence[Recalled], limit: int) -> list[Recalled]:
    """Rank the matches of all heaps together, as one collection."""
    asked = Asked.of(query)
    matches = []
    holders: Counter[str] = Counter()
    for number, each in enumerate(found):
        symbol = each.place.rpartition(" ")[2] if each.where is Where.CODE else each.place
        split = fields(each.text, symbol, each.place if each.where is Where.CODE else "")
        holders.update(set(" ".join(split).split()).intersection(asked.words))
        key = f"{each.where}:{each.id}"
        matches.append(Match(number, key, number, "", symbol, *split))
    words = weighed(held((word, holders[word]) for word in asked.words), len(found))
    ranks = ranked([(match, score(match, words)) for match in matches], asked, len(found))
    weights = dict.fromkeys(Where, 1) | {Where.NOTE: NOTE_WEIGHT}
    best = [
        msgspec.structs.replace(found[n], score=worth * weights[found[n].where])
        for n, worth in ranks.items()
    ]
    return sorted(best, key=lambda each: -each.score)[:limit]


def _excerpt(found: Recalled, words: set[str], tokens: int) -> Recalled:
    """Cut a text to the lines around those that match the most words; a long line, to a part."""
    if count(found.text) <= tokens:
        return found
    lines = found.text.split("\n")
    scores = [len(words.intersection(stems(line))) for line in lines]
    first = last = max(range(len(lines)), key=lambda n: (scores[n], bool(lines[n].strip())))
    used = count(lines[first])
    while True:
        following = [n for n in (first - 1, last + 1) if 0 <= n < len(lines)]
        if not following:
            break
        chosen = max(following, key=lambda n: (scores[n], n > last))
        used += count(lines[chosen]) + 1
        if used > tokens:
            break
        first, last = min(first, chosen), max(last, chosen)
    text = "\n".join(lines[first : last + 1])
    if (needed := count(text)) > tokens:
        size = max(1, len(text) * tokens // needed)
        parts = (text[at : at + size] for at in range(0, len(text), size))
        text = max(parts, key=lambda part: len(words.intersection(stems(part))))
    return msgspec.structs.replace(found, text=text.strip("\n"), cut=True)
