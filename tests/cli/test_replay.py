"""`replay` and `tune`: tables, JSON, the report, the settings file, and failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from marksweep.cli.app import app
from marksweep.cli.demo import recorded
from marksweep.conversation import Conversation
from marksweep.settings import load_settings

SOLVED_ROUGHLY = ("--solver-nodes", "20")
QUICK = ("-s", "coverage", "-b", "30%", *SOLVED_ROUGHLY, "--workers", "1")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with one transcript."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("chat.json").write_text(json.dumps(recorded()))


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def replayed(*arguments: str) -> dict[str, Any]:
    done = run("replay", *arguments, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class TestReplay:
    def test_it_shows_figures_a_recommendation_and_its_code(self) -> None:
        done = run("replay", "chat.json", *QUICK)
        assert done.exit_code == 0, done.output
        for expected in ("coverage", "truncate", "clairvoyant", "limit=5_500", "30%"):
            assert expected in done.stdout

    def test_it_says_what_went_what_was_seen_instead_what_was_missed_and_what_it_costs(
        self,
    ) -> None:
        done = run("replay", "chat.json", *QUICK, "--price", "3,0.3,15")
        shown = " ".join(done.stdout.split())
        for expected in (
            "What was removed from chat.json, the largest first:",
            "before:",
            "after:",
            "What the agent missed most there:",
            "for the input of all requests instead of $",
            "the given price ($3 in, $0.3 cached, $15 out per million)",
            "% of the requests after the limit is reached",
        ):
            assert expected in shown

    def test_costs_follow_the_prices_that_were_given(self) -> None:
        cheap, expensive = (
            replayed("chat.json", *QUICK, "--price", price)["result"]
            for price in ("1,0.1,1", "10,1,10")
        )
        assert expensive["dollars_uncollected"] == pytest.approx(
            10 * cheap["dollars_uncollected"], 0.01
        )
        for low, high in zip(cheap["rows"], expensive["rows"], strict=True):
            assert high["dollars"] == pytest.approx(10 * low["dollars"], abs=0.001)
            assert 0 <= low["rewrites"] <= 100
        assert run("replay", "chat.json", *QUICK, "--price", "free").exit_code == 2

    def test_json_has_a_row_per_strategy_and_budget_beside_the_bounds(self) -> None:
        rows = replayed("chat.json", *QUICK, "-b", "3k")["result"]["rows"]
        named = {(row["budget"], row["strategy"]) for row in rows}
        strategies = ("coverage", "truncate", "clairvoyant")
        assert named == {(b, s) for b in ("3k", "30%") for s in strategies}
        assert all(row["violations"] == {} for row in rows)
        assert all(row["times"] is None for row in rows)

    def test_the_same_input_gives_the_same_bytes_whatever_the_hash_seed(self) -> None:
        outputs = set()
        for seed in ("0", "1"):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "marksweep",
                    "replay",
                    "chat.json",
                    *QUICK,
                    "--json",
                    "--html",
                    f"{seed}.html",
                ],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
                timeout=120,
            )
            outputs.add((done.stdout, Path(f"{seed}.html").read_bytes()))
        assert len(outputs) == 1

    def test_nothing_is_sent_anywhere_by_any_of_its_processes(self) -> None:
        Path("sitecustomize.py").write_text(WATCHING)
        places = (str(Path.cwd()), os.environ.get("PYTHONPATH", ""), *filter(None, sys.path))
        watched = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}

        def python(*arguments: str) -> int:
            done = subprocess.run(
                [sys.executable, *arguments],
                env=watched,
                capture_output=True,
                check=False,
                timeout=120,
            )
            return done.returncode

        asked = ("replay", "chat.json", "-s", "coverage", "-s", "gc_truncate", "-b", "30%")
        more = ("-b", "20%", "--solver-nodes", "20", "--workers", "2", "--html", "report.html")
        assert python("-m", "marksweep", *asked, *more) == 0
        assert Path("report.html").exists()
        assert not Path("asked").exists(), Path("asked").read_text()
        assert python("-c", "import socket; socket.create_connection(('127.0.0.1', 9))") == 1
        assert "socket.connect" in Path("asked").read_text(), "nobody was watching"

    def test_several_processes_find_what_one_does(self) -> None:
        for n in range(4):
            Path(f"more-{n}.json").write_text(json.dumps(recorded()[: 60 - 2 * n]))
        asked = ("-b", "30%", "-b", "20%", "-s", "coverage", "-s", "GDSF", "--solver-nodes", "1")
        one = replayed(".", *asked, "--workers", "1")
        assert replayed(".", *asked, "--workers", "2") == one
        assert len(one["result"]["transcripts"]) == 5

    def test_installed_strategies_are_replayed_as_tiers(self) -> None:
        rows = replayed("chat.json", "-s", "superseded+mask+truncate", "-b", "30%", *SOLVED_ROUGHLY)
        row = next(r for r in rows["result"]["rows"] if "+" in r["strategy"])
        assert row["violations"] == {}
        assert row["cost"] > 0

    def test_cached_results_are_reused(self) -> None:
        first = replayed("chat.json", *QUICK, "--keep", "done")
        kept = {path.name: path.stat().st_mtime_ns for path in Path("done").iterdir()}
        assert any(name.startswith("job-") for name in kept)
        assert replayed("chat.json", *QUICK, "--keep", "done") == first
        assert {p.name: p.stat().st_mtime_ns for p in Path("done").iterdir()} == kept

    def test_damaged_cached_results_are_computed_again(self) -> None:
        first = replayed("chat.json", *QUICK, "--keep", "done")
        for path in Path("done").glob("job-*"):
            path.write_bytes(b"{")
        assert replayed("chat.json", *QUICK, "--keep", "done") == first

    def test_cached_results_are_not_taken_for_transcripts(self) -> None:
        first = replayed(".", *QUICK, "--keep", "done")
        assert replayed(".", *QUICK, "--keep", "done") == first
        assert first["result"]["passed"] == []

    def test_standard_input_is_replayed(self) -> None:
        lines = b"".join(json.dumps(message).encode() + b"\n" for message in recorded())
        done = run("replay", "-", *QUICK, stdin=lines)
        assert done.exit_code == 0, done.output

    def test_what_is_skipped_is_reported_with_its_reason(self) -> None:
        Path("logs").mkdir()
        Path("logs/good.json").write_bytes(Path("chat.json").read_bytes())
        Path("logs/bad.json").write_text("42")
        done = run("replay", "logs", *QUICK)
        assert done.exit_code == 0
        assert "bad.json: holds a int" in done.stdout

    def test_the_same_sample_of_many_transcripts_is_drawn_each_time(self) -> None:
        for n in range(3):
            Path(f"more-{n}.json").write_text(json.dumps(recorded()[: 60 - 2 * n]))
        found = replayed(".", *QUICK, "--most", "2")["result"]
        drawn = [line["name"] for line in found["transcripts"]]
        assert len(drawn) == 2
        assert [line["name"] for line in found["passed"]] == sorted(
            {"chat.json", "more-0.json", "more-1.json", "more-2.json"} - set(drawn)
        )
        Path("another.json").write_text(json.dumps(recorded()[:58]))
        again = replayed(".", *QUICK, "--most", "2")["result"]
        assert len(set(drawn) & {line["name"] for line in again["transcripts"]}) >= 1

    def test_the_timeline_of_a_named_transcript_is_traced(self) -> None:
        Path("other.json").write_text(json.dumps(recorded()[:50]))
        found = replayed(".", *QUICK, "--trace", "other")
        assert {timeline["transcript"] for timeline in found["timelines"]} == {"other.json"}
        assert run("replay", ".", *QUICK, "--trace", "nobody").exit_code == 2

    def test_questions_about_a_conversation_are_answered_from_context(self) -> None:
        turns = [
            {"speaker": "A", "text": f"The number of berth {n} is {n * 37}."} for n in range(40)
        ]
        asked = [{"q": "Which number has berth 39?", "evidence": [39]}]
        talk = {"id": "t", "turns": turns, "questions": [*asked, {"q": "And 0?", "evidence": [0]}]}
        Path("talk.json").write_text(json.dumps(talk))
        rows = replayed("talk.json", "-s", "truncate", "-b", "25%")["result"]["evidence"]
        assert [(row["strategy"], row["blind"], row["questions"]) for row in rows] == [
            ("truncate", 50.0, 2)
        ]

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ((), "Missing argument 'PATHS...'"),
            (("nowhere",), "does not exist"),
            (("chat.json", "-s", "magic"), "no strategy named 'magic'"),
            (("chat.json", "-b", "much"), "not a size"),
            (("chat.json", "-b", "0%"), "leaves no room"),
            (("short.json",), "no transcript can be replayed"),
        ],
    )
    def test_bad_usage_says_what_to_do(self, arguments: tuple[str, ...], expected: str) -> None:
        Path("short.json").write_text(json.dumps(recorded()[:4]))
        done = run("replay", *arguments)
        assert done.exit_code == 2
        assert expected in done.stderr

    def test_stopping_it_leaves_no_process_and_no_traceback(self) -> None:
        for n in range(12):
            Path(f"more-{n}.json").write_text(json.dumps(recorded()))
        started = subprocess.Popen(
            [sys.executable, "-m", "marksweep", "replay", ".", "--workers", "2", "--keep", "done"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not list(Path("done").glob("job-*.json")) and time.monotonic() < deadline:
            time.sleep(0.1)
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=60)
        assert started.returncode == 130, said
        assert "interrupted" in said
        assert "done" in said
        assert "Traceback" not in said
        with pytest.raises(ProcessLookupError):
            _wait_for_group(started.pid)

    def test_killing_it_leaves_no_process_and_the_next_run_continues(self) -> None:
        Path("logs").mkdir()
        for n in range(8):
            Path(f"logs/{n}.json").write_text(json.dumps(recorded()[: 60 - 2 * n]))
        asked = ("logs", "-s", "coverage", "-b", "30%", "--solver-nodes", "20", "--workers", "2")
        started = subprocess.Popen(
            [sys.executable, "-m", "marksweep", "replay", *asked, "--keep", "done"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while not list(Path("done").glob("job-*.json")) and time.monotonic() < deadline:
            time.sleep(0.02)
        started.kill()
        started.wait()
        with pytest.raises(ProcessLookupError):
            _wait_for_group(started.pid)
        kept = {path: path.stat().st_mtime_ns for path in Path("done").glob("job-*.json")}
        assert kept
        assert replayed(*asked, "--keep", "done") == replayed(*asked)
        assert {path: path.stat().st_mtime_ns for path in kept} == kept

    def test_stopping_it_ends_a_strategy_that_hangs(self) -> None:
        Path("hanging.py").write_text(HANGING)
        for n in range(4):
            Path(f"more-{n}.json").write_text(json.dumps(recorded()))
        started = subprocess.Popen(
            [sys.executable, "-m", "marksweep", "replay", ".", "-s", "hanging:Hangs"]  # noqa: RUF005
            + ["--workers", "2", "-b", "30%", "--patience", "500"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not Path("hung").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert Path("hung").exists()
        started.send_signal(signal.SIGINT)
        _, said = started.communicate(timeout=60)
        assert started.returncode == 130, said
        assert "Traceback" not in said
        with pytest.raises(ProcessLookupError):
            _wait_for_group(started.pid)

    def test_a_process_that_is_killed_is_one_line(self) -> None:
        Path("hanging.py").write_text(HANGING)
        for n in range(4):
            Path(f"more-{n}.json").write_text(json.dumps(recorded()))
        done = subprocess.run(
            [sys.executable, "-m", "marksweep", "replay", ".", "-s", "hanging:Kills"]  # noqa: RUF005
            + ["--workers", "2", "-b", "30%", *SOLVED_ROUGHLY],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.startswith("marksweep: a process of the replay ended (signal SIGKILL).")
        assert "Traceback" not in done.stderr

    def test_custom_strategies_are_replayed_and_their_failures_named(self) -> None:
        Path("hanging.py").write_text(HANGING)
        found = replayed("chat.json", "-b", "30%", "-s", "hanging:Dies", *SOLVED_ROUGHLY)
        row = next(r for r in found["result"]["rows"] if r["strategy"] == "hanging:Dies")
        assert row["violations"] == {"error": 32}
        assert row["failures"] == [
            "chat.json, step 1: the process of hanging:Dies died (exit code 3)"
        ]
        assert found["recommended"]["strategy"] == "truncate"
        output = run(
            "replay", "chat.json", "-b", "30%", "-s", "hanging:Dies", *SOLVED_ROUGHLY
        ).stdout
        assert "hanging:Dies at 30%: error (32×)" in output


WATCHING = """
import pathlib, sys

