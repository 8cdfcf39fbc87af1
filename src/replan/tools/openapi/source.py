"""An OpenAPI document as a `ToolSource`: each operation that can be called is a tool."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replan.beside import beside
from replan.core.data.schemas import problems as schema_problems
from replan.core.secrets import KnownSecrets, secrets_of_headers, secrets_of_url
from replan.core.types import JsonObject, ToolSpec
from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.ports import KeptOutput, Progress, ToolCall, ToolProblem
from replan.tools.bounds import MAX_RESULT_BYTES, MOST_FILE_BYTES, check_parameters, too_large, unknown_tool
from replan.tools.large_json import taken
from replan.tools.network.addresses import AddressRules
from replan.tools.network.client import guarded_client
from replan.tools.openapi import pages
from replan.tools.openapi.answers import value_of
from replan.tools.openapi.documents.document import Document
from replan.tools.openapi.documents.operations import Filter
from replan.tools.openapi.documents.places import Place, read_document, shown_place
from replan.tools.openapi.documents.servers import check_server
from replan.tools.openapi.listing import Listing, list_tools
from replan.tools.openapi.requests import Answer, Request, Sender
from replan.tools.openapi.security import ClientCredentials, Value
from replan.tools.openapi.tokens import ClientTokens
from replan.tools.openapi.tool import Answers, OperationTool, Requests, Settings

if TYPE_CHECKING:
    import httpx2


class OpenApiSource:
    """The operations of an OpenAPI 3.0 or 3.1 document.

    `document`: a file, an http(s) URL, or the document itself. It is read when the tools are listed, and again
    whenever they are listed anew and it has changed.
    `server`: where all requests go, instead of the servers that the document names.
    `tags`, `operations`, `methods`: which operations are wanted; `exclude`: which are not (operation or tool ids,
    `tag:NAME`, `method:NAME`).
    `auth`: values by the names of the document's security schemes: a key or token as text, `user:password`,
    `{"username", "password"}`, or `{"client_id", "client_secret"}` for OAuth 2 client credentials. `headers`: sent
    with every request to the operation's own server; they win over parameters of the same name, which are not shown. Operations whose security cannot be met are left out.
    `rules`: which addresses may be reached. The host and port of a `document` URL and of `server` are allowed besides,
    as they were named by the caller; what a document itself names is not.
    `timeout_secs`: of a call; `list_timeout_secs`: of fetching the document. `max_result_bytes`: of an answer that is a value. One that is no JSON, and
    larger than that, or than a megabyte and no text, is stored as a file of the task, up to `max_file_bytes`. `answers`: what is made of declared schemas of answers. `requests`: "open" if read-only properties may be sent;
    else only those that an object requires are shown, and none has to be given.
    `paginate`: ids of operations whose pages are followed, up to `page_limit`; True: of all that have pages. Their
    output is `{"items", "pages", "complete"}`.
    `idempotency_header`: a header in which the service honours idempotency keys, though the document does not say so.
    `environment`: where values that are missing in `auth` are looked up, as `OPENAPI_<NAME>_<SCHEME>`.

    Raises `InputError` for settings that cannot be right.
    """

    def __init__(
        self,
        document: str | Path | Mapping[str, Any],
        *,
        name: str | None = None,
        server: str | None = None,
        server_variables: Mapping[str, str] | None = None,
        tags: Collection[str] = (),
        operations: Collection[str] = (),
        methods: Collection[str] = (),
        exclude: Collection[str] = (),
        auth: Mapping[str, Value] | None = None,
        headers: Mapping[str, str] | None = None,
        rules: AddressRules | None = None,
        timeout_secs: float | None = 60.0,
        list_timeout_secs: float = 20.0,
        max_result_bytes: int = MAX_RESULT_BYTES,
        max_file_bytes: int = MOST_FILE_BYTES,
        requests: Requests = "declared",
        answers: Answers = "declared",
        paginate: bool | Collection[str] = False,
        page_limit: int = 10,
        idempotency_header: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        _check(tags=tags, operations=operations, methods=methods, exclude=exclude)
        _check(**({} if isinstance(paginate, bool) else {"paginate": paginate}))
        if requests not in ("declared", "open"):
            raise InputError(f"requests is {requests!r}; right are: declared, open")
        if answers not in ("declared", "open", "checked", "none"):
            raise InputError(f"answers is {answers!r}; right are: declared, open, checked, none")
        if page_limit < 1 or max_result_bytes < 1 or max_file_bytes < 1:
            raise InputError("page_limit, max_result_bytes and max_file_bytes are at least 1")
        check_server(server)
        self._place = Place.of(document)
        self.name = name or self._place.name
        self._filter = (tuple(tags), tuple(methods), tuple(operations), tuple(exclude))
        self._settings = Settings(
            name=self.name,
            server=server,
            server_variables=dict(server_variables or {}),
            auth=dict(auth or {}),
            headers=dict(headers or {}),
            requests=requests,
            answers=answers,
            timeout_secs=timeout_secs,
            paginated=paginate if isinstance(paginate, bool) else frozenset(paginate),
            idempotency_header=idempotency_header,
        )
        self._rules = _with_named_hosts(rules or AddressRules(), [self._place.url, server])
        self._max_result_bytes = max_result_bytes
        self._max_file_bytes = max_file_bytes
        self._page_limit = page_limit
        self._list_timeout_secs = list_timeout_secs
        self._environment = environment
        self._client: httpx2.AsyncClient | None = None
        self._tokens: dict[ClientCredentials, ClientTokens] = {}
        self.secrets = KnownSecrets()
        """Keys and passwords that requests are sent with, and tokens once there are some."""
        self.secrets.add_all(secrets_of_headers(self._settings.headers))
        for value in self._settings.auth.values():
            self.secrets.add_all(_secrets_of(value))
        self.secrets.add_all(secrets_of_url(self._place.url or ""))
        self._listing: Listing | None = None
        self._version: object = None
        self._lock = asyncio.Lock()

    async def tools(self) -> Sequence[ToolSpec]:
        """The tools, after the document was read if it has changed. Raises if it cannot be."""
        return [tool.spec for tool in (await self._list(anew=True)).tools.values()]

    def problems(self) -> Sequence[ToolProblem]:
        """The operations that were left out, each with the reason, and filters that nothing fits."""
        return () if self._listing is None else self._listing.problems

    async def call(self, call: ToolCall) -> Any:
        """The answer: JSON as its value, text as text, other bytes as a `data:` URL, nothing as None."""
        listing = self._listing or await self._list(anew=False)
        tool = listing.tools.get(call.tool_id)
        if tool is None:
            raise unknown_tool(call.tool_id, self.name, listing.tools)
        check_parameters(tool.spec, call)
        request = tool.request(call)
        if self._client is None:  # its libraries and certificates are loaded beside the event loop
            await beside(self._http)
        sender = self._sender(tool, call)
        secs = call.deadline_secs if call.deadline_secs is not None else self._settings.timeout_secs
        try:
            async with asyncio.timeout(secs) as limit:
                return await self._answer(tool, request, sender, call.report)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"{tool.title}: no answer within {in_digits(secs)} seconds"
            raise ToolCallError(text, kind="timeout", happened=sender.happened) from None
        except ToolCallError:
            raise
        except Exception as error:
            raise sender.unforeseen(error) from error

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        tokens, self._tokens = list(self._tokens.values()), {}
        for each in tokens:
            await each.aclose()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _list(self, *, anew: bool) -> Listing:
        async with self._lock:
            if self._listing is not None and not anew:
                return self._listing
            read = await read_document(self._place, self._http, self._version, secs=self._list_timeout_secs)
            if read is not None:
                root, version, url = read
                # Large documents take seconds.
                self._listing = await asyncio.to_thread(self._made, root, url)
                self._version = version
            assert self._listing is not None
            return self._listing

    def _made(self, root: Any, url: str | None) -> Listing:
        place = self._place
        document = Document(root, place=shown_place(place), url=url, folder=place.folder)
        tags, methods, operations, exclude = self._filter
        wanted = Filter(tags, methods, operations, exclude)
        return list_tools(document, wanted, self._settings, self._environment)

    def _http(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = guarded_client(self._rules, timeout=None)
        return self._client

    def _sender(self, tool: OperationTool, call: ToolCall) -> Sender:
        for text in tool.credentials.secrets():  # the environment may have given them
            self.secrets.add(text)
        tokens = []
        for each in tool.credentials.clients:
            if each not in self._tokens:
                self._tokens[each] = ClientTokens(each, self._http, self.secrets)
            tokens.append(self._tokens[each])
        return Sender(
            self._http(),
            title=tool.title,
            tool_id=tool.spec.id,
            credentials=tool.credentials,
            tokens=tokens,
            static=self._settings.headers,
            secrets=self.secrets,
            limit=self._max_result_bytes,
            call=call,
            most_file_bytes=self._max_file_bytes,
            only_json=tool.only_json or tool.paginated,
        )

    async def _answer(
        self, tool: OperationTool, request: Request, sender: Sender, report: Callable[[Progress], None] | None
    ) -> Any:
        if tool.paginated:
            return _as_checked(tool, await self._pages(tool, request, sender, report))
        answer = await sender.send(request)
        try:
            if answer.broken is not None:
                raise answer.broken
            return await taken(lambda: _as_checked(tool, _value(tool, answer)), len(answer.data))
        except ToolCallError as error:
            if not answer.is_created or tool.spec.effect == "reads":
                raise
            return f"(it was made, as the server says by its status 201; its answer cannot be read: {error})"

    async def _pages(
        self, tool: OperationTool, request: Request, sender: Sender, report: Callable[[Progress], None] | None
    ) -> JsonObject:
        """The items of all pages, as far as the limits go."""
        items: list[Any] = []
        size, seen, by, last = 0, {request.url}, "", None
        for number in range(1, self._page_limit + 1):
            answer = await sender.send(request)
            value = await taken(partial(_value, tool, answer), len(answer.data))
            size += len(answer.data)
            found = pages.items_of(value)
            if found is None:
                text = f"{tool.title}: its pages cannot be joined, as the answer has no list (or several)"
                raise ToolCallError(text, kind="output", happened="unknown")
            if size > self._max_result_bytes:
                if number == 1:
                    raise too_large(tool.spec.id, self._max_result_bytes)
                return {"items": items, "pages": number - 1, "complete": False}
            if by == "count" and found == last:  # the server takes no notice of the number
                return {"items": items, "pages": number - 1, "complete": True}
            items, last = items + found, found
            if report is not None:
                report(Progress(f"page {number}: {len(items)} items", number))
            following = pages.next_page(request.url, value, answer.headers, tool.page_names, by)
            if following.url is None or following.url in seen:
                return {"items": items, "pages": number, "complete": not following.foreign}
            seen.add(following.url)
            request, by = request._replace(url=following.url), following.by
        return {"items": items, "pages": self._page_limit, "complete": False}


def _secrets_of(value: Value) -> Iterator[tuple[str, str]]:
    """What of a value of `auth` is nobody's business: not the user's name, and not the client's id."""
    if isinstance(value, Mapping):
        yield from ((name, str(value[name])) for name in ("password", "client_secret") if name in value)
        return
    yield "", str(value)
    if ":" in str(value):
        yield "password", str(value).partition(":")[2]


