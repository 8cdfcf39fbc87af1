"""Secrets of a run: in pieces of answers, in metadata that turn out to be secret late, and what masking costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from run_tasks import plan, step, verdict

from replan import Replan, tool
from replan.core.ids import call_base, split_key
from replan.core.limits.policy import Policy
from replan.core.references.derived import derived
from replan.core.types import ToolSpec
from replan.errors import InputError, PlanInvalid, TaskExists, ToolCallError
from replan.ports import ModelReply, ModelRequest, ToolCall
from replan.run.service.submission import Submission
from replan.store.sqlite import SqliteStore
from replan.testing import FakeTool, ScriptedModel, fake_source

pytestmark = pytest.mark.anyio

LONG = "metadata-token-of-many-pieces-4f9a11"


@tool(effect="reads", secrets=["word"])
def enter(word: str) -> int:
    """Enter with a word."""
    return len(word)


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


class Slow(ScriptedModel):
    """Waits until somebody watches."""

    def __init__(self, answers: Any, piece: int) -> None:
        super().__init__(answers, piece=piece)
        self.ready = asyncio.Event()

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        await self.ready.wait()
        return await super().ask(request, on_text)


async def watched(model: Slow, tools: list[Any], tmp_path: Path, **task: Any) -> tuple[list[str], list[Any]]:
    """The pieces as they were told, by role, and all events."""
    async with Replan(model, tools, db=tmp_path / "log.db") as replan:
        task_id = await replan.submit("do it", **task)
        seen = []
        async for record in replan.watch(task_id, ephemeral=True):
            seen.append(record)
            model.ready.set()
    return [one.event.text for one in seen if one.type == "llm_token"], seen


@pytest.mark.parametrize("piece", [1, 5, 16, 10_000])
async def test_a_secret_that_is_split_over_pieces_is_not_shown(tmp_path: Path, piece: int) -> None:
    answers = {
        "execution_plan": plan(step("a", "t", parameters={"note": f"repeats {LONG} and {json.dumps(LONG)}"})),
        "evaluation": verdict(output=f"done with {LONG}"),
    }
    source = fake_source({"t": FakeTool()})
    told, _ = await watched(Slow(answers, piece), [source], tmp_path, metadata={"token": LONG})
    whole = "".join(told)
    assert "repeats *** and" in whole
    assert "done with ***" in whole
    assert not any(LONG[at : at + 12] in whole for at in range(len(LONG) - 12))
    assert len(told) > 3 or piece > 16, "and it is still told piece by piece"


async def test_a_secret_that_only_the_answer_has_is_not_shown_in_its_pieces(tmp_path: Path) -> None:
    answers = {
        "execution_plan": plan(step("a", "enter", parameters={"word": "only-in-the-plan"})),
        "evaluation": verdict(),
    }
    told, seen = await watched(Slow(answers, 7), [enter], tmp_path)
    assert "only-in" not in "".join(told) + "".join(json.dumps(one.wire()) for one in seen)
    assert '"word": "***"' in "".join(told)


@pytest.mark.parametrize(
    ("name", "metadata", "late"),
    [
        pytest.param("word", {"word": LONG}, False, id="named as a secret parameter: secret from the beginning"),
        pytest.param("access_token", {"access_token": LONG}, False, id="of a name of secrets"),
        pytest.param("tk2", {"tk2": LONG}, True, id="of another name: taken out of the log"),
        pytest.param("inner.tk2", {"inner": {"tk2": LONG}}, True, id="inside of one"),
        pytest.param("keys3[0]", {"keys3": [LONG, "x"]}, True, id="in a list"),
    ],
)  # fmt: skip
async def test_metadata_that_a_plan_uses_as_a_secret_is_in_no_byte_of_the_database(
    tmp_path: Path, caplog: Any, name: str, metadata: dict[str, Any], late: bool
) -> None:
    caplog.set_level(logging.WARNING, logger="replan")
    answers = {
        "execution_plan": plan(step("a", "enter", parameters={"word": f"${{metadata.{name}}}"})),
        "evaluation": verdict(output=f"entered with {LONG}"),
    }
    model = Slow(answers, 16)
    async with Replan(model, [enter], db=tmp_path / "log.db") as replan:
        task_id = await replan.submit(f"do it with {LONG}", metadata=metadata)
        seen = []
        async for record in replan.watch(task_id, ephemeral=True):
            seen.append(record)
            model.ready.set()
        result = await replan.result(task_id)
        stored, listed = await replan.history(task_id), await replan.tasks()
        left = bytes_of(tmp_path)
    assert LONG.encode() not in left, "while the store is open, its log included"
    assert result.status == "succeeded"
    assert LONG not in str(listed)
    texts = [json.dumps(one.wire()) for one in seen]
    assert (LONG in texts[0]) == late, "what was told is not untold"
    planned = next(at for at, one in enumerate(seen) if one.type == "plan_generated")
    assert not any(LONG in text for text in texts[planned:]), "but from then on nothing has it"
    assert not any(LONG in json.dumps(one.wire()) for one in stored)
    assert [one.seq for one in stored] == list(range(1, len(stored) + 1)), "and every event is where it was"
    assert LONG not in "".join(turn.text for one in model.requests[1:] for turn in one.turns)
    warned = [one.getMessage() for one in caplog.records if "as a secret next time" in one.getMessage()]
    assert len(warned) == int(late)
    assert any(one.type == "progress_update" and "--secret" in one.event.message for one in seen) == late


async def test_a_task_without_secrets_is_never_masked(tmp_path: Path) -> None:
    """Told in calls, not in time: nothing is walked or searched, and what asks whether it has to be is asked seldom."""
    calls: Counter[str] = Counter()

    def counted(frame: Any, event: str, arg: object) -> None:
        if event == "call" and "/core/secrets/" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1

    steps = [step(f"s{number}", "t", parameters={"text": "x" * 2_000}) for number in range(20)]
    source = fake_source({"t": FakeTool(output={"rows": [{"n": n, "text": "y" * 20} for n in range(200)]})})
    model = ScriptedModel({"execution_plan": plan(*steps), "evaluation": verdict()}, piece=4_000)
    async with Replan(model, [source], db=tmp_path / "log.db") as replan:
        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            task_id = await replan.submit("do it", metadata={"project": "x"})
            result = await replan.wait(task_id)
        finally:
            sys.setprofile(before)
        events = len(await replan.history(task_id))
    assert result.is_success
    walks = {"_masked", "_masked_text", "_hidden", "_replaced", "_spellings", "places", "_walked"}
    assert not calls.keys() & walks
    assert calls.total() < 10 * events, calls


async def test_a_request_that_is_refused_for_its_id_changes_nothing_of_the_task_that_has_it(
    tmp_path: Path,
) -> None:
    heard: list[str] = []

    @tool(effect="once", secrets=["pin"])
    def pay(pin: str) -> None:
        heard.append(pin)

    wanted = plan(step("p", "pay", parameters={"pin": "${metadata.pin}"}))
    asked = Submission("pay", Policy(evaluation="steps"), task_id="t", plan=wanted)
    async with Replan(tools=[pay], db=tmp_path / "log.db") as replan:
        given = replan.service.parts.given
        await replan.service.submit(asked._replace(secrets={"pin": SecretStr("first-pin-77")}))
        other = asked._replace(description="pay another", secrets={"pin": SecretStr("second-pin-88")})
        with pytest.raises(TaskExists):
            await replan.service.submit(other)
        assert (await replan.resume("t")).is_success
        assert heard == ["first-pin-77"]
        for again in (other, asked._replace(secrets={"pin": SecretStr("third-pin-99")})):
            with contextlib.suppress(TaskExists):
                await replan.service.submit(again)
            assert not given.holds("t"), "nothing of a task that has ended is kept"


@pytest.mark.parametrize("elsewhere", [False, True], ids=["deleted here", "deleted by another process"])
async def test_an_id_that_comes_again_is_a_new_task_with_its_own_secrets(
    tmp_path: Path, *, elsewhere: bool
) -> None:
    heard: list[tuple[str, str]] = []

    @tool(effect="once")
    def pay(to: str, pin: str) -> str:
        """Pay."""
        heard.append((to, pin))
        return "paid"

    def wanted(to: str, pin: str) -> Submission:
        parameters = {"to": to, "pin": "${metadata.pin}"}
        steps = plan(step("p", "pay", parameters=parameters, requires_approval=True))
        policy = Policy(evaluation="steps", interactive=True)
        return Submission(f"pay {to}", policy, task_id="t", plan=steps, secrets={"pin": SecretStr(pin)})

    db = tmp_path / "log.db"
    async with Replan(tools=[pay], db=db) as replan:
        await replan.service.submit(wanted("ann", "first-pin-77"))
        assert (await replan.resume("t")).status == "waiting"
        if elsewhere:
            async with contextlib.aclosing(SqliteStore(db)) as store:
                await store.delete("t", unfinished=True)
        else:
            await replan.delete("t", unfinished=True)
        await replan.service.submit(wanted("bob", "second-pin-88"))
        await replan.resume("t")
        await replan.approve("t")
        assert (await replan.resume("t")).is_success
    assert heard == [("bob", "second-pin-88")]


class Pays:
    """Keeps the keys that it is called with; never answers if it `hangs`."""

    name = "pays"

    def __init__(self, effect: Any, *, secret: bool, hangs: bool) -> None:
        self.spec = ToolSpec(
            id="pay",
            parameters={
                "type": "object",
                "properties": {"pin": {"type": "string"}, "to": {"default": "Ann"}},
            },
            effect=effect,
            secrets=("pin",) if secret else (),
        )
        self._hangs = hangs
        self.entered = asyncio.Event()
        self.keys: list[str] = []

    async def tools(self) -> list[ToolSpec]:
        return [self.spec]

    async def call(self, call: ToolCall) -> Any:
        self.keys.append(call.key)
        self.entered.set()
        if self._hangs:
            await asyncio.Event().wait()
        return "paid"

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("effect", ["repeatable", "once"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(True, True, id="secret"),
        pytest.param(False, True, id="not called secret before, as in the logs of an older release"),
        pytest.param(True, False, id="called secret before"),
    ],
)
async def test_a_call_with_a_secret_is_the_same_call_after_a_restart_and_its_key_gives_nothing_away(
    tmp_path: Path, effect: str, before: bool, after: bool
) -> None:
    first, second = Pays(effect, secret=before, hangs=True), Pays(effect, secret=after, hangs=False)
    secrets = {"the_pin": SecretStr("4711")}
    pays = plan(step("a", "pay", parameters={"pin": "${metadata.the_pin}"}))
    async with Replan(tools=[first], db=tmp_path / "log.db") as replan:
        task_id = await replan.submit("pay", plan=pays, evaluation="steps", secrets=secrets)
        await first.entered.wait()
    async with Replan(tools=[second], db=tmp_path / "log.db") as replan:
        result = await replan.resume(task_id, secrets=secrets)
    if effect == "repeatable":
        assert result.is_success, result.failure
        assert second.keys == first.keys
    else:
        assert second.keys == [], "nobody knows whether it took effect"
        assert not result.is_success
    tried = {
        call_base(task_id, "pay", {"pin": f"{pin:04}"}, schema)
        for pin in range(4_700, 4_720)
        for schema in (None, first.spec.parameters)
    }
    assert (split_key(first.keys[0])[0] in tried) is not before


PASSWORD = {"type": "string", "format": "password"}
NAMELESS: dict[str, tuple[dict[str, Any], Any]] = {
    "further fields": ({"type": "object", "additionalProperties": PASSWORD}, {"k": LONG}),
    "fields by a pattern": ({"type": "object", "patternProperties": {"^k": PASSWORD}}, {"k": LONG}),
    "an item by its place": ({"type": "array", "prefixItems": [{"type": "string"}, PASSWORD]}, ["n", LONG]),
    "any item": ({"type": "array", "contains": PASSWORD}, [LONG]),
    "behind an anchor": ({"$ref": "#word", "$defs": {"w": {"$anchor": "word", **PASSWORD}}}, LONG),
    "its own default": ({**PASSWORD, "default": LONG}, LONG),
}


def texts_in(folder: Path) -> list[str]:
    return [file.read_bytes().decode("utf-8", "replace") for file in folder.iterdir() if file.is_file()]


@pytest.mark.parametrize("given", [True, False], ids=["a given plan", "a model's plan"])
@pytest.mark.parametrize("place", NAMELESS)
async def test_a_secret_in_a_place_without_a_name_of_its_own_is_in_no_log_and_no_prompt(
    place: str, given: bool, tmp_path: Path
) -> None:
    part, value = NAMELESS[place]
    definitions = {"$defs": part["$defs"]} if "$defs" in part else {}
    schema = {"type": "object", "properties": {"a": part}, **definitions}
    source = fake_source({"t": FakeTool(lambda parameters: parameters, parameters=schema)})
    steps = plan(step("a", "t", parameters={"a": value}))
    model = ScriptedModel({"execution_plan": steps, "evaluation": verdict(output="done")})
    async with Replan(model, [source], db=tmp_path / "log.db", record=tmp_path / "rec.jsonl") as replan:
        result = await replan.run("do it", plan=steps if given else None)
        events = [record.event.model_dump_json() for record in await replan.history(result.task_id)]
    assert result.succeeded
    prompts = [turn.text for request in model.requests for turn in request.turns]
    assert not [text for text in (*events, *prompts, *texts_in(tmp_path), str(result.output)) if LONG in text]
    assert [call.parameters["a"] for call in source.calls] == [value], "the tool gets it"


async def test_the_items_of_a_secret_list_are_as_secret_as_the_list(tmp_path: Path) -> None:
    source = fake_source({"t": FakeTool(lambda parameters: parameters, spec={"secrets": ("note",)})})
    steps = plan(step("a", "t", for_each="${metadata.keys_file}", parameters={"note": "${item}"}))
    keys = SecretStr(json.dumps([LONG, LONG + "-2"]))
    async with Replan(tools=[source], db=tmp_path / "log.db") as replan:
        result = await replan.run("do it", plan=steps, evaluation="steps", secrets={"keys_file": keys})
        events = [record.event.model_dump_json() for record in await replan.history(result.task_id)]
    assert result.succeeded, result.failure
    assert not [text for text in (*events, *texts_in(tmp_path), str(result.output)) if LONG in text]
    assert sorted(call.parameters["note"] for call in source.calls) == [LONG, LONG + "-2"]


@tool(effect="reads")
def note(text: Any) -> Any:
    """Note a text."""
    return text


@tool(effect="reads", secrets=["text"])
def keep(text: Any) -> Any:
    """Keep a text to itself."""
    return text


@pytest.mark.parametrize(
    ("expression", "gives"),
    [
        pytest.param("reverse(metadata.{name})", LONG[::-1], id="reversed"),
        pytest.param("metadata | [reverse({name}), city] | [0]", LONG[::-1], id="behind a pipe"),
        pytest.param("reverse(to_string(metadata.{name}))", LONG[::-1], id="as a text first"),
        pytest.param("metadata.{{a: reverse({name}), b: city}}.a", LONG[::-1], id="in an object"),
        pytest.param("metadata.[reverse(join('', [{name}, city]))][0]", "olsO" + LONG[::-1], id="joined first"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["api_token", "tk2"])
async def test_a_text_that_an_expression_makes_of_a_secret_is_secret(
    tmp_path: Path, expression: str, gives: str, name: str
) -> None:
    made = "${" + expression.format(name=name) + "}"
    steps = [
        step("a", "enter", parameters={"word": f"${{metadata.{name}}}"}),
        step("b", "keep", parameters={"text": made}),
        step("c", "note", parameters={"text": "${join(' and ', [metadata.city, metadata.land])}"}),
    ]
    model = Slow({"execution_plan": plan(*steps), "evaluation": verdict(output="done")}, 16)
    model.ready.set()
    async with Replan(model, [enter, keep, note], db=tmp_path / "log.db") as replan:
        result = await replan.run("do it", metadata={name: LONG, "city": "Oslo", "land": "Norway"})
        left = bytes_of(tmp_path)
        told = json.dumps([one.wire() for one in await replan.history(result.task_id)])
    assert gives.encode() not in left
    assert LONG.encode() not in left
    assert "Oslo and Norway" in told, "what is computed beside it is none"


def test_what_stands_beside_a_secret_is_not_made_of_it() -> None:
    real = {"rows": [{"key": LONG, "name": "Ada Lovelace"}, {"key": "x", "name": "Bob"}], "n": 3}
    seen = {"rows": [{"key": "***", "name": "Ada Lovelace"}, {"key": "x", "name": "Bob"}], "n": 3}
    assert set(derived(f"rows[?key=='{LONG}'].name | [0]", seen, real)) == set()
    assert set(derived("join(', ', rows[].name)", seen, real)) == set()
    assert set(derived("rows[0].reverse(key)", seen, real)) == {LONG[::-1]}
    assert set(derived("to_string(rows[].key)", seen, real)) == {f'["{LONG}","x"]'}
    assert set(derived("rows[0].nothing", seen, real)) == set()


async def test_a_task_whose_late_secret_was_taken_out_asks_for_it_where_it_is_resumed(tmp_path: Path) -> None:
    answers = {
        "execution_plan": plan(step("a", "enter", parameters={"word": "${metadata.tk2}"})),
        "evaluation": verdict(output="done"),
    }
    model = Slow(answers, 16)
    model.ready.set()
    begun = asyncio.Event()

    @tool(effect="reads", secrets=["word"])
    async def enter(word: str) -> int:
        """Enter with a word."""
        begun.set()
        await asyncio.sleep(3600)
        return len(word)

    db = tmp_path / "log.db"
    async with Replan(model, [enter], db=db) as replan:
        task_id = await replan.submit("do it", metadata={"tk2": LONG, "city": "Oslo"})
        await begun.wait()
    got: list[str] = []

    @tool(name="enter", effect="reads", secrets=["word"])
    def again(word: str) -> int:
        """Enter with a word."""
        got.append(word)
        return len(word)

    async with Replan(model, [again], db=db) as replan:
        with pytest.raises(InputError, match="begun with tk2 as secret metadata"):
            await replan.resume(task_id)
        await replan.resume(task_id, secrets={"tk2": SecretStr(LONG)})
        assert (await replan.wait(task_id)).status == "succeeded"
        assert got == [LONG]
        assert LONG.encode() not in bytes_of(tmp_path)


@pytest.mark.parametrize("where", ["here", "in another process"])
async def test_what_a_person_says_that_a_call_gave_is_as_secret_as_what_it_gives(
    where: str, tmp_path: Path
) -> None:
    pin = "pin-4711-of-ann"
    got: list[str] = []

    @tool(
        effect="once",
        output_schema={
            "type": "object",
            "properties": {"id": {"type": "integer"}, "pin": {"type": "string", "format": "password"}},
        },
    )
    def open_account(name: str) -> dict[str, Any]:
        """Open an account."""
        raise ToolCallError("the line was cut", kind="connection_lost")

    @tool(effect="reads", secrets=["word"])
    def enter(word: str) -> int:
        """Enter with a word."""
        got.append(word)
        return len(word)

    steps = plan(
        step("a", "open_account", parameters={"name": "Ann"}),
        step("b", "enter", "a", parameters={"word": "${a.output.pin}"}),
    )
    db = tmp_path / "log.db"
    said = {"id": 7, "pin": pin}
    async with Replan(
        tools=[open_account, enter], db=db, evaluation="steps", interactive=True, max_rounds=1
    ) as replan:
        result = await replan.run("go", plan=steps, task_id="t")
        assert [one.kind for one in result.waiting_for] == ["outcome"]
        if where == "here":
            await replan.answer("t", "yes", output=said, by="Ann")
            result = (
                await replan.resume("t")
                if (await replan.summary("t")).status == "waiting"
                else await replan.wait("t")
            )
    if where != "here":
        async with Replan(db=db) as replan:
            await replan.answer("t", "yes", output=said, by="Ann")
        async with Replan(tools=[open_account, enter], db=db, evaluation="steps") as replan:
            result = await replan.resume("t")
    assert result.is_success, result.failure
    assert got == [pin]
    assert pin.encode() not in bytes_of(tmp_path)
    async with Replan(db=db) as replan:
        settled = [one.event for one in await replan.history("t") if one.type == "outcome_settled"]
        assert settled[0].output == {"id": 7, "pin": "***"}  # type: ignore[union-attr]


@tool(effect="reads")
def count(word: int = 5) -> str:
    """Count; what is a secret of another tool's is a number here."""
    return "counted"


