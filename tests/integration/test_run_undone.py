"""What was undone since stands for nothing: a plan made anew, or given to a fork from the end, that states it again says which it means."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tasks import Bench, FakeTool, Ran, bench, plan, step
from test_run_forks import forked
from test_run_forks_world import BACK, MEANT, ONE, PAY, SITE, TWO, World, chain, reused
from test_run_older_effects import WHY, refusals, run

from replan.testing import virtual_time

LATER = "was about the same after that and does not come after it here"
AGAIN, MIRROR = ("pay", "y"), ("publish", "mirror")


async def from_the_end(
    first: dict[str, Any], *then: dict[str, Any], world: World | None = None
) -> tuple[World, Bench, list[Ran]]:
    """A task that has run, and forks from its end with these plans."""
    world = world or World()
    made = await bench(world.tools())
    one = await made.run(first)
    forks = [await made.drive(await forked(made, one.result.task_id, plan=each)) for each in then]
    return world, made, forks


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((PAY, BACK), (PAY,)),
        ((PAY, BACK), (PAY, AGAIN)),
        ((PAY, BACK), (BACK, PAY)),
        ((ONE, TWO), (ONE, SITE)),
        ((SITE, TWO), (TWO, SITE)),
        ((PAY, BACK, AGAIN), (AGAIN, PAY)),
    ],
    ids=[
        "undone",
        "with more",
        "in another order",
        "written over",
        "published before",
        "beside what is done",
    ],
)
def test_a_fork_from_the_end_is_not_answered_with_what_was_undone(
    first: tuple[tuple[str, str], ...], then: tuple[tuple[str, str], ...]
) -> None:
    world, _, (fork,) = virtual_time(from_the_end(chain(*first), chain(*then)))
    assert fork.result.status == "failed"
    assert LATER in fork.result.reason
    assert "repeat: true" in fork.result.reason
    assert max(Counter(world.journal).values()) == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((PAY, BACK), (PAY, BACK)),
        ((PAY, BACK), (PAY, BACK, AGAIN)),
        ((PAY, AGAIN), (PAY, ("pay", "z"))),
        ((ONE, SITE), (ONE, SITE, TWO)),
        ((ONE, SITE), (SITE, MIRROR)),
        ((PAY, SITE), (PAY,)),
    ],
    ids=["undone here too", "and then more", "another in its place", "changed after it", "left out", "something else since"],
)  # fmt: skip
def test_what_still_holds_is_reused_in_a_fork_from_the_end(
    first: tuple[tuple[str, str], ...], then: tuple[tuple[str, str], ...]
) -> None:
    world, _, (fork,) = virtual_time(from_the_end(chain(*first), chain(*then)))
    assert fork.result.is_success, fork.result.reason
    assert max(Counter(world.journal).values()) == 1
    assert reused(fork) == [tool for tool, of in then if (tool, of) in first]


def test_what_was_undone_is_made_once_more_where_the_fork_says_so() -> None:
    """And who states it after that is given what it gave then."""

    async def main() -> tuple[World, Ran, Ran]:
        world, made, (fork,) = await from_the_end(chain(BACK, PAY, ("refund", "y")), chain(PAY))
        assert fork.result.is_success, "another was taken back, or this one before it was made"
        world, made, (fork,) = await from_the_end(chain(PAY, BACK), chain(PAY, **MEANT))
        return world, fork, await made.drive(await forked(made, fork.result.task_id, plan=chain(PAY)))

    world, fork, after = virtual_time(main())
    assert fork.result.is_success
    assert world.balance["x"] == 1
    assert after.result.is_success, "it is there again"
    assert Counter(world.journal)[PAY] == 2


def test_what_was_made_once_more_is_what_a_later_fork_is_given() -> None:
    async def main() -> tuple[Ran, dict[str, int]]:
        numbers = iter(range(1, 9))
        made = await bench(
            {
                "create": FakeTool(output=lambda p: {"id": next(numbers)}, effect="once"),
                "delete": FakeTool(output="deleted", effect="once"),
            }
        )
        one = await made.run(plan(create("a"), step("b", "delete", "a", parameters={"id": "${a.output.id}"})))
        again = await made.drive(await forked(made, one.result.task_id, plan=plan(create("c", **WHY))))
        last = await made.drive(await forked(made, again.result.task_id, plan=plan(create("d"))))
        return last, made.source.counts

    last, counts = virtual_time(main())
    assert last.result.is_success
    assert last.outputs()["d"] == {"id": 2}
    assert counts == {"create": 2, "delete": 1}


def test_a_list_is_held_to_what_was_undone_item_by_item() -> None:
    def pays(name: str, *more: str) -> dict[str, Any]:
        return step(name, "pay", *more, parameters={"to": "${item}"}, for_each=["x", "y"])

    first = plan(pays("p"), step("b", "refund", "p", parameters={"to": "x"}))
    world, _, (fork,) = virtual_time(from_the_end(first, plan(pays("again"))))
    assert fork.result.status == "failed"
    (failed,) = fork.events("step_failed")
    assert "item 1" in failed.error.message
    assert "item 2" not in failed.error.message
    assert world.balance == {"x": 0, "y": 1}


def test_what_another_fork_has_undone_stands_for_nothing_either() -> None:
    world, _, (back, again, beside) = virtual_time(
        from_the_end(chain(PAY, ONE), chain(BACK), chain(PAY), chain(ONE))
    )
    assert back.result.is_success
    assert again.result.status == "failed"
    assert f"(refund) of task {back.result.task_id!r} {LATER}" in again.result.reason
    assert beside.result.is_success, "that is not what was undone"
    assert world.balance["x"] == 0


# ── a plan that a model makes anew ────────────────────────────────────────────

THINGS: dict[str, FakeTool] = {
    "create": FakeTool(output=lambda p: {"id": 7, "name": p.get("name")}, effect="once"),
    "delete": FakeTool(output="deleted", effect="once"),
    "note": FakeTool(output="noted", effect="once"),
    "same": FakeTool(output="x", effect="reads"),
}


def create(name: str, *needs: str, of: str = "x", **more: Any) -> dict[str, Any]:
    return step(name, "create", *needs, parameters={"name": of}, **more)


def gone(*, by: dict[str, Any] | None = None, tool: str = "delete") -> dict[str, Any]:
    return plan(
        create("made", of="x"),
        step("gone", tool, "made", parameters=by or {"name": "x"}),
        step("look", "broken", "gone"),
    )


@pytest.mark.parametrize("by", [{"name": "x"}, {"id": "${made.output.id}"}], ids=["its name", "its id"])
@pytest.mark.parametrize("judge", ["model", "steps"])
def test_a_plan_made_anew_is_asked_about_what_was_undone(judge: str, by: dict[str, Any]) -> None:
    ran = run(
        plan(create("anew")), plan(create("anew", **WHY)), first=gone(by=by), tools=THINGS, evaluation=judge
    )
    (refused,) = refusals(ran)
    assert "'anew' makes the call of 'create' that step 'made' has made, and step 'gone' (delete)" in refused
    assert ran.source.counts["create"] == 2
    assert ran.result.succeeded


def test_it_is_asked_once_it_is_read_what_is_created() -> None:
    anew = plan(step("name", "same"), create("anew", "name", of="${name.output}"))
    ran = run(anew, plan(create("last", **WHY)), first=gone(), tools=THINGS, evaluation="steps")
    (failed,) = [one for one in ran.events("step_failed") if one.step_id == "anew"]
    assert failed.error.kind == "repeated"
    assert LATER in failed.error.message


@pytest.mark.parametrize(
    ("first", "anew"),
    [
        (gone(), plan(create("anew"), step("off", "delete", "anew", parameters={"name": "x"}))),
        (gone(by={"name": "x", "text": "hello"}, tool="note"), plan(create("anew"))),
        (gone(by={"name": "z"}), plan(create("anew"))),
        (plan(create("made"), step("gone", "delete", parameters={"name": "x"}), step("look", "broken", "made", "gone")),
         plan(create("anew"))),
    ],
    ids=["undone here too", "something was said of it", "another was undone", "side by side"],
)  # fmt: skip
def test_what_was_not_undone_is_reused_without_a_word(first: dict[str, Any], anew: dict[str, Any]) -> None:
    ran = run(anew, first=first, tools=THINGS)
    assert not refusals(ran)
    assert ran.result.succeeded
    assert ran.source.counts["create"] == 1


MOVES = st.lists(st.sampled_from([PAY, BACK, AGAIN, ONE, SITE]), min_size=1, max_size=4, unique=True)


@settings(max_examples=60)
@given(MOVES, MOVES, st.booleans())
def test_a_fork_from_the_end_that_succeeds_has_what_its_plan_says(
    first: list[tuple[str, str]], then: list[tuple[str, str]], between: bool
) -> None:
    plans = [chain(BACK), chain(*then)] if between else [chain(*then)]
    world, _, forks = virtual_time(from_the_end(chain(*first), *plans))
    assert max(Counter(world.journal).values()) == 1
    if forks[-1].result.is_success and PAY in then:
        after = then[then.index(PAY) :]
        assert [one for one in world.journal if one[1] == "x"][-1] == (BACK if BACK in after else PAY)
