"""Build marksweep as it would be released, install it as users would, and try each door.

python tools/release_check.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_WHEEL_BYTES = 1_500_000
"""A larger wheel would hold something that does not belong there."""

NOT_IN_A_WHEEL = ("tests/", "benchmarks/", "docs/", "examples/", "tools/")
NEEDED_IN_A_SDIST = ("src/marksweep/collector.py", "tests/conftest.py", "README.md", "Makefile")

LIBRARY = """
from marksweep import Conversation, Segments, tidy
said = [{"role": "user", "content": "Why does the login fail?"}]
for n in range(40):
    said += [{"role": "assistant", "content": "word " * 200}, {"role": "user", "content": "Go on"}]
assert len(str(tidy(said, limit=2_000))) < len(str(said)) / 2
talk = Conversation(limit=2_000)
talk.extend(said)
talk.messages
assert talk.undo()
"""

CLIENT = """#!/bin/sh
test -n "$ANTHROPIC_BASE_URL" && echo "asks $ANTHROPIC_BASE_URL"
"""


class Installed:
    """A new environment with only the wheel."""

    def __init__(self, folder: Path, wheel: Path, extra: str) -> None:
        self.folder = folder / (extra or "bare")
        venv.create(self.folder / "venv", with_pip=True)
        self.bin = self.folder / "venv/bin"
        self.work = self.folder / "work"
        self.work.mkdir()
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        constraints = ROOT / "constraints.txt"
        self.run("python", "-m", "pip", "install", "-q", "-c", str(constraints), wanted)

    def run(self, program: str, *words: str) -> str:
        """Run a program of the environment in an empty home; raise if it fails."""
        paths = [str(self.folder / "stubs"), str(self.bin), os.environ["PATH"]]
        known = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MARKSWEEP"))}
        done = subprocess.run(
            [str(self.bin / program), *words],
            cwd=self.work,
            env={**known, "HOME": str(self.folder), "PATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if done.returncode:
            raise SystemExit(f"{program} {' '.join(words)}:\n{done.stdout}\n{done.stderr}")
        return done.stdout


def library(place: Installed) -> None:
    """Collect and undo without any extra."""
    place.run("python", "-W", "error", "-c", LIBRARY)


def coding_agent(place: Installed) -> None:
    """Wrap a stand-in for an agent, and analyze a transcript."""
    stub = place.folder / "stubs/claude"
    stub.parent.mkdir()
    stub.write_text(CLIENT)
    stub.chmod(0o700)
    assert "asks http://127.0.0.1" in place.run("marksweep", "wrap", "claude")
    place.run("marksweep", "swept", "--mcp")  # the tool recall, until its input ends
    session = next((place.folder / "venv").rglob("demo_session.jsonl"))
    assert "tokens" in place.run("marksweep", "analyze", str(session), "--limit", "6k")


def memory(place: Installed) -> None:
    """Remember over MCP, recall it on the command line, index code and ask for callers."""
    assert "8080" in place.run("python", str(ROOT / "examples/mcp_memory.py"))
    assert "8080" in place.run("marksweep", "recall", "which", "port")
    (place.work / "shop.py").write_text("def sell():\n    pass\n\n\nsell()\n")
    place.run("marksweep", "index", ".")
    assert "shop.py" in place.run("marksweep", "callers", "sell")


def demo(place: Installed) -> None:
    """Run the demo with everything installed."""
    assert "undo" in place.run("marksweep", "demo")
    absent = "import importlib.util; assert not importlib.util.find_spec('scipy')"
    place.run("python", "-c", absent)


DOORS: Mapping[str, Callable[[Installed], None]] = {
    "": library,
    "proxy": coding_agent,
    "mcp": memory,
    "all": demo,
}
"""The extra that must be enough for each check."""


def built(folder: Path) -> tuple[Path, Path]:
    """Build wheel and sdist from a clean copy of what git knows."""
    copy = folder / "source"
    copy.mkdir()
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, names):
        source = ROOT / os.fsdecode(name)
        if source.is_file():
            target = copy / os.fsdecode(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for kind in ("wheel", "sdist"):
        build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder / "dist")]
        subprocess.run(build, cwd=copy, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """Check that the wheel holds only the package, at a sensible size, and the sdist everything."""
    names = zipfile.ZipFile(wheel).namelist()
    foreign = [n for n in names if not re.match(r"marksweep(-[\d.]+\.dist-info)?/", n)]
    assert not foreign, foreign
    assert not any(part in name for name in names for part in NOT_IN_A_WHEEL)
    assert wheel.stat().st_size <= MAX_WHEEL_BYTES, f"{wheel.stat().st_size:,} bytes"
    with tarfile.open(sdist) as packed:
        held = {name.partition("/")[2] for name in packed.getnames()}
    missing = set(NEEDED_IN_A_SDIST) - held
    assert not missing, missing
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size:,} bytes")
    print(f"{sdist.name}: {len(held)} files, {sdist.stat().st_size:,} bytes")


def main() -> None:
    """Build, check the contents, install, and test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, sdist = built(folder)
        check_contents(wheel, sdist)
        for extra, door in DOORS.items():
            place = Installed(folder, wheel, extra)
            door(place)
            print(f"marksweep{f'[{extra}]' if extra else ''}: {door.__doc__}")
            shutil.rmtree(place.folder)


if __name__ == "__main__":
    main()
