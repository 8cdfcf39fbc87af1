"""Answers of a Python type on workers, and after a restart: its validators are run where the task is driven."""

from __future__ import annotations

import asyncio
import importlib
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from workers_here import Here, ended

from replan.errors import InputError
from replan.run.service.typed import answer_check, name_of_type, type_named
from workers import Loud, step

pytestmark = pytest.mark.anyio


async def test_a_worker_holds_an_answer_to_the_validators_of_its_type(here: Here) -> None:
    async with here.worker() as worker, here.replan() as replan:
        loud = await replan.run("do it", plan={"steps": [step("AB", "do")]}, output_type=Loud, task_id="loud")
        assert (loud.is_success, loud.final_output) == (True, Loud("AB"))
        low = await replan.run("do it", plan={"steps": [step("ab", "do")]}, output_type=Loud, task_id="low")
        assert not low.is_success
        assert (await ended(worker, "low")).status == "failed", "also by the log, which no validator reads"


async def test_a_task_waits_for_a_worker_that_has_the_type_of_its_answer(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here.folder / "only_here.py").write_text(
        "from pydantic import BaseModel\n\nclass Invoice(BaseModel):\n    n: int\n"
    )
    async with here.replan() as replan:
        with monkeypatch.context() as there:
            there.syspath_prepend(here.folder)
            invoice = importlib.import_module("only_here").Invoice
            plan = {"steps": [step("AB", "do")]}
            running = asyncio.create_task(replan.run("do it", plan=plan, output_type=invoice, task_id="t"))
            await here.until("SELECT task_id FROM task", "t\n")
        del sys.modules["only_here"]  # a worker elsewhere does not have it
        async with here.worker():
            why = await replan.why_waiting("t")
            assert why.startswith("it waits for a worker that has the type of its answer, only_here:Invoice")
            await replan.cancel("t")
            await running
    assert here.done() == []


async def test_a_process_that_goes_on_holds_the_answer_to_its_type_too(here: Here) -> None:
    async with here.replan(kind="local") as replan:
        steps = [step("a", "do"), step("low", "pay", "a")]
        waits = await replan.run("do it", plan={"steps": steps}, output_type=Loud, task_id="t")
        assert waits.status == "waiting"
    async with here.replan(kind="local") as replan:
        await replan.approve("t")
        assert (await replan.resume("t")).status == "failed"


class Local(BaseModel):
    n: int


PLAIN = st.recursive(
    st.sampled_from([str, int, float, bool, type(None)]),
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),  # type: ignore[valid-type]
        inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]
        inner.map(lambda one: tuple[one, ...]),  # type: ignore[valid-type]
        inner.map(lambda one: one if one is None else one | None),
    ),
    max_leaves=4,
)


@given(PLAIN)
def test_a_type_that_is_found_again_is_the_same(plain: Any) -> None:
    assert name_of_type(plain) == "", "it says no more than its schema"
    named = name_of_type(list[Local | plain])  # type: ignore[valid-type]
    assert named
    assert type_named(named) == list[Local | plain]  # type: ignore[valid-type]


def test_what_no_other_process_has_is_not_named_and_what_is_no_type_is_not_taken() -> None:
    class Inner(BaseModel):
        n: int

    assert name_of_type(Inner) is None
    assert name_of_type(list[Inner]) is None
    for odd in (
        '"os:remove"',
        '"os:nothing"',
        '"no_such_module:X"',
        '["eval", "os:remove"]',
        "{}",
        "x",
        '"str.upper"',
    ):
        with pytest.raises(InputError):
            answer_check(odd)
