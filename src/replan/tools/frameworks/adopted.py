"""What the sources of all frameworks have in common: the list, the check, the call and what it may not do."""

from __future__ import annotations

import asyncio
import inspect
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from replan.core.types import Effect, JsonObject, ToolSpec
from replan.errors import InputError
from replan.ports import ToolCall, ToolProblem
from replan.tools.bounds import check_parameters, unknown_tool
from replan.tools.frameworks.effects import checked, effect_of
from replan.tools.functions.annotations import result_of
from replan.tools.functions.context import ToolContext, enter, leave, unasked_end
from replan.tools.functions.returned import output_schema
from replan.tools.functions.threads import DaemonThreads
from replan.tools.names import nearest


class AdoptedTool(ABC):
    """One tool of another framework: what it is, and how it is called."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    @abstractmethod
    async def invoke(self, call: ToolCall, context: ToolContext) -> Any:
        """Make the call; a value that JSON can hold."""


class AdoptedSource(ABC):
    """Tools of one framework as a `ToolSource`.

    `effects`: by a tool's name; what is not named there says it by itself (see `effects.effect_of`), or is `once`.
    `volatile`: the names of tools whose readings change by themselves. `errors_are_clean`: an error that a tool
    raises means that nothing happened; False for tools that may fail after a part of their effect.
    """

    def __init__(
        self,
        name: str,
        *,
        effects: Mapping[str, Effect] | None = None,
        volatile: Collection[str] = (),
        errors_are_clean: bool | None = None,
    ) -> None:
        if isinstance(volatile, str):
            raise InputError(f"volatile has to be a list of tool names, not the text {volatile!r}")
        self.name = name
        self._effects = dict(effects or {})
        for tool, effect in self._effects.items():
            checked(effect, f"effects[{tool!r}]")
        self._volatile = frozenset(volatile)
        self._errors_are_clean = errors_are_clean
        self._threads = DaemonThreads(name="replan-adopted")
        self._listed: dict[str, AdoptedTool] | None = None
        self._problems: list[ToolProblem] = []

    async def tools(self) -> Sequence[ToolSpec]:
        self._problems = []
        self._listed = await self._list()
        for option, names in (("effects", self._effects), ("volatile", self._volatile)):
            for name in names:
                if name not in self._listed:
                    near = ", ".join(nearest(name, self._listed) or self._listed) or "none"
                    self._leave_out(name, f"{option} names it, but there is no such tool; there are: {near}")
        return [tool.spec for tool in self._listed.values()]

    def problems(self) -> Sequence[ToolProblem]:
        return list(self._problems)

    async def call(self, call: ToolCall) -> Any:
        """The tool's result as plain JSON values."""
        if self._listed is None:
            await self.tools()
        listed = self._listed or {}
        tool = listed.get(call.tool_id)
        if tool is None:
            raise unknown_tool(call.tool_id, self.name, listed)
        check_parameters(tool.spec, call)
        context = ToolContext.of(call, asyncio.get_running_loop())
        token = enter(context)
        try:
            return await tool.invoke(call, context)
        except (asyncio.CancelledError, SystemExit) as error:
            if (fault := unasked_end(error, context, call.tool_id)) is None:
                raise
            raise fault from error
        finally:
            leave(token)

    async def aclose(self) -> None:
        """Let idle threads end; later calls still work."""
        self._threads.release()

    @abstractmethod
    async def _list(self) -> dict[str, AdoptedTool]:
        """Every tool by its id; what cannot be used is left out and reported."""

    def _keep(self, listed: dict[str, AdoptedTool], name: str, make: Callable[[], AdoptedTool]) -> None:
        """Make one tool; what cannot be made is left out and reported, and the others stay."""
        if name in listed:
            self._leave_out(name, "left out: another tool has its name; the first one is taken")
            return
        try:
            listed[name] = make()
        except InputError as error:
            self._leave_out(name, f"left out: {error}")
        except Exception as error:  # noqa: BLE001  (whatever a foreign class raises)
            self._leave_out(
                name, f"left out: it cannot be described ({type(error).__name__}: {error})".rstrip(": ")
            )

    def _leave_out(self, name: str, why: str) -> None:
        self._problems.append(ToolProblem(why, name))

    def _spec(
        self,
        name: str,
        description: str,
        parameters: JsonObject,
        *,
        output: JsonObject | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Collection[str] = (),
        annotations: Any = None,
        timeout_secs: float | None = None,
        requires_approval: bool = False,
    ) -> ToolSpec:
        return ToolSpec(
            id=name,
            name=name,
            description=description,
            parameters={"type": "object", "properties": {}, **parameters},
            output_schema=output,
            effect=effect_of(name, self._effects, metadata=metadata, tags=tags, annotations=annotations),
            source=self.name,
            timeout_secs=timeout_secs,
            volatile=name in self._volatile,
            errors_are_clean=self._errors_are_clean,
            requires_approval=requires_approval,
            in_process=True,
        )


def result_schema(function: Any) -> JsonObject | None:
    """The JSON Schema of what a function is annotated to return; None where that cannot be told."""
    try:
        annotation = typing.get_type_hints(inspect.unwrap(function)).get("return", Any)
    except (NameError, TypeError, AttributeError, ValueError):
        return None
    return output_schema(result_of(annotation))
