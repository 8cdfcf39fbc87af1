"""A `once` call of which nobody knows whether it took effect: read about, asked about, or given up; never guessed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.core.tools.rules import ToolRule, ToolRules
from replan.errors import InputError
from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
ORDER = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}


class Shop:
    """Payments that take effect, or not, and then do not answer."""

    def __init__(self, *, takes_effect: bool, fails: int = 1) -> None:
        self.paid: list[str] = []
        self.fails = fails
        self.takes_effect = takes_effect
        self.calls = 0

    def pay(self, parameters: Any) -> Any:
        self.calls += 1
        if self.calls > self.fails:
            self.paid.append(parameters["order"])
            return {"payment": f"p-{self.calls}"}
        if self.takes_effect:
            self.paid.append(parameters["order"])
        raise TimeoutError("no answer")

    def payments(self, parameters: Any) -> Any:
        return {"payments": [{"order": order, "payment": "p-found"} for order in self.paid]}

    def tools(self) -> dict[str, Any]:
        return {
            "pay": FakeTool(output=self.pay, parameters=ORDER, **ONCE),
            "payments": FakeTool(output=self.payments, **READS),
            "note": FakeTool(output=lambda p: p["text"], **READS),
        }


PLAN = plan(
    step("p", "pay", parameters={"order": "order-17"}),
    step("n", "note", parameters={"text": "paid: ${p.output.payment}"}),
)
VERIFY = reflection("verify_outcome", {"tool_id": "payments", "parameters": {}}, "unknown")


def settle(happened: bool, **data: Any) -> dict[str, Any]:
    data = {"happened": happened, "evidence": '"order-17"' if happened else "[]", **data}
    return reflection("settle_outcome", data, "unknown")


def run(shop: Shop, answers: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        given = {"execution_plan": PLAN, "evaluation": verdict(), "overall_reflection": overall(), **answers}
        return (await (await bench(shop.tools(), given)).run(**more)).check()

    return virtual_time(main())


def test_a_reading_shows_that_it_happened_and_the_work_goes_on() -> None:
    shop = Shop(takes_effect=True)
    ran = run(shop, {"step_reflection": [VERIFY, settle(True, output={"payment": "p-found"})]})
    assert ran.result.is_success
    assert shop.paid == ["order-17"]
    assert ran.outputs()["n"] == "paid: p-found"
    (settled,) = ran.events("outcome_settled")
    assert (settled.happened, settled.by) == (True, "a reading by 'payments'")
    first, second = ran.events("step_reflected")
    assert (first.fresh, second.fresh) == (True, False)


def steps_judged(ran: Ran) -> str:
    (asked,) = [one.turns[0].text for one in ran.model.requests if one.schema_name == "evaluation"]
    return asked.split("~~~ steps", 1)[1]


def test_a_call_that_was_settled_was_made_once_and_is_told_so() -> None:
    ran = run(
        Shop(takes_effect=True), {"step_reflection": [VERIFY, settle(True, output={"payment": "p-found"})]}
    )
    assert ran.result.steps[0].attempts == 1
    told = steps_judged(ran)
    assert "tries" not in told
    assert (
        "p: pay -> succeeded; has taken effect (its answer was lost; that was found out afterwards)" in told
    )


def test_a_call_that_is_made_again_after_its_doubt_was_made_twice() -> None:
    ran = run(
        Shop(takes_effect=False),
        {"step_reflection": [VERIFY, settle(False)]},
        trust_model_settlement=True,
    )
    assert ran.result.steps[0].attempts == 2
    told = steps_judged(ran)
    assert "2 tries" in told
    assert "found out afterwards" not in told


def test_other_parameters_before_a_doubt_count_as_a_try() -> None:
    shop = Shop(takes_effect=True, fails=9)

    def pay(parameters: Any) -> Any:
        if parameters["order"] == "order-17":
            raise ValueError("order: there is no order-17; there is order-18")
        return shop.pay(parameters)

    async def main() -> Ran:
        tools = {**shop.tools(), "pay": FakeTool(output=pay, parameters=ORDER, **ONCE)}
        answers = {
            "execution_plan": PLAN,
            "evaluation": verdict(),
            "step_reflection": [
                reflection("retry_with_params", {"order": "order-18"}),
                VERIFY,
                settle(True, output={"payment": "p-found"}, evidence='"order-18"'),
            ],
        }
        return (await (await bench(tools, answers)).run()).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert shop.calls == 1
    assert ran.result.steps[0].attempts == 2
    assert "2 tries" in steps_judged(ran)


def test_a_trusted_reading_that_it_did_not_happen_makes_the_same_call_once_more() -> None:
    shop = Shop(takes_effect=False)
    ran = run(shop, {"step_reflection": [VERIFY, settle(False)]}, trust_model_settlement=True)
    assert ran.result.is_success
    assert shop.paid == ["order-17"]
    first, second = ran.events("call_started", step_id="p", tool_id="pay")
    assert first.call_key == second.call_key
    assert (first.attempt, second.attempt) == (1, 2)


def test_what_a_reading_shows_cannot_be_denied() -> None:
    shop = Shop(takes_effect=True)
    lie = settle(False, evidence="payments")
    ran = run(shop, {"step_reflection": [VERIFY, lie, lie]})
    assert shop.paid == ["order-17"], "a lie about a reading makes no second payment"
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    last = ran.events("step_reflected")[-1]
    assert (last.by, last.action.type) == ("code", "trigger_overall_reflection")
    assert "order-17" in last.violations[0]


def test_an_empty_reading_does_not_show_that_it_happened() -> None:
    shop = Shop(takes_effect=False)
    tools = {**shop.tools(), "payments": FakeTool(output=[], **READS)}

    async def main() -> Ran:
        answers = {
            "execution_plan": PLAN,
            "evaluation": verdict(),
            "step_reflection": [VERIFY, settle(True, evidence="[]"), settle(False)],
        }
        return (await (await bench(tools, answers)).run(trust_model_settlement=True)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert shop.paid == ["order-17"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        pytest.param(reflection("retry_with_params", {"order": "order-18"}), "not open", id="another try"),
        pytest.param(reflection("repair_step", {"hint": "x"}), "not open", id="a repair"),
        pytest.param(settle(False), "nothing has been read yet", id="a word without a reading"),
        pytest.param(
            reflection("verify_outcome", {"tool_id": "pay", "parameters": {"order": "order-17"}}, "unknown"),
            "no tool that only reads", id="a look that would pay",
        ),
    ],
)  # fmt: skip
def test_a_call_in_doubt_is_never_made_again_blindly(wrong: dict[str, Any], says: str) -> None:
    shop = Shop(takes_effect=True)
    ran = run(shop, {"step_reflection": [wrong, wrong]})
    assert shop.calls == 1
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert says in ran.events("step_reflected")[0].violations[0]


def test_a_reading_that_a_person_has_to_agree_to_is_not_made_to_find_out() -> None:
    shop = Shop(takes_effect=True)
    rules = ToolRules(rules=(("payments", ToolRule(requires_approval=True)),))

    async def main() -> Ran:
        other = reflection("verify_outcome", {"tool_id": "note", "parameters": {"text": "paid?"}}, "unknown")
        given = {"execution_plan": PLAN, "evaluation": verdict(), "overall_reflection": overall()}
        made = await bench(shop.tools(), {**given, "step_reflection": [VERIFY, VERIFY, other]}, rules=rules)
        return (await made.run()).check()

    ran = virtual_time(main())
    assert ran.events("call_started", tool_id="payments") == []
    assert "there are: note" in ran.events("step_reflected")[0].violations[0]


def test_a_call_that_never_answers_is_given_up_in_the_end() -> None:
    shop = Shop(takes_effect=False, fails=99)
    ran = run(shop, {"step_reflection": lambda request: VERIFY if "p-found" not in request.turns[0].text and "Readings" not in request.turns[0].text else settle(False, evidence="payments")})  # fmt: skip
    assert shop.calls <= 3
    assert shop.paid == []
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_a_new_plan_does_not_make_a_call_in_doubt_under_another_id() -> None:
    shop = Shop(takes_effect=True)
    tools = {**shop.tools(), "bad": FakeTool(fail=["no"] * 9, delay_secs=1, **READS)}

    async def main() -> Ran:
        answers = {
            "execution_plan": [
                plan(step("p", "pay", parameters={"order": "order-17"}), step("b", "bad")),
                PLAN,
            ],
            "evaluation": verdict(),
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "unknown"),
            "overall_reflection": overall(True, replanning_strategy={"type": "full_replan"}),
        }
        return (await (await bench(tools, answers)).run()).check()

    ran = virtual_time(main())
    assert shop.calls == 1
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


# ── a person ──────────────────────────────────────────────────────────────────


async def waiting(shop: Shop) -> tuple[Bench, str, Ran]:
    answers = {
        "execution_plan": PLAN,
        "evaluation": verdict(),
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "unknown"),
    }
    made = await bench(shop.tools(), answers)
    task_id = await made.submit(interactive=True)
    ran = await made.drive(task_id)
    return made, task_id, ran


@pytest.mark.parametrize(("took_effect", "said"), [(True, "yes"), (False, "no")])
def test_a_person_says_whether_it_happened(took_effect: bool, said: str) -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id, first = await waiting(shop)
        output = {"payment": "p-asked"} if took_effect else None
        await made.service.answer(task_id, said, output=output, by="Ann")
        return first, (await made.drive(task_id)).check()

    shop = Shop(takes_effect=took_effect)
    first, ran = virtual_time(main())
    assert first.result.status == "waiting"
    assert first.result.waiting_for[0].kind == "outcome"
    assert "'pay'" in first.result.waiting_for[0].text
    assert 'with {"order":"order-17"} take effect' in first.result.waiting_for[0].text
    assert ran.result.is_success
    assert shop.paid == ["order-17"]
    assert ran.events("outcome_settled")[0].by == "Ann"
    assert ran.outputs()["n"] == ("paid: p-asked" if took_effect else "paid: p-2")


def test_an_answer_that_is_none_is_refused_and_the_task_waits_on() -> None:
    async def main() -> None:
        made, task_id, _ = await waiting(Shop(takes_effect=True))
        with pytest.raises(InputError, match="answer yes, no or cannot tell"):
            await made.service.answer(task_id, "perhaps")
        with pytest.raises(InputError, match="no open question 'q'"):
            await made.service.answer(task_id, "yes", "q")
        again = await made.drive(task_id)
        assert again.result.status == "waiting"
        assert again.types().count("task_resumed") == 0

    virtual_time(main())


def test_waiting_costs_no_time_of_the_task() -> None:
    import asyncio

    async def main() -> Ran:
        made, task_id, _ = await waiting(Shop(takes_effect=True))
        await asyncio.sleep(10_000)
        await made.service.answer(task_id, "yes", output={"payment": "p"})
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.result.total_duration_secs < 100


def test_what_a_person_said_holds_for_one_doubt_and_no_later_one() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id, _ = await waiting(shop)
        await made.service.answer(task_id, "no")
        again = await made.drive(task_id)
        calls = shop.calls
        await made.service.answer(task_id, "yes", output={"payment": "p"})
        ended = (await made.drive(task_id)).check()
        assert calls == 2, "made once more, and in doubt once more"
        return again, ended

    shop = Shop(takes_effect=False, fails=99)
    again, ended = virtual_time(main())
    assert again.result.status == "waiting"
    assert again.types().count("question_asked") == 2
    assert ended.result.is_success
    assert shop.calls == 2


def test_that_others_happened_does_not_show_that_this_one_did() -> None:
    shop = Shop(takes_effect=False)
    shop.paid.append("order-99")
    claim = settle(True, evidence='"order":"order-99"')
    answers = [VERIFY, claim, settle(False, evidence='"order":"order-99"')]
    ran = run(shop, {"step_reflection": answers}, trust_model_settlement=True)
    assert ran.result.is_success
    assert shop.paid == ["order-99", "order-17"]
    assert any("none with these parameters" in text for text in ran.events("step_reflected")[-1].violations)


@pytest.mark.parametrize("words", ["cannot tell", "Can't tell.", "I don't know", "stop", "not sure"])
def test_a_person_who_cannot_tell_ends_the_task_with_an_account_of_it(words: str) -> None:
    async def main() -> Ran:
        made, task_id, _ = await waiting(shop)
        await made.service.answer(task_id, words, by="Ann")
        return (await made.drive(task_id)).check()

    shop = Shop(takes_effect=True)
    ran = virtual_time(main())
    assert shop.calls == 1
    failure = ran.result.failure
    assert failure is not None
    assert failure.kind == "outcome_unknown"
    assert "'pay'" in failure.in_doubt[0]
    assert failure.undone == ("step 'n' (note): step 'p', which it depends on, failed",)


def test_an_output_goes_with_a_yes_only() -> None:
    async def main() -> None:
        made, task_id, _ = await waiting(Shop(takes_effect=True))
        for words in ("no", "cannot tell"):
            with pytest.raises(InputError, match="goes with the answer that the call took effect"):
                await made.service.answer(task_id, words, output={"payment": "p"})

    virtual_time(main())


# ── what a model's reading may settle ─────────────────────────────────────────


def read_as(output: Any, answers: list[dict[str, Any]], shop: Shop, **policy: Any) -> Ran:
    tools = {**shop.tools(), "payments": FakeTool(output=output, **READS)}

    async def main() -> Ran:
        given = {"execution_plan": PLAN, "evaluation": verdict(), "overall_reflection": overall()}
        return (await (await bench(tools, {**given, "step_reflection": answers})).run(**policy)).check()

    return virtual_time(main())


@pytest.mark.parametrize(
    ("output", "evidence"),
    [
        ({"payments": [], "total": 0}, '"payments": []'),
        ({"payments": [], "total": 0}, '"total":0'),
        ({"payments": [None, {}], "more": False}, '"more":false'),
        ({"balance": 310, "currency": "EUR"}, '"balance":310'),
        ({"payments": [{"order": "order-99", "payment": "p"}]}, '"order":"order-99"'),
        ({"query": "order-17-b", "count": 3}, '"count":3'),
        ({"payments": [{"order": "order-17", "payment": "p"}], "page": 1}, '"page":1'),
    ],
)  # fmt: skip
def test_only_what_identifies_this_very_call_shows_that_it_happened(output: Any, evidence: str) -> None:
    shop = Shop(takes_effect=False)
    claim = settle(True, evidence=evidence)
    ran = read_as(output, [VERIFY, claim, claim], shop)
    assert ran.events("outcome_settled") == []
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert shop.calls == 1


@pytest.mark.parametrize(
    "output",
    [
        {"payments": [{"order": "order-17", "payment": "p-1"}]},
        [{"ref": "paid for order-17 today: p-1"}],
        "2026-01-01 order-16\n2026-01-02 order-17 p-1",
        {"order-17": {"order": "order-17", "state": "paid", "id": "p-1"}},
    ],
)
def test_a_record_of_this_very_call_shows_it(output: Any) -> None:
    shop = Shop(takes_effect=False)
    quote = "2026-01-02 order-17 p-1" if isinstance(output, str) else "order-17"
    claim = settle(True, evidence=quote, output={"payment": "p-1"})
    ran = read_as(output, [VERIFY, claim, claim], shop)
    assert [one.happened for one in ran.events("outcome_settled")] == [True]
    assert ran.result.is_success
    assert shop.calls == 1


@pytest.mark.parametrize(
    "invented",
    [{"payment": "p-99"}, "paid for sure", [7], {"payment": "p-1", "fee": 12}, {"p-1": {"x": ["no"]}}],
)
def test_an_output_that_stands_in_no_reading_is_not_taken(invented: Any) -> None:
    shop = Shop(takes_effect=False)
    claim = settle(True, evidence="order-17", output=invented)
    bare = settle(True, evidence="order-17")
    record = {"order": "order-17", "payment": "p-1"}
    ran = read_as({"payments": [{"order": "order-16"}, record]}, [VERIFY, claim, bare], shop)
    assert "stands in no reading" in ran.events("step_reflected")[-1].violations[0]
    assert [one.output for one in ran.events("outcome_settled")] == [record], (
        "the record, not all that was read"
    )


@pytest.mark.parametrize("output", [[], {"payments": []}, {"balance": 310}])
def test_a_models_no_is_advice_to_a_person_and_makes_no_second_call(output: Any) -> None:
    shop = Shop(takes_effect=True)
    evidence = {"[]": "[]"}.get(str(output), str(next(iter(output))) if output else "[]")
    ran = read_as(output, [VERIFY, settle(False, evidence=evidence)], shop)
    assert shop.calls == 1
    assert ran.events("outcome_settled") == []
    failure = ran.result.failure
    assert failure is not None
    assert failure.kind == "outcome_unknown"
    last = ran.events("step_reflected")[-1]
    assert (last.by, last.action.type) == ("code", "trigger_overall_reflection")
    assert "advice for a person" in last.reason
    assert "read: payments {}" in failure.in_doubt[0]


def test_a_person_is_shown_the_readings_and_the_models_advice() -> None:
    async def main() -> Ran:
        answers = {
            "execution_plan": PLAN,
            "evaluation": verdict(),
            "step_reflection": [VERIFY, settle(False)],
        }
        made = await bench(Shop(takes_effect=False).tools(), answers)
        return await made.drive(await made.submit(interactive=True))

    ran = virtual_time(main())
    (asked,) = ran.result.waiting_for
    assert "yes, no or cannot tell" in asked.text
    assert 'read: payments {} → {"payments":[]}' in asked.background
    assert "a reading speaks for its not having happened" in asked.background


def test_a_trusted_no_counts_only_once_it_still_reads_the_same_after_a_while() -> None:
    shop = Shop(takes_effect=False)

    def appears(parameters: Any) -> Any:
        looks.append(1)
        return [] if len(looks) == 1 else [{"order": "order-17", "payment": "p-late"}]

    looks: list[int] = []
    found = settle(True, evidence="order-17", output={"payment": "p-late"})
    ran = read_as(appears, [VERIFY, settle(False), found], shop, trust_model_settlement=True)
    assert [one.happened for one in ran.events("outcome_settled")] == [True]
    assert shop.calls == 1
    begun = ran.records[0].ts
    assert [r.ts - begun >= 30 for r in ran.records if r.type == "outcome_settled"] == [True]


def test_one_record_that_a_model_reads_settles_one_call_only() -> None:
    shop = Shop(takes_effect=True, fails=2)
    shop.paid.append("order-17")
    wanted = plan(
        step("a", "pay", parameters={"order": "order-17"}, repeat=True),
        step("b", "pay", "a", parameters={"order": "order-17"}, repeat=True),
    )
    claim = settle(True, evidence="order-17", output={"payment": "p-found"})
    only = {"payments": [{"order": "order-17", "payment": "p-found"}]}

    async def main() -> Ran:
        tools = {**shop.tools(), "payments": FakeTool(output=only, **READS)}
        given = {
            "execution_plan": wanted,
            "evaluation": verdict(),
            "overall_reflection": overall(),
            "step_reflection": [VERIFY, claim, VERIFY, claim, claim],
        }
        return (await (await bench(tools, given)).run()).check()

    ran = virtual_time(main())
    assert [one.happened for one in ran.events("outcome_settled")] == [True]
    assert "one record settles one call only" in ran.events("step_reflected")[-1].violations[0]
    assert ran.result.failure is not None
    assert len(ran.result.failure.done) == 1


@pytest.mark.parametrize("memos", [("may", "may"), ("may", "june")])
@pytest.mark.parametrize("gives", [{"payment": "p-found"}, "ok", None], ids=str)
def test_the_record_of_another_call_that_succeeded_settles_none(memos: tuple[str, str], gives: Any) -> None:
    made: list[Any] = []

    def pay(parameters: Any) -> Any:
        made.append(parameters)
        if len(made) == 2:
            raise ConnectionResetError("lost before it was sent")
        return gives

    wanted = plan(
        *(step(name, "pay", *needs, parameters={"order": "order-17", "memo": memo}, repeat=True)
          for name, needs, memo in (("a", (), memos[0]), ("b", ("a",), memos[1])))
    )  # fmt: skip
    claim = settle(True, evidence="order-17")
    only = {"payments": [{"order": "order-17", "payment": "p-found"}]}

    async def main() -> Ran:
        tools = {"pay": FakeTool(output=pay, effect="once"), "payments": FakeTool(output=only, **READS)}
        given = {
            "execution_plan": wanted, "evaluation": verdict(), "overall_reflection": overall(),
            "step_reflection": [VERIFY, claim, claim],
        }  # fmt: skip
        return (await (await bench(tools, given)).run()).check()

    ran = virtual_time(main())
    assert ran.events("outcome_settled") == []
    assert not ran.result.is_success


@pytest.mark.parametrize("serial", [True, False])
def test_one_record_settles_one_of_two_doubts_side_by_side(serial: bool) -> None:
    def pay(parameters: Any) -> Any:
        raise ConnectionResetError("no answer")

    wanted = plan(
        step("a", "pay", parameters={"order": "order-17"}, repeat=True),
        step("b", "pay", *(["a"] if serial else []), parameters={"order": "order-17"}, repeat=True),
    )
    claim = settle(True, evidence="order-17")
    only = {"payments": [{"order": "order-17", "payment": "p-found"}]}
    turns = {"a": 0, "b": 0}

    def reflect(request: Any) -> Any:
        which = "a" if 'step "a"' in str(request) or "step 'a'" in str(request) else "b"
        turns[which] += 1
        return VERIFY if turns[which] == 1 else claim

    async def main() -> Ran:
        tools = {"pay": FakeTool(output=pay, effect="once"), "payments": FakeTool(output=only, **READS)}
        given = {
            "execution_plan": wanted, "evaluation": verdict(), "overall_reflection": overall(),
            "step_reflection": reflect,
        }  # fmt: skip
        return (await (await bench(tools, given)).run()).check()

    ran = virtual_time(main())
    assert len(ran.events("outcome_settled")) <= 1
    assert not ran.result.is_success


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({"status": "failed"}, id="it failed"),
        pytest.param({"state": "waiting for the bank"}, id="a state that nobody knows"),
        pytest.param({"paid": False}, id="not paid"),
        pytest.param({"confirmed": False}, id="not confirmed"),
        pytest.param({"paid_at": None}, id="paid at no time"),
        pytest.param({"dry_run": True}, id="tried only"),
        pytest.param({"result": "declined"}, id="declined"),
        pytest.param({"created_at": "1999-12-31T00:00:00Z"}, id="it was there before the call"),
    ],
)
def test_a_record_that_does_not_affirm_the_effect_leaves_the_call_in_doubt(record: dict[str, Any]) -> None:
    shop = Shop(takes_effect=False)
    tools = {
        **shop.tools(),
        "payments": FakeTool(
            output={"payments": [{"order": "order-17", "payment": "p-1", **record}]}, **READS
        ),
    }

    async def main() -> Ran:
        given = {
            "execution_plan": PLAN,
            "evaluation": verdict(),
            "overall_reflection": overall(),
            "step_reflection": [VERIFY, settle(True, output={"payment": "p-1"})],
        }
        return (await (await bench(tools, given)).run()).check()

    ran = virtual_time(main())
    assert not ran.result.is_success
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert shop.calls == 1
    assert not ran.events("outcome_settled")


@pytest.mark.parametrize("by", ["a model", "a person"])
@pytest.mark.parametrize("masked", ["***", "Bearer ***", {"inner": ["***"]}], ids=str)
def test_a_mask_in_a_settled_output_is_never_used_as_if_it_were_the_value(by: str, masked: Any) -> None:
    used: list[Any] = []
    token = "tok-5517-aaaa-bbbb"
    real = json.loads(json.dumps(masked).replace("***", token))

    def pay(parameters: Any) -> Any:
        raise TimeoutError("no answer")

    tools = {
        "pay": FakeTool(output=pay, parameters=ORDER, **ONCE),
        "payments": FakeTool(output={"payments": [{"order": "order-17", "payment": real}]}, **READS),
        "use": FakeTool(output=lambda p: used.append(p), **ONCE),
    }
    wanted = plan(
        step("p", "pay", parameters={"order": "order-17"}),
        step("u", "use", parameters={"with": "${p.output.payment}"}),
    )
    answers = {
        "execution_plan": wanted,
        "evaluation": verdict(),
        "overall_reflection": overall(),
        "step_reflection": [
            VERIFY,
            settle(True, output={"payment": masked})
            if by == "a model"
            else reflection("trigger_overall_reflection", {"summary": "look"}, "unknown"),
            reflection("trigger_overall_reflection", {"summary": "no"}, "dependency_error"),
        ],
    }

    async def main() -> None:
        made = await bench(tools, answers)
        task_id = await made.submit(metadata={"api_token": token}, interactive=by == "a person")
        ran = await made.drive(task_id)
        if by == "a person":
            (asked,) = ran.result.waiting_for
            assert asked.kind == "outcome"
            await made.service.answer(task_id, "yes", output={"payment": masked})
            ran = await made.drive(task_id)
        (settled,) = ran.events("outcome_settled")
        assert settled.happened

    virtual_time(main())
    assert used == []


def test_three_stars_are_a_value_like_any_other_where_nothing_is_secret() -> None:
    shop = Shop(takes_effect=True)
    tools = {**shop.tools(), "payments": FakeTool(output=[{"order": "order-17", "payment": "***"}], **READS)}

    async def main() -> Ran:
        answers = {"execution_plan": PLAN, "evaluation": verdict(), "overall_reflection": overall()}
        given = {**answers, "step_reflection": [VERIFY, settle(True, output={"payment": "***"})]}
        return (await (await bench(tools, given)).run()).check()

    assert virtual_time(main()).outputs()["n"] == "paid: ***"


def run_looking(gives: list[Any], *answers: Any) -> tuple[Ran, Shop, list[float]]:
    """A payment without an answer, and what the payments look like, one look after the other; and when each was made."""
    shop, left, times = Shop(takes_effect=True), [*gives], []

    def look(_: Any) -> Any:
        times.append(asyncio.get_running_loop().time())
        return left.pop(0)

    tools = {**shop.tools(), "payments": FakeTool(output=look, **READS)}

    async def main() -> Ran:
        told = {"execution_plan": PLAN, "evaluation": verdict(), "overall_reflection": overall()}
        made = await bench(tools, {**told, "step_reflection": [*answers, *[VERIFY] * 9]})
        return (await made.run()).check()

    return virtual_time(main()), shop, times


def record(status: str) -> dict[str, str]:
    return {"order": "order-17", "payment": "p-found", "status": status}


def quoting(status: str) -> dict[str, Any]:
    return settle(True, evidence=json.dumps(record(status)), output={"payment": "p-found"})


@pytest.mark.parametrize("before", [[record("pending")], [], {"payments": []}])
def test_what_needs_time_to_show_is_read_again_once_it_must_have_come_to_its_end(before: Any) -> None:
    ran, shop, times = run_looking([before, [record("booked")]], VERIFY, VERIFY, quoting("booked"))
    assert ran.result.is_success
    assert shop.paid == ["order-17"]
    assert ran.outputs()["n"] == "paid: p-found"
    first, second = times
    assert second - first >= 29
    assert not any(one.violations for one in ran.events("step_reflected"))


def test_a_record_that_is_pending_is_refused_and_may_be_read_again() -> None:
    gives = [[record("pending")], [record("booked")]]
    ran, shop, _ = run_looking(gives, VERIFY, quoting("pending"), VERIFY, quoting("booked"))
    assert ran.result.is_success
    assert shop.paid == ["order-17"]


def test_a_reading_that_gave_the_same_twice_is_not_made_a_third_time() -> None:
    ran, shop, times = run_looking([[record("pending")]] * 9, VERIFY, VERIFY, VERIFY)
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert shop.paid == ["order-17"]
    assert len(times) == 2
    assert "was made twice, and gave the same" in ran.events("step_reflected")[-1].violations[0]


def test_what_a_reading_gave_before_it_was_made_again_shows_nothing_any_more() -> None:
    gives = [[record("booked")], [record("cancelled")]]
    ran, shop, _ = run_looking(gives, VERIFY, VERIFY, quoting("booked"), quoting("booked"))
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert shop.paid == ["order-17"]


@pytest.mark.parametrize("spread", [{"for_each": ["order-17", "order-17"]}, {}])
def test_the_record_of_a_like_call_is_told_as_taken(spread: dict[str, Any]) -> None:
    """Two like payments lose their answers, and there is one record."""
    shop = Shop(takes_effect=False, fails=9)
    tools = {**shop.tools(), "payments": FakeTool(output=[record("booked")], **READS)}
    pay = {"parameters": {"order": "order-17"}, "repeat": True, **spread}
    steps = [step("p", "pay", **pay)] if spread else [step("p", "pay", **pay), step("q", "pay", "p", **pay)]

    async def main() -> Ran:
        made = await bench(
            tools,
            {
                "execution_plan": plan(*steps),
                "evaluation": verdict(),
                "overall_reflection": overall(),
                "step_reflection": [VERIFY, quoting("booked"), VERIFY, quoting("booked")],
            },
        )
        return (await made.run()).check()

    ran = virtual_time(main())
    asked = [one.turns[0].text for one in ran.model.requests if one.schema_name == "step_reflection"]
    assert "stand for no other call" not in asked[0]
    assert "~~~ settled\n- the call in p" in asked[-1]
    assert "p-found" in asked[-1].split("~~~ settled")[1]
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


# ── what a call gave that is known to have happened ───────────────────────────

BOOKED = {"order": "order-17", "cents": 1000}


def booked(gives: dict[str, Any], answer: dict[str, Any], text: str) -> Ran:
    """A payment whose answer is lost; the book shows it, and the tool `gives` what it declares."""
    shop = Shop(takes_effect=True)
    tools = {
        **shop.tools(),
        "pay": FakeTool(output=shop.pay, parameters=ORDER, spec={"output_schema": gives}, **ONCE),
        "payments": FakeTool(output={"payments": [BOOKED]}, **READS),
    }
    answers = {
        "execution_plan": plan(
            step("p", "pay", parameters={"order": "order-17"}),
            step("n", "note", "p", parameters={"text": text}),
        ),
        "evaluation": verdict(),
        "overall_reflection": overall(),
        "step_reflection": [
            VERIFY, answer, reflection("trigger_overall_reflection", {"summary": "no"}, "dependency_error"),
        ],
    }  # fmt: skip

    async def main() -> Ran:
        return (await (await bench(tools, answers)).run()).check()

    ran = virtual_time(main())
    assert shop.paid == ["order-17"]
    return ran


SCALARS = {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}
WITH_ID = {
    "type": "object",
    "properties": {"payment": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["payment", "cents"],
}


def test_left_out_the_output_is_the_record_that_is_quoted() -> None:
    ran = booked(SCALARS, settle(True), "paid: ${p.output.cents}")
    assert [one.output for one in ran.events("outcome_settled")] == [BOOKED]
    assert ran.events("step_reflected")[-1].violations == ()
    assert ran.outputs()["n"] == "paid: 1000"
    assert ran.result.is_success


def test_that_it_happened_can_be_said_where_nobody_knows_what_it_gave() -> None:
    ran = booked(WITH_ID, settle(True), "paid")
    assert [(one.happened, one.output) for one in ran.events("outcome_settled")] == [(True, None)]
    assert ran.events("step_reflected")[-1].violations == ()
    assert (
        "p: pay -> succeeded; has taken effect (its answer was lost; that was found out afterwards, and not what it gave)"
        in steps_judged(ran)
    )
    assert ran.result.is_success


def test_what_needs_an_output_that_nobody_knows_fails_and_nothing_is_paid_again() -> None:
    ran = booked(WITH_ID, settle(True), "paid: ${p.output.payment}")
    assert [one.output for one in ran.events("outcome_settled")] == [None]
    assert not ran.result.is_success
    assert ran.state.steps["p"].status == "succeeded"
    fault = ran.state.steps["n"].fault
    assert fault is not None
    assert fault.category == "dependency_error"


@pytest.mark.parametrize("given", [{"cents": 1000}, {"cents": 1000, "payment": "P-1"}])
def test_an_output_that_is_not_whole_or_made_up_is_told_that_it_may_be_left_out(
    given: dict[str, Any],
) -> None:
    shop = Shop(takes_effect=True)
    tools = {
        **shop.tools(),
        "pay": FakeTool(output=shop.pay, parameters=ORDER, spec={"output_schema": WITH_ID}, **ONCE),
        "payments": FakeTool(output={"payments": [BOOKED]}, **READS),
    }
    answers = {
        "execution_plan": plan(step("p", "pay", parameters={"order": "order-17"})),
        "evaluation": verdict(),
        "step_reflection": [VERIFY, settle(True, output=given), settle(True)],
    }

    async def main() -> Ran:
        return (await (await bench(tools, answers)).run()).check()

    ran = virtual_time(main())
    told = ran.events("step_reflected")[-1].violations
    assert told
    assert all("leave output out" in one and "nobody knows what the call gave" in one for one in told)
    assert [(one.happened, one.output) for one in ran.events("outcome_settled")] == [(True, None)]
    assert ran.result.is_success
