"""Coverage remembers what is live and a few more windows, however long the conversation is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.memory import source
from marksweep import Conversation
from marksweep.strategies.coverage import Coverage, CoverageState, index, text
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

LIMIT = 1_000


def conversation(path: Path) -> Conversation:
    talk = Conversation(limit=LIMIT, store=path / "talk.db", dialect="openai_chat")
    talk.extend([{"role": "user", "content": "Mend the parser."}])
    return talk


def known(talk: Conversation) -> CoverageState:
    assert isinstance(talk._strategy, Coverage)
    return talk._strategy._state


def held(talk: Conversation) -> int:
    """Count all that the strategy holds."""
    found = known(talk)
    blocks = [block for message in found.messages.values() for block in message.blocks()]
    forms = sum(len(message.forms) for message in found.messages.values())
    atoms = found.index.atoms.values()
    dropped = sum(len(atom.dropped) for atom in atoms)
    newest = sum(1 for atom in atoms if atom.newest is not None)
    return len(blocks) + len(found.messages) + forms + len(atoms) + dropped + newest


def read(talk: Conversation, first: int, last: int) -> None:
    for n in range(first, last):
        call = Call("read", {"path": f"src/file_{n}.py"}, source(n)[:2_000])
        _, *step = render_script(Script((Said(""), Answered("", calls=(call,)))), "openai_chat")
        talk.extend(step)
        assert talk.messages


def test_what_is_held_does_not_grow_with_what_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MAX_IDLE_ATOMS", 100)
    talk = conversation(tmp_path)
    read(talk, 0, 40)
    early = held(talk)
    read(talk, 40, 240)
    assert held(talk) <= 1.2 * early
    talk.close()


def test_every_atom_is_held_remembered_or_was_used(tmp_path: Path) -> None:
    talk = conversation(tmp_path)
    read(talk, 0, 60)
    found = known(talk).index
    for atom in found.atoms.values():
        assert atom.holders or atom.dropped or atom.uses
        assert all(block.number in found.remembered for block in atom.dropped)
        assert atom.newest is None or atom.newest.is_kept or atom.newest.number in found.remembered
    assert found.remembered_tokens == sum(block.tokens for block in found.remembered.values())
    talk.close()


def test_an_old_sweep_can_be_undone_after_its_blocks_are_forgotten(tmp_path: Path) -> None:
    talk = conversation(tmp_path)
    read(talk, 0, 60)
    before = [message.raw for message in talk.history]
    plans = [entry.plan_id for entry in talk.journal() if entry.event.value == "swept"]
    back = talk.undo(plans[-1])
    assert back
    talk.plan()
    assert [message.raw for message in talk.history] != before
    read(talk, 60, 62)
    talk.close()


def test_atoms_of_lines_are_remembered_for_short_lines_only() -> None:
    text._remembered_atoms.cache_clear()
    text.atoms_of("x" * (text.LONGEST_LINE + 1))
    assert text._remembered_atoms.cache_info().currsize == 0
    text.atoms_of("\n".join(f"line_{n}" for n in range(2 * text.CACHED_LINES)))
    assert text._remembered_atoms.cache_info().currsize == text.CACHED_LINES


def test_what_is_learnt_of_the_past_after_a_restart_is_not_kept_by_the_heap(tmp_path: Path) -> None:
    talk = conversation(tmp_path)
    read(talk, 0, 12)
    talk.close()
    again = conversation(tmp_path)
    again.plan()
    assert known(again).index.remembered
    assert again._heap._messages.keys() <= again._heap.live().keys()
    again.close()
