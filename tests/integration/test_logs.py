"""The log of commands that run for days, and the debug log."""

from __future__ import annotations

import json
import logging
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, tool
from replan.cli.terminal import log_lines
from replan.config import Settings
from replan.errors import ConfigError
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture
def loggers() -> Iterator[None]:
    """What there was before."""
    before = [
        (one, one.handlers[:], one.level, one.propagate) for one in map(logging.getLogger, ("replan", None))
    ]
    yield
    for one, handlers, level, propagate in before:
        for handler in set(one.handlers) - set(handlers):
            handler.close()
        one.handlers[:], one.level, one.propagate = handlers, level, propagate


def settings(**sections: dict[str, Any]) -> Settings:
    return Settings.model_validate(sections)


@tool(effect="reads")
def talk(text: str) -> str:
    logging.getLogger("somebody.else").warning("about %s", text)
    logging.getLogger("replan.tools").info("said %s", text)
    return text


PLAN = {"steps": [{"step_id": "first", "tool": "talk", "parameters": {"text": "rain"}}]}


async def run(tmp_path: Path, given: Settings) -> str:
    async with Replan(tools=[talk], db=tmp_path / "tasks.db", settings=given) as replan:
        return (await replan.run("Talk", plan=PLAN, evaluation="steps")).task_id


@pytest.mark.usefixtures("loggers")
async def test_a_line_of_a_tool_says_of_which_task_and_step_it_is(tmp_path: Path) -> None:
    logging.getLogger().handlers[:] = []
    file = tmp_path / "logs" / "app.log"
    given = settings(logging={"file": True, "console": False, "file_path": str(file), "format": "json"})
    log_lines.begin(given)
    task_id = await run(tmp_path, given)
    lines = {line["message"]: line for line in map(json.loads, file.read_text().splitlines())}
    for said in ("about rain", "said rain"):
        assert (lines[said]["task_id"], lines[said]["step_id"]) == (task_id, "first")
    assert lines["about rain"]["logger"] == "somebody.else"
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.usefixtures("loggers")
async def test_as_text_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = settings()
    log_lines.begin(given, "debug", "text")
    task_id = await run(tmp_path, given)
    assert f"INFO [{task_id} first] said rain" in capsys.readouterr().err


@pytest.mark.usefixtures("loggers")
def test_a_file_that_gets_large_is_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "app.log"
    log_lines.begin(settings(logging={"file": True, "console": False, "file_path": str(file)}))
    file.write_bytes(b"x" * log_lines.FILE_BYTES)
    logging.getLogger("replan").warning("one more")
    assert (tmp_path / "app.log.1").stat().st_size == log_lines.FILE_BYTES
    assert "one more" in file.read_text()


@pytest.mark.usefixtures("loggers")
@pytest.mark.parametrize("section", ["logging", "debug"])
async def test_a_file_that_cannot_be_written_is_said_at_once(tmp_path: Path, section: str) -> None:
    (tmp_path / "taken").write_text("")
    place = str(tmp_path / "taken" / "app.log")
    if section == "logging":
        with pytest.raises(ConfigError, match=r"\[logging\] file_path: .*cannot be written"):
            log_lines.begin(settings(logging={"file": True, "file_path": place}))
    else:
        with pytest.raises(ConfigError, match=r"\[debug\] debug_log_file: .*cannot be written"):
            await run(tmp_path, settings(debug={"save_debug_log": True, "debug_log_file": place}))


async def test_the_debug_log_has_prompts_answers_calls_and_decisions_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "debug.txt"
    model = ScriptedModel(
        {
            "execution_plan": PLAN,
            "evaluation": {
                "is_successful": True, "overall_score": 95, "reasoning": "done", "final_output": "It rains.",
                "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 95, "reliability": 95},
            },
        }
    )  # fmt: skip
    given = settings(debug={"save_debug_log": True, "debug_log_file": str(file)})
    async with Replan(model, [talk], db=tmp_path / "tasks.db", settings=given) as replan:
        result = await replan.run("Talk of rain", metadata={"token": "hunter2-hunter2"})
    said = file.read_text()
    assert result.task_id in said
    for wanted in ("planning asks scripted", "Talk of rain", "calls talk (reads, attempt 1)", '{"text":"rain"}', "It rains.", "execution_mode"):  # fmt: skip
        assert wanted in said
    assert "hunter2" not in said
