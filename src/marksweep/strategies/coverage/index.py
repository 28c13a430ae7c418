"""Which block holds which atom, and what losing a block would cost.

A block is worth only what no other kept block holds. Three ideas carry it:

- Coverage. An older read is worthless once its lines are in a newer one, without any rule about
  reads; the last copy of an id is precious.
- An echo is not evidence. What the agent repeats in its own words covers a fact only in part.
- Has the agent ever acted on it? What occurred in an action is needed again far more often than
  what was only seen.

A dropped block is remembered, so that it can come back, until it is forgotten with the atoms that
only it held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

from marksweep.messages import Place
from marksweep.strategies.coverage.text import Atoms, Cut, Kind, Piece, shown
from marksweep.tokens import count

CHANCE = 0.02
"""Chance that a name seen once is needed at the next step. Only its ratio to PRIOR matters."""
HIGHEST_CHANCE = 0.9
"""Nothing is surer than this."""
KIND_WEIGHTS = {Kind.NAME: 1.0, Kind.LINE: 0.4, Kind.TOKEN: 0.5, Kind.PART: 0.3}
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
STALE_SHARE = 0.1
"""A block's worth is worked out again when its age grew by this share, or its atoms changed."""
MAX_RECALLABLE = 512
"""Dropped blocks of one atom that are looked at, the last to go first."""
MAX_IDLE_ATOMS = 8192
"""Atoms that the agent acted on and nothing holds any more, whose use is still remembered."""
MAX_FORMS = 8
"""Shorter forms of one message that are recognised when it takes them, the last proposed."""


class Atom:
    """Something that may be needed again, and where it is."""

    __slots__ = ("chance", "dropped", "holders", "key", "newest", "seen", "uses", "witnesses")

    def __init__(self, key: str, now: int) -> None:
        self.key = key
        self.chance = 0.0
        """Of being needed at the next step, if the agent never acted on it."""
        self.uses = 0
        """Actions of the agent that it occurred in."""
        self.seen = now
        self.holders = 0
        """Kept blocks that hold it."""
        self.witnesses = 0
        """Those of them that are observations."""
        self.newest: Block | None = None
        """The block that held it last."""
        self.dropped: list[Block] = []
        """Remembered blocks that held it, in the order in which they were dropped."""

    def need(self, now: int) -> float:
        """The chance that it is needed at the next step."""
        chance: float = self.chance * (now - self.seen + 1) ** -FADING
        if self.uses:
            chance *= ACTED * self.uses**AGAIN
        return min(chance, HIGHEST_CHANCE)

    def gain(self, block: Block) -> None:
        """Count a holder more."""
        self.holders += 1
        self.witnesses += block.observed

    def lose(self, block: Block) -> None:
        """Count a holder less."""
        self.holders -= 1
        self.witnesses -= block.observed

    def revalue(self) -> None:
        """Have the block valued again that held it last: its share in the atom has changed."""
        if self.newest is not None:
            self.newest.is_dirty = True


class Joint:
    """An atom that several blocks hold together: it is there only if all of them are kept."""

    __slots__ = ("atom", "blocks", "is_whole")

    def __init__(self, atom: Atom, blocks: list[Block]) -> None:
        self.atom = atom
        self.blocks = blocks
        self.is_whole = True

    def is_completed_by(self, block: Block, others: Collection[int]) -> bool:
        """Whether a block and these others, by number, are all that it takes."""
        return all(each is block or each.number in others for each in self.blocks)


class Block:
    """A part of a message that is kept or dropped as one."""

    __slots__ = (
        "atoms", "born", "glued", "is_copy", "is_dirty", "is_frame", "is_kept", "joints", "message",
        "number", "observed", "text", "tokens", "value", "valued_at", "weight",
    )  # fmt: skip

    def __init__(
        self,
        message: MessageBlocks,
        number: int,
        piece: Piece,
        tokens: int,
        *,
        observed: bool,
        born: int,
    ) -> None:
        self.message = message
        self.number = number
        self.text = piece.text
        self.glued = piece.glued
        self.tokens = max(1, tokens)
        self.observed = observed
        self.born = born
        self.atoms: tuple[Atom, ...] = ()
        self.joints: tuple[Joint, ...] = ()
        self.is_kept = True
        self.is_frame = False
        self.is_copy = False
        """Whether it came back from another message."""
        self.weight = 1.0
        """How many times as much it counts."""
        self.value = 0.0
        """Its worth per token as last worked out, at the step `valued_at`."""
        self.valued_at = 0
        self.is_dirty = True
        """Whether its atoms have other holders than when it was valued."""

    def all_atoms(self) -> Iterator[Atom]:
        """Give the atoms it holds, alone or together with others."""
        yield from self.atoms
        for joint in self.joints:
            yield joint.atom


