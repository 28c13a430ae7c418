"""How `make docs` builds the pages into a site: Sphinx, with Markdown by MyST."""

from __future__ import annotations

import marksweep

project = "marksweep"
release = version = marksweep.__version__
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "marksweep"
html_copy_source = False
html_static_path: list[str] = []
exclude_patterns = ["conf.py"]
