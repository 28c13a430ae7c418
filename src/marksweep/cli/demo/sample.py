"""A made-up agent's transcript: a bug hunt in a small booking service, with tool calls.

The agent reads files, runs tests, queries a database, and much later needs again what it saw: a
booking's number, a line it edits, a port, a migration's name. Everything is written by code, from a
fixed seed, so the transcript is the same every time.
"""

# ruff: noqa: S608 - no query here is ever run

from __future__ import annotations

import json
from random import Random

from marksweep.replay.records import Trajectory, Wire

NAME = "harbor-refunds"
TASK = (
    "Refunds of cancelled berth bookings are sometimes paid twice. Find out why, fix it, add a "
    "test, and tell me which bookings of last week are affected."
)
MODULES = {
    "harbor/refunds.py": ("open_refund", "settle_refund", "refund_total", "void_refund"),
    "harbor/ledger.py": ("post_entry", "reverse_entry", "balance_of", "close_period"),
    "harbor/queue.py": ("push_job", "take_job", "retry_job", "bury_job"),
    "harbor/webhooks.py": ("on_payment", "on_chargeback", "verify_signature", "replay_event"),
    "harbor/berths.py": ("assign_berth", "free_berth", "season_price", "cancel_booking"),
    "harbor/config.py": ("load_config", "queue_url", "retry_policy", "ledger_dsn"),
    "tests/test_refunds.py": ("test_open", "test_settle", "test_void", "test_total"),
}
STEPS = ("validate", "lock", "write", "notify", "audit", "release")


def sample_trajectory() -> Trajectory:
    """The transcript as the replay lab takes it."""
    return Trajectory(NAME, tuple(sample_messages()), 2)


def sample_messages() -> list[Wire]:
    """The transcript as chat-completions messages."""
    return _Hunt().messages()


