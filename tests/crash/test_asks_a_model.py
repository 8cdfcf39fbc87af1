"""A process that is killed while a model answers one of its steps: what it had not answered is asked once more, and nothing else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


def driven(folder: Path) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("asks_a_model.py")
    return subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, check=False, timeout=120
    )


def test_only_what_was_being_answered_is_asked_again_and_no_answer_is_charged_twice(tmp_path: Path) -> None:
    assert driven(tmp_path).returncode == -signal.SIGKILL
    second = driven(tmp_path)
    assert second.returncode == 0, second.stderr[-2000:]
    found = json.loads(second.stdout)
    assert (found["status"], found["output"]) == ("succeeded", "All are short.")
    asked = Counter((tmp_path / "questions").read_text().splitlines())
    assert len(asked) == 13
    once, twice = 5 + 1, 7  # those that were answered, and the last step; those that were not
    assert Counter(asked.values()) == {1: once, 2: twice}
    assert found["attempts"] == 2
    assert len(found["answers"]) == len({tuple(one) for one in found["answers"]}) == 13
    assert found["completed"] == [1] * 13
    assert found["usage"]["llm_calls"] == asked.total() == 20  # charged as often as it was asked
