"""The index of the coverage strategy and its three ideas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.sections import Gap, Section, Sections
from marksweep.strategies.coverage.choose import (
    ECONOMY,
    QUALITY,
    Offer,
    _is_newer_elsewhere,
    _lost_atoms,
    choose,
)
from marksweep.strategies.coverage.index import (
    CALLED_AGAIN,
    OWN_CODE,
    Block,
    BlockIndex,
    CutText,
    MessageBlocks,
)
from marksweep.strategies.coverage.text import atoms_of


def add(index: BlockIndex, text: str, *, observed: bool = True) -> Block:
    """Add a text as a separate step and message."""
    index.step()
    return whole(index, text, observed=observed)


def whole(index: BlockIndex, text: str, *, observed: bool = True) -> Block:
    """Add a text as one block."""
    block = index.add_whole(MessageBlocks("m"), text, 10, observed=observed)
    block.cut = CutText(0, [block])
    return block


def test_a_block_is_worth_what_no_other_holds() -> None:
    index = BlockIndex()
    old = add(index, "read file_one.py")
    only = index.worth(old)
    new = add(index, "read file_one.py")
    assert index.worth(old) < only / 3
    index.drop(new)
    assert index.worth(old) > only / 3


def test_an_echo_covers_a_fact_only_in_part() -> None:
    def worth_beside(observed: bool) -> float:
        index = BlockIndex()
        seen = add(index, "read file_one.py and file_two.py")
        add(index, "read file_one.py and file_two.py", observed=observed)
        return index.worth(seen)

    assert worth_beside(observed=False) > 3 * worth_beside(observed=True)


def test_what_was_acted_on_is_worth_more_and_more() -> None:
    index = BlockIndex()
    block = add(index, "read file_one.py")
    worths = [index.worth(block)]
    for _ in range(3):
        index.act(atoms_of("file_one.py"))
        worths.append(index.worth(block))
    assert worths == sorted(worths)
    assert worths[1] > 3 * worths[0]


def test_worth_fades_with_age() -> None:
    index = BlockIndex()
    block = add(index, "read file_one.py")
    fresh = index.worth(block)
    for _ in range(20):
        index.step()
    assert 0 < index.worth(block) < fresh / 3


def test_what_stands_in_another_observation_is_worth_nothing() -> None:
    index = BlockIndex()
    add(index, "file_one.py read")
    again = add(index, "file_one.py read")
    empty = add(index, "")
    assert index.worth(again) == pytest.approx(index.worth(empty), rel=0.6)


def test_a_block_is_worth_less_when_another_holder_comes() -> None:
    index = BlockIndex()
    old = add(index, "read file_one.py")
    before = index.worth(old)
    add(index, "read file_one.py")
    assert index.worth(old) < before / 3


def test_a_dropped_block_is_missed_when_it_is_spoken_of_again() -> None:
    index = BlockIndex()
    block = add(index, "read file_one.py")
    index.drop(block)
    index.remember(block)
    add(index, "no matter", observed=False)
    assert index.recallable() == []
    add(index, "look at file_one.py", observed=False)
    assert index.recallable() == [block]
    assert index.worth_if_restored(block) > 0
    (copy,) = index.copy(MessageBlocks("note"), [block])
    copy.cut = CutText(0, [copy], is_note=True)
    assert copy.text == block.text
    assert index.recallable() == []
    index.drop(copy)
    index.release(copy)
    assert index.recallable() == [block]


def test_a_trial_leaves_no_trace() -> None:
    index = BlockIndex()
    blocks = [add(index, "read file_one.py"), add(index, "read file_one.py again")]
    for block in blocks:
        index.drop(block)
    alone = index.worth_if_restored(blocks[0])
    with index.hypothetically() as take:
        take(blocks[1])
        assert index.worth_if_restored(blocks[0]) < alone / 3
    assert index.worth_if_restored(blocks[0]) == alone


TEXTS = [f"file_{n % 5}.py line {n}\nuse name_{n % 7}" for n in range(20)]


def built() -> tuple[BlockIndex, list[Block]]:
    """An index of texts that share names, some of them the agent's own."""
    index, blocks = BlockIndex(), []
    for n, text in enumerate(TEXTS):
        blocks.append(add(index, text, observed=n % 3 > 0))
        index.act(atoms_of(text[-6:]))
    return index, blocks


