"""Files that other programs write: damaged lines, links, and concurrent writers."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from marksweep.cli import transcripts
from marksweep.errors import Refused
from marksweep.stores.files import Stamp
from tests.cli.support import history, run

LATIN_1 = b'{"role": "user", "content": "caf\xe9"}'
NOT_A_NUMBER = b'{"role": "user", "content": "x", "score": NaN}'
CUT = b'{"role": "user", "cont'
DAMAGED = [LATIN_1, NOT_A_NUMBER, CUT, b"plain words\r"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lines(turns: int = 12) -> list[bytes]:
    return [json.dumps(message).encode() for message in history(turns)]


def written(name: str, data: bytes) -> Path:
    Path(name).write_bytes(data)
    return Path(name)


class TestDamagedFiles:
    @pytest.mark.parametrize("limit", ["2k", "1m"])
    @pytest.mark.parametrize("damaged", DAMAGED)
    def test_a_line_that_cannot_be_read_stays_in_its_place_byte_for_byte(
        self, damaged: bytes, limit: str
    ) -> None:
        given = lines()
        written("chat.jsonl", b"\n".join([*given[:2], damaged, b"", *given[2:], damaged]))
        done = run("collect", "chat.jsonl", "--limit", limit, "-o", "small.jsonl")
        assert done.exit_code == (0 if limit == "2k" else 1), done.output
        kept = Path("small.jsonl").read_bytes().split(b"\n")
        assert kept[2:4] == [damaged, b""]
        assert kept[-1] == damaged
        assert [json.loads(line) for line in kept[:2]] == history()[:2]

    def test_unreadable_lines_are_counted_and_named_in_text_and_in_json(self) -> None:
        written("chat.jsonl", b"\n".join([*lines()[:2], LATIN_1, *lines()[2:], NOT_A_NUMBER]))
        for command in (["collect", "chat.jsonl", "--limit", "2k"], ["analyze", "chat.jsonl"]):
            shown = run(*command).output
            assert "2 lines cannot be read" in shown
            assert "line 3 is not JSON" in shown
            skipped = json.loads(run(*command, "--json").stdout)["skipped"]
            assert [each["position"] for each in skipped] == [2, 28]
            assert "line 29 is not JSON" in skipped[1]["reason"]
        found = json.loads(run("validate", "chat.jsonl", "--json").output)
        assert [(f["rule"], f["position"]) for f in found] == [("readable", 2), ("readable", 28)]

    @pytest.mark.parametrize(
        "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
    )
    @pytest.mark.parametrize("is_lines", [True, False])
    def test_other_encodings_are_read_and_written_back(self, encoding: str, is_lines: bool) -> None:
        text = "\n".join(map(json.dumps, history())) if is_lines else json.dumps(history())
        written("chat.json", text.encode(encoding))
        done = run("collect", "chat.json", "--limit", "2k", "-o", "small.json")
        assert done.exit_code == 0, done.output
        data = Path("small.json").read_bytes()
        assert data[:2] == Path("chat.json").read_bytes()[:2]
        small = data.decode(encoding)
        left = [json.loads(x) for x in small.splitlines()] if is_lines else json.loads(small)
        assert left[:2] == history()[:2]
        assert json.loads(run("analyze", "chat.json", "--json").output)["skipped"] == []

    @pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
    def test_compressed_files_are_recognized_by_their_content(
        self, pack: Callable[[bytes], bytes]
    ) -> None:
        written("chat.jsonl", pack(b"\n".join(lines())))
        assert json.loads(run("analyze", "chat.jsonl", "--json").output)["messages"] == 27
        refused = run("collect", "chat.jsonl", "--limit", "2k", "--write", "--yes")
        assert refused.exit_code == 2
        assert "is compressed" in refused.stderr.replace("\n", " ")

    @pytest.mark.parametrize(
        ("data", "said"),
        [
            (b"", "is empty"),
            (b"\xef\xbb\xbf \n", "is empty"),
            (b"words\nand more words", "line 1 is not JSON"),
            (json.dumps(history(), indent=1).encode() + LATIN_1, "as a whole it is not JSON"),
            (gzip.compress(b"\n".join(lines()))[:-20], "cannot be unpacked"),
            (b"\x28\xb5\x2f\xfd....", "is Zstandard"),
            (b"\xff\xfe[\x00]", "seems to be utf-16"),
            (b"[]", "holds no message"),
            (b'{"prompt": "hi"}', "none of 1|no known marks"),
            (b'[{"type": "human", "data": {"content": "hi"}}]', "LangChain"),
        ],
    )
    @pytest.mark.parametrize("command", ["analyze", "validate", "collect"])
    def test_a_file_that_cannot_be_read_at_all_is_an_error(
        self, command: str, data: bytes, said: str
    ) -> None:
        written("bad.json", data)
        more = ("--limit", "1k", "-o", "out.json") if command == "collect" else ()
        done = run(command, "bad.json", *more)
        assert done.exit_code == 2, done.output
        message = done.stderr.replace("\n", " ")
        assert "bad.json" in message
        assert any(each in message for each in said.split("|")), message
        assert not Path("out.json").exists()

    def test_a_transcript_of_one_line_is_read(self) -> None:
        written("one.jsonl", lines()[1] + b"\n")
        assert json.loads(run("analyze", "one.jsonl", "--json").output)["messages"] == 1

    def test_what_a_replay_could_not_read_is_named(self) -> None:
        from marksweep.replay.inputs import gather

        written("chat.jsonl", b"\n".join([*lines()[:2], LATIN_1, *lines()[2:]]))
        found = gather(["chat.jsonl"])
        assert len(found.trajectories) == 1
        assert [each.name for each in found.passed] == ["chat.jsonl:3"]


@pytest.mark.parametrize("words", [("analyze", "-"), ("remember", "-")])
def test_a_closed_standard_input_is_one_line(words: tuple[str, ...]) -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "marksweep", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("marksweep: standard input is closed")


class TestLinksAndModes:
    def test_a_link_is_followed_and_stays_a_link(self) -> None:
        Path("real").mkdir()
        target = written("real/chat.jsonl", b"\n".join(lines()))
        target.chmod(0o640)
        before = target.read_bytes()
        Path("link.jsonl").symlink_to("real/chat.jsonl")
        done = run("collect", "link.jsonl", "--limit", "2k", "--write", "--yes")
        assert done.exit_code == 0, done.output
        assert Path("link.jsonl").readlink() == Path("real/chat.jsonl")
        assert len(target.read_bytes()) < len(before)
        assert target.stat().st_mode & 0o777 == 0o640
        assert Path("real/chat.jsonl.orig").read_bytes() == before
        assert run("undo", "link.jsonl").exit_code == 0
        assert target.read_bytes() == before
        assert Path("link.jsonl").is_symlink()

    def test_an_existing_output_keeps_its_mode_and_link(self) -> None:
        written("chat.jsonl", b"\n".join(lines()))
        written("out.jsonl", b"old").chmod(0o644)
        Path("link.jsonl").symlink_to("out.jsonl")
        run("collect", "chat.jsonl", "--limit", "2k", "-o", "link.jsonl")
        assert Path("link.jsonl").is_symlink()
        assert Path("out.jsonl").read_bytes() != b"old"
        assert Path("out.jsonl").stat().st_mode & 0o777 == 0o644
        run("collect", "chat.jsonl", "--limit", "2k", "-o", "new.jsonl")
        assert Path("new.jsonl").stat().st_mode & 0o777 == 0o600

    def test_a_pipe_or_device_is_refused_and_not_replaced(self) -> None:
        written("chat.jsonl", b"\n".join(lines()))
        os.mkfifo("pipe")
        Path("link").symlink_to("pipe")
        for name in ("pipe", "link"):
            done = run("collect", "chat.jsonl", "--limit", "2k", "-o", name)
            assert done.exit_code == 2
            assert "is a pipe; name a regular file" in " ".join(done.stderr.split())
        assert Path("pipe").is_fifo()
        assert {path.name for path in Path().iterdir()} == {"chat.jsonl", "pipe", "link"}

    def test_the_owner_is_preserved(self) -> None:
        path = written("chat.jsonl", b"\n".join(lines()))
        owner = (4321, 1234) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
        os.chown(path, *owner)
        run("collect", "chat.jsonl", "--limit", "2k", "--write", "--yes")
        assert (path.stat().st_uid, path.stat().st_gid) == owner

    def test_no_temporary_file_is_left_behind(self) -> None:
        written("chat.jsonl", b"\n".join(lines()))
        written("chat.jsonl.orig", b"exists already")
        done = run("collect", "chat.jsonl", "--limit", "2k", "--write", "--yes")
        assert done.exit_code == 3
        assert sorted(each.name for each in Path().iterdir()) == ["chat.jsonl", "chat.jsonl.orig"]


APPENDING = """
import json, sys
path, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(first, last):
    with open(path, "ab") as out:
        out.write(json.dumps({"role": "user", "content": f"late {number}"}).encode() + b"\\n")
    print(number, flush=True)
