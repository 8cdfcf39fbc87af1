"""What schemas are made of signatures, and what arrives in the function."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import pathlib
import typing
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
import typing_extensions
from jsonschema import Draft202012Validator
from pydantic import Base64Bytes, BaseModel, Field, SecretStr

from replan.core.types import ToolSpec
from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall
from replan.tools import FunctionSource, ToolContext, tool

pytestmark = pytest.mark.anyio


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class City(BaseModel):
    name: str
    size: int = Field(default=1, ge=1)


class Strict(BaseModel, strict=True):
    day: dt.date


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Row(TypedDict):
    id: int
    name: typing.NotRequired[str]


class Tree(TypedDict, total=False):
    value: typing.Required[int]
    children: list[Tree]


class NewRow(typing_extensions.TypedDict):
    id: int


T = typing.TypeVar("T")


class Page(BaseModel, typing.Generic[T]):
    items: list[T]


STRING = {"type": "string"}
INTEGER = {"type": "integer"}

VALUES = [
    pytest.param(int, 3, 3, INTEGER, id="int"),
    pytest.param(float, 3, 3.0, {"type": "number"}, id="float takes a whole number"),
    pytest.param(bool, True, True, {"type": "boolean"}, id="bool"),
    pytest.param(str, "näh 北京 🚀", "näh 北京 🚀", STRING, id="str in any script"),
    pytest.param(None, None, None, {"type": "null"}, id="None"),
    pytest.param(Any, {"a": [1]}, {"a": [1]}, {}, id="Any"),
    pytest.param(bytes, "abc", b"abc", {"type": "string", "format": "binary"}, id="bytes from text"),
    pytest.param(
        bytes,
        "data:application/octet-stream;base64,/wA=",
        b"\xff\x00",
        {"type": "string", "format": "binary"},
        id="bytes from a data URL",
    ),
    pytest.param(
        dt.date, "2024-02-29", dt.date(2024, 2, 29), {"type": "string", "format": "date"}, id="date"
    ),
    pytest.param(
        dt.datetime,
        "2024-02-29T01:02:03Z",
        dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC),
        {"type": "string", "format": "date-time"},
        id="datetime",
    ),
    pytest.param(dt.time, "01:02:03", dt.time(1, 2, 3), {"type": "string", "format": "time"}, id="time"),
    pytest.param(
        dt.timedelta,
        "PT90S",
        dt.timedelta(seconds=90),
        {"type": "string", "format": "duration"},
        id="timedelta",
    ),
    pytest.param(uuid.UUID, "0" * 32, uuid.UUID(int=0), {"type": "string", "format": "uuid"}, id="UUID"),
    pytest.param(pathlib.Path, "a/b", pathlib.Path("a/b"), {"type": "string", "format": "path"}, id="Path"),
    pytest.param(decimal.Decimal, "1.10", decimal.Decimal("1.10"), None, id="Decimal from text"),
    pytest.param(decimal.Decimal, 0.1, decimal.Decimal("0.1"), None, id="Decimal from a number, exactly"),
    pytest.param(Color, "red", Color.RED, None, id="Enum"),
    pytest.param(Level, 2, Level.HIGH, None, id="IntEnum"),
    pytest.param(Literal["a", 1], 1, 1, {"enum": ["a", 1]}, id="Literal"),
    pytest.param(int | str, "7", "7", {"anyOf": [INTEGER, STRING]}, id="a union keeps the JSON type"),
    pytest.param(int | None, None, None, {"anyOf": [INTEGER, {"type": "null"}]}, id="Optional"),
    pytest.param(list[int], [1, 2], [1, 2], {"type": "array", "items": INTEGER}, id="list"),
    pytest.param(
        set[int],
        [1, 2],
        {1, 2},
        {"type": "array", "items": INTEGER, "uniqueItems": True, "x-unordered": True},
        id="set",
    ),
    pytest.param(tuple[int, str], [1, "a"], (1, "a"), None, id="tuple"),
    pytest.param(
        dict[str, int], {"a": 1}, {"a": 1}, {"type": "object", "additionalProperties": INTEGER}, id="dict"
    ),
    pytest.param(City, {"name": "Rome"}, City(name="Rome"), None, id="model"),
    pytest.param(list[City], [{"name": "Rome"}], [City(name="Rome")], None, id="list of models"),
    pytest.param(Strict, {"day": "2024-01-01"}, Strict(day=dt.date(2024, 1, 1)), None, id="strict model"),
    pytest.param(
        Page[City], {"items": [{"name": "R"}]}, Page[City](items=[City(name="R")]), None, id="generic"
    ),
    pytest.param(Point, {"x": 1}, Point(1), None, id="dataclass"),
    pytest.param(Pair, [1, "b"], Pair(1, "b"), None, id="NamedTuple"),
    pytest.param(Row, {"id": 1}, {"id": 1}, None, id="TypedDict"),
    pytest.param(
        list[Row] | None, [{"id": 1, "name": "n"}], [{"id": 1, "name": "n"}], None, id="TypedDict inside"
    ),
    pytest.param(
        Tree,
        {"value": 1, "children": [{"value": 2, "children": []}]},
        {"value": 1, "children": [{"value": 2, "children": []}]},
        None,
        id="TypedDict in itself",
    ),
    pytest.param(NewRow, {"id": 1}, {"id": 1}, None, id="TypedDict of typing_extensions"),
    pytest.param(
        Annotated[int, Field(ge=1, le=5, description="how many")],
        5,
        5,
        {"type": "integer", "minimum": 1, "maximum": 5, "description": "how many"},
        id="Annotated Field",
    ),
    pytest.param(
        Annotated[int, "how many"], 5, 5, {**INTEGER, "description": "how many"}, id="Annotated text"
    ),
    pytest.param(
        Annotated[str, typing_extensions.Doc("which")], "a", "a", {**STRING, "description": "which"}, id="Doc"
    ),
]


async def test_encodings_and_lengths_of_bytes_are_those_that_were_asked_for() -> None:
    def store(coded: Base64Bytes, raw: Annotated[bytes, Field(min_length=2)] = b"ab") -> Base64Bytes:
        return coded + raw

    spec = await spec_of(store)
    assert spec.parameters["properties"] == {
        "coded": {"type": "string", "format": "base64"},
        "raw": {"type": "string", "format": "binary", "minLength": 2, "default": "ab"},
    }
    assert spec.output_schema == {"type": "string", "format": "base64"}
    assert await call(store, coded="/wA=", raw="data:;base64,/wA=") == "/wD/AA=="
    with pytest.raises(ToolCallError, match="at least 2 bytes"):
        await call(store, coded="/wA=", raw="x")


async def test_one_function_needs_no_list() -> None:
    assert [spec.id for spec in await FunctionSource(bare).tools()] == ["bare"]  # type: ignore[arg-type]


async def spec_of(function: Callable[..., Any]) -> ToolSpec:
    (spec,) = await FunctionSource([function]).tools()
    Draft202012Validator.check_schema(spec.parameters)
    return spec


async def call(function: Callable[..., Any], **parameters: Any) -> Any:
    source = FunctionSource([function])
    (spec,) = await source.tools()
    return await source.call(ToolCall(spec.id, parameters, "key"))


@pytest.mark.parametrize(("annotation", "given", "received", "schema"), VALUES)
async def test_a_parameter_arrives_as_the_type_it_is_annotated_with(
    annotation: Any, given: Any, received: Any, schema: Any
) -> None:
    seen: list[Any] = []

    async def probe(value: Any) -> None:
        seen.append(value)

    probe.__annotations__["value"] = annotation
    spec = await spec_of(probe)
    assert Draft202012Validator(spec.parameters).is_valid({"value": given})
    if schema is not None:
        assert spec.parameters["properties"]["value"] == schema
    await call(probe, value=given)
    assert seen == [received]
    assert type(seen[0]) is type(received)


def every_kind(a: int, /, b: int = 2, *, c: int, d: int = 4) -> list[int]:
    return [a, b, c, d]


def two_positional(a: int = 1, b: int = 2, /) -> list[int]:
    return [a, b]


def implicit_optional(x: int = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
    return x


def field_default(x: int = Field(default=7, description="seven", le=9), y: int = Field(...)) -> list[int]:
    return [x, y]


def annotated_default(x: Annotated[int, Field(default=7)]) -> int:
    return x


def rich_defaults(
    day: dt.date = dt.date(2024, 1, 1), color: Color = Color.RED, tags: frozenset[str] = frozenset({"a"})
) -> list[str]:
    return [str(day), color.value, *tags]


def aliased(kind: Annotated[str, Field(alias="class")] = "x") -> str:
    return kind


def reserved(schema: int, json: int, copy: int, self: int, model_config: int) -> int:
    return schema + json + copy + self + model_config


def bare(x, y=1):  # type: ignore[no-untyped-def]
    return [x, y]


@pytest.mark.parametrize(
    ("function", "parameters", "expected"),
    [
        pytest.param(every_kind, {"a": 1, "c": 3}, [1, 2, 3, 4], id="every kind of parameter"),
        pytest.param(two_positional, {"b": 5}, [1, 5], id="a later positional-only one alone"),
        pytest.param(two_positional, {}, [1, 2], id="no positional-only one"),
        pytest.param(implicit_optional, {"x": None}, None, id="None for a default of None"),
        pytest.param(field_default, {"y": 1}, [7, 1], id="Field as default"),
        pytest.param(annotated_default, {}, 7, id="default within Annotated"),
        pytest.param(rich_defaults, {}, ["2024-01-01", "red", "a"], id="the function's own defaults"),
        pytest.param(aliased, {"class": "y"}, "y", id="an alias"),
        pytest.param(
            reserved,
            {"schema": 1, "json": 2, "copy": 3, "self": 4, "model_config": 5},
            15,
            id="names that models reserve",
        ),
        pytest.param(bare, {"x": {"any": 1}}, [{"any": 1}, 1], id="no annotations"),
    ],
)
async def test_arguments_are_put_where_they_belong(
    function: Callable[..., Any], parameters: dict[str, Any], expected: Any
) -> None:
    spec = await spec_of(function)
    assert list(Draft202012Validator(spec.parameters).iter_errors(parameters)) == []
    assert await call(function, **parameters) == expected


async def test_the_schema_tells_defaults_requirements_and_forbids_the_rest() -> None:
    spec = await spec_of(rich_defaults)
    properties = spec.parameters["properties"]
    assert (properties["day"]["default"], properties["color"]["default"], properties["tags"]["default"]) == (
        "2024-01-01",
        "red",
        ["a"],
    )
    spec = await spec_of(every_kind)
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "a": INTEGER,
            "b": {**INTEGER, "default": 2},
            "c": INTEGER,
            "d": {**INTEGER, "default": 4},
        },
        "required": ["a", "c"],
        "additionalProperties": False,
    }


async def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def ping() -> None: ...

    assert (await spec_of(ping)).parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


async def test_descriptions_come_from_the_docstring_unless_the_annotation_has_one() -> None:
    def find(city: str, days: Annotated[int, Field(description="from the field")] = 1) -> None:
        """Find it.

        Args:
            city: from the docstring
            days: not this one
        """

    spec = await spec_of(find)
    assert spec.description == "Find it."
    assert spec.parameters["properties"]["city"]["description"] == "from the docstring"
    assert spec.parameters["properties"]["days"]["description"] == "from the field"


class Service:
    """Says hello."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    def greet(self, name: str) -> str:
        """Greet somebody."""
        return f"{self.greeting} {name}"

    @tool(effect="reads")
    async def marked(self, name: str) -> str:
        return f"{self.greeting} {name}"

    @classmethod
    def made(cls, name: str) -> str:
        return f"{cls.__name__} {name}"

    @tool(name="outside")
    @classmethod
    def outside(cls, name: str) -> str:
        return f"{cls.__name__} {name}"

    @staticmethod
    @tool(name="static")
    def plain(name: str) -> str:
        return f"static {name}"

    def __call__(self, name: str) -> str:
        return f"called {self.greeting} {name}"