def drop(index: BlockIndex, block: Block) -> None:
    """Drop a block so that it can come back."""
    index.drop(block)
    index.remember(block)


def worths(index: BlockIndex, blocks: list[Block]) -> list[float]:
    """The worth of each block, of a dropped one if it came back."""
    return [index.worth(b) if b.is_kept else index.worth_if_restored(b) for b in blocks]


@given(st.lists(st.integers(0, len(TEXTS) - 1)))
def test_an_index_that_changed_step_by_step_equals_a_rebuilt_one(changes: list[int]) -> None:
    index, blocks = built()
    for at in changes:
        if blocks[at].is_kept:
            drop(index, blocks[at])
        else:
            with index.hypothetically() as take:
                take(blocks[at])
            index.recover(blocks[at])
    rebuilt, again = built()
    for block in index.remembered.values():
        drop(rebuilt, again[blocks.index(block)])
    assert [block.is_kept for block in again] == [block.is_kept for block in blocks]
    assert worths(index, blocks) == worths(rebuilt, again)
    assert [b.text for b in index.recallable()] == [b.text for b in rebuilt.recallable()]


def test_what_is_lost_is_counted_with_what_was_used() -> None:
    index = BlockIndex()
    one = add(index, "file_one.py file_two.py")
    add(index, "file_two.py")
    index.act(atoms_of("file_one.py"))
    index.drop(one)
    lost, used = _lost_atoms([one])
    assert 0 < used < lost
    assert _is_newer_elsewhere(one)


def offer(worth: float, at: int) -> Offer:
    return Offer(worth, at, at, 10)


def test_quality_sweeps_anywhere() -> None:
    offers = [offer(1.0, at) for at in range(10)]
    assert choose(offers, [10] * 10, (0, 10), must=15, reread=QUALITY.reread) == 0


def test_economy_stays_near_the_end_if_nothing_better_is_at_the_front() -> None:
    offers = [offer(1.0, at) for at in range(100)]
    assert choose(offers, [10] * 100, (0, 100), must=20, reread=ECONOMY.reread) >= 50


def test_economy_goes_to_the_front_for_what_is_worth_nothing() -> None:
    offers = [offer(0.0 if at < 60 else 50.0, at) for at in range(100)]
    assert choose(offers, [10] * 100, (0, 100), must=20, reread=ECONOMY.reread) == 0


def test_economy_goes_as_far_to_the_front_as_it_must_to_free_enough() -> None:
    offers = [offer(1.0, at) for at in range(100)]
    assert choose(offers, [10] * 100, (0, 100), must=900, reread=ECONOMY.reread) == 0


def test_nothing_to_offer_means_nothing_to_choose() -> None:
    assert choose([], [], (0, 0), must=20, reread=ECONOMY.reread) == 0


def test_an_empty_text_has_no_pieces_that_matter() -> None:
    index = BlockIndex()
    assert index.add(MessageBlocks("m"), Sections(()), observed=True) == []


def test_what_is_said_alone_is_worth_more_than_one_entry_of_a_long_list() -> None:
    def worth_among(others: int) -> float:
        index = BlockIndex()
        for n in range(others):
            index.step()
            whole(index, f"name_{n}")
        texts = "\n".join(f"name_{n}" for n in range(others + 1))
        return index.worth(whole(index, texts))

    assert worth_among(0) > 1.1 * worth_among(200)


def test_what_the_agent_wrote_is_worth_something_by_itself_and_code_more_than_words() -> None:
    index, message = BlockIndex(), MessageBlocks("m")
    seen = index.add_whole(message, "it is so", 100, observed=True)
    words = index.add_whole(message, "it is so", 100, observed=False)
    code = index.add_whole(message, "```\nit is so\n```", 100, observed=False)
    assert index.worth(code) > index.worth(words) > index.worth(seen)
    new = index.worth(code)
    index.step()
    assert index.worth(code) < new


def test_the_agents_words_are_worth_more_where_hardly_anybody_else_says_anything() -> None:
    def worth_of_words(others: int) -> float:
        index = BlockIndex()
        index.hear(10_000, others)
        return index.worth(index.add_whole(MessageBlocks("m"), "so", 100, observed=False))

    assert worth_of_words(0) > 5 * worth_of_words(90_000)
    assert worth_of_words(90_000) < 1.3 * worth_of_words(10**9)