HERE = pathlib.Path(__file__).parent

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"):
        with (HERE / "asked").open("a") as log:
            log.write(f"{event} {arguments[1:]} of {sys.argv}\\n")

sys.addaudithook(watch)
"""


HANGING = """
import os, pathlib, signal, time

class Kills:
    def start(self, pinned, limit):
        os.kill(os.getppid(), signal.SIGKILL)

    def add(self, messages):
        pass

    def context(self):
        return []

class Hangs:
    def start(self, pinned, limit):
        (pathlib.Path(__file__).parent / "hung").touch()
        time.sleep(900)

    def add(self, messages):
        os._exit(3)

    def context(self):
        return []

class Dies(Hangs):
    def start(self, pinned, limit):
        pass
"""


def _wait_for_group(pid: int) -> None:
    """Wait until no process of the group is left; then os.killpg raises."""
    for _ in range(100):
        os.killpg(pid, 0)
        time.sleep(0.1)


class TestTune:
    def test_the_settings_it_writes_are_read_back_and_hold_the_evidence(self) -> None:
        done = run("tune", "chat.json", *QUICK, "--recall", "80")
        assert done.exit_code == 0, done.output
        text = Path(".marksweep/settings.toml").read_text()
        assert load_settings().window.limit_tokens == 5500
        comments = [line for line in text.splitlines() if line.startswith("#")]
        for expected in ("truncate", "clairvoyant", "coverage at 30%", "recall"):
            assert any(expected in line for line in comments)

    def test_what_it_writes_is_what_collect_and_a_conversation_use(self) -> None:
        spec = "superseded+mask+truncate:spare=1,preserve_recent_turns=0,target_percent=50"
        done = run("tune", "chat.json", "-s", spec, "-b", "50%", "--recall", "50", *SOLVED_ROUGHLY)
        assert done.exit_code == 0, done.output
        settings = load_settings()
        assert settings.conversation.strategy == "superseded+mask+truncate"
        assert settings.conversation.options == {"spare": 1}
        assert settings.window.target_percent == 50
        talk = Conversation.from_settings(settings)
        assert talk.budget.limit == settings.window.limit_tokens
        assert talk.budget.target == settings.window.limit_tokens // 2
        talk.extend(recorded())
        planned = {step.reason for step in talk.plan().steps}
        collected = run("collect", "chat.json", "--json")
        assert collected.exit_code == 0, collected.output
        plan = json.loads(collected.stdout)
        assert plan["target_size"] == settings.window.limit_tokens
        assert plan["strategy"] == "superseded → mask → truncate"
        assert {step["reason"] for step in plan["steps"]} <= planned

    def test_what_settings_cannot_express_is_not_written(self) -> None:
        done = run("tune", "chat.json", "-s", "gc_truncate", "-b", "30%", *SOLVED_ROUGHLY, "--json")
        assert json.loads(done.stdout)["recommended"]["strategy"] == "truncate"
        assert load_settings().conversation.strategy == "truncate"

    def test_other_settings_are_kept_and_the_old_file_stays_beside(self) -> None:
        path = Path(".marksweep/settings.toml")
        path.parent.mkdir()
        before = '[window]\ntarget_percent = 40.0\n\n[store]\nlocation = "a \\"b\\".db"\n'
        path.write_text(before)
        assert run("tune", "chat.json", *QUICK).exit_code == 3
        assert path.read_text() == before
        assert run("tune", "chat.json", *QUICK, "--yes").exit_code == 0
        after = tomllib.loads(path.read_text())
        assert after["store"] == {"location": 'a "b".db'}
        assert after["window"]["target_percent"] == 40.0
        assert after["window"]["limit_tokens"] == 5500
        assert path.with_name("settings.toml.orig").read_text() == before
        assert load_settings().store.location == 'a "b".db'

    def test_tuning_twice_changes_nothing(self) -> None:
        run("tune", "chat.json", *QUICK)
        first = Path(".marksweep/settings.toml").read_bytes()
        assert run("tune", "chat.json", *QUICK).exit_code == 0
        assert Path(".marksweep/settings.toml").read_bytes() == first

    def test_a_json_settings_file_is_not_overridden(self) -> None:
        Path(".marksweep").mkdir()
        Path(".marksweep/settings.json").write_text("{}")
        done = run("tune", "chat.json", *QUICK)
        assert done.exit_code == 2
        assert "-o" in done.stderr

    def test_references_alone_cannot_be_recommended_over_truncation(self) -> None:
        done = run("tune", "chat.json", "-s", "random", "-b", "30%", *SOLVED_ROUGHLY, "--json")
        assert json.loads(done.stdout)["recommended"]["strategy"] == "truncate"
