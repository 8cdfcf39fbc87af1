"""Instructions that were read once are kept on disk and put back."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from replan.llm.local.prefix import PrefixStore

LONG = "Plan carefully. " * 100


class Slots:
    """The runtime's own port: writes and reads slot files in a folder, for whoever has the key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.restored: list[str] = []
        slots = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["filename"]
                if self.headers["Authorization"] != "Bearer right":
                    self.send_error(401)
                elif self.path.endswith("=save"):
                    (slots.folder / name).write_bytes(b"state")
                    self.send_response_only(200)
                    self.end_headers()
                elif (slots.folder / name).read_bytes() == b"state":
                    slots.restored.append(name)
                    self.send_response_only(200)
                    self.end_headers()
                else:
                    self.send_error(400)

            def log_message(self, *_: Any) -> None:
                return None

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()


@pytest.fixture
def slots(tmp_path: Path) -> Iterator[Slots]:
    made = Slots(tmp_path / "prefixes")
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


def kept(slots: Slots) -> set[str]:
    return {file.name for file in slots.folder.iterdir()}


def test_what_one_process_has_read_the_next_one_puts_back(slots: Slots) -> None:
    first = PrefixStore(slots.folder, "model A")
    name = first.name(LONG)
    assert name is not None
    assert not first.restore(name, slots.address, "right")
    first.save(name, slots.address, "right")
    assert kept(slots) == {name}
    second = PrefixStore(slots.folder, "model A")
    assert second.name(LONG) == name
    assert second.restore(name, slots.address, "right")
    assert slots.restored == [name]


def test_another_model_or_text_has_another_file_and_a_short_text_none(tmp_path: Path) -> None:
    store = PrefixStore(tmp_path, "model A")
    names = {store.name(LONG), store.name(LONG + "!"), PrefixStore(tmp_path, "model B").name(LONG)}
    assert len(names) == 3
    assert store.name("Plan.") is None


def test_a_state_that_the_runtime_does_not_take_is_thrown_away(slots: Slots) -> None:
    store = PrefixStore(slots.folder, "model A")
    name = store.name(LONG)
    assert name is not None
    (slots.folder / name).write_bytes(b"damaged")
    assert not store.restore(name, slots.address, "right")
    assert kept(slots) == set()


@pytest.mark.parametrize(
    ("key", "address"), [("wrong", None), ("right", "http://127.0.0.1:9"), ("right", "")]
)
def test_a_runtime_that_cannot_be_asked_costs_nothing_but_the_saving(
    slots: Slots, key: str, address: str | None
) -> None:
    store = PrefixStore(slots.folder, "model A")
    name = store.name(LONG)
    assert name is not None
    store.save(name, slots.address if address is None else address, key)
    assert kept(slots) == set()


def test_only_the_latest_are_kept(slots: Slots) -> None:
    store = PrefixStore(slots.folder, "model A")
    for number in range(12):
        name = store.name(f"{LONG}{number}")
        assert name is not None
        store.save(name, slots.address, "right")
    assert len(kept(slots)) == 8


def test_a_folder_that_cannot_be_made_switches_it_off(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = PrefixStore(tmp_path / "file" / "prefixes", "model A")
    assert store.name(LONG) is None
