"""One call, one effect: a call that another place means, an attempt that is in doubt, a record that is another call's."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict

from replan.core.calls.readings import shortcoming
from replan.errors import ToolCallError
from replan.testing import virtual_time

NAME = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "memo": {"type": "string"}},
    "required": ["to"],
}


def reflection(kind: str, data: Any) -> dict[str, Any]:
    return {
        "root_cause_category": "parameter_error",
        "is_recoverable": True,
        "confidence": 90,
        "suggested_action": {"type": kind, "data": data},
    }


REPLAN = reflection("trigger_overall_reflection", {"summary": "no"})


def overall(**strategy: Any) -> dict[str, Any]:
    return {
        "problem_nature": "decomposition",
        "should_replan": True,
        "reflection_text": "again",
        "replanning_strategy": strategy,
    }


class Bank:
    """Pays everybody but those whose name begins with Bad."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def pay(self, parameters: dict[str, Any]) -> dict[str, int]:
        if parameters["to"].startswith("Bad"):
            raise ToolCallError(f"no account {parameters['to']}; did you mean Zed?", kind="tool")
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}


def run(bank: Bank, answers: dict[str, Any], given: dict[str, Any] | None = None, **policy: Any) -> Ran:
    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=bank.pay, effect="once", parameters=NAME, delay_secs=0.1),
            "tell": FakeTool(output=bank.pay, effect="once", parameters=NAME),
        }
        b = await bench(tools, {"evaluation": verdict(), **answers})
        return (await b.run(given, evaluation="steps", **policy)).check()

    return virtual_time(main())


def pays(name: str, *to: str, shape: str = "list", needs: tuple[str, ...] = ()) -> dict[str, Any]:
    if shape == "actions":
        return step(name, "", *needs, actions=[action(f"{name}_{one}", "pay", to=one) for one in to])
    if shape == "step":
        return step(name, "pay", *needs, parameters={"to": to[0]})
    items = "[" + ", ".join(f'"{one}"' for one in to) + "]"
    return step(name, "pay", *needs, parameters={"to": "${item}"}, for_each=items)


@pytest.mark.parametrize("shape", ["list", "actions"])
@pytest.mark.parametrize("places", [1, 8])
def test_a_call_is_not_corrected_into_one_that_still_waits_for_its_place(shape: str, places: int) -> None:
    bank = Bank()
    everybody = ("Bad", *(f"P{n}" for n in range(places + 1)), "Zed")
    ran = run(
        bank,
        {
            "execution_plan": [plan(pays("a", *everybody, shape=shape)), plan(pays("b", "Yul"))],
            "step_reflection": [reflection("retry_with_params", {"to": "Zed"}), REPLAN],
            "overall_reflection": overall(type="full_replan"),
        },
        parallel_max_concurrent=places,
    )
    assert bank.paid.count("Zed") == 1
    reflected = ran.events("step_reflected")[0]
    assert any(
        "makes this very call of 'pay' already, or is to make it" in one for one in reflected.violations
    )


@pytest.mark.parametrize(
    ("first", "second"), [("step", "list"), ("list", "step"), ("list", "actions"), ("step", "step")]
)
def test_a_step_is_not_rewritten_into_the_call_of_a_later_one(first: str, second: str) -> None:
    bank = Bank()
    ran = run(
        bank,
        {
            "execution_plan": plan(
                pays("b", "Bad", shape=first), pays("c", "Zed", shape=second, needs=("b",))
            ),
            "step_reflection": [reflection("repair_step", {"hint": "Zed"}), REPLAN],
            "step_repair": [pays("b", "Zed", shape=first), pays("b", "Yul", shape=first)],
            "overall_reflection": {
                "problem_nature": "external",
                "should_replan": False,
                "reflection_text": "x",
            },
        },
    )
    assert sorted(bank.paid) == ["Yul", "Zed"]
    assert ran.result.is_success


