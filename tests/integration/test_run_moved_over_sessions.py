"""A failed call that is moved onto an effect which another step has had, or is to have, over another session: it would be had twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step
from test_run_counterparts import END, fields
from test_run_very_call import REPLAN, overall, reflection

from replan.errors import InputError, ToolCallError
from replan.testing import virtual_time

WORDS = {"note": {"type": "string"}, "session": {"type": "string"}}
FULL = overall(type="full_replan")
REPAIR = reflection("repair_step", {"hint": "Ann"})


class Bank:
    """There is no Bob and no Bo; `dead`: sessions that have expired."""

    def __init__(self, *dead: str) -> None:
        self.dead = dead
        self.paid: list[str] = []

    def pay(self, parameters: Any) -> Any:
        if parameters.get("session") in self.dead:
            raise ToolCallError(f"session {parameters['session']} has expired", kind="tool")
        if parameters["to"].startswith("Bo"):
            raise ToolCallError("there is nobody of that name, did you mean Ann?", kind="tool")
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}

    def mail(self, parameters: Any) -> Any:
        raise ToolCallError("the mail is down", kind="tool")

    def look(self, parameters: Any) -> Any:
        raise ToolCallError("nothing to be seen", kind="tool")

    def tools(self) -> dict[str, FakeTool]:
        def pays(**spec: Any) -> FakeTool:
            return FakeTool(
                output=self.pay, effect="once", delay_secs=1, parameters=fields("to", **WORDS), spec=spec
            )

        return {
            "pay": pays(), "upay": pays(unique_by=("to",)), "spay": pays(substitutes=("wire",)), "wire": pays(),
            "mail": FakeTool(output=self.mail, effect="once", parameters=fields("to", **WORDS)),
            "name": FakeTool(output="Ann", effect="reads", delay_secs=30),
            "token": FakeTool(output="s7", effect="reads", spec={"volatile": True}),
            "slow": FakeTool(output=1, effect="reads", delay_secs=60), "look": FakeTool(output=self.look, effect="reads"),
            "tell": FakeTool(output="told", effect="once"),
        }  # fmt: skip

    def run(
        self, plans: Sequence[Any], reflected: Sequence[Any], *, repaired: Any = None, rounds: int = 2
    ) -> Ran:
        answers = {
            "execution_plan": list(plans),
            "step_reflection": [*reflected, *[REPLAN] * 9],
            "overall_reflection": [*[FULL] * (rounds - 1), END, END],
            **({} if repaired is None else {"step_repair": [repaired] * 3}),
        }

        async def main() -> Ran:
            return (
                await (await bench(self.tools(), answers)).run(evaluation="steps", max_rounds=rounds)
            ).check()

        return virtual_time(main())


def pays(name: str, to: str, *needs: str, tool: str = "pay", **more: Any) -> dict[str, Any]:
    return step(name, tool, *needs, parameters={"to": to, **more})


def moved(to: str = "Ann", **more: Any) -> dict[str, Any]:
    return reflection("retry_with_params", {"to": to, **more})


MOVES: dict[str, tuple[tuple[str, dict[str, str]], tuple[str, dict[str, str]], dict[str, str]]] = {
    "over its own session": (("pay", {"session": "s1"}), ("pay", {"session": "s2"}), {}),
    "over a new session": (("pay", {"session": "s1"}), ("pay", {"session": "s1"}), {"session": "s3"}),
    "with no session beside one": (("pay", {"session": "s1"}), ("pay", {}), {}),
    "over its own session, by a tool that does the same": (
        ("spay", {"session": "s1"}),
        ("wire", {"session": "s2"}),
        {},
    ),
    "over its own session, of one that says what tells": (
        ("upay", {"session": "s1"}),
        ("upay", {"session": "s2"}),
        {"note": "x"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("when", ["done", "due", "in a next part", "in a new plan"])
@pytest.mark.parametrize("how", ["other parameters", "written anew"])
@pytest.mark.parametrize("words", MOVES)
def test_it_is_not_had_twice(words: str, how: str, when: str) -> None:
    (tool, mine), (other, theirs), fix = MOVES[words]
    a, b = pays("a", "Ann", tool=tool, **mine), pays("b", "Bob", tool=other, **theirs)
    plans = {
        "done": [plan(a, {**b, "dependencies": ["a"]})],
        "due": [plan(b, step("w", "slow"), {**a, "dependencies": ["w"]})],
        "in a next part": [{**plan(a), "more": "the rest"}, plan(b)],
        "in a new plan": [plan(a, step("z", "look", "a")), plan(b)],
    }[when]
    before = [REPLAN] if when == "in a new plan" else []
    reflected = [*before, *[REPAIR if how == "written anew" else moved(**fix)] * 2]
    bank = Bank()
    ran = bank.run(
        plans, reflected, repaired=pays("b", "Ann", tool=other, **{**theirs, **fix}), rounds=len(plans)
    )
    assert [*bank.paid].count("Ann") <= 1
    assert ran.state.status == "failed"


@pytest.mark.parametrize("shape", ["steps", "list", "actions"])
def test_nor_where_two_are_moved_onto_it(shape: str) -> None:
    bank = Bank()
    both = {"Bob": "s1", "Bo": "s2"}
    made = {
        "steps": [pays(f"p{to}", to, session=session) for to, session in both.items()],
        "list": [
            step("p", "pay", parameters={"to": "${item.to}", "session": "${item.session}"},
                 for_each=[{"to": to, "session": session} for to, session in both.items()])
        ],
        "actions": [step("p", actions=[action(f"a{to}", "pay", to=to, session=session) for to, session in both.items()])],
    }[shape]  # fmt: skip
    bank.run([plan(*made)], [moved()] * 4, rounds=1)
    assert bank.paid == ["Ann"]


def test_nor_where_a_person_wants_it_so() -> None:
    bank = Bank()

    async def main() -> None:
        made = await bench(bank.tools())
        b = {**pays("b", "Cid", "a", session="s2"), "requires_approval": True}
        task_id = await made.submit(plan(pays("a", "Ann", session="s1"), b), interactive=True)
        await made.drive(task_id)
        with pytest.raises(InputError, match=r"step 'a' \(with .*, which is the same effect\)"):
            await made.service.resolve_approval(task_id, approved=True, parameters={"to": "Ann"})

    virtual_time(main())


def by_another(tool: str, **more: Any) -> tuple[dict[str, Any], Any]:
    found = reflection("retry_with_tool", {"tool_id": tool, "parameters": more})
    return {**found, "root_cause_category": "tool_error"}, None


def written_anew(tool: str, **more: Any) -> tuple[dict[str, Any], Any]:
    return REPAIR, step("b", tool, parameters=more)


ANEW = {"by another tool": by_another, "written anew": written_anew}


@pytest.mark.parametrize("when", ["done", "due", "in a next part", "in a new plan"])
@pytest.mark.parametrize("how", ANEW)
@pytest.mark.parametrize("over", [{}, {"session": "s3"}], ids=["plain", "over a session"])
def test_nor_by_a_tool_that_does_the_same_as_the_one_that_has_had_it(
    over: dict[str, str], how: str, when: str
) -> None:
    a, b = pays("a", "Ann", tool="wire"), pays("b", "Ann", tool="mail")
    reflected, repaired = ANEW[how]("spay", to="Ann", **over)
    plans = {
        "done": [plan(a, {**b, "dependencies": ["a"]})],
        "due": [plan(b, step("w", "slow"), {**a, "dependencies": ["w"]})],
        "in a next part": [{**plan(a), "more": "the rest"}, plan(b)],
        "in a new plan": [plan(a, step("z", "look", "a")), plan(b)],
    }[when]
    before = [REPLAN] if when == "in a new plan" else []
    bank = Bank()
    bank.run(plans, [*before, reflected, reflected], repaired=repaired, rounds=len(plans))
    assert bank.paid == ([] if when == "due" else ["Ann"])


DUE: dict[str, Any] = {
    "over a session that is yet to come": lambda: [pays("a", "Ann", "t", session="${t.output}")],
    "to somebody who is yet to be read": lambda: [pays("a", "${n.output}", "n")],
    "in a list": lambda: [
        step("a", "pay", "t", parameters={"to": "${item}", "session": "${t.output}"}, for_each=["Cid", "Ann"])
    ],
    "in a list that is yet to be read": lambda: [
        step("m", "name"), step("a", "pay", "m", parameters={"to": "${item}"}, for_each=["${m.output}"]),
    ],
    "in actions": lambda: [step("a", "", "t", actions=[action("x", "pay", to="Ann", session="${t.output}")])],
    "by a tool that does the same": lambda: [pays("a", "Ann", "t", tool="wire", session="${t.output}")],
}  # fmt: skip


@pytest.mark.parametrize("how", [*ANEW, "other parameters"])
@pytest.mark.parametrize("due", DUE)
def test_nor_onto_what_another_step_may_be_to_do_which_cannot_be_read_yet(due: str, how: str) -> None:
    tool = "spay" if "same" in due else "pay"
    if how == "other parameters":
        b, (reflected, repaired) = pays("b", "Bob", tool=tool), (moved(), None)
    else:
        b, (reflected, repaired) = pays("b", "Ann", tool="mail"), ANEW[how](tool, to="Ann", session="s9")
    bank = Bank()
    steps = [step("w", "slow"), step("t", "token", "w"), step("n", "name"), *DUE[due](), b]
    bank.run([plan(*steps)], [reflected] * 2, repaired=repaired, rounds=1)
    assert bank.paid.count("Ann") <= 1


# ── what is honest ──


@pytest.mark.parametrize(
    "other",
    [
        pays("a", "Ann", "t", session="${t.output}"),
        pays("a", "${n.output}", "n", note="y"),
        pays("a", "Ann", "t", tool="wire", session="${t.output}"),
    ],
    ids=["another over a session", "another by its note", "another by another tool"],
)
def test_beside_what_is_yet_to_come_it_may_be_moved_onto_what_is_another(other: Any) -> None:
    bank = Bank()
    steps = [
        step("w", "slow"),
        step("t", "token", "w"),
        step("n", "name"),
        other,
        pays("b", "Bob", note="x", tool="spay"),
    ]
    ran = bank.run([plan(*steps)], [moved("Cid")], rounds=1)
    assert sorted(bank.paid) == ["Ann", "Cid"]
    assert ran.state.status == "succeeded"


def test_what_is_only_said_in_other_words_may_be_made_beside_what_is_yet_to_be_read() -> None:
    bank = Bank("s1")
    steps = [
        step("n", "name"),
        pays("a", "${n.output}", "n", note="x"),
        pays("b", "Cid", session="s1", note="y"),
    ]
    ran = bank.run(
        [plan(*steps)], [reflection("retry_with_params", {"session": "s2", "note": "x"})], rounds=1
    )
    assert sorted(bank.paid) == ["Ann", "Cid"]
    assert ran.state.status == "succeeded"


@pytest.mark.parametrize(
    ("shape", "how"),
    [
        *((shape, "other parameters") for shape in ("steps", "list", "actions")),
        *(
            (shape, "written anew") for shape in ("steps", "actions")
        ),  # a list that has had effects keeps its items
    ],
)
def test_what_was_planned_over_two_sessions_is_made_over_both_though_one_has_to_be_renewed(
    shape: str, how: str
) -> None:
    bank = Bank("s2")

    def made(*sessions: str) -> list[dict[str, Any]]:
        if shape == "steps":
            return [pays(f"p{at}", "Ann", session=one) for at, one in enumerate(sessions)]
        if shape == "list":
            return [step("p", "pay", parameters={"to": "Ann", "session": "${item}"}, for_each=list(sessions))]
        return [
            step("p", actions=[action(f"a{at}", "pay", to="Ann", session=one) for at, one in enumerate(sessions)])
        ]  # fmt: skip

    fix = REPAIR if how == "written anew" else reflection("retry_with_params", {"session": "s3"})
    anew = pays("p1", "Ann", session="s3") if shape == "steps" else made("s1", "s3")[0]
    ran = bank.run([plan(*made("s1", "s2"))], [fix, fix], repaired=anew, rounds=1)
    assert bank.paid == ["Ann", "Ann"]
    assert ran.state.status == "succeeded"


def test_a_session_that_could_not_be_read_may_be_written_anew() -> None:
    bank = Bank()
    b = pays("b", "Ann", "l", session="${l.output.session}")
    fixed = pays("b", "Ann", "l", session="${l.output}")
    ran = bank.run(
        [plan(pays("a", "Ann", session="s1"), step("l", "token"), b)], [REPAIR], repaired=fixed, rounds=1
    )
    assert bank.paid == ["Ann", "Ann"]
    assert ran.state.status == "succeeded"


@pytest.mark.parametrize("to", ["Cid", "Dan"])
def test_it_may_be_moved_onto_what_nobody_has_paid(to: str) -> None:
    bank = Bank()
    ran = bank.run(
        [plan(pays("a", "Ann", session="s1"), pays("b", "Bob", "a", session="s1"))], [moved(to)], rounds=1
    )
    assert bank.paid == ["Ann", to]
    assert ran.state.status == "succeeded"


def test_two_that_were_meant_alike_over_two_sessions_may_be_moved_alike() -> None:
    bank = Bank()
    both = [pays("p", "Bob", session="s1"), pays("q", "Bob", session="s2")]
    ran = bank.run([plan(*both)], [moved()] * 2, rounds=1)
    assert bank.paid == ["Ann", "Ann"]
    assert ran.state.status == "succeeded"
