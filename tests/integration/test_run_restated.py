"""A later plan that writes a done call in the same words: what they refer to, or the metadata, may have changed since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step
from test_run_recovery import READS

from replan.errors import ToolCallError
from replan.testing import virtual_time

PAY = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "account": {"type": "string"}},
    "required": ["to", "account"],
}


ANEW = {
    "step_reflection": {
        "root_cause_category": "tool_error",
        "is_recoverable": True,
        "confidence": 90,
        "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "no"}},
    },
    "overall_reflection": {
        "problem_nature": "tools",
        "should_replan": True,
        "reflection_text": "again",
        "replanning_strategy": {"type": "full_replan", "reason": "it helps"},
    },
}


def refused(parameters: Any) -> Any:
    raise ToolCallError("nothing there", kind="tool")


def run(again: dict[str, Any], picked: str = "A2", **more: Any) -> Ran:
    tools = {
        "pay": FakeTool(output={"id": 1}, effect="once", parameters=PAY),
        "pick": FakeTool(output={"account": picked}, effect="reads", spec={"output_params": ("account",)}),
        "look": FakeTool(output=refused, **READS),
    }
    first = plan(step("p", "pay", parameters={"to": "Ann"}), step("k", "pick", "p"), step("l", "look", "k"))
    answers = {"execution_plan": [first, plan(step("q", "pay", parameters=again, **more))], **ANEW}

    async def main() -> Ran:
        one = await bench(tools, answers)
        return (await one.run(metadata={"account": "A1"}, evaluation="steps", max_rounds=2)).check()

    return virtual_time(main())


def test_what_the_metadata_have_become_makes_no_second_effect() -> None:
    ran = run({"to": "Ann"})
    assert ran.source.counts["pay"] == 1
    assert not ran.result.is_success
    faults = [one.error for one in ran.events("step_reflected") if one.step_id == "q"]
    assert {one.kind for one in faults} == {"repeated"}
    assert "account (${metadata.account}) had another value then" in faults[0].message


@pytest.mark.parametrize(
    ("again", "picked", "more", "payments"),
    [
        pytest.param({"to": "Ann"}, "A1", {}, 1, id="the value has not changed: the ledger has it"),
        pytest.param({"to": "Ann", "account": "A1"}, "A2", {}, 1, id="the old value, said"),
        pytest.param({"to": "Ann", "account": "A2"}, "A2", {}, 2, id="the new value, said"),
        pytest.param({"to": "Bob"}, "A2", {}, 2, id="other words"),
        pytest.param(
            {"to": "Ann"}, "A2", {"repeat": True, "repeat_reason": "twice"}, 2, id="it says that it is meant"
        ),
    ],
)
def test_what_says_which_effect_it_means_has_it(
    again: dict[str, Any], picked: str, more: dict[str, Any], payments: int
) -> None:
    ran = run(again, picked, **more)
    assert ran.source.counts["pay"] == payments
    assert ran.statuses()["q"] == "succeeded"


TICKET = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "session": {"type": "string"},
        "priority": {"type": "string", "default": "normal"},
    },
    "required": ["title", "session"],
}


class Desk:
    """Each login gives another session; it says no to what is published, and tells what is open otherwise each time."""

    def __init__(self, *, volatile: bool = True) -> None:
        self.volatile = volatile
        self.logins = 0
        self.looks = 0
        self.tickets: list[tuple[str, str]] = []

    def login(self, parameters: Any) -> dict[str, str]:
        self.logins += 1
        return {"session": f"{parameters.get('user', '')}S{self.logins}"}

    def open(self, parameters: Any) -> list[dict[str, str]]:
        self.looks += 1
        return [{"title": "A", "by": "x"}, {"title": "B", "by": "y"}][self.looks - 1 :]

    def create(self, parameters: Any) -> dict[str, int]:
        self.tickets.append((parameters["title"], parameters["session"]))
        return {"id": len(self.tickets)}

    def run(self, *plans: Sequence[dict[str, Any]], **more: Any) -> Ran:
        return self.run_plans(*(plan(*steps) for steps in plans), **more)

    def run_plans(
        self, *plans: dict[str, Any], create: Any = None, answers: dict[str, Any] | None = None, **more: Any
    ) -> Ran:
        reads = {"effect": "reads", "spec": {"volatile": self.volatile}}
        tools = {
            "login": FakeTool(output=self.login, **reads),
            "refresh": FakeTool(output=self.login, **reads),
            "pick": FakeTool(output={"title": "T"}, effect="reads"),
            "sign_in": FakeTool(output={"data": {"token": "T9"}}, effect="once"),
            "write": FakeTool(output="ok", effect="repeatable"),
            "open": FakeTool(output=self.open, **reads),
            "create": FakeTool(output=create or self.create, effect="once", parameters=TICKET),
            "look": FakeTool(output=refused, **READS),
        }

        async def main() -> Ran:
            one = await bench(tools, {"execution_plan": list(plans), **ANEW, **(answers or {})})
            return (await one.run(evaluation="steps", max_rounds=len(plans), **more)).check()

        return virtual_time(main())


def create(name: str, login: str, shape: str = "step", title: str = "A", **more: Any) -> dict[str, Any]:
    session = f"${{{login}.output.session}}"
    if shape == "list":
        return step(
            name,
            "create",
            parameters={"title": "${item}", "session": session},
            for_each=f'["{title}"]',
            **more,
        )
    if shape == "actions":
        return step(name, actions=[action(f"{name}1", "create", title=title, session=session)], **more)
    return step(name, "create", parameters={"title": title, "session": session}, **more)


def told(ran: Ran, name: str) -> set[str]:
    """What was said of the step: with the plan, or where it was called."""
    with_plan = {
        text for one in ran.events("plan_rejected") for text in one.violations if f"step {name!r}" in text
    }
    called = {one.error.message for one in ran.events("step_reflected") if one.step_id == name}
    return with_plan | called


WHEN = pytest.mark.parametrize("volatile", [True, False], ids=["told with the plan", "told as it is called"])


def begun(shape: str = "step") -> list[dict[str, Any]]:
    return [step("l", "login"), create("c", "l", shape), step("z", "look", "c")]


@WHEN
@pytest.mark.parametrize("shape", ["step", "list", "actions"])
@pytest.mark.parametrize("before", ["step", "list", "actions"])
def test_a_reference_to_the_same_reading_made_anew_makes_no_second_effect(
    before: str, shape: str, *, volatile: bool
) -> None:
    desk = Desk(volatile=volatile)
    ran = desk.run(begun(before), [step("l2", "login"), create("c2", "l2", shape)])
    assert desk.tickets == [("A", "S1")]
    (text,) = told(ran, "c2")
    when = "may have another value by now" if volatile else "had another value then"
    assert f"session (${{l2.output.session}}) {when}" in text
    assert "`repeat: true`" in text
    assert not ran.result.is_success


@pytest.mark.parametrize("old", [{}, {"old": "${l.output.session}"}], ids=["alone", "by the old one"])
@pytest.mark.parametrize("shape", ["step", "list", "actions"])
def test_nor_does_a_reference_to_another_reading_that_takes_its_place(
    shape: str, old: dict[str, str]
) -> None:
    desk = Desk()
    ran = desk.run(begun(), [step("l2", "refresh", parameters=old), create("c2", "l2", shape)])
    assert desk.tickets == [("A", "S1")]
    assert "as it is written here" in "".join(told(ran, "c2"))


@pytest.mark.parametrize(
    ("title", "said"),
    [("B", {}), ("A", {"repeat": True, "repeat_reason": "the task wants two"})],
    ids=["another title", "it says that it is meant"],
)
def test_a_call_that_chooses_something_else_is_another_effect(title: str, said: dict[str, Any]) -> None:
    desk = Desk()
    desk.run(begun(), [step("l2", "refresh"), create("c2", "l2", title=title, **said)])
    assert len(desk.tickets) == 2


@pytest.mark.parametrize(
    ("name", "tickets"), [("priority", 2), ("session", 1)], ids=["what it does", "on whose behalf"]
)
def test_so_is_one_that_goes_by_a_reading_of_something_else_unless_that_says_only_who_makes_it(
    name: str, tickets: int
) -> None:
    desk = Desk()

    def made(n: str, reads: str) -> dict[str, Any]:
        words = {"title": "A", "session": "s", name: f"${{{reads}.output.session}}"}
        return step(n, "create", parameters=words)

    first = [step("l", "login"), made("c", "l"), step("z", "look", "c")]
    desk.run(first, [step("l2", "login", parameters={"user": "bob"}), made("c2", "l2")])
    assert len(desk.tickets) == tickets


@pytest.mark.parametrize("other", ["sign_in", "refresh", "login"])
def test_however_a_session_is_had_it_makes_no_second_effect(other: str) -> None:
    desk = Desk()
    more = {"repeat": True} if other == "sign_in" else {"parameters": {"user": "me"}}
    field = "data.token" if other == "sign_in" else "session"
    words = {"title": "A", "session": f"${{l2.output.{field}}}"}
    ran = desk.run(begun(), [step("l2", other, **more), step("c2", "create", parameters=words)])
    assert desk.tickets == [("A", "S1")]
    assert told(ran, "c2")


def test_nor_does_one_whose_reading_says_that_it_is_made_again() -> None:
    """That mark is the reading's."""
    desk = Desk()
    ran = desk.run(begun(), [step("l2", "login", repeat=True), create("c2", "l2")])
    assert desk.tickets == [("A", "S1")]
    assert "as it is written here" in "".join(told(ran, "c2"))


