"""What each client needs to send its requests through the proxy; its own files are not changed.

A client is given another base URL by its environment, its command line or a temporary copy of its
configuration. If it already had one, the proxy forwards its requests there. A name in the path
distinguishes base URLs: `http://127.0.0.1:8723/@openai/…`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from marksweep.dialects.base import Json
from marksweep.errors import BadInput, UnknownName
from marksweep.paths import home_folder
from marksweep.proxy.endpoints import PROVIDERS

ANTHROPIC, GEMINI = PROVIDERS["anthropic"], PROVIDERS["gemini"]
OPENAI = f"{PROVIDERS['openai']}/v1"

GEMINI_URL = "GOOGLE_GEMINI_BASE_URL"
"""The variable with the base URL of Gemini CLI."""

_GEMINI_URL_SET = re.compile(rf"^\s*(?:export\s+)?({GEMINI_URL})\s*=\s*\S", re.MULTILINE)

CLAUDE_URL = "ANTHROPIC_BASE_URL"
"""The variable with the base URL of Claude Code."""

_AIDER_URL_SET = re.compile(
    r"^\s*(?:export\s+)?((?:AIDER_)?(?:OPENAI|ANTHROPIC)_API_BASE|openai-api-base)\s*[=:]\s*\S",
    re.MULTILINE,
)

RECALL_TOOL = "mcp__marksweep__recall"
"""Name of the recall tool in Claude Code."""

CLAUDE_COMMANDS = frozenset(
    {"agents", "auth", "config", "doctor", "install", "mcp", "plugin", "setup-token", "update"}
)
"""Commands of Claude Code that do not start a session and take none of its options."""

CODEX_PROFILE = ("-p", "--profile")
"""Options of Codex that add a profile: NAME.config.toml in its folder."""

CODEX_KEYS = ("model_provider", "model_providers", "openai_base_url")
"""Keys of its configuration that say where requests go."""

_CODEX_CHOOSES = re.compile(
    rf"--oss$|--local-provider\b|(?:-c=?|--config=)?(?:{'|'.join(CODEX_KEYS)})[.=]"
)
"""Its arguments that do so."""

_COMMENT = r"//[^\n]*|/\*.*?\*/"
_NOT_JSON = re.compile(rf'("(?:\\.|[^"\\])*")|{_COMMENT}|,(?=(?:\s|{_COMMENT})*[}}\]])', re.DOTALL)
"""Comments and trailing commas, which clients allow. Strings, which may hold either, are kept."""


Upstreams = dict[str, str]
"""A client's base URLs, by the names of their upstreams."""


class LinkedFolder(msgspec.Struct, frozen=True):
    """A copy of a client's folder: links to all its entries, except for one file that differs."""

    real: Path
    copy: Path
    file: str

    def make(self, *folders: str) -> None:
        """Make the links; missing `folders` are created first."""
        for name in folders:
            (self.real / name).mkdir(parents=True, exist_ok=True)
        self.copy.mkdir(parents=True)
        for found in self.real.iterdir():
            if found.name != self.file:
                (self.copy / found.name).symlink_to(found)

    def keep_changes(self) -> None:
        """Copy back what the client created in the copy, or wrote over a link."""
        for found in self.copy.iterdir():
            if found.name == self.file or found.is_symlink():
                continue
            if found.is_dir():
                shutil.copytree(found, self.real / found.name, dirs_exist_ok=True)
            else:
                shutil.copy2(found, self.real / found.name)


class Launch(msgspec.Struct, frozen=True):
    """How to start a client: its arguments and environment variables."""

    arguments: list[str]
    variables: dict[str, str] = {}
    folder: LinkedFolder | None = None
    """The copy of its folder that it uses, if any."""


class Place(msgspec.Struct, frozen=True):
    """Where a client runs: the input of its `launch`."""

    url: str
    """Where the proxy listens."""
    folder: Path
    """A folder for temporary configuration."""
    recall: list[str]
    """The command that serves `recall` over MCP."""
    environment: Mapping[str, str]

    def at(self, name: str) -> str:
        """Return the base URL for an upstream."""
        return f"{self.url}/@{name}"


class Client(msgspec.Struct, frozen=True):
    """A client that can be wrapped."""

    binary: str
    upstreams: Callable[[Mapping[str, str]], Upstreams]
    """Where it would send its requests, according to its environment and configuration."""
    launch: Callable[[Place, Upstreams, Sequence[str]], Launch]


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HOME") or home_folder())


