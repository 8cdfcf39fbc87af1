"""Tests speak to what is public: how much they reach into the package's private parts is known, and may only fall."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "src" / "replan"

KNOWN = {
    "integration/leak_cases.py": 13,
    "integration/test_mcp_http.py": 1,
    "integration/test_remote_closing.py": 1,
    "integration/test_run_leaks_edges.py": 4,
    "integration/test_run_library.py": 1,
    "integration/test_run_tool_limits.py": 1,
    "integration/test_tool_openapi.py": 2,
    "integration/test_tool_openapi_documents.py": 1,
    "unit/core/test_secrets.py": 1,
    "unit/tools/test_mcp_files.py": 2,
    "unit/tools/test_tool_sources_misbehave.py": 3,
}
"""Reaching into private parts, by file. None is to be added; who takes some away lowers the number."""


FOR_OTHERS = {"_replace", "_asdict", "_fields", "_make", "_repr_html_", "_repr_svg_"}
"""Public in spite of its name: of named tuples, and what notebooks call."""
_SAID = re.compile(r"(?<!\bself\.)(?<!\bcls\.)(?<!super\(\)\.)(?<![\w\"'])(_[A-Za-z]\w*)")
_PATCHES = re.compile(r"\.(?:setattr|patch)\(")


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in FOR_OTHERS


def may_reach(text: str, ours: frozenset[str]) -> bool:
    """Whether a file is worth parsing: it says a private name of the package, or has a word for patching."""
    return bool(ours.intersection(_SAID.findall(text)) or _PATCHES.search(text))


def defined(tree: ast.Module) -> Iterator[str]:
    """The private names that a module makes: functions, classes, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def reached(tree: ast.Module, ours: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Line and words of each use of a private part of the package, and of each patch of one of its modules."""
    own = frozenset(defined(tree))
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(value=ast.Name(id="self" | "cls"))
                | ast.Attribute(value=ast.Call(func=ast.Name(id="super")))
            ):
                pass
            case ast.Attribute(attr=name, lineno=line) if private(name) and name in ours - own:
                yield line, ast.unparse(node)
            case ast.ImportFrom(module=str(module), names=names, lineno=line) if (
                module.split(".")[0] == "replan"
            ):
                yield from ((line, f"{module}.{each.name}") for each in names if private(each.name))
            case ast.Call(func=ast.Attribute(attr="setattr" | "patch"), args=[first, *_], lineno=line) if (
                "replan." in ast.unparse(first)
            ):
                yield line, ast.unparse(node.func) + "(" + ast.unparse(first) + ")"


def test_no_more_private_parts_are_reached_into_than_were() -> None:
    ours = frozenset(
        name
        for path in PACKAGE.rglob("*.py")
        for name in defined(ast.parse(path.read_text("utf-8")))
        if private(name)
    )
    found: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        if may_reach(text, ours) and (places := list(reached(ast.parse(text), ours))):
            found[path.relative_to(TESTS).as_posix()] = places
    more = Counter({name: len(places) for name, places in found.items()}) - Counter(KNOWN)
    assert not more, {name: found[name] for name in more}