class AsyncObject:
    async def __call__(self, name: str) -> str:
        """Calls back."""
        return f"async {name}"


def two(first: str, name: str, last: str = "!") -> str:
    """Joins.

    :param name: the name
    """
    return first + name + last


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@logged
async def wrapped(name: str) -> str:
    """Wrapped."""
    return f"wrapped {name}"


@logged
def wrapped_generator(name: str) -> Generator[Progress, None, str]:
    yield Progress("half")
    return f"wrapped {name}"


@pytest.mark.parametrize(
    ("function", "tool_id", "expected", "description"),
    [
        pytest.param(Service("hi").greet, "greet", "hi A", "Greet somebody.", id="bound method"),
        pytest.param(Service("hi").marked, "marked", "hi A", "", id="decorated method"),
        pytest.param(Service.made, "made", "Service A", "", id="classmethod"),
        pytest.param(Service.outside, "outside", "Service A", "", id="decorated classmethod"),
        pytest.param(Service.plain, "static", "static A", "", id="staticmethod"),
        pytest.param(Service("hi"), "Service", "called hi A", "Says hello.", id="callable object"),
        pytest.param(AsyncObject(), "AsyncObject", "async A", "Calls back.", id="async callable object"),
        pytest.param(functools.partial(two, "<"), "two", "<A!", "Joins.", id="partial, by position"),
        pytest.param(functools.partial(two, "<", last=">"), "two", "<A>", "Joins.", id="partial, by name"),
        pytest.param(
            functools.partial(AsyncObject()), "AsyncObject", "async A", "Calls back.", id="async partial"
        ),
        pytest.param(
            wrapped, "wrapped", "wrapped A", "Wrapped.", id="plain wrapper around an async function"
        ),
        pytest.param(
            wrapped_generator, "wrapped_generator", "wrapped A", "", id="wrapper around a generator"
        ),
        pytest.param(
            functools.lru_cache(functools.partial(two, "<")), "two", "<A!", "Joins.", id="cached partial"
        ),
        pytest.param(tool(name="shout")(lambda name: name.upper()), "shout", "A", "", id="named lambda"),
    ],
)
async def test_anything_that_can_be_called_by_name_can_be_a_tool(
    function: Callable[..., Any], tool_id: str, expected: str, description: str
) -> None:
    spec = await spec_of(function)
    assert (spec.id, spec.description, list(spec.parameters["properties"])[:1]) == (
        tool_id,
        description,
        ["name"],
    )
    assert await call(function, name="A") == expected


