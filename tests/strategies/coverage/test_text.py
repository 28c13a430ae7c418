"""Atoms: the parts of a text that may be needed again."""

from __future__ import annotations

from marksweep.strategies.coverage.text import Kind, atoms_of, shown


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
