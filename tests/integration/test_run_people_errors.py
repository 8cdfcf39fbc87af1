"""What goes wrong as a person's word is taken in ends the task with that reason; it is never lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import FakeTool, bench, plan, step

from replan.core.events import ApprovalResolved, Record
from replan.run.human_input.signals import People
from replan.run.session.dependencies import Parts
from replan.testing import MemoryStore, virtual_time


class Wrong(MemoryStore):
    """A store whose people write what nobody can take in."""

    wrong = False

    async def read(self, *args: Any, **more: Any) -> list[Record]:
        if self.wrong and more.get("signals_only"):
            raise RuntimeError("what was said fits nothing")
        return await super().read(*args, **more)


def test_an_error_beside_the_loop_ends_the_task_and_is_told() -> None:
    async def main() -> None:
        store = Wrong()
        b = await bench({"pay": FakeTool(output="paid", delay_secs=5, effect="once")}, store=store)
        task_id = await b.submit(plan(step("p", "pay")))
        driving = asyncio.ensure_future(b.service.drive(task_id))
        await asyncio.sleep(1)
        store.wrong = True
        await store.signal(task_id, ApprovalResolved(approval_id="x", approved=True), 0.0)
        await driving
        failure = (await b.ran(task_id)).result.failure
        assert failure is not None
        assert failure.kind == "internal"
        assert "what was said fits nothing" in failure.reason

    virtual_time(main())


@pytest.mark.parametrize("own", [True, False])
def test_a_reader_of_what_people_write_hears_of_its_own_error(*, own: bool) -> None:
    async def main() -> None:
        b = await bench({})
        parts: Parts = b.service.parts
        task_id = await b.submit(plan(step("p", "pay")))
        people, told = People(task_id, parts), []
        asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about["exception"]))

        async def read() -> None:
            raise RuntimeError("cannot be taken in")

        people.attend(read, told.append if own else None)
        await b.store.signal(task_id, ApprovalResolved(approval_id="x", approved=True), 0.0)
        await asyncio.sleep(1)
        assert [str(one) for one in told] == ["cannot be taken in"]
        people.close()

    virtual_time(main())
