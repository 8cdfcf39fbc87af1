"""More callers than an endpoint takes, in virtual time: they go on one by one, and none is lost while there is time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

import pytest

from replan.errors import ModelUnavailable
from replan.llm.fallback import FallbackModel
from replan.llm.faults import EndpointError
from replan.llm.pace import Pace
from replan.llm.retry import RetryingModel
from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel, virtual_time

REQUEST = ModelRequest(role="planning", schema_name="p", json_schema={}, instructions="Plan.", turns=())


class Crowded(ScriptedModel):
    """Takes `most` a second, and turns the others away; an answer takes `secs`. A pace is shared as those of one process share it."""

    def __init__(self, most: int, *, retry_after: float | None = None, secs: float = 0.01, status: int = 429):
        super().__init__({"p": [{}] * 1_000})
        self.pace = Pace()
        self.most, self.retry_after, self.secs, self.status = most, retry_after, secs, status
        self.taken: deque[float] = deque()
        self.turned_away = 0

    async def ask(self, request: ModelRequest, on_text: object = None) -> ModelReply:
        now = asyncio.get_running_loop().time()
        if sum(at > now - 1 for at in self.taken) >= self.most:
            self.turned_away += 1
            if self.retry_after is not None:
                self.pace.leave_alone(self.retry_after)
            raise EndpointError("too many", transient=True, status=self.status, retry_after=self.retry_after)
        self.taken.append(now)
        await asyncio.sleep(self.secs)
        return await super().ask(request)


def ended(model: Crowded, tasks: int, *, questions: int = 3, timeout_secs: float = 60.0) -> list[float | str]:
    """When each of so many tasks, which ask one question after the other, has its last answer; else what went wrong."""

    async def one() -> float | str:
        asking = RetryingModel(model, timeout_secs=timeout_secs)
        for _ in range(questions):
            try:
                await asking.ask(REQUEST)
            except ModelUnavailable as error:
                return str(error)
        return asyncio.get_running_loop().time()

    async def all_of_them() -> list[float | str]:
        began = asyncio.get_running_loop().time()
        found = await asyncio.gather(*(one() for _ in range(tasks)))
        return [one - began if isinstance(one, float) else one for one in found]

    return virtual_time(all_of_them())


@pytest.mark.parametrize(
    ("most", "tasks", "retry_after", "status"),
    [(2, 20, 1.0, 429), (5, 30, None, 429), (5, 30, 1.0, 429), (2, 20, None, 529)],
)
def test_none_is_lost_and_few_are_turned_away(
    most: int, tasks: int, retry_after: float | None, status: int
) -> None:
    model = Crowded(most, retry_after=retry_after, status=status)
    times = ended(model, tasks)
    assert [one for one in times if isinstance(one, str)] == []
    assert len(model.taken) == 3 * tasks
    assert model.turned_away < 6 * tasks
    assert max(one for one in times if isinstance(one, float)) < 3 * (3 * tasks / most)


def test_a_queue_that_moves_does_not_run_into_the_time_limit_of_one_request() -> None:
    model = Crowded(1, retry_after=1.0)
    times = ended(model, 60, questions=1, timeout_secs=10.0)
    assert [one for one in times if isinstance(one, str)] == []
    assert max(one for one in times if isinstance(one, float)) > 40


def test_an_endpoint_that_turns_everybody_away_is_given_up_when_the_time_is_over() -> None:
    model = Crowded(0)
    times = ended(model, 3, questions=1, timeout_secs=20.0)
    assert all("too many" in str(one) or "turned others away" in str(one) for one in times)
    assert model.turned_away < 30


@pytest.mark.parametrize("retry_after", [0.0, 0.01])
def test_an_endpoint_that_may_be_asked_again_at_once_is_not_asked_without_a_pause(retry_after: float) -> None:
    class Endless(Crowded):
        async def ask(self, request: ModelRequest, on_text: object = None) -> ModelReply:
            await asyncio.sleep(0.001)
            return await super().ask(request)

    model = Endless(0, retry_after=retry_after)
    assert "too many" in str(ended(model, 1, questions=1, timeout_secs=20.0)[0])
    assert model.turned_away <= 41


def test_a_crowd_in_one_event_loop_holds_up_nobody_in_another() -> None:
    pace = Pace()

    async def narrow() -> None:
        pace.gate.left(await pace.gate.enter(pace.gate.ticket()), busy=True)
        await pace.gate.enter(pace.gate.ticket())
        assert not pace.gate.is_free

    async def enter() -> None:
        await asyncio.wait_for(pace.gate.enter(pace.gate.ticket()), 5)

    with contextlib.closing(asyncio.new_event_loop()) as one:
        one.run_until_complete(narrow())
        asyncio.run(enter())


def test_where_nobody_is_turned_away_nobody_waits() -> None:
    assert ended(Crowded(1_000, secs=2.0), 50, questions=1) == [2.0] * 50


def test_those_that_were_taken_and_take_their_time_hold_up_nobody() -> None:
    """After one was turned away: an endpoint says "later" at once, and an answer may take a minute."""
    times = ended(Crowded(5, secs=20.0), 15, questions=1)
    assert max(one for one in times if isinstance(one, float)) < 40


def test_who_gives_up_in_the_queue_leaves_the_place_to_the_next() -> None:
    async def scene() -> float:
        model = Crowded(1, retry_after=1.0)
        asking = [asyncio.create_task(RetryingModel(model, timeout_secs=60).ask(REQUEST)) for _ in range(6)]
        await asyncio.sleep(0.1)
        for one in asking[1:5]:
            one.cancel()
        began = asyncio.get_running_loop().time()
        await asyncio.wait(asking)
        assert not asking[5].exception()
        return asyncio.get_running_loop().time() - began

    assert virtual_time(scene()) < 5


def test_where_all_that_stand_in_are_busy_they_are_asked_again_while_there_is_time() -> None:
    async def scene() -> int:
        places = [Crowded(1, retry_after=1.0), Crowded(1, retry_after=1.0)]
        several = FallbackModel([RetryingModel(one, max_retries=0) for one in places])
        model = RetryingModel(several, timeout_secs=60)
        await asyncio.gather(*(model.ask(REQUEST) for _ in range(20)))
        return sum(len(one.taken) for one in places)

    assert virtual_time(scene()) == 20
