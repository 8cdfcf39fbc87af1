"""Functions that cannot be tools, and the reason that is given."""

from __future__ import annotations

import io
import typing
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from replan.errors import ToolDefinitionError
from replan.tools import FunctionSource, tool

if TYPE_CHECKING:
    from fractions import Fraction


def variadic(*values: int) -> None: ...
def keywords(**options: int) -> None: ...
def takes_callback(done: Callable[[int], None]) -> None: ...
def takes_file(handle: IO[str]) -> None: ...
def takes_plain_class(handle: io.StringIO) -> None: ...
def takes_many(ok: int, bad: list[dict[str, Callable[[], int]]]) -> None: ...
def unresolved(x: Fraction) -> None: ...
def misspelt(x: Strr) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def object_default(x: int = object()) -> None: ...  # type: ignore[assignment]
def función(x: int) -> None: ...


class Thing:
    def method(self, x: int) -> None: ...


def same(x: int) -> None: ...


def other() -> Callable[..., Any]:
    def same(y: int) -> None: ...

    return same


HERE = Path(__file__).name


@pytest.mark.parametrize(
    ("functions", "where", "reasons"),
    [
        pytest.param([variadic], "variadic", ["takes *values", "values: list"], id="*args"),
        pytest.param([keywords], "keywords", ["takes **options", "options: dict"], id="**kwargs"),
        pytest.param([takes_callback], "takes_callback", ["'done'", "Callable"], id="a callback"),
        pytest.param([takes_file], "takes_file", ["'handle'", "IO[str]"], id="a file object"),
        pytest.param(
            [takes_plain_class], "takes_plain_class", ["'handle'", "StringIO"], id="a class of no schema"
        ),
        pytest.param([takes_many], "takes_many", ["'bad'", "Callable"], id="deep inside of a type"),
        pytest.param(
            [unresolved], "unresolved", ["'Fraction'", "'x'", "TYPE_CHECKING"], id="imported for types only"
        ),
        pytest.param([misspelt], "misspelt", ["'Strr'", "'x'", "not defined"], id="an unknown name"),
        pytest.param(
            [object_default], "object_default", ["default of parameter 'x'", "object"], id="a default"
        ),
        pytest.param([función], "función", ["'función'", "name="], id="a name outside of ASCII"),
        pytest.param([lambda x: x], "<lambda>", ["lambda has no name", "def"], id="a lambda"),
        pytest.param([Thing], "Thing", ["is a class"], id="a class"),
        pytest.param(
            [Thing.method], "Thing.method", ["without its object", "obj.method"], id="an unbound method"
        ),
        pytest.param([same, other()], "other.same", ["named 'same' too", "name="], id="two of one name"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason(
    functions: list[Any], where: str, reasons: list[str]
) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        FunctionSource(functions)
    text = str(caught.value)
    assert repr(where) in text
    for reason in reasons:
        assert reason in text
    if functions != [Thing]:
        assert f"{HERE}:" in text
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "thing", [pytest.param(7, id="number"), pytest.param("f", id="text"), pytest.param(None, id="None")]
)
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(ToolDefinitionError, match="cannot be a tool"):
        FunctionSource([thing])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param({"effect": "read"}, "effect='read' is none of .* did you mean 'reads'", id="effect"),
        pytest.param({"effect": None}, "effect=None is none of", id="no effect"),
        pytest.param({"name": "two words"}, "the name 'two words' does not fit", id="a space in the name"),
        pytest.param({"name": ""}, "the name '' does not fit", id="an empty name"),
        pytest.param({"name": "-x"}, "the name '-x' does not fit", id="a name like an option"),
        pytest.param({"name": "a" * 129}, "does not fit", id="a long name"),
        pytest.param({"timeout": 0}, "timeout=0 is not a positive number", id="no time at all"),
        pytest.param({"retries": -1}, "retries=-1 is not a whole number", id="less than no retries"),
        pytest.param({"retries": True}, "retries=True is not a whole number", id="a truth for a count"),
        pytest.param({"description": 5}, "description=5 is not a text", id="a number for a description"),
        pytest.param({"description": ["a"]}, "is not a text", id="a list for a description"),
        pytest.param({"aliases": 5}, "aliases=5 is not a list of names", id="a number for names"),
        pytest.param({"secrets": [1]}, r"secrets=\[1\] is not a list of names", id="numbers for names"),
        pytest.param({"substitutes": None}, "substitutes=None is not a list", id="nothing for names"),
        pytest.param({"requires_approval": None}, "requires_approval=None is neither True", id="no word"),
        pytest.param({"volatile": "no"}, "volatile='no' is neither True nor False", id="a text for a truth"),
        pytest.param(
            {"honours_key": 1}, "honours_key=1 is neither True nor False", id="a number for a truth"
        ),
        pytest.param({"errors_are_clean": 0}, "errors_are_clean=0 is neither True", id="0 for a truth"),
        pytest.param({"timeout": True}, "timeout=True is not a positive number", id="a truth for a time"),
        pytest.param(
            {"timeout": float("nan")}, "timeout=nan is not a positive number", id="no number for a time"
        ),
    ],
)
def test_bad_options_are_refused_where_they_are_written(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ToolDefinitionError, match=reason) as caught:
        tool(**options)(same)
    assert f"{HERE}:" in str(caught.value)
    assert "'same'" in str(caught.value)


def test_the_decorator_refuses_what_it_can_see_at_once() -> None:
    with pytest.raises(ToolDefinitionError, match=r"takes \*values"):
        tool(variadic)
    with pytest.raises(ToolDefinitionError, match="is a class"):
        tool(Thing)
    with pytest.raises(ToolDefinitionError, match="put on a property"):
        tool(property(lambda self: 1))  # type: ignore[call-overload]


def test_secrets_and_output_schemas_must_mean_something() -> None:
    def login(user: str) -> None: ...

    with pytest.raises(ToolDefinitionError, match="secrets names 'pasword', but its parameters are user"):
        FunctionSource([tool(secrets=["pasword"])(login)])
    with pytest.raises(ToolDefinitionError, match="output_schema is neither"):
        FunctionSource([tool(output_schema=typing.cast(type, Callable[[], int]))(login)])


def test_the_same_function_given_twice_is_one_tool() -> None:
    import asyncio

    assert [spec.id for spec in asyncio.run(FunctionSource([same, same]).tools())] == ["same"]
