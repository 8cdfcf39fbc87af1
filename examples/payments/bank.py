"""A small bank on this machine that loses every third answer: the payment is made, and nobody hears of it.

    python -m examples.payments.bank FOLDER

Prints its address. `POST /payments` makes a payment of `{"to", "cents", "memo"}`, `GET /payments?memo=…` lists them; they
stand in `FOLDER/payments.jsonl`, one a line. Like many banks it knows no idempotency keys: asked twice, it pays twice.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

LOSES_EVERY = 3
SECS = 0.1
"""How long the bank takes for a payment; it makes one at a time, also for callers that are gone."""


class Bank(ThreadingHTTPServer):
    """The bank, and its book."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.book = folder / "payments.jsonl"
        self.book.touch()
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def payments(self) -> list[dict[str, Any]]:
        with self.lock:
            return [json.loads(line) for line in self.book.read_text(encoding="utf-8").splitlines()]

    def pay(self, wanted: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            time.sleep(SECS)
            number = len(self.book.read_text(encoding="utf-8").splitlines()) + 1
            payment = {"payment": f"p-{number}", **wanted}
            with self.book.open("a", encoding="utf-8") as book:
                book.write(json.dumps(payment) + "\n")
        return payment


class Desk(BaseHTTPRequestHandler):
    """Serves one request."""

    server: Bank  # pyright: ignore[reportIncompatibleVariableOverride] - it is only served by one

    def do_GET(self) -> None:
        memo = parse_qs(urlsplit(self.path).query).get("memo", [""])[0]
        found = [one for one in self.server.payments() if not memo or one["memo"] == memo]
        self.answer(200, {"payments": found})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not isinstance(body.get("cents"), int) or body["cents"] <= 0:
            self.answer(422, {"error": "cents has to be a number above 0"})
            return
        payment = self.server.pay({name: body[name] for name in ("to", "cents", "memo")})
        if int(payment["payment"].removeprefix("p-")) % LOSES_EVERY == 0:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)  # the answer is lost on the way
            return
        self.answer(201, payment)

    def answer(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        with contextlib.suppress(ConnectionError):  # the caller is gone
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """It keeps no log but its book."""


def main() -> None:
    bank = Bank(Path(sys.argv[1]))
    print(bank.address, flush=True)
    bank.serve_forever()


if __name__ == "__main__":
    main()
