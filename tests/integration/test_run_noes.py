"""A question or a no is heard in whatever field it stands, and none is heard where it is said that there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict

from replan.testing import virtual_time

PAY = plan(step("p", "pay", parameters={"to": "bob"}))


def planned(*answers: Any, **scripted: Any) -> Ran:
    """What became of a task that is planned so."""

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output="paid", effect="once"),
            "mail": FakeTool(output="sent", effect="once"),
            "look": FakeTool(output="seen", effect="reads"),
        }
        said: dict[str, Any] = {
            "execution_plan": [json.dumps(one) for one in (*answers, *answers[-1:] * 5)],
            "evaluation": verdict(),
            "overall_reflection": {"problem_nature": "external", "should_replan": False},
        }
        return await (await bench(tools, {**said, **scripted})).run(text="pay bob", interactive=True)

    return virtual_time(main())


def outcome(ran: Ran) -> tuple[str, int, int]:
    """Its status, how often it was planned, and what was paid."""
    return ran.result.status, ran.model.calls["execution_plan"], ran.source.counts["pay"]


NONE_OF_IT = [
    *("none", "no", "not needed", "Not required.", "none needed", "nein", "nicht nötig", "keine Rückfragen"),
    *("不需要", "没有问题", "否", "No questions.", "No clarification needed.", "Keine Fragen."),
    *("There are no open questions.", 0, False, ["No question is needed."]),
]


@pytest.mark.parametrize("field", ["ask_first", "cannot", "error", "objection", "question", "problem"])
def test_a_plan_is_run_at_once_beside_words_that_there_is_no_question_and_no_objection(field: str) -> None:
    for words in NONE_OF_IT:
        assert outcome(planned({**PAY, field: words})) == ("succeeded", 1, 1), words


@pytest.mark.parametrize(
    "words",
    ["No question is more urgent: which Bob?", "not needed before Ann agrees", "Keine Frage: Ann fragen."],
)
def test_words_that_begin_like_those_and_say_more_are_heard(words: str) -> None:
    assert outcome(planned({**PAY, "ask_first": words})) == ("waiting", 2, 0)
