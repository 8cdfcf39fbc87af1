"""What was said with a secret that only another process knows is no value here: no call is ever made with the mask."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from run_tasks import FakeTool, bench, plan, step
from test_run_long_logs import many

from replan import Replan, tool
from replan.core.limits.policy import Policy
from replan.core.secrets import holds_lost, reveal
from replan.errors import PlanInvalid
from replan.run.service.submission import Submission
from replan.run.session.opening import Claimed
from replan.run.session.pages import PAGE
from replan.testing import MemoryStore, virtual_time

SECRET = "zq8-Kw93-plumTree-77"


class World:
    """Tools, and what they were called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def tools(self) -> list[Any]:
        @tool(effect="reads")
        def login(api_token: str) -> str:
            """Log in."""
            return "in"

        @tool
        def pay(to: Any) -> str:
            """Pay."""
            self.calls.append(to)
            return "paid"

        return [login, pay]


def waits(**used: Any) -> dict[str, Any]:
    """A plan that uses what a callback says."""
    return plan(
        step("h", "create_callback"),
        step("a", "login", parameters={"api_token": "${metadata.word}"}),
        step("w", "wait_for_callback", "h", parameters={"token": "${h.output.token}"}),
        step("u", "pay", "w", "a", **{"parameters": {"to": "x"}, **used}),
    )


async def token_of(replan: Replan) -> str:
    while True:
        result = await replan.wait("t")
        for one in result.waiting_for or ():
            if one.kind == "callback":
                return one.id
        await asyncio.sleep(0.02)


async def said_by(other: bool, folder: Path, wanted: dict[str, Any], data: Any, *, ends: bool = False) -> Any:
    """The result of a task, and the calls: another process says something to it, or its own. `ends`: which ends then."""
    world = World()
    options: dict[str, Any] = {"db": folder / "r.db", "tools": world.tools(), "evaluation": "steps"}
    async with Replan(**options) as mine, Replan(**options) as theirs:
        await mine.submit("log in", plan=wanted, task_id="t", secrets={"word": "env:WORD_OF_TEST"})
        token = await token_of(mine)
        await (theirs if other else mine).signal("t", token, data)
        if not ends:
            return await mine.resume("t"), world.calls
    async with Replan(**options) as again:
        return await again.resume("t"), world.calls


USES: dict[str, dict[str, Any]] = {
    "whole": {"parameters": {"to": "${w.output.said[0]}"}},
    "the whole output": {"parameters": {"to": "${w.output}"}},
    "in a text": {"parameters": {"to": "to ${w.output.said[0]}, please"}},
    "computed": {"parameters": {"to": "${w.output.said[0] | length(@)}"}},
    "joined": {"parameters": {"to": "${join('-', w.output.said)}"}},
    "as a text": {"parameters": {"to": "${w.output | to_string(@)}"}},
    "of a text that is JSON": {"parameters": {"to": "${w.output.text.said}"}},
    "the items": {"parameters": {"to": "${item}"}, "for_each": "${w.output.said}"},
    "in a condition": {"when": "w.output.said[0] != 'nobody'"},
    "the names of its fields": {"parameters": {"to": "${keys(w.output.named)}"}},
    "a part with such a name": {"parameters": {"to": "${w.output.named}"}},
    "filtered": {"parameters": {"to": "${w.output.said[?@ != 'nobody'] | [0]}"}},
}
SAID = {"said": [SECRET], "named": {SECRET: 1}, "text": json.dumps({"said": SECRET}), "plain": "Ann"}


@pytest.mark.parametrize("used", USES.values(), ids=USES)
@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "another process goes on"])
def test_no_call_is_made_with_what_was_said_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: dict[str, Any], ends: bool
) -> None:
    monkeypatch.setenv("WORD_OF_TEST", SECRET)
    result, calls = asyncio.run(said_by(True, tmp_path, waits(**used), SAID, ends=ends))
    assert calls == []
    assert result.status == "failed"
    assert "which no log keeps" in result.reason


