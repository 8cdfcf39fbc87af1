"""What the use cases show: large outputs by piece, files, previews, what waits, and why a task failed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from access_world import ASKED, FAILS, PLAIN, STORES, World, database, world
from run_tasks import plan, step, verdict

from replan import tool
from replan.core.report.failure import reported
from replan.core.types import Failure
from replan.errors import InputError, NoSuchPart, PlanInvalid
from replan.ports import Price
from replan.run.access import requests as r
from replan.run.access.callers import LOCAL
from replan.run.access.outputs import PIECE_BYTES
from replan.run.service.tasks import LOOK_SECS
from replan.testing import FakeTool, ScriptedModel

pytestmark = pytest.mark.anyio

# one, two, three and four bytes a character, so that pieces end within each kind sometimes
TEXT = "".join("aé€𝄞"[n % 4] * (n % 7) for n in range(40_000))
LARGE = {"text": TEXT}
TOOLS = {"large": FakeTool(output=LARGE), "each": lambda given: given["n"]}


@pytest.fixture(params=STORES)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return database(request.param, tmp_path, request.getfixturevalue)


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path / "log.db", TOOLS) as made:
        yield made


@pytest.fixture
async def there(db: str | Path) -> AsyncIterator[World]:
    async with world(db, TOOLS) as made:
        yield made


async def _joined(there: World, task_id: str, step_id: str, **more: Any) -> tuple[str, int]:
    text, offset, pieces = "", 0, 0
    while True:
        piece = await there.cases.output(LOCAL, task_id, step_id, offset=offset, **more)
        assert piece.offset == offset
        assert len(piece.text.encode()) <= PIECE_BYTES
        text, pieces = text + piece.text, pieces + 1
        if piece.next_offset is None:
            assert len(text.encode()) == piece.total
            return text, pieces
        offset = piece.next_offset


async def test_the_pieces_of_a_large_output_are_its_json(there: World) -> None:
    task_id = (await there.submit(plan(step("a", "large")))).task_id
    await there.done(task_id)
    text, pieces = await _joined(there, task_id, "a")
    assert json.loads(text) == LARGE
    assert pieces > 3
    shown = await there.cases.step(LOCAL, task_id, "a")
    assert shown.output_size == len(text.encode())
    kept = (await there.cases.output(LOCAL, task_id, "a")).artifact_id
    assert kept is not None
    whole = await there.cases.artifact(LOCAL, task_id, kept)
    assert (whole.media_type, whole.size) == ("application/json", shown.output_size)
    assert b"".join([piece async for piece in whole.pieces]).decode() == text


async def test_a_piece_begins_where_one_may_end(quick: World) -> None:
    task_id = (await quick.submit(plan(step("a", "large")))).task_id
    await quick.done(task_id)
    data = (await _joined(quick, task_id, "a"))[0].encode()
    for offset in range(len(data) - 60, len(data) + 1):
        within = offset < len(data) and data[offset] & 0xC0 == 0x80
        if within:
            with pytest.raises(InputError, match="within a character"):
                await quick.cases.output(LOCAL, task_id, "a", offset=offset)
        else:
            piece = await quick.cases.output(LOCAL, task_id, "a", offset=offset)
            assert piece.text.encode() == data[offset:]
    with pytest.raises(InputError, match=f"has {len(data)} bytes"):
        await quick.cases.output(LOCAL, task_id, "a", offset=len(data) + 1)


async def test_an_item_of_a_list_is_read_by_itself(quick: World) -> None:
    wanted = plan(
        step("a", "each", for_each='[1, "two"]', parameters={"n": "${item}"}), step("b", "look", "a")
    )
    task_id = (await quick.submit(wanted)).task_id
    await quick.done(task_id)
    assert await _joined(quick, task_id, "a") == ('[1,"two"]', 1)
    assert await _joined(quick, task_id, "a", item=2) == ('"two"', 1)
    for item in (0, 3):
        with pytest.raises(NoSuchPart):
            await quick.cases.output(LOCAL, task_id, "a", item=item)


async def test_a_file_is_read_as_it_is_with_its_media_type(tmp_path: Path) -> None:
    data = bytes(range(256)) * 2_000

    @tool
    def picture() -> bytes:
        """A picture."""
        return data

    from replan import Replan
    from replan.run.access.use_cases import UseCases

    async with Replan(tools=[picture], db=tmp_path / "log.db") as replan:
        there = World(UseCases(replan.service, replan.serving()), replan, None)  # type: ignore[arg-type]
        task_id = (await there.submit(plan(step("a", "picture")))).task_id
        await there.done(task_id)
        piece = await there.cases.output(LOCAL, task_id, "a")
        assert piece.artifact_id is not None
        kept = await there.cases.artifact(LOCAL, task_id, piece.artifact_id)
        found = b"".join([one async for one in kept.pieces])
        assert len(found) == kept.size


async def test_a_preview_says_what_a_task_would_do_and_stores_nothing(quick: World) -> None:
    await quick.done((await quick.submit(PLAIN)).task_id)  # now it is known how long `look` takes
    wanted = plan(
        step("a", "look"),
        step("b", "each", "a", for_each="${metadata.ids}", parameters={"n": "${item}"}),
        step("c", "each", "a", for_each="${a.output.ids}", parameters={"n": "${item}"}),
        step("d", "pay", "b", parameters={"amount": 3}),
    )
    request = r.SubmitRequest(
        task_description="do it",
        metadata={"ids": [1, 2, 3]},
        options=r.SubmitOptions(plan=wanted, evaluation="steps", approval="destructive"),
    )
    before = len(await quick.replan.tasks())
    seen = await quick.cases.preview(LOCAL, request)
    assert len(await quick.replan.tasks()) == before
    assert seen.effects == ("d: pay (once)",)
    assert seen.approvals == ("d",)
    assert (seen.tool_calls, seen.open_items) == (1 + 3 + 1 + 1, ("c",))
    assert (seen.model_calls, seen.estimated_cost_usd) == (0, 0.0)
    assert seen.estimated_secs is None  # nobody has called `each` or `pay`
    assert seen.critical_path == ("a", "b", "d")
    known = await quick.cases.preview(
        LOCAL, request.model_copy(update={"options": r.SubmitOptions(plan=PLAIN, evaluation="steps")})
    )
    assert known.estimated_secs is not None
    bad = r.SubmitOptions(plan=plan(step("a", "nothing")), evaluation="steps")
    with pytest.raises(PlanInvalid):
        await quick.cases.preview(LOCAL, request.model_copy(update={"options": bad}))


@pytest.mark.parametrize("price", [None, Price(input=2, output=8)])
async def test_a_preview_that_is_planned_says_what_the_models_cost(
    tmp_path: Path, price: Price | None
) -> None:
    model = ScriptedModel({"execution_plan": PLAIN, "evaluation": verdict()}, price=price)
    async with world(tmp_path / "log.db", model=model) as there:
        seen = await there.cases.preview(LOCAL, r.SubmitRequest(task_description="look at it"))
        assert seen.model_calls == 2
        assert seen.usage.llm_calls == 1
        if price is None:
            assert seen.estimated_cost_usd is None
        else:
            assert seen.estimated_cost_usd is not None
            assert seen.estimated_cost_usd > seen.usage.cost_usd > 0


async def test_a_preview_whose_limits_allow_no_planning_says_so_and_blames_no_model(tmp_path: Path) -> None:
    model = ScriptedModel({"execution_plan": PLAIN, "evaluation": verdict()})
    async with world(tmp_path / "log.db", model=model) as there:
        options = r.SubmitOptions(max_tokens=1)
        with pytest.raises(InputError, match=r"max_tokens.*allows no planning"):
            await there.cases.preview(LOCAL, r.SubmitRequest(task_description="look at it", options=options))


async def test_a_preview_counts_the_questions_of_steps(tmp_path: Path) -> None:
    asks = step(
        "a", "model", for_each='["x", "y", "z"]', parameters={"instruction": "Sort it.", "input": "${item}"}
    )
    options = r.SubmitOptions(plan=plan(asks, step("b", "look", "a")), evaluation="steps")
    request = r.SubmitRequest(task_description="sort it", options=options)
    for price, costs in ((None, None), (Price(input=2, output=8), 3 * (1_500 * 2 + 300 * 8) / 1_000_000)):
        async with world(tmp_path / f"{price is None}.db", model=ScriptedModel({}, price=price)) as there:
            seen = await there.cases.preview(LOCAL, request)
        assert (seen.model_calls, seen.tool_calls) == (3, 4)
        assert seen.estimated_cost_usd == (None if costs is None else pytest.approx(costs))


async def test_what_waits_is_read_page_by_page_without_a_gap(there: World) -> None:
    made = [(await there.submit(ASKED if n % 2 else PLAIN)).task_id for n in range(9)]
    for n, task_id in enumerate(made):
        await (there.waits(task_id) if n % 2 else there.done(task_id))
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await there.cases.waiting(LOCAL, cursor=cursor, limit=1)
        assert all(one.hash and one.sources == {"amount": []} for one in page.items)
        seen += [one.task_id for one in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [task_id for n, task_id in reversed(list(enumerate(made))) if n % 2]


async def test_where_a_value_comes_from_is_shown_beside_the_call(quick: World) -> None:
    wanted = plan(
        step("a", "each", parameters={"n": 12}),
        step("b", "pay", "a", parameters={"amount": "${a.output}"}, requires_approval=True),
    )
    task_id = (await quick.submit(wanted)).task_id
    asked = await quick.waits(task_id)
    assert asked.waiting_for.parameters == {"amount": 12}
    assert asked.sources == {"amount": ["${a.output}"]}


async def test_a_failure_says_by_itself_what_it_is_what_is_kept_and_what_can_be_done(quick: World) -> None:
    task_id = (await quick.submit(FAILS)).task_id
    failure = (await quick.done(task_id)).failure
    assert failure is not None
    assert (failure.code, failure.text) == (failure.kind, failure.reason)
    assert failure.kept == ("a",)
    assert failure.values["failed_steps"] == ["b"]
    assert {"retry", "fork"} <= {one.action for one in failure.next}
    again = json.loads((await quick.done(task_id)).model_dump_json())["failure"]
    assert {"code", "values", "text", "tried", "kept", "effects", "next"} <= again.keys()


@pytest.mark.parametrize(
    ("failure", "code", "actions"),
    [
        (Failure(kind="budget", reason="no", limit="max_llm_calls"), "budget.max_llm_calls", ["raise_limit", "fork"]),
        (Failure(kind="cancelled", reason="no"), "cancelled", []),
        (Failure(kind="judgement", reason="no", advice=("look",)), "judgement", ["fork", "advice"]),
        (Failure(kind="outcome_unknown", reason="no", question="did it?"), "outcome_unknown", ["answer", "fork"]),
    ],
)  # fmt: skip
def test_each_kind_of_failure_has_its_code_and_its_ways_on(
    failure: Failure, code: str, actions: list[str]
) -> None:
    found = reported(failure)
    assert (found.code, [one.action for one in found.next]) == (code, actions)


async def test_each_plan_says_which_steps_decide_how_long_it_takes(quick: World) -> None:
    wanted = plan(
        step("a", "look", estimated_secs=1), step("b", "look", "a", estimated_secs=1),
        step("c", "pay", estimated_secs=30, parameters={"amount": 1}),
    )  # fmt: skip
    task_id = (await quick.submit(wanted)).task_id
    await quick.done(task_id)
    (only,) = await quick.cases.plans(LOCAL, task_id)
    assert (only.version, only.critical_path) in [(1, ("c",)), (1, ("a", "b"))]
    assert (await quick.cases.plan(LOCAL, task_id, 1)).plan["steps"][2]["step_id"] == "c"
    with pytest.raises(NoSuchPart, match="there are: 1"):
        await quick.cases.plan(LOCAL, task_id, 2)


async def test_what_waits_is_shown_also_while_another_step_runs(quick: World) -> None:
    wanted = plan(step("a", "hold"), step("b", "pay", parameters={"amount": 3}, requires_approval=True))
    task_id = (await quick.submit(wanted)).task_id
    async with asyncio.timeout(20):
        async for record in quick.replan.watch(task_id):
            if record.type == "approval_requested":
                break
    await quick.source.entered.wait()
    assert (await quick.cases.task(LOCAL, task_id)).status == "executing"
    (asked,) = (await quick.cases.waiting(LOCAL)).items
    await quick.cases.approve(
        LOCAL, task_id, asked.waiting_for.id, r.ApprovalAnswer(approved=True, hash=asked.hash)
    )
    quick.source.let_go.set()
    assert (await quick.done(task_id)).is_success


async def test_what_was_said_about_the_failures_of_a_step_is_shown_with_it(tmp_path: Path) -> None:
    said = {
        "root_cause_category": "parameter_error", "root_cause": "the number is wrong", "is_recoverable": True,
        "confidence": 0.9, "suggested_action": {"type": "retry_with_params", "data": {"n": 2}},
    }  # fmt: skip

    def even(given: dict[str, Any]) -> int:
        if given["n"] % 2:
            raise ValueError("odd")
        return int(given["n"])

    model = ScriptedModel({"step_reflection": said, "evaluation": verdict()})
    async with world(tmp_path / "log.db", {"even": even}, model=model) as there:
        options = r.SubmitOptions(plan=plan(step("a", "even", parameters={"n": 1}), step("b", "look")))
        task_id = (
            await there.cases.submit(LOCAL, r.SubmitRequest(task_description="x", options=options))
        ).task_id
        assert (await there.done(task_id)).is_success
        healed = await there.cases.step(LOCAL, task_id, "a")
        assert [one["step_id"] for one in healed.reflections] == ["a"]
        assert "the number is wrong" in json.dumps(healed.reflections)
        assert (await there.cases.step(LOCAL, task_id, "b")).reflections == ()


async def test_a_wait_holds_on_where_nobody_drives_the_task_and_sees_it_end(quick: World) -> None:
    wanted = r.SubmitRequest(
        task_description="do it", options=r.SubmitOptions(plan=PLAIN, evaluation="steps")
    )
    stored = await quick.replan.serving().request(wanted, tenant="", by="")
    task_id, _ = await quick.replan.service.submit(stored)  # as one whose process has died
    waiting = asyncio.ensure_future(quick.done(task_id))
    await asyncio.wait({waiting}, timeout=4 * LOOK_SECS)
    assert not waiting.done()
    await quick.cases.resume(LOCAL, task_id)
    assert (await waiting).status == "succeeded"