@pytest.mark.parametrize("ids", ["cl", "de"])
@pytest.mark.parametrize("shape", ["step", "list", "actions"])
def test_nor_does_one_of_a_next_part_that_has_a_value_of_its_own(shape: str, ids: str) -> None:
    desk = Desk()
    first = {**plan(step("l", "login"), create("c", "l", shape)), "more": "ticket B"}
    then = [step(ids[1], "login"), create(ids[0], ids[1], shape), create("b", ids[1], title="B")]
    desk.run_plans(first, plan(*then))
    assert [title for title, _ in desk.tickets].count("A") == 1


def test_what_only_readings_tell_is_another_one_in_a_next_part() -> None:
    desk = Desk()

    def one(name: str, reads: str) -> list[dict[str, Any]]:
        words = {"title": f"${{{reads}.output[0].title}}", "session": f"${{{reads}.output[0].by}}"}
        return [step(reads, "open"), step(name, "create", parameters=words)]

    ran = desk.run_plans({**plan(*one("c", "o")), "more": "the next one"}, plan(*one("d", "p")))
    assert desk.tickets == [("A", "x"), ("B", "y")]
    assert ran.result.is_success


def test_nor_does_one_that_was_mended_by_writing_its_step_anew() -> None:
    desk = Desk()
    expired = {"S1"}

    def create_unless_expired(parameters: Any) -> Any:
        if parameters["session"] in expired:
            raise ToolCallError("session: expired, give S9", kind="tool")
        return desk.create(parameters)

    diagnoses = [
        {
            "root_cause_category": "parameter_error",
            "is_recoverable": True,
            "confidence": 90,
            "suggested_action": {"type": "repair_step", "data": {"hint": "another session"}},
        },
        *[ANEW["step_reflection"]] * 3,
    ]
    ran = desk.run_plans(
        plan(*begun()),
        plan(step("l2", "login"), create("c2", "l2")),
        create=create_unless_expired,
        answers={
            "step_reflection": diagnoses,
            "step_repair": step("c", "create", parameters={"title": "A", "session": "S9"}),
        },
    )
    assert desk.tickets == [("A", "S9")]
    assert not ran.result.is_success


