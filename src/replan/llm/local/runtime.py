"""The thread that owns the built-in model's runtime, and what goes in and out of it."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import json
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replan.core.types import JsonObject
from replan.llm.local.prefix import PrefixStore
from replan.llm.local.weights import folder
from replan.ports import ModelRequest

_MAX_TOKENS = 2048
"""A small model that goes round in circles ends here."""
_BATCH = 128
"""Prompt tokens that are read at a time: a cancelled request is left after the current ones, about 3 s."""
_LONGEST_END_SECS = 60.0
"""How long the end of the process waits for the runtime to leave a batch."""
_KEPT_PROMPTS_MIB = 512
"""Memory for prompts that were read before, so that going back to one costs nothing."""


def chat_body(request: ModelRequest) -> JsonObject:
    """What the runtime is asked: greedy, seeded, streamed, under the schema."""
    return {
        "messages": [
            {"role": "system", "content": request.instructions},
            *({"role": turn.role, "content": turn.text} for turn in request.turns),
        ],
        "grammar": _compact(request.json_schema),
        "temperature": request.temperature or 0.0,
        "seed": 1,
        "cache_prompt": True,
        "max_tokens": request.max_tokens or _MAX_TOKENS,
        "stream": True,
        # Told of each batch of the prompt, the worker can leave in the middle of reading it.
        "return_progress": True,
    }


def _compact(schema: JsonObject) -> str:
    """The schema as a grammar that leaves no room for layout: half of a pretty-printed plan is spaces."""
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    text = json.dumps({**schema, "x-guidance": layout}, ensure_ascii=False)
    return f"%llguidance {{}}\nstart: %json {text}"


def _only_instructions(instructions: str) -> JsonObject:
    """A request that reads the instructions and says next to nothing."""
    return {
        "messages": [{"role": "system", "content": instructions}, {"role": "user", "content": ""}],
        "cache_prompt": True,
        "max_tokens": 1,
        "stream": True,
        "return_progress": True,
    }


@dataclass
class Answer:
    """What came so far."""

    text: str = ""
    prompt_tokens: int = 0
    answer_tokens: int = 0
    error: str = ""
    setup: bool = False


class Listener:
    """Takes pieces and the answer from the worker's thread to the loop that asked, as long as that lives."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[Answer],
        on_text: Callable[[str], None] | None,
    ) -> None:
        self._loop = loop
        self._done = done
        self._on_text = on_text

    def piece(self, text: str) -> None:
        if self._on_text is not None:
            self._hand_over(self._tell, text)

    def finished(self, answer: Answer) -> None:
        self._hand_over(self._settle, answer)

    def _hand_over(self, what: Callable[[Any], None], value: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, value)
        except RuntimeError:
            return  # the loop is closed: nobody listens any more

    def _tell(self, text: str) -> None:
        if self._on_text is not None and not self._done.done():
            self._on_text(text)

    def _settle(self, answer: Answer) -> None:
        if not self._done.done():
            self._done.set_result(answer)


@dataclass
class Job:
    """One request on its way to the thread."""

    body: JsonObject | None
    """None: get ready for the instructions, and no more."""
    instructions: str
    listener: Listener | None
    stopped: threading.Event = field(default_factory=threading.Event)


