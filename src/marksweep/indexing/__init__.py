"""Index a codebase into the graph.

1. walk.py      List the files: ignore files, limits, skipped files and why (left_out.py).
2. delta.py     Compare with what the graph knows: unchanged, to be read, gone.
3. parse.py     Turn a file into chunks, entities and relations (tree.py, chunking.py).
4. indexer.py   Write it, under a lease; a complete run marks missing files stale at its end.
5. watch.py     Run again whenever something changes.
"""

from __future__ import annotations

from importlib.util import find_spec

for _needed in ("pathspec", "tree_sitter"):
    if find_spec(_needed) is None:
        raise ModuleNotFoundError(
            f"indexing needs {_needed}, which is not installed. "
            "Install it with the extra: pip install 'marksweep[index]'.",
            name=_needed,
        )
