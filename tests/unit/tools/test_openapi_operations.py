"""Ids, texts and places of operations, and imports that stay light."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.tools.openapi.documents.document import Document
from replan.tools.openapi.documents.operations import (
    Filter,
    Operation,
    description_of,
    operations_of,
    safe_id,
)
from replan.tools.openapi.documents.places import Place
from replan.tools.openapi.documents.reading import read_text
from replan.tools.openapi.listing import list_tools
from replan.tools.openapi.pages import next_page
from replan.tools.openapi.tool import Settings


def ids(paths: dict[str, Any]) -> list[str]:
    document = Document({"openapi": "3.0.0", "paths": paths}, place="test")
    return [each.tool_id for each in operations_of(document) if isinstance(each, Operation)]


def test_ids_come_from_operation_ids_or_places_and_are_unique() -> None:
    paths = {
        "/pets": {"get": {"operationId": "pets/list"}, "post": {}},
        "/pets/{id}": {"get": {"operationId": "pets.list"}, "put": {"operationId": "a" * 80}},
        "/": {"get": {}},
        "/pets/": {"post": {}},
    }
    long = "a" * 55 + "_" + safe_id("a" * 80)[-8:]
    assert ids(paths) == ["pets_list", "post_pets", "get_pets_id", long, "get", "post_pets_2"]


@given(st.lists(st.text(max_size=90), max_size=8))
def test_every_id_is_safe_and_no_two_are_the_same(names: list[str]) -> None:
    paths = {f"/{index}": {"get": {"operationId": name}} for index, name in enumerate(names)}
    found = ids(paths)
    assert len({each.casefold() for each in found}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each) for each in found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"summary": "List", "description": "List all\n pets."}, "List all pets."),
        ({"summary": "List", "description": "All of them."}, "List. All of them."),
        ({"summary": "Old?", "deprecated": True}, "Deprecated. Old?"),
        ({"description": "x" * 30 + " and more"}, "x" * 30 + " and…"),
    ],
)
def test_descriptions(value: Any, expected: str) -> None:
    assert description_of(value, 36) == expected


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("some/petstore.yaml", "petstore"),
        ("/srv/billing/openapi.json", "billing"),
        ("https://api.github.com/openapi.json", "github"),
        ("http://127.0.0.1:80/openapi.json", "openapi"),
        ({"info": {"title": "Swagger Petstore - OpenAPI 3.0"}}, "swagger_petstore_openapi_3_0"),
    ],
)
def test_names_of_sources(place: Any, name: str) -> None:
    assert Place.of(place).name == name


def test_yaml_is_read_as_json_would_be() -> None:
    text = b"a: no\nb: 2024-01-01\n200: {c: 1.5, d: 012, e: true, f: ~, g: 0x10}\nh: &x [1]\ni: *x\n"
    assert read_text(text, "x.yaml") == {
        "a": "no",
        "b": "2024-01-01",
        "200": {"c": 1.5, "d": "012", "e": True, "f": None, "g": "0x10"},
        "h": [1],
        "i": [1],
    }


def test_aliases_that_stand_for_millions_take_no_time() -> None:
    """The names of YAML that refer to names of names (a "billion laughs")."""
    lines = ["x0: &x0 {type: string}"]
    for level in range(1, 12):
        parts = ", ".join(f"p{n}: *x{level - 1}" for n in range(10))
        lines.append(f"x{level}: &x{level} {{type: object, properties: {{{parts}}}, allOf: [*x{level - 1}]}}")
    lines.append(
        "openapi: 3.0.0\npaths: {/a: {post: {requestBody: {content: {application/json: {schema: *x11}}}}}}"
    )
    root = read_text("\n".join(lines).encode(), "x.yaml")
    found = list_tools(Document(root, place="test", url="https://h/"), Filter(), SETTINGS, {})
    assert not found.tools
    assert "more than" in found.problems[0].message


SETTINGS = Settings(
    name="test",
    server=None,
    server_variables={},
    auth={},
    headers={},
    answers="declared",
    timeout_secs=None,
    paginated=False,
    idempotency_header=None,
)
URL = "https://h/x?limit=2&q=a%20b"


@pytest.mark.parametrize(
    ("value", "headers", "names", "expected"),
    [
        ([1], {"link": '</x?page=2>; rel="next"'}, [], "https://h/x?page=2"),
        ([1], {"link": "<https://h/x?a=1,2>; title=\"a\"; rel='x', <y>; rel=next"}, [], "https://h/y"),
        ({"next": "https://h/x?p=2", "data": []}, {}, [], "https://h/x?p=2"),
        ({"next": "https://evil/x", "data": []}, {}, [], None),
        ({"links": {"next": {"href": "/x?p=2"}}}, {}, [], "https://h/x?p=2"),
        (
            {"next_page": {"offset": "t", "uri": "https://h/x?offset=t"}},
            {},
            ["offset"],
            "https://h/x?offset=t",
        ),
        ({"next_page_token": "t"}, {}, ["page_token"], f"{URL}&page_token=t"),
        ({"next_page_token": ""}, {}, ["page_token", "page"], None),
        ({"response_metadata": {"next_cursor": "c="}}, {}, ["cursor"], f"{URL}&cursor=c%3D"),
        ({"metadata": {"continue": "k"}, "items": []}, {}, ["continue"], f"{URL}&continue=k"),
        ({"has_more": True, "data": [{"id": "z"}]}, {}, ["starting_after"], f"{URL}&starting_after=z"),
        ({"has_more": False, "data": [{"id": "z"}]}, {}, ["starting_after"], None),
        ({"items": [1, 2], "offset": 0}, {}, ["offset", "limit"], f"{URL}&offset=2"),
        ({"items": [1], "offset": 0}, {}, ["offset", "limit"], None),
        ({"items": [1, 2], "total": 2}, {}, ["offset"], None),
        ({"results": [1, 2], "total_pages": 1}, {}, ["page"], None),
        ([1, 2], {}, ["page"], f"{URL}&page=2"),
        ([], {}, ["page"], None),
        ([1, 2], {}, ["q"], None),
    ],
)
def test_where_the_next_page_is(value: Any, headers: Any, names: list[str], expected: str | None) -> None:
    assert next_page(URL, value, headers, names).url == expected


@pytest.mark.parametrize("target", ["http://[::1", "//[x", "http://h:99999/x", "http://h:port/"])
def test_a_next_page_that_is_no_address_is_one_that_cannot_be_read(target: str) -> None:
    for value, headers in (([1], {"link": f"<{target}>; rel=next"}), ({"items": [1], "next": target}, {})):
        found = next_page("http://h/x", value, headers, [])
        assert (found.url, found.foreign) == (None, True)


@pytest.mark.parametrize("number", ["²", "9" * 5000, "-1", ""])
def test_a_number_of_a_page_that_is_none_is_not_counted_with(number: str) -> None:
    for name in ("page", "offset", "limit"):
        next_page(f"http://h/x?{name}={number}", {"items": [1]}, {}, ["page", "offset"])


def test_importing_the_package_takes_no_heavy_library() -> None:
    code = "import sys, replan.tools.openapi as o; o.load('x.yaml'); print([n for n in ('httpx2', 'yaml') if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
