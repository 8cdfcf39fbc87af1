"""Whatever the types: the schema takes what the function receives, and the output is as its schema says."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import uuid
from typing import Any, Literal, NamedTuple, TypedDict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, TypeAdapter

from replan.ports import ToolCall
from replan.tools import FunctionSource
from replan.tools.functions.annotations import adapted
from thorough import examples


class Color(enum.Enum):
    RED = "red"
    BLUE = 2


class Model(BaseModel):
    when: dt.date
    amounts: list[decimal.Decimal] = []
    inner: Model | None = None


@dataclasses.dataclass
class Data:
    id: uuid.UUID
    color: Color = Color.RED


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Row(TypedDict):
    key: str
    value: float


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=4)
DATES = st.dates()
SCALARS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (str, TEXT),
    (bytes, st.binary(max_size=20)),
    (dt.date, DATES),
    (dt.datetime, st.datetimes(timezones=st.just(dt.UTC))),
    (dt.time, st.times()),
    (dt.timedelta, st.timedeltas(min_value=dt.timedelta(0), max_value=dt.timedelta(days=9000))),
    (decimal.Decimal, DECIMALS),
    (uuid.UUID, st.uuids()),
    (pathlib.Path, TEXT.filter(lambda text: "\x00" not in text).map(pathlib.Path)),
    (Color, st.sampled_from(Color)),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (Pair, st.builds(Pair, st.integers(), TEXT)),
    (Row, st.fixed_dictionaries({"key": TEXT, "value": st.floats(allow_nan=False, allow_infinity=False)})),
    (Data, st.builds(Data, st.uuids(), st.sampled_from(Color))),
    (
        Model,
        st.recursive(
            st.builds(Model, when=DATES, amounts=st.lists(DECIMALS, max_size=2)),
            lambda inner: st.builds(Model, when=DATES, inner=inner),
            max_leaves=3,
        ),
    ),
]


def containers(
    inner: tuple[Any, st.SearchStrategy[Any]],
) -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    kind, values = inner
    hashable = kind in (int, str, dt.date, uuid.UUID, Color, decimal.Decimal)
    choices: list[tuple[Any, st.SearchStrategy[Any]]] = [
        (list[kind], st.lists(values, max_size=3)),
        (dict[str, kind], st.dictionaries(TEXT, values, max_size=3)),
        (tuple[kind, int], st.tuples(values, st.integers())),
        (kind | None, st.none() | values),
    ]
    if hashable:
        choices.append((frozenset[kind], st.frozensets(values, max_size=3)))
    return st.sampled_from(choices)


TYPES = st.sampled_from(SCALARS) | st.sampled_from(SCALARS).flatmap(containers)
TYPES = TYPES | TYPES.flatmap(lambda pair: st.just((list[pair[0]], st.lists(pair[1], max_size=2))))
CASES = TYPES.flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1]))


def _unordered(value: Any) -> Any:
    """The value with every list sorted: a set has no order."""
    if isinstance(value, dict):
        return {key: _unordered(item) for key, item in value.items()}
    return sorted(map(_unordered, value), key=repr) if isinstance(value, list) else value


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CASES)
def test_a_value_comes_in_and_goes_out_as_the_schemas_say(case: tuple[Any, Any]) -> None:
    kind, value = case
    received = []

    async def echo(value: Any) -> Any:
        received.append(value)
        return value

    echo.__annotations__ = {"value": kind, "return": kind}
    source = FunctionSource([echo])

    async def scenario() -> None:
        (spec,) = await source.tools()
        output = await source.call(ToolCall("echo", {"value": written(value, kind)}, "key"))
        assert received == [value]
        assert json.loads(json.dumps(output, allow_nan=False)) == output
        assert list(Draft202012Validator(spec.output_schema or {}).iter_errors(output)) == []
        # What one tool gives out, another of the same type takes in, and finds the same in it.
        assert list(Draft202012Validator(spec.parameters).iter_errors({"value": output})) == []
        again = await source.call(ToolCall("echo", {"value": output}, "key"))
        assert received == [value, value]
        assert again == output or ("set[" in str(kind) and _unordered(again) == _unordered(output))

    asyncio.run(scenario())


def written(value: Any, kind: Any) -> Any:
    """The value as a caller would write it in JSON, by pydantic and not by us where that can be."""
    if "bytes" in repr(kind):
        return decoded(value)
    return TypeAdapter(adapted(kind)).dump_python(value, mode="json")


def decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        import base64

        return "data:;base64," + base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: decoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [decoded(item) for item in value]
    return value
