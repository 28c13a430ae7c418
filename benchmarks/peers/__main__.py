"""Run marksweep and its peers on the same transcripts and print the table.

python -m benchmarks.peers              all sizes
python -m benchmarks.peers 250 2000     only these

Each call runs in its own process and environment; times are processor seconds, the best of
several runs. The budget is half of the transcript, by the same approximate counter for all. Peers
without a budget clear all results but the last. A peer that cannot be installed or run is reported
as such, and fails no bar.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.peers.environments import CannotInstall, interpreter, last_line
from benchmarks.peers.transcripts import approximate_tokens, transcript
from benchmarks.rows import Row, print_rows

SIZES = (250, 500, 1_000, 2_000, 4_000)
LONGEST_SECONDS = 60.0
"""Longest time for a call, in seconds of wall time. A slower call is not run on larger sizes."""

DRIVERS = Path(__file__).parent / "drivers"


class Call(msgspec.Struct, frozen=True):
    """One thing to time."""

    name: str
    driver: str
    argument: str


class Timed(msgspec.Struct, frozen=True):
    """What a driver reported; `seconds` is None if it did not run."""

    seconds: float | None
    said: str
    version: str = ""


TRUNCATE = Call("marksweep truncate", "marksweep", "truncate")
TIERS = Call("marksweep superseded → mask → truncate", "marksweep", "collect")
MASK = Call("marksweep mask, all results", "marksweep", "mask")
WHOLE = Call("marksweep superseded → mask → truncate, from a bare list", "marksweep", "whole")
MASK_WHOLE = Call("marksweep mask, all results, from a bare list", "marksweep", "mask_whole")
TRIM = Call("LangChain trim_messages", "langchain", "trim")
CLEAR = Call("LangChain ClearToolUsesEdit", "langchain", "clear")
MS_TRUNCATE = Call("Agent Framework TruncationStrategy", "agent_framework", "truncate")
MS_COMPACT = Call("Agent Framework ToolResultCompactionStrategy", "agent_framework", "compact")
CONTEXTGC = Call("contextgc compile_messages", "contextgc", "compile")
HARNESS = Call("pydantic-ai-harness ClearToolResults", "pydantic_harness", "clear")
TRIMMER = Call("OpenAI Agents ToolOutputTrimmer", "openai_agents", "trim")

CALLS = (
    TRUNCATE, TIERS, MASK, WHOLE, MASK_WHOLE,
    TRIM, CLEAR, MS_TRUNCATE, MS_COMPACT, CONTEXTGC, HARNESS, TRIMMER,
)  # fmt: skip


class Bar(msgspec.Struct, frozen=True):
    """A comparison: the size, our call, the peer's call, and the allowed ratio of times."""

    size: int
    ours: Call
    theirs: Call
    allowed: float
    match: str
    """What both of them do."""


BARS = (
    Bar(2_000, TRUNCATE, TRIM, 1.0, "the oldest messages go until half is left"),
    Bar(2_000, TIERS, TRIM, 1.0, "half is left; ours removes what is worth least first"),
    Bar(2_000, TIERS, CLEAR, 1.0, "old results are cleared until half is left"),
    Bar(2_000, TRUNCATE, MS_TRUNCATE, 1.0, "the oldest messages go until half is left"),
    Bar(2_000, MASK, MS_COMPACT, 1.0, "every old result becomes a short text"),
    Bar(2_000, TIERS, CONTEXTGC, 1.0, "what is no longer needed goes; the peer has no budget"),
    Bar(4_000, MASK, HARNESS, 2.0, "every result but the last three becomes a short text"),
    Bar(4_000, MASK, TRIMMER, 2.0, "every old, long result becomes a short text"),
)

Times = dict[tuple[str, int], Timed]


def main() -> int:
    """Time everything, print times and bars; fail if a bar is missed."""
    sizes = [int(argument) for argument in sys.argv[1:]] or list(SIZES)
    times: Times = {}
    for size in sizes:
        messages = transcript(size)
        given = json.dumps({"messages": messages, "budget": approximate_tokens(messages) // 2})
        for call in CALLS:
            if _gave_up(call, times):
                continue
            times[call.name, size] = found = timed(call, given)
            print(f"{size} calls: {call.name}: {found.said}", file=sys.stderr, flush=True)
    print_times(times, sizes)
    print()
    bars = [bar for bar in BARS if bar.size in sizes]
    rows = [_row(times, bar) for bar in bars]
    print_rows(rows)
    print_matches(bars)
    return 0 if all(row.ok for row in rows) else 1


def timed(call: Call, given: str) -> Timed:
    """Run a driver on a transcript."""
    try:
        python = interpreter(call.driver)
        ran = subprocess.run(
            [str(python), str(DRIVERS / f"run_{call.driver}.py"), call.argument],
            input=given,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except CannotInstall as cannot:
        return Timed(None, f"not installed: {cannot}")
    except subprocess.TimeoutExpired:
        return Timed(LONGEST_SECONDS, f"> {LONGEST_SECONDS:.0f} s")
    if ran.returncode:
        return Timed(None, f"did not run: {last_line(ran.stderr)}")
    said = json.loads(ran.stdout)
    return Timed(said["seconds"], f"{said['seconds'] * 1000:.1f} ms", said["version"])


def _gave_up(call: Call, times: Times) -> bool:
    return any(
        name == call.name and (timed.seconds is None or timed.seconds >= LONGEST_SECONDS)
        for (name, _), timed in times.items()
    )


def _row(times: Times, bar: Bar) -> Row:
    what = f"{bar.size:,} calls: {bar.ours.name} against {bar.theirs.name}"
    allowed = "faster" if bar.allowed == 1 else f"≤ {bar.allowed:g}×"
    mine, other = times.get((bar.ours.name, bar.size)), times.get((bar.theirs.name, bar.size))
    if mine is None or mine.seconds is None:
        return Row(what, allowed, mine.said if mine else "not measured", ok=False)
    if other is None:
        return Row(what, allowed, f"{mine.said}; peer given up at a smaller size", ok=True)
    if other.seconds is None:
        return Row(what, allowed, f"{mine.said}; peer {other.said}", ok=True)
    ratio = mine.seconds / other.seconds
    measured = f"{mine.said} against {other.said}: {ratio:.2g}×"
    ok = ratio < bar.allowed or (bar.allowed > 1 and ratio <= bar.allowed)
    return Row(what, allowed, measured, ok)


def print_matches(bars: Sequence[Bar]) -> None:
    """Print why these calls are compared, and what is not timed."""
    print("\nWhat is compared, and why:\n")
    for bar in bars:
        print(f"- {bar.ours.name} and {bar.theirs.name}: {bar.match}.")
    print(
        "\nOurs ends with a valid history, a plan with a reason for each step, a stash and a "
        "journal; the peers end with a list. Not timed: building a peer's message objects, and "
        "our reading of messages, which counts their tokens once and, for mask alone, masks bulky "
        "results. The rows from a bare list time that too."
    )


def print_times(times: Times, sizes: list[int]) -> None:
    """Print the time of each call at each size as a Markdown table."""
    print(f"| processor time, tool calls: | {' | '.join(f'{size:,}' for size in sizes)} |")
    print("|---|" + "---|" * len(sizes))
    for call in CALLS:
        found = [times.get((call.name, size)) for size in sizes]
        version = next((each.version for each in found if each and each.version), "")
        cells = " | ".join(each.said if each else "" for each in found)
        print(f"| {call.name} {version} | {cells} |")


if __name__ == "__main__":
    sys.exit(main())
