"""Which kind of source a SPEC means; nothing is connected or started for that."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from replan.errors import InputError
from replan.ports import ToolCall
from replan.tools.specs import load_sources


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test's own; what loading adds to the path is gone afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


MCP_FILE = {
    "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "some-server", "/tmp"]},
        "web": {"url": "https://example.org/mcp"},
    }
}


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        ("tools.py", ["FunctionSource"]),
        (" tools.py:one ", ["FunctionSource"]),
        ("mcp:uvx some-server --flag 'two words'", ["McpSource"]),
        ("MCP:https://example.org/anything", ["McpSource"]),
        ("https://example.org/mcp", ["McpSource"]),
        ("http://127.0.0.1:8000/tools/mcp/", ["McpSource"]),
        ("https://example.org/sse?key=1", ["McpSource"]),
        ("mcp.json", ["McpSource", "McpSource"]),
        ("openapi:api.yaml", ["OpenApiSource"]),
        ("openapi:https://example.org/api.json#tag=pets", ["OpenApiSource"]),
        ("grpc://localhost:50051", ["RemoteSource"]),
        ("grpcs://tools.example.org:443", ["RemoteSource"]),
        ("http://localhost:8800", ["RemoteSource"]),
        ("kit:time", ["FunctionSource"]),
    ],
)
def test_a_spec_means_one_kind_of_source(spec: str, kinds: list[str]) -> None:
    Path("tools.py").write_text("def one() -> int:\n    return 1\n")
    Path("mcp.json").write_text(json.dumps(MCP_FILE))
    Path("api.yaml").write_text("openapi: 3.1.0\n")
    found = load_sources(spec)
    assert [_kind(source) for source in found] == kinds


MIXED = """
from agents import function_tool
from langchain_core.tools import tool as langchain_tool


@langchain_tool
def plus(a: int, b: int) -> int:
    "Add."
    return a + b


@function_tool
def minus(a: int, b: int) -> int:
    "Subtract."
    return a - b


def times(a: int, b: int) -> int:
    "Multiply."
    return a * b
"""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("spec", "ids"),
    [
        ("mixed.py", ["times", "plus", "minus"]),
        ("mixed.py:plus", ["plus"]),
        ("mixed.py:BOTH", ["plus", "minus"]),
    ],
)
async def test_a_file_may_hold_tools_of_other_frameworks_beside_functions(
    spec: str, ids: list[str], here: Path
) -> None:
    text = MIXED + ("\n\nBOTH = [plus, minus]\n" if "BOTH" in spec else "")
    (here / "mixed.py").write_text(text)
    (source,) = load_sources(spec)
    assert [tool.id for tool in await source.tools()] == ids
    assert await source.call(ToolCall(ids[-1], {"a": 5, "b": 3}, "key")) in (8, 2)
    await source.aclose()


def _kind(source: object) -> str:
    known = ("FunctionSource", "McpSource", "OpenApiSource", "RemoteSource")
    return next(name.__name__ for name in type(source).__mro__ if name.__name__ in known)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "an empty name of tools"),
        ("mcp:", "something has to follow 'mcp:'"),
        ("openapi: ", "something has to follow 'openapi:'"),
        ("grpc://", "something has to follow 'grpc:'"),
        ("kit:nothing", "there is no kit 'nothing'; there are files"),
        ("missing.json", "there is no file missing.json"),
        ("openapi:missing.yaml", "there is no file missing.yaml"),
        ("ftp://example.org/tools.yaml", "ftp:// is not a kind of tools"),
        ("mcp:'unclosed", "mcp"),
        ("openapi:api.yaml#colour=red", "'colour' is not a filter"),
        ("what ever", "not a known source of tools"),
    ],
)
def test_what_means_nothing_is_told_with_what_would(spec: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        load_sources(spec)
    assert reason in str(caught.value)
