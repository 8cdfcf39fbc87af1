"""Tools that make HTTP requests, to addresses that the rules allow."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, get_args

from pydantic import Field

from replan.core.failures.faults import retry_after_secs, text_of
from replan.core.failures.transport import happened_after, transport_kind
from replan.core.references.binary import data_url
from replan.core.secrets import secrets_of_headers
from replan.core.types import Effect
from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.tools.bounds import FILE_BYTES, MOST_FILE_BYTES, is_idempotency_key, too_large
from replan.tools.functions.context import current, time_left
from replan.tools.functions.decorator import tool
from replan.tools.functions.files import File
from replan.tools.kit.source import KitSource
from replan.tools.large_json import parsed, taken
from replan.tools.network.addresses import AddressRules
from replan.tools.network.body import Body, read_limited
from replan.tools.network.client import guarded_client

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 10_000_000
Method = Literal["GET", "HEAD", "PUT", "DELETE", "POST", "PATCH"]
METHODS: tuple[Method, ...] = get_args(Method)
_MOST_OF_AN_ERROR = 4_000
_KEPT = ("content-type", "last-modified", "etag", "link", "location", "content-length")

Url = Annotated[str, Field(min_length=1, max_length=8_000)]
Headers = dict[str, str]
_ACCEPT, _IF_MATCH = '{"Accept": "application/json"}', '{"If-Match": "…"}'


class Answer(TypedDict):
    """What came back: `json` if it is JSON, `text` if it is text, else `data_url`. What is large is a file in its place."""

    status: int
    url: str
    headers: dict[str, str]
    json: NotRequired[Any]
    text: NotRequired[str | File]
    data_url: NotRequired[str | File]


def http(
    rules: AddressRules | None = None,
    *,
    methods: Sequence[str] = ("GET", "HEAD"),
    headers: Mapping[str, str] | None = None,
    timeout_secs: float = 60.0,
    most_bytes: int = MOST_BYTES,
    most_file_bytes: int = MOST_FILE_BYTES,
    name: str = "http",
) -> KitSource:
    """Requests as tools, one for each of `methods`: `http_get` and so on.

    GET and HEAD read, and follow redirects; PUT and DELETE are repeatable (RFC 9110 §9.2.2), POST and PATCH once: these
    get the call's key as `Idempotency-Key`, which is also what a header of that name (or `X-Idempotency-Key`) holds that a
    model gives. `headers` go with every request, also where a redirect leads: no secrets
    there but `Authorization`, which only the first host gets. Only addresses that `rules` allow are reached. An answer of
    more than `most_bytes`, and one of a megabyte that is no text, is stored as a file (`replan.File`), up to `most_file_bytes`;
    outside of a task at most `most_bytes` are read. Raises `InputError` for an unknown method, or if httpx2 is missing.
    """
    wanted = [method.upper() for method in methods]
    unknown = [method for method in wanted if method not in METHODS]
    if unknown or not wanted:
        raise InputError(
            f"http: {', '.join(unknown) or 'nothing'} is not a method; there are {', '.join(METHODS)}"
        )
    requests = _Requests(
        rules or AddressRules(), dict(headers or {}), timeout_secs, most_bytes, most_file_bytes
    )
    requests.check()
    made = [_tool(requests, method, timeout_secs + 5) for method in METHODS if method in wanted]
    return KitSource(made, name=name, close=requests.aclose, secrets=secrets_of_headers(headers or {}))


class _Tool(NamedTuple):
    effect: Effect
    what: str
    header: str
    sends: bool = False


_TOOLS: dict[Method, _Tool] = {
    "GET": _Tool("reads", "Fetch what is at a URL.", _ACCEPT),
    "HEAD": _Tool("reads", "Ask whether something is at a URL, without fetching it.", _ACCEPT),
    "PUT": _Tool("repeatable", "Put something at a URL, in place of what is there.", _IF_MATCH, sends=True),
    "DELETE": _Tool("repeatable", "Delete what is at a URL.", _IF_MATCH),
    "POST": _Tool("once", "Send something to a URL.", _ACCEPT, sends=True),
    "PATCH": _Tool("once", "Change a part of what is at a URL.", _IF_MATCH, sends=True),
}


_WHAT_IS_SENT = """
    json: what to send, as JSON
    text: what to send instead, as plain text
    file: what to send instead, as bytes: a reference to them in the output of a step, or a data: URL"""


def _tool(requests: _Requests, method: Method, whole: float) -> Callable[..., Any]:
    async def ask(url: Url, headers: Headers | None = None) -> Answer:
        return await requests.make(method, url, headers)

    async def send(
        url: Url,
        json: Any = None,
        text: str | None = None,
        file: File | None = None,
        headers: Headers | None = None,
    ) -> Answer:
        return await requests.make(method, url, headers, json, text, file)

    effect, what, header, sends = _TOOLS[method]
    body = _WHAT_IS_SENT if sends else ""
    made = send if sends else ask
    made.__doc__ = (
        f"{what}\n\nArgs:\n    url: begins with https:// or http://{body}\n    headers: such as {header}"
    )
    marked = tool(name=f"http_{method.lower()}", effect=effect, volatile=effect == "reads", timeout=whole)
    return marked(made)


class _Requests:
    """The client, made when it is first used and anew after closing, and what every request has."""

    def __init__(
        self,
        rules: AddressRules,
        headers: dict[str, str],
        timeout_secs: float,
        most_bytes: int,
        most_file_bytes: int,
    ) -> None:
        self._rules = rules
        self._headers = headers
        self._timeout_secs = timeout_secs
        self._most_bytes = most_bytes
        self._most_file_bytes = most_file_bytes
        self._client: httpx2.AsyncClient | None = None

    def check(self) -> None:
        """Say now what would fail later: a missing library, headers that cannot be sent."""
        if importlib.util.find_spec("httpx2") is None:
            raise InputError("kit:http needs httpx2, which is not installed: pip install 'replan[kit]'")
        for field, value in self._headers.items():
            if problem := _problem_of_header(field, value):
                raise InputError(f"http: {problem}")

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def make(
        self,
        method: Method,
        url: str,
        headers: Headers | None,
        body: Any = None,
        text: str | None = None,
        file: File | None = None,
    ) -> Answer:
        import httpx2

        if sum(one is not None for one in (body, text, file)) > 1:
            raise ToolCallError("give one of json, text and file", kind="parameter", happened="no")
        call = current()
        sent = {"traceparent": call.traceparent}
        if method in ("POST", "PATCH") and call.key:
            sent["Idempotency-Key"] = call.key
        for field, value in (headers or {}).items():
            if problem := _problem_of_header(field, value):
                raise ToolCallError(problem, kind="parameter", happened="no")
            if field.lower() == "traceparent":
                continue
            if call.key and is_idempotency_key(field):
                sent.pop("Idempotency-Key", None)  # under the name that was asked for
                value = call.key
            sent[field] = value
        if self._client is None:
            self._client = guarded_client(self._rules, timeout=self._timeout_secs, headers=self._headers)
        content: dict[str, Any] = {}
        if body is not None:
            content["json"] = body
        elif text is not None:
            content["content"] = text.encode("utf-8", "replace")
            if not any(field.lower() == "content-type" for field in sent):
                sent["Content-Type"] = "text/plain; charset=utf-8"
        elif file is not None:
            content["content"] = aiter(file)
            if file.size is not None:
                sent["Content-Length"] = str(file.size)
            if not any(field.lower() == "content-type" for field in sent):
                sent["Content-Type"] = file.media_type
        try:
            request = self._client.build_request(method, url, headers=sent, **content)
            if not 0 < (request.url.port or 80) < 65536:
                raise ValueError(f"there is no port {request.url.port}")
        except (httpx2.InvalidURL, ValueError, TypeError) as error:
            text = f"url: {url[:200]!r} cannot be requested: {error}"
            raise ToolCallError(text, kind="parameter", happened="no") from error
        return await self._sent(request, follow=method in ("GET", "HEAD"))

    async def _sent(self, request: httpx2.Request, *, follow: bool) -> Answer:
        import httpx2

        assert self._client is not None
        tool_id, secs = f"http_{request.method.lower()}", time_left(self._timeout_secs)
        try:
            async with asyncio.timeout(secs):
                response = await self._client.send(request, stream=True, follow_redirects=follow)
                try:
                    status = response.status_code  # 303 leads to the result, 304 is one: nothing new
                    if status >= 400 or (response.is_redirect and status not in (303, 304)):
                        raise await _failure(response, tool_id)
                    body = Body(response, tool_id)
                    if not await self._is_whole(body):
                        return await self._as_file(response, body)
                finally:
                    await response.aclose()
            data = await body.data()
            return await taken(partial(_answer, response, data), len(data))
        except TimeoutError as error:
            text = f"{request.url.host} had not answered in full after {in_digits(secs)} seconds"
            raise ToolCallError(text, kind="timeout", happened="unknown") from error
        except httpx2.TooManyRedirects as error:
            raise ToolCallError(f"url: {error}", happened="no") from error
        except httpx2.TransportError as error:
            if transport_kind(error) == "refused":  # of the only request that has an effect
                raise ToolCallError(text_of(error), kind="refused") from error
            raise

    async def _is_whole(self, body: Body) -> bool:
        """Read it as far as it may be a value; False if it is to be a file."""
        if not current().keeps:
            body.check_said(self._most_bytes)
            if not await body.take(self._most_bytes):
                raise too_large(body.tool_id, self._most_bytes)
            return True
        if not await body.take(min(FILE_BYTES, self._most_bytes)) and not body.is_text():
            return False
        return await body.take(self._most_bytes)

    async def _as_file(self, response: httpx2.Response, body: Body) -> Answer:
        answer = _head_of(response)
        is_text, kind = body.is_text(), body.media_type or "application/octet-stream"
        async with contextlib.aclosing(body.pieces(self._most_file_bytes)) as pieces:
            file = await current().keep(File(pieces, kind))
        answer["text" if is_text else "data_url"] = file
        return answer


async def _failure(response: httpx2.Response, tool_id: str) -> ToolCallError:
    """The answer of a status that is no success, with what the server says about it."""
    where, status = response.url.copy_with(query=None, userinfo=b""), response.status_code
    if response.is_redirect:
        text = f"{where} redirects to {response.headers.get('location', '')[:500]} ({status}); request that instead"
        return ToolCallError(text, kind="parameter", happened=happened_after(status))
    try:
        body = await read_limited(response, 1_000_000, tool_id)
        said = body.decode(response.charset_encoding or "utf-8", "replace")[:_MOST_OF_AN_ERROR].strip()
    except (ToolCallError, LookupError):
        said = ""
    wait = response.headers.get("retry-after")
    return ToolCallError(
        f"{where} answered {status} {response.reason_phrase}{': ' if said else ''}{said}",
        kind="http",
        status=status,
        retry_after=None if wait is None else retry_after_secs(wait, time.time()),
    )


def _head_of(response: httpx2.Response) -> Answer:
    return {
        "status": response.status_code,
        "url": str(response.url),
        "headers": {field: response.headers[field] for field in _KEPT if field in response.headers},
    }


def _answer(response: httpx2.Response, body: bytes) -> Answer:
    answer = _head_of(response)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            answer["json"] = parsed(body)
            return answer
        except ValueError as error:
            if not body:
                return answer
            text = f"the answer of {response.url.host} says that it is JSON and is not: {error}"
            raise ToolCallError(text, kind="output", happened="unknown") from error
    encoding = response.charset_encoding or "utf-8"
    try:
        answer["text"] = body.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        if kind.startswith("text/"):
            answer["text"] = body.decode("utf-8", "replace")
        else:
            answer["data_url"] = data_url(body, kind or "application/octet-stream")
    return answer


def _problem_of_header(field: str, value: str) -> str | None:
    """Why it could not be one header; the value, which may be a secret, is not shown."""
    if re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", field) is None:
        return f"headers: {field[:50]!r} is not a name of a header"
    if any(char in value for char in "\r\n\0"):
        return f"headers: the value of {field} has a line break in it"
    if field.lower() in ("host", "content-length", "transfer-encoding", "connection", "upgrade"):
        return f"headers: {field} is set by itself and cannot be given"
    return None
