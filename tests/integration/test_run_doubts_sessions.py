"""A call in doubt that was made over a session: a record shows what was done, and never over which session."""

from __future__ import annotations

import json
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

TEXT = {"type": "string"}


class Bank:
    """Payments that take effect, and do not answer."""

    def __init__(
        self, name: str, token: Any, *, lost: int = 1, first: tuple[dict[str, Any], ...] = ()
    ) -> None:
        self.name, self.token, self.lost = name, token, lost
        self.paid: list[dict[str, Any]] = list(first)
        self.counts = 0

    def pay(self, parameters: dict[str, Any]) -> Any:
        self.counts += 1
        record = {"id": f"p{len(self.paid)}", **{name: parameters[name] for name in ("to", "cents")}}
        self.paid.append(record)
        if self.counts <= self.lost:
            raise TimeoutError("no answer")
        return record

    def tools(self) -> dict[str, Any]:
        schema = {
            "type": "object",
            "properties": {self.name: {}, "to": TEXT, "cents": {"type": "integer"}},
            "required": [self.name, "to", "cents"],
        }
        return {
            "login": FakeTool(output={"session": self.token}, **READS),
            "pay": FakeTool(output=self.pay, effect="once", parameters=schema),
            "payments": FakeTool(output=lambda _: {"payments": list(self.paid)}, **READS),
        }


def run(bank: Bank, quoted: dict[str, Any], *to: str) -> Ran:
    pays = [
        step(f"p{n}", "pay", "l", parameters={bank.name: "${l.output.session}", "to": one, "cents": 200})
        for n, one in enumerate(to)
    ]
    settled = {"happened": True, "evidence": json.dumps(quoted), "output": {"id": quoted["id"]}}
    answers = {
        "execution_plan": plan(step("l", "login"), *pays),
        "evaluation": verdict(),
        "overall_reflection": overall(),
        "step_reflection": [
            reflection("verify_outcome", {"tool_id": "payments", "parameters": {}}, "unknown"),
            *[reflection("settle_outcome", settled, "unknown")] * 3,
        ],
    }

    async def main() -> Ran:
        return (await (await bench(bank.tools(), answers)).run()).check()

    return virtual_time(main())


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("session", "tok-9x511"),
        ("session_id", "S-1199"),
        ("csrf", "f0e1d2c3"),
        ("access_token", "tok-9x511"),
        ("headers", {"Authorization": "Bearer eyJhbGci.J9xx77.abc1"}),
    ],
)
def test_a_record_shows_a_call_whatever_session_it_was_made_over(name: str, token: Any) -> None:
    bank = Bank(name, token)
    ran = run(bank, {"id": "p0", "to": "account-77", "cents": 200}, "account-77")
    assert ran.result.is_success, ran.result.reason
    assert bank.counts == 1
    assert ran.outputs()["p0"] == {"id": "p0"}


@pytest.mark.parametrize(
    "record",
    [{"id": "p0", "to": "account-78", "cents": 200}, {"id": "p0", "to": "account-77", "cents": 300}],
    ids=["to another", "of another sum"],
)
def test_the_record_of_another_call_shows_nothing_over_a_session_either(record: dict[str, Any]) -> None:
    class Lost(Bank):
        def pay(self, parameters: dict[str, Any]) -> Any:
            self.counts += 1
            raise TimeoutError("no answer")

    bank = Lost("session", "tok-9x511", first=(record,))
    ran = run(bank, record, "account-77")
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert bank.counts == 1


@pytest.mark.parametrize("name", ["customer", "client"])
def test_what_may_tell_effects_apart_has_to_stand_in_the_record(name: str) -> None:
    bank = Bank(name, "tok-9x511")
    ran = run(bank, {"id": "p0", "to": "account-77", "cents": 200}, "account-77")
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_one_record_settles_one_of_two_calls_over_two_sessions() -> None:
    """The second payment was refused its answer, and never made: the record of the first is not its."""

    class Half(Bank):
        def pay(self, parameters: dict[str, Any]) -> Any:
            if self.counts:
                self.counts += 1
                raise TimeoutError("no answer")
            return super().pay(parameters)

    bank = Half("session", "tok-9x511", lost=0)
    tools = bank.tools()
    quoted = {"id": "p0", "to": "account-77", "cents": 200}
    settled = {"happened": True, "evidence": json.dumps(quoted), "output": {"id": "p0"}}
    pays = [
        step(f"p{n}", "pay", *waits, parameters={"session": f"tok-{n}xx9", "to": "account-77", "cents": 200})
        for n, waits in enumerate([(), ("p0",)])
    ]
    answers = {
        "execution_plan": plan(*pays),
        "evaluation": verdict(),
        "overall_reflection": overall(),
        "step_reflection": [
            reflection("verify_outcome", {"tool_id": "payments", "parameters": {}}, "unknown"),
            *[reflection("settle_outcome", settled, "unknown")] * 3,
        ],
    }

    async def main() -> Ran:
        return (await (await bench(tools, answers)).run()).check()

    ran = virtual_time(main())
    assert not ran.result.is_success
    assert ran.statuses() == {"p0": "succeeded", "p1": "failed"}
