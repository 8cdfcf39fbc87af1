"""What passes between the library and a transport: looked at before the library takes it.

The library refuses a whole list for one bad tool, and checks results against schemas that the server may have got
wrong. So each tool is looked at here, by itself; what is bad is taken out and told, and output schemas are kept for
our own check. It refuses a whole result for a part of a kind that it does not know, and for content that is left out
beside a structured value: the call has been made by then, so what can be read of its result is. Log messages, which
nobody reads, are dropped before each costs a task.
"""

from __future__ import annotations

import contextvars
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from replan.core.types import JsonObject
from replan.ports import ToolProblem
from replan.tools.mcp.listing import UNFINISHED
from replan.tools.schema_check import problem_of

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream

Message = SessionMessage | Exception
_IGNORED = frozenset(("notifications/message",))
_KINDS = frozenset(("text", "image", "audio", "resource", "resource_link"))


class OfServer(NamedTuple):
    """The data of an error that the server itself has sent: the library has codes of its own for a connection that is lost."""

    data: Any


class Traffic:
    """The requests that have no answer yet, and what was found in the lists of tools."""

    def __init__(self) -> None:
        self.open: dict[str | int, str] = {}
        """The method of every request of ours that is not answered, by its id."""
        self.cut_off: set[str | int] = set()
        """Requests whose answer's stream has ended: an error that comes for one of them may be the library's own."""
        self.problems: list[ToolProblem] = []
        self.output_schemas: dict[str, JsonObject] = {}

    def sent(self, message: SessionMessage) -> None:
        if isinstance(message.message, types.JSONRPCRequest):
            self.open[message.message.id] = message.message.method

    def received(self, item: Message) -> Message | None:
        """The item as the library may have it; None: it need not have it."""
        if isinstance(item, Exception):
            return item
        message = item.message
        if isinstance(message, types.JSONRPCNotification) and message.method in _IGNORED:
            return None
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            method = self.open.pop(message.id, None)
            cut_off = message.id in self.cut_off
            self.cut_off.discard(message.id)
            if method == "tools/call" and isinstance(message, types.JSONRPCError) and not cut_off:
                message.error.data = OfServer(message.error.data)
            if method == "tools/list" and isinstance(message, types.JSONRPCResponse):
                self._sift(message.result)
            if method == "tools/call" and isinstance(message, types.JSONRPCResponse):
                _make_readable(message.result)
        return item

    def _sift(self, result: JsonObject) -> None:
        tools = result.get("tools")
        if not isinstance(tools, list):
            return
        kept = []
        for tool in tools:
            name = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(tool, dict) or not isinstance(name, str) or not name:
                self.problems.append(ToolProblem(f"left out a tool without a name: {str(tool)[:120]}"))
                continue
            if (wrong := _problem(tool)) is not None:
                self.problems.append(ToolProblem(wrong, name))
                continue
            output = tool.pop("outputSchema", None)
            if output is not None and (wrong := problem_of(output, of_parameters=False)):
                self.problems.append(ToolProblem(f"its output schema is bad and ignored: {wrong}", name))
            elif output is not None:
                self.output_schemas[name] = output
            kept.append(tool)
        result["tools"] = kept


def _make_readable(result: JsonObject) -> None:
    """A result of a call, as the library bears it: parts of a kind from later protocols are their JSON as text.

    In a session of an older protocol the library does not look at `resultType`, which only later ones have.
    """
    kind = result.get("resultType")
    if isinstance(kind, str) and kind != "complete":
        meta = result.get("_meta")
        result["_meta"] = {**(meta if isinstance(meta, dict) else {}), UNFINISHED: kind}
    if result.get("content") is None and ("structuredContent" in result or result.get("isError") is True):
        result["content"] = []
    if isinstance(content := result.get("content"), list):
        result["content"] = [_known(part) for part in content]


def _known(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind in _KINDS:
        return part
    return {"type": "text", "text": json.dumps(part, ensure_ascii=False)}


def _problem(tool: JsonObject) -> str | None:
    """Why a tool has to be left out; what is only decoration and bad is taken off it."""
    schema = tool.get("inputSchema")
    if isinstance(schema, dict) and "type" not in schema:
        tool["inputSchema"] = schema = {"type": "object", **schema}  # some servers say {} for "nothing"
    if wrong := problem_of(schema, of_parameters=True):
        return f"left out: its schema of parameters is bad: {wrong}"
    execution = tool.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        return "left out: it can be called as a task only (protocol 2025-11-25), which later protocols have no more"
    for key in ("annotations", "icons", "_meta", "execution", "title"):
        if tool.get(key, ...) is None:
            del tool[key]
    try:
        types.Tool.model_validate(tool, by_name=False)
    except ValidationError as error:
        places = {str(each["loc"][0]) for each in error.errors() if each["loc"]}
        if not places or not places <= {
            "annotations",
            "icons",
            "_meta",
            "execution",
            "title",
            "outputSchema",
        }:
            first = error.errors()[0]
            return f"left out: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        for key in places - {"outputSchema"}:
            tool.pop(key, None)
    return None


@asynccontextmanager
async def watched(
    transport: AbstractAsyncContextManager[TransportStreams], traffic: Traffic
) -> AsyncIterator[TransportStreams]:
    """The transport, with everything that passes shown to `traffic`."""
    async with transport as (read, write):
        yield _Incoming(read, traffic), _Outgoing(write, traffic)


class _Around:
    """A stream of the library's protocol around another one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()

    def close(self) -> None:
        close: Any = getattr(self._inner, "close", None)
        if close is not None:
            close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _Incoming(_Around):
    """A read stream of the library's protocol; `last_context` is what it carries questions back with."""

    def __init__(self, inner: ReadStream[Message], traffic: Traffic) -> None:
        super().__init__(inner)
        self._traffic = traffic

    @property
    def last_context(self) -> contextvars.Context | None:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Message:
        while True:
            if (item := self._traffic.received(await self._inner.receive())) is not None:
                return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        while True:
            if (item := self._traffic.received(await self._inner.__anext__())) is not None:
                return item


class _Outgoing(_Around):
    """A write stream of the library's protocol."""

    def __init__(self, inner: WriteStream[SessionMessage], traffic: Traffic) -> None:
        super().__init__(inner)
        self._traffic = traffic

    async def send(self, item: SessionMessage, /) -> None:
        self._traffic.sent(item)
        await self._inner.send(item)
