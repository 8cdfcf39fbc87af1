"""Recording calls to a model and replaying them, byte for byte."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from replan.core.limits.budget import COUNTED, Counted, left
from replan.core.limits.policy import Budget
from replan.core.types import Usage
from replan.errors import InputError, ModelUnavailable
from replan.llm.recorder import RecordingModel, ReplayModel, request_key
from replan.ports import ModelReply, ModelRequest, Turn
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def request(text: str = "Compare Rome and Oslo", **changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {
        "role": "planning",
        "schema_name": "execution_plan",
        "json_schema": {"type": "object"},
        "instructions": "Plan.",
        "turns": (Turn(role="user", text=text),),
    }
    return ModelRequest(**fields | changes)


async def record(path: Path, *calls: tuple[ModelRequest, Any], **model: Any) -> list[ModelReply]:
    recorder = RecordingModel(
        ScriptedModel({"execution_plan": [answer for _, answer in calls]}, **model), path
    )
    replies = [await recorder.ask(asked) for asked, _ in calls]
    await recorder.aclose()
    return replies


async def test_a_replay_gives_the_same_replies_in_the_same_order_and_is_the_same_kind_of_model(
    tmp_path: Path,
) -> None:
    file = tmp_path / "deep" / "run.jsonl"
    calls = [(request(), {"n": 1}), (request("другое 🚀\ud800"), "no JSON"), (request(), {"n": 2})]
    replies = await record(file, *calls, name="tiny", style="small")
    replay = ReplayModel(file)
    assert (replay.name, replay.style, replay.left) == ("tiny", "small", 3)
    assert [await replay.ask(asked) for asked, _ in calls] == replies
    assert replay.left == 0


async def test_a_replay_says_that_the_same_may_be_asked_in_another_way_where_the_model_did(
    tmp_path: Path,
) -> None:
    class Climbing(ScriptedModel):
        async def ask(self, asked: ModelRequest, on_text: Any = None) -> ModelReply:
            reply = await super().ask(asked, on_text)
            return reply.model_copy(update={"other_ways": asked.unread == 0})

    file = tmp_path / "run.jsonl"
    recorder = RecordingModel(Climbing({"execution_plan": ["no JSON", {"n": 1}]}), file)
    ways = (request(), request(unread=1))
    replies = [await recorder.ask(way) for way in ways]
    await recorder.aclose()
    replay = ReplayModel(file)
    again = [await replay.ask(way) for way in ways]
    assert again == replies
    assert [one.other_ways for one in again] == [True, False]


async def test_two_recordings_of_the_same_calls_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        await record(tmp_path / name, (request(), {"n": 1}), (request("x"), {"n": 2}))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


async def test_an_unreachable_model_is_replayed_as_one(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    broken = RecordingModel(ScriptedModel({"execution_plan": ModelUnavailable("down", transient=True)}), file)
    with pytest.raises(ModelUnavailable):
        await broken.ask(request())
    await broken.aclose()
    with pytest.raises(ModelUnavailable, match="down") as caught:
        await ReplayModel(file).ask(request())
    assert caught.value.transient


async def test_an_answer_asked_for_once_more_than_recorded_is_an_error(tmp_path: Path) -> None:
    await record(tmp_path / "run.jsonl", (request(), {"n": 1}))
    replay = ReplayModel(tmp_path / "run.jsonl")
    await replay.ask(request())
    with pytest.raises(
        ModelUnavailable, match="'execution_plan' of the role 'planning' once, and it was asked once more"
    ):
        await replay.ask(request())


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        pytest.param(request("Compare Rome and Bern"), "turns .*Oslo.*Bern", id="the text"),
        pytest.param(request(instructions="Plan well."), "instructions .*Plan well", id="the instructions"),
        pytest.param(request(temperature=0.5), r"temperature .*null.*0\.5", id="the temperature"),
        pytest.param(request(json_schema={"type": "array"}), "json_schema .*object.*array", id="the schema"),
        pytest.param(request(schema_name="evaluation"), "it has: execution_plan", id="the kind"),
    ],
)
async def test_a_request_that_was_not_recorded_is_told_with_what_differs(
    tmp_path: Path, asked: ModelRequest, says: str
) -> None:
    await record(tmp_path / "run.jsonl", (request("Something else entirely"), {}), (request(), {}))
    with pytest.raises(ModelUnavailable, match=says):
        await ReplayModel(tmp_path / "run.jsonl").ask(asked)


def test_limits_do_not_make_another_request() -> None:
    assert request_key(request(timeout_secs=5, max_tokens=7)) == request_key(request())
    assert request_key(request(temperature=0.1)) != request_key(request())


def test_the_seconds_that_are_left_do_not_make_another_request_but_those_of_a_task_do() -> None:
    def asked(text: str) -> str:
        return request_key(request(turns=(Turn(role="user", text=text),)))

    left = "Left of the budget: 4 of 5 model calls, {} of {} seconds"
    assert asked(left.format("1785.1", "1800")) == asked(left.format("299.8", "300"))
    assert asked("wait 5 of 10 seconds") != asked("wait 6 of 10 seconds")


@pytest.mark.parametrize("counted", COUNTED, ids=lambda one: one.name)
@pytest.mark.parametrize("allowed", [9, 2_000_000, 0.00007])
def test_what_is_left_of_what_calls_beside_use_does_not_make_another_request(
    counted: Counted, allowed: float
) -> None:
    def asked(share: float, most: float) -> str:
        used = share * most
        usage = Usage.model_construct(
            llm_calls=used, tool_calls=used, input_tokens=used, output_tokens=0, cost_usd=used
        )
        budget = Budget.model_construct(**{"task_timeout_secs": None, counted.name: most})
        told = left(budget, usage, rounds=used, secs=used)  # type: ignore[arg-type]
        return request_key(request(f"Left of the budget: {told}\\nWhat now?"))

    same = counted.asked_before != "round"
    assert (asked(0.1, allowed) == asked(0.7, allowed)) is same
    assert (asked(0.1, allowed) == asked(0.1, 2 * allowed)) is (counted.asked_before == "time")


async def test_a_recording_goes_on_after_a_line_that_a_crash_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    await record(file, (request("a"), {"n": 1}), (request("b"), {"n": 2}))
    file.write_bytes(file.read_bytes()[:-20])
    assert (await ReplayModel(file).ask(request("a"))).text == '{"n": 1}'
    await record(file, (request("b"), {"n": 3}))
    replay = ReplayModel(file)
    assert [(await replay.ask(request(text))).text for text in "ab"] == ['{"n": 1}', '{"n": 3}']
    assert file.read_text().count("replan_recording") == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "cannot be read", id="not there"),
        pytest.param("", "is not a recording", id="empty"),
        pytest.param("[tool]\nx = 1\n", "is not a recording", id="another file"),
        pytest.param('{"replan_recording": 1}\n{"key": 1}\n', "line 2", id="a damaged line"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: str | None, says: str) -> None:
    file = tmp_path / "run.jsonl"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=says):
        ReplayModel(file)


@pytest.mark.parametrize("content", ["precious notes", "precious\nnotes\n"])
def test_recording_never_overwrites_another_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(content)
    with pytest.raises(InputError, match="is not a recording"):
        RecordingModel(ScriptedModel({}), file)
    assert file.read_text() == content


async def test_a_recording_holds_whole_lines_of_json_and_no_address(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    await record(file, (request(), {"n": 1}))
    header, call = (json.loads(line) for line in file.read_text().splitlines())
    assert header == {"replan_recording": 1, "name": "scripted", "style": "standard"}
    assert set(call) == {"key", "request", "reply"}
    assert call["reply"]["text"] == '{"n": 1}'


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Today is 2026-11-29, a Sunday.", "Today is 2026-11-30, a Monday.", True),
        ("Today is 2026-11-29.", "Today is 2026-11-30.", True),
        ("Today is 2026-11-29, a Sunday.", "Today is 2026-11-29, a rest.", False),
    ],
)
async def test_a_recording_serves_on_every_day_of_the_week(one: str, other: str, same: bool) -> None:
    assert (request_key(request(one)) == request_key(request(other))) is same


def _leads_to(descriptor: str, folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder))
    return False


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not tell what is open")
class Echoes(ScriptedModel):
    """An endpoint that gives back the key as its own name."""

    async def ask(self, request: ModelRequest, on_text: Any = None) -> ModelReply:
        reply = await super().ask(request, on_text)
        return reply.model_copy(update={"model": "tiny-hush", "endpoint": "http://hush.example"})


async def test_no_secret_of_an_answer_is_recorded_whatever_field_it_stands_in(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    recorder = RecordingModel(Echoes({"execution_plan": ["hush"]}), file)
    reply = await recorder.ask(request(hide=lambda text: text.replace("hush", "***")))
    await recorder.aclose()
    assert reply.model == "tiny-hush"
    assert "hush" not in file.read_text()


async def test_a_recording_is_closed_also_where_its_model_cannot_be(tmp_path: Path) -> None:
    class Stuck(ScriptedModel):
        async def aclose(self) -> None:
            raise RuntimeError("cannot be closed")

    recorder = RecordingModel(Stuck({"execution_plan": [{"n": 1}]}), tmp_path / "run.jsonl")
    await recorder.ask(request())
    (held,) = [each for each in os.listdir("/proc/self/fd") if _leads_to(each, tmp_path)]

    with pytest.raises(RuntimeError, match="cannot be closed"):
        await recorder.aclose()

    assert not _leads_to(held, tmp_path)
    assert ReplayModel(tmp_path / "run.jsonl").left == 1
