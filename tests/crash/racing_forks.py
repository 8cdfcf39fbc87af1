"""A process of a race: `begin` runs a task, `fork` forks it and its forks again and again while they run, and drives them.

Called with its role, the database, the journal, a seed, how many payments and how many forks.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path
from typing import Any

from replan import Replan, tool
from replan.errors import TaskNotFound

ROLE, DATABASE, JOURNAL, SEED, PAYMENTS, FORKS = sys.argv[1:]


@tool(effect="once")
async def pay(to: str) -> str:
    """Pay somebody, and say so outside."""
    journal = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, f"{to}\n".encode())
    os.close(journal)
    return f"paid {to}"


def plan() -> dict[str, Any]:
    return {
        "steps": [
            {
                "step_id": f"s{n}",
                "tool": "pay",
                "parameters": {"to": f"n{n}"},
                "dependencies": [f"s{n - 1}"] if n else [],
            }
            for n in range(int(PAYMENTS))
        ]
    }


async def fork(replan: Replan) -> list[str]:
    rng, made = random.Random(SEED), ["t"]
    while not await there(replan):  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.005)
    for n in range(int(FORKS)):
        await asyncio.sleep(rng.random() * 0.05)
        made.append(await replan.fork(rng.choice(made), fork_id=f"{SEED}-{n}"))
    return made


async def there(replan: Replan) -> bool:
    try:
        return (await replan.summary("t")).last_seq > 0
    except TaskNotFound:
        return False


async def main() -> None:
    database = Path(DATABASE) if "://" not in DATABASE else DATABASE
    async with Replan(tools=[pay], db=database, evaluation="steps", interactive=True) as replan:
        if ROLE == "begin":
            made = [await replan.submit("pay", plan=plan(), task_id="t")]
        else:
            made = await fork(replan)
        for task_id in made:
            result = await replan.wait(task_id)
            assert result.succeeded, (task_id, result.status, result.waiting_for)


asyncio.run(main())
