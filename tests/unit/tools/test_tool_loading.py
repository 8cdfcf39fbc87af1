"""Tools named on a command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replan.errors import InputError, ToolDefinitionError
from replan.ports import ToolCall, ToolSource
from replan.tools import load_tools


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def names(source: ToolSource) -> list[str]:
    return [spec.id for spec in asyncio.run(_tools(source))]


async def _tools(source: ToolSource):  # type: ignore[no-untyped-def]
    return await source.tools()


def result(source: ToolSource, tool: str, **parameters: object) -> object:
    async def call() -> object:
        return await source.call(ToolCall(tool, parameters, "key"))

    return asyncio.run(call())


MARKED = """
from replan.tools import tool
from os.path import join

@tool(effect="reads")
def one(x: int) -> int:
    return x

def helper(*args): ...

@tool(name="second")
async def two() -> str: return "２"

again = one
"""
PLAIN = """
from os.path import join
from functools import lru_cache

def first(a: int) -> int: return a
def _private(*args): ...
class Thing: ...
value = print

@lru_cache
def cached() -> int: return 1

async def last() -> None: ...
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(MARKED, ["one", "second"], id="every @tool, once"),
        pytest.param(PLAIN, ["first", "cached", "last"], id="all public functions of its own"),
        pytest.param("__all__ = ['b']\n" + "def a(): ...\ndef b(): ...\n", ["b"], id="what __all__ names"),
    ],
)
@pytest.mark.parametrize("spec", ["tools.py", "./tools.py", "{here}/tools.py", "tools"])
def test_a_file_or_module_gives_its_tools(here: Path, spec: str, text: str, expected: list[str]) -> None:
    write(here, "tools.py", text)
    source = load_tools(spec.format(here=here))
    assert names(source) == expected
    assert source.name == "tools"


def test_a_file_can_import_its_neighbours_and_a_module_its_package(here: Path) -> None:
    write(here, "far/helper_of_it.py", "def double(x): return 2 * x")
    write(here, "far/tools.py", "from helper_of_it import double\ndef twice(x: int) -> int: return double(x)")
    assert result(load_tools("far/tools.py"), "twice", x=4) == 8
    write(here, "pack/__init__.py", "")
    write(here, "pack/inner.py", "from . import other\ndef three() -> int: return other.THREE")
    write(here, "pack/other.py", "THREE = 3")
    assert result(load_tools("pack.inner"), "three") == 3
    assert load_tools("pack.inner").name == "inner"


def test_a_neighbour_does_not_hide_what_is_installed(here: Path) -> None:
    write(here, "json.py", "raise RuntimeError('the wrong one')")
    write(here, "tools.py", "import json\ndef f() -> str: return json.dumps([1])")
    assert result(load_tools("tools.py"), "f") == "[1]"


def test_files_of_one_name_are_two_modules_with_working_types(here: Path) -> None:
    text = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Item:\n    size: int\n"
        "def weigh(item: Item) -> int: return item.size * {}\n"
    )
    write(here, "a/tools.py", text.format(2))
    write(here, "b/tools.py", text.format(3))
    first, second = load_tools("a/tools.py"), load_tools("b/tools.py")
    assert result(first, "weigh", item={"size": 5}) == 10
    assert result(second, "weigh", item={"size": 5}) == 15


def test_the_source_of_a_file_has_a_name_that_ids_can_begin_with(here: Path) -> None:
    write(here, "my tools 工具.py", "def f() -> int: return 1")
    assert load_tools("my tools 工具.py").name == "my_tools"


def test_a_file_that_was_edited_is_read_anew(here: Path) -> None:
    for number in (1, 2):
        write(here, "tools.py", f"def f() -> int: return {number}")
        assert result(load_tools("tools.py"), "f") == number


NAMED = """
from replan.tools import FunctionSource
def f(x: int) -> int: return x
def g() -> int: return 2
some = [f, g]
none = []
source = FunctionSource([g], name="mine")
class Group:
    @staticmethod
    def inner() -> int: return 3
    def method(self) -> int: return 4
group = Group()
number = 7
"""


