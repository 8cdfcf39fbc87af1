"""The page in a real browser, over a real service: what a person sees, and can find out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from page_world import Served, served
from shop import BAD, GOES, GOOD, HOSTILE, WAITS, Gate, model, tools

Opens = Any
SECS = 15.0
AXE = Path(__file__).parent / "vendor" / "axe" / "axe.min.js"


class World(NamedTuple):
    served: Served
    good: str
    waits: str
    goes: str
    bad: str
    hostile: str

    def task(self, task_id: str, more: str = "") -> str:
        return f"{self.served.url}/#/task/{task_id}{more}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    gate = Gate()
    folder = tmp_path_factory.mktemp("page")
    with served(folder, tools=tools(gate), model=model(), approval="destructive", interactive=True) as found:

        async def begun() -> list[str]:
            replan = found.replan
            ids = [
                await replan.submit(text, plan=plan, evaluation="steps")
                for text, plan in (
                    ("Look at every order", GOOD),
                    ("Write to the customers", WAITS),
                    ("Close the month", GOES),
                    ("Convert to euros", BAD),
                )
            ]
            for task_id in (ids[0], ids[3]):
                await replan.wait(task_id)
            ids.append(
                await replan.submit(
                    f"Ship {HOSTILE}",
                    plan={"steps": [{**GOOD["steps"][0], "name": HOSTILE}]},
                    evaluation="steps",
                )
            )
            await replan.wait(ids[-1])
            return ids

        yield World(found, *found.do(begun()))
        found.do(gate.let_go())


def until(page: Any, holds: str) -> None:
    """Wait until it holds. (Playwright's own way evaluates texts within the page, which its policy forbids.)"""
    ends = time.monotonic() + SECS
    while not page.evaluate(holds):
        assert time.monotonic() < ends, holds
        page.wait_for_timeout(20)


def at(page: Any, selector: str) -> str:
    page.wait_for_selector(selector)
    return str(page.inner_text(selector))


def test_the_list_shows_each_task_and_what_it_waits_for(world: World, open_page: Opens) -> None:
    page = open_page(world.served.url)
    until(page, "document.querySelectorAll('table.tasks tbody tr').length === 5")
    until(page, "document.querySelector('table.tasks').innerText.includes('waits for a yes')")
    rows = page.locator("table.tasks tbody tr").all_inner_texts()
    (waiting,) = [row for row in rows if "Write to the customers" in row]
    assert "waiting" in waiting
    assert "1 of 3" in waiting
    page.get_by_role("button", name="Failed").click()
    until(page, "document.querySelectorAll('table.tasks tbody tr').length === 1")
    assert "Convert to euros" in at(page, "table.tasks tbody")
    assert "state=failed" in page.url


def test_a_failure_is_understood_from_the_page_alone(world: World, open_page: Opens) -> None:
    page = open_page(world.task(world.bad, "?pane=steps"))
    why = at(page, "section[aria-labelledby=why-title]")
    for words in (
        "Why it ended so",
        "HTTP 503 from rates.example",
        "What was tried",
        "What is kept",
        "Nothing was changed",
        "What you can do",
    ):
        assert words in why
    page.locator("main.task").get_by_role("button", name="Get exchange rates", exact=True).first.click()
    tries = at(page, "#panel-body")
    assert "same call again" in tries
    assert tries.count("HTTP 503") >= 2
    assert "step=rates" in page.url
    page.get_by_role("tab", name="Events").click()
    assert "call failed" in at(page, "#panel-body")
    skipped = page.get_by_role("row").filter(has_text="Convert to euros")
    assert "Get exchange rates has failed" in skipped.inner_text()


def test_what_waits_is_shown_as_it_would_be_done(world: World, open_page: Opens) -> None:
    page = open_page(world.task(world.waits))
    asked = at(page, "form.ask")
    assert "send_mail" in asked
    assert "a.rossi@example.org" in asked
    assert page.title().startswith("⏸ 1 · Write to the customers")
    assert at(page, ".sentence") == "One call waits for your yes."


def test_the_log_is_searched(world: World, open_page: Opens) -> None:
    page = open_page(world.task(world.bad, "?pane=log"))
    page.wait_for_selector(".log-row")
    rows = "document.querySelectorAll('.log-row').length"
    before = page.evaluate(rows)
    page.get_by_role("searchbox", name="Search the log").fill("503")
    until(page, f"{rows} > 0 && {rows} < {before}")
    page.get_by_label("Which events").select_option("calls")
    until(
        page,
        "[...document.querySelectorAll('.log-row')].every((row) => row.innerText.includes('call failed'))",
    )
    page.locator(".log-row button").first.click()
    assert "call_failed" in at(page, "section[aria-labelledby=event-title]")
    assert re.search(r"event=\d+", page.url)


def test_a_large_output_is_read_when_it_is_looked_at(world: World, open_page: Opens) -> None:
    page = open_page(world.task(world.good, "?step=much&tab=output"))
    until(page, "document.querySelector('#panel-body')?.innerText.includes('xxxxxxxx')")
    assert "Copy" in at(page, "#panel-body")


def test_texts_of_tools_and_people_are_texts(world: World, open_page: Opens) -> None:
    page = open_page(world.served.url)
    page.on("dialog", lambda dialog: pytest.fail(f"a script of theirs has run: {dialog.message}"))
    page.wait_for_selector("table.tasks")
    for place in ("", "?step=orders", "?pane=log&step=orders&tab=events"):
        page.goto(world.task(world.hostile, place))
        page.wait_for_selector("main.task h1")
        assert "<img src=x onerror=alert(1)>" in page.inner_text("main.task h1")
        assert "U+202E" in page.inner_text("main.task h1")
        assert page.locator("main.task img, main.task script").count() == 0


def test_it_is_live_and_nothing_jumps(tmp_path: Path, open_page: Opens) -> None:
    gate = Gate()
    with served(tmp_path, tools=tools(gate), model=model()) as found:
        task_id = found.do(found.replan.submit("Close the month", plan=GOES, evaluation="steps"))
        page = open_page(f"{found.url}/#/task/{task_id}")
        page.wait_for_selector(".link-state.l-live")
        page.evaluate(
            """() => { window.shift = 0; window.moved = [];
              const name = (node) => `${node?.nodeName}.${node?.className?.baseVal ?? node?.className}`;
              new PerformanceObserver((list) => list.getEntries().forEach((one) => {
                window.shift += one.value;
                window.moved.push(one.sources.map((source) => name(source.node)));
              }))
                .observe({ type: "layout-shift" }); }"""
        )
        until(page, "document.querySelector('.sentence').innerText.includes('Wait for the bank')")
        found.do(gate.let_go())
        page.wait_for_selector(".link-state.l-ended")
        assert "3 of 3 steps done" in at(page, ".facts-line")
        assert page.evaluate("window.shift") <= 0.02, page.evaluate("window.moved")
        assert at(page, ".badge") == "done"


def test_a_stream_that_is_cut_goes_on_without_a_gap(tmp_path: Path, open_page: Opens) -> None:
    gate = Gate()
    with served(tmp_path, tools=tools(gate), model=model()) as found:
        task_id = found.do(found.replan.submit("Close the month", plan=GOES, evaluation="steps"))
        page = open_page(expect_errors=True)
        page.goto(f"{found.url}/#/task/{task_id}?pane=steps")
        page.wait_for_selector(".link-state.l-live")
        page.context.set_offline(True)
        page.wait_for_selector(".link-state.l-reconnecting")
        assert "Wait for the bank" in page.inner_text(".rows")  # what is there stays
        found.do(gate.let_go())
        found.do(found.replan.wait(task_id))
        page.context.set_offline(False)
        page.wait_for_selector(".link-state.l-ended")
        page.goto(f"{found.url}/#/task/{task_id}?pane=log&type=all")
        records = found.do(found.replan.history(task_id))
        until(page, f"document.querySelector('.log-bar').innerText.includes('{len(records)} events')")


def test_pages_behind_others_hold_no_stream_so_that_a_seventh_loads(tmp_path: Path, open_page: Opens) -> None:
    gate = Gate()
    with served(tmp_path, tools=tools(gate), model=model()) as found:
        task_id = found.do(found.replan.submit("Close the month", plan=GOES, evaluation="steps"))
        url = f"{found.url}/#/task/{task_id}"
        first = open_page()
        behind = [first, *(first.context.new_page() for _ in range(5))]
        for page in behind:
            page.add_init_script("Object.defineProperty(document, 'hidden', { get: () => !window.seen })")
            page.goto(url)
            page.wait_for_selector(".link-state.l-asleep")
        seventh = first.context.new_page()
        seventh.goto(url)
        seventh.wait_for_selector(".link-state.l-live")
        first.evaluate("window.seen = true; document.dispatchEvent(new Event('visibilitychange'))")
        first.wait_for_selector(".link-state.l-live")
        found.do(gate.let_go())
        for page in (first, seventh):
            page.wait_for_selector(".link-state.l-ended")


def test_a_person_signs_in_by_a_key_and_is_told_when_it_is_over(tmp_path: Path, open_page: Opens) -> None:
    from replan.server.auth.keys import create_key

    with served(tmp_path, tools=tools(Gate()), model=model(), server={"auth": "keys"}) as found:
        store: Any = found.replan.service.parts.store
        now = found.replan.service.parts.clock.now()
        key, stored = found.do(
            create_key(store.keys(), name="desk", tenant="acme", scopes=["read", "run"], now=now)
        )
        page = open_page(found.url, expect_errors=True)
        page.get_by_label("API key or token").fill("rpk_wrong")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector("[role=alert]")
        page.get_by_label("API key or token").fill(key)
        page.get_by_role("button", name="Sign in").click()
        until(page, "document.querySelector('.empty')?.innerText.includes('There is no task yet')")
        assert page.evaluate("document.cookie") == ""
        found.do(store.keys().revoke_key(stored.key_id, now))
        page.wait_for_selector("form input[name=key]")


def test_by_keys_alone_a_failure_is_found_and_read(world: World, open_page: Opens) -> None:
    page = open_page(world.task(world.bad, "?pane=steps"))
    page.wait_for_selector(".step-row")
    page.keyboard.press("f")
    page.wait_for_selector("#panel-title")
    assert page.inner_text("#panel-title") == "Get exchange rates"
    page.keyboard.press("Enter")
    until(page, "document.activeElement.id === 'panel-title'")
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('#panel-title').innerText === 'Convert to euros'")
    page.keyboard.press("ArrowLeft")
    until(page, "document.querySelector('#panel-title').innerText === 'Get exchange rates'")
    page.keyboard.press("ArrowUp")
    until(page, "document.querySelector('#panel-title').innerText === 'Read open orders'")
    page.keyboard.press("Escape")
    page.wait_for_selector("#panel-title", state="detached")
    page.keyboard.press("/")
    page.keyboard.type("euro")
    until(page, "document.querySelectorAll('.step-row:not(.rows-head)').length === 1")


def test_it_speaks_chinese_by_choice_and_keeps_that(world: World, open_page: Opens) -> None:
    page = open_page(world.task(world.bad, "?pane=steps"))
    page.get_by_label("Language").select_option("zh")
    until(page, "document.documentElement.lang === 'zh-CN'")
    assert at(page, ".badge") == "失败"
    assert "Get exchange rates" in at(page, ".rows")
    page.reload()
    assert at(page, ".badge") == "失败"


def test_on_a_narrow_screen_why_it_ended_comes_first_and_nothing_runs_out_of_it(
    world: World, open_page: Opens
) -> None:
    page = open_page(world.task(world.bad), narrow=True)
    page.wait_for_selector("section[aria-labelledby=why-title]")
    order = page.evaluate(
        "[...document.querySelectorAll('#why-title, .step-row')].map((one) => one.id || 'step')"
    )
    assert order[0] == "why-title"
    assert "step" in order
    for tab in ("Log", "Steps", "Now"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_selector(f".bottom-tabs [aria-selected=true]:has-text('{tab}')")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Get exchange rates", exact=True).first.click()
    assert "same call again" in at(page, ".sheet")


NAMES = ("", "Look at every order", "Write to the customers", "Close the month", "Convert to euros")
"""By their places in the world."""
VIEWS = (
    "list",
    "",
    "?pane=graph",
    "?pane=time",
    "?pane=steps",
    "?pane=log",
    "?step=rates",
    "?step=rates&tab=parameters",
    "?event=5",
    "help",
)


@pytest.mark.parametrize("narrow", [False, True], ids=["1360", "400"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_view(world: World, open_page: Opens, scheme: str, narrow: bool) -> None:
    page = open_page(world.served.url, narrow=narrow, color_scheme=scheme, bypass_csp=True)
    page.wait_for_selector("table.tasks")
    page.add_script_tag(path=AXE)
    found: dict[str, Any] = {}
    for task_id, view in (
        *((world.bad, one) for one in VIEWS),
        (world.waits, "?step=mail"),
        (world.waits, "?step=orders"),
        (world.good, "?step=much&tab=output"),
    ):
        hash_ = {"list": "#/", "help": "#/help"}.get(view, f"#/task/{task_id}{view}")
        page.evaluate(f"location.hash = {hash_!r}")
        page.wait_for_selector({"list": "table.tasks", "help": ".legend"}.get(view, "main.task"))
        if view not in ("list", "help"):
            until(
                page,
                f"[...document.querySelectorAll('main.task h1')].some((one) => one.innerText.includes({NAMES[world.index(task_id)]!r}))",
            )
        said = page.evaluate(
            "async () => (await axe.run({ resultTypes: ['violations'] })).violations.map((one) => [one.id, one.nodes.map((node) => node.html).slice(0, 3)])"
        )
        if said:
            found[hash_] = said
    assert found == {}


def test_one_task_as_a_file_says_the_same_and_asks_nobody(
    world: World, open_page: Opens, tmp_path: Path
) -> None:
    from replan.page.export import page_of
    from replan.run.access.shown import Showing, shown

    found = world.served
    for task_id in (world.bad, world.hostile):
        records = found.do(found.replan.history(task_id))
        file = tmp_path / f"{task_id}.html"
        file.write_text(page_of([shown(record, Showing("user")) for record in records]), "utf-8")
    page = open_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.partition(",")[0][:60]))
    page.goto((tmp_path / f"{world.bad}.html").as_uri() + "#/task/x?pane=steps")
    assert "HTTP 503 from rates.example" in at(page, "section[aria-labelledby=why-title]")
    page.get_by_role("button", name="Get exchange rates", exact=True).first.click()
    assert "same call again" in at(page, "#panel-body")
    page.get_by_label("Language").select_option("zh")
    until(page, "document.querySelector('.badge').innerText === '失败'")
    assert [url for url in asked if not url.startswith(("data:", "file:"))] == []
    assert len([url for url in asked if url.startswith("file:")]) == 1
    page.goto((tmp_path / f"{world.hostile}.html").as_uri())
    assert "<script>alert(2)</script>" in at(page, "main.task h1")
