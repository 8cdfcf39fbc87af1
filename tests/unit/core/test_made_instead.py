"""What was made in place of a failed call is found by an index as by going through everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core import events as e
from replan.core.calls.site import ONLY
from replan.core.ids import base_of
from replan.core.reflection import SuggestedAction
from replan.core.state.made_instead import mended
from replan.core.state.progress import CallState, CallStatus, StepState
from replan.core.state.step_recovery import Healing
from replan.core.state.task import State
from replan.core.types import Fault, Step, ToolSpec

PAY = ToolSpec(id="pay", effect="once")
NO = Fault(category="tool_error", kind="tool", message="no", happened="no")
STATUSES: tuple[CallStatus, ...] = ("failed", "succeeded", "unknown", "running")


class Drawn(NamedTuple):
    """A call, and the step that makes it."""

    plan: int
    to: int | bool | list[int]
    status: CallStatus
    instead_of: int | None
    gone: int
    recovered: bool
    mended: bool = False
    """Recovery has put it in place of the call before it."""


CALLS = st.lists(
    st.builds(
        Drawn,
        st.integers(1, 4),
        st.integers(0, 4) | st.booleans() | st.lists(st.integers(0, 1), max_size=2),
        st.sampled_from(STATUSES),
        st.none() | st.integers(0, 9),
        st.integers(0, 2),
        st.booleans(),
        st.booleans(),
    ),
    max_size=14,
)


def add(state: State, drawn: Drawn, at: int) -> None:
    before = state.made.get("pay", [])
    if drawn.mended and before and before[-1].plan == drawn.plan:
        fault = NO if drawn.status == "failed" else None
        before.append(
            replace(
                before[-1], key=f"{drawn.to}.1", parameters={"to": drawn.to}, status=drawn.status, fault=fault, started=float(at), mended=True
            )
        )  # fmt: skip
        return
    names = () if drawn.instead_of is None else (f"s{drawn.instead_of}",)
    step = Step(step_id=f"s{at}", tool="pay", parameters={"to": drawn.to}, instead_of=names)
    made = StepState(step, born=drawn.plan, meant=drawn.plan, planned=drawn.plan)
    key = f"{drawn.to}{'x' if at % 5 == 0 else ''}.1"
    call = CallState(
        key, step.step_id, ONLY, "pay", 1, "once", step.parameters, status=drawn.status,
        fault=NO if drawn.status == "failed" else None, started=float(at), plan=drawn.plan,
    )  # fmt: skip
    made.calls[ONLY] = call
    if drawn.recovered:
        made.healing = Healing()
        made.healing.take(reflected(step.step_id, f"{(at * 7) % 5}"))
        state.failures += 1
    if drawn.gone:
        made.gone = drawn.plan + drawn.gone
        state.left_out.append(made)
    else:
        state.steps[step.step_id] = made
    state.earlier[step.step_id] = made  # where its words are found
    state.made.setdefault("pay", []).append(call)


def reflected(step_id: str, base: str) -> e.StepReflected:
    return e.StepReflected(
        step_id=step_id, attempt=1, layer=1, error=NO, signature="s", base=base, action=SuggestedAction(type="replan")
    )  # fmt: skip


def plain(state: State, base: str, before: int) -> tuple[CallState, CallState] | None:
    made = state.made.get("pay", [])
    tries = [call for call in made if base_of(call.key) == base]
    if not tries or tries[-1].status != "failed":
        return None
    failed = tries[-1]
    alike = [call for call in made if told(call) == told(failed) and failed.plan < call.plan < before]
    last = alike[-1] if alike else failed
    if last.status in ("succeeded", "unknown"):
        return failed, last
    for call in reversed(made):
        if (
            last.plan < call.plan < before
            and call.status in ("succeeded", "unknown")
            and may(state, call, last)
            and not any(
                are_beside([one for one in made if one.plan == version], call, last)
                for version in range(1, call.plan + 1)
            )
        ):
            return failed, call
    return None


def are_beside(made: list[CallState], call: CallState, failed: CallState) -> bool:
    """True if the plan that has made these has meant both."""
    mine = [one for one in made if told(one) == told(call)]
    theirs = {one.step_id for one in made if told(one) == told(failed)}
    return bool(mine and theirs) and not all(one.mended and one.step_id in theirs for one in mine)


def told(call: CallState) -> str:
    """What tells it from others, whatever an older release has called it."""
    return base_of(call.key).removesuffix("x")


def may(state: State, call: CallState, failed: CallState) -> bool:
    step = state.words_of(call.step_id, call.plan)
    assert step is not None
    if step.instead_of:
        return failed.step_id in step.instead_of
    return call.plan not in state.continued and not beside(state.every_step(), step, failed)


def beside(steps: Sequence[StepState], step: Step, failed: CallState) -> bool:
    return any(
        one.step.parameters == step.parameters
        and one.step.step_id != failed.step_id
        and one.born <= failed.plan
        and not 0 < one.gone <= failed.plan
        for one in steps
    )


@given(CALLS, st.frozensets(st.integers(1, 4), max_size=2))
def test_the_index_finds_what_a_look_at_everything_finds(drawn: list[Drawn], parts: frozenset[int]) -> None:
    state = State(continued=parts)
    for at, one in enumerate(sorted(drawn, key=lambda one: one.plan)):
        add(state, one, at)
        state.plans = 10 + at  # no plan gets a step anew
        for base in {base_of(call.key) for call in state.made["pay"]}:
            for before in (3, 5):
                assert state.made_instead(PAY, (base,), before) == plain(state, base, before)
                every = ((step, call) for step in state.every_step() for call in mended(step, {base}))
                assert state.mended({base}, before) == next(
                    (two for two in every if two[1].plan < before), None
                )
        for call in state.made["pay"]:
            for step in state.every_step():
                assert state.was_planned_beside(step.step, call) == beside(
                    state.every_step(), step.step, call
                )


def test_thousands_of_failed_calls_are_looked_at_in_time_that_grows_with_them() -> None:
    state, count = State(plans=2), 2_000
    for at in range(count):
        add(state, Drawn(1, at, "failed", None, 1, recovered=False), 3 * at)
    for at in range(count):
        state.left_out.append(
            StepState(
                Step(step_id=f"w{at}", tool="pay", parameters={"to": count + at}), status="skipped", gone=2
            )
        )
        add(state, Drawn(2, count + at, "succeeded", None, 0, recovered=False), 3 * (count + at))
    with cpu(5.0):  # it was 8 billion steps
        assert not any(state.made_instead(PAY, (base_of(call.key),), 3) for call in state.made["pay"])
        assert not any(state.mended({base_of(call.key)}, 3) for call in state.made["pay"])