@pytest.mark.parametrize("kind", ["full_replan", "replan_from_step"])
def test_nor_do_the_first_words_of_one_whose_place_a_new_plan_has_given_to_another(kind: str) -> None:
    desk = Desk()

    def closed(parameters: Any) -> Any:
        if parameters["title"] == "A" and not desk.tickets:
            raise ToolCallError("title: closed today, give A2", kind="tool")
        return desk.create(parameters)

    def made(name: str, title: str, *needs: str) -> dict[str, Any]:
        return step(name, "create", *needs, parameters={"title": title, "session": "s"})

    strategy = {"type": kind, "step_id": "c", "reason": "it helps"}
    ran = desk.run_plans(
        plan(made("c", "A")),
        plan(made("d", "A2"), step("z", "look", "d")),
        plan(made("e", "A")),
        create=closed,
        answers={
            "overall_reflection": [
                {**ANEW["overall_reflection"], "replanning_strategy": strategy},
                *[ANEW["overall_reflection"]] * 2,
            ]
        },
    )
    assert desk.tickets == [("A2", "s")]
    assert not ran.result.is_success


def test_nor_does_an_item_of_a_list_whose_place_a_new_plan_has_given_to_another() -> None:
    desk = Desk()

    def closed(parameters: Any) -> Any:
        if parameters["title"] == "B":
            raise ToolCallError("title: closed today, give B2", kind="tool")
        return desk.create(parameters)

    words = {"title": "${item}", "session": "s"}
    listed = step("c", "create", parameters=words, for_each='["A", "B"]')
    other = step("d", "create", parameters={"title": "B2", "session": "s"})
    ran = desk.run_plans(
        plan(listed),
        plan(other, step("z", "look", "d")),
        plan({**listed, "step_id": "e"}, step("y", "login")),
        create=lambda parameters: closed(parameters) if len(desk.tickets) < 2 else desk.create(parameters),
    )
    assert desk.tickets == [("A", "s"), ("B2", "s")]
    assert not ran.result.is_success


