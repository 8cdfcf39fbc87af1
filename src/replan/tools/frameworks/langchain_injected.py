"""Arguments of a LangChain tool that no model gives: which those are, and their values."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId

from replan.errors import InputError
from replan.ports import Progress, ToolCall
from replan.tools.functions.context import ToolContext


class Injected(NamedTuple):
    """The arguments by how they are filled: with the call's id, a runtime, what was given, or their default."""

    ids: frozenset[str]
    runtimes: frozenset[str]
    given: Mapping[str, Any]
    left: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        return self.ids | self.runtimes | frozenset(self.given) | self.left

    @property
    def wants_id(self) -> bool:
        return bool(self.ids)

    def values(self, call: ToolCall, config: RunnableConfig, context: ToolContext) -> dict[str, Any]:
        """What is passed beside the parameters; LangChain fills in the id by itself."""
        values = dict(self.given)
        if self.runtimes:
            values |= dict.fromkeys(self.runtimes, _runtime(call, config, context))
        return values


def injected_of(tool: BaseTool, given: Mapping[str, Any]) -> Injected:
    """What has to be injected into the tool. `InputError` names an argument that nothing is there for."""
    ids: set[str] = set()
    runtimes: set[str] = set()
    values: dict[str, Any] = {}
    left: set[str] = set()
    for name, kind, has_default in _arguments(tool):
        if name in given:
            values[name] = given[name]
        elif kind == "id":
            ids.add(name)
        elif kind == "runtime":
            runtimes.add(name)
        elif has_default:
            left.add(name)
        else:
            raise InputError(
                f"its argument {name!r} is injected by LangChain's agents (a state, a store or the like), and there "
                f"is none here; give one: LangChainSource(tools, inject={{{name!r}: …}})"
            )
    taken = values.keys() | left
    return Injected(frozenset(ids - taken), frozenset(runtimes - taken), values, frozenset(left))


def _arguments(tool: BaseTool) -> Iterator[tuple[str, str, bool]]:
    """Name, kind and whether there is a default, of each argument that is injected."""
    for function in (getattr(tool, "func", None), getattr(tool, "coroutine", None), tool._run, tool._arun):
        if function is None:
            continue
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            continue
        for name, parameter in parameters.items():
            annotation = _hint(function, name, parameter.annotation)
            if kind := _kind(annotation, typing.get_args(annotation)[1:]):
                yield name, kind, parameter.default is not inspect.Parameter.empty
    model: Any = tool.args_schema
    for name, field in getattr(model, "__fields__" if _is_old(model) else "model_fields", {}).items():
        if _is_old(model):  # pydantic's first version keeps the marks in the annotation only
            annotation = _hint(model, name, model.__annotations__.get(name))
            if kind := _kind(annotation, typing.get_args(annotation)[1:]):
                yield name, kind, not field.required
            continue
        if kind := _kind(field.annotation, field.metadata):
            yield name, kind, not field.is_required()


def _is_old(model: Any) -> bool:
    return isinstance(model, type) and not hasattr(model, "model_fields")


def _hint(function: Any, name: str, annotation: Any) -> Any:
    """The annotation evaluated by itself: one that cannot be does not hide the others."""
    if not isinstance(annotation, str):
        return annotation
    inner = inspect.unwrap(getattr(function, "__func__", function))
    known = dict(getattr(inner, "__globals__", {}))
    closure = inspect.getclosurevars(inner).nonlocals if inspect.isfunction(inner) else {}
    if isinstance(function, type):
        known = dict(vars(sys.modules[function.__module__]))
    try:
        return eval(annotation, known, dict(closure))
    except Exception:  # noqa: BLE001
        return annotation


def _kind(annotation: Any, metadata: Any) -> str | None:
    for mark in metadata:
        known = mark if isinstance(mark, type) else type(mark)
        if issubclass(known, InjectedToolCallId):
            return "id"
        if issubclass(known, InjectedToolArg):
            return "other"
    base = typing.get_origin(annotation) or annotation
    if isinstance(base, type) and any(each.__name__ == "ToolRuntime" for each in base.__mro__):
        return "runtime"
    return None


def _runtime(call: ToolCall, config: RunnableConfig, context: ToolContext) -> Any:
    """A runtime as a graph would give it, with an empty state and no store: what is written there is progress."""
    from langgraph.prebuilt import ToolRuntime

    def write(item: Any) -> None:
        context.pass_on(item if isinstance(item, Progress) else Progress(str(item)))

    return ToolRuntime(
        state={}, context=None, config=config, stream_writer=write, tool_call_id=call.key, store=None
    )
