"""What providers say over their own wires, and a server on loopback that says it from a list of answers."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
import threading
import zlib
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

KEY = "key-of-the-provider"
AWS_ID, AWS_SECRET, REGION = "AKIDSTANDIN", "secret/of+the/stand-in", "eu-central-1"


@dataclass(frozen=True)
class Say:
    """One answer. `end`: how it ends; `cut`: the connection breaks in its middle."""

    text: str = ""
    thoughts: str = ""
    end: str = "whole"
    status: int = 200
    message: str = "no"
    retry_after: str | None = None
    cut: bool = False
    used: tuple[int, int, int] = (300, 200, 20)
    """Tokens of the input, of them read from a cache, and of the output."""


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: Any


def pieces(text: str) -> list[str]:
    return [text[at : at + 9] for at in range(0, len(text), 9)]


def sse(event: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


class Chat:
    """Chat completions, as OpenAI-compatible servers speak them at `/v1`."""

    def refused(self, seen: Seen) -> str:
        ok = seen.path == "/v1/chat/completions" and seen.headers.get("authorization") == f"Bearer {KEY}"
        return "" if ok else f"wrong path or key: {seen.path}"

    def streamed(self, seen: Seen) -> bool:
        return bool(seen.body.get("stream"))

    def way(self, body: Any) -> str:
        return "native" if "response_format" in body else "tool" if body.get("tools") else "prompted"

    def error(self, say: Say) -> Any:
        return {"error": {"message": say.message, "code": "standin"}}

    def _used(self, say: Say) -> Any:
        asked, cached, said = say.used
        return {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def _end(self, say: Say, *, tool: bool) -> str:
        usual = "tool_calls" if tool else "stop"
        return {"whole": usual, "length": "length", "refusal": "content_filter"}[say.end]

    def _call(self, name: str, text: str) -> Any:
        return {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": text}}

    def whole(self, say: Say, seen: Seen) -> Any:
        tool = self.way(seen.body) == "tool"
        message: dict[str, Any] = {"role": "assistant", "content": None if tool else say.text}
        if say.thoughts:
            message["reasoning_content"] = say.thoughts
        if tool:
            message["tool_calls"] = [self._call(seen.body["tools"][0]["function"]["name"], say.text)]
        choice = {"index": 0, "message": message, "finish_reason": self._end(say, tool=tool)}
        head = {"id": "x", "object": "chat.completion", "created": 0, "model": seen.body["model"]}
        return {**head, "choices": [choice], "usage": self._used(say)}

    def stream(self, say: Say, seen: Seen) -> list[bytes]:
        tool = self.way(seen.body) == "tool"
        head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": seen.body["model"]}
        name = seen.body["tools"][0]["function"]["name"] if tool else ""

        def chunk(delta: Any, end: str | None = None) -> bytes:
            return sse({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})

        out = [chunk({"reasoning_content": piece}) for piece in pieces(say.thoughts)]
        for at, piece in enumerate(pieces(say.text)):
            call = self._call(name, piece) if at == 0 else {"index": 0, "function": {"arguments": piece}}
            out.append(chunk({"tool_calls": [call]} if tool else {"content": piece}))
        out.append(chunk({}, self._end(say, tool=tool)))
        return [*out, sse({**head, "choices": [], "usage": self._used(say)}), b"data: [DONE]\n\n"]


class Azure(Chat):
    """Chat completions at a deployment of Azure."""

    def refused(self, seen: Seen) -> str:
        parts = urlsplit(seen.path)
        version = parse_qs(parts.query).get("api-version")
        if parts.path != "/openai/deployments/gpt-4o/chat/completions" or version != ["2024-10-21"]:
            return f"wrong deployment or version: {seen.path}"
        return "" if seen.headers.get("api-key") == KEY else "wrong key"


class Anthropic:
    """Anthropic's messages."""

    def refused(self, seen: Seen) -> str:
        given = seen.headers.get("x-api-key") or seen.headers.get("authorization", "").removeprefix("Bearer ")
        if seen.path.partition("?")[0] != "/v1/messages" or "anthropic-version" not in seen.headers:
            return f"wrong path: {seen.path}"
        return "" if given == KEY else "wrong key"

    def streamed(self, seen: Seen) -> bool:
        return bool(seen.body.get("stream"))

    def way(self, body: Any) -> str:
        if body.get("output_config", {}).get("format") or body.get("output_format"):
            return "native"
        return "tool" if body.get("tools") else "prompted"

    def error(self, say: Say) -> Any:
        return {"type": "error", "error": {"type": "api_error", "message": say.message}}

    def _used(self, say: Say) -> Any:
        asked, cached, said = say.used
        return {"input_tokens": asked - cached, "cache_read_input_tokens": cached, "output_tokens": said}

    def _blocks(self, say: Say, seen: Seen) -> list[Any]:
        thoughts = [{"type": "thinking", "thinking": say.thoughts, "signature": "s"}] if say.thoughts else []
        if say.end == "refusal":
            return thoughts
        if self.way(seen.body) != "tool":
            return [*thoughts, {"type": "text", "text": say.text}]
        name = seen.body["tools"][0]["name"]
        return [*thoughts, {"type": "tool_use", "id": "t1", "name": name, "input": say.text}]

    def _end(self, say: Say, seen: Seen) -> str:
        usual = "tool_use" if self.way(seen.body) == "tool" else "end_turn"
        return {"whole": usual, "length": "max_tokens", "refusal": "refusal"}[say.end]

    def _head(self, seen: Seen) -> Any:
        return {"id": "m1", "type": "message", "role": "assistant", "model": seen.body["model"]}

    def whole(self, say: Say, seen: Seen) -> Any:
        blocks = self._blocks(say, seen)
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["input"])
        end = {"stop_reason": self._end(say, seen), "stop_sequence": None, "usage": self._used(say)}
        return {**self._head(seen), "content": blocks, **end}

    def stream(self, say: Say, seen: Seen) -> list[bytes]:
        start = {**self._head(seen), "content": [], "stop_reason": None, "stop_sequence": None}
        used = self._used(say) | {"output_tokens": 1}
        out = [sse({"type": "message_start", "message": {**start, "usage": used}}, "message_start")]
        for at, block in enumerate(self._blocks(say, seen)):
            kind = block["type"]
            empty = {
                "thinking": {"thinking": "", "signature": ""},
                "text": {"text": ""},
                "tool_use": {"input": {}},
            }
            begun = {"type": "content_block_start", "index": at, "content_block": {**block, **empty[kind]}}
            out.append(sse(begun, "content_block_start"))
            field_, delta = {
                "thinking": ("thinking", "thinking_delta"),
                "text": ("text", "text_delta"),
                "tool_use": ("input", "input_json_delta"),
            }[kind]
            told = "partial_json" if kind == "tool_use" else field_
            for piece in pieces(block[field_]):
                each = {"type": "content_block_delta", "index": at, "delta": {"type": delta, told: piece}}
                out.append(sse(each, "content_block_delta"))
            out.append(sse({"type": "content_block_stop", "index": at}, "content_block_stop"))
        end = {"stop_reason": self._end(say, seen), "stop_sequence": None}
        done = {"type": "message_delta", "delta": end, "usage": {"output_tokens": say.used[2]}}
        return [*out, sse(done, "message_delta"), sse({"type": "message_stop"}, "message_stop")]


