"""`[webhooks.endpoints.NAME]`: what it takes, what is wrong with it, and that nothing of its secrets is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replan.config import as_json, as_toml, load_settings
from replan.config.load import Loaded
from replan.errors import ConfigError

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
GOOD = f'url = "https://example.com/hooks"\nsecret = "{SECRET}"\n'


def loaded(tmp_path: Path, text: str, name: str = "ops", **env: str) -> Loaded:
    file = tmp_path / "config.toml"
    file.write_text(f"[webhooks.endpoints.{name}]\n{text}", "utf-8")
    return load_settings(file, env=env)


def test_an_endpoint_has_a_name_and_sensible_defaults(tmp_path: Path) -> None:
    endpoint = loaded(tmp_path, GOOD).settings.webhooks.endpoints["ops"]
    assert (endpoint.events, endpoint.tenants, endpoint.allow_private) == (("waiting", "ended"), (), False)
    assert SECRET not in repr(endpoint)
    assert load_settings(tmp_path / "config.toml", env={}).settings == loaded(tmp_path, GOOD).settings


def test_the_secret_may_come_from_the_environment_alone(tmp_path: Path) -> None:
    env = {"APP_WEBHOOKS_ENDPOINTS": json.dumps({"ops": {"secret": SECRET}})}
    text = 'url = "https://example.com/hooks"\nevents = ["ended"]\n'
    endpoint = loaded(tmp_path, text, **env).settings.webhooks.endpoints["ops"]
    assert (endpoint.secret, endpoint.events) == (SECRET, ("ended",))


def test_nothing_secret_is_shown(tmp_path: Path) -> None:
    found = loaded(tmp_path, f'{GOOD}previous_secret = "{SECRET[:-4]}AAA="\n')
    for shown in (as_toml(found), json.dumps(as_json(found))):
        assert "AAECAwQ" not in shown
        assert "waiting" in shown


WRONG = [
    pytest.param(GOOD + 'event = ["ended"]\n', 'unknown key "event"; did you mean "events"?', id="key"),
    pytest.param(GOOD + 'events = ["begun"]\n', """events takes a list of some of "waiting", "ended"; found the text "begun\"""", id="event"),
    pytest.param(GOOD + "events = []\n", """events takes a list of some of "waiting", "ended"; found a list of 0""", id="no events"),
    pytest.param('url = "https://example.com"\nsecret = "hunter2"\n', "secret: a secret is whsec_ and the Base64 of 24 to 64", id="secret"),
    pytest.param('url = "https://example.com"\nsecret = 170605\n', "secret takes a text that is not empty; found a number", id="kind"),
    pytest.param(f'url = "ftp://example.com/hunter2"\nsecret = "{SECRET}"\n', "url: this is no address that can be called", id="scheme"),
    pytest.param(f'url = "https://a:hunter2@example.com"\nsecret = "{SECRET}"\n', "url: this is no address", id="password"),
    pytest.param('url = "https://example.com"\n', "secret is missing", id="missing"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "part"), WRONG)
def test_what_is_wrong_is_told_with_its_place_and_no_secret(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(ConfigError) as told:
        loaded(tmp_path, text)
    assert part in str(told.value)
    assert "webhooks.endpoints" in str(told.value)
    assert "hunter2" not in str(told.value)
    assert "170605" not in str(told.value)


def test_a_name_is_one_that_a_cursor_can_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"OPS.*: a name has small letters, digits, - and _, at most 40"):
        loaded(tmp_path, GOOD, name="OPS")
