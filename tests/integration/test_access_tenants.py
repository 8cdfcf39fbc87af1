"""Whose tasks a caller may see and touch: every use case, each with the scope that it needs."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from access_world import ASKED, PLAIN, STORES, World, database, world

from replan.core.events import PreviousTasksRead
from replan.errors import InputError, NotAllowed, NotBuilt, ReplanError, TaskNotDone, TaskNotFound
from replan.run.access import requests as r
from replan.run.access.callers import SCOPES, Caller, Scope
from replan.run.access.use_cases import UseCases

pytestmark = pytest.mark.anyio

ANN = Caller("key:ann", "acme", frozenset({"read", "run", "approve"}))
BOB = Caller("key:bob", "globex", frozenset({"read", "run", "approve"}))
BOSS = Caller("key:boss", "globex", frozenset({"admin"}))
KEEPER = Caller("key:keeper")


class Row(NamedTuple):
    """A use case: the scope that it needs, and how it is called."""

    scope: Scope
    call: Callable[[UseCases, Caller, str], Awaitable[Any]]
    of_a_task: bool = True
    of_no_tenant: bool = False
    """For those who keep the service itself."""


OF_ALL = False
ROWS: dict[str, Row] = {
    "submit": Row("run", lambda u, c, t: u.submit(c, _request(t)), OF_ALL),
    "preview": Row("run", lambda u, c, t: u.preview(c, _request(None)), OF_ALL),
    "fork": Row("run", lambda u, c, t: u.fork(c, t, r.ForkRequest(hint="other"))),
    "tasks": Row("read", lambda u, c, t: u.tasks(c), OF_ALL),
    "task": Row("read", lambda u, c, t: u.task(c, t)),
    "result": Row("read", lambda u, c, t: u.result(c, t)),
    "events": Row("read", lambda u, c, t: u.events(c, t)),
    "may_watch": Row("read", lambda u, c, t: u.may_watch(c, t)),
    "plans": Row("read", lambda u, c, t: u.plans(c, t)),
    "plan": Row("read", lambda u, c, t: u.plan(c, t, 1)),
    "step": Row("read", lambda u, c, t: u.step(c, t, "a")),
    "output": Row("read", lambda u, c, t: u.output(c, t, "a")),
    "artifact": Row("read", lambda u, c, t: u.artifact(c, t, "art_1")),
    "waiting": Row("read", lambda u, c, t: u.waiting(c), OF_ALL),
    "waits": Row("read", lambda u, c, t: u.waits(c, t)),
    "approval": Row("read", lambda u, c, t: u.approval(c, t, "appr_1")),
    "cancel": Row("run", lambda u, c, t: u.cancel(c, t)),
    "pause": Row("run", lambda u, c, t: u.pause(c, t, r.PauseRequest())),
    "resume": Row("run", lambda u, c, t: u.resume(c, t)),
    "hint": Row("run", lambda u, c, t: u.hint(c, t, r.HintRequest(text="quick"))),
    "retry": Row("run", lambda u, c, t: u.retry(c, t, "a")),
    "judge": Row("run", lambda u, c, t: u.judge(c, t, r.JudgeRequest())),
    "skip": Row("run", lambda u, c, t: u.skip(c, t, "a")),
    "settle": Row("approve", lambda u, c, t: u.settle(c, t, "a", r.SettleRequest(happened=True))),
    "approve": Row("approve", lambda u, c, t: u.approve(c, t, "appr_1", r.ApprovalAnswer(approved=False))),
    "answer": Row("approve", lambda u, c, t: u.answer(c, t, "q_1", r.QuestionAnswer(text="yes"))),
    "signal": Row("run", lambda u, c, t: u.signal(c, t, r.SignalRequest(token="cb_1"))),
    "review": Row("approve", lambda u, c, t: u.review(c, t, 1, r.PlanReview(approved=False))),
    "tools": Row("read", lambda u, c, t: u.tools(c), OF_ALL),
    "tool_stats": Row("read", lambda u, c, t: u.tool_stats(c, "look"), OF_ALL),
    "workflows": Row("read", lambda u, c, t: u.workflows(c), OF_ALL),
    "scenes": Row("read", lambda u, c, t: u.scenes(c), OF_ALL),
    "may_measure": Row("read", lambda u, c, t: u.may_measure(c), OF_ALL, of_no_tenant=True),
}


def _request(task_id: str | None) -> r.SubmitRequest:
    options = r.SubmitOptions(plan=PLAIN, evaluation="steps")
    return r.SubmitRequest(task_description="do it", task_id=task_id, options=options)


@pytest.fixture(params=STORES)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return database(request.param, tmp_path, request.getfixturevalue)


@pytest.fixture
async def there(db: str | Path) -> AsyncIterator[World]:
    async with world(db) as made:
        yield made


@pytest.fixture
async def quick(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path / "log.db") as made:
        yield made


def test_every_use_case_has_a_row() -> None:
    """Whoever adds one says here which scope it needs."""
    found = {
        name: one
        for name, one in inspect.getmembers(UseCases, inspect.isfunction)
        if not name.startswith("_")
    }
    assert found.keys() == ROWS.keys()
    for name, one in found.items():
        names = list(inspect.signature(one).parameters)
        assert names[:2] == ["self", "caller"], f"{name} has its caller first"
        assert ROWS[name].of_a_task == ("task_id" in names), name


async def test_the_task_of_another_tenant_is_not_there_word_for_word(there: World) -> None:
    task_id = (await there.submit(ASKED, ANN)).task_id
    await there.waits(task_id, ANN)
    before = await there.replan.history(task_id)
    for name, row in ROWS.items():
        if not row.of_a_task:
            continue
        for stranger in (BOB, BOSS):
            with pytest.raises(TaskNotFound) as told:
                await row.call(there.cases, stranger, task_id)
            with pytest.raises(TaskNotFound) as unknown:
                await row.call(there.cases, stranger, "task_of_nobody")
            assert str(told.value) == str(unknown.value).replace("task_of_nobody", task_id), name
    assert await there.replan.history(task_id) == before


@pytest.mark.parametrize("name", ROWS)
async def test_a_caller_without_the_scope_is_refused(quick: World, name: str) -> None:
    row = ROWS[name]
    task_id = (await quick.submit(ASKED, ANN)).task_id
    others = frozenset(SCOPES - {row.scope, "admin"})
    for scopes in (frozenset[Scope](), others):
        with pytest.raises(NotAllowed, match=row.scope):
            await row.call(quick.cases, ANN._replace(scopes=scopes), task_id)
        with pytest.raises(NotAllowed):  # before anything is said of what is there
            await row.call(quick.cases, BOB._replace(scopes=scopes), task_id)
    if row.of_no_tenant:
        with pytest.raises(NotAllowed, match="of none"):
            await row.call(quick.cases, ANN, task_id)
    caller = ANN._replace(tenant="") if row.of_no_tenant else ANN
    for scopes in (frozenset({row.scope}), frozenset[Scope]({"admin"})):
        try:
            await row.call(quick.cases, caller._replace(scopes=scopes), task_id)
        except (NotAllowed, TaskNotFound) as error:
            pytest.fail(f"{name} with {set(scopes)}: {error}")
        except NotBuilt:
            assert name == "skip"
        except ReplanError:
            pass  # there is no such approval, say


async def test_lists_show_the_tasks_of_the_tenant_alone(there: World) -> None:
    """However many there are of others, and whatever they are asked by."""
    mine: set[str] = set()
    for n in range(12):
        caller = (ANN, BOB, KEEPER)[n % 3]
        made = await there.submit(ASKED, caller, context={"session_id": "s"})
        mine |= {made.task_id} if caller is ANN else set()
        await there.waits(made.task_id, caller)
    seen: list[str] = []
    cursor = None
    while True:
        page = await there.cases.tasks(ANN, limit=3, cursor=cursor, session_id="s")
        assert {one.tenant for one in page.items} <= {None}
        seen += [one.task_id for one in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert sorted(seen) == sorted(mine)
    assert {one.task_id for one in (await there.cases.waiting(ANN)).items} == mine
    every = await there.cases.tasks(KEEPER)
    assert len(every.items) == 12
    assert {one.tenant for one in every.items} == {"acme", "globex", ""}
    assert len((await there.cases.tasks(KEEPER, tenant="acme")).items) == len(mine)
    assert len((await there.cases.waiting(KEEPER)).items) == 12


async def test_a_cursor_of_another_tenant_is_no_cursor(quick: World) -> None:
    task_id = (await quick.submit(PLAIN, ANN)).task_id
    told: list[str] = []
    for cursor in (task_id, "task_of_nobody"):
        for ask in (quick.cases.tasks, quick.cases.waiting):
            with pytest.raises(InputError, match="begin anew") as error:
                await ask(BOB, cursor=cursor)
            told.append(str(error.value).replace(cursor, "…"))
    assert len(set(told)) == 1
    with pytest.raises(NotAllowed):
        await quick.cases.tasks(BOB, tenant="acme")


async def test_an_earlier_task_of_another_tenant_is_not_there(quick: World) -> None:
    earlier = (await quick.submit(PLAIN, ANN)).task_id
    for known in (earlier, "task_of_nobody", "../x"):
        with pytest.raises(TaskNotFound):
            await quick.submit(PLAIN, BOB, context={"previous_task_id": known})
    await quick.done(earlier, ANN)
    assert (await quick.submit(PLAIN, ANN, context={"previous_task_id": earlier})).new


async def test_a_task_follows_one_that_has_ended_and_a_session_is_its_tenants_own(quick: World) -> None:
    open_ = (await quick.submit(ASKED, ANN, context={"session_id": "s"})).task_id
    await quick.waits(open_, ANN)
    with pytest.raises(TaskNotDone, match="has not ended"):
        await quick.submit(PLAIN, ANN, context={"previous_task_id": open_})
    first = (await quick.submit(PLAIN, ANN, context={"session_id": "s"})).task_id
    await quick.done(first, ANN)
    read = []
    for caller in (ANN, BOB):
        task_id = (await quick.submit(PLAIN, caller, context={"session_id": "s"})).task_id
        await quick.done(task_id, caller)
        events = [one.event for one in await quick.replan.history(task_id)]
        read.append(
            [one.task_id for event in events if isinstance(event, PreviousTasksRead) for one in event.tasks]
        )
    assert read == [[first, open_], []]


async def test_the_same_request_again_is_the_same_task_once_the_earlier_one_is_gone(quick: World) -> None:
    earlier = (await quick.submit(PLAIN, ANN, task_id="first")).task_id
    await quick.done(earlier, ANN)
    for named in ("first", earlier):
        wanted = {"context": {"previous_task_id": named}, "task_id": f"second-{len(named)}"}
        late = await quick.submit(PLAIN, ANN, **wanted)
        await quick.done(late.task_id, ANN)
    await quick.replan.delete(earlier)
    for named in ("first", earlier):
        again = {"context": {"previous_task_id": named}, "task_id": f"second-{len(named)}"}
        assert not (await quick.submit(PLAIN, ANN, **again)).new
    with pytest.raises(TaskNotFound):
        await quick.submit(PLAIN, ANN, context={"previous_task_id": "first"}, task_id="third")


async def test_a_fork_belongs_to_the_tenant_of_its_origin(quick: World) -> None:
    task_id = (await quick.submit(PLAIN, ANN)).task_id
    await quick.done(task_id, ANN)
    forked = await quick.cases.fork(ANN, task_id, r.ForkRequest(judge=True))
    assert (await quick.cases.task(ANN, forked.task_id)).task_id == forked.task_id
    with pytest.raises(TaskNotFound):
        await quick.cases.task(BOB, forked.task_id)


async def test_who_did_it_stands_in_the_log(quick: World) -> None:
    task_id = (await quick.submit(ASKED, ANN)).task_id
    asked = await quick.waits(task_id, ANN)
    answer = r.ApprovalAnswer(approved=True, hash=asked.hash)
    await quick.cases.approve(ANN._replace(who="sub:eve"), task_id, asked.waiting_for.id, answer)
    await quick.done(task_id, ANN)
    by = {one.type: one.event.by for one in await quick.replan.history(task_id) if hasattr(one.event, "by")}
    assert by["task_submitted"] == "key:ann"
    assert by["approval_resolved"] == "sub:eve"


async def test_an_id_of_ones_own_choosing_is_nobody_elses_affair(there: World) -> None:
    """Whoever chooses an id learns nothing of another tenant's, and takes it away from nobody."""
    mine = await there.submit(PLAIN, ANN, task_id="job-1")
    other = await there.submit(ASKED, BOB, task_id="job-1")
    assert (mine.new, other.new) == (True, True)
    assert (mine.task_id, other.task_id) == ("acme:job-1", "globex:job-1")
    for name in ("job-1", "acme:job-1"):
        assert (await there.cases.task(ANN, name)).task_id == "acme:job-1"
        assert not (await there.submit(PLAIN, ANN, task_id=name)).new
    with pytest.raises(TaskNotFound):
        await there.cases.task(BOB, "acme:job-1")
    assert (await there.submit(PLAIN, BOB, task_id="acme:job-1")).task_id == "globex:acme:job-1"
    await there.done("job-1", ANN)
    forked = await there.cases.fork(ANN, "job-1", r.ForkRequest(judge=True, task_id="job-2"))
    assert forked.task_id == "acme:job-2"
    assert {one.task_id for one in (await there.cases.tasks(KEEPER)).items} >= {"acme:job-1", "globex:job-1"}
    assert (await there.cases.task(KEEPER, "globex:job-1")).tenant == "globex"
    with pytest.raises(TaskNotFound):
        await there.cases.task(KEEPER, "job-1")
    for odd in ("a/b", "x" * 128, "", "-a"):
        with pytest.raises((InputError, ValueError)):
            await there.submit(PLAIN, ANN, task_id=odd)
    late = await there.submit(PLAIN, ANN, context={"previous_task_id": "job-1"})
    first = (await there.replan.history(late.task_id))[0].event
    assert first.context["previous_task_id"] == "acme:job-1"  # type: ignore[union-attr]