@pytest.mark.parametrize("size", [1, 300_000], ids=["small", "large"])
def test_what_is_lost_beside_it_does_no_harm_however_large_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv("WORD_OF_TEST", SECRET)
    said = {**SAID, "more": "m" * size}
    used = {"parameters": {"to": "${w.output.plain}"}}
    result, calls = asyncio.run(said_by(True, tmp_path, waits(**used), said))
    assert (result.status, calls) == ("succeeded", ["Ann"])
    (tmp_path / "2").mkdir()
    result, calls = asyncio.run(said_by(True, tmp_path / "2", waits(**USES["whole"]), said))
    assert (result.status, calls) == ("failed", [])


def test_what_this_process_was_told_is_used_as_it_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD_OF_TEST", SECRET)
    result, calls = asyncio.run(said_by(False, tmp_path, waits(**USES["whole"]), SAID))
    assert (result.status, calls) == ("succeeded", [SECRET])


@pytest.mark.parametrize(
    ("said", "called"), [("***bold*** and ***", ["***bold*** and ***"]), ("***", []), ("Bearer ***", [])]
)
def test_stars_in_a_text_are_stars_and_a_mask_alone_is_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, called: list[str]
) -> None:
    monkeypatch.setenv("WORD_OF_TEST", SECRET)
    result, calls = asyncio.run(said_by(True, tmp_path, waits(**USES["whole"]), {"said": [said]}))
    assert calls == called
    assert result.succeeded == bool(called)


@pytest.mark.anyio
async def test_a_secret_that_is_said_among_other_words_is_known_to_its_driver(tmp_path: Path) -> None:
    """The driver may read the log between the moment in which it stands there and the one in which the word itself is kept."""
    world, go = World(), asyncio.Event()
    tokens: asyncio.Queue[str] = asyncio.Queue()

    @tool(effect="reads")
    async def slow(token: str) -> str:
        """Wait."""
        tokens.put_nowait(token)
        await go.wait()
        return token

    wanted = waits(parameters={"to": "${w.output.said[0]}"}, dependencies=["w", "a", "k"])
    wanted["steps"].append(step("k", "slow", "h", parameters={"token": "${h.output.token}"}))
    async with Replan(db=tmp_path / "r.db", tools=[*world.tools(), slow], evaluation="steps") as replan:
        for n in range(15):
            name = f"t{n}"
            go.clear()
            await replan.submit("log in", plan=wanted, task_id=name, secrets={"word": SecretStr(SECRET)})
            token = await tokens.get()
            await asyncio.gather(
                replan.hint(name, "x"),
                replan.signal(name, token, {"said": [SECRET]}),
                *(replan.hint(name, f"x {i}") for i in range(4)),
            )
            go.set()
            result = await replan.wait(name)
            assert result.succeeded, result.reason
    assert world.calls == [SECRET] * 15


@pytest.mark.parametrize("before", [0, PAGE, 2 * PAGE])
def test_what_was_said_here_is_known_on_every_page_of_a_log(before: int) -> None:
    async def main() -> None:
        made = await bench({"t": FakeTool()}, store=MemoryStore())
        task_id, _ = await made.service.submit(
            Submission("do it", Policy(), task_id="t", secrets={"word": SecretStr(SECRET)})
        )
        claim = await made.store.claim(task_id)
        await made.store.append(claim, many(before), ts=2.0, round=1)
        await made.store.release(claim)
        await made.service.hint(task_id, f"the word is {SECRET}")
        stored = await made.store.read(task_id, before + 1)
        assert stored[-1].event.hint == "the word is ***"
        async with Claimed(task_id, made.service.parts) as run:
            (wish,) = run.state.wishes
            assert not holds_lost(wish.hint)
            assert reveal(wish.hint) == f"the word is {SECRET}"

    virtual_time(main())


@pytest.mark.anyio
async def test_whoever_has_read_a_word_waits_until_it_is_kept() -> None:
    made = await bench()
    given, heard = made.parts.given, []

    async def reads() -> None:
        await given.all_said("t")
        heard.append("kept")

    with given.saying("t"), given.saying("t"):
        reading = asyncio.create_task(reads())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert heard == []
    await reading
    assert heard == ["kept"]
    await given.all_said("t")


