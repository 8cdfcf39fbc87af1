"""Documents with mistakes anywhere: what is hit is left out with a reason, and nothing else goes wrong."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replan.core.types import ToolSpec
from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools.openapi.documents.document import Document
from replan.tools.openapi.documents.operations import Filter
from replan.tools.openapi.documents.reading import read_text
from replan.tools.openapi.listing import UNEXPECTED, list_tools
from replan.tools.openapi.tool import Settings
from replan.tools.schema_check import problem_of
from thorough import examples

FOLDER = Path(__file__).parents[2] / "integration" / "openapi_documents"
ROOT = read_text((FOLDER / "everything.yaml").read_bytes(), "everything.yaml")
SETTINGS = Settings(
    name="test",
    server=None,
    server_variables={},
    auth={"key": "k"},
    headers={},
    answers="declared",
    timeout_secs=None,
    paginated=True,
    idempotency_header=None,
)
JUNK: list[Any] = [
    None,
    5,
    -1.5,
    True,
    "x",
    "",
    [],
    {},
    [None],
    [[]],
    {"$ref": 5},
    {"$ref": "#/paths"},
    {"$ref": "#/components/schemas/Pet"},
    {"": {}},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        found += places(each, (*path, key))
    return found


PLACES = places(ROOT)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(JUNK)), min_size=1, max_size=3))
def test_a_mistake_stays_where_it_is(hits: list[tuple[tuple[Any, ...], Any]]) -> None:
    root = copy.deepcopy(ROOT)
    for path, junk in hits:
        at = root
        try:
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = copy.deepcopy(junk)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier hit has taken the place away
    try:
        found = list_tools(Document(root, place="test", folder=FOLDER), Filter(), SETTINGS, {})
    except InputError:
        assert any(len(path) == 1 or path[0] == "components" for path, _ in hits)
        return
    for tool in found.tools.values():
        assert isinstance(tool.spec, ToolSpec)
        assert problem_of(tool.spec.parameters, of_parameters=True) is None
        assert (
            tool.spec.output_schema is None
            or problem_of(tool.spec.output_schema, of_parameters=False) is None
        )
        with contextlib.suppress(ToolCallError):
            tool.request(
                ToolCall(tool.spec.id, dict.fromkeys(tool.spec.parameters["properties"], "v"), "key")
            )
    for problem in found.problems:
        assert problem.message
        assert UNEXPECTED not in problem.message
