"""Function tools of the OpenAI Agents SDK as a `ToolSource` (openai-agents ≥ 0.24)."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from agents import Agent, FunctionTool, ModelBehaviorError, ToolGuardrailFunctionOutput, ToolOutputText
from agents.tool import set_function_tool_failure_error_function
from agents.tool_context import ToolContext as AgentsContext
from agents.tool_guardrails import ToolInputGuardrailData, ToolOutputGuardrailData

from replan.core.types import Effect, JsonObject, ToolSpec
from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools.frameworks.adopted import AdoptedSource, AdoptedTool, result_schema
from replan.tools.functions.context import ToolContext
from replan.tools.functions.output import to_plain
from replan.tools.functions.threads import DaemonThreads


class OpenAiAgentsSource(AdoptedSource):
    """Objects that `@function_tool` makes, and other `FunctionTool`s, as a `ToolSource`.

    `context`: what tools find as `ctx.context`. An error is an error: `failure_error_function`, which makes a text of
    it, is passed over. Guardrails of the tool are kept to; `is_enabled` is asked when the tools are listed;
    `needs_approval` (also a function) makes a tool that a person has to agree to. In a strict schema every parameter is
    required: here those with a default, or that may be null, may be left out as well.
    Async functions run in the event loop, all others in daemon threads. No trace is begun.
    The effect comes from `effects`, or the MCP annotations of a tool made from an MCP server; else it is `once`.
    """

    def __init__(
        self,
        tools: FunctionTool | Iterable[FunctionTool],
        name: str = "openai_agents",
        *,
        effects: Mapping[str, Effect] | None = None,
        volatile: Collection[str] = (),
        errors_are_clean: bool | None = None,
        context: Any = None,
    ) -> None:
        super().__init__(name, effects=effects, volatile=volatile, errors_are_clean=errors_are_clean)
        self._given = [tools] if isinstance(tools, FunctionTool) else list(tools)
        for each in self._given:
            if not isinstance(each, FunctionTool):
                raise InputError(
                    f"a {type(each).__name__} is not a function tool of the Agents SDK ({each!r:.80}): what OpenAI runs "
                    "itself (web search and the like) cannot be called from here"
                )
        self._context = context
        self._agent: Agent[Any] = Agent(name="replan")  # whom guardrails and `is_enabled` are told of

    async def _list(self) -> dict[str, AdoptedTool]:
        listed: dict[str, AdoptedTool] = {}
        for tool in self._given:
            name = tool.qualified_name
            try:
                enabled = await self._enabled(tool)
            except Exception as error:  # noqa: BLE001
                self._leave_out(name, f"left out: its is_enabled failed ({type(error).__name__}: {error})")
                continue
            if not enabled:
                self._leave_out(name, "left out: its is_enabled says no")
                continue
            self._keep(listed, name, lambda tool=tool: self._adopt(tool))  # type: ignore[misc]
        return listed

    async def _enabled(self, tool: FunctionTool) -> bool:
        if isinstance(tool.is_enabled, bool):
            return tool.is_enabled
        from agents.run_context import RunContextWrapper

        said = tool.is_enabled(RunContextWrapper(self._context), self._agent)
        return bool(await said if inspect.isawaitable(said) else said)

    def _adopt(self, tool: FunctionTool) -> AdoptedTool:
        function = getattr(tool, "__wrapped__", None)
        output = tool.output_json_schema or (result_schema(function) if function is not None else None)
        spec = self._spec(
            tool.qualified_name,
            tool.description,
            _relaxed(tool),
            output=output,
            annotations=tool.mcp_annotations,
            timeout_secs=tool.timeout_seconds,
            requires_approval=tool.needs_approval is not False,
        )
        return _FunctionTool(spec, tool, self._context, self._agent, self._threads)


class _FunctionTool(AdoptedTool):
    def __init__(
        self, spec: ToolSpec, tool: FunctionTool, context: Any, agent: Agent[Any], threads: DaemonThreads
    ) -> None:
        super().__init__(spec)
        self._tool = set_function_tool_failure_error_function(copy.copy(tool), None)
        self._context = context
        self._agent = agent
        self._threads = threads
        self._in_thread = getattr(tool.on_invoke_tool, "__agents_sync_function_tool__", False) is True

    async def invoke(self, call: ToolCall, context: ToolContext) -> Any:
        arguments = json.dumps(_filled(self._tool, call.parameters), ensure_ascii=False)
        seen = AgentsContext(
            self._context,
            tool_name=self._tool.name,
            tool_call_id=call.key,
            tool_arguments=arguments,
            agent=self._agent,
        )
        for guard in self._tool.tool_input_guardrails or ():
            verdict = await guard.run(ToolInputGuardrailData(context=seen, agent=self._agent))
            if (words := _objection(verdict)) is not None:
                raise ToolCallError(
                    f"guardrail {guard.get_name()!r} of {self.spec.id!r}: {words}", happened="no"
                )
        try:
            if self._in_thread:
                work = context.in_time(lambda: _run_here(self._tool, seen, arguments), self.spec.id)
                result = await self._threads.run(work, context.goes_on)
            else:
                result = await self._tool.on_invoke_tool(seen, arguments)
        except ModelBehaviorError as error:
            if not _about_the_parameters(error):
                raise
            raise ToolCallError(
                f"the parameters do not fit tool {self.spec.id!r}: {error}", kind="parameter", happened="no"
            ) from error
        for output_guard in self._tool.tool_output_guardrails or ():
            verdict = await output_guard.run(
                ToolOutputGuardrailData(context=seen, agent=self._agent, output=result)
            )
            if (words := _objection(verdict)) is not None:
                raise ToolCallError(
                    f"the tool ran, but guardrail {output_guard.get_name()!r} of {self.spec.id!r} holds back its result: {words}",
                    kind="output",
                    happened="unknown",
                )
        return _plain(result, structured=self._tool.output_json_schema is not None)


_READERS = ("agents.tool", "agents.agent", "agents.mcp.util", "asyncio", "concurrent", "threading", "replan")
"""Modules through which the parameters of a call pass before its function begins."""


def _about_the_parameters(error: ModelBehaviorError) -> bool:
    """True if the tool could not read its parameters. Where it was raised tells it: a function that has an agent of its own at
    work may raise the same in the middle."""
    frame = error.__traceback__
    while frame is not None:
        module = str(frame.tb_frame.f_globals.get("__name__"))
        if not any(module == known or module.startswith(f"{known}.") for known in _READERS):
            return False
        frame = frame.tb_next
    return str(error).startswith("Invalid JSON input for tool")


class _Inline(ThreadPoolExecutor):
    """Runs what is submitted at once, where it is submitted: in the thread that is there for the call already."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  (passed on)
            future.set_exception(error)
        return future


