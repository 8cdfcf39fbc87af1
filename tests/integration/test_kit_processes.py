"""Programs and Python code: what they give, their limits, and what is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replan.core.failures.faults import classify
from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools.kit import Limits, python, python_tools, shell
from replan.tools.kit.python_tools import isolation

pytestmark = pytest.mark.anyio


async def command(source: Any, program: str, *arguments: str, **more: Any) -> Any:
    parameters = {"program": program, "arguments": list(arguments), **more}
    return await source.call(ToolCall("run_command", parameters, "key"))


async def code(source: Any, text: str, given: Any = None, deadline: float | None = None) -> Any:
    return await source.call(
        ToolCall("run_python", {"code": text, "input": given}, "key", deadline_secs=deadline)
    )


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(condition: Callable[[], object]) -> bool:
    """Wait for what another process does."""
    async with asyncio.timeout(20):
        while True:
            if condition():
                return True
            await asyncio.sleep(0.01)


async def gone(pid: int) -> bool:
    return await until(lambda: not alive(pid))


def names_below(folder: Path) -> set[str]:
    return {name for _, folders, names in os.walk(folder) for name in (*folders, *names)}


# ── programs ──────────────────────────────────────────────────────────────────


async def test_a_program_gives_its_output_and_reads_its_input() -> None:
    source = shell(["cat", "echo"])
    assert await command(source, "echo", "ü 北京") == {
        "exit_code": 0,
        "stdout": "ü 北京\n",
        "stderr": "",
        "truncated": False,
    }
    assert (await command(source, "cat", stdin="x" * 300_000))["truncated"] is True
    assert (await command(source, "cat", stdin="abc"))["stdout"] == "abc"


@pytest.mark.parametrize(
    "text",
    ["; id", "$(id)", "`id`", "| id", "> /tmp/x", "*", "$HOME", "~", "a\nb", "'", '"', "\\", "&& id", ""],
)
async def test_nothing_in_an_argument_is_read_by_a_shell(text: str) -> None:
    assert (await command(shell(["printf"]), "printf", "%s", text))["stdout"] == text


async def test_only_what_is_allowed_runs_and_effects_are_as_said() -> None:
    source = shell(["true"], reads=["ls", "grep"])
    specs = {spec.id: spec for spec in await source.tools()}
    assert (specs["run_command"].effect, specs["run_command"].errors_are_clean) == ("once", False)
    assert (specs["run_reading_command"].effect, specs["run_reading_command"].volatile) == ("reads", True)
    assert specs["run_reading_command"].parameters["properties"]["program"]["enum"] == ["ls", "grep"]
    for program in ("rm", "/bin/ls", "ls -l", "../ls", ""):
        with pytest.raises(ToolCallError) as caught:
            await command(source, program)
        assert (caught.value.kind, caught.value.happened) == ("parameter", "no")


async def test_a_failure_is_an_error_with_its_words(tmp_path: Path) -> None:
    source = shell(["sh"], reads=["ls", "grep"], cwd=tmp_path)
    with pytest.raises(ToolCallError, match="exit code 3: why") as caught:
        await command(source, "sh", "-c", "echo why >&2; exit 3")
    assert classify(caught.value).happened == "unknown"
    with pytest.raises(ToolCallError, match="signal 9"):
        await command(source, "sh", "-c", "kill -9 $$")
    with pytest.raises(ToolCallError, match="exit code") as caught:
        await source.call(ToolCall("run_reading_command", {"program": "ls", "arguments": ["nowhere"]}, "key"))
    assert caught.value.happened == "no"
    found = await source.call(
        ToolCall("run_reading_command", {"program": "grep", "arguments": ["x"], "stdin": "y"}, "key")
    )
    assert (found["exit_code"], found["stdout"]) == (1, "")


async def test_a_program_that_cannot_be_started_has_not_happened(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"\x7fELF nonsense")
    bad.chmod(0o755)
    for arguments in ([], ["x" * 3_000_000]):
        with pytest.raises(ToolCallError, match="cannot be started") as caught:
            await command(shell([str(bad)]), "bad", *arguments)
        assert caught.value.happened == "no"
    with pytest.raises(ToolCallError, match="NUL"):
        await command(shell(["echo"]), "echo", "a\0b")


async def test_secrets_of_the_environment_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    monkeypatch.setenv("WANTED", "yes")
    said = (await command(shell(["env"], env=["WANTED"]), "env"))["stdout"]
    assert "s3cret" not in said
    assert "WANTED=yes" in said


async def test_too_much_output_is_cut_in_the_middle_and_a_flood_is_stopped() -> None:
    source = shell(["seq", "yes"], max_output_bytes=1000)
    cut = await command(source, "seq", "100000")
    assert cut["truncated"] is True
    assert cut["stdout"].startswith("1\n2\n")
    assert cut["stdout"].endswith("\n100000\n")
    assert len(cut["stdout"]) < 1200
    with pytest.raises(ToolCallError, match="wrote more than") as caught:
        await command(source, "yes")
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["usual", "deaf to SIGTERM"])
async def test_a_timeout_ends_the_program_and_what_it_started(tmp_path: Path, trap: str) -> None:
    source = shell(["sh"], cwd=tmp_path, timeout_secs=0.3)
    with pytest.raises(ToolCallError, match="it wrote: begun") as caught:
        await command(
            source, "sh", "-c", trap + "sleep 600 & echo $! > pid; echo begun; sleep 601; sleep 602"
        )
    assert (caught.value.kind, caught.value.happened) == ("timeout", "unknown")
    assert await gone(int((tmp_path / "pid").read_text()))


async def test_a_cancellation_ends_the_program_and_what_it_started(tmp_path: Path) -> None:
    source = shell(["sh"], cwd=tmp_path)
    task = asyncio.create_task(command(source, "sh", "-c", "sleep 600 & echo $! > part; mv part pid; wait"))
    await until((tmp_path / "pid").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(int((tmp_path / "pid").read_text()))


async def test_a_program_that_tidies_up_for_ever_ends_though_it_is_stopped_twice(tmp_path: Path) -> None:
    source = shell(["sh"], cwd=tmp_path)
    deaf = "(trap '' TERM; exec sleep 600)"
    program = f"trap ': > told' TERM; {deaf} & echo $! > part; mv part pid; wait; {deaf}; sleep 600"
    task = asyncio.create_task(command(source, "sh", "-c", program))
    await until((tmp_path / "pid").exists)
    task.cancel()
    await until((tmp_path / "told").exists)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert await gone(int((tmp_path / "pid").read_text()))


async def test_what_is_stopped_twice_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    """At whichever turn of the event loop, and though it has started another already."""
    source = shell(["sh"], cwd=tmp_path)
    for turns in range(1, 30):
        name = f"{os.getpid()}-{turns}"
        program = "sleep 600 & echo $! > part; mv part $0; wait"
        task = asyncio.create_task(command(source, "sh", "-c", program, name))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        while running(name) and not (tmp_path / name).exists():
            pass  # the event loop stands still meanwhile
        task.cancel()
        await asyncio.wait({task}, timeout=20)
        assert task.cancelled()
        await until(lambda name=name: not running(name))
        if (tmp_path / name).exists():
            assert await gone(int((tmp_path / name).read_text()))
    assert names_below(tmp_path)


def running(argument: str) -> list[str]:
    """The processes that were given this argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found


