"""Python functions as tools."""

from __future__ import annotations

import asyncio
import contextlib
import dis
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from types import AsyncGeneratorType, CodeType, GeneratorType
from typing import Any, Literal

from pydantic import TypeAdapter

from replan.beside import seen_through
from replan.core.calls.telling import unique_problem
from replan.core.data.pieces import is_large
from replan.core.references.kept import TAKES_FILE
from replan.core.types import VERIFY, JsonObject, ToolSpec, Verifier
from replan.core.walk import objects_in
from replan.errors import ToolCallError, ToolDefinitionError
from replan.ports import ToolCall, WithFiles
from replan.tools.bounds import unknown_tool
from replan.tools.functions import docstring
from replan.tools.functions.annotations import Yields, evaluate, gives_items, result_of, yielded_result_of
from replan.tools.functions.context import CURRENT, ToolContext, unasked_end
from replan.tools.functions.decorator import (
    ToolOptions,
    check_name,
    innermost,
    mentioned_locals,
    options_of,
    refuse_variadic,
    refused,
    tool_name,
    underlying,
)
from replan.tools.functions.files import File, FilesIn
from replan.tools.functions.returned import UNREADABLE, PlainSchema, Returned
from replan.tools.functions.signature import read_signature
from replan.tools.functions.threads import DaemonThreads
from replan.tools.functions.unfinished import FilesLeft, Unfinished, Yielded

_Kind = Literal["async", "async generator", "sync"]


class FunctionSource:
    """Python functions as a `ToolSource`; whether they carry `@tool` or not.

    Schemas come from signature and docstring. `async def` functions run in the event loop, all others in daemon
    threads. Cancelling a call cancels an async function; a synchronous one cannot be stopped: the call ends at once,
    `ToolContext.cancelled` turns true, and the thread is left behind until the function returns by itself
    (`abandoned_threads` counts those). What it gives then is told to `ToolCall.late`, unless it had seen that it was
    stopped.

    The result of a generator is what it returns, if that is not None; else the list of what it yields. A yielded
    `Progress` is progress and no part of the result. Where the annotation has `Progress` among what is yielded (or
    says nothing, and one is yielded), the one thing that is yielded besides is the result by itself.
    What a function returns or yields is checked against its annotation.

    An exception of the function passes through as it is. What would stop a thread or the loop instead
    (`SystemExit`, `StopIteration`, a `CancelledError` while nobody cancelled) comes as `ToolCallError`.
    Raises `ToolDefinitionError` for a function that cannot be a tool: which, where, why.
    """

    def __init__(self, functions: Iterable[Callable[..., Any]], name: str = "python") -> None:
        self.name = name
        self._threads = DaemonThreads()
        self._tools: dict[str, FunctionTool] = {}
        self._verifiers: dict[str, FunctionTool] = {}
        if callable(functions) and not isinstance(functions, Iterable):
            functions = [functions]
        for function in functions:
            made = FunctionTool(function, source=name, threads=self._threads)
            other = self._tools.get(made.spec.id)
            if other is not None and other.function is not function:
                reason = f'another tool is named {made.spec.id!r} too; give one of them another name: @tool(name="…")'
                raise refused(function, reason)
            self._tools[made.spec.id] = made
            if made.verifier is not None:
                self._verifiers[made.spec.id + VERIFY] = made.verifier

    @property
    def abandoned_threads(self) -> int:
        """Threads that still run a synchronous function whose call was cancelled."""
        return self._threads.abandoned

    async def tools(self) -> Sequence[ToolSpec]:
        return [each.spec for each in self._tools.values()]

    def call(self, call: ToolCall) -> Coroutine[Any, Any, Any]:
        """The function's result as plain JSON values."""
        found = self._tools.get(call.tool_id) or self._verifiers.get(call.tool_id)
        if found is None:
            raise unknown_tool(call.tool_id, self.name, self._tools)
        return found(call)

    async def aclose(self) -> None:
        """Let idle threads end. Functions hold nothing else, so that later calls still work."""
        self._threads.release()


_PASSES = 3
"""So often a result is written as JSON until all files in it are kept: once more, unless what cannot be written hides some."""
_SCALARS = frozenset({int, float, bool, type(None)})
_NOTHING_IN_ORDER: list[Any] = []


