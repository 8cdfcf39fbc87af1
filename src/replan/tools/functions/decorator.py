"""`@tool`: what an author says about a function that is meant to be a tool."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, overload

from replan.core.types import Effect, JsonObject
from replan.errors import ToolDefinitionError

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__replan_tool__"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class _Unsaid(str):
    """The effect of a tool of which nobody has said one: it is taken for `once`."""

    __slots__ = ()


_ONCE: Any = _Unsaid("once")


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What was said about a tool; see `tool`."""

    name: str | None = None
    description: str | None = None
    effect: Effect = "once"
    effect_said: bool = False
    """The author has said it."""
    timeout: float | None = None
    retries: int | None = None
    output_params: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    volatile: bool = False
    stable: bool = False
    errors_are_clean: bool | None = None
    honours_key: bool = False
    requires_approval: bool = False
    verify: Callable[..., Any] | None = None
    verify_after_secs: float | None = None
    secrets: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()
    unique_by: tuple[str, ...] = ()
    output_schema: JsonObject | type | None = None
    sample: Any = None
    namespace: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Local names that the annotations mention, where the function was decorated."""


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "once",
    timeout: float | None = None,
    retries: int | None = None,
    output_params: Iterable[str] = (),
    aliases: Iterable[str] = (),
    volatile: bool = False,
    stable: bool = False,
    errors_are_clean: bool | None = None,
    honours_key: bool = False,
    requires_approval: bool = False,
    verify: Callable[..., Any] | None = None,
    verify_after_secs: float | None = None,
    secrets: Iterable[str] = (),
    substitutes: Iterable[str] = (),
    unique_by: Iterable[str] = (),
    output_schema: JsonObject | type | None = None,
    sample: Any = None,
) -> Callable[[F], F]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = _ONCE,
    timeout: float | None = None,
    retries: int | None = None,
    output_params: Iterable[str] = (),
    aliases: Iterable[str] = (),
    volatile: bool = False,
    stable: bool = False,
    errors_are_clean: bool | None = None,
    honours_key: bool = False,
    requires_approval: bool = False,
    verify: Callable[..., Any] | None = None,
    verify_after_secs: float | None = None,
    secrets: Iterable[str] = (),
    substitutes: Iterable[str] = (),
    unique_by: Iterable[str] = (),
    output_schema: JsonObject | type | None = None,
    sample: Any = None,
) -> Any:
    """Mark a function as a tool; it stays callable as before.

    `name`: its id; default the function's name. `description`: default the docstring without its sections.
    `effect`: `reads` (changes nothing), `repeatable` (doing it twice is as doing it once) or `once`, the default.
    `timeout`: seconds a call may take. `retries`: further tries of a call that may be repeated, after a passing fault
    (default: `max_transient_retries`, 3). `output_params`: fields of the output that become task metadata.
    `aliases`: other names that a plan may use. `volatile`: its readings change by themselves. `stable`: they do not, so that one from before a wait is good.
    `errors_are_clean`: False: an exception does not mean that nothing has happened; True: it does, whatever it says.
    `honours_key`: the same idempotency key makes a second call safe. `requires_approval`: a person agrees to each call.
    `verify`: for a `once` tool, a function that looks whether a call took effect; it takes any of the tool's parameters,
    by their names, and a `ToolContext` for the call's key, and gives what the call has given, or None if it did not
    happen. `verify_after_secs`: how long a None is not believed yet; default the tool's own limit once more.
    `secrets`: parameters that are masked everywhere, besides those of type `SecretStr`.
    `substitutes`: names of tools that do the very same thing, so that the effect of one may stand for this one's.
    `unique_by`: parameters (`invoice`, `body.title`) that tell its effects apart: two calls of a task where these are the same have one effect.
    `output_schema`: a JSON Schema or a type, where the return annotation does not say it.
    `sample`: a little of what it gives or works on, as JSON of at most 2 kB: whoever plans is shown it as data.
    Raises `ToolDefinitionError` for a function that cannot be a tool.
    """

    def mark(target: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(target):
            raise refused(target, "it is a class; decorate a function, or give a bound method of an instance")
        inner = target.__func__ if isinstance(target, classmethod | staticmethod) else target
        if not callable(inner):
            raise ToolDefinitionError(f"@tool was put on a {type(inner).__name__}; it goes on a function")
        if description is not None and not isinstance(description, str):
            raise refused(inner, f"description={description!r:.60} is not a text")
        _check(inner, name=name, effect=effect, timeout=timeout, retries=retries)
        _check_flags(
            inner,
            volatile=volatile,
            stable=stable,
            honours_key=honours_key,
            requires_approval=requires_approval,
        )
        if errors_are_clean is not None:
            _check_flags(inner, errors_are_clean=errors_are_clean)
        _check_verifier(inner, effect, verify, verify_after_secs)
        by = _names(inner, "unique_by", unique_by)
        if by and effect not in ("once", _ONCE):
            raise refused(
                inner, f"unique_by is for effect='once'; a tool that is {effect!r} may be called again"
            )
        if sample is not None:
            _check_sample(inner, sample)
        options = ToolOptions(
            name=name,
            description=description,
            effect="once" if effect is _ONCE else effect,
            effect_said=effect is not _ONCE,
            timeout=timeout,
            retries=retries,
            output_params=_names(inner, "output_params", output_params),
            aliases=_names(inner, "aliases", aliases),
            volatile=volatile,
            stable=stable,
            errors_are_clean=errors_are_clean,
            honours_key=honours_key,
            requires_approval=requires_approval,
            verify=verify,
            verify_after_secs=verify_after_secs,
            secrets=_names(inner, "secrets", secrets),
            substitutes=_names(inner, "substitutes", substitutes),
            unique_by=by,
            output_schema=output_schema,
            sample=sample,
            namespace=mentioned_locals(inner),
        )
        refuse_variadic(inner)
        if inspect.ismethod(inner):  # it cannot carry attributes, and its function belongs to every instance
            target = inner = functools.partial(inner)
        try:
            setattr(inner, _MARK, options)
        except AttributeError as error:
            reason = "it cannot carry attributes; wrap it in a function of its own"
            raise refused(inner, reason) from error
        return target

    return mark if function is None else mark(function)


def options_of(function: Callable[..., Any]) -> ToolOptions | None:
    """What `@tool` was told; None for a function that was not decorated."""
    options = getattr(function, _MARK, None)
    return options if isinstance(options, ToolOptions) else None


def refused(function: Any, reason: str) -> ToolDefinitionError:
    """The error for a function that cannot be a tool: which, where, why."""
    plain = innermost(function)
    name = getattr(plain, "__qualname__", None) or getattr(plain, "__name__", None) or type(plain).__name__
    code = getattr(plain, "__code__", None)
    where = f"{code.co_filename}:{code.co_firstlineno}: " if code else ""
    what = "class" if inspect.isclass(function) else "function"
    return ToolDefinitionError(f"{where}{what} {name.replace('<locals>.', '')!r} cannot be a tool: {reason}")


def underlying(function: Any) -> Any:
    """The function that holds code and annotations: of a partial, a bound method or an object with `__call__`."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function) or isinstance(function, classmethod | staticmethod):
            function = function.__func__
        elif inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "__wrapped__"):
            return function
        elif callable(function):
            function = type(function).__call__
        else:
            return function