def test_nor_does_one_that_comes_by_several_steps_or_by_a_value_that_was_seen() -> None:
    desk = Desk()
    first = [step("o", "open"), step("l", "login", parameters={"user": "${o.output[0].by}"})]
    first += [
        step("c", "create", parameters={"title": "${o.output[0].title}", "session": "${l.output.session}"})
    ]
    then = [step("l2", "login", parameters={"user": "${o.output[0].by}"})]
    desk.run([*first, step("z", "look", "c")], [*then, create("c2", "l2")])
    assert desk.tickets == [("A", "xS1")]


def test_nor_does_one_with_a_default_written_out() -> None:
    desk = Desk()
    words = {"title": "A", "session": "${l2.output.session}", "priority": "normal"}
    desk.run(begun(), [step("l2", "login"), step("c2", "create", parameters=words)])
    assert desk.tickets == [("A", "S1")]


def test_nor_do_references_written_in_another_way() -> None:
    desk = Desk()
    words = {"title": "A", "session": "{{ l2.outputs.session }}"}
    desk.run(begun(), [step("l2", "login"), step("c2", "create", parameters=words)])
    assert desk.tickets == [("A", "S1")]


def test_what_is_refused_so_may_be_left_out_as_it_is_told() -> None:
    desk = Desk()
    then = [step("l2", "login"), create("c2", "l2")]
    ran = desk.run(begun(), then, [step("l3", "login")])
    assert desk.tickets == [("A", "S1")]
    assert ran.result.is_success
    assert told(ran, "c2")


def test_a_second_reading_that_rightly_means_another_effect_has_it_once_that_is_said() -> None:
    desk = Desk()
    again = create("c3", "l3", repeat=True, repeat_reason="a second one is wanted")
    ran = desk.run(begun(), [step("l2", "login"), create("c2", "l2")], [step("l3", "login"), again])
    assert desk.tickets == [("A", "S1"), ("A", "S2")], "nothing of the plan that was refused has run"
    assert ran.result.is_success


@pytest.mark.parametrize(
    ("then", "tickets"),
    [
        pytest.param([create("c2", "l")], 1, id="the old reading: the ledger has it"),
        pytest.param([step("l2", "login"), create("c2", "l2", title="B")], 2, id="another constant"),
        pytest.param([step("l2", "login"), create("c2", "l2", "list", title="B")], 2, id="another item"),
        pytest.param(
            [step("l2", "login"), create("c2", "l2", repeat=True, repeat_reason="a second one")],
            2,
            id="it says that it is meant",
        ),
    ],
)  # fmt: skip
def test_what_is_another_call_or_says_that_it_is_meant_is_made(
    then: list[dict[str, Any]], tickets: int
) -> None:
    desk = Desk()
    ran = desk.run(begun(), then)
    assert len(desk.tickets) == tickets
    assert ran.statuses()["c2"] == "succeeded"


