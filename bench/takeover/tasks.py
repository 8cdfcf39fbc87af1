"""A task that says when it is driven, and by whom."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any


def tools(folder: Path) -> list[Any]:
    from replan import tool
    from replan.tools.functions.context import current

    @tool(effect="repeatable")
    async def hold(secs: float) -> str:
        """Say that it has begun, and take that long."""
        line = json.dumps({"task": current().task_id, "pid": os.getpid(), "at": time.time()}) + "\n"
        with (folder / "begun").open("a") as begun:
            begun.write(line)
        await asyncio.sleep(secs)
        return "held"

    return [hold]
