"""An answer has to pass the checks of all who wait for it, as long as they do."""

from __future__ import annotations

from typing import Any

import pytest

from replan.core.state.task import TaskName
from replan.run.session.answer_checks import AnswerChecks

X = TaskName("x", 1.0)


def even(answer: Any) -> list[str]:
    return ["it is odd"] if answer % 2 else []


def positive(answer: Any) -> list[str]:
    return ["it is negative"] if answer < 0 else []


def test_an_answer_has_to_pass_the_checks_of_every_caller() -> None:
    checks = AnswerChecks()
    with checks.held(X, even), checks.held(X, positive):
        assert checks.problems(X, -1) == ["it is odd", "it is negative"]
        assert checks.problems(X, 2) == []
        assert checks.problems(TaskName("y", 1.0), -1) == []


def test_a_caller_that_leaves_takes_its_own_check_only() -> None:
    checks = AnswerChecks()
    with checks.held(X, even):
        with checks.held(X, positive):
            pass
        assert checks.problems(X, -1) == ["it is odd"]
    assert checks.problems(X, -1) == []


def test_a_caller_that_leaves_with_an_error_takes_its_check_too() -> None:
    checks = AnswerChecks()
    with pytest.raises(ZeroDivisionError), checks.held(X, even):
        raise ZeroDivisionError
    assert checks.problems(X, 1) == []


def test_a_later_task_of_the_same_id_is_not_checked_for_who_waits_for_the_one_before() -> None:
    checks, anew = AnswerChecks(), TaskName("x", 2.0)
    with checks.held(X, even):
        assert checks.problems(anew, 1) == []
        with checks.held(anew, positive):
            assert checks.problems(anew, -1) == ["it is negative"]
            assert checks.problems(X, -1) == ["it is odd"]
