"""What tools of other frameworks say and do that plain functions do not: each in the framework's own terms."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import agents
import pydantic.v1 as pydantic_v1
import pytest
from agents import FunctionTool, RunContextWrapper, ToolGuardrailFunctionOutput, ToolOutputText, function_tool
from agents.tool_guardrails import tool_input_guardrail, tool_output_guardrail
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    BaseToolkit,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    ToolException,
)
from langchain_core.tools import Tool as LangChainTool
from langchain_core.tools import (
    tool as lc_tool,
)
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel, Field
from pydantic_ai import (
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    ModelRetry,
    RunContext,
    Tool,
    ToolFailed,
    ToolReturn,
)
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import CombinedToolset, ExternalToolset, FunctionToolset

from replan import Replan
from replan.core.failures.faults import classify
from replan.core.references.binary import from_data_url
from replan.errors import InputError, ToolCallError
from replan.ports import Progress, ToolCall
from replan.tools import Catalog, current
from replan.tools.frameworks import LangChainSource, OpenAiAgentsSource, PydanticAiSource, adopt, gather

pytestmark = pytest.mark.anyio
agents.set_tracing_disabled(True)


async def call(source: Any, tool_id: str, *, report: Any = None, attempt: int = 1, **parameters: Any) -> Any:
    return await source.call(
        ToolCall(tool_id, parameters, "key-1", task_id="task-1", step_id="s", attempt=attempt, report=report)
    )


async def spec_of(source: Any, tool_id: str = "t") -> Any:
    return {spec.id: spec for spec in await source.tools()}[tool_id]


async def error_of(source: Any, tool_id: str = "t", **parameters: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        await call(source, tool_id, **parameters)
    return caught.value


@lc_tool
def lc_one(n: int) -> int:
    """One more."""
    return n + 1


@lc_tool
def lc_two(n: int) -> int:
    """Two more."""
    return n + 2


def pa_one(n: int) -> int:
    """One more."""
    return n + 1


@function_tool
def oa_one(n: int) -> int:
    """One more."""
    return n + 1


# ── whose it is ───────────────────────────────────────────────────────────────


async def test_each_framework_becomes_one_source_and_the_rest_is_left() -> None:
    other, text = object(), "tools.py"
    sources, rest = gather(
        [lc_one, text, Tool(pa_one), [lc_two, pa_one], oa_one, FunctionToolset(), other, []]
    )
    assert [source.name for source in sources] == ["langchain", "pydantic_ai", "openai_agents"]
    assert rest == [text, pa_one, other, []]
    assert [spec.id for spec in await sources[0].tools()] == ["lc_one", "lc_two"]
    catalog = Catalog(sources)
    assert await call(catalog, "oa_one", n=1) == 2
    await catalog.aclose()


def test_what_is_no_tool_of_a_framework_is_not_adopted() -> None:
    for thing in (pa_one, "x", None, [], [lc_one, oa_one], [lc_one, 1], agents.WebSearchTool(), BaseTool):
        assert adopt(thing) is None
    for thing in (lc_one, [lc_one, lc_two], Tool(pa_one), FunctionToolset(), oa_one):
        assert adopt(thing) is not None


def test_recognising_imports_no_framework(tmp_path: Path) -> None:
    code = (
        "import sys; from replan.tools.frameworks import adopt, gather\n"
        "assert adopt(len) is None and gather([1, [2]]) == ([], [1, [2]])\n"
        "import replan.inside\n"
        "found = {'langchain_core', 'langgraph', 'agents', 'pydantic_ai', 'openai'} & set(sys.modules)\n"
        "assert not found, found\n"
        "for name in ('langchain_core', 'langgraph', 'agents', 'pydantic_ai'): sys.modules[name] = None\n"
        "from replan.errors import InputError\n"
        "import replan.tools.frameworks as ours, replan.inside as inside\n"
        "for home, name in [(ours, each) for each in ours._HOMES] + [(inside, each) for each in inside._HOMES]:\n"
        "    try: getattr(home, name)\n"
        "    except InputError as error: assert 'pip install' in str(error), error\n"
        "    else: raise SystemExit(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_a_whole_task_uses_tools_of_all_three(tmp_path: Path) -> None:
    sources, _ = gather([lc_one, Tool(pa_one), oa_one])
    steps = [
        {"step_id": "a", "tool": "lc_one", "parameters": {"n": 1}},
        {"step_id": "b", "tool": "pa_one", "parameters": {"n": "${a.output}"}},
        {"step_id": "c", "tool": "oa_one", "parameters": {"n": "${b.output}"}},
    ]
    async with Replan(tools=sources, db=tmp_path / "r.db") as replan:
        result = await replan.run("three more", plan={"steps": steps}, evaluation="steps")
    assert result.output == 4


# ── effects ───────────────────────────────────────────────────────────────────


def _meta(**metadata: Any) -> list[Any]:
    lc = StructuredTool.from_function(func=pa_one, name="t", metadata=metadata or None)
    return [LangChainSource(lc), PydanticAiSource(Tool(pa_one, name="t", metadata=metadata or None))]


async def test_an_effect_is_once_unless_somebody_says_otherwise() -> None:
    oa = function_tool(pa_one, name_override="t")
    for source in [*_meta(), OpenAiAgentsSource(oa)]:
        assert (await spec_of(source)).effect == "once"
    for source in _meta(replan_effect="reads"):
        assert (await spec_of(source)).effect == "reads"
    lc = StructuredTool.from_function(func=pa_one, name="t", tags=["replan_effect:repeatable"])
    assert (await spec_of(LangChainSource(lc))).effect == "repeatable"
    assert (await spec_of(OpenAiAgentsSource(oa, effects={"t": "reads"}, volatile=["t"]))).volatile
    hinted = Tool(pa_one, name="t", metadata={"annotations": {"readOnlyHint": True}})
    assert (await spec_of(PydanticAiSource(hinted))).effect == "reads"
    assert (await spec_of(PydanticAiSource(hinted, effects={"t": "once"}))).effect == "once"


async def test_a_wrong_effect_is_refused_and_a_wrong_name_reported() -> None:
    with pytest.raises(
        InputError, match="'none' is not an effect; it has to be one of reads, repeatable, once"
    ):
        LangChainSource(lc_one, effects={"lc_one": "none"})  # type: ignore[dict-item]
    source = LangChainSource(lc_one, effects={"lc_on": "reads"})
    await source.tools()
    (problem,) = source.problems()
    assert "there is no such tool; there are: lc_one" in problem.message
    for bad in _meta(replan_effect="some"):
        assert await bad.tools() == []
        assert "'some' is not an effect" in bad.problems()[0].message


# ── LangChain ─────────────────────────────────────────────────────────────────


def _lc(function: Any, **options: Any) -> LangChainSource:
    inject = options.pop("inject", None)
    return LangChainSource(lc_tool("t", description="x", **options)(function), inject=inject)


async def test_schemas_of_both_pydantics_and_of_a_dict() -> None:
    class New(BaseModel):
        n: int = Field(ge=1)

    class Old(pydantic_v1.BaseModel):
        n: int = pydantic_v1.Field(ge=1)

    given = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    for schema in (New, Old, given):
        source = LangChainSource(StructuredTool(name="t", description="x", args_schema=schema, func=pa_one))
        assert (await spec_of(source)).parameters["required"] == ["n"]
        assert await call(source, "t", n=3) == 4
        error = await error_of(source, n=0)
        assert (error.kind, error.happened) == ("parameter", "no")


async def test_what_only_the_model_of_a_tool_refuses_is_refused_before_the_call() -> None:
    ran: list[int] = []

    class Even(BaseModel):
        n: Annotated[int, Field(multiple_of=2)]

        def model_post_init(self, _: Any) -> None:
            if self.n == 4:
                raise ValueError("4 is taken")

    source = LangChainSource(StructuredTool(name="t", description="x", args_schema=Even, func=ran.append))
    error = await error_of(source, n=4)
    assert (error.kind, error.happened, ran) == ("parameter", "no", [])
    assert "4 is taken" in str(error)


async def test_injected_arguments_are_no_part_of_the_schema() -> None:
    def with_id(n: int, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        return ToolMessage(f"{n} {call_id}", tool_call_id=call_id, artifact={"n": n})

    def with_config(n: int, config: RunnableConfig) -> str:
        return str((config.get("metadata") or {})["replan_key"])

    def with_runtime(n: int, runtime: ToolRuntime) -> Any:
        runtime.stream_writer("halfway")
        return [runtime.tool_call_id, runtime.state]

    def with_state(n: int, state: Annotated[dict[str, Any], InjectedState]) -> Any:
        return state["user"]

    def with_default(n: int, who: Annotated[str, InjectedToolArg] = "nobody") -> str:
        return who

    seen: list[Progress] = []
    for function, expected in (
        (with_id, {"content": "1 key-1", "artifact": {"n": 1}}),
        (with_config, "key-1"),
        (with_runtime, ["key-1", {}]),
        (with_default, "nobody"),
    ):
        source = _lc(function)
        assert list((await spec_of(source)).parameters["properties"]) == ["n"]
        assert await call(source, "t", n=1, report=seen.append) == expected
    assert seen == [Progress("halfway")]
    lacking = LangChainSource([lc_tool("t", description="x")(with_state), lc_one])
    assert [spec.id for spec in await lacking.tools()] == ["lc_one"]
    assert "'state' is injected by LangChain's agents" in lacking.problems()[0].message
    given = _lc(with_state, inject={"state": {"user": "ann"}})
    assert list((await spec_of(given)).parameters["properties"]) == ["n"]
    assert await call(given, "t", n=1) == "ann"


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (False, "no such file"),
        (True, "no such file"),
        ("it failed", "it failed"),
        (lambda error: f"sorry: {error}", "sorry: no such file"),
    ],
)
async def test_an_error_that_is_handled_is_an_error_all_the_same(handler: Any, words: str) -> None:
    def read(path: str) -> str:
        raise ToolException("no such file")

    tool = StructuredTool.from_function(func=read, name="t", description="x", handle_tool_error=handler)
    source = LangChainSource(tool)
    error = await error_of(source, path="x")
    assert (error.kind, str(error)) == ("tool", words)
    assert tool.handle_tool_error is handler


async def test_a_message_that_says_error_is_an_error_and_a_command_is_refused() -> None:
    def failed(call_id: Annotated[str, InjectedToolCallId]) -> Any:
        return ToolMessage("went wrong", tool_call_id=call_id, status="error")

    assert str(await error_of(_lc(failed))) == "went wrong"
    error = await error_of(_lc(lambda: Command(update={"x": 1})))
    assert (error.kind, error.happened) == ("output", "unknown")
    assert "LangGraph" in str(error)


async def test_an_artifact_is_kept_and_never_costs_the_content() -> None:
    source = _lc(lambda: ("two rows", [{"a": 1}, {"a": 2}]), response_format="content_and_artifact")
    assert await call(source, "t") == {"content": "two rows", "artifact": [{"a": 1}, {"a": 2}]}
    source = _lc(lambda: ("a thing", object()), response_format="content_and_artifact")
    assert await call(source, "t") == {
        "content": "a thing", "artifact": "<builtins.object, which has no JSON form>"
    }  # fmt: skip


async def test_tools_of_one_text_classes_and_toolkits() -> None:
    class Shout(BaseTool):
        name: str = "shout"
        description: str = "Louder."

        def _run(self, text: str) -> str:
            return text.upper()

    class Kit(BaseToolkit):
        def get_tools(self) -> list[BaseTool]:
            return [Shout(), lc_one]

    class Broken(BaseToolkit):
        def get_tools(self) -> list[BaseTool]:
            raise RuntimeError("no licence")

    single = LangChainTool(name="single", description="x", func=lambda text: text[::-1])
    source = LangChainSource([Kit(), single, lc_one, Broken()])
    assert [spec.id for spec in await source.tools()] == ["shout", "lc_one", "single"]
    assert await call(source, "shout", text="a") == "A"
    assert await call(source, "single", tool_input="ab") == "ba"
    problems = {problem.tool: problem.message for problem in source.problems()}
    assert "no licence" in problems["Broken"]
    assert "the first one is taken" in problems["lc_one"]


async def test_context_variables_reach_a_tool_in_a_thread() -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    user.set("ann")
    for source in (
        _lc(lambda: user.get()),
        PydanticAiSource(Tool(lambda: user.get(), name="t")),
        OpenAiAgentsSource(function_tool(lambda: user.get(), name_override="t")),
    ):
        assert await call(source, "t") == "ann"


# ── Pydantic AI ───────────────────────────────────────────────────────────────


async def test_a_tool_finds_a_context_without_a_model() -> None:
    async def t(ctx: RunContext[str], n: int) -> Any:
        return [ctx.deps, ctx.tool_call_id, ctx.tool_name, ctx.retry, n]

    async def asks(ctx: RunContext[str]) -> Any:
        from pydantic_ai.direct import model_request
        from pydantic_ai.messages import ModelRequest

        return await model_request(ctx.model, [ModelRequest.user_text_prompt("hello")])  # type: ignore[arg-type]

    source = PydanticAiSource([Tool(t), Tool(asks)], deps="the deps")
    assert await call(source, "t", n=1, attempt=3) == ["the deps", "key-1", "t", 2, 1]
    with pytest.raises(Exception, match="without a model"):
        await call(source, "asks")
    await source.aclose()


async def test_toolsets_of_every_kind_keep_their_names() -> None:
    base = FunctionToolset([pa_one])
    toolset = CombinedToolset(
        [
            base.prefixed("a"),
            base.renamed({"renamed": "pa_one"}),
            base.prefixed("b").filtered(lambda ctx, definition: False),
            base.prefixed("c").prepared(lambda ctx, definitions: definitions),
            base.prefixed("d").approval_required(),
        ]
    )
    source = PydanticAiSource(toolset)
    specs = {spec.id: spec for spec in await source.tools()}
    assert list(specs) == ["a_pa_one", "renamed", "c_pa_one", "d_pa_one"]
    assert [spec.requires_approval for spec in specs.values()] == [False, False, False, True]
    for tool_id in specs:
        assert await call(source, tool_id, n=1) == 2
    await source.aclose()


async def test_a_toolset_is_entered_and_left_once_in_one_task() -> None:
    where: list[Any] = []

    class Session(FunctionToolset[Any]):
        async def __aenter__(self) -> Any:
            where.append(asyncio.current_task())
            return self

        async def __aexit__(self, *_: Any) -> None:
            where.append(asyncio.current_task())

    class Broken(FunctionToolset[Any]):
        async def __aenter__(self) -> Any:
            raise ConnectionError("the server is down")

    source = PydanticAiSource([Session([pa_one]), Broken()])
    assert [spec.id for spec in await source.tools()] == ["pa_one"]
    await source.tools()
    assert "the server is down" in source.problems()[0].message
    await source.aclose()
    assert len(where) == 2
    assert where[0] is where[1] is not asyncio.current_task()
    with pytest.raises(ConnectionError):
        await PydanticAiSource(Broken()).tools()


def _raises(error: Exception) -> Any:
    def t() -> None:
        raise error

    return PydanticAiSource(Tool(t))


@pytest.mark.parametrize(
    ("error", "kind", "happened", "words"),
    [
        (ModelRetry("use a city"), "tool", None, "use a city"),
        (ToolFailed("no such city"), "tool", None, "no such city"),
        (ApprovalRequired(), "approval", "no", "requires_approval=True"),
        (CallDeferred(), "tool", "unknown", "defers its result"),
    ],
)
async def test_what_a_pydantic_ai_tool_raises(
    error: Exception, kind: str, happened: str | None, words: str
) -> None:
    found = await error_of(_raises(error))
    assert (found.kind, found.happened) == (kind, happened)
    assert words in str(found)


async def test_a_validator_speaks_before_the_call() -> None:
    ran: list[int] = []

    def valid(ctx: RunContext[Any], n: int) -> None:
        if n == 13:
            raise ModelRetry("not 13")

    def t(n: int) -> None:
        ran.append(n)

    error = await error_of(PydanticAiSource(Tool(t, args_validator=valid)), n=13)
    assert (error.kind, error.happened, ran) == ("parameter", "no", [])
    assert "not 13" in str(error)


async def test_a_timeout_of_the_toolset_is_a_timeout() -> None:
    async def t() -> None:
        await asyncio.Event().wait()

    source = PydanticAiSource(Tool(t, timeout=0.01))
    assert (await spec_of(source)).timeout_secs == 0.01
    error = await error_of(source)
    assert (error.kind, error.happened) == ("timeout", "unknown")
    await source.aclose()


async def test_who_needs_approval_says_so_and_external_tools_are_left_out() -> None:
    external = ExternalToolset([ToolDefinition(name="elsewhere")])
    source = PydanticAiSource([Tool(pa_one, name="t", requires_approval=True), external])
    assert [(spec.id, spec.requires_approval) for spec in await source.tools()] == [("t", True)]
    assert source.problems()[0].tool == "elsewhere"
    await source.aclose()


async def test_results_of_pydantic_ai_tools() -> None:
    image = BinaryContent(b"\x89PNG", media_type="image/png")

    class City(BaseModel):
        name: str

    def of(value: Any) -> Any:
        return PydanticAiSource(Tool(lambda: value, name="t"))

    assert from_data_url(await call(of(image), "t")) == ("image/png", b"\x89PNG")
    assert await call(of([City(name="Rome"), {"of": image}]), "t") == [
        {"name": "Rome"}, {"of": "data:image/png;base64,iVBORw=="}
    ]  # fmt: skip
    assert await call(of(ToolReturn(3)), "t") == 3
    whole = await call(of(ToolReturn(3, content=["see", image], metadata={"a": 1})), "t")
    assert whole == {
        "return_value": 3, "content": ["see", "data:image/png;base64,iVBORw=="], "metadata": {"a": 1}
    }  # fmt: skip


async def test_a_sequential_tool_runs_alone() -> None:
    running: set[str] = set()
    together: list[set[str]] = []

    async def work(name: str) -> None:
        running.add(name)
        for _ in range(5):
            await asyncio.sleep(0)
            together.append(set(running))
        running.discard(name)

    async def alone(n: int) -> None:
        await work(f"alone {n}")

    async def any_time(n: int) -> None:
        await work(f"any {n}")

    source = PydanticAiSource([Tool(alone, sequential=True), Tool(any_time)])
    await source.tools()
    calls = [call(source, name, n=n) for n in range(4) for name in ("any_time", "alone")]
    tasks = [asyncio.create_task(each) for each in calls]
    await asyncio.sleep(0)
    tasks[-1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(len(each) == 1 for each in together if any(name.startswith("alone") for name in each))
    assert any(len(each) > 1 for each in together)
    await asyncio.wait_for(call(source, "alone", n=9), 10)  # a cancelled one has given its turn back
    await source.aclose()


async def test_a_list_that_hangs_keeps_nobody_else_up() -> None:
    left = asyncio.Event()

    class Slow(FunctionToolset[Any]):
        async def __aenter__(self) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

    class SlowKit(BaseToolkit):
        def get_tools(self) -> list[BaseTool]:
            while not current().wait(0.01) and not left.is_set():
                pass
            return []

    catalog = Catalog(
        [PydanticAiSource(Slow()), LangChainSource(SlowKit()), OpenAiAgentsSource(oa_one)],
        list_timeout_secs=0.1,
    )
    assert [spec.id for spec in await catalog.tools()] == ["oa_one"]
    assert ["did not list" in problem.message for problem in catalog.problems] == [True, True]
    await catalog.aclose()  # until then it is waited for
    await asyncio.wait_for(left.wait(), 10)


# ── OpenAI Agents ─────────────────────────────────────────────────────────────


async def test_a_strict_schema_is_given_as_it_is_accepted() -> None:
    @function_tool(name_override="t")
    def t(a: int, b: int | None, c: str = "c", d: str | None = None) -> list[Any]:
        return [a, b, c, d]

    source = OpenAiAgentsSource(t)
    spec = await spec_of(source)
    assert spec.parameters["required"] == ["a"]
    assert spec.parameters["additionalProperties"] is False
    assert await call(source, "t", a=1, b=None) == [1, None, "c", None]
    assert await call(source, "t", a=1, b=2, c="x", d="y") == [1, 2, "x", "y"]

    got: list[str] = []

    async def invoke(ctx: Any, arguments: str) -> str:
        got.append(arguments)
        return "ok"

    schema = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": ["integer", "null"]}}}
    raw = FunctionTool("raw", "x", schema, invoke)
    assert await call(OpenAiAgentsSource(raw), "raw", q="é") == "ok"
    assert got == ['{"q": "é", "n": null}']


@pytest.mark.parametrize("handler", ["default", "own", "none"])
async def test_a_failure_is_not_turned_into_text(handler: str) -> None:
    def boom() -> str:
        raise ValueError("no such row")

    options: Any = {
        "own": {"failure_error_function": lambda ctx, e: "fine!"},
        "none": {"failure_error_function": None},
    }
    tool = function_tool(boom, name_override="t", **options.get(handler, {}))
    source = OpenAiAgentsSource(tool)
    with pytest.raises(ValueError, match="no such row"):
        await call(source, "t")
    if handler == "own":  # the user's own object is as it was
        from agents.tool_context import ToolContext

        seen = ToolContext(None, tool_name="t", tool_call_id="c", tool_arguments="{}")
        assert await tool.on_invoke_tool(seen, "{}") == "fine!"


async def test_approval_enabling_timeout_and_context() -> None:
    @function_tool(name_override="t", needs_approval=True)
    async def t(ctx: RunContextWrapper[Any]) -> str:
        return f"{ctx.context} {ctx.tool_call_id}"  # type: ignore[attr-defined]

    off = function_tool(pa_one, name_override="off", is_enabled=lambda ctx, agent: False)
    source = OpenAiAgentsSource([t, off], context="mine")
    assert [(spec.id, spec.requires_approval) for spec in await source.tools()] == [("t", True)]
    assert "is_enabled" in source.problems()[0].message
    assert await call(source, "t") == "mine key-1"


async def test_guardrails_are_kept_to() -> None:
    ran: list[str] = []

    @tool_input_guardrail
    def no_secrets(data: Any) -> ToolGuardrailFunctionOutput:
        if "secret" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.reject_content("no secrets")
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    def no_numbers(data: Any) -> ToolGuardrailFunctionOutput:
        if data.output == "7":
            return ToolGuardrailFunctionOutput.raise_exception()
        return ToolGuardrailFunctionOutput.allow()

    @function_tool(name_override="t", tool_input_guardrails=[no_secrets], tool_output_guardrails=[no_numbers])
    def t(text: str) -> str:
        ran.append(text)
        return text

    source = OpenAiAgentsSource(t)
    assert await call(source, "t", text="hello") == "hello"
    error = await error_of(source, text="secret")
    assert (error.happened, ran) == ("no", ["hello"])
    assert "no secrets" in str(error)
    error = await error_of(source, text="7")
    assert (error.kind, error.happened) == ("output", "unknown")


async def test_results_of_agents_tools() -> None:
    source = OpenAiAgentsSource(function_tool(lambda: [ToolOutputText(text="a"), "b"], name_override="t"))
    assert await call(source, "t") == ["a", "b"]


async def test_no_trace_is_begun() -> None:
    seen: list[str] = []

    class Watch(agents.TracingProcessor):
        def on_trace_start(self, trace: Any) -> None:
            seen.append("trace")

        def on_trace_end(self, trace: Any) -> None: ...

        def on_span_start(self, span: Any) -> None:
            seen.append("span")

        def on_span_end(self, span: Any) -> None: ...

        def shutdown(self) -> None: ...

        def force_flush(self) -> None: ...

    agents.set_trace_processors([Watch()])  # and no exporter at all
    agents.set_tracing_disabled(False)
    try:
        assert await call(OpenAiAgentsSource(oa_one), "oa_one", n=1) == 2
    finally:
        agents.set_tracing_disabled(True)
    assert seen == []


def test_a_source_refuses_what_is_not_its_own() -> None:
    for source, wrong in (
        (LangChainSource, 1),
        (PydanticAiSource, pa_one),
        (OpenAiAgentsSource, agents.WebSearchTool()),
    ):
        made: Sequence[Any] = [wrong]
        with pytest.raises(InputError, match="is no"):
            source(made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said",
    ["Invalid JSON input for tool notify: {to: Ann", "Invalid JSON input for tool pay", "no final response"],
)
@pytest.mark.parametrize("awaited", [True, False])
async def test_what_an_agent_within_a_tool_says_of_its_parameters_is_not_said_of_the_tools(
    said: str, awaited: bool
) -> None:
    ran: list[str] = []

    async def pays(to: str) -> str:
        ran.append(to)
        raise agents.ModelBehaviorError(said)

    def pays_at_once(to: str) -> str:
        ran.append(to)
        raise agents.ModelBehaviorError(said)

    made = function_tool(pays if awaited else pays_at_once, name_override="pay")
    source = OpenAiAgentsSource([made], errors_are_clean=False)
    (spec,) = await source.tools()
    try:
        await call(source, "pay", to="Ann")
        pytest.fail("it raises")
    except agents.ModelBehaviorError as error:
        fault = classify(error, spec)
    await source.aclose()
    assert (ran, fault.happened) == (["Ann"], "unknown")


async def test_a_parameter_with_an_alias_is_offered_and_given_by_it() -> None:
    class Route(BaseModel):
        fr: str = Field(alias="from", description="where it begins")
        to: str = "Oslo"

    @lc_tool(args_schema=Route)
    def route(fr: str, to: str = "Oslo") -> str:
        """Find a way."""
        return f"{fr} to {to}"

    class ByName(BaseModel):
        model_config = {"populate_by_name": True}
        fr: str = Field(alias="from")

    @lc_tool(args_schema=ByName)
    def by_name(fr: str) -> str:
        """Find a way."""
        return fr

    source = LangChainSource([route, by_name])
    specs = {spec.id: spec.parameters for spec in await source.tools()}
    assert (list(specs["route"]["properties"]), specs["route"]["required"]) == (["from", "to"], ["from"])
    assert await call(source, "route", **{"from": "Rome"}) == "Rome to Oslo"
    (name,) = specs["by_name"]["properties"]
    assert await call(source, "by_name", **{name: "Rome"}) == "Rome"
    await source.aclose()