class Gemini:
    """Google's generateContent."""

    def refused(self, seen: Seen) -> str:
        path = urlsplit(seen.path).path
        if not path.startswith("/v1beta/models/gemini-3-pro:"):
            return f"wrong path: {seen.path}"
        return "" if seen.headers.get("x-goog-api-key") == KEY else "wrong key"

    def streamed(self, seen: Seen) -> bool:
        return ":streamGenerateContent" in seen.path

    def way(self, body: Any) -> str:
        native = body.get("generationConfig", {}).get("responseMimeType") == "application/json"
        return "native" if native else "tool" if body.get("tools") else "prompted"

    def error(self, say: Say) -> Any:
        return {"error": {"code": say.status, "message": say.message, "status": "UNKNOWN"}}

    def _piece(self, parts: list[Any], say: Say, *, last: bool) -> Any:
        asked, cached, said = say.used
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        found: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-3-pro"}
        if last:
            candidate["finishReason"] = {"whole": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}[
                say.end
            ]
            found["usageMetadata"] = {
                "promptTokenCount": asked,
                "cachedContentTokenCount": cached,
                "candidatesTokenCount": said,
                "totalTokenCount": asked + said,
            }
        return found

    def _parts(self, say: Say, seen: Seen) -> list[Any]:
        thoughts = [{"text": say.thoughts, "thought": True}] if say.thoughts else []
        if say.end == "refusal":
            return thoughts
        if self.way(seen.body) != "tool":
            return [*thoughts, *({"text": piece} for piece in pieces(say.text))]
        name = seen.body["tools"][0]["functionDeclarations"][0]["name"]
        return [*thoughts, {"functionCall": {"name": name, "args": json.loads(say.text)}}]

    def whole(self, say: Say, seen: Seen) -> Any:
        return self._piece(self._parts(say, seen), say, last=True)

    def stream(self, say: Say, seen: Seen) -> list[bytes]:
        return [
            *(sse(self._piece([part], say, last=False)) for part in self._parts(say, seen)),
            sse(self._piece([], say, last=True)),
        ]


