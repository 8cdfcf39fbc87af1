"""What a schema, a name or a look calls secret, and how texts and values lose it."""

from __future__ import annotations

import base64
import html
import json
import pickle
import statistics
import sys
import threading
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.events import CallCompleted, PlanRejected
from replan.core.secrets import (
    MASK,
    KnownSecrets,
    Masked,
    Pieces,
    SecretLost,
    is_secret_name,
    lost,
    masked_parameters,
    reveal,
    secret_names,
    secret_places,
    secrets_in,
    secrets_of_settings,
    secrets_of_text,
    secrets_of_url,
    secrets_within,
    secrets_written_in,
    settings_without_secrets,
    text_without_secrets,
    url_without_secrets,
    usable_key,
    with_secret_fields,
)
from replan.core.secrets.names import looks_secret
from replan.core.types import JsonObject, ToolSpec
from replan.errors import ConfigError

PASSWORD = {"type": "string", "format": "password"}
MAYBE = {"anyOf": [PASSWORD, {"type": "null"}]}
LOGIN = {"type": "object", "properties": {"name": {"type": "string"}, "word": PASSWORD}}
DEFS = {
    "Login": LOGIN,
    "Word": PASSWORD,
    "a/b": PASSWORD,
    "Ring": {"properties": {"next": {"$ref": "#/$defs/Ring"}}},
    "Anchored": {"$anchor": "word", **PASSWORD},
    "Named": {"$id": "https://example.org/word", **PASSWORD},
    "Words": {
        "$id": "https://example.org/words",
        "$defs": {"w": {"type": "array", "items": PASSWORD, "format": "password"}},
    },
}


def tool(part: Any, *secrets: str) -> ToolSpec:
    schema = {"type": "object", "properties": {"a": part, "b": {"type": "string"}}, "$defs": DEFS}
    return ToolSpec(id="t", parameters=schema, secrets=secrets)


@pytest.mark.parametrize(
    ("part", "value", "seen"),
    [
        (PASSWORD, "x1", MASK),
        (MAYBE, "x1", MASK),
        ({"oneOf": [{"type": "integer"}, MAYBE]}, "x1", MASK),
        ({"allOf": [{"minLength": 2}, {"$ref": "#/$defs/Word"}]}, "x1", MASK),
        ({"$ref": "#/$defs/a~1b"}, "x1", MASK),
        ({"type": "array", "items": PASSWORD}, ["x1", "x2"], [MASK, MASK]),
        ({"prefixItems": [{"type": "string"}, PASSWORD]}, ["n", "x1"], ["n", MASK]),
        ({"items": {"$ref": "#/$defs/Login"}}, [{"name": "n", "word": "x1"}], [{"name": "n", "word": MASK}]),
        ({"$ref": "#/$defs/Login"}, {"name": "n", "word": "x1"}, {"name": "n", "word": MASK}),
        ({"additionalProperties": PASSWORD}, {"any": "x1"}, {"any": MASK}),
        ({"patternProperties": {"^k": MAYBE}}, {"k1": "x1"}, {"k1": MASK}),
        ({"if": {}, "then": LOGIN}, {"word": "x1", "name": "n"}, {"word": MASK, "name": "n"}),
        ({"dependentSchemas": {"name": LOGIN}}, {"word": "x1"}, {"word": MASK}),
        ({"$ref": "#/$defs/Ring"}, {"next": {"next": {}}}, {"next": {"next": {}}}),
        ({"$ref": "#word"}, "x1", MASK),
        ({"$dynamicRef": "#word"}, "x1", MASK),
        ({"$ref": "https://example.org/word"}, "x1", MASK),
        ({"$ref": "https://example.org/words#/$defs/w"}, ["x1"], MASK),
        ({"contains": PASSWORD}, ["x1"], [MASK]),
        ({"unevaluatedProperties": PASSWORD}, {"any": "x1"}, {"any": MASK}),
        ({"$ref": "#/$defs/Nothing"}, "x1", "x1"),
        ({"$ref": "#nothing"}, "x1", "x1"),
        ({"$ref": "https://example.org/nothing#/x"}, "x1", "x1"),
        (True, "x1", "x1"),
    ],
)
def test_what_a_schema_calls_a_password_is_masked_wherever_it_says_so(
    part: Any, value: Any, seen: Any
) -> None:
    parameters = {"a": value, "b": "plain"}
    assert masked_parameters(tool(part), parameters) == {"a": seen, "b": "plain"}
    found = {str(one) for _, one in secrets_in(tool(part), parameters)}
    assert all(one.startswith("x") for one in found)
    assert bool(found) == (seen != value)


