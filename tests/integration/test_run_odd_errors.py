"""What a tool, a validator or what writes an output may raise against all custom: a failure of its step, never of the task's driver."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, PlainSerializer

from replan import Replan, tool
from replan.core.report.result import TaskResult

pytestmark = pytest.mark.anyio


class Odd(BaseException):
    pass


class Rude(Exception):
    pass


async def ended(folder: Path, function: Any, parameters: dict[str, Any], **options: Any) -> TaskResult:
    steps = [{"step_id": "s", "tool": "t", "parameters": parameters}]
    async with Replan(tools=[function], db=folder / "r.db", evaluation="steps") as replan:
        result = await replan.run("x", plan={"steps": steps}, **options)
        assert isinstance(result, TaskResult)
        return result


@pytest.mark.parametrize("timeout", [None, 5.0], ids=["without a limit", "with one"])
@pytest.mark.parametrize(
    "error",
    [GeneratorExit, Odd, SystemExit, concurrent.futures.CancelledError],
    ids=lambda error: error.__name__,
)
async def test_what_ends_an_async_tool_in_the_midst_of_its_work_leaves_a_doubt(
    error: type[BaseException], timeout: float | None, tmp_path: Path
) -> None:
    calls: list[int] = []

    @tool(name="t", effect="once", timeout=timeout)
    async def pay(n: int) -> int:
        calls.append(n)
        raise error

    result = await ended(tmp_path, pay, {"n": 1})
    assert result.failure is not None
    assert result.failure.kind == "outcome_unknown"
    assert calls == [1]


def refuses(error: Exception) -> Callable[[int], int]:
    def check(value: int) -> int:
        raise error

    return check


@pytest.mark.parametrize("error", [KeyError("k"), ZeroDivisionError(), Rude("no")], ids=repr)
async def test_a_validator_of_parameters_that_breaks_is_a_failed_check_and_nothing_is_called(
    error: Exception, tmp_path: Path
) -> None:
    calls: list[int] = []

    class Order(BaseModel):
        n: Annotated[int, AfterValidator(refuses(error))]

    @tool(name="t", effect="once")
    def pay(order: Order) -> int:
        calls.append(order.n)
        return order.n

    result = await ended(tmp_path, pay, {"order": {"n": 1}})
    assert result.failure is not None
    assert result.failure.kind == "step"
    assert "'t'" in result.failure.reason
    assert type(error).__name__ in result.failure.reason
    assert calls == []


class Unwritable(dict[str, Any]):
    def items(self) -> Any:
        raise Rude("no items")

    def __iter__(self) -> Iterator[str]:
        raise Rude("no keys")


@pytest.mark.parametrize("how", ["serializer", "object"])
async def test_what_breaks_while_the_output_is_written_leaves_a_doubt_since_the_function_has_run(
    how: str, tmp_path: Path
) -> None:
    def write(value: int) -> str:
        raise Rude("no")

    class Receipt(BaseModel):
        n: Annotated[int, PlainSerializer(write)]

    @tool(name="t", effect="once")
    def pay(n: int) -> Any:
        return Receipt(n=n) if how == "serializer" else Unwritable(n=n)

    result = await ended(tmp_path, pay, {"n": 1})
    assert result.is_success or (result.failure is not None and result.failure.kind == "outcome_unknown"), (
        result.failure
    )


@pytest.mark.parametrize("error", [KeyError("k"), ZeroDivisionError(), Rude("no")], ids=repr)
async def test_a_validator_of_the_answer_that_breaks_refuses_the_answer(
    error: Exception, tmp_path: Path
) -> None:
    @tool(name="t", effect="reads")
    def look(n: int) -> int:
        return n

    wanted = Annotated[int, AfterValidator(refuses(error))]
    result = await ended(tmp_path, look, {"n": 1}, output_type=wanted)
    assert result.failure is not None
    assert result.failure.kind == "judgement"
    assert any(type(error).__name__ in cause for cause in result.failure.root_causes)
