"""Metadata that steps write: a reader sees the latest writer before it in plan order, whatever finishes first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from run_tasks import FakeTool, Ran, bench, plan, step

from replan.testing import virtual_time

ACCOUNT = {"output_params": ("account",)}
PAYMENT = {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]}


def run(tools: dict[str, Any], wanted: Any, **more: Any) -> Ran:
    async def main() -> Ran:
        return await (await bench(tools)).run(wanted, **more)

    return virtual_time(main()).check()


def writer(account: str, secs: float, *, sure: bool = False) -> FakeTool:
    schema = {"output_schema": {"type": "object", "required": ["account"]}} if sure else {}
    return FakeTool(output={"account": account}, delay_secs=secs, effect="reads", spec={**ACCOUNT, **schema})


READERS = {
    "filled in": {},
    "a reference": {"parameters": {"account": "${metadata.account}"}},
    "a condition": {"parameters": {"account": "A"}, "when": "metadata.account == 'A'"},
}


@pytest.mark.parametrize("reader", list(READERS.values()), ids=list(READERS))
@pytest.mark.parametrize(("slow_a", "slow_b"), [(9, 1), (1, 9), (1, 1)])
@pytest.mark.parametrize("serial", [False, True])
def test_a_payment_reads_the_account_before_it(
    reader: Any, slow_a: float, slow_b: float, serial: bool
) -> None:
    ran = run(
        {
            "a": writer("A", slow_a),
            "b": writer("B", slow_b),
            "pay": FakeTool(output="paid", effect="once", parameters=PAYMENT),
        },
        plan(
            step("a", "a"),
            step("p1", "pay", "a", **reader),
            step("b", "b"),
            step("p2", "pay", "b", parameters={"account": "${metadata.account}", "second": True}),
        ),
        enable_parallel_execution=not serial,
    )
    paid = {call.step_id: call.parameters["account"] for call in ran.source.calls if call.tool_id == "pay"}
    assert paid == {"p1": "A", "p2": "B"}


@pytest.mark.parametrize(
    ("output", "account"),
    [
        pytest.param('{"account": "A"}', "A", id="a text that holds the object"),
        pytest.param(' {"account": "A", "more": 1}', "A", id="with more"),
        pytest.param("account: A", "M", id="no JSON"),
        pytest.param('["account"]', "M", id="a list"),
        pytest.param('{"other": "A"}', "M", id="another field"),
    ],
)
@pytest.mark.parametrize("reader", [READERS["filled in"], READERS["a reference"]])
def test_a_tool_of_texts_writes_metadata_too(output: str, account: str, reader: Any) -> None:
    ran = run(
        {
            "a": FakeTool(output=output, effect="reads", spec=ACCOUNT),
            "pay": FakeTool(output="paid", effect="once", parameters=PAYMENT),
        },
        plan(step("a", "a"), step("p", "pay", "a", **reader)),
        metadata={"account": "M"},
    )
    assert [call.parameters["account"] for call in ran.source.calls if call.tool_id == "pay"] == [account]


@pytest.mark.parametrize("sure", [False, True])
def test_only_those_writers_are_waited_for_that_may_be_read(sure: bool) -> None:
    ran = run(
        {
            "a": writer("A", 30),
            "b": writer("B", 1, sure=sure),
            "pay": FakeTool(output="paid", parameters=PAYMENT),
        },
        plan(step("a", "a"), step("b", "b"), step("p", "pay")),
    )
    assert ran.times("step_started")["p"] == (1 if sure else 30)
    assert ran.source.calls[-1].parameters["account"] == "B"


def test_what_stands_after_is_not_seen_and_no_error_but_a_missing_parameter() -> None:
    ran = run(
        {"b": writer("B", 1), "show": FakeTool(output=lambda p: p)},
        plan(step("s", "show", parameters={"v": "${metadata.account}"}), step("b", "b")),
        metadata={"account": "given"},
    )
    assert ran.outputs()["s"] == {"v": "given"}


Drawn = tuple[str, float]
KINDS = st.tuples(st.sampled_from(["x", "y", "read", "skipped", "nothing"]), st.floats(0.1, 9.0))


@given(st.lists(KINDS, min_size=2, max_size=9), st.permutations(list(range(9))))
@example([("x", 1.0), ("read", 1.0), ("x", 0.1), ("read", 5.0)], list(range(9)))
def test_fast_and_slow_parallel_and_serial_read_the_same(drawn: list[Drawn], order: list[int]) -> None:
    def once(speeds: list[float], *, serial: bool) -> dict[str, Any]:
        tools: dict[str, Any] = {}
        steps = []
        for at, ((kind, _), secs) in enumerate(zip(drawn, speeds, strict=False)):
            name = f"t{at}"
            if kind == "read":
                tools[name] = FakeTool(output=lambda p: p, delay_secs=secs)
                steps.append(step(f"s{at}", name, parameters={"x": "${metadata.x}", "all": "${metadata}"}))
                continue
            fields = {} if kind == "nothing" else {"y" if kind == "y" else "x": at}
            tools[name] = FakeTool(output=fields, delay_secs=secs, spec={"output_params": ("x", "y")})
            steps.append(step(f"s{at}", name, **({"when": "metadata.no"} if kind == "skipped" else {})))
        ran = run(
            tools, plan(*steps), metadata={"x": "first", "no": False}, enable_parallel_execution=not serial
        )
        return {name: one for name, one in ran.outputs().items() if drawn[int(name[1:])][0] == "read"}

    speeds = [secs for _, secs in drawn]
    shuffled = [speeds[at % len(speeds)] for at in order]
    assert once(speeds, serial=False) == once(shuffled, serial=False) == once(speeds, serial=True)
