"""A `once` call that was given up while its work goes on in this process: its late answer is what became of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from run_tasks import Ran, bench, plan, step, verdict
from test_run_recovery import overall, reflection

from replan.tools import ToolContext, tool
from replan.tools.functions.source import FunctionSource

LIMIT = 0.05
PLAN = plan(step("p", "pay", parameters={"order": "order-17"}))
VERIFY = reflection("verify_outcome", {"tool_id": "payments", "parameters": {}}, "unknown")
NO = reflection("settle_outcome", {"happened": False, "evidence": "[]"}, "unknown")


class Bank:
    """Payments that are made long after the caller has given up: when `goes_on` is set."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.calls = 0
        self.goes_on = threading.Event()

    def source(self, pay: Callable[..., Any], **options: Any) -> FunctionSource:
        def payments() -> list[str]:
            """What has been paid."""
            return self.paid

        return FunctionSource(
            [tool(effect="once", timeout=LIMIT, **options)(pay), tool(effect="reads")(payments)]
        )


def run(
    bank: Bank, source: FunctionSource, wanted: Any = PLAN, *, modelled: bool = True,
    kept: list[bytes] | None = None, **policy: Any,
) -> Ran:  # fmt: skip
    """Run the task, and let the work go on once the call is in doubt. `kept` gets what is kept apart."""

    async def main() -> Ran:
        answers = {
            "execution_plan": wanted,
            "evaluation": verdict(),
            "step_reflection": [VERIFY, NO, VERIFY, NO],
            "overall_reflection": overall(),
        }
        made = await bench(source, answers)
        task_id = await made.submit(None if modelled else wanted, **policy)
        driving = asyncio.ensure_future(made.drive(task_id))
        # a call whose key is honoured is not in doubt before it has been made again with it
        asyncio.get_running_loop().call_later(20 * LIMIT, bank.goes_on.set)
        async for record in made.service.watch(task_id):
            if record.type == "outcome_unknown":
                bank.goes_on.set()
        ran = (await driving).check()
        for record in ran.records:
            artifact = getattr(record.event, "artifact", None)
            if artifact is not None and kept is not None:
                kept.append(await made.store.artifact(task_id, artifact.artifact_id))
        return ran

    return asyncio.run(main())


@pytest.mark.parametrize("modelled", [True, False])
@pytest.mark.parametrize("options", [{}, {"honours_key": True}], ids=str)
def test_a_thread_that_pays_late_has_paid_once(modelled: bool, options: dict[str, Any]) -> None:
    bank = Bank()

    def pay(order: str) -> dict[str, str]:
        bank.calls += 1
        bank.goes_on.wait(20)
        bank.paid.append(order)
        return {"payment": "p-1"}

    ran = run(bank, bank.source(pay, **options), modelled=modelled, trust_model_settlement=True)
    assert ran.result.is_success
    assert bank.paid == ["order-17"]
    assert bank.calls == 1
    assert ran.outputs()["p"] == {"payment": "p-1"}
    assert [one.by for one in ran.events("outcome_settled")] == ["its late answer"] * (not options)
    assert ran.events("step_reflected") == []


def test_a_late_refusal_says_that_it_did_not_happen() -> None:
    bank = Bank()

    def pay(order: str) -> None:
        bank.goes_on.wait(20)
        raise ValueError("no such order")

    ran = run(bank, bank.source(pay), modelled=False)
    (settled,) = ran.events("outcome_settled")
    assert (settled.happened, settled.by) == (False, "its late answer")
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "step"
    assert "no such order" in ran.result.failure.reason


@pytest.mark.parametrize("late", ["returns", "refuses", "times out"])
def test_a_function_that_saw_that_it_was_stopped_says_nothing(late: str) -> None:
    bank = Bank()

    def pay(order: str, ctx: ToolContext) -> str:
        ctx.wait(20)
        if late == "refuses":
            raise ValueError("stopped")
        if late == "times out":
            raise TimeoutError
        return "stopped before it was paid"

    ran = run(bank, bank.source(pay), modelled=False)
    assert ran.events("outcome_settled") == []
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_a_late_answer_that_is_in_doubt_itself_leaves_the_doubt() -> None:
    bank = Bank()

    def pay(order: str) -> None:
        bank.goes_on.wait(20)
        raise RuntimeError("failed") from ConnectionResetError("cut")

    ran = run(bank, bank.source(pay), modelled=False)
    assert ran.events("outcome_settled") == []
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_a_large_late_answer_is_kept_apart_as_any_other() -> None:
    bank = Bank()

    def pay(order: str) -> str:
        bank.goes_on.wait(20)
        return "x" * 5_000

    ran = run(bank, bank.source(pay), modelled=False, max_output_bytes=2_000)
    (settled,) = ran.events("outcome_settled")
    assert settled.output is None
    assert settled.artifact.size == 5_002
    assert ran.result.is_success
    assert ran.result.final_output == "x" * 5_000


SECRET = "made-by-the-bank-7f21c"
RECEIPT = {
    "type": "object",
    "properties": {"code": {"type": "string", "format": "password"}, "page": {"type": "string"}},
}


@pytest.mark.parametrize("size", [3, 60_000])
def test_a_secret_in_a_late_answer_is_not_kept_and_still_reaches_who_refers_to_it(size: int) -> None:
    bank, heard = Bank(), []

    def pay(order: str) -> Any:
        bank.goes_on.wait(20)
        return {"code": SECRET, "page": "x" * size + SECRET}

    def tell(code: str, page: str) -> int:
        heard.append((code, page))
        return len(page)

    source = FunctionSource(
        [
            tool(effect="once", timeout=LIMIT, output_schema=RECEIPT)(pay),
            tool(effect="reads", secrets=["code"])(tell),
        ]
    )
    wanted = plan(
        *PLAN["steps"],
        step("t", "tell", "p", parameters={"code": "${p.output.code}", "page": "${p.output.page}"}),
    )
    kept: list[bytes] = []
    ran = run(bank, source, wanted, modelled=False, kept=kept, max_output_bytes=20_000)
    assert bool(kept) == (size > 20_000)
    assert ran.result.is_success
    assert heard == [(SECRET, "x" * size + SECRET)]
    (settled,) = ran.events("outcome_settled")
    assert settled.masked
    assert SECRET not in repr(ran.records)
    assert all(SECRET.encode() not in data for data in kept)
