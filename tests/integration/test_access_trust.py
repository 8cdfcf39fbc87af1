"""What callers of a service may not have by what they send: files and variables of its machine, and more than the service allows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from access_world import PLAIN, World, world
from run_tasks import plan, step

from replan.config import Settings
from replan.config.sections import Approval, BudgetSection
from replan.run.access import requests as r
from replan.run.access.callers import Caller
from replan.testing import FakeTool

pytestmark = pytest.mark.anyio

ANN = Caller("key:ann", "acme", frozenset({"read", "run"}))
SIGN_IN = FakeTool(
    parameters={"type": "object", "properties": {"password": {"type": "string", "format": "password"}}}
)


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[World]:
    settings = Settings(
        budget=BudgetSection(max_llm_calls=5, max_tool_calls=7), approval=Approval(mode="destructive")
    )
    async with world(tmp_path / "log.db", {"sign_in": SIGN_IN}, settings=settings) as made:
        yield made


@pytest.mark.parametrize("given", ["file:/etc/hostname", "env:HOME", "file:~/.ssh/id_rsa", "literal"])
async def test_a_secret_of_a_caller_is_that_text_and_no_file_or_variable_of_the_service(
    there: World, given: str
) -> None:
    wanted = plan(step("a", "sign_in", parameters={"password": "${metadata.password}"}))
    options = r.SubmitOptions(plan=wanted, evaluation="steps")
    request = r.SubmitRequest.model_validate(
        {"task_description": "sign in", "options": options, "secrets": {"password": given}}
    )
    made = await there.cases.submit(ANN, request)
    assert (await there.done(made.task_id, ANN)).succeeded
    (call,) = there.source.calls
    assert call.parameters == {"password": given}


@pytest.mark.parametrize(
    ("asked", "gets"),
    [
        ({"max_llm_calls": 100, "max_tool_calls": 100}, (5, 7, "destructive")), ({"max_llm_calls": 1}, (1, 7, "destructive")),
        ({"approval": "never"}, (5, 7, "destructive")), ({"approval": "all"}, (5, 7, "all")),
    ],
)  # fmt: skip
async def test_a_caller_may_ask_for_less_than_the_service_allows_and_never_for_more(
    there: World, asked: dict[str, Any], gets: tuple[int, int, str]
) -> None:
    options = r.SubmitOptions(plan=PLAIN, evaluation="steps", **asked)
    made = await there.cases.submit(ANN, r.SubmitRequest(task_description="x", options=options))
    forked = await there.cases.fork(
        ANN,
        made.task_id,
        r.ForkRequest(hint="more", options=r.SubmitOptions(max_llm_calls=10**6, approval="never")),
    )
    for task_id in (made.task_id, forked.task_id):
        policy = (await there.replan.service.state(task_id)).policy
        assert (policy.budget.max_llm_calls, policy.budget.max_tool_calls, policy.approval) == gets


async def test_nothing_that_a_caller_sends_along_changes_whose_task_it_is_or_who_sent_it(
    there: World,
) -> None:
    context = {
        "tenant": "globex",
        "by": "key:boss",
        "policy": {"approval": "never"},
        "settings": {"llm": {"endpoint": "http://evil"}},
    }
    request = r.SubmitRequest.model_validate(
        {
            "task_description": "x",
            "context": context,
            "metadata": {"tenant": "globex", "by": "key:boss"},
            "options": {"plan": PLAIN, "evaluation": "steps"},
        }
    )
    made = await there.cases.submit(ANN, request)
    (first, *_) = await there.cases.events(ANN, made.task_id)
    assert (first.event.tenant, first.event.by) == ("acme", "key:ann")  # type: ignore[union-attr]
    assert (await there.replan.service.state(made.task_id)).policy.approval == "destructive"
    assert "evil" not in str(first.event.settings)  # type: ignore[union-attr]
