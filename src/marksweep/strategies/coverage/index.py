"""Which block holds which atom, and what losing a block would cost.

A block is worth only what no other kept block holds. Three ideas:

- Coverage. An older read is worthless once its lines are in a newer one, without any rule about
  reads; the last copy of an id is valuable.
- An echo is not evidence. What the agent repeats in its own words covers a fact only in part.
- Actions count. What occurred in an action is needed again far more often than
  what was only seen.

A dropped block is remembered, so that it can come back, until it is forgotten with the atoms that
only it held.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b

import msgspec

from marksweep.sections import Gap, Measure, Piece, Section, Sections
from marksweep.strategies.coverage.text import Atoms, Kind, atoms_of
from marksweep.tokens import count

CHANCE = 0.03
"""Chance that a name seen once is needed at the next step. Only its ratio to PRIOR matters."""
HIGHEST_CHANCE = 0.9
"""Upper bound of a chance."""
KIND_WEIGHTS = {Kind.NAME: 1.0, Kind.LINE: 0.4, Kind.WORD: 0.3}
"""Weight of each kind: lines come back together, and many words are in every text."""
CROWD, CROWDING = 30, 0.12
"""One of n atoms of a text counts (n / CROWD) ** -CROWDING times as much.

A fact on its own is needed sooner than one entry of a long list. Higher keeps short texts longer.
"""
ACTED, AGAIN = 20.0, 0.8
"""An atom in n actions counts ACTED * n ** AGAIN times as much as one that was only seen."""
FADING = 0.7
"""Chances fall with age ** -FADING, age in steps since the atom was last seen anywhere."""
ECHO = 0.8
"""Share of an atom's worth that any holder covers; only an observation covers the rest.

Higher keeps more of what the agent wrote, and less tool output.
"""
PRIOR = 0.01
"""Worth of a new block without atoms; it falls with age."""
OWN_CODE, OWN_WORDS = 0.03, 0.003
"""Worth per token of what the agent wrote, code blocks and words, when new, beside the atoms.

Agents write the same long text again with a change: a script, a command, a plan. Higher keeps more
of it whole, and less tool output. Of calls only the last of each tool has it, as code, if it is
long: a list of things to do is written again with one of them done, a file with a change.
Words are divided by the share that others have of the conversation: where an agent only talks,
its newest words are what it goes on from, and hardly anything else is there to keep.
"""
CALLED_AGAIN = 0.1
"""The same for the last of calls that are equal: a build, a test. It is made again, as it was.