@pytest.mark.parametrize(
    ("spec", "name", "expected"),
    [
        pytest.param("kit:f", "kit", ["f"], id="a function"),
        pytest.param("kit:some", "kit", ["f", "g"], id="a list"),
        pytest.param("kit:source", "mine", ["g"], id="a source"),
        pytest.param("kit.py:f", "kit", ["f"], id="in a file"),
        pytest.param("kit:Group.inner", "kit", ["inner"], id="a path of names"),
        pytest.param("kit:group.method", "kit", ["method"], id="a bound method"),
    ],
)
def test_something_in_a_module_can_be_named(here: Path, spec: str, name: str, expected: list[str]) -> None:
    write(here, "kit.py", NAMED)
    source = load_tools(spec)
    assert (source.name, names(source)) == (name, expected)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param("tool.py", r"no file tool\.py; did you mean tools\.py", id="a file that is not there"),
        pytest.param(
            "no/tools.py", r"no file no/tools\.py: there is no folder no", id="a folder that is not there"
        ),
        pytest.param("sub/", r"is a folder; name a Python file in it; it has inner\.py", id="a folder"),
        pytest.param("notes/readme.txt", r"is not a Python file", id="a file of another kind"),
        pytest.param("tool", r"no module 'tool'.*did you mean tools\.py", id="a module that is not there"),
        pytest.param("zzzz.qqqq", r"no module 'zzzz'", id="a package that is not there"),
        pytest.param("tools:on", r"no 'on' in tools; the nearest are: one", id="a name that is not there"),
        pytest.param("kit:none", r"kit:none is an empty list", id="an empty list"),
        pytest.param("kit:number", r"a int cannot be a tool", id="a number"),
        pytest.param("kit:Group", r"'Group' cannot be a tool: it is a class", id="a class"),
        pytest.param("empty.py", r"empty\.py has no tools", id="nothing in it"),
        pytest.param("private.py", r"private\.py has no tools", id="nothing public in it"),
        pytest.param("broken.py", r"broken\.py:2: .*syntax error.*def f\(:", id="a syntax error"),
        pytest.param(
            "uses_broken.py", r"broken\.py:2: .*syntax error", id="a syntax error in what it imports"
        ),
        pytest.param(
            "raises.py", r"raises\.py:3: importing raises\.py failed: ZeroDivisionError", id="an exception"
        ),
        pytest.param("raises", r"raises\.py:3: importing raises failed: ZeroDivisionError", id="in a module"),
        pytest.param(
            "missing.py", r"missing\.py:1: .*No module named 'not_installed_here'", id="a missing package"
        ),
        pytest.param(
            "missing", r"missing\.py:1: .*No module named 'not_installed_here'", id="missing in a module"
        ),
        pytest.param("exits.py", r"exits\.py:2: .*calls exit \(3\).*__main__", id="a script that exits"),
        pytest.param("binary.py", r"binary\.py.*null bytes", id="no text"),
        pytest.param("latin.py", r"latin\.py", id="no UTF-8"),
        pytest.param(
            "what ever", r"is not a known source of tools; what can be loaded is a file", id="two words"
        ),
        pytest.param(" ", r"an empty name of tools", id="nothing"),
    ],
)
def test_what_cannot_be_loaded_is_told_with_place_and_way_out(here: Path, spec: str, reason: str) -> None:
    write(here, "tools.py", MARKED)
    write(here, "kit.py", NAMED)
    write(here, "sub/inner.py", "")
    write(here, "notes/readme.txt", "hello")
    write(here, "empty.py", "")
    write(here, "private.py", "from os.path import join\ndef _f(): ...\nx = 1\n")
    write(here, "broken.py", "x = 1\ndef f(:\n    pass\n")
    write(here, "uses_broken.py", "import broken\n")
    write(here, "raises.py", "def f():\n    return 1\nf() / 0\n")
    write(here, "missing.py", "import not_installed_here\n")
    write(here, "exits.py", "import sys\nsys.exit(3)\n")
    (here / "binary.py").write_bytes(b"x = 1\x00\n")
    (here / "latin.py").write_bytes("x = 'é'".encode("latin-1"))
    with pytest.raises(InputError, match=reason) as caught:
        load_tools(spec)
    assert caught.value.exit_code == 2


def test_a_function_that_cannot_be_a_tool_is_refused_with_its_place(here: Path) -> None:
    write(here, "tools.py", "\ndef run(*args): ...\n")
    with pytest.raises(
        ToolDefinitionError, match=r"tools\.py:2: function 'run' cannot be a tool: it takes \*args"
    ):
        load_tools("tools.py")
    write(here, "marked.py", "from replan.tools import tool\n@tool(effect='write')\ndef run(): ...\n")
    with pytest.raises(
        ToolDefinitionError, match=r"marked\.py:2: function 'run' .*effect='write' is none of"
    ):
        load_tools("marked.py")


def test_a_failed_import_leaves_no_module_behind(here: Path) -> None:
    write(here, "raises.py", "1 / 0")
    before = set(sys.modules)
    with pytest.raises(InputError):
        load_tools("raises.py")
    assert {name for name in set(sys.modules) - before if "raises" in name} == set()


def test_ctrl_c_while_importing_is_not_swallowed(here: Path) -> None:
    write(here, "tools.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_tools("tools.py")
