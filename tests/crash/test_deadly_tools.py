"""A tool that ends the process which calls it is not called without end, and what stands beside it is not blamed for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")


def driven(effect: str, folder: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("deadly_tool.py")
    run = subprocess.run(
        [sys.executable, str(script), str(folder), effect], capture_output=True, text=True, check=False, timeout=120
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_a_task_whose_process_ends_each_time_for_another_reason_waits_for_somebody(tmp_path: Path) -> None:
    found = driven("waits", tmp_path)
    assert found["processes"] <= 12
    assert (found["deadly"]["status"], found["innocent"]["status"]) == ("waiting", "succeeded")


@pytest.mark.parametrize("effect", ["reads", "repeatable"])
def test_a_call_whose_process_ends_each_time_fails_in_the_end(effect: str, tmp_path: Path) -> None:
    found = driven(effect, tmp_path)
    assert found["processes"] <= 9
    assert found["deadly"]["status"] == "failed"
    status, error = found["deadly"]["steps"]["d"]
    assert status == "failed"
    assert "each process that made it has ended" in error
    assert found["innocent"]["status"] == "succeeded"
    assert {status for name, (status, _) in found["deadly"]["steps"].items() if name != "d"} == {"succeeded"}


def test_of_many_tasks_each_that_ends_its_process_is_found_in_two_turns_of_its_own(tmp_path: Path) -> None:
    found = driven("many", tmp_path)
    assert (
        found["processes"] <= 2 + 2 * 3 + 1 + 5
    )  # where one dies before it is stored that another one stands by
    for name in ("deadly", "innocent"):
        ends = {found[f"{name}-{n}"]["status"] for n in range(3)}
        assert ends == {"failed" if name == "deadly" else "succeeded"}, found