"""
"""A writer that opens the file for every line."""

HOLDING = """
import json, sys
with open(sys.argv[1], "ab", buffering=0) as out:
    print("open", flush=True)
    for number in map(int, sys.stdin):
        out.write(json.dumps({"role": "user", "content": f"late {number}"}).encode() + b"\\n")
        print(number, flush=True)
"""
"""A writer that keeps the file open, and writes a line for every number on stdin."""


@contextmanager
def program(source: str, *arguments: Any) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", source, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def append(path: Path, number: int) -> None:
    """Have another process write one line."""
    with program(APPENDING, path, number, number + 1) as writer:
        assert writer.wait() == 0


def late(path: Path) -> list[str]:
    contents = [json.loads(line)["content"] for line in path.read_bytes().splitlines()]
    return [text for text in contents if text and text.startswith("late ")]


@pytest.fixture
def session() -> Path:
    return written("chat.jsonl", b"\n".join(lines()) + b"\n").resolve()


class TestConcurrentWriters:
    def test_lines_added_since_it_was_read_are_noticed(self, session: Path) -> None:
        loaded = transcripts.load(str(session))
        append(session, 1)
        before = session.read_bytes()
        with pytest.raises(Refused, match="was written to while it was collected"):
            transcripts.replace(loaded, b"{}\n")
        assert session.read_bytes() == before
        assert [each.name for each in session.parent.iterdir()] == ["chat.jsonl"]

    def test_a_file_that_was_replaced_is_noticed(self, session: Path) -> None:
        loaded = transcripts.load(str(session))
        other = session.with_name("other")
        other.write_bytes(session.read_bytes())
        os.utime(other, ns=(session.stat().st_atime_ns, session.stat().st_mtime_ns))
        other.replace(session)
        with pytest.raises(Refused):
            transcripts.replace(loaded, b"{}\n")

    def test_a_line_added_at_the_last_moment_is_kept(
        self, session: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded = transcripts.load(str(session))
        swap_in = transcripts._swap_in

        def late_swap(draft: Path, path: Path, original: Path, stamp: Stamp) -> None:
            swap = Path.replace

            def replace_after_a_line(self: Path, target: Path) -> Path:
                append(session, 7)
                return swap(self, target)

            with monkeypatch.context() as patch:
                patch.setattr(Path, "replace", replace_after_a_line)
                swap_in(draft, path, original, stamp)

        monkeypatch.setattr(transcripts, "_swap_in", late_swap)
        assert transcripts.replace(loaded, b'{"role": "user", "content": "new"}\n') == 1
        assert late(session) == ["late 7"]
        assert session.read_bytes().startswith(b'{"role": "user", "content": "new"}\n')

    def test_no_line_of_a_program_that_writes_continuously_is_lost(self, session: Path) -> None:
        count, replaced = 400, 0
        with program(APPENDING, session, 0, count) as writer:
            while writer.poll() is None:
                done = run("collect", "chat.jsonl", "--limit", "3k", "--write", "--yes")
                if done.exit_code == 0:
                    replaced += 1
                    Path("chat.jsonl.orig").unlink()
                assert done.exit_code in (0, 1, 3), done.output
        # Late lines are the user's words, which stay; all of them must be there.
        assert sorted(late(session)) == sorted(f"late {n}" for n in range(count)), replaced

    def test_a_program_that_keeps_the_file_open_is_named_and_nothing_is_replaced(
        self, session: Path
    ) -> None:
        with program(HOLDING, session) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            assert writer.stdout.readline() == "open\n"
            done = run("collect", "chat.jsonl", "--limit", "2k", "--write", "--yes")
            assert done.exit_code == 3
            assert f"process {writer.pid}" in done.stderr.replace("\n", " ")
            print(1, file=writer.stdin, flush=True)
            assert writer.stdout.readline() == "1\n"
        assert late(session) == ["late 1"]
        assert run("collect", "chat.jsonl", "--limit", "2k", "--write", "--yes").exit_code == 0

    def test_lines_of_a_writer_that_cannot_be_seen_are_in_the_original(
        self, session: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transcripts, "PROCESSES", Path("/nowhere"))
        with program(HOLDING, session) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            assert writer.stdout.readline() == "open\n"
            assert run("collect", "chat.jsonl", "--limit", "2k", "--write", "--yes").exit_code == 0
            print(1, file=writer.stdin, flush=True)
            assert writer.stdout.readline() == "1\n"
        assert late(session.with_name("chat.jsonl.orig")) == ["late 1"]

    def test_a_program_that_only_reads_does_not_block_the_write(self, session: Path) -> None:
        with session.open("rb"):
            assert run("collect", "chat.jsonl", "--limit", "2k", "--write", "--yes").exit_code == 0
