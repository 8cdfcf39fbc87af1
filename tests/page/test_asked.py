"""What the page asks, after a cut, and of values that mean harm. In a real browser, over a real service."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from people_world import HIDDEN, Opens, World, ask, awake, mail, people, until
from shop import step


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with people(tmp_path_factory.mktemp("people")) as found:
        yield found


def test_questions_are_answered_by_their_kind(world: World, open_page: Opens) -> None:
    party = {
        "type": "object", "required": ["guests"],
        "properties": {"guests": {"type": "integer", "minimum": 1, "title": "Guests"}, "wishes": {"type": "array", "items": {"type": "string"}}},
    }  # fmt: skip
    task_id = world.begin([
        ask("colour", "Which colour?", choices=["red", "green"]),
        ask("sure", "Are you sure?", "colour", kind="yes/no"),
        ask("weight", "How heavy?", "sure", kind="number"),
        ask("party", "Who comes?", "weight", schema=party),
        step("paint", "Paint it", "flaky", "colour", parameters={"name": "${colour}"}),
    ])  # fmt: skip
    page = open_page(world.url(task_id))

    def asks(text: str) -> None:
        until(page, lambda: page.locator(".ask .lead").count() and page.inner_text(".ask .lead") == text)

    asks("Which colour?")
    assert "go by your answer" in page.inner_text(".ask")
    awake(page, "Send the answer").click()
    assert "This is needed." in page.inner_text(".ask")
    page.get_by_label("green").check()
    awake(page, "Send the answer").click()
    asks("Are you sure?")
    page.get_by_label("Yes").check()
    awake(page, "Send the answer").click()
    asks("How heavy?")
    page.get_by_label("Your answer").fill("heavy")
    awake(page, "Send the answer").click()
    until(page, lambda: "has to be a number" in page.inner_text(".ask"))
    page.get_by_label("Your answer").fill("2.50")
    awake(page, "Send the answer").click()
    asks("Who comes?")
    page.get_by_label("Guests").fill("3")
    page.get_by_role("button", name="Add").click()
    page.get_by_label("Item 1", exact=True).fill("music")
    awake(page, "Send the answer").click()
    result = world.result(task_id)
    given = {one.step_id: one.output for one in result.steps}
    assert result.succeeded
    assert (given["colour"], given["sure"], given["weight"]) == ("green", True, 2.5)
    assert given["party"] == {"guests": 3, "wishes": ["music"]}


def test_it_goes_on_after_a_cut_and_does_nothing_meanwhile(world: World, open_page: Opens) -> None:
    task_id = world.begin([ask("first", "What first?"), ask("next", "What next?", "first")])
    page = open_page(world.url(task_id), expect_errors=True)
    until(page, lambda: page.inner_text(".ask .lead") == "What first?")
    page.get_by_label("Your answer").fill("a draft")
    page.context.set_offline(True)
    until(page, lambda: "Reconnecting" in page.inner_text(".link-state"))
    assert page.get_by_role("button", name="Send the answer").get_attribute("aria-disabled") == "true"
    assert page.get_by_label("Your answer").input_value() == "a draft"
    answered = httpx2.post(
        f"{world.served.url}/api/v1/tasks/{task_id}/questions/first", json={"text": "elsewhere"}
    )
    assert answered.status_code == 200
    page.context.set_offline(False)
    page.evaluate("document.querySelector('.link-state button')?.click()")
    until(
        page,
        lambda: page.locator(".gone-said").count() and "answered this" in page.inner_text(".gone-said"),
    )
    until(page, lambda: "Go on to the next" in page.inner_text(".ask"))
    page.get_by_role("button", name="Go on to the next").click()
    until(page, lambda: page.inner_text(".ask .lead") == "What next?")
    page.get_by_label("Your answer").fill("that")
    awake(page, "Send the answer").click()
    assert world.result(task_id).succeeded


def test_hostile_values_are_texts_with_their_signs_shown(world: World, open_page: Opens) -> None:
    line = "x" * 20_000
    markup = "<img src=x onerror=alert(1)>"
    task_id = world.begin([{**mail(to=HIDDEN, subject=markup, body=line), "name": markup}], f"Send {markup}")
    page = open_page(world.url(task_id))
    awake(page, "Approve")
    told = page.inner_text(".ask .call")
    assert "U+202E" in told
    assert markup in told
    assert page.locator(".ask .mixed").inner_text().startswith("anna@ex\u0430mple.org")
    assert page.locator("img").count() == 0
    assert len(told) < 2_000
    assert "kB" in told
    page.locator(".ask .call").get_by_role("button", name="all of it").click()
    until(page, lambda: len(page.text_content(".ask .call")) > 20_000)
    assert world.said(task_id, "approval_resolved") == []  # to look at it is no yes
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    world.served.do(world.served.replan.cancel(task_id))
