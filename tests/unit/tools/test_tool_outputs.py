"""What functions return, as JSON."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import pathlib
import sqlite3
import uuid
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PlainSerializer, SecretStr, computed_field

from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools import FunctionSource, tool
from replan.tools.functions.output import to_plain

pytestmark = pytest.mark.anyio


class Color(enum.Enum):
    RED = "red"


class Base(BaseModel):
    name: str = Field(alias="Name")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def length(self) -> int:
        return len(self.name)


class Derived(Base):
    more: bytes = b"b"


@dataclasses.dataclass
class Part:
    x: int
    raw: bytes = b""


@dataclasses.dataclass
class SubPart(Part):
    y: int = 2


class Pair(NamedTuple):
    a: int
    b: str


class Array:
    """As numpy has it."""

    dtype = "int64"

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value


def rows() -> list[sqlite3.Row]:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    try:
        return connection.execute("select 1 as a, 'x' as b").fetchall()
    finally:
        connection.close()


BINARY = "data:application/octet-stream;base64,/wA="


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="None"),
        pytest.param(2**80, 2**80, id="a large whole number"),
        pytest.param(0.1, 0.1, id="float"),
        pytest.param("näh 北京 👩‍👩‍👧 \x00\u2028", "näh 北京 👩‍👩‍👧 \x00\u2028", id="text"),
        pytest.param("\ud83d\ude80 x", "🚀 x", id="two halves of a sign"),
        pytest.param({"a": ("x", {"y"})}, {"a": ["x", ["y"]]}, id="tuples and sets are lists"),
        pytest.param(
            {1: "a", None: "b", 1.5: "c"}, {"1": "a", "None": "b", "1.5": "c"}, id="keys become text"
        ),
        pytest.param(b"text", "text", id="bytes that are text"),
        pytest.param(b"\xff\x00", BINARY, id="bytes that are none"),
        pytest.param(
            {"deep": [Part(1, b"\xff\x00")]}, {"deep": [{"x": 1, "raw": BINARY}]}, id="binary deep inside"
        ),
        pytest.param({b"\xff\x00": memoryview(b"a")}, {BINARY: "a"}, id="binary key"),
        pytest.param(bytearray(b"a"), "a", id="bytearray"),
        pytest.param(decimal.Decimal("1.10"), "1.10", id="Decimal"),
        pytest.param(dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "2024-01-01T00:00:00Z", id="datetime"),
        pytest.param(dt.timedelta(seconds=90), "PT1M30S", id="timedelta"),
        pytest.param(uuid.UUID(int=0), str(uuid.UUID(int=0)), id="UUID"),
        pytest.param(pathlib.PurePosixPath("a/b"), "a/b", id="Path"),
        pytest.param(Color.RED, "red", id="Enum"),
        pytest.param(SecretStr("s3cret"), "**********", id="a secret stays one"),
        pytest.param(Base(Name="ab"), {"Name": "ab", "length": 2}, id="model"),
        pytest.param([Derived(Name="ab")], [{"Name": "ab", "length": 2, "more": "b"}], id="derived model"),
        pytest.param(
            Derived(Name="ab", more=b"\xff\x00"),
            {"Name": "ab", "length": 2, "more": BINARY},
            id="model with binary",
        ),
        pytest.param(SubPart(1), {"x": 1, "raw": "", "y": 2}, id="derived dataclass"),
        pytest.param(Pair(1, "b"), [1, "b"], id="NamedTuple"),
        pytest.param(collections.deque([1]), [1], id="deque"),
        pytest.param(collections.OrderedDict(a=1), {"a": 1}, id="OrderedDict"),
        pytest.param(range(3), [0, 1, 2], id="range"),
        pytest.param({"a": 1}.keys(), ["a"], id="a view of keys"),
        pytest.param(collections.ChainMap({"a": 1}), {"a": 1}, id="a mapping"),
        pytest.param(collections.Counter("aab"), {"a": 2, "b": 1}, id="Counter"),
        pytest.param(Array([1, 2]), [1, 2], id="an array like numpy's"),
        pytest.param({"n": Array(5)}, {"n": 5}, id="a number like numpy's"),
        pytest.param(rows(), [{"a": 1, "b": "x"}], id="rows of sqlite3"),
    ],
)
def test_a_value_becomes_plain_json(value: Any, expected: Any) -> None:
    found = to_plain(value)
    assert found == expected
    assert json.loads(json.dumps(found, allow_nan=False)) == found


class Deep(NamedTuple):
    """A list in a list in a list…, made where it is tested: pytest looks at every value it is given."""

    levels: int

    def made(self) -> list[Any]:
        value: list[Any] = []
        for _ in range(self.levels):
            value = [value]
        return value


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(object(), "no JSON form for the type object", id="object"),
        pytest.param({"a": [sqlite3]}, "no JSON form for the type module", id="deep inside"),
        pytest.param(ValueError("x"), "no JSON form for the type ValueError", id="an exception"),
        pytest.param(Part, "no JSON form for the type type", id="a class"),
        pytest.param({"rows": [{"x": 1}, {"x": object()}]}, r"JSON: at rows\[1\]\.x: there", id="its place"),
        pytest.param([Part(3, object())], r"at \[0\]\.raw: there", id="its place in a dataclass"),
        pytest.param([{1, object}], r"at \[0\]: there", id="its place in a set"),
        pytest.param(looped(), "contains itself|more than 200 levels", id="in itself"),
        pytest.param(
            [b"\xff", looped()], "contains itself|Circular|more than 200 levels", id="in itself, with binary"
        ),
        pytest.param(Deep(250), "more than 200 levels", id="too deep"),
        pytest.param(Deep(100_000), "depth|levels|deeply", id="far too deep"),
    ],
)
def test_a_value_without_json_form_is_an_error_that_leaves_the_outcome_open(value: Any, reason: str) -> None:
    value = value.made() if isinstance(value, Deep) else value
    with pytest.raises(ToolCallError, match=reason) as caught:
        to_plain(value)
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")
    while isinstance(value, list) and value and value[0] is not value:
        value = value[0]  # taken apart by hand: Python's own way down is not deep enough


def test_a_model_that_holds_what_it_should_not_is_written_without_a_warning() -> None:
    value = Derived(Name="ab")
    value.more = 7  # type: ignore[assignment]
    assert to_plain(value) == {"Name": "ab", "length": 2, "more": 7}


def test_what_is_given_out_is_not_shared_with_the_function() -> None:
    state = {"items": [1]}
    found = to_plain(state)
    state["items"].append(2)
    assert found == {"items": [1]}


async def test_an_annotation_that_decides_the_form_is_followed_in_value_and_schema() -> None:
    @tool
    def tag() -> list[Annotated[int, PlainSerializer(lambda n: f"n{n}", return_type=str)]]:
        return [1, 2]

    source = FunctionSource([tag])
    (spec,) = await source.tools()
    assert spec.output_schema == {"type": "array", "items": {"type": "string"}}
    assert await source.call(ToolCall("tag", {}, "k")) == ["n1", "n2"]


async def test_bytes_go_from_one_tool_to_the_next_unchanged() -> None:
    every = bytes(range(256))
    received = []

    def give() -> bytes:
        return every

    def take(data: bytes, more: list[bytes]) -> int:
        received.extend([data, *more])
        return len(data)

    source = FunctionSource([give, take])
    data = await source.call(ToolCall("give", {}, "k"))
    assert await source.call(ToolCall("take", {"data": data, "more": [data, "text"]}, "k")) == 256
    assert received == [every, every, b"text"]
    with pytest.raises(ToolCallError, match="not base64"):
        await source.call(ToolCall("take", {"data": "data:;base64,%%", "more": []}, "k"))


class Measured(BaseModel):
    value: float
    more: dict[str, Any] = {}


def round_about() -> list[Any]:
    """A list that is in itself."""
    inside: list[Any] = []
    inside.append({"again": inside})
    return inside


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param(math.nan, "NaN is no number", id="NaN"),
        pytest.param({"a": [0.5, math.inf]}, "Infinity at a[1] is no number", id="an infinity inside"),
        pytest.param([Measured(value=-math.inf)], "-Infinity at [0].value", id="in a model"),
        pytest.param(Measured(value=1, more={"x": math.nan}), "NaN at more.x", id="in a model's dict"),
        pytest.param({"n": Array([math.nan])}, "NaN at n[0]", id="in an array like numpy's"),
        pytest.param({1: "a", "1": "b"}, 'both written "1"', id="1 and '1'"),
        pytest.param([{"a": {None: 1, "None": 2}}], 'both written "None"', id="None and 'None'"),
        pytest.param({b"a": 1, "a": 2}, 'both written "a"', id="bytes and text"),
        pytest.param({True: 1, "true": 2, "True": 3}, "both written", id="True and 'true'"),
        pytest.param(
            "caf\udce9.txt", r"'caf\udce9.txt' is no text that UTF-8 has", id="a name in another encoding"
        ),
        pytest.param({"n": ["a", "caf\udce9"]}, r"'caf\udce9' at n[1] is no text", id="one in a list"),
        pytest.param({"a\udce9": 1, "b\udce8": 2}, r"'a\udce9' is no text", id="a key in another encoding"),
        pytest.param(
            [Measured(value=1, more={"x": "\udcff"})], r"'\udcff' at [0].more.x", id="one in a model"
        ),
        pytest.param({"p": pathlib.PurePosixPath("\udcff")}, r"'\udcff' at p is no text", id="a path"),
        pytest.param(round_about(), "it contains itself", id="a list in itself"),
    ],
)
def test_what_json_cannot_hold_is_an_error_that_says_what_and_where(value: Any, says: str) -> None:
    with pytest.raises(ToolCallError) as caught:
        to_plain(value)
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        pytest.param({"id": 7, "fee": math.nan}, {"id": 7, "fee": "NaN"}, id="NaN"),
        pytest.param([1, -math.inf], [1, "-Infinity"], id="an infinity"),
        pytest.param(
            {"id": 7, "raw": object()}, {"id": 7, "raw": "(object, which has no JSON form)"}, id="an object"
        ),
        pytest.param({1: "a", "1": "b"}, 'both written "1"', id="two keys that are one"),
        pytest.param("caf\udce9.txt", "is no text that UTF-8 has", id="a name in another encoding"),
        pytest.param(round_about(), "it contains itself", id="a list in itself"),
    ],
)
@pytest.mark.parametrize("effect", ["once", "repeatable", "reads", None])
async def test_an_effect_that_was_had_is_not_taken_back_by_what_json_cannot_hold(
    value: Any, kept: Any, effect: Any
) -> None:
    @tool(**({"effect": effect} if effect else {}))
    def pay() -> Any:
        return value

    source = FunctionSource([pay])
    if effect in ("reads", None):  # of what nobody has said an effect of, nobody can tell that it has had one
        with pytest.raises(ToolCallError) as caught:
            await source.call(ToolCall("pay", {}, "k"))
        assert caught.value.happened == "unknown"
        return
    given = await source.call(ToolCall("pay", {}, "k"))
    assert given == kept or (kept in given and "the call itself was made" in given)
    json.dumps(given, allow_nan=False)


async def test_a_result_that_is_not_what_its_function_says_is_a_doubt_as_before() -> None:
    @tool(effect="once")
    def pay() -> Base:
        return None  # type: ignore[return-value]

    source = FunctionSource([pay])
    with pytest.raises(ToolCallError, match="not what its return annotation says") as caught:
        await source.call(ToolCall("pay", {}, "k"))
    assert caught.value.happened == "unknown"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.integers(0, 3) | st.sampled_from("0123"), inner)
    ),
    max_leaves=12,
)


def is_kept(value: Any, plain: Any) -> bool:
    """Whether the plain value has all that the value has."""
    if isinstance(value, dict):
        return len(value) == len(plain) and all(is_kept(item, plain[str(key)]) for key, item in value.items())
    if isinstance(value, list):
        return len(value) == len(plain) and all(map(is_kept, value, plain))
    if isinstance(value, str):
        return value == plain
    return bool(value == plain)


def has_no_form(value: Any) -> bool:
    """Whether JSON has none for it: a number that is none, or two keys that are written alike."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return len({str(key) for key in value}) < len(value) or any(map(has_no_form, value.values()))
    return isinstance(value, list) and any(map(has_no_form, value))


@given(PLAIN)
@example({1: "a", "1": "b"})
@example(["{", {"2": float("nan")}])
@example({"{": "inf"})
def test_a_value_is_kept_whole_or_refused(value: Any) -> None:
    if has_no_form(value):
        with pytest.raises(ToolCallError):
            to_plain(value)
        return
    plain = to_plain(value)
    assert is_kept(value, plain)
    json.dumps(plain, allow_nan=False)
