"""The log of a task that was changed while it ran: a source failed for good, another plan went around it, and somebody was asked."""

from __future__ import annotations

from typing import Any

from bench.page.made_up import Event, Log

_STEPS = (
    ("orders", "Read open orders", "read_table", ()),
    ("stock", "Read stock", "read_table", ()),
    ("rates", "Get exchange rates", "http_get", ()),
    ("drop", "Drop cancelled orders", "filter_rows", ("orders", "stock")),
    ("check", "Check stock per order", "check_stock", ("drop",)),
    ("euros", "Convert to euros", "convert", ("drop", "rates")),
    ("short", "Find short orders", "filter_rows", ("check",)),
    ("late", "Find late orders", "filter_rows", ("euros",)),
    ("people", "Look up customers", "match_customer", ("short", "late")),
    ("letters", "Write the letters", "summarise", ("people",)),
    ("mail", "Send 3 letters", "send_mail", ("letters",)),
    ("report", "Write the report", "write_report", ("letters", "short")),
)
_SECS = {
    "orders": 1.4, "stock": 1.2, "drop": 0.6, "check": 3.6, "short": 0.5, "ecb": 1.2, "euros": 0.8, "late": 0.5, "people": 2.7, "letters": 3.2,
}  # fmt: skip
NIGHT = 8 * 3600.0


def _steps() -> list[dict[str, Any]]:
    return [
        {"step_id": one, "name": name, "tool": tool, "parameters": {}, "dependencies": list(needs)}
        for one, name, tool, needs in _STEPS
    ]


class _Run(Log):
    def start(self, name: str, tool: str, attempt: int = 1, **more: Any) -> None:
        if attempt == 1:
            self.say("step_ready", step_id=name)
            self.now += 0.02
            self.say("step_started", step_id=name, **more)
        self.say(
            "call_started",
            **self._about(name, tool, attempt),
            effect="reads",
            parameters={"of": name, "attempt": attempt},
        )

    def end(self, name: str, tool: str, attempt: int = 1) -> None:
        self.say(
            "call_completed",
            **self._about(name, tool, attempt),
            output={"rows": 3},
            reused=False,
            duration_secs=1.0,
        )
        self.say("step_completed", step_id=name, metadata={}, failed_items=[])

    def fail(self, name: str, tool: str, attempt: int, again: float | None) -> None:
        error = {
            "category": "unavailable",
            "kind": "http",
            "message": "HTTP 503",
            "transient": True,
            "happened": "no",
        }
        self.say("call_failed", **self._about(name, tool, attempt), error=error, retry_in_secs=again)

    def work(self, name: str, tool: str) -> None:
        self.start(name, tool)
        self.now += _SECS[name]
        self.end(name, tool)

    @staticmethod
    def _about(name: str, tool: str, attempt: int) -> dict[str, Any]:
        return {"call_key": f"{name}/{attempt}", "step_id": name, "attempt": attempt, "tool_id": tool}


def changed_log(*, ends: bool = False) -> list[Event]:
    """Up to where a letter waits for somebody's yes; with `ends` that comes the next morning, and the task ends."""
    log = _Run("task_changed")
    steps = _steps()
    log.begin("Write to the customers whose orders are late or short", steps)
    log.start("orders", "read_table")
    log.start("rates", "http_get")
    log.start("stock", "read_table")
    log.now += 1.2
    log.end("stock", "read_table")
    log.now += 0.2
    log.end("orders", "read_table")
    log.start("drop", "filter_rows")
    log.now += 0.6
    log.end("drop", "filter_rows")
    log.fail("rates", "http_get", 1, 1.0)
    log.start("check", "check_stock", items=24)
    log.now += 1.0
    log.start("rates", "http_get", 2)
    log.now += 1.3
    log.fail("rates", "http_get", 2, None)
    error = {
        "category": "unavailable",
        "kind": "http",
        "message": "HTTP 503",
        "transient": True,
        "happened": "no",
    }
    log.say("step_failed", step_id="rates", error=error)
    log.now += 0.3
    log.say("llm_call_started", call_id="call_2", role="planning", model="made-up", prompt="", attempt=1)
    log.now += 1.0
    log.end("check", "check_stock")
    log.say(
        "llm_call_completed", call_id="call_2", role="planning", model="made-up", usage={}, duration_secs=1.0
    )
    ecb = {
        "step_id": "ecb",
        "name": "Get rates from the ECB",
        "tool": "ecb_rates",
        "parameters": {},
        "dependencies": [],
    }
    newer = [one for one in steps if one["step_id"] != "rates"]
    newer = [{**one, "dependencies": ["drop", "ecb"]} if one["step_id"] == "euros" else one for one in newer]
    log.say(
        "plan_updated",
        plan={
            "steps": [*newer[:2], {**ecb, "instead_of": ["rates"]}, *newer[2:]],
            "reasoning": "Another source.",
        },
        strategy="replan_from_step",
        reason="The source of rates is out of reach.",
        diff={
            "added": ["ecb"],
            "removed": ["rates"],
            "changed": [{"step_id": "euros", "fields": ["dependencies"]}],
            "kept": 10,
        },
        reset=[],
        task_type="made_up",
        corrections=0,
    )
    log.work("ecb", "ecb_rates")
    log.work("short", "filter_rows")
    log.work("euros", "convert")
    log.work("late", "filter_rows")
    log.work("people", "match_customer")
    log.work("letters", "summarise")
    log.start("report", "write_report")
    log.say("step_ready", step_id="mail")
    log.say("step_started", step_id="mail")
    call = {
        "call_key": "mail/1",
        "step_id": "mail",
        "tool_id": "send_mail",
        "effect": "once",
        "parameters": {"to": "a@example.org"},
    }
    log.say("approval_requested", approval_id="approval_1", **call, parameters_schema={}, why="")
    log.now += 0.9
    log.say("step_progress", step_id="report", message="half of it")
    log.events.pop()
    if ends:
        log.now += 1.0
        log.end("report", "write_report")
        log.say("task_waiting", reason="for a yes", approvals=["approval_1"], questions=[])
        log.now += NIGHT
        log.say("approval_resolved", approval_id="approval_1", approved=True, reason="", by="anna")
        log.say(
            "call_started",
            **log._about("mail", "send_mail", 1),
            effect="once",
            parameters={"to": "a@example.org"},
        )
        log.now += 1.5
        log.end("mail", "send_mail")
        log.now += 0.2
        log.say("task_completed", final_output={"sent": 3}, score=1.0, shortfall=[])
    return log.events
