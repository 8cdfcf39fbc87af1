"""Every task ends, exactly once, whatever its model says: a proof by many random tasks.

A model that retries, replans, contradicts itself and invents something new for ever; tools that fail in every way;
random plans; virtual time on which answers take no time at all, so that no deadline comes to help. A fixed sample
runs by default; `-m prove` runs 10,000 tasks with nothing but the defaults set, and as many more with crashes,
limits and people. `adversary_proof` says what has to hold, and derives how many model calls there can be at most.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from types import FrameType

import pytest
from adversary_cases import LIMITS, drawn, run
from adversary_proof import check

from replan.core.limits.policy import Budget

PROVED = {"plain": 10_000, "crashes": 2_500, "limits": 1_500, "people": 2_500, "doubts": 2_500}
SAMPLE = {"plain": 40, "crashes": 25, "limits": 50, "people": 28, "doubts": 90}
LONG = {"plain": {37, 50, 64}, "crashes": {32}, "people": {37}}
"""Cases of the sample that write thousands of records and take half of its time: the proof runs them. One like them
stays in it: the 38th of `plain`."""
CHUNK = 250
"""Cases in one test, so that several processes share them."""
CPU_SECS = 120
"""No case takes a fiftieth of that; one that does goes on for ever, and would stop every test after it."""
SHOWN = {
    "plain": {
        *("succeeded", "failed", "timed_out", "step_repaired", "plan_rejected", "outcome_unknown"),
        *("full_replan", "replan_from_step", "skip_steps", "add_remediation_steps", "adjust_dependencies"),
        *("retry_with_params by model", "retry_with_tool by model", "repair_step by model", "repair_step by code"),
        *("replan by model", "trigger_overall_reflection by model", "trigger_overall_reflection by code"),
    },
    "crashes": {"succeeded", "failed", "timed_out", "task_resumed", "outcome_unknown", "plan_updated", "step_repaired"},
    "limits": {"succeeded", "failed", "timed_out", "budget", "plan_updated", "step_repaired"},
    "people": {
        *("succeeded", "failed", "timed_out", "cancelled", "task_waiting", "approval_requested", "approval_resolved"),
        *("question_asked", "question_answered", "plan_updated", "step_repaired"),
    },
    "doubts": {
        *("succeeded", "failed", "outcome_unknown", "outcome_settled", "question_answered", "plan_updated"),
        *("verify_outcome by model", "settle_outcome by model", "trigger_overall_reflection by code"),
    },
}  # fmt: skip
"""What has to come up among the cases, else they would show nothing."""

CHUNKS = [
    pytest.param(variant, range(start, min(start + CHUNK, count)), id=f"{variant}-{start}")
    for variant, count in PROVED.items()
    for start in range(0, count, CHUNK)
]


class ForEver(BaseException):
    """A case that does not end. (No `Exception`: nothing may take it for a fault of a tool or a model.)"""


@pytest.fixture
def watched() -> Iterator[None]:
    """What goes on for ever without giving the event loop a turn is broken off, by processor time."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise ForEver

    before = signal.signal(signal.SIGVTALRM, too_long)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


def prove(variant: str, seeds: Iterable[int]) -> Counter[str]:
    """Run the cases; what came up in them. `AssertionError` with the seed of each that did not hold."""
    seen: Counter[str] = Counter()
    found: list[str] = []
    for seed in seeds:
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECS, 1)  # again each second: it may be swallowed
        case = drawn(seed, variant)
        try:
            story = run(case)
            seen[check(story)] += 1
        except (Exception, ForEver) as error:  # noqa: BLE001 - told with the others
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            found.append(f"drawn({seed}, {variant!r}): {type(error).__name__}: {error}\n{case}")
        else:
            seen.update(story.seen())
    assert not found, "\n\n".join(found)
    return seen


def test_every_limit_of_a_task_is_drawn() -> None:
    assert LIMITS.keys() == Budget.model_fields.keys()


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("variant", SAMPLE)
def test_a_task_of_the_sample_ends_once_and_uses_no_more_than_it_may(variant: str) -> None:
    seen = prove(variant, [seed for seed in range(SAMPLE[variant]) if seed not in LONG.get(variant, ())])
    assert not (SHOWN[variant] - seen.keys()), "the sample does not come to everything"


@pytest.mark.prove
@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(("variant", "seeds"), CHUNKS)
def test_every_task_ends_once_and_uses_no_more_than_it_may(variant: str, seeds: range) -> None:
    seen = prove(variant, seeds)
    assert {"task_completed", "task_failed", "task_timed_out"} <= seen.keys(), "the cases show nothing"