Higher keeps such calls longer, however little else fits.
"""
LEAST_OTHERS = 0.1
"""Share that others have at least, for OWN_WORDS."""
FIRST_OTHERS = 400
"""Characters that others are assumed to have said before the first."""
OWN_FADING = 0.5
"""OWN_CODE and OWN_WORDS fall with age ** -OWN_FADING."""
FENCE = "```"
MAX_RECALLABLE = 512
"""Dropped blocks of one atom to consider, the last dropped first."""
MAX_IDLE_ATOMS = 8192
"""Atoms that the agent acted on and nothing holds any more, whose use is still remembered."""
MAX_FORMS = 8
"""How many of the last proposed shorter forms of a message are recognised."""


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
        """Return the chance that it is needed at the next step."""
        chance: float = self.chance * (now - self.seen + 1) ** -FADING
        if self.uses:
            chance *= ACTED * self.uses**AGAIN
        return chance if chance < HIGHEST_CHANCE else HIGHEST_CHANCE


class Block:
    """A part of a message that is kept or dropped as a whole."""

    __slots__ = (
        "at", "atoms", "born", "cut", "is_copy", "is_frame", "is_kept", "message", "number",
        "observed", "own", "section", "size", "tokens", "value", "weight",
    )  # fmt: skip

    def __init__(
        self,
        message: MessageBlocks,
        number: int,
        section: Section,
        tokens: int,
        *,
        observed: bool,
        born: int,
    ) -> None:
        self.message = message
        self.cut: CutText
        """The text that it is a part of, at the index `at`; a frame is part of none."""
        self.at = 0
        self.number = number
        self.section = section
        self.size = 1
        """How large it is, in the measure of its text."""
        self.tokens = max(1, tokens)
        self.observed = observed
        self.born = born
        self.atoms: tuple[Atom, ...] = ()
        self.is_kept = True
        self.is_frame = False
        self.is_copy = False
        """Whether it came back from another message."""
        self.weight = 1.0
        """Factor on its worth."""
        self.own = 0.0
        """Its worth per token when new, because the agent wrote it."""
        self.value = 0.0
        """Its worth per token that was free without it, when a sweep last proposed to drop it."""

    def hold_atoms(self, change: int = 1) -> None:
        """Count it as a holder of its atoms; with -1, no longer."""
        observed = change if self.observed else 0
        for atom in self.atoms:
            atom.holders += change
            atom.witnesses += observed

    @property
    def text(self) -> str:
        """Its text."""
        return self.section.text

    @property
    def gap(self) -> Gap:
        """What is missing without it."""
        return Gap(self.size, self.tokens)


class CutText(msgspec.Struct):
    """A text of a message in pieces: blocks, what belongs to the frame, and what is forgotten."""

    part: int
    pieces: list[Block | Piece]
    measure: Measure = Measure.LINES
    is_own: bool = False
    """Whether the agent wrote it."""
    is_note: bool = False
    """Whether it repeats blocks of other messages. No line stands for what goes of it."""
    gaps: int = 0
    """How many gaps it has."""

    def blocks(self) -> list[Block]:
        """Return the known blocks."""
        return [piece for piece in self.pieces if isinstance(piece, Block)]

    def count_gaps(self) -> None:
        """Count the gaps that it has."""
        indices = range(len(self.pieces))
        self.gaps = sum([self.is_gap(at) and not self.is_gap(at - 1) for at in indices])

    def gaps_made(self, at: int) -> int:
        """Return how many gaps more it has without what is at an index: a gap beside it grows."""
        return 1 - self.is_gap(at - 1) - self.is_gap(at + 1)

    def is_gap(self, at: int) -> bool:
        """Whether something is left out at an index; nothing is beyond the ends."""
        if not 0 <= at < len(self.pieces):
            return False
        piece = self.pieces[at]
        return not piece.is_kept if isinstance(piece, Block) else isinstance(piece, Gap)

    def shown(self) -> Sections | None:
        """Return what is kept; None if nothing goes, or if nothing the agent wrote would stay."""
        pieces: list[Piece] = []
        is_cut = False
        for each in self.pieces:
            if not isinstance(each, Block):
                pieces.append(each)
            elif each.is_kept:
                pieces.append(each.section)
            else:
                pieces.append(each.gap)
                is_cut = True
        if not is_cut:
            return None
        if self.is_own and not any(isinstance(piece, Section) for piece in pieces):
            return None
        return Sections(tuple(pieces), self.measure)


class MessageBlocks:
    """A message in blocks."""

    def __init__(self, segment_id: str) -> None:
        self.segment_id = segment_id
        self.texts: list[CutText] = []
        self.frame: Block | None = None
        self.parts_kept = 0
        """How many of its blocks are kept, without the frame."""
        self.form: str | None = None
        """The form of the message that the blocks show now; None: it is not live."""
        self.forms: dict[bytes, frozenset[int]] = {}
        """The blocks that are kept in forms of the message, by the digest of the form."""

    def parts(self) -> list[Block]:
        """Return all blocks except the frame."""
        if len(self.texts) == 1:
            return self.texts[0].blocks()
        return [block for text in self.texts for block in text.blocks()]

    def blocks(self) -> list[Block]:
        """Return all blocks."""
        return self.parts() if self.frame is None else [*self.parts(), self.frame]

    @property
    def is_kept(self) -> bool:
        """Whether anything of it is kept."""
        return self.parts_kept > 0 or (self.frame is not None and self.frame.is_kept)

    def know_form(self, form: str, kept: Iterable[Block]) -> None:
        """Record which blocks are kept in a form of the message."""
        digest = _digest(form)
        self.forms.pop(digest, None)
        self.forms[digest] = frozenset([block.number for block in kept])
        while len(self.forms) > MAX_FORMS:
            del self.forms[next(iter(self.forms))]

    def kept_in(self, form: str) -> frozenset[int] | None:
        """Return the blocks that are kept in a form; None if that is no longer known."""
        kept = self.forms.get(_digest(form))
        if kept is None or not kept <= {block.number for block in self.blocks()}:
            return None
        return kept

    def remove(self, block: Block) -> None:
        """Remove a forgotten block; in its text a gap is left."""
        if block is self.frame:
            self.frame = None
        else:
            block.cut.pieces[block.at] = block.gap


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
        self._last_calls: dict[str | bytes, Block] = {}
        """The frame of the last message that called a tool, or made the same call.

        By the tool's name, or a digest of the call.
        """
        self._worths: dict[int, dict[str | bytes, float]] = {}
        """What a frame is worth by each of its calls that is the last, by its number."""
        self._own_words = 0
        """Characters of what the agent said, without calls and code."""
        self._others = FIRST_OTHERS
        """Characters of everything else."""

    def step(self) -> None:
        """Begin a step: all ages grow by one."""
        self.now += 1
        self._fresh = []

    def add(self, message: MessageBlocks, text: Sections, *, observed: bool) -> list[Block | Piece]:
        """Add a text of a message; return it with blocks for its sections."""
        pieces: list[Block | Piece] = list(text.pieces)
        found = {at: atoms_of(p.text) for at, p in enumerate(pieces) if isinstance(p, Section)}
        atoms = sum(map(len, found.values()))
        is_fenced = False
        for at, held in found.items():
            section = text.pieces[at]
            if isinstance(section, Section):
                block = self._block(message, section, count(section.text), observed=observed)
                block.size = section.size(text.measure)
                if is_fenced and not observed:
                    block.own = OWN_CODE
                is_fenced ^= section.text.count(FENCE) % 2 == 1
                self._fill(block, held, atoms)
                pieces[at] = block
        return pieces

    def add_whole(self, message: MessageBlocks, text: str, tokens: int, *, observed: bool) -> Block:
        """Add a text that is one block."""
        block = self._block(message, Section(text), tokens, observed=observed)
        block.size = block.section.size(Measure.LINES)
        atoms = atoms_of(text)
        self._fill(block, atoms, len(atoms))
        return block

    def _fill(self, block: Block, found: Atoms, crowd: int) -> None:
        """Add atoms to a block; `crowd` is how many its text has."""
        crowding = (max(crowd, CROWD / 3) / CROWD) ** -CROWDING
        block.atoms = tuple([self._atom(key, kind, crowding) for key, kind in found.items()])
        block.hold_atoms()
        for atom in block.atoms:
            atom.seen = self.now
            atom.newest = block
        self._fresh += block.atoms

    def copy(self, message: MessageBlocks, blocks: Sequence[Block]) -> list[Block]:
        """Copy dropped blocks into another message, together and in this order."""
        copies: dict[int, Block] = {}
        for block in blocks:
            section = Section(block.text, block.section.glued and block.number - 1 in copies)
            copy = self._block(message, section, block.tokens, observed=block.observed)
            copy.size = block.size
            copy.is_copy = True
            copy.weight = block.weight
            copy.atoms = block.atoms
            copies[block.number] = copy
            copy.hold_atoms()
            for atom in copy.atoms:
                atom.newest = copy
        return list(copies.values())

    def hear(self, own_words: int, others: int) -> None:
        """Count the characters of what the agent said, and of everything else in a message."""
        self._own_words += own_words
        self._others += others

    def call(self, frame: Block, calls: Iterable[Sequence[str]], *, is_long: bool) -> None:
        """Record the calls of a message: the name of each tool, then what it is called with."""
        keys = [(call[0], _digest("\n".join(call))) for call in calls]
        known = {key: self._last_calls.get(key) for _, key in keys}
        for tool, key in keys:
            before = known[key]
            is_new = before is None or before.message.segment_id == frame.message.segment_id
            self._take_over(tool, frame, OWN_CODE if is_long else 0.0)
            self._take_over(key, frame, 0.0 if is_new else CALLED_AGAIN)

    def _take_over(self, key: str | bytes, frame: Block, worth: float) -> None:
        """Note the last call of its kind: the one before it is worth nothing by itself."""
        self._forget_call(key)
        self._last_calls[key] = frame
        worths = self._worths.setdefault(frame.number, {})
        worths[key] = worth
        frame.own = max(worths.values())

    def _forget_call(self, key: str | bytes) -> None:
        old = self._last_calls.pop(key, None)
        if old is not None:
            worths = self._worths[old.number]
            del worths[key]
            old.own = max(worths.values(), default=0.0)
            if not worths:
                del self._worths[old.number]

    def act(self, atoms: Atoms) -> None:
        """Record what the agent acted on."""
        for key, kind in atoms.items():
            self._atom(key, kind, 0.0).uses += 1

    def drop(self, block: Block) -> None:
        """Drop a block. `undrop` is the exact inverse, in the reverse order."""
        block.is_kept = False
        if not block.is_frame:
            block.message.parts_kept -= 1
            block.cut.gaps += block.cut.gaps_made(block.at)
        block.hold_atoms(-1)

    def undrop(self, block: Block) -> None:
        """Undo a drop."""
        block.is_kept = True
        if not block.is_frame:
            block.message.parts_kept += 1
            block.cut.gaps -= block.cut.gaps_made(block.at)
        block.hold_atoms()

    def remember(self, block: Block) -> None:
        """Remember a dropped block."""
        for atom in block.atoms:
            atom.dropped.append(block)
        self.remembered[block.number] = block
        self.remembered_tokens += block.tokens

    def recover(self, block: Block) -> None:
        """Keep a remembered block where it was."""
        self._stop_remembering(block)
        self.undrop(block)

    def forget_oldest(self) -> Block:
        """Forget the remembered block that was dropped first."""
        block = next(iter(self.remembered.values()))
        self._stop_remembering(block)
        self.release(block)
        return block

    def release(self, block: Block) -> None:
        """Remove all references to a block that is neither kept nor remembered."""
        for call in [*self._worths.get(block.number, ())]:
            self._forget_call(call)
        for atom in block.atoms:
            if atom.newest is block:
                atom.newest = None
            if not atom.holders and not atom.dropped:
                self._release_atom(atom)

    def worth(self, block: Block) -> float:
        """Return the worth per token of a kept block: the highest stays longest."""
        return self._worth_of_atoms(block, 1) + self._own_worth(block)

    def worth_if_restored(self, block: Block) -> float:
        """Return the worth per token of a dropped block if restored, beside those already taken.

        What the agent wrote itself counts by the share of atoms that nothing kept holds: what is
        still there, or came back before, does not come back again.
        """
        missing = sum([not atom.holders for atom in block.atoms])
        share = missing / max(1, len(block.atoms))
        return self._worth_of_atoms(block, 0) + share * self._own_worth(block)

    def _worth_of_atoms(self, block: Block, last: int) -> float:
        """Sum the need of atoms that only this block holds, or holds as the only observation.

        `last` is their number of holders: 1 if the block is kept, 0 if it is dropped.
        """
        now = self.now
        total = PRIOR / (now - block.born + 1)
        if block.observed:
            for atom in block.atoms:
                if atom.witnesses == last:
                    total += atom.need(now) * (1.0 if atom.holders == last else 1 - ECHO)
        else:
            for atom in block.atoms:
                if atom.holders == last:
                    total += atom.need(now) * ECHO
        return total * block.weight / block.tokens

    def _own_worth(self, block: Block) -> float:
        worth: float = block.own * (self.now - block.born + 1) ** -OWN_FADING
        return worth

    @contextmanager
    def hypothetically(self) -> Iterator[Callable[[Block], None]]:
        """Treat dropped blocks as kept inside a `with` statement, to value the others."""
        taken: list[Block] = []

        def take(block: Block) -> None:
            taken.append(block)
            block.hold_atoms()

        try:
            yield take
        finally:
            for block in taken:
                block.hold_atoms(-1)

    def recallable(self) -> list[Block]:
        """Return dropped blocks with what this step mentions and no kept observation holds."""
        found: dict[int, Block] = {}
        for atom in self._fresh:
            if atom.dropped and (atom.witnesses == 0 or atom.holders == 0):
                found.update({block.number: block for block in atom.dropped[-MAX_RECALLABLE:]})
        return list(found.values())

    def spoken_of(self, blocks: Iterable[Block]) -> list[str]:
        """Return the atoms of dropped blocks that this step mentions."""
        fresh = {atom.key for atom in self._fresh}
        held = dict.fromkeys(atom.key for block in blocks for atom in block.atoms)
        return [key for key in held if key in fresh]

    def _block(
        self, message: MessageBlocks, section: Section, tokens: int, *, observed: bool
    ) -> Block:
        self._numbers += 1
        block = Block(message, self._numbers, section, tokens, observed=observed, born=self.now)
        if not observed:
            others = self._others / (self._others + self._own_words)
            words = OWN_WORDS / max(others, LEAST_OTHERS)
            block.own = OWN_CODE if FENCE in section.text else words
        return block

    def _atom(self, key: str, kind: Kind, crowding: float) -> Atom:
        """Return an atom. Its chance is that of the least crowded text it was found in."""
        atom = self.atoms.get(key)
        if atom is None:
            atom = self.atoms[key] = Atom(key, self.now)
        atom.chance = max(atom.chance, CHANCE * KIND_WEIGHTS[kind] * crowding)
        return atom

    def _stop_remembering(self, block: Block) -> None:
        del self.remembered[block.number]
        self.remembered_tokens -= block.tokens
        for atom in block.atoms:
            atom.dropped.remove(block)

    def _release_atom(self, atom: Atom) -> None:
        """Forget an atom that nothing holds; if the agent acted on it, only when many are idle."""
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


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
