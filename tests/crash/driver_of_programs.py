"""A process that runs one program of a tool and waits for it: `driver_of_programs.py KIND FOLDER`."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

from replan import Replan
from replan.testing import ScriptedModel
from replan.tools.kit import Limits, python, shell, sql
from replan.tools.mcp import from_command

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) AS most FROM n"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"


async def main(kind: str, folder: Path) -> None:
    match kind:
        case "shell":
            source, name = shell(["sh"]), "run_command"
            given = {"program": "sh", "arguments": ["-c", "sleep 3600 & sh -c 'sleep 3600; true' & wait"]}
        case "python":
            source, name = python(limits=Limits(timeout_secs=3600)), "run_python"
            given = {"code": "import time; time.sleep(3600)"}
        case "sql":
            sqlite3.connect(folder / "data.db").execute("CREATE TABLE t (x)")
            source, name = sql(folder / "data.db", timeout_secs=3600), "sql_query"
            given = {"statement": ENDLESS}
        case _:
            source, name, given = from_command(f'{sys.executable} -c "{DEAF}"'), "t", {}
    async with Replan(ScriptedModel({}), [source], db=folder / "log.db", evaluation="steps") as replan:
        plan = {"steps": [{"step_id": "a", "tool": name, "parameters": given}]}
        await replan.run("run it", plan=plan)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
