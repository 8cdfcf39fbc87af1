"""A plan that waits for a yes is shown in the page with what it would do, agreed to, changed, or refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from people_world import Opens, World, awake, mail, people, until
from shop import LETTER, step


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with people(tmp_path_factory.mktemp("reviews"), review_plan=True) as found:
        yield found


def held(world: World) -> str:
    return world.begin([step("orders", "Read open orders", "read_orders"), mail()])


def test_a_plan_is_agreed_to_as_it_is_shown(world: World, open_page: Opens) -> None:
    task_id = held(world)
    page = open_page(world.url(task_id))
    page.wait_for_selector(".review .preview-steps")
    told = page.inner_text(".review")
    assert "Carry out plan 1?" in told
    assert "mail: send_mail (once)" in told
    assert world.said(task_id, "step_started") == []
    awake(page, "Approve the plan").click()
    until(
        page,
        lambda: page.locator(".ask-title").count() and page.inner_text(".ask-title") == "Send the letter?",
    )
    assert [(one.approved, one.plan) for one in world.said(task_id, "plan_reviewed")] == [(True, None)]
    awake(page, "Approve").click()
    assert world.result(task_id).succeeded


def test_another_plan_takes_its_place_once_it_passes_the_checks(world: World, open_page: Opens) -> None:
    task_id = held(world)
    page = open_page(world.url(task_id), expect_errors=True)
    awake(page, "Edit first").click()
    field = page.get_by_label("Plan (JSON)")
    plan = json.loads(field.input_value())
    plan["steps"][1]["tool"] = "nothing"
    field.fill(json.dumps(plan))
    awake(page, "Carry out this plan instead").click()
    until(page, lambda: page.locator(".review .wrong li").count() > 0)
    assert world.said(task_id, "plan_reviewed") == []
    plan["steps"][1] |= {"tool": "send_mail", "parameters": {**LETTER, "subject": "Other"}}
    field.fill(json.dumps(plan))
    until(page, lambda: "Other" in page.inner_text(".review .changes"))
    awake(page, "Carry out this plan instead").click()
    awake(page, "Approve").click()
    assert world.result(task_id).succeeded
    assert world.sent(task_id) == [{**LETTER, "subject": "Other"}]


def test_a_plan_is_refused_where_all_that_waits_stands(world: World, open_page: Opens) -> None:
    task_id = held(world)
    page = open_page(f"{world.served.url}/#/waiting")
    page.get_by_role("button", name="Answer").click()
    awake(page, "Reject…").click()
    page.get_by_label("Why not?").fill("leave them alone")
    awake(page, "Reject").click()
    said = until(page, lambda: world.said(task_id, "plan_reviewed"))
    assert [(one.approved, one.reason) for one in said] == [(False, "leave them alone")]
    assert world.said(task_id, "step_started") == []