def called(
    index: BlockIndex, *calls: tuple[str, ...], name: str = "", is_long: bool = True
) -> Block:
    """Add a message with calls, each the name of a tool and what it is called with."""
    index.step()
    message = MessageBlocks(name or f"m{index.now}")
    frame = index.add_whole(message, "so", 200, observed=False)
    frame.is_frame = True
    frame.own = 0.0
    index.call(frame, calls, is_long=is_long)
    return frame


def test_the_last_long_call_of_each_tool_is_worth_something_by_itself() -> None:
    index = BlockIndex()
    first = called(index, ("plan", "one"))
    both = called(index, ("plan", "two"), ("edit", "one"))
    assert first.own == 0 < both.own
    called(index, ("edit", "two"))
    assert both.own > 0, "it still has the last call of plan"
    short = called(index, ("plan", "three"), is_long=False)
    assert both.own == short.own == 0
    forgotten = called(index, ("plan", "four"))
    index.drop(forgotten)
    index.release(forgotten)
    assert forgotten.own == 0


def test_a_call_that_was_made_before_is_worth_something_by_itself() -> None:
    index = BlockIndex()
    first = called(index, ("bash", "make"), is_long=False)
    other = called(index, ("bash", "make test"), is_long=False)
    assert first.own == other.own == 0
    again = called(index, ("bash", "make"), is_long=False)
    assert again.own == CALLED_AGAIN
    third = called(index, ("bash", "make"), ("edit", "a file"))
    assert again.own == 0 < OWN_CODE < third.own
    called(index, ("bash", "ls"))
    assert third.own == CALLED_AGAIN, "another call of the tool does not make it less likely"
    twice = called(index, ("bash", "pwd"), ("bash", "pwd"), is_long=False)
    assert twice.own == 0, "it was not made before"


def test_a_message_that_is_cut_anew_does_not_repeat_its_calls() -> None:
    index = BlockIndex()
    called(index, ("bash", "make"), name="m", is_long=False)
    assert called(index, ("bash", "make"), name="m", is_long=False).own == 0


def test_of_forgotten_calls_nothing_is_known() -> None:
    index = BlockIndex()
    first = called(index, ("bash", "make"), ("bash", "make test"), is_long=False)
    index.drop(first)
    index.release(first)
    assert called(index, ("bash", "make"), is_long=False).own == 0


def test_what_the_agent_wrote_does_not_come_back_beside_a_copy_of_it() -> None:
    index = BlockIndex()
    text = "```\nbuild everything\n```"
    script = whole(index, text, observed=False)
    index.drop(script)
    missing = index.worth_if_restored(script)
    with index.hypothetically() as take:
        take(script)
        assert index.worth_if_restored(script) < missing / 10
    longer = "```\nbuild everything\ncheck everything\n```"
    index.drop(whole(index, longer, observed=False))
    assert index.worth_if_restored(script) == missing


def test_every_part_of_a_script_that_was_cut_counts_as_code() -> None:
    index = BlockIndex()
    index.step()
    parts = ["Now I write it.", "```python\nimport os", "print(os.name)", "```", "Then I run it."]
    text = Sections(tuple(Section(part) for part in parts))
    blocks = [
        b for b in index.add(MessageBlocks("m"), text, observed=False) if isinstance(b, Block)
    ]
    assert [block.own == OWN_CODE for block in blocks] == [False, True, True, True, False]


@given(st.lists(st.integers(0, 5), max_size=30), st.sets(st.integers(0, 5)))
def test_gaps_are_counted_as_blocks_go_and_come_back(changed: list[int], lost: set[int]) -> None:
    index, message = BlockIndex(), MessageBlocks("m")
    blocks = index.add(message, Sections((Section("a line"),) * 6), observed=True)
    text = CutText(0, [Gap(1, 1) if at in lost else block for at, block in enumerate(blocks)])
    for at, block in enumerate(text.pieces):
        if isinstance(block, Block):
            block.cut, block.at = text, at
    text.count_gaps()
    for at in changed:
        block = text.pieces[at]
        if isinstance(block, Block):
            (index.drop if block.is_kept else index.undrop)(block)
    counted = text.gaps
    text.count_gaps()
    assert counted == text.gaps
