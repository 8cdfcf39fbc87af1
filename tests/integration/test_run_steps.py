"""What steps can be: actions, items, conditions; and what becomes of parameters, outputs and metadata."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from run_tasks import FakeSource, FakeTool, Ran, action, bench, plan, step

from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.testing import virtual_time


def run(tools: dict[str, Any], wanted: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        return await (await bench(tools)).run(wanted, **more)

    return virtual_time(main()).check()


def echo(parameters: dict[str, Any]) -> Any:
    return parameters


def fails_for(*bad: Any) -> Any:
    def tool(parameters: dict[str, Any]) -> Any:
        if parameters["n"] in bad:
            raise ValueError(f"not {parameters['n']}")
        return parameters["n"] * 10

    return tool


# ── tasks ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("own_factory", [False, True])
def test_every_call_has_a_task_of_its_own_which_the_loop_makes(own_factory: bool) -> None:
    made: list[asyncio.Task[Any]] = []
    seen: dict[str, asyncio.Task[Any] | None] = {}

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **given)
        made.append(task)
        return task

    def mine(parameters: dict[str, Any]) -> Any:
        seen[parameters["n"]] = asyncio.current_task()
        return parameters["n"]

    async def main() -> Ran:
        if own_factory:
            asyncio.get_running_loop().set_task_factory(factory)
        chain = [step(f"s{n}", "mine", *([f"s{n - 1}"] if n else []), parameters={"n": n}) for n in range(3)]
        return await (await bench({"mine": mine})).run(plan(*chain))

    ran = virtual_time(main()).check()
    assert ran.statuses() == dict.fromkeys(("s0", "s1", "s2"), "succeeded")
    assert len(set(map(id, seen.values()))) == 3
    assert all(task is not None and task.done() for task in seen.values())
    names = {task.get_name() for task in made}
    assert {"s0", "s1", "s2"} <= names or not own_factory


def test_a_call_whose_task_is_cancelled_from_outside_before_it_begins_ends_all_the_same() -> None:
    """A tool may cancel whatever it finds in its loop."""

    def cancels(parameters: dict[str, Any]) -> Any:
        for task in asyncio.all_tasks():
            if task.get_name() == "late":
                task.cancel()
        return 1

    async def main() -> Ran:
        wanted = plan(step("first", "cancels"), step("late", "cancels"))
        return await (await bench({"cancels": cancels})).run(wanted)

    assert virtual_time(main()).result is not None


# ── actions ───────────────────────────────────────────────────────────────────


def test_the_output_of_actions_is_an_object_by_action_id() -> None:
    ran = run(
        {"echo": echo},
        plan(
            step("s", actions=[action("x", "echo", n=1), action("y", "echo", n=2)]),
            step(
                "t", "echo", parameters={"x": "${x.output.n}", "y": "${s.actions.y.output.n}", "all": "${s}"}
            ),
        ),
    )
    assert ran.outputs()["s"] == {"x": {"n": 1}, "y": {"n": 2}}
    assert ran.outputs()["t"] == {"x": 1, "y": 2, "all": {"x": {"n": 1}, "y": {"n": 2}}}


def test_only_the_failed_action_is_tried_again() -> None:
    flaky = FakeTool(fail=[ConnectionResetError("gone"), ConnectionResetError("gone")])
    ran = run(
        {"ok": "fine", "flaky": flaky}, plan(step("s", actions=[action("x", "ok"), action("y", "flaky")]))
    )
    assert ran.statuses() == {"s": "succeeded"}
    assert ran.source.counts == {"ok": 1, "flaky": 3}


def test_a_failed_action_fails_its_step_and_the_others_results_are_kept() -> None:
    ran = run(
        {"ok": "fine", "bad": FakeTool(fail=["broken"])},
        plan(step("s", actions=[action("x", "ok"), action("y", "bad")])),
    )
    assert ran.statuses() == {"s": "failed"}
    (completed,) = ran.events("call_completed")
    assert (completed.action_id, completed.output) == ("x", "fine")
    (failed,) = ran.events("step_failed")
    assert failed.error.message == "1 of 2 calls failed; action 'y': broken"


# ── for_each ──────────────────────────────────────────────────────────────────


def test_items_come_out_in_their_order_whatever_ends_first() -> None:
    class Backwards(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            await asyncio.sleep(100 - 10 * call.parameters["n"])
            return await super().call(call)

    async def main() -> Ran:
        made = await bench(Backwards({"echo": FakeTool(output=lambda p: p["n"])}))
        wanted = plan(step("s", "echo", for_each="${metadata.items}", parameters={"n": "${item}"}))
        return await made.run(wanted, metadata={"items": list(range(8))})

    ran = virtual_time(main()).check()
    assert [event.index for event in ran.events("call_completed")] == list(range(7, -1, -1))
    assert ran.outputs() == {"s": list(range(8))}


def test_item_and_index_are_filled_in_and_keep_their_types() -> None:
    ran = run(
        {"echo": echo},
        plan(
            step(
                "s",
                "echo",
                for_each="${metadata.items}",
                parameters={
                    "whole": "${item}",
                    "part": "${item.x}",
                    "at": "${index}",
                    "text": "no. ${index}",
                },
            )
        ),
        metadata={"items": [{"x": None}, {"x": [1]}]},
    )
    assert ran.outputs()["s"] == [
        {"whole": {"x": None}, "part": None, "at": 0, "text": "no. 0"},
        {"whole": {"x": [1]}, "part": [1], "at": 1, "text": "no. 1"},
    ]


def test_no_items_give_an_empty_list_and_what_depends_on_it_runs() -> None:
    ran = run(
        {"echo": echo},
        plan(
            step("s", "echo", for_each="${metadata.items}", parameters={"n": "${item}"}),
            step("t", "echo", parameters={"got": "${s.output}"}),
        ),
        metadata={"items": []},
    )
    assert ran.outputs() == {"s": [], "t": {"got": []}}
    assert ran.events("step_started", step_id="s")[0].items == 0


def test_items_may_be_a_text_that_holds_a_list() -> None:
    made = {"names": '["Ann", "Bo"]', "t": FakeTool(output=lambda p: p["name"])}
    ran = run(
        made, plan(step("n", "names"), step("s", "t", for_each="${n.output}", parameters={"name": "${item}"}))
    )
    assert ran.outputs()["s"] == ["Ann", "Bo"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param("text", "a text", id="a text"),
        pytest.param({"a": 1}, "an object", id="an object"),
        pytest.param(None, "null", id="null"),
        pytest.param(3, "a number", id="a number"),
        pytest.param(True, "a truth value", id="a truth value"),
    ],
)
def test_items_that_are_no_list_fail_the_step_without_a_call(value: Any, words: str) -> None:
    ran = run(
        {"t": "x"},
        plan(step("s", "t", for_each="${metadata.items}")),
        metadata={"items": value},
    )
    (failed,) = ran.events("step_failed")
    assert failed.error.category == "dependency_error"
    assert f"gives {words}, and a list is needed" in failed.error.message
    assert ran.source.calls == []


def test_a_thousand_items_run_within_the_limit() -> None:
    ran = run(
        {"t": FakeTool(output=lambda p: p["n"], delay_secs=10)},
        plan(step("s", "t", for_each="${metadata.items}", parameters={"n": "${item}"})),
        metadata={"items": list(range(1_000))},
        parallel_max_concurrent=50,
    )
    assert ran.outputs()["s"] == list(range(1_000))
    assert ran.source.most_running == 50
    assert ran.state.active_secs == pytest.approx(200, abs=3)


def test_items_past_the_limit_of_fan_out_are_refused() -> None:
    ran = run(
        {"t": "x"},
        plan(step("s", "t", for_each="${metadata.items}")),
        metadata={"items": [1, 2, 3]},
        limits={"max_fan_out": 2},
    )
    (failed,) = ran.events("step_failed")
    assert "gives 3 items; at most 2 are allowed" in failed.error.message


def test_items_fail_one_by_one_and_the_others_are_kept() -> None:
    ran = run(
        {"t": FakeTool(output=fails_for(2, 4))},
        plan(step("s", "t", for_each="${metadata.items}", parameters={"n": "${item}"})),
        metadata={"items": [1, 2, 3, 4, 5]},
    )
    assert ran.statuses() == {"s": "failed"}
    assert {event.index: event.output for event in ran.events("call_completed")} == {0: 10, 2: 30, 4: 50}
    assert [event.index for event in ran.events("call_failed")] == [1, 3]
    assert "2 of 5 calls failed" in ran.events("step_failed")[0].error.message


def test_a_passing_fault_of_one_item_holds_up_no_other() -> None:
    tried: list[int] = []

    def tool(parameters: dict[str, Any]) -> int:
        n = int(parameters["n"])
        tried.append(n)
        if n == 0 and tried.count(0) == 1:
            raise ToolCallError("busy", kind="http", status=429, retry_after=100)
        return n

    ran = run(
        {"t": FakeTool(output=tool, delay_secs=10)},
        plan(step("s", "t", for_each="${metadata.items}", parameters={"n": "${item}"})),
        metadata={"items": [0, 1, 2, 3]},
        parallel_max_concurrent=1,
    )
    assert tried == [0, 1, 2, 3, 0]
    assert ran.outputs()["s"] == [0, 1, 2, 3]


def test_like_items_are_told_apart_by_their_keys_though_they_wait_for_places() -> None:
    ran = run(
        {"pay": FakeTool(effect="once", delay_secs=10)},
        plan(step("s", "pay", for_each="${metadata.items}", parameters={"to": "${item}"})),
        metadata={"items": ["ann", "ann", "bob", "ann"]},
        parallel_max_concurrent=2,
    )
    keys = [call.key for call in ran.source.calls]
    assert len(set(keys)) == 4
    assert sorted(key.rpartition(".")[2] for key in keys) == ["1", "1", "2", "3"]
    assert len(ran.source.effects) == 4


def test_actions_of_items_run_for_each_and_come_out_together() -> None:
    ran = run(
        {"echo": FakeTool(output=lambda p: p["n"])},
        plan(
            step(
                "s",
                for_each="${metadata.items}",
                actions=[action("x", "echo", n="${item}"), action("y", "echo", n="${index}")],
            ),
            step("t", "echo", parameters={"n": "${x.output}"}),
        ),
        metadata={"items": [7, 8]},
    )
    assert ran.outputs() == {"s": [{"x": 7, "y": 0}, {"x": 8, "y": 1}], "t": [7, 8]}


# ── when ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "runs"),
    [
        pytest.param(True, True, id="true"),
        pytest.param(1, True, id="a number"),
        pytest.param("x", True, id="a text"),
        pytest.param([0], True, id="a list"),
        pytest.param({"a": None}, True, id="an object"),
        pytest.param(False, False, id="false"),
        pytest.param(None, False, id="null"),
        pytest.param("", False, id="an empty text"),
        pytest.param([], False, id="an empty list"),
        pytest.param({}, False, id="an empty object"),
        pytest.param(0, False, id="zero"),
    ],
)
def test_a_condition_holds_for_what_is_truthy(value: Any, runs: bool) -> None:
    ran = run(
        {"give": FakeTool(output={"v": value}), "t": "x"},
        plan(step("a", "give"), step("b", "t", when="a.output.v")),
    )
    assert ran.statuses()["b"] == ("succeeded" if runs else "skipped")
    if not runs:
        (skipped,) = ran.events("step_skipped")
        assert (skipped.kind, skipped.reason) == ("condition", "its condition does not hold: a.output.v")
    assert ran.result.is_success


def test_a_condition_may_look_at_statuses_and_metadata() -> None:
    ran = run(
        {"t": "x"},
        plan(
            step("a", "t", when="metadata.go == 'no'"),
            step("b", "t", when="a.status == 'skipped'", parameters={"n": 1}),
            step("c", "t", when="a.status == 'succeeded'", parameters={"n": 2}),
        ),
        metadata={"go": "yes"},
    )
    assert ran.statuses() == {"a": "skipped", "b": "succeeded", "c": "skipped"}


def test_a_step_that_refers_to_a_skipped_output_is_skipped_too_and_one_that_only_waits_runs() -> None:
    ran = run(
        {"t": "x"},
        plan(
            step("a", "t", when="metadata.go"),
            step("uses", "t", parameters={"v": "${a.output}"}),
            step("deep", "t", parameters={"v": {"w": ["text {{uses.output}}"]}}),
            step("each", "t", for_each="${a.output}"),
            step("waits", "t", "a", parameters={"n": 1}),
        ),
        metadata={"go": False},
    )
    assert ran.statuses() == {
        "a": "skipped", "uses": "skipped", "deep": "skipped", "each": "skipped", "waits": "succeeded",
    }  # fmt: skip
    kinds = {event.step_id: (event.kind, event.because) for event in ran.events("step_skipped")}
    assert kinds["uses"] == ("dependency_skipped", "a")
    assert kinds["deep"] == ("dependency_skipped", "uses")
    assert kinds["each"] == ("dependency_skipped", "a")


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([], id="alone"),
        pytest.param([step("b", "t", parameters={"v": "${a.output}"})], id="and what needs it"),
        pytest.param([step("b", "t", when="a.status == 'succeeded'")], id="two conditions"),
    ],
)
def test_a_plan_whose_conditions_leave_nothing_to_do_succeeds_without_an_answer(more: list[Any]) -> None:
    ran = run({"t": "x"}, plan(step("a", "t", when="metadata.due"), *more), metadata={"due": False})
    assert set(ran.statuses().values()) == {"skipped"}
    assert ran.result.is_success
    assert (ran.result.final_score, ran.result.final_output) == (100, None)


BLOCKED = '{"status": "blocked", "total": 7}'
"""As an MCP server gives it: JSON in a text."""


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("acc.output.status != 'blocked'", False),
        ("acc.output.status == 'blocked'", True),
        ("!(acc.output.status == 'blocked')", False),
        ("length(acc.output) > `5`", False),
        ("acc.output.total > `5`", True),
    ],
)
def test_a_condition_reads_into_json_as_a_reference_does(when: str, runs: bool) -> None:
    ran = run(
        {"look": FakeTool(output=BLOCKED), "t": "x"}, plan(step("acc", "look"), step("b", "t", when=when))
    )
    assert ran.statuses()["b"] == ("succeeded" if runs else "skipped")


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("'7' > `5`", "a text > 5 cannot be compared"),
        ("acc.output.amount > `5`", "> needs a value, and there is no 'amount'; it has: status, total"),
        ("acc.output.status > `5`", "a text > 5 cannot be compared"),
        ("metadata.limit == 'high'", "there is no 'limit'"),
    ],
)
def test_a_condition_that_cannot_be_worked_out_fails_the_step_and_calls_nothing(when: str, why: str) -> None:
    ran = run(
        {"look": FakeTool(output=BLOCKED), "t": "x"},
        plan(step("acc", "look"), step("b", "t", when=when)),
        metadata={"other": 1},
    )
    assert ran.statuses()["b"] == "failed"
    (failed,) = ran.events("step_failed")
    assert (failed.error.kind, failed.error.category) == ("condition", "dependency_error")
    assert why in failed.error.message
    assert "t" not in ran.source.counts
    assert not ran.result.is_success


def test_a_condition_over_the_output_of_a_skipped_step_skips_with_that_reason() -> None:
    ran = run(
        {"t": FakeTool(output={"n": 1})},
        plan(
            step("a", "t", when="metadata.go"),
            step("uses", "t", when="a.output.n > `0`", parameters={"n": 1}),
            step("asks", "t", when="a.status == 'skipped' || a.output.n > `0`", parameters={"n": 2}),
        ),
        metadata={"go": False},
    )
    assert ran.statuses() == {"a": "skipped", "uses": "skipped", "asks": "succeeded"}
    kinds = {event.step_id: (event.kind, event.because) for event in ran.events("step_skipped")}
    assert kinds["uses"] == ("dependency_skipped", "a")


def test_a_list_of_items_may_stand_in_the_plan_itself() -> None:
    ran = run(
        {"a": FakeTool(output={"n": 3}), "echo": echo},
        plan(
            step("first", "a"),
            step("each", "echo", for_each=["x", {"n": "${first.output.n}"}], parameters={"v": "${item}"}),
        ),
    )
    assert ran.outputs()["each"] == [{"v": "x"}, {"v": {"n": 3}}]


def test_a_condition_that_names_a_step_inside_another_name_reads_only_its_own() -> None:
    """Step `a` has a large output that nobody loaded; `data` contains its name."""
    ran = run(
        {"large": FakeTool(output={"x": "y" * 5_000}), "small": FakeTool(output={"ok": True}), "t": "x"},
        plan(step("a", "large"), step("data", "small", "a"), step("b", "t", when="data.output.ok")),
        max_output_bytes=1_000,
    )
    assert ran.statuses()["b"] == "succeeded"
    assert len(ran.events("execution_mode")) == 1, "the scheduler has failed"


# ── parameters ────────────────────────────────────────────────────────────────

OBJECT = {"type": "object", "properties": {"project": {"type": "string"}, "n": {"type": "integer"}}}


def test_required_parameters_are_filled_from_metadata_and_given_ones_are_not_touched() -> None:
    needs = FakeTool(output=echo, parameters={**OBJECT, "required": ["project"]})
    ran = run(
        {"needs": needs},
        plan(step("a", "needs"), step("b", "needs", parameters={"project": "mine"})),
        metadata={"project": "theirs", "n": 7},
    )
    assert ran.outputs() == {"a": {"project": "theirs"}, "b": {"project": "mine"}}


def test_output_params_become_metadata_and_the_last_writer_in_plan_order_wins() -> None:
    def writer(value: str, secs: float) -> FakeTool:
        output = {"token": value, "other": 1}
        return FakeTool(output=output, delay_secs=secs, spec={"output_params": ("token", "missing")})

    ran = run(
        {"first": writer("one", 30), "second": writer("two", 10), "echo": echo},
        plan(
            step("a", "first"),
            step("b", "second"),
            step("c", "echo", parameters={"t": "${metadata.token}", "m": "${metadata}"}),
        ),
        metadata={"kept": 1},
    )
    assert ran.state.metadata == {"kept": 1, "token": "two"}
    assert ran.outputs()["c"] == {"t": "two", "m": {"kept": 1, "token": "two"}}
    assert ran.events("step_completed", step_id="a")[0].metadata == {"token": "one"}


def test_metadata_of_a_large_output_are_kept_too() -> None:
    writer = FakeTool(output={"token": "t", "rows": ["x" * 100] * 100}, spec={"output_params": ("token",)})
    ran = run({"w": writer}, plan(step("a", "w"), step("b", "w", parameters={"n": 1})), max_output_bytes=500)
    assert ran.state.metadata == {"token": "t"}


def test_an_unresolved_reference_fails_the_step_before_the_call() -> None:
    ran = run(
        {"give": FakeTool(output={"hits": [], "total": 0}), "t": "x"},
        plan(step("a", "give"), step("b", "t", parameters={"v": "${a.output.hit}"}), step("c", "t", "b")),
    )
    (failed,) = ran.events("step_failed")
    assert (failed.step_id, failed.error.category, failed.error.kind) == (
        "b",
        "dependency_error",
        "reference",
    )
    assert "${a.output.hit}" in failed.error.message
    assert "hits, total" in failed.error.message
    assert ran.source.counts == {"give": 1}
    assert ran.statuses()["c"] == "skipped"


def test_a_present_null_is_passed_on_and_an_empty_projection_is_an_empty_list() -> None:
    ran = run(
        {"give": FakeTool(output={"none": None, "rows": []}), "echo": echo},
        plan(
            step("a", "give"),
            step("b", "echo", parameters={"n": "${a.output.none}", "e": "${a.output.rows[*].id}"}),
        ),
    )
    assert ran.outputs()["b"] == {"n": None, "e": []}


def test_parameters_that_do_not_fit_once_filled_in_fail_the_step_without_a_call() -> None:
    ran = run(
        {"give": FakeTool(output={"n": "seven"}), "t": FakeTool(parameters=OBJECT)},
        plan(step("a", "give"), step("b", "t", parameters={"n": "${a.output.n}"})),
    )
    (failed,) = ran.events("step_failed")
    assert failed.error.category == "parameter_error"
    assert "'t'" in failed.error.message
    assert "n: 'seven' is not of type 'integer'" in failed.error.message
    assert ran.source.counts == {"give": 1}


def test_types_are_kept_by_whole_references_and_json_goes_into_longer_texts() -> None:
    value = {"list": [1, "two", None], "flag": True, "price": 12.5, "text": "ü 你好 😀"}
    ran = run(
        {"give": FakeTool(output=value), "echo": echo},
        plan(
            step("a", "give"),
            step(
                "b",
                "echo",
                parameters={
                    "list": "${a.output.list}", "flag": "{{a.output.flag}}", "price": "${ a.output.price }",
                    "all": "${a}", "said": "It is ${a.output.list} and ${a.output.text}; $${a.output} stays, $5 too",
                },
            ),
        ),
    )  # fmt: skip
    assert ran.outputs()["b"] == {
        "list": [1, "two", None], "flag": True, "price": 12.5, "all": value,
        "said": 'It is [1, "two", null] and ü 你好 😀; ${a.output} stays, $5 too',
    }  # fmt: skip


def test_outputs_are_never_scanned_for_references() -> None:
    evil = "${metadata.secret} {{a.output}} $1 ${nobody} $${x}"
    ran = run(
        {"give": FakeTool(output={"said": evil}), "echo": echo},
        plan(
            step("a", "give"),
            step("b", "echo", parameters={"whole": "${a.output.said}", "inside": "> ${a.output.said}"}),
            step("c", "echo", parameters={"again": "${b.output.whole}"}),
        ),
        metadata={"secret": "s3cret"},
    )
    assert ran.outputs()["b"] == {"whole": evil, "inside": f"> {evil}"}
    assert ran.outputs()["c"] == {"again": evil}


def test_a_tool_that_changes_its_parameters_changes_nothing_that_is_recorded() -> None:
    def vandal(parameters: dict[str, Any]) -> Any:
        parameters["rows"].append("mine")
        parameters["deep"]["x"].clear()
        return parameters

    wanted = plan(
        step("a", "give"),
        step("b", "vandal", parameters={"rows": "${a.output.rows}", "deep": {"x": [1]}}),
        step("c", "echo", "b", parameters={"rows": "${a.output.rows}"}),
    )
    ran = run({"give": {"rows": [1]}, "vandal": vandal, "echo": echo}, wanted)
    assert ran.outputs()["c"] == {"rows": [1]}
    assert ran.events("call_started", step_id="b")[0].parameters == {"rows": [1], "deep": {"x": [1]}}
    assert ran.driven is not None
    assert ran.driven.steps["b"].step.parameters["deep"] == {"x": [1]}
    assert ran.driven.steps["a"].calls == ran.state.steps["a"].calls


# ── large values and secrets ──────────────────────────────────────────────────


def test_a_large_output_is_kept_whole_and_references_reach_all_of_it() -> None:
    rows = [{"id": n, "text": "x" * 90} for n in range(100_000)]
    ran = run(
        {"give": FakeTool(output=rows), "echo": echo},
        plan(
            step("a", "give"),
            step("b", "echo", parameters={"last": "${a.output[-1].id}", "some": "${a.output[99990:].id}"}),
            step("c", "echo", parameters={"all": "${a.output}"}),
        ),
    )
    (completed,) = ran.events("call_completed", step_id="a")
    assert completed.output is None
    assert completed.artifact.size > 10_000_000
    assert completed.artifact.shape == "list of 100000 × object {id: number, text: text of 90 characters}"
    assert completed.artifact.head.startswith('[{"id":0')
    assert completed.artifact.tail.endswith("}]")
    assert ran.outputs()["b"] == {"last": 99_999, "some": list(range(99_990, 100_000))}
    assert [call.parameters["all"] for call in ran.source.calls if call.step_id == "c"] == [rows]
    (started,) = ran.events("call_started", step_id="c")
    assert len(json.dumps(started.parameters)) < 1_000
    assert sum(len(str(record.event)) for record in ran.records) < 50_000


def test_a_final_output_that_is_large_comes_back_whole() -> None:
    ran = run({"give": FakeTool(output="y" * 400_000)}, plan(step("a", "give")))
    assert ran.result.output == "y" * 400_000
    assert ran.events("task_completed")[0].final_output is None


def test_an_output_that_json_cannot_hold_fails_its_step_with_the_reason() -> None:
    ran = run({"give": FakeTool(output=object()), "t": "x"}, plan(step("a", "give"), step("b", "t")))
    (failed,) = ran.events("step_failed")
    assert failed.error.kind == "output"
    assert "cannot be kept as JSON" in failed.error.message
    assert ran.statuses()["b"] == "succeeded"


def test_names_that_are_no_unicode_fail_their_step_and_nothing_is_called_with_others() -> None:
    steps = [step("a", "names"), step("b", "delete", parameters={"f": "${item}"}, for_each="${a.output}")]
    ran = run({"names": FakeTool(output=["caf\udce9.txt", "caf\udce8.txt"]), "delete": "x"}, plan(*steps))
    (failed,) = ran.events("step_failed")
    assert failed.error.kind == "output"
    assert r"'caf\udce9.txt' at [0] is no text" in failed.error.message
    assert "delete" not in ran.source.counts


def test_secrets_are_masked_in_events_and_reach_the_tool() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "user": {"type": "string"},
            "password": {"type": "string", "format": "password"},
            "nested": {"type": "object", "properties": {"pin": {"type": "string", "format": "password"}}},
            "token": {"type": "string"},
        },
    }

    def login(given: dict[str, Any]) -> Any:
        if given["user"] == "eve":
            raise RuntimeError(f"refused: {given['password']} and {given['token']} are wrong")
        return "in"

    tool = FakeTool(output=login, parameters=parameters, spec={"secrets": ("token",)})
    hidden = {"password": "hunter22", "token": "tok-123", "nested": {"pin": "9876"}}
    give = FakeTool(output=hidden)
    filled = {
        "password": "${a.output.password}",
        "token": "${a.output.token}",
        "nested": {"pin": "${a.output.nested.pin}"},
    }
    ran = run(
        {"give": give, "login": tool},
        plan(
            step("a", "give"),
            step("b", "login", parameters={"user": "ann", **filled}),
            step("c", "login", parameters={"user": "eve", **filled}),
        ),
    )
    assert ran.source.calls[1].parameters["password"] == "hunter22"
    started = {event.step_id: event.parameters for event in ran.events("call_started")}
    assert started["b"] == {"user": "ann", "password": "***", "token": "***", "nested": {"pin": "***"}}
    told = str([record.event for record in ran.records if getattr(record.event, "step_id", "") in ("b", "c")])
    assert "hunter22" not in told
    assert "tok-123" not in told
    assert "9876" not in told
    assert "refused: *** and *** are wrong" in ran.events("step_failed")[0].error.message


def test_a_secret_that_does_not_fit_the_schema_is_not_quoted() -> None:
    parameters = {
        "type": "object",
        "properties": {"key": {"type": "string", "format": "password", "maxLength": 3}},
    }
    ran = run(
        {"give": FakeTool(output="sk-very-secret"), "t": FakeTool(parameters=parameters)},
        plan(step("a", "give"), step("b", "t", parameters={"key": "${a}"})),
    )
    (failed,) = ran.events("step_failed")
    assert failed.error.category == "parameter_error"
    assert "sk-very-secret" not in failed.error.message
