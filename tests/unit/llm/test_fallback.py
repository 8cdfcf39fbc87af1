"""Models that stand in for one another, and the breaker before each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.errors import ModelUnavailable
from replan.llm.fallback import FallbackModel
from replan.llm.faults import EndpointError
from replan.llm.relay import Relay
from replan.llm.retry import RetryingModel
from replan.ports import ModelReply, ModelRequest, Turn
from replan.testing import ScriptedModel, virtual_time

pytestmark = pytest.mark.anyio

REQUEST = ModelRequest(
    role="evaluation",
    schema_name="evaluation",
    json_schema={},
    instructions="Judge.",
    turns=(Turn(role="user", text="?"),),
)
DOWN = ModelUnavailable("first is down", transient=True)
NO_KEY = ModelUnavailable("second has no key", setup=True)


def model(*answers: object, name: str = "m") -> ScriptedModel:
    return ScriptedModel({"evaluation": list(answers)}, name=name)  # type: ignore[dict-item]


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_first_that_answers_is_taken() -> None:
    first, second, third = model(DOWN), model({"by": 2}), model({"by": 3})
    reply = await FallbackModel([first, second, third]).ask(REQUEST)
    assert reply.text == '{"by": 2}'
    assert [len(m.requests) for m in (first, second, third)] == [1, 1, 0]


async def test_all_of_them_failing_is_one_error_that_names_each() -> None:
    with pytest.raises(ModelUnavailable, match=r"(?s)first is down.*second has no key") as caught:
        await FallbackModel([model(DOWN), model(NO_KEY)]).ask(REQUEST)
    assert caught.value.transient
    assert caught.value.exit_code == 1


async def test_a_fault_that_is_not_of_the_model_is_not_covered_up() -> None:
    second = model({"by": 2})
    with pytest.raises(ZeroDivisionError):
        await FallbackModel([model(ZeroDivisionError()), second]).ask(REQUEST)
    assert not second.requests


async def test_a_model_that_keeps_failing_is_left_alone_for_a_while_and_then_tried_once() -> None:
    time = Time()
    first = model(DOWN, DOWN, {"by": 1}, {"by": 1})
    fallback = FallbackModel([first, model(*[{"by": 2}] * 9)], threshold=2, cool_down_secs=30, now=time)
    asked = []
    for time.now in (0, 1, 2, 30, 32, 33):
        before = len(first.requests)
        reply = await fallback.ask(REQUEST)
        asked.append((len(first.requests) - before, reply.text))
    other, own = '{"by": 2}', '{"by": 1}'
    assert asked == [(1, other), (1, other), (0, other), (0, other), (1, own), (1, own)]


async def test_closing_closes_every_model() -> None:
    models = [model(), model()]
    await FallbackModel(models).aclose()
    assert all(m.closed for m in models)


def test_who_finds_that_another_tries_waits_for_how_that_ends() -> None:
    """A service with one endpoint is back, and slow: the callers that are not the one that tries are not turned away."""

    class Slow:
        name, style = "m", "standard"
        asked = 0

        async def ask(self, request: ModelRequest, on_text: object = None) -> ModelReply:
            self.asked += 1
            if self.asked <= 3:
                raise DOWN
            await asyncio.sleep(20)
            return ModelReply(text="x", model="m")

        async def aclose(self) -> None:
            pass

    async def main() -> tuple[list[object], int, float]:
        slow = Slow()
        loop = asyncio.get_running_loop()
        fallback = FallbackModel([slow], threshold=3, cool_down_secs=2, now=loop.time)  # type: ignore[list-item]
        patient = RetryingModel(fallback, max_retries=3, timeout_secs=60)
        first = await asyncio.gather(*(patient.ask(REQUEST) for _ in range(8)), return_exceptions=True)
        return list(first), slow.asked, loop.time()

    answers, asked, _ = virtual_time(main())
    assert [getattr(answer, "text", answer) for answer in answers] == ["x"] * 8
    assert asked <= 3 + 8


def test_nobody_waits_for_what_nobody_tries() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        fallback = FallbackModel([model(*[DOWN] * 99)], threshold=1, cool_down_secs=30, now=loop.time)
        patient = RetryingModel(fallback, max_retries=3, timeout_secs=20)
        with pytest.raises(ModelUnavailable):
            await patient.ask(REQUEST)
        return loop.time()

    begun = virtual_time(_time())
    assert virtual_time(main()) - begun < 20


async def _time() -> float:
    return asyncio.get_running_loop().time()


@given(st.text(max_size=12), st.lists(st.tuples(st.text(max_size=12), st.integers(1, 4)), max_size=4))
def test_a_listener_hears_a_prefix_of_some_try_and_no_piece_twice(
    first: str, tries: list[tuple[str, int]]
) -> None:
    heard: list[str] = []
    relay = Relay(heard.append)
    for text, size in [(first, 3), *tries]:
        relay.begin()
        for start in range(0, len(text), size):
            relay(text[start : start + size])
    told = "".join(heard)
    assert any(text.startswith(told) for text, _ in [(first, 3), *tries])
    assert told.startswith(first)


def test_retries_wait_in_virtual_time_and_stop_at_the_limit() -> None:
    async def main() -> tuple[int, str]:
        failing = model(*[DOWN] * 99)
        patient = RetryingModel(failing, max_retries=50, timeout_secs=60, rand=lambda: 0.0)
        with pytest.raises(ModelUnavailable) as caught:
            await patient.ask(REQUEST)
        return len(failing.requests), str(caught.value)

    tries, text = virtual_time(main())
    assert tries == 7  # waits of 0.5, 1, 2, 4, 8, 16 s; the next one would end after the limit
    assert text == "first is down"


class Useless(ScriptedModel):
    """Can be asked in `ways` ways, and gives nothing that could be read in any of them."""

    def __init__(self, ways: int) -> None:
        super().__init__({"evaluation": ["no"] * 99})
        self.ways = ways

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        reply = await super().ask(request, on_text)
        return reply.model_copy(update={"other_ways": request.unread < self.ways - 1})


@pytest.mark.parametrize("ways", [(1, 1), (3, 1), (1, 2), (2, 3)])
async def test_one_whose_answers_cannot_be_used_in_any_way_gives_way_to_the_next(
    ways: tuple[int, int],
) -> None:
    first, second = map(Useless, ways)
    fallback = FallbackModel([first, second])
    for again in range(2):  # what was learnt of the first holds for the next question, which begins with it
        for unread in range(sum(ways)):
            reply = await fallback.ask(REQUEST.model_copy(update={"unread": unread}))
            assert reply.other_ways == (unread < sum(ways) - 1)
        assert [len(one.requests) for one in (first, second)] == [n * (again + 1) for n in ways]
    assert [one.unread for one in second.requests] == [*range(ways[1])] * 2


def test_a_wait_that_an_endpoint_asks_for_and_that_is_too_long_is_told() -> None:
    busy = EndpointError("the endpoint is busy", transient=True, status=429, retry_after=3600)

    async def main() -> EndpointError:
        with pytest.raises(EndpointError) as caught:
            await RetryingModel(model(busy), timeout_secs=60).ask(REQUEST)
        return caught.value

    told = virtual_time(main())
    assert str(told) == (
        "the endpoint is busy; it asks to be asked again in 3600 s, and the time limit here is 60 s"
    )
    assert (told.status, told.retry_after, told.transient) == (429, 3600, True)


class Stuck(ScriptedModel):
    async def aclose(self) -> None:
        await super().aclose()
        raise RuntimeError(f"{self.name} cannot be closed")


@pytest.mark.parametrize("stuck", [{"a"}, {"b"}, {"a", "c"}, {"a", "b", "c"}])
async def test_one_that_cannot_be_closed_leaves_no_other_open(stuck: set[str]) -> None:
    models = [(Stuck if name in stuck else ScriptedModel)({}, name=name) for name in "abc"]

    with pytest.raises(RuntimeError, match="cannot be closed"):
        await FallbackModel(models).aclose()

    assert [one.closed for one in models] == [True] * 3


async def test_one_that_is_left_alone_is_told_with_what_it_said_last() -> None:
    clock = Time()
    unknown = EndpointError("404: the model 'qwen3' does not exist; it serves: other", status=404, setup=True)
    refused = ModelUnavailable("the connection was refused", transient=True)
    both = FallbackModel([model(*[unknown] * 3), model(*[refused] * 3)], now=clock)
    for _ in range(3):
        with pytest.raises(ModelUnavailable):
            await both.ask(REQUEST)
    with pytest.raises(ModelUnavailable) as caught:
        await both.ask(REQUEST)
    assert "it serves: other (left alone for 2 s after several failures)" in str(caught.value)
    assert "the connection was refused (left alone for 2 s after several failures)" in str(caught.value)


async def test_one_that_answers_again_has_no_old_reason() -> None:
    clock = Time()
    old = ModelUnavailable("the old reason", transient=True)
    new = ModelUnavailable("the new reason", transient=True)
    one = FallbackModel([model(old, {"by": 1}, *[new] * 3)], now=clock)
    with pytest.raises(ModelUnavailable, match="the old reason"):
        await one.ask(REQUEST)
    await one.ask(REQUEST)
    for _ in range(4):
        with pytest.raises(ModelUnavailable, match="the new reason"):
            await one.ask(REQUEST)


@pytest.mark.parametrize("well_again", [True, False])
def test_where_all_are_left_alone_the_one_that_is_due_first_is_waited_for(well_again: bool) -> None:
    """Three failures of each open the breakers; the last try is not taken up by their waits."""

    async def scene() -> tuple[str, list[int]]:
        now = asyncio.get_running_loop().time
        both = [model(*[DOWN] * 3, {"by": n} if well_again else DOWN, name=str(n)) for n in (1, 2)]
        asking = RetryingModel(FallbackModel(both, now=now), timeout_secs=60)
        try:
            text = (await asking.ask(REQUEST)).text
        except ModelUnavailable as error:
            text = str(error)
        return text, [len(one.requests) for one in both]

    text, asked = virtual_time(scene())
    assert asked == ([4, 3] if well_again else [4, 4])
    assert text == '{"by": 1}' if well_again else "no model answered" in text


def test_where_all_are_left_alone_for_longer_than_there_is_time_that_is_said() -> None:
    async def scene() -> list[int]:
        now = asyncio.get_running_loop().time
        began = now()
        both = [model(*[DOWN] * 9, name=str(n)) for n in (1, 2)]
        several = FallbackModel(both, now=now, cool_down_secs=90)
        with pytest.raises(ModelUnavailable, match=r"left alone for 8[89] s"):
            await RetryingModel(several, timeout_secs=60).ask(REQUEST)
        assert now() - began < 10
        return [len(one.requests) for one in both]

    assert virtual_time(scene()) == [3, 3]


class Partly(ScriptedModel):
    """By its count, it has read a part of the prompt."""

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        return (await super().ask(request, on_text)).model_copy(update={"read_in_part": True})


async def test_one_that_has_read_a_part_of_the_prompt_is_believed_only_where_nobody_else_answers() -> None:
    def partly() -> ScriptedModel:
        return Partly({"evaluation": [{"by": 1}]}, name="short")

    whole = await FallbackModel([partly(), model({"by": 2})]).ask(REQUEST)
    assert whole.text == '{"by": 2}'
    alone = await FallbackModel([partly(), model(DOWN)]).ask(REQUEST)
    assert (alone.text, alone.endpoint) == ('{"by": 1}', "short")
    assert (await FallbackModel([model(DOWN), partly()]).ask(REQUEST)).text == '{"by": 1}'
