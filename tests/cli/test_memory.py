"""`marksweep memory` and the memory's journal: results, exit codes, questions, bad input."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marksweep import KnowledgeGraph
from marksweep.stores.graph.falkor.server import EmbeddedServer
from tests.cli.support import run

NOTES = ("Ada owns the parser", "the proxy listens on port 8080", "ada-lovelace wrote #notes")


@pytest.fixture(params=["sqlite", "falkordb"], autouse=True)
def _project(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Make an empty project, with its memory on either store."""
    monkeypatch.chdir(tmp_path)
    if request.param == "sqlite":
        yield
        return
    monkeypatch.setenv("MARKSWEEP_MEMORY", f"falkordb:{tmp_path / 'falkor'}")
    # Held open, so that the server does not restart for every command.
    server = EmbeddedServer(tmp_path / "falkor")
    server.open()
    yield
    server.close()


def remember(*texts: str, workspace: str = "default") -> list[str]:
    """Add notes; return their ids."""
    memory = KnowledgeGraph.open()
    try:
        return [memory.add_memory(text, workspace_id=workspace).memory_id for text in texts]
    finally:
        memory.close()


def said(*words: str, code: int = 0) -> Any:
    done = run(*words, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def found(word: str, *options: str) -> bool:
    return run("search", word, *options).exit_code == 0


def newest_plan() -> str:
    """Return the id of the plan that changed the memory last."""
    plan_id: str = said("journal", "--memory")[0]["plan_id"]
    return plan_id


class TestBackups:
    def test_exported_memory_that_was_lost_is_imported_again(self) -> None:
        ids = remember(*NOTES)
        made = said("memory", "export")
        assert made["workspace_id"] == "default"
        assert Path(made["path"]).is_file()
        run("forget", *ids, "--everywhere", "--yes")
        assert not found("parser")
        # Erasing reached the backup too; a copy of the backup elsewhere restores it.
        remember(*NOTES)
        said("memory", "export", "-o", "elsewhere.jsonl.gz")
        run("forget", *ids, "--everywhere", "--yes")
        back = said("memory", "import", "elsewhere.jsonl.gz")
        described = ("elsewhere.jsonl.gz", "default", 8, "")
        assert tuple(back[k] for k in ("path", "workspace_id", "items", "problem")) == described
        assert back["size"] == Path("elsewhere.jsonl.gz").stat().st_size
        assert back["made_at"] >= made["made_at"]
        assert found("parser")
        entry = said("journal", "--memory", "--event", "restored")[0]
        assert set(entry["segments"]) == {f"memory:{each}" for each in ids}

    def test_backups_are_listed_with_their_contents_and_their_faults(self) -> None:
        assert said("memory", "backups", code=1) == []
        remember(*NOTES)
        whole = said("memory", "export")
        cut = said("memory", "export")
        Path(cut["path"]).write_bytes(Path(cut["path"]).read_bytes()[:-20])
        listed = {each["path"]: each for each in said("memory", "backups")}
        assert listed[whole["path"]]["items"] == whole["items"] == 8
        assert listed[whole["path"]]["problem"] == ""
        assert "not a complete backup" in listed[cut["path"]]["problem"]
        shown = run("memory", "backups").output
        assert Path(whole["path"]).name in shown
        assert "damaged" in shown

    def test_a_purge_leaves_a_backup_that_restores_what_was_purged(self) -> None:
        (note, _, _) = remember(*NOTES)
        run("forget", note, "--yes")
        Path(".marksweep/settings.toml").write_text("[memory]\ngrace_days = 1e-10\n")
        assert run("prune", "--purge").exit_code == 0
        assert not found("parser")
        (listed,) = said("memory", "backups")
        assert run("memory", "import", listed["path"]).exit_code == 0
        assert found("parser")

    def test_exporting_nothing_writes_nothing(self, tmp_path: Path) -> None:
        assert said("memory", "export", "-o", "empty.jsonl.gz", code=1)["items"] == 0
        assert not Path("empty.jsonl.gz").exists()

    def test_an_existing_file_is_not_replaced(self) -> None:
        remember(*NOTES)
        Path("mine.txt").write_text("mine")
        done = run("memory", "export", "-o", "mine.txt")
        assert done.exit_code == 3
        assert Path("mine.txt").read_text() == "mine"
        assert run("memory", "export", "-o", "mine.txt/backup.jsonl.gz").exit_code == 4

    def test_a_backup_of_another_workspace_is_refused_unless_one_is_named(self) -> None:
        remember(*NOTES, workspace="theirs")
        said("memory", "export", "-o", "theirs.jsonl.gz", "--workspace", "theirs")
        done = run("memory", "import", "theirs.jsonl.gz")
        assert done.exit_code == 3
        assert "is a backup of workspace 'theirs'" in done.stderr.replace("\n", " ")
        assert not found("parser")
        assert run("memory", "import", "theirs.jsonl.gz", "--workspace", "default").exit_code == 0
        assert found("parser")


class TestBadBackups:
    @pytest.fixture
    def backup(self) -> Path:
        remember(*NOTES)
        run("memory", "export", "-o", "b.jsonl.gz", "--workspace", "default")
        return Path("b.jsonl.gz")

    @pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
    def test_a_truncated_backup_is_a_store_problem(self, backup: Path, part: float) -> None:
        content = backup.read_bytes()
        backup.write_bytes(content[: int(part * len(content))])
        self.refused(backup, 4, "not a complete backup")

    def test_a_flipped_byte_anywhere_is_found_before_anything_is_loaded(self, backup: Path) -> None:
        content = backup.read_bytes()
        refused = 0
        for place in range(10, len(content), len(content) // 40):
            flipped = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
            if self.says_the_same(content, flipped):  # padding bits of the last byte
                continue
            backup.write_bytes(flipped)
            self.refused(backup, 4, "not a complete backup")
            refused += 1
        assert refused >= 39

    @staticmethod
    def says_the_same(one: bytes, other: bytes) -> bool:
        try:
            return gzip.decompress(one) == gzip.decompress(other)
        except (OSError, EOFError, zlib.error):
            return False

    def test_a_wrong_checksum_is_found(self, backup: Path) -> None:
        text = gzip.decompress(backup.read_bytes()).replace(b"8080", b"8081")
        backup.write_bytes(gzip.compress(text))
        self.refused(backup, 4, "checksum does not match")

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"{}\n",
            b"not json",
            b'{"marksweep_graph": "one"}\n',
            b"\0" * 100_000,
            b'{"marksweep_graph":1,"workspace_id":"default","made_at":"2026-01-01T00:00:00Z"}\n{}\n'
            b'{"items":1,"sha256":"e0"}\n',
        ],
    )
    def test_another_compressed_file_is_not_a_backup(self, backup: Path, text: bytes) -> None:
        backup.write_bytes(gzip.compress(text))
        self.refused(backup, 4, "not a complete backup")

    def test_an_endless_line_is_not_read_into_memory(
        self, backup: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("marksweep.stores.checked_lines.LONGEST_LINE", 1000)
        backup.write_bytes(gzip.compress(b" " * 1_000_000))
        self.refused(backup, 4, "is not terminated")

    @pytest.mark.parametrize("path", ["ghost.jsonl.gz", ".", "/dev/zero", "fifo", "loop", "../.."])
    def test_a_path_that_is_not_a_file_is_bad_input(self, backup: Path, path: str) -> None:
        os.mkfifo("fifo")
        Path("loop").symlink_to("loop")
        self.refused(Path(path), 2, "is not a file")

    @staticmethod
    def refused(path: Path, code: int, why: str) -> None:
        done = run("memory", "import", str(path), "--workspace", "empty")
        assert done.exit_code == code, done.output
        assert why in done.stderr.replace("\n", " ")
        assert "Traceback" not in done.output
        assert said("memory", "export", "--workspace", "empty", code=1)["items"] == 0


class TestForgetting:
    def test_forgetting_hides_a_memory_and_can_be_undone(self) -> None:
        (note, *_) = remember(*NOTES)
        assert said("forget", note, "--yes")["done"] == [note]
        assert not found("parser")
        assert run("prune", "--restore", newest_plan()).exit_code == 0
        assert found("parser")

    def test_forgetting_everywhere_reaches_the_backups_and_says_what_it_does_not_reach(
        self,
    ) -> None:
        (note, *_) = remember(*NOTES)
        path = said("memory", "export")["path"]
        done = said("forget", note, "--everywhere", "--yes")
        assert done["gone"]["memories"] == [note]
        assert done["backups"] > 0
        assert any("copies of backups" in each for each in done["unreached"])
        text = gzip.decompress(Path(path).read_bytes())
        assert b"owns the parser" not in text
        assert b"8080" in text
        assert run("forget", note, "--everywhere", "--yes").exit_code == 1

    def test_nothing_is_forgotten_without_confirmation(self) -> None:
        (note, *_) = remember(*NOTES)
        for options in ((), ("--everywhere",), ("--json",)):
            done = run("forget", note, *options)
            assert done.exit_code == 3
            assert "--yes" in done.stderr
            assert f"{note}  {NOTES[0]}" in done.stderr.replace("\n", " ")
        assert found("parser")
        assert run("forget", note, "--restore", "--everywhere").exit_code == 2
        assert run("prune", "--restore", "plan-1", "--purge").exit_code == 2
        refused = run("prune", "--apply", "plan-1", "--purge", "--workspace", "default")
        assert "--apply and --purge were given; expected one of them" in refused.output

    def test_the_latest_note_is_erased_everywhere(self) -> None:
        (*_, latest) = remember(*NOTES)
        done = said("forget", "latest", "--everywhere", "--yes")
        assert done["gone"]["memories"] == [latest]

    def test_for_an_unknown_id_there_is_nothing_to_do(self) -> None:
        done = said("forget", "mghost", "--yes", code=1)
        assert (done["done"], done["left"]) == ([], ["mghost: nothing has this id"])
        assert said("journal", "--memory") == []

    def test_a_note_is_found_with_the_id_to_forget_it_by(self) -> None:
        (note, *_) = remember(*NOTES)
        assert note in run("search", "parser").output


class TestMerging:
    def test_duplicate_entities_are_shown_and_then_merged(self) -> None:
        remember("#Red-Fox jumps", "#red_fox sleeps")
        plan = said("memory", "merge")
        (step,) = plan["steps"]
        assert len(step["segments"]) == 2
        assert "is also written" in run("memory", "merge").output
        done = said("memory", "merge", "--apply", plan["plan_id"])
        assert len(done["swept"]) == 1
        assert "steps" not in said("memory", "merge", code=1)

    def test_nothing_is_merged_without_confirmation(self) -> None:
        remember("#Red-Fox jumps", "#red_fox sleeps")
        assert run("memory", "merge").exit_code == 3
        assert said("memory", "merge")["steps"]
        assert said("memory", "merge", "--yes")["swept"]
        assert "steps" not in said("memory", "merge", code=1)

    def test_a_plan_of_another_kind_is_refused_and_stays_unchanged(self) -> None:
        (note, *_) = remember(*NOTES)
        said("forget", note, "--yes")
        plan = newest_plan()
        before = said("journal", "--memory")
        assert run("memory", "merge", "--apply", plan).exit_code == 2
        assert run("memory", "merge", "--apply", "plan-ghost").exit_code == 2
        assert said("journal", "--memory") == before


class TestJournal:
    def test_it_records_every_preview_deletion_restoration_and_purge(self) -> None:
        (note, *_) = remember(*NOTES)
        said("forget", note, "--yes")
        run("prune", "--restore", newest_plan())
        run("forget", note, "--everywhere", "--yes")
        entries = said("journal", "--memory")
        events = ["purged", "undone", "restoring", "swept", "sweeping", "planned"]
        assert [entry["event"] for entry in entries] == events
        assert {entry["actor"] for entry in entries} == {"cli"}
        assert all(f"memory:{note}" in entries[at]["segments"] for at in (0, 1, 2))
        assert said("journal") == []

    def test_it_is_filtered_by_event_and_by_plan(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "150")
        one, two, _ = remember(*NOTES)
        plans = []
        for each in (one, two):
            said("forget", each, "--yes")
            plans.append(newest_plan())
        of_one = said("journal", "--memory", "--plan", plans[0])
        assert [entry["event"] for entry in of_one] == ["swept", "sweeping", "planned"]
        previews = said("journal", "--memory", "--event", "planned", "--event", "purged")
        assert [entry["plan_id"] for entry in previews] == [plans[1], plans[0]]
        assert len(said("journal", "--memory", "--limit", "4")) == 4
        shown = run("journal", "--memory", "--plan", plans[0]).output
        assert "1 memory node and 1 chunk" in shown
        assert run("journal", "--event", "nonsense").exit_code == 2
