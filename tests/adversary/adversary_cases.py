"""Random tasks for the adversary: what is drawn, and how one is driven to its end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from adversary_model import Adversary, Nature, inventive, nature
from adversary_people import Person
from adversary_plans import METADATA, Drafts
from adversary_tools import Trick, TrickySource, tricks
from run_tasks import ROLES

from replan.core import events as e
from replan.core.events import AnyEvent, Record
from replan.core.limits.policy import Budget, OlderLimits, Policy
from replan.core.state.task import State
from replan.core.types import JsonObject
from replan.errors import StoreError
from replan.ports import Appended, Claim, NewArtifact
from replan.run.service.submission import Submission
from replan.run.service.tasks import Service
from replan.run.session.dependencies import Parts
from replan.testing import ManualIds, MemoryStore, VirtualClock, virtual_time
from replan.tools.catalog.catalog import Catalog

MOST_RECORDS = 60_000
"""Nothing that ends writes as much."""
MOST_DRIVES = 60
LIMITS: dict[str, tuple[Any, ...]] = {
    "max_llm_calls": (0, 1, 2, 3, 5, 8, 13, 30),
    "max_tool_calls": (0, 1, 2, 3, 5, 8, 20),
    "max_tokens": (0, 10, 3_000, 10_000, 40_000),
    "max_rounds": (0, 1, 2, 3, 5),
    "max_cost_usd": (0.0, 0.01, 0.05, 0.2),
    "task_timeout_secs": (1.0, 7.0, 60.0),
}
"""What a task may be limited to."""
INVENTIVE = 0.1
"""Share of the cases in which model and tools say something new each time."""


@dataclass(frozen=True)
class Case:
    """One task and its surroundings."""

    seed: int
    tricks: tuple[Trick, ...]
    nature: Nature
    policy: Policy
    given: bool
    """The plan comes with the task."""
    crashes: tuple[int, ...] = ()
    """Writes to the log at which the process dies; a negative one: after the write."""
    person: str = ""
    """How somebody answers; empty: nobody is there."""


def drawn(seed: int, variant: str = "plain") -> Case:
    """One case; the same for the same seed and variant.

    `plain`: nothing is set but what is set by default. The others set limits, crash, or have a person; in `doubts`
    many calls may or may not have taken effect.
    """
    rng = random.Random(f"{variant} {seed}")
    policy: JsonObject = {}
    crashes: tuple[int, ...] = ()
    person = ""
    if variant != "plain":
        policy = _loosely(rng)
    if variant == "crashes":
        crashes = tuple(rng.choice([1, -1]) * rng.choice([rng.randint(1, 12), rng.randint(1, 80)]) for _ in range(rng.randint(1, 4)))  # fmt: skip
    elif variant == "limits":
        policy["budget"] = _budget(rng)
        if rng.random() < 0.5:
            policy["older"] = _older(rng)
        crashes = (rng.randint(1, 60),) if rng.random() < 0.2 else ()
    elif variant == "people":
        policy["interactive"] = rng.random() < 0.9
        policy["approval"] = rng.choice(["never", "destructive", "destructive", "all"])
        person = rng.choice(["agrees", "refuses", "edits", "anyhow", "anyhow", "never", "while it runs"])
        crashes = (rng.randint(1, 60),) if rng.random() < 0.2 else ()
    elif variant == "doubts":
        policy["interactive"] = rng.random() < 0.3
        policy["trust_model_settlement"] = seed % 2 == 0
        person = rng.choice(["anyhow", "never", "while it runs"])
        crashes = (rng.randint(1, 60),) if rng.random() < 0.3 else ()
    anew = rng.random() < INVENTIVE
    return Case(
        seed=seed,
        tricks=tuple(tricks(rng, doubtful=variant == "doubts", inventive=anew)),
        nature=inventive(rng) if anew else nature(rng),
        policy=Policy(**policy),
        given=rng.random() < 0.1,
        crashes=crashes,
        person=person,
    )


def _loosely(rng: random.Random) -> JsonObject:
    """Settings that change how a task is run, not whether it ends."""
    return {
        "enable_step_level_reflection": rng.random() < 0.9,
        "enable_auto_reflection": rng.random() < 0.9,
        "evaluation": rng.choice(["model"] * 7 + ["steps"]),
        "two_stage_tool_threshold": rng.choice([10, 10, 2]),
        "enable_parallel_execution": rng.random() < 0.8,
        "parallel_max_concurrent": rng.choice([8, 1, 2, 3]),
        "max_plan_corrections": rng.choice([2, 2, 0, 1]),
        "max_transient_retries": rng.choice([3, 3, 0, 1]),
        "max_output_bytes": rng.choice([262_144, 300]),
    }


def _budget(rng: random.Random) -> Budget:
    chosen = rng.sample(sorted(LIMITS), rng.choice([0, 1, 1, 1, 2, 3]))
    return Budget(**{name: rng.choice(LIMITS[name]) for name in chosen})


def _older(rng: random.Random) -> OlderLimits:
    names = list(OlderLimits.model_fields)
    return OlderLimits(**{name: rng.choice([0, 1, 1, 2, 3]) for name in rng.sample(names, rng.randint(1, 3))})


# ── a run of one ──


class DyingStore(MemoryStore):
    """Forgets its holders at some writes, as if their process had been killed just before or just after."""

    def __init__(self, crashes: Sequence[int]) -> None:
        super().__init__()
        self.writes = 0
        self.crashed = 0
        self._dies_before = {at for at in crashes if at > 0}
        self._dies_after = {-at for at in crashes if at < 0}

    def _append(
        self,
        claim: Claim,
        events: Sequence[AnyEvent],
        ts: float,
        round_: int,
        artifacts: Sequence[NewArtifact],
        heard: int | None,
    ) -> Appended:
        self.writes += 1
        if self.writes in self._dies_before:
            self._die()
        done = super()._append(claim, events, ts, round_, artifacts, heard)
        assert done.last < MOST_RECORDS, "the log grows for ever"
        if self.writes in self._dies_after and not self._task(claim.task_id).ended:
            self._die()
        return done

    def _die(self) -> None:
        self.crashed += 1
        self.crash()

    def log(self, task_id: str) -> list[Record]:
        """The records themselves: nobody changes them."""
        return self._task(task_id).records


@dataclass
class Story:
    """What became of a case."""

    case: Case
    records: list[Record]
    driven: State
    source: TrickySource
    model: Adversary
    store: DyingStore
    parts: Parts
    problems: list[str] = field(default_factory=list)
    """What the event loop had to complain about."""
    cancelled: bool = False
    """By a person, as it waited for ever."""

    def seen(self) -> Iterator[str]:
        """What came up: kinds of events, remedies and whose choice they were, strategies, kinds of failure."""
        for record in self.records:
            yield record.type
            match record.event:
                case e.StepReflected(action=action, by=by):
                    yield f"{action.type} by {by}"
                case e.PlanUpdated(strategy=strategy):
                    yield strategy
                case e.TaskFailed(failure=failure):
                    yield failure.kind


def run(case: Case) -> Story:
    """Drive a case to its end on virtual time."""
    return virtual_time(_whole(case))


async def _whole(case: Case) -> Story:
    problems: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(
        lambda _, what: problems.append(f"{what.get('message')}: {what.get('exception')!r}")
    )
    rng = random.Random(f"run {case.seed}")
    source = TrickySource(case.tricks, random.Random(rng.random()))
    catalog = Catalog([source])
    await catalog.open()
    store = DyingStore(case.crashes)
    task_id = "task_1"
    model = Adversary(case.nature, random.Random(rng.random()), source.specs, lambda: store.log(task_id))
    parts = Parts(
        store=store,
        tools=catalog,
        models=dict.fromkeys(ROLES, model),  # type: ignore[arg-type]
        clock=VirtualClock(),
        ids=ManualIds(),
        driver="test",
    )
    service = Service(parts)
    plan = Drafts(rng, source.specs).plan(rng.randint(1, 5)) if case.given else None
    await service.submit(Submission("do it", case.policy, METADATA, task_id=task_id, plan=plan))
    person = Person(case.person, service, task_id, rng)
    cancelled, patience = False, 10
    for _ in range(MOST_DRIVES):
        beside = asyncio.create_task(person.beside())
        try:
            state = await service.drive(task_id)
            if state.waiting is not None and state.waiting.until_resumed and (patience := patience - 1) > 0:
                continue  # its model may be there again
            if not state.ended and not await person.answers(state):
                assert state.waiting is not None, "nobody drives it, and it waits for nobody"
                cancelled = True
                await service.cancel(task_id, "nobody answers")
                state = await service.state(task_id)
        except StoreError:
            if not store.crashed:
                raise
            continue  # killed: the next process takes it up
        finally:
            beside.cancel()
        if state.ended:
            break
    else:
        raise AssertionError(f"it has not ended after {MOST_DRIVES} drives")
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task(), beside}  # type: ignore[arg-type]
    assert not left, f"tasks are left: {left}"
    return Story(case, store.log(task_id), state, source, model, store, parts, problems, cancelled)
