"""Which trajectories of a set are used, and where the data is searched."""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

import pytest

from benchmarks import datasets
from benchmarks.datasets import AT_MOST, folder
from marksweep.errors import NotFound
from marksweep.replay.cases import prepare
from marksweep.replay.records import Trajectory, Wire
from tests.replay.stories import answers, by_words, calls, user


def story(name: str, needs: int) -> Trajectory:
    """Make a run in which this many steps use something from before."""
    shown = "\n".join(f"entry_{n} is listed here" for n in range(needs))
    messages: list[Wire] = [user("Go."), calls({"q": "x"}), answers(shown)]
    messages += [calls({"q": "y"}, first=1), answers("nothing", 1)]
    for n in range(needs):
        messages += [calls({"q": f"entry_{n}"}, first=2 + n), answers("ok", 2 + n)]
    return Trajectory(id=name, messages=tuple(messages), pinned=1)


def used(*trajectories: Trajectory) -> list[str]:
    cases, passed = prepare(trajectories, "names", by_words, most=AT_MOST)
    assert len(cases) + len(passed) == len(trajectories)
    return [case.study.trajectory.id for case in cases]


def test_a_trajectory_needs_three_steps_with_needs() -> None:
    assert used(story("two", 2)) == []
    assert used(story("three", 3)) == ["three"]


def test_the_first_sixty_by_the_md5_of_their_id_are_used() -> None:
    ids = [f"run-{n}" for n in range(70)]
    found = used(*(story(name, 3) for name in ids))
    by_md5 = sorted(ids, key=lambda name: hashlib.md5(name.encode()).hexdigest())  # noqa: S324
    assert found == [name for name in ids if name in by_md5[:60]]
    assert AT_MOST == 60


def test_habits_are_made_from_two_sets_and_plain_answers_count_in_one() -> None:
    assert [(each.name, each.share, each.answers) for each in datasets.DEVELOPMENT] == [
        ("mini_swe", 0.02, False),
        ("tau_airline", 0.10, True),
        ("coding_sessions", None, False),
    ]


def test_the_data_lies_in_the_folder_or_in_dev_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path))
    with pytest.raises(NotFound, match="mini_swe"):
        folder()
    dev = tmp_path / "dev"
    dev.mkdir()
    (dev / "mini_swe.jsonl.xz").write_bytes(lzma.compress(b""))
    assert folder() == dev
    monkeypatch.setenv(datasets.VARIABLE, str(dev))
    assert folder() == dev
