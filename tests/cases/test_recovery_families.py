"""Two families of `bench.recovery` that need no shared cases: reworded arguments, and silent wrong answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))
from bench.recovery.reworded import ERRORS, WORDINGS, reword
from bench.recovery.silent import Silent, silent


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("wording", WORDINGS)
def test_the_guard_sees_one_failure_in_whatever_words_it_is_called(wording: str, error: str) -> None:
    one = reword(wording, error)
    assert one.seen, one


@pytest.fixture(scope="module")
def found() -> list[Silent]:
    return silent()


def test_a_declared_output_is_held_to_before_any_judge_sees_it(found: list[Silent]) -> None:
    by_schema = {one.wrong for one in found if one.noticed == "schema"}
    assert by_schema == {
        "another type", "a missing field", "out of its range", "nothing", "an error as an answer"
    }  # fmt: skip
    assert all(one.declared for one in found if one.noticed == "schema")


def test_the_judge_is_shown_what_it_takes_to_notice_the_rest(found: list[Silent]) -> None:
    unnoticed = {one.wrong for one in found if one.noticed == "nobody"}
    assert unnoticed == {"plausible"}, "that is the share that nobody can notice"


def test_what_was_noticed_is_never_believed_and_a_passing_fault_is_mended(found: list[Silent]) -> None:
    for one in found:
        if one.noticed != "nobody":
            assert one.right or not one.succeeded, one
            assert one.right != one.lasting, one
