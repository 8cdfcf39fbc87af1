"""The plan of the how-to on steps that ask a model runs as it stands there, and is refused where it says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT, blocks_of

from replan import Replan, tool
from replan.errors import PlanInvalid
from replan.ports import ModelRequest
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio
MAILS = [{"text": "Two weeks late! I want 20 back."}, {"text": "It broke."}]
SENT: list[tuple[str, str]] = []


@tool(effect="reads")
def read_mails(folder: str) -> list[dict[str, str]]:
    """Mails of a folder."""
    assert folder == "complaints"
    return MAILS


@tool(effect="once")
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    SENT.append((to, text))
    return "sent"


def answered(request: ModelRequest) -> dict[str, Any]:
    asked = request.turns[0].text
    if "head of service" in asked:
        assert '"asked_for": 20' in asked
        return {"answer": "There are two complaints."}
    late = "late" in asked
    return {"answer": {"about": "delivery" if late else "quality", "amount": 20 if late else 0}}


async def test_the_plan_of_the_how_to_runs_and_is_checked_as_it_says(tmp_path: Path) -> None:
    (block,) = blocks_of(ROOT / "docs/how-to/ask-models.md", "json")
    plan = json.loads(block.text)
    SENT.clear()
    model = ScriptedModel({"step_answer": answered})
    more = {"evaluation": "steps", "metadata": {"head": "ann@example.com"}}
    async with Replan(model, tools=[read_mails, send_mail], db=tmp_path / "log.db") as replan:
        result = await replan.run("report", plan=plan, **more)
        assert result.is_success
        assert SENT == [("ann@example.com", "There are two complaints.")]
        assert model.calls["step_answer"] == 3
        wrong = json.loads(
            block.text.replace("${= sum(sorted.output[*].amount) }", "${sorted.output[0].amont}")
        )
        with pytest.raises(PlanInvalid, match="amont"):
            await replan.run("report", plan=wrong, **more)
        assert model.calls["step_answer"] == 3
