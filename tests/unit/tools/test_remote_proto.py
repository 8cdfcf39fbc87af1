"""What a tool is and promises is the same to the other side, over HTTP and over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.types import ToolSpec
from replan.ports import ToolProblem
from replan.tools.remote.grpc_forms import error_message, listing_message, listing_value, pb
from replan.tools.remote.messages import (
    NOT_SENT,
    SPEC_FIELDS,
    Listing,
    dumps,
    loads,
    spec_to_wire,
    specs_from_wire,
)
from replan.tools.remote.proto import generate

OTHER: dict[str, Any] = {
    "name": "Pay",
    "description": "Pay somebody.",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}, "n": {"type": "integer"}}},
    "output_schema": {"type": "string"},
    "effect": "repeatable",
    "aliases": ("transfer", "send"),
    "timeout_secs": 0.25,
    "max_retries": 0,
    "output_params": ("id",),
    "secrets": ("to",),
    "volatile": True,
    "stable": True,
    "errors_are_clean": False,
    "honours_key": True,
    "requires_approval": True,
    "substitutes": ("wire",),
    "unique_by": ("invoice",),
}
"""Of each field that is sent a value that is not its default."""


def by_http(*specs: ToolSpec) -> tuple[list[ToolSpec], list[ToolProblem]]:
    told = loads(dumps([spec_to_wire(spec) for spec in specs]))
    return specs_from_wire(told, source="", keys_are_durable=False)


def by_grpc(*specs: ToolSpec) -> tuple[list[ToolSpec], list[ToolProblem]]:
    sent = listing_message(Listing("1", specs), "").SerializeToString()
    told = listing_value(pb.ListToolsResponse.FromString(sent))
    found, problems = specs_from_wire(told["tools"], source="", keys_are_durable=False)
    return found, [*problems, *(ToolProblem(one["message"], one["tool"]) for one in told["problems"])]


WAYS = pytest.mark.parametrize("way", [by_http, by_grpc])
Way = Callable[..., tuple[list[ToolSpec], list[ToolProblem]]]


def test_each_field_of_a_tool_is_sent_in_both_ways_or_named_as_not_sent() -> None:
    assert set(SPEC_FIELDS) | NOT_SENT == set(ToolSpec.model_fields)
    assert set(SPEC_FIELDS) == {field.name.removesuffix("_json") for field in pb.Tool.DESCRIPTOR.fields}
    assert set(OTHER) | {"id"} == set(SPEC_FIELDS)
    assert not [name for name, value in OTHER.items() if ToolSpec(id="x").__dict__[name] == value]


@WAYS
@given(chosen=st.sets(st.sampled_from(sorted(OTHER))))
def test_a_tool_comes_back_as_it_was(way: Way, chosen: set[str]) -> None:
    spec = ToolSpec(id="pay", **{name: OTHER[name] for name in chosen})

    assert way(spec) == ([spec], [])


@WAYS
@pytest.mark.parametrize("value", [None, 0, 1, 10**6])
def test_no_limit_of_tries_is_not_a_limit_of_none(way: Way, value: int | None) -> None:
    (found,), _ = way(ToolSpec(id="a", max_retries=value))

    assert found.max_retries == value


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        pytest.param(ToolSpec(id="odd", max_retries=10**30), "range", id="too large a number"),
        pytest.param(ToolSpec(id="odd", secrets=("\ud800",)), "surrogate", id="no UTF-8"),
    ],
)
def test_a_tool_that_has_no_form_in_a_message_takes_no_other_with_it(odd: ToolSpec, words: str) -> None:
    good = ToolSpec(id="good")

    found, problems = by_grpc(odd, good)

    assert found == [good]
    assert [(one.tool, words in one.message, "left out" in one.message) for one in problems] == [
        ("odd", True, True)
    ]


def test_half_a_character_in_words_is_replaced_where_a_message_cannot_hold_it() -> None:
    ((http,), _), ((grpc,), _) = (way(ToolSpec(id="a", description="\ud800!")) for way in (by_http, by_grpc))

    assert (http.description, grpc.description) == ("\ud800!", "?!")
    assert error_message({"kind": "tool", "message": "no \udfff", "happened": "no"}).message == "no ?"
    told = listing_message(Listing("1", (), (ToolProblem("why \ud800"),)), "")
    assert [one.message for one in told.problems] == ["why ?"]


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    made = generate.generate(tmp_path)
    committed = generate.FOLDER / "tools_pb2.py"
    assert made.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), "run: make proto"
