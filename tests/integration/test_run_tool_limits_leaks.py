"""No right to call a limited tool is lost, wherever its task is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from run_tasks import FakeTool, action, bench, plan, step, verdict

from replan.core.tools.rules import ToolRule, ToolRules
from replan.testing import MemoryStore, fake_source, virtual_time
from replan.tools.catalog.limiter import Gate

REFLECTION = {
    "root_cause_category": "parameter_error",
    "root_cause": "it was wrong",
    "is_recoverable": True,
    "confidence": 0.9,
    "analysis": "because",
    "suggested_action": {"type": "retry_with_params", "data": {"n": 77}},
}
OVERALL = {
    "problem_nature": "tools",
    "should_replan": False,
    "reflection_text": "thought about it",
    "root_causes": ["the tool"],
}
WANTED = plan(
    *[step(f"t{n}", "t", parameters={"n": n}) for n in range(3)],
    step("items", "t", for_each="${metadata.items}", parameters={"n": "${item}"}),
    step("after", "t", "t0", actions=[action(f"a{n}", "t", n=n + 20) for n in range(2)]),
    step("like", "t", parameters={"n": 1}),
)
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}


def tools(effect: Any) -> Any:
    failing = [ConnectionRefusedError("busy"), "n: no such number", ConnectionRefusedError("busy"), "n: bad"]
    return fake_source({"t": FakeTool(delay_secs=0.2, effect=effect, fail=failing * 2, parameters=NUMBER)})


@pytest.mark.parametrize("effect", ["reads", "once"])
@pytest.mark.parametrize("turns", [*range(1, 60, 3), *range(60, 700, 23)])
def test_every_right_comes_back(turns: int, effect: str) -> None:
    async def main() -> None:
        rules = ToolRules(rules=(("t", ToolRule(max_concurrent=2, rate="3/s")),))
        answers = {
            "execution_plan": WANTED,
            "evaluation": verdict(),
            "step_reflection": [REFLECTION] * 40,
            "overall_reflection": OVERALL,
        }
        store, source = MemoryStore(), tools(effect)
        made = await bench(source, answers, store=store, rules=rules)
        gate = made.service.parts.tools.gate("t")
        assert isinstance(gate, Gate)
        more = {"metadata": {"items": [5, 6, 5]}, "parallel_max_concurrent": 2}
        ids = [await made.submit(**more, task_id=f"task{n}") for n in range(2)]
        first, other = [asyncio.ensure_future(made.drive(task_id)) for task_id in ids]
        for _ in range(turns):
            await asyncio.sleep(0.02 if turns >= 60 else 0)
        first.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await first
        (await other).check()
        assert (gate.inside, gate.unused) == (0, 0)
        assert source.most_running <= 2
        if effect == "once":
            keys = [call.key for call in source.effects]
            assert len(keys) == len(set(keys)), "no effect happens twice"

    virtual_time(main())