async def test_what_a_partial_has_bound_is_not_shown() -> None:
    def send(text: str, api_token: str) -> str:
        return f"{text} {api_token}"

    bound = functools.partial(send, api_token="s3cret")
    spec = await spec_of(bound)
    assert list(spec.parameters["properties"]) == ["text"]
    assert "s3cret" not in spec.model_dump_json()
    assert await call(bound, text="hi") == "hi s3cret"
    with pytest.raises(ToolCallError, match="api_token is not one of its parameters"):
        await call(bound, text="hi", api_token="x")


async def test_annotations_may_name_what_is_local() -> None:
    class Local(BaseModel):
        x: int

    def plain(value: Local, more: list[Local] | None = None) -> Local:
        return value

    @tool
    def marked(value: Local) -> Local:
        return value

    for function in (plain, marked):
        assert await call(function, value={"x": 1}) == {"x": 1}


async def test_options_are_carried_into_the_spec() -> None:
    @tool(
        name="send-mail",
        description="Sends.",
        effect="repeatable",
        timeout=2.5,
        output_params=["id"],
        aliases=("mail",),
        volatile=True,
        errors_are_clean=False,
        honours_key=True,
        secrets="pin",  # type: ignore[arg-type]
        substitutes=["post-mail"],
        output_schema=City,
    )
    def send(pin: str) -> dict[str, Any]:
        """Not this."""
        return {"name": pin}

    spec = await spec_of(send)
    assert spec.model_dump(exclude={"parameters", "output_schema"}) == {
        "id": "send-mail",
        "name": "send-mail",
        "description": "Sends.",
        "effect": "repeatable",
        "source": "python",
        "aliases": ("mail",),
        "timeout_secs": 2.5,
        "output_params": ("id",),
        "secrets": ("pin",),
        "substitutes": ("post-mail",),
        "unique_by": (),
        "volatile": True,
        "stable": False,
        "errors_are_clean": False,
        "honours_key": True,
        "requires_approval": False,
        "in_process": True,
        "verify": None,
        "max_retries": None,
    }
    assert spec.output_schema is not None
    assert spec.output_schema["properties"]["name"] == STRING
    assert send("1") == {"name": "1"}


