"""What a service that was killed has left in the midst is gone on with by another one on the same database, without a start."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from service_process import plan, serving, step


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_tasks_of_a_service_that_was_killed_go_on_in_one_of_the_others(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    db: tuple[str, ...] = ()
    if kind == "postgres":
        new: Callable[[], str] = request.getfixturevalue("new_postgres_schema")
        db = ("--db", new())
    soon = {"APP_ENGINE_TAKEOVER_SECS": "1"}
    with ExitStack() as stack:
        first, second, _ = [stack.enter_context(serving(tmp_path, *db, env=soon)) for _ in range(3)]
        steps = plan(step("a", "until", name="go"), step("b", "weather", "a", city="Bern"))
        timed = plan(step("a", "wait_for_time", seconds=4), step("b", "weather", "a", city="Bern"))
        with first.client() as client:
            assert client.post("/tasks", json={**timed, "task_id": "t0"}).status_code == 202
            with client.stream("GET", "/tasks/t0/events") as told:
                assert any("task_waiting" in line for line in told.iter_lines())
            for task_id in ("t1", "t2"):
                body = {**steps, "task_id": task_id}
                assert client.post("/tasks", json=body).status_code == 202
            with client.stream("GET", "/tasks/t1/events") as told:
                assert any("call_started" in line for line in told.iter_lines())
            with client.stream("GET", "/tasks/t2/events") as told:
                assert any("call_started" in line for line in told.iter_lines())
        first.end(signal.SIGKILL)
        second.let_go()
        with second.client() as client:
            for task_id in ("t0", "t1", "t2"):
                done = client.get(f"/tasks/{task_id}/result", params={"wait": 25})
                assert (done.status_code, done.json()["status"]) == (200, "succeeded"), done.text
                page = client.get(
                    f"/tasks/{task_id}/events", params={"limit": 500}, headers={"accept": "application/json"}
                )
                assert page.text.count("task_resumed") == 1