@pytest.mark.parametrize(
    ("parameters", "shown"),
    [
        pytest.param(
            {"word": "seventeen"}, "'seventeen' is not of type 'integer'", id="a parameter of its own"
        ),
        pytest.param({"word": [["x-17"]]}, "[['x-17']] is not of type 'integer'", id="a list in it"),
        pytest.param({"word": "${metadata.n}"}, "'eighteen' is not of type 'integer'", id="a reference"),
    ],
)
async def test_a_value_is_no_secret_because_another_tool_has_a_secret_of_the_same_name(
    tmp_path: Path, parameters: dict[str, Any], shown: str
) -> None:
    async with Replan(
        ScriptedModel({}), [enter, count], db=tmp_path / "log.db", evaluation="steps"
    ) as replan:
        entered = step("a", "enter", parameters={"word": LONG})

        async def said(metadata: dict[str, Any], *steps: Any) -> str:
            """Of its failure, or of the plan, where it is seen to fit no tool."""
            try:
                result = await replan.run("do it", plan=plan(*steps), metadata=metadata)
            except PlanInvalid as error:
                return str(error)
            assert result.failure is not None
            return str(result)

        assert shown in await said({"n": "eighteen"}, step("a", "count", parameters=parameters))
        also = await said({}, entered, step("b", "count", parameters=parameters))
    assert LONG not in also