async def test_what_a_program_leaves_behind_ends_with_it() -> None:
    begun = time.monotonic()
    found = await command(shell(["sh"]), "sh", "-c", "sleep 600 & echo $!")
    assert await gone(int(found["stdout"]))
    assert time.monotonic() - begun < 60


def test_bad_settings_of_a_shell_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no program 'no-such-program'"):
        shell(["no-such-program"])
    with pytest.raises(InputError, match="no program is allowed"):
        shell()
    with pytest.raises(InputError, match="is not a folder"):
        shell(["ls"], cwd=tmp_path / "nowhere")


# ── Python ────────────────────────────────────────────────────────────────────

SMALL = Limits(timeout_secs=10, cpu_secs=2, memory_mb=400, file_mb=1, processes=20)


@pytest.mark.parametrize(
    ("text", "given", "result", "printed"),
    [
        pytest.param("result = input['a'] + 1", {"a": 1}, 2, "", id="result"),
        pytest.param("x = 2\nx ** 10", None, 1024, "", id="the last expression"),
        pytest.param("print('ü')", None, None, "ü\n", id="printed"),
        pytest.param(
            "import json, statistics\nresult = statistics.mean(input)", [1, 2, 6], 3, "", id="imports"
        ),
        pytest.param(
            "def f(n):\n    return n and n + f(n - 1)\nresult = f(100)", None, 5050, "", id="functions"
        ),
        pytest.param("open('x', 'w').write('hi')\nresult = open('x').read()", None, "hi", "", id="own files"),
        pytest.param(
            "result = {'北京': [None, True, 1.5, '']}", None, {"北京": [None, True, 1.5, ""]}, "", id="JSON"
        ),
        pytest.param("import sys\nsys.stdin.read()", None, "", "", id="no input is left"),
        pytest.param("result = 1\nimport sys\nsys.exit(0)", None, 1, "", id="an exit of 0 is an end"),
        pytest.param("print(2)\nexit()", None, None, "2\n", id="exit()"),
        pytest.param(
            "import sys\ndef main():\n    global result\n    result = 3\nsys.exit(main())",
            None,
            3,
            "",
            id="sys.exit(main())",
        ),
        pytest.param(
            "import subprocess, sys\nresult = subprocess.run([sys.executable, '-c', 'print(1)'], "
            "capture_output=True, text=True).stdout",
            None,
            "1\n",
            "",
            id="a process of its own",
        ),
    ],
)
async def test_code_gives_its_result(text: str, given: Any, result: Any, printed: str) -> None:
    found = await code(python(limits=SMALL), text, given)
    assert found["result"] == result
    assert found["printed"] == printed


