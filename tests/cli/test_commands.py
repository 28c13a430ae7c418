"""The commands on transcripts, the working set and memory: results, JSON and exit codes."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from marksweep.cli.app import COMMANDS
from marksweep.cli.common import CommandContext
from marksweep.dialects import validate
from marksweep.segments import Segments
from marksweep.strategies.registry import STRATEGIES
from marksweep.testing.builders import Clock
from tests.cli.support import fill, history, run

LONG_NAME = "x" * 300
"""A name that no file system takes."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, without settings, store or session of this project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(history()))
    return path


def session(agent: str, home: Path, name: str, folder: Path) -> Path:
    """Write a session of an agent for a folder, where that agent stores it."""
    said = {"role": "user", "content": f"Look at {name}."}
    if agent == "claude":
        path = home / "claude/projects" / re.sub(r"[^A-Za-z0-9]", "-", str(folder))
        lines: list[dict[str, Any]] = [{"type": "user", "uuid": "u1", "message": said}]
        name = f"{name}.jsonl"
    else:
        path = home / "codex/sessions/2026/01/01"
        text = [{"type": "input_text", "text": said["content"]}]
        message = {"type": "message", "role": "user", "content": text}
        lines = [
            {"type": "session_meta", "payload": {"id": name, "cwd": str(folder)}},
            {"type": "response_item", "payload": message},
        ]
        name = f"rollout-{name}.jsonl"
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path / name


