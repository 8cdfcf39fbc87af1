"""Keyword arguments of programs are checked as the configuration is, and an error says what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan import Replan
from replan.app import Arguments
from replan.config import load_settings
from replan.config.options import Options, policy_with
from replan.core.limits.policy import Budget, OlderLimits, Policy
from replan.errors import ConfigError, InputError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"success_threshold": 200},
            "success_threshold: expected a number from 0 to 100, found the number 200",
        ),
        (
            {"success_threshold": "80"},
            'success_threshold: expected a number from 0 to 100, found the text "80"',
        ),
        (
            {"parallel_max_concurrent": 0},
            "parallel_max_concurrent: expected a whole number of at least 1, found the number 0",
        ),
        ({"parallel_max_concurrent": True}, "parallel_max_concurrent: expected a whole number of at least 1"),
        ({"approval": "sometimes"}, 'approval: expected one of "never", "destructive", "all"'),
        ({"evaluation": "step"}, 'evaluation: expected one of "model", "steps", found the text "step"'),
        ({"interactive": "yes"}, 'interactive: expected true or false, found the text "yes"'),
        ({"max_cost_usd": -1}, "max_cost_usd: expected a number of at least 0 or None, found the number -1"),
        ({"max_output_bytes": 5}, "max_output_bytes: expected a whole number of at least 1024"),
        ({"budget": 5}, "budget: expected a Budget or a mapping"),
        ({"budget": {"max_llm_call": 5}}, "'max_llm_call' is not a limit; did you mean 'max_llm_calls'?"),
        ({"budget": {"max_rounds": "3"}}, "max_rounds: expected a whole number of at least 0 or None"),
        ({"output_schema": "x"}, "output_schema: "),
        ({"timeout": 6}, "give it to `run` or `submit`"),
        ({"modle": "m"}, "'modle' is not an option of Replan; did you mean 'model'?"),
        (
            {"max_concurrent_tasks": 2},
            r"not an option of Replan but a key of \[orchestrator\] in config.toml: give settings=Settings.model_validate",
        ),
        ({"lend_place_after_secs": 2}, r"a key of \[orchestrator\]"),
        ({"allow_private": True}, "is not an option of Replan"),
        ({"sucess_threshold": 70}, "did you mean 'success_threshold'?"),
        ({"max_llm_call": 3}, "did you mean 'max_llm_calls'?"),
        ({"db": 5}, "db: expected a path, as a text or a pathlib.Path, found the number 5"),
        ({"model": 5}, "model: expected a text like"),
        ({"settings": {"db": "x.db"}}, "arguments of Replan are given by their own names"),
        ({"tools": len}, r"tools: expected a list, .*; write tools=\[len\]"),
        ({"tools": "tools.py"}, r"write tools=\['tools.py'\]"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_argument_says_what_would_be_right(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        Replan(**options)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"text": None}, "the task: expected a text, found nothing"),
        ({"plan": "plan.json"}, "plan: expected a mapping like .*; read a file with json.load"),
        ({"plan": Path("plan.json")}, "plan: expected a mapping like .*; read a file with json.load"),
        ({"timeout": "5"}, "a number of seconds above 0, not '5'"),
        ({"timeout": True}, "a number of seconds above 0, not True"),
        ({"timeout": float("nan")}, "a number of seconds above 0, not nan"),
        ({"metadata": "x"}, "metadata: expected a mapping"),
        ({"metadata": {1: 2}}, "metadata: expected names that are texts, found the number 1"),
        ({"task_id": 5}, "task_id: expected a text, found the number 5"),
        ({"output_schema": "x"}, "output_schema: expected a mapping"),
        ({"evaluation": "x"}, "evaluation: expected one of"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_wrong_request_says_what_would_be_right(
    tmp_path: Path, task: dict[str, Any], message: str
) -> None:
    text = task.pop("text", "a task")
    async with Replan(db=tmp_path / "r.db", evaluation="steps") as replan:
        with pytest.raises(InputError, match=message):
            await replan.submit(text, **{"plan": {"steps": []}, **task})
        assert await replan.tasks() == []


def test_every_field_of_the_policy_is_an_option_that_type_checkers_know() -> None:
    known = {*Policy.model_fields, *Budget.model_fields, *OlderLimits.model_fields}
    assert known == set(Options.__annotations__)
    assert set(Options.__annotations__) < set(Arguments.__annotations__)


def test_limits_may_stand_beside_other_options() -> None:
    policy = policy_with(Policy(), {"max_cost_usd": 2, "success_threshold": 70, "task_timeout_secs": None})
    assert policy.budget == Budget(task_timeout_secs=None, max_cost_usd=2.0)
    assert policy.success_threshold == 70.0
    assert policy_with(policy, {"budget": {"max_rounds": 3}}).budget == Budget(
        task_timeout_secs=None, max_cost_usd=2.0, max_rounds=3
    )


ANYTHING = st.none() | st.integers() | st.text() | st.booleans()


@given(st.sampled_from(sorted(Options.__annotations__)), ANYTHING)
def test_whatever_is_given_is_taken_or_refused_in_words(name: str, value: object) -> None:
    said = name
    try:
        policy_with(Policy(), {name: value})
    except InputError as error:
        said = str(error)
    assert name in said
    assert "pydantic" not in said


def test_the_older_limits_are_options_under_the_names_of_the_file() -> None:
    policy = policy_with(Policy(), {"max_step_retries": 2, "consecutive_failure_threshold": None})
    assert (policy.older.max_step_retries, policy.older.consecutive_failure_threshold) == (2, None)
    assert policy_with(policy, {"max_reflection_rounds": 0}).older.max_step_retries == 2
    with pytest.raises(InputError, match="max_step_retries: expected a whole number of at least 0 or None"):
        policy_with(Policy(), {"max_step_retries": -1})


def test_settings_are_read_as_the_documents_show_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.toml").write_text("[orchestrator]\nsuccess_threshold = 70\n")
    monkeypatch.chdir(tmp_path)
    for loaded in (
        load_settings(),
        load_settings("config.toml"),
        load_settings(str(tmp_path / "config.toml")),
    ):
        assert loaded.settings.orchestrator.success_threshold == 70
    with pytest.raises(ConfigError, match=r"other\.toml"):
        load_settings("other.toml")