class FunctionTool:
    """One function as a tool: what it is, and how it is called."""

    __slots__ = (
        "_arguments",
        "_kind",
        "_listed",
        "_returned",
        "_takes_files",
        "_threads",
        "function",
        "spec",
        "verifier",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        source: str,
        threads: DaemonThreads,
        name: str | None = None,
        stands_for: Returned | None = None,
    ) -> None:
        if inspect.isclass(function):
            raise refused(function, "it is a class; give a function, or a bound method of an instance")
        if not callable(function):
            raise ToolDefinitionError(
                f"a {type(function).__name__} cannot be a tool ({function!r:.80}); give a function"
            )
        options = options_of(function) or ToolOptions()
        if name is None:
            name = tool_name(function, options)
            check_name(function, name)
        refuse_variadic(function)
        namespace = {**mentioned_locals(function), **options.namespace}
        said = docstring.parse(_documentation(function))
        self.function = function
        self._threads = threads
        self._kind = _kind_of(function)
        self._arguments = read_signature(
            function, name, texts=said.parameters, namespace=namespace, secrets=options.secrets
        )
        result, self._listed = _result_annotation(function, namespace)
        had = options.effect_said and options.effect != "reads" and stands_for is None
        self._returned = Returned(
            result, _declared_output(function, options), name, stands_for=stands_for, had=had
        )
        self._takes_files = any(one.get(TAKES_FILE) is True for one in objects_in(self._arguments.schema))
        self.spec = ToolSpec(
            id=name,
            name=name,
            description=options.description if options.description is not None else said.description,
            parameters=self._arguments.schema,
            output_schema=self._returned.schema,
            effect=options.effect,
            source=source,
            aliases=options.aliases,
            timeout_secs=options.timeout,
            max_retries=options.retries,
            output_params=options.output_params,
            secrets=self._arguments.secrets,
            volatile=options.volatile,
            stable=options.stable,
            errors_are_clean=options.errors_are_clean,
            honours_key=options.honours_key,
            requires_approval=options.requires_approval,
            substitutes=options.substitutes,
            unique_by=options.unique_by,
            sample=options.sample,
            in_process=True,
        )
        if options.unique_by and (problem := unique_problem(self.spec)):
            raise refused(function, problem)
        self.verifier: FunctionTool | None = None
        if options.verify is not None:
            self.verifier = FunctionTool(
                options.verify, source=source, threads=threads, name=name + VERIFY, stands_for=self._returned
            )
            verify = self.verifier.as_verifier(function, self.spec, options.verify_after_secs)
            self.spec = self.spec.model_copy(update={"verify": verify})

    def as_verifier(self, of: Callable[..., Any], tool: ToolSpec, after_secs: float | None) -> Verifier:
        """This function as what looks whether a call of the tool took effect; it takes of its parameters what it names."""
        wanted, there = self._arguments.schema["properties"], tool.parameters["properties"]
        required = self._arguments.schema.get("required", ())
        strange = [name for name in wanted if name not in there and name in required]
        if strange:
            raise refused(
                of,
                f"verify takes {', '.join(map(repr, strange))}, which the tool has not; it may take "
                f"{', '.join(map(repr, there)) or 'none of its own'}, and a ToolContext for the call's key",
            )
        return Verifier(
            tool=self.spec.id,
            parameters={name: f"${{call.parameters.{name}}}" for name in wanted if name in there},
            after_secs=after_secs,
            by_key=_uses(self.function, self._arguments.injected),
            function=_identity(self.function),
        )

    async def __call__(self, call: ToolCall) -> Any:
        loop = asyncio.get_running_loop()
        context = ToolContext.of(call, loop)
        arguments, keep = self._arguments, call.keep
        positional, named = _NOTHING_IN_ORDER, self._read(call, loop)
        if arguments.injected or arguments.positional:
            positional, named = arguments.given(named, context)
        token = CURRENT.set(context)
        try:
            if self._kind == "sync":
                result = await self._in_thread(positional, named, context)
                return await self._kept(result, keep) if isinstance(result, FilesLeft) else result
            begun = self.function(*positional, **named)
            del call, positional, named  # while it waits, the function alone keeps its parameters
            result = await (begun if self._kind == "async" else self._exhausted(begun, context))
            if type(result) in self._returned.taken_whole:
                return result
            if type(result) in _SCALARS:
                return self._returned.plain(result)
            result = await self._plain(result)
            return await self._kept(result, keep) if isinstance(result, FilesLeft) else result
        except (asyncio.CancelledError, SystemExit) as error:
            if (fault := unasked_end(error, context, self.spec.id)) is None:
                raise
            raise fault from error
        finally:
            CURRENT.reset(token)

    async def _in_thread(self, positional: list[Any], named: dict[str, Any], context: ToolContext) -> Any:
        def work() -> Any:
            try:
                result = done()
            except Exception as error:
                if context.noticed:
                    raise context.no_word(self.spec.id) from error
                raise
            if context.noticed:
                raise context.no_word(self.spec.id)
            return result

        def done() -> Any:
            result = self.function(*positional, **named)
            if isinstance(result, GeneratorType):
                result = self._drained(result, context)
            elif isinstance(result, AsyncGeneratorType) or hasattr(type(result), "__await__"):
                return Unfinished(result)
            return self._written(result)

        result = await self._threads.run(work, context.goes_on)
        if isinstance(result, Unfinished):  # a plain function around an async one
            value = result.value
            is_generator = isinstance(value, AsyncGeneratorType)
            value = await (self._exhausted(value, context) if is_generator else value)
            return await self._plain(value)
        return result

    def _read(self, call: ToolCall, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
        """The arguments, with files that can be read during this call."""
        if not self._takes_files:
            return self._arguments.read(call.parameters)
        with FilesIn(read=True) as files:
            named = self._arguments.read(call.parameters)
        for file in files:
            file.bind(call, loop)
        return named

    def _written(self, result: Any) -> Any:
        """The result as plain JSON; `FilesLeft` where some of it, wherever that stands, is still to be kept."""
        if type(result) is str or type(result) in _SCALARS:
            return self._returned.plain(result)
        if isinstance(result, File):
            return FilesLeft(result, [result])
        with FilesIn() as files:
            try:
                plain = self._returned.plain(result)
            except ToolCallError:
                if not any(file.is_left for file in files):
                    raise
        if left := [file for file in files if file.is_left]:
            return FilesLeft(result, left)
        kept = {file.kept.name: file.kept for file in files if file.kept is not None}
        return WithFiles(plain, tuple(kept.values())) if kept else plain

    async def _plain(self, result: Any) -> Any:
        return await seen_through(self._written, result) if is_large(result) else self._written(result)

    async def _kept(self, left: FilesLeft, keep: Callable[..., Awaitable[Any]] | None) -> Any:
        """A result of which a part comes piece by piece, or all of it: stored; as a value where nobody stores it."""
        result = left.value
        for _ in range(_PASSES):
            for file in left.files:
                await file.keep(keep)
            if isinstance(result, File):
                return result.kept or self._returned.plain(str(result))
            written = await self._plain(result)
            if not isinstance(written, FilesLeft):
                return written
            left = written
        raise ToolCallError(
            f"{self.spec.id!r} ran, but what it returned makes a new File each time it is written, which nobody can keep",
            kind="output",
            happened="unknown",
        )

    async def _exhausted(self, generator: AsyncGenerator[Any, None], context: ToolContext) -> Any:
        yielded = Yielded(context, listed=self._listed)
        async with contextlib.aclosing(generator):
            async for item in generator:
                yielded.take(item)
        return yielded.result()

    def _drained(self, generator: GeneratorType[Any, Any, Any], context: ToolContext) -> Any:
        yielded = Yielded(context, listed=True if generator.__name__ == "<genexpr>" else self._listed)
        with contextlib.closing(generator):
            while not context.cancelled:
                try:
                    yielded.take(next(generator))
                except StopIteration as end:
                    return yielded.result() if end.value is None else end.value
        return yielded.result()


def _kind_of(function: Callable[..., Any]) -> _Kind:
    for candidate in (function, underlying(function)):
        if inspect.iscoroutinefunction(candidate):
            return "async"
        if inspect.isasyncgenfunction(candidate):
            return "async generator"
    return "sync"


def _documentation(function: Callable[..., Any]) -> str | None:
    inner = innermost(function)
    if inner.__doc__ or getattr(inner, "__name__", "") != "__call__":
        said: str | None = inner.__doc__
        return said
    return getattr(type(function), "__doc__", None)  # an object with `__call__`: what its class says


def _result_annotation(function: Callable[..., Any], namespace: dict[str, Any]) -> Yields:
    """What the function gives in the end; Any where its annotation cannot be evaluated."""
    inner = innermost(function)
    try:
        annotation = inspect.signature(inner).return_annotation
        annotation = evaluate(function, "return", annotation, namespace)
    except (NameError, TypeError, AttributeError, SyntaxError, ValueError):
        return Yields(Any, None)
    result = result_of(annotation)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner) or gives_items(result):
        return yielded_result_of(result)
    return Yields(result, None)


