"""What a task has read of earlier ones is its own: large values, secrets, another database."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from run_tasks import plan, step, verdict

from replan import Replan, tool
from replan.errors import TaskGivenAway
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio

LARGE = 2_000_000
PASSWORD = "a-password-of-4f9a11"


@tool(effect="reads")
def big(n: int) -> dict[str, Any]:
    return {"rows": [{"n": n}], "rest": "x" * LARGE}


@tool(effect="once")
def send(text: str) -> str:
    return f"sent {len(text)}"


@tool(effect="reads")
def size(text: str) -> int:
    return len(text)


@tool(effect="reads", secrets=["password"])
def login(password: str) -> dict[str, str]:
    return {"who": "ann", "said": f"hello, {password}"}


@tool(effect="reads")
def echo(text: str) -> str:
    return f"echo {text}"


TOOLS = [big, send, size, login, echo]
USES = plan(
    step("all", "send", parameters={"text": "${previous.big.output.rest}"}),
    step("one", "send", parameters={"text": "${previous.big.output.rows[0].n | to_string(@)}"}),
    step("each", "size", for_each="${previous.three.output}", parameters={"text": "${item.rest}"}),
)
FIRST = plan(
    step("big", "big", parameters={"n": 7}),
    step("three", "big", for_each="[1, 2, 3]", parameters={"n": "${item}"}),
)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], Any]:
    """A new database of that kind and name."""

    def make(kind: str, name: str) -> Any:
        return (
            tmp_path / f"{name}.db" if kind == "sqlite" else request.getfixturevalue("new_postgres_schema")()
        )

    return make


def bytes_of(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in folder.iterdir() if one.is_file())


async def file_of(replan: Replan, *task_ids: str, move: bool = False) -> bytes:
    async with replan.export_tasks(task_ids, move=move) as given:
        return b"".join([piece async for piece in given])


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1 << 20):
        yield data[at : at + (1 << 20)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_large_outputs_are_whole_when_the_earlier_task_is_gone_and_in_another_database(
    kind: str, database: Callable[[str, str], Any]
) -> None:
    here, there = database(kind, "here"), database("sqlite", "there")
    held = {**USES, "steps": [{**USES["steps"][0], "requires_approval": True}, *USES["steps"][1:]]}
    async with Replan(tools=TOOLS, db=here, evaluation="steps", interactive=True) as replan:
        assert (await replan.run("get it", plan=FIRST, task_id="first")).succeeded
        result = await replan.run("use it", plan=held, previous_task_id="first", task_id="second")
        assert result.status == "waiting", result.failure
        await replan.delete("first")
        log = json.dumps([one.wire() for one in await replan.history("second")], default=str)
        assert len(log) < 60_000, "what is large is an artifact"
        file = await file_of(replan, "second", move=True)
    async with Replan(tools=TOOLS, db=there, evaluation="steps", interactive=True) as replan:
        await replan.import_tasks(pieces(file))
        await replan.approve("second")
        result = await replan.resume("second")
    found = {one.step_id: one.output for one in result.steps}
    assert found == {"all": f"sent {LARGE}", "one": "sent 1", "each": [LARGE] * 3}


async def test_a_content_that_two_tasks_have_lies_in_the_database_once(tmp_path: Path) -> None:
    async with Replan(tools=TOOLS, db=tmp_path / "log.db", evaluation="steps") as replan:
        await replan.run("get it", plan=plan(FIRST["steps"][0]), task_id="first")
        seen = await replan.plan("use it", plan=plan(*USES["steps"][:2]), previous_task_id="first")
        assert [one.step_id for one in seen.steps] == ["all", "one"], (
            "a plan that is only looked at takes nothing over"
        )
        for n in range(3):
            await replan.run(
                "use it", plan=plan(*USES["steps"][:2]), previous_task_id="first", task_id=f"t{n}"
            )
    assert len(bytes_of(tmp_path)) < 4 * LARGE


async def test_a_secret_of_an_earlier_task_is_in_no_log_and_no_prompt_and_no_call(tmp_path: Path) -> None:
    first = plan(step("in", "login", parameters={"password": "${metadata.password}"}))
    uses = plan(
        step("who", "echo", parameters={"text": "${previous.in.output.who}"}),
        step("said", "echo", parameters={"text": "${previous.in.output.said}"}),
    )
    model = ScriptedModel(
        {
            "execution_plan": [plan(step("s", "echo", parameters={"text": "${previous.in.output.who}"}))],
            "evaluation": verdict(),
        }
    )
    async with Replan(model, TOOLS, db=tmp_path / "log.db") as replan:
        given = {"evaluation": "steps", "plan": first, "task_id": "first"}
        assert (await replan.run("log in", metadata={"password": PASSWORD}, **given)).succeeded
        used = await replan.run("use it", plan=uses, evaluation="steps", previous_task_id="first")
        asked = await replan.run("what did it say?", previous_task_id="first")
        again = await replan.run(
            "use it", plan=uses, evaluation="steps", previous_task_id="first", metadata={"password": PASSWORD}
        )
    assert asked.succeeded
    prompts = "\n".join(turn.text for one in model.requests for turn in one.turns)
    assert "hello, ***" in prompts
    steps = {one.step_id: one for one in used.steps}
    assert steps["who"].output == "echo ann"
    assert steps["said"].status == "failed"
    assert "held a secret" in str(steps["said"].error)
    assert again.status == "failed"
    assert PASSWORD.encode() not in bytes_of(tmp_path)
    assert PASSWORD not in prompts


async def test_a_secret_that_only_the_later_task_knows_is_masked_in_what_it_has_read(tmp_path: Path) -> None:
    async with Replan(tools=TOOLS, db=tmp_path / "log.db", evaluation="steps") as replan:
        first = plan(step("a", "echo", parameters={"text": f"the word is {PASSWORD}"}))
        await replan.run("say it", plan=first, task_id="first")
        uses = plan(step("b", "send", parameters={"text": "${previous.a.output}"}))
        later = await replan.run(
            "use it", plan=uses, previous_task_id="first", metadata={"password": PASSWORD}, task_id="second"
        )
        log = json.dumps([one.wire() for one in await replan.history("second")], default=str)
    assert later.output == f"sent {len(f'echo the word is {PASSWORD}')}", "the call has it as it is"
    assert PASSWORD not in log


async def test_what_turns_out_to_be_secret_later_is_cut_out_of_what_was_read(tmp_path: Path) -> None:
    """Metadata of a plain name, which a plan puts into a parameter that takes a secret."""
    in_ = step("in", "login", parameters={"password": "${metadata.word}"})
    model = ScriptedModel({"execution_plan": plan(in_), "evaluation": verdict()})
    async with Replan(model, TOOLS, db=tmp_path / "log.db") as replan:
        first = plan(step("a", "echo", parameters={"text": f"{PASSWORD} " * 10_000}))
        await replan.run("say it", plan=first, evaluation="steps", task_id="first")
        done = await replan.run(
            "log in", previous_task_id="first", metadata={"word": PASSWORD}, task_id="second"
        )
        assert done.succeeded, done.failure
        records = await replan.history("second")
    (read,) = [one.event for one in records if one.type == "previous_tasks_read"]
    output = read.tasks[0].steps[0].output
    assert output.masked
    assert output.artifact.masked
    assert PASSWORD not in json.dumps([one.wire() for one in records], default=str)


async def test_a_task_that_was_given_away_is_not_followed(tmp_path: Path) -> None:
    async with Replan(tools=TOOLS, db=tmp_path / "log.db", evaluation="steps", interactive=True) as replan:
        held = plan(step("a", "send", parameters={"text": "x"}, requires_approval=True))
        await replan.run("one", plan=held, task_id="first", session_id="s")
        async with replan.export_tasks(["first"], move=True) as given:
            async for _ in given:
                pass
            with pytest.raises(TaskGivenAway):
                await replan.submit("two", plan=held, previous_task_id="first")
            await replan.run("three", plan=held, session_id="s", task_id="third")
        (read,) = [one.event for one in await replan.history("third") if one.type == "previous_tasks_read"]
    assert read.tasks[0].name == ""
    assert "given away" in read.tasks[0].why


async def test_a_replay_reads_what_was_read_when_it_was_recorded(tmp_path: Path) -> None:
    """In the same database, in which the session has one task more since, and in one that has none of them."""
    answers = {
        "execution_plan": plan(
            step("step_1", "size", parameters={"text": "${previous.big.output.rest}"}),
            step("step_2", "echo", parameters={"text": "${previous.a.output}"}) | {"when": "previous.a.output != 'x'"},
        ),
        "evaluation": verdict(output="told"),
    }  # fmt: skip
    first = plan(
        step("big", "big", parameters={"n": 7}), step("a", "echo", parameters={"text": "word " * 20_000})
    )
    recording = tmp_path / "run.jsonl"
    model = ScriptedModel(answers)
    async with Replan(model, TOOLS, db=tmp_path / "log.db", record=recording) as replan:
        assert (
            await replan.run("get it", plan=first, evaluation="steps", task_id="first", session_id="s")
        ).succeeded
        made = await replan.run("use it", session_id="s", previous_task_id="first")
        assert made.succeeded, made.failure
    async with Replan(tools=TOOLS, db=tmp_path / "log.db", replay=recording) as replan:
        again = await replan.run("use it", session_id="s", previous_task_id="first")
    assert again.succeeded, again.failure
    assert [one.output for one in again.steps] == [one.output for one in made.steps]
    async with Replan(tools=TOOLS, db=tmp_path / "other.db", replay=recording) as replan:
        elsewhere = await replan.run("use it", session_id="s", previous_task_id="first")
        (refused,) = [
            one.event for one in await replan.history(elsewhere.task_id) if one.type == "plan_rejected"
        ]
    assert "too large for the recording" in refused.violations[0]
    answers["execution_plan"]["steps"] = answers["execution_plan"]["steps"][1:]
    small = tmp_path / "small.jsonl"
    async with Replan(ScriptedModel(answers), TOOLS, db=tmp_path / "log.db", record=small) as replan:
        made = await replan.run("use it", previous_task_id="first")
    async with Replan(tools=TOOLS, db=tmp_path / "third.db", replay=small) as replan:
        elsewhere = await replan.run("use it", previous_task_id="first")
    assert elsewhere.succeeded, elsewhere.failure
    assert [one.output for one in elsewhere.steps] == [one.output for one in made.steps]
