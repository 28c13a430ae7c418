"""What every adapter must do, in its framework's own loop with its framework's own fake model.

A framework's tests inherit `AdapterContract` and define how to make an agent: `Agent`. The answers
of its fake model are a list of `Answer`; each request it gets is a `Request`.
"""

from __future__ import annotations

import itertools
import logging
import re
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from marksweep.adapters.core import Adapter
from marksweep.tokens import count

LIMIT = 12_000
"""The limit in tokens: a few dozen results of `read` fill it several times over."""

CALLS = 50

NUMBERS = itertools.count(1_000)
"""For ids of calls, which are unique and have the same length everywhere."""

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "adapters"


def content(path: str) -> str:
    """Return what the tool `read` returns for a file: about 600 tokens, all different."""
    return "\n".join(
        f"{path}: line {n} of what is in it, number {n * 7919 % 1000}" for n in range(40)
    )


@dataclass(frozen=True)
class Answer:
    """What the fake model says next: words, and calls of `read` with these paths."""

    text: str = ""
    reads: tuple[str, ...] = ()


@dataclass
class Request:
    """What the fake model was sent: the framework's objects, and what is in them."""

    objects: list[Any]
    calls: list[str]
    """Ids of the calls, in order."""
    results: list[str]
    """Ids of the calls that are answered, in order."""
    text: str
    """All its text, including calls."""
    own: list[Any]
    """The objects that the framework would have sent by itself."""
    own_text: str

    @property
    def is_paired(self) -> bool:
        return self.calls == self.results and len(set(self.calls)) == len(self.calls)

    @property
    def preserved(self) -> int:
        """The number of objects that are the framework's own."""
        own = {id(each) for each in self.own}
        return sum(id(each) in own for each in self.objects)


@dataclass
class Agent(ABC):
    """An agent of some framework, with the tool `read`, whose fake model answers from a list."""

    answers: Sequence[Any]
    """Each an `Answer`, or a value that the framework's own tests define."""
    limit: int | str = LIMIT
    options: dict[str, Any] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    @property
    @abstractmethod
    def adapter(self) -> Adapter:
        """The shared core of this agent's adapter."""

    @abstractmethod
    def ask(self, prompt: str, thread: str = "a") -> None:
        """Run until the model answers without a call; the thread's history continues."""

    @abstractmethod
    def stream(self, prompt: str, thread: str = "a") -> None:
        """Do the same as a stream, in an event loop if the framework allows it."""

    @abstractmethod
    def history(self, thread: str = "a") -> list[Any]:
        """Return the framework's own history of a thread."""

    @abstractmethod
    def restarted(self) -> Agent:
        """Return the same agent in another process: only what the framework stores is left."""

    @abstractmethod
    def rewind(self, messages: int, thread: str = "a") -> None:
        """Take a thread back to its first messages; the next prompt goes on from there."""

    @abstractmethod
    def recall(self, what: str, thread: str = "a") -> str:
        """Call the tool `recall` as the framework does."""


def reading(calls: int, start: int = 0) -> list[Answer]:
    """Read so many files, one after the other, and say so."""
    return [
        *(Answer(f"I read {n}.", (f"src/{n}.py",)) for n in range(start, start + calls)),
        Answer("done"),
    ]


def largest(agent: Agent) -> int:
    """Return the tokens of the largest request, in our own format."""
    return max(count(request.text) for request in agent.requests)


def anonymous(agent: Agent) -> list[str]:
    """Return the text of all requests without ids, which differ from one run to the next."""
    ids = re.compile(r"call_\w+|(?<=\bm)\d+\.(?=\d)")
    return [ids.sub("", request.text) for request in agent.requests]


class Swept(NamedTuple):
    """A file of which something was swept, and the id that restores it."""

    path: str
    id: str


def swept(request: Request) -> Swept:
    """Find the first line that replaces something."""
    found = re.search(r'lines of (src/\w+\.py) left out[^"]*recall\(\\?"(m[\d.]+)', request.text)
    assert found, request.text[:1_000]
    return Swept(found[1], found[2])


@dataclass(frozen=True)
class Row:
    """The result of a run of many calls: a row of the table of `make adapters`."""

    requests: int
    tokens_before: int
    """Of all requests together, as the framework would have sent them."""
    tokens_after: int
    paired: int
    """Requests in which every call has its result."""
    preserved: int
    """Sent objects that are the framework's own."""
    objects: int
    rewrites: int
    """Requests that do not begin as the one before, after the limit was reached."""
    seconds: float


