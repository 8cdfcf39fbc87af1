"""The workflows that ship with Replan: each by its slots alone, and each chosen by a model that fills them."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from run_tasks import verdict

from replan import Replan
from replan.core.types import JsonObject
from replan.kinds.library import built_in
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/page"
        self.send_response(200 if found else 404)
        body = b"<h1>${not.a.reference}</h1>" if found else b""
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Case(NamedTuple):
    slots: Callable[[str], JsonObject]
    good: Callable[[Path, Any], bool]


CASES: dict[str, Case] = {
    "backup-files": Case(
        lambda url: {"folder": "notes", "pattern": "*.txt", "destination": "kept"},
        lambda at, out: (at / "kept/notes/a.txt").read_text() == "Hello World\n" and not (at / "kept/notes/c.md").exists(),
    ),
    "check-urls": Case(
        lambda url: {"urls": [f"{url}/page", f"{url}/nothing"]},
        lambda at, out: [one["status"] for one in out["ask"]] == [200],
    ),
    "fetch-to-file": Case(
        lambda url: {"url": f"{url}/page", "path": "pages/a.html"},
        lambda at, out: (at / "pages/a.html").read_text() == "<h1>${not.a.reference}</h1>",
    ),
    "find-text": Case(
        lambda url: {"query": "world", "folder": "notes"},
        lambda at, out: [one["path"] for one in json.loads((at / "found.json").read_text())["hits"]] == ["notes/a.txt"],
    ),
    "table-summary": Case(
        lambda url: {"file": "sales.csv", "group_by": "city", "measure": "price"},
        lambda at, out: [(one["city"], one["total"]) for one in out["rows"]] == [("Rome", 8), ("Oslo", 4)],
    ),
    "working-days": Case(
        lambda url: {"start": "2026-03-02", "days": 10},
        lambda at, out: out["date"]["date"] == "2026-03-16" and out["remind"]["date"] == "2026-03-12" and out["between"]["calendar_days"] == 14,
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("Hello World\n")
    (tmp_path / "notes/b.txt").write_text("nothing\n")
    (tmp_path / "notes/c.md").write_text("nothing\n")
    with (tmp_path / "sales.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("city", "price"), ("Rome", 3), ("Oslo", 4), ("Rome", 5)])
    return tmp_path


def tools(folder: Path, url: str) -> list[str]:
    where = str(folder).replace(",", "\\,")
    host = url.removeprefix("http://")
    return [f"kit:files={where},write=yes", f"kit:data={where}", f"kit:http,allow={host}", "kit:time"]


def test_each_of_them_is_tried() -> None:
    assert [one.workflow_id for one in built_in()] == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
async def test_it_does_what_it_says_by_its_slots_alone(name: str, folder: Path, url: str) -> None:
    async with Replan(tools=tools(folder, url), db=folder / "log.db", evaluation="steps") as replan:
        done = await replan.run(workflow=name, slots=CASES[name].slots(url))
    assert done.succeeded, done.failure
    assert CASES[name].good(folder, done.output)


@pytest.mark.parametrize("name", CASES)
async def test_a_model_that_names_it_is_asked_for_its_slots_and_for_nothing_else(
    name: str, folder: Path, url: str
) -> None:
    slots = CASES[name].slots(url)
    if name == "check-urls":  # one that does not answer would be diagnosed first
        slots["urls"].pop()
    answers = {
        "tool_selection": {"tools": [], "workflow_id": name},
        "workflow_slots": {"slots": slots},
        "evaluation": verdict(),
    }
    model = ScriptedModel(answers)
    async with Replan(model, tools(folder, url), db=folder / "log.db") as replan:
        done = await replan.run("do it")
        outputs = {one.step_id: await replan.output(done.task_id, one.step_id) for one in done.steps}
    assert done.succeeded, done.failure
    assert [one.schema_name for one in model.requests] == ["tool_selection", "workflow_slots", "evaluation"]
    assert all(one.workflow_id in model.requests[0].turns[0].text for one in built_in())
    out = outputs if name not in ("table-summary",) else outputs["summarize"]
    assert CASES[name].good(folder, out)
