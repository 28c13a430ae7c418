"""What is left out by default: secrets, and files that the project's authors did not write.

A folder with an ambiguous name (`build`, `vendor`) counts only beside a file that marks the top of
a project; a package of that name deeper in the sources is indexed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum

from marksweep.errors import UnknownName


class Kind(StrEnum):
    """Why a file or folder is left out; also the word that includes its kind."""

    SECRETS = "secrets"
    MINIFIED = "minified"
    LOCKS = "locks"
    BUILD = "build"
    VENDORED = "vendored"


REASONS = {
    Kind.SECRETS: "a secret",
    Kind.MINIFIED: "minified",
    Kind.LOCKS: "a lock file",
    Kind.BUILD: "build output",
    Kind.VENDORED: "vendored code",
}

_SECRET_NAME = re.compile(
    r"""\.env(rc|[._-](?!example$|sample$|template$|dist$|defaults?$).*)?
    | .+\.env
    | .*\.(pem|key|p12|pfx|p8|jks|keystore|kdbx|ppk|ovpn|asc|gpg|tfstate|tfvars)(\.backup)?
    | id_(rsa|dsa|ecdsa|ed25519)([-_].*)?
    | [._]netrc | \.npmrc | \.pypirc | \.pgpass | \.my\.cnf | \.htpasswd | \.dockercfg
    | \.git-credentials | \.boto | \.s3cfg
    | (aws_?)?credentials(\.(json|ya?ml|toml|ini|xml|properties))?
    | client_secrets?.*\.json | service[-_]?account.*\.json | .*[-_]adminsdk-.*\.json
    | secrets?\.(json|ya?ml|toml|ini|properties|env)
    | \.vault[-_]?(pass|password|token).* | kubeconfig""",
    re.VERBOSE | re.IGNORECASE,
)

_SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker", ".secrets"})

_PRIVATE_KEY = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:[\s\"',+\\]|\\[nr]|[A-Za-z-]+: [^\n]*\n)*[A-Za-z0-9+/]{32}"
)
"""A header followed by a key, also as a string in source code; a header alone is not a key."""

_MINIFIED_NAME = re.compile(r".+[.-]min\.(js|mjs|cjs|css)|.+\.(js|mjs|cjs|css)\.map", re.IGNORECASE)

_MAY_BE_MINIFIED = (".js", ".mjs", ".cjs", ".css")

MINIFIED_BYTES = 2_000
"""Minimum size at which a script or style sheet is checked for minification."""

MINIFIED_LINE = 500
"""Mean bytes per line from which a script or style sheet counts as minified."""

_LOCKS = frozenset(
    {
        "bun.lock",
        "cargo.lock",
        "composer.lock",
        "deno.lock",
        "flake.lock",
        "gemfile.lock",
        "go.sum",
        "gradle.lockfile",
        "mix.lock",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "packages.lock.json",
        "pdm.lock",
        "pipfile.lock",
        "pnpm-lock.yaml",
        "podfile.lock",
        "poetry.lock",
        "pubspec.lock",
        "uv.lock",
        "yarn.lock",
    }
)

_MANIFESTS = frozenset(
    {
        "build.gradle",
        "build.gradle.kts",
        "cargo.toml",
        "cmakelists.txt",
        "composer.json",
        "gemfile",
        "go.mod",
        "package.json",
        "pom.xml",
        "pyproject.toml",
        "setup.py",
    }
)
"""Files that mark the top of a project."""

_FOLDERS = {
    ".eggs": Kind.BUILD,
    ".gradle": Kind.BUILD,
    ".next": Kind.BUILD,
    ".nuxt": Kind.BUILD,
    ".output": Kind.BUILD,
    ".parcel-cache": Kind.BUILD,
    ".svelte-kit": Kind.BUILD,
    ".turbo": Kind.BUILD,
    "htmlcov": Kind.BUILD,
    "_vendor": Kind.VENDORED,
    "bower_components": Kind.VENDORED,
    "site-packages": Kind.VENDORED,
    "third_party": Kind.VENDORED,
}

_FOLDERS_OF_A_PROJECT = {
    "build": Kind.BUILD,
    "coverage": Kind.BUILD,
    "dist": Kind.BUILD,
    "out": Kind.BUILD,
    "target": Kind.BUILD,
    "vendor": Kind.VENDORED,
}


def kinds(names: Collection[str]) -> frozenset[Kind]:
    """Parse the kinds to include."""
    known = set(Kind)
    for name in names:
        if name not in known:
            raise UnknownName(
                f"no kind of file is called {name!r}; the kinds left out by default, which can be "
                f"included, are {', '.join(Kind)}."
            )
    return frozenset(map(Kind, names))


def kind_of_folder(name: str, beside: Collection[str]) -> Kind | None:
    """Return why a folder is left out; `beside` are the names in its parent folder."""
    lower = name.lower()
    if lower in _SECRET_FOLDERS:
        return Kind.SECRETS
    if lower.endswith(".egg-info"):
        return Kind.BUILD
    if lower in _FOLDERS_OF_A_PROJECT and not _MANIFESTS.isdisjoint(map(str.lower, beside)):
        return _FOLDERS_OF_A_PROJECT[lower]
    return _FOLDERS.get(lower)


def kind_of_file(name: str) -> Kind | None:
    """Return why a file is left out because of its name."""
    if _SECRET_NAME.fullmatch(name):
        return Kind.SECRETS
    if name.lower() in _LOCKS:
        return Kind.LOCKS
    return Kind.MINIFIED if _MINIFIED_NAME.fullmatch(name) else None


def kind_of_content(path: str, content: bytes) -> Kind | None:
    """Return why a file is left out because of its content."""
    if b"PRIVATE KEY" in content and _PRIVATE_KEY.search(content):
        return Kind.SECRETS
    if path.lower().endswith(_MAY_BE_MINIFIED) and len(content) >= MINIFIED_BYTES:
        lines = content.count(b"\n") + 1
        return Kind.MINIFIED if len(content) / lines >= MINIFIED_LINE else None
    return None