def measured(agent: Agent) -> Row:
    """Let an agent make many calls; return the result."""
    started = time.perf_counter()
    agent.ask("Read all files of the project.")
    seconds = time.perf_counter() - started
    requests = agent.requests
    return Row(
        requests=len(requests),
        tokens_before=sum(count(request.own_text) for request in requests),
        tokens_after=sum(count(request.text) for request in requests),
        paired=sum(request.is_paired for request in requests),
        preserved=sum(request.preserved for request in requests),
        objects=sum(len(request.objects) for request in requests),
        rewrites=sum(not b.text.startswith(a.text) for a, b in itertools.pairwise(requests)),
        seconds=seconds,
    )


class AdapterContract:
    """Tests of an adapter. `make` makes an agent."""

    make: ClassVar[Callable[..., Agent]]
    """Makes an agent: `make(answers, limit=…, options=…)`."""
    example: ClassVar[str]
    """The name of its file in examples/adapters."""

    @pytest.fixture(scope="class")
    @classmethod
    def fifty(cls) -> tuple[Agent, Row]:
        """Let an agent make fifty calls, once."""
        agent = cls.make(reading(CALLS))
        return agent, measured(agent)

    def test_fifty_calls_fit_and_every_call_has_its_result(self, fifty: tuple[Agent, Row]) -> None:
        agent, row = fifty
        assert row.requests == CALLS + 1
        assert row.paired == row.requests
        assert row.tokens_after < row.tokens_before / 1.5
        assert largest(agent) <= LIMIT
        assert agent.adapter.failures == 0

    def test_the_prefix_is_rewritten_on_few_requests(self, fifty: tuple[Agent, Row]) -> None:
        """So that the provider's prompt cache is used: on one of five after the limit, at most."""
        agent, row = fifty
        within = sum(request.text == request.own_text for request in agent.requests)
        assert 0 < row.rewrites <= (row.requests - within) / 5

    def test_what_is_not_touched_is_the_frameworks_own_object(
        self, fifty: tuple[Agent, Row]
    ) -> None:
        first, last = fifty[0].requests[3], fifty[0].requests[-1]
        assert first.objects == first.own
        assert first.preserved == len(first.objects)
        assert len(last.objects) / 2 < last.preserved < len(last.own)

    def test_the_frameworks_own_history_keeps_every_message(self, fifty: tuple[Agent, Row]) -> None:
        said = str(fifty[0].history())
        assert all(f"src/{n}.py: line 39" in said for n in range(CALLS))

    def test_below_the_limit_nothing_is_touched(self) -> None:
        agent = self.make(reading(5))
        agent.ask("Read all files of the project.")
        assert all(content(f"src/{n}.py") in agent.requests[-1].text for n in range(5))

    def test_rewriting_the_history_keeps_it_small_and_paired(self) -> None:
        agent = self.make([*reading(CALLS), *reading(3, 100)], options={"rewrite_history": True})
        agent.ask("Read all files of the project.")
        agent.ask("And these.")
        assert all(request.is_paired for request in agent.requests)
        gone = swept(agent.requests[-1])
        assert f"{gone.path}: line 0 " not in str(agent.history())
        assert "src/102.py: line 20" in str(agent.history())
        assert content(gone.path) in agent.recall(gone.id)
        assert agent.adapter.failures == 0

    def test_parallel_calls_stay_together(self) -> None:
        paths = [tuple(f"src/{n}{side}.py" for side in "abc") for n in range(CALLS // 3)]
        agent = self.make([*(Answer("three at once", each) for each in paths), Answer("done")])
        agent.ask("Read all files of the project.")
        assert len(agent.requests) == len(paths) + 1
        assert all(request.is_paired for request in agent.requests)
        assert swept(agent.requests[-1])
        assert largest(agent) <= LIMIT

    def test_a_second_turn_continues_the_first(self) -> None:
        agent = self.make([*reading(22), *reading(22, 30)])
        agent.ask("Read the first half.")
        before = len(agent.requests)
        agent.ask("Read the other half.")
        assert "Read the first half." in agent.requests[-1].text
        assert "Read the other half." in agent.requests[-1].text
        assert agent.requests[before].text.startswith(agent.requests[before - 1].text)
        assert all(request.is_paired for request in agent.requests)
        assert largest(agent) <= LIMIT

    def test_streaming_is_the_same(self) -> None:
        plain, streamed = self.make(reading(25)), self.make(reading(25))
        plain.ask("Read all files of the project.")
        streamed.stream("Read all files of the project.")
        assert anonymous(streamed) == anonymous(plain)
        assert streamed.adapter.failures == 0

    def test_after_a_restart_the_next_request_begins_with_the_last_one(
        self, tmp_path: Path
    ) -> None:
        """Also above 75 %, where a cold cache would start a collection: it is still warm."""
        agent = self.make(reading(18), options={"store": tmp_path / "swept.db"})
        agent.ask("Read the first half.")
        agent.adapter.close()
        again = agent.restarted()
        try:
            again.answers = reading(1, 100)
            again.ask("Read the other half.")
            assert all(request.is_paired for request in again.requests)
            gone = swept(agent.requests[-1])
            assert count(agent.requests[-1].text) > 0.76 * LIMIT
            assert again.requests[0].text.startswith(agent.requests[-1].text)
            assert content(gone.path) not in again.requests[0].text
            assert content(gone.path) in again.recall(gone.id)
        finally:
            again.adapter.close()

    def test_after_a_rewind_the_thread_continues_from_that_point(self) -> None:
        agent = self.make([*reading(25), *reading(2, 100)])
        agent.ask("Read all files of the project.")
        agent.rewind(5)
        agent.ask("Read something else.")
        last = agent.requests[-1]
        assert last.is_paired
        assert "src/0.py: line 20" in last.text
        assert "src/101.py: line 20" in last.text
        assert "src/20.py" not in last.text

    def test_recall_finds_only_what_was_swept_from_that_thread(self) -> None:
        agent = self.make([*reading(25), Answer("hello")])
        agent.ask("Read all files of the project.")
        gone = swept(agent.requests[-1])
        agent.ask("Something else", "b")
        assert content(gone.path) in agent.recall(gone.id)
        assert f"{gone.path}: line 3 " in agent.recall(f"{gone.path} line 3")
        assert "nothing that was swept" in agent.recall(f"{gone.path} line 3", "b")

    def test_results_of_a_kept_tool_are_never_swept(self) -> None:
        agent = self.make(reading(14), options={"keep": ["read"]})
        agent.ask("Read all files of the project.")
        assert all(content(f"src/{n}.py") in agent.requests[-1].text for n in range(14))

    def test_a_failure_of_ours_changes_nothing_and_is_logged_once(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        agent = self.make(reading(22))

        def fails(*_: Any, **__: Any) -> Any:
            raise RuntimeError("broken on purpose")

        monkeypatch.setattr(agent.adapter, "fit", fails)
        with caplog.at_level(logging.WARNING, "marksweep.adapters"):
            agent.ask("Read all files of the project.")
        assert all(content(f"src/{n}.py") in agent.requests[-1].text for n in range(22))
        assert [r.name for r in caplog.records if r.name.startswith("marksweep")] == [
            "marksweep.adapters"
        ]

    def sharing(self, starts: Iterable[int]) -> list[Agent]:
        """Make agents that share an adapter, which has served another conversation before.

        The ids of a store's first conversation are shorter, so that it is collected later.
        """
        shared = self.make([Answer("hello")])
        shared.ask("Hi.", "first")
        agents = [self.make(reading(17, start)) for start in starts]
        for agent in agents:
            self.share(agent, shared)
        return agents

    def test_six_threads_at_once_send_what_each_sends_alone(self) -> None:
        starts = range(100, 700, 100)
        agents = self.sharing(starts)
        runs = [
            threading.Thread(target=agent.ask, args=("Read all.", f"{n}"))
            for n, agent in enumerate(agents)
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        for start, agent in zip(starts, agents, strict=True):
            assert len(agent.requests) == 18
            assert largest(agent) <= LIMIT
            assert all(request.is_paired for request in agent.requests)
            found = {int(n) // 100 for n in re.findall(r"src/(\d+)\.py", agent.requests[-1].text)}
            assert found == {start // 100}
            assert agent.adapter.failures == 0
        for n in (0, 5):
            (alone,) = self.sharing([starts[n]])
            alone.ask("Read all.", f"{n}")
            assert swept(alone.requests[-1])
            assert anonymous(agents[n]) == anonymous(alone)

    def test_the_adapter_receives_the_name_of_the_model(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another model has no cached prompt."""
        agent, models = self.make([Answer("hello")]), []
        fit = agent.adapter.fit

        def noted(*given: Any, **more: Any) -> Any:
            models.append(more.get("model"))
            return fit(*given, **more)

        monkeypatch.setattr(agent.adapter, "fit", noted)
        agent.ask("Hi.")
        assert models
        assert all(models)

    def test_the_example_runs(self, tmp_path: Path) -> None:
        path = EXAMPLES / f"{self.example}.py"
        done = subprocess.run(
            [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "marksweep" in done.stdout

    def share(self, agent: Agent, shared: Agent) -> None:
        """Let an agent use the adapter of another."""
        raise NotImplementedError
