"""Paths behind the functions of expressions, and what is said of what an expression cannot do."""

from __future__ import annotations

import time
from typing import Any

import pytest

from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.references.refs import changed, parse, references, rewritten
from replan.core.references.resolve import resolve
from replan.core.types import Plan, Step, ToolSpec
from replan.errors import UnresolvedReference

VALUES: dict[str, Any] = {
    "a": [{"sku": 1, "n": 2}, {"sku": 2, "n": 3}],
    "b": [{"sku": 1, "price": 5}, {"sku": 2, "price": 2.5}],
    "w": {"k": 2},
}
BOTH = "merge_by(a.output, b.output, 'sku')"


def outcome(text: str, **more: Any) -> Any:
    return resolve(text, lambda ref: ({**VALUES, **more}[ref.head], ref.head))


@pytest.mark.parametrize(
    ("written", "gives"),
    [
        (f"sum({BOTH}[*].price)", 7.5),
        (f"{BOTH}[?price > `3`].n", [2]),
        (f"{BOTH}[0].price * 2 - {BOTH}[1].n", 7),
        (f"{BOTH}[?sku == ${{w.output.k}}].price", [2.5]),
        (f"{BOTH}[?sku == ${{b.output[?price < `3`].sku | [0]}}].n", [3]),
        ("split('a,b,c', ',')[1:]", ["b", "c"]),
        ("length(split('a,b', ',')[?@ != 'a']) == 1 ? 'one' : 'more'", "one"),
        (f"[max(1, 2), {BOTH}[0].n]", [2, 2]),
        (f'{BOTH}[0]."sku"', 1),
        (f'{BOTH}[0]["sku"]', 1),
        ("round(1.5) - 1", 1),
    ],
)
def test_a_path_follows_a_function(written: str, gives: Any) -> None:
    assert outcome(f"${{= {written} }}") == gives


def test_what_it_refers_to_is_seen_and_changed() -> None:
    text = f"${{= {BOTH}[?sku == ${{w.output.k}}].price }}"
    assert [ref.raw for ref in references(text)] == ["${a.output}", "${b.output}", "${w.output.k}"]
    other = changed(text, lambda raw: raw.replace("{w.", "{x."))
    assert other == text.replace("${w.", "${x.")
    assert rewritten(text, lambda ref: ref.head) != rewritten(other, lambda ref: ref.head)
    assert rewritten(text, lambda ref: "R") == rewritten(other.replace("${= ", "${=  "), lambda ref: "R")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (f"{BOTH}[?sku == ", "not closed"),
        (f"{BOTH}[?sku == x y]", "merge_by(…)"),
        (f"{BOTH}.${{w.output.k}}", "is not understood"),
        (f"{BOTH}[*].(n * price)", "a step with `for_each` over the list does it"),
        ("sum(a.output[*].(n * price))", "a step with `for_each` over the list does it"),
    ],
)
def test_what_cannot_follow_is_told(written: str, said: str) -> None:
    (found,) = parse(f"${{= {written} }}")
    assert not isinstance(found, str)
    assert said in found.problem


@pytest.mark.parametrize(
    "written", ["a.output[*].n * 2", "a.output[*].n + b.output[*].price", f"{BOTH}[*].n * 2"]
)
def test_lists_are_not_computed_with(written: str) -> None:
    with pytest.raises(UnresolvedReference, match="for each item of a list"):
        outcome(f"${{= {written} }}")
    assert "a step with `for_each`" in violations(written)[0]


def violations(written: str) -> tuple[str, ...]:
    tool = ToolSpec(id="t", effect="reads", parameters={"type": "object"})
    steps = [Step(step_id=name, tool="t") for name in VALUES]
    steps.append(Step(step_id="x", tool="t", parameters={"x": f"${{= {written} }}"}, for_each="[1]"))
    return check_plan(
        Plan(plan_id="p", steps=tuple(steps)),
        Toolbox({"t": tool}.get, lambda _: ()),
        metadata={},
        limits=PlanLimits(),
    ).violations


def test_names_in_what_follows_are_told_with_the_plan() -> None:
    assert violations(f"{BOTH}[?sku == ${{w.output.k}} && n > ${{item}}].price") == ()
    for name in ("w.output.k", "item", "item.sku", "'${w.output.k}'"):
        assert violations(f"{BOTH}[?sku == {name}].price"), name
    assert "is not a step" in violations(f"{BOTH}[?sku == ${{nobody.output}}].price")[0]
    assert "gives a text" in violations("upper('x')[0]")[0]


def test_a_large_output_in_many_lists_is_bounded() -> None:
    big = list(range(200_000))
    for inner in (
        "[" * 38 + ", ".join(["big.output"] * 7) + "]" * 38,
        "[" + ", ".join(["big.output"] * 100) + "]",
    ):
        began = time.perf_counter()
        with pytest.raises(UnresolvedReference, match=r"larger than|more than"):
            outcome(f"${{= {inner} }}", big=big)
        assert time.perf_counter() - began < 2
