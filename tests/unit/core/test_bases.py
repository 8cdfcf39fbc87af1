"""How calls are named: a name with a secret in it cannot be found by trying, and names of older logs are known."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replan.core.calls.names import bases, reading_base
from replan.core.ids import call_base
from replan.core.types import ToolSpec

PIN = ToolSpec(
    id="pay",
    parameters={"type": "object", "properties": {"pin": {"type": "string"}, "to": {"default": "x"}}},
    secrets=("pin",),
)
PLAIN = PIN.model_copy(update={"secrets": ()})
KEY, OTHER = b"k" * 32, b"o" * 32


def test_a_secret_cannot_be_found_by_trying_values_against_the_name_of_its_call() -> None:
    named = bases(KEY, "t", PIN, {"pin": "4711"})[0]
    tried = {name for n in range(10_000) for name in bases(b"", "t", PIN, {"pin": f"{n:04}"})}
    assert named not in tried
    assert named not in bases(OTHER, "t", PIN, {"pin": "4711"})


@given(st.dictionaries(st.sampled_from(["pin", "to", "x"]), st.text() | st.integers() | st.none()))
def test_a_call_has_one_name_and_the_names_of_older_logs(parameters: dict[str, Any]) -> None:
    names = bases(KEY, "t", PIN, parameters)
    assert names == bases(KEY, "t", PIN, dict(reversed(parameters.items())))
    assert {call_base("t", "pay", parameters, PIN.parameters), call_base("t", "pay", parameters)} <= set(
        names
    )
    plain = bases(KEY, "t", PLAIN, parameters)
    assert set(plain) == set(names), "also where a tool calls other things secret than it did"
    assert plain[0] == bases(b"", "t", PLAIN, parameters)[0], "the key is for calls with secrets only"
    assert (names[0] != plain[0]) == (parameters.get("pin") is not None)


def test_readings_about_other_things_have_other_names() -> None:
    made = {reading_base(key, "t", PIN, {"pin": pin}, about) for key in (b"", KEY) for pin in ("1", "2") for about in "ab"}  # fmt: skip
    assert len(made) == 8