class Bedrock:
    """Converse of Amazon Bedrock, whose signatures are checked."""

    def refused(self, seen: Seen) -> str:
        if not seen.path.startswith("/model/"):
            return f"wrong path: {seen.path}"
        return "" if signed(seen) else "the signature is wrong"

    def streamed(self, seen: Seen) -> bool:
        return seen.path.endswith("/converse-stream")

    def way(self, body: Any) -> str:
        return "native" if body.get("outputConfig") else "tool" if body.get("toolConfig") else "prompted"

    def error(self, say: Say) -> Any:
        return {"message": say.message}

    def _used(self, say: Say) -> Any:
        asked, cached, said = say.used
        return {
            "inputTokens": asked - cached,
            "cacheReadInputTokens": cached,
            "outputTokens": said,
            "totalTokens": asked + said,
        }

    def _end(self, say: Say, seen: Seen) -> str:
        usual = "tool_use" if self.way(seen.body) == "tool" else "end_turn"
        return {"whole": usual, "length": "max_tokens", "refusal": "guardrail_intervened"}[say.end]

    def _tool(self, seen: Seen) -> Any:
        return {"toolUseId": "t1", "name": seen.body["toolConfig"]["tools"][0]["toolSpec"]["name"]}

    def whole(self, say: Say, seen: Seen) -> Any:
        content: list[Any] = []
        if say.thoughts:
            content.append({"reasoningContent": {"reasoningText": {"text": say.thoughts, "signature": "s"}}})
        if self.way(seen.body) == "tool" and say.end != "refusal":
            content.append({"toolUse": {**self._tool(seen), "input": json.loads(say.text)}})
        else:
            content.append({"text": say.text})
        message = {"message": {"role": "assistant", "content": content}}
        end = {"stopReason": self._end(say, seen), "usage": self._used(say), "metrics": {"latencyMs": 1}}
        return {"output": message, **end}

    def stream(self, say: Say, seen: Seen) -> list[bytes]:
        out, at = [frame("messageStart", {"role": "assistant"})], 0
        if say.thoughts:
            for piece in pieces(say.thoughts):
                delta = {"reasoningContent": {"text": piece}}
                out.append(frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": delta}))
            out.append(frame("contentBlockStop", {"contentBlockIndex": 0}))
            at = 1
        tool = self.way(seen.body) == "tool" and say.end != "refusal"
        if tool:
            start = {"contentBlockIndex": at, "start": {"toolUse": self._tool(seen)}}
            out.append(frame("contentBlockStart", start))
        for piece in pieces(say.text):
            each: Any = {"toolUse": {"input": piece}} if tool else {"text": piece}
            out.append(frame("contentBlockDelta", {"contentBlockIndex": at, "delta": each}))
        out.append(frame("contentBlockStop", {"contentBlockIndex": at}))
        out.append(frame("messageStop", {"stopReason": self._end(say, seen)}))
        return [*out, frame("metadata", {"usage": self._used(say), "metrics": {"latencyMs": 1}})]


def frame(event: str, payload: Any) -> bytes:
    """One message of `application/vnd.amazon.eventstream`."""
    head = b""
    told = {":event-type": event, ":content-type": "application/json", ":message-type": "event"}
    for name, value in told.items():
        head += bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
    return message + struct.pack(">I", zlib.crc32(message))


def signed(seen: Seen) -> bool:
    """Whether the request has the signature (version 4) that the secret gives."""
    told = dict(
        part.strip().split("=", 1)
        for part in seen.headers.get("authorization", "").removeprefix("AWS4-HMAC-SHA256 ").split(",")
        if "=" in part
    )
    _, day, region, service, _ = told.get("Credential", "////").split("/")[:5]
    names = told.get("SignedHeaders", "").split(";")
    path = quote(urlsplit(seen.path).path, safe="/-_.~")
    lines = [f"{name}:{' '.join(seen.headers.get(name, '').split())}\n" for name in names]
    digest = hashlib.sha256(seen.body if isinstance(seen.body, bytes) else b"").hexdigest()
    asked = "\n".join(["POST", path, "", "".join(lines), ";".join(names), digest])
    scope = f"{day}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256(asked.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", seen.headers.get("x-amz-date", ""), scope, hashed])
    key = f"AWS4{AWS_SECRET}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    right = hmac.new(key, text.encode(), "sha256").hexdigest()
    return region == REGION and hmac.compare_digest(right, told.get("Signature", ""))


