"""What a model or a tool writes is gone through in time that grows with it, however it is made."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.plan.new_ids import with_free_ids
from replan.core.plan.proposed import Proposed, proposal_violations
from replan.core.references.conditions import read_condition
from replan.core.references.paths import check_path
from replan.core.references.refs import Reference, changed, meaning, parse, references
from replan.core.types import Step, ToolSpec

PAY = ToolSpec(
    id="pay",
    effect="once",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}, "note": {"default": ""}}},
)


@pytest.mark.parametrize(
    "text",
    [
        "${f(" + "'a' item " * 20_000 + ")}",
        "${f(" + "item " * 50_000 + ")}",
        "${f(" + '"' * 100_000 + " item)}",
    ],
)
def test_a_function_around_many_references_is_refused_for_its_length(text: str) -> None:
    with cpu(2):
        (found,) = parse(text)
    assert isinstance(found, Reference)
    assert "at most 2000" in found.problem
    assert len(found.problem) < 1_000


@pytest.mark.parametrize("text", ["not " * 20_000 + "a", "not (a " * 20_000, "not a == 1 and " * 8_000 + "b"])
def test_a_long_condition_is_left_as_it_is(text: str) -> None:
    with cpu(2):
        assert read_condition(text).strip() == text.strip()


@pytest.mark.parametrize("nots", [1, 150, 450])
def test_a_condition_of_many_nots_does_not_use_up_the_stack(nots: int) -> None:
    text = "not " * nots + "a.output and"
    assert _far_down(lambda: read_condition(text + " b.output")).endswith("b.output")


@pytest.mark.parametrize("piece", ["!{}", "a[].{}", "({})", "[{}]", "a.{}"])
def test_what_passes_as_a_path_can_be_compared_however_deep_the_stack_is(piece: str) -> None:
    for levels in range(100, 400, 20):
        path = "@"
        for _ in range(levels):
            path = piece.format(path)
        path = path.replace(".@", ".b")
        if len(path) <= 2_000 and not check_path(path):
            (ref,) = references(f"${{s1.output | {path}}}")
            if not ref.problem:
                _far_down(lambda ref=ref: meaning(ref))


def _far_down(work: Callable[[], str], depth: int | None = None) -> str:
    """The same with little of the stack left, as in the middle of a drive."""
    depth = sys.getrecursionlimit() // 8 if depth is None else depth
    return work() if depth == 0 else _far_down(work, depth - 1)


def test_a_thousand_new_steps_get_free_ids() -> None:
    steps = [
        Step(
            step_id=f"step_{n}",
            tool="t",
            parameters={"a": f"${{step_{n - 1}.output.x}} of {{{{step_{n // 2}.output}}}}"} if n > 2 else {},
        )
        for n in range(1, 1_001)
    ]
    with cpu(5):
        new = with_free_ids(steps, {step.step_id for step in steps})
    assert new[-1].parameters == {"a": "${step_1999.output.x} of {{step_1500.output}}"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{${step_1.output.x}}", "{${step_9.output.x}}"),
        ("{ {{step_1.output}}", "{ {{step_9.output}}"),
        ("$ ${step_1.output} $${step_1.output}", "$ ${step_9.output} $${step_1.output}"),
        ("{{{{step_1.output}}}} ${step_1.output}", "{{{{step_1.output}}}} ${step_9.output}"),
        ('${step_1.output} "step_1" ${step_1.output."step_1"}', '${step_9.output} "step_1" ${step_9.output."step_1"}'),
    ],
)  # fmt: skip
def test_a_reference_follows_its_step_whatever_stands_around_it(written: str, meant: str) -> None:
    steps = [
        Step(step_id="step_1", tool="t"),
        Step(step_id="x", tool="t", parameters={"a": written, written: 1}),
    ]
    new = with_free_ids(steps, {"step_1", "step_8"})
    assert new[1].parameters == {"a": meant, meant: 1}


@given(st.text(alphabet="${}'\"ab.| output`\\", max_size=60))
def test_a_text_whose_references_stay_stays_as_it_is_written(text: str) -> None:
    assert changed(text, lambda raw: raw) == text


def pays(count: int, **more: object) -> list[Step]:
    return [Step(step_id=f"s{n}", tool="pay", parameters={"n": n, **more}, repeat=True) for n in range(count)]


def violations(steps: list[Step]) -> list[str]:
    proposed = Proposed(steps, {step.step_id for step in steps}, True, lambda text: False)
    return proposal_violations(proposed, lambda name: PAY)


def test_a_thousand_payments_that_say_repeat_are_compared_with_each_other() -> None:
    with cpu(5):
        assert len(violations(pays(1_000))) == 1_000


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"n": 1}, {"n": 1}, True),
        ({"n": 1}, {"n": 1.0, "note": ""}, True),
        ({"n": 1}, {"n": 2}, False),
        ({"n": 1}, {"n": "${metadata.n}"}, True),
        ({"n": 1, "note": "a"}, {"n": "${metadata.n}", "note": "b"}, False),
        ({"n": "${metadata.n}", "note": "a"}, {"n": 1, "note": "${metadata.note}"}, True),
    ],
)
def test_a_repeat_wants_a_call_that_may_come_to_the_same(
    one: dict[str, object], other: dict[str, object], alike: bool
) -> None:
    steps = [
        Step(step_id="a", tool="pay", parameters=one, repeat=True),
        Step(step_id="b", tool="pay", parameters=other),
    ]
    assert bool(violations(steps)) is not alike
