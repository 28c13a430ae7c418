"""Sessions of coding agents, collected under a new id. `make clients` resumes them for real."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from marksweep.dialects import validate
from tests.dialects.test_chain import session

ID = "501badf9-17cd-4fbd-94d9-6e61eda345e2"


def codex(steps: int, folder: Path) -> list[Any]:
    def item(payload: Any) -> Any:
        return {"timestamp": "t", "ordinal": 0, "type": "response_item", "payload": payload}

    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix"}]}
    meta = {"id": ID, "cwd": str(folder)}
    lines = [
        {"timestamp": "t", "ordinal": 0, "type": "session_meta", "payload": meta},
        item(said),
    ]
    for n in range(steps):
        call = {"type": "function_call", "call_id": f"c{n}", "name": "shell", "arguments": "{}"}
        text = f"content of file {n}\n" * 60
        result = {"type": "function_call_output", "call_id": f"c{n}", "output": text}
        lines += [item(call), item(result)]
    return [{**line, "ordinal": n} for n, line in enumerate(lines)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def write(home: Path, agent: str, lines: list[Any]) -> Path:
    if agent == "claude":
        slug = re.sub(r"[^A-Za-z0-9]", "-", str(home / "work"))
        path = home / ".claude" / "projects" / slug / f"{ID}.jsonl"
    else:
        path = home / ".codex" / "sessions" / "2026" / "11" / "16" / f"rollout-t-{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def resume(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return marksweep(home, "resume", *words)


def marksweep(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    away = ("CLAUDE_CONFIG_DIR", "CODEX_HOME")
    environment = {key: value for key, value in os.environ.items() if key not in away}
    return subprocess.run(
        [sys.executable, "-m", "marksweep", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=home / "work",
        env={**environment, "HOME": str(home)},
        timeout=60,
    )


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_copy_under_a_new_id_fits_and_the_session_is_as_it_was(home: Path, agent: str) -> None:
    lines = session(30) if agent == "claude" else codex(30, home / "work")
    path = write(home, agent, lines)
    before = path.read_bytes()
    done = resume(home, agent, "--limit", "3k", "--yes")
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == before
    (copy,) = [file for file in path.parent.iterdir() if file != path]
    assert copy.stat().st_size < len(before) / 2
    assert copy.stat().st_mode & 0o077 == 0
    left = [json.loads(line) for line in copy.read_text().splitlines()]
    dialect = "claude_code" if agent == "claude" else "codex"
    assert validate(left, dialect) == []
    new = " ".join(done.stderr.split()).split()[-1]
    assert new in copy.name
    if agent == "claude":
        assert {line["sessionId"] for line in left} == {new}
    else:
        assert left[0]["payload"]["id"] == new
        assert [line["ordinal"] for line in left] == list(range(len(left)))


def test_a_line_that_was_cut_is_in_the_copy_also_before_one_without_a_time(home: Path) -> None:
    path = write(home, "codex", codex(30, home / "work"))
    lines = path.read_text().splitlines()
    lines[-2:] = [line.replace('"timestamp": "t", ', "") for line in lines[-2:]]
    cut = '{"timestamp": "t", "ty'
    lines.insert(-2, cut)
    path.write_text("\n".join(lines) + "\n")
    done = resume(home, "codex", "--limit", "3k", "--yes")
    assert done.returncode == 0, done.stderr
    (copy,) = (each for each in path.parent.iterdir() if each != path)
    made = copy.read_text().splitlines()
    assert cut in made
    assert all(json.loads(line)["timestamp"] == "t" for line in made if line != cut)


def test_without_a_name_the_newest_session_of_the_folder_is_used(home: Path) -> None:
    os.utime(write(home, "claude", session(30)), (1, 1))
    write(home, "codex", codex(30, home / "work"))
    assert "codex resume" in " ".join(resume(home, "--limit", "3k", "--yes").stderr.split())
    named = resume(home, "claude", ID, "--limit", "3k", "--yes")
    assert "claude --resume" in " ".join(named.stderr.split())


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_analyze_recommends_to_resume_the_session_that_it_found(home: Path, agent: str) -> None:
    lines = session(30) if agent == "claude" else codex(30, home / "work")
    path = write(home, agent, lines)
    found = json.loads(marksweep(home, "analyze", "--limit", "3k", "--json").stdout)
    words = shlex.split(found["recommended"])
    assert words[:3] == ["marksweep", "resume", agent]
    done = marksweep(home, *words[1:], "--yes")
    assert done.returncode == 0, done.stderr
    assert len(list(path.parent.iterdir())) == 2


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_smaller_copy_beside_a_session_is_not_a_session(home: Path, agent: str) -> None:
    lines = session(30) if agent == "claude" else codex(30, home / "work")
    path = write(home, agent, lines)
    os.utime(path, (1, 1))
    path.with_name(f"{path.stem}.smaller.jsonl").write_bytes(path.read_bytes())
    done = resume(home, agent, "--limit", "3k", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"{path.name} is unchanged" in " ".join(done.stderr.split())


def test_what_fits_is_left_alone(home: Path) -> None:
    path = write(home, "claude", session(3))
    done = resume(home, "claude", "--yes")
    assert done.returncode == 1
    assert f"claude --resume {ID}" in " ".join(done.stderr.split())
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["vim"], 2, "expected claude or codex"),
        (["claude"], 2, "no session of claude"),
        (["claude", "x", "--limit", "many"], 2, "no session x"),
    ],
)
def test_a_missing_session_is_reported(
    home: Path, words: list[str], status: int, said: str
) -> None:
    done = resume(home, *words)
    assert done.returncode == status
    assert said in " ".join(done.stderr.split())


def test_nothing_is_written_without_confirmation(home: Path) -> None:
    path = write(home, "claude", session(30))
    done = resume(home, "claude", "--limit", "3k")
    assert done.returncode == 3
    assert list(path.parent.iterdir()) == [path]
