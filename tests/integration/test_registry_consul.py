"""Consul as a registry: against the real agent, and against a stand-in that the same tests hold to it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from consul_agent import RealAgent, asked, consul, free_ports
from consul_stand_in import StandIn
from replan.discovery.balance import Balance
from replan.discovery.consul.client import Agent, Consul
from replan.discovery.consul.instances import ConsulRegistry
from replan.discovery.consul.registration import Offer, Registration
from replan.discovery.discovered import Discovered
from replan.discovery.dns.registries import SrvRegistry
from replan.errors import RegistryUnavailable
from replan.ports import Instance

pytestmark = pytest.mark.anyio
SECS = 20.0


class Real:
    """The real agent, asked beside the event loop."""

    def __init__(self) -> None:
        self.agent = RealAgent()
        self.port = self.agent.port

    async def start(self) -> None:
        await asyncio.to_thread(self.agent.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self.agent.stop)

    async def start_anew(self) -> None:
        """With lost state."""
        await self.stop()
        await self.start()


class Imitated:
    def __init__(self) -> None:
        self.agent = StandIn()

    @property
    def port(self) -> int:
        return self.agent.port

    async def start(self) -> None:
        await self.agent.start()

    async def stop(self) -> None:
        await self.agent.stop()
        self.agent.forget()

    async def start_anew(self) -> None:
        await self.stop()
        await self.start()


@pytest.fixture(params=["agent", "stand-in"])
async def agent(request: pytest.FixtureRequest) -> AsyncIterator[Real | Imitated]:
    if request.param == "agent" and consul() is None:
        pytest.skip("no Consul agent is here, and the package cannot be fetched: only the stand-in is tried")
    found = Real() if request.param == "agent" else Imitated()
    await found.start()
    try:
        yield found
    finally:
        await found.stop()


@contextlib.asynccontextmanager
async def registry(port: int, **options: Any) -> AsyncIterator[ConsulRegistry]:
    made = ConsulRegistry(Consul(Agent(port=port)), **options)
    try:
        yield made
    finally:
        await made.aclose()


async def put(port: int, path: str, body: Any = None) -> Any:
    return await asyncio.to_thread(asked, port, "PUT", path, body)


async def register(port: int, name: str, at: int, **more: Any) -> None:
    service = {"ID": f"{name}-{at}", "Name": name, "Address": "127.0.0.1", "Port": at, **more}
    await put(port, "/v1/agent/service/register", service)


async def until(holds: Callable[[], bool], doing: Callable[[], Any] = lambda: None) -> None:
    async with asyncio.timeout(SECS):
        while not holds():
            doing()
            await asyncio.sleep(0.01)


def offer(name: str = "replan", **more: Any) -> Offer:
    known: dict[str, Any] = {
        "id": f"{name}-1", "name": name, "address": "127.0.0.1", "port": 4000, "grpc_port": 4001,
        "check_url": "http://127.0.0.1:1/ready", "check_grpc": None, "interval_secs": 60, "timeout_secs": 5, "tags": ("blue",),
    }  # fmt: skip
    return Offer(**known | more)


async def test_instances_are_listed_and_a_change_is_heard_at_once(agent: Real | Imitated) -> None:
    async with registry(agent.port) as found:
        none = await found.look("llm", None)
        assert none.instances == ()
        waiting = asyncio.create_task(found.look("llm", none.mark))
        await register(
            agent.port,
            "llm",
            9001,
            Meta={"scheme": "https", "path": "/v1"},
            Weights={"Passing": 3, "Warning": 1},
        )
        async with asyncio.timeout(SECS):
            one = await waiting  # an agent that has just been started may wake up for itself
            while not one.instances:
                one = await found.look("llm", one.mark)
        assert one.instances == (Instance("127.0.0.1", 9001, "https", "/v1", 3),)
        waiting = asyncio.create_task(found.look("llm", one.mark))
        await register(
            agent.port, "other", 9100
        )  # an agent may wake up for that; nothing of ours has changed
        await register(agent.port, "llm", 9002)
        async with asyncio.timeout(SECS):
            two = await waiting
            while len(two.instances) < 2:
                two = await found.look("llm", two.mark)
        assert {each.port for each in two.instances} == {9001, 9002}
        await put(agent.port, "/v1/agent/service/deregister/llm-9001")
        async with asyncio.timeout(SECS):
            while len(two.instances) > 1:
                two = await found.look("llm", two.mark)
        assert [each.port for each in two.instances] == [9002]


async def test_only_instances_with_all_of_the_tags_are_taken(agent: Real | Imitated) -> None:
    await register(agent.port, "llm", 9001, Tags=["blue", "large"])
    await register(agent.port, "llm", 9002, Tags=["blue"])
    async with registry(agent.port, tags=["large", "blue"]) as found:
        assert [each.port for each in (await found.look("llm", None)).instances] == [9001]
    async with registry(agent.port, tags=["green", "blue"]) as found:
        none = await found.look("llm", None)
    assert (none.instances, none.odd) == (
        (),
        ("2 have not all of [consul] discover_tags (blue, green)",),
    )


async def test_the_port_of_another_protocol_is_taken_from_the_metadata(agent: Real | Imitated) -> None:
    await register(agent.port, "tools", 9001, Meta={"grpc_port": "9444"})
    async with registry(agent.port, port_key="grpc_port") as found:
        assert [each.port for each in (await found.look("tools", None)).instances] == [9444]


async def test_an_instance_without_an_address_is_on_the_machine_of_its_agent(agent: Real | Imitated) -> None:
    await register(agent.port, "llm", 9001, Address="")
    async with registry(agent.port) as found:
        assert (await found.look("llm", None)).instances == (Instance("127.0.0.1", 9001),)


async def test_what_is_known_outlives_the_agent_and_its_loss_of_state(agent: Real | Imitated) -> None:
    await register(agent.port, "llm", 9001)
    found = Discovered(
        ConsulRegistry(Consul(Agent(port=agent.port))),
        "llm",
        scheme="http",
        balance=Balance(),
        others=["http://o"],
    )
    await found.begin()
    assert found.order() == ("http://127.0.0.1:9001", "http://o")
    await agent.stop()
    await until(lambda: "cannot be reached" in found.state().problem)
    assert found.order() == ("http://127.0.0.1:9001", "http://o")
    await agent.start()
    await until(lambda: "no instance is listed" in found.state().problem)
    assert found.order() == ("http://127.0.0.1:9001", "http://o"), (
        "an agent that knows nothing is not believed"
    )
    await register(agent.port, "llm", 9002)
    await until(lambda: found.known() == ("http://127.0.0.1:9002", "http://o"))
    assert found.state().problem == ""
    await found.aclose()


@pytest.mark.skipif(consul() is None, reason="no Consul agent is here, and the package cannot be fetched")
async def test_the_real_agents_own_dns_is_read_as_well() -> None:
    real = RealAgent()
    await asyncio.to_thread(real.start)
    try:
        for port in range(9001, 9021):  # over UDP it tells three of them, and not that there are more
            await register(real.port, "llm", port)
        found = SrvRegistry([("127.0.0.1", real.dns_port)])
        async with asyncio.timeout(SECS):
            while len((look := await found.look("llm.service.consul", None)).instances) < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            none = await found.look("nobody.service.consul", None)
        assert sorted(each.port for each in look.instances) == list(range(9001, 9021))
        assert {each.host for each in look.instances} == {"127.0.0.1"}
        assert none.instances == ()
    finally:
        await asyncio.to_thread(real.stop)


async def test_a_registration_stands_and_is_taken_back(agent: Real | Imitated) -> None:
    registration = Registration(Consul(Agent(port=agent.port)), offer())
    await registration.begin()
    async with asyncio.timeout(SECS):
        await registration.stands()
    async with registry(agent.port) as found:
        assert (await found.look("replan", None)).instances == (Instance("127.0.0.1", 4000),)
        async with registry(agent.port, port_key="grpc_port", tags=["blue"]) as over_grpc:
            assert [each.port for each in (await over_grpc.look("replan", None)).instances] == [4001]
        await registration.leave()
        assert (await found.look("replan", None)).instances == ()
    assert (registration.made, registration.problem) == (1, "it was taken back")


async def test_an_agent_that_has_lost_its_state_is_told_again(agent: Real | Imitated) -> None:
    registration = Registration(Consul(Agent(port=agent.port)), offer(), look_secs=0.05)
    await registration.begin()
    async with asyncio.timeout(SECS):
        await registration.stands()
    await agent.start_anew()
    await until(lambda: registration.made > 1 and not registration.problem)
    async with registry(agent.port) as found:
        assert len((await found.look("replan", None)).instances) == 1
    await registration.leave()


async def test_a_registration_is_made_once_the_agent_is_there(agent: Real | Imitated) -> None:
    await agent.stop()
    registration = Registration(Consul(Agent(port=agent.port)), offer(), look_secs=0.05)
    await registration.begin()
    await until(lambda: "cannot be reached" in registration.problem)
    await agent.start()
    async with asyncio.timeout(SECS):
        await registration.stands()
    await registration.leave()
    async with registry(agent.port) as found:
        assert (await found.look("replan", None)).instances == ()


async def test_leaving_an_agent_that_is_gone_ends(agent: Real | Imitated) -> None:
    registration = Registration(Consul(Agent(port=agent.port)), offer())
    await registration.begin()
    async with asyncio.timeout(SECS):
        await registration.stands()
    await agent.stop()
    async with asyncio.timeout(SECS):
        await registration.leave()


@pytest.mark.skipif(consul() is None, reason="no Consul agent is here, and the package cannot be fetched")
async def test_tokens_of_the_real_agent() -> None:
    root = "b1gs33cr3t-root"
    acl = {"enabled": True, "default_policy": "deny", "tokens": {"master": root, "agent": root}}
    real = RealAgent(config={"acl": acl, "primary_datacenter": "dc1"})
    await asyncio.to_thread(real.start)
    try:

        async def bootstrapped() -> None:
            while True:
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(real.ask, "GET", "/v1/acl/token/self", None, root)
                    return
                await asyncio.sleep(0.05)

        async with asyncio.timeout(SECS):
            await bootstrapped()
        good = Registration(Consul(Agent(port=real.port, token=root)), offer(), look_secs=0.05)
        await good.begin()
        async with asyncio.timeout(SECS):
            await good.stands()
        found = ConsulRegistry(Consul(Agent(port=real.port, token=root)))
        assert len((await found.look("replan", None)).instances) == 1
        await found.aclose()
        bad = Consul(Agent(port=real.port, token="somebody-elses"))
        with pytest.raises(RegistryUnavailable, match=r"refuses \(HTTP 403.*set \[consul\] token") as told:
            await bad.ask("PUT", "/v1/agent/service/register", secs=5, body=offer("x").as_json())
        assert "somebody-elses" not in str(told.value)
        await bad.aclose()
        await good.leave()
    finally:
        await asyncio.to_thread(real.stop)


@pytest.mark.skipif(
    consul() is None or shutil.which("openssl") is None, reason="no Consul agent, or no openssl, is here"
)
async def test_the_real_agent_is_asked_over_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    await asyncio.to_thread(
        subprocess.run,
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
         "-out", certificate, "-days", "2", "-subj", "/CN=agent", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    (port,) = free_ports(1)
    real = RealAgent(
        config={
            "key_file": str(key),
            "cert_file": str(certificate),
            "ca_file": str(certificate),
            "verify_incoming_https": True,
        },
        https=port,
    )
    await asyncio.to_thread(real.start)
    known = {"ca_file": str(certificate), "cert_file": str(certificate), "key_file": str(key)}
    try:
        registration = Registration(Consul(Agent(port=port, tls=True, **known)), offer())  # type: ignore[arg-type]
        await registration.begin()
        async with asyncio.timeout(SECS):
            await registration.stands()
        found = ConsulRegistry(Consul(Agent(port=port, tls=True, **known)))  # type: ignore[arg-type]
        assert len((await found.look("replan", None)).instances) == 1
        await found.aclose()
        for lacking in ({}, {"ca_file": str(certificate)}):
            bad = Consul(Agent(port=port, tls=True, **lacking))
            with pytest.raises(RegistryUnavailable, match="cannot be reached"):
                await bad.ask("GET", "/v1/health/service/replan", secs=5)
            await bad.aclose()
        await registration.leave()
    finally:
        await asyncio.to_thread(real.stop)
