"""Results and plans in a notebook: readable, and nothing from outside becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from replan.core.report.result import StepResult, TaskResult
from replan.core.types import Failure, Plan, Step

TAGS = {"p", "b", "code", "table", "thead", "tbody", "tr", "th", "td", "br"}


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
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


def test_a_failure_shows_why() -> None:
    failure = Failure(kind="step", reason="the shop is closed")
    result = TaskResult[object](task_id="t1", status="failed", is_success=False, failure=failure)
    assert "the shop is closed" in read(result._repr_html_()).text


def test_a_large_plan_is_cut() -> None:
    plan = Plan(plan_id="p", steps=tuple(Step(step_id=f"s{n}", tool="t") for n in range(1_000)))
    assert "and 800 more steps" in plan._repr_html_()
