"""What callers are told of errors: what they have done wrong, and nothing of how the service is set up."""

from __future__ import annotations

import logging

import pytest

from replan import errors as e
from replan.server.grpc.statuses import status_of
from replan.server.problems import problem_of

WORDS = "the database postgresql://keeper@db.example/tasks does not answer (10.0.0.5 refuses); start it"


@pytest.mark.parametrize(
    ("error", "retry_after"),
    [
        (e.StoreBusy(WORDS), 1.0),
        (e.StoreFull(WORDS), None),
        (e.StoreUnusable(WORDS), None),
        (e.StoreDamaged(WORDS), None),
        (e.StoreError(WORDS), None),
    ],
)
def test_what_is_wrong_with_the_database_is_for_the_log(
    error: e.StoreError, retry_after: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "replan.server"):
        told = problem_of(error)
    assert "database" in told.detail or "store" in told.detail
    assert "10.0.0.5" not in str(told.document())
    assert "keeper" not in status_of(error).message
    assert told.retry_after == retry_after
    assert WORDS in caplog.text


def test_who_else_has_a_task_is_told() -> None:
    words = "task 't' is being driven by another process"
    assert problem_of(e.TaskHeld(words)).detail == words
