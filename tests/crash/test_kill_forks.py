"""A process that steps into tasks and forks them is killed at each of its writes: nothing is done twice, and all goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from replan.core.events import TERMINAL
from replan.core.state.fold import fold
from replan.store.sqlite import SqliteStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"),
]
KILLED = -9


class Children:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("child_of_forks.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __call__(self, folder: Path, kill: tuple[int, str] | None = None) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"folder": str(folder), "kill": kill}), file=self._process.stdin, flush=True)
        return int(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def child() -> Iterator[Children]:
    made = Children()
    yield made
    made.close()


async def check(folder: Path, *, killed: bool) -> None:
    paid = Counter((folder / "journal").read_text().split())
    assert set(paid.values()) == {1}, paid
    store = SqliteStore(folder / "log.db")
    try:
        for task_id in ("t", "f", "g"):
            records = await store.read(task_id)
            assert [one.seq for one in records] == list(range(1, len(records) + 1))
            assert sum(isinstance(one.event, TERMINAL) for one in records) == 1
            state = fold(records)
            assert state.status == "succeeded" or (killed and state.in_doubt), state.status
            for call in state.took_effect.values():
                assert paid[call.parameters["to"]] == 1
    finally:
        await store.aclose()


@pytest.mark.parametrize(
    ("first", "every"),
    [pytest.param(3, 17, id="some"), pytest.param(1, 1, id="all", marks=pytest.mark.prove)],
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_at_any_write_of_a_fork_or_an_act_loses_and_repeats_nothing(
    child: Children, tmp_path: Path, when: str, first: int, every: int
) -> None:
    (tmp_path / "whole").mkdir()
    assert child(tmp_path / "whole") == 0, (tmp_path / "whole" / "traceback").read_text()
    await check(tmp_path / "whole", killed=False)
    writes = int((tmp_path / "whole" / "writes").read_text())
    assert writes > 20
    for n in range(first, writes + 1, every):
        folder = tmp_path / str(n)
        folder.mkdir()
        if child(folder, (n, when)) != KILLED:  # how many there are depends on what goes together
            continue
        assert child(folder) == 0, (folder / "traceback").read_text()
        await check(folder, killed=True)
