"""Sources that list garbage, cry wolf, or speak at the wrong time: the others, and the loop, go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from catalog_naps import Naps, settled

from replan.core.tools.rules import ToolRule, ToolRules
from replan.core.types import ToolSpec
from replan.ports import ToolCall
from replan.tools import Catalog

pytestmark = pytest.mark.anyio

GOOD = ToolSpec(id="good")


class Odd:
    """A source that lists what the test says, as often as it is asked."""

    name = "odd"

    def __init__(self, listed: Callable[[], Any]) -> None:
        self.listed = listed
        self.asked = 0
        self.changed: Callable[[], None] = lambda: None
        self.watched = 0

    def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed
        self.watched += 1

    async def tools(self) -> Sequence[ToolSpec]:
        self.asked += 1
        found: Sequence[ToolSpec] = self.listed()
        return found

    async def call(self, call: ToolCall) -> Any:
        return call.tool_id

    async def aclose(self) -> None:
        return None


def cut_off() -> Any:
    raise asyncio.CancelledError


def breaking() -> Any:
    yield GOOD
    raise OSError("the line broke")


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        pytest.param(lambda: None, "TypeError", id="nothing"),
        pytest.param(lambda: 7, "TypeError", id="a number"),
        pytest.param(breaking, "the line broke", id="a list that breaks off"),
        pytest.param(cut_off, "cut off", id="a cancellation of its own"),
    ],
)
async def test_a_list_that_is_none_is_reported_and_asked_for_again(
    listed: Callable[[], Any], said: str
) -> None:
    odd, naps = Odd(listed), Naps()
    catalog = Catalog([odd], sleep=naps)
    await catalog.open()
    assert catalog.specs() == []
    assert said in str(catalog.problems[0])
    odd.listed = lambda: [GOOD]
    naps.over.set()
    await settled()
    assert [each.id for each in catalog.specs()] == ["good"]
    assert catalog.problems == []
    await catalog.aclose()


async def test_what_is_no_tool_is_left_out_of_a_list() -> None:
    catalog = Catalog(
        [Odd(lambda: (each for each in (None, GOOD, "add", ToolSpec(id=""), ToolSpec(id="\ud800"))))]
    )
    await catalog.open()
    assert [each.id for each in catalog.specs()] == ["good"]
    assert [each.message for each in catalog.problems] == [
        "left out: a NoneType is not a tool",
        "left out: a str is not a tool",
        "left out: '' is not a name",
        "left out: '\\ud800' is not a name",
    ]
    await catalog.aclose()


async def test_patterns_that_cannot_be_matched_are_told_once_a_tool_and_the_tool_stays() -> None:
    def given(pattern: str, names: str = "^x$") -> ToolSpec:
        schema = {
            "properties": {"p": {"pattern": pattern}},
            "patternProperties": {names: {"pattern": pattern}},
        }
        return ToolSpec(id=f"t{len(pattern)}", parameters=schema, output_schema={"pattern": pattern})

    specs = [given(r"^\p{L}+$"), given(r"^(?<year>\d+)$"), given(r"^[\w-\.]+@x$"), given("^(?=.*x)y", "(")]
    catalog = Catalog([Odd(lambda: specs)])
    try:
        await catalog.open()
        assert len(catalog.specs()) == 4
        (told,) = catalog.problems
        assert told.tool == "t9"
        assert told.message.startswith("not checked: '(', '^(?=.*x)y' are no patterns that can be matched")
    finally:
        await catalog.aclose()


async def test_a_source_whose_list_changes_each_time_it_is_listed_is_asked_ever_more_rarely() -> None:
    naps = Naps()

    def listed() -> Any:
        odd.changed()
        return [GOOD]

    odd = Odd(listed)
    catalog = Catalog([odd], sleep=naps)
    await catalog.open()
    await settled()
    asked = odd.asked
    assert naps.secs == [1.0]
    for _ in range(8):
        naps.over.set()
        await settled()
    assert naps.secs == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert odd.asked == asked + 8
    await catalog.aclose()


async def test_what_is_kept_of_tools_that_are_gone_is_bounded() -> None:
    odd = Odd(
        lambda: [ToolSpec(id="stays"), *(ToolSpec(id=f"t{odd.asked}_{n}") for n in range(50))],
    )
    rules = ToolRules(rules=(("*", ToolRule(max_concurrent=1)),))

    async def at_once(secs: float) -> None:
        await asyncio.sleep(0)

    catalog = Catalog([odd], rules=rules, sleep=at_once)
    try:
        await catalog.open()
        first = catalog.gate("stays")
        while odd.asked < 200:
            odd.changed()
            for _ in range(5):
                await asyncio.sleep(0)
        assert len(catalog.specs()) == 51
        assert catalog.gate("stays") is first is not None
        assert catalog.resolve("t1_0") is None
        sizes = [len(each) for each in (catalog._given, catalog._gates, catalog._away)]
        assert max(sizes) <= 1200
    finally:
        await catalog.aclose()


async def test_a_source_that_speaks_after_the_end_is_not_asked() -> None:
    odd = Odd(lambda: [GOOD])
    catalog = Catalog([odd])
    await catalog.open()
    await catalog.aclose()
    odd.changed()
    await settled()
    assert odd.asked == 1
    await catalog.open()
    odd.changed()
    await settled()
    assert odd.asked == 3
    assert odd.watched == 1, "or each change would be told twice"
    await catalog.aclose()


async def test_a_change_may_be_told_from_another_thread() -> None:
    odd = Odd(lambda: [GOOD])
    catalog = Catalog([odd])
    news = asyncio.Event()
    await catalog.open()
    catalog.watch(news.set)
    odd.listed = lambda: [GOOD, ToolSpec(id="new")]
    thread = threading.Thread(target=odd.changed)
    thread.start()
    await news.wait()
    thread.join()
    assert [each.id for each in catalog.specs()] == ["good", "new"]
    await catalog.aclose()


async def test_a_source_that_cannot_be_watched_is_used_all_the_same() -> None:
    class Deaf(Odd):
        def watch(self, changed: Callable[[], None]) -> None:
            raise OSError("no channel")

    catalog = Catalog([Deaf(lambda: [GOOD])])
    await catalog.open()
    assert [each.id for each in catalog.specs()] == ["good"]
    assert "changes of its list will not be noticed: OSError: no channel" in str(catalog.problems[0])
    await catalog.aclose()


async def test_the_id_of_a_tool_that_is_away_means_no_other_tool() -> None:
    mail, chat = Odd(lambda: [ToolSpec(id="send")]), Odd(list)
    mail.name, chat.name = "mail", "chat"
    catalog = Catalog([mail, chat])
    await catalog.open()
    chat.listed = lambda: [ToolSpec(id="send")]
    mail.listed = list
    mail.changed()
    chat.changed()
    await settled()
    assert [each.id for each in catalog.specs()] == ["chat.send"]
    assert catalog.resolve("send") is None, "a plan that says so means that of the mail"
    assert catalog.nearest("send") == ["chat.send"]
    await catalog.aclose()


async def test_a_name_that_a_source_is_known_to_have_means_no_like_one_while_it_is_down() -> None:
    def down() -> Any:
        raise OSError("down")

    mail, chat = Odd(down), Odd(lambda: [ToolSpec(id="Send")])
    mail.name, chat.name = "mail", "chat"
    catalog = Catalog([mail, chat], sleep=Naps())
    await catalog.open({"mail": ["send"]})
    assert catalog.resolve("send") is None
    assert catalog.resolve("Send") is not None
    await catalog.aclose()


async def test_the_id_of_a_tool_that_is_denied_means_no_like_one() -> None:
    mail, chat = Odd(lambda: [ToolSpec(id="send")]), Odd(lambda: [ToolSpec(id="Send")])
    mail.name, chat.name = "mail", "chat"
    catalog = Catalog([mail, chat], rules=ToolRules(deny=("mail.*",)))
    await catalog.open()
    assert [each.id for each in catalog.specs()] == ["Send"]
    assert catalog.resolve("send") is None
    await catalog.aclose()
