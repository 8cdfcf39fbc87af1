"""Requests over HTTP: sent through the guarded client, redirects followed for reading only, answers within limits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin

from replan.core.failures.transport import happened_after
from replan.core.secrets import KnownSecrets
from replan.errors import ToolCallError
from replan.ports import KeptOutput, ToolCall
from replan.tools.bounds import FILE_BYTES
from replan.tools.openapi.answers import MAX_ERROR_BYTES, failure, is_textual
from replan.tools.openapi.bodies import bare, is_json
from replan.tools.openapi.pages import origin
from replan.tools.openapi.security import Credentials, with_query
from replan.tools.openapi.tokens import ClientTokens
from replan.tools.openapi.uploads import Upload

if TYPE_CHECKING:
    import httpx2

_MOST_REDIRECTS = 5
_SAFE_ANYWHERE = frozenset(("accept", "accept-encoding", "user-agent", "traceparent"))
"""Headers that go along to another origin."""
_CONDITIONS = frozenset(("if-none-match", "if-modified-since"))


class Request(NamedTuple):
    """What is to be sent, before credentials are put into it."""

    method: str
    url: str
    headers: Mapping[str, str]
    cookie: str = ""
    content: bytes | Upload | None = None


class Answer(NamedTuple):
    """A successful answer. `url`: where it came from, without credentials."""

    status: int
    headers: httpx2.Headers
    data: bytes
    url: str
    file: KeptOutput | None = None
    """The body, where it is large and no JSON: it is stored already."""
    broken: ToolCallError | None = None
    """Why its body could not be had."""

    @property
    def is_created(self) -> bool:
        """It says by its status alone that what was asked for was made, whatever its body is."""
        return self.status == _CREATED


_CREATED = 201


class Sender:
    """Sends requests for one call, and remembers whether anything went out."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        *,
        title: str,
        tool_id: str,
        credentials: Credentials,
        tokens: Sequence[ClientTokens],
        static: Mapping[str, str],
        secrets: KnownSecrets,
        limit: int,
        call: ToolCall,
        most_file_bytes: int = 0,
        only_json: bool = True,
    ) -> None:
        self._client = client
        self._title = title
        self._tool_id = tool_id
        self._credentials = credentials
        self._tokens = tokens
        self._static = static
        self._secrets = secrets
        self._limit = limit
        self._keep = None if only_json else call.keep
        self._open = call.open
        self._most_file_bytes = most_file_bytes
        self._bearers: list[str] = []
        self.sent = False
        """Something of the call has left: from here on nobody knows whether it takes effect."""

    @property
    def happened(self) -> str:
        return "unknown" if self.sent else "no"

    async def send(self, request: Request) -> Answer:
        """The answer with a status below 300. Raises `ToolCallError`."""
        if self._tokens:
            self._bearers = [await each.token() for each in self._tokens]
        answer = await self._follow(request)
        if answer.status == 401 and self._tokens:  # expired before its time, or taken back: once more
            self._bearers = [
                await each.token(not_this=old) for each, old in zip(self._tokens, self._bearers, strict=True)
            ]
            self.sent = False  # nothing was done without a valid one
            answer = await self._follow(request)
        if answer.status >= 400:
            raise failure(
                answer.status,
                answer.headers,
                answer.data,
                title=self._title,
                secrets=self._secrets,
                now=time.time(),
            )
        return answer

    async def _follow(self, request: Request) -> Answer:
        home, url, effect_done = origin(request.url), request.url, False
        for _ in range(_MOST_REDIRECTS + 1):
            answer = await self._once(request._replace(url=url), home)
            target = answer.headers.get("location")
            if answer.status == 304 and not self._asks_for_news(request):
                text = f"{self._title}: answered 304 (not modified), though the {request.method} set no condition"
                raise ToolCallError(text, kind="output", happened=self.happened)
            if answer.status == 304 or answer.status < 300 or answer.status >= 400 or target is None:
                if 300 <= answer.status < 400 and answer.status != 304:
                    text = f"{self._title}: answered {answer.status} without saying where to go"
                    raise ToolCallError(text, kind="output", happened=self.happened)
                if effect_done and answer.status >= 400:
                    text = f"{self._title}: it was done, but its answer at another place could not be read ({answer.status})"
                    raise ToolCallError(text, kind="output", happened="unknown")
                return answer
            if request.method not in ("GET", "HEAD"):
                if answer.status != 303:
                    raise self._not_followed(answer.status)
                # "See other": the request was taken, and its answer is read there (RFC 9110 §15.4.4).
                request, effect_done = Request("GET", request.url, request.headers, request.cookie), True
            try:
                url = urljoin(url, target).partition("#")[0]
                origin(url)
            except ValueError as error:
                text = f"{self._title}: the answer redirects to what is not an address: {error}"
                raise ToolCallError(text, kind="output", happened=self.happened) from None
        text = f"{self._title}: redirected more than {_MOST_REDIRECTS} times"
        raise ToolCallError(text, kind="output", happened=self.happened)

    def _asks_for_news(self, request: Request) -> bool:
        """It asks for what has changed only, so that "it has not" is an answer."""
        sent = {name.lower() for name in (*request.headers, *self._static)}
        return request.method in ("GET", "HEAD") and not _CONDITIONS.isdisjoint(sent)

    def _not_followed(self, status: int) -> ToolCallError:
        return ToolCallError(
            f"{self._title}: the server redirects ({status}), which is followed for GET only; "
            "set server to the address that it redirects to",
            kind="http",
            happened=happened_after(status),
            status=status,
        )

    async def _once(self, request: Request, home: tuple[str, str, int | None]) -> Answer:
        import httpx2

        try:
            made = self._made(request, home)
        except (httpx2.InvalidURL, ValueError) as error:
            kind = "output" if self.sent else "parameter"  # sent: the answer has led there
            raise ToolCallError(f"{self._title}: {error}", kind=kind, happened=self.happened) from None
        away = origin(request.url) != home
        try:
            response = await self._client.send(made, stream=True)
            broken, file = None, None
            try:
                self.sent = True
                if response.status_code >= 400:
                    data = await _head_of(response, MAX_ERROR_BYTES)
                elif 300 <= response.status_code < 400:
                    data = b""
                elif response.status_code == _CREATED:
                    data, file, broken = await self._of_created(response)
                else:
                    data, file = await self._body(response)
            finally:
                await response.aclose()
        except ToolCallError as error:
            if away and error.kind == "parameter":
                text = f"{self._title}: the answer redirects to a place that is refused: {error}"
                raise ToolCallError(text, kind="parameter", happened=self.happened) from None
            raise
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise self._failed("refused", error, "cannot be reached") from None
        except httpx2.TimeoutException as error:
            raise self._failed("timeout", error, "gave no answer in time") from None
        except httpx2.HTTPError as error:
            raise self._failed("connection_lost", error, "broke off") from None
        return Answer(response.status_code, response.headers, data, request.url, file, broken)

    async def _body(self, response: httpx2.Response) -> tuple[bytes, KeptOutput | None]:
        """The body of a success: its bytes, or the file that it is stored as."""
        from replan.tools.network.body import Body, read_limited

        kind = bare(response.headers.get("content-type", ""))
        if self._keep is None or response.request.method == "HEAD" or is_json(kind):
            return await read_limited(response, self._limit, self._tool_id), None
        body = Body(response, self._tool_id)
        if await body.take(min(FILE_BYTES, self._limit)):
            return await body.data(), None
        is_text = is_textual(kind) if kind else body.is_text()
        if is_text and await body.take(self._limit):
            return await body.data(), None
        async with contextlib.aclosing(body.pieces(self._most_file_bytes)) as pieces:
            return b"", await self._keep(pieces, kind or "application/octet-stream")

    async def _of_created(
        self, response: httpx2.Response
    ) -> tuple[bytes, KeptOutput | None, ToolCallError | None]:
        """The body of an answer that has said already that the call took effect; or why it cannot be had."""
        import httpx2

        try:
            return *(await self._body(response)), None
        except ToolCallError as error:
            return b"", None, error
        except httpx2.HTTPError as error:
            return b"", None, self._failed("output", error, "broke off")

    def _failed(self, kind: str, error: Exception, what: str) -> ToolCallError:
        said = str(error) or type(error).__name__
        said = self._secrets.hide(said)
        return ToolCallError(f"{self._title}: the server {what}: {said}", kind=kind, happened=self.happened)

    def unforeseen(self, error: Exception) -> ToolCallError:
        """For an error that nobody thought of: it must not be taken for the service's word that nothing was done."""
        return self._failed("output", error, f"could not be asked, or understood ({type(error).__name__})")

    def _made(self, request: Request, home: tuple[str, str, int | None]) -> httpx2.Request:
        """The request with credentials, which only the server of the operation gets."""
        import httpx2

        headers, url = dict(request.headers), request.url
        if origin(url) == home:
            own = {**self._static, **self._credentials.headers}
            for bearer in self._bearers:
                own["Authorization"] = f"Bearer {bearer}"
            taken = {name.lower() for name in own}
            headers = {name: text for name, text in headers.items() if name.lower() not in taken} | own
            cookies = [request.cookie, *(f"{key}={text}" for key, text in self._credentials.cookies)]
            if any(cookies):
                headers["Cookie"] = "; ".join(each for each in cookies if each)
            if self._credentials.query:
                path, _, query = url.partition("?")
                url = f"{path}?{with_query(query, self._credentials.query)}"
        else:
            headers = {key: text for key, text in headers.items() if key.lower() in _SAFE_ANYWHERE}
        content: bytes | AsyncIterator[bytes] | None = None
        if isinstance(request.content, Upload):
            assert self._open is not None  # who knows files can open them
            content, headers["Content-Length"] = (
                request.content.pieces(self._open),
                str(request.content.size),
            )
        else:
            content = request.content
        encoded = [(key.encode("ascii"), text.encode("utf-8")) for key, text in headers.items()]
        return httpx2.Request(
            request.method,
            httpx2.URL(url),
            headers=encoded,
            content=content,
            extensions={
                "trace": self._trace(),
                "timeout": {"connect": 10.0, "read": None, "write": None, "pool": None},
            },
        )

    def _trace(self) -> Callable[[str, Any], Awaitable[None]]:
        async def trace(event: str, info: Any) -> None:
            if event.endswith("send_request_headers.started"):
                self.sent = True

        return trace


async def _head_of(response: httpx2.Response, most: int) -> bytes:
    """The first bytes of an error's body, as far as they come: the status says more than they do."""
    import httpx2

    data = bytearray()
    with contextlib.suppress(httpx2.HTTPError):
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) >= most:
                break
    return bytes(data[:most])
