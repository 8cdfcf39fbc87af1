"""Replan as a node of a LangGraph graph: durable, streamed, and with people in the loop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy

from replan import Replan, tool
from replan.errors import ModelUnavailable, TaskFailure
from replan.inside import as_langchain_tool, langgraph_node
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio
THREAD: Any = {"configurable": {"thread_id": "t"}}
SCRIPT = Path(__file__).with_name("frameworks_graph.py")


class State(TypedDict, total=False):
    task: str
    result: Any
    failure: str | None


def _graph(node: Any, saver: Any = None) -> Any:
    graph: Any = StateGraph(State)
    graph.add_node("work", node)
    graph.add_edge(START, "work")
    graph.add_edge("work", END)
    return graph.compile(checkpointer=saver)


def _plan(*names: str) -> Any:
    steps = [{"step_id": f"s{n}", "tool": "send", "parameters": {"to": name}} for n, name in enumerate(names)]
    for n, step in enumerate(steps[1:]):
        step["dependencies"] = [f"s{n}"]
    return lambda state: {"plan": {"steps": steps}, "evaluation": "steps"}


def _sender() -> tuple[list[str], Any]:
    sent: list[str] = []

    @tool(effect="once")
    def send(to: str) -> str:
        if to == "nowhere":
            raise ValueError("there is no such address: nowhere")
        sent.append(to)
        return f"sent to {to}"

    return sent, send


def test_a_graph_that_was_killed_goes_on_with_the_same_task(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(SCRIPT), str(tmp_path), *arguments],
            capture_output=True,
            text=True,
            env=dict(os.environ),
            check=False,
            timeout=100,
        )

    killed = run("die")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / "effects.txt").read_text().split() == ["a"]
    done = run()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["result"] == "abc"
    assert len(found["tasks"]) == 1
    assert found["types"][0] == "task_resumed"
    assert (tmp_path / "effects.txt").read_text().split() == ["a", "ab", "abc"]


async def test_the_node_streams_what_happens_and_gives_the_answer(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        app = _graph(langgraph_node(replan, submit=_plan("ann")))
        news, state = [], {}
        async for mode, item in app.astream({"task": "send"}, stream_mode=["custom", "values"]):
            if mode == "custom":
                news.append(item)
            else:
                state = item
    assert state["result"] == "sent to ann"
    assert sent == ["ann"]
    assert [each["seq"] for each in news] == sorted({each["seq"] for each in news})
    assert {"step_started", "step_completed", "task_completed"} <= {each["type"] for each in news}
    assert {each["task_id"] for each in news} == {news[0]["task_id"]}


async def test_two_runs_and_two_turns_of_a_loop_are_tasks_of_their_own(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        app = _graph(langgraph_node(replan, submit=_plan("ann")), InMemorySaver())
        for _ in range(2):
            await app.ainvoke({"task": "send"}, THREAD)
        assert len(await replan.tasks()) == 2
    assert sent == ["ann", "ann"]


async def test_a_failure_is_raised_or_put_into_the_state(tmp_path: Path) -> None:
    _, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        submit = _plan("nowhere")
        with pytest.raises(Exception, match="nowhere") as caught:
            await _graph(langgraph_node(replan, submit=submit)).ainvoke({"task": "send"})
        assert isinstance(caught.value, TaskFailure)
        state = await _graph(langgraph_node(replan, submit=submit, failure_key="failure")).ainvoke(
            {"task": "send"}
        )
    assert state["result"] is None
    assert "nowhere" in state["failure"]


async def test_people_answer_through_interrupts_one_by_one(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db", approval="all", interactive=True) as replan:
        app = _graph(langgraph_node(replan, submit=_plan("ann", "bob")), InMemorySaver())
        state = await app.ainvoke({"task": "send"}, THREAD)
        asked = state["__interrupt__"][0].value
        assert (asked["kind"], asked["tool"], asked["parameters"]) == ("approval", "send", {"to": "ann"})
        assert sent == []
        state = await app.ainvoke(Command(resume="perhaps"), THREAD)
        assert "perhaps" in state["__interrupt__"][0].value["problem"]
        state = await app.ainvoke(Command(resume=True), THREAD)
        assert sent == ["ann"]
        asked = state["__interrupt__"][0].value
        assert asked["parameters"] == {"to": "bob"}
        state = await app.ainvoke(Command(resume={"approved": True, "parameters": {"to": "eve"}}), THREAD)
        assert sent == ["ann", "eve"]
        assert state["result"] == "sent to eve"
        assert len(await replan.tasks()) == 1


async def test_a_plan_is_shown_in_an_interrupt_and_agreed_to_or_changed(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db", review_plan=True) as replan:
        app = _graph(langgraph_node(replan, submit=_plan("ann")), InMemorySaver())
        state = await app.ainvoke({"task": "send"}, THREAD)
        asked = state["__interrupt__"][0].value
        assert (asked["kind"], asked["review"]["outlook"]["tool_calls"]) == ("review", 1)
        other = _plan("eve")({})["plan"]
        state = await app.ainvoke(Command(resume={"approved": True, "plan": {"steps": []}}), THREAD)
        assert "no steps" in state["__interrupt__"][0].value["problem"]
        state = await app.ainvoke(Command(resume={"approved": True, "plan": other}), THREAD)
    assert sent == ["eve"]
    assert state["result"] == "sent to eve"


async def test_a_callback_is_an_interrupt_whose_value_is_what_came_of_it_and_a_time_is_none(
    tmp_path: Path,
) -> None:
    steps = [
        {"step_id": "pause", "tool": "wait_for_time", "parameters": {"seconds": 2}},
        {"step_id": "hook", "tool": "create_callback", "dependencies": ["pause"]},
        {"step_id": "said", "tool": "wait_for_callback", "parameters": {"token": "${hook.output.token}"}},
    ]

    def submit(state: Any) -> Any:
        return {"plan": {"steps": steps}, "evaluation": "steps"}

    async with Replan(db=tmp_path / "r.db") as replan:
        app = _graph(langgraph_node(replan, submit=submit), InMemorySaver())
        asked = (await app.ainvoke({"task": "wait"}, THREAD))["__interrupt__"]
        assert [(one.value["kind"], one.value["id"][:3]) for one in asked] == [("callback", "cb_")]
        done = await app.ainvoke(Command(resume={"n": 1}), THREAD)
    assert done["result"] == {"n": 1}


async def test_a_cancelled_graph_leaves_its_task_to_be_gone_on_with(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    calls: list[str] = []

    @tool(effect="once")
    async def send(to: str) -> str:
        calls.append(to)
        begun.set()
        await go_on.wait()
        return f"sent to {to}"

    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        app = _graph(langgraph_node(replan, submit=_plan("ann")), InMemorySaver())
        running = asyncio.create_task(app.ainvoke({"task": "send"}, THREAD, durability="sync"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        go_on.set()
        state = await app.ainvoke(None, THREAD)
        assert len(await replan.tasks()) == 1
    assert state["result"] == "sent to ann"
    assert calls == ["ann"]


async def test_somebody_who_answers_past_the_graph_does_not_stop_it(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db", approval="all", interactive=True) as replan:
        app = _graph(langgraph_node(replan, submit=_plan("ann")), InMemorySaver())
        state = await app.ainvoke({"task": "send"}, THREAD)
        task_id = state["__interrupt__"][0].value["task_id"]
        await replan.approve(task_id)
        await replan.resume(task_id)
        state = await app.ainvoke(Command(resume=False), THREAD)  # too late to say no
    assert state["result"] == "sent to ann"
    assert sent == ["ann"]


async def test_a_yes_to_one_call_never_becomes_a_yes_to_another(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db", approval="all", interactive=True) as replan:
        app = _graph(langgraph_node(replan, submit=_plan("ann", "bob")), InMemorySaver())
        state = await app.ainvoke({"task": "send"}, THREAD)
        shown = state["__interrupt__"][0].value
        assert shown["parameters"] == {"to": "ann"}
        await replan.approve(shown["task_id"])
        await replan.resume(shown["task_id"])
        assert sent == ["ann"]
        for said in (True, True, {"id": shown["id"], "approved": True}):
            state = await app.ainvoke(Command(resume=said), THREAD)  # the first was meant for ann
            asked = state["__interrupt__"][0].value
            assert asked["parameters"] == {"to": "bob"}
            assert asked["id"] in asked["problem"]
            assert sent == ["ann"]
        state = await app.ainvoke(Command(resume={"id": asked["id"], "approved": True}), THREAD)
        assert sent == ["ann", "bob"]
    assert state["result"] == "sent to bob"


async def test_without_interrupts_a_waiting_task_fails_the_node_and_stays(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db", approval="all", interactive=True) as replan:
        app = _graph(langgraph_node(replan, submit=_plan("ann"), people="raise"))
        with pytest.raises(TaskFailure, match="waits for a person"):
            await app.ainvoke({"task": "send"})
        (task,) = await replan.tasks()
        assert task.status == "waiting"
    assert sent == []


async def test_a_state_without_a_task_says_so(tmp_path: Path) -> None:
    async with Replan(tools=[], db=tmp_path / "r.db") as replan:
        with pytest.raises(Exception, match="the state's field 'task'"):
            await _graph(langgraph_node(replan)).ainvoke({"result": 1})


def _tool_graph(run: Any, saver: Any = None) -> Any:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([run], handle_tool_errors=False))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    return graph.compile(checkpointer=saver)


def _wrapped_graph(run: Any, wrapper: Any, **compiled: Any) -> Any:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([run], handle_tool_errors=False, awrap_tool_call=wrapper))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    return graph.compile(checkpointer=InMemorySaver(), **compiled)


def _calls(*tasks: str) -> dict[str, Any]:
    """A message of a model that names every call alike."""
    calls = [
        {"name": "run_task", "args": {"task": one}, "id": "call_0", "type": "tool_call"} for one in tasks
    ]
    return {"messages": [AIMessage("", tool_calls=calls)]}


async def test_replan_is_a_tool_of_a_tool_node(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        run = as_langchain_tool(replan, submit=_plan("ann")(None))
        assert list(run.tool_call_schema.model_json_schema()["properties"]) == ["task"]  # type: ignore[union-attr]
        state = await _tool_graph(run).ainvoke(_calls("send"), THREAD)
        answer = state["messages"][-1]
        assert isinstance(answer, ToolMessage)
        assert answer.content == "sent to ann"
        assert answer.artifact["status"] == "succeeded"
        assert sent == ["ann"]
        failing = as_langchain_tool(replan, submit=_plan("nowhere")(None))
        call = _calls("send")["messages"][0].tool_calls[0]
        refused = await failing.ainvoke(call | {"id": "call-2"})
    assert refused.status == "error"
    assert "nowhere" in refused.content


@pytest.mark.parametrize("second", ["send", "send it once more"])
async def test_a_later_turn_of_a_thread_has_tasks_of_its_own(tmp_path: Path, second: str) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        app = _tool_graph(as_langchain_tool(replan, submit=_plan("ann")(None)), InMemorySaver())
        await app.ainvoke(_calls("send"), THREAD)
        await app.ainvoke(_calls(second), THREAD)
        assert len(await replan.tasks()) == 2
    assert sent == ["ann", "ann"]


@pytest.mark.parametrize("count", [2, 3])
async def test_calls_of_one_message_that_are_named_alike_are_each_made(tmp_path: Path, count: int) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        crashes = [RuntimeError("the process dies here")]

        async def dying(request: Any, execute: Any) -> Any:
            done = await execute(request)
            if crashes and len(sent) == count:
                raise crashes.pop()
            return done

        app = _wrapped_graph(as_langchain_tool(replan, submit=_plan("ann")(None)), dying)
        with pytest.raises(RuntimeError, match="dies here"):
            await app.ainvoke(_calls(*["send"] * count), THREAD)
        await app.ainvoke(None, THREAD)
        assert len(await replan.tasks()) == count, "and each is the same task afterwards"
    assert sent == ["ann"] * count


async def test_calls_that_are_named_alike_are_each_made_where_they_are_made_one_after_the_other(
    tmp_path: Path,
) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        turn = asyncio.Lock()

        async def one_by_one(request: Any, execute: Any) -> Any:
            async with turn:
                return await execute(request)

        app = _wrapped_graph(as_langchain_tool(replan, submit=_plan("ann")(None)), one_by_one)
        await app.ainvoke(_calls("send", "send"), THREAD)
        await app.ainvoke(_calls("send"), THREAD)
    assert sent == ["ann"] * 3


@pytest.mark.parametrize("count", [1, 2])
async def test_a_call_that_a_wrapper_makes_again_is_the_same_task(tmp_path: Path, count: int) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:

        async def twice(request: Any, execute: Any) -> Any:
            await execute(request)
            return await execute(request)

        app = _wrapped_graph(as_langchain_tool(replan, submit=_plan("ann")(None)), twice)
        await app.ainvoke(_calls(*["send"] * count), THREAD)
        assert len(await replan.tasks()) == count
    assert sent == ["ann"] * count


@pytest.mark.parametrize("count", [1, 2])
async def test_a_node_that_is_tried_again_finds_its_tasks(tmp_path: Path, count: int) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        failures = [ConnectionError("the node failed after its calls")]
        tools: Any = ToolNode([as_langchain_tool(replan, submit=_plan("ann")(None))])

        async def flaky(state: Any, config: RunnableConfig) -> Any:
            done = await tools.ainvoke(state, config)
            if failures:
                raise failures.pop()
            return done

        graph: Any = StateGraph(MessagesState)
        graph.add_node("tools", flaky, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
        graph.add_edge(START, "tools")
        app = graph.compile(checkpointer=InMemorySaver())
        await app.ainvoke(_calls(*["send"] * count), THREAD)
        assert failures == []
        assert len(await replan.tasks()) == count
    assert sent == ["ann"] * count


@pytest.mark.parametrize("count", [1, 2])
async def test_one_run_of_a_node_that_is_taken_up_twice_at_once_is_the_same_tasks(
    tmp_path: Path, count: int
) -> None:
    """A client that asks again while its first request is still at work."""
    sent: list[str] = []
    gate = asyncio.Event()

    @tool(effect="once")
    async def send(to: str) -> str:
        await gate.wait()
        sent.append(to)
        return f"sent to {to}"

    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        entered = [0]

        async def seen(request: Any, execute: Any) -> Any:
            entered[0] += 1
            if entered[0] == 2 * count:
                asyncio.get_running_loop().call_soon(gate.set)
            return await execute(request)

        app = _wrapped_graph(
            as_langchain_tool(replan, submit=_plan("ann")(None)), seen, interrupt_before=["tools"]
        )
        await app.ainvoke(_calls(*["send"] * count), THREAD)
        found = await asyncio.gather(*(app.ainvoke(None, THREAD) for _ in range(2)))
        assert len(await replan.tasks()) == count
    assert sent == ["ann"] * count
    for state in found:
        assert [one.content for one in state["messages"][-count:]] == ["sent to ann"] * count


async def test_a_graph_that_goes_on_after_a_crash_goes_on_with_the_same_task(tmp_path: Path) -> None:
    sent, send = _sender()
    async with Replan(tools=[send], db=tmp_path / "r.db") as replan:
        run = as_langchain_tool(replan, submit=_plan("ann")(None))
        inner = run.coroutine
        assert inner is not None
        crashes = [RuntimeError("the process dies here")]

        async def dying(task: str, tool_call_id: str, config: RunnableConfig) -> Any:
            done = await inner(task=task, tool_call_id=tool_call_id, config=config)
            if crashes:
                raise crashes.pop()
            return done

        app = _tool_graph(
            run.model_copy(update={"coroutine": dying, "handle_tool_error": False}), InMemorySaver()
        )
        with pytest.raises(RuntimeError, match="dies here"):
            await app.ainvoke(_calls("send"), THREAD)
        state = await app.ainvoke(None, THREAD)
        assert len(await replan.tasks()) == 1
    assert state["messages"][-1].content == "sent to ann"
    assert sent == ["ann"]


async def test_a_refused_key_is_an_interrupt_after_which_the_task_goes_on(tmp_path: Path) -> None:
    sent, send = _sender()
    refused = ModelUnavailable("refuses access (status 401)", setup=True, refused=True)
    plan = {"steps": [{"step_id": "s", "tool": "send", "parameters": {"to": "Ann"}}]}
    judged = {
        "overall_score": 95,
        "is_successful": True,
        "dimensions": dict.fromkeys(("completeness", "correctness", "efficiency", "reliability"), 95),
        "final_output": "sent",
    }
    model = ScriptedModel({"execution_plan": plan, "evaluation": [refused, judged]})
    async with Replan(model, [send], db=tmp_path / "log.db") as replan:
        graph = _graph(langgraph_node(replan), InMemorySaver())
        first = await graph.ainvoke({"task": "Send it to Ann"}, THREAD)
        (asked,) = first["__interrupt__"]
        assert "401" in asked.value["text"]
        done = await graph.ainvoke(Command(resume="go on"), THREAD)
    assert done["result"] == "sent"
    assert sent == ["Ann"]


async def test_a_steps_question_is_an_interrupt_whose_value_is_the_answer(tmp_path: Path) -> None:
    party = {"type": "object", "properties": {"guests": {"type": "integer"}}, "required": ["guests"]}

    def submit(state: Any) -> dict[str, Any]:
        steps = [
            {"step_id": "a", "tool": "ask_user", "parameters": {"question": "How many?", "schema": party}},
            {"step_id": "b", "tool": "ask_user", "parameters": {"question": "Sure?", "kind": "yes/no"}, "dependencies": ["a"]},
        ]  # fmt: skip
        return {"plan": {"steps": steps}, "evaluation": "steps"}

    async with Replan(db=tmp_path / "r.db", interactive=True) as replan:
        app = _graph(langgraph_node(replan, submit=submit), InMemorySaver())
        state = await app.ainvoke({"task": "send"}, THREAD)
        asked = state["__interrupt__"][0].value
        assert (asked["kind"], asked["text"], asked["answer_schema"]) == ("question", "How many?", party)
        state = await app.ainvoke(Command(resume={"guests": "many"}), THREAD)
        assert "right is JSON that fits" in state["__interrupt__"][0].value["problem"]
        state = await app.ainvoke(Command(resume={"guests": 3}), THREAD)
        assert state["__interrupt__"][0].value["text"] == "Sure?"
        state = await app.ainvoke(Command(resume=True), THREAD)
    assert state["result"] is True


async def test_fields_of_an_answer_may_be_called_as_those_around_it(tmp_path: Path) -> None:
    fields = {"id": {"type": "integer"}, "answer": {"enum": ["go", "stay"]}}
    given = {"id": 7, "answer": "go"}
    parameters = {
        "question": "Which?",
        "schema": {"type": "object", "properties": fields, "required": ["answer"]},
    }

    def submit(state: Any) -> dict[str, Any]:
        steps = [
            {"step_id": name, "tool": "ask_user", "parameters": parameters, "dependencies": [*"ab"[:n]]}
            for n, name in enumerate("abc")
        ]
        return {"plan": {"steps": steps}, "evaluation": "steps"}

    async with Replan(db=tmp_path / "r.db", interactive=True) as replan:
        app = _graph(langgraph_node(replan, submit=submit), InMemorySaver())
        state = await app.ainvoke({"task": "send"}, THREAD)
        state = await app.ainvoke(Command(resume=given), THREAD)
        asked = state["__interrupt__"][0].value
        assert "problem" not in asked, "the first one is answered by its own fields"
        around = {"id": asked["id"], "answer": {"answer": "stay"}}
        state = await app.ainvoke(Command(resume=around), THREAD)
        assert "problem" not in state["__interrupt__"][0].value
        state = await app.ainvoke(Command(resume={"answer": "stay"}), THREAD)
        result = await replan.result((await replan.tasks())[0].task_id)
    assert "__interrupt__" not in state
    assert [one.output for one in result.steps] == [given, {"answer": "stay"}, {"answer": "stay"}]
