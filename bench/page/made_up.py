"""Logs of tasks that never ran: as large as one likes, the same at every run, with what a page has to show."""

from __future__ import annotations

import heapq
from random import Random
from typing import Any

Event = dict[str, Any]
TOOLS = (
    "read_table",
    "fetch_page",
    "check_stock",
    "summarise",
    "price",
    "send_mail",
    "write_report",
    "match_customer",
    "convert",
    "search_orders",
)
_EFFECTS = {"send_mail": "once", "write_report": "repeatable"}
_BEGUN = 1_790_000_000.0
ITEMS = 24


class Log:
    """Events in the order in which they are told."""

    def __init__(self, task_id: str = "task_made_up") -> None:
        self.events: list[Event] = []
        self.task_id = task_id
        self.now = _BEGUN

    def say(self, kind: str, **data: Any) -> None:
        self.events.append(
            {
                "seq": len(self.events) + 1,
                "task_id": self.task_id,
                "ts": round(self.now, 3),
                "round": 1,
                "type": kind,
                "data": data,
            }
        )

    def begin(self, description: str, steps: list[dict[str, Any]]) -> None:
        """From the task's coming in to its plan."""
        self.say(
            "task_submitted",
            description=description,
            metadata={},
            context={},
            policy={},
            tools=[],
            settings={},
        )
        self.say("task_started", driver="made up", version="0")
        self.say("round_started", round=1)
        self.say("llm_call_started", call_id="call_1", role="planning", model="made-up", prompt="", attempt=1)
        self.now += 1.2
        usage = {"llm_calls": 1, "input_tokens": 900, "output_tokens": 400}
        self.say(
            "llm_call_completed",
            call_id="call_1",
            role="planning",
            model="made-up",
            usage=usage,
            duration_secs=1.2,
        )
        plan = {"steps": steps, "reasoning": "One step after the other, as far as they need each other."}
        self.say("plan_generated", plan=plan, task_type="made_up", corrections=0, notes=[])


def plan_of(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Steps that need some of those before them, as plans of this size do: some columns, siblings of one tool in each."""
    random = Random(seed)
    wide = max(2, round(count**0.5 * 1.6))
    columns: list[int] = []
    steps: list[dict[str, Any]] = []
    for number in range(count):
        needed: set[int] = set()
        if number > wide * 0.4:
            last = max(1, number - wide // 2)
            first = max(0, last - round(wide * 1.2))
            needed = {random.randrange(first, last) for _ in range(random.choice((1, 1, 1, 2, 2, 3)))}
        columns.append(1 + max((columns[one] for one in needed), default=-1))
        tool = TOOLS[(columns[number] * 3 + random.randrange(3)) % len(TOOLS)]
        step = {
            "step_id": f"step_{number}",
            "name": f"{tool.replace('_', ' ').capitalize()} {number}",
            "tool": tool,
            "parameters": {"number": number},
            "dependencies": [f"step_{one}" for one in sorted(needed)],
        }
        steps.append({**step, "for_each": "$rows"} if number % 37 == 9 else step)
    return steps


def log_of(count: int, seed: int = 1, slots: int = 8, fails: float = 0.08) -> list[Event]:
    """A task of so many steps, from its submission to its end; some calls fail once or twice."""
    random = Random(seed)
    steps = plan_of(count, seed)
    log = Log()
    log.begin(f"Reconcile {count} invoices with the ledger", steps)
    by_id = {step["step_id"]: step for step in steps}
    left = {step["step_id"]: len(step["dependencies"]) for step in steps}
    after: dict[str, list[str]] = {}
    for step in steps:
        for needed in step["dependencies"]:
            after.setdefault(needed, []).append(step["step_id"])
    ready = [name for name, count_ in left.items() if not count_]
    for name in ready:
        log.say("step_ready", step_id=name)
    going: list[tuple[float, int, str, int, str]] = []  # until when, number, step, attempt, what then
    number = 0

    def call(name: str, attempt: int) -> None:
        nonlocal number
        number += 1
        step = by_id[name]
        log.say(
            "call_started",
            call_key=f"{name}/{attempt}",
            step_id=name,
            attempt=attempt,
            tool_id=step["tool"],
            effect=_EFFECTS.get(step["tool"], "reads"),
            parameters=step["parameters"],
            **({"index": 0} if "for_each" in step else {}),
        )
        bad = attempt < 3 and random.random() < fails
        heapq.heappush(
            going,
            (log.now + 0.05 + random.random() ** 2 * 3, number, name, attempt, "fail" if bad else "end"),
        )

    while ready or going:
        while ready and len(going) < slots:
            name = ready.pop(0)
            log.now += 0.001
            items = {"items": ITEMS} if "for_each" in by_id[name] else {}
            log.say("step_started", step_id=name, **items)
            call(name, 1)
        until, _, name, attempt, what = heapq.heappop(going)
        log.now = max(log.now, until)
        tool = by_id[name]["tool"]
        about = {"call_key": f"{name}/{attempt}", "step_id": name, "attempt": attempt, "tool_id": tool}
        if "for_each" in by_id[name]:
            about["index"] = 0
        if what == "again":
            call(name, attempt + 1)
        elif what == "fail":
            error = {
                "category": "unavailable",
                "kind": "http",
                "message": "HTTP 503",
                "transient": True,
                "happened": "no",
            }
            log.say("call_failed", **about, error=error, retry_in_secs=0.4)
            number += 1
            heapq.heappush(going, (log.now + 0.4, number, name, attempt, "again"))
        else:
            log.say("call_completed", **about, output={"number": name}, reused=False, duration_secs=1.0)
            log.say("step_completed", step_id=name, metadata={}, failed_items=[])
            for later in after.get(name, ()):
                left[later] -= 1
                if not left[later]:
                    ready.append(later)
                    log.say("step_ready", step_id=later)
    log.now += 0.5
    log.say("task_completed", final_output={"reconciled": count}, score=1.0, shortfall=[])
    return log.events
