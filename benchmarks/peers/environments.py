"""Virtual environments of the peers, one each, so that their dependencies do not conflict."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(".venv-peers")
MINUTES = 10
"""How long an installation may take."""

PACKAGES: dict[str, tuple[str, ...]] = {
    "langchain": ("langchain", "langchain-core"),
    "agent_framework": ("agent-framework-core",),
    "pydantic_harness": ("pydantic-ai-harness",),
    "openai_agents": ("openai-agents",),
    "google_adk": ("google-adk",),
    "contextgc": ("contextgc",),
}
"""What is installed for each driver, in the newest versions."""


class CannotInstall(Exception):
    """A peer cannot be installed; the message is the end of the installer's output."""


def interpreter(driver: str) -> Path:
    """Return the interpreter to run a driver with; create its environment if it is missing."""
    if driver not in PACKAGES:
        return Path(sys.executable)
    home = ROOT / driver
    python = home / "bin" / "python"
    done = home / ".installed"
    if done.exists():
        return python
    print(f"installing {', '.join(PACKAGES[driver])} …", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES[driver]]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=MINUTES * 60, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"not installed within {MINUTES} minutes") from None
    if ran.returncode:
        raise CannotInstall(last_line(ran.stderr))
    done.touch()
    return python


def last_line(text: str) -> str:
    """Return the line that usually names the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:120] if lines else "no output"
