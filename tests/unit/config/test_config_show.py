"""What `config show` prints: masked, with origins, and readable as a configuration file again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from replan import Replan
from replan.config import Settings, as_json, as_toml, load_settings
from replan.config.keys import SECRETS, SECTIONS
from replan.config.values import kind_of
from replan.core.secrets import text_without_secrets
from replan.errors import ConfigError

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda text: text_without_secrets(text) == text
)

RATES = st.sampled_from(["1/second", "60/minute", "5/10s"])
RULES = st.fixed_dictionaries(
    {},
    optional={
        "effect": st.sampled_from(["reads", "repeatable", "once"]),
        "volatile": st.booleans(),
        "timeout_secs": st.floats(0.001, 1.0),
        "rate": RATES,
    },
)
SERVERS = st.fixed_dictionaries({"command": TEXTS}, optional={"args": st.lists(TEXTS, max_size=2)})
TABLES = {
    ("tools", "rules"): st.dictionaries(TEXTS, RULES, max_size=2),
    ("tools", "mcp_servers"): st.dictionaries(TEXTS, SERVERS, max_size=2),
    ("oidc", "scopes"): st.dictionaries(TEXTS, TEXTS, max_size=2),
    ("oidc", "tenants"): st.dictionaries(TEXTS, TEXTS, max_size=2),
    ("tools", "openapi"): st.dictionaries(TEXTS, SERVERS, max_size=2),
}


def _values(section: str, key: str) -> st.SearchStrategy[Any] | None:
    field = SECTIONS[section].model_fields[key]
    kind = kind_of(field.annotation, tuple(field.metadata))
    if (section, key) in SECRETS:
        return None
    if (section, key) in (("limits", "submits"), ("server", "failed_signins")):
        return RATES
    if (section, key) == ("server", "public_url"):
        return st.sampled_from(["https://a.example", "http://[::1]:8080/below"])
    if kind.base is dict:
        return TABLES.get((section, key))
    if kind.choices:
        return st.sampled_from(kind.choices)
    return {
        bool: st.booleans(),
        int: st.integers(1024, 60_000),
        float: st.floats(0.001, 1.0),
        str: TEXTS,
        tuple: st.lists(TEXTS, max_size=3),
    }[kind.base]


EVERY_KEY = {
    f"{section}.{key}": strategy
    for section, model in SECTIONS.items()
    for key in model.model_fields
    if (strategy := _values(section, key)) is not None
}


@settings(max_examples=60, deadline=None)
@example({"tools.rules": {"KEY": {"effect": "reads"}}, "tools.mcp_servers": {"token": {"command": "x"}}})
@given(st.fixed_dictionaries({}, optional=EVERY_KEY))
def test_what_is_shown_reads_back_as_the_same_settings(chosen: dict[str, Any]) -> None:
    env = {
        f"APP_{name.replace('.', '_').upper()}": text if isinstance(text, str) else json.dumps(text)
        for name, text in chosen.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder)
        first = load_settings(env=env, cwd=cwd)
        (cwd / "shown.toml").write_text(as_toml(first), encoding="utf-8", newline="\n")
        again = load_settings(Path("shown.toml"), env={}, cwd=cwd)
        assert again.settings == first.settings
        set_there = {name for name, origin in again.origins.items() if origin.kind == "file"}
        assert set(chosen) <= set_there
        lines = as_toml(first).split("\n")
        for name in set_there:
            line = again.origins[name].line
            assert line is not None
            assert lines[line - 1].startswith(name.split(".")[1])


def test_each_value_is_shown_with_its_origin_and_secrets_are_masked(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[server]\nport = 9\n")
    env = {
        "APP_LLM_API_KEY": "sk-hidden",
        "APP_LLM_ENDPOINT": "https://ann:hidden@models.example/v1?api_key=hidden",
        "APP_DATABASE_SERVICE_CONNECTION_STRING": "postgresql://ann:hidden@db.example/x",
    }
    loaded = load_settings(env=env, cwd=tmp_path)
    data = as_json(loaded)
    assert data["server"]["port"] == {"value": 9, "origin": "config.toml:2"}
    assert data["server"]["host"] == {"value": "127.0.0.1", "origin": "default"}
    assert data["llm"]["api_key"] == {"value": "***", "origin": "APP_LLM_API_KEY"}
    assert data["llm"]["endpoint"]["value"] == "https://ann:***@models.example/v1?api_key=***"
    assert data["database_service"]["connection_string"]["value"] == "postgresql://ann:***@db.example/x"
    text = as_toml(loaded)
    assert "hidden" not in text
    assert "hidden" not in json.dumps(data)
    assert any(line.startswith("port = 9") and line.endswith("# config.toml:2") for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        pytest.param("sqlite:///a/b.db", "sqlite:///a/b.db", id="nothing to hide"),
        pytest.param("postgresql://u@h/d", "postgresql://u@h/d", id="a user alone"),
        pytest.param("host=h password=s3 user=u", "host=h password=*** user=u", id="keyword form"),
        pytest.param("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", id="a port is no password"),
    ],
)
def test_mask_hides_passwords_and_nothing_else(text: str, masked: str) -> None:
    assert text_without_secrets(text) == masked


@pytest.mark.parametrize(
    "server",
    [
        pytest.param('env = {A = "hush"}', id="environment"),
        pytest.param('headers = {Accept = "hush"}', id="headers"),
        pytest.param('headers = {Accept = "hush ${A}"}', id="beside a variable"),
        pytest.param('api_token = "${A:-hush}"', id="in place of a variable"),
        pytest.param('api_keys = ["hush"]', id="keys"),
        pytest.param('credentials = {user = "hush"}', id="credentials"),
        pytest.param('deep = [{auth = {x = ["hush"]}}]', id="deep"),
        pytest.param('args = ["--api-key", "hush"]', id="after a flag"),
        pytest.param('args = ["--token=hush"]', id="in a flag"),
        pytest.param('args = ["-H", "Authorization: Bearer hush"]', id="a header"),
        pytest.param('args = ["--header=X-Api-Key: hush"]', id="a header in a flag"),
        pytest.param('url = "https://me:hush@host/?token=hush"', id="a URL"),
    ],
)
def test_secrets_in_nested_tables_are_masked(server: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f"[tools.mcp_servers.a]\n{server}\n")
    loaded = load_settings(env={}, cwd=tmp_path)
    assert "hush" not in as_toml(loaded)
    assert "hush" not in json.dumps(as_json(loaded))
    assert "\n# mcp_servers = " in as_toml(loaded)


def test_a_number_that_is_a_secret_is_masked_and_names_of_variables_are_shown(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        "[tools.mcp_servers.a]\npin_secret = 1234\n"
        '[tools.openapi.a]\nurl = "https://host"\nheaders = {Authorization = "Bearer ${TOKEN}", A = "${B}"}\n'
    )
    shown = as_toml(load_settings(env={}, cwd=tmp_path))
    assert "1234" not in shown
    assert (
        '\nopenapi = {"a" = {"url" = "https://host", "headers" = {"Authorization" = "Bearer ${TOKEN}"'
        in shown
    )


def test_what_toml_cannot_hold_is_shown_as_a_comment() -> None:
    env = {"APP_TOOLS_MCP_SERVERS": '{"x": {"args": [null, "a"], "n": [null]}}'}
    shown = as_toml(load_settings(env=env, cwd=Path(tempfile.gettempdir(), "nowhere")))
    assert '\n# mcp_servers = {"x" = {"args" = ["a"], "n" = []}}' in shown


def test_an_error_does_not_quote_what_may_be_a_secret(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[tools.mcp_servers]\na = "hush"\n')
    with pytest.raises(ConfigError, match="takes a table; found something else"):
        load_settings(env={}, cwd=tmp_path)
    with pytest.raises(ConfigError, match="a name must not be empty"):
        load_settings(env={"APP_TOOLS_RULES": '{"": {}}'}, cwd=tmp_path / "none")


def test_secrets_in_the_command_lines_of_sources_are_masked(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[tools]\nsources = ["mcp:serve --api-key hush --fast", "mcp:serve --token ${T}"]\n'
    )
    shown = as_toml(load_settings(env={}, cwd=tmp_path))
    assert '["mcp:serve --api-key *** --fast", "mcp:serve --token ${T}"]' in shown


def test_no_choice_among_words_that_everybody_knows_is_a_secret() -> None:
    for section, model in SECTIONS.items():
        for key, field in model.model_fields.items():
            for choice in kind_of(field.annotation).choices:
                chosen = Settings.model_validate({section: {key: choice}})
                assert Replan(settings=chosen).secrets.hide(f"{choice} {section}") == f"{choice} {section}"


def test_what_may_hold_secrets_holds_those_that_there_are() -> None:
    chosen = Settings.model_validate({"llm": {"api_key": "sk-12345678"}, "server": {"auth": "keys"}})
    assert Replan(settings=chosen).secrets.hide("sk-12345678 of keys").endswith(" of keys")
    assert "sk-12345678" not in Replan(settings=chosen).secrets.hide("sk-12345678 of keys")


def test_claims_that_are_named_like_secrets_make_no_secret_of_tenants_and_scopes() -> None:
    tables = {"tenants": {"key": "globex", "token": "acme"}, "scopes": {"secret": "read run"}}
    chosen = Settings.model_validate({"oidc": tables})
    assert (
        Replan(settings=chosen).secrets.hide("globex and acme may read run") == "globex and acme may read run"
    )