def _as_checked(tool: OperationTool, value: Any) -> Any:
    if (
        not isinstance(value, KeptOutput)
        and tool.checked is not None
        and (wrong := schema_problems(tool.checked, value))
    ):
        text = f"{tool.title}: the answer is not as the document says: {'; '.join(wrong[:5])}"
        raise ToolCallError(text, kind="output", happened="unknown")
    return value


def _value(tool: OperationTool, answer: Answer) -> Any:
    if answer.file is not None:
        return answer.file
    if tool.operation.method == "head":
        shown = {name: text for name, text in answer.headers.items() if name.lower() != "set-cookie"}
        return {"status": answer.status, "headers": shown}
    return value_of(
        answer.data, answer.headers.get("content-type", ""), only_json=tool.only_json, title=tool.title
    )


def _check(**lists: Collection[str]) -> None:
    for name, values in lists.items():
        if isinstance(values, str) or not all(isinstance(each, str) for each in values):
            raise InputError(f'{name} is a list of texts, such as {name}=["…"], not {values!r}')


def _with_named_hosts(rules: AddressRules, urls: Sequence[str | None]) -> AddressRules:
    """The rules, and the very hosts and ports that the caller has named."""
    hosts = []
    for url in urls:
        if url is None or url.startswith("/"):
            continue
        _, host, port = pages.origin(url)
        with contextlib.suppress(InputError):
            entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            AddressRules(allow_hosts=(entry,))
            hosts.append(entry)
    return replace(rules, allow_hosts=(*rules.allow_hosts, *hosts)) if hosts else rules
