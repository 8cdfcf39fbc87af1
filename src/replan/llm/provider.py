"""Models behind the providers of pydantic-ai, or behind any OpenAI-compatible address."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from replan.beside import beside
from replan.core.data.answers import Form, form_of
from replan.core.data.pieces import ANSWER_AT_ONCE
from replan.core.limits.prices import Price
from replan.core.secrets import url_without_secrets
from replan.core.types import Usage
from replan.errors import ModelUnavailable
from replan.llm import address, faults, forms
from replan.llm.coming import MOST_TOKENS, asked_for
from replan.llm.completions import is_unclosed
from replan.llm.faults import EndpointError
from replan.llm.ladder import Ladder, Mode, Way
from replan.llm.pace import Limit, pace_of
from replan.llm.providers import opening
from replan.llm.providers.configured import Provider, Providers, asked_by
from replan.llm.relay import Relay
from replan.llm.retry import RetryingModel
from replan.llm.used import counted, prompt_was_cut
from replan.ports import ModelReply, ModelRequest, Watcher

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model as LibraryModel

Style = Literal["standard", "small"]


Thinking = Literal["off", "on", "minimal", "low", "medium", "high", "max"]
_THINKING: dict[str | None, bool] = {"off": False, "on": True}


@dataclass(frozen=True)
class Sampling:
    """What is sent with each request unless the request says otherwise; None is not sent."""

    temperature: float | None = None
    top_p: float | None = None


def open_model(
    name: str = "",
    *,
    endpoint: str | None = None,
    api_key: str | None = None,
    timeout_secs: float | None = 60.0,
    max_retries: int = 3,
    temperature: float | None = None,
    top_p: float | None = None,
    streaming: bool = True,
    mode: Mode | None = None,
    style: Style = "standard",
    prices: Mapping[str, Price] | None = None,
    providers: Providers | None = None,
    limits: Mapping[str, Limit] | None = None,
    thinking: Thinking | None = None,
    prompt_caching: bool = True,
    ca_file: Path | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> RetryingModel:
    """A model by `provider:model`, or by the address of an OpenAI-compatible endpoint.

    With `endpoint`, `name` is the model's name there; empty: the only one that it serves. `timeout_secs` limits
    one request with all its retries. `mode` sets the first way of asking for structure; None: the strongest.
    `prices` and `limits` by model; `*` is for those that are not named. `providers` by what stands before the colon.
    Of a service over gRPC (`grpc://host:port`) the name may be empty: its own choice.
    Raises `ModelUnavailable` (exit code 2) for a missing package, key or provider, `ConfigError` for a bad name.
    """
    if endpoint is not None and address.is_grpc(endpoint):
        over_grpc = opening.of_grpc(
            name, endpoint, api_key=api_key, temperature=temperature, top_p=top_p, streaming=streaming, style=style,
            prices=prices, limits=limits, ca_file=ca_file,
        )  # fmt: skip
        return RetryingModel(over_grpc, max_retries=max_retries, timeout_secs=timeout_secs, sleep=sleep)
    model = ProviderModel(
        name,
        endpoint=endpoint,
        api_key=api_key,
        sampling=Sampling(temperature, top_p),
        streaming=streaming,
        mode=mode,
        style=style,
        prices=prices,
        providers=providers,
        limits=limits,
        thinking=thinking,
        prompt_caching=prompt_caching,
    )
    return RetryingModel(model, max_retries=max_retries, timeout_secs=timeout_secs, sleep=sleep)


class ProviderModel:
    """One model of one provider or endpoint. Asks in one way after the other (`llm.ladder`); `RetryingModel` tries again.

    What was learnt of the ways holds for as long as the adapter lives.
    """

    def __init__(
        self,
        name: str,
        *,
        endpoint: str | None = None,
        api_key: str | None = None,
        sampling: Sampling | None = None,
        streaming: bool = True,
        mode: Mode | None = None,
        style: Style = "standard",
        prices: Mapping[str, Price] | None = None,
        providers: Providers | None = None,
        limits: Mapping[str, Limit] | None = None,
        thinking: Thinking | None = None,
        prompt_caching: bool = True,
    ) -> None:
        opening.require_library()
        self.style: Style = style
        given, provider = name, Provider()
        if endpoint is None:
            asked = asked_by(name, providers or {}, api_key)
            name, provider, endpoint, api_key = asked.name, asked.provider, asked.endpoint, asked.api_key
        self._api_key = api_key
        self._sampling = sampling or Sampling()
        self._thinking = thinking
        self._caching = prompt_caching
        self._url = None if endpoint is None else address.base_url(endpoint)
        self._given = given
        self._name = address.name_at(name) if self._url else name
        self._shown = "" if self._url is None else url_without_secrets(self._url)
        self.name = self._full_name()
        self._prices = prices or {}
        self._library: LibraryModel | None = None
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        if self._url is None:
            # Built at once, so that a missing key or package is told before any work is done.
            self._library = opening.of_provider(name, api_key, provider)
        streaming = streaming and provider.streaming is not False
        self._ladder = Ladder(mode or provider.structured or self._strongest(), streaming=streaming)
        limit = (
            next((limits[one] for one in (given, self._name, "*") if one in limits), None) if limits else None
        )
        self.pace = pace_of(
            self._url or provider.endpoint or name.partition(":")[0], self._name, api_key, limit
        )

    def price(self) -> Price | None:
        """What the configuration says of this model, else what the library knows."""
        if (configured := self._configured_price()) is not None:
            return configured
        return None if self._library is None else forms.listed_price(self._library)

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        library = await self._ready()
        watcher: Watcher | None = request.watcher
        relay = None if on_text is None else Relay(on_text)
        fields = tuple(request.json_schema.get("properties", ()))
        climb = self._ladder.climb(
            request.schema_name,
            fields,
            streamed=relay is not None,
            bounded=_room(request) is not None,
            unread=request.unread,
        )
        because = ""
        while True:
            way = climb.way
            if relay is not None:
                relay.begin()
            turn = await self.pace.turn(request.tokens)
            if watcher is not None:
                watcher.sending(because)
            try:
                response = await self._once(library, request, way, relay if way.streamed else None)
            except EndpointError as error:
                because = str(error)
                if not climb.failed(error):
                    if error.transient and error.retry_after is not None:
                        self.pace.leave_alone(error.retry_after)
                    raise await self._with_advice(error) from error.__cause__
                continue
            text = forms.text_of(response, fields)
            usage = self._used(request, response, text)
            self.pace.used(turn, usage.input_tokens + usage.output_tokens)
            if (withheld := forms.withheld(response)) is not None:
                if watcher is not None:
                    watcher.used(usage)
                raise EndpointError(f"{self._where()} {withheld}")
            form = await _form_of(text, fields)
            cut = await _is_cut(text, response.finish_reason, at_address=self._url is not None)
            if cut and watcher is not None:
                left = _room(request) if way.bounded else None
                watcher.tell(
                    f"{self.name} stopped at its limit of output tokens before its answer was whole: "
                    + ("allow it more there" if left is None else f"the task's limits leave it {left:,}"),
                    once=True,
                )
            if not climb.answered(text, form, cut=cut):
                break
            if watcher is not None:
                watcher.used(usage)
            because = "there was no answer in the form that was asked for"
        if not text.strip() and await _form_of(thoughts := forms.thoughts_of(response), fields) == "good":
            text = thoughts  # no way of asking has brought more
        if relay is not None and not way.streamed and text:
            relay(text)
        return ModelReply(
            text=text,
            model=response.model_name or self.name,
            usage=usage,
            endpoint=self.name,
            other_ways=climb.other_ways,
            cut=cut,
            read_in_part=prompt_was_cut(forms.usage_of(response), request),
            could_be_read=climb.could_be_read,
        )

    async def aclose(self) -> None:
        library, client, loop = self._library, self._client, self._loop
        self._client = self._loop = None
        if self._url is not None:
            self._library = None
        if loop is not None and loop is not asyncio.get_running_loop():
            return  # its connections went with their loop
        if client is not None:
            await client.aclose()
        elif library is not None and loop is not None:
            await library.__aexit__(None, None, None)

    async def _ready(self) -> LibraryModel:
        loop = asyncio.get_running_loop()
        if self._url is not None and (self._library is None or self._loop is not loop):
            if self._client is None or self._loop is not loop:
                self._client = address.new_client(self._url)
                self._loop = loop
            key = address.key_for(self._url, self._api_key)
            if not self._name:
                self._name = await self._only_model(self._url, key)
                self.name = self._full_name()
            self._library = opening.of_endpoint(self._name, self._url, key, self._client)
        assert self._library is not None
        if self._loop is not loop:
            self._loop = loop
            await self._library.__aenter__()
        return self._library

    def _full_name(self) -> str:
        if self._url is None:
            return self._name
        host = urlsplit(self._shown).netloc
        return f"{self._name}@{host}" if self._name else host

    async def _only_model(self, url: str, key: str) -> str:
        names = await address.served_models(self._client, url, key)
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        raise ModelUnavailable(
            f"{self._shown} serves {len(names)} models; name one with --model or [llm] default_model: {shown}",
            setup=True,
        )

    def _configured_price(self) -> Price | None:
        named = (name for name in (self._given, self._name, "*") if name in self._prices)
        return next((self._prices[name] for name in named), None)

    def _strongest(self) -> Mode:
        """The strongest mode that the library knows the model to have; of an endpoint it knows nothing."""
        profile: Any = None if self._library is None else self._library.profile
        if profile is None or (
            profile.get("supports_json_schema_output", False) and not opening.only_strict(self._library)
        ):
            return "native"
        return "tool" if profile.get("supports_tools", True) else "prompted"

    async def _once(
        self, library: LibraryModel, request: ModelRequest, way: Way, on_text: Callable[[str], None] | None
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request, model_request_stream

        messages, parameters = forms.messages(request, way), forms.parameters(request, way.mode)
        settings = self._settings(request, way)
        begun = told = False
        with asked_for(request.watcher) as coming:
            try:
                if on_text is None:
                    response = await model_request(
                        library, messages, model_settings=settings, model_request_parameters=parameters
                    )
                    return forms.with_texts(response, coming.whole)
                async with model_request_stream(
                    library, messages, model_settings=settings, model_request_parameters=parameters
                ) as stream:
                    begun = True
                    async for event in stream:
                        if self._url is None and (said := forms.said_by(event)):
                            coming.said(said)  # else the transport tells, which hears more
                        if piece := forms.piece_of(event):
                            told = True
                            on_text(piece)
                    found = stream.get()
                    return replace(found, finish_reason=None) if coming.without_reason else found
            except (
                Exception
            ) as error:  # libraries raise what they like about an answer that they did not expect
                if coming.forbidden is not None:
                    raise coming.forbidden from None
                explained = faults.explained(
                    error, self._where(), at_address=self._url is not None, key=self._key_advice()
                )
                # An error of the server in the middle of a stream: what had come is lost, as with a connection.
                explained.lost = explained.lost or (told and (explained.status or 0) >= 500)
                explained.in_stream = (
                    on_text is not None
                    and (explained.status is None or explained.lost)
                    and (begun or not explained.lost)
                    and not (explained.setup or explained.endless)
                )
                raise explained from error

    def _settings(self, request: ModelRequest, way: Way) -> Any:
        temperature = self._sampling.temperature if request.temperature is None else request.temperature
        # Who is told to think takes no sampling, nor do those that think by themselves.
        sampled = (
            way.sampled and self._thinking in (None, "off") and opening.takes_sampling(self._known_library())
        )
        wanted = {
            "max_retries": 0,  # the library's own layer would retry below ours
            "temperature": temperature if sampled else None,
            "top_p": self._sampling.top_p if sampled else None,
            "max_tokens": min(
                _set(request.max_tokens, _room(request) if way.bounded else None), default=None
            ),
            "request_timeout": request.timeout_secs,
            "thinking": _THINKING.get(self._thinking, self._thinking),
            **opening.caching(self._known_library(), wanted=self._caching),
        }
        ignored = opening.ignored_by(self._known_library())
        return {key: value for key, value in wanted.items() if value is not None and key not in ignored}

    def _known_library(self) -> LibraryModel | None:
        """The library's model where it knows the model by name; of one at an endpoint a name says nothing."""
        return self._library if self._url is None else None

    def _used(self, request: ModelRequest, response: ModelResponse, text: str) -> Usage:
        """What the endpoint says was used; estimated where it says nothing, or what cannot be."""
        told, price = forms.usage_of(response), self._configured_price()
        usage, because = counted(told, request, dict.fromkeys((text, forms.thoughts_of(response))))
        if because or not told.cost_usd:
            price = self.price()
        if request.watcher is not None and prompt_was_cut(told, request):
            request.watcher.tell(
                f"{self.name} counts {told.input_tokens:,} tokens of a prompt of about {request.tokens:,}: it has probably cut it, and has "
                "not read all of it; give it a longer context there (Ollama: num_ctx)",
                once=True,
            )
        if because and request.watcher is not None:
            does = (
                "does not say how many tokens it uses"
                if because == "untold"
                else "says that it uses so many tokens as cannot be"
            )
            request.watcher.tell(
                f"{self.name} {does}: they are estimated by the length of the texts", once=True
            )
        return usage if price is None else usage.model_copy(update={"cost_usd": price.of(usage)})

    def _where(self) -> str:
        return f"{self._shown} (model {self._name!r})" if self._url else f"model {self._name!r}"

    def _key_advice(self) -> str:
        if self._url is None:
            provider = self._name.partition(":")[0]
            return f"check the key of the provider {provider!r} in the environment, or [llm] api_key"
        return "set [llm] api_key, or APP_LLM_API_KEY in the environment"

    async def _with_advice(self, error: EndpointError) -> EndpointError:
        """A 404 of an endpoint, with what it serves instead."""
        if error.status != 404 or self._url is None:
            return error
        try:
            names = await address.served_models(
                self._client, self._url, address.key_for(self._url, self._api_key)
            )
        except EndpointError:
            slip = f"; is its base URL {self._shown}/v1?" if address.looks_unversioned(self._url) else ""
            return EndpointError(f"{error}{slip}", status=404, setup=True)
        near = difflib.get_close_matches(self._name, names, n=3) or names[:8]
        return EndpointError(f"{error}; it serves: {', '.join(near)}", status=404, setup=True)


def _set(*bounds: int | None) -> list[int]:
    return [one for one in bounds if one is not None]


def _room(request: ModelRequest) -> int | None:
    """What an answer may have by the limits of the task, where that is less than any answer may have."""
    room = request.watcher.room() if request.watcher is not None else None
    return room if room is not None and room < MOST_TOKENS else None


async def _is_cut(text: str, reason: str | None, *, at_address: bool) -> bool:
    """Whether the answer stopped before its end: the endpoint says so, and what has come is no whole JSON by itself; or it says nothing
    of an end, and no object of it is closed."""
    if reason == "length":
        is_cut = _is_no_json
    elif reason is None and at_address:
        is_cut = is_unclosed
    else:
        return False
    return is_cut(text) if len(text) <= ANSWER_AT_ONCE else await beside(is_cut, text)


def _is_no_json(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return True


async def _form_of(text: str, fields: Sequence[str]) -> Form:
    """`form_of`, beside the event loop where the text is long."""
    return form_of(text, fields) if len(text) <= ANSWER_AT_ONCE else await beside(form_of, text, fields)
