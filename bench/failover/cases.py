"""The blows: an endpoint that is killed, one that freezes, tools likewise, and a registry that flaps."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from bench.failover.load import Seen, load
from bench.failover.servers import Endpoint, Relay
from replan.config import Settings
from replan.ports import ModelRequest, ToolCall, Turn
from replan.tools import FunctionSource, tool
from replan.tools.remote import RemoteSource
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running
from replan.wiring import Models, discovery_of

STEADY_SECS, AWAY_SECS, BACK_SECS = 1.0, 4.0, 6.0
STRATEGIES = ("sticky", "round_robin", "random")
REQUEST = ModelRequest(
    role="evaluation",
    schema_name="evaluation",
    json_schema={"type": "object", "properties": {"final_output": {}}},
    instructions="Judge.",
    turns=(Turn(role="user", text="?"),),
)


class Row(NamedTuple):
    seen: Seen
    quiet: float
    longest: float
    at_once: int | None = None


Case = Callable[[int], Awaitable[Row | None]]


def all_cases(flap_secs: float) -> Iterator[tuple[str, Case]]:
    yield "models: `endpoint` killed and back, `fallback_endpoint` stays", killed_pair
    yield "models: `endpoint` freezes (`timeout_secs` = 2), `fallback_endpoint` stays", frozen_pair
    for strategy in STRATEGIES:
        yield (
            f"models in Consul, {strategy}: one of three killed and back",
            partial(killed_instance, strategy),
        )
    for protocol in ("http", "grpc"):
        yield (
            f"tools in Consul over {protocol}, round_robin: one of three killed and back",
            partial(killed_tools, protocol),
        )
    yield (
        f"models and tools, the agent killed and started anew every second for {flap_secs:.0f} s",
        partial(flapping, flap_secs),
    )
    yield (
        f"models and tools, instances on and off the list every second for {flap_secs:.0f} s",
        partial(coming_and_going, flap_secs),
    )


@asynccontextmanager
async def endpoints(count: int) -> AsyncIterator[list[Endpoint]]:
    made = [Endpoint() for _ in range(count)]
    for each in made:
        await each.start()
    try:
        yield made
    finally:
        for each in made:
            await each.kill()


@asynccontextmanager
async def asking(**sections: Any) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    models = Models(Settings.model_validate(sections), model="m", api_key="k")
    model = models["evaluation"]
    try:
        yield lambda: model.ask(REQUEST)
    finally:
        await models.aclose()


async def killed_pair(callers: int) -> Row:
    async with endpoints(2) as (first, second):
        llm = {"endpoint": first.url, "fallback_endpoint": second.url}
        async with asking(llm=llm) as call, load(call, callers) as seen:
            await asyncio.sleep(STEADY_SECS)
            return await _away(seen, first)


async def _away(seen: Seen, one: Endpoint, *, again: bool = True) -> Row:
    """It is killed and comes back, slower. `again`: it is asked then."""
    blow = time.monotonic()
    await one.kill()
    await asyncio.sleep(AWAY_SECS)
    one.secs = 0.2  # so that others come while the first one tries
    await one.start()
    before = one.answers
    await asyncio.sleep(BACK_SECS)
    end = time.monotonic()
    if again and one.answers == before:
        seen.lost.append("the endpoint that was back was asked no more")
    return Row(seen, seen.quiet(blow, end), seen.longest(blow, end), one.at_once if again else None)


async def frozen_pair(callers: int) -> Row:
    async with endpoints(2) as (first, second):
        llm = {"endpoint": first.url, "fallback_endpoint": second.url, "timeout_secs": 2}
        async with asking(llm=llm) as call, load(call, callers) as seen:
            await asyncio.sleep(STEADY_SECS)
            first.frozen = True
            blow = time.monotonic()
            await asyncio.sleep(AWAY_SECS + BACK_SECS)
            end = time.monotonic()
            return Row(seen, seen.quiet(blow, end), seen.longest(blow, end))


@asynccontextmanager
async def agent() -> AsyncIterator[Any]:
    """A Consul agent; None where there is none."""
    from consul_agent import RealAgent, consul

    if consul() is None:
        yield None
        return
    made = RealAgent()
    await asyncio.to_thread(made.start)
    try:
        yield made
    finally:
        await asyncio.to_thread(made.stop)


async def listed(consul: Any, service: str, *ports: int) -> None:
    for port in ports:
        body = {"ID": f"{service}-{port}", "Name": service, "Address": "127.0.0.1", "Port": port}
        await asyncio.to_thread(consul.ask, "PUT", "/v1/agent/service/register", body)


async def unlisted(consul: Any, service: str, port: int) -> None:
    await asyncio.to_thread(consul.ask, "PUT", f"/v1/agent/service/deregister/{service}-{port}")


def _consul(port: int, strategy: str) -> dict[str, Any]:
    return {"enabled": True, "port": port, "load_balance": strategy}


async def killed_instance(strategy: str, callers: int) -> Row | None:
    async with agent() as consul, endpoints(3) as instances:
        if consul is None:
            return None
        await listed(consul, "llm", *(each.port for each in instances))
        async with (
            asking(consul=_consul(consul.port, strategy), llm={"service_name": "llm"}) as call,
            load(call, callers) as seen,
        ):
            await asyncio.sleep(STEADY_SECS)
            busiest = max(instances, key=lambda each: each.answers)
            return await _away(seen, busiest, again=strategy != "sticky")  # which stays with who answers


@tool(effect="reads", volatile=True)
async def nothing(n: int) -> str:
    """Nothing, after a moment."""
    await asyncio.sleep(0.005)
    return "x"


@asynccontextmanager
async def tool_servers(protocol: str, count: int) -> AsyncIterator[list[Relay]]:
    ports: dict[str, Any] = {"port": 0} if protocol == "http" else {"port": None, "grpc_port": 0}
    async with contextlib.AsyncExitStack() as open_:
        relays = []
        for _ in range(count):
            serving = await open_.enter_async_context(
                running([FunctionSource([nothing])], keys=Keys(), grace_secs=0, **ports)
            )
            relay = Relay(int(serving.urls[0].rpartition(":")[2]))
            await relay.start()
            open_.push_async_callback(relay.kill)
            relays.append(relay)
        yield relays


@asynccontextmanager
async def calling(protocol: Any, port: int, strategy: str) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    service = {"service_name": "tools", "protocol": protocol}
    settings = Settings.model_validate({"consul": _consul(port, strategy), "tool_service": service})
    found = discovery_of(settings).tools
    assert found is not None
    source = RemoteSource(found, name="tools", protocol=protocol)
    await source.tools()
    try:
        yield lambda: source.call(ToolCall("nothing", {"n": 1}, ""))
    finally:
        await source.aclose()


async def killed_tools(protocol: str, callers: int) -> Row | None:
    async with agent() as consul, tool_servers(protocol, 3) as relays:
        if consul is None:
            return None
        await listed(consul, "tools", *(each.port for each in relays))
        async with calling(protocol, consul.port, "round_robin") as call, load(call, callers) as seen:
            await asyncio.sleep(STEADY_SECS)
            blow = time.monotonic()
            await relays[0].kill()
            await asyncio.sleep(AWAY_SECS)
            await relays[0].start()
            await asyncio.sleep(BACK_SECS / 2)
            end = time.monotonic()
            return Row(seen, seen.quiet(blow, end), seen.longest(blow, end))


@asynccontextmanager
async def both(consul: Any, callers: int) -> AsyncIterator[tuple[Seen, list[int], list[int]]]:
    """Models and tools by discovery, both under load; the ports of either."""
    async with endpoints(2) as models, tool_servers("http", 2) as tools:
        ports = [each.port for each in models], [each.port for each in tools]
        await listed(consul, "llm", *ports[0])
        await listed(consul, "tools", *ports[1])
        async with (
            asking(consul=_consul(consul.port, "round_robin"), llm={"service_name": "llm"}) as ask,
            calling("http", consul.port, "round_robin") as call,
            load(ask, callers // 2) as asked,
            load(call, callers // 2) as called,
        ):
            await asyncio.sleep(STEADY_SECS)
            yield asked, *ports
        asked.calls += called.calls
        asked.lost += called.lost


async def flapping(secs: float, callers: int) -> Row | None:
    async with agent() as consul:
        if consul is None:
            return None
        begun = time.monotonic()
        async with both(consul, callers) as (seen, models, tools):
            while time.monotonic() - begun < secs:
                await asyncio.to_thread(consul.stop)
                await asyncio.sleep(0.5)
                await asyncio.to_thread(consul.start)
                await listed(consul, "llm", *models)
                await listed(consul, "tools", *tools)
                await asyncio.sleep(0.5)
        end = time.monotonic()
        return Row(seen, seen.quiet(begun, end), seen.longest(begun, end))


async def coming_and_going(secs: float, callers: int) -> Row | None:
    async with agent() as consul:
        if consul is None:
            return None
        begun, turn = time.monotonic(), 0
        async with both(consul, callers) as (seen, models, tools):
            while time.monotonic() - begun < secs:
                for service, ports in (("llm", models), ("tools", tools)):
                    # One, the other, both, none.
                    for number, port in enumerate(ports):
                        wanted = (turn + number) % 4 in (0, 1)
                        await (listed if wanted else unlisted)(consul, service, port)
                turn += 1
                await asyncio.sleep(1.0)
        end = time.monotonic()
        return Row(seen, seen.quiet(begun, end), seen.longest(begun, end))
