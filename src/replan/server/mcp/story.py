"""How a task gets on, in numbers that only rise and a few words: what a client shows while it waits."""

from __future__ import annotations

from typing import Any

from replan.core.types import JsonObject

_STEP = {
    "step_started": "started",
    "step_completed": "done",
    "step_failed": "failed",
    "step_skipped": "left out",
    "step_repaired": "repaired",
    "step_reflected": "its failure was looked into",
}
_DONE = frozenset({"step_completed", "step_failed", "step_skipped"})
_SAID = {
    "llm_call_started": "asking the model",
    "overall_reflection_triggered": "thinking about what went wrong",
    "replanning_started": "planning anew",
    "evaluation_completed": "judged",
    "approval_requested": "a person is asked to agree to a call",
    "plan_review_requested": "a person is asked to agree to the plan",
    "question_asked": "a person is asked a question",
    "task_waiting": "waiting",
    "task_resumed": "going on",
}
_LEAST = 1e-3
"""Progress has to rise from one time to the next."""


class Story:
    def __init__(self) -> None:
        self._done = 0
        self._total = 0
        self._told = 0.0
        self._seen = 0

    def stands(self, done: int, total: int, seen: int) -> None:
        """`seen`: the last event that these numbers have in them."""
        self._done, self._total, self._seen = done, total, seen

    def after(self, event: JsonObject) -> tuple[float, float | None, str] | None:
        """Progress, of how much, and in words; None where there is nothing to tell."""
        kind, data = event["type"], event["data"]
        if kind in ("plan_generated", "plan_updated") and event["seq"] > self._seen:
            self._total = max(self._done, len(_steps(data)))
        words = self._words(kind, data)
        if words is None:
            return None
        if kind in _DONE and event["seq"] > self._seen and self._done < self._total:
            self._done += 1
        return self._now(words)

    def still(self, words: str) -> tuple[float, float | None, str]:
        """The same where nothing has happened: a sign of life."""
        return self._now(words)

    def _now(self, words: str) -> tuple[float, float | None, str]:
        self._told = round(max(float(self._done), self._told + _LEAST), 3)
        total = float(self._total) if self._total >= self._told else None
        counted = (
            f" ({self._done} of {self._total} steps)" if self._total >= self._done and self._total else ""
        )
        return self._told, total, words + counted

    def _words(self, kind: str, data: JsonObject) -> str | None:
        if kind in _STEP:
            return f"{data.get('step_id', 'a step')}: {_STEP[kind]}"
        if kind == "progress_update":
            return str(data.get("message") or "") or None
        if kind == "step_progress":
            return f"{data.get('step_id', 'a step')}: {data['message']}" if data.get("message") else None
        if kind == "plan_generated":
            return "planned"
        return _SAID.get(kind)


def _steps(data: JsonObject) -> list[Any]:
    steps = (data.get("plan") or {}).get("steps")
    return steps if isinstance(steps, list) else []
