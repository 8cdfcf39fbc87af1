"""A service that is named for Consul, where Consul is not used: what is told, and that nothing is told where it does no harm."""

from __future__ import annotations

from typing import Any

import pytest

from replan.cli.doctor.asked import model
from replan.cli.doctor.registry import services
from replan.config import Settings
from replan.errors import ConfigError
from replan.wiring import Models

NAMED = {"service_name": "qwen", "default_model": "qwen3"}


def findings(**sections: Any) -> list[tuple[str, str]]:
    return [(one.state, f"{one.found} → {one.todo}") for one in services(Settings.model_validate(sections))]


def test_a_model_of_a_service_that_is_not_looked_for_is_told_by_its_cause() -> None:
    settings = Settings.model_validate({"llm": NAMED})
    with pytest.raises(ConfigError, match=r"\[llm\] service_name: 'qwen' .*\[consul\] enabled = true"):
        Models(settings)["planning"]
    ((state, told),) = findings(llm=NAMED)
    assert state == "problem"
    assert "[llm] service_name 'qwen' is a name for Consul, which is not used → set [consul] enabled" in told
    named = model(settings)
    assert (named.state, named.found) == (
        "problem",
        "'qwen3' is a model of no provider, and no endpoint is configured",
    )


def test_tools_of_such_a_service_are_missed_too() -> None:
    ((state, told),) = findings(tool_service={"service_name": "shop"})
    assert (state, "[tool_service] service_name 'shop'" in told) == ("problem", True)


@pytest.mark.parametrize(
    "llm",
    [
        {**NAMED, "endpoint": "http://127.0.0.1:9/v1"},
        {**NAMED, "service_name": "static:127.0.0.1:9"},
        {"default_model": "openai:gpt-5"},
    ],
)
def test_one_that_has_an_address_or_is_not_named_is_no_matter(llm: dict[str, str]) -> None:
    assert [state for state, told in findings(llm=llm) if "not used" in told] == []


def test_a_model_of_a_provider_is_asked_there_all_the_same() -> None:
    ((state, _),) = findings(llm={**NAMED, "default_model": "openai:gpt-5"})
    assert state == "note"
