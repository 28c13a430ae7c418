"""The index behind coverage: which kept block holds which atom, and what losing it would cost.

A block is worth only what no other kept block holds. Three ideas carry it:

- Coverage. An older read is worthless once its lines stand in a newer one, without any rule about
  reads; the last copy of an id is precious.
- An echo is no evidence. What the agent repeats in its own words covers a fact only in part.
- Has the agent ever acted on it? What occurred in an action is needed again far more often than
  what was only seen.

The index is told of each block once, in order. The same stream gives the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from marksweep.core.atoms import LINE, NAME, PART, TOKEN, Kind
from marksweep.core.blocks import Cut, Piece

CHANCE = 0.02
"""Chance that a name seen once is needed at the next step. Only its ratio to PRIOR matters."""
MOST = 0.9
"""Nothing is surer than this."""
KINDS = {NAME: 1.0, LINE: 0.4, TOKEN: 0.5, PART: 0.3}
"""Weight of each kind: lines come back together, tokens and words mostly say what a name says."""
CROWD, CROWDING = 30, 0.12
"""One of n atoms of a text counts (n / CROWD) ** -CROWDING times as much.

What is said alone is needed sooner than one entry of a long list. Higher keeps short texts longer.
"""
ACTED, AGAIN = 20.0, 0.8
"""An atom in n actions counts ACTED * n ** AGAIN times as much as one that was only seen."""
FADING = 0.7
"""Chances fall with age ** -FADING, age in steps since the atom was last seen anywhere."""
ECHO = 0.4
"""Share of an atom's worth that any holder covers; the rest only an observation does."""
PRIOR = 0.01
"""Worth of a block that holds nothing found, when new; it falls with age."""
MOST_GONE = 512
"""Dropped blocks that are remembered per atom, so that a step does not grow with the history."""
STALE = 0.1
"""A block's worth is worked out again when its age grew by this share, or its atoms changed."""


Counts = tuple[list[int], list[int]]
"""For each atom, how many blocks hold it, and how many of these are observations."""


class Block:
    """A part of a message that is kept or given up as one."""

    __slots__ = (
        "age_at", "alive", "atoms", "born", "dirty", "glued", "home", "is_copy", "joints",
        "observed", "seq", "text", "tokens", "value", "weight",
    )  # fmt: skip

    def __init__(self, seq: int, piece: Piece, tokens: int, observed: bool, born: int) -> None:
        self.seq = seq
        self.text = piece.text
        self.glued = piece.glued
        self.tokens = max(1, tokens)
        self.observed = observed
        self.born = born
        self.atoms: tuple[int, ...] = ()
        self.joints: tuple[_Joint, ...] = ()
        self.alive = True
        self.home: object = None
        """The message it stands in."""
        self.is_copy = False
        """Whether it came back from another message."""
        self.weight = 1.0
        """How many times as much it counts."""
        self.value = 0.0
        self.age_at = 0
        self.dirty = True


class _Joint:
    """An atom held by several blocks together."""

    __slots__ = ("alive", "atom", "blocks")

    def __init__(self, atom: int, blocks: list[Block]) -> None:
        self.atom = atom
        self.blocks = blocks
        self.alive = True


