"""The built-in model's way of working, with a runtime that stands in for the real one."""

from __future__ import annotations

import asyncio
import importlib.machinery
import json
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replan.errors import ModelUnavailable
from replan.llm.local.model import LocalModel
from replan.ports import ModelRequest, Turn

pytestmark = pytest.mark.anyio

OnChunk = Callable[[dict[str, Any]], bool]


class Runtime:
    """Reads a prompt batch by batch until `go` is set, then answers with its text, a letter a chunk."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.started = threading.Event()
        self.text = '{"ok": true}'
        self.error: str | None = None
        self.load_error: Exception | None = None
        self.bodies: list[dict[str, Any]] = []
        self.threads: set[int] = set()
        self.running = self.most_running = self.loads = 0

    def module(self) -> types.ModuleType:
        runtime = self

        class CommonParams:
            def __init__(self) -> None:
                self.model = types.SimpleNamespace(path="")
                self.cpuparams = types.SimpleNamespace(n_threads=0)
                self.cpuparams_batch = types.SimpleNamespace(n_threads=0)

        class Server:
            def __init__(self, params: CommonParams) -> None:
                runtime.loads += 1
                if runtime.load_error is not None:
                    raise runtime.load_error

            def handle_chat_completions(self, body: dict[str, Any], on_chunk: OnChunk) -> None:
                runtime.answer(body, on_chunk)

        module = types.ModuleType("xllamacpp")
        module.__spec__ = importlib.machinery.ModuleSpec("xllamacpp", None)
        module.CommonParams = CommonParams  # type: ignore[attr-defined]
        module.Server = Server  # type: ignore[attr-defined]
        module.__version__ = "1"  # type: ignore[attr-defined]
        return module

    def answer(self, body: dict[str, Any], on_chunk: OnChunk) -> None:
        self.bodies.append(body)
        self.threads.add(threading.get_ident())
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.started.set()
        try:
            while not self.go.wait(0.002):
                if on_chunk({"choices": [{"delta": {"content": None}}], "prompt_progress": {}}):
                    return
            if self.error is not None:
                on_chunk({"error": {"code": 400, "message": self.error}})
                return
            for letter in self.text:
                if on_chunk({"choices": [{"delta": {"content": letter}}]}):
                    return
            timings = {"cache_n": 90, "prompt_n": 10, "predicted_n": len(self.text)}
            on_chunk({"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": timings})
        finally:
            self.running -= 1


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    made = Runtime()
    monkeypatch.setitem(__import__("sys").modules, "xllamacpp", made.module())
    return made


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPLAN_MODELS_DIR", str(tmp_path / "cache" / "models"))
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF")
    return path


def request(instructions: str = "Plan.", **changes: Any) -> ModelRequest:
    fields: dict[str, Any] = {
        "role": "planning",
        "schema_name": "execution_plan",
        "json_schema": {"type": "object"},
        "instructions": instructions,
        "turns": (Turn(role="user", text="?"),),
    }
    return ModelRequest(**fields | changes)


async def started(runtime: Runtime) -> None:
    await asyncio.to_thread(runtime.started.wait, 5)
    runtime.started.clear()


async def test_it_is_asked_greedily_with_the_schema_and_streams(runtime: Runtime, file: Path) -> None:
    model = LocalModel(path=file)
    pieces: list[str] = []
    reply = await model.ask(request(), pieces.append)
    assert reply.text == '{"ok": true}' == "".join(pieces)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost_usd) == (100, 12, 0.0)
    assert (model.name, model.style) == ("local:mine", "small")
    (body,) = runtime.bodies
    head, _, schema = body["grammar"].partition("start: %json ")
    assert head.startswith("%llguidance")
    assert json.loads(schema)["type"] == "object"
    assert json.loads(schema)["x-guidance"]["whitespace_flexible"] is False
    assert body["messages"] == [{"role": "system", "content": "Plan."}, {"role": "user", "content": "?"}]
    assert body["temperature"] == 0
    assert body["seed"] == 1
    await model.aclose()


async def test_it_loads_once_and_answers_one_at_a_time_in_one_thread(runtime: Runtime, file: Path) -> None:
    model = LocalModel(path=file)
    await asyncio.gather(*(model.ask(request()) for _ in range(8)))
    assert (runtime.loads, runtime.most_running, len(runtime.threads)) == (1, 1, 1)
    assert threading.get_ident() not in runtime.threads
    await model.aclose()


async def test_a_cancelled_request_is_left_at_once_and_never_runs_beside_the_next(
    runtime: Runtime, file: Path
) -> None:
    model = LocalModel(path=file)
    runtime.go.clear()
    asking = asyncio.create_task(model.ask(request()))
    await started(runtime)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    following = asyncio.create_task(model.ask(request("Judge.")))
    await started(runtime)  # the runtime has let go of the first by itself
    runtime.go.set()
    assert (await following).text == '{"ok": true}'
    assert runtime.most_running == 1
    await model.aclose()


async def test_a_request_that_was_cancelled_while_it_waited_never_starts(
    runtime: Runtime, file: Path
) -> None:
    model = LocalModel(path=file)
    runtime.go.clear()
    first = asyncio.create_task(model.ask(request("first")))
    await started(runtime)
    second = asyncio.create_task(model.ask(request("second")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    runtime.go.set()
    await first
    await model.ask(request("third"))
    assert [body["messages"][0]["content"] for body in runtime.bodies] == ["first", "third"]
    await model.aclose()


async def test_a_time_limit_ends_a_request_with_advice(runtime: Runtime, file: Path) -> None:
    model = LocalModel(path=file)
    runtime.go.clear()
    with pytest.raises(ModelUnavailable, match=r"within 0\.05 s; give it longer"):
        await model.ask(request(timeout_secs=0.05))
    runtime.go.set()
    assert (await model.ask(request())).text
    await model.aclose()


async def test_warming_loads_without_anybody_waiting_and_is_of_use_to_the_same_instructions(
    runtime: Runtime, file: Path
) -> None:
    model = LocalModel(path=file)
    runtime.go.clear()
    model.warm("Plan.")
    await started(runtime)
    asking = asyncio.create_task(model.ask(request()))
    await asyncio.sleep(0)
    assert runtime.running == 1
    runtime.go.set()
    assert (await asking).text
    assert runtime.bodies[0]["max_tokens"] == 1
    assert runtime.loads == 1
    await model.aclose()


async def test_warming_for_other_instructions_makes_way(runtime: Runtime, file: Path) -> None:
    model = LocalModel(path=file)
    runtime.go.clear()
    model.warm("Plan.")
    await started(runtime)
    asking = asyncio.create_task(model.ask(request("Judge.")))
    await started(runtime)  # only once the warming has been stopped
    runtime.go.set()
    assert (await asking).text
    await model.aclose()


async def test_warming_without_a_request_only_loads(runtime: Runtime, file: Path) -> None:
    model = LocalModel(path=file)
    model.warm()
    await model.ask(request())
    assert (runtime.loads, len(runtime.bodies)) == (1, 1)
    await model.aclose()


@pytest.mark.parametrize(
    ("message", "says"),
    [
        pytest.param(
            "request (16519 tokens) exceeds the available context size (8192 tokens)", "too long", id="window"
        ),
        pytest.param("out of memory", "local:mine failed: out of memory", id="anything else"),
    ],
)
async def test_an_error_of_the_runtime_is_told(runtime: Runtime, file: Path, message: str, says: str) -> None:
    model = LocalModel(path=file)
    runtime.error = message
    with pytest.raises(ModelUnavailable, match=says):
        await model.ask(request())
    runtime.error = None
    assert (await model.ask(request())).text
    await model.aclose()


async def test_a_file_that_cannot_be_loaded_is_named(runtime: Runtime, file: Path) -> None:
    runtime.load_error = RuntimeError("unknown architecture")
    model = LocalModel(path=file)
    with pytest.raises(
        ModelUnavailable, match=r"mine\.gguf could not be loaded \(unknown architecture\)"
    ) as caught:
        await model.ask(request())
    assert caught.value.exit_code == 2
    await model.aclose()


async def test_it_can_be_used_again_after_it_was_closed(runtime: Runtime, file: Path) -> None:
    model = LocalModel(path=file)
    await model.ask(request())
    await model.aclose()
    await model.ask(request())
    await model.aclose()
    assert runtime.loads == 2


def test_one_model_serves_one_event_loop_after_another(runtime: Runtime, file: Path) -> None:
    model = LocalModel(path=file)
    assert asyncio.run(model.ask(request())).text == asyncio.run(model.ask(request())).text
    assert runtime.loads == 1
    asyncio.run(model.aclose())


def test_a_missing_runtime_says_what_to_install(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delitem(__import__("sys").modules, "xllamacpp", raising=False)
    with pytest.raises(ModelUnavailable, match=r"pip install 'replan\[local\]'") as caught:
        LocalModel(path=file)
    assert caught.value.exit_code == 2
