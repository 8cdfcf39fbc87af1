"""An answer has to pass the checks of all who wait for it, as long as they do."""

from __future__ import annotations

from typing import Any

import pytest

from replan.run.session.answer_checks import AnswerChecks


def even(answer: Any) -> list[str]:
    return ["it is odd"] if answer % 2 else []


def positive(answer: Any) -> list[str]:
    return ["it is negative"] if answer < 0 else []


def test_an_answer_has_to_pass_the_checks_of_every_caller() -> None:
    checks = AnswerChecks()
    with checks.held("x", even), checks.held("x", positive):
        assert checks.problems("x", -1) == ["it is odd", "it is negative"]
        assert checks.problems("x", 2) == []
        assert checks.problems("y", -1) == []


def test_a_caller_that_leaves_takes_its_own_check_only() -> None:
    checks = AnswerChecks()
    with checks.held("x", even):
        with checks.held("x", positive):
            pass
        assert checks.problems("x", -1) == ["it is odd"]
    assert checks.problems("x", -1) == []


def test_a_caller_that_leaves_with_an_error_takes_its_check_too() -> None:
    checks = AnswerChecks()
    with pytest.raises(ZeroDivisionError), checks.held("x", even):
        raise ZeroDivisionError
    assert checks.problems("x", 1) == []