@pytest.mark.parametrize("shape", ["list", "actions", "step"])
def test_each_effect_that_never_ran_counts_however_it_was_written(shape: str) -> None:
    bank = Bank()
    names = ("Ann", "Eve", "Ida")
    held = [pays(f"p{n}", one, shape=shape, needs=("t",)) for n, one in enumerate(names)]
    if shape != "step":
        held = [pays("p", *names, shape=shape, needs=("t",))]
    first = plan(step("t", "tell", parameters={"to": "Bad"}), *held)
    then = plan(step("t2", "tell", parameters={"to": "Bob"}), pays("q", "Ann", shape="step"))
    ran = run(
        bank,
        {
            "execution_plan": [first, then],
            "step_reflection": REPLAN,
            "overall_reflection": overall(type="full_replan"),
        },
    )
    assert not ran.result.is_success
    assert bank.paid == ["Bob", "Ann"]


def test_a_step_that_was_there_before_has_its_effect_for_itself() -> None:
    bank = Bank()
    ran = run(
        bank,
        {
            "execution_plan": plan(pays("a", "Bad", shape="step"), pays("b", "Bob", shape="step")),
            "step_reflection": REPLAN,
            "overall_reflection": overall(type="skip_steps", step_ids=["a"]),
        },
    )
    assert bank.paid == ["Bob"]
    assert not ran.result.is_success