class Runtime:
    """Owns the loaded model and the one thread that may use it."""

    def __init__(self, file: Path, n_ctx: int, threads: int) -> None:
        self._file = file
        self._n_ctx = n_ctx
        self._threads = threads
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._leaving: threading.Thread | None = None
        self._lock = threading.Lock()
        self._running: Job | None = None
        self._server: Any = None
        self._key = os.urandom(32).hex()
        self._prefixes: PrefixStore | None = None
        self._held = ""
        """The instructions that the runtime has read last."""

    def put(self, job: Job) -> None:
        """Put a job in line; the thread is started if need be, after an earlier one has gone."""
        with self._lock:
            if self._thread is None:
                self._jobs = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._work,
                    args=(self._jobs, self._leaving),
                    name="replan-local-model",
                    daemon=True,
                )
                self._leaving = None
                self._thread.start()
                # A process that ends in the middle of a request would end in a crash of the runtime.
                atexit.unregister(self._end)
                atexit.register(self._end)
            self._jobs.put(job)

    def close(self) -> None:
        """Let the model go once the running request has been stopped; a later request loads it again."""
        with self._lock:
            if self._thread is None:
                return
            if (running := self._running) is not None:
                running.stopped.set()
            self._jobs.put(None)
            self._thread, self._leaving = None, self._thread

    def _end(self) -> None:
        self.close()
        if (leaving := self._leaving) is not None:
            leaving.join(_LONGEST_END_SECS)

    def _work(self, jobs: queue.SimpleQueue[Job | None], before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        while (job := jobs.get()) is not None:
            self._running = job
            if not job.stopped.is_set():
                answer = self._answer(job)
                if job.listener is not None:
                    job.listener.finished(answer)
            self._running = None
        self._server, self._held = None, ""

    def _answer(self, job: Job) -> Answer:
        try:
            if self._server is None:
                self._server = self._load()
        except Exception as error:  # noqa: BLE001 - the runtime raises what it likes
            return Answer(error=f"{self._file} could not be loaded ({error})", setup=True)
        answer = Answer()
        try:
            self._get_ready(job)
            if job.body is not None and not job.stopped.is_set():
                self._run(job.body, job, answer)
        except Exception as error:  # noqa: BLE001 - the runtime raises what it likes
            answer.error = str(error) or type(error).__name__
        return answer

    def _run(self, body: JsonObject, job: Job, answer: Answer) -> None:
        def on_chunk(chunk: Any) -> bool:
            _take(answer, chunk, job.listener if body is job.body else None)
            return job.stopped.is_set()

        self._server.handle_chat_completions(body, on_chunk)

    def _get_ready(self, job: Job) -> None:
        """Have the job's instructions read: from the disk, else now, and then kept there."""
        if job.instructions == self._held:
            return
        name = None if self._prefixes is None else self._prefixes.name(job.instructions)
        address = str(getattr(self._server, "listening_address", ""))
        known = (
            self._prefixes is not None
            and name is not None
            and self._prefixes.restore(name, address, self._key)
        )
        if not known and (name is not None or job.body is None) and job.instructions:
            self._run(_only_instructions(job.instructions), job, Answer())
            if job.stopped.is_set():
                return
            if self._prefixes is not None and name is not None:
                self._prefixes.save(name, address, self._key)
        self._held = job.instructions

    def _load(self) -> Any:
        # Threads that spin at barriers are ten times slower as soon as a tool wants a core as well.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        runtime: Any = importlib.import_module("xllamacpp")
        params = runtime.CommonParams()
        params.model.path = str(self._file)
        params.ui = False
        params.verbosity = 0
        params.n_ctx = self._n_ctx
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = _BATCH
        params.endpoint_slots = False
        params.cache_ram_mib = _KEPT_PROMPTS_MIB
        # Repacked weights cost 600 MB more and were no faster.
        params.no_extra_bufts = True
        params.cpuparams.n_threads = self._threads
        params.cpuparams_batch.n_threads = self._threads
        # The runtime opens a port on loopback as well: nobody else gets in.
        params.api_keys = [self._key]
        stat = self._file.stat()
        identity = f"{self._file.name} {stat.st_size} {stat.st_mtime_ns} {self._n_ctx} {runtime.__version__}"
        self._prefixes = PrefixStore(folder().parent / "prefixes", identity)
        if self._prefixes.usable:
            params.slot_save_path = f"{self._prefixes.folder}{os.sep}"
        return runtime.Server(params)


def _take(answer: Answer, chunk: Any, listener: Listener | None) -> None:
    """Add one streamed chunk to the answer."""
    if not isinstance(chunk, dict):
        return
    if error := chunk.get("error"):
        answer.error = str(error.get("message", error)) if isinstance(error, dict) else str(error)
        return
    for choice in chunk.get("choices", ()):
        if piece := (choice.get("delta") or {}).get("content"):
            answer.text += piece
            if listener is not None:
                listener.piece(piece)
    if timings := chunk.get("timings"):
        answer.prompt_tokens = int(timings.get("cache_n", 0)) + int(timings.get("prompt_n", 0))
        answer.answer_tokens = int(timings.get("predicted_n", 0))
