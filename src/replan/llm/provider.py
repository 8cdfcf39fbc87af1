"""Models behind the providers of pydantic-ai, or behind any OpenAI-compatible address."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from replan.errors import ModelUnavailable
from replan.llm import address, faults, forms, opening, structured
from replan.llm.faults import EndpointError
from replan.llm.retry import RetryingModel
from replan.ports import ModelReply, ModelRequest

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model as LibraryModel

Style = Literal["standard", "small"]


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
    mode: structured.Mode | None = None,
    style: Style = "standard",
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> RetryingModel:
    """A model by `provider:model`, or by the address of an OpenAI-compatible endpoint.

    With `endpoint`, `name` is the model's name there; empty: the only one that it serves. `timeout_secs` limits
    one request with all its retries. `mode` sets the first way of asking for structure; None: the strongest.
    Raises `ModelUnavailable` (exit code 2) for a missing package, key or provider, `ConfigError` for a bad name.
    """
    model = ProviderModel(
        name,
        endpoint=endpoint,
        api_key=api_key,
        sampling=Sampling(temperature, top_p),
        streaming=streaming,
        mode=mode,
        style=style,
    )
    return RetryingModel(model, max_retries=max_retries, timeout_secs=timeout_secs, sleep=sleep)


class ProviderModel:
    """One model of one provider or endpoint. Tries once; `RetryingModel` tries again.

    The way of asking for structure starts at the strongest and goes down when the endpoint refuses it or does
    not keep to it; what was learnt holds for as long as the adapter lives.
    """

    def __init__(
        self,
        name: str,
        *,
        endpoint: str | None = None,
        api_key: str | None = None,
        sampling: Sampling | None = None,
        streaming: bool = True,
        mode: structured.Mode | None = None,
        style: Style = "standard",
    ) -> None:
        opening.require_library()
        self.style: Style = style
        self._api_key = api_key
        self._sampling = sampling or Sampling()
        self._streaming = streaming
        self._url = None if endpoint is None else address.base_url(endpoint)
        self._name = re.sub(r"^openai(-chat)?:", "", name) if self._url else name
        self.name = self._full_name()
        self._mode: structured.Mode = mode or "native"
        self._by_schema: dict[str, structured.Mode] = {}
        self._chosen = mode is not None
        self._library: LibraryModel | None = None
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        if self._url is None:
            # Built at once, so that a missing key or package is told before any work is done.
            self._library = opening.of_provider(name, api_key)
            self._start_where_it_can()

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        library = await self._ready()
        while True:
            mode = max(
                self._mode, self._by_schema.get(request.schema_name, "native"), key=structured.MODES.index
            )
            stream = on_text is not None and self._streaming
            try:
                response = await self._once(library, request, mode, on_text if stream else None)
            except EndpointError as error:
                if not self._learn(error, request.schema_name, mode, stream):
                    raise await self._with_advice(error) from error.__cause__
                continue
            text = forms.text_of(response)
            if on_text is not None and not stream and text:
                on_text(text)
            if mode != "prompted" and text and not structured.looks_like_json(text):
                # It took the request and did not keep to it: ask in words from now on.
                self._mode = "prompted"
            return ModelReply(
                text=text, model=response.model_name or self.name, usage=forms.usage_of(response)
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
        host = urlsplit(self._url).netloc
        return f"{self._name}@{host}" if self._name else host

    async def _only_model(self, url: str, key: str) -> str:
        names = await address.served_models(self._client, url, key)
        if len(names) == 1:
            return names[0]
        shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        raise ModelUnavailable(
            f"{url} serves {len(names)} models; name one with --model or [llm] default_model: {shown}",
            setup=True,
        )

    def _start_where_it_can(self) -> None:
        if self._chosen or self._library is None:
            return
        profile: Any = self._library.profile
        if not profile.get("supports_json_schema_output", False):
            self._mode = "tool" if profile.get("supports_tools", True) else "prompted"

    async def _once(
        self,
        library: LibraryModel,
        request: ModelRequest,
        mode: structured.Mode,
        on_text: Callable[[str], None] | None,
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request, model_request_stream
        from pydantic_ai.exceptions import AgentRunError, UnexpectedModelBehavior, UserError

        messages, parameters = forms.messages(request, mode), forms.parameters(request, mode)
        settings = self._settings(request)
        try:
            if on_text is not None:
                try:
                    async with model_request_stream(
                        library, messages, model_settings=settings, model_request_parameters=parameters
                    ) as stream:
                        async for event in stream:
                            if piece := forms.piece_of(event):
                                on_text(piece)
                        return stream.get()
                except UnexpectedModelBehavior:
                    pass  # nothing usable came: asked whole, it says what is the matter
            return await model_request(
                library, messages, model_settings=settings, model_request_parameters=parameters
            )
        except (AgentRunError, UserError, OSError, ValueError) as error:
            raise self._explained(error) from error

    def _settings(self, request: ModelRequest) -> Any:
        temperature = self._sampling.temperature if request.temperature is None else request.temperature
        wanted = {
            "max_retries": 0,  # the library's own layer would retry below ours
            "temperature": temperature if self._sampling is not _NONE else None,
            "top_p": self._sampling.top_p,
            "max_tokens": request.max_tokens,
            "request_timeout": request.timeout_secs,
        }
        return {key: value for key, value in wanted.items() if value is not None}

    def _learn(self, error: EndpointError, schema_name: str, mode: structured.Mode, stream: bool) -> bool:
        """Whether the refusal taught another way to ask."""
        message = str(error.__cause__ or error)
        if stream and structured.refuses_streaming(error.status, message):
            self._streaming = False
            return True
        if self._sampling is not _NONE and structured.refuses_sampling(error.status, message):
            self._sampling = _NONE
            return True
        next_mode = structured.weaker(mode)
        if next_mode is None or not structured.refuses(mode, error.status, message):
            return False
        if structured.only_this_schema(message):
            self._by_schema[schema_name] = next_mode
        else:
            self._mode = next_mode
        return True

    def _explained(self, error: Exception) -> EndpointError:
        from pydantic_ai.exceptions import (
            ModelAPIError,
            ModelConnectionError,
            ModelHTTPError,
            ModelQuotaExceededError,
            ModelRequestTimeout,
        )

        where = f"{self._url} (model {self._name!r})" if self._url else f"model {self._name!r}"
        if isinstance(error, ModelHTTPError):
            return faults.of_status(
                where, error, quota=isinstance(error, ModelQuotaExceededError), key=self._key_advice()
            )
        if isinstance(error, ModelRequestTimeout):
            return EndpointError(f"{where} did not answer in time: {error}", transient=True)
        if isinstance(error, ModelConnectionError) or (isinstance(error, OSError) and not self._url):
            return EndpointError(faults.unreachable(where, error), transient=True)
        if isinstance(error, ModelAPIError):
            return EndpointError(f"{where} broke off its answer: {error}", transient=True)
        return EndpointError(
            f"{where} did not answer as a chat model does ({error}): is this the address of an OpenAI-compatible API?"
            if self._url
            else f"{where} gave an answer that cannot be read: {error}",
            transient=True,
        )

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
            slip = f"; is its base URL {self._url}/v1?" if address.looks_unversioned(self._url) else ""
            return EndpointError(f"{error}{slip}", status=404, setup=True)
        near = difflib.get_close_matches(self._name, names, n=3) or names[:8]
        return EndpointError(f"{error}; it serves: {', '.join(near)}", status=404, setup=True)


_NONE = Sampling()
