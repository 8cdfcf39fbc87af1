"""Whether a model service is right: the rules of the protocol, each tried on it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc
import grpc.aio

from replan.core.data.answers import form_of
from replan.errors import InputError
from replan.llm.grpc.client import not_connected, trusted
from replan.llm.grpc.wire import HEALTH, MOST_BYTES, SERVICE, pb

_CODE = grpc.StatusCode
_SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
_SECS = 120.0


class Found(NamedTuple):
    """One rule. `reason`: why it is broken."""

    rule: str
    verdict: str
    reason: str = ""


class Broken(Exception):
    """A rule is not kept."""


async def check(
    url: str, token: str | None = None, model: str = "", ca_file: Path | None = None
) -> list[Found]:
    """Each rule in its turn; `model`: the one that is asked, empty for the service's own choice. `ca_file`: whose certificates count.

    `InputError` where the service cannot be reached: then nothing is known of its rules.
    """
    parts = urlsplit(url)
    options = [("grpc.max_receive_message_length", MOST_BYTES), ("grpc.enable_retries", 0)]
    made = (
        grpc.aio.secure_channel(parts.netloc, trusted(ca_file), options=options)
        if parts.scheme == "grpcs"
        else grpc.aio.insecure_channel(parts.netloc, options=options)
    )
    async with made as channel:
        if why := await not_connected(channel, tls=parts.scheme == "grpcs"):
            raise InputError(f"{url} cannot be checked: {why}")
        suite = _Suite(channel, token, model)
        return [await _tried(rule, trial) for rule, trial in suite.rules() if token or "token" not in rule]


async def _tried(rule: str, trial: Callable[[], Awaitable[None]]) -> Found:
    try:
        await trial()
    except Broken as error:
        return Found(rule, "broken", str(error))
    except grpc.aio.AioRpcError as error:
        return Found(rule, "broken", f"{error.code().name}: {(error.details() or '')[:300]}")
    return Found(rule, "kept")


class _Suite:
    def __init__(self, channel: grpc.aio.Channel, token: str | None, model: str) -> None:
        self._channel = channel
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._model = model

    def rules(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        return [
            ("health is told without a token", self._healthy),
            ("models are listed", self._lists),
            ("an answer is one JSON object", self._answers),
            ("the pieces of a stream are its answer", self._streams),
            ("a model that is not there is NOT_FOUND", self._unknown_model),
            ("a schema that is no JSON is INVALID_ARGUMENT", self._no_schema),
            ("a wrong token is UNAUTHENTICATED", self._wrong_token),
        ]

    def _request(self, **changes: Any) -> Any:
        fields: dict[str, Any] = {
            "model": self._model,
            "role": "planning",
            "schema_name": "execution_plan",
            "json_schema": json.dumps(_SCHEMA).encode(),
            "instructions": "Answer with one JSON object: the capital of the country that is named.",
            "turns": [pb.Turn(role="user", text="Italy")],
        }
        return pb.AnswerRequest(**fields | changes)

    async def _ask(self, request: Any, *, secs: float = _SECS, metadata: Any = None) -> Any:
        ask = self._channel.unary_unary(
            f"/{SERVICE}/Answer",
            request_serializer=pb.AnswerRequest.SerializeToString,
            response_deserializer=pb.AnswerResponse.FromString,
        )
        return await ask(request, timeout=secs, metadata=self._metadata if metadata is None else metadata)

    async def _healthy(self) -> None:
        ask = self._channel.unary_unary(
            f"/{HEALTH}/Check", request_serializer=None, response_deserializer=None
        )
        if await ask(b"", timeout=_SECS) != b"\x08\x01":
            raise Broken("it does not say SERVING")

    async def _lists(self) -> None:
        ask = self._channel.unary_unary(
            f"/{SERVICE}/ListModels",
            request_serializer=pb.ListModelsRequest.SerializeToString,
            response_deserializer=pb.ListModelsResponse.FromString,
        )
        listed = await ask(pb.ListModelsRequest(), timeout=_SECS, metadata=self._metadata)
        if not listed.models or not all(listed.models):
            raise Broken("it lists none")

    async def _answers(self) -> None:
        answer = await self._ask(self._request())
        if form_of(answer.text, ("city",)) != "good":
            raise Broken(f"its answer is {answer.text[:200]!r}")
        if answer.usage.cached_tokens > answer.usage.input_tokens:
            raise Broken("it says that it has read more from its cache than it was asked")

    async def _streams(self) -> None:
        ask = self._channel.unary_stream(
            f"/{SERVICE}/AnswerStream",
            request_serializer=pb.AnswerRequest.SerializeToString,
            response_deserializer=pb.AnswerEvent.FromString,
        )
        pieces: list[str] = []
        answers: list[str] = []
        async for event in ask(self._request(), timeout=_SECS, metadata=self._metadata):
            if answers:
                raise Broken("something comes after the answer")
            if event.WhichOneof("event") == "answer":
                answers.append(event.answer.text)
            else:
                pieces.append(event.piece)
        if not answers:
            raise Broken("the stream ends without an answer")
        if pieces and "".join(pieces) != answers[0]:
            raise Broken(f"the pieces say {''.join(pieces)[:100]!r}, the answer {answers[0][:100]!r}")

    async def _unknown_model(self) -> None:
        await self._refused(_CODE.NOT_FOUND, self._request(model="no-such-model-here"))

    async def _no_schema(self) -> None:
        await self._refused(_CODE.INVALID_ARGUMENT, self._request(json_schema=b"{of course"))

    async def _wrong_token(self) -> None:
        await self._refused(
            _CODE.UNAUTHENTICATED, self._request(), metadata=(("authorization", "Bearer no"),)
        )

    async def _refused(self, code: grpc.StatusCode, request: Any, **how: Any) -> None:
        try:
            await self._ask(request, **how)
        except grpc.aio.AioRpcError as error:
            if error.code() is not code:
                raise Broken(f"it is {error.code().name}, not {code.name}") from error
        else:
            raise Broken(f"it is answered, not {code.name}")
