"""Values that an error lists in place of a refused one (for tests/unit/reasoning/test_listed.py)."""

from __future__ import annotations

import pytest

from cpu_time import cpu
from replan.core.types import ToolSpec
from replan.reasoning.diagnosis.listed import known_values
from replan.reasoning.diagnosis.recovery_schemas import step_reflection_schema


@pytest.mark.parametrize(
    ("message", "given", "known"),
    [
        pytest.param("city 'Roma' is not known; known cities: Milan, Rome", "Roma", ["Milan", "Rome"], id="after a colon"),
        pytest.param("no 'x'; they are AB (Abe), CD (Cid) and EF (Efe)", "x", ["AB", "CD", "EF"], id="with their names"),
        pytest.param("'x' is wrong. Input should be 'a', 'b' or 'c'", "x", ["a", "b", "c"], id="in quotes"),
        pytest.param("unit \"x\" is bad, one of: x, y, z. Look it up.", "x", ["y", "z"], id="without the refused one"),
        pytest.param("day '3 May' is not valid; it has to look like 2024-12-31", "3 May", None, id="one value is no list"),
        pytest.param("city is not known; known cities: Milan, Rome", "Roma", None, id="the value is not quoted"),
        pytest.param("there is no file 'x.txt' here, and none there", "x.txt", None, id="a sentence is no list"),
    ],
)  # fmt: skip
def test_what_is_known_is_read_from_the_message(message: str, given: str, known: list[str] | None) -> None:
    assert known_values(message, {"p": given, "other": 3}).get("p") == known


def test_a_small_model_chooses_among_the_known_values_and_a_strong_one_is_free() -> None:
    tool = ToolSpec(
        id="t",
        name="t",
        description="",
        parameters={"type": "object", "properties": {"p": {"type": "string"}, "n": {"type": "integer"}}},
    )
    small = step_reflection_schema("small", ["retry_with_params"], tool, [], {"p": ["a", "b"]})
    data = small["properties"]["suggested_action"]["properties"]["data"]["properties"]
    assert data == {"p": {"enum": ["a", "b"]}, "n": {"type": "integer"}}
    free = step_reflection_schema("standard", ["retry_with_params"], tool, [], {"p": ["a", "b"]})
    assert free == step_reflection_schema("standard", ["retry_with_params"], tool, [])


@pytest.mark.parametrize("piece", [": a", ": a, ", "; of a, b ", " are x or "])
def test_a_long_message_is_looked_at_in_its_beginning_only(piece: str) -> None:
    with cpu(2):
        known_values("'Rome' is refused" + piece * 50_000, {"city": "Rome", "town": "Rome"})


@pytest.mark.parametrize("blank", [" ", "\t", "\u00a0", " \t"])
def test_blanks_in_a_message_take_time_in_proportion_and_part_nothing(blank: str) -> None:
    with cpu(1):
        found = known_values(f"no city 'Rom': Rome,{blank * 9_000}Oslo,{blank}or Bern", {"city": "Rom"})
    assert found in ({}, {"city": ["Rome", "Oslo", "Bern"]})
    assert known_values(f"no city 'Rom': Rome,{blank * 40}Oslo", {"city": "Rom"}) == {
        "city": ["Rome", "Oslo"]
    }