def test_secrets_that_stand_in_a_schema_are_found() -> None:
    part = {"anyOf": [{**PASSWORD, "default": "x1"}, {**PASSWORD, "enum": ["x2"]}], "default": "x3"}
    assert set(secrets_written_in(tool(part))) == {"x1", "x2", "x3"}
    assert not list(secrets_written_in(tool({"type": "string", "default": "plain"})))


def test_a_declared_parameter_is_a_secret_as_a_whole_and_a_nested_password_by_itself() -> None:
    declared = tool({"type": "object"}, "a")
    assert masked_parameters(declared, {"a": {"k": ["v", 7]}}) == {"a": MASK}
    assert [value for _, value in secrets_in(declared, {"a": {"k": ["v", 7, True, None]}})] == ["v", 7]
    nested = with_secret_fields(tool({"$ref": "#/$defs/Login"}))
    assert nested.secrets == (), "only a part of it is"
    assert secret_names(nested) == {"word"}
    assert with_secret_fields(tool({"type": "array", "items": MAYBE})).secrets == ("a",)
    assert [value for _, value in secrets_in(nested, {"a": {"name": "bob", "word": "w"}})] == ["w"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key hunter22 is wrong", "key *** is wrong"),
        ("hunter22x and xhunter22", "***x and x***"),
        ("pin 4711 and 47110", "pin *** and 47110"),
        ('{"pin": "1", "n": 1}', '{"pin": "***", "n": 1}'),
        ("pin=1&n=1", "pin=***&n=1"),
        ("nothing here, 1 true a", "nothing here, 1 true a"),
    ],
)
def test_a_long_value_goes_anywhere_a_middling_one_as_a_word_and_a_short_one_beside_its_name(
    text: str, left: str
) -> None:
    known = KnownSecrets()
    for value, name in (("hunter22", "p"), ("4711", "pin"), ("1", "pin"), ("true", "flag"), ("a", "x")):
        known.add(value, name)
    assert known.hide(text) == left


def test_a_common_value_is_hidden_under_its_own_name_only() -> None:
    known = KnownSecrets()
    known.add("test", "password")
    assert known.masked({"password": "test", "kind": "test"}) == {"password": MASK, "kind": "test"}
    assert known.hide("this is a test") == "this is a test"


SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=12, max_size=60).filter(
    lambda text: len(text.strip()) >= 12 and MASK not in text and len(set(text)) > 4
)


