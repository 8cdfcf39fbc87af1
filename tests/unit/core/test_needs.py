"""What a task needs of a worker, and whether one has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.limits.needs import WORK, Needs, Work, lines_for, work_of

names = st.sampled_from(["a", "b", "c", "d"])
needs = st.builds(
    Needs,
    tools=st.frozensets(names).map(lambda found: tuple(sorted(found))),
    models=st.dictionaries(st.sampled_from(["planning", "evaluation"]), names),
    endpoint=st.none() | st.just("http://here"),
)


@given(needs, needs)
def test_a_need_is_met_exactly_where_nothing_is_missing(wanted: Needs, offers: Needs) -> None:
    missing = list(wanted.missing(offers))
    has_tools = set(wanted.tools) <= set(offers.tools)
    has_models = all(offers.models.get(role) == name for role, name in wanted.models.items())
    same_place = not wanted.models or wanted.endpoint == offers.endpoint
    assert wanted.met_by(offers) == (not missing) == (has_tools and has_models and same_place)
    assert wanted.met_by(wanted)


ROLES = ("planning", "evaluation", "selection")


@pytest.mark.parametrize(
    ("models", "offered", "missing"),
    [
        (dict.fromkeys(ROLES, "m"), {}, ["the model 'm'"]),
        (dict.fromkeys(ROLES, "m"), {"planning": "m"}, ["the model 'm' (evaluation, selection)"]),
        (dict.fromkeys(ROLES, ""), {}, ["the model of http://here"]),
        (
            {"planning": "a", "evaluation": "b"},
            {},
            ["the model 'a' (planning)", "the model 'b' (evaluation)"],
        ),
        ({"planning": "a"}, {}, ["the model 'a' (planning)"]),
    ],
)
def test_a_missing_model_is_named_once_with_the_roles_where_it_is_not_that_of_all(
    models: dict[str, str], offered: dict[str, str], missing: list[str]
) -> None:
    wanted = Needs(models=models, endpoint="http://here")
    assert list(wanted.missing(Needs(models=offered, endpoint="http://here"))) == missing


@given(needs, needs, names, names)
def test_tasks_wait_in_one_line_if_and_only_if_queue_and_needs_are_the_same(
    one: Needs, other: Needs, queue: str, another: str
) -> None:
    same = (one, queue) == (other, another)
    assert (Work(queue=queue, needs=one).line == Work(queue=another, needs=other, priority=7).line) == same


@given(st.lists(st.builds(Work, queue=names, needs=needs)), needs, st.frozensets(names))
def test_a_worker_is_shown_the_lines_of_its_queues_that_it_can_serve(
    works: list[Work], offers: Needs, queues: frozenset[str]
) -> None:
    lines = {work.line: work.needs for work in works}
    mine = {work.line for work in works if (not queues or work.queue in queues) and work.needs.met_by(offers)}
    assert set(lines_for(offers, queues, lines)) == mine


def test_how_a_task_waits_is_read_from_its_settings() -> None:
    work = Work(queue="reports", priority=3, needs=Needs(tools=("a",)))
    assert work_of({"models": {}}) is None
    assert work_of({WORK: work.model_dump(mode="json")}) == work
    assert work_of({WORK: {"made": "by a later release"}}) == Work(), "better anywhere than nowhere"