@pytest.mark.anyio
async def test_metadata_of_an_output_that_is_a_text_have_its_secrets(tmp_path: Path) -> None:
    calls: list[Any] = []

    @tool(effect="reads", output_params=["session"])
    def login(api_token: str) -> str:
        """Log in."""
        return json.dumps({"session": api_token, "id": 5})

    @tool
    def pay(to: str, session: str) -> str:
        """Pay."""
        calls.append((to, session))
        return "paid"

    wanted = plan(
        step("a", "login", parameters={"api_token": "${metadata.word}"}),
        step("u", "pay", "a", parameters={"to": "Ann"}),
    )
    async with Replan(db=tmp_path / "r.db", tools=[login, pay], evaluation="steps") as replan:
        result = await replan.run("log in", plan=wanted, secrets={"word": SecretStr(SECRET)})
    assert result.succeeded, result.reason
    assert calls == [("Ann", SECRET)]
    assert SECRET not in (tmp_path / "r.db").read_bytes().decode(errors="replace")


@pytest.mark.anyio
@pytest.mark.parametrize(
    "used", ["${a.output}", "${keys(a.output)}", "k ${keys(a.output)[0]}", "${a.output | to_string(@)}"]
)
async def test_a_secret_that_names_a_field_is_one_wherever_it_goes(tmp_path: Path, used: str) -> None:
    world = World()

    @tool(effect="reads")
    def sessions(api_token: str) -> dict[str, int]:
        """Each by its token."""
        return {api_token: 1}

    wanted = plan(
        step("a", "sessions", parameters={"api_token": "${metadata.word}"}),
        step("u", "pay", "a", parameters={"to": used}),
    )
    async with Replan(db=tmp_path / "r.db", tools=[*world.tools(), sessions], evaluation="steps") as replan:
        result = await replan.run("pay", plan=wanted, secrets={"word": SecretStr(SECRET)})
    assert result.succeeded, result.reason
    assert SECRET in json.dumps(world.calls)
    assert "***" not in json.dumps(world.calls)
    assert SECRET not in result.model_dump_json()
    assert SECRET not in (tmp_path / "r.db").read_bytes().decode(errors="replace")


@pytest.mark.anyio
@pytest.mark.parametrize("secret", [True, False])
async def test_a_plan_that_writes_a_mask_for_a_value_is_refused_where_the_task_has_secrets(
    tmp_path: Path, secret: bool
) -> None:
    world = World()
    wanted = plan(step("u", "pay", parameters={"to": "***"}))
    async with Replan(db=tmp_path / "r.db", tools=world.tools(), evaluation="steps") as replan:
        secrets = {"word": SecretStr(SECRET)} if secret else {}
        if secret:
            with pytest.raises(PlanInvalid, match="stands for a secret that is not shown"):
                await replan.run("pay", plan=wanted, secrets=secrets)
        else:
            assert (await replan.run("pay", plan=wanted)).succeeded
    assert world.calls == ([] if secret else ["***"])


@pytest.mark.anyio
@pytest.mark.parametrize(
    "used", ["${a.output.key}", "k: ${a.output.key}", "${length(a.output.key)}", "${a.output}"]
)
async def test_what_another_task_of_the_family_has_made_is_lost_to_a_fork_where_it_was_masked(
    tmp_path: Path, used: str
) -> None:
    """The fork has no secret of its own: what it takes over is the first that no log keeps."""
    calls: list[Any] = []
    schema = {"type": "object", "properties": {"key": {"type": "string", "format": "password"}}}

    @tool(effect="reads")
    def look() -> str:
        """Look."""
        return "x"

    @tool(effect="once", output_schema=schema)
    def create(name: str) -> Any:
        """Create."""
        calls.append("create")
        return {"key": SECRET, "id": 5}

    @tool
    def pay(to: Any) -> str:
        """Pay."""
        calls.append(to)
        return "paid"

    first = plan(step("l", "look"), step("a", "create", "l", parameters={"name": "n"}))
    then = plan(*first["steps"], step("v", "pay", "a", parameters={"to": used}))
    options: dict[str, Any] = {"db": tmp_path / "r.db", "tools": [look, create, pay], "evaluation": "steps"}
    async with Replan(**options) as replan:
        assert (await replan.run("create", plan=first, task_id="t")).succeeded
        at = next(one.seq for one in await replan.history("t") if one.type == "plan_generated") - 1
    async with Replan(**options) as replan:
        result = await replan.wait(await replan.fork("t", at=at, plan=then))
    assert calls == ["create"]
    assert result.status == "failed"
    assert "which no log keeps" in result.reason
