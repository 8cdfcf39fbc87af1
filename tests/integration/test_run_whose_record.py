"""Whose a record is: what one call has given settles no other, whatever tool it was, and whatever a verifier says it looks by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_recovery import READS
from test_run_verifiers import rule

from replan import ToolContext, tool
from replan.testing import FakeSource, virtual_time
from replan.tools.functions.source import FunctionSource

ORDER = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "memo": {"type": "string"}},
    "required": ["order"],
}


class Book:
    """Orders that two tools write; of the calls some are lost before they are sent, some after."""

    def __init__(self, *lost: str) -> None:
        self.lost = dict(enumerate(lost))
        self.records: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.key_of: dict[str, str] = {}

    def write(self, order: str, key: str = "") -> dict[str, Any]:
        fate = self.lost.get(len(self.keys), "")
        self.keys.append(key)
        if fate == "before":
            raise TimeoutError("lost before it was sent")
        self.records.append({"id": f"p{len(self.keys)}", "order": order})
        self.key_of[self.records[-1]["id"]] = key
        if fate == "after":
            raise TimeoutError("lost on the way back")
        return self.records[-1]

    def of(self, order: str) -> list[dict[str, Any]]:
        return [one for one in self.records if one["order"] == order]


def steps(second: str = "pay", order: str = "o-1") -> Any:
    again = second == "pay"
    return plan(
        step("p", "pay", parameters={"order": "o-1", "memo": "x"}, repeat=again),
        step("q", second, "p", parameters={"order": order, "memo": "x"}, repeat=again),
    )


def functions(book: Book, wanted: Any, *looks: Callable[..., Any]) -> Ran:
    pay_by, transfer_by = looks if len(looks) == 2 else looks * 2

    @tool(verify=pay_by, verify_after_secs=0.05)
    async def pay(order: str, memo: str, ctx: ToolContext) -> object:
        return book.write(order, ctx.key)

    @tool(verify=transfer_by, verify_after_secs=0.05)
    async def transfer(order: str, memo: str, ctx: ToolContext) -> object:
        return book.write(order, ctx.key)

    async def main() -> Ran:
        return (await (await bench(FunctionSource([pay, transfer]))).run(wanted)).check()

    return asyncio.run(main())


FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "the record": lambda record: record,
    "more of it": lambda record: {**record, "state": "paid", "seen": 2},
    "its id": lambda record: record["id"],
    "words": lambda record: f"payment {record['id']} to {record['order']}",
    "a list of one": lambda record: [record],
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_another_tools_call_has_given_settles_nothing(form: Callable[[Any], Any]) -> None:
    book = Book("", "before")

    def look(order: str) -> Any:
        return next((form(one) for one in book.of(order)), None)

    def look_there(order: str) -> Any:
        return look(order)

    ran = functions(book, steps("transfer"), look, look_there)
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert len(book.records) == 1


@pytest.mark.parametrize("one_for_both", [True, False])
def test_a_bare_yes_tells_nothing_where_both_tools_are_looked_for_by_one_function(one_for_both: bool) -> None:
    """Two functions may look at two books: then each is believed."""
    book = Book("", "after")

    def look(order: str) -> Any:
        return bool(book.of(order)) or None

    def look_there(order: str) -> Any:
        return look(order)

    ran = functions(book, steps("transfer"), look, look if one_for_both else look_there)
    assert ran.result.is_success is not one_for_both


@pytest.mark.parametrize("order", ["o-1", "o-2"])
@pytest.mark.parametrize("fate", ["before", "after"])
def test_a_tool_that_writes_the_same_book_finds_its_own(fate: str, order: str) -> None:
    book = Book("", fate)

    def look(order: str) -> Any:
        return book.of(order)[-1] if book.of(order) else None

    def look_there(order: str) -> Any:
        return look(order)

    ran = functions(book, steps("transfer", order), look, look_there)
    assert len(book.records) == (1 if (fate, order) == ("before", "o-1") else 2)
    assert ran.result.is_success is (len(book.records) == 2)


def test_what_says_nothing_of_whose_it_is_is_no_other_tools_record() -> None:
    book = Book("", "after")

    def look(order: str) -> Any:
        return {"order": order, "state": "open"} if book.of(order) else None

    def look_there(order: str) -> Any:
        return look(order)

    ran = functions(book, steps("transfer"), look, look_there)
    assert ran.result.is_success


@pytest.mark.parametrize(
    ("fate", "by", "settled"),
    [
        pytest.param("before", "order", False, id="it merely has the key"),
        pytest.param("after", "key", True, id="it looks by the key, and what it gives is like another's"),
        pytest.param("before", "key", True, id="by the key there is none: it is made again"),
    ],
)
def test_a_function_looks_by_the_key_only_if_it_finds_nothing_by_another(
    fate: str, by: str, settled: bool
) -> None:
    book = Book("", fate)
    asked: list[str] = []

    def look(order: str, ctx: ToolContext) -> Any:
        asked.append(ctx.key)
        found = [one for one in book.of(order) if by == "order" or book.key_of[one["id"]] == ctx.key]
        return {"order": order, "state": "paid"} if found else None

    ran = functions(book, steps(), look)
    assert ran.result.is_success is settled
    assert len(book.records) == (2 if settled else 1)
    assert all(asked)


@pytest.mark.parametrize(
    ("takes_key", "fate", "records"),
    [
        pytest.param(False, "before", 2, id="ignored, and lost before: it is made again"),
        pytest.param(False, "after", 2, id="ignored, and lost after: its own record is there"),
        pytest.param(True, "before", 2, id="taken, and lost before"),
        pytest.param(True, "after", 2, id="taken, and lost after"),
    ],
)
def test_a_rule_that_hands_over_the_key_is_believed_only_where_the_reading_takes_it(
    takes_key: bool, fate: str, records: int
) -> None:
    book = Book("", fate)

    class Shop(FakeSource):
        async def call(self, call: Any) -> Any:
            if call.tool_id != "pay":
                return await super().call(call)
            self.calls.append(call)
            return book.write(call.parameters["order"], call.key)

    def look(parameters: Any) -> Any:
        found = book.of(parameters["order"])
        return [one for one in found if not takes_key or book.key_of[one["id"]] == parameters["key"]]

    source = Shop(
        {
            "pay": FakeTool(effect="once", parameters=ORDER),
            "payments": FakeTool(output=look, parameters={"type": "object"}, **READS),
        }
    )
    rules = rule(
        happened="output[?order == call.parameters.order]",
        parameters={"order": "${call.parameters.order}", "key": "${call.key}"},
        output=None,
        after_secs=0.1,
    )

    async def main() -> Ran:
        return (await (await bench(source, rules=rules)).run(steps())).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert len(book.records) == records
    assert len({one["id"] for one in ran.outputs().values()}) == 2, "each has a payment of its own"
