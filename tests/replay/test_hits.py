"""The hit test: verbatim, whole lines, or the window around a value in a long one."""

from __future__ import annotations

from marksweep.replay.atoms import names
from marksweep.replay.hits import Proof, Reader, proofs, window
from marksweep.replay.needs import study
from marksweep.replay.records import Trajectory
from tests.replay.stories import BASH, answers, calls, user


def recall(*texts: str, half: str = "any", step: int = 2) -> float | None:
    """Return the recall of a step of the bash story, when these texts are in context."""
    shown = Reader().read([user(text) for text in texts])
    return shown.recall(getattr(proofs(study(BASH, names))[step], half))


def test_the_source_line_must_be_there_whole() -> None:
    assert recall("lib/tools/lexer_two.py") == 1.0
    assert recall("x\n  lib/tools/lexer_two.py  \ny") == 1.0
    assert recall("see lib/tools/lexer_two.py there") == 0.0
    assert recall("lib/tools/lexer_one.py") == 0.0


def test_one_line_of_any_source_is_enough() -> None:
    assert recall("lib/tools/lexer_one.py", step=3) == 1.0
    assert recall("cat lib/tools/lexer_one.py", step=3) == 1.0
    assert recall("cat lib/tools/lexer_one.py", step=3, half="src") == 0.0


def test_a_step_without_needs_has_no_recall() -> None:
    assert recall("anything", step=0) is None


def test_the_window_begins_40_before_the_atom_and_stays_inside_the_line() -> None:
    line = "a" * 100 + " my_name " + "b" * 200
    assert window(line, "my_name") == line[61:261]
    assert window("my_name " + "b" * 300, "my_name") == ("my_name " + "b" * 300)[:200]
    end = "b" * 300 + " my_name"
    assert window(end, "my_name") == end[-200:]


def test_of_a_long_line_the_window_must_be_inside_one_line() -> None:
    line = "a" * 100 + " my_name " + "b" * 200
    proof = Proof(frozenset(), (window(line, "my_name"),))
    assert Reader().read([user("x\n" + line[50:] + "\ny")]).has(proof)
    assert not Reader().read([user(line[:150] + "\n" + line[150:])]).has(proof)
    assert not Reader().read([user("my_name")]).has(proof)


def found_inside_another_line(length: int) -> bool:
    """Whether a source line of this many characters may be inside a longer one."""
    line = ("my_name " + "b" * 300)[:length]
    story = Trajectory(
        id="long",
        pinned=1,
        messages=(
            user("Go."),
            calls({"q": "x"}),
            answers(line),
            calls({"q": "y"}, first=1),
            answers("-", 1),
            calls({"q": "my_name"}, first=2),
        ),
    )
    proof = proofs(study(story, names))[-1].any[0][0]
    return Reader().read([user(f"see {line} there")]).has(proof)


def test_a_line_is_long_from_200_characters_on() -> None:
    assert not found_inside_another_line(199)
    assert found_inside_another_line(200)
