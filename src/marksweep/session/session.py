"""A conversation with a model that keeps itself within the model's context.

    send_message   user's words in, check, ask, run tools, ask again, answer out
    _ask           the check before a request, the request, and one more try after an overflow
    _collect       plugin, validity, ledger, history: in this order, or not at all

A collection puts a new history in place, all at once. Whatever a plugin does, what is sent
is a history the provider takes, and a plugin that fails leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import RLock

from marksweep.conversation import RECALL_TOKENS
from marksweep.errors import BadInput, ContextOverflow, ModelError, NotFound, StoreError
from marksweep.heaps.conversation_stash import Recalled
from marksweep.ledger import BudgetSnapshot, ChildKind, InstructionBudget, InstructionSource
from marksweep.ledger.budget import CONTEXT_LIMIT
from marksweep.ledger.counting import CountOnce
from marksweep.messages import Message, Role
from marksweep.messages.turns import starts_turn
from marksweep.messages.weight import count_message
from marksweep.plugins.base import ContextUsage, GCConfig, GCPlugin, GCResult, GCTriggerReason
from marksweep.plugins.files import Profile, choose_gc, load_gc_from_file, load_profile
from marksweep.session.collecting import (
    Outcome,
    ask_plugin,
    check_plugin,
    run_plugin,
    shut_down,
)
from marksweep.session.events import Happened, Listener, Listeners, SessionEvent
from marksweep.session.keeping import Keeper
from marksweep.session.providers import CallableProvider, Provider, Respond
from marksweep.session.tools import Tool, answer_calls
from marksweep.stores.base import Store
from marksweep.tokens import Calibration, count, in_whole

MOST_ROUNDS = 100
"""Times a model may call tools before it must answer. More lets long work finish; fewer stops a
model that goes round in circles sooner."""


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
    ) -> None:
        """Begin a session. With a store, what plugins take out can be found again and undone."""
        self._provider = provider if isinstance(provider, Provider) else CallableProvider(provider)
        self._context_limit = context_limit
        self._counter = counter
        self._count = CountOnce(count_message if counter is count_message else in_whole(counter))
        self._calibration = Calibration()
        self._history: list[Message] = []
        self._tokens = 0
        self._turns = 0
        self._tools: dict[str, Tool] = {}
        self._plugin: GCPlugin | None = None
        self._config = GCConfig()
        self._results: list[GCResult] = []
        self._listeners = Listeners()
        self._lock = RLock()
        self._keeper = Keeper(store, workspace) if store is not None else None
        self.budget = InstructionBudget.create_default(context_limit)
        self.budget.follow(lambda: self._history, self._count)
        if system_instructions:
            self._append(Message.from_text(Role.SYSTEM, system_instructions))
        for message in history:
            self._append(message)
        for tool in tools:
            self.add_tool(tool)

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation as it would be sent."""
        return tuple(self._history)

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

    def set_enrichment(self, key: str, text: str) -> None:
        """Count what the host adds to each prompt; empty text takes it off the ledger."""
        if text:
            self.budget.add_child(InstructionSource.ENRICHMENT, key, count(text))
        else:
            self.budget.remove_child(InstructionSource.ENRICHMENT, key)

    def listen(self, listener: Listener) -> None:
        """Tell a host what happens from now on."""
        self._listeners.add(listener)

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
        """Take a message in without asking the model, and collect if that is due."""
        with self._lock:
            self._append(message)
            self._collect_if_due()

    def send_message(self, text: str, kind: ChildKind | None = None) -> Message:
        """Say something, let the model work with its tools, and give back its answer.

        `kind` declares what the message is, such as CLARIFICATION. If the model cannot be reached
        before it has said anything, the history is as it was.
        """
        if not isinstance(text, str):
            raise BadInput(f"the message is a {type(text).__name__}; expected text.")
        with self._lock:
            message = Message.from_text(Role.USER, text)
            self._append(message)
            if kind is not None:
                self._declare(message, kind)
            try:
                return self._work()
            except ModelError:
                if self._history[-1] is message:
                    self._replace(self._history[:-1])
                raise

    def resume(self) -> Message:
        """Go on where an error cut the model off, with no new words from the user."""
        with self._lock:
            if not self._history or self._history[-1].role is Role.MODEL:
                raise BadInput("there is nothing to resume: the model has answered.")
            return self._work()

    def manual_gc(self) -> GCResult:
        """Collect now, down to the target."""
        with self._lock:
            if self._plugin is None:
                raise NotFound("no GC plugin is set; call set_gc_plugin first.")
            return self._collect(GCTriggerReason.MANUAL)

    def get_gc_history(self) -> tuple[GCResult, ...]:
        """Every collection of this session, oldest first."""
        return tuple(self._results)

    def undo_gc(self) -> None:
        """Put back what the latest collection took from the history. Dropped tools stay dropped."""
        with self._lock:
            self._replace(self._kept().undo(self._history))

    def recall(self, query: str, limit: int = RECALL_TOKENS) -> list[Recalled]:
        """Find what collections took out and answers a question, in at most so many tokens."""
        with self._lock:
            return self._kept().recall(query, limit, self._history, self._count)

    def _kept(self) -> Keeper:
        if self._keeper is None:
            raise NotFound("this session has no store; pass one to keep what is collected.")
        return self._keeper

    def get_context_usage(self) -> ContextUsage:
        """How full the context is, in the provider's tokens as far as they are known."""
        total = self._calibration.apply(self._tokens + self._beside())
        return {
            "percent_used": 100.0 * total / self._context_limit,
            "total_tokens": total,
            "context_limit": self._context_limit,
            "tokens_remaining": max(0, self._context_limit - total),
            "turns": self._turns,
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
        """Start a sub-session: a history and a collector of its own, counted as this one is.

        It collects as the in-line configuration says, else its profile, else the project's file.
        """
        named = load_profile(profile) if isinstance(profile, str) else profile
        child = Session(
            provider or self._provider,
            context_limit=self._context_limit,
            system_instructions=named.system_instructions if named else "",
            counter=self._counter,
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
                self._listeners.tell(SessionEvent(Happened.ANSWERED, said.text))
                self._collect_if_due()
                return said
            for message in answer_calls(calls, self._tools.values()):
                self._append(message)
        raise ModelError(f"the model called tools {MOST_ROUNDS} times without an answer.")

    def _ask(self) -> Message:
        """Request an answer; for as long as it is too long and something can go, collect."""
        if self._config.check_before_send:
            self._collect_if_due()
        while True:
            try:
                return self._request()
            except ContextOverflow as overflow:
                self._listeners.tell(SessionEvent(Happened.OVERFLOW, str(overflow)))
                if self._plugin is None:
                    raise
                before = self._tokens + self._beside()
                result = self._collect(GCTriggerReason.OVERFLOW)
                if self._tokens + self._beside() >= before:
                    why = result.error or "nothing more may go"
                    raise ContextOverflow(
                        f"{overflow} A collection freed nothing: {why}"
                    ) from overflow

    def _request(self) -> Message:
        counted = self._tokens + self._beside()
        answer = self._provider.complete(self.history, self.tools)
        self._calibration = self._calibration.observe(counted, answer.usage.input_tokens)
        self.budget.context_limit = max(1, round(self._context_limit / self._calibration.ratio))
        self._append(answer.message)
        return answer.message

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
        self._listeners.tell(SessionEvent(Happened.COLLECTING, f"collecting ({name})", reason))
        outcome = run_plugin(
            plugin,
            self.history,
            self.get_context_usage(),
            self._config,
            reason,
            budget=self.budget,
            dialect=self._provider.dialect,
        )
        outcome = self._keep(outcome)
        self._take(outcome)
        return outcome.result

    def _keep(self, outcome: Outcome) -> Outcome:
        """Keep what a collection takes. If the store fails, nothing is taken."""
        if self._keeper is not None and outcome.changed and outcome.result.success:
            try:
                self._keeper.keep(self._history, outcome.history, outcome.result, self._count)
            except StoreError as error:
                return outcome.given_up(self.history, error)
        return outcome

    def _take(self, outcome: Outcome) -> None:
        result = outcome.result
        self._results.append(result)
        if not result.success or not (outcome.changed or result.removal_list):
            text = result.error or "nothing had to go"
            self._listeners.tell(SessionEvent(Happened.FUTILE, text, result=result))
            return
        self._replace(outcome.history)
        outcome.apply(self.budget)
        for item in result.removal_list:
            if item.source is InstructionSource.PLUGIN and item.child_key:
                self._tools.pop(item.child_key, None)
        if outcome.changes:
            text = "; ".join(outcome.changes)
            self._listeners.tell(SessionEvent(Happened.REPAIRED, text, result=result))
        text = f"{result.items_collected} items, {result.tokens_freed:,} tokens freed"
        self._listeners.tell(SessionEvent(Happened.COLLECTED, text, result=result))
        self._listeners.tell(SessionEvent(Happened.BUDGET, "the ledger has changed"))

    def _append(self, message: Message) -> None:
        tokens = self._count(message)
        self._history.append(message)
        self._tokens += tokens
        self._turns += starts_turn(message)

    def _replace(self, history: Sequence[Message]) -> None:
        kept = {id(message) for message in history}
        for message in self._history:
            if id(message) not in kept:
                self._count.forget(message)
        self._history = list(history)
        self._tokens = sum(map(self._count, history))
        self._turns = sum(map(starts_turn, history))

    def _declare(self, message: Message, kind: ChildKind) -> None:
        self.budget.add_child(
            InstructionSource.CONVERSATION,
            f"{kind.value}_{message.message_id}",
            0,
            kind=kind,
            message_ids=(message.message_id,),
        )

    def _beside(self) -> int:
        return sum(entry.total_tokens() for entry in self.budget.non_history().values())
