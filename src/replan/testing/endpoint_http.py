"""The HTTP side of the scripted endpoint: connections, streams and the faults that are seen on the wire."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from replan.core.types import JsonObject
from replan.testing.endpoint_habits import EndpointFault, Habits, Odd
from replan.testing.script import ScriptError

_ENDS: dict[Odd, str] = {"filtered": "content_filter", "short": "length", "blank": "length"}
"""The reasons for the end of answers that are not there whole."""


class Endpoint(Protocol):
    """What is served: what it knows, and what it says to a request."""

    models: tuple[str, ...]
    api_key: str | None
    habits: Habits
    piece: int
    stopping: threading.Event

    def seen(self, body: JsonObject, headers: dict[str, str]) -> None: ...

    def next_fault(self) -> EndpointFault | None: ...

    def refusal(self, body: JsonObject) -> str: ...

    def answer(self, body: JsonObject) -> tuple[str, str | None]: ...


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1, at any free port or that one; can break what is open."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, endpoint: Endpoint, port: int = 0) -> None:
        self.endpoint = endpoint
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Break every open connection."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the other side was first

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news for a test."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's own name
        """Quiet."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") != "/v1/models":
            self._error(404, f"no such path: {self.path}")
        elif self._allowed():
            listed = [
                {"id": model, "object": "model", "created": 0, "owned_by": "test"}
                for model in self._end.models
            ]
            self._json(200, {"object": "list", "data": listed})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._error(404, f"no such path: {self.path}")
            return
        body = json.loads(raw)
        self._end.seen(body, dict(self.headers.items()))
        if not self._allowed():
            return
        if body.get("model") not in self._end.models:
            self._error(404, f"the model {body.get('model')!r} does not exist", code="model_not_found")
            return
        fault = self._end.next_fault()
        if fault is not None and fault.kind not in self._half_way(body):
            self._fail(fault)
            return
        if refusal := self._end.refusal(body):
            self._error(400, refusal, code="invalid_request_error")
            return
        try:
            text, function = self._end.answer(body)
        except ScriptError as error:
            self._error(418, str(error))
            return
        if body.get("stream"):
            self._stream(body, text, function, fault)
        else:
            self._whole(body, text, function, fault)

    @property
    def _end(self) -> Endpoint:
        return self.server.endpoint

    def _half_way(self, body: JsonObject) -> tuple[str, ...]:
        """The faults that come after half of an answer."""
        return ("cut", "ends_early", "in_stream") if body.get("stream") else ("cut", "ends_early")

    def _allowed(self) -> bool:
        key = self._end.api_key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self._error(401, "incorrect API key provided", code="invalid_api_key")
        return False

    def _fail(self, fault: EndpointFault) -> None:
        match fault.kind:
            case "hang":
                self._end.stopping.wait()
                self.close_connection = True
            case "drop":
                self.close_connection = True
            case "garbage":
                self._send(200, b"<html><body>Welcome to the proxy</body></html>", "text/html")
            case "inside_200":
                told = {"message": fault.message, "code": fault.status}
                self._json(200, {"error": told})
            case _:
                extra = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
                self._error(fault.status, fault.message, code=fault.code, extra=extra)

    def _whole(self, body: JsonObject, text: str, function: str | None, fault: EndpointFault | None) -> None:
        odd = self._end.habits.answer_to(body)
        message = _message(text, function, odd)
        if self._end.habits.arguments == "object":
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = json.loads(text)
        finish = "tool_calls" if "tool_calls" in message else "stop"
        finish = _ENDS.get(odd, finish)
        choices: Any = [{"index": 0, "message": message, "finish_reason": finish}]
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": {"no_choices": [], "null_choices": None}.get(odd, choices),
        }
        if self._end.habits.usage:
            answer["usage"] = self._usage(body, text)
        data = json.dumps(answer).encode()
        if fault is not None:
            self._send(200, data[: len(data) // 2], "application/json", claim=len(data))
            self.close_connection = True
        else:
            self._send(200, data, self._end.habits.content_type)

    def _stream(self, body: JsonObject, text: str, function: str | None, fault: EndpointFault | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        habits = self._end.habits
        if habits.stream == "broken":
            self._chunk(b"data: {of course}\n\n")
            self._chunk(b"")
            return
        sent = text if fault is None else text[: len(text) // 2]
        while habits.stream == "endless" and not self._end.stopping.is_set():
            for delta, finish in self._deltas(sent, function, habits.answer_to(body)):
                if finish is None:
                    self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}, body)
        for delta, finish in self._deltas(sent, function, habits.answer_to(body)):
            if finish is not None and (fault is not None or habits.stream == "unfinished"):
                break
            if habits.stream == "two_choices":
                other = {"content": '{"steps": []}'}
                self._event({"choices": [{"index": 1, "delta": other, "finish_reason": "stop"}]}, body)
            self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}, body)
        if fault is not None and fault.kind == "cut":
            self.close_connection = True
            return
        if fault is not None and fault.kind == "in_stream":
            told = {"message": fault.message, "code": fault.status}
            self._chunk(f"data: {json.dumps({'error': told})}\n\n".encode())
        if fault is None:
            if (body.get("stream_options") or {}).get("include_usage") and habits.usage:
                self._event({"choices": [], "usage": self._usage(body, text)}, body)
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _deltas(self, text: str, function: str | None, odd: Odd) -> Iterator[tuple[JsonObject, str | None]]:
        if odd in ("no_choices", "null_choices"):
            return
        if odd != "right":
            yield _message(text, function, odd), None
            yield {}, _ENDS.get(odd, "stop")
            return
        if function is not None and self._end.habits.arguments == "object":
            called = {"name": function, "arguments": json.loads(text)}
            yield {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": called}]}, None
            yield {}, "tool_calls"
            return
        pieces = [text[start : start + self._end.piece] for start in range(0, len(text), self._end.piece)]
        if function is None:
            yield {"role": "assistant", "content": ""}, None
            for at, piece in enumerate(pieces):
                told = "".join(pieces[: at + 1]) if self._end.habits.stream == "cumulative" else piece
                yield {"content": told}, None
            yield {}, "stop"
            return
        head = {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": function, "arguments": ""},
        }
        yield {"role": "assistant", "content": None, "tool_calls": [head]}, None
        for piece in pieces:
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, None
        yield {}, "tool_calls"

    def _usage(self, body: JsonObject, text: str) -> Any:
        told = self._end.habits.usage
        return _counted(body, text) if isinstance(told, bool) else told

    def _event(self, fields: JsonObject, body: JsonObject) -> None:
        whole = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": body["model"],
            **fields,
        }
        if self._end.habits.stream == "noisy":
            self._chunk(b"id: 1\n\n: ping\n\nevent: message\ndata:\n\n")
        self._chunk(f"data: {json.dumps(whole)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _error(
        self, status: int, message: str, *, code: str = "error", extra: dict[str, str] | None = None
    ) -> None:
        self._json(status, {"error": {"message": message, "type": code, "code": code}}, extra)

    def _json(self, status: int, value: JsonObject, extra: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), "application/json", extra=extra)

    def _send(
        self,
        status: int,
        data: bytes,
        content_type: str,
        *,
        extra: dict[str, str] | None = None,
        claim: int | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data) if claim is None else claim))
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _message(text: str, function: str | None, odd: Odd) -> JsonObject:
    """The answer's message, with the text where it belongs or elsewhere."""
    match odd:
        case "thoughts":
            return {"role": "assistant", "content": None, "reasoning_content": text}
        case "refused":
            return {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
        case "nothing" | "filtered":
            return {"role": "assistant", "content": ""}
        case "empty_object":
            text = "{}"
        case "short":
            text = text[: len(text) // 2]
        case "blank":
            text = text[: len(text) // 2] + "\n" * 2_000
        case "gibberish":
            text = '{{{[[""```json```' * 20
        case "schema_back":
            known = json.loads(text)
            text = json.dumps({"type": "object", "properties": {name: {"type": "array"} for name in known}})
    if function is None:
        return {"role": "assistant", "content": text}
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": function, "arguments": text}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _counted(body: JsonObject, text: str) -> JsonObject:
    asked = sum(len(text_of(message.get("content"))) for message in body.get("messages", ())) // 4
    return {
        "prompt_tokens": asked,
        "completion_tokens": len(text) // 4,
        "total_tokens": asked + len(text) // 4,
    }


def text_of(content: Any) -> str:
    """The text of a message's content, in either of its forms."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
