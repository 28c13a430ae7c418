"""Run the benchmarks and print the table of the README.

python -m benchmarks                     all
python -m benchmarks segments            only these
python -m benchmarks mcp --minutes 10    a longer run of fifty clients, to see memory growth
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from importlib import import_module

from benchmarks.rows import Row, print_rows

MODULES = ("segments", "conversation", "memory", "stores", "tokens", "plugins")


def main() -> int:
    """Collect the rows of every module; fail if a bar is missed."""
    parser = ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MODULES)} and others")
    parser.add_argument("--minutes", type=float, help="how long fifty clients call (mcp)")
    given = parser.parse_args()
    if given.minutes is not None:
        os.environ["MARKSWEEP_BENCH_SECONDS"] = str(given.minutes * 60)
    rows: list[Row] = []
    for name in given.names or MODULES:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        rows.extend(import_module(f"benchmarks.{name}").rows())
    print_rows(rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