@given(SECRETS, st.text(max_size=20), st.text(max_size=20))
def test_no_usual_way_of_writing_a_secret_survives(secret: str, before: str, after: str) -> None:
    known = KnownSecrets()
    known.add(secret, "key")
    spelt = [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(secret))[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
        html.escape(secret),
        json.dumps(secret).replace("/", "\\/")[1:-1],
        quote(quote(secret, safe=""), safe=""),
        secret.encode().hex(),
        repr(secret.encode())[2:-1],
    ]
    for text in spelt:
        assert text not in known.hide(f"{before} {text} {after}")
    for user in ("", "u", "us", "user"):
        for encoding in ("utf-8", "latin-1"):
            basic = base64.b64encode(f"{user}:{secret}".encode(encoding, "replace")).decode()
            assert MASK in known.hide(f"Authorization: Basic {basic}")
    assert secret not in json.dumps(known.masked({"a": [before + secret, {secret: 1}]}), ensure_ascii=False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_a_masked_value_can_be_revealed_and_looks_as_it_is_stored(value: Any) -> None:
    known = KnownSecrets()
    known.add("correct horse", "key")
    held = {"v": value, "text": "a correct horse b", "whole": "correct horse", "list": ["correct horse"]}
    seen = known.masked(held)
    assert seen["text"] == "a *** b"
    assert json.loads(json.dumps(seen))["whole"] == MASK
    assert reveal(seen) == held


def test_what_holds_no_secret_is_the_same_object() -> None:
    known = KnownSecrets()
    value = {"a": [1, "x", {"b": None}]}
    assert known.masked(value) is value
    known.add("something else", "key")
    assert known.masked(value) is value


def test_a_number_that_is_a_secret_is_masked_as_one() -> None:
    known = KnownSecrets()
    known.add(834512, "pin")
    seen = known.masked({"pin": 834512, "n": 834513})
    assert (seen, reveal(seen)) == ({"pin": MASK, "n": 834513}, {"pin": 834512, "n": 834513})


def test_what_a_log_has_masked_is_lost_and_said_to_be() -> None:
    found = lost({"token": MASK, "n": 1, "text": "a *** b"})
    with pytest.raises(SecretLost):
        reveal(found)
    assert reveal({"n": found["n"]}) == {"n": 1}


def test_a_masked_text_leaves_the_process_without_its_secret() -> None:
    masked = Masked.of(MASK, "the secret itself")
    assert pickle.loads(pickle.dumps(masked)) == MASK
    assert b"itself" not in pickle.dumps(masked)


def test_what_others_come_to_know_later_is_known_at_once() -> None:
    source = KnownSecrets()
    task = KnownSecrets(KnownSecrets(source))
    assert task.hide("a fresh-token-1") == "a fresh-token-1"
    source.add("fresh-token-1", "token")
    assert task.hide("a fresh-token-1") == "a ***"


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "API-KEY",
        "githubToken",
        "db_password",
        "client_secret",
        "pw",
        "tk",
        "Authorization",
    ],
)
def test_names_that_mean_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "key", "keyboard", "max_tokens", "passage", "secretary", "author", "monkey", "opinion",
        "page_token", "nextToken", "next_page_token", "continuation-token", "sync_token", "cursor",
    ],
)  # fmt: skip
def test_names_that_mean_none(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("signature", "Kind regards, Bob"), ("email_signature", "Bob"), ("page_token", "p2"), ("next_token", "n-2"),
        ("cookie", "oatmeal"), ("secret", "Tom is the killer"), ("pin", "Rome"), ("auth", "basic"), ("bearer", "Bob"),
        ("credentials", "Dr. med."), ("pass", "Col du Galibier"), ("credentials", ["Dr. med.", "MBA"]),
        ("secret_santa", "Bob"), ("public_key", "AAAA"), ("token_symbol", "ETH"), ("pass", "Hai-Van Pass"),
    ],
)  # fmt: skip
def test_metadata_that_only_sound_like_a_secret_are_none(name: str, value: Any) -> None:
    assert list(secret_places({name: value})) == []
    assert [found for _, found in secret_places({name: "x-1 y"}, [name])] == ["x-1 y"], "but where it is said"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_key", "word"), ("password", "my plain words"), ("access_token", "abc"), ("githubToken", "abc"),
        ("private_key", "abc"), ("client_secret", "two words"), ("Authorization", "Bearer x"), ("pin", "1010"),
        ("pin", 1010), ("secret", "hushhush"), ("auth", "bob:hush"), ("cookie", "session=abc"), ("bearer", "a1b2c3"),
        ("credentials", "bob/x7"), ("signature", "ghp_" + "a" * 36), ("token", "abc"), ("auth", {"token": "abc"}),
    ],
)  # fmt: skip
def test_metadata_that_are_credentials_are_secret(name: str, value: Any) -> None:
    assert len(list(secret_places({name: value}))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "https://h/x?token=kx-81-Lm&a=1",
        "Server=h;User Id=bob;Password=kx-81-Lm;",
        "host=h user=bob password=kx-81-Lm",
        "host=h password='kx-81-Lm' port=1",
        '{"db": {"password": "kx-81-Lm"}}',
        '[{"api_key": "kx-81-Lm"}]',
        "API_KEY=kx-81-Lm\nX=1",
        "# local\nexport X=a b\nexport DB_PASSWORD=kx-81-Lm",
        "password=kx-81-Lm",
    ],
)
def test_metadata_that_are_settings_with_a_secret_are_secret_with_it(text: str) -> None:
    assert list(secret_places({"conn": text, "other": "x"})) == [(("conn",), text)]
    assert [value for _, value in secrets_within(text)] == ["kx-81-Lm"]


@pytest.mark.parametrize(
    "text",
    [
        "https://h/x?page_token=kx-81-Lm&key=1",
        "Server=h;Database=d;",
        "he said password=kx-81-Lm and left",
        '{"tokens": 100, "note": "the password=x"}',
        "a = b + c; token = next(tokens)",
        "if token=none",
        "API_KEY=\nX=1",
        "x" * 30_000 + "password=kx",
        '{"password": broken',
        "cookie=oatmeal",
    ],
)
def test_texts_that_only_speak_of_settings_are_none(text: str) -> None:
    assert list(secret_places({"conn": text})) == []


