"""What a document gives: which tools, which problems; and what they send, judged by openapi-core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.openapi.measure import measure

from replan.core.secrets import secret_names
from replan.core.types import ToolSpec
from replan.errors import InputError
from replan.tools.openapi import OpenApiSource
from replan.tools.openapi.documents.reading import read_text

pytestmark = pytest.mark.anyio
FILE = Path(__file__).parent / "openapi_documents" / "everything.yaml"
AUTH = {"key": "the-key"}


async def listed(**settings: Any) -> tuple[dict[str, ToolSpec], dict[str, str], OpenApiSource]:
    source = OpenApiSource(FILE, **{"auth": AUTH, **settings})
    specs = {spec.id: spec for spec in await source.tools()}
    problems = {problem.tool or "": problem.message for problem in source.problems()}
    await source.aclose()
    return specs, problems, source


async def test_every_operation_is_a_tool_or_a_problem() -> None:
    specs, problems, source = await listed(server="https://example.org")
    assert source.name == "everything"
    assert list(specs) == [
        "pets_list",
        "pets_create",
        "get_pets_id",
        "replacePet",
        "deletePet",
        "hasPet",
        "patchPet",
        "paths",
        "specialPaths",
        "queries",
        "jsonBody",
        "composedBody",
        "formBody",
        "multipartBody",
        "textBody",
        "bytesBody",
        "elsewhere",
        "sharedThing",
    ]
    for tool, words in {
        "digest": "HTTP digest",
        "missing": "no path parameter",
        "dangling": "no 'Nowhere'",
        "outside": "out of the folder",
        "mixed": "multipart/mixed",
        "style": "style 'label'",
        "effect": "'harmless'; right are: reads, repeatable, once",
    }.items():
        assert words in problems[tool]
    assert len(problems) == 7


async def test_effects_names_and_descriptions() -> None:
    specs, _, _ = await listed()
    assert {
        name: specs[name].effect for name in ("pets_list", "hasPet", "pets_create", "replacePet", "patchPet")
    } == {
        "pets_list": "reads",
        "hasPet": "reads",
        "pets_create": "once",
        "replacePet": "repeatable",
        "patchPet": "repeatable",
    }
    assert specs["pets_create"].honours_key
    assert "Idempotency-Key" not in specs["pets_create"].parameters["properties"]
    assert specs["pets_list"].aliases == ("pets/list",)
    assert specs["pets_list"].description == "List pets, by name."
    assert specs["deletePet"].description.startswith("Deprecated.")
    assert secret_names(specs["pets_create"]) == {"secret"}


async def test_parameters_are_flat_unless_they_clash() -> None:
    specs, _, _ = await listed()
    created = specs["pets_create"].parameters
    assert list(created["properties"]) == ["X-Tenant", "id", "name", "secret", "born", "weight", "friends"]
    assert "id" not in created["required"]  # read-only, and required by the schema
    assert created["required"] == ["name"]
    assert created["properties"]["born"]["type"] == ["string", "null"]
    patched = specs["patchPet"].parameters
    assert list(patched["properties"]) == ["id", "query_id", "body"]
    assert patched["required"] == ["id"]
    assert list(specs["jsonBody"].parameters["properties"]) == ["body"]
    composed = specs["composedBody"].parameters
    assert set(composed["required"]) == {"name", "color"}
    assert composed["properties"]["color"]["enum"] == ["red", "no", "2024-01-01"]
    assert "api_key" not in str([spec.parameters for spec in specs.values()])


async def test_outputs_are_as_declared() -> None:
    specs, _, _ = await listed()
    page = specs["pets_list"].output_schema
    assert page is not None
    assert page["properties"]["next_cursor"]["type"] == ["string", "null"]
    assert "secret" not in page["$defs"]["Pet"]["properties"]
    assert specs["replacePet"].output_schema is None
    assert specs["sharedThing"].output_schema is not None
    opened, _, _ = await listed(answers="open")
    assert opened["pets_list"].output_schema["additionalProperties"] is True  # type: ignore[index]
    without, _, _ = await listed(answers="none")
    assert without["pets_list"].output_schema is None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tags": ["pets"], "methods": ["GET"]}, ["pets_list", "get_pets_id"]),
        ({"operations": ["pets/list", "DELETE /pets/{id}"]}, ["pets_list", "deletePet"]),
        (
            {"tags": ["styles", "bodies"], "exclude": ["method:post", "queries"]},
            ["paths", "specialPaths", "bytesBody"],
        ),
    ],
)
async def test_filters(settings: dict[str, Any], expected: list[str]) -> None:
    specs, _, _ = await listed(**settings)
    assert list(specs) == expected


async def test_a_filter_that_nothing_fits_is_told() -> None:
    _, problems, _ = await listed(tags=["pets", "stiles"])
    assert "no operation fits 'tag:stiles'; did you mean tag:styles" in problems[""]
    with pytest.raises(InputError, match="no operation is wanted: no operation fits 'tag:pats'"):
        await listed(tags=["pats"])


async def test_without_credentials_only_what_is_open_is_left() -> None:
    specs, problems, _ = await listed(auth={}, operations=["pets/list", "GET /pets/{id}", "hasPet"])
    assert list(specs) == ["get_pets_id"]
    assert (
        "it needs the API key 'key', or the token of 'bearer' and the API key 'tenant'" in problems["hasPet"]
    )
    with pytest.raises(InputError, match="no security scheme 'kye'; did you mean key"):
        await listed(auth={"kye": "x"})


async def test_what_is_sent_is_valid_for_openapi_core() -> None:
    document = read_text(FILE.read_bytes(), "everything.yaml")
    for path in [path for path in document["paths"] if path.startswith("/refused") or path == "/shared"]:
        del document["paths"][path]
    for seed in range(3):
        found = await measure("everything", document, seed=seed, most=None)
        assert found.wrong == []
        assert found.not_made == []
        given = found.unjudged.pop(
            "it takes readOnly for a rule also where it stands on what is no property", 0
        )  # a required one may be given, and is at times
        assert found.unjudged == {"it does not see label and matrix parameters in a path": 2}
        assert (found.accepted, found.valid + given) == (17, 32)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("parameters.path_segment", lambda *_: "no-number"),
        ("parameters.header_value", lambda *_: "no-number"),
        ("bodies._json", lambda value: b'"no object"'),
        ("parameters.pairs", lambda name, *_: [(name, "no-number")]),
        ("bodies._form", lambda body, value: b"not=this"),
        ("bodies._multipart", lambda body, value, known: (b"--x--", "multipart/form-data; boundary=x")),
    ],
)
async def test_what_is_sent_wrongly_is_found(part: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"replan.tools.openapi.{part}", wrong)
    found = await measure("everything", read_text(FILE.read_bytes(), "everything.yaml"), seed=0, most=None)
    assert found.wrong
