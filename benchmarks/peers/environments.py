"""Virtual environments of the peers, one each, so that none decides what another gets."""

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
"""What is installed for each driver. Newest versions: a peer is met as it is today."""


class CannotInstall(Exception):
    """A peer is not to be had here; the message is the end of what the installer said."""


def interpreter(driver: str) -> Path:
    """Give the interpreter to run a driver with; its environment is made if it is not there."""
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
    """Give the line that usually names the fault."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:120] if lines else "no output"
