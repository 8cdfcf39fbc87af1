"""Events come once each and in order, however the line is cut."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from test_page_store import logs

WATCHED = """() => new Promise(async (resolve) => {
  const { Session } = await import("replan/live");
  const states = [];
  const session = new Session("t", { told() {}, changed() {
    states.push(session.state.kind);
    if (session.state.kind === "ended") resolve({ seen: session.events.map((event) => event.seq), states });
  } });
  session.start();
})"""


def ended_log() -> list[dict[str, Any]]:
    ends = {"task_completed", "task_failed", "task_cancelled"}
    return min((log["events"] for log in logs() if log["events"][-1]["type"] in ends), key=len)


def test_a_stream_that_is_cut_after_every_event_or_leaves_some_out_loses_none(modules: Any) -> None:
    events = ended_log()
    sent = 0
    asked = 0

    def answered(route: Any) -> None:
        nonlocal sent, asked
        after = int(parse_qs(urlsplit(route.request.url).query)["after"][0])
        if route.request.headers["accept"] == "text/event-stream":
            asked += 1
            skip = 1 if asked % 3 == 0 and after + 2 <= len(events) else 0
            event = events[after + skip]
            sent = max(sent, event["seq"])
            twice = f"data: {json.dumps(events[max(0, after - 1)])}\n\n:\n\ndata: {json.dumps(event)}\n\n"
            route.fulfill(body=twice, content_type="text/event-stream")
        else:
            route.fulfill(json={"items": events[after:sent], "next_after": None})

    modules.route("**/api/v1/**", answered)
    found = modules.evaluate(WATCHED)
    modules.unroute("**/api/v1/**")
    assert found["seen"] == [event["seq"] for event in events]
    assert found["states"][-1] == "ended"


def test_an_answer_that_is_none_is_waited_out_and_told(modules: Any) -> None:
    events = ended_log()
    failed = []

    def answered(route: Any) -> None:
        if len(failed) < 1:
            failed.append(route.request.url)
            route.fulfill(body="<p>the proxy says", content_type="text/html")
        else:
            route.fulfill(json={"items": events, "next_after": None})

    modules.route("**/api/v1/**", answered)
    found = modules.evaluate(WATCHED)
    modules.unroute("**/api/v1/**")
    assert "reconnecting" in found["states"]
    assert found["seen"] == [event["seq"] for event in events]
