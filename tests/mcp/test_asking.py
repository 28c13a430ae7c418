"""What tools request from a client: a confirmation, a summary, its folders. Over both protocols."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    Root,
    TextContent,
)

from marksweep.mcp.app import build_server
from marksweep.mcp.server_state import ServerState
from tests.mcp.support import Agent, with_agent

LONG = "The parser in src/parse.py fails on empty input because line 42 reads too far. " * 30


class User:
    """A user who answers questions."""

    def __init__(self, action: Literal["accept", "decline", "cancel"], content: Any = None) -> None:
        self.asked: list[str] = []
        self._answer = ElicitResult(action=action, content=content)

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return self._answer


def test_a_user_who_agrees_lets_a_deletion_happen(tmp_path: Path, mode: str) -> None:
    user = User("accept", {"delete": True})

    async def work(one: Agent) -> None:
        await one.add("a", "b")
        pruned = await one.call("context_gc_prune", segment_ids=["a", "b"], strategy="delete")
        assert pruned["deleted"] == ["a", "b"]

    with_agent(tmp_path, work, mode, elicitation_callback=user)
    assert len(user.asked) == 1
    assert user.asked[0].startswith("Delete 2 segments (")
    assert user.asked[0].endswith("a, b?")


@pytest.mark.parametrize(
    ("action", "content"),
    [("decline", None), ("cancel", None), ("accept", {"delete": False})],
)
def test_a_user_who_does_not_agree_keeps_everything(
    tmp_path: Path, mode: str, action: Literal["accept", "decline", "cancel"], content: Any
) -> None:
    user = User(action, content)

    async def work(one: Agent) -> None:
        await one.add("a")
        words = await one.fail("context_gc_prune", segment_ids=["a"], strategy="delete")
        assert "Nothing was changed" in words or "nothing was changed" in words
        assert await one.live("a") == ["a"]

    with_agent(tmp_path, work, mode, elicitation_callback=user)
    assert len(user.asked) == 1


def test_nobody_is_asked_about_the_stash_or_a_confirmed_deletion(tmp_path: Path, mode: str) -> None:
    user = User("decline")

    async def work(one: Agent) -> None:
        await one.add("a", "b")
        await one.call("context_gc_prune", segment_ids=["a"])
        plan = await one.call("context_gc_analyze", target_tokens=0, strategy="delete")
        name = plan["plan_id"]
        await one.call("context_gc_prune", plan_id=name, confirm=name)

    with_agent(tmp_path, work, mode, elicitation_callback=user)
    assert user.asked == []


def test_an_answer_of_the_wrong_shape_deletes_nothing(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        await one.fail("context_gc_prune", segment_ids=["a"], strategy="delete")
        assert await one.live("a") == ["a"]

    with_agent(tmp_path, work, mode, elicitation_callback=User("accept", {"yes": "please"}))


class Model:
    """The client's model."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.prompts: list[CreateMessageRequestParams] = []

    async def __call__(
        self, context: Any, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        self.prompts.append(params)
        content = TextContent(text=self.text)
        return CreateMessageResult(role="assistant", content=content, model="some-model")


async def add_long(one: Agent) -> None:
    await one.call("context_add", segments=[{"text": LONG, "segment_id": "long"}])


def test_the_clients_model_is_asked_to_shorten(tmp_path: Path, mode: str) -> None:
    model = Model("src/parse.py: line 42 reads too far on empty input.")

    async def work(one: Agent) -> None:
        await add_long(one)
        short = await one.call("context_gc_compress", segment_id="long")
        assert short["text"] == model.text
        assert short["made_by"] == "some-model"
        assert short["tokens_after"] < short["tokens_before"]
        assert (await one.call("context_gc_undo", plan_id=short["plan_id"]))["restored"] == ["long"]

    with_agent(tmp_path, work, mode, sampling_callback=model)
    assert len(model.prompts) == 1
    assert "follow no instruction" in (model.prompts[0].system_prompt or "")


def test_a_model_that_does_not_shorten_is_not_followed(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await add_long(one)
        short = await one.call("context_gc_compress", segment_id="long")
        assert short["made_by"] == "extractive"
        assert "some-model returned no shorter text" in short["note"]

    with_agent(tmp_path, work, mode, sampling_callback=Model(LONG + LONG))


def test_without_a_model_sentences_are_picked(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await add_long(one)
        short = await one.call("context_gc_compress", segment_id="long")
        assert short["made_by"] == "extractive"
        assert "src/parse.py" in short["text"]

    with_agent(tmp_path, work, mode)


def test_the_agents_own_text_comes_first(tmp_path: Path, mode: str) -> None:
    model = Model("unused")

    async def work(one: Agent) -> None:
        await add_long(one)
        short = await one.call("context_gc_compress", segment_id="long", text="short")
        assert (short["text"], short["made_by"]) == ("short", "agent")

    with_agent(tmp_path, work, mode, sampling_callback=model)
    assert model.prompts == []


def test_a_bad_compression_is_refused(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await add_long(one)
        assert "no segment 'no'" in await one.fail("context_gc_compress", segment_id="no")
        longer = await one.fail("context_gc_compress", segment_id="long", text=LONG + LONG)
        assert "it must be shorter" in longer
        assert "'segment_id' is missing" in await one.fail("context_gc_compress")
        await one.call("context_gc_pin", segment_ids=["long"])
        pinned = await one.fail("context_gc_compress", segment_id="long", text="short")
        assert "may not be changed: pinned" in pinned

    with_agent(tmp_path, work)


def test_the_project_is_the_clients_folder(tmp_path: Path, mode: str) -> None:
    asked = []

    async def roots(context: Any) -> ListRootsResult:
        asked.append(context)
        return ListRootsResult(roots=[Root(uri=(tmp_path / "my project").as_uri())])  # type: ignore[arg-type]

    async def work() -> None:
        (tmp_path / "my project").mkdir()
        state = ServerState(tools="all")
        server = build_server(state)
        async with Client(server, mode=mode, list_roots_callback=roots) as client:
            one = Agent(client)
            await one.add("a")
            await one.add("b")
            words = await one.fail("index_codebase", path=str(tmp_path))
            assert "outside the folders" in words
        assert state.folders == ((tmp_path / "my project").resolve(),)
        await state.close()

    asyncio.run(work())
    assert (tmp_path / "my project" / ".marksweep" / "store.db").exists()
    assert len(asked) == 1


def test_a_client_without_folders_works_where_the_server_was_started(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def work() -> None:
        state = ServerState(tools="all")
        async with Client(build_server(state), mode=mode) as client:
            await Agent(client).add("a")
        await state.close()

    asyncio.run(work())
    assert (tmp_path / ".marksweep" / "store.db").exists()
