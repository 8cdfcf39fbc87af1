"""Layers, origins, warnings, and every kind of mistake in the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replan.config import Loaded, Origin, load_settings
from replan.config.keys import SECTIONS
from replan.config.sections import BudgetSection, Orchestrator, Recovery, Reflection, Settings
from replan.config.values import kind_of
from replan.core.limits.policy import Policy
from replan.errors import ConfigError


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name.replace('__', '.')}.toml").write_text(text, encoding="utf-8")


def value(loaded: Loaded, name: str) -> object:
    section, key = name.split(".")
    return getattr(getattr(loaded.settings, section), key)


# ── layers ────────────────────────────────────────────────────────────────────


def test_without_any_file_or_variable_everything_is_a_default(tmp_path: Path) -> None:
    loaded = load_settings(env={"HOME": "/home/ann", "APP_ENV": "prod", "APP_NAME": "x"}, cwd=tmp_path)
    assert set(loaded.origins.values()) == {Origin("default")}
    assert set(loaded.origins) == {f"{s}.{k}" for s, model in SECTIONS.items() for k in model.model_fields}
    assert loaded.warnings == ()
    assert loaded.files == ()


BASE = "[server]\nport = 1\n\n[llm]\n# the model\ndefault_model = 'a'\n"

LAYERS = [
    pytest.param({}, {}, 8080, Origin("default"), id="default"),
    pytest.param({"config": BASE}, {}, 1, Origin("file", "config.toml", 2), id="file over default"),
    pytest.param(
        {"config": BASE, "config__dev": "\n\nserver.port = 2"},
        {},
        2,
        Origin("file", "config.dev.toml", 3),
        id="config.dev over config",
    ),
    pytest.param(
        {"config": BASE, "config__dev": "[server]\nport = 2", "config__prod": "[server]\nport = 3"},
        {"APP_ENV": "prod"},
        3,
        Origin("file", "config.prod.toml", 2),
        id="APP_ENV picks the second file",
    ),
    pytest.param(
        {"config": BASE, "config__dev": "[server]\nport = 2"},
        {"APP_ENV": ""},
        2,
        Origin("file", "config.dev.toml", 2),
        id="an empty APP_ENV is dev",
    ),
    pytest.param(
        {"config__dev": "[server]\nport = 2"},
        {},
        2,
        Origin("file", "config.dev.toml", 2),
        id="config.dev alone",
    ),
    pytest.param(
        {"config": BASE, "config__dev": "[server]\nport = 2"},
        {"APP_SERVER_PORT": "4"},
        4,
        Origin("env", "APP_SERVER_PORT"),
        id="variable over files",
    ),
]


@pytest.mark.parametrize(("files", "env", "port", "origin"), LAYERS)
def test_the_later_layer_wins(
    tmp_path: Path, files: dict[str, str], env: dict[str, str], port: int, origin: Origin
) -> None:
    write(tmp_path, **files)
    loaded = load_settings(env=env, cwd=tmp_path)
    assert loaded.settings.server.port == port
    assert loaded.origins["server.port"] == origin


def test_a_named_file_is_read_instead_with_its_own_sibling_over_it(tmp_path: Path) -> None:
    write(tmp_path, config="[server]\nport = 1")
    (tmp_path / "conf").mkdir()
    write(tmp_path / "conf", mine="[server]\nport = 5\ngrpc_port = 6", mine__test="[server]\nport = 7")
    loaded = load_settings(Path("conf/mine.toml"), env={"APP_ENV": "test"}, cwd=tmp_path)
    assert (loaded.settings.server.port, loaded.settings.server.grpc_port) == (7, 6)
    assert str(loaded.origins["server.port"]) == f"{Path('conf/mine.test.toml')}:2"
    assert [file.name for file in loaded.files] == ["mine.toml", "mine.test.toml"]


VARIABLES = [
    pytest.param(
        "APP_TOOL_SERVICE_MAX_RETRIES", "7", "tool_service.max_retries", 7, id="section of two words"
    ),
    pytest.param(
        "APP_DATABASE_SERVICE_MAX_CONNECTIONS", "7", "database_service.max_connections", 7, id="another"
    ),
    pytest.param("APP_LLM_ENABLE_STREAMING", "No", "llm.enable_streaming", False, id="no"),
    pytest.param("APP_CONSUL_ENABLED", "1", "consul.enabled", True, id="1 is true for a truth value"),
    pytest.param("APP_LLM_TEMPERATURE", "0", "llm.temperature", 0.0, id="number"),
    pytest.param(
        "APP_LLM_DEFAULT_MODEL", "123", "llm.default_model", "123", id="a text of digits stays text"
    ),
    pytest.param("APP_LLM_PROTOCOL", "HTTP", "llm.protocol", "http", id="choices in any case"),
    pytest.param(
        "APP_KAFKA_SERVICE_BROKERS", "a:1, b:2", "kafka_service.brokers", ("a:1", "b:2"), id="commas"
    ),
    pytest.param("APP_SCENES_PATHS", '["a,b", "c"]', "scenes.paths", ("a,b", "c"), id="JSON list"),
    pytest.param("APP_SCENES_PATHS", "", "scenes.paths", (), id="empty list"),
    pytest.param("APP_BUDGET_MAX_ROUNDS", "", "budget.max_rounds", None, id="empty is not set"),
    pytest.param("APP_LLM_API_KEY", "", "llm.api_key", None, id="empty text is not set"),
    pytest.param("APP_BUDGET_MAX_COST_USD", "0.5", "budget.max_cost_usd", 0.5, id="optional number"),
    pytest.param(
        "APP_ORCHESTRATOR_MAX_REFLECTION_ROUNDS", "4", "reflection.max_reflection_rounds", 4, id="moved key"
    ),
    pytest.param("APP_LLM_DEFAULT_MODEL", "模型🚀", "llm.default_model", "模型🚀", id="any script"),
]


@pytest.mark.parametrize(("variable", "text", "name", "expected"), VARIABLES)
def test_a_variable_is_read_as_the_type_of_its_key(
    tmp_path: Path, variable: str, text: str, name: str, expected: object
) -> None:
    loaded = load_settings(env={variable: text}, cwd=tmp_path)
    got = value(loaded, name)
    assert got == expected
    assert type(got) is type(expected)
    assert loaded.origins[name] == Origin("env", variable)


def test_an_emptied_variable_unsets_what_a_file_says(tmp_path: Path) -> None:
    write(tmp_path, config="[llm]\nendpoint = 'http://127.0.0.1:1/v1'")
    assert load_settings(env={"APP_LLM_ENDPOINT": ""}, cwd=tmp_path).settings.llm.endpoint is None


# ── the older service ─────────────────────────────────────────────────────────


def test_the_older_services_file_loads_with_warnings_only(tmp_path: Path) -> None:
    loaded = load_settings(Path(__file__).parent / "older_service.toml", env={}, cwd=tmp_path)
    assert loaded.settings.reflection.max_reflection_rounds == 3
    assert loaded.settings.logging.level == "info"
    assert loaded.settings.llm.api_key is None
    ignored = [text for text in loaded.warnings if "has no use any more" in text]
    assert len(ignored) == 7
    assert "older_service.toml:80: [database_service] service_name" in ignored[0]
    assert sum("is deprecated" in text for text in loaded.warnings) == 5


def test_the_key_in_its_new_place_wins_over_the_old_place(tmp_path: Path) -> None:
    write(
        tmp_path,
        config="[orchestrator]\nmax_reflection_rounds = 3\n[reflection]\nmax_reflection_rounds = 5\n",
    )
    loaded = load_settings(env={}, cwd=tmp_path)
    assert loaded.settings.reflection.max_reflection_rounds == 5
    assert any(text.startswith("config.toml:2: [orchestrator]") for text in loaded.warnings)


# ── mistakes ──────────────────────────────────────────────────────────────────

MISTAKES = [
    pytest.param(
        "[server]\nprot = 1",
        'config.toml:2: unknown key "prot" in [server]; did you mean "port"?',
        id="unknown key",
    ),
    pytest.param(
        "[servr]\nport = 1",
        "config.toml:2: unknown section [servr]; did you mean [server]?",
        id="unknown section",
    ),
    pytest.param(
        "\n[servers]\n",
        "config.toml:2: unknown section [servers]; did you mean [server]?",
        id="unknown empty section",
    ),
    pytest.param(
        "[server]\ntask_timeout_secs = 1",
        'config.toml:2: unknown key "task_timeout_secs" in [server]; it belongs below [orchestrator], or did you mean "request_timeout_secs"?',
        id="key of another section",
    ),
    pytest.param(
        "port = 1",
        'config.toml:1: "port" stands outside a section; it belongs below [server]',
        id="key outside a section",
    ),
    pytest.param(
        "lllm = 1", 'config.toml:1: unknown "lllm"; the nearest known section is [llm]', id="unknown outside"
    ),
    pytest.param(
        "server = 1",
        "config.toml:1: [server] is a section: write its keys below a line `[server]`",
        id="section as a value",
    ),
    pytest.param(
        '[server]\nhost = "x"\nport = "eighty"',
        'config.toml:3: [server] port takes a whole number from 0 to 65535; found the text "eighty"',
        id="text for a number",
    ),
    pytest.param(
        "[server]\nport = 70000",
        "config.toml:2: [server] port takes a whole number from 0 to 65535; found the number 70000",
        id="out of bounds",
    ),
    pytest.param(
        "[server]\nport = true",
        "config.toml:2: [server] port takes a whole number from 0 to 65535; found true",
        id="truth value for a number",
    ),
    pytest.param(
        "[llm]\nenable_streaming = 1",
        "config.toml:2: [llm] enable_streaming takes true or false; found the number 1",
        id="number for a truth value",
    ),
    pytest.param(
        "[llm]\ntop_p = 0",
        "config.toml:2: [llm] top_p takes a number above 0 and at most 1; found the number 0",
        id="open bound",
    ),
    pytest.param(
        "[llm]\ntemperature = nan",
        "config.toml:2: [llm] temperature takes a number from 0 to 2; found the number nan",
        id="not a number",
    ),
    pytest.param(
        "[budget]\nmax_rounds = -1",
        "config.toml:2: [budget] max_rounds takes a whole number of at least 0; found the number -1",
        id="optional with a bound",
    ),
    pytest.param(
        '[llm]\nprotocol = "smtp"',
        'config.toml:2: [llm] protocol takes one of "http", "grpc"; found the text "smtp"',
        id="unknown choice",
    ),
    pytest.param(
        "[scenes]\npaths = ['a', 1]",
        'config.toml:2: [scenes] paths takes a list of texts, like ["a", "b"]; '
        "found a list of 2 with the number 1 in it",
        id="wrong item",
    ),
    pytest.param(
        "[server]\nhost = ''",
        "config.toml:2: [server] host takes a text that is not empty; found an empty text",
        id="empty text",
    ),
    pytest.param(
        "[server.port]\nx = 1",
        "config.toml:1: [server] port takes a whole number from 0 to 65535; found a table",
        id="table for a number",
    ),
    pytest.param(
        "[llm]\napi_key = 12345",
        "config.toml:2: [llm] api_key takes a text; found a number",
        id="a secret is not repeated",
    ),
    pytest.param(
        '[limits]\nsubmits = "many"',
        "config.toml:2: [limits] submits: 'many' is no rate; write calls per time, like 10/second, 60/minute or 5/10s",
        id="a rate that is none",
    ),
    *(
        pytest.param(
            f'[server]\npublic_url = "{wrong}"',
            "config.toml:2: [server] public_url: this is no address of a web server; write one like https://agents.example.com/replan, without a query or a password",
            id=f"an address that is none: {wrong}",
        )
        for wrong in (
            "agents.example.com",
            "ftp://agents.example.com",
            "https://",
            "https://a.example:0",
            "https://a.example:x",
            "https://[::1",
            "https://ann:secret@a.example",
            "https://a.example/?q",
            "https://a.example/a b",
        )
    ),
    pytest.param(
        '[oidc.scopes]\n"orders.write" = 1',
        'config.toml:2: [oidc.scopes."orders.write"] takes a text that is not empty; found something else',
        id="a number in a table of texts",
    ),
    pytest.param(
        "[server]\nport = = 1",
        "config.toml:2:8: not valid TOML: invalid value",
        id="bad TOML, with its column",
    ),
    pytest.param(
        '[server]\nhost = "x', "config.toml:2:10: not valid TOML: ", id="a text without end, with its place"
    ),
    pytest.param("[server]\nport = [1,", "config.toml:2:11: not valid TOML: ", id="cut at the end"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_in_a_file_is_told_with_its_place_and_what_is_right(
    tmp_path: Path, text: str, message: str
) -> None:
    write(tmp_path, config=text)
    with pytest.raises(ConfigError) as caught:
        load_settings(env={}, cwd=tmp_path)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("APP_BUDGTE_MAX_TOKENS", "APP_BUDGET_MAX_TOKENS"), ("APP_LM_TIMEOUT_SECS", "APP_LLM_TIMEOUT_SECS")],
)
def test_a_variable_with_a_slip_in_its_section_is_warned_of(
    tmp_path: Path, variable: str, meant: str
) -> None:
    warnings = load_settings(env={variable: "5"}, cwd=tmp_path).warnings
    assert warnings == (f"{variable}: it sets nothing; did you mean {meant}?",)


@pytest.mark.parametrize("variable", ["APP_NAME", "APP_DATABASE_URL", "APP_SECRET_KEY", "APP_"])
def test_a_variable_of_another_program_is_none_of_our_business(tmp_path: Path, variable: str) -> None:
    assert load_settings(env={variable: "5"}, cwd=tmp_path).warnings == ()


WRONG_VARIABLES = [
    pytest.param(
        {"APP_TOOL_SERVICE_MAX_RETRY": "1"},
        'APP_TOOL_SERVICE_MAX_RETRY: unknown key "max_retry" in [tool_service]; '
        "did you mean APP_TOOL_SERVICE_MAX_RETRIES?",
        id="unknown key of a known section",
    ),
    pytest.param(
        {"APP_SERVER_PORT": "eighty"},
        'APP_SERVER_PORT: [server] port takes a whole number from 0 to 65535; found the text "eighty"',
        id="wrong type",
    ),
    pytest.param(
        {"APP_LLM_ENABLE_STREAMING": "maybe"},
        'APP_LLM_ENABLE_STREAMING: [llm] enable_streaming takes true or false; found the text "maybe"',
        id="neither true nor false",
    ),
    pytest.param(
        {"APP_SCENES_PATHS": "[a"},
        "APP_SCENES_PATHS: expected a JSON list like",
        id="broken list",
    ),
    pytest.param(
        {"APP_ENV": "../x"}, 'APP_ENV: "../x" is not a valid environment name', id="APP_ENV as a path"
    ),
]


@pytest.mark.parametrize(("env", "message"), WRONG_VARIABLES)
def test_a_mistake_in_a_variable_names_the_variable(
    tmp_path: Path, env: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(env=env, cwd=tmp_path)
    assert str(caught.value).startswith(message)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, config="[server]\nprot = 1\nport = 'x'\n[zoo]\na = 1")
    with pytest.raises(ConfigError) as caught:
        load_settings(env={"APP_LLM_TOP_P": "2"}, cwd=tmp_path)
    text = str(caught.value)
    assert text.startswith("4 problems in the configuration:\n- ")
    for part in ("config.toml:2:", "config.toml:3:", "config.toml:5: unknown section [zoo]", "APP_LLM_TOP_P"):
        assert part in text


def test_a_mistake_that_a_later_layer_covers_is_no_mistake(tmp_path: Path) -> None:
    write(tmp_path, config="[server]\nport = 'x'")
    assert load_settings(env={"APP_SERVER_PORT": "1"}, cwd=tmp_path).settings.server.port == 1


UNREADABLE = [
    pytest.param("nowhere.toml", b"", "nowhere.toml: there is no such configuration file", id="missing"),
    pytest.param(".", b"", ".: is a folder", id="folder"),
    pytest.param(
        "latin.toml", b"[server]\n# \xe9\n", "latin.toml:2:3: not UTF-8 text (byte 0xe9)", id="not UTF-8"
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE)
def test_a_named_file_that_cannot_be_read_is_told(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    if content:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_settings(Path(name), env={}, cwd=tmp_path)
    assert str(caught.value).startswith(message)


def test_a_file_with_a_byte_order_mark_and_windows_line_ends_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes("\ufeff[server]\r\n\r\nport = 9\r\n".encode())
    loaded = load_settings(env={}, cwd=tmp_path)
    assert loaded.settings.server.port == 9
    assert loaded.origins["server.port"].line == 3


# ── what the rest of the program gets ─────────────────────────────────────────


BIND_A_TASK = {
    *(("orchestrator", key) for key in Orchestrator.model_fields),
    *(("reflection", key) for key in Reflection.model_fields),
    *(("recovery", key) for key in Recovery.model_fields),
    *(("budget", key) for key in BudgetSection.model_fields),
    *(
        ("approval", "mode"),
        ("approval", "review_plan"),
        ("approval", "expires_secs"),
        ("store", "max_output_bytes"),
        ("tool_service", "max_retries"),
        ("llm", "enable_streaming"),
    ),
} - {
    ("orchestrator", "max_concurrent_tasks"),
    ("orchestrator", "lend_place_after_secs"),
    ("orchestrator", "enable_builtin_workflows"),
}
"""Keys that are about each task by itself; they are recorded with it."""
NOT_BY_A_FILE = {"limits", "interactive", "max_plan_corrections", "output_schema"}
"""What of a policy no key sets."""


def changed(section: str, key: str) -> tuple[Any, Policy]:
    """A key set to something else than its default, and the policy that comes of it."""
    field = SECTIONS[section].model_fields[key]
    kind = kind_of(field.annotation, tuple(field.metadata))
    value: Any = 2048 if kind.base is int else 0.5
    if kind.choices:
        (value, *_) = [choice for choice in kind.choices if choice != field.default]
    elif kind.base is bool:
        value = not field.default
    settings = Settings.model_validate({section: {key: value}})
    return value, settings.policy()


def flat(policy: Policy) -> dict[str, Any]:
    told = policy.model_dump()
    return {**told.pop("budget"), **told.pop("older"), **told}


@pytest.mark.parametrize(("section", "key"), sorted(BIND_A_TASK))
def test_a_key_that_binds_a_task_reaches_its_policy(section: str, key: str) -> None:
    value, policy = changed(section, key)
    before = flat(Settings().policy())
    ((name, reached),) = [(name, each) for name, each in flat(policy).items() if each != before[name]]
    assert reached == value
    renamed = {
        "mode": "approval",
        "expires_secs": "approval_expires_secs",
        "max_retries": "max_transient_retries",
    }
    assert name == renamed.get(key, key)


def test_every_part_of_a_policy_is_set_by_one_key() -> None:
    before = flat(Settings().policy())
    reached = [
        name
        for place in BIND_A_TASK
        for name, value in flat(changed(*place)[1]).items()
        if value != before[name]
    ]
    assert sorted([*reached, *NOT_BY_A_FILE]) == sorted(before)


def test_no_other_key_changes_the_policy() -> None:
    before = Settings().policy()
    for section, model in SECTIONS.items():
        for key, field in model.model_fields.items():
            if (section, key) not in BIND_A_TASK and kind_of(
                field.annotation, tuple(field.metadata)
            ).base in (int, bool, float):
                assert changed(section, key)[1] == before, (section, key)


def test_the_defaults_of_the_settings_are_those_of_the_policy(tmp_path: Path) -> None:
    assert load_settings(env={}, cwd=tmp_path).settings.policy() == Policy()


def test_secrets_stay_out_of_the_text_form_of_the_settings(tmp_path: Path) -> None:
    env = {
        "APP_LLM_API_KEY": "sk-hidden",
        "APP_DATABASE_SERVICE_CONNECTION_STRING": "postgresql://u:hidden@h/d",
    }
    loaded = load_settings(env=env, cwd=tmp_path)
    assert loaded.settings.llm.api_key == "sk-hidden"
    assert "hidden" not in repr(loaded)


# ── tables by name ────────────────────────────────────────────────────────────


def test_tables_of_two_layers_are_laid_over_each_other_name_by_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        config='[tools.rules."send_*"]\neffect = "once"\nrequires_approval = true\n\n[tools.rules.read]\nvolatile = true\n',
        config__dev='[tools.rules."send_*"]\nrate = "1/second"\n\n[tools.rules.more]\neffect = "reads"\n',
    )
    env = {"APP_TOOLS_RULES": '{"read": {"timeout_secs": 3}}'}
    rules = load_settings(env=env, cwd=tmp_path).settings.tools.rules
    assert list(rules) == ["send_*", "read", "more"]
    assert {name: rule.model_dump(exclude_none=True) for name, rule in rules.items()} == {
        "send_*": {"effect": "once", "requires_approval": True, "rate": "1/second"},
        "read": {"volatile": True, "timeout_secs": 3},
        "more": {"effect": "reads"},
    }


def test_a_mistake_in_a_table_is_told_with_the_file_and_line_of_its_key(tmp_path: Path) -> None:
    write(
        tmp_path,
        config='[tools.rules.a]\neffect = "raeds"\n',
        config__dev='[tools.rules.a]\n\nrate = "many"\n[tools.rules.b]\neffekt = "reads"\n[tools.rules]\nq = 3\n',
    )
    with pytest.raises(ConfigError) as caught:
        load_settings(env={}, cwd=tmp_path)
    told = str(caught.value)
    assert 'config.toml:2: [tools.rules."a"] effect takes one of "reads"' in told
    assert """config.dev.toml:3: [tools.rules."a"] rate: 'many' is no rate; write calls""" in told
    assert 'config.dev.toml:5: [tools.rules."b"]: unknown key "effekt"; did you mean "effect"?' in told
    assert 'config.dev.toml:7: [tools.rules."q"] takes a table; found the number 3' in told
