"""Several steps of a fork that say `repeat` are an effect that often in all, also where another task has had it by a tool that does the same."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Ran, bench, plan, step
from test_run_forks_alike import STEPS, Bank, fork_of

from replan.testing import virtual_time


def by(tool: str, count: int, *, waiting: bool = False) -> dict[str, Any]:
    """Ann that often."""
    to = {"to": "ann"} if tool == "send" else {"recipient": "ann"}
    return plan(
        *(
            step(
                f"{tool}{n}",
                tool,
                *([f"{tool}{n - 1}"] if waiting and n else []),
                parameters=to,
                repeat=count > 1,
            )
            for n in range(count)
        )
    )


@pytest.mark.parametrize("had", [1, 2, 3])
@pytest.mark.parametrize("waiting", [False, True])
def test_only_what_is_owed_beyond_the_others_is_made_of_several_calls_of_a_substitute(
    had: int, *, waiting: bool
) -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank()
        made = await bench(bank.tools())
        ran = (await made.run(by("send", had), **STEPS)).check()
        return bank, await fork_of(made, ran, "plan_generated", plan=by("wire", 2, waiting=waiting))

    bank, fork = virtual_time(main())
    assert len(bank.paid) == had + (had == 1 and not waiting)
    told = [one.error.message for one in fork.events("call_failed")]
    assert len(told) == (1 if had == 1 or waiting else 2)
    assert all("that often in all" in text for text in told)


def test_one_that_says_so_by_itself_is_one_more() -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank()
        made = await bench(bank.tools())
        ran = (await made.run(by("send", 2), **STEPS)).check()
        once = plan(step("w", "wire", parameters={"recipient": "ann"}, repeat=True))
        return bank, await fork_of(made, ran, "plan_generated", plan=once)

    bank, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert len(bank.paid) == 3
