"""Other frameworks as runners of the same cases: LangGraph, Pydantic AI and the OpenAI Agents SDK.

Each is set up so that its model is shown the errors of tools, which is the most that its interface allows; what is not
the framework's default is said in `SETTINGS`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass

from bench.recovery.agents import Agent, AgentOracle, Hands, measure
from bench.recovery.row import Row
from bench.recovery.task import Case
from replan.testing import virtual_time


@dataclass(frozen=True)
class Peer:
    """A framework and the module that builds its agent."""

    label: str
    package: str
    module: str
    settings: str
    """What is not its default."""

    def version(self) -> str | None:
        """None: it is not installed."""
        try:
            importlib.import_module(self.module)
            return importlib.metadata.version(self.package)
        except (ImportError, importlib.metadata.PackageNotFoundError):
            return None

    def run(self, case: Case, right: float, seed: int) -> Row:
        build: Callable[[Hands, AgentOracle], Agent] = importlib.import_module(self.module).build

        async def main() -> Row:
            world = case.make_world()
            oracle = AgentOracle(case, world, right, seed)
            return await measure(self.label, case, world, oracle, build(Hands(case, world), oracle), right)

        return virtual_time(main())


PEERS = (
    Peer(
        "LangGraph", "langgraph", "bench.recovery.peer_langgraph",
        "create_react_agent, ToolNode(handle_tool_errors=True), recursion_limit 400, saved in memory",
    ),
    Peer(
        "Pydantic AI", "pydantic-ai-slim", "bench.recovery.peer_pydantic_ai",
        "tools raise ModelRetry, retries 100, no request limit",
    ),
    Peer(
        "OpenAI Agents", "openai-agents", "bench.recovery.peer_openai_agents",
        "errors of tools as texts, as its decorator does, max_turns 200, SQLite session in memory",
    ),
)  # fmt: skip

NOT_THERE = {
    "missing parameter, wrong order, missing step": "there is no plan: the agent's next turn is what would be planned",
    "rate limit": "the model cannot say that it wants to wait: it can only call again",
    "fails after its effect": "nothing stands between the model and a second call",
}
"""What the peers' interfaces do not have."""