@pytest.mark.parametrize(
    ("text", "match"),
    [
        pytest.param("1/0", "line 1: ZeroDivisionError", id="an exception"),
        pytest.param("x = 1\n  y = 2", "line 2: IndentationError|line 2: SyntaxError", id="a syntax error"),
        pytest.param("result = object()", "cannot be written as JSON", id="no JSON"),
        pytest.param("result = float('nan')", "cannot be written as JSON", id="not a number"),
        pytest.param("result = {1: 2, '1': 3}", 'both written "1"', id="two keys that are written alike"),
        pytest.param("[{'a': {None: 1, 'null': 2}}]", 'both written "null"', id="two such keys further in"),
        pytest.param("import sys; sys.exit(3)", "SystemExit: 3", id="an exit"),
        pytest.param("raise SystemExit('no input')", "SystemExit: no input", id="an exit with words"),
        pytest.param("raise BaseException('x')", "BaseException: x", id="a base exception"),
        pytest.param("import no_such_module", "ModuleNotFoundError", id="a missing module"),
        pytest.param("x = 'a' * 10**9", "more memory than it may", id="a memory bomb"),
        pytest.param(
            "f = open('x', 'wb')\nf.write(b'x' * 5000000)\nf.flush()",
            "too large|file of more",
            id="a file bomb",
        ),
        pytest.param("import os; os._exit(7)", "without an answer", id="a sudden end"),
        pytest.param("while True: pass", "processor time", id="a processor bomb"),
        pytest.param("x = []\nwhile True: x = [x] * 1000000", "memory|processor", id="a deep bomb"),
        pytest.param("import os\nos.kill(os.getpid(), 11)", "without an answer", id="a crash"),
    ],
)
async def test_what_goes_wrong_is_told(text: str, match: str) -> None:
    with pytest.raises(ToolCallError, match=match) as caught:
        await code(python(limits=SMALL._replace(timeout_secs=100)), text)
    assert caught.value.kind == "tool"


async def test_an_error_of_code_that_reaches_nothing_has_had_no_effect() -> None:
    holds = await isolation()
    with pytest.raises(ToolCallError) as caught:
        await code(python(), "1/0")
    assert caught.value.happened == ("no" if holds["network"] and holds["files"] else "unknown")
    with pytest.raises(ToolCallError) as caught:
        await code(python(network=True), "1/0")
    assert caught.value.happened == "unknown"
    with pytest.raises(ToolCallError) as caught:
        await code(python(network=True), "this is no Python")
    assert caught.value.happened == "no"


