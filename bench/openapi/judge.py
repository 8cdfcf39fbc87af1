"""A server made of a document, which has every request judged by openapi-core."""

from __future__ import annotations

import contextlib
import copy
import json
import socket
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import uvicorn
from jsonschema import Draft202012Validator
from openapi_core import Config, OpenAPI
from openapi_core.casting.schemas import (
    oas30_write_schema_casters_factory,
    oas31_schema_casters_factory,
)
from openapi_core.contrib.starlette import StarletteOpenAPIRequest
from openapi_core.deserializing.styles import StyleDeserializersFactory, style_deserializers
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


class Judge:
    """`verdict`: of the latest request: "" if it is valid, else why not; `unjudged`: why openapi-core cannot tell."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = copy.deepcopy(document)
        self._api: OpenAPI | None = None
        self._fixed_queries = any("?" in path for path in document["paths"])
        self.verdict: str | None = None
        self.unjudged: str | None = None
        self.request = ""

    def listen_at(self, url: str) -> None:
        self._document["servers"] = [{"url": url}]
        for item in self._document["paths"].values():
            item.pop("servers", None)
            for operation in item.values():
                if isinstance(operation, dict):
                    operation.pop("servers", None)
        # The documents themselves are not judged: some have mistakes.
        casters = (
            oas30_write_schema_casters_factory
            if str(self._document["openapi"]).startswith("3.0")
            else oas31_schema_casters_factory
        )
        styles = StyleDeserializersFactory(
            casters, style_deserializers={**style_deserializers, "deepObject": nested}
        )
        config = Config(
            spec_validator_cls=None,
            extra_media_type_deserializers=_more_json(self._document),
            style_deserializers_factory=styles,
        )
        self._api = OpenAPI.from_dict(self._document, config=config)

    async def serve(self, request: Request) -> Response:
        body = await request.body()
        self.verdict = self.unjudged = None
        self.request = f"{request.method} {request.url} {request.headers.get('content-type')} {body[:300]!r}"
        assert self._api is not None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                errors = list(self._api.iter_request_errors(StarletteOpenAPIRequest(request, body)))
            self.unjudged = _out_of_its_reach(request, errors, self._fixed_queries)
            if self.unjudged is None:
                self.verdict = "; ".join(map(_words, errors))
        except Exception as error:  # noqa: BLE001 - whatever it cannot cope with is reported
            self.unjudged = f"{type(error).__name__}: {str(error)[:200]}"
        return JSONResponse(None)

    @property
    def app(self) -> Starlette:
        methods = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH"]
        return Starlette(routes=[Route("/{path:path}", self.serve, methods=methods)])


def nested(explode: bool, name: str, schema_type: str, location: Any) -> Any:
    """`deepObject`, also for lists and for what is nested: by itself openapi-core reads one level of texts."""
    found: Any = {}
    for key in location:
        value = location[key]
        if key == name:
            return value
        if not key.startswith(f"{name}["):
            continue
        at = found
        *path, last = key[len(name) + 1 : -1].split("][")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    if not found:
        raise KeyError(name)
    return _with_lists(found)


def _with_lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    parts = {key: _with_lists(each) for key, each in value.items()}
    return list(parts.values()) if all(key.isdigit() for key in parts) else parts


def _more_json(value: Any) -> dict[str, Any]:
    """`+json` media types that the document has: by itself openapi-core reads a few of them only."""
    found: dict[str, Any] = {"*/*": json.loads}
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "content" and isinstance(each, dict):
                found |= {kind: json.loads for kind in each if kind.partition(";")[0].endswith("+json")}
            found |= _more_json(each)
    elif isinstance(value, list):
        for each in value:
            found |= _more_json(each)
    return found


def _out_of_its_reach(request: Request, errors: list[Any], fixed_queries: bool) -> str | None:
    """Why openapi-core cannot judge the request, if every error comes of that."""
    media_type = request.headers.get("content-type", "")
    reasons = [_reason(media_type, error, fixed_queries) for error in errors]
    return reasons[0] if reasons and None not in reasons else None


def _reason(media_type: str, error: Any, fixed_queries: bool) -> str | None:
    """What openapi-core cannot do, if that is what the error comes of."""
    words, kind = _words(error), type(error).__name__
    if str(error).startswith("Missing required path parameter"):
        return "it does not see label and matrix parameters in a path"
    if kind == "PathNotFound" and fixed_queries:
        return "it knows no path that has a query in it"
    if kind == "MissingRequiredRequestBody" and media_type.endswith("form-urlencoded"):
        return "it takes an empty form for none"
    if "EmptyQueryParameterValue" in words:
        return "it takes an empty text in the query for none, also where the schema has it"
    if "CastError" in words and "multipart/" in media_type:
        return "it does not read lists in multipart forms"
    if kind == "ParameterValidationError" and "CastError: Failed to cast value to object type" in words:
        return "it does not read objects inside of lists in a query, for which no form is defined"
    is_text = kind != "InvalidRequestBody" or "json" not in media_type
    reasons = [_reason_of_schema(media_type, each, is_text) for each in _schema_errors(error)]
    return reasons[0] if reasons and None not in reasons else None


def _reason_of_schema(media_type: str, error: Any, is_text: bool) -> str | None:
    """The same of one error of a schema; where there are branches, of all errors of one of them."""
    if error is None:
        return None
    if "could not be resolved" in error.message or "discriminating property" in error.message:
        return "a discriminator of the document leads nowhere"
    if error.validator in ("exclusiveMinimum", "exclusiveMaximum") and error.validator_value is True:
        return "the document writes a bound as in 3.0, though it is of 3.1"
    if "read-only" in error.message:
        return "it takes readOnly for a rule also where it stands on what is no property"
    if "multipart/" in media_type and isinstance(error.instance, bytes):
        return "in 3.1 it takes the bytes of a part for no text"
    if is_text and _is_uncast(error):
        return "it leaves a number or truth value as text: in multipart forms, below anyOf and additionalProperties"
    if error.validator == "required":
        missing = {name for name in error.schema["required"] if name not in error.instance}
        if not missing & set(error.schema.get("properties", {})):
            if error.schema.get("additionalProperties") is False:
                return "the document requires a property that it does not allow"
            if media_type.endswith("form-urlencoded"):
                return "it reads those fields of a form only that the document describes"
    branches: dict[Any, list[str | None]] = {}
    for inner in error.context or ():
        reason = _reason_of_schema(media_type, inner, is_text)
        branches.setdefault(inner.schema_path[0], []).append(reason)
    return next((reasons[0] for reasons in branches.values() if None not in reasons), None)


def _is_uncast(error: Any) -> bool:
    """True if the value is a text that would be right if it were read as JSON, as it should be outside of JSON."""
    if not isinstance(error.instance, str):
        return False
    try:
        value = json.loads(error.instance)
    except ValueError:
        return False
    return bool(Draft202012Validator({error.validator: error.validator_value}).is_valid(value))


def _schema_errors(error: Any) -> list[Any]:
    """The errors of the schema, at the end of the chain of causes."""
    while error is not None:
        if getattr(error, "schema_errors", ()):
            return list(error.schema_errors)
        error = error.__cause__
    return [None]


def _words(error: BaseException) -> str:
    parts, at = [], error
    for _ in range(6):
        parts.append(f"{type(at).__name__}: {str(at)[:200]}")
        parts += [
            f"{'/'.join(map(str, each.absolute_path))}: {each.message[:200]}"
            for each in list(getattr(at, "schema_errors", ()))[:3]
        ]
        if at.__cause__ is None:
            break
        at = at.__cause__
    return " < ".join(parts)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextlib.contextmanager
def judging(document: dict[str, Any]) -> Iterator[tuple[Judge, str]]:
    """A judge that listens, and its address."""
    judge = Judge(document)
    # With its protocol named, asyncio switches off the delay of small packets.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        judge.listen_at(url)
        config = uvicorn.Config(judge.app, lifespan="off", ws="none", log_config=None, access_log=False)
        server = _Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        server.up.wait(20)
        try:
            yield judge, url
        finally:
            server.should_exit = True
            thread.join(10)
