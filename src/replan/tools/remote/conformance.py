"""Whether a tool server keeps the rules of the protocol (docs/reference/tool-service.md).

The server has to offer the tools of `conformance_tools`, in whatever language it is written.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Literal, NamedTuple

from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.ports import Progress
from replan.tools.remote.client.endpoints import transport_to
from replan.tools.remote.client.transport import Endpoint, Transport, checked_url
from replan.tools.remote.conformance_http import http_rules
from replan.tools.remote.messages import Execute, Listing
from replan.tools.schema_check import problem_of

PATIENCE_SECS = 10.0
VALUES = (
    None,
    True,
    2**53 + 1,
    1.5,
    "",
    "näïve 北京 \u0000 \r\n \u2028 🏳️‍🌈",
    [1, [], {"a": {}}],
    {"": {"x": None}},
)
NEEDED = frozenset(
    f"conformance_{name}" for name in ("echo", "count", "counted", "wait", "cancelled", "fail", "progress")
)


class Finding(NamedTuple):
    rule: str
    verdict: Literal["ok", "broken", "skipped"]
    reason: str = ""


class Broken(Exception):
    """A rule is not kept; the message says how."""


class Skipped(Exception):
    """A rule that does not apply to this server; the message says why."""


async def check(url: str, *, token: str | None = None) -> list[Finding]:
    """Try every rule on the server; one that is broken does not stop the others.

    `InputError` if the server cannot be reached or does not offer the tools that the suite calls.
    """
    url = checked_url(url, "http")
    endpoint = Endpoint(url, token)
    transport = transport_to(endpoint, "conformance")
    try:
        try:
            async with asyncio.timeout(PATIENCE_SECS):
                listing = await transport.list_tools("", 0.0)
        except (ToolCallError, TimeoutError) as error:
            raise InputError(f"{url} cannot be checked: it gave no list of tools: {error}") from error
        if listing is None:
            raise InputError(
                f"{url} cannot be checked: it says that its list is unchanged to somebody who has none"
            )
        if missing := NEEDED - {spec.id for spec in listing.tools}:
            raise InputError(
                f"{url} cannot be checked: it has to offer {', '.join(sorted(missing))} "
                "(in Python: replan tools serve replan.tools.remote.conformance_tools)"
            )
        suite = _Suite(transport, listing)
        rules = dict(suite.rules())
        if endpoint.scheme.startswith("http"):
            rules |= http_rules(endpoint, Broken, Skipped)
        if token:
            rules["a call without the token is refused (401, UNAUTHENTICATED)"] = lambda: _no_token(url)
        return [await _finding(rule, trial) for rule, trial in rules.items()]
    finally:
        await transport.aclose()


async def _finding(rule: str, trial: Callable[[], Awaitable[None]]) -> Finding:
    try:
        async with asyncio.timeout(PATIENCE_SECS):
            await trial()
    except Skipped as error:
        return Finding(rule, "skipped", str(error))
    except Broken as error:
        return Finding(rule, "broken", str(error))
    except TimeoutError:
        return Finding(rule, "broken", f"nothing came within {in_digits(PATIENCE_SECS)} s")
    except ToolCallError as error:
        return Finding(rule, "broken", f"an unexpected error: {error.kind}: {error}")
    return Finding(rule, "ok")


async def _no_token(url: str) -> None:
    transport = transport_to(Endpoint(url), "conformance")
    try:
        await transport.execute(Execute("conformance_echo", {"value": 1}), None)
    except ToolCallError as error:
        _expect(error.status == 401, f"it was refused with status {error.status}")
        _expect(error.happened == "no", "it was refused, but `happened` is not `no`")
        return
    finally:
        await transport.aclose()
    raise Broken("it was carried out")


class _Suite:
    def __init__(self, transport: Transport, listing: Listing) -> None:
        self._transport = transport
        self._listing = listing

    def rules(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "every schema is valid, and describes an object": self._schemas,
            "effects are told: echo reads, count is once": self._effects,
            "a known revision gets no list": self._unchanged,
            "every JSON value comes back as it went": self._values,
            "calls run side by side": self._side_by_side,
            "progress comes in order, before the output": self._progress,
            "a failure of the tool keeps its words": self._failure,
            "an unknown tool is told as unknown_tool, happened: no": self._unknown_tool,
            "wrong parameters are told as parameter, happened: no, and no call is made": self._parameters,
            "the same key twice is one effect, and the same answer": self._same_key,
            "the same key at the same time is one effect, and the same answer": self._joined,
            "a key used for another call is refused": self._other_content,
            "a call that counts on another memory of keys is refused, and not made": self._other_store,
            "a call that failed without an effect frees its key": self._freed,
            "the key of a call whose end is not known is in doubt, and the call not made again": self._in_doubt,
            "a call ends at its deadline": self._deadline,
            "cancel reaches the tool": self._cancel,
            "cancel of one of two with the same key leaves the other": self._cancel_one,
            "a client that goes away cancels a call that only reads": self._goes_away,
        }

    async def _call(self, tool: str, parameters: dict[str, Any], **more: Any) -> Any:
        return await self._transport.execute(Execute(f"conformance_{tool}", parameters, **more), None)

    async def _error(self, tool: str, parameters: dict[str, Any], **more: Any) -> ToolCallError:
        try:
            found = await self._call(tool, parameters, **more)
        except ToolCallError as error:
            return error
        raise Broken(f"an error was due, and the output {found!r:.100} came")

    async def _schemas(self) -> None:
        for problem in self._listing.problems:
            raise Broken(f"{problem.tool}: {problem.message}")
        for spec in self._listing.tools:
            if found := problem_of(spec.parameters, of_parameters=True):
                raise Broken(f"{spec.id}: {found}")

    async def _effects(self) -> None:
        effects = {spec.id: spec.effect for spec in self._listing.tools}
        _expect(effects["conformance_echo"] == "reads", "conformance_echo should be `reads`")
        _expect(effects["conformance_count"] == "once", "conformance_count should be `once`")

    async def _unchanged(self) -> None:
        _expect(bool(self._listing.revision), "the revision is empty")
        found = await self._transport.list_tools(self._listing.revision, 0.0)
        _expect(found is None, "the list came again")

    async def _values(self) -> None:
        for value in VALUES:
            found = await self._call("echo", {"value": value})
            _expect(found == value and type(found) is type(value), f"{value!r} came back as {found!r:.100}")

    async def _side_by_side(self) -> None:
        waiting = asyncio.create_task(self._call("wait", {"name": _name()}, deadline_secs=5.0))
        try:
            found = await _together([self._call("echo", {"value": n}) for n in range(20)])
            _expect(found == list(range(20)), f"the answers were mixed up: {found}")
            _expect(not waiting.done(), "a call that waits held up the others")
        finally:
            await _left(waiting)

    async def _progress(self) -> None:
        seen: list[Progress] = []
        output = await self._transport.execute(Execute("conformance_progress", {}), seen.append)
        _expect(output == {"ok": True}, f"the output was {output!r:.100}")
        _expect(seen == [Progress("half", 1, 2), Progress("done", 2, 2)], f"what came was {seen}")

    async def _failure(self) -> None:
        error = await self._error("fail", {"message": "no such thing: 北京"}, key=_name())
        _expect("no such thing: 北京" in str(error), f"the message was {str(error)!r:.200}")
        _expect(error.kind == "tool", f"the kind was {error.kind!r}, not 'tool'")
        _expect(error.happened == "no", "`happened` was not `no`")

    async def _unknown_tool(self) -> None:
        error = await self._error("no_such_tool", {})
        _expect((error.kind, error.happened) == ("unknown_tool", "no"), _told(error))

    async def _parameters(self) -> None:
        name = _name()
        for parameters in ({}, {"name": name, "wait_ms": "long"}, {"name": name, "more": 1}):
            error = await self._error("count", parameters)
            _expect((error.kind, error.happened) == ("parameter", "no"), f"{parameters}: {_told(error)}")
        await self._expect_count(name, 0)

    async def _same_key(self) -> None:
        key, name = self._key(), _name()
        found = [await self._call("count", {"name": name}, key=key) for _ in range(3)]
        await self._expect_count(name, 1)
        _expect(found == [{"count": 1}] * 3, f"the answers were {found}")

    async def _joined(self) -> None:
        key, name = self._key(), _name()
        calls = [self._call("count", {"name": name, "wait_ms": 200}, key=key) for _ in range(5)]
        found = await _together(calls)
        await self._expect_count(name, 1)
        _expect(found == [{"count": 1}] * 5, f"the answers were {found}")

    async def _other_content(self) -> None:
        key, name = self._key(), _name()
        await self._call("count", {"name": name}, key=key)
        error = await self._error("count", {"name": f"{name}-other"}, key=key)
        _expect((error.kind, error.happened) == ("parameter", "no"), _told(error))
        await self._expect_count(f"{name}-other", 0)

    async def _other_store(self) -> None:
        key, name = self._key(), _name()
        error = await self._error("count", {"name": name}, key=key, key_store="no-such-store")
        _expect((error.status, error.happened) == (409, "no"), f"status {error.status}, {_told(error)}")
        await self._expect_count(name, 0)
        await self._call("count", {"name": name}, key=key, key_store=self._listing.key_store)

    async def _freed(self) -> None:
        key = self._key()
        for message in ("once", "once more, of another kind"):  # kept, it would be refused for the second
            error = await self._error("fail", {"message": message}, key=key)
            _expect((error.kind, error.happened) == ("tool", "no"), _told(error))
            _expect(message in str(error), f"the message was {str(error)!r:.200}")

    async def _in_doubt(self) -> None:
        key, name = self._key(), _name()
        parameters = {"name": name, "wait_ms": 4_000}
        error = await self._error("count", parameters, key=key, deadline_secs=0.3)
        _expect((error.kind, error.happened) == ("timeout", "unknown"), _told(error))
        until = asyncio.get_running_loop().time() + PATIENCE_SECS / 2
        while error.kind != "in_doubt":  # for a moment it may be joined still
            error = await self._error("count", parameters, key=key, deadline_secs=1.0)
            _expect(error.happened == "unknown", _told(error))
            _expect(asyncio.get_running_loop().time() < until, f"it was not `in_doubt`: {_told(error)}")
        await self._expect_count(name, 1)

    async def _deadline(self) -> None:
        name = _name()
        error = await self._error("wait", {"name": name}, deadline_secs=0.3)
        _expect((error.kind, error.happened) == ("timeout", "unknown"), _told(error))
        await self._saw_cancelled(name)

    async def _cancel(self) -> None:
        name, call_id = _name(), secrets.token_hex(8)
        task = asyncio.create_task(self._call("wait", {"name": name}, call_id=call_id))
        try:
            while not task.done():
                await self._transport.cancel(call_id)  # again, as the call may not be there yet
                await asyncio.wait({task}, timeout=0.1)
            _expect(task.exception() is not None, "the call ended with an output")
        finally:
            await _left(task)
        await self._saw_cancelled(name)

    async def _cancel_one(self) -> None:
        key, name, call_id = self._key(), _name(), secrets.token_hex(8)
        parameters = {"name": name, "wait_ms": 1000}
        one = asyncio.create_task(self._call("count", parameters, key=key, call_id=call_id))
        other = asyncio.create_task(self._call("count", parameters, key=key))
        try:
            await asyncio.wait({one}, timeout=0.4)
            await self._transport.cancel(call_id)
            found = await other
        except ToolCallError as error:
            raise Broken(f"the other one failed: {error}") from error
        finally:
            await asyncio.wait({one, other})
            one.exception()
        _expect(found == {"count": 1}, f"the other one got {found!r}")

    async def _goes_away(self) -> None:
        name = _name()
        task = asyncio.create_task(self._call("wait", {"name": name}))
        await asyncio.wait({task}, timeout=0.3)
        await _left(task)
        await self._saw_cancelled(name)

    async def _saw_cancelled(self, name: str) -> None:
        until = asyncio.get_running_loop().time() + PATIENCE_SECS / 2
        while not await self._call("cancelled", {"name": name}):
            _expect(asyncio.get_running_loop().time() < until, "the tool was not cancelled")
            await asyncio.sleep(0.05)

    async def _expect_count(self, name: str, count: int) -> None:
        found = (await self._call("counted", {"name": name}))["count"]
        _expect(found == count, f"the effect took place {found} times, not {count}")

    def _key(self) -> str:
        if not self._listing.key_store:
            raise Skipped("the server says that it honours no keys (keys.store)")
        return f"conformance-{secrets.token_hex(8)}"


async def _together(calls: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """The outputs of calls made side by side; the first failure ends the others, and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except* ToolCallError as errors:
        first = errors.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise first


async def _left(task: asyncio.Task[Any]) -> None:
    """Leave a call: cancelled, and whatever became of it read."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def _expect(right: bool, otherwise: str) -> None:
    if not right:
        raise Broken(otherwise)


def _told(error: ToolCallError) -> str:
    return f"it was told as {error.kind}, happened: {error.happened}: {error}"


def _name() -> str:
    return secrets.token_hex(8)
