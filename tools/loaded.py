"""Run all tests with busy processes: a test that waits by the clock, not for an event, fails.

python tools/loaded.py [ROUNDS]
"""

from __future__ import annotations

import os
import subprocess
import sys

BUSY_PROCESSES = 4
"""Processes that compute all the time. More make the tests slower, and find more."""

TEST_SECONDS = 1_800
"""How long one test may take. The usual timeout is for a quiet machine."""

BUSY = "import os\nwhile os.getppid() == {parent}: pass"
"""Ends with this process, even if that is killed."""


def main(rounds: int) -> int:
    """Run every round, also after one that failed; return how many failed."""
    spin = [sys.executable, "-S", "-c", BUSY.format(parent=os.getpid())]
    tests = [sys.executable, "-m", "pytest", "-n", os.environ.get("WORKERS", "4")]
    tests += ["--dist", "worksteal", "-rfE", f"--timeout={TEST_SECONDS}"]
    busy = [subprocess.Popen(spin) for _ in range(BUSY_PROCESSES)]
    failed = 0
    try:
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}, {BUSY_PROCESSES} busy processes", flush=True)
            failed += subprocess.run(tests, check=False).returncode != 0
    finally:
        for process in busy:
            process.kill()
    print(f"{failed} of {rounds} rounds failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