async def test_a_bomb_of_processes_stays_within_its_limit_and_nothing_is_left() -> None:
    holds = await isolation()
    if not (holds["processes"] or os.geteuid()):
        pytest.skip("this system keeps no count of a container's root")
    bomb = """
import os, time
result = []
try:
    for n in range(200):
        pid = os.fork()
        if pid == 0:
            os.setsid()
            time.sleep(600)
            os._exit(0)
except OSError as error:
    result = [n, type(error).__name__]
"""
    found = (await code(python(limits=SMALL), bomb))["result"]
    assert found[0] <= 20
    assert found[1] == "BlockingIOError"


async def test_code_has_no_secrets_no_network_and_no_other_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    (tmp_path / "secret").write_text("s3cret")
    holds = await isolation()
    source = python(limits=SMALL)
    assert "SECRET_KEY" not in (await code(source, "import os\nresult = sorted(os.environ)"))["result"]
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        attempts = {
            f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5).close()": holds["network"],
            f"open({str(tmp_path / 'new')!r}, 'w')": holds["files"],
            f"result = open({str(tmp_path / 'secret')!r}).read()": holds["files"],
            f"import os\nos.remove({str(tmp_path / 'secret')!r})": holds["files"],
            "import os\nresult = os.listdir('/proc/1')": holds["files"],
        }
        for text, refused in attempts.items():
            if refused:
                with pytest.raises(ToolCallError, match="the code failed"):
                    await code(source, text)
    assert not (tmp_path / "new").exists()


async def test_code_is_stopped_in_time_and_its_folder_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = python(limits=SMALL)
    with pytest.raises(ToolCallError, match="had not ended") as caught:
        await code(source, "print('begun', flush=True)\nimport time\ntime.sleep(600)", deadline=0.5)
    assert (caught.value.kind, caught.value.happened) == ("timeout", "unknown")
    task = asyncio.create_task(code(source, "open('begun', 'w')\nimport time\ntime.sleep(600)"))
    await until(lambda: "begun" in names_below(tmp_path))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names_below(tmp_path) == set()


async def test_what_was_printed_is_told_when_time_is_over() -> None:
    text = "print('half', end='')\nimport time\ntime.sleep(600)"
    with pytest.raises(ToolCallError, match="the last that it wrote: half"):
        await code(python(limits=SMALL._replace(timeout_secs=3)), text)


FORGED = {
    "a list": "[]",
    "no JSON": "{",
    "too deep": "[" * 100_000,
    "nothing of it": "{}",
    "not isolated": '{"isolated": 7}',
    "an error that is none": '{"error": [1], "begun": false, "isolated": {}}',
    "an error before it began": '{"begun": false, "error": "x", "isolated": {"network": true, "files": true}}',
}


@pytest.mark.parametrize("line", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("how", ["then ends", "then goes on", "in the place of all"])
async def test_a_forged_answer_is_a_fault_in_doubt_or_a_result_of_the_code(line: str, how: str) -> None:
    text = f"""
import os
for number in range(3, 60):
    try:
        if {how!r} == "in the place of all":
            os.ftruncate(number, 0)
    except OSError:
        pass
    try:
        os.write(number, {line!r}.encode() + b"\\n")
    except OSError:
        pass
if {how!r} != "then goes on":
    os._exit(0)
result = 5
"""
    with pytest.raises(ToolCallError) as caught:
        await code(python(network=True, limits=SMALL), text)
    assert caught.value.kind in ("tool", "output")
    assert caught.value.happened == "unknown"


@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(),
    reason="no /proc that tells of memory: each process is limited alone",
)
async def test_what_code_starts_shares_its_memory() -> None:
    text = """
import subprocess, sys
hold = "x = bytearray(120 * 2**20); import time; time.sleep(600)"
children = [subprocess.Popen([sys.executable, "-I", "-c", hold]) for _ in range(8)]
for child in children:
    child.wait()
"""
    with pytest.raises(ToolCallError, match="more than 400 MB of memory together") as caught:
        await code(python(limits=SMALL._replace(timeout_secs=60)), text)
    assert caught.value.happened == "unknown"


async def test_what_is_shared_counts_once() -> None:
    text = """
import os, time
held = bytearray(150 * 2**20)
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        time.sleep(1)
        os._exit(0)
    children.append(child)
result = [os.waitpid(child, 0)[1] for child in children]
"""
    assert (await code(python(limits=SMALL), text))["result"] == [0] * 5


