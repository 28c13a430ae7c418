"""A conversation with a model that keeps itself within the model's context.

    send_message   user's words in, check, ask, run tools, ask again, answer out
    _ask           the check before a request, the request, and one more try after an overflow
    _collect       plugin, plan, checks, the one collector, ledger: in this order, or not at all

The messages are a conversation heap in a store: what plugins take out can be found again and
undone, also after a restart. Whatever a plugin does, the provider gets a valid history, and a
plugin that fails changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from threading import RLock

import msgspec

from marksweep.conversation import RECALL_TOKENS
from marksweep.core.budget import CACHE_MINUTES, PromptCache
from marksweep.errors import (
    BadInput,
    ContextOverflow,
    ModelError,
    NotFound,
    Refused,
    StoreError,
)
from marksweep.heaps.stash_search import Recalled
from marksweep.ledger import BudgetSnapshot, ChildKind, InstructionBudget, InstructionSource
from marksweep.ledger.budget import CONTEXT_LIMIT
from marksweep.ledger.conversation import KIND, declaration
from marksweep.ledger.entries import KIND_POLICY
from marksweep.messages import Message, Part, Role, count_message
from marksweep.model import utc_now
from marksweep.plugins.base import (
    ContextUsage,
    GCConfig,
    GCPlugin,
    GCResult,
    GCTriggerReason,
    apply_result,
)
from marksweep.plugins.files import Profile, choose_gc, load_gc_from_file, load_profile
from marksweep.session.collecting import (
    ask_plugin,
    check_plugin,
    failed,
    run_plugin,
    shut_down,
)
from marksweep.session.history import SessionHistory, repairs
from marksweep.session.providers import CallableProvider, Provider, Respond
from marksweep.session.tools import Tool, answer_calls
from marksweep.stores.base import Store
from marksweep.stores.memory import MemoryStore
from marksweep.tokens import Calibration, count, in_whole

MOST_ROUNDS = 100
"""Times a model may call tools before it must answer. More lets long work finish; fewer stops a
model that loops sooner."""

replace = msgspec.structs.replace

_log = logging.getLogger(__name__)


class Happened(StrEnum):
    """What an event reports."""

    COLLECTING = "collecting"
    """A collection starts."""
    COLLECTED = "collected"
    """A collection freed something."""
    FUTILE = "futile"
    """A collection freed nothing: there was nothing to do, or it failed."""
    OVERFLOW = "overflow"
    """The provider refused a request as too long."""
    REPAIRED = "repaired"
    """A plugin left a history that no provider accepts; it was repaired."""
    ANSWERED = "answered"
    """The model answered."""
    BUDGET = "budget"
    """The ledger has changed."""


class SessionEvent(msgspec.Struct, frozen=True):
    """One thing that happened."""

    happened: Happened
    text: str
    """For people to read."""
    reason: GCTriggerReason | None = None
    result: GCResult | None = None


Listener = Callable[[SessionEvent], None]
"""What a session reports to its host, as it happens."""


class Session:
    """A conversation with a model, collected automatically once a GC plugin is set."""

    def __init__(
        self,
        provider: Provider | Respond,
        *,
        context_limit: int = CONTEXT_LIMIT,
        system_instructions: str = "",
        tools: Sequence[Tool] = (),
        counter: Callable[[Message], float] = count_message,
        history: Sequence[Message] = (),
        store: Store | None = None,
        workspace: str = "session",
        cache_minutes: float = CACHE_MINUTES,
    ) -> None:
        """Begin or reopen a session: one that is in the store continues where it was.

        Without a store it is kept in memory, with all that plugins remove. While the provider's
        prompt cache is cold, a collection starts sooner; it lives `cache_minutes`.
        """
        self._provider = provider if isinstance(provider, Provider) else CallableProvider(provider)
        self._context_limit = context_limit
        self._counter = counter
        self._calibration = Calibration()
        self._tools: dict[str, Tool] = {}
        self._plugin: GCPlugin | None = None
        self._config = GCConfig()
        self._results: list[GCResult] = []
        self._listeners: list[Listener] = []
        self._lock = RLock()
        self.budget = InstructionBudget.create_default(context_limit)
        self._history = SessionHistory(
            store or MemoryStore(),
            workspace,
            dialect=self._provider.dialect,
            counter=count_message if counter is count_message else in_whole(counter),
            turns=self.budget.turns,
        )
        self._cache = PromptCache(cache_minutes, self._history.heap.last_arrival())
        self.budget.follow_heap(self._history.heap, self._history.count)
        self.budget.reserve_summaries(self._history.summaries())
        self._open(system_instructions, history)
        for tool in tools:
            self.add_tool(tool)

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation as it would be sent."""
        return self._history.messages

    def add_tool(self, tool: Tool) -> None:
        """Offer a tool to the model from the next request on."""
        self._tools[tool.name] = tool
        self.budget.add_child(
            InstructionSource.PLUGIN, tool.name, count(tool.schema), kind=tool.kind
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are offered now."""
        return tuple(self._tools.values())

    def listen(self, listener: Listener) -> None:
        """Notify a host of what happens from now on."""
        self._listeners.append(listener)

    def set_gc_plugin(self, plugin: GCPlugin | None, config: GCConfig | None = None) -> None:
        """Collect with this plugin from now on; None: not at all. The old one is shut down."""
        check_plugin(plugin, config)
        with self._lock:
            if self._plugin is not None and self._plugin is not plugin:
                shut_down(self._plugin)
            self._plugin = plugin
            self._config = config or GCConfig()

    def set_gc_from_file(self, path: str | None = None) -> bool:
        """Collect as the project's configuration file says; False if there is none."""
        loaded = load_gc_from_file(path)
        if loaded is not None:
            self.set_gc_plugin(*loaded)
        return loaded is not None

    def append(self, message: Message) -> None:
        """Add a message without asking the model, and collect if that is due."""
        with self._lock:
            self._history.append(message)
            self._collect_if_due()

    def send_message(self, text: str, kind: ChildKind | None = None) -> Message:
        """Send a message, let the model work with its tools, and return its answer.

        `kind` declares what the message is, such as CLARIFICATION. If the model cannot be reached
        before it has said anything, the history is unchanged.
        """
        if not isinstance(text, str):
            raise BadInput(f"the message is a {type(text).__name__}; expected text.")
        with self._lock:
            message = self._history.append(Message.from_text(Role.USER, text))
            if kind is not None:
                tag = declaration(KIND, kind.value)
                self._history.heap.declare(message.message_id, KIND_POLICY[kind], tag)
            try:
                return self._work()
            except ModelError:
                self._history.take_back(message)
                raise

    def resume(self) -> Message:
        """Continue where an error interrupted the model, without a new user message."""
        with self._lock:
            history = self.history
            if not history or history[-1].role is Role.MODEL:
                raise BadInput("there is nothing to resume: the model has answered.")
            return self._work()

    def manual_gc(self) -> GCResult:
        """Collect now, down to the target."""
        with self._lock:
            return self._collect(GCTriggerReason.MANUAL)

    def get_gc_history(self) -> tuple[GCResult, ...]:
        """Every collection of this session, oldest first."""
        return tuple(self._results)

    def undo_gc(self) -> None:
        """Restore what the latest collection removed from the history, but not dropped tools."""
        with self._lock:
            self._history.undo()

    def recall(self, query: str, limit: int = RECALL_TOKENS) -> list[Recalled]:
        """Find what collections took out and answers a question, in at most so many tokens."""
        with self._lock:
            return self._history.recall(query, limit)

    def get_context_usage(self) -> ContextUsage:
        """How full the context is, in the provider's tokens as far as they are known."""
        total = self._calibration.apply(self._total())
        return {
            "percent_used": 100.0 * total / self._context_limit,
            "total_tokens": total,
            "context_limit": self._context_limit,
            "tokens_remaining": max(0, self._context_limit - total),
            "turns": self._history.turns,
            "is_cache_cold": self._cache.is_cold(utc_now()),
        }

    def ledger(self) -> BudgetSnapshot:
        """What fills the context, by source."""
        return self.budget.snapshot()

    def spawn(
        self,
        *,
        profile: Profile | str | None = None,
        inline_config: Mapping[str, object] | None = None,
        provider: Provider | None = None,
    ) -> Session:
        """Start a sub-session: with its own history and collector, and the same token counter.

        It collects as the in-line configuration says, else its profile, else the project's file.
        """
        named = load_profile(profile) if isinstance(profile, str) else profile
        child = Session(
            provider or self._provider,
            context_limit=self._context_limit,
            system_instructions=named.system_instructions if named else "",
            counter=self._counter,
            cache_minutes=self._cache.minutes,
        )
        spec = choose_gc(inline=inline_config, profile=named)
        if spec is not None:
            child.set_gc_plugin(*spec.load())
        return child

    def close(self) -> None:
        """Shut the plugin down."""
        self.set_gc_plugin(None)

    def _work(self) -> Message:
        for _ in range(MOST_ROUNDS):
            said = self._ask()
            calls = said.function_calls
            if not calls or not self._tools:
                self._notify(Happened.ANSWERED, said.text)
                self._collect_if_due()
                return said
            for message in answer_calls(calls, self._tools.values()):
                self._history.append(message)
        raise ModelError(f"the model called tools {MOST_ROUNDS} times without an answer.")

    def _ask(self) -> Message:
        """Request an answer; collect and retry while it is too long and something can go."""
        if self._config.check_before_send:
            self._collect_if_due()
        while True:
            try:
                return self._request()
            except ContextOverflow as overflow:
                self._notify(Happened.OVERFLOW, str(overflow))
                if self._plugin is None:
                    raise
                before = self._total()
                result = self._collect(GCTriggerReason.OVERFLOW)
                if self._total() >= before:
                    why = result.error or "nothing more may go"
                    raise ContextOverflow(
                        f"{overflow} A collection freed nothing: {why}"
                    ) from overflow

    def _request(self) -> Message:
        counted = self._total()
        self._cache = self._cache.requested(utc_now())
        answer = self._provider.complete(self.history, self.tools)
        self._calibration = self._calibration.observe(counted, answer.usage.input_tokens)
        if answer.usage.cached_tokens is not None:
            self._cache = self._cache.reported(answer.usage.cached_tokens)
        ratio = self._calibration.ratio_at(self._context_limit)
        self.budget.context_limit = max(1, round(self._context_limit / ratio))
        return self._history.append(answer.message)

    def _collect_if_due(self) -> None:
        if self._plugin is None:
            return
        reason = ask_plugin(self._plugin, self.get_context_usage(), self._config)
        if reason is not None:
            self._collect(reason)

    def _collect(self, reason: GCTriggerReason) -> GCResult:
        plugin = self._plugin
        if plugin is None:
            raise NotFound("no GC plugin is set; call set_gc_plugin first.")
        name = f"{plugin.name}, {reason.value}"
        self._notify(Happened.COLLECTING, f"collecting ({name})", reason=reason)
        before, history = self._total(), self.history
        usage = self.get_context_usage()
        kept, result = run_plugin(plugin, history, usage, self._config, reason, budget=self.budget)
        result, repaired = self._apply(kept, result)
        result = replace(result, tokens_before=before, tokens_after=self._total())
        self._results.append(result)
        self._report(result, repaired)
        return result

    def _apply(
        self, returned: tuple[Message, ...], result: GCResult
    ) -> tuple[GCResult, tuple[str, ...]]:
        """Carry out all that a plugin returned, or nothing. Report what had to be repaired."""
        if not result.success:
            return result, ()
        repaired: tuple[str, ...] = ()
        if returned != self.history:
            try:
                plan = self._history.collect(returned, result, self._config)
            except (Refused, StoreError) as error:
                return failed(result, error), ()
            repaired = repairs(plan, returned)
        apply_result(self.budget, result, self.history)
        for item in result.removal_list:
            if item.source is InstructionSource.PLUGIN and item.child_key:
                self._tools.pop(item.child_key, None)
        if repaired:
            result = replace(result, details={**result.details, "repaired": list(repaired)})
        return result, repaired

    def _report(self, result: GCResult, repaired: tuple[str, ...]) -> None:
        if not result.success or not (result.tokens_freed or result.removal_list):
            text = result.error or "nothing had to go"
            self._notify(Happened.FUTILE, text, result)
            return
        if repaired:
            text = "; ".join(repaired)
            self._notify(Happened.REPAIRED, text, result)
        text = f"{result.items_collected} items, {result.tokens_freed:,} tokens freed"
        self._notify(Happened.COLLECTED, text, result)
        self._notify(Happened.BUDGET, "the ledger has changed")

    def _notify(
        self,
        happened: Happened,
        text: str,
        result: GCResult | None = None,
        reason: GCTriggerReason | None = None,
    ) -> None:
        """Notify the listeners. One that fails affects neither the session nor the others."""
        event = SessionEvent(happened, text, reason, result)
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001  whatever a host's listener raises
                _log.exception("a listener failed at %s", happened)

    def _open(self, system_instructions: str, history: Sequence[Message]) -> None:
        """Begin with these messages, or continue with those in the store."""
        known = self.history
        if known and history and tuple(history) != known:
            raise BadInput(
                "the store holds the history of this session already. Leave `history` out to go "
                "on with it, or choose another workspace."
            )
        if system_instructions:
            self._set_instructions(system_instructions)
        for message in () if known else history:
            self._history.append(message)

    def _set_instructions(self, text: str) -> None:
        """Put instructions in front; those that a reopened session had before are replaced."""
        known = self.history
        if not known:
            self._history.append(Message.from_text(Role.SYSTEM, text))
        elif known[0].role is Role.SYSTEM and known[0].text != text:
            self._history.heap.revise(replace(known[0], parts=(Part(text=text),), raw=None))

    def _total(self) -> int:
        """Tokens of the history and of all that is beside it."""
        beside = sum(entry.total_tokens() for entry in self.budget.non_history().values())
        return self._history.tokens + beside