def _claude_upstreams(environment: Mapping[str, str]) -> Upstreams:
    """Read the base URL from the user's settings, which Claude Code prefers to the environment.

    One in a project's settings is refused: Claude Code may not trust it, and without it the token
    of another host would be sent to Anthropic.
    """
    user = Path(environment.get("CLAUDE_CONFIG_DIR") or _home(environment) / ".claude")
    own = _claude_url(user / "settings.json")
    project = Path.cwd() / ".claude"
    for file in (project / "settings.local.json", project / "settings.json"):
        if project != user and _claude_url(file):
            raise BadInput(f"{file} sets {CLAUDE_URL}. Set it in {user / 'settings.json'} instead.")
    return {"anthropic": own or environment.get(CLAUDE_URL) or ANTHROPIC}


def _claude_url(file: Path) -> str:
    variables = _configuration(file).get("env")
    url = variables.get(CLAUDE_URL) if isinstance(variables, dict) else None
    return url if isinstance(url, str) else ""


def _claude(place: Place, upstreams: Upstreams, arguments: Sequence[str]) -> Launch:
    del upstreams
    variables = {CLAUDE_URL: place.at("anthropic")}
    given = list(arguments)
    if given and given[0] in CLAUDE_COMMANDS:
        return Launch(given, variables)
    command, *rest = place.recall
    servers = {"mcpServers": {"marksweep": {"command": command, "args": rest}}}
    given += ["--mcp-config", _written(place.folder / "mcp.json", servers)]
    if not any(word.split("=")[0] == "--settings" for word in given):
        ours = {"permissions": {"allow": [RECALL_TOOL]}, "env": variables}
        given += ["--settings", _written(place.folder / "settings.json", ours)]
    return Launch(given, variables)


def _codex_upstreams(environment: Mapping[str, str]) -> Upstreams:
    config = _codex_configuration(environment)
    provider = _codex_provider(config)
    if not provider:
        own = config.get("openai_base_url") or environment.get("OPENAI_BASE_URL")
        return {"openai": own or OPENAI}
    url = config.get("model_providers", {}).get(provider, {}).get("base_url")
    if not isinstance(url, str):
        raise BadInput(f"provider {provider!r} of Codex has no base_url, so it cannot be wrapped.")
    return {"openai": url}


def _codex_configuration(
    environment: Mapping[str, str], name: str = "config.toml"
) -> dict[str, Json]:
    file = Path(environment.get("CODEX_HOME") or _home(environment) / ".codex") / name
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read: {error}.") from error


def _codex_provider(config: Mapping[str, Json]) -> str:
    """Return the custom provider that Codex is set to; empty: none."""
    provider = config.get("model_provider", "")
    return "" if provider == "openai" else provider


