"""C1's frame: a first process is killed in mid-flight, later ones go on from what it left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.conformance.case import Facts

TO_START_LOOKS = 1_000
INTO_IT_SECS = 0.25
"""By then the two effects are done and the third step still runs."""


async def killed_and_resumed(module: str, resumes: int) -> Facts:
    """Each process calls the module's `drive(folder, resume)`, which leaves a line a call in `folder/effects`.

    `mended` lies in the folder from the last resume on.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def process(resume: bool) -> subprocess.Popen[bytes]:
            code = (
                f"import asyncio, pathlib; from {module} import drive; "
                f"asyncio.run(drive(pathlib.Path({name!r}), {resume}))"
            )
            return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)

        first = process(False)
        for _ in range(TO_START_LOOKS):
            if (folder / "effects").exists():
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(INTO_IT_SECS)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        for _ in range(resumes - 1):
            process(True).wait(30)
        (folder / "mended").touch()
        done = process(True).wait(30) == 0
        made = (folder / "effects").read_text().split()
        return {"effects": {one: made.count(one) for one in ("one", "two")}, "resumed": done}
