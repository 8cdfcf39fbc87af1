"""`replan serve` in Consul: registered while it serves, found well by the agent's own checks, and taken off the list at its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
import service_process
from service_here import service_on

from consul_agent import RealAgent, consul
from consul_stand_in import StandIn
from replan import Replan
from replan.config import Settings

pytestmark = pytest.mark.anyio
SECS = 20.0
NAME = "task-orchestration-service"
real_agent = pytest.mark.skipif(
    consul() is None, reason="no Consul agent is here, and the package cannot be fetched"
)


def made(folder: Path, port: int, **sections: Any) -> Replan:
    consul_section = {"enabled": True, "port": port, "health_check_interval": 1, **sections.pop("consul", {})}
    settings = Settings.model_validate({"server": {"port": 0}, "consul": consul_section, **sections})
    return Replan(db=folder / "tasks.db", settings=settings, evaluation="steps")


async def ready(url: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{url}/ready")
        found = answer.json()
    assert answer.status_code == (200 if found["ready"] else 503)
    return {"ready": found["ready"]} | {
        one["name"]: (one["ready"], one["detail"]) for one in found["dependencies"]
    }


async def test_it_is_registered_while_it_serves_and_ready_without_an_agent(tmp_path: Path) -> None:
    agent = StandIn()
    await agent.start()
    port = agent.port
    static = {"service_name": "static:127.0.0.1:1"}
    async with service_on(made(tmp_path, port, llm=static, consul={"tags": ["blue"]})) as here:
        async with asyncio.timeout(SECS):
            while not agent.services:  # noqa: ASYNC110 - what the agent has is looked at
                await asyncio.sleep(0.01)
        (service,) = agent.services.values()
        assert (service["Name"], service["Port"], service["Tags"]) == (NAME, here.port, ["blue"])
        assert service["Checks"][0]["HTTP"] == f"{here.url}/ready"
        before = await ready(here.url)
        assert before["ready"]
        assert before["registration"] == (True, "registered")
        await agent.stop()
        async with asyncio.timeout(SECS):
            while "cannot be reached" not in (now := await ready(here.url))["registration"][1]:  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.05)
        assert now["ready"], "it is as good as before for whoever knows where it is"
        assert now["registration"][0]
        async with httpx2.AsyncClient(trust_env=False) as client:
            text = (await client.get(f"{here.url}/metrics")).text
        assert "replan_registered 0.0" in text
        assert "replan_registrations_total 1.0" in text
        assert 'replan_discovery_instances{purpose="model service",service="127.0.0.1:1"} 1.0' in text
        assert before["model service"] == (True, "1 instance of 127.0.0.1:1")
        agent.port = port
        await agent.start()
        async with asyncio.timeout(SECS):
            while (await ready(here.url))["registration"][1] != "registered":  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.05)
        assert len(agent.services) == 1
    assert not agent.services
    await agent.stop()


@real_agent
async def test_the_real_agent_finds_it_well_over_http_and_grpc_and_another_start_takes_its_place(
    tmp_path: Path,
) -> None:
    agent = RealAgent()
    await asyncio.to_thread(agent.start)
    try:
        async with service_on(made(tmp_path, agent.port)):
            async with asyncio.timeout(SECS):
                while True:
                    checks = (await asyncio.to_thread(agent.ask, "GET", "/v1/agent/checks")).values()
                    said = " ".join(check["Output"] for check in checks)  # of the latest look
                    if "200 OK" in said and "success" in said:
                        break
                    await asyncio.sleep(0.05)
            assert {check["Status"] for check in checks} == {"passing"}
            assert len(checks) == 2
        assert await asyncio.to_thread(agent.ask, "GET", f"/v1/health/service/{NAME}") == []
    finally:
        await asyncio.to_thread(agent.stop)


@real_agent
def test_a_process_registers_and_is_off_the_list_after_sigterm(tmp_path: Path) -> None:
    agent = RealAgent()
    agent.start()
    try:
        env = {"APP_CONSUL_ENABLED": "true", "APP_CONSUL_PORT": str(agent.port)}
        with service_process.serving(tmp_path, env=env) as service:
            with service.client() as client:
                while client.get(f"{service.url}/ready").json()["dependencies"][-1]["detail"] != "registered":
                    pass
            listed = agent.ask("GET", f"/v1/health/service/{NAME}?passing=1")
            assert [one["Service"]["Port"] for one in listed] == [int(service.url.rpartition(":")[2])]
            told = service.end()
        assert f"{NAME} is registered at 127.0.0.1:" in told
        assert "is registered no more" in told
        assert agent.ask("GET", f"/v1/health/service/{NAME}") == []
    finally:
        agent.stop()