async def test_a_tool_without_options_is_taken_for_one_with_effects() -> None:
    @tool
    def act() -> None: ...

    assert (await spec_of(act)).effect == "once"


class Login(BaseModel):
    user: str
    code: SecretStr


@pytest.mark.parametrize(
    ("annotations", "secrets"),
    [
        pytest.param({"password": str, "user": str}, ("password",), id="by its name"),
        pytest.param({"pin": SecretStr, "user": str}, ("pin",), id="SecretStr"),
        pytest.param({"pin": SecretStr | None}, ("pin",), id="optional SecretStr"),
        pytest.param({"login": Login, "note": str}, ("login",), id="a secret deep inside"),
        pytest.param({"logins": list[Login]}, ("logins",), id="a list of them"),
        pytest.param({"API_KEY": str}, ("API_KEY",), id="in capitals"),
        pytest.param({"page_token": str, "keyword": str}, (), id="names that only look like it"),
    ],
)
async def test_secrets_are_found(annotations: dict[str, Any], secrets: tuple[str, ...]) -> None:
    parameters = ", ".join(annotations)
    scope: dict[str, Any] = {}
    exec(f"def login({parameters}): return 1", scope)
    scope["login"].__annotations__.update(annotations)
    spec = await spec_of(scope["login"])
    assert spec.secrets == secrets
    for name in secrets:
        if annotations[name] is str:
            assert spec.parameters["properties"][name]["format"] == "password"


