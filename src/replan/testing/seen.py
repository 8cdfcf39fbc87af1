"""What a task was seen to do, read from its events, and assertions about it that say what was otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_json

from replan.core import events as e
from replan.core.report.result import TaskResult
from replan.core.types import JsonObject


@dataclass(frozen=True)
class SeenCall:
    """One call of a tool."""

    step_id: str
    tool: str
    parameters: JsonObject = field(default_factory=dict)
    """As it was called, secrets masked."""
    effect: str = "reads"
    outcome: str = "open"
    """`succeeded`, `failed`, `unknown` (it may have taken effect), or `open` (it has not come back)."""
    output: Any = None
    """None also where it is large and kept apart: `Replan.output` reads it."""
    error: str | None = None
    attempts: int = 1
    reused: bool = False
    """The output of an earlier, equal call was taken: nothing was called."""

    def __str__(self) -> str:
        return f"{self.tool}({_shown(self.parameters)}): {self.outcome}"


class Seen:
    """A task that has run: its `result`, its `events`, and what they come to.

    Each `assert_…` raises an `AssertionError` that says what was seen in place of what was expected.
    """

    def __init__(self, result: TaskResult[Any], events: Sequence[e.Record]) -> None:
        self.result = result
        self.events = tuple(events)

    @property
    def plans(self) -> list[JsonObject]:
        """Every plan that it had, the first one first."""
        return [
            one.event.plan.model_dump(mode="json")
            for one in self.events
            if isinstance(one.event, e.PlanGenerated | e.PlanUpdated)
        ]

    @property
    def calls(self) -> list[SeenCall]:
        """Every call, in the order in which they began; the tries of one are one."""
        found: dict[str, SeenCall] = {}
        for one in self.events:
            match one.event:
                case e.CallStarted() as it:
                    known = found.get(it.call_key)
                    if known is None:
                        known = SeenCall(it.step_id, it.tool_id, it.parameters, it.effect)
                    found[it.call_key] = replace(known, attempts=max(known.attempts, it.attempt))
                case e.CallCompleted() as it:
                    known = found.get(it.call_key)
                    if known is None:
                        known = SeenCall(it.step_id, it.tool_id)
                    elif it.reused:  # it has ended before
                        continue
                    found[it.call_key] = replace(
                        known, outcome="succeeded", output=it.output, reused=it.reused, error=None
                    )
                case e.CallFailed() | e.OutcomeUnknown() as it if it.call_key in found:
                    error = it.error.message if isinstance(it, e.CallFailed) else it.reason
                    outcome = "failed" if isinstance(it, e.CallFailed) else "unknown"
                    found[it.call_key] = replace(found[it.call_key], outcome=outcome, error=error)
                case e.OutcomeSettled() as it if it.call_key in found:
                    outcome = "succeeded" if it.happened else "failed"
                    found[it.call_key] = replace(found[it.call_key], outcome=outcome, output=it.output)
        return list(found.values())

    @property
    def effects(self) -> list[SeenCall]:
        """Calls that changed something, or may have: of tools that do not only read."""
        return [
            call
            for call in self.calls
            if call.effect != "reads" and call.outcome in ("succeeded", "unknown") and not call.reused
        ]

    def assert_succeeded(self) -> None:
        """It was evaluated as a success."""
        assert self.result.is_success, f"the task is {self.result.status}: {self.result.reason}"

    def assert_failed(self, reason: str = "") -> None:
        """It ended without success, for a reason with these words in it."""
        assert not self.result.is_success, "the task succeeded"
        assert reason in self.result.reason, (
            f"the reason has no {reason!r} in it; it is: {self.result.reason}"
        )

    def assert_planned(self, *tools: str) -> None:
        """The last plan calls these tools, in this order of its steps; of a step with several actions each."""
        assert self.plans, "there was no plan"
        found = [tool for step in self.plans[-1]["steps"] for tool in _tools_of(step)]
        assert found == list(tools), f"the plan calls {_names(found)}, not {_names(tools)}"

    def assert_called(
        self, tool: str, parameters: Mapping[str, Any] | None = None, *, times: int | None = None
    ) -> None:
        """The tool was called, with at least these parameters; `times`: so often, else once or more."""
        fitting = [call for call in self.calls if call.tool == tool and _has(call, parameters or {})]
        enough = bool(fitting) if times is None else len(fitting) == times
        often = "" if times is None else f" {times} times (it was {len(fitting)})"
        with_them = f" with {_shown(parameters)}" if parameters else ""
        assert enough, f"{tool} was not called{with_them}{often}; there were: {_listed(self.calls)}"

    def assert_not_called(self, *tools: str) -> None:
        """None of these was called."""
        found = [call for call in self.calls if call.tool in tools]
        assert not found, f"there were: {_listed(found)}"

    def assert_effects(self, *expected: tuple[str, Mapping[str, Any]]) -> None:
        """Exactly these effects, each once, in any order: `("pay", {"amount": 3})`, with at least these parameters."""
        left = self.effects
        for tool, parameters in expected:
            fitting = next((one for one in left if one.tool == tool and _has(one, parameters)), None)
            assert fitting is not None, (
                f"there was no effect {tool}({_shown(parameters)}); there were: {_listed(self.effects)}"
            )
            left.remove(fitting)
        assert not left, f"there were more effects than expected: {_listed(left)}"


def _tools_of(step: Mapping[str, Any]) -> list[str]:
    actions = step.get("actions") or ()
    named = [action.get("tool_id") or action.get("tool") for action in actions]
    return [str(one) for one in named or [step.get("tool_id") or step.get("tool")] if one]


def _has(call: SeenCall, parameters: Mapping[str, Any]) -> bool:
    return all(
        name in call.parameters and call.parameters[name] == value for name, value in parameters.items()
    )


def _shown(value: Any) -> str:
    return to_json(value, inf_nan_mode="constants").decode()


def _names(tools: Iterable[str]) -> str:
    return ", ".join(tools) or "nothing"


def _listed(calls: Sequence[SeenCall]) -> str:
    return "; ".join(map(str, calls)) or "none"
