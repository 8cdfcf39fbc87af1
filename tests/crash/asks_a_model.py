"""Drives a task whose steps ask a model, which ends this process by SIGKILL in the middle of one of its answers, once.

Writes each question down as it comes. Prints how the task ended, where it did.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from replan import Replan
from replan.errors import TaskNotFound
from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel

FOLDER = Path(sys.argv[1])
ITEMS = [f"review {n}" for n in range(12)]
PLAN = {
    "steps": [
        {
            "step_id": "sorted",
            "tool": "model",
            "for_each": json.dumps(ITEMS),
            "parameters": {
                "instruction": "How long is it?",
                "input": "${item}",
                "schema": {"type": "integer"},
            },
        },
        {
            "step_id": "after",
            "tool": "model",
            "parameters": {"instruction": "Sum up.", "input": "${sorted.output}"},
        },
    ]
}


class Deadly(ScriptedModel):
    """Answers five questions, and ends the process in the middle of all others; not a second time."""

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        with (FOLDER / "questions").open("a") as file:
            file.write(json.dumps(request.turns[0].text) + "\n")
        await asyncio.sleep(0)
        if self.calls.total() == 5 and not (FOLDER / "killed").exists():
            await asyncio.sleep(0.1)  # what was answered before lands
            (FOLDER / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().ask(request, on_text)


def answered(request: ModelRequest) -> dict[str, object]:
    return {
        "answer": 8 if request.json_schema["properties"]["answer"]["type"] == "integer" else "All are short."
    }


async def main() -> None:
    async with Replan(model=Deadly({"step_answer": answered}), db=FOLDER / "log.db") as replan:
        try:
            result = await replan.resume("t")
        except TaskNotFound:
            result = await replan.run("sum up", plan=PLAN, evaluation="steps", task_id="t")
        log = [record async for record in replan.watch("t")]
    print(
        json.dumps(
            {
                "status": result.status,
                "output": result.output,
                "usage": result.usage.model_dump(),
                "completed": [r.event.usage.llm_calls for r in log if r.type == "llm_call_completed"],  # type: ignore[union-attr]
                "answers": [[r.event.step_id, r.event.index] for r in log if r.type == "call_completed"],  # type: ignore[union-attr]
                "attempts": max(r.event.attempt for r in log if r.type == "call_started"),  # type: ignore[union-attr]
            }
        )
    )


asyncio.run(main())
