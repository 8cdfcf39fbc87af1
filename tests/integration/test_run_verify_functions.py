"""`@tool(verify=…)`: a function that looks whether a call took effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from run_tasks import bench, plan, step

from replan.core.types import Verifier
from replan.errors import ToolDefinitionError
from replan.testing import virtual_time
from replan.tools import Catalog, ToolContext, tool
from replan.tools.functions.source import FunctionSource

PAID: dict[str, dict[str, str]] = {}
PLAN = plan(
    step("p", "pay", parameters={"order": "o-1", "amount": 5}, repeat=True),
    step("q", "pay", "p", parameters={"order": "o-1", "amount": 5}, repeat=True),
)


async def spec_of(function: Any) -> Any:
    catalog = Catalog([FunctionSource([function])])
    await catalog.open()
    assert [spec.id for spec in catalog.specs()] == ["pay"], "the verifier is no tool that a plan could call"
    assert catalog.resolve("pay:verify") is None
    return catalog.specs()[0]


@pytest.mark.anyio
async def test_the_verifier_takes_what_it_names_of_the_calls_parameters() -> None:
    def paid(order: str, ctx: ToolContext) -> dict[str, str] | None:
        return PAID.get(ctx.key)

    @tool(verify=paid, verify_after_secs=7)
    def pay(order: str, amount: float) -> dict[str, str]: ...

    found = (await spec_of(pay)).verify
    assert found.function
    assert found.model_copy(update={"function": ""}) == Verifier(
        tool="pay:verify", parameters={"order": "${call.parameters.order}"}, after_secs=7, by_key=True
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"verify": "paid"}, "is not a function"),
        ({"verify": lambda order: None, "effect": "repeatable"}, "verify is for effect='once'"),
        ({"verify_after_secs": 3}, "goes with verify=FUNCTION"),
        ({"verify": lambda order: None, "verify_after_secs": -1}, "0 or more"),
        ({"verify": lambda invoice: None}, "verify takes 'invoice', which the tool has not"),
        ({"verify": lambda *all_of_it: None}, "name each parameter"),
    ],
)
def test_a_verifier_that_cannot_work_is_refused_with_the_reason(options: Any, says: str) -> None:
    def pay(order: str) -> None: ...

    with pytest.raises(ToolDefinitionError, match=r".*") as caught:
        FunctionSource([tool(**options)(pay)])
    assert says in str(caught.value)


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_what_the_function_finds_is_the_output_and_settles_one_call_only(
    is_async: bool, by_key: bool
) -> None:
    paid: dict[str, str] = {}

    def look(order: str, ctx: ToolContext) -> dict[str, str] | None:
        if by_key:
            return {"order": order, "state": "paid"} if ctx.key in paid else None
        return {"payment": next(iter(paid.values()))} if paid else None

    async def look_async(order: str, ctx: ToolContext) -> dict[str, str] | None:
        return look(order, ctx)

    def look_blindly(order: str) -> dict[str, str] | None:
        return {"payment": next(iter(paid.values()))} if paid else None

    verify = look_blindly if not by_key else look_async if is_async else look

    @tool(verify=verify, verify_after_secs=0.05)
    async def pay(order: str, amount: float, ctx: ToolContext) -> dict[str, str]:
        paid[ctx.key] = f"p-{len(paid) + 1}"
        raise TimeoutError("no answer")

    async def main() -> Any:
        return (await (await bench(FunctionSource([pay]))).run(PLAN)).check()

    ran = asyncio.run(main())  # threads know nothing of virtual time
    assert len(paid) == 2, "each was made once, whatever came of it"
    if by_key:
        assert ran.result.is_success
        assert ran.outputs() == {name: {"order": "o-1", "state": "paid"} for name in "pq"}
    else:  # the same record for both: nobody can tell whose it is
        assert ran.result.failure is not None
        assert ran.result.failure.kind == "outcome_unknown"
        assert ran.outputs() == {"p": {"payment": "p-1"}}


FINDS: dict[str, Callable[[list[Any]], Any]] = {
    "a truth": lambda records: True,
    "the list": lambda records: records,
    "the first": lambda records: records[0],
    "an envelope": lambda records: {"payments": records},
    "an id": lambda records: records[0]["id"],
    "a state": lambda records: {"state": "paid"},
}


@pytest.mark.parametrize("finds", FINDS.values(), ids=FINDS)
@pytest.mark.parametrize("memos", [("same", "same"), ("rent may", "rent june")])
def test_what_a_like_call_has_left_behind_that_succeeded_settles_no_other(
    finds: Callable[[list[Any]], Any], memos: tuple[str, str]
) -> None:
    book: list[dict[str, Any]] = []
    tried: list[str] = []

    def look(order: str) -> Any:
        records = [one for one in book if one["order"] == order]
        return finds(records) if records else None

    @tool(verify=look, verify_after_secs=0.05)
    async def pay(order: str, memo: str) -> object:
        tried.append(memo)
        if len(tried) == 2:
            raise TimeoutError("lost before it was sent")
        book.append({"id": len(book) + 1, "order": order})
        return book[-1]

    first, second = (
        step(name, "pay", *needs, parameters={"order": "o-1", "memo": memo}, repeat=True)
        for name, needs, memo in (("p", (), memos[0]), ("q", ("p",), memos[1]))
    )

    async def main() -> Any:
        return (await (await bench(FunctionSource([pay]))).run(plan(first, second))).check()

    ran = asyncio.run(main())
    assert len(book) == 1
    assert not ran.result.is_success


def test_a_record_of_ones_own_beside_that_of_a_like_call_settles_it() -> None:
    book: list[dict[str, Any]] = []

    def look(order: str) -> Any:
        return book[-1] if book else None

    @tool(verify=look, verify_after_secs=0.05)
    async def pay(order: str) -> object:
        book.append({"id": len(book) + 1, "order": order})
        if len(book) == 2:
            raise TimeoutError("no answer")
        return book[-1]

    steps = (
        step(name, "pay", *needs, parameters={"order": "o-1"}, repeat=True)
        for name, needs in (("p", ()), ("q", ("p",)))
    )

    async def main() -> Any:
        return (await (await bench(FunctionSource([pay]))).run(plan(*steps))).check()

    ran = asyncio.run(main())
    assert ran.result.is_success
    assert [one["id"] for one in ran.outputs().values()] == [1, 2]


def test_a_verifier_that_raises_cannot_tell_and_one_that_finds_nothing_says_no() -> None:
    calls: list[str] = []
    looks = iter([RuntimeError("down"), None, RuntimeError("down"), None, None, {"payment": "p-9"}])

    async def look() -> dict[str, str] | None:
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    @tool(verify=look, verify_after_secs=2)
    async def pay(order: str, amount: float) -> None:
        calls.append(order)
        raise ConnectionResetError("cut")

    async def main() -> Any:
        return (await (await bench(FunctionSource([pay]))).run(plan(PLAN["steps"][0]))).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert calls == ["o-1", "o-1"]
    assert [one.happened for one in ran.events("outcome_settled")] == [False, True]
    assert {one.tool_id for one in ran.events("call_started")} == {"pay", "pay:verify"}


@pytest.mark.parametrize(
    "given",
    [
        {"order": "o-1"},
        {"order": "o-1", "amount": 5.0},
        {"order": "o-1", "on": "2024-01-01T01:00:00+01:00"},
        {"order": "o-1", "amount": 5, "memo": "", "on": "2024-01-01T00:00:00Z"},
    ],
    ids=["defaults left out", "a whole number as a fraction", "a moment in another form", "all of it"],
)
def test_a_verifier_looks_in_whatever_form_the_parameters_were_given(given: dict[str, Any]) -> None:
    paid: list[str] = []

    async def look(order: str, ctx: ToolContext) -> dict[str, str] | None:
        return {"payment": f"for {order}"} if ctx.key in paid else None

    @tool(verify=look, verify_after_secs=2)
    async def pay(
        order: str, ctx: ToolContext, amount: float = 5, memo: str = "", on: datetime | None = None
    ) -> dict[str, str]:
        paid.append(ctx.key)
        raise ConnectionResetError("cut")

    async def main() -> Any:
        return (
            await (await bench(FunctionSource([pay]))).run(plan(step("p", "pay", parameters=given)))
        ).check()

    ran = virtual_time(main())
    assert ran.outputs() == {"p": {"payment": "for o-1"}}
    assert len(paid) == 1
    assert [one.by for one in ran.events("outcome_settled")] == ["the verifier of 'pay'"]


@pytest.mark.parametrize(
    ("found", "calls", "kind"),
    [
        (None, 2, None),
        (False, 2, None),
        ([], 1, "outcome_unknown"),
        (0, 1, "outcome_unknown"),
        ("", 1, "outcome_unknown"),
        ({"warnings": []}, 1, "outcome_unknown"),
        ({"id": 7, "warnings": []}, 1, None),
        (True, 1, None),
    ],
)
def test_only_a_plain_no_of_the_function_makes_the_call_again(
    found: Any, calls: int, kind: str | None
) -> None:
    made: list[str] = []

    async def look() -> Any:
        return found

    @tool(verify=look, verify_after_secs=2)
    async def pay(order: str) -> Any:
        made.append(order)
        if len(made) == 1:
            raise ConnectionResetError("cut")
        return "paid"

    async def main() -> Any:
        wanted = plan(step("p", "pay", parameters={"order": "o-1"}))
        return (await (await bench(FunctionSource([pay]))).run(wanted)).check()

    ran = virtual_time(main())
    assert len(made) == calls
    assert (ran.result.failure.kind if ran.result.failure else None) == kind


@pytest.mark.parametrize(
    ("gives", "found", "fits"),
    [
        pytest.param(dict[str, int], "a text", False, id="a text for a dict"),
        pytest.param(dict[str, Any], "false", False, id="a word for a dict"),
        pytest.param(dict[str, int], {"id": "x"}, False, id="a field of another type"),
        pytest.param(list[str], {"id": "x"}, False, id="a dict for a list"),
        pytest.param(dict[str, int], {"id": 7}, True, id="what it gives"),
        pytest.param(dict[str, int], True, True, id="a plain yes"),
        pytest.param(Any, "a text", True, id="a tool that says nothing"),
        pytest.param(None, {"id": 7}, True, id="a tool that gives nothing"),
    ],
)
def test_what_the_function_finds_is_held_to_what_the_tool_gives(gives: Any, found: Any, fits: bool) -> None:
    made: list[str] = []

    async def look() -> Any:
        return found

    async def pay(order: str) -> Any:
        made.append(order)
        raise ConnectionResetError("cut")

    pay.__annotations__["return"] = gives

    async def main() -> Any:
        source = FunctionSource([tool(verify=look, verify_after_secs=2)(pay)])
        wanted = plan(step("p", "pay", parameters={"order": "o-1"}))
        return (await (await bench(source)).run(wanted)).check()

    ran = virtual_time(main())
    assert made == ["o-1"]
    assert ran.result.is_success is fits
    if not fits:
        assert ran.result.failure.kind == "outcome_unknown"
        assert ran.events("outcome_settled") == []


GIVES: dict[str, Callable[[int, str], Any]] = {
    "what both were asked with": lambda user, tag: {"id": user},
    "the thing worked on": lambda user, tag: {"id": user, "name": "Ann"},
    "a state": lambda user, tag: {"ok": True},
    "a list": lambda user, tag: ["done"],
}


class Tags:
    """Gives the same of every tag; the calls in `lost` lose their answer, before or after the effect."""

    def __init__(self, gives: Callable[[int, str], Any], lost: Sequence[str], *, took: bool) -> None:
        self.gives, self.lost, self.took = gives, list(lost), took
        self.tags: list[tuple[int, str]] = []

    def tool(self, finds: Callable[[int, str], Any]) -> Any:
        """`finds` says what there is of the tag; True: what the tool gives of it."""

        def look(user: int, tag: str) -> Any:
            found = finds(user, tag)
            return self.gives(user, tag) if found is True else found or None

        @tool(verify=look, verify_after_secs=0.05)
        async def add(user: int, tag: str) -> object:
            if tag in self.lost:
                self.lost.remove(tag)
                if self.took:
                    self.tags.append((user, tag))
                raise TimeoutError("no answer")
            self.tags.append((user, tag))
            return self.gives(user, tag)

        return add

    def run(self, made: Any, tags: Sequence[str] = "abc") -> Any:
        async def main() -> Any:
            words = {"user": 7, "tag": "${item}"}
            given = plan(step("p", "add", parameters=words, for_each=list(tags)))
            one = await bench(FunctionSource([made]))
            return (await one.run(given, enable_parallel_execution=False)).check()

        return asyncio.run(main())


@pytest.mark.parametrize("gives", GIVES.values(), ids=GIVES)
@pytest.mark.parametrize("took", [True, False])
def test_a_function_that_gives_the_same_of_two_calls_settles_neither_by_the_record_of_the_other(
    gives: Callable[[int, str], Any], *, took: bool
) -> None:
    world = Tags(gives, "b", took=took)
    ran = world.run(world.tool(lambda user, tag: bool(world.tags)))
    assert ran.result.failure.kind == "outcome_unknown"
    assert world.tags.count((7, "b")) == took


@pytest.mark.parametrize(
    ("tags", "lost", "fits"),
    [
        pytest.param(["500", "300"], "300", lambda had, asked: int(had) >= int(asked), id="at least as much"),
        pytest.param(
            ["300", "500"], "500", lambda had, asked: int(had) <= int(asked), id="no more than that"
        ),
        pytest.param(["INV-10", "INV-1"], "INV-1", lambda had, asked: asked in had, id="a part of a text"),
        pytest.param(
            ["INV-1", "INV-10"], "INV-10", lambda had, asked: asked.startswith(had), id="a text with more"
        ),
        pytest.param(
            ["A", "a"], "a", lambda had, asked: asked.lower() == had.lower(), id="whatever its case"
        ),
        pytest.param(
            ["Robert", "Bob"],
            "Bob",
            lambda had, asked: {had, asked} <= {"Robert", "Bob"},
            id="by another name",
        ),
    ],
)
def test_what_fits_a_value_is_not_taken_for_what_has_it(
    tags: list[str], lost: str, fits: Callable[[str, str], bool]
) -> None:
    world = Tags(GIVES["a state"], [lost], took=False)
    ran = world.run(world.tool(lambda user, tag: any(fits(had, tag) for _, had in world.tags)), tags)
    assert not ran.result.is_success
    assert ran.result.failure.kind == "outcome_unknown"
    assert world.tags == [(7, tags[0])]


@pytest.mark.parametrize("took", [True, False])
def test_a_function_that_gives_something_of_each_call_alone_settles_it(*, took: bool) -> None:
    world = Tags(lambda user, tag: {"id": f"{user}-{tag}"}, "b", took=took)
    ran = world.run(world.tool(lambda user, tag: (user, tag) in world.tags))
    assert ran.result.is_success
    assert sorted(world.tags) == [(7, "a"), (7, "b"), (7, "c")], "each once"
    assert ran.outputs()["p"] == [{"id": f"7-{tag}"} for tag in "abc"]


def test_where_it_finds_nothing_the_call_is_made_though_a_like_one_gave_the_same() -> None:
    world = Tags(GIVES["a state"], "b", took=False)
    ran = world.run(world.tool(lambda user, tag: (user, tag) in world.tags))
    assert ran.result.is_success
    assert sorted(world.tags) == [(7, "a"), (7, "b"), (7, "c")]