def innermost(function: Any) -> Any:
    """The function that was written down: `underlying`, and out of whatever decorators have wrapped it in."""
    while True:
        inner = inspect.unwrap(underlying(function))
        if inner is function:
            return inner
        function = inner


def tool_name(function: Callable[..., Any], options: ToolOptions) -> str:
    """The id of the tool: given, or the function's own name. Raises `ToolDefinitionError` when it has none."""
    if options.name is not None:
        return options.name
    named: Any = function
    while not hasattr(named, "__name__") and (
        isinstance(named, functools.partial) or hasattr(named, "__wrapped__")
    ):
        named = named.func if isinstance(named, functools.partial) else named.__wrapped__
    name = getattr(named, "__name__", None) or type(named).__name__
    if name == "<lambda>":
        raise refused(function, 'a lambda has no name; use `def`, or give one: tool(name="…")(lambda …)')
    check_name(function, name)
    return str(name)


def check_name(function: Callable[..., Any], name: object) -> None:
    """Refuse a name that models or other programs could not write."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refused(
            function,
            f"the name {name!r} does not fit: 1 to 128 ASCII letters, digits, '_', '-', '.', "
            "and no '-' or '.' first; give another one with @tool(name=\"…\")",
        )


def refuse_variadic(function: Callable[..., Any]) -> None:
    """Refuse `*args` and `**kwargs`: a model could not know what to put there."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError) as error:
        raise refused(function, f"its signature cannot be read ({error}); wrap it in a `def`") from error
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            reason = f"it takes *{parameter.name}; name each parameter, or take one list: {parameter.name}: list[…]"
            raise refused(function, reason)
        if parameter.kind is parameter.VAR_KEYWORD:
            reason = f"it takes **{parameter.name}; name each parameter, or take one dict: {parameter.name}: dict[str, …]"
            raise refused(function, reason)