def _run_here(tool: FunctionTool, seen: AgentsContext[Any], arguments: str) -> Any:
    """Invoke a tool that hands its function to the loop's threads, with a loop whose thread is this one.

    The shared loop has few threads, and they are no daemons: a tool that hangs would keep them all.
    """

    async def main() -> Any:
        asyncio.get_running_loop().set_default_executor(_Inline(1))
        return await tool.on_invoke_tool(seen, arguments)

    with asyncio.Runner() as runner:
        return runner.run(main())


def _objection(verdict: ToolGuardrailFunctionOutput) -> str | None:
    behavior: Any = verdict.behavior
    if behavior["type"] == "allow":
        return None
    return str(behavior.get("message") or verdict.output_info or "the call is not allowed")


def _may_be_left_out(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type")
    if "default" in schema or kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    return any(_is_null(choice) for key in ("anyOf", "oneOf") for choice in schema.get(key, ()))


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _relaxed(tool: FunctionTool) -> JsonObject:
    schema = dict(tool.params_json_schema)
    schema.pop("title", None)
    if getattr(tool, "__wrapped__", None) is not None:
        schema.setdefault("additionalProperties", False)  # the SDK drops them: better to hear of a wrong name
    if tool.strict_json_schema:
        properties = schema.get("properties", {})
        schema["required"] = [
            name for name in schema.get("required", ()) if not _may_be_left_out(properties.get(name))
        ]
    return schema


def _filled(tool: FunctionTool, parameters: JsonObject) -> JsonObject:
    """The parameters as a strict schema wants them: what was left out is there, as its default or null."""
    if not tool.strict_json_schema or getattr(tool, "__wrapped__", None) is not None:
        return parameters  # a decorated function has its own defaults
    properties = tool.params_json_schema.get("properties", {})
    missing = {
        name: properties[name].get("default")
        for name in tool.params_json_schema.get("required", ())
        if name not in parameters and name in properties
    }
    return {**parameters, **missing}


def _plain(result: Any, *, structured: bool) -> Any:
    if isinstance(result, ToolOutputText):
        return to_plain(result.text)
    if isinstance(result, list):
        return [_plain(each, structured=False) for each in result]
    if structured and isinstance(result, str):
        try:
            return json.loads(result)
        except ValueError:
            return result
    return to_plain(result)