async def test_a_secret_is_not_repeated_in_errors() -> None:
    def login(password: Annotated[str, Field(min_length=50)], age: int) -> None: ...

    with pytest.raises(ToolCallError) as caught:
        await call(login, password="hunter2", age="old")
    assert "hunter2" not in str(caught.value)
    assert '"old"' in str(caught.value)
    assert caught.value.__cause__ is None


async def test_the_context_is_injected_and_is_no_parameter() -> None:
    def named(ctx, x: int) -> Any:  # type: ignore[no-untyped-def]
        return [ctx.key, x]

    def typed(x: int, context: ToolContext) -> Any:
        return [context.key, x]

    def optional(x: int, context: ToolContext | None = None) -> Any:
        return [context and context.key, x]

    def positional(context: ToolContext, x: int, /) -> Any:
        return [context.key, x]

    for function in (named, typed, optional, positional):
        assert list((await spec_of(function)).parameters["properties"]) == ["x"]
        assert await call(function, x=1) == ["key", 1]

    def other(ctx: str) -> str:
        return ctx

    assert list((await spec_of(other)).parameters["properties"]) == ["ctx"]


MODEL_OUT = {
    "additionalProperties": False,
    "type": "object",
    "title": "City",
    "properties": {"name": STRING, "size": {"type": "integer", "minimum": 1, "default": 1}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        pytest.param(City, MODEL_OUT, id="model"),
        pytest.param(int, INTEGER, id="scalar"),
        pytest.param(list[int], {"type": "array", "items": INTEGER}, id="list"),
        pytest.param(
            dict[str, int], {"type": "object", "additionalProperties": INTEGER}, id="dict of something"
        ),
        pytest.param(Awaitable[int], INTEGER, id="what is awaited"),
        pytest.param(decimal.Decimal, None, id="a Decimal is written as text"),
        pytest.param(Any, None, id="Any"),
        pytest.param(None, None, id="None"),
        pytest.param(str, None, id="text may hold JSON"),
        pytest.param(bytes, None, id="bytes may, too"),
        pytest.param(str | None, None, id="text or nothing"),
        pytest.param(dict, None, id="a bare dict"),
        pytest.param(dict[str, Any], None, id="a dict of anything"),
        pytest.param(Callable[[], int], None, id="a type without schema"),
        pytest.param("Nowhere", None, id="a name that cannot be resolved"),
        pytest.param(
            Iterator[int], {"type": "array", "items": {"type": "integer"}}, id="an iterator is a list"
        ),
    ],
)
async def test_the_output_schema_comes_from_the_return_annotation(annotation: Any, schema: Any) -> None:
    def give() -> Any: ...

    give.__annotations__["return"] = annotation
    assert (await spec_of(give)).output_schema == schema


