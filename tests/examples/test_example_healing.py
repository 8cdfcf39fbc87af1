"""The example that heals: replayed from what the built-in model did, and its tools are as they are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.healing import tools
from examples.healing.__main__ import RECORDINGS, TASKS

from replan import Replan

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def healing(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.healing", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_command_tells_how_both_tasks_healed_and_that_the_answers_equal_the_data() -> None:
    done = healing("--replay")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("equals the data") == len(TASKS)
    assert "known cities: Florence, Milan, Naples" in done.stdout
    assert "shut down for good" in done.stdout
    assert "market_rate" in done.stdout


@pytest.mark.parametrize(
    ("name", "remedies"),
    [
        pytest.param(
            "wrong_parameter", [("retry_with_params", "climate", {"city": "Naples"})], id="parameter"
        ),
        pytest.param("dead_tool", [("retry_with_tool", "exchange_rate", {})], id="dead tool"),
    ],
)
async def test_each_fault_is_met_and_mended_by_the_model(
    name: str, remedies: list[tuple[str, str, dict[str, object]]], tmp_path: Path
) -> None:
    recording = RECORDINGS / f"example_{name}.jsonl"
    tool_file = str(Path(tools.__file__))
    async with Replan(tools=[tool_file], replay=recording, db=tmp_path / "replan.db") as replan:
        result = await replan.run(TASKS[name].task)
        log = [record.event for record in await replan.history(result.task_id)]
    assert TASKS[name].is_right(result), result.output
    reflected = [event for event in log if event.type == "step_reflected"]
    assert {event.by for event in reflected} == {"model"}
    for event, (kind, tool, changed) in zip(reflected, remedies, strict=True):
        assert (event.action.type, event.tool_id) == (kind, tool)
        assert changed.items() <= event.action.data.items()


def test_words_that_it_does_not_know_get_the_usage() -> None:
    done = healing("--reply")
    assert done.returncode == 2
    assert "python -m examples.healing --replay" in done.stderr


def test_the_refusal_names_what_is_known_and_the_dead_tool_never_answers() -> None:
    with pytest.raises(ValueError, match=r"'Napoli' is not known; known cities: .*Naples"):
        tools.climate("Napoli", "April")
    assert tools.climate("Naples", "April").rain_mm == 68.5
    for currency in tools.RATES:
        with pytest.raises(RuntimeError, match="shut down for good"):
            tools.exchange_rate(currency)  # type: ignore[arg-type]
        assert tools.market_rate(currency).rate > 0  # type: ignore[arg-type]
