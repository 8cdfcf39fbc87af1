"""An endpoint that asks to be left alone for longer than one question may take: who has the time waits, and whoever has not is told when, at once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from replan.errors import ModelUnavailable
from replan.llm.fallback import FallbackModel
from replan.llm.faults import EndpointError, of_status
from replan.llm.pace import Pace
from replan.llm.retry import RetryingModel
from replan.ports import Model, ModelReply, ModelRequest
from replan.testing import ScriptedModel, virtual_time


class Task:
    """Whoever asks, with so much time from now on."""

    def __init__(self, secs: float) -> None:
        self._until = asyncio.get_running_loop().time() + secs
        self.told: list[str] = []

    def time_left(self) -> float:
        return self._until - asyncio.get_running_loop().time()

    def tell(self, message: str, *, once: bool = False) -> None:
        self.told.append(message)


class Away(ScriptedModel):
    """Turns away whoever comes in so many seconds from the first question on, and says how long that is; then it takes `most` a second."""

    def __init__(
        self, secs: float, *, status: int = 429, again: bool = False, most: float = math.inf
    ) -> None:
        super().__init__({"p": [{}] * 1_000})
        self.pace = Pace()
        self.secs, self.status, self.again, self.most = secs, status, again, most
        self.until: float | None = None
        self.turned_away = 0
        self.taken: list[float] = []

    async def ask(self, request: ModelRequest, on_text: object = None) -> ModelReply:
        now = asyncio.get_running_loop().time()
        if self.until is None:
            self.until = now + self.secs
        left = self.secs if self.again else self.until - now
        if left <= 0 and sum(at > now - 1 for at in self.taken) >= self.most:
            left = 1
        if left > 0:
            self.turned_away += 1
            self.pace.leave_alone(left)
            raise EndpointError("not now", transient=True, status=self.status, retry_after=left)
        self.taken.append(now)
        await asyncio.sleep(0.01)
        return await super().ask(request)


def ended(model: Model, times: Sequence[float], timeout_secs: float = 60.0) -> list[float | str]:
    """When each of so many tasks has its answer, all having begun at once with so much time each; else what went wrong, and when."""

    async def one(secs: float) -> float | str:
        began = asyncio.get_running_loop().time()
        request = ModelRequest(
            role="planning",
            schema_name="p",
            json_schema={},
            instructions="Plan.",
            turns=(),
            watcher=Task(secs),
        )
        try:
            await RetryingModel(model, timeout_secs=timeout_secs).ask(request)
        except ModelUnavailable as error:
            return f"{asyncio.get_running_loop().time() - began:.0f}: {error}"
        return asyncio.get_running_loop().time() - began

    async def all_of_them() -> list[float | str]:
        return list(await asyncio.gather(*map(one, times)))

    return virtual_time(all_of_them())


@pytest.mark.parametrize("status", [429, 503])
def test_who_has_the_time_waits_and_others_are_told_at_once_when_to_come_back(status: int) -> None:
    enough, none, short = ended(Away(70, status=status), [250, 50, 65])
    assert isinstance(enough, float)
    assert 70 <= enough < 100
    for one in (none, short):
        assert isinstance(one, str)
        assert "UTC, and the task's time is over in" in one
    assert str(none).startswith("0:")


def test_all_that_wait_in_the_queue_behind_it_get_their_answers() -> None:
    model = Away(70, most=5)
    times = ended(model, [250] * 60)
    assert all(isinstance(one, float) for one in times), times
    assert model.turned_away < 150


def test_no_task_waits_for_an_hour() -> None:
    (said,) = ended(Away(3_600), [math.inf])
    assert str(said).startswith("0: not now; it asks to be asked again in 3600 s, at ")
    assert str(said).endswith("so long no task waits for it")


def test_one_that_asks_for_it_again_and_again_is_given_up_after_five_minutes() -> None:
    model = Away(70, again=True)
    (said,) = ended(model, [math.inf])
    assert 200 < float(str(said).partition(":")[0]) < 370
    assert model.turned_away <= 6


def test_what_stands_in_is_asked_meanwhile() -> None:
    other = ScriptedModel({"p": [{}] * 9})
    (at,) = ended(FallbackModel([RetryingModel(Away(70), max_retries=0), other]), [250])
    assert isinstance(at, float)
    assert at < 1


@pytest.mark.parametrize("first", [True, False])
def test_where_what_stands_in_is_broken_the_one_that_said_when_is_waited_for(first: bool) -> None:
    broken = ScriptedModel({"p": [ModelUnavailable("refused", transient=True)] * 99})
    both: list[Model] = [RetryingModel(Away(70), max_retries=0), broken]
    (at,) = ended(FallbackModel(both if first else both[::-1]), [250])
    assert isinstance(at, float), at
    assert 70 <= at < 110


@pytest.mark.parametrize("status", [429, 503, 529])
def test_who_comes_later_is_told_what_the_endpoint_has_said_not_what_holds_for_all(status: int) -> None:
    async def main() -> list[str]:
        model = Away(900, status=status)
        retrying = RetryingModel(model, timeout_secs=60)
        said = []
        for _ in range(2):
            request = ModelRequest(
                role="planning", instructions="Plan.", turns=(), schema_name="p", json_schema={}
            )
            with pytest.raises(ModelUnavailable) as caught:
                await retrying.ask(request.model_copy(update={"watcher": Task(30)}))
            said.append(str(caught.value))
            await asyncio.sleep(10)
        assert model.turned_away == 1, "within its time nobody else asks"
        return said

    first, second = virtual_time(main())
    assert "asked again in 900 s" in first
    assert "left alone for 890 s more; it asks to be asked again in 890 s" in second


@pytest.mark.parametrize(("header", "secs"), [("2.5", 2.5), ("2", 2.0), ("soon", None)])
def test_a_time_with_decimals_is_one(header: str, secs: float | None) -> None:
    error = ModelHTTPError(503, "m", None, headers={"Retry-After": header})
    assert of_status("it", error, quota=False, key="").retry_after == secs
