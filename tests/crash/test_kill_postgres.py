"""The same on PostgreSQL: a process is killed at any point, and the task is driven on from the log in the database."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_kill import CASES, SEED, Processes, check, cut_off, kill_and_resume, points


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    made = Processes(tmp_path_factory.mktemp("crash"))
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path, postgres_database: str) -> Path:
    (tmp_path / "address").write_text(postgres_database)
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_a_killed_task_goes_on_and_does_nothing_twice(processes: Processes, folder: Path, case: str) -> None:
    chance = random.Random(f"{SEED} {case} on a server")
    every = points(processes.baseline(case))
    kill_and_resume(processes, folder, case, chance.choice(every))


def test_many_tasks_in_flight_are_killed_together_and_all_go_on(processes: Processes, folder: Path) -> None:
    tasks = [f"{CASES[n % len(CASES)]}.{n}" for n in range(8)]
    chance = random.Random(f"{SEED} 8 on a server")
    doubted: dict[str, set[str]] = {task_id: set() for task_id in tasks}
    for mode in ("run", "resume", "resume"):
        if not processes.do(mode, tasks, folder, ["commit", chance.randrange(8, 32), "after"]):
            for task_id in tasks:
                doubted[task_id] |= cut_off(folder, task_id)
    assert processes.do("resume", tasks, folder)
    for task_id in tasks:
        case = task_id.partition(".")[0]
        check(folder, case, task_id, processes.baseline(case)["tasks"][case], doubted[task_id])
