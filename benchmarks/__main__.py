"""Run the benchmarks and print the table of the README.

python -m benchmarks              all
python -m benchmarks segments     only those named
"""

from __future__ import annotations

import sys
from importlib import import_module

from benchmarks.rows import Row, print_rows

MODULES = ("segments", "conversation", "stores", "tokens", "plugins")


def main() -> int:
    """Collect the rows of every module; fail if a bar is missed."""
    rows: list[Row] = []
    for name in sys.argv[1:] or MODULES:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        rows.extend(import_module(f"benchmarks.{name}").rows())
    print_rows(rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
