"""An OpenAI-compatible HTTP endpoint on loopback that answers from a script, with faults on demand."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType

from replan.core.types import JsonObject
from replan.testing.endpoint_habits import AS_THE_PROTOCOL_SAYS, EndpointFault, Habits
from replan.testing.endpoint_http import Server, text_of
from replan.testing.script import SCHEMA_NAMES, Answers, Script, Written

_NAMED_SCHEMA = re.compile(r'JSON Schema "(\w+)"')


class ScriptedEndpoint:
    """Serves `/v1/chat/completions` (streamed or not) and `/v1/models` while it is entered.

    `answers`: as for `ScriptedModel`, but callables get the request's JSON body. The schema's name is read from
    `response_format.json_schema.name`, from the tool's function name, or from the text of the prompt.
    `json_schema`, `tools`, `streaming`: what it can do; the rest is refused with status 400.
    `habits`: how it departs from the protocol. `api_key`: the bearer key that it wants. `faults`: used up, one a request, before any answer.
    `port`: where it listens on 127.0.0.1; 0: any free one.
    `requests` holds the bodies, `headers` the headers, `calls` counts answers by schema name.
    """

    def __init__(
        self,
        answers: Answers[JsonObject] | Callable[[JsonObject], Written],
        *,
        models: Sequence[str] = ("scripted",),
        json_schema: bool = True,
        tools: bool = True,
        streaming: bool = True,
        api_key: str | None = None,
        faults: Sequence[EndpointFault] = (),
        habits: Habits = AS_THE_PROTOCOL_SAYS,
        piece: int = 16,
        port: int = 0,
    ) -> None:
        self.models = tuple(models)
        self.json_schema = json_schema
        self.tools = tools
        self.streaming = streaming
        self.api_key = api_key
        self.faults = list(faults)
        self.habits = habits
        self.piece = piece
        self.port = port
        self.requests: list[JsonObject] = []
        self.headers: list[dict[str, str]] = []
        self.calls: Counter[str] = Counter()
        self.stopping = threading.Event()
        self.arrived = threading.Event()
        """Set once a request has come."""
        self._script = Script(answers)
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL, ending in `/v1`."""
        if self._server is None:
            raise RuntimeError("the endpoint is not running: use `with ScriptedEndpoint(...) as endpoint:`")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @staticmethod
    def refused_url() -> str:
        """A base URL where nothing listens."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"

    def start(self) -> ScriptedEndpoint:
        """Listen on 127.0.0.1, in threads of its own."""
        self._server = Server(self, self.port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening and break what is open."""
        self.stopping.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server.hang_up()

    def __enter__(self) -> ScriptedEndpoint:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def next_fault(self) -> EndpointFault | None:
        with self._lock:
            return self.faults.pop(0) if self.faults else None

    def seen(self, body: JsonObject, headers: dict[str, str]) -> None:
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
        self.arrived.set()

    def refusal(self, body: JsonObject) -> str:
        """Why an endpoint with these abilities would not take the request; empty if it would."""
        found = self._refused(body)
        return "bad request" if found and self.habits.bare_refusals else found

    def _refused(self, body: JsonObject) -> str:
        kind = (body.get("response_format") or {}).get("type")
        if kind == "json_schema" and not self.json_schema:
            return "'response_format' of type 'json_schema' is not supported by this server"
        if body.get("tools") and not self.tools:
            return "this model does not support tools"
        if body.get("stream") and not self.streaming:
            return "streaming is not supported: 'stream' has to be false"
        if not self.habits.max_tokens and "max_tokens" in body:
            return f"max_tokens is too large: {body['max_tokens']}"
        if not self.habits.system_role and any(turn["role"] == "system" for turn in body["messages"]):
            return "Conversation roles must be user and assistant"
        return ""

    def answer(self, body: JsonObject) -> tuple[str, str | None]:
        """The answer's text, and the function's name if it is to come as a tool call."""
        name, by_tool = schema_name_of(body)
        with self._lock:
            self.calls[name] += 1
        return self._script.next(name, body), name if by_tool else None


def schema_name_of(body: JsonObject) -> tuple[str, bool]:
    """Which schema a request asks for, and whether by a tool; `""` if it names none."""
    if named := ((body.get("response_format") or {}).get("json_schema") or {}).get("name"):
        return str(named), False
    if tools := body.get("tools"):
        return str(tools[0]["function"]["name"]), True
    text = "\n".join(text_of(message.get("content")) for message in body.get("messages", ()))
    if marked := _NAMED_SCHEMA.search(text):
        return marked[1], False
    found = sorted((text.rfind(name), name) for name in SCHEMA_NAMES if name in text)
    return (found[-1][1], False) if found else ("", False)
