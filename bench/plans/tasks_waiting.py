"""Tasks that have to wait for something."""

from __future__ import annotations

import asyncio

from bench.plans.hands import Hands
from bench.plans.task import Task, Tools, listed, plan, step, tool
from replan.core.types import JsonObject

KIND = "until something holds"
MOST_POLLS = 30
"""Plans in a row that only look again, at most."""


class Clockwork:
    """Something that is done so many seconds after it was begun."""

    def __init__(self, takes_secs: float) -> None:
        self._takes = takes_secs
        self._began: float | None = None

    def begin(self) -> None:
        self._began = asyncio.get_running_loop().time()

    def is_done(self) -> bool:
        return self._began is not None and asyncio.get_running_loop().time() - self._began >= self._takes


# ── an export ─────────────────────────────────────────────────────────────────


def _export_tools() -> Tools:
    work = Clockwork(40)

    def begin(_: JsonObject) -> JsonObject:
        work.begin()
        return {"job": "j-31"}

    def status(given: JsonObject) -> JsonObject:
        done = work.is_done()
        return {"job": given["job"], "state": "done" if done else "running", "file": "e.csv" if done else ""}

    return {
        "start_export": tool(
            "Begin an export of a table.", begin, {"job": "string"}, effect="once", table="string"
        ),
        "export_status": tool(
            "The state of an export: running or done, and then its file.",
            status,
            {"job": "string", "state": "string", "file": "string"},
            volatile=True,
            job="string",
        ),
        "send_file": tool("Send a file.", "sent", effect="once", secs=2, to="string", file="string"),
    }


async def _export(hands: Hands) -> str:
    job = (await hands.do("start_export", table="orders"))["job"]
    while (found := await hands.do("export_status", job=job))["state"] != "done":
        await hands.wait(10)
    await hands.do("send_file", to="ann@example.org", file=found["file"])
    return "The export is sent to Ann."


def _export_polls() -> list[JsonObject]:
    begun = plan(
        step("step_1", "start_export", table="orders"),
        step("step_2", "export_status", job="${step_1.output.job}"),
    )
    again = [plan(step(f"step_{n}", "export_status", job="j-31")) for n in range(3, MOST_POLLS)]
    return [begun, *again]


EXPORT = Task(
    "an export",
    KIND,
    "Export the table orders and send the file to ann@example.org.",
    _export_tools,
    _export,
    before=_export_polls(),
    now=[
        plan(
            step("step_1", "start_export", table="orders"),
            step(
                "step_2",
                "export_status",
                with_={"until": "output.state == 'done'", "every_secs": 10},
                job="${step_1.output.job}",
            ),
            step("step_3", "send_file", to="ann@example.org", file="${step_2.output.file}"),
        )
    ],
    failed_before=True,
    waits=True,
)

# ── a release ─────────────────────────────────────────────────────────────────


def _release_tools() -> Tools:
    work = Clockwork(60)

    def begin(_: JsonObject) -> str:
        work.begin()
        return "begun"

    return {
        "deploy": tool("Begin to deploy a version.", begin, effect="once", secs=2, version="string"),
        "deploy_status": tool(
            "Which share of the machines has a version, in percent.",
            lambda given: {"version": given["version"], "percent": 100 if work.is_done() else 50},
            {"version": "string", "percent": "number"},
            volatile=True,
            version="string",
        ),
        "smoke_test": tool(
            "Try the service.", {"passed": 31}, {"passed": "integer"}, secs=9, volatile=True, version="string"
        ),
        "announce": tool("Announce something.", "ok", effect="once", text="string"),
    }


async def _release(hands: Hands) -> str:
    await hands.do("deploy", version="2.4")
    while (await hands.do("deploy_status", version="2.4"))["percent"] < 100:
        await hands.wait(15)
    passed = (await hands.do("smoke_test", version="2.4"))["passed"]
    await hands.do("announce", text=f"2.4 is out; {passed} checks passed")
    return "2.4 is out."


def _release_polls() -> list[JsonObject]:
    begun = plan(
        step("step_1", "deploy", version="2.4"), step("step_2", "deploy_status", "step_1", version="2.4")
    )
    again = [plan(step(f"step_{n}", "deploy_status", version="2.4")) for n in range(3, MOST_POLLS)]
    return [begun, *again]


RELEASE = Task(
    "a release",
    KIND,
    "Deploy version 2.4; once all machines have it, try the service and announce the release.",
    _release_tools,
    _release,
    before=_release_polls(),
    now=[
        plan(
            step("step_1", "deploy", version="2.4"),
            step(
                "step_2",
                "deploy_status",
                "step_1",
                with_={"until": "output.percent == `100`", "every_secs": 15},
                version="2.4",
            ),
            step("step_3", "smoke_test", "step_2", version="2.4"),
            step("step_4", "announce", text="2.4 is out; ${step_3.output.passed} checks passed"),
        )
    ],
    failed_before=True,
    waits=True,
)

# ── a question ────────────────────────────────────────────────────────────────

ORDERS = [
    {"number": f"A-{n}", "day": f"2026-01-{n:02}", "what": what}
    for n, what in [(11, "a stove"), (14, "two chairs"), (19, "a lamp")]
]
QUESTION = "Which of these orders is to be sent again?"


def _order_tools() -> Tools:
    return {
        "list_orders": tool(
            "The orders of a customer.",
            {"orders": ORDERS},
            {"orders": listed(number="string", day="string", what="string")},
            customer="string",
        ),
        "send_again": tool("Send an order again.", "ok", effect="once", secs=2, number="string"),
    }


async def _order(hands: Hands) -> str:
    orders = (await hands.do("list_orders", customer="c8"))["orders"]
    number = await hands.ask(QUESTION, [one["number"] for one in orders])
    await hands.do("send_again", number=number)
    return "Order A-14 is sent again."


ORDER = Task(
    "which order",
    "a question to a person",
    "Send the order again that was lost, of customer c8. Ask me which it was.",
    _order_tools,
    _order,
    before=[
        plan(step("step_1", "list_orders", customer="c8")),
        {**plan(), "ask_first": f"{QUESTION} A-11, A-14 or A-19"},
        plan(step("step_2", "send_again", number="A-14")),
    ],
    now=[
        plan(
            step("step_1", "list_orders", customer="c8"),
            step("step_2", "ask_user", question=QUESTION, choices="${step_1.output.orders[*].number}"),
            step("step_3", "send_again", number="${step_2.output}"),
        )
    ],
    person="A-14",
)

TASKS = (EXPORT, RELEASE, ORDER)
