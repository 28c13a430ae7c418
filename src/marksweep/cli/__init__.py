"""The command line. Commands are loaded when they are called, so that `--help` is quick."""

from __future__ import annotations

import io
import sys
from typing import NoReturn

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def main() -> None:
    """Run the command line; say what is missing if its packages are not installed."""
    try:
        from marksweep.cli.app import app
    except ModuleNotFoundError as error:
        print(
            f"marksweep: the command line needs the package {error.name}. "
            "Install it: pip install 'marksweep[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:
        interrupted()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")  # such as a pipe on Windows
    app(prog_name="marksweep")


def interrupted() -> NoReturn:
    """Report Ctrl-C in one line and exit with its code."""
    print("marksweep: interrupted. Completed work is saved; nothing is lost.", file=sys.stderr)
    sys.exit(INTERRUPTED)