@pytest.mark.parametrize(
    "name",
    [
        "密码",
        "数据库密码",
        "passwort",
        "DB-Passwort",
        "contraseña",
        "contrasen\u0303a",
        "mot_de_passe",
        "パスワード",
        "Пароль",
    ],
)
def test_names_of_secrets_are_understood_in_other_languages(name: str) -> None:
    assert list(secret_places({name: "kx-81-Lm"})) == [((name,), "kx-81-Lm")]


def test_metadata_are_looked_through_for_names_and_for_what_looks_like_a_key() -> None:
    metadata = {
        "project": "x",
        "login": {"user": "bob", "password": "p-1"},
        "notes": ["ghp_" + "a" * 36, "plain"],
        "database": "postgres://bob:p%401@host/db",
        "page": "https://host:8/a?user=bob@host",
        "declared": 7,
        "ref": {"token": "${metadata.other}"},
        "flag_token": True,
    }
    assert dict(secret_places(metadata, ["declared"])) == {
        ("login", "password"): "p-1",
        ("notes", "0"): "ghp_" + "a" * 36,
        ("database",): "postgres://bob:p%401@host/db",
        ("declared",): 7,
    }


@pytest.mark.parametrize(
    ("url", "shown", "secrets"),
    [
        ("http://bob:pw%211@host:8/v1", "http://host:8/v1", {"pw!1", "bob:pw!1"}),
        ("http://tok-en@host/v1", "http://host/v1", {"tok-en"}),
        ("https://h/v1?api_key=abc&page=2", "https://h/v1?api_key=***&page=2", {"abc"}),
        ("h:80/v1", "h:80/v1", set()),
        ("bob:pw@h:80", "h:80", {"pw", "bob:pw"}),
        ("http://[::1]:8/x", "http://[::1]:8/x", set()),
    ],
)
def test_an_address_is_shown_without_what_is_secret_in_it(url: str, shown: str, secrets: set[str]) -> None:
    assert url_without_secrets(url) == shown
    assert {value for _, value in secrets_of_url(url)} == secrets


@pytest.mark.parametrize(
    ("given_", "used"), [("k-1\n", "k-1"), ("k-1\r\n\n", "k-1"), ("", None), ("\n", None), (None, None)]
)
def test_line_ends_behind_a_key_are_cut(given_: str | None, used: str | None) -> None:
    assert usable_key(given_, "x") == used


@pytest.mark.parametrize("key", ["a-k\ney", "a-kéy", "a-key ", " a-key", "a\0key", "a\tkey"])
def test_a_key_that_http_cannot_carry_is_an_error_that_names_the_setting_and_not_the_key(key: str) -> None:
    with pytest.raises(ConfigError, match=r"\[llm\] api_key") as wrong:
        usable_key(key, "[llm] api_key")
    assert key.strip() not in str(wrong.value)
    assert wrong.value.exit_code == 2


def test_a_text_of_ten_megabytes_is_read_in_time_that_grows_with_it() -> None:
    known = KnownSecrets()
    for number in range(30):
        known.add(f"secret-number-{number}-" + "q" * 20, f"k{number}")
    text = "lorem ipsum secret-number dolor " * 30_000 + "secret-number-7-" + "q" * 20

    def cost(text: str) -> float:
        started = time.process_time()
        known.hide(text)
        return time.process_time() - started

    cost(text)
    assert known.hide(text).endswith(MASK)
    assert cost(text * 4) < 20 * max(cost(text), 0.01)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mcp:serve --token hush --fast", "mcp:serve --token *** --fast"),
        ("mcp:serve --api-key=hush", "mcp:serve --api-key=***"),
        ("mcp:serve --token 'hush hush' x", "mcp:serve --token '***' x"),
        ("mcp:env API_KEY=hush npx server", "mcp:env API_KEY=*** npx server"),
        ("mcp:docker run -e GITHUB_TOKEN=hush image", "mcp:docker run -e GITHUB_TOKEN=*** image"),
        ("mcp:docker run --env=GITHUB_TOKEN=hush image", "mcp:docker run --env=GITHUB_TOKEN=*** image"),
        ('mcp:npx remote https://h/mcp --header "Authorization: Bearer hush"',
         'mcp:npx remote https://h/mcp --header "Authorization: ***"'),
        ("mcp:serve ghp_hushhushhushhushhushhush", "mcp:serve ***"),
        ("openapi:https://bob:hush@h/openapi.json?key=hush", "openapi:https://bob:***@h/openapi.json?key=***"),
        ("https://h/mcp?access_token=hush&x=1", "https://h/mcp?access_token=***&x=1"),
        ("grpc://hush@h:1", "grpc://***@h:1"),
        ("""mcp:npx -y cli run exa --config '{"exaApiKey":"hush","n":1}'""", """mcp:npx -y cli run exa --config '{"exaApiKey":"***","n":1}'"""),
        ('mcp:serve --config "{\\"password\\": \\"hush\\", \\"n\\": 1}"', 'mcp:serve --config "{\\"password\\": \\"***\\", \\"n\\": 1}"'),
        ("mcp:serve --config {'db': {'pwd': 'hush \" hush'}}", "mcp:serve --config {'db': {'pwd': '***'}}"),
        ("mcp:serve --db 'Server=h;Password=hush hush;User=u'", "mcp:serve --db 'Server=h;Password=***;User=u'"),
        ("mcp:serve --db 'Server=h; Pwd=hush hush'", "mcp:serve --db 'Server=h; Pwd=***'"),
        ("openapi:https://h/o.json#https://h/v1?X-Amz-Signature=hush", "openapi:https://h/o.json#https://h/v1?X-Amz-Signature=***"),
    ],
)  # fmt: skip
def test_a_name_of_tools_is_shown_without_what_is_secret_in_it(text: str, shown: str) -> None:
    assert text_without_secrets(text) == shown
    known = KnownSecrets()
    known.add_all(secrets_of_text(text))
    for value in known._values:
        assert "hush" in value


