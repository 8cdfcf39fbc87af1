"""What a model may be asked in a minute, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from replan.errors import ModelUnavailable
from replan.llm.faults import EndpointError
from replan.llm.limits import limited
from replan.llm.pace import Limit, Pace, pace_of
from replan.llm.retry import RetryingModel
from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel, virtual_time

REQUEST = ModelRequest(role="planning", schema_name="p", json_schema={}, instructions="Plan.", turns=())


def times(pace: Pace, *tokens: int) -> list[float]:
    """When each of so many requests, asked for at once, goes out."""

    async def one(size: int, began: float) -> float:
        await pace.turn(size)
        return round(asyncio.get_running_loop().time() - began, 3)

    async def all_of_them() -> list[float]:
        began = asyncio.get_running_loop().time()
        return await asyncio.gather(*(one(size, began) for size in tokens))

    return virtual_time(all_of_them())


def test_requests_of_a_minute_are_counted_in_their_order() -> None:
    assert times(Pace(Limit(requests=2)), *[1] * 5) == [0, 0, 60, 60, 120]


def test_tokens_of_a_minute_are_counted_and_one_that_is_too_large_goes_alone() -> None:
    assert times(Pace(Limit(tokens=100)), 60, 40, 1, 500, 10) == [0, 0, 60, 120, 180]


def test_without_a_limit_nobody_waits() -> None:
    assert times(Pace(), *[10**9] * 3) == [0, 0, 0]


def test_what_was_used_counts_in_the_end_and_who_gives_up_leaves_the_place() -> None:
    async def scene() -> float:
        pace = Pace(Limit(tokens=100))
        pace.used(await pace.turn(90), 10)
        assert (await pace.turn(90)).at == asyncio.get_running_loop().time()
        gives_up = asyncio.create_task(pace.turn(50))
        await asyncio.sleep(1)
        gives_up.cancel()
        await asyncio.wait([gives_up])
        began = asyncio.get_running_loop().time()
        await pace.turn(50)
        await pace.turn(50)
        return asyncio.get_running_loop().time() - began

    assert virtual_time(scene()) == pytest.approx(59)  # both at the end of the first minute


def test_a_wait_for_a_turn_is_no_part_of_the_time_of_a_request() -> None:
    async def scene() -> None:
        pace = Pace(Limit(requests=1))
        await pace.turn(1)
        async with asyncio.timeout(5) as scope:
            with limited(scope):
                await pace.turn(1)
                await asyncio.sleep(4)

    virtual_time(scene())


def test_one_model_has_one_pace_for_each_key() -> None:
    one = pace_of("https://a", "m", "key", None)
    assert pace_of("https://a", "m", "key", None) is one
    assert pace_of("https://a", "m", "other", None) is not one
    assert pace_of("https://b", "m", "key", None) is not one


class Busy(ScriptedModel):
    """Says once that it is busy; `pace` is what it goes by."""

    def __init__(self, pace: Pace, secs: float) -> None:
        super().__init__({"p": [{}] * 9})
        self.pace = pace
        self.secs = secs
        self.asked: list[float] = []

    async def ask(self, request: ModelRequest, on_text: object = None) -> ModelReply:
        self.asked.append(asyncio.get_running_loop().time())
        if len(self.asked) == 1:
            self.pace.leave_alone(self.secs)
            raise EndpointError("busy", transient=True, status=429, retry_after=self.secs)
        return await super().ask(request)


def test_what_one_task_was_told_holds_the_others_and_is_none_of_their_tries() -> None:
    async def scene() -> list[float]:
        model = Busy(Pace(), 7.0)
        began = asyncio.get_running_loop().time()
        calm = {"max_retries": 1, "timeout_secs": 30.0, "rand": lambda: 0.0}
        asking = [RetryingModel(model, **calm).ask(REQUEST) for _ in range(4)]  # type: ignore[arg-type]
        await asyncio.gather(*asking)
        return [round(at - began, 3) for at in model.asked]

    assert virtual_time(scene()) == [0, 7, 7, 7, 7]


def test_who_may_not_wait_so_long_is_told_at_once() -> None:
    async def scene() -> float:
        model = Busy(Pace(), 100.0)
        began = asyncio.get_running_loop().time()
        for _ in range(2):
            with pytest.raises(ModelUnavailable, match="100 s"):
                await RetryingModel(model, max_retries=3, timeout_secs=30).ask(REQUEST)
        assert len(model.asked) == 1
        return asyncio.get_running_loop().time() - began

    assert virtual_time(scene()) == 0


@pytest.mark.parametrize(
    ("asked", "holds"), [(7.0, 7.0), (400.0, 300.0), (1e300, 300.0), (-5.0, 0.0), (float("nan"), 0.0)]
)
def test_all_others_leave_it_alone_for_five_minutes_at_most(asked: float, holds: float) -> None:
    async def scene() -> float:
        pace = Pace()
        pace.leave_alone(asked)
        return pace.alone_for()

    assert virtual_time(scene()) == holds
