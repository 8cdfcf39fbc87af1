"""All tools of a document, and what could not be made one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from replan.errors import InputError
from replan.ports import ToolProblem
from replan.tools.names import nearest
from replan.tools.openapi.documents.document import Document, Unusable
from replan.tools.openapi.documents.operations import Filter, Operation, operations_of
from replan.tools.openapi.documents.schemas import Schemas
from replan.tools.openapi.security import Value, check_names
from replan.tools.openapi.tool import (
    MOST_ANSWER_SCHEMAS,
    MOST_REQUEST_SCHEMAS,
    OperationTool,
    Settings,
    make_tool,
)

_FEW = 3
UNEXPECTED = "the document is not as it should be there"


class Listing(NamedTuple):
    """The tools by id, and the problems."""

    tools: dict[str, OperationTool]
    problems: tuple[ToolProblem, ...]


def list_tools(
    document: Document, wanted: Filter, settings: Settings, environment: Mapping[str, str] | None
) -> Listing:
    """Every wanted operation as a tool. `InputError` if there is none, or `auth` names what the document has not."""
    check_names(document, settings.auth)
    if environment is not None:
        settings = replace(
            settings,
            auth={**_from_environment(document, settings.name, environment), **settings.auth},
            variable=partial(variable_of, settings.name),
        )
    requests = Schemas(document, "request", most=MOST_REQUEST_SCHEMAS, open=settings.requests == "open")
    answers = Schemas(document, "answer", most=MOST_ANSWER_SCHEMAS)
    tools: dict[str, OperationTool] = {}
    problems: list[ToolProblem] = []
    known: list[Operation] = []
    unusable: dict[str, list[Operation]] = {}
    for found in operations_of(document):
        if not isinstance(found, Operation):
            title, reason = found
            problems.append(ToolProblem(f"left out: {reason}", title))
            continue
        known.append(found)
        if not wanted.wants(found):
            continue
        try:
            tools[found.tool_id] = make_tool(document, found, settings, requests, answers)
        except Unusable as error:
            unusable.setdefault(str(error), []).append(found)
        except RecursionError:
            problems.append(ToolProblem(f"left out: it is nested too deeply ({found.title})", found.tool_id))
        except (
            TypeError,
            AttributeError,
            ValueError,
            KeyError,
        ) as error:  # it must not take the others along
            said = f"{UNEXPECTED}: {type(error).__name__}: {error}"
            problems.append(ToolProblem(f"left out: {said} ({found.title})", found.tool_id))
    problems += [problem for reason, found in unusable.items() for problem in _left_out(reason, found)]
    problems += [ToolProblem(text) for text in _unmet(wanted, known)]
    problems += [ToolProblem(text) for text in _unpaginated(settings, known)]
    if not tools and known and not any(wanted.wants(each) for each in known):
        raise InputError(
            f"{document.place}: no operation is wanted: {'; '.join(_unmet(wanted, known)) or 'all are excluded, or no one fits all filters'}"
        )
    return Listing(tools, tuple(problems))


def _left_out(reason: str, found: list[Operation]) -> list[ToolProblem]:
    """A line for each operation, or one for all where many have the same reason: a key that is missing, as a rule."""
    if len(found) <= _FEW:
        return [ToolProblem(f"left out: {reason} ({each.title})", each.tool_id) for each in found]
    named = ", ".join(each.tool_id for each in found[:_FEW])
    return [ToolProblem(f"left out {len(found)} operations ({named}, …), for each: {reason}")]


def _unmet(wanted: Filter, known: list[Operation]) -> list[str]:
    """A word on each filter that nothing fits."""
    names = [each.operation_id or each.tool_id for each in known]
    names += [f"tag:{tag}" for each in known for tag in each.tags]
    names += [f"method:{each.method}" for each in known]
    texts = []
    for name in wanted.unmet():
        near = nearest(name, set(names))
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        texts.append(f"no operation fits {name!r}{hint}")
    return texts


def _unpaginated(settings: Settings, known: list[Operation]) -> list[str]:
    if isinstance(settings.paginated, bool):
        return []
    reading = {word for each in known if each.method == "get" for word in (each.operation_id, each.tool_id)}
    return [f"paginate: there is no GET operation {name!r}" for name in settings.paginated - reading]


def _from_environment(document: Document, name: str, environment: Mapping[str, str]) -> dict[str, Value]:
    """Values as `OPENAPI_<NAME>_<SCHEME>`, or with `_CLIENT_ID` and `_CLIENT_SECRET` behind that."""
    found: dict[str, Value] = {}
    components = document.root.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    for scheme in schemes if isinstance(schemes, dict) else ():
        variable = variable_of(name, scheme)
        if value := environment.get(variable):
            found[scheme] = value
        elif environment.get(f"{variable}_CLIENT_ID") and environment.get(f"{variable}_CLIENT_SECRET"):
            found[scheme] = {
                "client_id": environment[f"{variable}_CLIENT_ID"],
                "client_secret": environment[f"{variable}_CLIENT_SECRET"],
            }
    return found


def variable_of(name: str, scheme: str) -> str:
    """The environment variable with the value of a security scheme."""
    return re.sub(r"[^A-Z0-9]+", "_", f"OPENAPI_{name}_{scheme}".upper()).strip("_")
