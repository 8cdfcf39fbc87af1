"""Values inside filters: what they may take, and that no secret goes by them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.plan.receivers import SecretMetadata
from replan.core.references.refs import parse
from replan.core.references.resolve import resolve
from replan.core.types import Plan, Step, ToolSpec
from replan.errors import UnresolvedReference

EACH = '["A"]'
OPEN = ToolSpec(id="open", effect="reads", parameters={"type": "object"})


def checked(step: Step, secret: SecretMetadata) -> Sequence[str]:
    plan = Plan(plan_id="p", steps=(Step(step_id="r", tool="open"), step))
    tools = Toolbox({"open": OPEN}.get, lambda _: ())
    return check_plan(plan, tools, metadata=secret.real, limits=PlanLimits(), secret=secret).violations


def outcome(text: str, values: dict[str, Any]) -> Any:
    try:
        return resolve(text, lambda ref: (values[ref.head], ref.head))
    except UnresolvedReference as error:
        return str(error)


@pytest.mark.parametrize(
    "path",
    [
        "[?a == ${who.output}]",
        "[?contains(${who.output}, a)]",
        "[?a < ${who.output}]",
        "[*].{x: ${who.output}}",
        "[?to_number(${who.output}) == a]",
        "[?[${who.output}, a] == [${who.output}, 'x']]",
    ],
)
def test_a_large_value_in_a_path_is_bounded(path: str) -> None:
    big = "ab" * 4_000_000
    rows = [{"a": "ab" * 3_999_999 + "xy"}] * 20_000
    began = time.perf_counter()
    found = outcome("${r.output" + path + "}", {"r": rows, "who": big})
    assert time.perf_counter() - began < 5
    assert isinstance(found, str)


def test_deep_and_many_are_bounded() -> None:
    began = time.perf_counter()
    for text in (
        "${a.output[?x == " * 110 + "1" + "]}" * 110,
        "${a.output[?x == " * 110,
        "${a.output[?x == {{" * 90,
        "${a.output" + "[?x == ${b.output}]" * 100 + "}",
    ):
        for one in parse(text):
            assert isinstance(one, str) or one.problem
    assert time.perf_counter() - began < 2


def test_a_secret_of_the_metadata_goes_nowhere_by_a_filter() -> None:
    real = {"people": [{"id": 1, "name": "Ada", "pw": "hunter2"}], "token": "t0ken"}
    shown = {"people": [{"id": 1, "name": "Ada", "pw": "***"}], "token": "***"}
    secret = SecretMetadata(real, shown, {})

    def told(text: str) -> bool:
        step = Step(step_id="x", tool="open", parameters={"x": text}, for_each=EACH)
        return any("declared as secret" in one for one in checked(step, secret))

    assert told("${metadata.people[?id == ${item.id}].pw}")
    assert told("${metadata.people[?id == ${item.id}]}")
    assert told("${r.output[*].{x: ${metadata.token}}}")
    assert told("${= length(r.output[?x == ${metadata.token}]) }")
    assert not told("${metadata.people[?id == ${item.id}].name}")
