"""Count the lines of `src/marksweep` by package, now and at another commit.

    python tools/lines.py [COMMIT]

Code is what is left without blank lines, comments, docstrings and imports.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter

SOURCE = "src/marksweep/"


def git(*arguments: str) -> str:
    """Run git; return what it prints."""
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def is_code(node: ast.AST) -> bool:
    """Tell statements from imports and docstrings."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return not is_text and not isinstance(node, ast.Import | ast.ImportFrom)


def counted(commit: str) -> Counter[tuple[str, str]]:
    """Count files, lines and lines of code of each package."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in git("ls-tree", "-r", "--name-only", commit, SOURCE).splitlines():
        if path.endswith(".py"):
            package = path.removeprefix(SOURCE).rpartition("/")[0].partition("/")[0] or "(modules)"
            text = git("show", f"{commit}:{path}")
            other = {
                line
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.stmt) and not is_code(node)
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
            }
            lines = text.splitlines()
            written = (n for n, each in enumerate(lines, 1) if each.strip()[:1] not in ("", "#"))
            counts[package, "files"] += 1
            counts[package, "lines"] += len(lines)
            counts[package, "code"] += sum(n not in other for n in written)
    return counts


def main(commit: str = "HEAD") -> None:
    """Print a table: files, lines, code of each package, then and now."""
    then, now = counted(commit), counted("HEAD")
    kinds = ("files", "lines", "code")
    packages = sorted({name for name, _ in then | now}, key=lambda name: -now[name, "lines"])
    print(f"| package | at {commit}: files, lines, code | now: files, lines, code |\n|---|--:|--:|")
    for name in packages:
        cells = [", ".join(f"{each[name, kind]:,}" for kind in kinds) for each in (then, now)]
        print(f"| {name} | {' | '.join(cells)} |")
    for what, skipped in (("all", ""), ("without replay", "replay")):
        sums = [
            ", ".join(
                f"{sum(each[name, kind] for name in packages if name != skipped):,}"
                for kind in kinds
            )
            for each in (then, now)
        ]
        print(f"| **{what}** | {' | '.join(sums)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
