"""An MCP server over stdio, written by hand on the standard library: it behaves, or misbehaves as it is told.

    python mcp_raw_server.py [--tell PORT] [--version 2025-06-18] [--page N] [--fault NAME] [--state FILE]

It tells what happens as lines to a TCP port of the loopback. `--state`: a file that faults "once" remember by.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

ANY = {"type": "object", "properties": {"value": {}}, "required": ["value"], "additionalProperties": False}
WRAPPED = {
    "type": "object",
    "properties": {"result": {}},
    "required": ["result"],
    "x-fastmcp-wrap-result": True,
}


def no_more(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


NUMBER, TEXT = {"type": "integer"}, {"type": "string"}
SUM = {"type": "object", "properties": {"sum": NUMBER}, "required": ["sum"]}
READS = {"readOnlyHint": True}
TOOLS: list[dict[str, Any]] = [
    {"name": "echo", "inputSchema": ANY, "outputSchema": WRAPPED, "annotations": READS},
    {
        "name": "add",
        "title": "Add numbers",
        "inputSchema": no_more(a=NUMBER, b=NUMBER),
        "outputSchema": SUM,
        "annotations": READS,
    },
    {"name": "fail", "inputSchema": no_more(text=TEXT)},
    {"name": "wait", "inputSchema": no_more()},
    {"name": "progress", "inputSchema": no_more()},
    {"name": "meet", "inputSchema": no_more(n=NUMBER), "outputSchema": WRAPPED},
    {"name": "put", "inputSchema": no_more(), "annotations": {"idempotentHint": True, "openWorldHint": True}},
    {
        "name": "give",
        "inputSchema": {"type": "object", "properties": {"content": {}, "structured": {}, "kind": {}}},
    },
    {"name": "lie", "inputSchema": no_more(), "outputSchema": SUM},
    {"name": "text_only", "inputSchema": no_more(), "outputSchema": SUM},
    {"name": "meta", "inputSchema": no_more()},
    {"name": "ask", "inputSchema": no_more()},
    {"name": "roots", "inputSchema": no_more()},
    {"name": "sample", "inputSchema": no_more()},
    {"name": "huge", "inputSchema": no_more(size=NUMBER)},
    {"name": "broken", "inputSchema": no_more()},
    {"name": "malformed", "inputSchema": no_more()},
    {"name": "code", "inputSchema": {"type": "object", "required": ["code", "message"]}},
    {"name": "die", "inputSchema": no_more()},
    {"name": "exit_after", "inputSchema": no_more()},
    {"name": "change", "inputSchema": no_more()},
    {"name": "flood", "inputSchema": no_more(n=NUMBER)},
    {"name": "child", "inputSchema": no_more()},
    {"name": "pid", "inputSchema": no_more(), "annotations": READS},
]
BAD_TOOLS: list[Any] = [
    {"name": "no_schema"},
    {"name": "schema_of_text", "inputSchema": "text"},
    {"name": "list_schema", "inputSchema": {"type": "array"}},
    {"name": "bad_type", "inputSchema": {"type": "object", "properties": {"a": {"type": "nothing"}}}},
    {"inputSchema": {"type": "object"}},
    "a text",
    {"name": "only_task", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
    {"name": "bad_output", "inputSchema": {"type": "object"}, "outputSchema": {"type": 7}},
    {"name": "bad_hints", "inputSchema": {}, "annotations": "harmless", "title": None},
]


class Server:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lock = threading.Lock()
        self.cancelled: dict[Any, threading.Event] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.answered = threading.Condition()
        self.arrived = threading.Condition()
        self.met = 0
        self.tools = list(TOOLS)
        if options.fault == "bad tools":
            self.tools += BAD_TOOLS
        self.tell_socket = socket.create_connection(("127.0.0.1", options.tell)) if options.tell else None

    def tell(self, word: str) -> None:
        if self.tell_socket is not None:
            self.tell_socket.sendall(f"{word}\n".encode())

    def write(self, raw: str) -> None:
        with self.lock:
            sys.stdout.write(raw + "\n")
            sys.stdout.flush()

    def send(self, **message: Any) -> None:
        whole = {"jsonrpc": "2.0", **message}
        if self.options.fault == "id last" and "id" in message:
            whole["id"] = whole.pop("id")
        mark = "\ufeff" if self.options.fault == "byte order mark" else ""
        self.write(mark + json.dumps(whole, ensure_ascii=False))

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        with self.answered:
            number = f"s{len(self.answers)}"
            self.answers[number] = {}
        self.send(id=number, method=method, params=params)
        with self.answered:
            self.answered.wait_for(lambda: self.answers[number], 10)
            return self.answers[number]

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                with self.answered:
                    self.answers[message["id"]] = message
                    self.answered.notify_all()
            elif message["method"] == "notifications/cancelled":
                self.tell(f"cancelled {message['params'].get('reason')}")
                self.cancelled.setdefault(message["params"]["requestId"], threading.Event()).set()
            elif message["method"] == "tools/call" and self.options.fault == "deaf":
                self.call(message)
                os.close(0)
                threading.Event().wait(60)
            elif message["method"] == "tools/call":
                threading.Thread(target=self.call, args=(message,), daemon=True).start()
            elif "id" in message:
                self.answer(message)
        self.tell("eof")

    def answer(self, message: dict[str, Any]) -> None:
        number, method, fault = message["id"], message["method"], self.options.fault
        params = message.get("params") or {}
        if method == "initialize":
            if fault == "hang at start":
                return
            if fault == "die at start":
                print("cannot go on: the token s3cret-token is wrong", file=sys.stderr)
                sys.exit(3)
            if fault == "noise":
                self.write(
                    'Starting up…\n\n{not json}\n[1, 2]\n42\n{"jsonrpc": "2.0", "id": 999, "result": {}}'
                )
            self.send(
                id=number,
                result={
                    "protocolVersion": self.options.version,
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "raw", "version": "1"},
                },
            )
        elif method == "tools/list":
            if fault == "slow list" or (fault == "slow list once" and self.first("list")):
                return
            size = self.options.page or len(self.tools)
            at = int(params.get("cursor") or 0)
            page = {"tools": self.tools[at : at + size]}
            if at + size < len(self.tools):
                page["nextCursor"] = str(at + size)
            if fault == "circle":
                page["nextCursor"] = "0"
            if fault == "same page again":
                page["nextCursor"] = str(at + 1)
                page["tools"] = [*self.tools[:3], self.tools[0] | {"inputSchema": {"type": "nothing"}}]
            if fault == "empty cursor":
                page.setdefault("nextCursor", "")
            self.send(id=number, result=page)
        elif method == "ping":
            self.send(id=number, result={})
        else:
            self.send(id=number, error={"code": -32601, "message": f"Method not found: {method}"})

    def first(self, what: str) -> bool:
        """Whether this is the first time, over all starts of the server."""
        path = f"{self.options.state}.{what}"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def call(self, message: dict[str, Any]) -> None:
        number, params = message["id"], message["params"]
        name, arguments = params["name"], params.get("arguments") or {}
        found = getattr(self, f"do_{name}", None)
        if found is None or (name == "add" and self.options.fault == "changed schema"):
            code, text = (-32602, f"Unknown tool: {name}") if found is None else (-32602, "c is required")
            self.send(id=number, error={"code": code, "message": text})
            return
        result = found(number, params.get("_meta") or {}, **arguments)
        if result is not None:
            self.send(id=number, result=result)

    def do_echo(self, number: Any, meta: Any, value: Any) -> Any:
        return structured({"result": value})

    def do_add(self, number: Any, meta: Any, a: int, b: int) -> Any:
        return structured({"sum": a + b})

    def do_fail(self, number: Any, meta: Any, text: str) -> Any:
        return {"content": [{"type": "text", "text": text}], "isError": True}

    def do_wait(self, number: Any, meta: Any) -> Any:
        self.tell("started")
        if self.cancelled.setdefault(number, threading.Event()).wait(10):
            self.tell("reached")

    def do_progress(self, number: Any, meta: Any) -> Any:
        if (token := meta.get("progressToken")) is not None:
            for step, word in ((1, "half"), (2, "done")):
                told = {"progressToken": token, "progress": step, "total": 2, "message": word}
                self.send(method="notifications/progress", params=told)
        return structured({"ok": True})

    def do_meet(self, number: Any, meta: Any, n: int) -> Any:
        with self.arrived:
            self.met += 1
            self.arrived.notify_all()
            return structured({"result": self.arrived.wait_for(lambda: self.met >= n, 10)})

    def do_put(self, number: Any, meta: Any) -> Any:
        return {"content": []}

    def do_give(
        self, number: Any, meta: Any, content: Any = (), structured: Any = None, kind: Any = None
    ) -> Any:
        result: dict[str, Any] = {} if content == "left out" else {"content": content and list(content)}
        if kind is not None:
            result["resultType"] = kind
        return result if structured is None else {**result, "structuredContent": structured}

    def do_lie(self, number: Any, meta: Any) -> Any:
        return structured({"sum": "many"})

    def do_text_only(self, number: Any, meta: Any) -> Any:
        text = "[" * 200_000 if self.options.fault == "deep" else '{"sum": 5}'
        return {"content": [{"type": "text", "text": text}]}

    def do_meta(self, number: Any, meta: Any) -> Any:
        return structured({"meta": meta})

    def do_ask(self, number: Any, meta: Any) -> Any:
        schema = {"type": "object", "properties": {"color": TEXT}, "required": ["color"]}
        return structured(self.request("elicitation/create", message="Which color?", requestedSchema=schema))

    def do_roots(self, number: Any, meta: Any) -> Any:
        return structured(self.request("roots/list"))

    def do_sample(self, number: Any, meta: Any) -> Any:
        message = {"role": "user", "content": {"type": "text", "text": "hi"}}
        return structured(self.request("sampling/createMessage", messages=[message], maxTokens=5))

    def do_huge(self, number: Any, meta: Any, size: int) -> Any:
        return {"content": [{"type": "text", "text": "x" * size}]}

    def do_broken(self, number: Any, meta: Any) -> Any:
        self.write(f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"content": [')

    def do_malformed(self, number: Any, meta: Any) -> Any:
        return {"content": "no list"}

    def do_code(self, number: Any, meta: Any, code: int, message: str, data: Any = None) -> Any:
        beside = {} if data is None else {"data": data}
        self.send(id=number, error={"code": code, "message": message, **beside})

    def do_die(self, number: Any, meta: Any) -> Any:
        print("out of memory", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def do_exit_after(self, number: Any, meta: Any) -> Any:
        self.send(id=number, result=structured({"done": True}))
        os._exit(0)

    def do_change(self, number: Any, meta: Any) -> Any:
        self.tools.append({"name": "new", "inputSchema": no_more()})
        for _ in range(3):
            self.send(method="notifications/tools/list_changed")
        return {"content": []}

    def do_flood(self, number: Any, meta: Any, n: int) -> Any:
        for count in range(n):
            self.send(method="notifications/message", params={"level": "info", "data": "x" * 500})
            self.send(method="notifications/progress", params={"progressToken": number, "progress": count})
        return structured({"sent": n})

    def do_child(self, number: Any, meta: Any) -> Any:
        """A process that would outlive the server, and holds its stdout open."""
        child = subprocess.Popen(["sleep", "300"])
        return structured({"pid": child.pid, "server": os.getpid()})

    def do_pid(self, number: Any, meta: Any) -> Any:
        return structured({"pid": os.getpid()})


def structured(value: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tell", type=int)
    parser.add_argument("--version", default="2025-06-18")
    parser.add_argument("--page", type=int, default=0)
    parser.add_argument("--fault", default="")
    parser.add_argument("--state", default="")
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    Server(parser.parse_args()).serve()
