"""LangChain tools as a `ToolSource` (langchain-core ≥ 1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, BaseToolkit, StructuredTool, Tool, ToolException

from replan.core.types import Effect, JsonObject, ToolSpec
from replan.errors import InputError, ToolCallError
from replan.ports import Progress, ToolCall
from replan.tools.frameworks.adopted import AdoptedSource, AdoptedTool, result_schema
from replan.tools.frameworks.langchain_injected import Injected, injected_of
from replan.tools.frameworks.langchain_result import plain_result
from replan.tools.functions.context import ToolContext
from replan.tools.functions.threads import DaemonThreads


class LangChainSource(AdoptedSource):
    """LangChain's `BaseTool` objects and toolkits, any number, as a `ToolSource`.

    `inject`: values for arguments that LangChain's own agents would inject (`InjectedState`, `InjectedStore`, any
    `InjectedToolArg`), by the argument's name. An id of the call and a `ToolRuntime` with an empty state are injected
    by themselves; a tool that needs something else is left out and reported.

    Async tools run in the event loop, all others in daemon threads. An error is an error, also where the tool turns
    it into text (`handle_tool_error`): the call fails with that text. A tool with `content_and_artifact` gives
    `{"content": …, "artifact": …}`. Custom events (`dispatch_custom_event`) are progress.
    The effect comes from `effects`, `metadata={"replan_effect": …}` or a tag `replan_effect:…`; else it is `once`.
    """

    def __init__(
        self,
        tools: BaseTool | BaseToolkit | Iterable[BaseTool | BaseToolkit],
        name: str = "langchain",
        *,
        effects: Mapping[str, Effect] | None = None,
        volatile: Collection[str] = (),
        errors_are_clean: bool | None = None,
        inject: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, effects=effects, volatile=volatile, errors_are_clean=errors_are_clean)
        given = [tools] if isinstance(tools, BaseTool | BaseToolkit) else list(tools)
        for each in given:
            if not isinstance(each, BaseTool | BaseToolkit):
                raise InputError(f"a {type(each).__name__} is not a LangChain tool or toolkit ({each!r:.80})")
        self._given = given
        self._inject = dict(inject or {})

    async def _list(self) -> dict[str, AdoptedTool]:
        listed: dict[str, AdoptedTool] = {}
        for each in self._given:
            for tool in await self._tools_of(each):
                self._keep(listed, tool.name, lambda tool=tool: self._adopt(tool))  # type: ignore[misc]
        return listed

    async def _tools_of(self, given: BaseTool | BaseToolkit) -> list[BaseTool]:
        if isinstance(given, BaseTool):
            return [given]
        try:
            return await self._threads.run(given.get_tools)  # some ask a server for them
        except Exception as error:  # noqa: BLE001  (one toolkit's fault is not that of the others)
            name = type(given).__name__
            self._leave_out(name, f"left out: it cannot list its tools ({type(error).__name__}: {error})")
            return []

    def _adopt(self, tool: BaseTool) -> AdoptedTool:
        injected = injected_of(tool, self._inject)
        spec = self._spec(
            tool.name,
            tool.description,
            _parameters(tool, injected),
            output=_output_schema(tool),
            metadata=tool.metadata,
            tags=tool.tags or (),
        )
        return _LangChainTool(spec, tool, injected, self._threads)


class _LangChainTool(AdoptedTool):
    def __init__(self, spec: ToolSpec, tool: BaseTool, injected: Injected, threads: DaemonThreads) -> None:
        super().__init__(spec)
        self._tool = _honest(tool)
        self._injected = injected
        self._threads = threads
        self._in_loop = _runs_in_loop(tool)
        # With a tool call the result comes wrapped, and turned into text: only where its parts are wanted.
        self._wrapped = injected.wants_id or tool.response_format == "content_and_artifact"

    async def invoke(self, call: ToolCall, context: ToolContext) -> Any:
        config: RunnableConfig = {
            "callbacks": [_Events(context)],
            "run_name": self.spec.id,
            "metadata": {
                "replan_task_id": call.task_id,
                "replan_step_id": call.step_id,
                "replan_key": call.key,
            },
        }
        arguments = {**call.parameters, **self._injected.values(call, config, context)}
        self._check(arguments, call)
        given: Any = arguments
        if self._wrapped:
            given = {"type": "tool_call", "name": self._tool.name, "args": arguments, "id": call.key}
        try:
            if self._in_loop:
                result = await self._tool.ainvoke(given, config)
            else:
                work = context.in_time(lambda: self._tool.invoke(given, config), self.spec.id)
                result = await self._threads.run(work, context.goes_on)
        except ToolException as error:
            raise ToolCallError(
                str(error) or f"the tool {self.spec.id!r} failed and did not say why"
            ) from error
        return plain_result(
            self.spec.id, result, artifact=self._tool.response_format == "content_and_artifact"
        )

    def _check(self, arguments: JsonObject, call: ToolCall) -> None:
        """What the tool's own model says against the parameters, before anything runs."""
        model = self._tool.args_schema
        if model is None or isinstance(model, dict):
            return
        given = {**arguments, **dict.fromkeys(self._injected.ids, call.key)}
        validate = getattr(model, "model_validate", None) or model.parse_obj
        try:
            validate(given)
        except ValueError as error:  # both versions of pydantic's ValidationError are that
            raise ToolCallError(
                f"the parameters do not fit tool {self.spec.id!r}: {error}", kind="parameter", happened="no"
            ) from error