Wire = Chat | Anthropic | Gemini | Bedrock


@dataclass
class StandIn:
    """A server that speaks one wire. Requests that the provider would refuse are answered with status 403."""

    wire: Wire
    says: list[Say] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def __enter__(self) -> StandIn:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Quiet."""

            def do_POST(self) -> None:
                stand_in.answer(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, http: BaseHTTPRequestHandler) -> None:
        raw = http.rfile.read(int(http.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in http.headers.items()}
        if refusal := self.wire.refused(Seen(http.path, headers, raw)):
            self.refusals.append(refusal)
            self._send(http, 403, self.wire.error(Say(message=refusal)))
            return
        seen = Seen(unquote(http.path), headers, json.loads(raw))
        self.seen.append(seen)
        say = self.says.pop(0)
        if say.status != 200:
            extra = {"Retry-After": say.retry_after} if say.retry_after else {}
            self._send(http, say.status, self.wire.error(say), extra)
        elif self.wire.streamed(seen):
            self._stream(http, say, self.wire.stream(say, seen))
        else:
            self._send(http, 200, self.wire.whole(say, seen), cut=say.cut)

    def _stream(self, http: BaseHTTPRequestHandler, say: Say, events: list[bytes]) -> None:
        http.send_response(200)
        kind = "application/vnd.amazon.eventstream" if isinstance(self.wire, Bedrock) else "text/event-stream"
        http.send_header("Content-Type", kind)
        http.send_header("Transfer-Encoding", "chunked")
        http.end_headers()
        for event in events[: max(2, len(events) // 2)] if say.cut else events:
            http.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        if say.cut:
            http.close_connection = True
            return
        http.wfile.write(b"0\r\n\r\n")

    def _send(
        self,
        http: BaseHTTPRequestHandler,
        status: int,
        body: Any,
        extra: dict[str, str] | None = None,
        *,
        cut: bool = False,
    ) -> None:
        data = json.dumps(body).encode()
        http.send_response(status)
        for name, value in {"Content-Type": "application/json", **(extra or {})}.items():
            http.send_header(name, value)
        http.send_header("Content-Length", str(len(data)))
        http.end_headers()
        http.wfile.write(data[: len(data) // 2] if cut else data)
        http.close_connection = cut or http.close_connection
