"""Which protocol a configured tool service is spoken to in."""

from __future__ import annotations

from pathlib import Path

import pytest

from replan.config.load import load_settings
from replan.tools.remote import RemoteSource
from replan.wiring import configured_sources


@pytest.mark.parametrize(
    ("table", "url"),
    [
        pytest.param(
            'endpoint = "http://tools:9000"\nprotocol = "grpc"', "grpc://tools:9000", id="the older file"
        ),
        pytest.param(
            'endpoint = "https://tools:9000"\nprotocol = "GRPC"', "grpcs://tools:9000", id="with TLS"
        ),
        pytest.param(
            'endpoint = "http://tools:9000"', "http://tools:9000", id="the scheme, where nothing is said"
        ),
        pytest.param(
            'endpoint = "http://tools:9000"\nprotocol = "http"', "http://tools:9000", id="both say HTTP"
        ),
        pytest.param('endpoint = "tools:9000"', "grpc://tools:9000", id="no scheme: the default"),
        pytest.param(
            'endpoint = "grpc://tools:9000"\nprotocol = "http"', "grpc://tools:9000", id="a scheme of gRPC"
        ),
    ],
)
def test_the_protocol_that_is_said_apart_counts_with_an_http_address(
    tmp_path: Path, table: str, url: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[tool_service]\n{table}\n")
    settings = load_settings(file, env={}, cwd=tmp_path).settings
    (source,) = configured_sources(settings)
    assert isinstance(source, RemoteSource)
    assert source.urls == (url,)


def test_the_environment_may_say_the_protocol(tmp_path: Path) -> None:
    env = {"APP_TOOL_SERVICE_ENDPOINT": "http://tools:9000", "APP_TOOL_SERVICE_PROTOCOL": "grpc"}
    (source,) = configured_sources(load_settings(None, env=env, cwd=tmp_path).settings)
    assert isinstance(source, RemoteSource)
    assert source.urls == ("grpc://tools:9000",)