def mentioned_locals(function: Any) -> dict[str, Any]:
    """Local names that the function's annotations, written as text, may mean: of the scopes it was defined in.

    Found only while those scopes are still running, which is so when it is decorated.
    """
    inner = innermost(function)
    code = getattr(inner, "__code__", None)
    scopes = _enclosing(getattr(inner, "__qualname__", ""))
    if code is None or not scopes:
        return {}
    annotations = getattr(inner, "__annotations__", {})
    words = set(re.findall(r"[^\W\d]\w*", " ".join(map(str, annotations.values()))))
    found: dict[str, Any] = {}
    frame = sys._getframe(1) if words else None
    while frame is not None:
        here = frame.f_code
        if here.co_filename == code.co_filename and here.co_qualname in scopes:
            held = frame.f_locals
            found = {word: held[word] for word in words if word in held} | found
        frame = frame.f_back
    return found


def _enclosing(qualname: str) -> frozenset[str]:
    """`a`, `a.<locals>.B` for `a.<locals>.B.method`: the names of the scopes around a function."""
    parts = qualname.split(".")
    around = (".".join(parts[:end]) for end in range(1, len(parts)))
    return frozenset(name for name in around if not name.endswith("<locals>"))


def _check(function: Any, *, name: str | None, effect: object, timeout: object, retries: object) -> None:
    if name is not None:
        check_name(function, name)
    effects = get_args(Effect)
    if effect not in effects:
        near = difflib.get_close_matches(str(effect), effects, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise refused(function, f"effect={effect!r} is none of {', '.join(map(repr, effects))}{hint}")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0
    ):
        raise refused(function, f"timeout={timeout!r} is not a positive number of seconds")
    if retries is not None and (isinstance(retries, bool) or not isinstance(retries, int) or retries < 0):
        raise refused(function, f"retries={retries!r} is not a whole number of at least 0")


def _check_sample(function: Callable[..., Any], sample: Any) -> None:
    from replan.core.tools.samples import sample_problem  # which few tools need

    if problem := sample_problem(sample):
        raise refused(function, f"sample: {problem}")


def _check_flags(function: Any, **flags: object) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise refused(function, f"{name}={value!r:.60} is neither True nor False")


def _check_verifier(function: Any, effect: str, verify: object, after: object) -> None:
    if verify is None:
        if after is not None:
            raise refused(function, "verify_after_secs goes with verify=FUNCTION, which is missing")
        return
    if not callable(verify) or inspect.isclass(verify):
        raise refused(
            function,
            f"verify={verify!r:.60} is not a function; give one that looks whether a call took effect",
        )
    if effect != "once":
        raise refused(
            function, f"verify is for effect='once'; of a tool that is {effect!r} nothing is in doubt"
        )
    if after is not None and (
        isinstance(after, bool) or not isinstance(after, int | float) or not 0 <= after < float("inf")
    ):
        raise refused(function, f"verify_after_secs={after!r} is not a number of seconds, 0 or more")


def _names(function: Any, option: str, given: Iterable[str]) -> tuple[str, ...]:
    try:
        names = (given,) if isinstance(given, str) else tuple(given)
    except TypeError:
        names = (None,)  # type: ignore[assignment]
    if not all(isinstance(one, str) for one in names):
        raise refused(function, f"{option}={given!r:.60} is not a list of names")
    return names
