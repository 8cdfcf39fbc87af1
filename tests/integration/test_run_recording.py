"""A recording that cannot be written: the task loses nothing, the file is named, and the model is not blamed."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict

from replan.errors import InputError
from replan.llm.recorder import RecordingModel, ReplayModel
from replan.testing import ScriptedModel

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="a full disk is played by a limit that Windows lacks"),
]
PLAN = plan(step("p", "pay"))


@contextlib.contextmanager
def room(file: Path, more: int) -> Iterator[None]:
    """`with`: files may grow up to so much more than this one has."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = file.stat().st_size if file.exists() else 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def answers() -> Any:
    return {"execution_plan": PLAN, "evaluation": verdict()}


def pays(output: Any = "paid") -> dict[str, FakeTool]:
    return {"pay": FakeTool(effect="once", output=output)}


@pytest.mark.parametrize("more", [0, 1, 300], ids=["not at all", "one byte", "half a line"])
async def test_a_task_whose_judgement_cannot_be_recorded_waits_and_goes_on_once_there_is_room(
    tmp_path: Path, more: int
) -> None:
    file = tmp_path / "run.jsonl"
    model = RecordingModel(ScriptedModel(answers()), file)
    with contextlib.ExitStack() as full:
        made = await bench(pays(lambda _: full.enter_context(room(file, more)) or "paid"), model=model)
        task_id = await made.submit()
        ran = await made.drive(task_id)
    assert ran.result.status == "waiting"
    (waits,) = ran.result.waiting_for
    assert f"the recording {file} cannot be written" in waits.text
    assert "the model gave no usable answer" not in waits.text
    assert ReplayModel(file).left == 1, "what it holds are whole lines"

    ran = (await made.drive(task_id)).check()
    assert ran.result.is_success
    assert len(ran.source.calls) == 1
    await model.aclose()
    again = await bench(pays(), model=ReplayModel(file))
    assert (await again.run(task_id=task_id)).result.is_success


@pytest.mark.parametrize("where", ["a full disk", "a device that takes nothing"])
async def test_a_task_whose_plan_cannot_be_recorded_fails_for_that_and_calls_nothing(
    tmp_path: Path, where: str
) -> None:
    file = tmp_path / "run.jsonl" if where == "a full disk" else Path("/dev/full")
    if not file.parent.exists() or (where != "a full disk" and not file.exists()):
        pytest.skip("there is no /dev/full")
    made = await bench(pays(), model=RecordingModel(ScriptedModel(answers()), file))
    with room(tmp_path / "none", 10) if where == "a full disk" else contextlib.nullcontext():
        ran: Ran = (await made.run()).check()
    assert ran.result.status == "failed"
    assert f"the recording {file} cannot be written" in (ran.result.reason or "")
    assert "the model gave" not in (ran.result.reason or "")
    assert ran.source.calls == []
    assert ran.result.usage.llm_calls == 1
    assert ran.result.usage.output_tokens > 0, "the model has answered, and is to be paid for"


async def test_what_answers_cost_that_could_not_be_recorded_counts_for_the_limits(tmp_path: Path) -> None:
    """Else each resumption would pay for one more of them."""
    file = tmp_path / "run.jsonl"
    model = RecordingModel(ScriptedModel(answers()), file)
    made = await bench(pays(), model=model)
    task_id = await made.submit(PLAN, evaluation="model", budget={"max_tokens": 3_000})
    counted = []
    for _ in range(20):
        with room(file, 0):
            ran = await made.drive(task_id)
        counted.append(ran.state.usage.input_tokens + ran.state.usage.output_tokens)
        if ran.result.status != "waiting":
            break
    assert counted[:2] == sorted(set(counted)), "each answer counts"
    assert ran.check().result.failure is not None
    assert ran.result.failure.limit == "max_tokens"


def test_a_recording_in_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        RecordingModel(ScriptedModel({}), tmp_path / "file" / "run.jsonl")


async def test_a_replay_says_that_the_recordings_last_line_was_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "run.jsonl"
    model = RecordingModel(ScriptedModel(answers()), file)
    assert (await (await bench(pays(), model=model)).run()).result.is_success
    await model.aclose()
    with caplog.at_level(logging.WARNING, "replan"):
        assert ReplayModel(file).left == 2
        assert not caplog.records, "a whole one is silent"
        file.write_bytes(file.read_bytes()[:-20])
        ran = (await (await bench(pays(), model=ReplayModel(file))).run()).check()
    assert any(str(file) in one.getMessage() and "cut off" in one.getMessage() for one in caplog.records)
    assert "has no request for 'evaluation'" in (ran.result.reason or "")
    assert "was cut off in its last line" in (ran.result.reason or "")
