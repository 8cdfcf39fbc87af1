"""The older service's own configuration starts this one: its files, its stage, and every one of its variables."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import remote_process
import warm_command
from cli_process import environment, replan

from replan.config import load_settings
from replan.config.keys import IGNORED, MOVED, SECTIONS
from replan.testing import ScriptedEndpoint

OLDER = Path(__file__).parent.parent / "unit" / "config" / "older_service.toml"
REFERENCE = Path(__file__).parent.parent.parent / "docs" / "reference" / "configuration.md"
PROD = '[server]\nhost = "0.0.0.0"\n[orchestrator]\nsuccess_threshold = 85.0\n[llm]\ntemperature = 0.1\n'
ANSWERS: dict[str, Any] = {
    "execution_plan": {"steps": [{"step_id": "a", "tool": "echo", "parameters": {"value": "as ever"}}]},
    "evaluation": {
        "overall_score": 95,
        "is_successful": True,
        "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90},
        "final_output": "It said: as ever.",
    },
}


def older_keys() -> Iterator[tuple[str, str, Any]]:
    for section, table in tomllib.loads(OLDER.read_text()).items():
        for key, value in table.items():
            yield section, key, value


def as_variables(**other: str) -> dict[str, str]:
    """Each key of the older file as its variable."""
    found = {
        f"APP_{section}_{key}".upper(): value if isinstance(value, str) else json.dumps(value)
        for section, key, value in older_keys()
    }
    return {**found, "APP_LLM_SERVICE_NAME": "", "APP_TOOL_SERVICE_SERVICE_NAME": "", **other}


def folder_of_the_older_service(path: Path) -> Path:
    (path / "config.toml").write_text(OLDER.read_text(), encoding="utf-8")
    (path / "config.prod.toml").write_text(PROD, encoding="utf-8")
    return path


@pytest.mark.anyio
async def test_its_files_and_all_its_variables_start_the_service_and_a_task_runs(tmp_path: Path) -> None:
    folder_of_the_older_service(tmp_path)
    with ScriptedEndpoint(ANSWERS, models=("gpt-4o-mini",)) as models:
        async with remote_process.process(tmp_path, "grpc") as tools:
            env = as_variables(
                APP_ENV="prod",
                APP_SERVER_HOST="127.0.0.1",
                APP_SERVER_PORT="0",
                APP_SERVER_GRPC_PORT="0",
                APP_LLM_ENDPOINT=models.url,
                APP_LLM_TIMEOUT_SECS="30",
                APP_TOOL_SERVICE_ENDPOINT=tools.url.replace("grpc://", "http://"),
                APP_TOOL_SERVICE_TOKEN=tools.token,
            )
            process = await asyncio.to_thread(
                warm_command.Process, ("serve", "--json"), tmp_path, environment(tmp_path, env)
            )
            try:
                said = json.loads(await asyncio.to_thread(process.stdout.readline))
                result = await _run_a_task(f"{said['urls'][0]}/api/v1")
                process.send_signal(signal.SIGTERM)
                _, told = await asyncio.to_thread(process.communicate, timeout=60)
            finally:
                if process.returncode is None:
                    process.kill()
    assert (result["is_success"], result["final_output"]) == (
        True,
        "It said: as ever.",
    ), result["failure"]
    assert models.requests[0]["temperature"] == 0.7, "the variable outweighs the file of the stage"
    no_use = re.findall(r"(\S+): \[database_service\] (\w+) has no use any more and is ignored", told)
    assert {key for _, key in no_use} == IGNORED["database_service"]
    assert {place.partition(":")[0] for place, _ in no_use} >= {
        "config.toml",
        "APP_DATABASE_SERVICE_ENDPOINT",
    }
    assert (tmp_path / "logs" / "app.log").exists()
    assert (tmp_path / "debug_log.txt").exists()


async def _run_a_task(api: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=api, timeout=60.0, trust_env=False) as http:
        made = await http.post("/tasks", json={"task_description": "Say it as ever"})
        assert made.status_code == 202
        answer = await http.get(f"/tasks/{made.json()['task_id']}/result", params={"wait": 30})
        found: dict[str, Any] = answer.json()
        return found


def test_the_file_of_the_stage_lies_over_the_first_and_a_variable_over_both(tmp_path: Path) -> None:
    folder = folder_of_the_older_service(tmp_path)
    loaded = load_settings(env={"APP_ENV": "prod", "APP_LLM_TEMPERATURE": "0.5"}, cwd=folder)
    assert loaded.settings.llm.temperature == 0.5
    assert loaded.settings.orchestrator.success_threshold == 85.0
    assert str(loaded.origins["server.host"]) == "config.prod.toml:2"


def test_nothing_of_it_is_ignored_in_silence(tmp_path: Path) -> None:
    """Each key is one that is known, or that is told as without use; one that is misspelled is told with the nearest."""
    for section, key, _ in older_keys():
        known = key in SECTIONS[section].model_fields or (section, key) in MOVED
        assert known is not (key in IGNORED.get(section, ())), (section, key)
        wrong = f"APP_{section}_{key}X".upper()
        done_by = load_error(tmp_path, {wrong: "1"})
        assert wrong in done_by
        assert "did you mean" in done_by


def load_error(folder: Path, env: dict[str, str]) -> str:
    from replan.errors import ConfigError

    with pytest.raises(ConfigError) as caught:
        load_settings(env=env, cwd=folder)
    return str(caught.value)


def test_the_command_says_what_has_no_use_any_more(tmp_path: Path) -> None:
    done = replan("config", "check", cwd=folder_of_the_older_service(tmp_path), env={"APP_ENV": "prod"})
    assert done.returncode == 0
    assert (done.stdout + done.stderr).count("has no use any more") == 7


def test_the_reference_has_a_row_for_each_of_its_keys() -> None:
    text = REFERENCE.read_text().partition("## From the older service")[2]
    told: set[tuple[str, str]] = set()
    for section, names in re.findall(r"^\| `\[(\w+)\] ([^|]+) \|", text, re.MULTILINE):
        told |= {(section, name) for name in re.findall(r"\w+", names)}
    expected = {(section, key) for section, key, _ in older_keys()} | {
        ("reflection", "max_reflection_rounds")
    }
    assert told == expected
