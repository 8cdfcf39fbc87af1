"""What a document or an answer says costs in proportion to its size, whatever it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.secrets import KnownSecrets
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.openapi import OpenApiSource
from replan.tools.openapi.answers import failure
from replan.tools.openapi.documents.operations import safe_id
from replan.tools.openapi.pages import next_page

pytestmark = pytest.mark.anyio
BASE: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "t", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
}


def page(text: str) -> str:
    """What the error for a web page says."""
    said = failure(
        500, {"content-type": "text/html"}, text.encode(), title="t", secrets=KnownSecrets(), now=0.0
    )
    return str(said)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda n: page("<script " * n), id="scripts that never end"),
        pytest.param(lambda n: page("<" * 8 * n), id="brackets"),
        pytest.param(lambda n: page("<style></script>" * n), id="ends of others"),
        pytest.param(lambda n: next_page("http://a/x", [], {"link": "<" * n}, {"page"}), id="a link"),
        pytest.param(
            lambda n: next_page("http://a/x", [], {"link": "<a>; rel=" * n}, {"page"}),
            id="links without a word",
        ),
        pytest.param(lambda n: safe_id("_" * n), id="an id of underscores"),
        pytest.param(lambda n: safe_id("_/" * n), id="an id of signs"),
    ],
)
def test_what_a_server_says_takes_time_in_proportion(work: Callable[[int], object]) -> None:
    with cpu(1):
        work(8_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<html><h1>Out of <b>order</b></h1></html>", "Out of order"),
        ("<p>a</p><script>if (1 < 2) x()</script><STYLE>p {}</STYLE ><p>b</p>", "a b"),
        ("<script src=x>a</style>b</script>c", "c"),
        ("<p>a < b", "a < b"),
        ("<scripted>a</scripted>", "a"),
    ],
)
def test_the_words_of_a_page_are_what_a_person_sees(text: str, words: str) -> None:
    assert page(text) == f"t: 500 Internal Server Error: {words}"


@given(st.text(st.sampled_from("a-_/ é9"), max_size=30))
def test_an_id_has_letters_digits_and_signs_between_them(text: str) -> None:
    found = safe_id(text)
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_")
    assert found == safe_id(found)


async def parameters(schema: Any, components: dict[str, Any] | None = None) -> Any:
    """The parameters of an operation with that body."""
    body = {"content": {"application/json": {"schema": schema}}}
    document = {
        **BASE,
        "components": {"schemas": components or {}},
        "paths": {"/x": {"post": {"operationId": "x", "requestBody": body}}},
    }
    source = OpenApiSource(document)
    (spec,) = await source.tools()
    await source.aclose()
    return spec.parameters


@pytest.mark.parametrize("same", [True, False])
async def test_compositions_of_compositions_are_gone_through_once(same: bool) -> None:
    def name(level: int, which: int) -> str:
        return f"A{level}_{0 if same else which}"

    made: dict[str, Any] = {
        name(level, which): {
            "allOf": [{"$ref": f"#/components/schemas/{name(level + 1, at)}"} for at in range(20)]
        }
        for level in range(5)
        for which in range(20)
    }
    made |= {name(5, which): {"properties": {f"p{which}": {"type": "string"}}} for which in range(20)}
    found = await parameters({"$ref": f"#/components/schemas/{name(0, 0)}"}, made)
    assert found["properties"]


async def test_a_composition_that_leads_back_to_itself_ends() -> None:
    made = {"A": {"allOf": [{"$ref": "#/components/schemas/A"}] * 20}}
    assert await parameters({"$ref": "#/components/schemas/A"}, made)


ALIASES = ["x-0: &a0 [x]", *(f"x-{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 41))]
"""A few hundred bytes that stand for 10^40 values."""


def written(path: Path, operation: str) -> Path:
    """A document in YAML that begins with the aliases."""
    head = ['openapi: "3.1.0"', 'info: {title: t, version: "1"}', 'servers: [{url: "http://127.0.0.1:9"}]']
    path.write_text("\n".join([*head, *ALIASES, f"paths: {{/x: {{get: {operation}}}}}"]), encoding="utf-8")
    return path


async def specs_of(path: Path) -> Any:
    source = OpenApiSource(path)
    with cpu(2):
        found = await source.tools()
    await source.aclose()
    return found


@pytest.mark.parametrize("keyword", ["const", "enum", "default", "required", "example"])
async def test_a_few_aliases_that_stand_for_millions_are_left_out(keyword: str, tmp_path: Path) -> None:
    schema = f"{{{keyword}: *a40, title: t}}"
    operation = f"{{operationId: x, parameters: [{{name: q, in: query, schema: {schema}}}]}}"
    (spec,) = await specs_of(written(tmp_path / "api.yaml", operation))
    assert keyword not in spec.parameters["properties"]["q"]


async def test_aliases_in_words_of_an_operation_are_no_words(tmp_path: Path) -> None:
    operation = "{operationId: *a40, tags: [*a40, t], summary: *a40, description: d}"
    (spec,) = await specs_of(written(tmp_path / "api.yaml", operation))
    assert (spec.id, spec.description) == ("get_x", "d")


@pytest.mark.parametrize("schema", [{"type": ["string", "null"]}, {"anyOf": [{"type": "null"}]}, {}])
async def test_a_null_in_a_path_is_refused_and_nothing_is_sent(schema: Any) -> None:
    parameter = {"name": "id", "in": "path", "required": True, "schema": schema}
    operation = {"operationId": "x", "parameters": [parameter]}
    source = OpenApiSource({**BASE, "paths": {"/x/{id}": {"delete": operation}}})
    with pytest.raises(ToolCallError, match="may not be null") as caught:
        await source.call(ToolCall("x", {"id": None}, "key"))
    await source.aclose()
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
