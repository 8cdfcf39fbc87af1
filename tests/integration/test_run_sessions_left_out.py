"""One effect over a session and without one is one effect: whichever plan says the session, it is asked about, and not had twice."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step
from test_run_left_out import ANEW, GIVE_UP
from test_run_recovery import overall
from test_run_very_effects import fields

from replan.testing import virtual_time

FORMS = ["over a session", "a session by value", "without", "empty", "by a reading", "a list", "a list over one", "actions"]  # fmt: skip
TELL = step("m", "tell", parameters={"to": "boss"})
ZOE = {"to": "Zoe"}


def pays(form: str, name: str, **more: Any) -> list[Any]:
    token, session = step(f"l{name}", "token"), f"${{l{name}.output.session}}"
    match form:
        case "over a session":
            return [token, step(name, "pay", parameters={"to": "Ann", "session": session}, **more)]
        case "a session by value":
            return [step(name, "pay", parameters={"to": "Ann", "session": f"of {name}"}, **more)]
        case "empty":
            return [step(name, "pay", parameters={"to": "Ann", "session": ""}, **more)]
        case "by a reading":
            read = step(f"v{name}", "who", parameters={"of": "Ann"})
            return [read, step(name, "pay", parameters={"to": f"${{v{name}.output.name}}"}, **more)]
        case "a list":
            return [step(name, "pay", parameters={"to": "${item}"}, for_each=["Ann"], **more)]
        case "a list over one":
            words = {"to": "${item}", "session": session}
            return [token, step(name, "pay", parameters=words, for_each=["Ann"], **more)]
        case "actions":
            return [step(name, "", actions=[action(f"{name}_1", "pay", to="Ann")], **more)]
    return [step(name, "pay", parameters={"to": "Ann"}, **more)]


def run(*plans: tuple[list[Any], str]) -> tuple[Ran, Counter[str]]:
    """Zoe is paid at the second try."""
    paid: Counter[str] = Counter()
    sessions, closed = itertools.count(1), ["Zoe"]

    def pay(parameters: Any) -> Any:
        if parameters["to"] in closed:
            closed.remove(parameters["to"])
            raise ValueError("it is closed just now")
        paid[parameters["to"]] += 1
        return {"id": paid.total()}

    volatile: dict[str, Any] = {"effect": "reads", "spec": {"volatile": True}}
    tools = {
        "pay": FakeTool(output=pay, effect="once", parameters=fields("to", "session")),
        "who": FakeTool(output=lambda one: {"name": one["of"]}, parameters=fields("of"), **volatile),
        "token": FakeTool(output=lambda _: {"session": f"s{next(sessions)}"}, **volatile),
        "tell": FakeTool(output="told", effect="once", parameters=fields("to")),
    }

    async def main() -> Ran:
        answers = {
            "execution_plan": [{**plan(*steps), "more": more} for steps, more in plans],
            "step_reflection": [GIVE_UP] * 9,
            "overall_reflection": [ANEW, ANEW, overall(False)],
        }
        return (await (await bench(tools, answers)).run(evaluation="steps")).check()

    return virtual_time(main()), paid


@pytest.mark.parametrize("anew", [False, True], ids=["of the next part", "of a plan made anew"])
@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("first", FORMS)
def test_an_effect_over_a_session_is_not_had_again_without_one_nor_the_other_way_round(
    first: str, second: str, anew: bool
) -> None:
    """Who is told that it is done leaves it out, and the task is done."""
    zoe = [step("z", "pay", parameters=ZOE)] if anew else []
    last = [step("z2", "pay", parameters=ZOE), TELL] if anew else [TELL]
    ran, paid = run(
        ([*pays(first, "a"), *zoe], "" if anew else "the rest"),
        ([*pays(second, "b"), *last], ""),
        (last, ""),
        ([step("z3", "pay", parameters=ZOE)] if anew else [TELL], ""),
    )
    assert paid["Ann"] == 1, (first, second)
    assert paid["Zoe"] == anew
    assert ran.result.is_success, ran.result.reason


def test_one_that_is_said_to_be_meant_once_more_is_had_once_more() -> None:
    again = {"repeat": True, "repeat_reason": "two are wanted"}
    ran, paid = run((pays("over a session", "a"), "the rest"), ([*pays("without", "b", **again), TELL], ""))
    assert ran.result.is_success
    assert paid == Counter(Ann=2)
