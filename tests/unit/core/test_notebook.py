"""Results and plans in a notebook: readable, and nothing from outside becomes markup."""

from __future__ import annotations

import base64
import pickle
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from replan.core.drawing.graph import TaskGraph
from replan.core.drawing.shown import TaskDrawing
from replan.core.report.result import StepResult, TaskResult
from replan.core.types import Failure, Plan, Step

ATTRIBUTES = {"div": {"style"}, "img": {"style", "alt", "src"}}
TAGS = {"div", "img", "p", "b", "code", "table", "thead", "tbody", "tr", "th", "td", "br"}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.text = ""
        self.images: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= ATTRIBUTES.get(tag, set())
        for name, value in attrs:
            if name == "src":
                assert (value or "").startswith("data:image/svg+xml;base64,")
                self.images.append(base64.b64decode((value or "").partition(",")[2]).decode())
        self.seen.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> _Tags:
    parser = _Tags()
    parser.feed(html)
    parser.close()
    return parser


@given(st.text())
def test_nothing_that_came_from_outside_is_markup(text: str) -> None:
    step = StepResult(step_id="a", name=text, tool=text, status="succeeded", output={"x": text}, error=text)
    result = TaskResult[object](
        task_id="t", status="succeeded", is_success=True, final_output=text, steps=(step,)
    )
    plan = Plan(
        plan_id="p", task_description=text,
        steps=(Step(step_id="a", name=text, tool="t", parameters={"q": text}, when=text),),
    )  # fmt: skip
    assert read(result._repr_html_()).seen <= TAGS
    assert read(plan._repr_html_()).seen <= TAGS


def test_a_result_shows_answer_steps_and_costs() -> None:
    steps = (StepResult(step_id="look", name="", tool="stock", status="succeeded", output=7),)
    shown = read(
        TaskResult[object](
            task_id="t1", status="succeeded", is_success=True, final_score=93, total_rounds=1, final_output="7 pears",
            steps=steps,
        )._repr_html_()
    ).text  # fmt: skip
    assert "7 pears" in shown
    assert "score 93" in shown
    assert "look" in shown
    assert "1 round," in shown


@given(st.text())
def test_a_result_shows_its_plan_as_a_graph_that_nothing_can_leave(text: str) -> None:
    steps = tuple(
        StepResult(step_id=name, name=text, tool=text, status=status, error=text or None, duration_secs=secs)
        for name, status, secs in (("a", "succeeded", 2.0), ("b", "failed", 1.0))
    )
    plan = Plan(
        plan_id="p", steps=(Step(step_id="a", name=text, tool="t"), Step(step_id="b", tool="t", dependencies=("a",)))
    )  # fmt: skip
    result: TaskResult = TaskResult(task_id="t", status="failed", is_success=False, steps=steps)
    plain = result.model_copy()
    result.goes_with(plan, {"a": (1.0, 3.0), "b": (3.0, 4.0)})
    assert plain.drawing() is None
    assert (result, hash(result), result.model_dump()) == (plain, hash(plain), plain.model_dump())
    again = pickle.loads(pickle.dumps(result))
    shown = read(again._repr_html_())
    assert shown.seen <= TAGS
    (image,) = shown.images
    assert ET.fromstring(image).tag.endswith("svg")
    drawing = again.drawing()
    assert drawing is not None
    assert drawing.graph.critical == ("a", "b")
    assert image == drawing._repr_svg_() == drawing.svg()
    assert str(drawing) == repr(drawing) == drawing.text()
    assert drawing.dot().startswith("digraph")
    assert drawing.mermaid().startswith("flowchart")


def test_too_many_steps_are_not_drawn_in_a_cell() -> None:
    many = Plan(plan_id="p", steps=tuple(Step(step_id=f"s{n}", tool="t") for n in range(1_000)))
    assert "1000 steps are too many to be drawn here" in TaskDrawing(TaskGraph.of_plan(many))._repr_html_()


def test_a_failure_shows_why() -> None:
    failure = Failure(kind="step", reason="the shop is closed")
    result = TaskResult[object](task_id="t1", status="failed", is_success=False, failure=failure)
    assert "the shop is closed" in read(result._repr_html_()).text


def test_a_large_plan_is_cut() -> None:
    plan = Plan(plan_id="p", steps=tuple(Step(step_id=f"s{n}", tool="t") for n in range(1_000)))
    assert "and 800 more steps" in plan._repr_html_()
