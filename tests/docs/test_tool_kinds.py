"""Each kind of tool source is known wherever kinds are: in the suites, in the sweep for secrets, and in what is told of SPECs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from typer.main import get_command

from replan.cli.tree import app
from replan.tools.specs import FORMS

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "src" / "replan" / "tools"
TESTS = ROOT / "tests"
NO_KINDS = {"catalog"}
"""A source to those who call it, made of others."""
GIVEN_AS_OBJECTS = {"frameworks": "langchain_core"}
"""Kinds that no SPEC names: they come of Python, by objects of such a package."""


def is_source(node: ast.AST) -> bool:
    """A class that lists tools and calls them."""
    if not isinstance(node, ast.ClassDef):
        return False
    methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {"tools", "call"} <= methods or any("FunctionSource" in ast.unparse(base) for base in node.bases)


KINDS = {
    folder.name: sorted(
        node.name
        for file in folder.glob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if is_source(node)
    )
    for folder in sorted(TOOLS.iterdir())
    if folder.is_dir() and folder.name not in NO_KINDS
}
KINDS = {kind: classes for kind, classes in KINDS.items() if classes}
EACH = pytest.mark.parametrize("kind", KINDS)


def about(kind: str, pattern: str) -> list[str]:
    """The files of tests that use the kind, themselves or by a file beside them."""
    return [file.name for file in sorted(TESTS.glob(pattern)) if _uses(kind, file)]


def _uses(kind: str, file: Path, deep: bool = True) -> bool:
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            if f"{node.module}.".startswith((f"replan.tools.{kind}.", f"{GIVEN_AS_OBJECTS.get(kind, '-')}.")):
                return True
            if node.module == "replan.tools" and {one.name for one in node.names} & set(KINDS[kind]):
                return True
            beside = file.with_name(f"{node.module}.py")
            if deep and beside.exists() and _uses(kind, beside, deep=False):
                return True
    return False


def spec_words() -> list[str]:
    """What SPECs begin with: `mcp:`, `grpc:`, …"""
    return sorted(set(re.findall(r"\b([a-z]+):(?=[A-Z/])", FORMS)))


def test_the_kinds_are_found() -> None:
    assert {"functions", "mcp", "openapi", "remote", "frameworks", "kit"} <= KINDS.keys()
    assert {"mcp", "openapi", "kit", "grpc", "http"} == set(spec_words())


@EACH
def test_a_kind_passes_the_contract_suite(kind: str) -> None:
    assert about(kind, "contract/kit_*.py"), f"it needs a tests/contract/kit_{kind}.py"


@EACH
def test_a_kind_has_its_table_of_faults(kind: str) -> None:
    assert about(kind, "integration/faults_*.py"), f"it needs a tests/integration/faults_{kind}.py"


@EACH
def test_a_kind_is_swept_for_secrets(kind: str) -> None:
    assert about(kind, "integration/test_secret_sweep*.py"), "it has to stand in test_secret_sweep_sources"


@EACH
def test_a_kind_can_be_named_or_is_given_as_objects(kind: str) -> None:
    named = f"replan.tools.{kind}" in (TOOLS / "specs.py").read_text("utf-8") or kind == "functions"
    named = named or re.search(
        rf"from replan\.tools import {kind}\b", (TOOLS / "specs.py").read_text("utf-8")
    )
    assert bool(named) is (kind not in GIVEN_AS_OBJECTS)


@pytest.mark.parametrize("word", spec_words())
def test_a_spec_is_told_in_the_reference_and_by_the_option(word: str) -> None:
    page = (ROOT / "docs" / "reference" / "command.md").read_text("utf-8")
    table = page[page.index("| SPEC | is |") :].split("\n\n")[0]
    run = get_command(app).commands["run"]  # type: ignore[attr-defined]
    (told,) = [one.help for one in run.params if one.name == "tools"]
    assert f"`{word}:" in table
    assert f"{word}:" in told
