"""Tasks in which something goes wrong come to the right end: a small sample of what `bench.recovery` measures."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))
from bench.makespan.graphs import read as read_dags
from bench.recovery import public
from bench.recovery.__main__ import injected
from bench.recovery.beside import Beside, beside
from bench.recovery.gold import FOLDER
from bench.recovery.inject import KINDS
from bench.recovery.oracle import MODEL_SECS
from bench.recovery.replan_runs import run
from bench.recovery.row import Row
from bench.recovery.task import Case

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the shared cases are not beside the repository (cases in shared)"
)

SEED = 7
EVERY_FAILURE = 9
EVERY_HTTP_ERROR = 23
EVERY_GRAPH = 53
MOST_STEPS = 120
MOST = 100
"""Calls, of models or of tools, after which even a plan of several steps on one dead tool has to have been given up."""
NOT_TOLD = {
    "aws-elementalinference-ConflictException",
    "aws-omics-RangeNotSatisfiableException",
    "aws-globalaccelerator-TransactionInProgressException",
}
"""Errors that are said to pass, with a status and a text that say otherwise."""


def sample(*, of: str) -> list[Case]:
    match of:
        case "injected":
            return injected(1, SEED)
        case "failures":
            return public.failures()[0][::EVERY_FAILURE]
        case _:
            return [case for case in public.http_errors()[::EVERY_HTTP_ERROR] if case.name not in NOT_TOLD]


@cache
def rows(*, of: str, right: float) -> list[Row]:
    return [run(case, right, SEED).row for case in sample(of=of)]


@pytest.mark.parametrize("of", ["injected", "failures", "http errors"])
def test_with_an_oracle_that_is_right_every_task_comes_to_its_right_end(of: str) -> None:
    found = rows(of=of, right=1.0)
    assert [f"{row.case}: {row.ended}" for row in found if not row.right_end] == []
    assert {row.ending for row in found} == {"finished", "reported"}
    assert [row.case for row in found if row.duplicates or row.lost] == []


@pytest.mark.parametrize(
    ("of", "right"),
    [
        pytest.param("injected", 0.5, id="injected, half right"),
        pytest.param("injected", 0.0, id="injected, never right"),
        pytest.param("failures", 0.5, id="failures, half right"),
    ],
)
def test_whatever_a_model_says_no_effect_is_made_twice_and_nothing_is_lost(of: str, right: float) -> None:
    found = rows(of=of, right=right)
    assert [f"{row.case}: {row.duplicates} twice" for row in found if row.duplicates] == []
    assert [f"{row.case}: {row.lost} lost" for row in found if row.lost] == []
    assert {row.ended for row in found} <= {
        "succeeded", "user_intervention_required", "outcome_unknown", "planning", "reflection",
    }  # fmt: skip


def test_a_model_that_is_never_right_comes_to_an_end_and_soon() -> None:
    found = rows(of="injected", right=0.0)
    assert max(row.model_calls for row in found) <= MOST
    assert max(row.wasted for row in found) <= MOST


@pytest.fixture(scope="module")
def kinds() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows(of="injected", right=1.0):
        found.setdefault(row.kind, []).append(row)
    return found


def test_there_is_a_task_for_every_kind_of_fault(kinds: dict[str, list[Row]]) -> None:
    assert list(kinds) == list(KINDS)
    assert all(len(those) >= 4 for those in kinds.values())


def test_without_a_fault_a_task_takes_its_critical_path_and_two_model_calls(
    kinds: dict[str, list[Row]],
) -> None:
    for row in kinds["no fault"]:
        assert (row.secs, row.model_calls, row.wasted) == (row.critical_path, 2, 0)


def test_wrong_parameters_cost_one_diagnosis_and_no_further_call(kinds: dict[str, list[Row]]) -> None:
    for row in (*kinds["bad parameter"], *kinds["missing parameter"]):
        assert (row.model_calls, row.wasted) == (3, 0)
        assert row.critical_path is not None
        assert row.secs <= row.critical_path + MODEL_SECS + 1.0 + 1e-6


def test_a_call_in_doubt_is_looked_up_and_never_made_blindly(kinds: dict[str, list[Row]]) -> None:
    for row in kinds["fails after its effect"]:
        assert row.finished
        assert (row.duplicates, row.wasted) == (0, 0)


def test_a_lie_about_a_call_in_doubt_leads_to_no_second_effect() -> None:
    """The model reads what was done, and says the contrary of what it has read, with a quotation as evidence."""
    found = [
        run(case, 1.0, SEED, contrary=True).row
        for case in injected(8, SEED)
        if case.kind in ("timeout", "fails after its effect")
    ]
    assert [row.case for row in found if row.duplicates or row.lost] == []
    assert {row.ended for row in found} <= {"succeeded", "outcome_unknown", "user_intervention_required"}


def test_the_world_notices_what_it_is_there_to_notice() -> None:
    """A second effect, a lost output and an unfinished task are counted, were they to happen."""
    case = next(case for case in injected(1, SEED) if case.kind == "fails after its effect")
    ran = run(case, 1.0, SEED)
    world = ran.world
    content = next(content for content, n in world.effects.items() if n)
    assert (world.complete, world.duplicates) == (True, 0)
    world.effects[content] += 1
    assert world.duplicates == 1
    world.succeeded[content] = 0
    assert not world.complete


# ── beside a recovery ─────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def graphs() -> list[Beside]:
    every = [dag for dag in read_dags() if len(dag.secs) <= MOST_STEPS]
    return [beside(dag, SEED) for dag in every[::EVERY_GRAPH]]


def test_a_recovery_delays_nothing_that_does_not_depend_on_it(graphs: list[Beside]) -> None:
    """The makespan is the critical path that includes the failed try, the diagnosis and the second try."""
    assert {one.dag: one.makespan for one in graphs} == {
        one.dag: pytest.approx(one.critical_path, rel=1e-6) for one in graphs
    }


def test_with_eight_places_a_recovery_off_the_critical_path_costs_next_to_nothing(
    graphs: list[Beside],
) -> None:
    assert all(one.with_eight / one.bound_of_eight <= 1.6 for one in graphs)
    assert any(not one.on_path for one in graphs)
    assert any(one.on_path for one in graphs)
