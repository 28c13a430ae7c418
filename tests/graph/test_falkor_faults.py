"""FalkorDB unreachable, replaced, restarted, killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from marksweep.errors import BadInput, StoreError, StoreTooNew
from marksweep.search.ranking import CONSIDERED, NAME_WEIGHT
from marksweep.stores.files import is_exposed
from marksweep.stores.graph.base import GraphQuery
from marksweep.stores.graph.falkor import FalkorGraphStore, connection, statements
from marksweep.stores.graph.falkor.server import EmbeddedServer, drop_unfinished
from tests.graph.graph_contract import everything, shape
from tests.graph.graph_sweep_contract import nodes_of
from tests.graph.graphs import file, later, note
from tests.graph.servers import ALWAYS, falkor_options, free_port, fresh_graphs, killable_server


def test_an_unreachable_server_is_a_clear_error() -> None:
    store = FalkorGraphStore(f"redis://127.0.0.1:{free_port()}", patience_seconds=0.2)
    with pytest.raises(StoreError, match=r"no FalkorDB answers at .*start the server"):
        store.counts("w")
    store.close()


def test_an_option_in_the_url_that_the_client_does_not_know_is_refused() -> None:
    store = FalkorGraphStore(f"redis://127.0.0.1:{free_port()}?foo=1")
    with pytest.raises(BadInput, match=r"foo=1 is not the URL of a FalkorDB server"):
        store.counts("w")
    store.close()


def test_a_redis_without_falkordb_is_a_clear_error(tmp_path: Path) -> None:
    with killable_server(tmp_path) as server:
        store = FalkorGraphStore(server.url)
        with pytest.raises(StoreError, match="is Redis without FalkorDB"):
            store.put("w", [note("w", "x")])
        store.close()


def test_a_node_of_a_cluster_is_refused(tmp_path: Path) -> None:
    cluster = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with killable_server(tmp_path, *falkor_options(), *cluster) as server:
        store = FalkorGraphStore(server.url)
        with pytest.raises(StoreError, match=r"only some of the graphs\. Name a single"):
            store.put("w", [note("w", "x")])
        store.close()


def test_a_replica_is_read_and_refuses_to_be_written(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("primary", "replica")]
    for folder in folders:
        folder.mkdir()
    at_once = ("--repl-diskless-sync-delay", "0")
    with killable_server(folders[0], *falkor_options(), *at_once) as primary:
        of = ("--replicaof", "127.0.0.1", primary.url.rpartition(":")[2])
        with killable_server(folders[1], *falkor_options(), *of) as replica:
            store, copy = FalkorGraphStore(primary.url), FalkorGraphStore(replica.url)
            written = note("w", "x")
            store.put("w", [written])
            deadline = time.monotonic() + 30
            while not copy.fetch("w", [written.memory.memory_id]):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            with pytest.raises(StoreError, match=r"is a read-only replica\. Name the primary"):
                copy.put("w", [note("w", "y")])
            store.close()
            copy.close()


def test_a_wrong_password_is_reported_at_once_and_not_shown(tmp_path: Path) -> None:
    with killable_server(tmp_path, *falkor_options(), "--requirepass", "right") as server:
        for given in (":hunter2@", ""):
            url = server.url.replace("://", f"://{given}")
            store = FalkorGraphStore(url, patience_seconds=3_600)
            with pytest.raises(StoreError, match="does not accept the user or password") as raised:
                store.counts("w")
            assert "hunter2" not in str(raised.value)
            store.close()


def test_a_server_that_never_answers_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"127.0.0.1:{silent.getsockname()[1]}"
        store = FalkorGraphStore(f"redis://{url}", patience_seconds=0.1)
        with pytest.raises(StoreError, match="no FalkorDB answers at"):
            store.counts("w")
        store.close()


def test_tls_to_a_server_without_it_is_a_clear_error(falkor_url: str) -> None:
    store = FalkorGraphStore(falkor_url.replace("redis://", "rediss://"))
    with pytest.raises(StoreError, match=r"no TLS connection to .*falkordb://"):
        store.counts("w")
    store.close()


def test_an_embedded_server_is_for_its_owner_alone(tmp_path: Path) -> None:
    for folder in (tmp_path / "short", tmp_path / ("long" * 40) / "er"):
        store = FalkorGraphStore.embedded(folder)
        store.put("w", [note("w", "x")])
        store.scrub()
        assert store._server is not None
        where = store._server.socket_path
        assert not is_exposed(where.parent)
        seen = [path for path in folder.rglob("*") if path != where]
        assert any(path.suffix in (".aof", ".rdb") for path in seen)
        assert [path for path in (folder, *seen) if is_exposed(path)] == []
        store.close()


def test_queries_that_a_server_noted_go_with_what_was_erased(
    falkor_url: str, tmp_path: Path
) -> None:
    """FalkorDB writes every query with its parameters to a stream, unless that is switched off."""
    with fresh_graphs(falkor_url)() as store:
        store.put("w", [note("w", "x")])
        assert isinstance(store, FalkorGraphStore)
        stream = f"telemetry{{{store.db.prefix}w}}"
        noted = store.db.command("XADD", stream, "*", "Query parameters", "x")
        left = store.scrub()
        assert any("GRAPH.CONFIG SET CMD_INFO no" in each for each in left)
        assert store.db.command("XRANGE", stream, noted, noted) == []
    store = FalkorGraphStore.embedded(tmp_path)
    assert store.scrub() == ()
    store.close()


def test_a_folder_of_somebody_else_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted").mkdir(mode=0o777)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(StoreError, match="not private to this user"):
        EmbeddedServer(tmp_path / "planted").open()


def test_a_graph_of_a_newer_marksweep_is_refused(falkor_url: str) -> None:
    opened = fresh_graphs(falkor_url)
    with opened() as store:
        store.put("w", [note("w", "x")])
        assert isinstance(store, FalkorGraphStore)
        store.db.write("w", ("MATCH (w:Workspace) SET w.schema = 99", {}))
    with opened() as store, pytest.raises(StoreTooNew, match="layout 99"):
        store.counts("w")


def test_a_graph_from_before_the_first_release_is_refused(falkor_url: str) -> None:
    opened = fresh_graphs(falkor_url)
    with opened() as store:
        store.put("w", [note("w", "x")])
        assert isinstance(store, FalkorGraphStore)
        store.db.write("w", ("MATCH (w:Workspace) SET w.schema = 3", {}))
    with opened() as store, pytest.raises(StoreError, match="layout 3, written before"):
        store.counts("w")


LAYOUT_OF_0_2_0 = (
    "DROP FULLTEXT INDEX FOR (c:Chunk) ON (c.named)",
    "DROP FULLTEXT INDEX FOR (c:Chunk) ON (c.scale)",
    "CALL db.idx.fulltext.createNodeIndex({label: 'Chunk'}, {field: 'named', nostem: true})",
    """MATCH (c:Chunk) SET c.half_point = null, c.scale = null,
    c.length = size(split(c.words + ' ' + c.named + ' ' + c.placed, ' '))""",
    "MATCH (w:Workspace) SET w.schema = 4",
)
"""Turns the current layout into that of 0.2.0."""
CHUNKS = """
CALL db.idx.fulltext.queryNodes('Chunk', 'open') YIELD node, score
RETURN node.symbol, node.half_point, node.scale, score ORDER BY node.symbol"""


def test_a_graph_of_0_2_0_is_upgraded(falkor_url: str) -> None:
    opened = fresh_graphs(falkor_url)
    with opened() as store:
        store.put("w", [file("w", "src/a.py", {"caller": ["open"], "open": ["one", "two"]})])
        assert isinstance(store, FalkorGraphStore)
        before = store.db.read("w", CHUNKS)
        for statement in LAYOUT_OF_0_2_0:
            store.db.write("w", (statement, {}))
        assert store.db.read("w", CHUNKS) != before
    with opened() as store:
        assert isinstance(store, FalkorGraphStore)
        hits = store.search("w", GraphQuery(words="open"))
        assert [hit.chunk.symbol for hit in hits] == ["open", "caller"]
        half_points = [row[:-1] for row in store.db.read("w", CHUNKS)]
        assert half_points == [row[:-1] for row in before]
        caller, named = (float(row[-1] or 0) for row in store.db.read("w", CHUNKS))
        assert named == pytest.approx((1 + NAME_WEIGHT) * caller)
        assert store.db.read("w", statements.SCHEMA) == [(connection.LAYOUT,)]


def test_what_is_stale_is_known_after_a_restart_from_a_rewritten_file(tmp_path: Path) -> None:
    with killable_server(tmp_path, *falkor_options(), *ALWAYS) as server:
        store = FalkorGraphStore(server.url)
        records = [file("w", f"{name}.py", {name: []}) for name in ("a", "b")]
        store.put("w", records)
        store.db.command("BGREWRITEAOF")
        manifest = tmp_path / "appendonlydir" / "appendonly.aof.manifest"
        while "appendonly.aof.2.base.rdb" not in manifest.read_text():
            time.sleep(0.02)  # The file exists before the server uses it.
        server.restart()
        store.close()
        store = FalkorGraphStore(server.url)
        assert store.mark_stale("w", [records[0].memory.memory_id]) == 1
        assert store.counts("w").stale == 1
        assert len(store.search("w", GraphQuery())) == 1
        store.close()


def test_a_search_finds_the_same_after_a_restart(tmp_path: Path) -> None:
    """A restarted server counts common words several times and gives them no score for a while."""
    filler = " ".join(f"word{n}" for n in range(300))
    owls = [note("w", f"owl {n} {filler}") for n in range(2 * CONSIDERED)]
    foxes = [note("w", f"fox {n}") for n in range(4 * CONSIDERED)]
    others = [note("w", f"hen {n}") for n in range(6 * CONSIDERED)]
    with killable_server(tmp_path, *falkor_options(), *ALWAYS) as server:
        store = FalkorGraphStore(server.url)
        store.put("w", [*owls, *foxes, *others, note("w", "fox fox fox")])
        before = store.search("w", GraphQuery(words="owl fox"))
        assert before[0].memory.text == "fox fox fox"
        server.restart()
        assert store.search("w", GraphQuery(words="owl fox")) == before
        store.close()


def test_a_statement_that_takes_long_is_waited_for(
    falkor_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    with fresh_graphs(falkor_url)() as store:
        store.put("w", [note("w", "x")])
        assert isinstance(store, FalkorGraphStore)
        slow = "UNWIND range(1, 4000000) AS i RETURN sum(i)"
        assert store.query("w", slow, {}) == [("8000002000000",)]
        assert connection.CONNECT_SECONDS < connection.ANSWER_SECONDS


def test_a_killed_server_loses_nothing_and_its_clients_reconnect(tmp_path: Path) -> None:

    with (
        killable_server(tmp_path, *falkor_options(), *ALWAYS) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        store = FalkorGraphStore(server.url)
        store.put("w", [file("w", "a.py", {"a": ["b"]})])
        before = everything(store, "w")
        for number in range(3):
            server.kill()
            waiting = pool.submit(store.counts, "w")
            time.sleep(0.2)
            server.start()
            assert waiting.result().memories == 1 + number
            assert [i for i in everything(store, "w") if i in before] == before
            store.put("w", [note("w", f"after restart {number}")])
            hits = store.search("w", GraphQuery(words=f"restart {number}"))
            assert hits[0].memory.text == f"after restart {number}"
        store.close()


def test_after_a_restart_nothing_is_read_before_the_indexes_are_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted server rebuilds its indexes; a look-up meanwhile may miss live rows."""
    sent: list[str] = []
    read = connection.Connection._read

    def noted(
        self: connection.Connection, server: object, workspace_id: str, *given: Any
    ) -> list[list[tuple[Any, ...]]]:
        sent.extend(given[0])
        return read(self, server, workspace_id, *given)

    with killable_server(tmp_path, *falkor_options(), *ALWAYS) as server:
        store = FalkorGraphStore(server.url)
        record = file("w", "a.py", {"a": []})
        store.put("w", [record])
        monkeypatch.setattr(connection.Connection, "_read", noted)
        server.restart()
        assert len(store.fetch("w", [record.memory.memory_id])) == 1
        store.close()
    assert statements.UNFINISHED_INDEXES in sent
    lookups = [n for n, each in enumerate(sent) if each == statements.MEMORIES]
    assert sent.index(statements.UNFINISHED_INDEXES) < lookups[-1]


