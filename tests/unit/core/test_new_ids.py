"""New steps under ids that are taken get free ones, and everything that means them goes with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.plan.new_ids import with_free_ids
from replan.core.types import Action, Step


def step(step_id: str, *needs: str, **more: Any) -> Step:
    return Step(step_id=step_id, tool="t", dependencies=needs, **more)


def test_ids_that_are_free_stay() -> None:
    steps = [step("a"), step("b", "a", parameters={"x": "${a.output}"})]
    assert with_free_ids(steps, {"c", "step_9"}) == steps


def test_a_taken_id_becomes_the_next_free_one_wherever_it_is_meant() -> None:
    new = with_free_ids(
        [
            step("step_1"),
            step(
                "step_2",
                "step_1",
                parameters={
                    "a": ["${step_1.output.id} of {{step_1.output}}", {"b": "${length(step_1.output)}"}]
                },
                when="step_1.output.n > `3` && step_1.status == 'step_1'",
                for_each="${step_1.output.items}",
            ),
        ],
        {"step_1", "step_3"},
    )
    assert [one.step_id for one in new] == ["step_4", "step_2"]
    assert new[1].dependencies == ("step_4",)
    assert new[1].parameters == {
        "a": ["${step_4.output.id} of {{step_4.output}}", {"b": "${length(step_4.output)}"}]
    }
    assert new[1].when == "step_4.output.n > `3` && step_4.status == 'step_1'"
    assert new[1].for_each == "${step_4.output.items}"


@pytest.mark.parametrize(
    "text",
    ["$${step_1.output}", "step_1", "${step_10.output}", "${other.step_1}", "${metadata.step_1}"],
)
def test_what_only_looks_like_the_name_stays(text: str) -> None:
    new = with_free_ids([step("step_1"), step("x", parameters={"a": text})], {"step_1"})
    assert new[1].parameters == {"a": text}


def test_within_its_own_step_the_name_means_the_older_one() -> None:
    (new,) = with_free_ids([step("step_1", "step_1", parameters={"a": "${step_1.output}"})], {"step_1"})
    assert (new.step_id, new.dependencies) == ("step_2", ("step_1",))
    assert new.parameters == {"a": "${step_1.output}"}


def test_two_names_that_change_places_are_not_confused() -> None:
    new = with_free_ids(
        [
            step("step_1"),
            step("step_2"),
            step("step_5", parameters={"a": "${step_1.output} ${step_2.output}"}),
        ],
        {"step_1", "step_2"},
    )
    assert new[2].parameters == {"a": "${step_6.output} ${step_7.output}"}


def test_actions_too() -> None:
    pair = Step(step_id="p", actions=(Action(action_id="x", tool="t"), Action(action_id="y", tool="t")))
    new = with_free_ids(
        [pair, step("q", parameters={"a": "${p.actions.x.output}", "b": "${x.output}"})], {"x"}
    )
    assert [one.action_id for one in new[0].actions] == ["step_1", "y"]
    assert new[1].parameters["b"] == "${step_1.output}"


NAMES = ["step_1", "step_2", "step_3", "a", "b-c"]


@given(
    st.lists(st.sampled_from(NAMES), unique=True, min_size=1),
    st.sets(st.sampled_from(NAMES)),
    st.data(),
)
def test_no_new_step_has_a_taken_id_and_every_edge_leads_where_it_led(
    names: list[str], taken: set[str], data: st.DataObject
) -> None:
    steps = []
    for at, name in enumerate(names):
        needs = data.draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else []
        parameters = {need: f"${{{need}.output}}" for need in needs}
        steps.append(step(name, *needs, parameters=parameters))
    new = with_free_ids(steps, taken)
    now = dict(zip(names, (one.step_id for one in new), strict=True))
    assert not set(now.values()) & taken
    assert len(set(now.values())) == len(names)
    for old, one in zip(steps, new, strict=True):
        assert one.dependencies == tuple(now[need] for need in old.dependencies)
        assert one.parameters == {need: f"${{{now[need]}.output}}" for need in old.parameters}


@pytest.mark.parametrize(
    ("when", "meant"),
    [
        pytest.param('a.output && "a".output', 'step_1.output && "step_1".output', id="in quotes"),
        pytest.param("a.output == 'a", "step_1.output == 'a", id="a text that is not closed"),
        pytest.param('a.output == "ab', 'step_1.output == "ab', id="a name that is not closed"),
        pytest.param('a.output == "a\\"', 'step_1.output == "a\\"', id="closed by an escaped quote only"),
    ],
)
def test_what_stands_in_quotes_is_no_name_but_of_a_field(when: str, meant: str) -> None:
    new = with_free_ids([step("a"), step("b", "a", when=when)], {"a"})

    assert new[1].when == meant


@pytest.mark.parametrize("taken", [{"e"}, {"o"}, {"e", "o", "p"}])
def test_an_action_that_is_meant_by_way_of_its_own_step_is_meant_under_the_new_ids(taken: set[str]) -> None:
    parameters = {
        "a": "${e.actions.o.output.id}, {{ e.actions.o.output }}",
        "b": "${= e.actions.o.output.n + o.output.n }",
    }
    actions = (Action(action_id="o", tool="t"), Action(action_id="p", tool="t", parameters=parameters))
    (made,) = with_free_ids([Step(step_id="e", actions=actions)], taken)
    one, other = made.step_id, made.actions[0].action_id
    assert made.actions[1].parameters == {
        "a": f"${{{one}.actions.{other}.output.id}}, {{{{ {one}.actions.{other}.output }}}}",
        "b": f"${{= {one}.actions.{other}.output.n + {other}.output.n }}",
    }


def acting(step_id: str, *actions: str, **more: Any) -> Step:
    """A step whose later actions use what its first one gives."""
    first, *others = actions
    using = {"id": f"${{{first}.output.id}}", "way": f"${{{step_id}.actions.{first}.output.id}}"}
    made = [Action(action_id=first, tool="t"), *(Action(action_id=one, tool="t", parameters=using) for one in others)]  # fmt: skip
    return Step(step_id=step_id, actions=tuple(made), **more)


def ids(steps: list[Step]) -> list[list[str]]:
    return [[one.step_id, *(action.action_id for action in one.actions)] for one in steps]


def test_actions_of_two_steps_that_have_one_id_get_one_each() -> None:
    new = with_free_ids([acting("a", "pay", "mail"), acting("b", "pay", "mail"), step("mail_b", "b")], ())
    assert ids(new) == [["a", "step_1", "step_2"], ["b", "pay", "mail"], ["mail_b"]], (
        "what another step waits for stays"
    )
    used = new[0].actions[1].parameters
    assert used == {"id": "${step_1.output.id}", "way": "${a.actions.step_1.output.id}"}
    assert new[1] == acting("b", "pay", "mail")


def test_a_step_that_stands_as_before_keeps_its_actions() -> None:
    steps = [acting("a", "pay", "mail"), acting("b", "pay", "mail")]
    new = with_free_ids(steps, {"b", "pay", "mail"}, {"b": ["b", "pay", "mail"]})
    assert ids(new) == [["a", "step_1", "step_2"], ["b", "pay", "mail"]]


@pytest.mark.parametrize(
    "other",
    [step("c", parameters={"x": "${pay.output}"}), step("c", "pay"), step("c", when="pay.output.n > `1`")],
    ids=["a reference", "a dependency", "a condition"],
)
def test_which_of_two_is_meant_by_a_third_is_not_guessed(other: Step) -> None:
    steps = [acting("a", "pay"), acting("b", "pay"), other]
    assert with_free_ids(steps, ()) == steps


def test_an_action_that_has_the_id_of_a_step_gets_one_of_its_own() -> None:
    new = with_free_ids([step("pay"), acting("b", "pay", "mail")], ())
    assert ids(new) == [["pay"], ["b", "step_1", "mail"]]
    assert new[1].actions[1].parameters["id"] == "${step_1.output.id}"


def test_what_a_step_that_stands_as_before_had_is_free_for_no_other() -> None:
    steps = [step("pay"), acting("b", "mail", parameters={}, dependencies=("pay",))]
    new = with_free_ids(steps, {"b", "pay", "mail"}, {"b": ["b", "pay", "mail"]})
    assert ids(new) == [["step_1"], ["b", "mail"]]
    assert new[1].dependencies == ("step_1",)
