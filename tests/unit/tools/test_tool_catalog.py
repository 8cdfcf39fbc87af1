"""Many sources as one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from replan.core.types import ToolSpec
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools import Catalog, FunctionSource, tool

pytestmark = pytest.mark.anyio


class Listed:
    """A source that gives these specs and answers with what it was called by."""

    def __init__(self, name: str, *specs: ToolSpec, error: BaseException | None = None) -> None:
        self.name = name
        self.specs = specs
        self.error = error
        self.closed = 0
        self.gate: asyncio.Event | None = None

    async def tools(self) -> Sequence[ToolSpec]:
        if self.gate:
            await self.gate.wait()
        if self.error:
            raise self.error
        return self.specs

    async def call(self, call: ToolCall) -> Any:
        return [self.name, call.tool_id, call.key]

    async def aclose(self) -> None:
        self.closed += 1
        if self.error:
            raise self.error


def spec(tool_id: str, **fields: Any) -> ToolSpec:
    return ToolSpec(id=tool_id, name=tool_id, **fields)


async def opened(*sources: Any) -> Catalog:
    catalog = Catalog(sources)
    await catalog.open()
    return catalog


def ids(catalog: Catalog) -> list[str]:
    return [each.id for each in catalog.specs()]


async def test_tools_come_in_the_order_of_the_sources() -> None:
    catalog = await opened(Listed("a", spec("z"), spec("y")), Listed("b", spec("x")))
    assert ids(catalog) == ["z", "y", "x"]
    assert [each.source for each in catalog.specs()] == ["a", "a", "b"]
    assert catalog.problems == []


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        pytest.param(
            [("a", ["t", "u"]), ("b", ["t"])], {"a.t": "a t", "u": "a u", "b.t": "b t"}, id="both are renamed"
        ),
        pytest.param([("p", ["t"]), ("p", ["t"])], {"p.t": "p t", "p-2.t": "p t"}, id="sources of one name"),
        pytest.param(
            [("a", ["t", "b.t"]), ("b", ["t"])],
            {"a.t": "a t", "b.t": "a b.t", "b.t-2": "b t"},
            id="the new name is taken",
        ),
        pytest.param(
            [("p", ["t"]), ("p", ["u"]), ("p-2", ["u"])],
            {"t": "p t", "p-2.u": "p u", "p-2-2.u": "p-2 u"},
            id="numbers that are taken",
        ),
    ],
)
async def test_ids_are_unique_and_lead_to_the_source_that_has_the_tool(
    sources: list[tuple[str, list[str]]], expected: dict[str, str]
) -> None:
    catalog = await opened(*(Listed(name, *map(spec, tools)) for name, tools in sources))
    found = {tool_id: await catalog.call(ToolCall(tool_id, {}, "key")) for tool_id in ids(catalog)}
    assert found == {tool_id: [*said.split(), "key"] for tool_id, said in expected.items()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("get_weather", "get_weather", id="as it is"),
        pytest.param("GetWeather", "get_weather", id="camel case"),
        pytest.param("get-weather", "get_weather", id="dashes"),
        pytest.param("GET WEATHER", "get_weather", id="spaces"),
        pytest.param("wetter", "get_weather", id="alias"),
        pytest.param("Wetter!", None, id="unknown"),
        pytest.param("WETTER", "get_weather", id="alias in another case"),
        pytest.param("search", None, id="several have this name"),
        pytest.param("a.search", "a.search", id="one of them"),
        pytest.param("a_search", "a.search", id="one of them, as models write it that cannot write dots"),
        pytest.param("send", "send", id="an id wins over an alias that folds to it"),
        pytest.param("SEND", "send", id="so it does in another case"),
        pytest.param("dup", None, id="an alias that two tools have"),
        pytest.param("", None, id="nothing"),
    ],
)
async def test_a_name_is_resolved_as_far_as_it_is_clear(name: str, expected: str | None) -> None:
    catalog = await opened(
        Listed(
            "a",
            spec("get_weather", aliases=("wetter",)),
            spec("search"),
            spec("send"),
            spec("mail", aliases=("Send", "dup")),
        ),
        Listed("b", spec("search"), spec("post", aliases=("dup",))),
    )
    found = catalog.resolve(name)
    assert (found and found.id) == expected


async def test_the_nearest_are_those_that_were_meant() -> None:
    catalog = await opened(
        Listed("a", spec("search"), spec("get_weather", aliases=("wetter",))), Listed("b", spec("search"))
    )
    assert catalog.nearest("search") == ["a.search", "b.search"]
    assert catalog.nearest("serch") == ["a.search", "b.search"]
    assert catalog.nearest("weter") == ["get_weather"]
    assert catalog.nearest("rocket") == []
    assert catalog.nearest("search", n=1) == ["a.search"]


async def test_an_unknown_tool_is_an_error_that_names_the_nearest() -> None:
    catalog = await opened(Listed("a", spec("get_weather")))
    with pytest.raises(ToolCallError, match=r"no tool 'weather_now'; the nearest are: get_weather") as caught:
        await catalog.call(ToolCall("weather_now", {}, "k"))
    assert (caught.value.kind, caught.value.happened) == ("unknown_tool", "no")
    assert await catalog.call(ToolCall("GetWeather", {}, "k")) == ["a", "get_weather", "k"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(
            ConnectionRefusedError("no one there"), "ConnectionRefusedError: no one there", id="refused"
        ),
        pytest.param(ValueError(), "could not list its tools: ValueError", id="an error without words"),
        pytest.param(TimeoutError("its own"), "TimeoutError: its own", id="its own timeout"),
    ],
)
async def test_a_source_that_fails_is_reported_and_stops_no_other(error: Exception, reason: str) -> None:
    catalog = await opened(Listed("down", error=error), Listed("up", spec("t")))
    assert ids(catalog) == ["t"]
    (problem,) = catalog.problems
    assert problem.source == "down"
    assert reason in str(problem)


async def test_a_source_that_does_not_answer_is_given_up() -> None:
    slow = Listed("slow", spec("s"))
    slow.gate = asyncio.Event()
    catalog = Catalog([slow, Listed("up", spec("t"))], list_timeout_secs=0.01)
    await catalog.open()
    assert ids(catalog) == ["t"]
    assert "within 0.01 s" in str(catalog.problems[0])
    slow.gate.set()
    await catalog.open()
    assert ids(catalog) == ["s", "t"]
    assert catalog.problems == []


async def test_sources_are_listed_side_by_side() -> None:
    first, second = Listed("first", spec("a")), Listed("second", spec("b"))
    first.gate = asyncio.Event()

    async def opens_the_gate() -> Sequence[ToolSpec]:
        assert first.gate is not None
        first.gate.set()
        return second.specs

    second.tools = opens_the_gate  # type: ignore[method-assign]
    catalog = Catalog([first, second], list_timeout_secs=5)
    await catalog.open()
    assert ids(catalog) == ["a", "b"]


async def test_cancelling_the_opening_is_no_problem_of_a_source() -> None:
    slow = Listed("slow")
    slow.gate = asyncio.Event()
    task = asyncio.create_task(Catalog([slow]).open())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_tool_with_a_bad_schema_is_left_out_alone() -> None:
    bad = spec("bad", parameters={"type": "object", "properties": {"x": {"type": "strange"}}})
    odd = spec("odd", output_schema={"$ref": "#/nowhere"})
    catalog = await opened(Listed("a", bad, odd, spec("good"), spec("good", description="again")))
    assert ids(catalog) == ["odd", "good"]
    assert [(each.tool, each.message.partition(":")[0]) for each in catalog.problems] == [
        ("bad", "left out"),
        ("odd", "its output schema is bad and ignored"),
        ("good", "listed twice; the first one is taken"),
    ]
    assert catalog.specs()[0].output_schema is None
    assert catalog.specs()[1].description == ""


async def test_closing_reaches_every_source_and_reports_what_fails() -> None:
    sources = [Listed("a", error=OSError("broken pipe")), Listed("b")]
    catalog = await opened(*sources)
    await catalog.aclose()
    await catalog.aclose()
    assert [each.closed for each in sources] == [2, 2]
    assert "could not be closed: OSError: broken pipe" in str(catalog.problems[-1])


async def test_a_catalog_of_nothing_is_one() -> None:
    catalog = await opened()
    assert (catalog.specs(), catalog.resolve("x"), catalog.nearest("x")) == ([], None, [])
    with pytest.raises(ToolCallError, match=r"there is no tool 'x'$"):
        await catalog.call(ToolCall("x", {}, "k"))


async def test_functions_are_called_under_the_name_that_the_catalog_gave() -> None:
    @tool(name="add")
    def first(x: int) -> int:
        return x + 1

    @tool(name="add")
    async def second(x: int) -> int:
        return x + 2

    catalog = await opened(FunctionSource([first], name="one"), FunctionSource([second], name="two"))
    found = [await catalog.call(ToolCall(name, {"x": 1}, "k")) for name in ("one.add", "two.add")]
    assert found == [2, 3]
    await catalog.aclose()


async def test_tools_that_do_the_same_know_of_one_another_across_sources_and_by_any_name() -> None:
    bank = Listed("bank", spec("pay", substitutes=("post.send", "Hand-Over")))
    post = Listed("post", spec("send"), spec("hand_over", effect="repeatable"), spec("weigh"))
    catalog = await opened(bank, post)
    found = {one.id: one.counterparts for one in catalog.specs()}
    assert found == {
        "pay": ("hand_over", "send"),
        "send": ("hand_over", "pay"),
        "hand_over": ("pay", "send"),
        "weigh": (),
    }
