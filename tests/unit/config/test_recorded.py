"""What a task keeps of the configuration: no secret, and enough to go on alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.config import Settings
from replan.config.recorded import going_on, recorded
from replan.config.sections import Llm, Tools, ToolService
from replan.errors import InputError

SECRET = "s3cret-that-nobody-may-see"
WORDS = st.text(st.characters(categories=["Ll", "Nd"]), min_size=1, max_size=8)
SETTINGS = st.builds(
    Settings,
    llm=st.builds(
        Llm,
        endpoint=st.none() | WORDS.map("https://{}.example/v1".format),
        default_model=st.none() | WORDS,
        temperature=st.floats(0, 2),
        api_key=st.none() | st.just(SECRET),
    ),
    tools=st.builds(
        Tools,
        sources=st.lists(WORDS.map("{}.py".format), max_size=3).map(tuple),
        deny=st.lists(WORDS, max_size=2).map(tuple),
        rules=st.just({}),
        mcp_servers=st.dictionaries(WORDS, st.fixed_dictionaries({"command": WORDS}), max_size=2),
    ),
)


@given(SETTINGS)
def test_a_task_goes_on_with_the_settings_that_it_was_begun_with_but_for_keys(settings: Settings) -> None:
    kept = json.loads(json.dumps(recorded(settings)))
    assert SECRET not in json.dumps(kept)
    here = Settings(llm=Llm(api_key="own", endpoint="https://own.example", temperature=0.1))
    on, _ = going_on(kept, here)
    assert on.llm.api_key == "own"
    assert on.llm.model_copy(update={"api_key": None}) == settings.llm.model_copy(update={"api_key": None})
    assert on.tools == settings.tools
    same = going_on(kept, settings)
    assert (same.settings, same.changed) == (settings, ())


@given(SETTINGS, SETTINGS)
def test_what_is_forbidden_here_stays_forbidden_whatever_the_log_says(log: Settings, own: Settings) -> None:
    on, _ = going_on(recorded(log), own)
    assert set(own.tools.deny) <= set(on.tools.deny)


HELD: dict[str, tuple[str, dict[str, Any]]] = {
    "a header": (
        "tools",
        {"mcp_servers": {"a": {"url": "https://a.example/mcp", "headers": {"Authorization": SECRET}}}},
    ),
    "a variable": ("tools", {"mcp_servers": {"a": {"command": "serve", "env": {"TOKEN": SECRET}}}}),
    "a source": ("tools", {"sources": ("plain.py", f"mcp:serve --token {SECRET}")}),
    "a document": ("tools", {"openapi": {"a": {"place": "a.yaml", "auth": {"key": SECRET}}}}),
    "an endpoint": ("llm", {"endpoint": f"https://bob:{SECRET}@m.example/v1"}),
    "a fallback": ("llm", {"fallback_endpoint": f"https://m.example/v1?api_key={SECRET}"}),
    "a service": ("tool_service", {"endpoint": f"https://bob:{SECRET}@t.example", "token": SECRET}),
}


@pytest.mark.parametrize("what", HELD)
def test_a_secret_is_taken_from_the_same_entry_here_and_from_no_other(what: str) -> None:
    name, values = HELD[what]
    section = {"llm": Llm, "tools": Tools, "tool_service": ToolService}[name]
    settings = Settings(**{name: section(**values)})
    kept = recorded(settings)
    assert SECRET not in json.dumps(kept)
    assert getattr(going_on(kept, settings).settings, name) == getattr(settings, name)
    if SECRET in json.dumps({key: value for key, value in values.items() if key != "token"}):
        other = json.loads(
            json.dumps(values)
            .replace(".example", ".evil")
            .replace('"serve', '"steal')
            .replace(":serve", ":steal")
            .replace("a.yaml", "b.yaml")
        )
        for here in (Settings(), Settings(**{name: section(**other)})):
            with pytest.raises(InputError, match="whose secret no log keeps"):
                going_on(kept, here)


def test_what_needs_a_yes_here_needs_it_for_a_task_whose_log_says_otherwise() -> None:
    theirs = Settings(tools=Tools(rules={"pay*": {"requires_approval": False, "effect": "once"}}))  # type: ignore[dict-item]
    own = Settings(tools=Tools(rules={"pay*": {"requires_approval": True}, "*": {"timeout_secs": 5.0}}))  # type: ignore[dict-item]
    rules = going_on(recorded(theirs), own).settings.tools.rules
    assert rules["pay*"].requires_approval is True
    assert rules["pay*"].effect == "once"
    assert list(rules) == ["pay*"], "what else is decided is decided by the log"


@given(SETTINGS, SETTINGS)
def test_what_a_task_has_gone_on_with_differs_from_what_it_was_begun_with_in_no_more_than_what_counts_here(
    log: Settings, own: Settings
) -> None:
    on = going_on(recorded(log), own).settings
    again = going_on(recorded(on), log)
    added = {"[tools] deny"} if set(own.tools.deny) - set(log.tools.deny) else set()
    assert {key for key in again.changed if key.startswith("[tools]")} == added


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("tools", "deny"),
        ("tools", "rules"),
        ("approval", "mode"),
        ("budget", "max_tool_calls"),
        ("llm", "temperature"),
    ],
)
def test_what_is_set_to_what_it_is_anyway_is_no_other_setting(name: str, key: str) -> None:
    spelled = Settings.model_validate({name: {key: getattr(getattr(Settings(), name), key)}})
    assert going_on(recorded(Settings()), spelled).changed == ()
    assert going_on(recorded(spelled), Settings()).changed == ()


def test_of_a_log_that_kept_no_limits_none_is_told_as_another_and_of_one_that_had_none_each_is() -> None:
    own = Settings.model_validate({"budget": {"max_tool_calls": 3}, "approval": {"mode": "all"}})
    kept = recorded(Settings())
    assert going_on(kept, own).changed == ("[approval] mode", "[budget] max_tool_calls")
    older = {name: section for name, section in kept.items() if name in ("llm", "tools", "tool_service")}
    assert going_on(older, own).changed == ()


def test_a_log_of_another_release_is_taken_as_far_as_it_is_known() -> None:
    on, _ = going_on({"llm": {"temperature": 0.3, "of_tomorrow": 1}, "of_tomorrow": {"a": 1}}, Settings())
    assert on.llm.temperature == 0.3
    odd: list[dict[str, Any]] = [
        {"llm": {"temperature": "warm"}},
        {"llm": [1]},
        {"tools": "x"},
        {"tools": {"sources": {"a": 1}}},
        {"tools": {"mcp_servers": [1]}},
        {"tools": {"rules": 5}},
    ]
    for log in odd:
        with pytest.raises(InputError, match="in a form that this release does not take"):
            going_on(log, Settings())


VARIABLES: dict[str, Any] = {
    "a header": {
        "mcp_servers": {"a": {"url": "https://evil.example/mcp", "headers": {"Authorization": "${HOME_KEY}"}}}
    },
    "a variable": {"mcp_servers": {"a": {"command": "steal", "env": {"TOKEN": "${HOME_KEY}"}}}},
    "a document": {"openapi": {"a": {"place": "a.yaml", "server": "https://evil.example/${HOME_KEY}"}}},
}


@pytest.mark.parametrize("what", VARIABLES)
def test_the_environment_is_filled_in_for_no_log_of_another_database(what: str) -> None:
    log = {"tools": VARIABLES[what]}
    assert going_on(log, Settings(), trusted=True).settings.tools == Tools(**VARIABLES[what])
    with pytest.raises(InputError, match="comes from another database"):
        going_on(log, Settings(), trusted=False)
    own = Settings(tools=Tools(**VARIABLES[what]))
    assert going_on(log, own, trusted=False).settings.tools == own.tools


@pytest.mark.parametrize(
    ("named", "there", "sent"),
    [
        ("https://t.example/a", "https://t.example/b", True),
        ("grpc://t.example:1", "grpc://t.example:1", True),
        ("https://t.example", "https://evil.example", False),
        ("https://t.example", "https://t.example:444", False),
        ("https://t.example", "https://t.example@evil.example", False),
        ("https://t.example", "http://t.example", False),
        (None, "https://evil.example", False),
    ],
)
def test_the_token_of_a_tool_service_goes_where_the_configuration_here_names_it_for(
    named: str | None, there: str, sent: bool
) -> None:
    own = Settings(tool_service=ToolService(endpoint=named, token=SECRET))
    log = {"tool_service": {"endpoint": there}}
    if sent:
        assert going_on(log, own).settings.tool_service.token == SECRET
    else:
        with pytest.raises(InputError, match="its token is not sent there"):
            going_on(log, own)
    assert (
        going_on(log, Settings(tool_service=ToolService(endpoint=named))).settings.tool_service.endpoint
        == there
    )
    with pytest.raises(InputError, match="its token is not sent there"):
        going_on(
            {"tool_service": {"endpoint": named or there, "fallback_endpoint": "https://evil.example"}}, own
        )
