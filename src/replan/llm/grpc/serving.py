"""A service over gRPC that puts models behind it, whatever they are."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, get_args

import grpc
import grpc.aio
from pydantic import ValidationError

from replan.core.types import Role
from replan.errors import ModelUnavailable, ReplanError
from replan.llm.address import name_at
from replan.llm.grpc.wire import FAULT_METADATA, HEALTH, MOST_BYTES, SERVICE, code_and_fault, pb
from replan.ports import Model, ModelReply, ModelRequest, Turn

ROLES: tuple[Role, ...] = get_args(Role)
_CODE = grpc.StatusCode
_SERVING = b"\x08\x01"
"""`HealthCheckResponse` of grpc.health.v1: field 1, an enum."""


def make_server(
    models: Mapping[Role, Model],
    token: str | None = None,
    hide: Callable[[str], str] = str,
    *,
    called: Mapping[str, str] | None = None,
    max_calls: int = 100,
) -> grpc.aio.Server:
    """A server, not started and without a port. `hide` takes secrets out of what is told of faults.

    `called`: the names by which the models are listed and asked for; where there is none, a model's own.
    """
    server = grpc.aio.server(
        maximum_concurrent_rpcs=max_calls,
        options=[
            ("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.max_send_message_length", MOST_BYTES),
            ("grpc.so_reuseport", 0),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
            ("grpc.keepalive_permit_without_calls", 1),
        ],
    )
    served = _Served(models, called or {}, token, hide)
    server.add_generic_rpc_handlers((served.handlers(), _health()))
    return server


class _Served:
    def __init__(
        self,
        models: Mapping[Role, Model],
        called: Mapping[str, str],
        token: str | None,
        hide: Callable[[str], str],
    ) -> None:
        self._models = models
        self._called = called
        self._token = f"Bearer {token}".encode() if token else None
        self._hide = hide

    def handlers(self) -> grpc.GenericRpcHandler[Any, Any]:
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "ListModels": grpc.unary_unary_rpc_method_handler(
                    self._list,
                    request_deserializer=pb.ListModelsRequest.FromString,
                    response_serializer=_serialized,
                ),
                "Answer": grpc.unary_unary_rpc_method_handler(
                    self._answer,
                    request_deserializer=pb.AnswerRequest.FromString,
                    response_serializer=_serialized,
                ),
                "AnswerStream": grpc.unary_stream_rpc_method_handler(
                    self._stream,
                    request_deserializer=pb.AnswerRequest.FromString,
                    response_serializer=_serialized,
                ),
            },
        )

    async def _list(self, request: Any, context: Any) -> Any:
        await self._check(context)
        return pb.ListModelsResponse(models=names_of(self._models, self._called))

    async def _answer(self, message: Any, context: Any) -> Any:
        await self._check(context)
        model, request = await self._asked(message, context)
        try:
            return _response(await model.ask(request))
        except ModelUnavailable as error:
            await self._abort(context, error)

    async def _stream(self, message: Any, context: Any) -> AsyncIterator[Any]:
        await self._check(context)
        model, request = await self._asked(message, context)
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        answer = asyncio.ensure_future(model.ask(request, pieces.put_nowait))
        answer.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield pb.AnswerEvent(piece=piece)
            yield pb.AnswerEvent(answer=_response(answer.result()))
        except ModelUnavailable as error:
            await self._abort(context, error)
        finally:
            answer.cancel()  # whoever asked is gone, and what is not asked for any more is not paid for

    async def _asked(self, message: Any, context: Any) -> tuple[Model, ModelRequest]:
        left = context.time_remaining()
        try:
            schema = json.loads(message.json_schema or b"{}")
            if message.role not in ROLES:
                raise ValueError(f"{message.role!r} is no role; there are: {', '.join(ROLES)}")
            if not isinstance(schema, dict) or not message.schema_name or not message.turns:
                raise ValueError("a request has a schema_name, a json_schema and turns")
            request = ModelRequest(
                role=message.role,
                schema_name=message.schema_name,
                json_schema=schema,
                instructions=message.instructions,
                turns=tuple(Turn(role=turn.role, text=turn.text) for turn in message.turns),
                temperature=message.temperature if message.HasField("temperature") else None,
                max_tokens=message.max_tokens if message.HasField("max_tokens") else None,
                timeout_secs=None if left is None or left > 1e8 else max(left, 0.001),
            )
        except (ValueError, ValidationError) as error:
            await context.abort(_CODE.INVALID_ARGUMENT, f"this is no request: {error}"[:500])
            raise AssertionError from error  # abort raises
        model = self._models[request.role]
        names = {each.name: each for each in (model, *(self._models[role] for role in ROLES))}
        for role in (*ROLES, request.role):
            if name := self._called.get(role):
                names[name] = names[name_at(name)] = self._models[role]
        if message.model and message.model not in names:
            there = ", ".join(names_of(self._models, self._called))
            await context.abort(_CODE.NOT_FOUND, f"no model {message.model!r}; there are: {there}"[:500])
        return names.get(message.model, model), request

    async def _check(self, context: Any) -> None:
        metadata = dict(context.invocation_metadata() or ())
        given = str(metadata.get("authorization", "")).encode()
        if self._token is not None and not hmac.compare_digest(given, self._token):
            await context.abort(
                _CODE.UNAUTHENTICATED,
                "the service asks for a bearer token, and the one given is missing or wrong",
            )

    async def _abort(self, context: Any, error: ModelUnavailable) -> None:
        code, fault = code_and_fault(error)
        fault.message = self._hide(fault.message)
        await context.abort(
            code, fault.message[:500], trailing_metadata=((FAULT_METADATA, fault.SerializeToString()),)
        )


def names_of(models: Mapping[Role, Model], called: Mapping[str, str]) -> list[str]:
    """The names by which the models are listed, which say nothing of where they are: that may change."""
    return list(dict.fromkeys(called.get(role) or models[role].name for role in ROLES))


def _response(reply: ModelReply) -> Any:
    if reply.cut:  # the protocol has no word for it, and an answer is believed
        raise ModelUnavailable(
            f"the answer of {reply.model} was cut off before it was whole, at a limit of output tokens"
        )
    used = reply.usage
    usage = pb.Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cached_tokens,
        cost_usd=used.cost_usd,
    )
    return pb.AnswerResponse(
        text=reply.text.encode("utf-8", "replace").decode(), model=reply.model, usage=usage
    )


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def _health() -> grpc.GenericRpcHandler[Any, Any]:
    async def check(request: bytes, context: Any) -> bytes:
        if request[2:].decode("utf-8", "replace") not in ("", SERVICE):
            await context.abort(_CODE.NOT_FOUND, "there is no such service")
        return _SERVING

    return grpc.method_handlers_generic_handler(HEALTH, {"Check": grpc.unary_unary_rpc_method_handler(check)})


async def serve(
    server: grpc.aio.Server,
    *,
    host: str,
    port: int,
    tls: tuple[bytes, bytes] | None,
    ready: Callable[[str], None],
    until: asyncio.Event,
    grace_secs: float,
) -> None:
    """Listen until `until` is set. `tls`: a chain of certificates and its key, in PEM form."""
    shown = f"[{host}]" if ":" in host else host
    address = f"{shown}:{port}"
    try:
        if tls is None:
            bound = server.add_insecure_port(address)
        else:
            chain, key = tls
            bound = server.add_secure_port(address, grpc.ssl_server_credentials([(key, chain)]))
    except RuntimeError as error:
        raise ReplanError(f"cannot listen at {address}: {error}") from error
    await server.start()
    ready(f"{'grpc' if tls is None else 'grpcs'}://{shown}:{bound}")
    try:
        await until.wait()
    finally:
        await server.stop(grace_secs)
