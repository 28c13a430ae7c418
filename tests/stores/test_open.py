from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from marksweep.errors import BadInput, StoreError, UnknownName
from marksweep.stores.json_file import JsonStore
from marksweep.stores.location import within
from marksweep.stores.memory import MemoryStore
from marksweep.stores.open import open_store
from marksweep.stores.redis import RedisStore
from marksweep.stores.sqlite import SqliteStore
from tests.servers import running_redis


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_redis() as url:
        yield url


@pytest.mark.parametrize(
    ("where", "kind", "made"),
    [
        ("memory:", MemoryStore, None),
        ("store.db", SqliteStore, "store.db"),
        ("deep/er/store.sqlite", SqliteStore, "deep/er/store.sqlite"),
        (Path("store.sqlite3"), SqliteStore, "store.sqlite3"),
        (".marksweep", SqliteStore, ".marksweep/marksweep.db"),
        ("folder/", SqliteStore, "folder/marksweep.db"),
        ("sqlite:///url.db", SqliteStore, "url.db"),
        ("SQLITE:odd.name", SqliteStore, "odd.name"),
        ("./with:colon.db", SqliteStore, "with:colon.db"),
        ("context.json", JsonStore, None),
        ("json:folder", JsonStore, "folder"),
        ("json:odd.name", JsonStore, None),
    ],
)
def test_a_string_says_where_and_what(
    where: str | Path, kind: type, made: str | None, in_folder: Path
) -> None:
    store = open_store(where)
    assert type(store) is kind
    assert made is None or (in_folder / made).exists()
    store.close()


def test_four_slashes_are_an_absolute_path(in_folder: Path) -> None:
    open_store(f"sqlite:///{in_folder}/absolute.db").close()
    assert (in_folder / "absolute.db").exists()


def test_a_folder_that_exists_holds_a_database(in_folder: Path) -> None:
    (in_folder / "with.dot").mkdir()
    open_store("with.dot").close()
    assert (in_folder / "with.dot" / "marksweep.db").exists()


def test_the_home_folder_may_be_written_as_a_tilde(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(in_folder))
    open_store("~/home.db").close()
    assert (in_folder / "home.db").exists()


def test_a_redis_url_opens_redis(url: str) -> None:
    store = open_store(url)
    assert type(store) is RedisStore
    store.close()


@pytest.mark.parametrize("where", ["mysql://host/db", "store.txt", "foo:bar", "http://x"])
def test_an_unknown_kind_is_refused_with_the_known_ones(where: str) -> None:
    with pytest.raises(UnknownName, match=r"known are .*sqlite"):
        open_store(where)


@pytest.mark.parametrize(
    "where", ["", "a\0b.db", "memory:name", "sqlite:", "sqlite://host/x.db", "json:"]
)
def test_what_is_not_a_location_is_refused(where: str) -> None:
    with pytest.raises(BadInput):
        open_store(where)


def test_a_bad_redis_url_is_refused() -> None:
    with pytest.raises(BadInput, match="Expected redis://"):
        open_store("redis://localhost:6379/not-a-number")


def test_a_missing_client_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("marksweep.stores.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(StoreError, match=r"pip install 'marksweep\[redis\]'"):
        open_store("redis://localhost")


@pytest.mark.parametrize(
    ("where", "taken"),
    [
        ("store.db", "/p/store.db"),
        ("/abs/store.db", "/abs/store.db"),
        ("sqlite:///store.db", "sqlite:////p/store.db"),
        ("sqlite:////abs/store.db", "sqlite:////abs/store.db"),
        ("json:folder", "json:/p/folder"),
        ("~/store.db", "/home/ada/store.db"),
        ("json:~/folder", "json:/home/ada/folder"),
        ("falkordb:folder", "falkordb:/p/folder"),
        ("falkordb://host:6379", "falkordb://host:6379"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("memory:", "memory:"),
        ("", ""),
    ],
)
def test_a_path_in_a_location_is_taken_from_a_folder(
    where: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert within(Path("/p"), where) == taken
    assert within(Path("/q"), taken) == taken


@pytest.mark.parametrize("where", ["{}.db", "{}", "{}.json", "json:{}"])
def test_a_path_that_cannot_be_examined_is_a_store_error(where: str) -> None:
    with pytest.raises(StoreError, match="choose a shorter one"):
        open_store(where.format("a" * 300))