class MessageBlocks:
    """A message in blocks."""

    def __init__(self, segment_id: str) -> None:
        self.segment_id = segment_id
        self.texts: list[tuple[Place, list[Block | None]]] = []
        """Where each text is, and its blocks; None: some were dropped and are forgotten."""
        self.frame: Block | None = None
        self.parts_kept = 0
        """How many of its blocks are kept, without the frame."""
        self.form: str | None = None
        """The form of the message that the blocks show now; None: it is not live."""
        self.forms: dict[bytes, frozenset[int]] = {}
        """The blocks that are kept in forms of the message, by the digest of the form."""

    def parts(self) -> list[Block]:
        """Give all blocks but the frame."""
        return [block for _, blocks in self.texts for block in blocks if block is not None]

    def blocks(self) -> list[Block]:
        """Give all blocks."""
        return self.parts() if self.frame is None else [*self.parts(), self.frame]

    @property
    def is_kept(self) -> bool:
        """Whether anything of it is kept."""
        return self.parts_kept > 0 or (self.frame is not None and self.frame.is_kept)

    def know_form(self, form: str, kept: Iterable[Block]) -> None:
        """Note which blocks are kept in a form of the message."""
        digest = _digest(form)
        self.forms.pop(digest, None)
        self.forms[digest] = frozenset([block.number for block in kept])
        while len(self.forms) > MAX_FORMS:
            del self.forms[next(iter(self.forms))]

    def kept_in(self, form: str) -> frozenset[int] | None:
        """Give the blocks that are kept in a form; None if that is not known any more."""
        kept = self.forms.get(_digest(form))
        if kept is None or not kept <= {block.number for block in self.blocks()}:
            return None
        return kept

    def remove(self, block: Block) -> None:
        """Take a forgotten block out. A run of forgotten blocks becomes one None."""
        if block is self.frame:
            self.frame = None
        for _, blocks in self.texts:
            if block in blocks:
                at = blocks.index(block)
                blocks[at] = None
                if blocks[at - 1 : at] == [None]:
                    del blocks[at]
                    at -= 1
                if blocks[at + 1 : at + 2] == [None]:
                    del blocks[at]
                return


