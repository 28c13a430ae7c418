"""Count the lines of `src/marksweep` by package, at another commit and now.

    python tools/lines.py [COMMIT]

Code is what is left without blank lines, comments, docstrings and imports.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import PurePath

SOURCE = "src/marksweep/"


def git(*arguments: str) -> str:
    """Run git; return what it prints."""
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def code_lines(text: str) -> int:
    """Count the lines of a module that hold statements."""
    no_code: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_import = isinstance(node, ast.Import | ast.ImportFrom)
        if isinstance(node, ast.stmt) and (is_text or is_import):
            no_code.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(n not in no_code and line[:1] not in ("", "#") for n, line in lines)


def counted(commit: str) -> dict[str, Counter[str]]:
    """Count files, lines and code of each package."""
    found: dict[str, Counter[str]] = {}
    for path in git("ls-tree", "-r", "--name-only", commit, SOURCE).splitlines():
        if path.endswith(".py"):
            text = git("show", f"{commit}:{path}")
            parts = PurePath(path.removeprefix(SOURCE)).parts
            package = found.setdefault(parts[0] if len(parts) > 1 else "(modules)", Counter())
            package.update(files=1, lines=len(text.splitlines()), code=code_lines(text))
    return found


def main(commit: str = "HEAD") -> None:
    """Print a table, the largest packages first."""
    sides = counted(commit), counted("HEAD")
    for side in sides:
        rest = (count for name, count in side.items() if name != "replay")
        side["**without replay**"] = sum(rest, Counter())
    print(f"| package | files, lines, code at {commit} | now |\n|---|--:|--:|")
    names = dict.fromkeys(name for side in reversed(sides) for name in side)
    for name in sorted(names, key=lambda name: -sides[1].get(name, Counter())["lines"]):
        cells = (side.get(name, Counter()) for side in sides)
        rows = (f"{each['files']:,}, {each['lines']:,}, {each['code']:,}" for each in cells)
        print(f"| {name} | {' | '.join(rows)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
