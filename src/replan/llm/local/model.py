"""The built-in model: a small one, run in this process on the CPU, without a key and without a network."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from replan.core.limits.prices import FREE, Price
from replan.core.types import Usage
from replan.core.words import in_digits
from replan.errors import ModelUnavailable
from replan.llm.local.runtime import Answer, Job, Listener, Runtime, chat_body
from replan.llm.local.weights import DEFAULT, KNOWN, find, folder
from replan.ports import ModelReply, ModelRequest


class LocalModel:
    """A GGUF file behind the port; greedy and seeded, so that the same request gets the same answer.

    `model` is a known name or the path of a GGUF file. One request at a time: others wait in line. A cancelled
    request is left at once; the one behind it starts when the runtime has let go of it.
    Raises `ModelUnavailable` with exit code 2 when the runtime or the weights are not there.
    """

    style: Literal["standard", "small"] = "small"

    def __init__(
        self,
        model: str = DEFAULT,
        *,
        path: Path | str | None = None,
        n_ctx: int = 8192,
    ) -> None:
        require_runtime()
        self._file = require_weights(model, path)
        self.name = f"local:{model if path is None and model in KNOWN else self._file.stem}"
        self.n_ctx = n_ctx
        self._runtime = Runtime(self._file, n_ctx, _cores())
        self._warming: Job | None = None

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        self._stop_warming(request)
        limit = request.timeout_secs
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Answer] = loop.create_future()
        job = Job(chat_body(request), request.instructions, Listener(loop, done, on_text))
        self._runtime.put(job)
        try:
            async with asyncio.timeout(limit):
                answer = await done
        except TimeoutError:
            raise ModelUnavailable(
                f"{self.name} did not finish its answer within {in_digits(limit)} s; "
                "give it longer ([llm] timeout_secs), fewer tools, or a faster endpoint (--endpoint)",
                transient=False,
            ) from None
        finally:
            job.stopped.set()
        if answer.error:
            raise ModelUnavailable(self._explained(answer.error), setup=answer.setup)
        usage = Usage(llm_calls=1, input_tokens=answer.prompt_tokens, output_tokens=answer.answer_tokens)
        return ModelReply(text=answer.text, model=self.name, usage=usage)

    def price(self) -> Price:
        """It runs here."""
        return FREE

    def warm(self, instructions: str = "") -> None:
        """Load in the background, and read the instructions that later requests begin with; returns at once.

        A request with other instructions stops the reading, so that warming never delays anything for long.
        """
        job = Job(None, instructions, None)
        self._warming = job
        self._runtime.put(job)

    async def aclose(self) -> None:
        self._runtime.close()

    def _stop_warming(self, request: ModelRequest) -> None:
        if self._warming is not None and self._warming.instructions != request.instructions:
            self._warming.stopped.set()
        self._warming = None

    def _explained(self, error: str) -> str:
        if "exceed" in error and "context" in error:
            return (
                f"the prompt is too long for {self.name} with a window of {self.n_ctx} tokens: {error}; "
                "give it fewer tools or shorter descriptions, or use a larger model (--endpoint)"
            )
        return f"{self.name} failed: {error}"


def require_runtime() -> None:
    """Raise `ModelUnavailable` if the runtime is not installed or this processor cannot run it."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ModelUnavailable(
            "the built-in model needs its runtime (xllamacpp is missing): pip install 'replan[local]'; "
            "or name a model with --model or an endpoint with --endpoint",
            setup=True,
        )
    if platform.machine().lower() in ("x86_64", "amd64") and "avx2" not in (_cpu_flags() or "avx2"):
        raise ModelUnavailable(
            "this processor has no AVX2, which the built-in model's runtime needs: "
            "name a model with --model or an endpoint with --endpoint",
            setup=True,
        )


def require_weights(model: str = DEFAULT, path: Path | str | None = None) -> Path:
    """The file of the weights; `ModelUnavailable` that says how large they are and how to get them."""
    file = find(model, path=path)
    if file is None:
        weights = KNOWN[model]
        raise ModelUnavailable(
            f"the weights of the built-in model {model} ({weights.size / 1e9:.1f} GB, {weights.license}) are not in "
            f"{folder()}: get them once with `replan model pull{'' if model == DEFAULT else ' ' + model}`, "
            "or name another model: --model or --endpoint, [llm] in config.toml (APP_LLM_ENDPOINT), or in a program model=…",
            setup=True,
        )
    return file


def _cpu_flags() -> str:
    """What the processor can do, where the system tells; empty where it does not."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as info:
            return next((line for line in info if line.startswith("flags")), "")
    except OSError:
        return ""


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)
