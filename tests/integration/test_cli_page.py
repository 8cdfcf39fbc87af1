"""`replan ui`, and `replan tasks show --html`."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx2
from cli_process import BY_STEPS, folder, going_on, one_step, replan


def test_the_page_shows_the_tasks_of_this_machine_and_drives_what_it_is_given(tmp_path: Path) -> None:
    folder(tmp_path)
    assert replan(*BY_STEPS, "--task-id", "good", cwd=tmp_path).returncode == 0
    args = ("ui", "--port", "0", "--no-open", "--json", "--tools", "tools.py")
    with going_on(*args, cwd=tmp_path) as process:
        url = json.loads(process.stdout.readline())["url"]
        with httpx2.Client(base_url=url, timeout=20) as client:
            assert "<title>Replan</title>" in client.get("/").text
            (row,) = client.get("/api/v1/tasks").json()["items"]
            assert (row["task_id"], row["status"]) == ("good", "succeeded")
            plan = one_step("add", a=2, b=3)
            body = {
                "task_description": "Add",
                "task_id": "more",
                "options": {"plan": plan, "evaluation": "steps"},
            }
            assert client.post("/api/v1/tasks", json=body).status_code == 202
            result = client.get("/api/v1/tasks/more/result", params={"wait": 20}).json()
            assert (result["is_success"], result["final_output"]) == (True, 5)
            foreign = client.post("/api/v1/tasks", json=body, headers={"Origin": "https://elsewhere.example"})
            assert foreign.status_code == 403
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def test_a_task_is_written_as_a_page_that_stands_alone(tmp_path: Path) -> None:
    folder(tmp_path, one_step("fail", why="</script><b>没有"))
    assert replan(*BY_STEPS, "--task-id", "bad", cwd=tmp_path).returncode == 1
    told = replan("tasks", "show", "bad", "--html", "bad.html", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    page = (tmp_path / "bad.html").read_text("utf-8")
    assert f"bad.html: {len(page.encode()):,} bytes" in told.stderr
    assert "</script><b>" not in page
    data = json.loads(page.partition('id="export">')[2].partition("</script>")[0])
    assert data["events"][0]["type"] == "task_submitted"
    assert "没有" in data["result"]["failure"]["reason"]
    both = replan("tasks", "show", "bad", "--html", "bad.html", "--json", cwd=tmp_path)
    assert both.returncode == 2
    assert "exclude each other" in both.stderr
