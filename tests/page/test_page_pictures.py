"""Graph and Gantt within the page of a task, as a service gives it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_world import Served, served

from replan import tool
from replan.testing import ScriptedModel


@tool(effect="reads", volatile=True)
async def look(number: int) -> dict[str, int]:
    """Look it up."""
    return {"number": number}


def plan(count: int, *, first: str = "look") -> dict[str, Any]:
    steps = [
        {
            "step_id": f"s{number}",
            "name": f"Look {number}",
            "tool": "look" if number >= 4 else first,
            "parameters": {"number": number},
            "dependencies": [f"s{number - 4}"] if number >= 4 else [],
        }
        for number in range(count)
    ]
    return {"steps": steps}


class Gate:
    """Calls of `hold` wait here."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def let_go(self) -> None:
        self.open.set()


GATE = Gate()


@tool(effect="reads", volatile=True)
async def hold(number: int) -> dict[str, int]:
    """Look it up once it may be looked up."""
    await GATE.open.wait()
    return {"number": number}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("pictures")
    with served(folder, tools=[look, hold], model=ScriptedModel([])) as up:
        yield up


@pytest.fixture(scope="module")
def tasks(service: Served) -> dict[int, str]:
    """Tasks that have ended, by how many steps they have."""
    done = {}
    for count in (12, 200):
        result = service.do(service.replan.run("look them up", plan=plan(count), evaluation="steps"))
        done[count] = result.task_id
    return done


def opened(open_page: Any, service: Served, task_id: str, more: str = "", **how: Any) -> Any:
    page = open_page(f"{service.url}/#/task/{task_id}?{more}", **how)
    page.wait_for_selector(".picture svg [data-id], .picture svg [data-row]")
    return page


def test_a_task_begins_with_its_graph_over_its_time(
    open_page: Any, service: Served, tasks: dict[int, str]
) -> None:
    page = opened(open_page, service, tasks[12])
    assert page.locator(".both-graph .card").count() == 12
    assert page.locator(".both-time .row").count() >= 8
    page.locator('[data-id="s5"]').click()
    page.wait_for_function("() => location.hash.includes('step=s5')")
    assert page.locator("#panel-title").inner_text() == "Look 5"
    assert "selected" in page.locator('[data-row="s5"]').get_attribute("class")
    page.get_by_role("tab", name="Time").click()
    page.wait_for_selector(".picture.time")
    assert "selected" in page.locator('[data-row="s5"]').get_attribute("class")


def test_what_is_looked_for_is_found_one_after_the_other(
    open_page: Any, service: Served, tasks: dict[int, str]
) -> None:
    page = opened(open_page, service, tasks[12])
    page.keyboard.press("/")
    page.keyboard.type("look 1")
    page.keyboard.press("Enter")
    page.wait_for_function("() => /step=s1(&|$)/.test(location.hash)")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('step=s10')")
    page.keyboard.press("Shift+Enter")
    page.wait_for_function("() => /step=s1(&|$)/.test(location.hash)")
    assert "dim" in page.locator('[data-id="s2"]').get_attribute("class")


def test_groups_are_opened_by_the_address(open_page: Any, service: Served, tasks: dict[int, str]) -> None:
    page = opened(open_page, service, tasks[200])
    assert page.locator(".graph .group").count() > 5
    page.locator(".graph .group").first.click()
    page.wait_for_function("() => location.hash.includes('open=L')")
    page.wait_for_selector(".graph .opened")
    page.get_by_label("Group by").select_option("none")
    page.wait_for_function("() => !document.querySelector('.graph .group')")
    page.reload()
    page.wait_for_selector(".graph .card")
    assert page.locator(".graph .group").count() == 0


def test_the_line_between_the_two_is_moved_by_keys(
    open_page: Any, service: Served, tasks: dict[int, str]
) -> None:
    page = opened(open_page, service, tasks[200])
    line = page.get_by_role("separator")
    before = int(line.get_attribute("aria-valuenow"))
    line.press("ArrowUp")
    assert int(line.get_attribute("aria-valuenow")) > before
    line.press("Enter")
    assert not page.locator(".both-time").is_visible()
    page.reload()
    page.wait_for_selector(".graph .card")
    assert not page.locator(".both-time").is_visible()
    page.get_by_role("separator").press("Enter")
    page.wait_for_selector(".both-time .row")


def test_a_range_of_time_narrows_the_log(open_page: Any, service: Served, tasks: dict[int, str]) -> None:
    page = opened(open_page, service, tasks[12], "pane=time")
    box = page.locator(".time-scroll").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 260, box["y"] + 60, steps=4)
    page.mouse.up()
    page.wait_for_function("() => location.hash.includes('range=')")
    page.get_by_role("tab", name="Log").click()

    def count() -> int:
        return int(re.sub(r"\D", "", page.locator(".log-bar .num").last.inner_text()))

    few = count()
    page.get_by_role("button", name="show all times").click()
    page.wait_for_function("() => !location.hash.includes('range=')")
    assert few < count()


def test_on_a_narrow_page_each_has_the_whole_of_it(
    open_page: Any, service: Served, tasks: dict[int, str]
) -> None:
    page = opened(open_page, service, tasks[12], "pane=graph", narrow=True)
    assert page.locator(".both-time").count() == 0
    sizes = page.evaluate(
        """() => [document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight,
             document.querySelector(".picture").getBoundingClientRect().bottom - document.querySelector(".bottom-tabs").getBoundingClientRect().top]"""
    )
    assert max(sizes) <= 1
    page.locator('[data-id="s5"]').click()
    page.wait_for_selector(".sheet #panel-title")


def test_in_chinese_it_speaks_chinese(open_page: Any, service: Served, tasks: dict[int, str]) -> None:
    page = opened(open_page, service, tasks[12], locale="zh-CN")
    assert page.locator(".graph-tool").all_inner_texts() == ["+", "−", "适应", "整理"]
    page.get_by_label("语言").select_option("en")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.graph-tool')].some((one) => one.textContent === 'Fit')"
    )


def test_while_a_task_runs_nothing_on_its_page_is_pushed_about(open_page: Any, service: Served) -> None:
    task_id = service.do(
        service.replan.submit("look them up", plan=plan(60, first="hold"), evaluation="steps")
    )
    page = opened(open_page, service, task_id)
    page.wait_for_selector(".graph .s-running")
    page.evaluate(
        """() => {
          window.shifted = 0;
          window.by = [];
          new PerformanceObserver((list) => {
            for (const one of list.getEntries()) {
              const nodes = one.sources.map(({ node }) => (node?.nodeType === 3 ? node.parentNode : node)).filter(Boolean);
              // What is said beside it may change: there one thing follows another.
              if (nodes.some((node) => node.closest(".side"))) continue;
              window.shifted += one.value;
              window.by.push([one.value, ...nodes.map((node) => `${node.nodeName} ${node.className} ${node.textContent.slice(0, 40)}`)]);
            }
          }).observe({ type: "layout-shift" });
          const of = (card) => card.getAttribute("transform");
          window.places = Object.fromEntries([...document.querySelectorAll(".graph .card")].map((card) => [card.dataset.id, of(card)]));
        }"""
    )
    service.do(GATE.let_go())
    page.wait_for_selector(".badge.s-done")
    shifted, by, moved = page.evaluate(
        """() => [window.shifted, window.by, [...document.querySelectorAll(".graph .card")]
             .filter((card) => window.places[card.dataset.id] && window.places[card.dataset.id] !== card.getAttribute("transform")).length]"""
    )
    assert shifted < 0.02, by
    assert moved == 0