async def test_nobody_without_a_tenant_takes_ids_under_the_name_of_one(there: World) -> None:
    await there.submit(PLAIN, ANN, task_id="known")
    for name in ("acme:known", "acme:new"):  # whether it is there or not is not to be seen
        with pytest.raises(InputError, match="is for the tenant of that name"):
            await there.submit(PLAIN, KEEPER, task_id=name)
    origin = (await there.submit(PLAIN, KEEPER, task_id="mine")).task_id
    await there.done(origin, KEEPER)
    with pytest.raises(InputError, match="is for the tenant of that name"):
        await there.cases.fork(KEEPER, origin, r.ForkRequest(task_id="acme:new"))
    assert (await there.submit(PLAIN, ANN, task_id="new")).new
    assert (await there.submit(PLAIN, KEEPER, task_id="Job:1")).new  # no tenant is called like that


async def test_what_was_stored_under_such_an_id_before_stays_the_same_task(there: World) -> None:
    await there.submit(PLAIN, task_id="acme:old")
    assert not (await there.submit(PLAIN, KEEPER._replace(who="key:x"), task_id="acme:old")).new


async def test_the_id_that_comes_of_a_key_stands_under_its_tenant(there: World) -> None:
    request = r.SubmitRequest(
        task_description="do it", options=r.SubmitOptions(plan=PLAIN, evaluation="steps")
    )
    digest = hashlib.sha256(b"acme\nk").hexdigest()[:32]
    assert (
        await there.submit(PLAIN, KEEPER, task_id=f"task_{digest}")
    ).new  # whoever knows how they are made
    made = await there.cases.submit(ANN, request, idempotency_key="k")
    assert (made.new, made.task_id) == (True, f"acme:task_{digest}")
    older = hashlib.sha256(b"acme\nolder").hexdigest()[:32]
    stored = await there.replan.serving().request(  # as ids were made before
        request.model_copy(update={"task_id": f"task_{older}"}), tenant="acme", by="key:ann"
    )
    await there.replan.service.submit(stored)
    again = await there.cases.submit(ANN, request, idempotency_key="older")
    assert (again.new, again.task_id) == (False, f"task_{older}")
