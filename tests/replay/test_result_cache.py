"""The cache of finished work, and when it is not used."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from marksweep.errors import BadInput
from marksweep.replay.result_cache import code_of, load, name_of, save


def test_what_was_kept_is_found_under_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "done"
    name = name_of("job", {"limit": 3}, ["truncate"])
    assert load(folder, name, int) is None
    save(folder, name, 7)
    assert load(folder, name, int) == 7
    assert [path.name for path in folder.iterdir()] == [name]
    assert load(folder, name_of("job", {"limit": 4}, ["truncate"]), int) is None


def test_what_is_damaged_or_of_another_kind_is_done_again(tmp_path: Path) -> None:
    save(tmp_path, "a.json", "text")
    assert load(tmp_path, "a.json", int) is None
    (tmp_path / "a.json").write_bytes(b"{")
    assert load(tmp_path, "a.json", str) is None


def test_equal_work_may_be_kept_by_several_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(save, tmp_path, "a.json", [7] * 1_000) for _ in range(400)]:
            done.result()
    assert load(tmp_path, "a.json", list) == [7] * 1_000
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot be kept in"):
        save(tmp_path / "file" / "done", "a.json", 7)


def test_without_a_folder_nothing_is_kept() -> None:
    save(None, "a.json", 1)
    assert load(None, "a.json", int) is None


def test_a_strategy_that_was_edited_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = tmp_path / "my_own_strategy.py"
    source.write_text("class Keeper: pass\n")
    before = code_of("my_own_strategy:Keeper")
    source.write_text("class Keeper: depth = 2\n")
    code_of.cache_clear()  # the next run is another process
    assert before
    assert code_of("my_own_strategy:Keeper") != before
    assert code_of("coverage") == ""
