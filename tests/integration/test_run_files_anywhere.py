"""A `File` is kept, or told, wherever it stands in what a tool returns, and can be read wherever it stands in what a tool is given."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import types
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, computed_field

from replan import File, Replan, tool
from replan.core.references.kept import artifact_named
from replan.errors import ToolCallError
from replan.ports import Content, KeptOutput, ToolCall, WithFiles
from replan.tools import FunctionSource
from replan.tools.functions.output import to_plain

pytestmark = pytest.mark.anyio

BYTES = bytes(range(256)) * 8


@dataclasses.dataclass
class Album:
    title: str
    picture: Any


class Letter(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    enclosed: Any


def places(file: Any) -> dict[str, tuple[Any, str]]:
    """Values with a file somewhere in them, and the path to it."""
    return {
        "in a list": ([1, file], "[1]"),
        "in a list of a dict": ({"files": [file]}, "files[0]"),
        "deep": ({"a": {"b": {"c": [[file]]}}}, "a.b.c[0][0]"),
        "in a wide dict": ({"f": file, **{f"k{n}": n for n in range(150)}}, "f"),
        "before very many": ([file, *range(20_000)], "[0]"),
        "in a deque": ({"q": collections.deque([file])}, "q[0]"),
        "in a mapping": (types.MappingProxyType({"f": file}), "f"),
        "in a dataclass": ({"album": Album("holidays", [file])}, "album.picture[0]"),
        "in a model": ([Letter(enclosed={"f": file})], "[0].enclosed.f"),
        "in a tuple": ({"pair": (file, 1)}, "pair[0]"),
        "among the values of a dict": ({"v": {"f": file}.values()}, "v[0]"),
    }


@tool(effect="reads")
def size(of: File) -> int:
    return sum(map(len, of))


def plan(first: str, path: str) -> dict[str, Any]:
    used = {"of": f"${{g.output{'' if path[:1] == '[' else '.'}{path}}}"}
    return {
        "steps": [
            {"step_id": "g", "tool": first, "parameters": {}},
            {"step_id": "s", "tool": "size", "parameters": used},
        ]
    }


@pytest.mark.parametrize("kind", ["sync", "async", "generator"])
@pytest.mark.parametrize("where", list(places(None)))
async def test_a_file_is_kept_wherever_it_stands_though_no_annotation_says_so(
    tmp_path: Path, where: str, kind: str
) -> None:
    def made() -> Any:
        return places(File(BYTES, "image/png"))[where][0]

    def give():
        return made()

    async def give_later():
        return made()

    def yields():
        yield made()
        yield 1

    function: Callable[..., Any] = {"sync": give, "async": give_later, "generator": yields}[kind]
    path = places(None)[where][1]
    if kind == "generator":
        path = f"[0]{'' if path[0] == '[' else '.'}{path}"
    async with Replan(
        db=tmp_path / "r.db", tools=[tool(effect="once", name="give")(function), size], evaluation="steps"
    ) as replan:
        result = await replan.run("give it", plan=plan("give", path))
    assert result.succeeded, result.reason
    assert result.output == len(BYTES)


async def test_a_file_beside_what_json_cannot_hold_is_kept_with_the_effect_that_was_had(
    tmp_path: Path,
) -> None:
    @tool(effect="once")
    def give():
        return {"n": float("nan"), "odd": object(), "f": [File(BYTES)]}

    async with Replan(db=tmp_path / "r.db", tools=[give, size], evaluation="steps") as replan:
        result = await replan.run("give it", plan=plan("give", "f[0]"))
    assert result.succeeded, result.reason
    assert result.output == len(BYTES)


@pytest.mark.parametrize("value", [value for value, _ in places(File(b"x")).values()] + [File(b"x")])
def test_where_nobody_keeps_files_one_is_no_text(value: Any) -> None:
    with pytest.raises(ToolCallError, match="a File that nobody has kept") as told:
        to_plain(value)
    assert told.value.kind == "output"


async def test_a_file_that_is_made_anew_each_time_is_told(tmp_path: Path) -> None:
    class Endless(BaseModel):
        @computed_field  # type: ignore[prop-decorator]
        @property
        def body(self) -> Any:
            return File(BYTES)

    @tool(effect="reads")
    def give():
        return {"x": Endless()}

    async with Replan(db=tmp_path / "r.db", tools=[give, size], evaluation="steps") as replan:
        result = await replan.run("give it", plan=plan("give", "x.body"))
    assert result.status == "failed"
    assert "a new File each time" in result.reason


@pytest.mark.parametrize("first", [True, False])
async def test_a_file_can_be_read_beside_a_large_parameter(tmp_path: Path, first: bool) -> None:
    @tool(effect="reads")
    def make() -> dict[str, File]:
        return {"f": File(BYTES)}

    @tool(effect="reads")
    def many() -> list[dict[str, int]]:
        return [{"a": n} for n in range(10_001)]

    @tool(effect="reads")
    def before(afile: File, rows: list[dict[str, int]]) -> int:
        return sum(map(len, afile)) + len(rows)

    @tool(effect="reads")
    def after(rows: list[dict[str, int]], zfile: list[File]) -> int:
        return sum(map(len, zfile[0])) + len(rows)

    given: dict[str, Any] = {"afile": "${m.output.f}"} if first else {"zfile": ["${m.output.f}"]}
    steps = [
        {"step_id": "m", "tool": "make", "parameters": {}},
        {"step_id": "n", "tool": "many", "parameters": {}},
        {
            "step_id": "u",
            "tool": "before" if first else "after",
            "parameters": {"rows": "${n.output}", **given},
        },
    ]
    async with Replan(db=tmp_path / "r.db", tools=[make, many, before, after], evaluation="steps") as replan:
        result = await replan.run("read it", plan={"steps": steps})
    assert result.succeeded, result.reason
    assert result.output == len(BYTES) + 10_001


values = st.recursive(
    st.integers() | st.text(max_size=3) | st.binary(max_size=3).map(File),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner)
        | inner.map(lambda one: Album("a", one))
        | inner.map(lambda one: Letter(enclosed=one))
    ),
    max_leaves=8,
)


def files_of(value: Any) -> Iterator[File]:
    if isinstance(value, File):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from files_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from files_of(one)
    elif isinstance(value, Album | Letter):
        yield from files_of(value.picture if isinstance(value, Album) else value.enclosed)


@settings(max_examples=60)
@given(values)
def test_as_many_files_are_named_as_were_given(value: Any) -> None:
    kept: list[bytes] = []

    async def keep(pieces: AsyncIterator[bytes], media_type: str) -> KeptOutput:
        kept.append(b"".join([piece async for piece in pieces]))
        return KeptOutput(Content(f"{len(kept):032x}", len(kept[-1])), media_type)

    def give():
        return [value]

    call = ToolCall("give", {}, "key", "task", "step", 1, keep=keep)
    found = asyncio.run(FunctionSource([give]).call(call))
    files = list(files_of(value))
    assert sorted(kept) == sorted(b"".join(file) for file in files)
    named = found.files if isinstance(found, WithFiles) else ()
    assert {one.name for one in named} == {str(file) for file in files}
    assert all(artifact_named(str(file)) for file in files)
