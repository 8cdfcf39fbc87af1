"""One operation as a tool: what it is, and the request that a call of it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from replan.core.types import Effect, JsonObject, ToolSpec
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.bounds import traceparent
from replan.tools.openapi import pages
from replan.tools.openapi.answers import Declared
from replan.tools.openapi.bodies import bare, body_of, encode, is_json
from replan.tools.openapi.documents.document import Document, Unusable
from replan.tools.openapi.documents.operations import Operation, description_of
from replan.tools.openapi.documents.schemas import Schemas
from replan.tools.openapi.documents.servers import base_url_of
from replan.tools.openapi.parameters import Parameter, parameters_of, place
from replan.tools.openapi.requests import Request
from replan.tools.openapi.security import Credentials, Value, credentials_of
from replan.tools.openapi.signature import ABSENT, Signature
from replan.tools.openapi.uploads import Upload
from replan.tools.schema_check import problem_of

Answers = Literal["declared", "open", "checked", "none"]
"""What is made of the schemas of answers: given to planners as they are; with room for undeclared properties; also
held against every answer; or left out."""

Requests = Literal["declared", "open"]
"""What is made of read-only properties in requests: only those stay that an object requires; or all may be given."""

MOST_REQUEST_SCHEMAS = 800
MOST_ANSWER_SCHEMAS = 150
"""Schemas (a property is one) that a tool shows; what is further away is left open."""

_EFFECTS = {"get": "reads", "head": "reads", "options": "reads", "put": "repeatable", "delete": "repeatable"}
_LONGEST_DESCRIPTION = 1000
_HEADERS_OF_ANSWER: JsonObject = {
    "type": "object",
    "properties": {
        "status": {"type": "integer"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["status", "headers"],
}


@dataclass(frozen=True)
class Settings:
    """What is the same for all operations of a source."""

    name: str
    server: str | None
    server_variables: Mapping[str, str]
    auth: Mapping[str, Value]
    headers: Mapping[str, str]
    answers: Answers
    timeout_secs: float | None
    paginated: frozenset[str] | bool
    """Operation or tool ids; True: all that have pages."""
    idempotency_header: str | None
    variable: Callable[[str], str] | None = None
    """The variable of the environment that holds the value of a security scheme, where those are looked up."""
    requests: Requests = "declared"


@dataclass(frozen=True)
class OperationTool:
    """One operation, ready to be called."""

    spec: ToolSpec
    operation: Operation
    signature: Signature
    base_url: str
    credentials: Credentials
    key_header: str | None
    accept: str
    only_json: bool
    paginated: bool
    page_names: frozenset[str]
    """The names of its query parameters."""
    checked: JsonObject | None
    """The schema that answers are held against."""

    @property
    def title(self) -> str:
        return f"{self.spec.id} ({self.operation.title})"

    def request(self, call: ToolCall) -> Request:
        """What is to be sent. `ToolCallError` of kind `parameter` for values that cannot be."""
        values, body = self.signature.split(call.parameters)
        try:
            placed = place(self.operation.path, values)
            content: bytes | Upload | None = None
            content_type = None
            if body is not ABSENT and self.signature.body is not None:
                content, content_type = encode(self.signature.body, body, call.known_file)
        except ValueError as error:
            text = f"the parameters do not fit tool {self.spec.id!r}: {error}"
            raise ToolCallError(text, kind="parameter", happened="no") from None
        headers = {"Accept": self.accept, "Accept-Encoding": "gzip, deflate", "User-Agent": "replan"}
        headers["traceparent"] = traceparent(call)
        if self.key_header is not None:
            headers[self.key_header] = call.key
        if content_type is not None:
            headers["Content-Type"] = content_type
        given = {name.lower() for name, _ in placed.headers}
        headers = {name: text for name, text in headers.items() if name.lower() not in given}
        headers |= dict(placed.headers)
        # Some documents tell operations of one path apart by a query or a fragment in it; the latter is not sent.
        path, _, fixed = placed.path.partition("#")[0].partition("?")
        query = "&".join(each for each in (fixed, placed.query) if each)
        url = self.base_url + path + (f"?{query}" if query else "")
        return Request(self.operation.method.upper(), url, headers, placed.cookie, content)


def make_tool(
    document: Document, operation: Operation, settings: Settings, requests: Schemas, answers: Schemas
) -> OperationTool:
    """The operation as a tool. Raises `Unusable` with the reason why it cannot be one."""
    effect = _effect(operation)
    parameters = parameters_of(document, operation, requests)
    keys = [each for each in parameters if each.is_idempotency_key]
    given = {name.lower() for name in settings.headers}
    shown = [
        each
        for each in parameters
        if each not in keys and not (each.place == "header" and each.name.lower() in given)
    ]
    signature = Signature(requests, shown, body_of(document, operation, requests))
    if wrong := problem_of(signature.schema, of_parameters=True):
        raise Unusable(f"its schema of parameters is bad: {wrong}")
    base_url = base_url_of(document, operation, server=settings.server, variables=settings.server_variables)
    credentials = credentials_of(
        document, operation, settings.auth, settings.headers, base_url, settings.variable
    )
    declared = Declared(document, operation, answers)
    names = frozenset(each.name for each in parameters if each.place == "query")
    paginated = _paginated(operation, settings, declared, answers, names)
    schema = _output_schema(operation, declared, answers, settings.answers, paginated)
    spec = ToolSpec(
        id=operation.tool_id,
        name=operation.operation_id or operation.title,
        description=_description(operation),
        parameters=signature.schema,
        output_schema=None if settings.answers == "none" else schema,
        effect=effect,
        source=settings.name,
        aliases=(operation.operation_id,) if operation.operation_id not in ("", operation.tool_id) else (),
        timeout_secs=settings.timeout_secs,
        volatile=operation.value.get("x-replan-volatile") is True,
        honours_key=effect == "once" and bool(keys or settings.idempotency_header),
    )
    return OperationTool(
        spec=spec,
        operation=operation,
        signature=signature,
        base_url=base_url,
        credentials=credentials,
        key_header=_key_header(keys, settings, effect),
        accept=_accept(declared),
        only_json=declared.only_json,
        paginated=paginated,
        page_names=names,
        checked=schema if settings.answers == "checked" else None,
    )


def _effect(operation: Operation) -> Effect:
    """From the method (RFC 9110 §9.2: safe, idempotent), unless `x-replan-effect` says it."""
    said = operation.value.get("x-replan-effect", operation.item.get("x-replan-effect"))
    found: Any = said if said is not None else _EFFECTS.get(operation.method, "once")
    if found not in get_args(Effect):
        raise Unusable(f"its x-replan-effect is {said!r}; right are: {', '.join(get_args(Effect))}")
    effect: Effect = found
    return effect


def _key_header(keys: list[Parameter], settings: Settings, effect: str) -> str | None:
    """Where the idempotency key goes. An undeclared one does no harm, and some servers honour it."""
    if keys:
        return keys[0].name
    return (settings.idempotency_header or "Idempotency-Key") if effect == "once" else None


def _paginated(
    operation: Operation, settings: Settings, declared: Declared, schemas: Schemas, names: frozenset[str]
) -> bool:
    if operation.method != "get" or settings.paginated is False:
        return False
    if settings.paginated is True:
        return pages.has_pages(schemas, declared.schema, names)
    return bool({operation.operation_id, operation.tool_id} & settings.paginated)


def _output_schema(
    operation: Operation, declared: Declared, schemas: Schemas, answers: Answers, paginated: bool
) -> JsonObject | None:
    if operation.method == "head":
        return _HEADERS_OF_ANSWER
    schema = declared.schema
    if paginated:
        schema = pages.output_schema(schemas, schema)
    if schema is None:
        return None
    schema = schemas.closed(schema)
    if problem_of(schema, of_parameters=False):
        return None
    return _opened(schema) if answers == "open" else schema


def _opened(schema: Any) -> Any:
    """The same with room for properties that are not declared."""
    if isinstance(schema, list):
        return [_opened(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _opened(each) for key, each in schema.items()}
    if isinstance(found.get("properties"), dict) and "additionalProperties" not in found:
        found["additionalProperties"] = True
    return found


def _accept(declared: Declared) -> str:
    """JSON where it is declared, else all that is."""
    kinds = [kind for kind in declared.written if "*" not in kind]
    named = [kind for kind in kinds if is_json(bare(kind))][:1] or kinds
    return ", ".join(named) or "application/json, */*;q=0.5"


def _description(operation: Operation) -> str:
    return (
        description_of(operation.value, _LONGEST_DESCRIPTION)
        or description_of(operation.item, _LONGEST_DESCRIPTION)
        or operation.title
    )
