"""What was had is not missing: an effect that a later plan has to the letter, and one that would only have been had over again."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_left_out import ANEW, BY_STEPS_AND_MODEL, GIVE_UP
from test_run_recovery import overall

from replan import RetryLater
from replan.errors import ToolCallError
from replan.testing import virtual_time

MORE = "the rest"
BOSS = step("m", "tell", parameters={"to": "boss"})


def fields(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": [names[0]],
    }


class Bank:
    """Pays people; a session may have expired, and somebody may be closed for some calls."""

    def __init__(
        self,
        *,
        expired: Sequence[str] = (),
        closed: dict[str, int] | None = None,
        only: dict[str, Sequence[str]] | None = None,
        busy: Sequence[str] = (),
    ) -> None:
        """`only`: whom a session may pay, where it may not pay everybody. `busy`: who is paid at the second try."""
        self.busy = [*busy]
        self.expired, self.closed, self.only = expired, closed or {}, only or {}
        self.paid: list[str] = []
        self._sessions = itertools.count(1)

    def pay(self, parameters: Any) -> Any:
        if parameters["to"] in self.busy:
            self.busy.remove(parameters["to"])
            raise RetryLater("busy just now", 1)
        whom = self.only.get(parameters.get("session", ""), [parameters["to"]])
        if parameters.get("session") in self.expired or parameters["to"] not in whom:
            raise ToolCallError("the session has expired, get a new one", kind="tool")
        if self.closed.get(parameters["to"], 0) > 0:
            self.closed[parameters["to"]] -= 1
            raise ToolCallError(f"the counter of {parameters['to']} is closed just now", kind="tool")
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}

    def by_web(self, parameters: Any) -> Any:
        raise ToolCallError("the site is down", kind="tool")

    def tools(self) -> dict[str, FakeTool]:
        told = fields("to", "session", "note")
        volatile: dict[str, Any] = {"effect": "reads", "spec": {"volatile": True}}
        return {
            "pay": FakeTool(output=self.pay, effect="once", parameters=told),
            "upay": FakeTool(output=self.pay, effect="once", parameters=told, spec={"unique_by": ("to",)}),
            "web": FakeTool(
                output=self.by_web, effect="once", parameters=fields("to"), spec={"substitutes": ("pay",)}
            ),
            "who": FakeTool(output=lambda one: {"name": one["of"]}, parameters=fields("of"), **volatile),
            "token": FakeTool(output=lambda _: {"session": f"s{next(self._sessions)}"}, **volatile),
            "tell": FakeTool(output="told", effect="once", parameters=fields("to")),
        }

    def run(
        self,
        *plans: tuple[Sequence[dict[str, Any]], str],
        said: Any = None,
        anew: Any = ANEW,
        last: Any = None,
        **way: Any,
    ) -> Ran:
        """Plans, each with what it leaves to be planned; the last one again for as long as it is asked for."""

        async def main() -> Ran:
            made = [{**plan(*steps), "more": more} for steps, more in plans]
            judged = verdict() if said is None else {**verdict(), "left_out_effects": said}
            made_in = await bench(
                self.tools(),
                {
                    "execution_plan": made,
                    "step_reflection": [GIVE_UP] * 20,
                    "overall_reflection": [*[anew] * (len(plans) - 1), last or overall(False)],
                    "evaluation": [judged] * 20,
                },
            )
            return (await made_in.run(**way)).check()

        return virtual_time(main())


def pays(name: str, who: str, *needs: str, tool: str = "pay", **more: Any) -> dict[str, Any]:
    return step(name, tool, *needs, parameters={"to": who}, **more)


def reads(name: str, who: str, *needs: str, tool: str = "pay", late: bool = False, **more: Any) -> list[Any]:
    """A payment to whom a reading names; `late`: which waits for what the payment waits for, too."""
    read = step(f"v{name}", "who", *(needs if late else ()), parameters={"of": who})
    return [
        read,
        step(name, tool, f"v{name}", *needs, parameters={"to": f"${{v{name}.output.name}}"}, **more),
    ]


def over(name: str, who: str, *needs: str, tool: str = "pay", **more: Any) -> list[Any]:
    """A payment over a session of its own."""
    parameters = {"to": who, "session": f"${{l{name}.output.session}}", **more}
    return [step(f"l{name}", "token"), step(name, tool, f"l{name}", *needs, parameters=parameters)]


# ── an effect that would only have been had over again ────────────────────────


def restates(tool: str, *, late: bool = False, chain: Sequence[str] = ("Ann", "Bob")) -> tuple[Any, Any]:
    """A first part that pays them, and a plan that pays them by readings once more, one after the other, and then Eve."""
    first = [pays(f"a{n}", who, tool=tool) for n, who in enumerate(chain)]
    then: list[Any] = []
    for n, who in enumerate(chain):
        then += reads(f"x{n}", who, *[f"x{n - 1}"][: bool(n)], tool=tool, late=late)
    return (first, MORE), ([*then, pays("c", "Eve", f"x{len(chain) - 1}", tool=tool), BOSS], "")


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("tool", ["pay", "upay"])
@pytest.mark.parametrize("chain", [("Ann", "Bob"), ("Ann", "Bob", "Cid", "Dan")])
def test_what_would_have_been_refused_as_what_stood_before_it_was_is_not_missing(
    chain: tuple[str, ...], tool: str, way: dict[str, Any]
) -> None:
    bank = Bank()
    ran = bank.run(
        *restates(tool, chain=chain), ([pays("c2", "Eve", tool=tool), {**BOSS, "step_id": "m2"}], ""), **way
    )
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter([*chain, "Eve"])
    if way:
        assert any(f"step 'x{len(chain) - 1}'" in one for one in ran.result.shortfall)


def again(name: str, who: str) -> dict[str, Any]:
    return step(name, "pay", parameters={"to": who, "note": who})


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("third", "succeeds"),
    [([], False), ([again("b9", "Bob")], True), ([again("b9", "Ann")], False)],
    ids=["left out", "by value", "another"],
)
def test_one_that_was_to_come_after_a_new_effect_is_not_missing_once_a_later_plan_is_given_it(
    third: list[Any], succeeds: bool, way: dict[str, Any]
) -> None:
    bank = Bank(closed={"Zoe": 1})
    first = [again("a", "Ann"), again("b", "Bob")]
    note = {"to": "Bob", "note": "${vx.output.name}"}  # whom it pays its plan says itself
    second = [pays("n", "Eve"), pays("z", "Zoe"), *reads("x", "Bob", "n", "z")]
    second[-1] = {**second[-1], "parameters": note}
    ran = bank.run((first, MORE), (second, ""), ([*third, pays("z2", "Zoe"), BOSS], ""), **way)
    assert ran.result.is_success == succeeds
    assert Counter(bank.paid) == Counter(["Ann", "Bob", "Eve", "Zoe"])


@BY_STEPS_AND_MODEL
def test_what_stands_behind_a_refused_one_is_not_missing_whatever_was_had_before_both(
    way: dict[str, Any],
) -> None:
    bank = Bank()
    first = [pays("a", "Ann"), pays("b", "Bob")]
    second = [pays("n", "Eve"), *reads("x", "Ann", "n"), *reads("y", "Bob", "x")]
    ran = bank.run((first, MORE), (second, ""), ([BOSS], ""), **way)
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(["Ann", "Bob", "Eve"])


@BY_STEPS_AND_MODEL
def test_nor_is_what_a_declared_substitute_has_had(way: dict[str, Any]) -> None:
    bank = Bank()
    second = [*reads("x", "Ann"), *reads("y", "Bob", "x", tool="web")]
    ran = bank.run(([pays("a", "Ann"), pays("b", "Bob")], MORE), (second, ""), ([BOSS], ""), **way)
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(["Ann", "Bob"])


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    "third",
    [
        pytest.param([pays("b9", "Bob"), pays("c2", "Eve")], id="stated with the value it is answered"),
        pytest.param([pays("a9", "Ann"), pays("b9", "Bob"), pays("c2", "Eve")], id="all are stated"),
        pytest.param([{**pays("b9", "Bob"), "instead_of": ["x1"]}, pays("c2", "Eve")], id="by a word"),
    ],
)  # fmt: skip
def test_nor_is_it_where_a_later_plan_states_it_and_is_answered(
    third: list[Any], way: dict[str, Any]
) -> None:
    bank = Bank()
    ran = bank.run(*restates("pay"), ([*third, BOSS], ""), **way)
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(["Ann", "Bob", "Eve"])


def test_what_a_reading_would_have_told_shows_in_the_same_reading_of_a_later_plan() -> None:
    bank = Bank()
    third = [*reads("y", "Bob"), pays("c2", "Eve"), BOSS]
    ran = bank.run(*restates("pay", late=True), (third, ""), ([BOSS], ""), evaluation="steps")
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(["Ann", "Bob", "Eve"])
    blind = Bank().run(
        *restates("pay", late=True), ([pays("c2", "Eve"), BOSS], ""), evaluation="steps"
    )  # whom it would have paid nobody knows
    assert not blind.result.is_success


BOBS = [step(f"vb{n}", "who", parameters={"of": "Bob"}) for n in (1, 2)]


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    "second",
    [
        pytest.param([*reads("x", "Ann"), *reads("y", "Zoe", "x")], id="who was never paid"),
        pytest.param([*reads("x", "Ann"), *reads("y", "Bob", "x", repeat=True)], id="who is to be paid once more"),
        pytest.param([*reads("x", "Ann"), pays("n", "Zoe", "x"), *reads("y", "Bob", "n")], id="after an effect that was not had"),
        pytest.param([*reads("x", "Ann"), *BOBS, step("y", "pay", "x", "vb1", "vb2", parameters={"to": "${item}"}, for_each='["${vb1.output.name}", "${vb2.output.name}"]')], id="a list with him twice"),
        pytest.param([*reads("x", "Ann"), *BOBS, step("y", "pay", "x", "vb1", "vb2", parameters={"to": "Bob", "note": "gift"})], id="with another note"),
        pytest.param([*reads("x", "Ann"), *BOBS, step("y", "", "x", "vb1", actions=[action("y1", "pay", to="${vb1.output.name}"), action("y2", "pay", to="Zoe")])], id="one of two actions"),
    ],
)  # fmt: skip
def test_an_effect_that_was_never_had_stays_one(second: list[Any], way: dict[str, Any]) -> None:
    bank = Bank()
    ran = bank.run(([pays("a", "Ann"), pays("b", "Bob")], MORE), ([*second, BOSS], ""), ([BOSS], ""), **way)
    assert not ran.result.is_success


def test_once_all_is_had_no_session_made_anew_keeps_a_task_going() -> None:
    bank = Bank()
    rest = [
        ([pays("c2", "Eve", tool="upay"), BOSS], ""),
        *[([step(f"t{n}", "token")], "") for n in range(30)],
    ]
    ran = bank.run(*restates("upay"), *rest, last=ANEW, evaluation="steps")
    assert ran.result.is_success
    assert ran.result.total_rounds <= 4


# ── the very effect of a later plan ───────────────────────────────────────────


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("first", "second", "succeeds"),
    [
        pytest.param(over("p", "Ann"), over("q", "Ann"), True, id="over a session made anew"),
        pytest.param(over("p", "Ann"), over("p", "Ann"), True, id="under the same ids"),
        pytest.param(over("p", "Ann", tool="upay"), over("q", "Ann", tool="upay"), True, id="known by a parameter"),
        pytest.param(over("p", "Ann", tool="upay"), over("q", "Ann", tool="upay", note="again"), True, id="whatever else it says"),
        pytest.param([pays("p", "Ann", tool="web")], [pays("q", "Ann")], True, id="by a declared substitute"),
        pytest.param(over("p", "Ann"), over("q", "Bob"), False, id="somebody else"),
        pytest.param(over("p", "Ann"), over("q", "Ann", note="again"), False, id="in other words"),
        pytest.param([pays("p", "Ann", tool="web")], over("q", "Bob"), False, id="a substitute for somebody else"),
        pytest.param([pays("p", "Ann", tool="web")], [step("q", "tell", parameters={"to": "Ann"})], False, id="by a tool that does something else"),
        pytest.param([*over("p", "Ann"), step("r", "pay", "lp", parameters={"to": "Ann", "session": "${lp.output.session}", "note": "x"})],
                     over("q", "Ann"), False, id="one of two"),
    ],
)  # fmt: skip
def test_after_a_plan_with_more_the_very_effect_needs_no_word(
    first: list[Any], second: list[Any], succeeds: bool, way: dict[str, Any]
) -> None:
    bank = Bank(expired=["s1"])
    ran = bank.run((first, MORE), ([*second, pays("e", "Eve"), BOSS], ""), **way)
    assert ran.result.is_success == succeeds
    assert max(Counter(bank.paid).values()) == 1


LIST = step("p", "pay", parameters={"to": "${item}"}, for_each=["Ann", "Bob", "Cid"])
ACTIONS = step("p", "", actions=[action(f"p{who}", "pay", to=who) for who in ("Ann", "Bob", "Cid")])


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("first", [LIST, ACTIONS], ids=["list", "actions"])
@pytest.mark.parametrize(
    ("second", "third", "succeeds"),
    [
        pytest.param([pays("b", "Bob"), pays("c", "Cid")], [pays("d", "Cid")], True, id="one each"),
        pytest.param([pays("c", "Cid"), pays("b", "Bob")], [pays("d", "Cid")], True, id="in another order"),
        pytest.param([pays("b", "Bob"), pays("c", "Cid")], [step("d", "pay", parameters={"to": "${item}"}, for_each=["Cid"])], True, id="a list at last"),
        pytest.param([pays("b", "Bob"), pays("c", "Cid")], [{**pays("d", "Cid"), "instead_of": ["p"]}], True, id="with a word"),
        pytest.param([pays("b", "Bob"), pays("c", "Cid")], [], False, id="and no third"),
        pytest.param([pays("b", "Bob")], [], False, id="one is left out"),
    ],
)  # fmt: skip
def test_what_fails_in_several_plans_is_made_good_by_the_very_calls_of_each(
    first: Any, second: list[Any], third: list[Any], succeeds: bool, way: dict[str, Any]
) -> None:
    bank = Bank(closed={"Bob": 1, "Cid": 2})
    plans = [[first, BOSS], [*second, {**BOSS, "step_id": "m2"}]]
    ran = bank.run(*[(one, "") for one in plans], ([*third, {**BOSS, "step_id": "m3"}], ""), **way)
    assert ran.result.is_success == succeeds
    assert max(Counter(bank.paid).values()) == 1


def listed(*whom: str, over: str, tool: str) -> list[Any]:
    parameters = {"to": "${item}", "session": f"${{{over}.output.session}}"}
    return [step(over, "token"), step("p", tool, over, parameters=parameters, for_each=list(whom))]


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("tool", ["pay", "upay"])
@pytest.mark.parametrize(
    ("rest", "succeeds"),
    [
        (("Bob", "Cid"), True),
        (("Cid", "Bob"), True),
        (("Ann", "Bob", "Cid"), True),  # it is told that Ann is paid
        (("Bob",), False),
        (("Bob", "Eve"), False),
    ],
)
def test_a_list_that_is_written_anew_with_the_rest_has_what_it_lacked_at_other_places(
    rest: tuple[str, ...], succeeds: bool, tool: str, way: dict[str, Any]
) -> None:
    bank = Bank(only={"s1": ["Ann"]})
    first = [
        *listed("Ann", "Bob", "Cid", over="l", tool=tool),
        step("m", "tell", "p", parameters={"to": "boss"}),
    ]
    anew = overall(
        True,
        replanning_strategy={
            "type": "add_remediation_steps",
            "step_id": "p",
            "reason": "it has expired",
            "suggestions": ["a new session"],
        },
    )
    left = [who for who in rest if who != "Ann"]
    plans = [
        listed(*rest, over="l2", tool=tool),
        *([listed(*left, over="l2", tool=tool)] if "Ann" in rest else []),
    ]
    answers = [(first, ""), *[(one, "") for one in plans]]
    ran = bank.run(*answers, anew=anew, **way)
    assert ran.result.is_success == succeeds
    assert max(Counter(bank.paid).values()) == 1


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("tool", ["pay", "upay"])
@pytest.mark.parametrize("last", [["Ann", "Bob", "Cid"], ["Bob", "Cid"], ["Cid"]])
def test_what_others_had_in_a_list_makes_good_none_that_has_failed_again(
    last: list[str], tool: str, way: dict[str, Any]
) -> None:
    """Each session pays one of them. Whom it could not pay is no item that is told to be left out."""
    bank = Bank(only={"s1": ["Ann"], "s2": ["Bob"]})

    def goes_over(n: int, whom: list[str]) -> list[Any]:
        parameters = {"to": "${item}", "session": f"${{l{n}.output.session}}"}
        pays_all = step(f"p{n}", tool, f"l{n}", parameters=parameters, for_each=whom)
        return [step(f"l{n}", "token"), pays_all, step(f"m{n}", "tell", f"p{n}", parameters={"to": "boss"})]

    third = [goes_over(3, last), *([goes_over(3, ["Cid"])] if last != ["Cid"] else [])]
    plans = [goes_over(1, ["Ann", "Bob", "Cid"]), goes_over(2, ["Bob", "Cid"]), *third]
    ran = bank.run(*[(one, "") for one in plans], **way)
    assert ran.result.is_success
    assert Counter(bank.paid) == Counter(["Ann", "Bob", "Cid"])
    told = [text for one in ran.events("plan_rejected") for text in one.violations]
    assert len(told) == (last != ["Cid"])
    assert all(f"item{'s 1 and 2' if len(last) == 3 else ' 1'}:" in text for text in told)


NAMES = ["Ann", "Bob", "Cid", "Dan"]


@st.composite
def _steps(draw: st.DrawFn, at: int) -> list[Any]:
    found: list[Any] = []
    before = ""
    for n, who in enumerate(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))):
        name, needs = f"s{at}{n}", [before] if before and draw(st.booleans()) else []
        how = draw(st.sampled_from(["value", "reading", "late", "session"]))
        if how == "value":
            found.append(pays(name, who, *needs))
        elif how == "session":
            found += over(name, who, *needs)
        else:
            found += reads(name, who, *needs, late=how == "late")
        before = name
    return found


@given(st.data())
@settings(max_examples=40)
def test_no_success_is_without_somebody_whom_some_plan_was_to_pay(data: st.DataObject) -> None:
    """All of them are paid with the same tool, once each, and nobody takes another's place: so whoever was planned is paid."""
    plans = [data.draw(_steps(at)) for at in range(data.draw(st.integers(2, 4)))]
    closed = data.draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2)))
    bank = Bank(closed=dict(closed), expired=data.draw(st.sampled_from([[], ["s1"], ["s1", "s2"]])))
    ran = bank.run(*[(one, MORE) for one in plans[:-1]], (plans[-1], ""), evaluation="steps")
    assert not ran.result.is_success or _named(ran) <= set(bank.paid)


def _named(ran: Ran) -> set[str]:
    """Whom the plans that were taken were to pay."""
    steps = {one.step.step_id: one.step for one in ran.state.every_step()}
    by_value = (one.parameters["to"] for one in steps.values() if one.tool == "pay")
    by_reading = (
        one.parameters["of"] for name, one in steps.items() if one.tool == "who" and name[1:] in steps
    )
    return {who for who in (*by_value, *by_reading) if who in NAMES}
