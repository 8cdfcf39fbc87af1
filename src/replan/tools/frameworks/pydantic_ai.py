"""Pydantic AI tools and toolsets as a `ToolSource` (pydantic-ai ≥ 2.68)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_ai import Agent, ModelRetry, RunContext, Tool, ToolFailed
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.messages import BinaryContent, ToolReturn
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import to_json

from replan.core.references.binary import data_url
from replan.core.types import Effect
from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools.frameworks.adopted import AdoptedSource, AdoptedTool
from replan.tools.frameworks.pydantic_ai_run import Executor, Turns, asks_first, run_context
from replan.tools.frameworks.pydantic_ai_toolset import OpenToolset
from replan.tools.functions.context import ToolContext
from replan.tools.functions.output import to_plain


class PydanticAiSource(AdoptedSource):
    """Pydantic AI's `Tool` objects and toolsets of any kind as a `ToolSource`.

    `deps`: what tools find as `ctx.deps`. Their `RunContext` has the call's key as `tool_call_id`, the attempt as
    `retry`, and no model: a tool that asks one fails. Toolsets are entered when their tools are listed, and left by
    `aclose`, in one task. Synchronous functions run in daemon threads. A `sequential` tool runs alone.

    `ModelRetry` of a function fails the call with its words; that of an `args_validator` does so before the call is
    made. A tool that needs approval is one that a person has to agree to. External tools, which somebody else runs,
    are left out and reported. `ToolReturn` with content or metadata gives `{"return_value", "content", "metadata"}`,
    binary content a `data:` URL.
    The effect comes from `effects`, `metadata={"replan_effect": …}` or MCP annotations; else it is `once`.
    """

    def __init__(
        self,
        tools: Tool[Any] | AbstractToolset[Any] | Iterable[Tool[Any] | AbstractToolset[Any]],
        name: str = "pydantic_ai",
        *,
        effects: Mapping[str, Effect] | None = None,
        volatile: Collection[str] = (),
        errors_are_clean: bool | None = None,
        deps: Any = None,
    ) -> None:
        super().__init__(name, effects=effects, volatile=volatile, errors_are_clean=errors_are_clean)
        given = [tools] if isinstance(tools, Tool | AbstractToolset) else list(tools)
        single: dict[str, Tool[Any]] = {}
        self._toolsets: list[OpenToolset] = []
        self._twice: list[str] = []
        self._context = run_context(deps)
        for each in given:
            if isinstance(each, AbstractToolset):
                self._toolsets.append(OpenToolset(each, self._context))
            elif not isinstance(each, Tool):
                raise InputError(
                    f"a {type(each).__name__} is not a Pydantic AI tool or toolset ({each!r:.80})"
                )
            elif each.name in single:
                self._twice.append(each.name)
            else:
                single[each.name] = each
        if single:
            self._toolsets.insert(0, OpenToolset(FunctionToolset(list(single.values())), self._context))
        self._turns = Turns()
        self._executor = Executor(self._threads)

    async def aclose(self) -> None:
        """Leave the toolsets and let idle threads end; a later call enters them anew."""
        self._listed = None
        ended = await asyncio.gather(*(each.aclose() for each in self._toolsets), return_exceptions=True)
        await super().aclose()
        for error in ended:
            if error is not None:
                raise error

    async def _list(self) -> dict[str, AdoptedTool]:
        listed: dict[str, AdoptedTool] = {}
        failed: list[Exception] = []
        for name in self._twice:
            self._leave_out(name, "left out: another tool has its name; the first one is taken")
        for toolset in self._toolsets:
            try:
                found = await toolset.tools()
            except Exception as error:  # noqa: BLE001  (one toolset's fault is not that of the others)
                failed.append(error)
                self._leave_out(
                    toolset.label, f"left out: it cannot be listed ({type(error).__name__}: {error})"
                )
                continue
            for name, tool in found.items():
                self._keep(listed, name, lambda toolset=toolset, tool=tool: self._adopt(toolset, tool))  # type: ignore[misc]
        if failed and len(failed) == len(self._toolsets):
            raise failed[0]
        return listed

    def _adopt(self, toolset: OpenToolset, tool: ToolsetTool[Any]) -> AdoptedTool:
        definition = tool.tool_def
        if definition.kind not in ("function", "unapproved"):
            raise InputError(
                f"it is a tool of kind {definition.kind!r}, whose result comes from somewhere else"
            )
        metadata = definition.metadata or {}
        schema = dict(definition.parameters_json_schema)
        schema.pop("title", None)
        spec = self._spec(
            definition.name,
            definition.description or "",
            schema,
            output=definition.return_schema or None,
            metadata=metadata,
            annotations=metadata.get("annotations"),
            timeout_secs=definition.timeout,
            requires_approval=definition.kind == "unapproved" or asks_first(toolset.toolset, tool),
        )
        made = _PydanticAiTool(spec)
        made.toolset, made.tool, made.base = toolset, tool, self._context
        made.turns, made.executor = self._turns, self._executor
        return made


class _PydanticAiTool(AdoptedTool):
    toolset: OpenToolset
    tool: ToolsetTool[Any]
    base: RunContext[Any]
    turns: Turns
    executor: Executor

    async def invoke(self, call: ToolCall, context: ToolContext) -> Any:
        name, definition = self.spec.id, self.tool.tool_def
        seen = replace(
            self.base,
            tool_name=name,
            tool_call_id=call.key,
            retry=call.attempt - 1,
            max_retries=max(call.attempt - 1, self.tool.max_retries),
            tool_call_approved=self.spec.requires_approval,  # a person has agreed, or there was no call
            run_id=call.task_id or None,
        )
        arguments = await self._validated(call, seen)
        try:
            async with self.turns.turn(alone=definition.sequential):
                with Agent.using_thread_executor(self.executor):
                    result = await self.toolset.toolset.call_tool(name, arguments, seen, self.tool)
        except ModelRetry as error:
            if isinstance(error.__context__, TimeoutError):
                raise ToolCallError(error.message, kind="timeout", happened="unknown") from error
            raise ToolCallError(error.message) from error
        except ToolFailed as error:
            raise ToolCallError(error.message) from error
        except ApprovalRequired as error:
            raise ToolCallError(
                f"the tool {name!r} asks for approval of this call, which it did not say beforehand: declare it with "
                "requires_approval=True, so that a person is asked",
                kind="approval",
                happened="no",
            ) from error
        except CallDeferred as error:
            raise ToolCallError(
                f"the tool {name!r} defers its result (CallDeferred), which would come from somewhere else; it has to "
                "wait for it and return it",
                happened="unknown",
            ) from error
        return _plain(result)

    async def _validated(self, call: ToolCall, seen: RunContext[Any]) -> dict[str, Any]:
        """The arguments as the function takes them; what is said against them is said before the call."""
        try:
            arguments: dict[str, Any] = self.tool.args_validator.validate_json(to_json(call.parameters))
            if self.tool.args_validator_func is not None:
                said = self.tool.args_validator_func(seen, **arguments)
                if hasattr(said, "__await__"):
                    await said
        except (ValidationError, ModelRetry, ToolFailed) as error:
            words = str(error) if isinstance(error, ValidationError) else error.message
            raise ToolCallError(
                f"the parameters do not fit tool {self.spec.id!r}: {words}", kind="parameter", happened="no"
            ) from error
        return arguments


def _plain(result: Any) -> Any:
    if isinstance(result, ToolReturn):
        value = _plain(result.return_value)
        if result.content is None and result.metadata is None:
            return value
        return {"return_value": value, "content": _plain(result.content), "metadata": _plain(result.metadata)}
    return to_plain(_readable(result))


def _readable(value: Any) -> Any:
    """The value with binary content as `data:` URLs."""
    if isinstance(value, BinaryContent):
        return data_url(value.data, value.media_type)
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return [_readable(each) for each in value]
    if type(value) is dict:
        return {key: _readable(each) for key, each in value.items()}
    return value