def test_items_of_a_list_that_is_read_anew_are_told_apart_by_what_they_are() -> None:
    desk = Desk()
    words = {"title": "${item.title}", "session": "for ${item.by}"}

    def each(n: int) -> list[dict[str, Any]]:
        return [
            step(f"o{n}", "open"),
            step(f"c{n}", "create", parameters=words, for_each=f"${{o{n}.output}}"),
        ]

    first = [step("o1", "open"), step("c1", "create", parameters=words, for_each="${o1.output[:1]}")]
    ran = desk.run([*first, step("z", "look", "c1")], each(2))
    assert desk.tickets == [("A", "for x"), ("B", "for y")]
    assert ran.statuses()["c2"] == "succeeded"


def test_two_of_one_plan_that_are_written_alike_are_both_made() -> None:
    desk = Desk()
    steps = [step("l", "login"), step("k", "login"), create("c", "l"), create("d", "k")]
    desk.run(steps)
    assert desk.tickets == [("A", "S1"), ("A", "S2")]


@pytest.mark.parametrize("own", [True, False], ids=["with a value of its own", "without"])
def test_what_goes_by_an_effect_that_is_meant_once_more_says_so_too_where_it_has_a_value_of_its_own(
    *, own: bool
) -> None:
    """A session that is had once more makes no second ticket; what has nothing of its own is about what it goes by."""
    desk = Desk()
    output = "${c%s.output.id | to_string(@)}"

    def two(n: str, **more: Any) -> list[dict[str, Any]]:
        words = {"title": "T" if own else output % n, "session": output % n}
        return [create(f"c{n}", f"l{n}", **more), step(f"t{n}", "create", parameters=words)]

    first = [step("l1", "login"), *two("1"), step("z", "look", "t1")]
    ran = desk.run(first, [step("l2", "login"), *two("2", repeat=True, repeat_reason="a second one is due")])
    made = [] if own else [("A", "S2"), ("3", "3")]
    assert desk.tickets == [("A", "S1"), ("T" if own else "1", "1"), *made]
    assert bool(told(ran, "t2")) is own


SIGNED = step("g2", "refresh", parameters={"old": "${l2.output.session}"})
S2 = "${l2.output.session}"


@WHEN
@pytest.mark.parametrize("parts", [False, True], ids=["made anew", "a next part"])
@pytest.mark.parametrize(
    "again",
    [
        pytest.param([SIGNED, create("c2", "g2")], id="one reading more stands between"),
        pytest.param([step("c2", "create", parameters={"title": "A", "session": f"Bearer {S2}"})], id="words around it"),
        pytest.param(
            [step("c2", "create", parameters={"title": "A", "session": "${item}"}, for_each=f'["{S2}"]')],
            id="a list of one brings it",
        ),
    ],
)  # fmt: skip
def test_how_a_plan_reaches_the_session_makes_no_second_effect(
    again: list[dict[str, Any]], *, parts: bool, volatile: bool
) -> None:
    desk = Desk(volatile=volatile)
    first = {**plan(*begun()[:2]), "more": "B"} if parts else plan(*begun())
    ran = desk.run_plans(first, plan(step("l2", "login"), *again))
    assert desk.tickets == [("A", "S1")]
    assert told(ran, "c2")


@pytest.mark.parametrize("known", ["value", "reading"])
def test_nor_does_a_title_that_is_read_again_in_a_next_part_and_is_the_same(known: str) -> None:
    desk = Desk()

    def one(n: str, title: str) -> list[dict[str, Any]]:
        words = {"title": title, "session": f"${{l{n}.output.session}}"}
        return [step(f"o{n}", "pick"), step(f"l{n}", "login"), step(f"c{n}", "create", parameters=words)]

    first = plan(*one("1", "T" if known == "value" else "${o1.output.title}"))
    ran = desk.run_plans({**first, "more": "the rest"}, plan(*one("2", "${o2.output.title}")))
    assert desk.tickets == [("T", "S1")]
    assert told(ran, "c2")


