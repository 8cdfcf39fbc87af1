"""What people write is read within bounds, wherever it stands, and nothing of it is passed over in silence."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.cli.terminal.inputs import json_object, metadata_of, plan_file
from replan.config.load import load_settings
from replan.errors import ConfigError, InputError
from replan.files import MOST_DIGITS, MOST_LEVELS, Unusable, read_bounded, read_json, usable
from replan.llm.recorder import ReplayModel
from replan.run.session.given import read_source
from replan.tools.mcp import from_file

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_is_read_as_json(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


@given(JSON, JSON)
def test_a_key_given_twice_has_one_value_or_is_refused(one: Any, other: Any) -> None:
    text = f'{{"a": {{"k": {json.dumps(one)}, "l": 1, "k": {json.dumps(other)}}}}}'
    if json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True):
        assert read_json(text) == {"a": {"k": one, "l": 1}}
    else:
        with pytest.raises(Unusable, match="the key 'k' is given twice with different values"):
            read_json(text)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(("levels", "right"), [(MOST_LEVELS, True), (MOST_LEVELS + 1, False)])
def test_the_depth_is_bounded(levels: int, right: bool) -> None:
    for read in (lambda: read_json(json.dumps(nested(levels))), lambda: usable(nested(levels))):
        if right:
            assert read() == nested(levels)
        else:
            with pytest.raises(Unusable, match="more than 100 levels"):
                read()


@pytest.mark.parametrize("text", ["9" * (MOST_DIGITS + 1), "-" + "9" * 5_000, "1e999", "[" * 1_000_000])
def test_what_cannot_be_worked_with_is_refused_at_once(text: str) -> None:
    with cpu(2), pytest.raises(Unusable):
        read_json(text)


@pytest.mark.parametrize("text", ["9" * MOST_DIGITS, "-" + "9" * MOST_DIGITS])
def test_a_long_number_is_a_number(text: str) -> None:
    assert read_json(text) == int(text)


def mcp_file(path: Path) -> None:
    from_file(path)


def config_file(path: Path) -> None:
    load_settings(path, env={}, cwd=path.parent)


READERS: dict[str, Callable[[Path], Any]] = {
    "a plan": plan_file,
    "servers": mcp_file,
    "a configuration": config_file,
    "a recording": ReplayModel,
    "a secret": lambda path: read_source(f"file:{path}", "--secret x"),
}


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no file without an end")
@pytest.mark.parametrize("kind", READERS)
def test_a_file_without_an_end_is_refused(kind: str) -> None:
    with cpu(5), pytest.raises((InputError, ConfigError)):
        READERS[kind](Path("/dev/zero"))


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_bounded(path, 10) == b"x" * 10
    with pytest.raises(OSError, match="larger than 9 bytes"):
        read_bounded(path, 9)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("a plan", "[" * 100_000),
        ("a plan", '{"steps": [], "steps": [{"step_id": "a"}]}'),
        ("a plan", '{"steps": [{"step_id": "a", "parameters": {"to": "Ada", "to": "Mallory"}}]}'),
        ("servers", "[" * 100_000),
        ("servers", '{"servers": {"a": {"command": "x", "command": "y"}}} // two'),
        ("servers", '{"servers": ' + "[" * 3_000),
        ("a configuration", "[tools]\nrules = " + "[" * 3_000 + "]" * 3_000),
        ("a configuration", "[tools]\nrules = " + "[" * 200 + "]" * 200),
        ("a configuration", "[budget]\nmax_tokens = " + "9" * 5_000),
        ("a recording", "[" * 100_000 + "\n"),
        ("a recording", '{"replan_recording": 1}\n' + "[" * 100_000 + "\n\n"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(kind: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_text(text, encoding="utf-8")
    with cpu(5), pytest.raises((InputError, ConfigError), match="given") as caught:
        READERS[kind](path)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("value", ["[" * 3_000, '{"a": 1, "a": 2}', "[1" + "0" * 5_000 + "]", "{" * 200_000])
@pytest.mark.parametrize("variable", ["APP_TOOLS_RULES", "APP_SCENES_PATHS", "APP_MCP_SERVERS"])
def test_a_variable_says_what_is_wrong_with_it(variable: str, value: str, tmp_path: Path) -> None:
    try:
        load_settings(None, env={variable: value}, cwd=tmp_path)
    except ConfigError as error:
        assert variable in str(error)  # noqa: PT017 - what it takes for a text is none


def test_parameters_and_metadata_have_each_key_once() -> None:
    with pytest.raises(InputError, match="'cents' is given twice"):
        json_object('{"cents": 2, "cents": 100000}', "--parameters")
    with pytest.raises(InputError, match="'cents' is given twice"):
        metadata_of(['order={"cents": 2, "cents": 100000}'])


SERVERS = '{"mcpServers": {"a": {"command": "x"}, "z": {"command": "y", "args": ["//no", "/*no*/", ",}"]}}}'


def names(text: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "mcp.json"
    path.write_text(text, encoding="utf-8")
    with cpu(2):
        return [source.name for source in from_file(path)]


@pytest.mark.parametrize(
    "comment",
    [
        '// "b": {"command": "false"},',
        "/* } */",
        '/* "b": {"command": "false"}, */ // , }',
        "//",
        "/**/" * 30,
        "/* a */" * 30,
        "// }\n// ]",
    ],
)
def test_comments_stand_anywhere_and_take_no_time(comment: str, tmp_path: Path) -> None:
    parts = [
        '{"mcpServers": {',
        '"a": {"command": "x"},',
        '"z": {"command": "y", "args": ["//no"],},',
        "}, }",
    ]
    assert names(f"\n{comment}\n".join(parts), tmp_path) == ["a", "z"]
    assert names(f"{comment}\n{SERVERS}\n{comment}", tmp_path) == ["a", "z"]


@pytest.mark.parametrize("piece", ["/*", '"', "/* ", ",", ", ", "//", '\\"', "/**/,"])
def test_what_never_ends_is_refused_in_time(piece: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mcp\.json"):
        names('{"mcpServers": {} ' + piece * 50_000, tmp_path)