async def test_a_function_without_return_annotation_has_no_output_schema() -> None:
    assert (await spec_of(bare)).output_schema is None


async def gen_async() -> AsyncIterator[Progress | City]:
    yield City(name="Rome")


def gen_returning() -> Generator[Progress, None, City]:
    yield Progress("half")
    return City(name="Rome")


def gen_yielding() -> Iterator[City]:
    yield City(name="Rome")


def gen_progress() -> Iterator[Progress]:
    yield Progress("half")


@pytest.mark.parametrize(
    ("function", "schema"),
    [
        pytest.param(gen_async, MODEL_OUT, id="yields of an async generator"),
        pytest.param(gen_returning, MODEL_OUT, id="the return value of a generator"),
        pytest.param(
            gen_yielding,
            {"type": "array", "items": {"$ref": "#/$defs/City"}, "$defs": {"City": MODEL_OUT}},
            id="yields of a generator",
        ),
        pytest.param(gen_progress, None, id="nothing but progress"),
    ],
)
async def test_the_output_schema_of_a_generator_is_that_of_its_result(function: Any, schema: Any) -> None:
    assert (await spec_of(function)).output_schema == schema


class Plain(enum.Enum):
    RED = "red"
    TWO = 2


class Worded(enum.StrEnum):
    LOUD = "loud"


async def test_members_of_enums_in_a_literal_are_called_by_their_values() -> None:
    def paint(color: Literal[Plain.RED, Plain.TWO], how: Literal[Worded.LOUD, "low"] = "low") -> list[str]:
        return [repr(color), repr(how)]

    source = FunctionSource([paint])
    for given, expected in (
        ({"color": "red"}, [repr(Plain.RED), "'low'"]),
        ({"color": 2, "how": "loud"}, [repr(Plain.TWO), repr(Worded.LOUD)]),
    ):
        assert await source.call(ToolCall("paint", given, "key")) == expected
    for wrong in ("blue", True, [], 2.5):
        with pytest.raises(ToolCallError) as caught:
            await source.call(ToolCall("paint", {"color": wrong}, "key"))
        assert caught.value.kind == "parameter"


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start

    def count(self, by: int) -> int:
        """Count on."""
        return self.start + by

    async def count_async(self, by: int) -> int:
        return self.start + by


async def test_a_bound_method_can_be_marked_without_marking_its_class() -> None:
    one, two = Counter(10), Counter(20)
    source = FunctionSource(
        [tool(effect="reads")(one.count), tool(name="other")(two.count), tool(two.count_async)]
    )
    found = {spec.id: spec for spec in await source.tools()}
    assert {name: spec.effect for name, spec in found.items()} == {
        "count": "reads",
        "other": "once",
        "count_async": "once",
    }
    assert found["count"].description == "Count on."
    assert list(found["count"].parameters["properties"]) == ["by"]
    assert await source.call(ToolCall("count", {"by": 1}, "key")) == 11
    assert await source.call(ToolCall("other", {"by": 1}, "key")) == 21
    assert await source.call(ToolCall("count_async", {"by": 1}, "key")) == 21
    (spec,) = await FunctionSource([two.count]).tools()
    assert spec.effect == "once"