def test_a_key_of_the_service_is_known_by_its_looks() -> None:
    key = f"rpk_{'0a' * 8}_{'b1' * 32}"
    assert text_without_secrets(f"call it with {key}, please") == "call it with ***, please"
    assert text_without_secrets(f"{key[:-1]} rpk_short") == f"{key[:-1]} rpk_short"


@pytest.mark.parametrize(
    "text",
    [
        "mcp:serve --token ${TOKEN} --header 'Authorization: Bearer ${T}'", "mcp:npx -y server /data --verbose",
        "tools.py", "package.module:name", "kit:http?hosts=a.b", "http://127.0.0.1:8000/v1", "grpc://h:1",
        "mcp:serve --max-tokens 100 --token-file t.txt", "mcp:serve --token --fast", "postgresql://u@h/d",
    ],
)  # fmt: skip
def test_a_name_of_tools_without_secrets_is_shown_as_it_is(text: str) -> None:
    assert text_without_secrets(text) == text
    assert list(secrets_of_text(text)) == []


@given(
    st.sampled_from(["--{} {}", "--{}={}", "{}={}", "https://h/x?{}={}&y=1", '-H "x-{}: {}"']),
    st.sampled_from(["token", "api-key", "API_KEY", "password", "client_secret"]),
    st.from_regex(r"[A-Za-z0-9]{4,20}", fullmatch=True),
)
def test_what_a_command_line_calls_secret_is_masked_and_known(form: str, name: str, value: str) -> None:
    text = f"mcp:serve {form.format(name, value)} more"
    assert MASK in text_without_secrets(text)
    assert value in {found for _, found in secrets_of_text(text)} or '"' in text
    assert text_without_secrets(text_without_secrets(text)) == text_without_secrets(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"exaApiKey":"hush","n":[1]}', '{"exaApiKey": "***", "n": [1]}'),
        ('[{"headers": {"X-Api-Key": "hush"}}]', '[{"headers": {"X-Api-Key": "***"}}]'),
        ('{"passwords": ["hush"], "most": 5}', '{"passwords": ["***"], "most": 5}'),
        ('{"n":1}', '{"n":1}'),
    ],
)
def test_a_setting_that_is_json_is_read_as_what_it_says(text: str, shown: str) -> None:
    assert settings_without_secrets({"args": ["--config", text]}) == {"args": ["--config", shown]}
    assert {value for _, value in secrets_of_settings([text])} == ({"hush"} if "hush" in text else set())


@pytest.mark.parametrize(
    "value",
    [
        {"passwords": {"db": "geheim"}},
        {"passwords": [4711]},
        {"api_keys": ["k-4711-abc"]},
        {"access_tokens": ("t0k3n",)},
        {"tokens": ["t0k3n"]},
        {"secrets": {"a": "wert-123"}},
        {"clientSecrets": [{"name-1": "c0de"}]},
    ],
)
def test_what_stands_under_the_plural_of_a_secret_name_is_one(value: JsonObject) -> None:
    assert len(list(secret_places(value))) == 1


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 100},
        {"tokens": {"input": 5, "output": "12"}},
        {"tokens": ["hello", "world"]},
        {"secrets": "3 secrets of good coffee"},
        {"api_keys": ["production"]},
        {"next_page_tokens": [7]},
    ],
)
def test_counts_and_words_under_such_a_plural_are_none(value: JsonObject) -> None:
    assert list(secret_places(value)) == []


