"""Services that are looked for: models and tools at instances that come and go, whatever the registry does."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from remote_process import Proxy

from consul_agent import free_ports
from consul_stand_in import StandIn
from listening import listening
from replan import Replan
from replan.config import Settings
from replan.discovery.balance import Balance
from replan.discovery.consul.client import MOST_BYTES, Agent, Consul
from replan.discovery.consul.instances import ConsulRegistry
from replan.discovery.discovered import Discovered
from replan.errors import RegistryUnavailable, ToolCallError
from replan.ports import ModelRequest, ToolCall, Turn
from replan.testing import EndpointFault, ScriptedEndpoint
from replan.tools import FunctionSource, tool
from replan.tools.remote import RemoteSource
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running
from replan.wiring import Models, discovery_of

pytestmark = pytest.mark.anyio
SECS = 20.0
ANSWER = {
    "overall_score": 95,
    "is_successful": True,
    "dimensions": dict.fromkeys(("completeness", "correctness", "efficiency", "reliability"), 95),
    "final_output": "rain",
}
PLAN = {"steps": [{"step_id": "a", "tool": "echo", "parameters": {"value": "x"}}]}
SCRIPT = {"execution_plan": PLAN, "evaluation": ANSWER}


@asynccontextmanager
async def stand_in() -> AsyncIterator[StandIn]:
    consul = StandIn()
    await consul.start()
    try:
        yield consul
    finally:
        await consul.stop()


@asynccontextmanager
async def looking(consul: StandIn, service: str = "llm", **options: Any) -> AsyncIterator[Discovered]:
    registry = ConsulRegistry(Consul(Agent(port=consul.port)))
    found = Discovered(registry, service, scheme="http", balance=Balance(), **options)
    await found.begin()
    try:
        yield found
    finally:
        await found.aclose()


def configured(agent: StandIn, **sections: Any) -> Settings:
    section = {"enabled": True, "port": agent.port, **sections.pop("consul", {})}
    return Settings.model_validate({"consul": section, **sections})


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECS):
        while not holds():  # noqa: ASYNC110 - what others see is looked at
            await asyncio.sleep(0.005)


def port_of(url: str) -> int:
    return int(url.partition("//")[2].partition("/")[0].rpartition(":")[2])


# ── the registry misbehaves ──


@pytest.mark.parametrize(
    ("status", "kind", "body", "told"),
    [
        (500, "text/plain", b"No cluster leader", "HTTP 500: No cluster leader"),
        (502, "text/html", b"<html>Bad gateway</html>", "HTTP 502"),
        (200, "text/html", b"<html>Welcome</html>", "does not answer as Consul does"),
        (200, "application/json", b"[{", "is no JSON"),
        (200, "application/json", b"[" * 100_000, "is no JSON"),
        (200, "application/json", b'{"a": 1}', "the list of instances is none"),
        (200, "application/json", b"", "the list of instances is none"),
        (200, "application/json", b" " * (MOST_BYTES + 1), "has more than 4,000,000 bytes"),
        (200, "application/json", b"[]", "no instance is listed; the 1 known last are asked"),
        (200, "application/json", b"[null, 7, {}]", "none that can be used is listed"),
        (403, "text/plain", b"Permission denied", "set [consul] token"),
        (301, "text/plain", b"", "HTTP 301"),
    ],
)
async def test_the_instances_known_last_outlive_any_answer(
    status: int, kind: str, body: bytes, told: str
) -> None:
    async with stand_in() as consul:
        consul.set("llm", 9001)
        async with looking(consul) as found:
            assert found.order() == ("http://127.0.0.1:9001",)
            consul.fault = lambda path: (status, kind, body)
            consul.change()  # ends the question that waits, with what was right
            await until(lambda: told in found.state().problem)
            assert found.order() == ("http://127.0.0.1:9001",)
            consul.fault = None
            consul.set("llm", 9002)
            await until(lambda: found.order() == ("http://127.0.0.1:9002",))
            assert found.state().problem == ""


async def test_of_what_is_listed_each_that_can_be_used_is_and_the_others_are_told() -> None:
    def entry(address: Any, port: Any, node: Any = "10.0.0.7", **service: Any) -> dict[str, Any]:
        return {"Node": {"Address": node}, "Service": {"Address": address, "Port": port, **service}}

    async with stand_in() as consul:
        consul.lists = [
            entry("10.0.0.1", 80), entry("", 81), entry("fd00::1", 82), entry("[fd00::2]", 83), entry("h.example", 84),
            entry("10.0.0.1", 80), entry("a b", 85), entry("u:p@h", 86), entry("10.0.0.2", 0), entry("10.0.0.3", "x"),
            entry("fe80::1%eth0", 87), entry(None, 88, None), entry("10.0.0.4", 443, Meta={"scheme": "https", "path": "/v1"}),
            entry("10.0.0.5", 443, Meta={"scheme": "javascript:"}), "nonsense",
        ]  # fmt: skip
        async with looking(consul) as found:
            assert set(found.order()) == {
                "http://10.0.0.1:80", "http://10.0.0.7:81", "http://[fd00::1]:82", "http://[fd00::2]:83",
                "http://h.example:84", "https://10.0.0.4:443/v1",
            }  # fmt: skip
            assert found.state().problem.startswith("8 listed cannot be used: ")


async def test_a_list_without_end_is_cut() -> None:
    async with stand_in() as consul:
        one = {"Service": {"Address": "10.0.0.1"}, "Node": {}}
        consul.lists = [{**one, "Service": {**one["Service"], "Port": port}} for port in range(1, 5_000)]
        async with looking(consul) as found:
            assert len(found.order()) == 1_000
            assert "more than" in found.state().problem


@pytest.mark.parametrize(
    "shown", [lambda index: None, lambda index: "-7", lambda index: "x", lambda index: "0"]
)
async def test_an_agent_without_an_index_is_not_asked_without_pause(
    shown: Callable[[int], str | None],
) -> None:
    async with stand_in() as consul:
        consul.set("llm", 9001)
        consul.index_shown = shown
        async with looking(consul) as found:
            await asyncio.sleep(0.5)
            assert len(consul.asked) <= 4
            consul.set("llm", 9002)
            await until(lambda: found.known() == ("http://127.0.0.1:9002",))


async def test_an_index_that_goes_back_is_not_waited_for() -> None:
    async with stand_in() as consul:
        consul.set("llm", 9001)
        turns = iter([10**6])
        consul.index_shown = lambda index: str(next(turns, index))
        async with looking(consul) as found:
            consul.index = 10**6  # what it waits for
            consul.index_shown = str
            consul.index = 3
            consul.set("llm", 9002)
            await until(lambda: found.known() == ("http://127.0.0.1:9002",))
            consul.set("llm", 9003)
            await until(lambda: found.known() == ("http://127.0.0.1:9003",))
            assert any("index=" not in asked for asked in consul.asked[1:]), "it is asked anew"


async def test_a_registry_that_flaps_is_told_in_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "replan.discovery")
    async with stand_in() as consul:
        consul.set("llm", 9001)
        async with looking(consul) as found:
            for turn in range(1, 7):
                consul.fault = lambda path: (500, "text/plain", b"")
                consul.change()
                failures = found.state().failures
                await until(lambda failures=failures: found.state().failures > failures)  # type: ignore[misc]
                consul.fault = None
                consul.set("llm", 9001, 9001 + turn)
                await until(lambda turn=turn: f"http://127.0.0.1:{9001 + turn}" in found.known())  # type: ignore[misc]
    lines = [record.getMessage() for record in caplog.records if record.name == "replan.discovery"]
    assert len(lines) == 2
    assert "HTTP 500" in lines[0]
    assert "the latest of" in lines[1]
    assert "2 instances" in lines[1], "the end is how it stands"


async def test_without_a_registry_the_first_call_waits_a_little_and_the_others_not_at_all() -> None:
    async with stand_in() as consul:
        consul.fault = lambda path: None  # it never answers
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with looking(consul, others=["http://other"]) as found:
            assert 1.5 < loop.time() - begun < 10
            begun = loop.time()
            await found.begin()
            assert loop.time() - begun < 0.5
            assert found.order() == ("http://other",)


# ── models ──


REQUEST = ModelRequest(
    role="evaluation",
    schema_name="evaluation",
    json_schema={"type": "object", "properties": {"final_output": {}}},
    instructions="Judge.",
    turns=(Turn(role="user", text="?"),),
)


async def test_instances_are_asked_then_the_fallback_then_the_endpoint() -> None:
    down = EndpointFault(status=503)
    async with stand_in() as consul:
        with (
            ScriptedEndpoint(SCRIPT, faults=[down] * 3) as instance,
            ScriptedEndpoint(SCRIPT, faults=[down] * 2) as fallback,
            ScriptedEndpoint(SCRIPT, faults=[down]) as endpoint,
        ):
            consul.set("llm-service", port_of(instance.url))
            llm = {
                "service_name": "llm-service", "endpoint": endpoint.url, "fallback_endpoint": fallback.url,
                "default_model": "scripted", "max_retries": 0,
            }  # fmt: skip
            models = Models(configured(consul, llm=llm))
            model, answered = models["evaluation"], []
            for _ in range(4):
                try:
                    reply = await model.ask(REQUEST)
                    answered.append(port_of("//" + reply.endpoint.rpartition("@")[2]))
                except Exception as error:  # noqa: BLE001
                    answered.append(str(error).count("503"))
            await models.aclose()
    order = [port_of(each.url) for each in (instance, fallback, endpoint)]
    # First all are down; then the last is well, then the one before. By the fourth the first has failed three times.
    assert answered[0] == 3
    assert answered[1:] == [order[2], order[1], order[1]]
    assert len(instance.requests) == 3


async def test_a_task_goes_on_at_another_instance_when_one_is_gone(tmp_path: Path) -> None:
    async with stand_in() as consul:
        with ScriptedEndpoint(SCRIPT) as stays:
            with ScriptedEndpoint(SCRIPT) as goes:
                consul.set("llm-service", port_of(goes.url))
                llm = {"service_name": "llm-service", "default_model": "scripted", "max_retries": 1}
                settings = configured(consul, llm=llm)
                replan = Replan(tools=[echo], db=tmp_path / "db", settings=settings)
                await replan.open()
                assert (await replan.run("one")).succeeded
            consul.set("llm-service", port_of(goes.url), port_of(stays.url))  # dead, and listed as well
            assert replan.discovery.models is not None
            known = replan.discovery.models.known
            await until(lambda: len(known()) == 2)
            assert (await replan.run("two")).succeeded
            assert len(stays.requests) == 2
            await replan.aclose()


@tool(effect="reads")
async def echo(value: Any) -> Any:
    """Give the value back."""
    return value


async def test_nobody_known_is_told_with_the_reason(tmp_path: Path) -> None:
    async with stand_in() as consul:
        settings = configured(consul, llm={"service_name": "llm-service", "max_retries": 0})
        async with Replan(tools=[echo], db=tmp_path / "db", settings=settings) as replan:
            result = await replan.run("one")
    assert not result.succeeded
    assert "no instance of the model service 'llm-service' is known: Consul at http://127.0.0.1" in str(
        result.model_dump()
    )


# ── tools ──


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_tools_are_called_at_instances_that_come_and_go(protocol: str) -> None:
    ports: dict[str, Any] = {"port": 0} if protocol == "http" else {"port": None, "grpc_port": 0}
    async with stand_in() as consul, running([FunctionSource([echo])], keys=Keys(), **ports) as first:
        consul.set("tools", port_of(first.urls[0]))
        service = {"service_name": "tools", "protocol": protocol}
        found = discovery_of(configured(consul, tool_service=service)).tools
        assert found is not None
        source = RemoteSource(found, name="tool_service", protocol=protocol)  # type: ignore[arg-type]
        changes: list[None] = []
        source.watch(lambda: changes.append(None))
        assert [spec.id for spec in await source.tools()] == ["echo"]
        assert await source.call(ToolCall("echo", {"value": 1}, "a")) == 1
        async with running([FunctionSource([echo])], keys=Keys(), **ports) as second:
            consul.set("tools", port_of(second.urls[0]))
            await until(lambda: bool(changes))
            assert source.urls == (second.urls[0],)
            assert await source.call(ToolCall("echo", {"value": 2}, "b")) == 2
        # Gone, and listed still; the other is back.
        consul.set("tools", port_of(second.urls[0]), port_of(first.urls[0]))
        await until(lambda: len(source.urls) == 2)
        for number in range(5):
            assert await source.call(ToolCall("echo", {"value": number}, f"c{number}")) == number
        await source.aclose()


@pytest.mark.parametrize("strategy", ["sticky", "round_robin"])
async def test_an_instance_that_takes_calls_and_answers_none_is_left_alone(strategy: str) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with (
        listening(mute) as dead,
        stand_in() as consul,
        running([FunctionSource([echo])], keys=Keys(), grace_secs=0) as alive,
    ):
        consul.set("tools", port_of(alive.urls[0]), dead)
        service = {"service_name": "tools", "protocol": "http", "timeout_secs": 0.3}
        settings = configured(consul, consul={"load_balance": strategy}, tool_service=service)
        found = discovery_of(settings).tools
        assert found is not None
        source = RemoteSource(found, name="tool_service", protocol="http", timeout_secs=0.3)
        await source.tools()
        late = 0
        async with asyncio.timeout(SECS):
            for number in range(200):
                try:
                    assert await source.call(ToolCall("echo", {"value": number}, "")) == number
                except ToolCallError:
                    late += 1
                    await asyncio.sleep(0.35)  # it is looked after meanwhile
        assert late <= 3
        await source.aclose()


async def test_a_call_whose_answer_was_lost_is_not_made_at_another_instance(tmp_path: Path) -> None:
    made: list[str] = []
    begun = asyncio.Event()

    def offering(name: str) -> FunctionSource:
        @tool(effect="once")
        async def pay(amount: int) -> str:
            """Pay."""
            made.append(name)
            begun.set()
            await asyncio.Event().wait()
            return name

        return FunctionSource([pay])

    async with (
        stand_in() as consul,
        running([offering("a")], keys=Keys(tmp_path / "a"), port=0, grace_secs=0) as a,
        running([offering("b")], keys=Keys(tmp_path / "b"), port=0, grace_secs=0) as b,
    ):
        proxy = Proxy(port_of(a.urls[0]))
        await proxy.start()
        consul.set("tools", proxy.port)
        service = {"service_name": "tools", "protocol": "http"}
        found = discovery_of(configured(consul, tool_service=service)).tools
        assert found is not None
        source = RemoteSource(found, name="tool_service", protocol="http", max_retries=1)
        await source.tools()
        call = asyncio.create_task(source.call(ToolCall("pay", {"amount": 1}, "key", effect="once")))
        await begun.wait()
        consul.set("tools", port_of(b.urls[0]))
        await until(lambda: source.urls == (b.urls[0],))
        await proxy.stop()
        proxy.cut()
        with pytest.raises(ToolCallError) as lost:
            await call
        assert lost.value.happened == "unknown"
        assert made == ["a"]
        await source.aclose()


async def test_a_call_that_a_crash_cut_off_is_made_again_only_where_its_key_is_known(tmp_path: Path) -> None:
    made: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    def offering(name: str) -> FunctionSource:
        @tool(effect="once")
        async def pay(amount: int) -> str:
            """Pay."""
            made.append(name)
            begun.set()
            await go.wait()
            return name

        return FunctionSource([pay])

    def source(url: str) -> RemoteSource:
        return RemoteSource([url], name="tool_service")

    plan = {"steps": [{"step_id": "p", "tool": "pay", "parameters": {"amount": 1}}]}
    async with (
        running([offering("a")], keys=Keys(tmp_path / "a"), port=0, grace_secs=0) as a,
        running([offering("b")], keys=Keys(tmp_path / "b"), port=0, grace_secs=0) as b,
    ):
        async with Replan(tools=[source(a.urls[0])], db=tmp_path / "first.db") as first:
            task = await first.submit("pay", plan=plan, evaluation="steps")
            await begun.wait()
            for left in ("elsewhere.db", "there.db"):  # what a process that is killed now leaves
                copied(tmp_path / "first.db", tmp_path / left)
            await first.cancel(task)
            await first.wait(task)
        go.set()
        async with Replan(tools=[source(b.urls[0])], db=tmp_path / "elsewhere.db") as again:
            lost = await again.resume(task)
        assert made == ["a"]
        assert lost.status != "succeeded"
        async with Replan(tools=[source(a.urls[0])], db=tmp_path / "there.db") as again:
            await again.resume(task)
        assert made == ["a"]


def copied(database: Path, copy: Path) -> None:
    with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)


# ── what is said of it ──


def test_doctor_tells_what_is_listed_and_what_is_not(tmp_path: Path) -> None:
    from replan.cli.doctor.registry import services

    (port,) = free_ports(1)
    listed = {
        "llm": {"service_name": "static:10.0.0.1:8000,[fd00::1]:8001"},
        "tool_service": {"service_name": "tools"},
    }
    settings = Settings.model_validate({**listed, "consul": {"enabled": True, "port": port}})
    found = list(services(settings))
    assert [(one.name, one.state) for one in found] == [
        ("registry", "ok"),
        ("registry", "problem"),
        ("registry", "problem"),
    ]
    assert "2 instances (http://10.0.0.1:8000, http://[fd00::1]:8001)" in found[0].found
    assert "cannot be reached" in found[1].found


def test_the_token_is_shown_nowhere(tmp_path: Path) -> None:
    from replan.config import as_json, as_toml, load_settings

    (tmp_path / "config.toml").write_text('[consul]\nenabled = true\ntoken = "t0k3n-of-consul"\n')
    loaded = load_settings(cwd=tmp_path, env={})
    assert loaded.warnings == ()
    assert "t0k3n-of-consul" not in as_toml(loaded) + json.dumps(as_json(loaded))
    replan = Replan(settings=loaded.settings, db=tmp_path / "db")
    assert "t0k3n-of-consul" not in replan.secrets.hide("it says t0k3n-of-consul")


# ── a task that goes on elsewhere ──


def test_a_key_goes_to_the_service_that_the_settings_of_the_process_name() -> None:
    from replan.cli.terminal.going_on import own_destinations
    from replan.cli.terminal.opening import built_in_model

    llm = {"service_name": "static:10.0.0.1:80", "fallback_endpoint": "http://b:80/v1", "api_key": "k"}
    settings = Settings.model_validate({"llm": llm})
    assert Models(settings).destinations() == own_destinations(settings)
    assert own_destinations(settings) == {"service static:10.0.0.1:80", "http://b:80"}
    assert Models(settings, endpoint="http://c:80").destinations() == {"http://c:80"}
    assert built_in_model(settings, None, None) is None
    plain = Settings.model_validate({"llm": {"service_name": "llm-service"}})  # and no Consul
    assert Models(plain).destinations() == own_destinations(plain) == frozenset()
    assert built_in_model(plain, None, None) is not None


def test_a_log_says_to_nobody_which_service_is_asked() -> None:
    from replan.config.recorded import going_on, recorded

    log = recorded(
        Settings.model_validate(
            {"llm": {"service_name": "evil", "default_model": "m"}, "consul": {"enabled": True}}
        )
    )
    assert "evil" not in json.dumps(log)
    own = Settings.model_validate({"llm": {"service_name": "llm-service"}, "consul": {"enabled": True}})
    for claimed in (log, {**log, "llm": {**log["llm"], "service_name": "evil"}, "consul": {"host": "evil"}}):
        settings = going_on(claimed, own).settings
        assert (settings.llm.service_name, settings.llm.default_model) == ("llm-service", "m")
        assert settings.consul == own.consul


async def test_a_registry_that_sends_without_end_is_given_up() -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        while not writer.is_closing():
            writer.write(b"1\r\n \r\n")
            await asyncio.sleep(0.01)
        writer.close()

    async with listening(trickle) as port:
        consul = Consul(Agent(port=port))
        with pytest.raises(RegistryUnavailable, match=r"no answer within 0\.2 s"):
            await consul.ask("GET", "/v1/health/service/llm", secs=0.2)
        await consul.aclose()


async def test_what_is_closed_looks_again_when_it_is_asked_again() -> None:
    async with stand_in() as consul:
        consul.set("llm", 9001)
        async with looking(consul) as found:
            await found.aclose()
            asked = len(consul.asked)
            consul.set("llm", 9002)
            assert found.order() == ("http://127.0.0.1:9001",)
            await found.begin()
            await until(lambda: found.order() == ("http://127.0.0.1:9002",))
            assert len(consul.asked) > asked