def test_nor_does_a_default_that_was_written_before() -> None:
    desk = Desk()
    words = {"title": "${l.output.session}", "session": "${l.output.session}", "priority": "normal"}
    first = {**plan(step("l", "login"), step("c", "create", parameters=words)), "more": "the rest"}
    then = dict.fromkeys(("title", "session"), "${l2.output.session}")
    desk.run_plans(first, plan(step("l2", "login"), step("c2", "create", parameters=then)))
    assert desk.tickets == [("S1", "S1")]


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_another_page_is_another_effect_however_many_steps_it_goes_through(hops: int) -> None:
    desk = Desk(volatile=False)

    def page(n: int, number: int) -> list[dict[str, Any]]:
        steps, last = [step(f"g{n}", "login", parameters={"user": f"p{number}"})], f"g{n}"
        for hop in range(hops):
            steps.append(step(f"h{n}{hop}", "refresh", parameters={"of": f"${{{last}.output.session}}"}))
            last = f"h{n}{hop}"
        words = {"title": f"${{{last}.output.session}}", "session": "s"}
        return [*steps, step(f"c{n}", "create", parameters=words)]

    first = page(1, 1)
    ran = desk.run([*first, step("z", "look", "c1")], page(2, 2))
    assert len(desk.tickets) == 2
    assert ran.statuses()["c2"] == "succeeded"


def test_what_is_read_again_after_it_was_written_anew_is_another_effect() -> None:
    desk = Desk(volatile=False)

    def sent(n: int) -> list[dict[str, Any]]:
        words = {"title": f"${{r{n}.output.session}}", "session": "s"}
        return [
            step(f"w{n}", "write", parameters={"path": "o", "text": f"{n}"}),
            step(f"r{n}", "login", f"w{n}", parameters={"user": "o"}),
            step(f"c{n}", "create", parameters=words),
        ]

    desk.run([*sent(1), step("z", "look", "c1")], sent(2))
    assert len(desk.tickets) == 2


def test_a_mark_that_was_accepted_once_is_for_its_own_part_alone() -> None:
    desk = Desk()
    said = {"repeat": True, "repeat_reason": "the task wants two"}
    ran = desk.run_plans(
        {**plan(step("l", "login"), create("c", "l")), "more": "a second one"},
        {**plan(step("l2", "login"), create("c2", "l2", **said)), "more": "and the rest"},
        plan(step("l3", "login"), create("c3", "l3"), create("d", "l3", title="B")),
    )
    assert [title for title, _ in desk.tickets].count("A") == 2
    assert told(ran, "c3")


def half_done(name: str, login: str, user: str) -> dict[str, Any]:
    """A ticket, and then a look that fails the first time."""
    made = action(f"{name}1", "create", title="A", session=f"${{{login}.output.session}}")
    return step(name, actions=[made, action(f"{name}2", "look", q=user)])


HELP = {**ANEW, "overall_reflection": [
    {**ANEW["overall_reflection"], "replanning_strategy": {"type": kind, "suggestions": ["look"], "reason": "it helps"}}
    for kind in ("add_remediation_steps", "full_replan")
]}  # fmt: skip


@pytest.mark.parametrize(
    ("then", "last", "tickets"),
    [
        pytest.param([step("m", "login", parameters={"user": "Bob"}), half_done("a", "m", "Bob")], [],
                     [("A", "S1")], id="for somebody else under its own id"),
        pytest.param([step("m", "login"), half_done("a", "m", "Bob")], [], [("A", "S1")], id="in the same words under its own id"),
        pytest.param([step("m", "login", parameters={"user": "Bob"}), half_done("a", "m", "no")],
                     [step("n", "login"), create("c", "n")], [("A", "S1")], id="and in its first words under another"),
    ],
)  # fmt: skip
def test_a_call_was_made_in_the_words_that_its_step_had_then(
    then: list[dict[str, Any]], last: list[dict[str, Any]], tickets: list[tuple[str, str]]
) -> None:
    desk = Desk()

    def look(parameters: Any) -> Any:
        if parameters["q"] != "Bob":
            raise ToolCallError("nothing there", kind="tool")
        return "open"

    reads = {"effect": "reads", "spec": {"volatile": True}}
    tools = {
        "login": FakeTool(output=desk.login, **reads),
        "create": FakeTool(output=desk.create, effect="once", parameters=TICKET),
        "look": FakeTool(output=look, **READS),
    }
    first = [step("l", "login"), half_done("a", "l", "Ann")]

    async def main() -> Ran:
        plans = [plan(*steps) for steps in (first, then, last) if steps]
        one = await bench(tools, {"execution_plan": plans, **HELP})
        return (await one.run(evaluation="steps", max_rounds=len(plans))).check()

    virtual_time(main())
    assert desk.tickets == tickets