class _Events(BaseCallbackHandler):
    """Passes custom events on as progress."""

    run_inline = True  # in order, and before the result

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        said = data if isinstance(data, Mapping) else {}
        message = said.get("message", data if isinstance(data, str) else name)
        done, total = said.get("progress"), said.get("total")
        self._context.pass_on(Progress(str(message), _number(done), _number(total)))


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _honest(tool: BaseTool) -> BaseTool:
    """The tool, whose errors are raised: those that it would turn into a result, with the text it makes of them."""
    if not tool.handle_tool_error and not tool.handle_validation_error:
        return tool

    def words(flag: Any, default: str) -> Any:
        def handle(error: Exception) -> str:
            if callable(flag):
                text = flag(error)
            elif isinstance(flag, str):
                text = flag
            else:
                text = str(error.args[0]) if error.args else default
            raise ToolCallError(text if isinstance(text, str) else str(text)) from error

        return handle if flag else False

    changes = {
        "handle_tool_error": words(tool.handle_tool_error, "Tool execution error"),
        "handle_validation_error": False,
    }
    return tool.model_copy(update=changes)  # the user's own object stays as it is


def _runs_in_loop(tool: BaseTool) -> bool:
    own = type(tool)._arun
    if own not in (BaseTool._arun, StructuredTool._arun, Tool._arun):
        return True
    return getattr(tool, "coroutine", None) is not None


def _parameters(tool: BaseTool, injected: Injected) -> JsonObject:
    if isinstance(tool, Tool) and tool.args_schema is None:
        return {
            "properties": {"tool_input": {"type": "string"}},
            "required": ["tool_input"],
            "additionalProperties": False,
        }
    model: Any = tool.args_schema
    if model is None or hasattr(model, "model_json_schema"):
        model = tool.tool_call_schema  # without what is injected
    if isinstance(model, dict):
        schema = dict(model)
    else:
        schema = dict(model.model_json_schema() if hasattr(model, "model_json_schema") else model.schema())
        # LangChain drops arguments that the model does not know: better to hear of a wrong name.
        if not _takes_more(tool.args_schema):
            schema.setdefault("additionalProperties", False)
    schema.pop("title", None)
    schema.pop("description", None)
    if other := _other_names(
        tool.args_schema
    ):  # what a call is checked against wants these; LangChain tells the field's
        schema["properties"] = {
            other.get(key, key): value for key, value in schema.get("properties", {}).items()
        }
        schema["required"] = [other.get(key, key) for key in schema.get("required", ())]
    if names := injected.names & set(schema.get("properties", ())):
        schema["properties"] = {key: value for key, value in schema["properties"].items() if key not in names}
        schema["required"] = [key for key in schema.get("required", ()) if key not in names]
    return schema


def _other_names(model: Any) -> dict[str, str]:
    """The names by which fields of the model are given, where those are not their own (`from`, which Python has for itself)."""
    fields = getattr(model, "model_fields", None)
    config = getattr(model, "model_config", None) or {}
    if not isinstance(fields, dict) or config.get("populate_by_name") or config.get("validate_by_name"):
        return {}
    found = {name: getattr(field, "validation_alias", None) for name, field in fields.items()}
    return {name: alias for name, alias in found.items() if isinstance(alias, str) and alias != name}


def _takes_more(model: Any) -> bool:
    if model is None or isinstance(model, dict):
        return False
    config = getattr(model, "model_config", None)
    if config is None:
        config = {"extra": getattr(getattr(model, "__config__", None), "extra", None)}
    extra = config.get("extra")
    return getattr(extra, "value", extra) == "allow"


def _output_schema(tool: BaseTool) -> JsonObject | None:
    if tool.response_format == "content_and_artifact":
        return None
    for name in ("coroutine", "func"):
        if (function := getattr(tool, name, None)) is not None:
            return result_schema(function)
    if isinstance(tool, StructuredTool | Tool):
        return None
    return result_schema(type(tool)._arun if _runs_in_loop(tool) else type(tool)._run)