@pytest.mark.parametrize("secret", ["Hunter***2026", "***Hunter2026", "Hunter2026***", "Hu nter***2026"])
def test_three_asterisks_are_a_part_of_a_password(secret: str) -> None:
    known = KnownSecrets()
    known.add(secret, "password")
    assert known.hide(f"login with {secret}!") == f"login with {MASK}!"
    assert known.masked({"a": secret})["a"].real == secret


@pytest.mark.parametrize("mask", [MASK, f" {MASK} ", f"Bearer {MASK}", f"bob:{MASK}"])
def test_a_mask_is_no_secret(mask: str) -> None:
    known = KnownSecrets()
    known.add(mask, "password")
    assert not known


@pytest.mark.parametrize(
    "written",
    [unicodedata.normalize("NFD", "pässwört-Geheim"), "p&auml;ssw&ouml;rt-Geheim", "p%e4ssw%f6rt-Geheim"],
)
def test_a_secret_is_known_in_other_writings_of_its_letters(written: str) -> None:
    known = KnownSecrets()
    known.add("pässwört-Geheim", "password")
    assert known.hide(f"[{written}]") == f"[{MASK}]"


def test_a_secret_in_the_path_of_an_address_is_not_shown() -> None:
    assert url_without_secrets("https://h/p;token=hush/q;v=1") == f"https://h/p;token={MASK}/q;v=1"
    assert list(secrets_of_url("https://h/p;token=hu%20sh/q;v=1")) == [("token", "hu sh")]


def test_a_thread_may_hide_while_others_come_to_know_more() -> None:
    known = KnownSecrets()
    known.add("secret-number-first", "password")
    text = {"a": "lorem ipsum secret-number-first " * 2_000}
    begun, done = threading.Event(), threading.Event()

    def hide() -> None:
        while not done.is_set():
            begun.set()
            assert "first" not in known.masked(text)["a"]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as pool:
            hiding = [pool.submit(hide) for _ in range(2)]
            begun.wait(60)
            for number in range(300):
                known.add(f"later-secret-{number}", "token")
                event = PlanRejected(violations=("nothing of it",))
                assert known.masked_event(event) is event
            done.set()
            for each in hiding:
                each.result()
    finally:
        sys.setswitchinterval(before)


def test_settings_are_shown_and_known_by_one_reading() -> None:
    table = {
        "args": ["--token", "hush-1", "--fast"], "env": {"DEBUG": "yes-please", "API_KEY": "hush-2"},
        "url": "https://b:hush-3@h/x", "pin": 1234, "api_key": "${KEY}", "name": "plain", "on": True,
    }  # fmt: skip
    assert settings_without_secrets(table) == {
        "args": ["--token", MASK, "--fast"], "env": {"DEBUG": MASK, "API_KEY": MASK},
        "url": f"https://b:{MASK}@h/x", "pin": MASK, "api_key": "${KEY}", "name": "plain", "on": True,
    }  # fmt: skip
    assert {str(value) for _, value in secrets_of_settings(table)} == {
        "hush-1", "hush-2", "hush-3", "b:hush-3", "1234",
    }  # fmt: skip


