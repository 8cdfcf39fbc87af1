"""The debug log: final prompts, raw answers, parameters and results of tools, and what was decided, as text for developers.

It holds what the log of the tasks holds, with secrets masked as there. Lines are written by a thread of their own.
"""

from __future__ import annotations

import logging
import logging.handlers
import queue
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from replan.core import events as e
from replan.core.plain_calls import Recorded, spelled_out
from replan.core.state.task import State
from replan.files import rotating

FILE_BYTES, FILES = 50_000_000, 3
MOST_CHARS = 100_000
"""Of one value; what is longer is cut, and says so."""


class DebugLog:
    """Told of what tasks record (`run.session.dependencies.Tap`)."""

    def __init__(self, path: Path) -> None:
        file = rotating(path, "[debug] debug_log_file", most_bytes=FILE_BYTES, kept=FILES)
        file.setFormatter(logging.Formatter("%(message)s"))
        lines: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._put = lines.put
        self._writing = logging.handlers.QueueListener(lines, file)
        self._file = file
        self._writing.start()

    def landed(self, state: State, events: Sequence[Recorded], ts: float) -> None:
        """Write down what of these is worth it."""
        for event in spelled_out(events):
            if text := "\n".join(_told(event)):
                at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ts)) + f".{int(ts * 1000) % 1000:03}Z"
                head = f"{at} {state.task_id} round {state.round} {event.type}"
                self._put(logging.makeLogRecord({"msg": f"{head}\n{text}\n"}))

    def close(self) -> None:
        """Write what is left."""
        self._writing.stop()
        self._file.close()


def _told(event: e.AnyEvent) -> Iterator[str]:
    match event:
        case e.LlmCallStarted():
            yield f"  {event.role} asks {event.model} ({event.schema_name}, prompt {event.prompt}, attempt {event.attempt})"
            yield _indented(event.text)
        case e.LlmCallCompleted():
            used = event.usage
            yield (
                f"  {event.model} answers {event.role} after {event.duration_secs:.2f} s ({used.input_tokens} tokens in, "
                f"{used.output_tokens} out)" + (f": {event.error}" if event.error else "")
            )
            yield _indented(event.text)
        case e.CallStarted():
            yield f"  step {event.step_id} calls {event.tool_id} ({event.effect}, attempt {event.attempt}) with"
            yield _indented(_json(event.parameters))
        case e.CallCompleted():
            kept = f"{event.artifact.size} bytes, kept apart" if event.artifact is not None else ""
            again = ", which an earlier call has given" if event.reused else ""
            yield f"  {event.tool_id} has given step {event.step_id} after {event.duration_secs:.3f} s{again}"
            yield _indented(kept or _json(event.output))
        case e.StepReady() | e.StepStarted() | e.StepCompleted() | e.RoundStarted() | e.RoundCompleted():
            yield f"  {_json(_fields(event))}"
        case e.UnknownEvent():
            pass
        case _:
            yield _indented(_json(_fields(event)))


def _fields(event: e.AnyEvent) -> Any:
    return e.data_of(event)


def _json(value: Any) -> str:
    return to_json(value, inf_nan_mode="constants").decode()


def _indented(text: str) -> str:
    if len(text) > MOST_CHARS:
        text = f"{text[:MOST_CHARS]}… ({len(text)} characters)"
    return "\n".join(f"  | {line}" for line in text.splitlines())