def _declared_output(function: Callable[..., Any], options: ToolOptions) -> JsonObject | None:
    declared = options.output_schema
    if declared is None or isinstance(declared, dict):
        return declared
    try:
        return TypeAdapter(declared).json_schema(mode="serialization", schema_generator=PlainSchema)
    except UNREADABLE as error:
        raise refused(
            function, f"output_schema is neither a JSON Schema nor a type that has one: {error}"
        ) from error


def _identity(function: Callable[..., Any]) -> str:
    """The same for every tool that the function, or method of one object, is given to."""
    return f"{id(getattr(function, '__func__', function))}:{id(getattr(function, '__self__', None))}"


def _uses(function: Callable[..., Any], names: Iterable[str]) -> bool:
    """True if the function does something with one of these parameters; also where its code cannot be looked into."""
    while isinstance(function, functools.partial):
        function = function.func
    inner = inspect.unwrap(function)
    method = None if inspect.isroutine(inner) else vars(type(inner)).get("__call__")
    code = getattr(inner, "__code__", None) or getattr(method, "__code__", None)
    nodes = [code] if isinstance(code, CodeType) else []
    if not nodes:
        return True
    wanted = set(names)
    while nodes:
        node = nodes.pop()
        if any(one.opname.startswith("LOAD") and one.argval in wanted for one in dis.get_instructions(node)):
            return True
        nodes += [const for const in node.co_consts if isinstance(const, CodeType)]
    return False
