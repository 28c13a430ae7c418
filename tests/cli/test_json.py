"""What every command prints with --json conforms to docs/json.schema.json."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema  # type: ignore[import-untyped]
import pytest

from marksweep.cli.app import app
from tests.cli.support import fill, history, run
from tools.docs import SHAPES

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/json.schema.json").read_text())
WITHOUT_RESULT = {"demo", "hook", "plugin", "proxy", "resume", "serve", "swept", "web", "wrap"}
QUICK = ("-s", "mask last 10", "-b", "30%", "--solver-nodes", "20", "--workers", "1")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("chat.json").write_text(json.dumps(history()))
    Path("code").mkdir()
    for name in ("ant", "bee", "cat", "dog"):
        Path(f"code/{name}.py").write_text(f"def {name}():\n    return 1\n")


def printed(shape: str, *words: str, codes: tuple[int, ...] = (0,)) -> Any:
    """Run a command, validate its output against its schema, and return it."""
    done = run(*words, "--json")
    assert done.exit_code in codes, done.output
    return conforming(shape, done.stdout)


def conforming(shape: str, text: str) -> Any:
    value = json.loads(text)
    jsonschema.Draft202012Validator(
        {**SCHEMA["commands"][shape], "$defs": SCHEMA["$defs"]}
    ).validate(value)
    return value


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(
        {"anyOf": list(SCHEMA["commands"].values()), "$defs": SCHEMA["$defs"]}
    )


def test_commands_on_transcripts() -> None:
    assert printed("analyze TRANSCRIPT", "analyze", "chat.json")["findings"] == []
    assert printed("collect TRANSCRIPT", "collect", "chat.json", "--limit", "2k")["steps"]
    assert printed("validate", "validate", "chat.json") == []
    broken = history(2)
    del broken[3]
    Path("broken.json").write_text(json.dumps(broken))
    assert printed("validate", "validate", "broken.json")


def test_commands_on_recorded_runs() -> None:
    assert printed("replay", "replay", "chat.json", *QUICK)["result"]["rows"]
    assert printed("tune", "tune", "chat.json", *QUICK, "-o", "settings.toml")


def test_commands_on_the_working_set() -> None:
    fill(Path("set.db"))
    store = ("--store", "set.db")
    assert printed("analyze", "analyze", *store)["size_before"] == 100
    assert printed("collect", "collect", *store, codes=(1,)).get("swept", []) == []
    swept = printed("collect", "collect", *store, "--limit", "50", "--yes")["swept"]
    assert len(printed("live", "live", *store)) == 5
    assert len(printed("stash list", "stash", "list", *store)) == len(swept) == 5
    assert len(printed("stash search", "stash", "search", "parser", *store)) == 5
    assert printed("stash search", "stash", "search", "zebra", *store, codes=(1,)) == []
    assert printed("stash restore", "stash", "restore", swept[0], *store)["restored"] == [swept[0]]
    entries = printed("journal", "journal", *store)
    plan = next(each["plan_id"] for each in entries if each["event"] == "swept")
    assert len(printed("undo", "undo", plan, *store)["restored"]) == 4
    assert printed("why", "why", swept[0], *store)["segment_id"] == swept[0]
    file = printed("store export", "store", "export", "set.jsonl.gz", *store)
    assert file["workspaces"][0]["segments"] == 10
    other = ("set.jsonl.gz", "--store", "other.db")
    assert printed("store import", "store", "import", *other) == file
    assert printed("store verify", "store", "verify", *other) == file
    assert printed("pin", "pin", swept[0], *store)["pinned"] is True
    assert printed("pin", "pin", swept[0], "--remove", *store)["pinned"] is False
    assert printed("stash put", "stash", "put", swept[0], *store)["stashed"] == [swept[0]]


def test_undoing_a_file() -> None:
    run("collect", "chat.json", "--limit", "2k", "--write", "--yes")
    assert printed("undo", "undo", "chat.json")["restored"] == ["chat.json"]


def test_commands_on_memory() -> None:
    assert printed("index", "index", "code")["files"] == 4
    assert printed("search", "search", "cat")["hits"]
    assert printed("search", "search", "zebra", codes=(1,)).get("hits", []) == []
    Path("code/cat.py").unlink()
    printed("index", "index", "code")
    plan = printed("prune", "prune")["plan"]["plan_id"]
    assert printed("prune --apply", "prune", "--apply", plan, "--workspace", "default")["deleted"][
        "memories"
    ]
    assert printed("prune --restore", "prune", "--restore", plan)["memories"]
    done = printed("prune --yes", "prune", "--yes", "--workspace", "default")
    assert done["deleted"]["memories"], "--yes deletes, with --json too"
    assert printed("prune --restore", "prune", "--restore", done["plan"]["plan_id"])["memories"]


def test_the_commands_of_an_agent() -> None:
    Path("code/zoo.py").write_text("from ant import ant\n\n\ndef open_zoo():\n    ant()\n")
    run("index", "code")
    note = printed("remember", "remember", "Ants are fed at noon", "--tag", "zoo")["memory_id"]
    new = printed("remember", "remember", "Ants are fed at one", "--replaces", note)
    assert new["replaced"] == [note]
    assert printed("recall", "recall", "when", "are", "ants", "fed")[0]["id"] == new["memory_id"]
    assert printed("recall", "recall", "open_zoo", "--in", "code")[0]["where"] == "code"
    assert printed("recall", "recall", "zebra", codes=(1,)) == []
    (old,) = printed("recall", "recall", note)
    shown = printed("recall", "recall", "ants", "--in", "note", "--as-of", old["created_at"])
    assert [each["id"] for each in shown] == [note]
    then = ("--as-of", "2020-01-01T00:00:00Z")
    assert printed("recall", "recall", "ants", *then, codes=(1,)) == []
    (link,) = printed("callers", "callers", "ant")["links"]
    assert (link["link"]["source"], link["link"]["lines"]) == ("open_zoo", [5])
    assert printed("callers", "callers", "zoo.py", "--ask", "imports")["links"]
    printed("callers", "callers", "nobody", codes=(1,))
    assert printed("forget", "forget", "latest", "--yes")["done"] == [new["memory_id"]]
    assert printed("forget", "forget", new["memory_id"], "--restore")["done"]
    printed("forget", "forget", "nobody", "--yes", codes=(1,))
    assert run("forget", new["memory_id"]).exit_code == 3
    for words in (("recall", "ants"), ("callers", "ant", "--ask", "impact"), ("remember", "x y")):
        assert run(*words).exit_code == 0
    assert "open_zoo calls ant zoo.py:5" in run("callers", "ant").stdout


def test_commands_on_what_memory_holds() -> None:
    run("index", "code")
    assert printed("memory export", "memory", "export", "-o", "b.jsonl.gz")["items"]
    assert (
        printed("memory export", "memory", "export", "--workspace", "x", codes=(1,))["path"] == ""
    )
    assert printed("memory backups", "memory", "backups", codes=(1,)) == []
    printed("memory export", "memory", "export")
    assert printed("memory backups", "memory", "backups")[0]["items"]
    assert printed("memory import", "memory", "import", "b.jsonl.gz")["items"]
    cat = printed("search", "search", "cat")["hits"][0]["memory"]["memory_id"]
    assert printed("forget", "forget", cat, "--yes")["done"] == [cat]
    assert printed("forget --everywhere", "forget", cat, "--everywhere", "--yes")["backups"]
    printed("memory merge", "memory", "merge", codes=(1,))
    (root,) = printed("memory roots", "memory", "roots")
    assert (root["path"], root["there"]) == (str(Path("code").resolve()), True)
    ant = printed("search", "search", "ant")["hits"][0]["memory"]["memory_id"]
    assert printed("memory pin", "memory", "pin", ant, "--why", "rare")["found"] == 1
    assert printed("memory drop-root", "memory", "drop-root", "code", "--yes")["unreached"]
    assert printed("memory pin", "memory", "pin", ant, "--remove")["pinned"] is False
    assert printed("memory drop-root", "memory", "drop-root", "code", "--yes")["gone"]["memories"]
    assert printed("memory roots", "memory", "roots", codes=(1,)) == []
    assert printed("journal", "journal", "--memory")


def test_merging() -> None:
    Path("code/tags.md").write_text("#Red-Fox and #red_fox")
    run("index", "code")
    plan = printed("memory merge", "memory", "merge", codes=(0, 1))["plan_id"]
    printed("memory merge --apply", "memory", "merge", "--apply", plan, codes=(0, 1))


def test_erasing_for_good() -> None:
    run("index", "code")
    Path("code/cat.py").unlink()
    run("index", "code")
    run("prune", "--yes", "--workspace", "default")
    assert printed("prune --purge", "prune", "--purge", codes=(1,))["backup"] == ""
    Path(".marksweep/settings.toml").write_text("[memory]\ngrace_days = 1e-10\n")
    erased = printed("prune --purge", "prune", "--purge")
    assert erased["gone"]["memories"]
    assert Path(erased["backup"]).is_file()


def test_watching_prints_a_line_for_every_index() -> None:
    command = [str(Path(sys.executable).with_name("marksweep")), "watch", "code", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert conforming("watch", watching.stdout.readline())["files"] == 4
        finally:
            watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0


def test_settings_and_doctor() -> None:
    assert printed("config show", "config", "show")["window"]["limit_tokens"] > 0
    assert printed("config check", "config", "check") == {"ok": True}
    assert printed("doctor", "doctor")


def test_every_command_has_a_schema_and_every_schema_a_command() -> None:
    offering = {
        path
        for path, command in _commands(app)
        if any("--json" in parameter.opts for parameter in command.params)
    }
    described = {" ".join(word for word in name.split() if word.islower()) for name in SHAPES}
    assert {name.partition(" --")[0] for name in described} == offering
    assert {path for path, _ in _commands(app)} - offering == WITHOUT_RESULT


def _commands(
    group: click.Group, above: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from _commands(found, (*above, name))
        else:
            yield " ".join((*above, name)), found
