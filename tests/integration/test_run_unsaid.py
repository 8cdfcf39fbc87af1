"""A field of the metadata whose latest writer took effect, and nobody knows what it gave, is not read as it was before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from run_tasks import bench, plan, step

from replan import tool
from replan.tools.functions.source import FunctionSource

REFERS = {"account": "${metadata.account}"}


def run(finds: Callable[[], Any], wanted: Any, metadata: dict[str, Any], lost: bool = True) -> Any:
    used: list[str] = []

    @tool(effect="once", output_params=["account"], verify=finds, verify_after_secs=0.0)
    def open_account(name: str) -> object:
        if lost:
            raise TimeoutError("no answer")
        return {"account": "NEW"}

    @tool(effect="once")
    def pay(account: str, n: int = 1) -> str:
        used.append(account)
        return "paid"

    async def main() -> Any:
        one = await bench(FunctionSource([open_account, pay]))
        return (await one.run(wanted, metadata=metadata)).check()

    return asyncio.run(main()), used


def steps(reader: dict[str, Any], *, first: bool = True) -> Any:
    opened = step("o", "open_account", *([] if first else ["p"]), parameters={"name": "Ann"})
    paid = step("p", "pay", *(["o"] if first else []), parameters=reader)
    return plan(*([opened, paid] if first else [paid, opened]))


@pytest.mark.parametrize("reader", [{}, REFERS], ids=["filled in", "referred to"])
@pytest.mark.parametrize(
    "finds", [lambda: True, lambda: {"id": 7}], ids=["a bare yes", "a record that has not the field"]
)
def test_what_nobody_has_told_is_not_what_was_there_before(
    finds: Callable[[], Any], reader: dict[str, Any]
) -> None:
    ran, used = run(finds, steps(reader), {"account": "OLD"})
    assert not ran.result.is_success
    assert used == []
    assert ran.statuses() == {"o": "succeeded", "p": "failed"}
    (failed,) = [one for one in ran.events("step_failed") if one.step_id == "p"]
    assert (failed.error.category, failed.error.kind) == ("dependency_error", "reference")
    assert "'account' of the metadata is what step 'o' has given" in failed.error.message


@pytest.mark.parametrize(
    ("finds", "wanted", "lost", "account"),
    [
        pytest.param(lambda: {"account": "NEW"}, steps({}), True, "NEW", id="the record has it"),
        pytest.param(lambda: True, steps({"account": "A"}), True, "A", id="nothing of it is read"),
        pytest.param(lambda: True, steps({}, first=False), True, "OLD", id="read before it was written"),
        pytest.param(lambda: True, steps({}), False, "NEW", id="told at once"),
    ],
)
def test_what_is_known_is_read(finds: Callable[[], Any], wanted: Any, lost: bool, account: str) -> None:
    ran, used = run(finds, wanted, {"account": "OLD"}, lost)
    assert ran.result.is_success
    assert used == [account]
