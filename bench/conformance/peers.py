"""The peers, and the environments that hold them: each made from a lock file, away from Replan's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv-conformance"
LOCKS = {
    "peers": "locks/conformance.txt",
    "crewai": "locks/conformance-crewai.txt",
    "llmcompiler": "locks/conformance-llmcompiler.txt",
}
"""Two peers want older libraries than the others bear: they have environments of their own."""


@dataclass(frozen=True)
class Peer:
    """One framework, its programs, and where it is installed. No environment: where this runs."""

    key: str
    label: str
    environment: str = ""

    @property
    def module(self) -> str:
        return f"bench.conformance.{self.key}_cases"

    @property
    def python(self) -> Path:
        return python_of(self.environment) if self.environment else Path(sys.executable)


PEERS = [
    Peer("langgraph", "LangGraph", "peers"),
    Peer("pydantic_ai", "Pydantic AI", "peers"),
    Peer("openai_agents", "OpenAI Agents", "peers"),
    Peer("adk", "Google ADK", "peers"),
    Peer("agent_framework", "Agent Framework", "peers"),
    Peer("crewai", "CrewAI", "crewai"),
    Peer("llmcompiler", "LLMCompiler (LlamaIndex)", "llmcompiler"),
    Peer("replan", "Replan"),
]


def python_of(environment: str) -> Path:
    return FOLDER / environment / "bin" / "python"


def set_up(names: Iterable[str]) -> None:
    """Make the environments, as the Makefile makes Replan's."""
    for name in names:
        folder = FOLDER / name
        print(f"{folder.relative_to(ROOT)} from {LOCKS[name]}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        wanted = ["--require-hashes", "--no-deps", "-r", str(ROOT / LOCKS[name])]
        pip = [str(python_of(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *wanted], check=True)