class BlockIndex:
    """Blocks and their atoms: what is kept, what is remembered, and what each block is worth."""

    def __init__(self) -> None:
        self.now = 0
        self.atoms: dict[str, Atom] = {}
        self.remembered: OrderedDict[int, Block] = OrderedDict()
        """Dropped blocks that can come back, by number, in the order in which they were dropped."""
        self.remembered_tokens = 0
        self._numbers = 0
        self._fresh: list[Atom] = []
        """The atoms of this step."""
        self._idle_atoms = 0

    def step(self) -> None:
        """Begin a step: everything grows older by one."""
        self.now += 1
        self._fresh = []

    def add(
        self, message: MessageBlocks, text: Cut, tokens: int | None = None, *, observed: bool
    ) -> list[Block]:
        """Take in a text of a message; `tokens` if it is one block whose tokens are known."""
        atoms = sum(len(piece.atoms) for piece in text.pieces) + len(text.shared)
        crowding = (max(atoms, CROWD / 3) / CROWD) ** -CROWDING
        blocks: list[Block] = []
        for piece in text.pieces:
            size = count(piece.text) if tokens is None else tokens
            block = self._block(message, piece, size, observed=observed)
            found = piece.atoms.items()
            block.atoms = tuple([self._atom(key, kind, crowding) for key, kind in found])
            for atom in block.atoms:
                self._hold(atom, block)
            blocks.append(block)
        for shared in text.shared:
            atom = self._atom(shared.atom, shared.kind, crowding)
            joint = Joint(atom, [blocks[i] for i in shared.pieces])
            self._hold(atom, joint.blocks[-1])
            for block in joint.blocks:
                block.joints += (joint,)
        return blocks

    def copy(self, message: MessageBlocks, blocks: Sequence[Block]) -> list[Block]:
        """Let dropped blocks be in another message too, together and in this order."""
        copies: dict[int, Block] = {}
        for block in blocks:
            piece = Piece(block.text, block.glued and block.number - 1 in copies, {})
            copy = self._block(message, piece, block.tokens, observed=block.observed)
            copy.is_copy = True
            copy.weight = block.weight
            copy.atoms = block.atoms
            joints = [j for j in block.joints if j.is_completed_by(block, copies)]
            copies[block.number] = copy
            for joint in joints:
                again = Joint(joint.atom, [copies[each.number] for each in joint.blocks])
                for each in again.blocks:
                    each.joints += (again,)
            for atom in (*copy.atoms, *(joint.atom for joint in joints)):
                atom.gain(copy)
                atom.revalue()
                atom.newest = copy
        return list(copies.values())

    def act(self, atoms: Atoms) -> None:
        """Note what the agent acted on."""
        for key, kind in atoms.items():
            atom = self._atom(key, kind, 0.0)
            atom.uses += 1
            atom.revalue()

    def drop(self, block: Block) -> None:
        """Drop a block. `undrop` is the exact inverse, in the reverse order."""
        block.is_kept = False
        block.message.parts_kept -= not block.is_frame
        for atom in block.atoms:
            atom.lose(block)
        for joint in block.joints:
            if joint.is_whole:
                joint.is_whole = False
                joint.atom.lose(block)

    def undrop(self, block: Block) -> list[Atom]:
        """Keep a dropped block after all; give the atoms that it holds again."""
        block.is_kept = block.is_dirty = True
        block.message.parts_kept += not block.is_frame
        held = list(block.atoms)
        for joint in block.joints:
            if not joint.is_whole and all(each.is_kept for each in joint.blocks):
                joint.is_whole = True
                held.append(joint.atom)
        for atom in held:
            atom.gain(block)
        return held

    def remember(self, block: Block) -> None:
        """Note that a dropped block may be missed. What else holds its atoms is worth more now."""
        for atom in block.all_atoms():
            atom.revalue()
            atom.dropped.append(block)
        self.remembered[block.number] = block
        self.remembered_tokens += block.tokens

    def recover(self, block: Block) -> None:
        """Keep a remembered block where it was. What else holds its atoms may be worth less."""
        self._stop_remembering(block)
        for atom in self.undrop(block):
            atom.revalue()

    def forget_oldest(self) -> Block:
        """Forget the remembered block that was dropped first."""
        block = next(iter(self.remembered.values()))
        self._stop_remembering(block)
        self.release(block)
        return block

    def release(self, block: Block) -> None:
        """Let nothing refer to a block that is neither kept nor remembered."""
        for joint in block.joints:
            for other in joint.blocks:
                if other is not block:
                    other.joints = tuple([each for each in other.joints if each is not joint])
                    if other.number in self.remembered:
                        joint.atom.dropped.remove(other)
        for atom in block.all_atoms():
            if atom.newest is block:
                atom.newest = None
            atom.revalue()
            if not atom.holders and not atom.dropped:
                self._release_atom(atom)

    def worth(self, block: Block, last: int = 1, joined: Collection[Atom] | None = None) -> float:
        """Worth per token of a kept block: high stays longest.

        It is the need of what it alone holds, or as the only observation: of atoms with `last`
        holders, itself among them if it is kept. `joined` are the atoms it holds together with
        others that are there.
        """
        if joined is None and block.joints:
            joined = [joint.atom for joint in block.joints if joint.is_whole]
        atoms = (*block.atoms, *joined) if joined else block.atoms
        now, total = self.now, PRIOR / (self.now - block.born + 1)
        if block.observed:
            for atom in atoms:
                if atom.witnesses == last:
                    total += atom.need(now) * (1.0 if atom.holders == last else 1 - ECHO)
        else:
            for atom in atoms:
                if atom.holders == last:
                    total += atom.need(now) * ECHO
        return total * block.weight / block.tokens

    def cached_worth(self, block: Block) -> float:
        """The worth as last worked out, unless it is stale."""
        age = self.now - block.born
        if block.is_dirty or self.now - block.valued_at > STALE_SHARE * age:
            block.value = self.worth(block)
            block.valued_at = self.now
            block.is_dirty = False
        return block.value

    def worth_if_restored(self, block: Block, taken: Collection[int]) -> float:
        """Worth per token that a dropped block would have, beside those taken back already."""
        return self.worth(block, 0, _joined_with(block, taken))

    @contextmanager
    def hypothetically(self) -> Iterator[Callable[[Block, Collection[int]], None]]:
        """Take blocks back for as long as this lasts, to see what the others are worth then."""
        gained: list[tuple[Atom, Block]] = []

        def take(block: Block, taken: Collection[int]) -> None:
            for atom in (*block.atoms, *_joined_with(block, taken)):
                atom.gain(block)
                atom.revalue()
                gained.append((atom, block))

        try:
            yield take
        finally:
            for atom, block in gained:
                atom.lose(block)

    def recallable(self) -> list[Block]:
        """Dropped blocks that hold what this step speaks of and no observation in context does."""
        found: dict[int, Block] = {}
        for atom in self._fresh:
            if atom.dropped and (atom.witnesses == 0 or atom.holders == 0):
                found.update({block.number: block for block in atom.dropped[-MAX_RECALLABLE:]})
        return list(found.values())

    def spoken_of(self, blocks: Iterable[Block]) -> list[str]:
        """The atoms of dropped blocks that this step speaks of."""
        fresh = {atom.key for atom in self._fresh}
        held = dict.fromkeys(atom.key for block in blocks for atom in block.all_atoms())
        return [shown(key) for key in held if key in fresh]

    def _block(self, message: MessageBlocks, piece: Piece, tokens: int, *, observed: bool) -> Block:
        self._numbers += 1
        return Block(message, self._numbers, piece, tokens, observed=observed, born=self.now)

    def _atom(self, key: str, kind: Kind, crowding: float) -> Atom:
        """Give an atom. Its chance is that of the least crowded text it was found in."""
        atom = self.atoms.get(key)
        if atom is None:
            atom = self.atoms[key] = Atom(key, self.now)
        atom.chance = max(atom.chance, CHANCE * KIND_WEIGHTS[kind] * crowding)
        return atom

    def _hold(self, atom: Atom, block: Block) -> None:
        """Note a new holder of an atom; the one before it may now be worth less."""
        atom.gain(block)
        atom.revalue()
        atom.seen = self.now
        atom.newest = block
        self._fresh.append(atom)

    def _stop_remembering(self, block: Block) -> None:
        del self.remembered[block.number]
        self.remembered_tokens -= block.tokens
        for atom in block.all_atoms():
            atom.dropped.remove(block)

    def _release_atom(self, atom: Atom) -> None:
        """Forget an atom that nothing holds; that the agent acted on it, only if many are idle."""
        if not atom.uses:
            self.atoms.pop(atom.key, None)
            return
        self._idle_atoms += 1
        if self._idle_atoms > 2 * MAX_IDLE_ATOMS:
            idle = [each for each in self.atoms.values() if not each.holders and not each.dropped]
            idle.sort(key=lambda each: each.seen, reverse=True)
            for old in idle[MAX_IDLE_ATOMS:]:
                del self.atoms[old.key]
            self._idle_atoms = min(len(idle), MAX_IDLE_ATOMS)


def _joined_with(block: Block, others: Collection[int]) -> list[Atom]:
    """Give the atoms that a block holds together with these others alone."""
    return [joint.atom for joint in block.joints if joint.is_completed_by(block, others)]


def _digest(form: str) -> bytes:
    return blake2b(form.encode(errors="surrogatepass"), digest_size=16).digest()