MEDDLING = """
import os
def tried(what, *given):
    try:
        what(*given)
    except OSError as error:
        return type(error).__name__
    return "done"
result = {what.__name__: tried(what, *given) for what, *given in (
    (os.chmod, VICTIM, 0o600),
    (os.utime, VICTIM, (1, 1)),
    (os.setxattr, VICTIM, "user.x", b"1"),
    (os.chown, VICTIM, os.getuid(), os.getgid()),
    (os.remove, VICTIM),
    (os.rename, VICTIM, "mine"),
    (os.link, VICTIM, "linked"),
)}
"""


def test_an_ordinary_user_s_files_stay_as_they_are_or_nothing_is_promised(tmp_path: Path) -> None:
    """The worker itself, as somebody else than root, where there is a Python that anybody may run."""
    runner, user = sys.executable, os.geteuid()
    if user == 0:
        runner, user = "/usr/bin/python3", 65534
        if not os.path.exists(runner):
            pytest.skip("no Python of the system that another user than root could run")
    worker = Path(python_tools.__file__).with_name("python_worker.py").read_text()
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        base.chmod(0o755)
        (base / "worker.py").write_text(worker)
        (base / "victim").write_text("x")
        (base / "work").mkdir()
        for path in (base / "victim", base / "work"):
            os.chown(path, user, -1)
        before = (base / "victim").stat()
        order = {
            "code": MEDDLING.replace("VICTIM", repr(str(base / "victim"))),
            "input": None,
            "network": False,
            "limits": {},
        }
        reads, writes = os.pipe()
        subprocess.run(
            [runner, "-I", "-B", str(base / "worker.py"), str(writes)],
            cwd=base / "work",
            input=json.dumps(order).encode(),
            pass_fds=(writes,),
            check=True,
            **({"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}),
        )
        os.close(writes)
        isolated, _, said = (json.loads(line) for line in os.read(reads, 100_000).splitlines())
        os.close(reads)
        if isolated["isolated"]["files"]:
            assert "done" not in said["result"].values()
            after = (base / "victim").stat()
            assert (after.st_mode, after.st_mtime, after.st_ctime) == (
                before.st_mode,
                before.st_mtime,
                before.st_ctime,
            )
        else:
            assert "done" in said["result"].values()
    finally:
        shutil.rmtree(base)


def test_a_filter_of_calls_refuses_changes_of_rights_and_times(tmp_path: Path) -> None:
    """What is used where a system has no space of mounts for an ordinary user."""
    (tmp_path / "victim").write_text("x")
    program = f"""
import ctypes, importlib.util, json, os
spec = importlib.util.spec_from_file_location("worker", {python_tools.__file__.replace("python_tools", "python_worker")!r})
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
names = {{}}
if worker._no_changes_of_metadata(ctypes.CDLL(None, use_errno=True)):
    names["VICTIM"] = {str(tmp_path / "victim")!r}
    exec({MEDDLING!r}, names)
print(json.dumps(names.get("result")))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=tmp_path, check=True)
    result = json.loads(found.stdout)
    if result is None:
        pytest.skip("no filter of system calls for this machine")
    assert {result[name] for name in ("chmod", "utime", "setxattr", "chown")} == {"PermissionError"}


_RUN = """
import asyncio
from replan.ports import ToolCall
from replan.tools.kit import python
code = "open('begun', 'w'); import time; time.sleep(600)"
asyncio.run(python().call(ToolCall("run_python", {"code": code}, "key")))
"""


async def test_code_ends_when_the_process_that_runs_it_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    runner = await asyncio.create_subprocess_exec(sys.executable, "-c", _RUN, env=environment)
    await until(lambda: "begun" in names_below(tmp_path))

    def workers() -> list[str]:
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if str(tmp_path) in Path(f"/proc/{name}/cmdline").read_text():
                    found.append(name)
        return found

    assert workers()
    runner.kill()
    await runner.wait()
    await until(lambda: not workers())


def test_bad_limits_are_refused() -> None:
    with pytest.raises(InputError, match="memory_mb=0 is not above zero"):
        python(limits=Limits(memory_mb=0))
    with pytest.raises(InputError, match="neither"):
        python(effect="reads")  # type: ignore[arg-type]