@pytest.mark.parametrize("beside", [True, False])
def test_an_item_that_is_done_stays_done_where_the_step_is_due_again(*, beside: bool) -> None:
    bank, fixed = Bank(), []

    def pay(parameters: dict[str, Any]) -> Any:
        if parameters["to"] == "Bad" and fixed:
            bank.paid.append("Bad")
            return {"id": 0}
        return bank.pay(parameters)

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=pay, effect="once", parameters=NAME),
            "mend": FakeTool(output=lambda _: fixed.append(1), effect="repeatable"),
        }
        rest = [step("b", "pay", parameters={"to": "Cid"}), step("f", "mend")]
        if beside:
            rest.insert(1, step("c", "pay", "b", parameters={"to": "Ann"}))
        answers = {
            "execution_plan": [plan(pays("a", "Cid", "Bad")), plan(*rest)],
            "step_reflection": REPLAN,
            "overall_reflection": overall(type="add_remediation_steps", suggestions=["mend"]),
            "evaluation": verdict(),
        }
        return (await (await bench(tools, answers)).run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert sorted(bank.paid) == sorted(["Ann", "Bad", "Cid"] if beside else ["Bad", "Cid"])
    assert ran.result.is_success


LOST = ToolCallError("no answer in time", kind="timeout")
REFUSALS = {
    "in progress": ToolCallError(
        "a request with this key is in progress", kind="http", status=409, happened="no"
    ),
    "no right": ToolCallError("the token has expired", kind="http", status=401, happened="no"),
    "its own": ToolCallError("the account is locked", kind="tool", happened="no"),
    "not sent": ToolCallError("connection refused", kind="refused", happened="no"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_of_a_later_attempt_says_nothing_of_one_that_is_in_doubt(refusal: ToolCallError) -> None:
    async def main() -> Ran:
        pay = FakeTool(
            fail=[LOST, *[refusal] * 9], effect="once", parameters=NAME, spec={"honours_key": True}
        )
        answers = {
            "execution_plan": plan(pays("a", "Ann", shape="step")),
            "step_reflection": reflection("retry_with_params", {"memo": "again"}),
            "evaluation": verdict(),
        }
        return (await (await bench({"pay": pay}, answers)).run()).check()

    ran = virtual_time(main())
    assert {call.parameters.get("memo") for call in ran.source.calls} == {None}
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert "asked again with its key" in ran.events("outcome_unknown")[0].reason


@pytest.mark.parametrize("error", [LOST, ToolCallError("half done", kind="tool", happened="no")])
def test_what_is_set_is_set_again_where_something_else_may_have_been_set_since(error: ToolCallError) -> None:
    async def main() -> Ran:
        parameters = {"type": "object", "properties": {"mode": {"type": "string"}}, "required": ["mode"]}
        fails = iter([None, error])

        def sets(given: dict[str, Any]) -> str:
            if (one := next(fails, None)) is not None:
                raise one
            return given["mode"]

        tools = {
            "set": FakeTool(output=sets, effect="repeatable", parameters=parameters, spec={"max_retries": 0})
        }
        off, on = {"mode": "off"}, {"mode": "on"}
        answers = {
            "execution_plan": [
                plan(step("a", "set", parameters=off), step("b", "set", "a", parameters=on)),
                plan(step("c", "set", parameters=off)),
            ],
            "step_reflection": REPLAN,
            "overall_reflection": overall(type="full_replan"),
            "evaluation": verdict(),
        }
        return (await (await bench(tools, answers)).run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert [call.parameters["mode"] for call in ran.source.calls] == ["off", "on", "off"]


@pytest.mark.parametrize(
    ("reading", "field"),
    [
        ({"payments": [], "success": False}, "success"),
        ({"payments": [], "status": "failed"}, "status"),
        ({"payments": [], "status": 503}, "status"),
        ({"payments": [], "has_more": True}, "has_more"),
        ({"payments": [], "nextPageToken": "x"}, "nextPageToken"),
        ({"data": {"payments": [], "pageInfo": {"hasNextPage": True}}}, "hasNextPage"),
        ({"items": [], "pages": 10, "complete": False}, "complete"),
        ({"payments": [{}], "total": 9}, "total"),
        ({"_shards": {"failed": 2}, "hits": {"hits": []}}, "_shards"),
        ({"payments": [], "errors": ["x"]}, "errors"),
        ({"payments": []}, ""),
        ({"payments": [], "total": 0, "next": None, "success": True, "status": "ok"}, ""),
        ({"payments": [{"status": "failed", "error": "no money"}]}, ""),
        ([{"status": "failed"}], ""),
    ],
)
def test_a_reading_says_itself_that_it_is_not_the_whole(reading: Any, field: str) -> None:
    found = shortcoming(reading)
    assert found == field or (field == "complete" and found in ("complete", "pages"))


def test_what_the_declaration_looks_at_says_what_it_takes_it_to_say() -> None:
    assert shortcoming({"ok": False}, {"output", "ok"}) == ""


@pytest.mark.parametrize("refused", [1, 2, 3])
@pytest.mark.parametrize(("names", "marked", "in_all"), [("de", True, 2), ("d", True, 3), ("d", False, 2)])
def test_a_later_plan_counts_what_is_done_whichever_call_was_refused(
    refused: int, names: str, marked: bool, in_all: int
) -> None:
    """Several like calls are the effect that often in all; one that says `repeat` is one more, and one that does not is none."""
    paid: list[int] = []
    tries: list[int] = []

    def pay(_: dict[str, Any]) -> str:
        tries.append(1)
        if len(tries) == refused:
            raise ToolCallError("the card was refused", kind="tool")
        paid.append(1)
        return "paid"

    def like(names: str, *, marked: bool = True) -> dict[str, Any]:
        return plan(*(step(name, "pay", parameters={"to": "Ann"}, repeat=marked) for name in names))

    async def main() -> Ran:
        answers = {
            "execution_plan": [like("abc"), like(names, marked=marked)],
            "step_reflection": REPLAN,
            "overall_reflection": [
                overall(type="full_replan"),
                {"problem_nature": "external", "should_replan": False, "reflection_text": "x"},
            ],
            "evaluation": verdict(),
        }
        tools = {"pay": FakeTool(output=pay, effect="once", parameters=NAME)}
        return (await (await bench(tools, answers)).run(parallel_max_concurrent=1)).check()

    virtual_time(main())
    assert len(paid) == in_all


def test_after_a_no_each_new_effect_is_asked_for_also_one_that_is_meant_again() -> None:
    bank = Bank()

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=bank.pay, effect="once", parameters=NAME),
            "wipe": FakeTool(effect="once", spec={"requires_approval": True}),
        }
        again = step("c", "pay", parameters={"to": "Ann"}, repeat=True)
        answers = {
            "execution_plan": [plan(pays("a", "Ann", shape="step"), step("w", "wipe", "a")), plan(again)],
            "overall_reflection": [
                overall(type="full_replan"),
                {"problem_nature": "external", "should_replan": False, "reflection_text": "x"},
            ],
            "evaluation": verdict(),
        }
        return (await (await bench(tools, answers)).run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert bank.paid == ["Ann"]
    assert not ran.result.is_success


@pytest.mark.parametrize("score", [95, 85])
@pytest.mark.parametrize("with_tool", [True, False])
def test_a_failed_step_with_an_effect_is_no_success_whatever_was_tried_in_its_place(
    score: float, *, with_tool: bool
) -> None:
    """A reading that stood in for it, or an action beside it that only reads, does not make it a reading."""
    stands_in = [reflection("retry_with_tool", {"tool_id": "look", "parameters": {}}), REPLAN]
    lone = step("p", "pay", parameters={"to": "Bad"})
    beside = step("p", actions=[action("a1", "look"), action("a2", "pay", to="${g.output.nothing}")])

    async def main() -> Ran:
        bank = Bank()
        tools = {
            "pay": FakeTool(output=bank.pay, effect="once", parameters=NAME),
            "look": FakeTool(
                output={"a": 1}, fail=[] if not with_tool else [ToolCallError("no view", kind="tool")]
            ),
            "greet": FakeTool(output={"a": 1}),
        }
        answers = {
            "execution_plan": plan(step("g", "greet"), lone if with_tool else beside),
            "step_reflection": stands_in if with_tool else REPLAN,
            "overall_reflection": {
                "problem_nature": "external",
                "should_replan": False,
                "reflection_text": "x",
            },
            "evaluation": verdict(score, success=True, correctness=97),
        }
        return (await (await bench(tools, answers)).run()).check()

    ran = virtual_time(main())
    assert not ran.result.is_success


@pytest.mark.parametrize("shape", ["list", "list that says repeat", "actions", "steps"])
def test_calls_that_were_planned_alike_may_be_corrected_alike(shape: str) -> None:
    paid: list[str] = []

    def pay(parameters: dict[str, Any]) -> str:
        if parameters["memo"] == "usd":
            raise ToolCallError("unknown currency usd; EUR is one", kind="tool")
        paid.append(parameters["to"])
        return f"paid {len(paid)}"

    wanted = {"to": "Ann", "memo": "usd"}
    alike = step("p", "pay", parameters={**wanted, "to": "${item}"}, for_each='["Ann", "Ann"]')
    given = {
        "list": plan(alike),
        "list that says repeat": plan({**alike, "repeat": True, "repeat_reason": "two are meant"}),
        "actions": plan(
            step("p", actions=[action("a", "pay", **wanted), action("b", "pay", **wanted)], repeat=True)
        ),
        "steps": plan(*(step(name, "pay", parameters=wanted, repeat=True) for name in "pq")),
    }[shape]

    async def main() -> Ran:
        answers = {
            "execution_plan": given,
            "step_reflection": reflection("retry_with_params", {"memo": "EUR"}),
            "evaluation": verdict(),
        }
        tools = {"pay": FakeTool(output=pay, effect="once", parameters=NAME)}
        return (await (await bench(tools, answers)).run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert paid == ["Ann", "Ann"]
    assert ran.result.is_success


@pytest.mark.parametrize("links", [1, 2, 3])
def test_what_was_made_of_something_is_made_again_where_that_was_set_otherwise(links: int) -> None:
    """A chain of copies by one tool: each is of what the one before has made."""
    store: dict[str, str] = {}
    deployed: list[str] = []

    def write(parameters: dict[str, Any]) -> str:
        store[parameters["path"]] = parameters["text"]
        return "written"

    def copy(parameters: dict[str, Any]) -> str:
        store[parameters["destination"]] = store[parameters["source"]]
        return "copied"

    def deploy(parameters: dict[str, Any]) -> str:
        if store[f"f{links}"] != "right":
            raise ToolCallError("the configuration is not right", kind="tool")
        deployed.append(store[f"f{links}"])
        return "deployed"

    def steps(prefix: str, text: str) -> dict[str, Any]:
        made = [step(f"{prefix}w", "write", parameters={"path": "f0", "text": text})]
        for at in range(links):
            where = {"source": f"f{at}", "destination": f"f{at + 1}"}
            made.append(step(f"{prefix}{at}", "copy", made[-1]["step_id"], parameters=where))
        return plan(*made, step(f"{prefix}d", "deploy", made[-1]["step_id"]))

    async def main() -> Ran:
        answers = {
            "execution_plan": [steps("a", "wrong"), steps("b", "right")],
            "step_reflection": REPLAN,
            "overall_reflection": overall(type="full_replan"),
            "evaluation": verdict(),
        }
        tools = {
            "write": FakeTool(output=write, effect="repeatable"),
            "copy": FakeTool(output=copy, effect="repeatable"),
            "deploy": FakeTool(output=deploy, effect="once"),
        }
        return (await (await bench(tools, answers)).run(evaluation="steps")).check()

    assert virtual_time(main()).result.is_success
    assert deployed == ["right"]


@pytest.mark.parametrize("something_done", [True, False])
def test_a_plan_that_sets_something_back_is_tried_again_only_once_something_was_done_since(
    something_done: bool,
) -> None:
    """ "on" may follow "off"; "on" once more, with nothing done in between, is the same plan again."""
    switched: list[str] = []

    def switch(parameters: dict[str, Any]) -> str:
        switched.append(parameters["to"])
        if len(switched) > 2:
            raise ToolCallError("the switch is stuck", kind="tool", happened="no")
        return parameters["to"]

    def to(where: str, name: str) -> dict[str, Any]:
        return plan(step(name, "switch", parameters={"to": where}))

    between = [to("off", "s3")] if something_done else []

    async def main() -> Ran:
        answers = {
            "execution_plan": [
                to("on", "s1"), to("off", "s2"), to("on", "s4"), *between, to("on", "s5"), to("on", "s6"), to("on", "s7"),
            ],
            "step_reflection": REPLAN,
            "overall_reflection": overall(type="full_replan"),
            "evaluation": verdict(success=False, score=30.0),
        }  # fmt: skip
        return (
            await (await bench({"switch": FakeTool(output=switch, effect="repeatable")}, answers)).run()
        ).check()

    ran = virtual_time(main())
    assert not ran.result.is_success
    tried = [
        record.event.plan.steps[0].parameters["to"]
        for record in ran.records
        if record.type in ("plan_generated", "plan_updated")
    ]
    refused = [record for record in ran.records if record.type == "plan_rejected"]
    assert refused, "the same plan with nothing done in between"
    assert tried[:3] == ["on", "off", "on"]


@pytest.mark.parametrize("by", ["steps", "model"])
def test_a_call_that_was_refused_for_its_like_may_be_left_out_as_it_is_told(by: str) -> None:
    """The effect is another step's: to leave the second one out loses none."""
    bank = Bank()

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=bank.pay, effect="once", parameters=NAME),
            "who": FakeTool(output="Ann"),
        }
        twice = plan(
            step("w", "who"),
            pays("p", "Ann", shape="step"),
            step("q", "pay", "w", "p", parameters={"to": "${w.output}"}),
        )
        answers = {
            "execution_plan": [twice, plan(step("w2", "who"))],
            "step_reflection": REPLAN,
            "overall_reflection": overall(type="full_replan"),
            "evaluation": verdict(),
        }
        return (await (await bench(tools, answers)).run(evaluation=by)).check()

    ran = virtual_time(main())
    assert any("its effect would come twice" in one.error.message for one in ran.events("step_failed"))
    assert bank.paid == ["Ann"]
    assert ran.result.is_success
