"""No regular expression takes more than linear time: what it is given may come from a model, a tool or a server."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import replan
from cpu_time import cpu

SOURCE = Path(replan.__file__).parent
METHODS = frozenset({"search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
ANCHORED = frozenset({"match", "fullmatch"})
PIECES = (
    *("a", "A", "aA", "a1", "1", "0", "1.", " ", "a ", "\n", "\n ", "a\n", "\t", ",", ", ", "-", "_", "-_", ".", "a.b", "/", "//"),
    *("/*", "/**/", "\\", "\\\\", "(", "()", "[", "[[", "{", "$", "${", "<", "<a ", "a<", ">", "=", "a=", "a = ", ";", "; ", ":", "a:"),
    *("::", "'", '"', '\\"', "'' ", "`", "```", "*", "#", "|", "%", "@", "a@", "a@b.", "+", "&", "a&", "?", "!", "~", "é", "http://"),
    *("www.", "T1:", "1,", "[1,", '{"', "a and ", "a or ", "not ", "<script ", "</"),
)  # fmt: skip
ENDS = ("", "!\n")
SHORT, LONG = 800, 20_000
SECS = 0.2
PATH = 2_000
"""Characters of a reference's path (`core.references.paths.MAX_LENGTH`)."""
BOUNDED = {
    "replan.core.data.taken_back": 2_000,  # of a sentence
    "replan.core.failures.signature": 2_000,  # so much of a message counts
    "replan.core.plan.placeholders": 120,  # so long is a value in parts
    "replan.core.references.loose": PATH,
    "replan.core.references.paths": PATH,
    "replan.core.references.refs": PATH,
    "replan.reasoning.diagnosis.listed": 2_000,  # so much of a message is looked at
}
"""Modules whose expressions only see so many characters, where one of them takes longer than linear time for more."""
ANCHORED_ONLY = {("replan.core.secrets.settings", "_VALUE")}
"""Those that are passed around, and only matched at one place."""


class Expression(NamedTuple):
    module: str
    line: int
    pattern: re.Pattern[str]
    methods: frozenset[str]

    def __str__(self) -> str:
        return f"{self.module}:{self.line}"

    def text(self, piece: str, end: str, length: int) -> str:
        return (piece * length)[:length] + end


def _modules() -> Iterator[str]:
    """Those in which a regular expression may be written."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not name.endswith(("_pb2", "__main__")) and "re." in path.read_text("utf-8"):
            yield name


MODULES = list(_modules())


@cache
def expressions(module: str) -> list[Expression]:
    """Every expression that is written in a module, with how it is used."""
    path = SOURCE.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return list(_of(module, ast.parse(path.read_text("utf-8"))))


def _of(name: str, tree: ast.Module) -> Iterator[Expression]:
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in METHODS | {"compile"}
        and node.args
    ]
    if not calls:
        return
    try:
        known = vars(importlib.import_module(name))
    except ImportError:  # a framework that is not installed
        known = {"re": re}
    compiled = {
        id(node.value): target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in calls:
        assert isinstance(call.func, ast.Attribute)
        try:
            pattern = eval(compile(ast.Expression(call.args[0]), name, "eval"), dict(known))
            flags = _flags(call)
        except NameError:  # made of what is known only when it is used
            continue
        if isinstance(pattern, re.Pattern):
            continue
        variable = compiled.get(id(call))
        used = _uses(tree, variable) if call.func.attr == "compile" else {call.func.attr}
        if (name, variable) in ANCHORED_ONLY:
            used = set(ANCHORED)
        made = re.compile(pattern, flags)
        if isinstance(made.pattern, str):
            yield Expression(name, call.lineno, made, frozenset(used or METHODS))


def _flags(call: ast.Call) -> int:
    found = 0
    for argument in (*call.args[1:], *(one.value for one in call.keywords)):
        for node in ast.walk(argument):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re":
                found |= int(getattr(re, node.attr)) if node.attr.isupper() else 0
    return found


def _uses(tree: ast.Module, name: str | None) -> set[str]:
    """By which methods the module uses the name; empty: it cannot be told."""
    if name is None or not name.startswith("_"):
        return set()
    found: set[str] = set()
    known = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            found.add(node.attr)
            known += 1
    named = sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))
    return found if known == named - 1 else set()


def _secs(expression: Expression, text: str) -> float:
    began = time.thread_time()
    _apply(expression, text)
    return time.thread_time() - began


def _apply(expression: Expression, text: str) -> None:
    for method in expression.methods & ANCHORED:
        getattr(expression.pattern, method)(text)
    if expression.methods - ANCHORED:
        for _ in expression.pattern.finditer(text):
            pass


def test_the_expressions_of_the_source_are_found() -> None:
    every = [one for module in MODULES for one in expressions(module)]
    found = {one.module for one in every}

    assert len(every) > 200
    assert {
        "replan.core.secrets.names",
        "replan.tools.openapi.pages",
        "replan.tools.mcp.server_files",
    } <= found
    assert set(BOUNDED) <= found


@pytest.mark.parametrize("pattern", ["<([^>]*)>", r"\s*,", "(a|a)*b", r"(\w+\s?)*$"])
def test_an_expression_that_takes_longer_is_told(pattern: str) -> None:
    slow = Expression("somewhere", 1, re.compile(pattern), METHODS)

    with pytest.raises(AssertionError, match="CPU"):
        check(slow)


@pytest.mark.parametrize("module", MODULES)
def test_an_expression_takes_time_that_grows_with_the_text(module: str) -> None:
    for expression in expressions(module):
        try:
            check(expression)
        except AssertionError as error:
            error.add_note(f"{expression}: {expression.pattern.pattern}")
            raise


def check(expression: Expression) -> None:
    """Hold the expression to `SECS` for a long text of any piece over and over."""
    words = sorted(set(re.findall(r"[A-Za-z]{3,}", expression.pattern.pattern)))[:6]
    pieces = (*PIECES, *words, *(f"{word} " for word in words))
    longest = BOUNDED.get(expression.module, LONG)
    short = min(SHORT, longest)
    with cpu(2 * SECS):  # of those that never end
        suspect = [
            text
            for text in itertools.product(pieces, ENDS)
            if _secs(expression, expression.text(*text, short)) > SECS / 1_000
        ]
    for text in suspect:
        with cpu(SECS):
            _apply(expression, expression.text(*text, longest))
