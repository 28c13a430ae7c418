"""The documents agree with the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import marksweep
from marksweep.core.score import SCORERS
from marksweep.errors import MarksweepError

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_to_files_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_tree_of_the_design_names_what_is_there() -> None:
    design = (ROOT / "docs/design.md").read_text()
    tree = design.split("src/marksweep/\n")[1].split("```")[0]
    names = re.findall(r"^  ((?:[a-z_]+(?:\.py|/) +)+)", tree, re.MULTILINE)
    named = set(re.findall(r"([a-z_]+)(?:\.py|/)", " ".join(names)))
    parts = {
        path.stem
        for path in Path(marksweep.__file__).parent.iterdir()
        if path.suffix in (".py", "") and not path.name.startswith(("_", "py.typed"))
    }
    assert named == parts


def test_the_commands_in_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text()
    for name in re.findall(r"`make ([a-z-]+)`", readme):
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), f"make {name}"


def test_the_scorers_are_documented() -> None:
    text = (ROOT / "docs/strategies.md").read_text()
    assert set(re.findall(r"^\| `(seed_\w+)`", text, re.MULTILINE)) == set(SCORERS)


def test_the_command_line_its_json_and_the_server_are_documented_as_they_are() -> None:
    from tools.docs import generated

    for path, text in generated().items():
        assert path.read_text() == text, f"{path.name}: run `make docs`"


def test_the_picture_of_the_readme_is_what_its_command_draws(tmp_path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    (line,) = re.findall(r"-m marksweep (web .+) --svg docs/heap.svg", makefile)
    drawn = tmp_path / "heap.svg"
    command = [sys.executable, "-m", "marksweep", *line.split(), "--svg", str(drawn)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    assert (ROOT / "docs/heap.svg").read_text() == drawn.read_text(), "run `make docs`"


def test_the_error_tree_is_drawn_as_it_is() -> None:
    import marksweep.errors

    drawn = re.findall(r"[├└]── (\w+)", marksweep.errors.__doc__ or "")
    defined = [
        name
        for name, value in vars(marksweep.errors).items()
        if isinstance(value, type) and issubclass(value, MarksweepError)
    ]
    assert sorted([*drawn, "MarksweepError"]) == sorted(defined)
