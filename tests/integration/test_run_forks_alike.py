"""In a family of forks, too, neither a session nor a substitute tells two effects apart, nor what a call was made as after it had failed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_forks import at_of, forked
from test_run_inside import Slow as SlowTools
from test_run_recovery import READS, overall, reflection

from replan.core.limits.policy import Policy
from replan.ports import Claim, Member, ModelReply, ModelRequest, Taken
from replan.testing import MemoryStore, ScriptedModel, virtual_time

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
STEPS: dict[str, Any] = {"evaluation": "steps"}


def takes(*names: str, **more: Any) -> dict[str, Any]:
    properties = {name: NUMBER if name == "cents" else TEXT for name in names}
    return {
        "effect": "once",
        "parameters": {"type": "object", "properties": {**properties, **more}, "required": [*names]},
    }


class Bank:
    """Sessions that last for one login, and what was paid."""

    def __init__(self, *, refuses: Iterable[str] = (), loses: Iterable[str] = (), **spec: Any) -> None:
        self.paid: list[str] = []
        self.sessions = 0
        self.refuses, self.loses, self.spec = [*refuses], [*loses], spec

    def login(self, _: Any) -> Any:
        self.sessions += 1
        return {"session": f"tok-{self.sessions}"}

    def pay(self, parameters: Any) -> Any:
        to = parameters.get("to") or parameters.get("recipient")
        if to in self.refuses:
            self.refuses.remove(to)
            raise ValueError(f"to: the account {to!r} was closed")
        self.paid.append(to)
        if to in self.loses:
            self.loses.remove(to)
            raise TimeoutError("no answer")
        return {"id": len(self.paid)}

    def tools(self) -> dict[str, Any]:
        return {
            "login": FakeTool(output=self.login, spec={"volatile": True}, **READS),
            "pay": FakeTool(output=self.pay, delay_secs=5, spec=self.spec, **takes("session", "to", "cents")),
            "send": FakeTool(output=self.pay, delay_secs=5, spec={"substitutes": ["wire"]}, **takes("to")),
            "wire": FakeTool(output=self.pay, delay_secs=5, **takes("recipient")),
            "refund": FakeTool(output=lambda p: f"back {p['to']}", **takes("to")),
        }


def pays(*to: str, cents: int = 100, **marks: Any) -> dict[str, Any]:
    """One login, and payments over it."""
    return plan(
        step("l", "login"),
        *(
            step(
                f"p{n}",
                "pay",
                "l",
                parameters={"session": "${l.output.session}", "to": one, "cents": cents},
                **marks,
            )
            for n, one in enumerate(to)
        ),
    )


def twice(bank: Bank) -> dict[str, int]:
    return {to: count for to, count in Counter(bank.paid).items() if count > 1}


async def fork_of(made: Bench, ran: Ran, kind: str = "step_started", **more: Any) -> Ran:
    """A fork from before the first event of this kind."""
    fork = await forked(made, ran.result.task_id, at=at_of(ran, kind) - 1, **more)
    return (await made.drive(fork)).check()


@pytest.mark.parametrize("unique", [(), ("to",)], ids=["by its parameters", "unique_by"])
@pytest.mark.parametrize("own", [False, True], ids=["its plan", "a plan of its own"])
def test_a_fork_from_before_a_login_pays_nobody_over_its_own_session(
    unique: tuple[str, ...], *, own: bool
) -> None:
    async def main() -> tuple[Bank, Ran, Ran]:
        bank = Bank(unique_by=unique)
        made = await bench(bank.tools())
        ran = (await made.run(pays("ann", "bob"))).check()
        return bank, ran, await fork_of(made, ran, "plan_generated", plan=pays("bob", "ann") if own else None)

    bank, ran, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert twice(bank) == {}
    assert sorted(ran.outputs()[name]["id"] for name in ("p0", "p1")) == [1, 2]
    assert {one.output["id"] for one in fork.result.steps if one.tool == "pay"} == {1, 2}
    assert fork.result.usage.tool_calls == 1, "its own login"
    of_calls = {one.of_call for one in fork.events("call_completed") if one.of_call}
    assert of_calls == {one.call_key for one in ran.events("call_completed", tool_id="pay")}


def test_whoever_is_second_has_it_from_the_first_in_three_generations_and_between_siblings() -> None:
    """The task itself pays Ann and is refused Bob, whom the first of its forks pays."""

    async def main() -> tuple[Bank, list[Ran]]:
        bank = Bank(refuses=["bob"])
        made = await bench(bank.tools())
        ran = (await made.run(pays("ann", "bob"))).check()
        assert ran.statuses() == {"l": "succeeded", "p0": "succeeded", "p1": "failed"}
        child = await fork_of(made, ran)
        sibling = await fork_of(made, ran)
        grandchild = await fork_of(made, child)
        return bank, [child, sibling, grandchild, await fork_of(made, grandchild)]

    bank, forks = virtual_time(main())
    assert all(one.result.is_success for one in forks), [one.result.reason for one in forks]
    assert bank.paid == ["ann", "bob"]
    assert [one.result.usage.tool_calls for one in forks] == [2, 1, 1, 1], "logins, and Bob once"


def test_a_task_that_goes_on_has_what_its_fork_has_paid_meanwhile() -> None:
    async def main() -> tuple[Bank, Ran, Ran]:
        bank = Bank()
        tools = bank.tools()
        tools["login"] = FakeTool(output=bank.login, delay_secs=60, spec={"volatile": True}, **READS)
        made = await bench(tools)
        task_id = await made.submit(pays("ann", "bob"), interactive=True)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(30)
        await made.service.pause(task_id)
        await driving
        ran = await made.ran(task_id)
        fork = await fork_of(made, ran)
        await made.service.unpause(task_id)
        return bank, fork, (await made.drive(task_id)).check()

    bank, fork, ran = virtual_time(main())
    assert fork.result.is_success
    assert ran.result.is_success, ran.result.reason
    assert Counter(bank.paid) == {"ann": 1, "bob": 1}
    assert ran.result.usage.tool_calls <= 2, "its logins"


@pytest.mark.parametrize("ahead", [0.0, 1.0, 4.0, 6.0])
def test_tasks_that_run_at_once_over_sessions_of_their_own_pay_each_once(ahead: float) -> None:
    async def main() -> tuple[Bank, list[Ran]]:
        bank = Bank()
        made = await bench(bank.tools())
        task_id = await made.submit(pays("ann", "bob", "cyd"))
        driving = [asyncio.create_task(made.service.drive(task_id))]
        await asyncio.sleep(ahead)
        ran = await made.ran(task_id)
        if any(one.type == "step_started" for one in ran.records):
            at = at_of(ran, "step_started") - 1
        else:
            at = len(ran.records)
        forks = [await forked(made, task_id, at=at) for _ in range(3)]
        driving += [asyncio.create_task(made.service.drive(one)) for one in forks]
        await asyncio.gather(*driving)
        return bank, [(await made.ran(one)).check() for one in (task_id, *forks)]

    bank, ran = virtual_time(main())
    assert Counter(bank.paid) == {"ann": 1, "bob": 1, "cyd": 1}
    assert all(one.result.is_success for one in ran), [one.result.reason for one in ran]


class SlowStore(MemoryStore):
    """A store in which others have their turn before it answers, as with any that is not in memory."""

    async def family(self, task_id: str) -> list[Member]:
        await asyncio.sleep(0.05)
        return await super().family(task_id)

    async def take(self, claim: Claim, key: str, *, over: Taken | None = None) -> Taken:
        await asyncio.sleep(0.05)
        return await super().take(claim, key, over=over)


@pytest.mark.parametrize("store", [MemoryStore, SlowStore])
def test_so_many_payments_of_one_kind_stand_for_so_many(store: type[MemoryStore]) -> None:
    """The plan pays Ann over two sessions: its fork has both, and the third of another plan is made."""

    def several(count: int) -> dict[str, Any]:
        return plan(
            step("l", "login"),
            *(
                step(
                    f"p{n}",
                    "pay",
                    "l",
                    parameters={"session": f"${{l.output.session}}-{n}", "to": "ann", "cents": 5},
                )
                for n in range(count)
            ),
        )

    async def main() -> tuple[Bank, Ran, Ran, Ran]:
        bank = Bank()
        made = await bench(bank.tools(), store=store())
        ran = (await made.run(several(2))).check()
        same = await fork_of(made, ran)
        return bank, ran, same, await fork_of(made, ran, "plan_generated", plan=several(3))

    bank, ran, same, more = virtual_time(main())
    assert ran.result.is_success
    assert same.result.is_success
    assert same.result.usage.tool_calls == 1
    assert more.result.is_success
    assert more.result.usage.tool_calls == 2
    assert len(bank.paid) == 3
    assert {one.output["id"] for one in more.result.steps if one.tool == "pay"} == {1, 2, 3}


@pytest.mark.parametrize("ahead", [-0.02, 0.0, 0.02])
def test_two_tasks_that_are_about_to_make_one_call_do_not_wait_for_each_other(ahead: float) -> None:
    """The fork has the call, and the task the name of all that are like it, as it has made the one before."""

    async def main() -> tuple[Bank, list[Ran]]:
        bank = Bank()
        wakes = iter([60.0, 60.0 - ahead])
        begun = asyncio.get_running_loop().time()

        async def look(_: Any) -> str:
            await asyncio.sleep(begun + next(wakes) - asyncio.get_running_loop().time())
            return "seen"

        made = await bench(
            SlowTools({**bank.tools(), "look": FakeTool(output=look, **READS)}), store=SlowStore()
        )
        ann = {"session": "${l.output.session}", "to": "ann", "cents": 5}
        task_id = await made.submit(
            plan(
                step("l", "login"),
                step("p", "pay", "l", parameters=ann, repeat=True),
                step("w", "look", "p"),
                step("q", "pay", "w", parameters=ann, repeat=True),
            )
        )
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(3)  # the first is under way
        fork = await forked(made, task_id, at=at_of(await made.ran(task_id), "step_completed"))
        await asyncio.gather(driving, made.service.drive(fork))
        return bank, [(await made.ran(one)).check() for one in (task_id, fork)]

    bank, ran = virtual_time(main())
    assert [one.result.status for one in ran] == ["succeeded", "succeeded"]
    assert bank.paid == ["ann", "ann"]


def test_a_fork_that_says_repeat_pays_over_its_session_beyond_what_was_paid() -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank()
        made = await bench(bank.tools())
        ran = (await made.run(pays("ann"))).check()
        return bank, await fork_of(made, ran, "plan_generated", plan=pays("ann", repeat=True))

    bank, fork = virtual_time(main())
    assert fork.result.is_success
    assert bank.paid == ["ann", "ann"]


@pytest.mark.parametrize("unique", [(), ("to",)], ids=["by its parameters", "unique_by"])
def test_another_sum_is_another_payment_but_where_the_tool_says_what_tells_them_apart(
    unique: tuple[str, ...],
) -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank(unique_by=unique)
        made = await bench(bank.tools())
        ran = (await made.run(pays("ann"))).check()
        return bank, await fork_of(made, ran, "plan_generated", plan=pays("ann", cents=250))

    bank, fork = virtual_time(main())
    assert fork.result.is_success == (not unique)
    assert len(bank.paid) == (1 if unique else 2)
    if unique:
        assert "has done this in step 'p0'" in fork.result.reason
        assert "calls of 'pay' with the same 'to' are one effect" in fork.result.reason


def test_what_was_taken_back_since_stands_for_no_payment_over_another_session() -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank()
        made = await bench(bank.tools())
        wanted = pays("ann")
        wanted["steps"].append(step("b", "refund", "p0", parameters={"to": "ann"}))
        ran = (await made.run(wanted)).check()
        assert ran.result.is_success
        return bank, await fork_of(made, ran, "plan_generated", plan=pays("ann"))

    bank, fork = virtual_time(main())
    assert fork.result.status == "failed"
    assert "step 'b' (refund) of that task was about the same after that" in fork.result.reason
    assert bank.paid == ["ann"]


def test_a_payment_in_doubt_over_one_session_is_in_doubt_over_another() -> None:
    async def main() -> tuple[Bank, Ran, Ran]:
        bank = Bank(loses=["ann"])
        made = await bench(bank.tools())
        ran = (await made.run(pays("ann"))).check()
        return bank, ran, await fork_of(made, ran)

    bank, ran, fork = virtual_time(main())
    for one in (ran, fork):
        assert one.result.failure is not None
        assert one.result.failure.kind == "outcome_unknown"
    assert bank.paid == ["ann"]


CAUSES = {"retry_with_params": "parameter_error", "retry_with_tool": "tool_error"}


def answers(kind: str, data: Any, *plans: Any) -> dict[str, Any]:
    return {
        "execution_plan": list(plans),
        "evaluation": verdict(),
        "step_reflection": [
            reflection(kind, data, CAUSES[kind]),
            *[reflection("abort", {"reason": "no way"})] * 5,
        ],
        "overall_reflection": overall(),
    }


BOB = plan(step("s", "send", parameters={"to": "bob"}))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("retry_with_params", {"to": "bob2"}),
        ("retry_with_tool", {"tool_id": "wire", "parameters": {"recipient": "bob"}}),
    ],
)
def test_what_a_call_was_made_as_after_it_had_failed_stands_for_it_in_a_fork(kind: str, data: Any) -> None:
    async def main() -> tuple[Bank, Ran, Ran, Ran]:
        bank = Bank(refuses=["bob"])
        made = await bench(bank.tools(), answers(kind, data, BOB, BOB))
        ran = (await made.run()).check()
        fork = await fork_of(made, ran)
        given = await fork_of(made, ran, "plan_generated", plan=BOB)
        return bank, ran, fork, given

    bank, ran, fork, given = virtual_time(main())
    assert ran.result.is_success
    assert len(bank.paid) == 1
    for one in (fork, given):
        assert not one.result.is_success
        assert "and has made" in one.result.reason
        assert "in its place" in one.result.reason


class Slow(ScriptedModel):
    """Thinks about each failed step for a minute."""

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        if request.schema_name == "step_reflection":
            await asyncio.sleep(60)
        return await super().ask(request, on_text)


@pytest.mark.parametrize("tool", ["send", "pay"], ids=["the very call", "over another session"])
@pytest.mark.parametrize("cut", [True, False], ids=["killed meanwhile", "at work"])
def test_what_is_being_mended_is_made_by_one_of_them(tool: str, *, cut: bool) -> None:
    """Refused in the one, and tried by its fork while that one thinks about it: the fork waits, and learns of what was made in its place. If
    nobody drives the one, the fork makes it, and whoever mends it there learns of that."""

    async def main() -> tuple[Bank, Ran, Ran]:
        bank = Bank(refuses=["bob"])
        wanted = BOB if tool == "send" else pays("bob")
        model = Slow(answers("retry_with_params", {"to": "bob2"}, wanted))
        made = await bench(bank.tools(), model=model)
        task_id = await made.submit()
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(30)
        assert bank.refuses == []
        if cut:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
        fork = await fork_of(made, await made.ran(task_id), plan=wanted, policy=Policy(**STEPS))
        ran = await made.drive(task_id) if cut else await made.ran(task_id, await driving)
        return bank, fork, ran.check()

    bank, fork, ran = virtual_time(main())
    assert bank.paid == ["bob" if cut else "bob2"]
    assert fork.result.is_success == cut
    assert ran.result.is_success == (not cut)
    if not cut:
        assert "in its place" in fork.result.reason
    else:
        refused = [one.error.message for one in ran.events("call_failed") if one.error.kind == "repeated"]
        assert refused, "it was told of what the fork has done"


@pytest.mark.parametrize(
    "plans",
    [
        (BOB, plan(step("w", "wire", parameters={"recipient": "bob"}))),
        (plan(step("w", "wire", parameters={"recipient": "bob"})), BOB),
    ],
    ids=["then the other", "then the one"],
)
def test_a_substitute_does_not_do_again_what_another_task_has_done(plans: tuple[Any, Any]) -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank()
        made = await bench(bank.tools())
        ran = (await made.run(plans[0])).check()
        return bank, await fork_of(made, ran, "plan_generated", plan=plans[1])

    bank, fork = virtual_time(main())
    assert not fork.result.is_success
    assert "do the same" in fork.result.reason
    assert bank.paid == ["bob"]


def test_a_plan_that_has_chosen_both_of_two_tools_has_both_in_a_fork_too() -> None:
    both = plan(
        step("s", "send", parameters={"to": "bob"}),
        step("w", "wire", "s", parameters={"recipient": "bob"}),
        step("l", "login", "w"),
    )

    async def main() -> tuple[Bank, Ran]:
        bank = Bank()
        made = await bench(bank.tools())
        task_id = await made.submit(both)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(7)  # the first is done, the second under way
        ran = await made.ran(task_id)
        fork = await forked(made, task_id, at=at_of(ran, "step_started") - 1)
        forking = asyncio.create_task(made.service.drive(fork))
        await asyncio.gather(driving, forking)
        return bank, (await made.ran(fork)).check()

    bank, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert bank.paid == ["bob", "bob"]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("retry_with_params", {"to": "bob2"}),
        ("retry_with_tool", {"tool_id": "wire", "parameters": {"recipient": "bob"}}),
    ],
)
def test_what_was_begun_in_place_of_a_failed_call_by_one_that_was_killed_is_not_made_by_a_fork(
    kind: str, data: Any
) -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank(refuses=["bob"])
        made = await bench(bank.tools(), answers(kind, data, BOB, BOB))
        task_id = await made.submit()
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(8)  # in the midst of what is made instead
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        cut = await made.ran(task_id)
        assert len(cut.events("call_started")) == 2
        return bank, await fork_of(made, cut)

    bank, fork = virtual_time(main())
    assert bank.paid == [], "it may have gone through"
    assert not fork.result.is_success
    assert "in its place" in fork.result.reason
