"""How functions are called: contexts, progress, cancellation, exceptions."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import decimal
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Annotated, Any

import anyio
import pytest
from pydantic import Field

from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall
from replan.tools import FunctionSource, ToolContext, current, tool
from replan.tools.functions.threads import DaemonThreads

pytestmark = pytest.mark.anyio


async def call(function: Callable[..., Any], report: Any = None, **parameters: Any) -> Any:
    source = FunctionSource([function])
    (spec,) = await source.tools()
    return await source.call(
        ToolCall(spec.id, parameters, "key", "task_1", "step_1", 2, deadline_secs=5.0, report=report)
    )


def seen_by_sync() -> list[Any]:
    found = current()
    return [found.key, found.task_id, found.step_id, found.attempt, found.deadline_secs, found.cancelled]


async def seen_by_async() -> list[Any]:
    return seen_by_sync()


async def seen_by_async_generator() -> AsyncIterator[Progress | list[Any]]:
    yield seen_by_sync()


def seen_by_generator() -> Iterator[Progress | list[Any]]:
    yield seen_by_sync()


@pytest.mark.parametrize(
    "function",
    [seen_by_sync, seen_by_async, seen_by_async_generator, seen_by_generator],
    ids=lambda f: f.__name__,
)
async def test_the_current_context_is_that_of_the_call(function: Callable[..., Any]) -> None:
    assert await call(function) == ["key", "task_1", "step_1", 2, 5.0, False]
    assert current().key == ""


async def test_context_variables_reach_a_thread_and_do_not_come_back() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("outside")

    def look() -> str:
        before = variable.get()
        variable.set("inside")
        return before

    assert await call(look) == "outside"
    assert variable.get() == "outside"


def test_outside_of_a_call_reports_go_nowhere() -> None:
    current().report("nobody listens", 1, 2)
    assert not current().cancelled
    assert not current().wait(0)


def sync_generator() -> Iterator[Any]:
    yield Progress("half", 1, 2)
    yield Progress("nearly")
    yield Progress("", 9, 10)
    yield {"result": 1}
    yield Progress("done")


def returning_generator() -> Any:
    yield "half"
    yield (1, 2)
    return {"result": 1}


async def async_generator() -> AsyncIterator[Any]:
    yield Progress("half", 1, 2)
    yield Progress("nearly")
    yield Progress("", 9, 10)
    yield {"result": 1}
    yield Progress("done")


def reporting(ctx: ToolContext) -> dict[str, int]:
    ctx.report("half", 1, 2)
    ctx.report("nearly")
    return {"result": 1}


async def reporting_async(ctx: ToolContext) -> dict[str, int]:
    await asyncio.to_thread(ctx.report, "half", 1, 2)
    ctx.report("nearly")
    return {"result": 1}


FIVE = [Progress("half", 1, 2), Progress("nearly"), Progress("", 9, 10), Progress("done")]


@pytest.mark.parametrize(
    ("function", "progress"),
    [
        pytest.param(sync_generator, FIVE, id="generator"),
        pytest.param(async_generator, FIVE, id="async generator"),
        pytest.param(
            returning_generator, [Progress("half"), Progress("", 1, 2)], id="generator that returns"
        ),
        pytest.param(reporting, FIVE[:2], id="reports from a thread"),
        pytest.param(reporting_async, FIVE[:2], id="reports from the loop and a thread"),
    ],
)
async def test_progress_is_passed_on_in_order_before_the_result(
    function: Callable[..., Any], progress: list[Progress]
) -> None:
    seen: list[Progress] = []
    threads = set()

    def report(item: Progress) -> None:
        seen.append(item)
        threads.add(threading.get_ident())

    assert await call(function, report) == {"result": 1}
    assert seen == progress
    assert threads == {threading.get_ident()}


async def only_progress() -> AsyncIterator[Progress]:
    yield Progress("x")


def texts() -> Iterator[str]:
    yield "first"
    yield "last"


def rows() -> Iterator[dict[str, int]]:
    yield {"n": 1}
    yield {"n": 2}


async def rows_async() -> AsyncIterator[dict[str, int]]:
    yield {"n": 1}


def rows_and_progress() -> Generator[dict[str, int]]:
    yield Progress("half")  # type: ignore[misc]
    yield {"n": 1}


def unsaid():  # type: ignore[no-untyped-def]
    yield "a"
    yield (1, 2)


def nothing() -> Iterator[dict[str, int]]:
    yield from ()


def one_after_progress():  # type: ignore[no-untyped-def]
    yield Progress("half")
    yield {"n": 1}


def several_after_progress():  # type: ignore[no-untyped-def]
    yield Progress("half")
    yield {"n": 1}
    yield {"n": 2}


def rows_of_another() -> Iterator[dict[str, int]]:
    return rows()


def a_map() -> Iterator[int]:
    return map(int, ("1", "2"))


def returns_expression() -> Iterator[int]:
    return (n * n for n in range(3))


def returns_coroutine(n: int = 1) -> Any:
    return seen_by_async()


def returns_async_generator() -> Any:
    return async_generator()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(only_progress, None, id="nothing but progress gives None"),
        pytest.param(texts, ["first", "last"], id="all that is yielded, also texts"),
        pytest.param(rows, [{"n": 1}, {"n": 2}], id="all rows of a generator"),
        pytest.param(rows_async, [{"n": 1}], id="a single row is a list of one"),
        pytest.param(rows_and_progress, [{"n": 1}], id="progress is no row, and changes no shape"),
        pytest.param(nothing, [], id="no row at all"),
        pytest.param(unsaid, ["a", [1, 2]], id="nothing said: all of it"),
        pytest.param(one_after_progress, {"n": 1}, id="nothing said: one thing after its progress"),
        pytest.param(several_after_progress, [{"n": 1}, {"n": 2}], id="nothing said: several after progress"),
        pytest.param(rows_of_another, [{"n": 1}, {"n": 2}], id="another's generator"),
        pytest.param(a_map, [1, 2], id="any iterator"),
        pytest.param(returns_expression, [0, 1, 4], id="a generator expression is a list"),
        pytest.param(
            returns_coroutine, ["key", "task_1", "step_1", 2, 5.0, False], id="a coroutine is awaited"
        ),
        pytest.param(returns_async_generator, {"result": 1}, id="an async generator is exhausted"),
    ],
)
async def test_the_result_is(function: Callable[..., Any], expected: Any) -> None:
    assert await call(function) == expected


def wrong_text() -> int:
    return "seven"  # type: ignore[return-value]


async def wrong_list() -> dict[str, int]:
    return [1]  # type: ignore[return-value]


def wrong_inside() -> list[City]:
    return [City("Rome", 3), {"name": "Oslo"}]  # type: ignore[list-item]


def wrong_row() -> Iterator[dict[str, int]]:
    yield {"n": 1}
    yield {"n": "two"}  # type: ignore[dict-item]


def wrong_bound() -> Annotated[int, Field(ge=0)]:
    return -1


def two_for_one() -> Iterator[Progress | City]:
    yield City("Rome", 3)
    yield City("Oslo", 1)


@tool(output_schema={"type": "object", "required": ["id"]})
def wrong_declared() -> Any:
    return {"name": "x"}


def wrong_none() -> str:
    return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        pytest.param(wrong_text, "'seven' is not of type 'integer'", id="a text for a number"),
        pytest.param(wrong_list, "[1] is not of type 'object'", id="a list for a dict"),
        pytest.param(wrong_inside, "[1]: 'size' is a required property", id="deep inside"),
        pytest.param(wrong_row, "[1].n: 'two' is not of type 'integer'", id="a row of a generator"),
        pytest.param(wrong_bound, "-1 is less than the minimum of 0", id="a bound"),
        pytest.param(two_for_one, "is not of type 'object'", id="several in the place of one"),
        pytest.param(wrong_declared, "its output schema says: 'id' is a required property", id="declared"),
        pytest.param(wrong_none, "null is not of type 'string'", id="nothing for a text"),
    ],
)
async def test_what_is_returned_has_to_be_what_is_annotated(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(ToolCallError) as caught:
        await call(function)
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")
    assert says in str(caught.value)


@dataclasses.dataclass
class City:
    name: str
    size: int
    note: str = ""


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        pytest.param(float, 3, 3, id="a whole number for a float"),
        pytest.param(decimal.Decimal, decimal.Decimal("1E+10"), "1E+10", id="a Decimal, however written"),
        pytest.param(City, {"name": "Rome", "size": 3}, {"name": "Rome", "size": 3}, id="a dict for a class"),
        pytest.param(City | None, None, None, id="None where it may be"),
        pytest.param(None, {"a": 1}, {"a": 1}, id="`-> None` says nothing of what is there all the same"),
        pytest.param(tuple[int, str], (1, "a"), [1, "a"], id="a tuple"),
        pytest.param(object, [1], [1], id="anything"),
        pytest.param(bytes, b"\xff\x00", "data:application/octet-stream;base64,/wA=", id="bytes"),
        pytest.param("Nowhere", 1, 1, id="what cannot be resolved"),
    ],
)
async def test_what_fits_its_annotation_passes(annotation: Any, value: Any, expected: Any) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    assert await call(give) == expected


class OddError(Exception):
    pass


def raising(error: BaseException, how: str) -> Callable[..., Any]:
    def sync() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    async def async_generator() -> AsyncIterator[int]:
        yield 1
        raise error

    def generator() -> Iterator[int]:
        yield 1
        raise error

    return {"sync": sync, "async": coroutine, "async generator": async_generator, "generator": generator}[how]


@pytest.mark.parametrize("how", ["sync", "async", "async generator", "generator"])
@pytest.mark.parametrize(
    "error", [OddError("odd"), TimeoutError("slow"), ConnectionResetError("gone"), KeyError("k")], ids=repr
)
async def test_an_exception_passes_through_as_it_is(how: str, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        await call(raising(error, how))
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "how"),
    [
        pytest.param(SystemExit(3), "sync", id="exit in a thread"),
        pytest.param(SystemExit(3), "async", id="exit in the loop"),
        pytest.param(SystemExit(3), "generator", id="exit in a generator"),
        pytest.param(KeyboardInterrupt(), "sync", id="interrupt in a thread"),
        pytest.param(StopIteration(1), "sync", id="StopIteration"),
        pytest.param(StopAsyncIteration(), "sync", id="StopAsyncIteration"),
        pytest.param(asyncio.CancelledError(), "sync", id="CancelledError in a thread"),
        pytest.param(asyncio.CancelledError(), "async", id="CancelledError in the loop"),
        pytest.param(asyncio.CancelledError(), "async generator", id="CancelledError in an async generator"),
        pytest.param(GeneratorExit(), "sync", id="GeneratorExit"),
    ],
)
async def test_what_would_stop_the_thread_or_the_loop_is_a_failed_call(
    error: BaseException, how: str
) -> None:
    with pytest.raises(ToolCallError, match=f"{type(error).__name__}|exit"):
        await call(raising(error, how))
    assert await call(seen_by_sync) is not None


async def test_a_cancelled_async_call_is_cancelled_within() -> None:
    started, ended = asyncio.Event(), asyncio.Event()
    contexts = []

    async def hang(ctx: ToolContext) -> None:
        contexts.append(ctx)
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.create_task(call(hang))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert contexts[0].cancelled


async def test_a_cancelled_sync_call_ends_at_once_and_its_thread_is_told() -> None:
    loop = asyncio.get_running_loop()
    started, finished = asyncio.Event(), asyncio.Event()
    let_go = threading.Event()
    seen: list[Progress] = []
    told: list[bool] = []

    def stubborn(ctx: ToolContext) -> None:
        loop.call_soon_threadsafe(started.set)
        told.append(ctx.wait(10))
        ctx.report("too late")
        let_go.wait(10)
        loop.call_soon_threadsafe(finished.set)

    source = FunctionSource([stubborn])
    task = asyncio.create_task(source.call(ToolCall("stubborn", {}, "k", report=seen.append)))
    await started.wait()
    before = time.perf_counter()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.perf_counter() - before < 1
    assert source.abandoned_threads == 1
    let_go.set()
    await finished.wait()
    with anyio.fail_after(5):
        while source.abandoned_threads:  # noqa: ASYNC110  (a count, not an event)
            await asyncio.sleep(0)
    assert (told, seen) == ([True], [])


async def test_a_timeout_around_a_call_stays_a_timeout() -> None:
    release = threading.Event()

    def wait() -> None:
        release.wait(10)

    source = FunctionSource([wait])
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await source.call(ToolCall("wait", {}, "k"))
        assert source.abandoned_threads == 1
    finally:
        release.set()


async def test_a_cancelled_generator_is_not_driven_on() -> None:
    loop = asyncio.get_running_loop()
    closed, started = asyncio.Event(), asyncio.Event()
    go_on = threading.Event()
    steps: list[int] = []

    def count() -> Iterator[int]:
        try:
            for number in range(1000):
                steps.append(number)
                loop.call_soon_threadsafe(started.set)
                go_on.wait(10)
                yield number
        finally:
            loop.call_soon_threadsafe(closed.set)

    task = asyncio.create_task(call(count))
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    go_on.set()
    with anyio.fail_after(5):
        await closed.wait()
    assert steps == [0]


async def test_threads_are_reused_and_are_daemons() -> None:
    def who() -> list[Any]:
        thread = threading.current_thread()
        return [thread.name, thread.daemon]

    source = FunctionSource([who])
    found = [await source.call(ToolCall("who", {}, "k")) for _ in range(5)]
    assert found == [found[0]] * 5
    assert found[0][1] is True


async def test_an_idle_thread_ends_by_itself_and_at_release() -> None:
    for idle_secs, release in ((0.01, False), (60.0, True)):
        pool = DaemonThreads(idle_secs=idle_secs)
        thread = await pool.run(threading.current_thread)
        if release:
            pool.release()
        await asyncio.to_thread(thread.join, 5)
        assert not thread.is_alive()
        assert await pool.run(lambda: 7) == 7


async def test_a_hundred_sync_calls_run_side_by_side() -> None:
    barrier = threading.Barrier(100, timeout=10)

    def meet() -> int:
        return barrier.wait()

    source = FunctionSource([meet])
    found = await asyncio.gather(*(source.call(ToolCall("meet", {}, "k")) for _ in range(100)))
    assert sorted(found) == list(range(100))


def test_a_thread_may_outlive_its_loop() -> None:
    release, done = threading.Event(), threading.Event()

    def outlive(ctx: ToolContext) -> None:
        release.wait(10)
        ctx.pass_on(Progress("to nobody"))
        done.set()

    source = FunctionSource([outlive])

    async def give_up() -> None:
        task = asyncio.create_task(source.call(ToolCall("outlive", {}, "k", report=lambda _: None)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(give_up())
    release.set()
    assert done.wait(5)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        pytest.param({}, "city is missing", id="missing"),
        pytest.param(
            {"city": "a", "dys": 1}, r"dys is not one of its parameters \(city, days\)", id="unknown"
        ),
        pytest.param(
            {"city": "a", "days": ["x"]},
            r'days\[0\]: .*valid integer.*not "x"',
            id="wrong type, with its place",
        ),
        pytest.param({"city": "a", "days": ["y" * 500]}, "…", id="a long value is cut"),
        pytest.param({"city": object()}, "they are not JSON", id="not JSON at all"),
    ],
)
async def test_wrong_parameters_are_refused_before_anything_happens(
    parameters: dict[str, Any], reason: str
) -> None:
    called = []

    def visit(city: str, days: list[int] | None = None) -> None:
        called.append(city)

    with pytest.raises(ToolCallError, match=reason) as caught:
        await call(visit, **parameters)
    assert (caught.value.kind, caught.value.happened, called) == ("parameter", "no", [])
    assert len(str(caught.value)) < 400
