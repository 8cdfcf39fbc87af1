"""People act in the page: agree, change, step in, end. In a real browser, over a real service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from people_world import NOT_YET, Opens, World, ask, awake, mail, people, until
from shop import BAD, LETTER, step


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with people(tmp_path_factory.mktemp("people")) as found:
        yield found


def test_a_call_is_agreed_to_as_it_is_shown(world: World, open_page: Opens) -> None:
    task_id = world.begin([mail()])
    page = open_page()
    page.add_init_script(NOT_YET)
    page.goto(world.url(task_id))
    page.wait_for_selector(".ask .call")
    assert page.inner_text(".ask-title") == "Send the letter?"
    told = page.inner_text(".ask")
    assert "send_mail · once" in told
    assert LETTER["body"] in told
    button = page.get_by_role("button", name="Approve", exact=True)
    assert button.get_attribute("aria-disabled") == "true"  # nobody has read it yet
    button.dispatch_event("click")
    page.evaluate("document.querySelector('.ask').requestSubmit()")
    page.evaluate(
        "async () => { while (!window.held.length) await new Promise((go) => requestAnimationFrame(go)); }"
    )
    assert page.get_by_text("Sent.").count() == 0
    page.evaluate("() => { window.soon = true; for (const act of window.held.splice(0)) act(); }")
    awake(page, "Approve").click()
    assert world.result(task_id).succeeded
    assert world.sent(task_id) == [LETTER]
    until(page, lambda: page.locator(".ask").count() == 0)


def test_it_is_agreed_to_with_the_keyboard_alone(world: World, open_page: Opens) -> None:
    task_id = world.begin([mail(), mail("second", subject="Another one")])
    page = open_page(world.url(task_id))
    page.wait_for_selector(".ask")
    awake(page, "Approve")
    for _ in range(80):
        page.keyboard.press("Tab")
        if (
            page.evaluate("document.activeElement.closest('.ask') && document.activeElement.textContent")
            == "Approve"
        ):
            break
    first = page.inner_text(".ask")
    page.keyboard.press("Enter")
    until(page, lambda: page.inner_text(".ask") != first)
    until(page, lambda: page.evaluate("document.activeElement.className") == "ask-title")  # of the next one
    awake(page, "Approve")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+Enter")
    assert world.result(task_id).succeeded
    assert len(world.sent(task_id)) == 2


def test_it_is_changed_by_fields_or_json_and_shown_before_it_is_sent(world: World, open_page: Opens) -> None:
    task_id = world.begin([mail()])
    page = open_page(world.url(task_id))
    awake(page, "Edit first").click()
    page.get_by_label("subject").fill("Your order is very late")
    page.get_by_role("button", name="As JSON").click()
    written = page.get_by_label("Parameters as JSON")
    value = json.loads(written.input_value())
    assert value == {**LETTER, "subject": "Your order is very late"}
    written.fill('{"to": oops')
    until(page, lambda: "line 1" in page.inner_text(".ask"))
    assert page.get_by_role("button", name="See the changes").get_attribute("aria-disabled") == "true"
    written.fill(json.dumps({**value, "to": "b@example.org"}))
    awake(page, "See the changes").click()
    changes = page.inner_text(".changes")
    assert "very" in changes
    assert "body" not in changes
    awake(page, "Approve with these changes").click()
    assert world.result(task_id).succeeded
    assert world.sent(task_id) == [{**LETTER, "subject": "Your order is very late", "to": "b@example.org"}]
    (said,) = world.said(task_id, "approval_resolved")
    assert said.parameters == {"subject": "Your order is very late", "to": "b@example.org"}


def test_a_no_has_its_reason(world: World, open_page: Opens) -> None:
    task_id = world.begin([mail()])
    page = open_page(world.url(task_id))
    awake(page, "Reject…").click()
    assert awake(page, "Back")
    assert page.get_by_role("button", name="Reject", exact=True).get_attribute("aria-disabled") == "true"
    page.get_by_label("Why not?").fill("not to her")
    awake(page, "Reject").click()
    said = until(page, lambda: world.said(task_id, "approval_resolved"))
    assert [(one.approved, one.reason) for one in said] == [(False, "not to her")]
    assert world.sent(task_id) == []


def test_whoever_is_slower_can_still_read_it_and_nothing_takes_its_place(
    world: World, open_page: Opens
) -> None:
    task_id = world.begin([mail(), mail("second", subject="Another one")])
    page = open_page(world.url(task_id))
    awake(page, "Approve")
    shown = page.inner_text(".ask .call")
    (first, *_) = [
        one for one in world.said(task_id, "approval_requested") if one.parameters["subject"] in shown
    ]
    world.served.do(world.served.replan.approve(task_id, first.approval_id, by="anna"))
    until(page, lambda: page.locator(".gone-said").count() == 1)
    assert "anna approved this" in page.inner_text(".gone-said")
    assert page.inner_text(".ask .call") == shown
    assert page.get_by_role("button", name="Approve", exact=True).count() == 0
    page.get_by_role("button", name="Go on to the next").click()
    until(page, lambda: page.inner_text(".ask .call") != shown)
    awake(page, "Approve").click()
    assert world.result(task_id).succeeded


def test_an_answer_that_comes_too_late_is_told_by_the_service(world: World, open_page: Opens) -> None:
    task_id = world.begin([mail(), ask("more", "What else?")])
    page = open_page(expect_errors=True)

    def deaf(route: Any) -> None:
        if "event-stream" not in route.request.headers["accept"]:
            route.continue_()

    page.route("**/events**", deaf)  # what comes is not heard
    (asked,) = until(page, lambda: world.said(task_id, "approval_requested"))
    page.goto(world.url(task_id))
    awake(page, "Approve")
    world.served.do(world.served.replan.approve(task_id, asked.approval_id, by="anna"))
    page.get_by_role("button", name="Approve", exact=True).click()
    until(page, lambda: page.locator(".ask .wrong").count())
    assert "before by anna" in page.inner_text(".ask .wrong")
    assert LETTER["body"] in page.inner_text(".ask")


def test_many_calls_of_one_tool_are_agreed_to_as_a_table(world: World, open_page: Opens) -> None:
    each = {"to": "${item.customer}@example.org", "subject": "Late", "body": "Order ${item.order}"}
    task_id = world.begin([
        step("orders", "Read open orders", "read_orders"),
        step("mail", "Write to all", "send_mail", "orders", for_each="${orders}", parameters=each),
    ])  # fmt: skip
    page = open_page(world.url(task_id))
    page.get_by_role("button", name="All calls of send_mail at once").click()
    page.wait_for_selector(".many-table")
    assert page.locator(".many-table thead th.mono").all_inner_texts() == ["to", "body"]
    assert "Late" in page.inner_text(".many .call")
    page.get_by_role("checkbox", name="item 2").uncheck()
    awake(page, "Approve 3 calls").click()
    assert world.said(task_id, "approval_resolved") == []  # once more, for what changes something for real
    awake(page, "Yes, approve all 3").click()
    until(page, lambda: len(world.said(task_id, "approval_resolved")) == 3)
    page.get_by_role("checkbox", name="item 2").check()
    page.get_by_role("dialog").get_by_role("button", name="Reject…").click()
    page.get_by_role("dialog").get_by_label("Why not?").fill("she has left")
    awake(page, "Reject one call").click()
    said = until(
        page, lambda: (found := world.said(task_id, "approval_resolved")) and len(found) == 4 and found
    )
    assert [one.reason for one in said if not one.approved] == ["she has left"]


def test_a_task_is_told_paused_resumed_and_cancelled(world: World, open_page: Opens) -> None:
    task_id = world.begin([mail()], "Hold on")
    page = open_page(world.url(task_id))
    page.get_by_role("button", name="Hint…").click()
    page.get_by_role("dialog").get_by_label("Hint").fill("in whole euros")
    page.get_by_role("button", name="Send the hint").click()
    until(page, lambda: [one.hint for one in world.said(task_id, "hint_given")] == ["in whole euros"])
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Reason").fill("lunch")
    page.get_by_role("button", name="Pause the task").click()
    page.get_by_role("button", name="Go on…").first.click()
    page.get_by_role("button", name="Go on", exact=True).click()
    until(page, lambda: world.said(task_id, "resume_requested"))
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_label("Reason").fill("not needed")
    page.get_by_role("button", name="Cancel the task").click()
    assert world.result(task_id).status == "cancelled"
    until(page, lambda: "cancelled" in page.inner_text(".status"))
    assert [one.reason for one in world.said(task_id, "cancel_requested")] == ["not needed"]


def test_a_fork_says_what_is_kept_and_goes_on_in_its_own_page(world: World, open_page: Opens) -> None:
    task_id = world.begin(BAD["steps"], "Convert to euros")
    world.result(task_id)
    page = open_page(world.url(task_id))
    page.get_by_role("button", name="Try again…").click()
    kept = page.inner_text(".kept")
    assert "one finished step" in kept
    assert "Read open orders" in kept
    page.get_by_role("dialog").get_by_label("After event").fill("1")
    until(page, lambda: "0 finished steps" in page.inner_text(".kept"))
    page.get_by_role("dialog").get_by_label("After event").fill("99999")
    assert page.get_by_role("button", name="Make the fork").get_attribute("aria-disabled") == "true"
    page.get_by_role("dialog").get_by_label("After event").fill("")
    page.get_by_role("button", name="Make the fork").click()
    until(page, lambda: task_id not in page.url and "#/task/" in page.url)
    forked = page.url.rpartition("/")[2]
    (made,) = world.said(forked, "task_forked")
    assert (made.origin, made.retry) == (task_id, ("rates",))