def _refuse_other_provider(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Refuse arguments that choose where Codex sends its requests.

    Those for the proxy win over a profile, so its requests would go to OpenAI; others win over
    those for the proxy, so it would get none.
    """
    chosen = [word for word in arguments if _CODEX_CHOOSES.match(word)]
    for before, word in pairwise(["", *arguments]):
        flag, _, name = word.partition("=")
        if before in CODEX_PROFILE or flag in CODEX_PROFILE:
            profile = _codex_configuration(environment, f"{name or word}.config.toml")
            chosen += [f"{key} of profile {name or word}" for key in CODEX_KEYS if key in profile]
    if chosen:
        raise BadInput(
            f"{chosen[0]} chooses where Codex sends its requests. To wrap it, set that in "
            "config.toml instead."
        )


def _codex(place: Place, upstreams: Upstreams, arguments: Sequence[str]) -> Launch:
    del upstreams
    _refuse_other_provider(arguments, place.environment)
    provider = _codex_provider(_codex_configuration(place.environment))
    url = json.dumps(place.at("openai"))
    if provider:
        options = [f"model_providers.{provider}.base_url={url}"]
    elif place.environment.get("OPENAI_API_KEY"):
        options = [
            'model_provider="marksweep"',
            f'model_providers.marksweep={{name="OpenAI", base_url={url}, '
            'env_key="OPENAI_API_KEY", wire_api="responses"}',
        ]
    else:
        raise BadInput(
            "Codex has no custom provider, and OPENAI_API_KEY is not set: it would use a "
            "subscription, which cannot be wrapped. Set OPENAI_API_KEY."
        )
    command, *rest = place.recall
    options.append(f"mcp_servers.marksweep.command={json.dumps(command)}")
    options.append(f"mcp_servers.marksweep.args={json.dumps(rest)}")
    return Launch([*(word for option in options for word in ("-c", option)), *arguments])


def _pi_folder(environment: Mapping[str, str]) -> Path:
    named = environment.get("PI_CODING_AGENT_DIR")
    return Path(named) if named else _home(environment) / ".pi" / "agent"


def _pi_models(environment: Mapping[str, str]) -> dict[str, Json]:
    file = _pi_folder(environment) / "models.json"
    models = _configuration(file) or {"providers": {}}
    if not isinstance(models.get("providers"), dict):
        raise BadInput(f"{file} has no providers; expected {{'providers': …}}.")
    return models


def _pi_upstreams(environment: Mapping[str, str]) -> Upstreams:
    own = {"anthropic": ANTHROPIC, "openai": OPENAI, "google": f"{GEMINI}/v1beta"}
    found = {
        name: provider["baseUrl"]
        for name, provider in _pi_models(environment)["providers"].items()
        if isinstance(provider, dict) and isinstance(provider.get("baseUrl"), str)
    }
    return {**own, **found}


def _pi(place: Place, upstreams: Upstreams, arguments: Sequence[str]) -> Launch:
    """Give pi a copy of its folder in which every provider points at the proxy."""
    folder = LinkedFolder(_pi_folder(place.environment), place.folder / "pi", "models.json")
    folder.make("sessions")
    models = _pi_models(place.environment)
    for name in upstreams:
        models["providers"].setdefault(name, {})["baseUrl"] = place.at(name)
    _written(folder.copy / folder.file, models)
    return Launch(list(arguments), {"PI_CODING_AGENT_DIR": str(folder.copy)}, folder)


def _opencode(place: Place, upstreams: Upstreams, arguments: Sequence[str]) -> Launch:
    config = _opencode_content(place.environment)
    for name in upstreams:
        provider = config.setdefault("provider", {}).setdefault(name, {})
        provider.setdefault("options", {})["baseURL"] = place.at(name)
    server = {"type": "local", "command": place.recall, "enabled": True}
    config.setdefault("mcp", {})["marksweep"] = server
    return Launch(list(arguments), {"OPENCODE_CONFIG_CONTENT": json.dumps(config)})


def _opencode_content(environment: Mapping[str, str]) -> dict[str, Json]:
    """Return the configuration that opencode has in its environment."""
    try:
        config = json.loads(environment.get("OPENCODE_CONFIG_CONTENT") or "{}")
    except ValueError as error:
        raise BadInput(f"OPENCODE_CONFIG_CONTENT is not JSON: {error}.") from error
    if not isinstance(config, dict):
        raise BadInput(f"OPENCODE_CONFIG_CONTENT is {config!r}; expected an object.")
    return config


def _opencode_upstreams(environment: Mapping[str, str]) -> Upstreams:
    found = {"anthropic": f"{ANTHROPIC}/v1", "openai": OPENAI}
    configs = [(str(file), _configuration(file)) for file in _opencode_files(environment)]
    for name, config in [*configs, ("OPENCODE_CONFIG_CONTENT", _opencode_content(environment))]:
        providers = config.get("provider", {})
        if not isinstance(providers, dict):
            raise BadInput(f"provider of {name} is {providers!r}; expected an object.")
        for provider, given in providers.items():
            options = given.get("options", {}) if isinstance(given, dict) else {}
            url = options.get("baseURL") if isinstance(options, dict) else None
            found |= {provider: url} if isinstance(url, str) else {}
    return found


def _opencode_files(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield where opencode looks for its configuration; later files win."""
    names = ("opencode.json", "opencode.jsonc")
    home = Path(environment.get("XDG_CONFIG_HOME") or _home(environment) / ".config")
    yield from (home / "opencode" / name for name in names)
    if own := environment.get("OPENCODE_CONFIG"):
        yield Path(own)
    folders = list(_project_folders())[::-1]
    yield from (folder / name for folder in folders for name in names)
    yield from (folder / ".opencode" / name for folder in folders for name in names)


def _project_folders() -> Iterator[Path]:
    """Yield the working directory and its parents, up to the root of its repository."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        yield folder
        if (folder / ".git").exists():
            return


def _gemini_upstreams(environment: Mapping[str, str]) -> Upstreams:
    """Read the base URL from the environment.

    One in a `.env` is refused: it may be that of a folder which Gemini CLI does not trust, and
    without it the key of another host would be sent to Google.
    """
    if url := environment.get(GEMINI_URL):
        return {"gemini": url}
    _refuse_if_set(_GEMINI_URL_SET, (".gemini/.env", ".env"), environment)
    return {"gemini": GEMINI}


def _refuse_if_set(url: re.Pattern[str], names: Sequence[str], given: Mapping[str, str]) -> None:
    """Refuse a base URL in files of these names, in the project's folders or the home folder."""
    for folder in (*_project_folders(), _home(given)):
        for file in (folder / name for name in names):
            if file.is_file() and (found := url.search(file.read_text("utf-8", "replace"))):
                raise BadInput(f"{file} sets {found[1]}. Export it in the shell instead.")


def _aider_upstreams(environment: Mapping[str, str]) -> Upstreams:
    """Read the base URLs from the environment; aider prefers those of its files, so refuse them."""
    _refuse_if_set(_AIDER_URL_SET, (".env", ".aider.conf.yml"), environment)
    return {
        "openai": environment.get("OPENAI_API_BASE") or OPENAI,
        "anthropic": environment.get("ANTHROPIC_API_BASE") or ANTHROPIC,
    }


def _gemini(place: Place, upstreams: Upstreams, arguments: Sequence[str]) -> Launch:
    """Give Gemini CLI a copy of its folder in which the settings include the recall server."""
    del upstreams
    home = Path(place.environment.get("GEMINI_CLI_HOME") or _home(place.environment))
    copy = place.folder / "gemini"
    folder = LinkedFolder(home / ".gemini", copy / ".gemini", "settings.json")
    folder.make("history", "tmp")
    for name in (".agents", ".env"):
        if (home / name).exists():
            (copy / name).symlink_to(home / name)
    file = folder.real / folder.file
    own = _configuration(file)
    servers = own.get("mcpServers", {})
    if not isinstance(servers, dict):
        raise BadInput(f"mcpServers of {file} is {servers!r}; expected an object.")
    command, *rest = place.recall
    servers |= {"marksweep": {"command": command, "args": rest, "trust": True}}
    _written(folder.copy / folder.file, {**own, "mcpServers": servers})
    variables = {GEMINI_URL: place.at("gemini"), "GEMINI_CLI_HOME": str(copy)}
    return Launch(list(arguments), variables, folder)


def _in_variables(
    *names: tuple[str, str],
) -> Callable[[Place, Upstreams, Sequence[str]], Launch]:
    """Set each variable to the base URL of an upstream."""
    return lambda place, upstreams, arguments: Launch(  # noqa: ARG005
        list(arguments), {variable: place.at(name) for variable, name in names}
    )


CLIENTS = {
    "claude": Client("claude", _claude_upstreams, _claude),
    "codex": Client("codex", _codex_upstreams, _codex),
    "opencode": Client("opencode", _opencode_upstreams, _opencode),
    "pi": Client("pi", _pi_upstreams, _pi),
    "gemini": Client("gemini", _gemini_upstreams, _gemini),
    "aider": Client(
        "aider",
        _aider_upstreams,
        _in_variables(("OPENAI_API_BASE", "openai"), ("ANTHROPIC_API_BASE", "anthropic")),
    ),
}


def client_named(name: str) -> Client:
    """Return a client by its name."""
    if name not in CLIENTS:
        raise UnknownName(f"no client named {name!r}; known are {', '.join(CLIENTS)}.")
    return CLIENTS[name]


def _configuration(file: Path) -> dict[str, Json]:
    """Read a client's configuration: JSON with comments; empty if the file is missing."""
    try:
        found = json.loads(_NOT_JSON.sub(r"\1", file.read_text("utf-8-sig")) or "{}")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise BadInput(f"{file} holds {type(found).__name__}; expected an object.")
    return found


def _written(file: Path, value: Json) -> str:
    """Write a file that only its owner can read; return its path."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        json.dump(value, out)
    return str(file)
