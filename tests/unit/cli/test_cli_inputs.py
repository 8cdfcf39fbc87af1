"""What people type: metadata, files, texts, numbers in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replan.cli.terminal.exits import of_status
from replan.cli.terminal.inputs import json_file, metadata_of, plan_file, secrets_of, task_text
from replan.cli.terminal.words import clean, secs, size
from replan.errors import InputError
from replan.wiring import database_path

PAIRS = [
    pytest.param("n=3", {"n": 3}, id="number"),
    pytest.param('id="3"', {"id": "3"}, id="quoted digits are text"),
    pytest.param("ok=true", {"ok": True}, id="truth value"),
    pytest.param("gone=null", {"gone": None}, id="null"),
    pytest.param('tags=["a", "b"]', {"tags": ["a", "b"]}, id="list"),
    pytest.param('who={"name": "Zoë"}', {"who": {"name": "Zoë"}}, id="object"),
    pytest.param("note=hello world", {"note": "hello world"}, id="text"),
    pytest.param("url=http://h/?a=b", {"url": "http://h/?a=b"}, id="only the first = counts"),
    pytest.param("empty=", {"empty": ""}, id="empty text"),
    pytest.param("城市=北京 🚀", {"城市": "北京 🚀"}, id="any script"),
    pytest.param("x=NaN", {"x": "NaN"}, id="NaN is no JSON"),
    pytest.param("version=1.2.3", {"version": "1.2.3"}, id="no number"),
]


@pytest.mark.parametrize(("pair", "expected"), PAIRS)
def test_metadata_values_are_json_where_they_can_be(pair: str, expected: dict[str, Any]) -> None:
    found = metadata_of([pair])
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]


def test_a_value_for_a_text_is_text_however_it_looks() -> None:
    assert metadata_of(["zip=01067", "n=3", 'q="3"'], {"zip", "q"}) == {"zip": "01067", "n": 3, "q": "3"}


@pytest.mark.parametrize("pair", ["novalue", "=x", ""])
def test_metadata_without_key_or_value_is_told(pair: str) -> None:
    with pytest.raises(InputError, match="expected KEY=VALUE, like project_id=42"):
        metadata_of([pair])


BAD_FILES = [
    pytest.param(b'{"steps": [}', "plan.json:1:12: not valid JSON: expecting value", id="broken"),
    pytest.param(b'{\n"a": oops}', "plan.json:2:6: not valid JSON", id="line and column"),
    pytest.param(b"", "plan.json:1:1: not valid JSON", id="empty"),
    pytest.param(b'"\xff"', "the plan file is not UTF-8 text", id="not UTF-8"),
    pytest.param(b"3", 'a plan is an object like {"steps": [...]}; found int', id="no object"),
    pytest.param(b"[" * 100_000, "nested more than 100 levels deep", id="too deep"),
    pytest.param(b'{"a": ' * 101 + b"1" + b"}" * 101, "nested more than 100 levels deep", id="objects"),
    pytest.param(b'{"n": ' + b"9" * 5_000 + b"}", "a number of 5,000 digits", id="a long number"),
    pytest.param(b'{"n": -1e999}', "larger than any number", id="a large number"),
    pytest.param(b" " * (16 * 2**20 + 1), "larger than 16,777,216 bytes", id="large"),
]


@pytest.mark.parametrize(("content", "message"), BAD_FILES)
def test_a_plan_file_that_cannot_be_read_is_told_with_its_place(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        plan_file(file)
    assert message in str(caught.value)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_a_file_without_an_end_is_read_up_to_the_limit() -> None:
    with pytest.raises(InputError, match="larger than"):
        plan_file(Path("/dev/zero"))


@pytest.mark.parametrize("text", ["[" * 3_000, '{"a":' * 3_000, "9" * 5_000, "-" + "1" * 1_001, "[1e400]"])
def test_metadata_that_cannot_be_worked_with_is_told(text: str) -> None:
    with pytest.raises(InputError, match="in double quotes if it is meant as a text"):
        metadata_of([f"a={text}"])


def test_brackets_in_texts_do_not_count() -> None:
    text = "[" * 500 + '\\"{'
    assert metadata_of([f'a=["{text}", "{text}"]']) == {"a": ["[" * 500 + '"{'] * 2}


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no plan file"):
        plan_file(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        json_file(tmp_path, "parameters")


def test_a_list_in_a_plan_file_is_taken_as_its_steps(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('\ufeff[{"step_id": "a"}]', encoding="utf-8")
    assert plan_file(file) == {"steps": [{"step_id": "a"}]}


def test_the_task_of_a_plan_is_its_description() -> None:
    assert task_text(None, {"task_description": "Count"}, Path("p.json")) == "Count"
    assert task_text(None, {"steps": []}, Path("p.json")) == "Run the plan p.json"
    assert task_text("Do it", {"task_description": "Count"}, Path("p.json")) == "Do it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(None, 'say what is to be done: replan run "…"', id="none"),
        pytest.param("  ", "the task is empty", id="blank"),
    ],
)
def test_a_task_without_words_is_told(text: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        task_text(text, None, None)


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0.04, "0.0 s"),
        (-1, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (185, "3 min 05 s"),
        (7_860, "2 h 11 min"),
    ],
)
def test_durations_read_well(duration: float, text: str) -> None:
    assert secs(duration) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (1_117_320_768, "1.1 GB")]
)
def test_sizes_read_well(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        pytest.param("a\r\nb\tc", "a b c", id="white space"),
        pytest.param("\x1b[1;31mred\x1b[0m", "red", id="colours"),
        pytest.param("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link", id="links"),
        pytest.param("a\x00\x08\x9bb", "ab", id="control characters"),
        pytest.param("naïve 北京 👩‍🚀", "naïve 北京 👩‍🚀", id="letters of the world stay"),
        pytest.param("x" * 500, "x" * 399 + "…", id="length"),
    ],
)
def test_foreign_text_is_made_safe_for_a_terminal(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        ("succeeded", "", 0),
        ("failed", "step", 1),
        ("failed", "unjudged", 1),
        ("cancelled", "cancelled", 3),
        ("failed", "budget", 4),
        ("timed_out", "timeout", 4),
        ("waiting", "", 5),
    ],
)
def test_each_end_has_its_exit_code(status: str, kind: str, code: int) -> None:
    assert of_status(status, kind) == code


def test_what_is_given_twice_is_told_by_its_name() -> None:
    with pytest.raises(InputError, match="x is given twice"):
        metadata_of(["x=1", "y=2", " x =2"])
    with pytest.raises(InputError, match="--secret key is given twice"):
        secrets_of(["key=env:A", "key=env:B"])


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("file:x.db", "write sqlite:///FILE"),
        ("sqlite:///x.db?mode=ro", "options are not taken"),
        ("sqlite:////tmp/x.db?", "options are not taken"),
    ],
)
def test_an_address_of_a_database_that_means_more_than_a_file_is_refused(named: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        database_path(named)