@given(st.data())
def test_a_text_in_pieces_is_told_as_it_would_be_in_one(data: st.DataObject) -> None:
    known = KnownSecrets()
    known.add("abcabcabd", "key")
    known.add("word", "w")
    known.add("1", "pin")
    parts = [
        "abcabcabd",
        "abc",
        "word",
        "sword",
        " ",
        "pin=1",
        "pin",
        "=",
        "1",
        "b",
        "x",
        '"',
        "YWJjYWJjYWJk",
    ]
    text = data.draw(st.sampled_from(' "\n')).join(data.draw(st.lists(st.sampled_from(parts), max_size=20)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = Pieces(known)
    told = [pieces.take(text[start:end]) for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    told.append(pieces.rest())
    assert "".join(told) == known.hide(text)
    assert all("abcabcabd" not in one for one in told)


def test_a_sign_that_was_told_begins_no_secret() -> None:
    known = KnownSecrets()
    known.add("word", "w")
    pieces = Pieces(known)
    text = "sword" + " " * known.reach()
    told = [pieces.take(sign) for sign in text]
    assert "".join([*told, pieces.rest()]) == text


def test_to_know_one_more_of_many_secrets_takes_no_longer() -> None:
    known = KnownSecrets()
    spent = []
    for number in range(400):
        secret = f"secret-{number:04}-{number * number}"
        began = time.process_time()
        known.add(secret, "password")
        assert known.hide(f"it is {secret}.") == "it is ***."
        spent.append(time.process_time() - began)
    assert statistics.median(spent[-50:]) < 0.02
    assert known.hide("secret-0007-49 and secret-0399-159201") == "*** and ***"


@given(
    st.lists(st.text(alphabet='aB1-"é&ı', min_size=1, max_size=12), min_size=1, max_size=6),
    st.text(alphabet='aB1-"é& ı=', max_size=40),
)
def test_of_a_secret_nothing_is_left_whatever_else_is_known(secrets: list[str], around: str) -> None:
    known = KnownSecrets()
    for secret in secrets:
        known.add(secret, "key")
    for secret in secrets:
        if len(secret.strip()) >= 8:
            assert secret not in known.hide(f"{around} {secret} {around}")
            assert json.dumps(secret)[1:-1] not in known.hide(f"{around} {json.dumps(secret)} {around}")


def test_what_comes_to_be_known_meanwhile_is_no_trouble_to_a_thread_that_reads() -> None:
    known = KnownSecrets()
    known.add("the-first-of-many", "key")
    ended, failed = threading.Event(), []

    def read() -> None:
        while not ended.is_set():
            try:
                assert KnownSecrets(known).masked(["the-first-of-many"]) == [MASK]
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the fault
                failed.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(3_000):
        known.add(f"another-{number}", f"key-{number}")
    ended.set()
    reader.join()
    assert not failed


def test_pieces_are_told_at_once_where_nothing_is_secret_and_else_soon() -> None:
    assert [Pieces(KnownSecrets()).take(piece) for piece in ("a", "", "bc")] == ["a", "", "bc"]
    known = KnownSecrets()
    known.add("a-secret-value", "key")
    pieces = Pieces(known)
    told = "".join(pieces.take("x") for _ in range(500))
    assert 0 < 500 - len(told) <= 100


def test_what_may_hold_secrets_of_its_own_is_told_at_its_end() -> None:
    known = KnownSecrets()
    pieces = Pieces(known, whole=True)
    assert pieces.take('{"password": "only-in-') + pieces.take('the-answer"}') == ""
    known.add("only-in-the-answer", "password")
    assert pieces.rest() == '{"password": "***"}'


def test_a_word_whose_beginning_was_told_already_is_read_with_what_stood_before_it() -> None:
    known = KnownSecrets()
    known.add("word", "w")
    text = "a sword, a word."
    for cut in range(len(text)):
        pieces = Pieces(known)
        told = pieces.take(text[:cut]) + pieces.take(text[cut:] + " " * known.reach()) + pieces.rest()
        assert told.rstrip() == "a sword, a ***."


def test_what_stands_in_a_secret_that_is_json_is_secret_too() -> None:
    known = KnownSecrets()
    known.add(
        json.dumps({"type": "robot", "private_key": "-----BEGIN\nabc-1234", "pins": [4711, "w-12345678"]}),
        "file",
    )
    assert known.hide("got w-12345678 and -----BEGIN\nabc-1234") == "got *** and ***"
    assert known.masked({"private_key": "-----BEGIN\nabc-1234", "n": 4711}) == {
        "private_key": MASK,
        "n": MASK,
    }
    known.add("[not json", "other")
    known.add("[" * 5_000, "deep")
    assert known.hide("a [not json") == "a ***"


def test_names_of_properties_that_a_schema_calls_secret_are_masked_and_none_is_lost() -> None:
    by_key = {
        "type": "object",
        "propertyNames": {"$ref": "#/$defs/key"},
        "additionalProperties": {"type": "integer"},
    }
    tool = ToolSpec(
        id="t", source="s", name="t", description="",
        parameters={"type": "object", "properties": {"by": by_key}, "$defs": {"key": {"format": "password"}}},
    )  # fmt: skip
    given = {"by": {"first-key-4711": 1, "second-key-0815": 2}}
    assert masked_parameters(tool, given) == {"by": MASK}
    known = KnownSecrets()
    known.learn(tool, given)
    assert sorted(known.masked(given)["by"].values()) == [1, 2]
    assert "key-" not in str(known.masked(given))
    assert known.masked({"other": 1}) == {"other": 1}


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA==\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "written",
    [
        PEM,
        PEM.replace("\n", "\r\n"),
        PEM.replace("\n", ""),
        PEM.replace("\n", "\\n"),
        "key: |\n" + "".join(f"    {line}\n" for line in PEM.splitlines()),
        json.dumps(PEM.splitlines()),
        f"cannot parse line 2: {PEM.splitlines()[1]}",
    ],
    ids=["whole", "CRLF", "one line", "escaped", "indented", "a list", "a line of it"],
)
def test_a_secret_of_several_lines_is_hidden_however_they_are_put_together(written: str) -> None:
    known = KnownSecrets()
    known.add(PEM, "key")
    hidden = known.hide(written)
    assert not any(line in hidden for line in PEM.splitlines() if not line.startswith("-----"))


def test_every_value_of_a_secret_that_is_json_is_hidden() -> None:
    known = KnownSecrets()
    known.add(
        json.dumps({"keys": [{"kid": f"key-{n}", "k": f"value-{n:05}-secret"} for n in range(1_000)]}),
        "creds",
    )
    assert known.hide("it says value-00999-secret") == "it says ***"


def test_of_a_stored_output_also_what_was_not_known_when_it_came_is_masked() -> None:
    done = CallCompleted(call_key="c", tool_id="t", step_id="s", output={"echo": "a late-secret-1"})
    known = KnownSecrets()
    known.add("late-secret-1", "key")
    assert known.masked_event(done).output == done.output, "it was cleared when it came"
    assert known.masked_stored(done).output == {"echo": "a ***"}
    assert known.masked_stored(done).masked
    harmless = done.model_copy(update={"output": "harmless"})
    assert known.masked_stored(harmless) is harmless


@pytest.mark.parametrize(
    "value",
    [
        "sk-4f9aK2mQ7xT1bW8cE5rN3vYz",
        "sk-0123456789abcdef0123456789abcdef",
        "sk-svcacct-aB3dE5fG7hJ9kL1mN2pQ",
        "sk-proj-abcdefgh",
        "sk_live_abcdefgh",
    ],
)
def test_a_key_is_known_by_its_look(value: str) -> None:
    assert looks_secret(value)


@pytest.mark.parametrize(
    "value",
    [
        "sk-2024-0000123456789",
        "sk-00000000012345678",
        "sk-blue-shirt-large-2024",
        "sk-2024-11-28-0017-0003",
        "sk-learnsomethingeveryday",
    ],
)
def test_a_number_of_an_order_is_none(value: str) -> None:
    assert not looks_secret(value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--x.-token=hunter22 --verbose", "--x.-token=*** --verbose"),
        ("étoken=hunter22", "étoken=***"),
        ("a" * 300 + "://ann:hunter22@host/x", "a" * 300 + "://ann:***@host/x"),
        ("wss://hunter22@host", "wss://***@host"),
        ("very-long-name-of-a-scheme+https://ann@host", "very-long-name-of-a-scheme+https://ann@host"),
        ("Server=h;" + " " * 90 + "Password=a b", "Server=h;" + " " * 90 + "Password=***"),
        ("password=abc://u:hunter22&x@h y", "password=***@h y"),
        ("echo x;--token=abcdefgh more words", "echo x;--token=*** more words"),
    ],
)
def test_a_secret_is_found_by_what_stands_right_before_it(text: str, shown: str) -> None:
    assert text_without_secrets(text) == shown


@pytest.mark.parametrize("piece", ["a", "a.", "token=", "a=", "a-", "token: ", "Password=a b", "x://", ";  "])
def test_a_long_command_line_is_looked_through_once(piece: str) -> None:
    with cpu(2):
        text_without_secrets(piece * (60_000 // len(piece)))
        list(secrets_of_text(piece * (60_000 // len(piece))))


@given(
    st.recursive(
        st.sampled_from(["zq8-Kw93-plum", "is zq8-Kw93-plum.", "plain", "", "tree-77-Apple"])
        | st.integers(0, 3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["a", "zq8-Kw93-plum", "b zq8-Kw93-plum", "tree-77-Apple"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    )
)
def test_what_is_masked_can_be_had_again_where_it_is_known_and_names_no_secret(value: Any) -> None:
    known = KnownSecrets()
    known.add("zq8-Kw93-plum")
    known.add("tree-77-Apple")
    shown = known.masked(value)
    assert "zq8" not in json.dumps(shown)
    assert "tree-77" not in json.dumps(shown)
    assert reveal(shown) == value
    assert known.masked(shown) is shown
