"""Secrets and code from elsewhere are left out and counted; a setting includes them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from marksweep.errors import UnknownName
from marksweep.indexing.left_out import Kind, kind_of_content, kind_of_file, kind_of_folder
from marksweep.settings.groups import LeftOut
from tests.indexing.trees import OpenStore, index, live_paths, sqlite_at, stale_paths, write

KEY = (
    "-----BEGIN {}PRIVATE KEY{}-----\n{}"
    + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n" * 4
)


@pytest.fixture
def store(tmp_path: Path) -> OpenStore:
    return sqlite_at(tmp_path / "graph.db")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


TREE = {
    "pyproject.toml": "[project]\n",
    "src/app.py": "def run(): pass\n",
    ".env": "TOKEN=hunter2\n",
    "deploy/id_ed25519": KEY.format("OPENSSH ", "", ""),
    "deploy/notes.txt": "use this:\n" + KEY.format("RSA ", "", ""),
    "src/embedded.py": 'KEY = "' + KEY.format("", "", "").replace("\n", "\\n") + '"\n',
    ".aws/credentials": "[default]\n",
    "uv.lock": "version = 1\n",
    "web/app.min.js": "function f(){}\n",
    "web/bundle.js": "function f(){};" * 400,
    "dist/app.py": "def run(): pass\n",
    "vendor/lib.py": "def lib(): pass\n",
    "third_party/lib.py": "def lib(): pass\n",
}
KEPT = ["pyproject.toml", "src/app.py"]


def grow(root: Path) -> None:
    for path, text in TREE.items():
        write(root, path, text)


def test_they_are_left_out_counted_and_reported(root: Path, store: OpenStore) -> None:
    grow(root)
    report = index(store, root)
    assert live_paths(store) == KEPT
    assert {each.path: each.reason for each in report.left_out} == {
        ".aws": "a secret",
        ".env": "a secret",
        "deploy/id_ed25519": "a secret",
        "deploy/notes.txt": "a secret",
        "dist": "build output",
        "src/embedded.py": "a secret",
        "third_party": "vendored code",
        "uv.lock": "a lock file",
        "vendor": "vendored code",
        "web/app.min.js": "minified",
        "web/bundle.js": "minified",
    }
    assert (
        "Left out: a lock file (1), a secret (5), build output (1), minified (2), "
        "vendored code (2). The setting index.include brings a kind in."
    ) in str(report)
    assert b"hunter2" not in (root.parent / "graph.db").read_bytes()
    again = index(store, root)
    assert again.left_out == report.left_out
    assert (again.files, again.unchanged) == (0, 2)


@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind_can_be_included_by_its_name(root: Path, store: OpenStore, kind: Kind) -> None:
    grow(root)
    without = {each.path: each.reason for each in index(store, root).left_out}
    report = index(store, root, include=[kind])
    brought = without.keys() - {each.path for each in report.left_out}
    assert brought
    assert {without[path] for path in brought} == {without[next(iter(brought))]}
    assert len(live_paths(store)) == len(KEPT) + sum(
        path in brought or path.split("/")[0] in brought for path in TREE
    )


def test_what_was_indexed_before_becomes_stale_even_if_it_was_most_of_it(
    root: Path, store: OpenStore
) -> None:
    for n in range(30):
        write(root, f"vendor/{n}.py", f"x = {n}\n")
    write(root, "package.json", "{}")
    write(root, ".env", "TOKEN=hunter2\n")
    index(store, root, include=["vendored", "secrets"])
    report = index(store, root)
    assert report.newly_stale == 31
    assert live_paths(store) == ["package.json"]
    assert ".env" in stale_paths(store)


def test_an_unknown_kind_is_refused_with_those_there_are(root: Path, store: OpenStore) -> None:
    write(root, "a.py")
    with pytest.raises(UnknownName, match="secrets, minified, locks, build, vendored"):
        index(store, root, include=["secret"])


def test_the_setting_knows_the_same_kinds() -> None:
    assert get_args(LeftOut) == tuple(Kind)


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", ".env.production", ".env-prod", ".env_staging", ".envrc"),
        *("prod.env", "server.pem", "tls.key"),
        *("id_rsa", "id_ecdsa_work", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd"),
        *("credentials", "credentials.json", "client_secret_12.json", "service-account-x.json"),
        *("secrets.yaml", "secret.toml", "terraform.tfstate", "terraform.tfstate.backup"),
        *("prod.tfvars", "release.keystore", "kubeconfig", ".git-credentials", "ID_RSA"),
    ],
)
def test_a_secret_is_recognized_by_its_name(name: str) -> None:
    assert kind_of_file(name) is Kind.SECRETS


@pytest.mark.parametrize(
    "name",
    [
        *(".env.example", ".env.sample", ".env.template", ".env-example"),
        *("environment.py", "env.py", "dotenv.js"),
        *("credentials.py", "secrets.py", "secret_santa.json", "keys.ts", "key.go", "id_rsa.pub"),
        *("lock.py", "file.lock.py", "min.js", "admin.js", "package.json", "tokenizer.json"),
    ],
)
def test_a_source_file_with_a_similar_name_is_indexed(name: str) -> None:
    assert kind_of_file(name) is None


@pytest.mark.parametrize(
    "content",
    [
        KEY.format("", "", ""),
        KEY.format("RSA ", "", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n"),
        KEY.format("PGP ", " BLOCK", "Version: GnuPG v2\n\n"),
        '{"private_key": "' + KEY.format("", "", "").replace("\n", "\\n") + '"}',
        'x = ("' + KEY.format("", "", "").replace("\n", '\\n"\n     "') + '")',
    ],
)
def test_a_private_key_is_recognized_by_its_content(content: str) -> None:
    assert kind_of_content("notes.md", content.encode()) is Kind.SECRETS


@pytest.mark.parametrize(
    "content",
    [
        'HEADER = "-----BEGIN PRIVATE KEY-----"\n',
        KEY.format("", "", "").replace("PRIVATE", "PUBLIC"),
        "A file starts with -----BEGIN RSA PRIVATE KEY----- and then has the key.\n",
    ],
)
def test_a_file_that_only_mentions_keys_is_indexed(content: str) -> None:
    assert kind_of_content("keys.py", content.encode()) is None


def test_long_lines_are_minified_in_scripts_only() -> None:
    long = b"f(1);" * 1_000
    assert kind_of_content("app.js", long) is Kind.MINIFIED
    assert kind_of_content("app.css", long) is Kind.MINIFIED
    assert kind_of_content("data.py", long) is None
    assert kind_of_content("app.js", b"f(1);\n" * 1_000) is None
    assert kind_of_content("app.js", b"f(1);" * 100) is None


def test_a_package_called_build_or_vendor_within_the_sources_is_indexed() -> None:
    for name in ("build", "dist", "out", "target", "vendor"):
        assert kind_of_folder(name, ["pyproject.toml"])
        assert kind_of_folder(name, ["__init__.py", "models.py"]) is None
