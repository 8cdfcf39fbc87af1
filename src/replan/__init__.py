"""Replan: a self-healing task orchestrator.

from replan import Replan, tool

@tool(effect="reads")
def weather(city: str) -> dict: ...

async with Replan(tools=[weather]) as replan:
    result = await replan.run("Compare the weather in Rome and Oslo")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from replan.app import Replan, run_sync
    from replan.core.events import Record
    from replan.core.report.result import StepResult, TaskResult
    from replan.errors import ReplanError, RetryLater
    from replan.tools import File, ToolContext, tool

_HOMES = {
    "File": "replan.tools",
    "Replan": "replan.app",
    "run_sync": "replan.app",
    "Record": "replan.core.events",
    "StepResult": "replan.core.report.result",
    "TaskResult": "replan.core.report.result",
    "ReplanError": "replan.errors",
    "RetryLater": "replan.errors",
    "ToolContext": "replan.tools",
    "tool": "replan.tools",
}

__all__ = [
    "File",
    "Record",
    "Replan",
    "ReplanError",
    "RetryLater",
    "StepResult",
    "TaskResult",
    "ToolContext",
    "__version__",
    "run_sync",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import replan` stays quick."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'replan' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
