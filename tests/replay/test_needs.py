"""Needs, counted by hand on small trajectories."""

from __future__ import annotations

from marksweep.replay.atoms import names
from marksweep.replay.needs import Need, action_of, habits, study
from marksweep.replay.records import Trajectory, leaves, price, text_of
from tests.replay.stories import BASH, CALLS, answers, by_words, calls, says, user


def test_the_needs_of_a_bash_agent() -> None:
    found = study(BASH, names)
    assert [(s.at, s.tail) for s in found.steps] == [(2, 2), (4, 2), (6, 4), (8, 6)]
    assert [s.any for s in found.steps[:2]] == [(), ()]
    two = Need(("lib/tools/lexer_two.py",), (3,))
    assert found.steps[2].any == (two,)
    assert found.steps[2].src == (two,)
    assert found.steps[3].any == (Need(("lib/tools/lexer_one.py",), (3, 4)),)
    assert found.steps[3].src == (Need(("lib/tools/lexer_one.py",), (3,)),)
    assert found.need_steps == 2


def test_what_is_pinned_or_in_the_tail_is_not_needed() -> None:
    assert study(CALLS, names, answers=True).need_steps == 0


def test_what_is_on_the_stoplist_is_not_needed() -> None:
    stop = frozenset({"lib/tools/lexer_two.py"})
    assert study(BASH, names, stop).need_steps == 1


def test_a_need_without_an_observation_has_no_src_half() -> None:
    own = Trajectory(
        id="own",
        pinned=1,
        messages=(
            user("Go."),
            calls({"q": "my_own_name"}),
            answers("ok"),
            calls({"q": "other"}, first=1),
            answers("ok", 1),
            calls({"q": "my_own_name"}, first=2),
        ),
    )
    last = study(own, names).steps[-1]
    assert last.any == (Need(("my_own_name",), (1,)),)
    assert last.src == ()


def test_atoms_with_the_same_sources_are_one_need() -> None:
    story = Trajectory(
        id="one",
        pinned=1,
        messages=(
            user("Go."),
            calls({"q": "x"}),
            answers("alpha_one beta_two\ngamma_three"),
            calls({"q": "y"}, first=1),
            answers("gamma_three", 1),
            calls({"q": "z"}, first=2),
            answers("-", 2),
            calls({"q": "alpha_one beta_two gamma_three"}, first=3),
        ),
    )
    last = study(story, names).steps[-1]
    assert last.any == (Need(("alpha_one", "beta_two"), (2,)), Need(("gamma_three",), (2, 4)))


def test_the_action_of_a_call_is_its_leaves() -> None:
    assert leaves('{"a": ["x", 1, 2.5, true, null], "b": {"c": "y"}}') == ["x", "1", "2.5", "y"]
    assert leaves("not json") == ["not json"]
    message = {**calls({"a": "x_1"}, {"b": 7}), "content": "thinking of foo_bar"}
    assert action_of(message, by_calls=True, answers=True) == "x_1\n7"


def test_the_action_of_a_text_is_its_bash_blocks_or_its_last_fenced_block() -> None:
    both = says("a\n```bash\none\n```\n```python\ntwo\n```\n```bash\nthree\n```")
    assert action_of(both, by_calls=False, answers=False).split() == ["one", "three"]
    other = says("a\n```\none\n```\n```python\ntwo\n```")
    assert action_of(other, by_calls=False, answers=False).split() == ["two"]
    assert action_of(says("nothing"), by_calls=False, answers=False) == ""


def test_a_plain_answer_counts_by_its_words_with_a_digit_where_answers_count() -> None:
    answer = says("Your seat 12A45 costs $77 today.")
    assert action_of(answer, by_calls=True, answers=True) == "12A45\n$77"
    assert action_of(answer, by_calls=True, answers=False) == ""


def test_habits_are_atoms_in_the_actions_of_more_than_three_or_a_share() -> None:
    def story(number: int, text: str) -> Trajectory:
        return Trajectory(id=str(number), pinned=1, messages=(user("Go."), calls({"q": text})))

    three = [story(i, "my_habit" if i < 3 else f"name_{i}") for i in range(10)]
    four = [story(i, "my_habit" if i < 4 else f"name_{i}") for i in range(10)]
    assert habits(three, 0.1, names) == set()
    assert habits(four, 0.1, names) == {"my_habit"}
    assert habits(four, 0.4, names) == set()


def test_the_price_of_a_message() -> None:
    message = {**calls({"q": "x"}, name="run it"), "content": "two words"}
    assert price(message, by_words) == 4 + 2 + 2 + 2
    assert price(calls({"q": "x"}), by_words) == 4 + 0 + 1 + 2


def test_the_text_of_a_message_ends_with_its_calls() -> None:
    message = {**calls({"q": "x", "n": [1, 2]}), "content": "hello"}
    assert text_of(message) == "hello\nrun\nx\n1\n2"