class _Hunt:
    def __init__(self) -> None:
        self._random = Random(11)  # noqa: S311 - made up, and the same every time
        self._out: list[Wire] = [
            {"role": "system", "content": "You are a careful engineer. Use the tools."},
            {"role": "user", "content": TASK},
        ]
        self._files = {path: self._module(path, names) for path, names in MODULES.items()}
        self._bookings = [f"BKG-{self._random.randrange(10_000, 99_999)}" for _ in range(24)]

    def messages(self) -> list[Wire]:
        """All of it, in order."""
        self._look_around()
        self._reproduce()
        self._follow_the_queue()
        self._mend()
        self._report()
        return self._out

    def _look_around(self) -> None:
        listing = "\n".join(f"{path}  {len(text):>6} bytes" for path, text in self._files.items())
        self._call("list_files", {"folder": "."}, listing)
        for path in ("harbor/refunds.py", "harbor/ledger.py", "harbor/config.py"):
            self._read(path)
        self._call(
            "run_tests", {"target": "tests/test_refunds.py"}, self._test_log(34, failed=None)
        )

    def _reproduce(self) -> None:
        query = "SELECT booking, refund_id, amount FROM refunds WHERE paid_at > now() - '7d'"
        self._call("query", {"sql": query}, self._rows())
        twice = self._bookings[3]
        self._call(
            "query",
            {"sql": f"SELECT * FROM refund_events WHERE booking = '{twice}'"},
            self._events(twice),
        )
        self._read("harbor/webhooks.py")
        self._call("grep", {"pattern": "settle_refund"}, self._grep("settle_refund"))
        self._call(
            "run_tests",
            {"target": "tests/test_refunds.py::test_settle"},
            self._test_log(40, failed="test_settle"),
        )

    def _follow_the_queue(self) -> None:
        self._read("harbor/queue.py")
        self._read("harbor/berths.py")
        self._call("grep", {"pattern": "retry_job"}, self._grep("retry_job"))
        for worker in ("worker-a", "worker-b", "worker-c"):
            self._call("tail_log", {"service": worker, "lines": 60}, self._log(worker, 60))
        self._call(
            "shell", {"command": "redis-cli -p 6391 LLEN harbor:refunds:retry"}, "(integer) 17"
        )
        self._read("tests/test_refunds.py")
        self._call("tail_log", {"service": "worker-b", "lines": 90}, self._log("worker-b", 90))

    def _mend(self) -> None:
        old = self._line("harbor/refunds.py", "settle_refund", 2)
        new = old + "\n    if ledger.has_entry(refund_id):\n        return Settled.ALREADY"
        self._edit("harbor/refunds.py", old, new)
        self._call("run_tests", {"target": "tests"}, self._test_log(58, failed="test_void"))
        self._edit(
            "harbor/queue.py",
            self._line("harbor/queue.py", "retry_job", 4),
            "    job_key = f'{queue}:{job.refund_id}'  # one job per refund",
        )
        self._edit(
            "harbor/ledger.py",
            self._line("harbor/ledger.py", "post_entry", 1),
            "    entry_id = unique_entry_id(account, refund_id)",
        )
        self._call("run_tests", {"target": "tests"}, self._test_log(58, failed=None))
        test = self._line("tests/test_refunds.py", "test_settle", 3)
        self._edit(
            "tests/test_refunds.py",
            test,
            test + "\n    assert settle_refund(first) is Settled.ALREADY",
        )
        self._call(
            "run_tests",
            {"target": "tests/test_refunds.py::test_settle"},
            self._test_log(12, failed=None),
        )

    def _report(self) -> None:
        self._call(
            "shell", {"command": "redis-cli -p 6391 DEL harbor:refunds:retry"}, "(integer) 1"
        )
        for booking in (self._bookings[3], self._bookings[9], self._bookings[16]):
            self._call(
                "query",
                {"sql": f"SELECT sum(amount) FROM refunds WHERE booking = '{booking}'"},
                f"sum\n{self._amount(booking)}",
            )
        listed = f"{self._bookings[3]}, {self._bookings[9]}, {self._bookings[16]}"
        note = f"Paid twice last week: {listed}. Cause: retry_job had no key per refund."
        self._call("write_file", {"path": "docs/incident.md", "text": note}, "written")
        self._out.append({"role": "assistant", "content": f"Fixed and tested. {note}"})

    def _call(self, name: str, arguments: dict[str, object], result: str) -> None:
        call_id = f"call_{len(self._out):03d}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": call_id, "type": "function", "function": function}]
        self._out += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": call_id, "content": result},
        ]

    def _read(self, path: str) -> None:
        numbered = [f"{n:>4}\t{line}" for n, line in enumerate(self._files[path].split("\n"), 1)]
        self._call("read_file", {"path": path}, "\n".join(numbered))

    def _edit(self, path: str, old: str, new: str) -> None:
        self._call("edit_file", {"path": path, "old": old, "new": new}, f"{path}: 1 replacement")
        self._files[path] = self._files[path].replace(old, new)

    def _module(self, path: str, functions: tuple[str, ...]) -> str:
        stem = path.rsplit("/", maxsplit=1)[-1].removesuffix(".py")
        lines = [f'"""{stem.capitalize()} of the harbor."""', "", "from harbor import ledger", ""]
        for name in functions:
            lines += [f"def {name}(refund_id, *, at=None):", f'    """{name.replace("_", " ")}."""']
            for n in range(self._random.randint(8, 14)):
                verb = self._random.choice(STEPS)
                limit = self._random.randrange(20, 900)
                lines.append(f"    {verb}_{n} = {stem}_{verb}(refund_id, {name}_limit={limit})")
            lines += [f"    return {name}_result({STEPS[0]}_0)", "", ""]
        return "\n".join(lines)

    def _line(self, path: str, function: str, place: int) -> str:
        lines = self._files[path].split("\n")
        start = next(n for n, line in enumerate(lines) if line.startswith(f"def {function}("))
        return lines[start + 1 + place]

    def _grep(self, word: str) -> str:
        return "\n".join(
            f"{path}:{n}: {line.strip()}"
            for path, text in self._files.items()
            for n, line in enumerate(text.split("\n"), 1)
            if word in line
        )

    def _rows(self) -> str:
        return "\n".join(
            ["booking | refund_id | amount"]
            + [
                f"{b} | rf_{self._random.randrange(10**6):06d} | {self._amount(b)}"
                for b in self._bookings
            ]
        )

    def _amount(self, booking: str) -> str:
        cents = int(booking[-4:]) * 7 % 40_000 + 900
        return f"{cents / 100:.2f}"

    def _events(self, booking: str) -> str:
        kinds = ("opened", "queued", "settled", "retried", "settled")
        return "\n".join(
            json.dumps(
                {
                    "seq": 4100 + n,
                    "booking": booking,
                    "kind": kind,
                    "worker": f"worker-{'abc'[n % 3]}",
                }
            )
            for n, kind in enumerate(kinds)
        )

    def _log(self, worker: str, count: int) -> str:
        return "\n".join(
            f"07:{n // 60:02d}:{n % 60:02d} {worker} "
            f"{self._random.choice(('take', 'done', 'retry'))} "
            f"job={self._random.randrange(16**8):08x} took={self._random.randrange(4, 900)}ms"
            for n in range(count)
        )

    def _test_log(self, count: int, *, failed: str | None) -> str:
        lines = [
            f"tests/test_{self._random.choice(('refunds', 'berths', 'queue'))}.py"
            f"::case_{n:02d} PASSED"
            for n in range(count)
        ]
        if failed:
            lines += [
                f"tests/test_refunds.py::{failed} FAILED",
                "AssertionError: 2 ledger entries for one refund",
            ]
        return "\n".join([*lines, f"{count} passed, {1 if failed else 0} failed"])
