"""How each client is run headless: its limit, how it starts and how it resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec

CALLS = 30
TASK = "Do the task, call by call."
MORE = "And now the second part."


def output(step: int) -> str:
    """Return a command that prints about a thousand tokens, different for each step."""
    return f"seq -f 'step {step} line %g of some output' 120"


def typed(first: int, last: int) -> str:
    """Return the steps of the task, one per line, for a client whose model has no tools."""
    steps = range(first, last + 1)
    return "".join(
        f"call_{step:03} " + f"and step {step} has some words, " * 150 + "\n" for step in steps
    )


class Driven(msgspec.Struct, frozen=True):
    """How a client is driven."""

    package: str
    limit: str
    start: list[str]
    resume: Callable[[str], list[str]]
    """Arguments that resume the session of an output."""
    prepare: Callable[[Path, str], dict[str, str]]
    """Write its configuration into a home; return the environment."""
    copy: Callable[[str], list[str]] | None = None
    """Arguments that resume a session by id; None: not supported by `marksweep resume`."""
    plug: Callable[[Path, Path], list[str]] | None = None
    """Install the plugin of a folder into a home; return extra arguments. None: no plugin."""
    is_required: bool = False
    """Whether it is an error if it is not installed."""
    has_recall: bool = True
    """Whether its model gets the tool `recall`."""
    has_tools: bool = True
    """Whether its model calls tools; if not, the task is typed, turn by turn."""


def _claude_home(home: Path, url: str) -> dict[str, str]:
    del home
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


def _codex_home(home: Path, url: str) -> dict[str, str]:
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(
        'model = "scripted"\nmodel_provider = "x"\n[model_providers.x]\nname = "x"\n'
        f'base_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
    )
    return {"OPENAI_API_KEY": "x"}


def _pi_home(home: Path, url: str) -> dict[str, str]:
    model = {"id": "y", "name": "y", "contextWindow": 200_000, "maxTokens": 4_096}
    model |= {"input": ["text"], "reasoning": False}
    model["cost"] = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "x"}
    models = {"providers": {"x": {**provider, "models": [model]}}}
    _write(home / ".pi" / "agent" / "models.json", models)
    return {"PI_OFFLINE": "1"}


def _opencode_home(home: Path, url: str) -> dict[str, str]:
    model = {"name": "y", "tool_call": True, "limit": {"context": 200_000, "output": 4_096}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "x",
        "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
        "models": {"y": model},
    }
    config = {"model": "x/y", "provider": {"x": provider}, "autoupdate": False}
    _write(home / ".config" / "opencode" / "opencode.json", config)
    return {
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "PWD": str(home / "work"),
        **{
            f"XDG_{name}_HOME": str(home / folder)
            for name, folder in [
                ("CONFIG", ".config"),
                ("DATA", ".data"),
                ("STATE", ".state"),
                ("CACHE", ".cache"),
            ]
        },
    }


def _opencode_plug(home: Path, folder: Path) -> list[str]:
    file = home / ".config" / "opencode" / "opencode.json"
    _write(file, {**json.loads(file.read_text()), "plugin": [f"file://{folder}/index.js"]})
    return []


def _gemini_home(home: Path, url: str) -> dict[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    _write(home / ".gemini" / "settings.json", settings)
    return {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "x",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _aider_home(home: Path, url: str) -> dict[str, str]:
    del home
    return {
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": "x",
        "AIDER_ANALYTICS": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def _write(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def _session_of(said: str) -> str:
    return str(json.loads(said)["session_id"])


CLAUDE = ["--allowedTools", "Bash", "--output-format", "json"]
CODEX = ["--skip-git-repo-check", "--json"]
CODEX_FREE = ["--sandbox", "danger-full-access"]
PI = ["-p", "--provider", "x", "--model", "y"]
OPENCODE = ["run", "--auto", "--format", "json"]
GEMINI = ["--yolo", "--model", "gemini-2.5-pro"]
AIDER = ["--model", "openai/scripted", "--no-git", "--yes-always", "--chat-mode", "ask"]
AIDER += ["--no-show-model-warnings", "--no-check-update", "--no-fancy-input", "--no-pretty"]
AIDER += ["--max-chat-history-tokens", "1000000", "--no-show-release-notes"]

CLIENTS = {
    "claude": Driven(
        "@anthropic-ai/claude-code",
        "28k",
        ["-p", TASK, *CLAUDE],
        lambda said: ["-p", MORE, "--resume", _session_of(said), *CLAUDE],
        _claude_home,
        is_required=True,
        copy=lambda session: ["-p", MORE, "--resume", session, *CLAUDE],
    ),
    "codex": Driven(
        "@openai/codex",
        "26k",
        ["exec", *CODEX, *CODEX_FREE, TASK],
        lambda _: ["exec", *CODEX_FREE, "resume", "--last", *CODEX, MORE],
        _codex_home,
        is_required=True,
        copy=lambda session: ["exec", *CODEX_FREE, "resume", session, *CODEX, MORE],
    ),
    "pi": Driven(
        "@earendil-works/pi-coding-agent",
        "16k",
        [*PI, TASK],
        lambda _: [*PI, "--continue", MORE],
        _pi_home,
        plug=lambda _, folder: ["--extension", str(folder)],
        is_required=True,
        has_recall=False,
    ),
    "opencode": Driven(
        "opencode-ai",
        "26k",
        [*OPENCODE, TASK],
        lambda _: [*OPENCODE, "--continue", MORE],
        _opencode_home,
        plug=_opencode_plug,
    ),
    "gemini": Driven(
        "@google/gemini-cli",
        "26k",
        [*GEMINI, "-p", TASK],
        lambda _: [*GEMINI, "--resume", "latest", "-p", MORE],
        _gemini_home,
    ),
    "aider": Driven(
        "aider",
        "16k",
        AIDER,
        lambda _: [*AIDER, "--restore-chat-history"],
        _aider_home,
        has_recall=False,
        has_tools=False,
    ),
}