def test_a_server_killed_during_a_purge_damages_no_live_row(tmp_path: Path) -> None:
    live = [file("w", f"live{n}.py", {f"live{n}": ["shared"]}) for n in range(20)]
    dead = [file("w", f"dead{n}.py", {f"dead{n}": ["shared"]}) for n in range(600)]

    with (
        killable_server(tmp_path, *falkor_options(), *ALWAYS) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        store = FalkorGraphStore(server.url)
        store.put("w", live)
        alone = {repr(item) for item in everything(store, "w")}
        store.put("w", dead)
        survey = store.survey("w")
        doomed = [r.memory_id for r in survey.memories if r.relative_path.startswith("dead")]
        records = store.fetch("w", doomed)
        nodes = nodes_of(*records)
        store.soft_delete("w", nodes, version=survey.version, plan_id="p", at=later())
        for delay in (0.01, 0.03, 0.06):
            purging = pool.submit(store.purge, "w", nodes, before=later(days=9))
            time.sleep(delay)
            server.restart()
            purging.result()
            assert alone <= {repr(item) for item in everything(store, "w")}
        store.purge("w", nodes, before=later(days=9))
        assert alone == {repr(item) for item in everything(store, "w")}
        store.close()


USER = """
import sys
from marksweep.stores.graph.falkor import FalkorGraphStore
from tests.graph.graphs import note

store = FalkorGraphStore.embedded(sys.argv[1])
store.put("w", [note("w", sys.argv[2])])
print("ready", flush=True)
sys.stdin.readline()
store.close()
"""


def use(directory: Path, text: str) -> subprocess.Popen[str]:
    user = subprocess.Popen(
        [sys.executable, "-c", USER, str(directory), text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert user.stdout is not None
    assert user.stdout.readline() == "ready\n"
    return user


def leave(user: subprocess.Popen[str]) -> None:
    user.communicate("\n", timeout=30)


def server_pid(directory: Path) -> int:
    return int((directory / "falkordb.pid").read_text())


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_processes_share_an_embedded_server_and_the_last_one_stops_it(tmp_path: Path) -> None:
    first, second = use(tmp_path, "first"), use(tmp_path, "second")
    pid = server_pid(tmp_path)
    leave(first)
    assert alive(pid)
    leave(second)
    assert not alive(pid)

    store = FalkorGraphStore.embedded(tmp_path)
    assert shape(store, "w") == (2, 2, 0, 0, 0)
    store.close()


SLOW_DISK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int fdatasync(int file) {
    if (access(getenv("BUSY"), F_OK) == 0) usleep(1500000);
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(file);
}
int fsync(int file) { return fdatasync(file); }
"""


def test_what_is_confirmed_while_the_disk_is_busy_survives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, a server would confirm writes meanwhile that are only in its memory."""
    shim, source = tmp_path / "slow.so", tmp_path / "slow.c"
    source.write_text(SLOW_DISK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    busy = tmp_path / "busy"
    monkeypatch.setenv("BUSY", str(busy))
    monkeypatch.setenv("LD_PRELOAD", str(shim))
    store = FalkorGraphStore.embedded(tmp_path / "graph")
    store.put("w", [note("w", "first")])
    busy.touch()
    deadline = time.monotonic() + 2
    written = 1
    while time.monotonic() < deadline:
        store.put("w", [note("w", f"note {written}")])
        written += 1
    os.kill(server_pid(tmp_path / "graph"), signal.SIGKILL)
    store.close()
    monkeypatch.delenv("LD_PRELOAD")
    again = FalkorGraphStore.embedded(tmp_path / "graph")
    count = again.counts("w").memories
    again.close()
    assert count == written


def test_a_client_killed_while_the_server_starts_leaves_one_server(tmp_path: Path) -> None:
    for _ in range(5):
        user = subprocess.Popen(
            [sys.executable, "-c", USER, str(tmp_path), "x"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        while not (tmp_path / "alive.lock").exists() and user.poll() is None:
            pass
        user.kill()
        user.communicate()
    server = EmbeddedServer(tmp_path)
    server.open()
    pid = server_pid(tmp_path)
    places = [
        process
        for process in Path("/proc").glob("[0-9]*")
        if (process / "cwd").is_symlink() and _folder(process) == str(tmp_path)
    ]
    assert [int(process.name) for process in places] == [pid]
    server.close()
    assert not alive(pid)


def _folder(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""


def test_a_killed_client_loses_nothing_and_leaves_nothing_running_for_long(tmp_path: Path) -> None:
    user = use(tmp_path, "written before the kill")
    pid = server_pid(tmp_path)
    user.send_signal(signal.SIGKILL)
    user.communicate()
    assert alive(pid)

    store = FalkorGraphStore.embedded(tmp_path)
    assert server_pid(tmp_path) == pid
    assert shape(store, "w") == (1, 1, 0, 0, 0)
    store.close()
    assert not alive(pid)


def test_an_embedded_server_that_was_killed_comes_back_with_its_data(tmp_path: Path) -> None:
    store = FalkorGraphStore.embedded(tmp_path)
    other = use(tmp_path, "two")
    store.put("w", [note("w", "one")])
    os.kill(server_pid(tmp_path), signal.SIGKILL)
    assert shape(store, "w") == (2, 2, 0, 0, 0)
    store.put("w", [note("w", "three")])
    pid = server_pid(tmp_path)
    leave(other)
    assert alive(pid)
    store.close()
    assert not alive(pid)


def test_an_embedded_server_whose_folder_is_gone_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "graph"
    store = FalkorGraphStore.embedded(folder)
    os.kill(server_pid(folder), signal.SIGKILL)
    folder.rename(tmp_path / "elsewhere")
    monkeypatch.setattr(store.db, "_patience_seconds", 0.1)
    with pytest.raises(StoreError, match=r"falkordb\.log says why"):
        store.counts("w")
    (tmp_path / "elsewhere").rename(folder)
    store.close()


WHOLE = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"
HALF = b"*1\r\n$5\r\nMULTI\r\n" + WHOLE


def test_only_the_newest_log_can_end_in_an_unfinished_transaction(tmp_path: Path) -> None:
    logs = [tmp_path / "appendonlydir" / f"appendonly.aof.{n}.incr.aof" for n in (9, 10)]
    logs[0].parent.mkdir()
    for log in logs:
        log.write_bytes(WHOLE + HALF)
    drop_unfinished(tmp_path)
    assert [log.read_bytes() for log in logs] == [WHOLE + HALF, WHOLE]


@pytest.mark.parametrize("odd", [b"*x\r\n", b"*1\r\n$x\r\n", b"#TS:1\r\n", b"*0\r\n"])
def test_a_log_that_is_not_understood_is_left_to_the_server(tmp_path: Path, odd: bytes) -> None:
    log = tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof"
    log.parent.mkdir()
    log.write_bytes(WHOLE + odd)
    drop_unfinished(tmp_path)
    assert log.read_bytes() == WHOLE + odd


def test_a_transaction_truncated_in_the_log_is_never_applied(tmp_path: Path) -> None:
    store = FalkorGraphStore.embedded(tmp_path)
    store.put("w", [note("w", "first")])
    (log,) = (tmp_path / "appendonlydir").glob("*.incr.aof")
    store.db.command("WAITAOF", 1, 0, 2000)
    before = log.stat().st_size
    store.put("w", [note("w", "half")])
    store.close()
    content = log.read_bytes()
    begins = content.index(b"MULTI", before)
    log.write_bytes(content[: content.index(b"EXEC", begins) - 20])
    for text in ("second", "third"):
        store = FalkorGraphStore.embedded(tmp_path)
        store.put("w", [note("w", text)])
        os.kill(server_pid(tmp_path), signal.SIGKILL)
        store.close()
    store = FalkorGraphStore.embedded(tmp_path)
    assert sorted(hit.memory.text for hit in store.search("w", GraphQuery())) == [
        *("first", "second", "third")
    ]
    store.close()
