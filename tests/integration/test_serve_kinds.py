"""Scenes and workflows of a service: shown, run by their slots, and taken up as they are edited while it runs."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import grpc
import pytest
from service_here import Here, service_on

from replan import Replan, tool
from replan.client import Client
from replan.errors import InputError, TaskExists
from replan.server.grpc.messages import SERVICE, pb

pytestmark = pytest.mark.anyio

FLOW = """
id: greet
description: Greet somebody.
slots: {name: {type: string}, times: {type: integer, default: 2}}
steps: [{step_id: say, tool: say, parameters: {text: "Hello ${slots.name}, ${slots.times} times"}}]
"""
SCENE = "---\ntask_type: polite\ndescription: Greetings.\nplanning: Be kind.\n---\n"


@tool(effect="reads")
def say(text: str) -> str:
    """Say something."""
    return text


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "greet.yaml").write_text(FLOW)
    (tmp_path / "polite.md").write_text(SCENE)
    return tmp_path


def made(files: Path) -> Replan:
    return Replan(tools=[say], db=files / "log.db", evaluation="steps", workflows=files, scenes=files)


async def edited(client: Client, files: Path, text: str, done: str) -> None:
    """Write the file, and wait until the service has looked at it: it does once a second at most."""
    file = files / "greet.yaml"
    file.write_text(text)
    os.utime(file, ns=(1, hash(text) & 0xFFFFFF))  # also where both were written within one tick of its clock
    async with asyncio.timeout(20):
        while True:
            seen = [
                (await client.ready()).model_dump(),
                [one.model_dump() for one in await client.workflows()],
            ]
            if done in json.dumps(seen):
                return


async def test_they_are_shown_and_run_and_edits_are_taken_up_without_a_restart(files: Path) -> None:
    async with service_on(made(files)) as here, Client(here.url) as client:
        found = {one.id: one for one in await client.workflows()}
        greet = found["greet"]
        assert (greet.required, greet.steps, greet.tools, greet.lacking) == (("name",), 1, ("say",), ())
        assert "http_get" in found["fetch-to-file"].lacking
        default, scene = await client.scenes()
        assert (default.task_type, default.guides) == ("default", ())
        assert (scene.task_type, scene.guides) == ("polite", ("planning",))
        assert "Be kind" not in scene.model_dump_json(), "the guidance is for the models"
        done = await client.run("greet Ann", workflow="greet", slots={"name": "Ann"})
        assert done.output == "Hello Ann, 2 times"
        again = await client.submit("greet Ann", task_id="t-1", workflow="greet", slots={"name": "Ann"})
        await client.wait(again)

        await edited(client, files, FLOW.replace("Hello", "Good day"), "description")
        await edited(
            client,
            files,
            FLOW.replace("Greet somebody", "Wish a good day").replace("Hello", "Good day"),
            "Wish a good day",
        )
        later = await client.run("greet Ann", workflow="greet", slots={"name": "Ann", "times": 3})
        assert later.output == "Good day Ann, 3 times"
        same = await client.submit("greet Ann", task_id="t-1", workflow="greet", slots={"name": "Ann"})
        assert same == "t-1", "the same request, whatever its workflow is by now"
        with pytest.raises(TaskExists):
            await client.submit("greet Ann", task_id="t-1", workflow="greet", slots={"name": "Bob"})

        await edited(client, files, "id: [", "no valid YAML")
        ready = await client.ready()
        assert ready.ready, "it goes on with what it had last"
        (told,) = [one for one in ready.dependencies if one.name == "scenes and workflows"]
        assert "greet.yaml" in told.detail
        assert (
            await client.run("x", workflow="greet", slots={"name": "Eve"})
        ).output == "Good day Eve, 2 times"


async def test_what_does_not_fit_is_refused_before_there_is_a_task_and_a_preview_shows_the_plan(
    files: Path,
) -> None:
    async with service_on(made(files)) as here, Client(here.url) as client:
        for options, words in (
            ({"workflow": "greeet"}, "did you mean 'greet'"),
            ({"workflow": "greet"}, "slot 'name' has to be filled"),
            ({"workflow": "greet", "slots": {"name": "a", "times": "x"}}, "slot 'times'"),
            ({"slots": {"name": "a"}}, "name it, too"),
        ):
            with pytest.raises(InputError, match=words):
                await client.submit("x", **options)
        assert await client.tasks() == []
        plan = await client.plan("x", workflow="greet", slots={"name": "${say.output}"})
        assert plan.steps[0].parameters == {"text": "Hello $${say.output}, 2 times"}


async def test_grpc_has_them_too(files: Path) -> None:
    async with (
        service_on(made(files)) as here,
        grpc.aio.insecure_channel(f"127.0.0.1:{here.grpc_port}") as channel,
    ):
        listed = await _call(channel, "ListWorkflows", pb.Empty(), pb.JsonList)
        assert "greet" in [json.loads(one)["id"] for one in listed.items_json]
        listed = await _call(channel, "ListScenes", pb.Empty(), pb.JsonList)
        assert [json.loads(one)["task_type"] for one in listed.items_json] == ["default", "polite"]
        wanted = pb.SubmitTaskRequest(task_description="greet Ann")
        wanted.options.workflow, wanted.options.slots_json = "greet", '{"name": "Ann"}'
        task_id = (await _call(channel, "SubmitTask", wanted, pb.Submitted)).task_id
        assert (await _ended(here, task_id)) == "Hello Ann, 2 times"


async def _call(channel: grpc.aio.Channel, name: str, message: object, gives: type) -> object:
    send = channel.unary_unary(f"/{SERVICE}/{name}", type(message).SerializeToString, gives.FromString)
    return await send(message)


async def _ended(here: Here, task_id: str) -> object:
    return (await here.replan.wait(task_id)).output


async def test_a_form_of_the_answer_that_none_can_be_held_to_is_refused_here_too(files: Path) -> None:
    async with service_on(made(files)) as here:
        for schema in ({"pattern": "^(?!x)"}, {"properties": {"a": {"pattern": "(a)\\1"}}}):
            body = json.dumps({"task_description": "x", "options": {"output_schema": schema}}).encode()
            head = f"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            answer = await here.raw(head.encode() + b"Connection: close\r\n\r\n" + body)
            assert answer.split(b" ")[1] == b"422", answer
            assert b"no answer could be held to it" in answer
