"""A made-up coding session: a few hundred segments as an agent would gather them.

An agent fixes a login bug in a small web shop over two days: it reads files, runs tests, takes
notes, decides, and moves on. Everything is drawn from a seeded generator, so the session is the
same every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

from marksweep.model import Link, Reference, Segment

FILES = (
    "shop/auth/login.py",
    "shop/auth/session.py",
    "shop/auth/tokens.py",
    "shop/cart/basket.py",
    "shop/cart/prices.py",
    "shop/db/models.py",
    "shop/db/migrate.py",
    "shop/web/views.py",
    "shop/web/forms.py",
    "tests/test_login.py",
    "tests/test_basket.py",
)
TASKS = ("upgrade-deps", "slow-basket", "fix-login")
"""Worked on one after the other; the last is the current one."""

FUNCTIONS = ("open_session", "check_password", "refresh", "total", "migrate", "render", "validate")
ERRORS = (
    "AssertionError: expected 302, got 500",
    "KeyError: 'session_id'",
    "TypeError: total() missing 1 required positional argument: 'currency'",
    "sqlalchemy.exc.OperationalError: database is locked",
)


def coding_session(now: datetime, rounds: int = 28) -> list[Segment]:
    """Make the segments of the session, oldest first."""
    return list(_Session(now, rounds).segments())


class _Session:
    def __init__(self, now: datetime, rounds: int) -> None:
        self._random = Random(7)  # noqa: S311
        self._now = now
        self._rounds = rounds
        self._count = 0

    def segments(self) -> Iterator[Segment]:
        yield from self._opening()
        previous: str | None = None
        for n in range(self._rounds):
            task = TASKS[n * len(TASKS) // self._rounds]
            for segment in self._round(n, task, previous):
                if segment.type == "message":
                    previous = segment.segment_id
                yield segment

    def _opening(self) -> Iterator[Segment]:
        yield self._make(
            "note", "Project: a small web shop. Flask, SQLAlchemy, pytest.", 0, tags=("overview",)
        )
        yield self._make(
            "note",
            "Never touch the payment provider's callbacks. Python 3.11 only.",
            0,
            tags=("constraint",),
        )

    def _round(self, n: int, task: str, previous: str | None) -> Iterator[Segment]:
        """One turn: a request, some reading, a test run, sometimes a note or a decision."""
        file = self._random.choice(FILES)
        request = self._make(
            "message",
            f"User: please look at {task.replace('-', ' ')}, see {file}",
            n,
            task_id=task,
            topic_id=task,
            references=(Reference(previous, Link.REPLY),) if previous else (),
        )
        yield request
        for _ in range(self._random.randint(2, 4)):
            yield self._code(n, task, self._random.choice(FILES))
        log = self._log(n, task)
        yield log
        for _ in range(self._random.randint(1, 3)):
            yield self._log(n, None)
        yield self._make(
            "message",
            f"Agent: the test run says {self._random.choice(ERRORS)}; checking {file}",
            n,
            task_id=task,
            topic_id=task,
            references=(Reference(request.segment_id, Link.REPLY), Reference(log.segment_id)),
        )
        if n % 2:
            yield self._make(
                "note",
                f"{file}: {self._random.choice(FUNCTIONS)} looks suspicious",
                n,
                file_path=file,
                topic_id=task,
                tags=("todo",),
            )
        if n % 4 == 3:
            yield self._make(
                "decision",
                f"{task}: keep sessions in the database, not in cookies",
                n,
                task_id=task,
                references=(Reference(request.segment_id),),
            )
        if n % 7 == 6:
            yield self._make(
                "summary",
                f"So far on {task}: reproduced, cause narrowed to {file}",
                n,
                topic_id=task,
                references=(Reference(log.segment_id, Link.DERIVED),),
            )

    def _code(self, n: int, task: str, file: str) -> Segment:
        name = self._random.choice(FUNCTIONS)
        first = self._random.randrange(1, 400)
        body = "\n".join(
            f"    value_{i} = {name}_step({i}, retries={self._random.randrange(9)})"
            for i in range(self._random.randint(10, 60))
        )
        return self._make(
            "code",
            f"# {file}\ndef {name}(request):\n{body}\n",
            n,
            file_path=file,
            line_range=(first, first + 60),
            symbol=name,
            task_id=task,
            topic_id=task,
        )

    def _log(self, n: int, task: str | None) -> Segment:
        lines = "\n".join(
            f"tests/test_{self._random.choice(('login', 'basket', 'forms'))}.py::test_{i} "
            f"{self._random.choice(('PASSED', 'PASSED', 'FAILED'))} [{i:3d}%]"
            for i in range(self._random.randint(15, 80))
        )
        return self._make(
            "log", f"$ pytest -q\n{lines}\n{self._random.choice(ERRORS)}", n, task_id=task
        )

    def _make(self, type: str, text: str, n: int, **fields: object) -> Segment:
        self._count += 1
        age = timedelta(hours=44 * (1 - n / self._rounds)) - timedelta(seconds=self._count)
        return Segment(
            segment_id=f"{type}-{self._count:03d}",
            type=type,
            text=text,
            created_at=self._now - age,
            **fields,  # type: ignore[arg-type]
        )
