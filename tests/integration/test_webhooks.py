"""Webhooks to a real endpoint that dies, refuses, sends on and is slow: nothing is lost, nothing comes out of order, no task waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_process import BY_STEPS, folder, going_on, replan
from service_here import service_on

from replan import Replan
from replan.config import Settings
from replan.core import events as e
from replan.core.report.notice import notice_of
from replan.core.secrets.signing import signature, signing_key
from replan.core.types import Failure
from replan.errors import ConfigError, InputError
from replan.ports import Consumer, NotTaken
from replan.projections.delivery import Delivery, Pace
from replan.projections.webhooks import Unfit, Webhook, Whose
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore
from replan.tools.network.addresses import AddressRules
from replan.tools.network.client import guarded_client
from replan.wiring import webhooks_of
from webhook_server import SECRET, Answer, Came, Endpoint

pytestmark = pytest.mark.anyio
SECS = 30.0
QUICK = Pace(look_secs=0.01, beat_secs=0.05, take_secs=0.02, first_pause_secs=0.01, longest_pause_secs=0.05)
OTHER = SECRET.replace("AAEC", "BAEC")
PLAN = {"steps": [{"step_id": "a", "tool": "double", "parameters": {"n": 4}}]}
Store = SqliteStore | PostgresStore


def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


@pytest.fixture
async def there() -> AsyncIterator[Endpoint]:
    async with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    if request.param == "sqlite":
        return tmp_path / "log.db"
    address: str = request.getfixturevalue("postgres_database")
    return address


@pytest.fixture
async def store(where: str | Path) -> AsyncIterator[Store]:
    opened = SqliteStore(where) if isinstance(where, Path) else PostgresStore(where)
    yield opened
    await opened.aclose()


def hook(there: Endpoint, **more: Any) -> Webhook:
    async def whose(task_id: str) -> Whose | None:
        return Whose("acme" if task_id.startswith("acme") else "", f"do {task_id}")

    def client() -> httpx2.AsyncClient:
        return guarded_client(AddressRules(allow_private=True), timeout=5.0)

    key = signing_key(SECRET)
    assert key is not None
    return Webhook("ops", there.url, [key], **{"client": client, "whose": whose, **more})


def ended(task_id: str, seq: int = 3, **more: Any) -> e.Record:
    return e.Record(seq, task_id, 2.0, 1, e.TaskCompleted(**more))


def waiting(task_id: str, seq: int, *approvals: str) -> e.Record:
    return e.Record(seq, task_id, 1.0, 1, e.TaskWaiting(reason="a person", approvals=approvals))


async def tasks_in(store: Store, *names: str) -> None:
    """Each waits for a person, and ends."""
    for name in names:
        tenant = "acme" if name.startswith("acme") else ""
        await store.create(name, e.TaskSubmitted(description=f"do {name}", tenant=tenant), 1.0)
        claim = await store.claim(name)
        told = [
            e.TaskWaiting(reason="a yes", approvals=("ap_1",)),
            e.TaskResumed(),
            e.TaskCompleted(final_output=8),
        ]
        await store.append(claim, told, ts=2.0, round=1)
        await store.release(claim)


@contextlib.asynccontextmanager
async def delivering(store: Store, consumer: Consumer) -> AsyncIterator[None]:
    task = asyncio.create_task(Delivery(store.outbox(), consumer, pace=QUICK).run())
    try:
        async with asyncio.timeout(SECS):
            yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def has_all(store: Store) -> None:
    async with asyncio.timeout(SECS):
        while (await store.outbox().consumers())[0].events_behind:  # noqa: ASYNC110 - what another process would see is only to be asked for
            await asyncio.sleep(0.01)


def of_each(came: Sequence[Came]) -> dict[str, list[int]]:
    """The events of each task in the order in which they were taken, without what came twice."""
    found: dict[str, dict[int, None]] = {}
    for each in came:
        found.setdefault(each.place[0], {})[each.place[1]] = None
    return {name: list(numbers) for name, numbers in found.items()}


# ── what is sent ──────────────────────────────────────────────────────────────


def test_the_signature_is_that_of_the_convention() -> None:
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert key is not None
    told = signature([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert told == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert [signing_key(text) for text in ("whsec_", "whsec_c2hvcnQ=", "whsec_!!!", "x" * 200)] == [None] * 4


async def test_a_message_is_signed_small_and_says_what_became_of_the_task(there: Endpoint) -> None:
    consumer = hook(there, masked=lambda said: json.loads(json.dumps(said).replace("hunter3", "***")))
    failed = e.TaskFailed(failure=Failure(kind="step", reason="no luck with hunter3 " * 900))
    told = [
        waiting("t", 2, "ap_1"),
        e.Record(3, "t", 2.5, 1, failed),
        ended("u", 3, final_output="long " * 9_000),
    ]
    await consumer.deliver(told)
    first, second = (one for one in there.came if one.place[0] == "t")
    (third,) = (one for one in there.came if one.place[0] == "u")
    assert first.said == {
        "type": "task.waiting",
        "timestamp": "1970-01-01T00:00:01.000Z",
        "data": {
            "task_id": "t", "seq": 2, "description": "do t", "status": "waiting", "reason": "a person",
            "waits_for": ["person"], "approvals": ["ap_1"],
        },
    }  # fmt: skip
    assert (second.said["type"], second.said["data"]["status"]) == ("task.ended", "failed")
    assert second.said["data"]["failure"]["reason"].startswith("no luck with ***")
    assert third.said["data"]["output"]["bytes"] > 45_000
    assert max(len(one.body) for one in there.came) < 6_000
    assert all(one.is_signed_with(SECRET) and not one.is_signed_with(OTHER) for one in there.came)
    assert len({one.headers["webhook-id"] for one in there.came}) == 3
    assert first.headers["content-type"] == "application/json"
    assert first.path == "/hooks?token=hunter2"


def test_who_cannot_answer_is_not_told_and_no_token_is() -> None:
    assert notice_of(e.TaskWaiting(reason="five o'clock", until=9.0)) is None
    outside = notice_of(e.TaskWaiting(reason="a callback", until=9.0, callbacks=("cb_secret",)))
    assert outside is not None
    assert outside.data["waits_for"] == ["callback", "time"]
    assert "cb_secret" not in str(outside.data)
    assert notice_of(e.StepStarted(step_id="a")) is None
    many = notice_of(e.TaskWaiting(reason="r", approvals=tuple(f"ap_{at}" for at in range(80))))
    assert many is not None
    assert (len(many.data["approvals"]), many.data["more_approvals"]) == (50, 30)


async def test_only_what_is_wanted_of_whom_it_is_wanted_is_sent(there: Endpoint) -> None:
    told = [waiting("acme_1", 2, "ap"), ended("acme_1"), waiting("t", 2, "ap"), ended("t")]
    await hook(there, events=("ended",)).deliver(told)
    assert sorted(one.place for one in there.came) == [("acme_1", 3), ("t", 3)]
    there.came.clear()
    await hook(there, tenants=("acme",)).deliver(told)
    assert [one.place for one in there.came] == [("acme_1", 2), ("acme_1", 3)]
    assert there.came[0].said["data"]["tenant"] == "acme"


async def test_a_task_that_waits_as_before_is_no_news_until_somebody_has_said_something(
    there: Endpoint,
) -> None:
    outside = lambda seq: e.Record(seq, "t", 1.0, 1, e.TaskWaiting(reason="r", until=9.0, callbacks=("cb",)))  # noqa: E731
    consumer = hook(there)
    await consumer.deliver([outside(2), e.Record(3, "t", 1.0, 1, e.TaskResumed()), outside(4)])
    await consumer.deliver([outside(6), waiting("t", 7, "ap_1"), waiting("t", 8, "ap_1", "ap_2")])
    paused = e.TaskWaiting(reason="paused", paused=True)
    said = [e.Record(11, "t", 1.0, 1, e.ResumeRequested()), e.Record(12, "t", 1.0, 1, paused)]
    await consumer.deliver([e.Record(9, "t", 1.0, 1, paused), e.Record(10, "t", 1.0, 1, paused), *said])
    assert [one.place[1] for one in there.came] == [2, 7, 8, 9, 12]
    there.next.append(Answer(500))
    with pytest.raises(NotTaken):
        await consumer.deliver([outside(13), outside(14)])
    await consumer.deliver([outside(13), outside(14)])
    assert [one.place[1] for one in there.came[5:]] == [13, 13]


# ── endpoints that do not take it ─────────────────────────────────────────────

BAD = [
    pytest.param(Answer(500), "answered 500", id="500"),
    pytest.param(Answer(404), "answered 404", id="404"),
    pytest.param(Answer(410), "answered 410: it is gone for good", id="410"),
    pytest.param(Answer(302, (("location", "/elsewhere"),)), "answered 302: it sends on to another place", id="redirect"),
    pytest.param(Answer(drops=True), "not reached", id="dies"),
    pytest.param(Answer(hangs=True), "no answer within 0.2 s", id="slow"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "why"), BAD)
async def test_what_is_not_taken_comes_again_as_the_same_message(
    there: Endpoint, answer: Answer, why: str
) -> None:
    consumer = hook(there, timeout_secs=0.2 if answer.hangs else 10.0)
    batch = [waiting("t", 2, "ap"), ended("t"), ended("u")]
    there.next.append(answer)
    with pytest.raises(NotTaken, match=why):
        await consumer.deliver(batch)
    await consumer.deliver(batch)
    assert of_each(there.taken) == {"t": [2, 3], "u": [3]}
    assert {one.path for one in there.came} == {"/hooks?token=hunter2"}
    ids = {
        one.place: {each.headers["webhook-id"] for each in there.came if each.place == one.place}
        for one in there.came
    }
    assert all(len(same) == 1 for same in ids.values())
    assert len(there.taken) == 3  # what was taken is not sent again with the rest of its batch


async def test_one_that_is_down_is_tried_with_one_message_and_says_nothing_secret(there: Endpoint) -> None:
    consumer = hook(there)
    await there.down()
    batch = [ended(f"t{at}") for at in range(20)]
    with pytest.raises(NotTaken, match="not reached") as told:
        await consumer.deliver(batch)
    assert "hunter2" not in str(told.value)
    await there.up()
    there.next.append(Answer(503, (("retry-after", "7"),)))
    with pytest.raises(NotTaken, match="answered 503") as told:
        await consumer.deliver(batch)
    assert told.value.after_secs == 7.0
    assert len(there.came) == 1
    await consumer.deliver(batch)
    assert len(there.taken) == 20


async def test_a_message_that_is_refused_for_itself_holds_up_no_other_for_ever(there: Endpoint) -> None:
    there.to = lambda came: Answer(422 if came.place[0] == "odd" else 204)
    consumer = hook(there, give_up_secs=0.0)
    batch = [ended("odd"), ended("t"), ended("u")]
    with pytest.raises(Unfit, match="answered 422"):
        await consumer.deliver(batch)
    assert of_each(there.taken) == {"t": [3], "u": [3]}
    await consumer.deliver([ended("v")])  # it is well, whatever it says of the other
    await consumer.deliver(batch)
    assert [one.place[0] for one in there.came].count("odd") == 2
    assert [one.place[0] for one in there.came].count("t") == 1


async def test_one_that_refuses_everything_is_given_nothing_up(there: Endpoint) -> None:
    there.to = lambda _: Answer(400)
    consumer = hook(there, give_up_secs=0.0)
    for _ in range(4):
        with pytest.raises(Unfit, match="answered 400"):
            await consumer.deliver([ended("t"), ended("u")])
    there.to = lambda _: Answer()
    await consumer.deliver([ended("t"), ended("u")])
    assert of_each(there.taken) == {"t": [3], "u": [3]}


# ── by the outbox, on both stores ─────────────────────────────────────────────


async def test_an_endpoint_that_is_down_loses_nothing_and_holds_no_task(
    store: Store, there: Endpoint
) -> None:
    names = [f"t{at}" for at in range(12)]
    await there.down()
    async with delivering(store, hook(there)):
        await tasks_in(store, *names)  # which takes no notice
        assert {one.status for one in await store.list_tasks()} == {"succeeded"}
        async with asyncio.timeout(SECS):
            while not (state := (await store.outbox().consumers() or [None])[0]) or not state.failures:  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.01)
        assert (state.name, state.events_behind > 0) == ("webhook.ops", True)
        assert "not reached" in (state.error or "")
        there.next += [Answer(500), Answer(), Answer(429), Answer(), Answer(drops=True), Answer()]
        await there.up()
        await has_all(store)
    assert of_each(there.taken) == {name: [2, 4] for name in names}


async def test_one_that_dies_again_and_again_gets_everything_in_order(store: Store, there: Endpoint) -> None:
    async with delivering(store, hook(there)):
        for turn in range(1, 4):
            await tasks_in(store, f"a{turn}", f"b{turn}")
            await there.until(lambda: len({one.place for one in there.taken}) >= 4 * turn - 2)  # noqa: B023 - it is awaited here
            await there.down()
            await there.up()
        await has_all(store)
    assert of_each(there.taken) == {f"{one}{turn}": [2, 4] for turn in range(1, 4) for one in "ab"}


async def test_a_secret_that_is_replaced_signs_beside_the_new_one(there: Endpoint, tmp_path: Path) -> None:
    section = {"url": there.url, "secret": SECRET, "previous_secret": OTHER, "allow_private": True}
    settings = Settings.model_validate({"webhooks": {"endpoints": {"ops": section}}})
    async with Replan(db=tmp_path / "t.db", settings=settings, tools=[double], evaluation="steps") as opened:
        assert opened.secrets.hide(f"it is {SECRET}") == "it is ***"
        async with opened.auditing():
            await opened.run("double it", plan=PLAN, task_id="t")
            await there.until(lambda: len(there.taken) == 1)
    assert all(there.taken[0].is_signed_with(secret) for secret in (SECRET, OTHER))
    assert there.taken[0].said["data"]["output"] == 8


# ── where it may go ───────────────────────────────────────────────────────────


def made(there: Endpoint, path: Path, **more: Any) -> tuple[Settings, SqliteStore]:
    section = {"url": there.url, "secret": SECRET, **more}
    return Settings.model_validate({"webhooks": {"endpoints": {"ops": section}}}), SqliteStore(path / "x.db")


async def test_an_address_inside_the_network_has_to_be_allowed(there: Endpoint, tmp_path: Path) -> None:
    from replan.core.secrets import KnownSecrets

    for more, allowed in (
        ({}, False),
        ({"allow_hosts": ["127.0.0.1"]}, True),
        ({"allow_hosts": ["127.0.0.2"]}, False),
        ({"allow_private": True}, True),
    ):
        settings, store = made(there, tmp_path, **more)
        await store.create("t", e.TaskSubmitted(description="d"), 1.0)
        (consumer,) = webhooks_of(settings, KnownSecrets(), store)
        there.came.clear()
        if allowed:
            await consumer.deliver([ended("t")])
        else:
            with pytest.raises(
                NotTaken, match=r"is a loopback address, which webhooks may not reach; .* allow_hosts"
            ):
                await consumer.deliver([ended("t")])
        assert len(there.came) == allowed
        await store.delete("t", unfinished=True)
        await store.aclose()


def test_what_is_no_rule_is_told_with_its_place(there_settings: Callable[..., Settings]) -> None:
    from replan.core.secrets import KnownSecrets

    settings = there_settings(allow_hosts=["http://x/"])
    with pytest.raises(ConfigError, match=r"\[webhooks.endpoints.ops\] allow_hosts: "):
        webhooks_of(settings, KnownSecrets(), None)  # type: ignore[arg-type]


@pytest.fixture
def there_settings() -> Callable[..., Settings]:
    def with_more(**more: Any) -> Settings:
        section = {"url": "https://example.com/h", "secret": SECRET, **more}
        return Settings.model_validate({"webhooks": {"endpoints": {"ops": section}}})

    return with_more


async def test_nobody_else_takes_the_place_of_a_webhook(tmp_path: Path) -> None:
    class Mine:
        name = "webhook.ops"

        async def deliver(self, records: Sequence[e.Record]) -> None: ...

    async with Replan(db=tmp_path / "t.db") as opened:
        with pytest.raises(InputError, match="is the name of what the configuration delivers webhooks to"):
            await opened.deliver(Mine())


# ── beside a service, and by the command ──────────────────────────────────────


async def test_a_service_tells_and_says_how_far_it_is(there: Endpoint, tmp_path: Path) -> None:
    section = {"url": there.url, "secret": SECRET, "allow_private": True}
    settings = Settings.model_validate({"server": {"port": 0}, "webhooks": {"endpoints": {"ops": section}}})
    opened = Replan(tools=[double], db=tmp_path / "t.db", settings=settings, evaluation="steps")
    there.next.append(Answer(500))
    async with service_on(opened) as here, httpx2.AsyncClient(trust_env=False, base_url=here.url) as client:
        asked = {"task_description": "double it", "task_id": "t", "options": {"plan": PLAN}}
        async with asyncio.timeout(SECS):
            while not any(state.read for state in await opened.consumers()):  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.01)
        assert (await client.post("/api/v1/tasks", json=asked)).status_code == 202
        await there.until(lambda: len(there.taken) == 1)
        assert (await client.get("/api/v1/tasks/t/result?wait=20")).json()["final_output"] == 8
        names = {one["name"] for one in (await client.get("/ready")).json()["dependencies"]}
    assert "webhook.ops" in names
    assert there.came[0].headers["webhook-id"] == there.came[1].headers["webhook-id"]
    assert there.taken[0].said["data"]["status"] == "succeeded"


async def test_the_command_tells_what_happens_from_now_on_and_doctor_shows_the_backlog(
    there: Endpoint, tmp_path: Path
) -> None:
    place = folder(tmp_path)
    text = f'[webhooks.endpoints.ops]\nurl = "{there.url}"\nsecret = "{SECRET}"\nallow_private = true\n'
    (place / "config.toml").write_text(text, "utf-8")
    run = lambda *args: asyncio.to_thread(replan, *args, cwd=place)  # noqa: E731
    assert (await run(*BY_STEPS, "--task-id", "before")).returncode == 0
    shown = (await run("config", "show")).stdout
    assert "AAEC" not in shown

    async def listed() -> dict[str, Any]:
        found = json.loads((await run("outbox", "list", "--json")).stdout)["consumers"]
        return found[0] if found else {}

    with going_on("outbox", "webhooks", cwd=place) as process:
        async with asyncio.timeout(SECS):
            while not (await listed()).get("read"):
                pass
        assert (await run(*BY_STEPS, "--task-id", "after")).returncode == 0
        await there.until(lambda: len(there.taken) == 1)
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, timeout=SECS)
    assert there.taken[0].place[0] == "after"
    assert (await run(*BY_STEPS, "--task-id", "later")).returncode == 0
    told = json.loads((await run("doctor", "--json")).stdout)["checks"]
    (finding,) = [one for one in told if one["name"] == "outbox"]
    assert finding["found"].startswith("webhook.ops  ")
    assert "nobody delivers to it" in finding["found"]
