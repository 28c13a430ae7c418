"""Atoms and blocks: nothing lost, cut where lines and records end."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from marksweep.strategies.coverage.text import (
    LONG_BLOCK_CHARACTERS,
    MARKER,
    Kind,
    atoms_of,
    cut,
    join,
    shown,
)


def found(text: str, kind: Kind) -> set[str]:
    return {shown(atom) for atom, k in atoms_of(text).items() if k is kind}


def test_a_line_is_looked_at_in_four_ways() -> None:
    text = '  12: value = load_all("a/b.txt"), naïve Größe'
    assert "load_all" in found(text, Kind.NAME)
    assert "a/b.txt" in found(text, Kind.NAME)
    assert 'load_all("a/b.txt"),' in found(text, Kind.TOKEN)
    assert {"value", "load_all", "naïve", "Größe"} <= found(text, Kind.PART)
    bare = 'value = load_all("a/b.txt"), naïve Größe'
    assert found(text, Kind.LINE) == {bare, f"12: {bare}"}


def test_a_quoted_id_and_a_bare_one_share_the_name_and_not_the_token() -> None:
    quoted, bare = atoms_of('"id": "HAT001",'), atoms_of("HAT001")
    assert "HAT001" in {shown(atom) for atom in quoted.keys() & bare.keys()}
    assert {shown(a) for a, k in bare.items() if k is Kind.TOKEN} == {"HAT001"}
    assert not any(k is Kind.TOKEN and a in bare for a, k in quoted.items())


def test_a_path_with_a_line_number_holds_the_path_as_a_part_only() -> None:
    hit = atoms_of("lib/text_box.py:55: def draw")
    assert "lib/text_box.py" not in found("lib/text_box.py:55: def draw", Kind.NAME)
    assert "lib/text_box.py" in {shown(a) for a, k in hit.items() if k is Kind.PART}
    assert atoms_of("lib/text_box.py").items() & hit.items()


def test_text_in_any_script_has_atoms() -> None:
    assert "設定ファイル" in found("設定ファイル を読む", Kind.PART)
    assert "путь_к_файлу" in found("открой путь_к_файлу", Kind.NAME)


@given(st.text(alphabet='ab1_ \n,{}"', max_size=3000))
def test_all_pieces_together_are_the_text(text: str) -> None:
    pieces = cut(text).pieces
    assert join([(piece.text, piece.glued) for piece in pieces]) == text


@given(st.lists(st.booleans(), max_size=30))
def test_each_dropped_run_becomes_one_marker(kept: list[bool]) -> None:
    text = join([("x", False) if keep else None for keep in kept])
    runs = sum(1 for at, keep in enumerate(kept) if not keep and (at == 0 or kept[at - 1]))
    assert text.count(MARKER) == runs


def test_a_block_ends_where_a_line_ends() -> None:
    text = "\n".join(f"line number {n} says something" for n in range(50))
    pieces = cut(text).pieces
    assert len(pieces) > 5
    assert [line for piece in pieces for line in piece.text.split("\n")] == text.split("\n")


def test_a_long_line_is_cut_where_a_record_ends() -> None:
    line = json.dumps([{"id": f"row_{n}", "note": "some words here"} for n in range(60)])
    pieces = cut(line).pieces
    assert all(piece.text.endswith("}, ") for piece in pieces[:-1])
    assert all(len(piece.text) <= 1.3 * LONG_BLOCK_CHARACTERS for piece in pieces)


def test_a_value_near_a_cut_is_held_by_both_sides() -> None:
    line = json.dumps([{"id": f"row_{n}", "note": "some words here"} for n in range(60)])
    found = cut(line)
    alone = {a for piece in found.pieces for a, k in piece.atoms.items() if k is Kind.NAME}
    joint = {j.atom for j in found.shared if j.kind is Kind.NAME}
    assert alone
    assert joint
    assert not alone & joint
    for held in found.shared:
        assert list(held.pieces) == list(range(held.pieces[0], held.pieces[-1] + 1))
        assert len(held.pieces) >= 2
