"""Where a secret of the metadata may go: what a plan does with it elsewhere is found whatever it is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.plan.receivers import secret_metadata, strays
from replan.core.references.refs import Reference, listed
from replan.core.references.resolve import resolve
from replan.core.types import ToolSpec
from replan.errors import UnresolvedReference

TEXT = {"type": "string"}
PASSWORD = {"type": "string", "format": "password"}
KEY = "Zq7-hunter-TopSecret"
METADATA = {
    "api_key": KEY,
    "mine": "a-word-of-mine",
    "city": "Oslo",
    "pins": ["p-1111-x", "p-2222-x"],
    "account": {"user": "bob", "password": "pw-of-bob", "n": 3},
}
GIVEN = ("mine", "pins")


def tool(secrets: tuple[str, ...] = (), **properties: Any) -> ToolSpec:
    return ToolSpec(id="t", parameters={"type": "object", "properties": properties}, secrets=secrets)


def found(spec: ToolSpec, parameters: dict[str, Any], for_each: str | None = None, **more: Any) -> list[str]:
    metadata = secret_metadata(METADATA, GIVEN)
    assert metadata is not None
    return strays(spec, parameters, for_each, metadata, **more)


PLAIN = tool(text={}, to=TEXT)


@pytest.mark.parametrize(
    ("value", "for_each"),
    [
        ("${metadata.api_key}", None),
        ("{{metadata.mine}}", None),
        ("the key is ${metadata.api_key}!", None),
        ("${values(metadata)}", None),
        ("${to_string(metadata)}", None),
        ("${metadata | @}", None),
        ("all of ${metadata.account}", None),
        ("${metadata.account}", None),
        ("${metadata.pins[0]}", None),
        ("${reverse(metadata.api_key)}", None),
        ("${metadata.[city, api_key]}", None),
        ("${starts_with(metadata.api_key, 'Z')}", None),
        ("${length(metadata.api_key)}", None),
        ({"a": ["x", {"b": "${metadata.mine}"}]}, None),
        ({"${metadata.api_key}": 1}, None),
        ({"api_key": "${metadata.api_key}"}, None),
        ("${item}", "${metadata.pins}"),
        ("${item.x}", '[{"x": "${metadata.api_key}"}]'),
        ("${item}", '["harmless", "so it is: ${metadata.mine}"]'),
        ("<${item}>", '["${metadata.mine}"]'),
        ("${item}", '[{"${metadata.mine}": 1}]'),
        ("${item}", "${values(metadata)}"),
    ],
)
def test_a_secret_in_a_parameter_that_is_not_declared_is_found(value: Any, for_each: str | None) -> None:
    texts = found(PLAIN, {"text": value}, for_each)
    assert texts
    assert all("is not declared as secret" in text for text in texts)
    assert all('[tools.rules."t"] secrets = ["text"]' in text for text in texts), "and what would be right"
    assert not any(KEY in text or "word-of-mine" in text for text in texts)
    assert found(tool(("text",), text={}), {"text": value}, for_each) == [], "declared by the tool"
    if isinstance(value, str):
        assert found(tool(text=PASSWORD), {"text": value}, for_each) == [], "declared by its schema"
        assert found(tool(authToken=TEXT), {"authToken": value}, for_each) == [], "declared by its name"


@pytest.mark.parametrize(
    ("value", "for_each"),
    [
        ("${metadata}", None),
        ("all: ${metadata}", None),
        ("${metadata.city}", None),
        ("${metadata.account.user}", None),
        ("${keys(metadata)}", None),
        ("${metadata.[city, account.n]}", None),
        ("${length(metadata.pins)}", None),
        ("$${metadata.api_key}", None),
        ("${s.output}", None),
        ("${item}", '["a", "${metadata.city}"]'),
        ("${item}", "${s.output}"),
        ("${item.city}", '[{"city": "x", "key": "${metadata.api_key}"}]'),
        ("${metadata.nothing.here}", None),
    ],
)
def test_what_holds_no_secret_goes_anywhere(value: Any, for_each: str | None) -> None:
    assert found(PLAIN, {"text": value}, for_each) == []


def test_of_an_object_only_what_is_not_declared_is_named() -> None:
    account = {"type": "object", "properties": {"user": TEXT, "word": PASSWORD, "note": TEXT}}
    spec = tool(account=account, to=TEXT)
    fine = {"account": {"user": "bob", "word": "${metadata.api_key}"}, "to": "x"}
    assert found(spec, fine) == []
    (text,) = found(spec, {"account": {"note": "${metadata.api_key}", "word": "${metadata.mine}"}})
    assert "account.note is not declared" in text
    (text,) = found(tool(data={}), {"data": "${metadata.account}"})
    assert "data.password is not declared" in text


def test_a_parameter_of_the_secrets_own_name_is_one_for_it_and_for_no_other() -> None:
    assert found(tool(mine=TEXT), {"mine": "${metadata.mine}"}) == []
    assert found(tool(pins={}), {"pins": "${metadata.pins}"}) == []
    assert found(tool(account={}), {"account": "${metadata.account}"}) == []
    assert found(tool(mine=TEXT), {"mine": "${metadata.api_key}"})
    assert found(tool(), {"mine": "${metadata.mine}"}), "a name that only the plan has made up is none"
    assert found(tool(), {"api_key": "${metadata.api_key}"})


def test_an_item_is_looked_at_for_itself() -> None:
    written = '["harmless", "${metadata.mine}"]'
    assert found(PLAIN, {"text": "${item}"}, written, at=0) == []
    assert found(PLAIN, {"text": "${item}"}, written, at=1)
    assert found(PLAIN, {"text": "${item}"}, "${metadata.pins}", at=1)


def test_what_a_step_has_written_over_the_metadata_is_no_secret_of_theirs() -> None:
    metadata = secret_metadata(METADATA, GIVEN)
    assert metadata is not None
    now = metadata.within({**METADATA, "api_key": "of the session", "more": 1}, METADATA)
    assert strays(PLAIN, {"text": "${metadata.api_key}"}, None, now) == []
    assert strays(PLAIN, {"text": "${metadata.mine}"}, None, now)
    assert now.shown["api_key"] == "of the session"


EXPRESSIONS = st.sampled_from(
    ["metadata", "metadata.city", "metadata.api_key", "metadata.account", "metadata.account.user", "metadata.pins",
     "metadata.pins[1]", "metadata.*", "keys(metadata)", "metadata.account.*", "metadata.[mine, city]",
     "metadata.{a: city, b: api_key}", "sort(metadata.pins)", "join('-', metadata.pins)", "metadata.account.n",
     "metadata.pins[?@ > 'p-2'] | [0]", "metadata.api_key || metadata.city", "metadata.api_key && metadata.city",
     "contains(metadata.mine, 'word')", "max(metadata.pins)", "to_array(metadata.mine)", "type(metadata.account)", "item", "item.k"]
)  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(["a ", "-"]), EXPRESSIONS.map(lambda one: f"${{{one}}}")), min_size=1, max_size=3).map("".join)  # fmt: skip
VALUES = st.recursive(
    TEXTS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.one_of(st.just("k"), TEXTS), inner, max_size=2)),
    max_leaves=4,
)  # fmt: skip
LISTS = st.sampled_from(
    [
        None,
        '["x", {"k": "${metadata.mine}"}]',
        '["${metadata.city}", "${metadata.api_key}"]',
        "${metadata.pins}",
    ]
)
OTHERS = {
    "api_key": "8",
    "mine": "n",
    "pins": ["q", "p-9-x"],
    "account": {"user": "bob", "password": "r", "n": 3},
}


@given(value=VALUES, for_each=LISTS, at=st.sampled_from([0, 1]))
def test_a_call_that_passes_is_the_same_whatever_the_secrets_are(
    value: Any, for_each: str | None, at: int
) -> None:
    """Nothing of a secret can be told from a call to a tool that declares none."""
    if found(PLAIN, {"text": value}, for_each, at=at):
        return
    assert filled(value, for_each, at, METADATA) == filled(value, for_each, at, {**METADATA, **OTHERS})


def filled(value: Any, for_each: str | None, at: int, metadata: dict[str, Any]) -> Any:
    hidden = secret_metadata(metadata, GIVEN)
    assert hidden is not None

    def looked_up(ref: Reference) -> tuple[Any, str]:
        if ref.head == "item":
            written = listed(for_each) if for_each is not None else None
            items = resolve(for_each if written is None else written, looked_up)
            return items[at], "the item"
        return (metadata if ref.path else hidden.shown), "the metadata"

    try:
        return resolve(value, looked_up)
    except (UnresolvedReference, TypeError):
        return "cannot be filled in"


HEADERS = tool(url=TEXT, headers={"type": "object", "additionalProperties": TEXT})


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer ${metadata.api_key}"},
        {"X-Api-Key": "${metadata.api_key}", "Accept": "text/html"},
        {"PRIVATE-TOKEN": "${metadata.mine}"},
        {"Cookie": "session=${metadata.mine}"},
    ],
)
def test_a_header_with_the_name_of_a_secret_takes_one(headers: dict[str, str]) -> None:
    assert found(HEADERS, {"url": "https://h", "headers": headers}) == []
    assert found(tool(http_headers={"type": "object"}), {"http_headers": headers}) == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"headers": {"X-Note": "${metadata.api_key}"}},
        {"headers": {"Accept": "a ${metadata.mine}"}},
        {"headers": {"${metadata.mine}": "x"}},
        {"headers": {"Authorization": "x"}, "url": "https://h?k=${metadata.api_key}"},
    ],
)
def test_another_header_takes_none(parameters: dict[str, Any]) -> None:
    assert found(HEADERS, parameters)
