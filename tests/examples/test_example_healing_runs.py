"""Runs of the measure `bench.healing` that the built-in model healed, replayed byte for byte without its weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench.healing import __main__ as bench
from bench.healing.measure import is_right, run_case
from bench.healing.worlds import WORLDS
from bench.planning.plans import read_lines
from examples.healing.__main__ import RECORDINGS, TASKS

from replan.llm.recorder import ReplayModel

pytestmark = pytest.mark.anyio

CASES = {case["id"]: case for case in read_lines(bench.CASES)}
OTHER_PARAMETERS = ("firenze", "milano", "venezia", "pounds", "oslo", "toasters")
ANOTHER_TOOL = ("kronor", "francs", "yen", "dover")
HEALED = {
    **{key: ["retry_with_params"] for key in ("firenze", "milano", "venezia", "pounds", "oslo")},
    **{key: ["retry_with_tool"] for key in ("kronor", "francs", "yen", "dover")},
}
"""The kept runs, and what was done in each."""


def test_there_are_ten_tasks_of_each_kind_and_none_is_said_twice() -> None:
    kinds = [case["kind"] for case in CASES.values()]
    assert (kinds.count("parameter"), kinds.count("dead tool")) == (10, 10)
    said = {case["task"] for case in CASES.values()} | {healed.task for healed in TASKS.values()}
    assert len(said) == 20 + len(TASKS)
    assert bench.AGAIN in CASES


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case["id"])
def test_the_expected_tools_are_there(case: dict[str, object]) -> None:
    names = {function.__name__ for function in WORLDS[str(case["world"])]}
    assert set(case["tools"]) <= names  # type: ignore[call-overload]


def test_there_is_a_test_for_every_recording() -> None:
    files = {file.stem for file in RECORDINGS.glob("*.jsonl")}
    assert files == {*HEALED, *(f"example_{name}" for name in TASKS)}


@pytest.mark.parametrize("file", sorted(RECORDINGS.glob("*.jsonl")), ids=lambda file: file.stem)
def test_a_recording_is_of_the_built_in_model_and_names_no_place_of_a_machine(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert json.loads(text.splitlines()[0])["name"].startswith("local:")
    for place in ("/tmp", "/home", "/root", "127.0.0.1", str(Path(__file__).parents[2])):
        assert place not in text


@pytest.mark.parametrize("name", HEALED)
async def test_a_kept_run_meets_its_fault_and_is_healed_to_the_right_answer(
    name: str, tmp_path: Path
) -> None:
    model = ReplayModel(RECORDINGS / f"{name}.jsonl")
    row = await run_case(CASES[name], model, tmp_path / "again.jsonl")
    assert row.healed, row.trail
    assert list(row.rungs) == HEALED[name]
    assert model.left == 0


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        pytest.param("It is 4.83 inches.", [4.83], True, id="a number"),
        pytest.param("It is 1,131.60 CHF.", [1131.6], True, id="separators"),
        pytest.param("It is 4.8 inches.", [4.83], False, id="rounded off is another number"),
        pytest.param("It is 1.86 in and 44.4 °F.", [1.86, 44.4], True, id="both"),
        pytest.param("It is 1.86 in.", [1.86, 44.4], False, id="one of two"),
        pytest.param("It is a Faro.", ["faro"], True, id="a word in any case"),
        pytest.param(None, [4.83], False, id="no answer"),
    ],
)
def test_an_answer_is_right_if_it_says_every_expected_value(
    answer: object, expected: list[str | float], right: bool
) -> None:
    assert is_right(answer, expected) is right
