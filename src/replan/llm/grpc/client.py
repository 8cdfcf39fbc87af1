"""A model behind a service over gRPC."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import grpc
import grpc.aio

from replan.core.hosts import is_loopback
from replan.core.limits.prices import Price
from replan.core.types import Usage
from replan.errors import InputError
from replan.files import read_bounded
from replan.llm.coming import MOST_TOKENS, Coming, asked_for
from replan.llm.faults import Endless, EndpointError
from replan.llm.grpc.wire import MOST_BYTES, SERVICE, fault_of, pb
from replan.llm.pace import Limit, pace_of
from replan.llm.used import counted
from replan.ports import ModelReply, ModelRequest

_STATE = grpc.ChannelConnectivity
_CONNECT_SECS = 10.0
_REFUSED = "the connection was refused (one with TLS is asked as grpcs://)"
_REFUSED_TLS = (
    "the connection was refused or could not be secured; a certificate that the system does not trust needs the file of "
    "whoever has signed it: [llm] ca_file (APP_LLM_CA_FILE)"
)


class GrpcModel:
    """Asks once for each `ask`; `RetryingModel` around it tries again and sets the time limit.

    `url` is `grpc://host:port`, or `grpcs://` with TLS. What is cancelled here is cancelled there.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        api_key: str | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        streaming: bool = True,
        style: Literal["standard", "small"] = "standard",
        prices: Mapping[str, Price] | None = None,
        limits: Mapping[str, Limit] | None = None,
        ca_file: Path | None = None,
    ) -> None:
        self.style = style
        self._url = url
        self._credentials = trusted(ca_file) if url.startswith("grpcs:") else None
        self._model = name
        host = urlsplit(url).netloc
        self.name = f"{name}@{host}" if name else host
        self._metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._sampling = {"temperature": temperature, "top_p": top_p}
        self._streaming = streaming
        named = (name, "*")
        self._price = next((prices[one] for one in named if one in prices), None) if prices else None
        limit = next((limits[one] for one in named if one in limits), None) if limits else None
        self.pace = pace_of(url, name, api_key, limit)
        self._channel: grpc.aio.Channel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def price(self) -> Price | None:
        return self._price

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        turn = await self.pace.turn(request.tokens)
        if request.watcher is not None:
            request.watcher.sending("")
        with asked_for(request.watcher) as coming:
            try:
                channel = await self._connected()
                if on_text is None or not self._streaming:
                    answer = await self._whole(channel, request)
                    if on_text is not None:
                        on_text(answer.text)
                else:
                    answer = await self._streamed(channel, request, on_text, coming)
            except grpc.aio.AioRpcError as error:
                fault = fault_of(self._where(), error)
                if fault.transient and fault.retry_after is not None:
                    self.pace.leave_alone(fault.retry_after)
                raise fault from error
            except grpc.aio.UsageError as error:
                raise self._lost("the channel was closed") from error
            except Endless as error:
                raise EndpointError(f"{self._where()} does not answer as a model does: {error}") from error
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                raise self._lost("the connection was closed") from error
        usage = self._used(answer, request)
        self.pace.used(turn, usage.input_tokens + usage.output_tokens)
        return ModelReply(text=answer.text, model=answer.model or self.name, usage=usage, endpoint=self.name)

    async def listed(self) -> list[str]:
        """The models that the service lists."""
        try:
            ask = (await self._connected()).unary_unary(
                f"/{SERVICE}/ListModels",
                request_serializer=pb.ListModelsRequest.SerializeToString,
                response_deserializer=bytes,
            )
            data = await ask(pb.ListModelsRequest(), metadata=self._metadata, timeout=_CONNECT_SECS)
            found = self._message(pb.ListModelsResponse, data)
        except grpc.aio.AioRpcError as error:
            raise fault_of(self._where(), error) from error
        return [str(name) for name in found.models]

    async def aclose(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None and self._loop is asyncio.get_running_loop():
            await channel.close(None)

    async def _whole(self, channel: grpc.aio.Channel, request: ModelRequest) -> Any:
        ask = channel.unary_unary(
            f"/{SERVICE}/Answer",
            request_serializer=pb.AnswerRequest.SerializeToString,
            response_deserializer=bytes,
        )
        data = await ask(self._asked(request), metadata=self._metadata, timeout=request.timeout_secs)
        return self._message(pb.AnswerResponse, data)

    async def _streamed(
        self,
        channel: grpc.aio.Channel,
        request: ModelRequest,
        on_text: Callable[[str], None],
        coming: Coming,
    ) -> Any:
        ask = channel.unary_stream(
            f"/{SERVICE}/AnswerStream",
            request_serializer=pb.AnswerRequest.SerializeToString,
            response_deserializer=bytes,
        )
        call = ask(self._asked(request), metadata=self._metadata, timeout=request.timeout_secs)
        try:
            async for data in call:
                event = self._message(pb.AnswerEvent, data)
                if event.WhichOneof("event") == "answer":
                    return event.answer
                coming.said(event.piece)
                on_text(event.piece)
        finally:
            call.cancel()
        raise self._lost("its stream ended before its answer")

    def _message(self, kind: Any, data: bytes) -> Any:
        """Read here, as the library gives nothing at all for bytes that are no message, and goes on."""
        try:
            return kind.FromString(data)
        except Exception as error:  # whatever the library makes of bytes that are no message
            text = f"{self._where()} answered with what is not a message of the protocol"
            raise EndpointError(text, transient=True) from error

    def _asked(self, request: ModelRequest) -> Any:
        room = request.watcher.room() if request.watcher is not None else None
        most = [one for one in (request.max_tokens, room) if one is not None and one < MOST_TOKENS]
        sampling = dict(self._sampling)
        if request.temperature is not None:
            sampling["temperature"] = request.temperature
        return pb.AnswerRequest(
            model=self._model,
            role=request.role,
            schema_name=request.schema_name,
            json_schema=json.dumps(request.json_schema, ensure_ascii=False).encode("utf-8", "replace"),
            instructions=_sendable(request.instructions),
            turns=[pb.Turn(role=turn.role, text=_sendable(turn.text)) for turn in request.turns],
            max_tokens=min(most, default=None),
            **sampling,
        )

    def _used(self, answer: Any, request: ModelRequest) -> Usage:
        told = Usage(
            llm_calls=1,
            input_tokens=max(answer.usage.input_tokens, 0),
            output_tokens=max(answer.usage.output_tokens, 0),
            cached_tokens=max(min(answer.usage.cached_tokens, answer.usage.input_tokens), 0),
        )
        usage, because = counted(told, request, [answer.text])
        if because and request.watcher is not None:
            request.watcher.tell(
                f"{self.name} does not say how many tokens it uses: they are estimated by the length of the texts",
                once=True,
            )
        if self._price is not None:
            return usage.model_copy(update={"cost_usd": self._price.of(usage)})
        cost = answer.usage.cost_usd
        return usage.model_copy(update={"cost_usd": cost}) if 0 <= cost < 1e6 else usage

    async def _connected(self) -> grpc.aio.Channel:
        """The channel once it is connected: a service that is not there is told at once, and not after the time of an answer."""
        loop = asyncio.get_running_loop()
        if self._channel is None or self._loop is not loop:
            self._channel, self._loop = self._open(), loop
        channel = self._channel
        if why := await not_connected(channel, tls=self._credentials is not None):
            self._channel = None
            with suppress(Exception):
                await channel.close(None)
            raise self._lost(why)
        return channel

    def _open(self) -> grpc.aio.Channel:
        parts = urlsplit(self._url)
        options = [
            ("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.max_send_message_length", MOST_BYTES),
            ("grpc.enable_retries", 0),  # what may be asked again is decided in one place
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0 if is_loopback(parts.hostname or "") else 1),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
        ]
        if self._credentials is not None:
            return grpc.aio.secure_channel(parts.netloc, self._credentials, options=options)
        return grpc.aio.insecure_channel(parts.netloc, options=options)

    def _lost(self, why: str) -> EndpointError:
        return EndpointError(f"{self._where()} cannot be reached: {why}", transient=True, lost=True)

    def _where(self) -> str:
        return f"{self._url} (model {self._model!r})" if self._model else self._url


async def not_connected(channel: grpc.aio.Channel, *, tls: bool) -> str:
    """Connect; why that does not go, empty once it is connected."""
    try:
        async with asyncio.timeout(_CONNECT_SECS):
            while (state := channel.get_state(try_to_connect=True)) is not _STATE.READY:
                if state in (_STATE.TRANSIENT_FAILURE, _STATE.SHUTDOWN):
                    return _REFUSED_TLS if tls else _REFUSED
                await channel.wait_for_state_change(state)
    except TimeoutError:
        return f"no connection within {_CONNECT_SECS:.0f} s"
    return ""


def trusted(ca_file: Path | None) -> grpc.ChannelCredentials:
    """Whose certificates count: those in the file, else the system's."""
    try:
        return grpc.ssl_channel_credentials(read_bounded(ca_file) if ca_file else None)
    except OSError as error:
        raise InputError(f"ca_file: {ca_file} cannot be read: {error}") from error


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
