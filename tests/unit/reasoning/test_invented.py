from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.plan.read import read_plan
from replan.core.types import Plan, Step, ToolSpec
from replan.reasoning.evaluation.grounding import links_in
from replan.reasoning.planning.invented import invented_links
from replan.reasoning.planning.planner import make_plan
from replan.reasoning.prompting.view import TaskView

pytestmark = pytest.mark.anyio

TEXTS = {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}}
LINK = ToolSpec(id="make_link", effect="reads", output_schema={"type": "string"})
POST = ToolSpec(id="post", description="Post, as to team@corp.example.", effect="once", parameters=TEXTS)
TOOLS = [LINK, POST]


def found(task: str, known: Any = (), kept: tuple[str, ...] = (), **parameters: Any) -> list[str]:
    plan = Plan(plan_id="p", steps=(Step(step_id="a", tool="post", parameters=parameters),))
    return invented_links(plan, TaskView(description=task), TOOLS, known, kept)


@pytest.mark.parametrize(
    ("task", "parameters", "invented"),
    [
        pytest.param("Make a link and post it", {"text": "See https://made.up/1"}, True, id="a link inside a text"),
        pytest.param("Mail Bob", {"to": "bob@made.up"}, True, id="a mail address"),
        pytest.param("Mail Bob", {"more": [{"to": "bob@made.up"}]}, True, id="deep inside"),
        pytest.param("Post www.real.example", {"text": "https://real.example/"}, False, id="given, spelt otherwise"),
        pytest.param("Post the news of real.example", {"text": "https://real.example"}, False, id="a bare site"),
        pytest.param("Get page 2 of https://a.example/x", {"text": "https://a.example/x?page=2"}, False, id="composed"),
        pytest.param("Mail bob@a.example", {"to": "ann@a.example"}, True, id="another person there"),
        pytest.param("Tell the team", {"to": "team@corp.example"}, False, id="told by the tool"),
        pytest.param("Post the link", {"text": "https://x.example/${step_1.output}"}, False, id="with a reference"),
        pytest.param("Post the link", {"text": "${step_1.output}"}, False, id="a reference alone"),
    ],
)  # fmt: skip
def test_addresses_that_nobody_gave_are_found_in_a_plan(
    task: str, parameters: dict[str, Any], invented: bool
) -> None:
    assert bool(found(task, **parameters)) is invented


def test_addresses_of_outputs_and_steps_that_stay_are_no_inventions() -> None:
    assert found("Post it", known=[{"url": "https://made.up/1"}], text="https://made.up/1") == []
    assert found("Post it", kept=("a",), text="https://made.up/1") == []


@given(st.from_regex(r"https?://[a-z]{1,9}\.example/[a-z0-9/]{0,9}", fullmatch=True))
def test_what_the_task_gives_may_always_be_used(link: str) -> None:
    assert found(f"Post {link} (now).", text=f"Look: {link}!") == []
    assert len(links_in(link)) == 1


@pytest.mark.parametrize(("style", "corrections"), [("small", 1), ("standard", 0)])
async def test_only_a_small_model_has_to_take_an_address_from_somewhere(
    script: Any, style: str, corrections: int
) -> None:
    def answer(text: str) -> Any:
        steps = [
            {"step_id": "step_1", "tool": "make_link", "parameters": {}},
            {"step_id": "step_2", "tool": "post", "parameters": {"text": text}},
        ]
        return {"steps": steps}

    by_id = {spec.id: spec for spec in TOOLS}
    box = Toolbox(by_id.get, lambda name: list(by_id))
    talk = script(answer("https://made.up/1"), answer("${step_1.output}"), style=style)
    planned = await make_plan(
        talk,
        task=TaskView(description="Make a link and post it"),
        tools=TOOLS,
        new_plan=lambda given: read_plan(given, plan_id="p"),
        check=lambda plan: check_plan(plan, box, metadata={}, limits=PlanLimits()),
        corrections=2,
        on_rejected=lambda problems, attempt: None,
    )
    assert planned.corrections == corrections
    if corrections:
        assert "made.up/1 stands neither in the task nor in its data" in talk.asked[1].request.turns[-1].text


@pytest.mark.parametrize("piece", ["ab12", "a.", "a@", "a@b", "-+.", "@", "http://", "www.", "a@b.c-"])
def test_one_long_word_is_looked_through_once(piece: str) -> None:
    with cpu(1):
        links_in(piece * 40_000)


@pytest.mark.parametrize("before", ["", "=", "<", "mailto:", ", ", "a@b "])
def test_a_mail_address_is_found_after_anything(before: str) -> None:
    assert links_in(f"{before}ann.b+c@mail.example.org") == {"ann.b+c@mail.example.org"}


MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


@given(st.text(st.sampled_from("ab.@-+ ,"), max_size=20))
def test_an_address_begins_where_its_word_begins(text: str) -> None:
    assert links_in(text) == {found.casefold().rstrip(".,;:!?/") for found in MAIL.findall(text)}
