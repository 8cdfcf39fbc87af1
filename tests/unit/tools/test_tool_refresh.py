"""Sources that come late, come back, or change their list; and the ids that stay the same through it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from catalog_naps import Naps, settled

from replan.core.tools.rules import ToolRule, ToolRules
from replan.core.types import ToolSpec
from replan.ports import ToolCall, ToolProblem
from replan.tools import Catalog

pytestmark = pytest.mark.anyio


class Changing:
    """A source whose list the test changes. `error`: what listing raises."""

    def __init__(self, name: str, *ids: str, error: Exception | None = None) -> None:
        self.name = name
        self.ids = ids
        self.error = error
        self.listed = 0
        self.told: list[ToolProblem] = []
        self.changed: Callable[[], None] = lambda: None
        self.held: asyncio.Event | None = None

    def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed

    def problems(self) -> Sequence[ToolProblem]:
        return self.told

    async def tools(self) -> Sequence[ToolSpec]:
        self.listed += 1
        if self.held is not None:
            await self.held.wait()
        if self.error is not None:
            raise self.error
        return [ToolSpec(id=each) for each in self.ids]

    async def call(self, call: ToolCall) -> Any:
        return [self.name, call.tool_id]

    async def aclose(self) -> None:
        return None


def ids(catalog: Catalog) -> list[str]:
    return [each.id for each in catalog.specs()]


async def test_a_source_that_is_down_is_reported_tried_again_and_taken_in_when_it_comes() -> None:
    down, naps = Changing("b", "y", error=ConnectionRefusedError("nobody there")), Naps()
    catalog = Catalog([Changing("a", "x"), down], sleep=naps)
    news: list[int] = []
    catalog.watch(lambda: news.append(1))
    await catalog.open()
    assert ids(catalog) == ["x"]
    assert "nobody there" in str(catalog.problems[0])
    for _ in range(8):
        naps.over.set()
        await settled()
    assert naps.secs == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    down.error = None
    heard = len(news)
    naps.over.set()
    await settled()
    assert ids(catalog) == ["x", "y"]
    assert catalog.problems == []
    assert len(news) == heard + 1
    await catalog.aclose()


async def test_a_slow_source_is_not_waited_for_but_still_comes() -> None:
    slow = Changing("slow", "late")
    slow.held = asyncio.Event()
    catalog = Catalog([Changing("a", "x"), slow], list_timeout_secs=0.02)
    await catalog.open()
    assert ids(catalog) == ["x"]
    assert "did not list its tools within 0.02 s" in str(catalog.problems[0])
    slow.held.set()
    await settled()
    assert ids(catalog) == ["x", "late"]
    assert catalog.problems == []
    assert slow.listed == 1
    await catalog.aclose()


async def test_a_changed_list_is_taken_in_and_a_change_meanwhile_is_not_lost() -> None:
    source = Changing("a", "x")
    catalog = Catalog([source])
    await catalog.open()
    source.held = asyncio.Event()
    source.ids = ("x", "y")
    source.changed()
    await settled()
    source.ids = ("y", "z")
    source.changed()  # while it is being listed
    source.changed()
    source.held.set()
    await settled()
    assert ids(catalog) == ["y", "z"]
    assert source.listed == 3
    await catalog.aclose()


async def test_a_source_that_cannot_be_listed_anew_keeps_what_it_had() -> None:
    source, naps = Changing("a", "x"), Naps()
    catalog = Catalog([source], sleep=naps)
    await catalog.open()
    source.error = OSError("gone")
    source.changed()
    await settled()
    assert ids(catalog) == ["x"]
    assert "gone; what it had before is kept" in str(catalog.problems[0])
    await catalog.aclose()


async def test_a_tool_keeps_its_id_when_another_source_brings_the_same_name_later() -> None:
    first, second, naps = Changing("a", "x"), Changing("b", "x", error=OSError("down")), Naps()
    catalog = Catalog([first, second], sleep=naps)
    await catalog.open()
    assert ids(catalog) == ["x"]
    second.error = None
    naps.over.set()
    await settled()
    assert ids(catalog) == ["x", "b.x"]
    assert await catalog.call(ToolCall("x", {}, "k")) == ["a", "x"]
    assert await catalog.call(ToolCall("b.x", {}, "k")) == ["b", "x"]
    first.ids = ()
    first.changed()
    await settled()
    assert ids(catalog) == ["b.x"]
    first.ids = ("x",)
    first.changed()
    await settled()
    assert ids(catalog) == ["x", "b.x"], "and it has it again when it comes back"
    await catalog.aclose()


async def test_ids_are_the_same_in_a_process_that_finds_one_of_the_sources_down() -> None:
    both = Catalog([Changing("a", "x"), Changing("b", "x", "y")])
    await both.open()
    assert ids(both) == ["a.x", "b.x", "y"]
    naps = Naps()
    second = Changing("b", "x", "y", error=OSError("down"))
    later = Catalog([Changing("a", "x"), second], sleep=naps)
    await later.open(both.remembered)
    assert ids(later) == ["a.x"], "a plan that says a.x still means it"
    second.error = None
    naps.over.set()
    await settled()
    assert ids(later) == ["a.x", "b.x", "y"]
    await both.aclose()
    await later.aclose()


async def test_a_tool_is_found_by_its_source_and_name_whatever_its_id() -> None:
    catalog = Catalog([Changing("a", "x")])
    await catalog.open()
    found = catalog.resolve("a.x")
    assert found is not None
    assert found.id == "x"
    await catalog.aclose()


async def test_what_a_source_left_out_is_reported() -> None:
    source = Changing("a", "x")
    source.told = [ToolProblem("its schema is bad", "y")]
    catalog = Catalog([source])
    await catalog.open()
    assert [str(problem) for problem in catalog.problems] == ["a: y: its schema is bad"]
    await catalog.aclose()


async def test_the_user_decides_over_what_sources_say() -> None:
    rules = ToolRules(
        deny=("b.*",),
        rules=(
            ("x", ToolRule(effect="reads", requires_approval=True, timeout_secs=3, max_concurrent=1)),
            ("nothing", ToolRule()),
        ),
    )
    catalog = Catalog([Changing("a", "x", "z"), Changing("b", "y")], rules=rules)
    await catalog.open()
    assert ids(catalog) == ["x", "z"]
    x, z = catalog.specs()
    assert (x.effect, x.requires_approval, x.timeout_secs) == ("reads", True, 3)
    assert (z.effect, z.requires_approval) == ("once", False)
    assert catalog.gate("x") is not None
    assert catalog.gate("z") is None
    assert catalog.resolve("y") is None
    assert [str(problem) for problem in catalog.problems] == [
        "tools: the pattern 'nothing' of your configuration fits no tool"
    ]
    await catalog.aclose()
