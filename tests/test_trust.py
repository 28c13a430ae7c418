"""A project's own files can send data elsewhere only if the user has agreed."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from marksweep.errors import BadInput, NotTrusted
from marksweep.settings import load_settings
from marksweep.settings.layers import project_claims
from marksweep.settings.trust import agree, revoke, trust_file

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a user with a separate configuration folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".marksweep").mkdir(parents=True)
    return folder


def say(project: Path, key: str, location: str) -> None:
    (project / ".marksweep/settings.toml").write_text(f"{key} = {location!r}\n")


ELSEWHERE = [
    "redis://:hunter2@evil.example:6379/0",
    "rediss://evil.example",
    "redis://127.0.0.1@evil.example",
    "redis://localhost.evil.example",
    "redis://?host=evil.example",
    "redis://localhost?host=evil.example",
    "redis://localhost\\@evil.example/",
    "falkordb://evil.example:6379",
    "falkordb:/tmp/elsewhere",
    "falkordb:../elsewhere",
    "unix:///tmp/elsewhere.sock",
    "sqlite:////tmp/elsewhere.db",
    "sqlite:///../elsewhere.db",
    "json:../elsewhere",
    "../elsewhere.db",
    "/var/elsewhere.db",
    "~/elsewhere.db",
    ".marksweep/../../elsewhere.db",
]

WITHIN = [
    "store.db",
    ".marksweep/other.db",
    "folder",
    "sub/../store.db",
    "sqlite:///store.db",
    "json:folder",
    "memory:",
    "falkordb:folder",
    "redis://localhost:6379/0",
    "redis://me:hunter2@127.0.0.1/3",
    "falkordb://[::1]:6379",
]


@pytest.mark.parametrize("key", ["store.location", "memory.location"])
@pytest.mark.parametrize("location", ELSEWHERE)
def test_a_location_elsewhere_is_refused_and_the_error_says_what_to_do(
    project: Path, key: str, location: str
) -> None:
    say(project, key, location)
    with pytest.raises(NotTrusted) as refused:
        load_settings(project, environment={})
    said = str(refused.value)
    assert str(project / ".marksweep/settings.toml") in said
    assert key in said
    assert "marksweep config trust" in said
    assert "hunter2" not in said


@pytest.mark.parametrize("key", ["store.location", "memory.location"])
@pytest.mark.parametrize("location", WITHIN)
def test_a_location_within_the_project_or_on_this_machine_is_fine(
    project: Path, key: str, location: str
) -> None:
    say(project, key, location)
    assert load_settings(project, environment={})
    assert project_claims(project) == ()


@pytest.mark.parametrize("name", [".marksweep", ".marksweep/store.db", ".marksweep/graph.db"])
def test_a_link_that_leads_out_of_the_project_is_refused_without_any_settings(
    tmp_path: Path, name: str
) -> None:
    project, elsewhere = tmp_path / "clone", tmp_path / "elsewhere"
    (project / name).parent.mkdir(parents=True)
    elsewhere.mkdir()
    (project / name).symlink_to(elsewhere)
    with pytest.raises(NotTrusted, match="elsewhere"):
        load_settings(project, environment={})


@pytest.mark.parametrize(
    ("location", "link"),
    [
        (".marksweep/store.db", ".marksweep/backups"),
        (".marksweep/context.json", ".marksweep/context.journal.jsonl"),
        ("data/set.json", "data/set@other-0123456789abcdef.stash.json"),
        ("data/set.db", "data/backups"),
        ("json:data", "data/context.journal.jsonl"),
        ("falkordb:data", "data/appendonlydir"),
    ],
)
def test_a_link_beside_a_store_that_leads_out_of_the_project_is_refused(
    project: Path, tmp_path: Path, location: str, link: str
) -> None:
    (project / "data").mkdir()
    (project / "data" / "linked").symlink_to(tmp_path / "not ours")
    (project / ".marksweep" / "profiles").symlink_to(tmp_path / "the user's")
    key = "memory.location" if location.startswith("falkordb") else "store.location"
    say(project, key, location)
    if not location.startswith("falkordb"):
        assert load_settings(project, environment={})
    (project / link).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotTrusted, match="elsewhere"):
        load_settings(project, environment={})
    agree(project_claims(project), NOW)
    assert load_settings(project, environment={})


def test_a_project_reached_by_a_link_is_still_itself(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    assert load_settings(tmp_path / "link", environment={})


def test_what_the_user_agreed_to_is_accepted_and_kept_in_their_own_folder(
    project: Path, home: Path
) -> None:
    say(project, "store.location", ELSEWHERE[0])
    agree(project_claims(project), NOW)
    assert load_settings(project, environment={}).store.location == ELSEWHERE[0]
    kept = home / ".config/marksweep/trust.json"
    assert trust_file() == kept
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert b"hunter2" not in kept.read_bytes()
    assert "trust.json" not in {path.name for path in project.rglob("*")}


def test_an_agreement_holds_for_this_project_this_key_and_this_location_only(
    project: Path, tmp_path: Path
) -> None:
    say(project, "store.location", "redis://cache.example/1")
    agree(project_claims(project), NOW)
    for location in ("redis://cache.example/2", "redis://:x@cache.example/1"):
        say(project, "store.location", location)
        with pytest.raises(NotTrusted):
            load_settings(project, environment={})
    say(project, "memory.location", "redis://cache.example/1")
    with pytest.raises(NotTrusted):
        load_settings(project, environment={})
    say(project, "store.location", "redis://cache.example/1")
    project.rename(tmp_path / "moved")
    with pytest.raises(NotTrusted):
        load_settings(tmp_path / "moved", environment={})


def test_a_link_that_is_turned_elsewhere_later_is_refused_again(
    project: Path, tmp_path: Path
) -> None:
    link = project / ".marksweep/store.db"
    link.symlink_to(tmp_path / "one.db")
    agree(project_claims(project), NOW)
    assert load_settings(project, environment={})
    link.unlink()
    link.symlink_to(tmp_path / "two.db")
    with pytest.raises(NotTrusted, match=r"two\.db"):
        load_settings(project, environment={})


def test_an_agreement_can_be_revoked(project: Path) -> None:
    say(project, "store.location", "redis://cache.example/1")
    agree(project_claims(project), NOW)
    revoke(project)
    with pytest.raises(NotTrusted):
        load_settings(project, environment={})


def test_what_the_user_sets_needs_no_trust(project: Path) -> None:
    say(project, "store.location", "redis://evil.example")
    environment = {"MARKSWEEP_STORE": "redis://cache.example", "MARKSWEEP_MEMORY": "/var/memory"}
    settings = load_settings(project, environment=environment)
    assert settings.store.location == "redis://cache.example"
    explicit = {"store": {"location": "/var/store.db"}}
    assert load_settings(project, explicit=explicit, environment={})


def test_a_program_can_vouch_for_exact_locations(project: Path) -> None:
    say(project, "store.location", "redis://cache.example/1")
    settings = load_settings(project, environment={}, trusted=["redis://cache.example/1"])
    assert settings.store.location == "redis://cache.example/1"
    with pytest.raises(NotTrusted):
        load_settings(project, environment={}, trusted=["redis://cache.example"])


def test_a_damaged_file_of_agreements_is_named_and_trusts_nothing(project: Path) -> None:
    say(project, "store.location", "redis://cache.example/1")
    trust_file().parent.mkdir(parents=True)
    trust_file().write_text('[{"digest": 3}]')
    with pytest.raises(BadInput, match=r"trust\.json"):
        load_settings(project, environment={})


def test_a_project_that_wants_secrets_indexed_needs_the_users_consent(project: Path) -> None:
    settings = project / ".marksweep/settings.toml"
    settings.write_text('index.include = ["vendored"]\n')
    assert load_settings(project, environment={}).index.include == ("vendored",)
    settings.write_text('index.include = ["vendored", "secrets"]\n')
    with pytest.raises(NotTrusted, match=r"index\.include is 'secrets'"):
        load_settings(project, environment={})
    explicit = {"index": {"include": ["secrets"]}}
    assert load_settings(project, explicit=explicit, environment={})
    agree(project_claims(project), NOW)
    assert load_settings(project, environment={})