class Index:
    """Atoms and their holders, and the worth of every block."""

    def __init__(self) -> None:
        self.now = 0
        self._ids: dict[str, int] = {}
        self._names: list[str] = []
        self._holders: list[int] = []
        self._witnesses: list[int] = []
        self._uses: list[int] = []
        self._seen: list[int] = []
        self._chance: list[float] = []
        self._newest: list[Block | None] = []
        self._gone: dict[int, list[Block]] = {}
        self._fresh: list[int] = []
        self.blocks: list[Block] = []
        """All blocks by number."""
        self._fading: list[float] = [1.0]
        self._boost: list[float] = [1.0]
        self._crowded = 1.0

    def step(self) -> None:
        """Begin a step: everything grows older by one."""
        self.now += 1
        self._fading.append((self.now + 1) ** -FADING)
        self._fresh = []

    def add(self, text: Cut, tokens: Callable[[str], int], *, observed: bool) -> list[Block]:
        """Take in the pieces of a new text."""
        self._crowd(sum(len(piece.atoms) for piece in text.pieces) + len(text.joints))
        blocks = [self._block(p, tokens(p.text), observed) for p in text.pieces]
        for joint in text.joints:
            number = self._id(joint.atom, joint.kind, self._crowded)
            held = _Joint(number, [blocks[i] for i in joint.pieces])
            self._hold(held.atom, held.blocks[-1])
            for block in held.blocks:
                block.joints += (held,)
        return blocks

    def add_whole(self, piece: Piece, tokens: int, *, observed: bool, weight: float = 1.0) -> Block:
        """Take in a new text as one block."""
        self._crowd(len(piece.atoms))
        block = self._block(piece, tokens, observed)
        block.weight = weight
        return block

    def act(self, atoms: dict[str, Kind]) -> None:
        """Take note of what the agent acted on."""
        for atom, kind in atoms.items():
            number = self._id(atom, kind, 0.0)
            self._uses[number] += 1
            newest = self._newest[number]
            if newest is not None:
                newest.dirty = True
            if self._uses[number] >= len(self._boost):
                self._boost.append(ACTED * self._uses[number] ** AGAIN)

    def drop(self, block: Block) -> None:
        """Give a block up; `keep` and `put_back` take that back."""
        holders, witnesses = self._holders, self._witnesses
        block.alive = False
        for atom in block.atoms:
            holders[atom] -= 1
        if block.observed:
            for atom in block.atoms:
                witnesses[atom] -= 1
        for joint in block.joints:
            if joint.alive:
                joint.alive = False
                self._release(joint.atom, block)

    def keep(self, block: Block) -> None:
        """Have a dropped block where it was. What else holds its atoms may be worth less."""
        block.alive = block.dirty = True
        for atom in (*block.atoms, *_joined_again(block)):
            self._regain(atom, block)

    def counts(self) -> Counts:
        """Give what drops change, for `put_back`."""
        return self._holders.copy(), self._witnesses.copy()

    def put_back(self, counts: Counts, blocks: Sequence[Block]) -> None:
        """Have all as it was when these were counted: these blocks were dropped since."""
        self._holders, self._witnesses = counts
        for block in blocks:
            block.alive = block.dirty = True
        for block in blocks:
            _joined_again(block)

    def remember(self, block: Block) -> None:
        """Note that a dropped block is gone and may be missed; of copies there is an original.

        What else holds its atoms may be worth more.
        """
        for atom in (*block.atoms, *(joint.atom for joint in block.joints)):
            newest = self._newest[atom]
            if newest is not None:
                newest.dirty = True
            if not block.is_copy:
                self._gone.setdefault(atom, []).append(block)

    def copies(self, blocks: Sequence[Block]) -> list[Block]:
        """Let dropped blocks stand in a new place, together and in this order."""
        taken: set[int] = set()
        made: dict[int, Block] = {}
        for block in blocks:
            piece = Piece(block.text, block.glued and block.seq - 1 in taken, ())
            copy = Block(len(self.blocks), piece, block.tokens, block.observed, self.now)
            self.blocks.append(copy)
            copy.is_copy = True
            copy.weight = block.weight
            made[block.seq] = copy
            copy.atoms = block.atoms
            joints = [j for j in block.joints if _is_whole(j, block, taken)]
            taken.add(block.seq)
            for joint in joints:
                again = _Joint(joint.atom, [made[b.seq] for b in joint.blocks])
                for each in again.blocks:
                    each.joints += (again,)
            for atom in (*copy.atoms, *(joint.atom for joint in joints)):
                self._regain(atom, copy)
                self._newest[atom] = copy
        return list(made.values())

    def worth(self, block: Block, last: int = 1, joined: Collection[int] | None = None) -> float:
        """Worth per token of a kept block: high stays longest.

        What it alone holds, or as the only observation: what has `last` holders, itself among them
        if it is kept. `joined` are the atoms it holds together with others that are there.
        """
        now = self.now
        total = PRIOR / (now - block.born + 1)
        counts = self._witnesses if block.observed else self._holders
        only = [atom for atom in block.atoms if counts[atom] == last]
        if block.joints:
            if joined is None:
                joined = [joint.atom for joint in block.joints if joint.alive]
            only += [atom for atom in joined if counts[atom] == last]
        if only:
            alone = 1.0 if block.observed else ECHO
            holders, uses, seen = self._holders, self._uses, self._seen
            chance, boost, fading = self._chance, self._boost, self._fading
            for atom in only:
                needed = chance[atom] * boost[uses[atom]] * fading[now - seen[atom]]
                share = alone if holders[atom] == last else 1 - ECHO
                total += share * (needed if needed < MOST else MOST)
        return total * block.weight / block.tokens

    def worth_about(self, block: Block) -> float:
        """The worth as last worked out, unless it is stale."""
        if block.dirty or self.now - block.age_at > STALE * (self.now - block.born):
            block.value = self.worth(block)
            block.age_at = self.now
            block.dirty = False
        return block.value

    def worth_back(self, block: Block, taken: Collection[int]) -> float:
        """Worth per token that a dropped block would have, beside those taken back already."""
        joined = [joint.atom for joint in block.joints if _is_whole(joint, block, taken)]
        return self.worth(block, 0, joined)

    @contextmanager
    def trial(self) -> Iterator[Callable[[Block, Collection[int]], None]]:
        """Take blocks back for as long as this lasts, to see what the others are worth then."""
        regained: list[tuple[int, Block]] = []

        def take(block: Block, taken: Collection[int]) -> None:
            joined = (joint.atom for joint in block.joints if _is_whole(joint, block, taken))
            for atom in (*block.atoms, *joined):
                self._regain(atom, block)
                regained.append((atom, block))

        try:
            yield take
        finally:
            for atom, block in regained:
                self._release(atom, block)

    def missing(self) -> list[Block]:
        """Dropped blocks that hold what this step speaks of and no observation in context does."""
        found: dict[int, Block] = {}
        for atom in self._fresh:
            gone = self._gone.get(atom)
            if gone and (self._witnesses[atom] == 0 or self._holders[atom] == 0):
                still = {block.seq: block for block in gone[-MOST_GONE:] if not block.alive}
                self._gone[atom] = list(still.values())
                found.update(still)
        return list(found.values())

    def lost(self, blocks: Sequence[Block]) -> tuple[int, int]:
        """How many atoms of dropped blocks no kept block holds, and how many of them were used."""
        holders, uses = self._holders, self._uses
        gone = {atom for block in blocks for atom in block.atoms if not holders[atom]}
        for block in blocks:
            if block.joints:
                gone.update([joint.atom for joint in block.joints if not holders[joint.atom]])
        return len(gone), sum([1 for atom in gone if uses[atom]])

    def missed(self, blocks: Iterable[Block]) -> list[str]:
        """The atoms of dropped blocks that this step speaks of."""
        fresh = set(self._fresh)
        held = (a for b in blocks for a in (*b.atoms, *(joint.atom for joint in b.joints)))
        return [self._names[a] for a in dict.fromkeys(held) if a in fresh]

    def are_newer_elsewhere(self, blocks: Iterable[Block]) -> bool:
        """Whether later messages hold something of each of these blocks."""
        found = self._newest
        for block in blocks:
            for atom in block.atoms:
                newest = found[atom]
                if newest is not None and newest.seq > block.seq and newest.home is not block.home:
                    break
            else:
                return False
        return True

    def _block(self, piece: Piece, tokens: int, observed: bool) -> Block:
        block = Block(len(self.blocks), piece, tokens, observed, self.now)
        self.blocks.append(block)
        block.atoms = tuple([self._id(atom, kind, self._crowded) for atom, kind in piece.atoms])
        for atom in block.atoms:
            self._hold(atom, block)
        return block

    def _id(self, atom: str, kind: Kind, share: float) -> int:
        """Number of an atom. Its chance is that of the least crowded text it was found in."""
        chance = CHANCE * KINDS[kind] * share
        number = self._ids.get(atom)
        if number is None:
            number = self._ids[atom] = len(self._names)
            self._names.append(atom)
            self._holders.append(0)
            self._witnesses.append(0)
            self._uses.append(0)
            self._seen.append(self.now)
            self._chance.append(chance)
            self._newest.append(None)
        elif chance > self._chance[number]:
            self._chance[number] = chance
        return number

    def _crowd(self, atoms: int) -> None:
        """Take note of how many atoms share a text, before they are taken in."""
        self._crowded = (max(atoms, CROWD / 3) / CROWD) ** -CROWDING

    def _hold(self, atom: int, block: Block) -> None:
        """Count a holder; the one before it may now be worth less."""
        self._holders[atom] += 1
        self._witnesses[atom] += block.observed
        self._seen[atom] = self.now
        self._fresh.append(atom)
        before = self._newest[atom]
        if before is not None:
            before.dirty = True
        self._newest[atom] = block

    def _release(self, atom: int, block: Block) -> None:
        self._holders[atom] -= 1
        self._witnesses[atom] -= block.observed

    def _regain(self, atom: int, block: Block) -> None:
        self._holders[atom] += 1
        self._witnesses[atom] += block.observed
        newest = self._newest[atom]
        if newest is not None:
            newest.dirty = True


def _joined_again(block: Block) -> list[int]:
    """Let joints hold again that a block was missing in; give their atoms."""
    back = [j for j in block.joints if not j.alive and all(b.alive for b in j.blocks)]
    for joint in back:
        joint.alive = True
    return [joint.atom for joint in back]


def _is_whole(joint: _Joint, block: Block, others: Collection[int]) -> bool:
    """Whether a block and these others are all that hold an atom together."""
    return all(each is block or each.seq in others for each in joint.blocks)
