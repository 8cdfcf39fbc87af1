"""Plans that say what is still to be planned (`more`): the planner goes on at once, nothing is asked for nothing, and nothing loops."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, action, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection
from test_run_recovery_crashes import DiesAfter

from replan.core.limits.policy import OlderLimits
from replan.core.recovery.guard import MOST_BARREN, MOST_POLLED
from replan.errors import StoreFull
from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
REST = "order what is below ten"


def part(*steps: dict[str, Any], more: Any = REST) -> dict[str, Any]:
    return {**plan(*steps), "more": more}


def tools(**more: Any) -> dict[str, Any]:
    return {
        "stock": FakeTool(output=lambda p: {"left": 3, "at": p.get("at")}, **READS),
        "order": FakeTool(output="ordered", **ONCE),
        "mail": FakeTool(output="mailed", **ONCE),
        **more,
    }


def run(answers: dict[str, Any], of: dict[str, Any] | None = None, **more: Any) -> Ran:
    async def main() -> Ran:
        made = await bench(tools() if of is None else of, {"evaluation": verdict(), **answers})
        return (await made.run(**more)).check()

    return virtual_time(main())


def asked(ran: Ran) -> list[str]:
    return [one.schema_name for one in ran.model.requests]


LOOK = part(step("look", "stock"))
BUY = plan(step("buy", "order", parameters={"pieces": 7}))


def test_a_plan_that_has_to_look_first_is_gone_on_with_at_once_and_judged_only_as_a_whole() -> None:
    ran = run({"execution_plan": [LOOK, BUY]})
    assert asked(ran) == ["execution_plan", "execution_plan", "evaluation"]
    assert ran.result.succeeded
    assert ran.result.rounds == 2
    assert ran.statuses() == {"look": "succeeded", "buy": "succeeded"}, "the part stays in the plan"
    assert ran.source.counts == {"stock": 1, "order": 1}
    (started,) = ran.events("replanning_started")
    assert started.continues
    assert started.reason == REST
    told = ran.model.requests[1].turns[0].text
    assert REST in told
    assert '"left": 3' in told, "the planner has what was found out"
    assert "not done" not in ran.model.requests[2].turns[0].text, "the whole is judged as a whole"


def test_the_next_part_may_refer_to_the_one_before_and_is_no_replan_of_the_older_limits() -> None:
    buy = plan(step("buy", "order", parameters={"pieces": "${look.output.left}"}))
    ran = run({"execution_plan": [LOOK, buy]}, older=OlderLimits(max_task_replanning_attempts=0))
    assert ran.result.succeeded
    assert ran.source.calls[-1].parameters == {"pieces": 3}
    assert ran.state.recovery is not None
    assert ran.state.recovery.replans == 0


def test_steps_alone_judge_the_whole_and_never_a_part() -> None:
    ran = run({"execution_plan": [LOOK, BUY]}, evaluation="steps")
    assert asked(ran) == ["execution_plan"] * 2
    assert ran.result.succeeded
    assert ran.result.output == {"look": {"left": 3, "at": None}, "buy": "ordered"}


def test_where_nothing_is_left_to_do_the_next_part_has_no_steps() -> None:
    for judge in ("model", "steps"):
        ran = run({"execution_plan": [LOOK, plan()]}, evaluation=judge)
        assert ran.result.succeeded
        assert ran.source.counts == {"stock": 1}
        assert ran.statuses() == {"look": "succeeded"}


def test_a_part_whose_step_is_skipped_by_its_condition_is_gone_on_with() -> None:
    looks = part(step("look", "stock"), step("warn", "mail", when="look.output.left > `5`"))
    ran = run({"execution_plan": [looks, BUY]})
    assert asked(ran) == ["execution_plan", "execution_plan", "evaluation"]
    assert ran.result.succeeded
    assert ran.source.counts == {"stock": 1, "order": 1}


@pytest.mark.parametrize("looks", [True, False])
def test_a_part_with_a_step_that_needs_what_a_condition_has_skipped_is_gone_on_with(looks: bool) -> None:
    said = {"parameters": {"at": "${warn.output}"}} if looks else {}
    part_of = part(
        step("look", "stock"),
        step("warn", "mail", when="look.output.left > `5`"),
        step("after", "stock", "warn", **said),
    )
    ran = run({"execution_plan": [part_of, BUY]})
    assert asked(ran) == ["execution_plan", "execution_plan", "evaluation"]
    assert ran.result.succeeded


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_a_rest_that_cannot_be_planned_is_told_as_that_and_as_no_judgement(judge: str) -> None:
    ran = run({"execution_plan": [LOOK, {"steps": [], "cannot": "there is no shop"}]}, evaluation=judge)
    assert ran.result.status == "failed"
    assert ran.result.reason is not None
    assert ran.result.reason.startswith(
        f"the first part is done, and there is no plan for the rest ({REST}): "
    )
    assert "there is no shop" in ran.result.reason
    assert "insufficient" not in ran.result.reason


def test_what_another_tool_is_needed_for_is_planned_without_selecting_anew() -> None:
    many = {f"tool_{n}": FakeTool(output=n, **READS) for n in range(12)}
    select = {"tools": [{"tool_id": "stock", "score": 90}]}
    ran = run(
        {"tool_selection": select, "execution_plan": [LOOK, BUY, BUY]},
        {**tools(), **many},
    )
    assert asked(ran).count("tool_selection") == 1
    assert ran.result.succeeded
    assert ran.source.counts["order"] == 1


# ── a part that fails ─────────────────────────────────────────────────────────


def test_a_part_whose_step_fails_is_judged_and_reflected_on_as_any_plan() -> None:
    ran = run(
        {
            "execution_plan": [part(step("look", "stock"), step("tell", "mail")), BUY],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
            "overall_reflection": overall(True, replanning_strategy={"type": "full_replan", "reason": "anew"}),
            "evaluation": {**verdict(), "left_out_effects": [
                {"step": "tell", "made_good_by": None, "not_needed": "nobody asked for a mail"}]},
        },
        tools(mail=FakeTool(fail=["full"] * 9, **ONCE)),
    )  # fmt: skip
    assert ran.result.succeeded
    assert "overall_reflection" in asked(ran)
    (started,) = ran.events("replanning_started")
    assert not started.continues


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_what_comes_after_a_list_that_does_without_an_item_is_planned_and_the_end_accounts_for_it(
    judge: str,
) -> None:
    each = step(
        "tell", "mail", for_each='["ann", "bo"]', parameters={"to": "${item}"}, allow_failed_items=True
    )

    def mail(parameters: Any) -> Any:
        if parameters["to"] == "bo":
            raise RuntimeError("no such person")
        return "mailed"

    ran = run(
        {
            "execution_plan": [part(each), BUY],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
            "overall_reflection": overall(False),
            "evaluation": verdict(95),
        },
        tools(mail=FakeTool(mail, **ONCE)),
        evaluation=judge,
    )
    assert len(ran.events("replanning_started", continues=True)) == 1
    assert ran.source.counts["order"] == 1
    told = (
        ran.result.shortfall
        if judge == "steps"
        else [ran.result.failure.reason if ran.result.failure else ""]
    )
    assert any("without item 2" in text for text in told), told
    assert ran.result.succeeded is (judge == "steps")


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_no_yes_makes_a_success_of_a_plan_that_says_itself_that_more_is_to_be_planned(judge: str) -> None:
    again = part(step("n", "stock", parameters={"at": 1}))
    ran = run(
        {
            "execution_plan": [LOOK, *[part(step("n", "stock"), step("m", "stock"))] * 20, again],
            "overall_reflection": overall(False, done_in_substance=True),
        },
        evaluation=judge,
    )
    assert not ran.result.succeeded
    assert "order" not in ran.source.counts


def test_a_person_may_end_it_with_a_part_and_is_told_what_was_still_to_be_planned() -> None:
    async def main() -> Ran:
        made = await bench(
            tools(stock=FakeTool(fail=["down"] * 9, **READS)),
            {
                "execution_plan": [LOOK, BUY],
                "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
                "overall_reflection": overall(False, ask="who counts?"),
                "evaluation": verdict(30),
            },
        )
        task = await made.submit(interactive=True)
        ran = await made.drive(task)
        (open_,) = ran.result.waiting_for
        await made.service.answer(task, "done", open_.id)
        return (await made.drive(task)).check()

    ran = virtual_time(main())
    assert ran.result.succeeded
    assert any(REST in line for line in ran.result.shortfall)


ANEW = {
    "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
    "overall_reflection": [
        overall(True, replanning_strategy={"type": "full_replan", "reason": "anew"}),
        overall(False),
    ],
}
FAILS = part(step("look", "stock"), step("rate", "rates"))


def rates() -> dict[str, Any]:
    return tools(rates=FakeTool(fail=["gone"] * 9, **READS), rates_2=FakeTool(output=1.1, **READS))


@pytest.mark.parametrize("judge", ["model", "steps"])
@pytest.mark.parametrize("how", ["full_replan", "replan_from_step", "replan"])
def test_what_was_still_to_be_planned_is_planned_after_a_reading_was_made_in_another_way(
    judge: str, how: str
) -> None:
    """The new plan says no `more`: it has only found out otherwise what could not be found out."""
    anew: dict[str, Any] = {
        "step_reflection": ANEW["step_reflection"],
        "overall_reflection": overall(
            True, replanning_strategy={"type": how, "step_id": "rate", "reason": "anew"}
        ),
    }
    if how == "replan":
        anew = {"step_reflection": reflection("replan", {"advice": "read it otherwise"}, "tool_error")}
    ran = run(
        {"execution_plan": [FAILS, plan(step("r2", "rates_2")), BUY], **anew}, rates(), evaluation=judge
    )
    assert ran.result.succeeded
    assert ran.source.counts["order"] == 1
    assert [one.continues for one in ran.events("replanning_started")] == [False, True]
    assert not any("still to be planned" in line for line in ran.result.shortfall)


def test_a_first_part_may_be_planned_anew_without_what_failed() -> None:
    skips = {"steps": [], "more": REST}
    ran = run({"execution_plan": [FAILS, {**plan(step("s2", "stock")), "more": REST}, BUY], **ANEW}, rates())
    assert ran.result.succeeded
    of = {
        **ANEW,
        "overall_reflection": overall(
            True, replanning_strategy={"type": "replan_from_step", "step_id": "rate", "reason": "go on"}
        ),
    }
    ran = run({"execution_plan": [FAILS, skips, BUY], **of}, rates())
    assert ran.result.succeeded
    assert ran.source.counts["order"] == 1


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_a_new_plan_with_effects_may_be_the_whole_and_who_judges_is_told_what_was_still_to_be_planned(
    judge: str,
) -> None:
    ran = run({"execution_plan": [FAILS, plan(step("m", "mail"))], **ANEW}, rates(), evaluation=judge)
    assert ran.result.succeeded
    assert ran.source.counts["mail"] == 1
    if judge == "steps":
        assert any(REST in line for line in ran.result.shortfall)
        assert ran.result.score == 80
    else:
        told = ran.model.requests[-1].turns[0].text
        assert REST in told
        assert "says nothing of it" in told


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_effects_that_a_new_plan_only_restates_are_no_word_that_it_is_the_whole(judge: str) -> None:
    first = part(step("tell", "mail", parameters={"to": "ann"}), step("rate", "rates", "tell"))
    again = plan(step("tell_2", "mail", parameters={"to": "ann"}), step("r2", "rates_2", "tell_2"))
    ran = run({"execution_plan": [first, again, BUY], **ANEW}, rates(), evaluation=judge)
    assert ran.result.succeeded
    assert ran.source.counts["mail"] == ran.source.counts["order"] == 1


def test_a_planner_that_plans_nothing_for_what_it_said_is_to_be_planned_leaves_a_word_of_it() -> None:
    ran = run({"execution_plan": [LOOK, plan()]}, evaluation="steps")
    assert ran.result.succeeded
    assert any(REST in line and "planned nothing" in line for line in ran.result.shortfall)
    ran = run({"execution_plan": [LOOK, plan()]})
    assert "planned nothing" in ran.model.requests[-1].turns[0].text
    assert ran.result.shortfall == ()


def test_odd_words_for_nothing_left_cost_the_one_request_in_which_nothing_is_planned() -> None:
    ran = run(
        {"execution_plan": [part(step("look", "stock"), more="Nothing more is left."), part(more="Nothing.")]}
    )
    assert ran.result.succeeded
    assert asked(ran) == ["execution_plan", "execution_plan", "evaluation"]


@pytest.mark.parametrize("nothing", [None, False, "", [], {}, "none", "Nothing.", "n/a", " null "])
def test_nothing_left_is_said_by_a_value_that_is_nothing(nothing: Any) -> None:
    ran = run({"execution_plan": part(step("look", "stock"), more=nothing)})
    assert ran.result.rounds == 1
    assert ran.result.succeeded


@pytest.mark.parametrize(
    "restated", [{"pieces": 5}, {"pieces": 7}], ids=["as it was planned", "as it was made"]
)
@pytest.mark.parametrize("judge", ["model", "steps"])
def test_a_part_that_restates_a_step_which_recovery_has_corrected_has_copied_it(
    restated: dict[str, Any], judge: str
) -> None:
    def order(parameters: dict[str, Any]) -> str:
        if parameters["pieces"] != 7:
            raise ValueError("pieces: 7 is the least")
        return "ordered"

    first = part(step("buy", "order", parameters={"pieces": 5}))
    rest = plan(step("buy", "order", parameters=restated), step("tell", "mail", "buy"))
    answers = {
        "execution_plan": [first, rest],
        "step_reflection": reflection("retry_with_params", {"parameters": {"pieces": 7}}),
    }
    ran = run(answers, tools(order=FakeTool(output=order, **ONCE)), evaluation=judge)
    assert ran.result.succeeded
    assert ran.source.counts == {"order": 2, "mail": 1}
    assert ran.statuses() == {"buy": "succeeded", "tell": "succeeded"}


# ── no loop ───────────────────────────────────────────────────────────────────


def test_the_same_part_again_is_refused() -> None:
    ran = run({"execution_plan": [LOOK, *[part(step("again", "stock"))] * 4]})
    refused = [text for one in ran.events("plan_rejected") for text in one.violations]
    assert refused
    assert all("the same as an earlier one" in text for text in refused)
    assert ran.result.status == "failed"
    assert ran.result.rounds == 2


def test_a_part_without_a_new_step_is_refused_and_what_would_be_right_is_said() -> None:
    ran = run({"execution_plan": [{"steps": [], "more": REST}, LOOK, part(), BUY]})
    told = [text for one in ran.events("plan_rejected") for text in one.violations]
    assert len(told) == 2
    assert all("`more`" in text and "no new step" in text for text in told)
    assert ran.result.succeeded


def test_parts_that_call_nothing_new_come_to_an_end() -> None:
    def planner(request: Any) -> Any:
        made.append(request)
        names = [f"n{len(made)}_{n}" for n in range(len(made))]
        return part(*(step(name, "stock") for name in names))

    made: list[Any] = []
    ran = run({"execution_plan": planner, "overall_reflection": overall(False)})
    assert ran.result.status == "failed"
    assert ran.result.rounds <= 6


def test_parts_that_always_find_something_new_are_bounded_by_the_rounds_that_are_allowed() -> None:
    def planner(request: Any) -> Any:
        made.append(request)
        return part(step(f"n{len(made)}", "stock", parameters={"at": len(made)}))

    made: list[Any] = []
    ran = run({"execution_plan": planner}, budget={"max_rounds": 3})
    assert ran.result.failure is not None
    assert ran.result.failure.limit == "max_rounds"
    assert ran.source.counts == {"stock": 3}


@pytest.mark.parametrize("length", [8, 45])
def test_a_chain_of_readings_that_each_need_the_one_before_is_no_loop(length: int) -> None:
    chain = [part(step(f"n{n}", "stock", parameters={"at": n})) for n in range(length)]
    ran = run({"execution_plan": [*chain, BUY]})
    assert ran.result.succeeded
    assert ran.result.rounds == length + 1
    assert ran.source.counts == {"stock": length, "order": 1}
    assert asked(ran).count("evaluation") == 1


def test_parts_whose_only_news_is_a_poll_that_moves_on_come_to_an_end() -> None:
    clock = iter(range(10_000))
    made: list[Any] = []

    def planner(request: Any) -> Any:
        made.append(request)
        return part(step(f"n{len(made)}", "clock"))

    ran = run(
        {"execution_plan": planner, "overall_reflection": overall(False)},
        tools(clock=FakeTool(output=lambda _: next(clock), effect="reads", spec={"volatile": True})),
    )
    assert ran.result.status == "failed"
    assert MOST_BARREN < ran.result.rounds <= MOST_POLLED + 2


# ── a list that is worked off one by one ──────────────────────────────────────


class Bills:
    """What is open gets less with each payment."""

    def __init__(self, count: int, *, volatile: bool = True) -> None:
        self.open = [f"I{n}" for n in range(1, count + 1)]
        self.paid: list[str] = []
        self.told: list[str] = []
        reading: dict[str, Any] = {"effect": "reads", "spec": {"volatile": volatile}}
        self.tools = {
            "next_bill": FakeTool(output=self._next, **reading),
            "pay": FakeTool(output=self._pay, **ONCE),
            "tell": FakeTool(output=lambda p: self.told.append(p["of"]), **ONCE),
        }

    def _next(self, _: Any) -> Any:
        left = [one for one in self.open if one not in self.paid]
        return {"id": left[0] if left else None}

    def _pay(self, parameters: Any) -> Any:
        self.paid.append(parameters["id"])
        return {"receipt": f"R-{parameters['id']}"}

    def part(self, n: int, *more: dict[str, Any], **of: Any) -> dict[str, Any]:
        return part(
            step(f"n{n}", "next_bill"),
            step(f"p{n}", "pay", parameters={"id": f"${{n{n}.output.id}}"}, **of),
            *more,
        )


@pytest.mark.parametrize("judge", ["model", "steps"])
@pytest.mark.parametrize("volatile", [True, False], ids=["volatile", "read anew after an effect"])
def test_a_list_is_worked_off_one_by_one_in_parts(judge: str, volatile: bool) -> None:
    bills = Bills(4, volatile=volatile)
    parts = [bills.part(n) for n in range(1, 5)]
    ran = run({"execution_plan": [*parts, plan()]}, bills.tools, evaluation=judge)
    assert ran.result.succeeded
    assert bills.paid == ["I1", "I2", "I3", "I4"]
    assert not ran.events("plan_rejected")
    assert not ran.events("step_reflected")


def test_what_goes_by_the_effect_of_a_part_is_another_one_in_the_next() -> None:
    bills = Bills(2)

    def tell(n: int) -> dict[str, Any]:
        return step(f"t{n}", "tell", parameters={"of": f"${{p{n}.output.receipt}}"})

    ran = run({"execution_plan": [bills.part(1, tell(1)), bills.part(2, tell(2)), plan()]}, bills.tools)
    assert ran.result.succeeded
    assert bills.paid == ["I1", "I2"]
    assert bills.told == ["R-I1", "R-I2"]


def test_the_reading_may_be_a_part_of_its_own() -> None:
    bills = Bills(2)
    parts = [
        bills.part(1),
        part(step("n2", "next_bill")),
        part(step("p2", "pay", parameters={"id": "${n2.output.id}"})),
        plan(),
    ]
    ran = run({"execution_plan": parts}, bills.tools)
    assert ran.result.succeeded
    assert bills.paid == ["I1", "I2"]


def test_a_part_that_restates_an_effect_over_new_values_which_no_reading_gave_is_asked_what_it_means() -> (
    None
):
    """A session that is begun anew is no new ticket."""
    sessions = iter("ABC")
    of = {
        "login": FakeTool(output=lambda _: next(sessions), effect="repeatable"),
        "create": FakeTool(output="created", **ONCE),
        "close": FakeTool(output="closed", effect="repeatable"),
    }

    def first(n: int) -> list[dict[str, Any]]:
        return [
            step(f"l{n}", "login", parameters={"user": "me"}),
            step(f"c{n}", "create", parameters={"title": "A", "by": f"${{l{n}.output}}"}),
        ]

    closing = step("x1", "close", "c1", parameters={"user": "me"})
    ran = run(
        {
            "execution_plan": [part(*first(1), closing), plan(*first(2))],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
            "overall_reflection": overall(False),
        },
        of,
    )
    assert ran.source.counts["create"] == 1


def test_a_new_plan_after_a_part_that_failed_does_not_restate_what_is_paid() -> None:
    """Only a part goes on; a plan that is made anew makes up for something."""
    bills = Bills(3)
    bad = step("x", "broken")
    of = {**bills.tools, "broken": FakeTool(fail=["no"] * 9, **READS)}
    ran = run(
        {
            "execution_plan": [
                bills.part(1),
                bills.part(2, {**bad, "dependencies": ["p2"]}),
                bills.part(3),
                plan(),
            ],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
            "overall_reflection": [
                overall(True, replanning_strategy={"type": "full_replan", "reason": "anew"}),
                overall(False),
            ],
        },
        of,
    )
    assert bills.paid == ["I1", "I2"], "nobody has said that a third payment is meant"
    assert not ran.result.succeeded


def test_a_poll_may_be_made_part_by_part() -> None:
    states = iter(["pending", "pending", "ready"])
    of = tools(status=FakeTool(output=lambda _: next(states), effect="reads", spec={"volatile": True}))
    polls = [part(step(f"s{n}", "status", parameters={"id": "x"})) for n in range(3)]
    ran = run({"execution_plan": [*polls, BUY]}, of)
    assert ran.result.succeeded
    assert ran.source.counts == {"status": 3, "order": 1}


# ── forms, people's plans, and a crash in between ─────────────────────────────


@pytest.mark.parametrize("more", [REST, [REST], {"then": REST}, True], ids=["text", "list", "object", "flag"])
def test_more_is_read_in_any_form(more: Any) -> None:
    ran = run({"execution_plan": [part(step("look", "stock"), more=more), BUY]})
    assert ran.result.rounds == 2
    assert ran.result.succeeded


@pytest.mark.parametrize("more", ["", "none", "N/A", None, False, [], {}])
def test_what_says_nothing_is_no_more(more: Any) -> None:
    ran = run({"execution_plan": [part(step("look", "stock"), more=more)]})
    assert ran.result.rounds == 1
    assert ran.result.succeeded


def test_more_holds_inside_a_plan_under_another_name() -> None:
    ran = run({"execution_plan": [{"plan": LOOK}, BUY]})
    assert ran.result.rounds == 2
    assert ran.source.counts["order"] == 1


def test_a_plan_of_a_person_may_be_a_part_where_a_model_plans_the_rest() -> None:
    ran = run({"execution_plan": [BUY]}, wanted=LOOK, evaluation="model")
    assert ran.result.succeeded
    assert ran.source.counts == {"stock": 1, "order": 1}
    ran = run({}, wanted=LOOK)
    assert ran.result.status == "failed"
    assert any("`more`" in text and "no" in text for text in ran.result.failure.violations)  # type: ignore[union-attr]


def test_a_part_with_effects_has_them_once_and_the_next_one_after_it() -> None:
    first = part(step("a", actions=[action("x", "mail", to="ann"), action("y", "mail", to="bo")]))
    rest = plan(step("b", "mail", parameters={"to": "ann"}), step("c", "order", "b"))
    ran = run({"execution_plan": [first, rest, plan(step("c", "order"))]})
    (refused,) = ran.events("plan_rejected")
    assert "step 'b' makes the call of 'mail' that step 'a', action 'x' has made" in refused.violations[0]
    assert ran.result.succeeded
    assert ran.source.counts == {"mail": 2, "order": 1}, "what a part has done is not done again"


def test_killed_at_any_point_it_goes_on_with_the_next_part_and_does_nothing_twice() -> None:
    def planner(request: Any) -> Any:
        return BUY if "Still to be planned" in request.turns[0].text else LOOK

    async def main(appends: int) -> tuple[Ran, bool]:
        store = DiesAfter(appends)
        of = tools(order=FakeTool(output="ordered", effect="repeatable"))
        made: Bench = await bench(of, {"evaluation": verdict(), "execution_plan": planner}, store=store)
        task = await made.submit()
        died = False
        try:
            await made.drive(task)
        except StoreFull:
            died = True
        return (await made.drive(task) if died else await made.ran(task)).check(), died

    deaths = 0
    for appends in range(1, 40):
        ran, died = virtual_time(main(appends))
        assert ran.result.succeeded
        assert ran.result.rounds == 2
        assert ran.statuses() == {"look": "succeeded", "buy": "succeeded"}
        assert len(ran.events("replanning_started")) == 1
        deaths += died
        if not died:
            break
    assert deaths > 5


# ── nothing is left ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "answer",
    [
        "{}",
        "[]",
        "null",
        "Nothing is left to do.",
        {"steps": None},
        {"steps": [], "status": "done"},
        {"steps": [], "cannot": "All steps are done already; there is nothing more to plan."},
        {"steps": [], "ask_first": "Shall I do anything else?"},
        {"steps": [], "more": "No more steps."},
        {**LOOK, "more": "No more steps."},
        {**LOOK, "more": "not needed"},
    ],
)
@pytest.mark.parametrize("done", [True, False])
def test_however_a_planner_says_that_nothing_is_left_who_judges_says_whether_it_is_so(
    answer: Any, done: bool
) -> None:
    last = verdict() if done else {**verdict(20), "is_successful": False}
    ran = run(
        {"execution_plan": [LOOK, answer], "evaluation": last, "overall_reflection": overall(False)},
    )
    assert asked(ran)[:3] == ["execution_plan", "execution_plan", "evaluation"]
    assert ran.result.succeeded == done
    assert REST in ran.model.requests[2].turns[0].text, "who judges is told what was still to be planned"


@pytest.mark.parametrize("answer", ["{}", "[]", {"steps": None}, {"steps": [], "status": "done"}])
def test_judged_by_steps_what_was_to_be_planned_and_was_not_is_a_shortfall(answer: Any) -> None:
    ran = run({"execution_plan": [LOOK, answer]}, evaluation="steps")
    assert asked(ran) == ["execution_plan"] * 2
    assert ran.result.succeeded
    assert any(REST in one for one in ran.result.shortfall)


@pytest.mark.parametrize(
    "answer", ["Nothing is left to do.", {"steps": [], "cannot": "Nothing is left to be done."}]
)
def test_judged_by_steps_words_make_no_success(answer: Any) -> None:
    ran = run({"execution_plan": [LOOK, *[answer] * 4]}, evaluation="steps")
    assert ran.result.status == "failed"


BESIDE: list[dict[str, Any]] = [
    {"error": "no mail tool"},
    {"steps": [], "reasoning": "I will not order any."},
    {"steps": [], "note": "The order is still to be made."},
    {"steps": [], "status": "partial"},
]


@pytest.mark.parametrize("answer", BESIDE)
def test_judged_by_steps_what_is_said_beside_no_steps_is_told_once_and_then_is_the_reason(
    answer: Any,
) -> None:
    said = str(list(answer.values())[-1])
    ran = run({"execution_plan": [LOOK, answer, answer]}, evaluation="steps")
    assert ran.result.status == "failed"
    assert asked(ran) == ["execution_plan"] * 3
    assert said in (ran.result.reason or "")
    ran = run({"execution_plan": [LOOK, answer, plan()]}, evaluation="steps")
    assert ran.result.succeeded, "nothing is left, said as it is to be said"


@pytest.mark.parametrize("judge", ["model", "steps"])
@pytest.mark.parametrize("answer", [BESIDE[0], {"steps": [], "problem": "the shop is closed"}])
def test_an_error_beside_an_empty_rest_goes_back_once_and_then_is_why_there_is_none(
    answer: Any, judge: str
) -> None:
    ran = run({"execution_plan": [LOOK, answer, answer]}, evaluation=judge)
    assert ran.result.status == "failed"
    assert asked(ran) == ["execution_plan"] * 3
    assert str(list(answer.values())[-1]) in (ran.result.reason or "")
    assert ran.source.counts == {"stock": 1}
    ran = run({"execution_plan": [LOOK, answer, plan()]}, evaluation=judge)
    assert ran.result.succeeded


@pytest.mark.parametrize("name", ["cannot", "error", "refusal"])
def test_steps_beside_a_no_are_told_once_and_then_the_no_is_the_reason(name: str) -> None:
    torn = {**BUY, name: "the shop is closed"}
    ran = run({"execution_plan": [torn, torn]})
    assert ran.result.status == "failed"
    assert asked(ran) == ["execution_plan"] * 2
    assert "the shop is closed" in (ran.result.reason or "")
    assert ran.source.counts == {}
    ran = run({"execution_plan": [torn, BUY]})
    assert ran.result.succeeded


@pytest.mark.parametrize("answer", BESIDE[1:])
def test_who_judges_is_told_all_that_a_planner_says_beside_no_steps(answer: Any) -> None:
    ran = run({"execution_plan": [LOOK, answer]})
    assert asked(ran) == ["execution_plan", "execution_plan", "evaluation"]
    assert str(list(answer.values())[-1]) in ran.model.requests[-1].turns[0].text


def test_a_question_that_says_beside_it_what_is_done_is_put_to_a_person() -> None:
    question = "The first part is all done. From which account is the rest to be paid?"

    async def waits() -> Ran:
        made = await bench(
            tools(),
            {"execution_plan": [LOOK, {"steps": [], "ask_first": question}], "evaluation": verdict()},
        )
        return await made.run(interactive=True)

    ran = virtual_time(waits())
    assert ran.result.status == "waiting"
    assert ran.result.waiting_for[0].text == question


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_a_question_beside_no_steps_is_put_to_a_person_or_is_the_reason(judge: str) -> None:
    answers = {"execution_plan": [LOOK, *[{"message": "To which address?"}] * 2]}

    async def waits() -> str:
        made = await bench(tools(), {"evaluation": verdict(), **answers})
        ran = await made.run(evaluation=judge, interactive=True)
        assert ran.result.status == "waiting"
        return ran.result.waiting_for[0].text

    assert virtual_time(waits()) == "To which address?"
    ran = run(answers, evaluation=judge)
    assert ran.result.status == "failed"
    assert "To which address?" in (ran.result.reason or "")


def test_a_rest_that_cannot_be_done_is_told_at_once() -> None:
    ran = run({"execution_plan": [LOOK, {"steps": [], "cannot": "the shop is closed"}]})
    assert asked(ran) == ["execution_plan"] * 2
    assert "the shop is closed" in (ran.result.reason or "")
