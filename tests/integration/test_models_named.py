"""Models that are named in a way that cannot be asked: what to write in their place; and what doctor says of two endpoints."""

from __future__ import annotations

from typing import Any

import pytest

from replan.cli.doctor.asked import models
from replan.config import Settings
from replan.errors import ConfigError, ModelUnavailable
from replan.llm.provider import open_model
from replan.testing import ScriptedEndpoint


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        (
            "azure:mine",
            ModelUnavailable,
            r"in config\.toml: \[llm\.providers\.azure\] endpoint, api_version$",
        ),
        ("gpu2:qwen3", ConfigError, r"under that name give its address: \[llm\.providers\.gpu2\] endpoint$"),
        ("qwen3", ConfigError, r"write PROVIDER:MODEL.*--endpoint"),
    ],
)
def test_what_is_missing_is_told_as_it_is_configured(
    name: str, error: type[Exception], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(error, match=told):
        open_model(name, api_key="k" if name.startswith("azure") else None)


def found(**llm: Any) -> list[tuple[str, bool]]:
    findings = models(Settings.model_validate({"llm": {"default_model": "scripted", **llm}}))
    return [(one.state, one.found.endswith("the other endpoint is asked")) for one in findings]


def test_doctor_asks_the_endpoint_that_stands_in_and_one_that_answers_is_enough() -> None:
    dead = ScriptedEndpoint.refused_url()
    with ScriptedEndpoint({}) as there:
        assert found(endpoint=there.url, fallback_endpoint=dead) == [("ok", False), ("note", True)]
        assert found(endpoint=dead, fallback_endpoint=there.url) == [("note", True), ("ok", False)]
        assert found(endpoint=there.url) == [("ok", False)]
        port = int(there.url.rpartition(":")[2].partition("/")[0])
    assert found(endpoint=dead, fallback_endpoint=dead) == [("problem", False)] * 2
    with ScriptedEndpoint({}, port=port) as again:  # an address that programs have by heart
        assert again.url == there.url
        assert found(endpoint=again.url) == [("ok", False)]
