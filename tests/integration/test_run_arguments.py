"""Whatever is given to `Replan` in place of an argument gets an error that names it."""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from replan import Replan, tool
from replan.errors import InputError, ReplanError
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Silent:
    """It cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Code(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")

    code: str = Field(pattern="^(?=.*[0-9]).+$")


WRONG: list[Any] = [5, -1, 1.5, 10**400, b"x", "\x00", "\ud800", [], {}, [1], {1: 2}, object(), Silent(), {1}]
PLAN = {"steps": [{"step_id": "a", "tool": "echo", "parameters": {"x": "1"}}]}


@tool(effect="reads")
def echo(x: str) -> str:
    return x


@pytest.mark.parametrize("value", [None, *WRONG], ids=lambda value: type(value).__name__)
async def test_a_wrong_argument_of_a_call_is_never_a_raw_error(tmp_path: Path, value: Any) -> None:
    async with Replan(ScriptedModel({}), [echo], db=tmp_path / "x.db", evaluation="steps") as replan:
        task_id = (await replan.run("t", plan=PLAN)).task_id
        calls: list[tuple[Any, dict[str, Any]]] = [
            (replan.cancel, {"task_id": task_id, "reason": value}),
            (replan.cancel, {"task_id": task_id, "by": value}),
            (replan.reject, {"task_id": task_id, "reason": value}),
            (replan.approve, {"task_id": task_id, "by": value}),
            (replan.answer, {"task_id": task_id, "text": value}),
            (replan.output, {"task_id": task_id, "step_id": value}),
            (replan.output, {"task_id": task_id, "step_id": "a", "item": value}),
            (replan.tasks, {"status": value}),
            (replan.tasks, {"limit": value}),
            (replan.run, {"text": "t", "plan": PLAN, "secrets": value}),
            (replan.run, {"text": "t", "plan": PLAN, "timeout": value}),
            (replan.run, {"text": "t", "plan": PLAN, "output_type": value}),
            *((getattr(replan, name), {"task_id": value}) for name in ONE_TASK),
        ]
        for method, given in calls:
            with contextlib.suppress(ReplanError):
                await method(**given)


ONE_TASK = ["wait", "result", "summary", "history", "delete", "resume", "approval"]


def _is_usable(name: str, value: Any) -> bool:
    """A text that may be a key, or an address that is only wrong when it is asked."""
    return isinstance(value, str) and (
        (name == "api_key" and value != "\x00") or (name == "endpoint" and value == "\x00")
    )


AT_THE_START = [
    pytest.param(name, value, id=f"{name}-{type(value).__name__}-{at}")
    for name in ("db", "record", "replay", "endpoint", "api_key", "ask", "on_event")
    for at, value in enumerate(WRONG)
    if not _is_usable(name, value)
]


@pytest.mark.parametrize(("name", "value"), AT_THE_START)
def test_a_wrong_argument_at_the_start_is_named(name: str, value: Any, tmp_path: Path) -> None:
    given: dict[str, Any] = {"db": tmp_path / "x.db", name: value}
    with pytest.raises(ReplanError, match=name):
        Replan(ScriptedModel({}), [echo], **given)


async def test_an_error_says_what_would_be_right(tmp_path: Path) -> None:
    async with Replan(ScriptedModel({}), [echo], db=tmp_path / "x.db") as replan:
        with pytest.raises(InputError, match=r"reason: expected a text, found nothing"):
            await replan.cancel("t", None)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"expected a list of statuses like \['failed'\]"):
            await replan.tasks("failed")
        with pytest.raises(InputError, match="did you mean 'succeeded'"):
            await replan.tasks(["succeded"])
        with pytest.raises(InputError, match="limit: expected a number from 1"):
            await replan.tasks(limit=-1)
        with pytest.raises(InputError, match="output_type: an empty text cannot be the form of an answer"):
            await replan.run("t", plan=PLAN, output_type="")
        with pytest.raises(InputError, match=r'secrets: expected a mapping like ."api_key": "env:API_KEY".'):
            await replan.run("t", plan=PLAN, secrets="hunter2hunter2")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="unexpected keyword"):
            await replan.wait("t", until=5)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="db: the path is empty"):
        Replan(db="")


def test_a_key_of_the_wrong_type_is_not_told() -> None:
    with pytest.raises(InputError) as raised:
        Replan(api_key=b"hunter2hunter2")  # type: ignore[arg-type]
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "key", [SecretStr("hunter2hunter2"), "hunter2hunter2", None], ids=["secret", "text", "none"]
)
def test_a_key_is_a_text_or_a_secret_text(key: Any) -> None:
    replan = Replan(api_key=key)
    assert replan.secrets.hide("the key hunter2hunter2") == (
        "the key ***" if key else "the key hunter2hunter2"
    )


@pytest.mark.parametrize(
    "model", ["\ud800", {"planning": "openai:\ud800"}, {"planning": "\ud800", "evaluation": "local"}]
)
def test_a_name_of_a_model_that_is_no_text_is_named(model: Any) -> None:
    with pytest.raises(InputError, match=r"model( of planning)?: holds bytes that are no text"):
        Replan(model)


def test_what_is_checked_is_called_and_documented_as_it_was() -> None:
    assert inspect.iscoroutinefunction(Replan.run)
    assert "task_id" in inspect.signature(Replan.wait).parameters
    assert (Replan.cancel.__doc__ or "").startswith("Ask for the task's end")


@pytest.mark.parametrize("depth", [3_000, 100_000])
async def test_a_schema_that_is_nested_too_deep_is_refused_in_words(tmp_path: Path, depth: int) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    async with Replan(ScriptedModel({}), [echo], db=tmp_path / "x.db") as replan:
        with pytest.raises(InputError, match="output_schema"):
            await replan.run("t", plan=PLAN, output_schema=schema)


@pytest.mark.parametrize("pattern", ["^(?=.*[0-9]).+$", "^(?!bad).*$", r"^(a)\1$", "(", "["])
@pytest.mark.parametrize("nested", [False, True])
async def test_a_pattern_that_no_answer_can_be_held_to_is_refused(
    tmp_path: Path, pattern: str, nested: bool
) -> None:
    schema: dict[str, Any] = {"type": "string", "pattern": pattern}
    wanted = (
        {"type": "array", "items": {"$ref": "#/$defs/code"}, "$defs": {"code": schema}} if nested else schema
    )
    async with Replan(ScriptedModel({}), [echo], db=tmp_path / "x.db") as replan:
        with pytest.raises(InputError, match=r"output_schema: .* is no pattern that can be matched"):
            await replan.run("t", plan=PLAN, output_schema=wanted)
        with pytest.raises(InputError, match="write it otherwise"):
            await replan.submit("t", plan=PLAN, output_schema=wanted)
        assert await replan.tasks() == []


async def test_a_pattern_that_can_be_read_is_taken_and_a_type_checks_its_own(tmp_path: Path) -> None:
    async with Replan(ScriptedModel({}), [echo], db=tmp_path / "x.db") as replan:
        schema = {"type": "string", "pattern": r"^[\w\-.]+@(?<host>[a-z]+)$"}
        assert await replan.submit("t", plan=PLAN, output_schema=schema)
        done = await replan.run("t", plan=PLAN, output_type=Code, evaluation="steps")
        assert not done.succeeded, "it is taken, and the answer is no code"


async def test_tools_are_told_only_of_a_replan_that_is_open(tmp_path: Path) -> None:
    replan = Replan(ScriptedModel({}), [echo], db=tmp_path / "x.db")
    with pytest.raises(InputError, match="not open"):
        await replan.tools()
    async with replan:
        assert [spec.id for spec in await replan.tools()] == ["echo"]
    with pytest.raises(InputError, match="not open"):
        await replan.tools()
