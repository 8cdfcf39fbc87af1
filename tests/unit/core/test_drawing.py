"""Plans as drawings: every step and edge is there, and no text of a plan becomes markup."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.drawing import forms
from replan.core.drawing.forms import FORMATS, Format
from replan.core.drawing.graph import TaskGraph
from replan.core.types import Plan, Step

SVG = "{http://www.w3.org/2000/svg}"


def draw(plan: Plan, form: Format, statuses: dict[str, str] | None = None) -> str:
    return forms.draw(TaskGraph.of_plan(plan).with_statuses(statuses or {}), form)


def _plan(*names: str) -> Plan:
    """A chain with an edge from the first to the last."""
    steps = [
        Step(
            step_id=f"s{at}",
            name=name,
            tool="t",
            dependencies=tuple(sorted({f"s{at - 1}", "s0"})) if at else (),
        )
        for at, name in enumerate(names)
    ]
    return Plan(plan_id="p", steps=tuple(steps))


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_whatever_steps_are_called_the_drawing_can_be_read(names: list[str]) -> None:
    plan = _plan(*names)
    edges = sum(len(step.dependencies) for step in plan.steps)
    svg = ET.fromstring(draw(plan, "svg"))
    assert len(svg.findall(f"{SVG}rect")) == len(names) + 1
    assert len(svg.findall(f"{SVG}path")) == edges
    rows = draw(plan, "mermaid").splitlines()
    assert len(rows) == 1 + len(names) + edges
    for row in rows[1 : 1 + len(names)]:
        assert re.fullmatch(r'    s\d+\["(?:[^"<>;#]|#\d+;|<br/>)*"\]', row), row
    dot = draw(plan, "dot").splitlines()
    assert len(dot) == 4 + len(names) + edges


@pytest.mark.parametrize("form", FORMATS)
def test_a_plan_without_steps_is_drawn_too(form: Format) -> None:
    assert draw(Plan(plan_id="p"), form)


def test_statuses_colour_the_boxes() -> None:
    plan = _plan("one", "two")
    for form in FORMATS:
        assert "#d9f2d9" in draw(plan, form, {"s0": "succeeded"})
        assert "#d9f2d9" not in draw(plan, form, {"s0": "pending"})


def test_words_that_mean_something_to_mermaid_are_no_ids() -> None:
    plan = Plan(plan_id="p", steps=(Step(step_id="end", tool="t"), Step(step_id="graph", tool="t")))
    assert 's1["end<br/>t"]' in draw(plan, "mermaid")
