"""A task and its forks, driven side by side by several processes that plan the same: each payment is made once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("store", "payments", "forks", "forkers"),
    [
        pytest.param("sqlite", 12, 2, 1, id="sqlite"),
        pytest.param("sqlite", 60, 6, 3, id="sqlite-long", marks=pytest.mark.prove),
        pytest.param("postgres", 60, 6, 3, id="postgres-long", marks=pytest.mark.prove),
    ],
)
def test_forks_that_race_with_their_task_make_each_payment_once(
    request: pytest.FixtureRequest, tmp_path: Path, store: str, payments: int, forks: int, forkers: int
) -> None:
    postgres = store == "postgres"
    database = request.getfixturevalue("postgres_database") if postgres else str(tmp_path / "log.db")
    journal = tmp_path / "journal"
    script = Path(__file__).with_name("racing_forks.py")
    racing = [
        subprocess.Popen(
            [sys.executable, str(script), role, database, str(journal), str(seed), str(payments), str(forks)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed, role in enumerate(["begin", *["fork"] * forkers])
    ]

    told = [process.communicate(timeout=120)[1] for process in racing]

    assert [process.returncode for process in racing] == [0] * len(racing), told
    paid = Counter(journal.read_text().split())
    assert paid == Counter(f"n{n}" for n in range(payments))