class TestAnalyze:
    def test_it_shows_the_ledger_the_dead_weight_the_offers_and_a_command(
        self, transcript: Path
    ) -> None:
        shown = run("analyze", "chat.json", "--limit", "2k").output
        for expected in ("27 messages", "(openai_chat)", "Dead weight", "superseded", "Do it:"):
            assert expected in shown

    def test_json_holds_the_same(self, transcript: Path) -> None:
        found = json.loads(run("analyze", "chat.json", "--limit", "50%", "--json").output)
        assert found["messages"] == 27
        assert found["target_tokens"] == found["tokens"] // 2
        assert {offer["strategy"] for offer in found["offers"]} >= {"mask", "truncate"}
        assert found["dead_tokens"] == sum(each["tokens"] for each in found["dead_weight"]) > 0
        assert found["not_compared"] == []

    def test_what_is_large_is_not_read_by_every_strategy_unless_asked(
        self, transcript: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("marksweep.cli.analyze.THOROUGH_TOKENS", 10)
        found = json.loads(run("analyze", "chat.json", "--json").output)
        assert "coverage" in found["not_compared"]
        assert "coverage" not in {offer["strategy"] for offer in found["offers"]}
        assert "not compared, as this is large: summarize" in run("analyze", "chat.json").output
        asked = run("analyze", "chat.json", "--strategy", "coverage", "--json")
        assert [offer["strategy"] for offer in json.loads(asked.output)["offers"]] == ["coverage"]
        assert json.loads(asked.output)["not_compared"] == []

    def test_the_recommended_command_does_what_was_offered(self, transcript: Path) -> None:
        found = json.loads(run("analyze", "chat.json", "--limit", "2k", "--json").output)
        words = shlex.split(found["recommended"])
        assert run(*words[1:]).exit_code == 0
        offered = {offer["strategy"]: offer["tokens_after"] for offer in found["offers"]}
        again = json.loads(run("analyze", "chat.smaller.json", "--json").output)
        assert again["tokens"] == offered["coverage"]

    def test_the_recommended_command_takes_the_strategy_that_was_looked_at(
        self, transcript: Path
    ) -> None:
        words = ("analyze", transcript.name, "--limit", "2k", "--strategy")
        found = json.loads(run(*words, "superseded+mask", "--json").output)
        assert run(*shlex.split(found["recommended"])[1:]).exit_code == 0
        again = json.loads(run("analyze", "chat.smaller.json", "--json").output)
        assert again["tokens"] == found["offers"][0]["tokens_after"]
        assert (
            "--strategy" not in json.loads(run(*words, "coverage", "--json").output)["recommended"]
        )

    def test_nothing_is_recommended_if_nothing_would_change(self, transcript: Path) -> None:
        assert "Do it:" not in run("analyze", transcript.name, "--limit", "500%").output

    @pytest.mark.parametrize("name", ["chat.smaller.json", "a.chat.of.today.json", "chat.json.gz"])
    def test_the_recommended_command_overwrites_no_transcript(
        self, transcript: Path, name: str
    ) -> None:
        pack = gzip.compress if name.endswith("gz") else bytes
        Path(name).write_bytes(pack(transcript.read_bytes()))
        transcript.unlink()
        before = Path(name).read_bytes()
        found = json.loads(run("analyze", name, "--limit", "2k", "--json").output)
        assert run(*shlex.split(found["recommended"])[1:]).exit_code == 0
        assert Path(name).read_bytes() == before
        (smaller,) = [each for each in Path().iterdir() if each.name != name]
        assert smaller.name == name.removesuffix(".gz").replace(".json", ".smaller.json")

    def test_a_sweep_is_weighed_with_the_prices_of_the_settings(
        self, transcript: Path, tmp_path: Path
    ) -> None:
        def waits() -> dict[str, float]:
            found = json.loads(run("analyze", "chat.json", "--limit", "50%", "--json").output)
            return {offer["strategy"]: offer["pays_after_turns"] for offer in found["offers"]}

        before = waits()
        (tmp_path / ".marksweep").mkdir()
        (tmp_path / ".marksweep/settings.toml").write_text("[prices]\ncached = 0.5\n")
        assert 0 < waits()["mask"] < before["mask"]

    def test_the_file_is_left_alone(self, transcript: Path) -> None:
        before = transcript.read_bytes()
        run("analyze", "chat.json")
        assert transcript.read_bytes() == before

    def test_the_strategy_of_the_settings_is_shown_and_recommended(self, transcript: Path) -> None:
        Path(".marksweep").mkdir()
        Path(".marksweep/settings.toml").write_text(
            "conversation.strategy = 'mask+truncate'\nconversation.options = {spare = 7}\n"
        )
        found = json.loads(run("analyze", "chat.json", "--limit", "2k", "--json").output)
        assert found["closer"]["strategy"] == "mask+truncate"
        (shown,) = (each for each in found["offers"] if each["strategy"] == "mask+truncate")
        assert run(*shlex.split(found["recommended"])[1:]).exit_code == 0
        again = json.loads(run("analyze", "chat.smaller.json", "--json").output)
        assert again["tokens"] == shown["tokens_after"]

    def test_without_a_file_the_working_set_is_analyzed(self, tmp_path: Path) -> None:
        fill(tmp_path / "set.db")
        found = json.loads(run("analyze", "--store", "set.db", "--json").output)
        assert found["size_before"] == 100

    def test_it_says_what_goes_what_is_seen_instead_what_is_missed_and_what_it_costs(
        self, tmp_path: Path
    ) -> None:
        said = history()
        said[3]["content"] = "the key is vault_4711\n" + said[3]["content"]
        for asks in (said[4], said[6]):
            asks["content"] = "I need vault_4711 for that."
            del asks["tool_calls"]
        (tmp_path / "chat.json").write_text(json.dumps([*said[:5], said[6], *said[8:]]))
        shown = run("analyze", "chat.json", "--limit", "40", "--strategy", "truncate").output
        for expected in (
            "What truncate would change: the largest 3 of",
            "before:",
            "│ read_file",
            "after:",
            "What the agent would probably miss",
            "vault_4711",
            "2 times",
            "What it costs",
            "claude-sonnet-5.5 ($2 in, $0.1 cached, $10 out per million",
        ):
            assert expected in shown

    def test_costs_use_the_prices_that_were_given(self, transcript: Path) -> None:
        def bill(*options: str) -> dict[str, Any]:
            found = run("analyze", "chat.json", "--limit", "2k", "--json", *options).output
            made: dict[str, Any] = json.loads(found)["closer"]["bill"]
            return made

        one, ten = bill("--price", "1,1,1"), bill("--price", "10,10,10")
        assert ten["request_before"] == pytest.approx(10 * one["request_before"])
        assert one["request_after"] < one["request_before"]
        assert bill("--model", "claude-opus-5.5")["once"] > bill()["once"] > 0
        for wrong in (("--price", "1,2"), ("--model", "ghost")):
            done = run("analyze", "chat.json", *wrong)
            assert done.exit_code == 2
            assert "expected" in done.stderr or "known are" in done.stderr

    def test_a_strategy_that_can_be_expensive_says_so_wherever_it_is_offered(
        self, transcript: Path
    ) -> None:
        warning = "coverage_quality can cost three times as much as not collecting"
        for command in (
            ("analyze", "chat.json"),
            ("analyze", "--help"),
            ("collect", "--help"),
            ("replay", "--help"),
        ):
            assert warning in " ".join(run(*command).output.split()), command
        assert warning not in run("analyze", "chat.json", "--strategy", "coverage").output

    @pytest.mark.parametrize("agent", ["claude", "codex"])
    def test_without_a_file_the_newest_session_of_this_folder_is_analyzed(
        self, tmp_path: Path, agent: str
    ) -> None:
        fill(Path(".marksweep/store.db"))
        assert "size_before" in json.loads(run("analyze", "--json").output)
        assert "no session of Claude Code or Codex in this folder" in run("analyze").output
        for age, name, folder in ((50, "old", "."), (10, "new", "."), (0, "other", "elsewhere")):
            path = session(agent, tmp_path, name, Path(folder).resolve())
            os.utime(path, (time.time() - age,) * 2)
        shown = "".join(run("analyze").output.split())
        assert "new.jsonl:1messages" in shown
        named = json.loads(run("analyze", "--store", ".marksweep/store.db", "--json").output)
        assert "size_before" in named

    def test_a_user_without_a_home_folder_has_no_sessions(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HOME", "USERPROFILE", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
        assert "no session of Claude Code or Codex in this folder" in run("analyze").output
        done = run("resume")
        assert done.exit_code == 2
        assert "no session of claude or codex" in " ".join(done.stderr.split())

    @pytest.mark.parametrize("ending", [".xz", ".gz"])
    def test_compressed_files_are_read(self, tmp_path: Path, ending: str) -> None:
        pack = lzma.compress if ending == ".xz" else gzip.compress
        (tmp_path / f"chat.json{ending}").write_bytes(pack(json.dumps(history()).encode()))
        assert run("analyze", f"chat.json{ending}").exit_code == 0


class TestCollect:
    def test_the_result_is_valid_smaller_and_in_the_original_format(self, transcript: Path) -> None:
        done = run("collect", "chat.json", "--limit", "2k", "-o", "small.json")
        assert done.exit_code == 0, done.output
        small = json.loads(Path("small.json").read_text())
        assert validate(small) == []
        assert len(json.dumps(small)) < len(transcript.read_text())
        assert small[:2] == history()[:2]

    def test_standard_input_to_standard_output(self) -> None:
        lines = b"".join(json.dumps(message).encode() + b"\n" for message in history())
        done = run("collect", "-", "--limit", "2k", stdin=lines)
        assert done.exit_code == 0
        small = [json.loads(line) for line in done.stdout.splitlines()]
        assert validate(small) == []
        assert len(done.stdout) < len(lines)

    def test_only_write_replaces_the_transcript_since_it_keeps_the_original(
        self, transcript: Path
    ) -> None:
        before = transcript.read_bytes()
        Path("link.json").symlink_to(transcript)
        for name in ("chat.json", "./chat.json", "link.json"):
            done = run("collect", "chat.json", "--limit", "2k", "-o", name)
            assert done.exit_code == 3
            assert "--write" in done.stderr
            assert run("validate", "chat.json", "--repair", name).exit_code == 3
        assert transcript.read_bytes() == before

    @pytest.mark.parametrize("folder", [".", "..", "/", "there"])
    def test_a_folder_as_the_output_is_refused(self, transcript: Path, folder: str) -> None:
        Path("there").mkdir()
        for words in (
            ("collect", transcript.name, "--limit", "2k", "-o"),
            ("validate", transcript.name, "--repair"),
            ("web", transcript.name, "--svg"),
        ):
            done = run(*words, folder)
            assert done.exit_code == 2, done.output
            assert f"{folder} is a folder" in done.stderr

    def test_only_the_plan_is_shown_without_an_output(self, transcript: Path) -> None:
        before = transcript.read_bytes()
        assert "plan-" in run("collect", "chat.json", "--limit", "2k").output
        assert transcript.read_bytes() == before

    def test_replacing_the_file_keeps_the_original(self, transcript: Path) -> None:
        before = transcript.read_bytes()
        assert run("collect", "chat.json", "--limit", "2k", "--write", "--yes").exit_code == 0
        assert transcript.with_name("chat.json.orig").read_bytes() == before
        assert len(transcript.read_bytes()) < len(before)
        again = run("collect", "chat.json", "--limit", "1k", "--write", "--yes")
        assert again.exit_code == 3
        assert "chat.json.orig exists" in again.stderr.replace("\n", "")

    def test_a_replaced_file_is_put_back_and_nothing_is_overwritten(self, transcript: Path) -> None:
        before = transcript.read_bytes()
        run("collect", "chat.json", "--limit", "2k", "--write", "--yes")
        transcript.write_bytes(transcript.read_bytes() + b" ")
        after = transcript.read_bytes()
        assert run("undo", "chat.json").exit_code == 0
        assert transcript.read_bytes() == before
        assert transcript.with_name("chat.json.collected").read_bytes() == after
        assert run("undo", "chat.json").exit_code == 2
        run("collect", "chat.json", "--limit", "2k", "--write", "--yes")
        assert run("undo", "chat.json").exit_code == 3

    def test_nothing_is_replaced_if_it_fits(self, transcript: Path) -> None:
        before = transcript.read_bytes()
        assert run("collect", "chat.json", "--limit", "1m", "--write").exit_code == 1
        assert transcript.read_bytes() == before
        assert not transcript.with_name("chat.json.orig").exists()

    def test_replacing_without_a_terminal_needs_yes(self, transcript: Path) -> None:
        done = run("collect", "chat.json", "--limit", "2k", "--write")
        assert done.exit_code == 3
        assert "--yes" in done.stderr

    def test_if_it_already_fits_there_is_nothing_to_do(self, transcript: Path) -> None:
        done = run("collect", "chat.json", "--limit", "1m", "-o", "same.json")
        assert done.exit_code == 1
        assert json.loads(Path("same.json").read_text()) == history()

    def test_the_working_set_is_collected_and_undone_by_plan(self, tmp_path: Path) -> None:
        fill(tmp_path / "set.db")
        where = ("--store", "set.db")
        assert run("collect", "--limit", "50", *where, "--yes").exit_code == 0
        entries = json.loads(run("journal", *where, "--json").output)
        assert [entry["event"] for entry in entries] == ["swept", "sweeping", "planned"]
        plan_id = entries[0]["plan_id"]
        shown = run("journal", *where).output
        assert shown.count("5 segments, ") == 3, "planned, begun and done"
        listed = json.loads(run("stash", "list", *where, "--json").output)
        assert len(listed) == 5
        first = listed[0]["segment"]["segment_id"]
        assert "swept at" in run("why", first, *where).output
        assert run("stash", "restore", first, *where).exit_code == 0
        assert run("undo", plan_id, *where).exit_code == 0
        assert run("undo", plan_id, *where).exit_code == 2

    def test_a_saved_plan_is_refused_once_the_heap_has_changed(self, tmp_path: Path) -> None:
        context = fill(tmp_path / "set.db", keep=True)
        plan = context.plan(target_tokens=50)
        context.save(plan)
        context.write("something new")
        context.close()
        done = run("collect", "--apply", plan.plan_id, "--store", "set.db")
        assert done.exit_code == 3
        assert "has changed since" in done.stderr


class TestWorkingSet:
    def test_the_stash_is_searched_by_words(self, tmp_path: Path) -> None:
        fill(tmp_path / "set.db")
        run("collect", "--limit", "0", "--store", "set.db", "--yes")
        found = json.loads(run("stash", "search", "parser", "--store", "set.db", "--json").output)
        assert len(found) == 10
        assert run("stash", "search", "zebra", "--store", "set.db").exit_code == 1

    @pytest.mark.parametrize("command", ["live", "stash list", "stash search parser", "swept m1"])
    def test_a_limit_below_one_is_bad_usage_and_not_an_empty_result(
        self, tmp_path: Path, command: str
    ) -> None:
        fill(tmp_path / "set.db")
        for limit in ("0", "-5"):
            assert run(*command.split(), "--limit", limit, "--store", "set.db").exit_code == 2

    def test_live_and_swept_segments_are_found_by_what_they_are_about(self, tmp_path: Path) -> None:
        context = Segments(tmp_path / "set.db")
        context.write("the proxy failed", type="log", segment_id="log", file_path="a.py")
        context.write("the proxy is slow", segment_id="note", tags=["net", "bug"], task_id="t")
        context.close()
        cases = [
            (("proxy",), ["log", "note"]),
            (("slow",), ["note"]),
            (("--type", "log"), ["log"]),
            (("--file", "a.py"), ["log"]),
            (("--task", "t"), ["note"]),
            (("--tag", "net", "--tag", "bug"), ["note"]),
            (("--since", "2001-01-01"), ["log", "note"]),
            (("--until", "2001-01-01"), []),
            (("proxy", "--limit", "1", "--type", "note"), ["note"]),
        ]
        where = ("--store", "set.db", "--json")
        for options, expected in cases:
            found = json.loads(run("live", *options, *where).output)
            assert sorted(each["segment_id"] for each in found) == expected, options
        assert "the proxy failed" in run("live", "--type", "log", "--store", "set.db").output
        assert run("live", "zebra", "--store", "set.db").exit_code == 1
        run("collect", "--limit", "0", "--store", "set.db", "--yes")
        for options, expected in cases:
            by_words = "list" if options[0].startswith("-") else "search"
            found = json.loads(run("stash", by_words, *options, *where).output)
            assert sorted(each["segment"]["segment_id"] for each in found) == expected, options

    def test_named_segments_go_to_the_stash_and_what_stays_says_why(self, tmp_path: Path) -> None:
        fill(tmp_path / "set.db")
        where = ("--store", "set.db")
        run("pin", "s3", "--by", "ana", "--why", "needed", *where)
        done = run("stash", "put", "s3", "s4", "s4", *where)
        assert done.exit_code == 0
        assert "stashed s4" in done.output
        assert "s3 stays: pinned by ana: needed" in done.output
        assert run("stash", "put", "s3", *where).exit_code == 1
        assert run("stash", "put", "ghost", *where).exit_code == 2
        assert run("stash", "restore", "s4", *where).exit_code == 0

    def test_what_is_cold_but_important_is_shown(self, tmp_path: Path) -> None:
        clock = Clock()
        context = Segments(tmp_path / "set.db", clock=clock)
        context.write("overview", tags=["overview"], references=["cold"])
        context.write("what was found out: " * 300, segment_id="cold")
        context.close()
        where = ("--store", "set.db")
        shown = run("analyze", *where).output
        assert "cold: cold but important: reached from a root" in " ".join(shown.split())
        found = json.loads(run("analyze", *where, "--json").output)
        (cold,) = found["compressible"]
        assert (cold["segment_id"], cold["type"], cold["action"]) == ("cold", "note", "compress")
        assert cold["tokens"] > 400
        assert 0 < cold["score"] < 1
        assert found["size_before"] < found["soft_limit"] < found["hard_limit"] < found["limit"]
        done = json.loads(run("stash", "compress", "cold", "it was 42", *where, "--json").output)
        assert done["tokens_after"] < 10 < done["tokens_before"] == cold["tokens"]
        assert run("live", "42", *where).output.count(done["replacement_id"]) == 1
        assert "compressible" not in json.loads(run("analyze", *where, "--json").output)
        run("undo", done["plan_id"], *where)
        assert run("live", "42", *where).exit_code == 1

    def test_a_segment_is_compressed_by_picking_sentences_or_by_what_is_piped_in(
        self, tmp_path: Path
    ) -> None:
        context = Segments(tmp_path / "set.db")
        context.write("The port is 8080. " + "Nothing happened then. " * 100, segment_id="long")
        context.close()
        where = ("--store", "set.db")
        assert "tokens" in run("stash", "compress", "long", *where).output
        run("stash", "restore", "long", *where)
        done = run("stash", "compress", "long", "-", *where, "--json", stdin=b"port 8080\n")
        assert json.loads(done.output)["text"] == "port 8080"
        assert run("stash", "compress", "ghost", *where).exit_code == 2
        run("stash", "restore", "long", *where)
        refused = run("stash", "compress", "long", "and so on " * 900, *where)
        assert (refused.exit_code, "must be shorter" in refused.stderr) == (2, True)

    def test_what_the_agent_is_working_on_stays(self, tmp_path: Path) -> None:
        context = Segments(tmp_path / "set.db")
        for name, path, task in [
            ("stop", "a.py", None),
            ("other", "b.py", None),
            ("mine", "c.py", "t1"),
        ]:
            context.write(
                "code " * 50,
                type="code",
                segment_id=name,
                file_path=path,
                line_range=(10, 20),
                task_id=task,
            )
        context.close()
        where = ("--store", "set.db")
        at = ("--breakpoint", "a.py:15", "--task", "t1")
        assert "has a breakpoint at a.py:15" in run("why", "stop", *at, *where).output
        assert "may go" in run("why", "stop", "--breakpoint", "a.py:21", *where).output
        lines = ("--active-file", "b.py", "--active-lines", "20", "30")
        assert "active lines 20-30 of b.py" in run("why", "other", *lines, *where).output
        assert "opened or edited" in run("why", "other", "--open-file", "b.py", *where).output
        run("collect", "--limit", "0", "--yes", *at, *where)
        left = json.loads(run("live", *where, "--json").output)
        assert sorted(each["segment_id"] for each in left) == ["mine", "stop"]
        for bad, said in [
            (("why", "stop", "--breakpoint", "a.py"), "expected a file and a line"),
            (("why", "stop", "--active-lines", "1", "2"), "Name the file"),
            (("analyze", "chat.json", "--task", "t1"), "for the working set"),
            (("collect", "chat.json", "--task", "t1"), "for the working set"),
        ]:
            refused = run(*bad, *where)
            assert (refused.exit_code, said in refused.stderr) == (2, True), bad

    def test_a_collection_deletes_only_if_that_is_asked_for_and_confirmed(
        self, tmp_path: Path
    ) -> None:
        fill(tmp_path / "set.db")
        where = ("--store", "set.db")
        assert run("collect", "--strategy", "delete", "--limit", "0", *where).exit_code == 3
        done = run("collect", "--strategy", "delete", "--limit", "0", "--yes", "--json", *where)
        report = json.loads(done.output)
        assert report["swept"]
        gone = json.loads(run("stash", "list", *where, "--json").output)
        assert all(each["expires_at"] for each in gone)
        assert run("undo", report["plan_id"], *where).exit_code == 0
        for bad, said in [
            (("--strategy", "truncate"), "expected stash, auto, delete"),
            (("--write",), "Name one"),
            (("--apply", report["plan_id"], "--limit", "0"), "Leave --limit"),
        ]:
            refused = run("collect", *bad, *where)
            assert (refused.exit_code, said in refused.stderr) == (2, True), bad

    def test_a_pin_is_set_and_removed(self, tmp_path: Path) -> None:
        fill(tmp_path / "set.db")
        run("pin", "s3", "--by", "ana", "--why", "needed", "--store", "set.db")
        assert "pinned by ana: needed" in run("why", "s3", "--store", "set.db").output
        run("pin", "s3", "--remove", "--store", "set.db")
        assert "may go" in run("why", "s3", "--store", "set.db").output


def proposed(output: str, label: str) -> list[str]:
    """Return the arguments of the command that a screen proposes, taken from its line."""
    (words,) = re.findall(rf"^ {label}:  marksweep (.*)$", output, re.MULTILINE)
    return shlex.split(words)


class TestProposedCommands:
    """What a screen says to run next is copied and run as it is, however narrow the screen."""

    WHERE = ("--store", f"a folder/{'long-' * 20}.db", "--workspace", "the shop")

    @pytest.fixture(autouse=True)
    def _narrow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "60")

    def test_of_the_working_set(self, tmp_path: Path) -> None:
        (tmp_path / "a folder").mkdir()
        context = Segments(tmp_path / self.WHERE[1], workspace="the shop", limit=10_000)
        focus = ["--task", "a task", "--breakpoint", "src/my app.py:42", "--active-file", "b c.py"]
        focus += ["--active-lines", "1", "9", "--open-file", "d e.py"]
        context.write("old logs " * 100, type="log")
        context.write("the task " * 10, type="log", task_id="a task")
        context.close()
        (tmp_path / ".marksweep").mkdir()
        (tmp_path / ".marksweep/settings.toml").write_text("[window]\nlimit_tokens = 100\n")
        words = proposed(run("analyze", *focus, *self.WHERE).output, "Do it")
        assert words[0] == "collect"
        assert set(focus) < set(words)
        done = run(*words, "--yes")
        assert done.exit_code == 0, done.output
        assert len(json.loads(run("live", "--json", *self.WHERE).output)) == 1
        assert run(*proposed(done.output, "To undo")).exit_code == 0
        assert len(json.loads(run("live", "--json", *self.WHERE).output)) == 2

    def test_of_memory(self, tmp_path: Path) -> None:
        (tmp_path / "a folder").mkdir()
        (tmp_path / "code").mkdir()
        for name in ("a", "b"):
            (tmp_path / f"code/{name}.py").write_text(f"def {name}(): ...\n")
        assert run("index", "code", *self.WHERE).exit_code == 0
        (tmp_path / "code/a.py").unlink()
        assert run("index", "code", *self.WHERE).exit_code == 0
        words = proposed(run("prune", *self.WHERE).stdout, "To delete exactly this")
        done = run(*words)
        assert done.exit_code == 0, done.output

    def test_a_password_is_not_part_of_them(self) -> None:
        cli = CommandContext("redis://ada:secret@host:6379/0", "shop")
        assert "secret" not in cli.again("undo", "plan-1")


class TestMemory:
    def test_a_note_is_read_from_standard_input(self, tmp_path: Path) -> None:
        note = b"The port is 8080.\nIt was 80.\n"
        done = run("remember", "-", "--store", "set.db", "--json", stdin=note)
        assert done.exit_code == 0, done.output
        (found,) = json.loads(run("recall", "--store", "set.db", "--json").output)
        assert found["text"] == note.decode().strip()
        assert run("remember", "-", "--store", "set.db", stdin=b"\n").exit_code == 2

    def test_index_search_and_prune_what_was_deleted(self, tmp_path: Path) -> None:
        code = tmp_path / "code"
        code.mkdir()
        for name in ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"):
            (code / f"{name}.py").write_text(f"def {name}():\n    return 1\n")
        assert "Files indexed: 8" in run("index", "code").output
        assert "cat.py" in run("search", "cat").output
        (code / "cat.py").unlink()
        assert "Stale memories: 1" in run("index", "code").output
        shown = run("prune", "--json")
        plan_id = json.loads(shown.output)["plan"]["plan_id"]
        assert run("prune", "--apply", plan_id, "--workspace", "default").exit_code == 0
        assert run("search", "cat").exit_code == 1
        assert run("prune").exit_code == 1
        assert "back: 1 memory node" in run("prune", "--restore", plan_id).output
        assert len(json.loads(run("prune", "--json").output)["rows"]) == 1

    def test_what_is_over_the_cap_is_named_and_left_for_the_next_plan(self, tmp_path: Path) -> None:
        code = tmp_path / "code"
        code.mkdir()
        for n in range(160):
            (code / f"m{n}.py").write_text(f"def f{n}():\n    return {n}\n")
        run("index", "code")
        for n in range(75):
            (code / f"m{n}.py").unlink()
        run("index", "code")
        assert "Not taken: 22 nodes" in run("prune").output
        first = run("prune", "--yes", "--workspace", "default")
        assert "deleted 64 stale memory nodes" in first.output
        assert "deleted 11 stale" in run("prune", "--yes", "--workspace", "default").output
        assert "finds nothing" in run("prune").output

    def test_what_was_pruned_is_restored_and_purged_only_after_its_grace(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / ".marksweep").mkdir()
        settings = tmp_path / ".marksweep" / "settings.toml"
        code = tmp_path / "code"
        code.mkdir()
        for name in ("ant", "bee"):
            (code / f"{name}.py").write_text(f"def {name}(): pass\n")
        run("index", "code")
        (code / "bee.py").unlink()
        run("index", "code")
        plan_id = json.loads(run("prune", "--json").output)["plan"]["plan_id"]
        assert run("prune", "--apply", plan_id, "--workspace", "default").exit_code == 0
        assert "back: 1 memory node and 1 chunk" in run("prune", "--restore", plan_id).output
        assert run("prune", "--yes", "--workspace", "default").exit_code == 0
        assert run("prune", "--purge").exit_code == 1
        settings.write_text("[memory]\ngrace_days = 1e-10\n")
        purged = run("prune", "--purge")
        assert "Purged 1 memory node and 1 chunk. A backup is in" in purged.output
        assert run("prune", "--restore", plan_id).exit_code == 2

    def test_deleting_in_the_default_workspace_needs_its_name(self, tmp_path: Path) -> None:
        code = tmp_path / "code"
        code.mkdir()
        for name in ("ant", "bee", "cat"):
            (code / f"{name}.py").write_text(f"def {name}(): pass\n")
        for workspace in ("default", "shop"):
            run("index", "code", "--workspace", workspace)
        (code / "bee.py").unlink()
        for workspace in ("default", "shop"):
            run("index", "code", "--workspace", workspace)
        plan_id = json.loads(run("prune", "--json").output)["plan"]["plan_id"]
        for asked in (("--yes",), ("--apply", plan_id), ()):
            refused = run("prune", *asked)
            assert refused.exit_code == 3
            assert "--workspace default" in refused.stderr
            assert json.loads(run("prune", "--json").output)["rows"]
        (tmp_path / ".marksweep" / "settings.toml").write_text('[store]\nworkspace = "shop"\n')
        assert run("prune", "--yes").exit_code == 0
        named = run("prune", "--yes", "--workspace", "default")
        assert "Successfully deleted 1 stale memory node" in named.output

    def test_a_root_that_shrank_is_indexed_once_that_is_confirmed(self, tmp_path: Path) -> None:
        code = tmp_path / "code"
        code.mkdir()
        for n in range(30):
            (code / f"m{n}.py").write_text(f"x = {n}\n")
        run("index", "code")
        for n in range(20):
            (code / f"m{n}.py").unlink()
        refused = run("index", "code")
        assert refused.exit_code == 3
        said = " ".join(refused.stderr.split())
        option = re.search(r"--max-shrink [\d.]+\d", said)
        assert option is not None, said
        assert "Stale memories: 20" in run("index", "code", *option[0].split()).output

    def test_a_missing_folder_is_refused(self) -> None:
        done = run("index", "nowhere")
        assert done.exit_code in (2, 3)
        assert "nowhere" in done.stderr


class TestValidate:
    def test_a_broken_history_is_found_and_repaired(self, tmp_path: Path) -> None:
        broken = history(2)
        del broken[3]
        (tmp_path / "broken.json").write_text(json.dumps(broken))
        found = run("validate", "broken.json", "--check", "--repair", "repaired.json")
        assert found.exit_code == 1
        assert validate(json.loads(Path("repaired.json").read_text())) == []
        assert run("validate", "repaired.json", "--check").exit_code == 0


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("analyze", "ghost.json"), "does not exist"),
            (("collect", "chat.json"), "needs --limit"),
            (("collect", "chat.json", "--limit", "many"), "is not a size"),
            (("collect", "chat.json", "--limit", "2k", "--strategy", "magic"), "no strategy named"),
            (("collect", "chat.json", "--limit", "2k", "--write", "-o", "x"), "leave -o out"),
            (("collect", "-", "--limit", "2k", "--write"), "Name one"),
            (("analyze", "."), "is a folder"),
            (("why", "ghost", "--store", "memory:"), "neither live nor in the stash"),
            (("journal", "--store", "ftp://x"), "unknown type of store"),
        ],
    )
    def test_an_error_is_one_line_with_what_to_do(
        self, transcript: Path, arguments: tuple[str, ...], said: str
    ) -> None:
        done = run(*arguments)
        assert done.exit_code == 2
        assert said in done.stderr.replace("\n", " ")
        assert "Traceback" not in done.output

    @pytest.mark.parametrize("data", [b"", b"not json", b"[1, 2", b"\xff\xfe", b"3", b"{}"])
    def test_no_file_content_makes_it_crash(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "bad.json").write_bytes(data)
        for command in (("analyze",), ("validate",), ("collect", "--limit", "1k")):
            done = run(command[0], "bad.json", *command[1:])
            assert done.exit_code in (0, 1, 2), done.output
            assert done.exception is None or isinstance(done.exception, SystemExit)

    @pytest.mark.parametrize("strategy", sorted(STRATEGIES))
    @pytest.mark.parametrize("is_lines", [True, False])
    def test_lone_surrogates_are_read_and_written_like_other_characters(
        self, tmp_path: Path, strategy: str, is_lines: bool
    ) -> None:
        messages = history()
        for message in messages:
            message["content"] = message["content"] and message["content"] + " cut \ud83d\0"
        text = "\n".join(map(json.dumps, messages)) if is_lines else json.dumps(messages)
        (tmp_path / "cut.json").write_text(text)
        shown = json.loads(run("analyze", "cut.json", "--limit", "2k", "--json").stdout)
        assert shown["messages"] == len(messages)
        done = run("collect", "cut.json", "--limit", "2k", "--strategy", strategy, "-o", "o.json")
        assert done.exit_code in (0, 1), done.output
        out = (tmp_path / "o.json").read_text()
        left = [json.loads(line) for line in out.splitlines()] if is_lines else json.loads(out)
        assert left[:2] == messages[:2]
        assert validate(left, "openai_chat") == []

    @pytest.mark.parametrize(
        "words",
        [
            ("analyze", LONG_NAME),
            ("collect", LONG_NAME, "--limit", "2k"),
            ("undo", LONG_NAME),
            ("store", "export", LONG_NAME),
            ("memory", "import", LONG_NAME),
            ("live", "--store", f"{LONG_NAME}.db"),
            ("demo", "--store", LONG_NAME),
            ("plugin", "claude", "chat.json"),
        ],
    )
    def test_a_path_that_the_system_refuses_is_one_line_and_a_code_for_failure(
        self, transcript: Path, words: tuple[str, ...]
    ) -> None:
        assert transcript.name == "chat.json"
        done = run(*words)
        assert done.exit_code in (2, 4), done.output
        (said,) = done.stderr.splitlines()
        assert said.startswith("marksweep: ")

    @pytest.mark.parametrize("server", [("web",), ("proxy",), ("serve", "--http")])
    def test_a_port_that_is_in_use_is_named_with_what_to_do(self, server: tuple[str, ...]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            done = subprocess.run(
                [sys.executable, "-m", "marksweep", *server, "--port", port],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        assert done.returncode == 2, done.stderr
        assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in done.stderr
        assert "--port" in done.stderr

    def test_a_note_that_is_not_utf_8_is_refused(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "marksweep", "remember", "-"],
            input=b"caf\xe9",
            env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
            capture_output=True,
            check=False,
            cwd=tmp_path,
            timeout=60,
        )
        assert done.returncode == 2
        assert done.stderr.startswith(b"marksweep: standard input is not text in UTF-8")

    def test_a_mistyped_command_gets_a_suggestion(self) -> None:
        done = run("analize")
        assert done.exit_code == 2
        assert "No such command 'analize'. Did you mean 'analyze'?" in done.stderr
        assert "Did you mean" not in run("qqqq").stderr

    @pytest.mark.parametrize("number", ["nan", "inf", "-1"])
    @pytest.mark.parametrize(
        "words",
        [
            ("serve", "--rate"),
            ("serve", "--collect-every"),
            ("proxy", "--keep-days"),
            ("index", ".", "--max-shrink"),
            ("replay", "x.jsonl", "--recall"),
            ("replay", "x.jsonl", "--patience"),
        ],
        ids=" ".join,
    )
    def test_a_number_that_compares_with_nothing_is_in_no_range(
        self, words: tuple[str, ...], number: str
    ) -> None:
        done = run(*words, number)
        assert done.exit_code == 2
        assert f"Invalid value for '{words[-1]}'" in done.stderr

    def test_a_store_where_no_file_can_be_created_is_not_said_to_have_been_there(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "set.db").symlink_to(tmp_path / "missing" / "set.db")
        done = run("live", "--store", "set.db")
        assert done.exit_code == 4
        assert "If no file can be created there, choose another location" in done.stderr

    def test_a_file_that_is_not_a_store_is_a_store_problem(self, tmp_path: Path) -> None:
        (tmp_path / "bad.db").write_bytes(b"this is not a database, but long enough to be one")
        done = run("journal", "--store", "bad.db")
        assert done.exit_code == 4
        assert "bad.db" in done.stderr.replace("\n", "")


def test_config_is_shown_and_checked(tmp_path: Path) -> None:
    assert "threshold_percent = 90.0" in run("config", "show").output
    (tmp_path / ".marksweep").mkdir()
    (tmp_path / ".marksweep/settings.toml").write_text("[window]\ntarget_percent = 95\n")
    done = run("config", "check")
    assert done.exit_code == 2
    assert "target_percent" in done.stderr
    shutil.rmtree(tmp_path / ".marksweep")
    assert run("config", "check").exit_code == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "analyze chat.json"),
        (0, "validate chat.json --check"),
        (1, "validate broken.json --check"),
        (1, "collect chat.json --limit 1m -o same.json"),
        (2, "analyze ghost.json"),
        (2, "analyze --colour red"),
        (3, "collect chat.json --limit 2k --write"),
        (3, "serve --http --host 0.0.0.0 --port 0"),
        (4, "journal --store bad.db"),
        (4, "serve --http --port 0 --store bad.db"),
    ],
)
def test_the_installed_command_ends_with_the_documented_code(
    tmp_path: Path, transcript: Path, code: int, words: str
) -> None:
    broken = history(2)
    del broken[3]
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    (tmp_path / "bad.db").write_bytes(b"this is not a database, but long enough to be one")
    ran = subprocess.run(
        [Path(sys.executable).with_name("marksweep"), *words.split()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    assert bool(ran.stderr) or code < 2


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("proxy", "starlette", "proxy"),
        ("wrap claude", "starlette", "proxy"),
        ("swept --mcp", "mcp", "proxy"),
        ("web", "uvicorn", "web"),
        ("index .", "pathspec", "index"),
        ("serve", "mcp", "mcp"),
    ],
)
def test_a_command_without_its_package_names_the_extra(
    command: str, package: str, extra: str
) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from marksweep.cli import main; main()"
    name, *words = command.split()
    done = subprocess.run(
        [sys.executable, "-c", code, name, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"marksweep: {name} needs the package {package}")
    assert f"pip install 'marksweep[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_output_in_an_encoding_without_the_characters_still_works(transcript: Path) -> None:
    ran = [
        subprocess.run(
            [sys.executable, "-m", "marksweep", "analyze", str(transcript), *words],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=True,
        )
        for words in ([], ["--json"])
    ]
    assert b"?" in ran[0].stdout
    assert json.loads(ran[1].stdout)["messages"]


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from marksweep.cli.app import app; app(['--help'], standalone_mode=False); "
        "print(sorted({'mcp', 'falkordb', 'tree_sitter', 'rich', 'pydantic'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_says_the_same_as_the_list(name: str) -> None:
    done = run(name, "--help")
    assert done.exit_code == 0
    assert "Usage:" in done.output
