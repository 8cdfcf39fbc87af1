"""The pages beside a task's: what waits, a new task, the tools; and that every view of them can be used by everybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from people_world import Opens, World, ask, awake, mail, people, until
from shop import HOSTILE, LETTER, step

AXE = (Path(__file__).parent / "vendor" / "axe" / "axe.min.js").read_text("utf-8")
FOUND = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
  .map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 200)).slice(0, 3)])"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with people(tmp_path_factory.mktemp("places")) as found:
        yield found


def test_what_waits_is_answered_in_one_place_and_stays_where_it_is(world: World, open_page: Opens) -> None:
    paying = world.begin([mail()], "Write to Rome")
    asking = world.begin([ask("colour", "Which colour?", choices=["red", "green"])], "Paint it")
    page = open_page(f"{world.served.url}/#/waiting")
    rows = page.locator(".wait-rows > li")
    until(page, lambda: rows.count() == 2)
    until(page, lambda: page.inner_text("nav .count") == "2")
    order = page.locator(".wait-what b").all_inner_texts()
    assert sorted(order) == ["May send_mail be called?", "Which colour?"]
    page.get_by_role("listitem").filter(has_text="Write to Rome").get_by_role("button", name="Answer").click()
    page.wait_for_selector(".ask .call")
    assert page.inner_text(".ask-title") == "Send the letter?"
    awake(page, "Approve").click()
    assert world.result(paying).succeeded
    page.get_by_role("listitem").filter(has_text="Paint it").get_by_role("button", name="Answer").click()
    page.get_by_label("green").check()
    awake(page, "Send the answer").click()
    assert world.result(asking).succeeded
    until(page, lambda: page.locator(".wait-rows > li.over").count() == 2)
    assert page.locator(".wait-what b").all_inner_texts() == order


def test_a_task_is_looked_at_before_it_is_begun(world: World, open_page: Opens) -> None:
    page = open_page(f"{world.served.url}/#/new")
    awake(page, "Begin").click()
    until(page, lambda: "This is needed." in page.inner_text("main"))
    page.get_by_label("What is to be done?").fill("Convert the rates")
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("its steps alone").check()
    page.get_by_label("At most: tool calls").fill("many")
    until(page, lambda: "has to be a whole number" in page.inner_text("main"))
    page.get_by_label("At most: tool calls").fill("20")
    awake(page, "Show what it would do").click()
    page.wait_for_selector(".preview")
    told = page.inner_text(".preview")
    assert "Rates first, then the letter." in told
    assert "Nothing: it only reads." in told
    assert "after Get exchange rates, Read open orders" in told
    tasks = len(world.served.do(world.served.replan.tasks()))
    awake(page, "Begin with this plan").click()
    until(page, lambda: "#/task/" in page.url)
    assert len(world.served.do(world.served.replan.tasks())) == tasks + 1
    task_id = page.url.rpartition("/")[2]
    (made,) = world.said(task_id, "plan_generated")
    assert [one.step_id for one in made.plan.steps] == ["orders", "rates", "euros"]
    assert world.said(task_id, "llm_call_started")[:1] == [] or made.plan.reasoning
    (asked,) = world.said(task_id, "task_submitted")
    assert (asked.policy.evaluation, asked.policy.budget.max_tool_calls) == ("steps", 20)


def test_a_plan_that_cannot_be_run_is_told_by_its_rules(world: World, open_page: Opens) -> None:
    page = open_page(f"{world.served.url}/#/new", expect_errors=True)
    page.get_by_label("What is to be done?").fill("Do it")
    page.get_by_text("As JSON: data").click()
    page.get_by_label("Plan (JSON)").fill('{"steps": [{"step_id": "a", "name": "A", "tool": "nothing"}]}')
    awake(page, "Begin").click()
    until(page, lambda: page.locator(".wrong li").count() > 0)
    assert "nothing" in page.inner_text(".wrong")
    page.goto(f"{world.served.url}/#/tools")
    page.wait_for_selector("table.tasks")
    page.goto(f"{world.served.url}/#/new")
    until(
        page, lambda: page.get_by_label("What is to be done?").input_value() == "Do it"
    )  # what was typed stays


def test_tools_say_how_they_have_done(world: World, open_page: Opens) -> None:
    world.result(world.begin([step("orders", "Read open orders", "read_orders")]))
    page = open_page(f"{world.served.url}/#/tools")
    row = page.get_by_role("row").filter(has_text="read_orders")
    assert "only reads" in row.inner_text()
    assert "100%" in row.inner_text()
    page.get_by_role("searchbox").fill("letter")
    until(page, lambda: page.locator("table.tasks tbody tr").count() == 1)
    page.get_by_role("link", name="send_mail").click()
    page.wait_for_selector("main.tool")
    told = page.inner_text("main")
    assert "Send a letter." in told
    assert "subject" in told
    page.goto(f"{world.served.url}/#/tools/nothing")
    until(page, lambda: "There is no such tool here" in page.inner_text("main"))


@pytest.mark.parametrize(("scheme", "narrow"), [("light", False), ("dark", True)])
def test_axe_finds_nothing_where_people_act(
    world: World, open_page: Opens, scheme: str, narrow: bool
) -> None:
    each = {**LETTER, "subject": "Order ${item.order}"}
    many = world.begin([
        step("orders", HOSTILE, "read_orders"),
        step("mail", "Write to all", "send_mail", "orders", for_each="${orders}", parameters=each),
    ])  # fmt: skip
    party = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}, "sure": {"type": "boolean"}, "list": {"type": "array", "items": {"type": "string"}}}}  # fmt: skip
    asked = world.begin([ask("party", "Who comes?", schema=party)])
    page = open_page(narrow=narrow, color_scheme=scheme, bypass_csp=True)
    wide = 400 if narrow else 1360

    def fine(what: str) -> None:
        page.add_script_tag(content=AXE)
        assert (what, page.evaluate(FOUND)) == (what, [])
        assert page.evaluate("document.documentElement.scrollWidth") <= wide, what

    def go(path: str, there: str) -> None:
        page.goto("about:blank")
        page.goto(f"{world.served.url}/{path}")
        page.wait_for_selector(there)

    go(f"#/task/{many}", ".ask .call")
    awake(page, "Approve")
    fine("approve")
    awake(page, "Edit first").click()
    fine("edit")
    page.get_by_label("subject").fill("Another")
    awake(page, "See the changes").click()
    fine("changes")
    page.get_by_role("button", name="All calls of send_mail at once").click()
    page.wait_for_selector(".many-table")
    fine("many")
    go(f"#/task/{asked}", ".ask")
    page.get_by_role("button", name="Add").click()
    awake(page, "Send the answer").click()
    fine("question")
    if narrow:
        page.get_by_role("button", name="What you can do…").click()
    page.get_by_role("button", name="Cancel…").click()
    fine("cancel")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    go("#/waiting", ".wait-row")
    page.get_by_role("button", name="Answer").first.click()
    page.wait_for_selector(".ask")
    fine("waiting")
    for path, there in (
        ("#/tools", "table.tasks"),
        ("#/tools/send_mail", "main.tool"),
        ("#/new", "#new-text"),
    ):
        go(path, there)
        fine(path)
    for task_id in (many, asked):
        world.served.do(world.served.replan.cancel(task_id))
