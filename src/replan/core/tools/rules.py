"""What a user decides about tools, over what their sources say: which there are, their effects, limits and approvals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from replan.core.data.schemas import closed
from replan.core.types import Effect, Frozen, ToolSpec, Verifier

_UNITS = {"s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0}
_UNITS |= {"h": 3600.0, "hour": 3600.0, "d": 86_400.0, "day": 86_400.0}
_RATE = re.compile(r"\s*(\d{1,9})\s*(?:/|per)\s*(\d{1,9}(?:\.\d+)?)?\s*([a-z]+)\s*", re.IGNORECASE)


class Rate(NamedTuple):
    """At most `calls` in any `secs`."""

    calls: int
    secs: float


def read_rate(text: str) -> Rate:
    """`10/second`, `60 per minute`, `5/10s` as a rate; `ValueError` says what is right."""
    found = _RATE.fullmatch(text)
    word = found[3].lower() if found else ""
    unit = _UNITS.get(word.removesuffix("s") if len(word) > 2 else word)  # `ms` are no minutes
    if found is None or unit is None or int(found[1]) < 1 or (found[2] and float(found[2]) == 0):
        raise ValueError(f"{text!r} is no rate; write calls per time, like 10/second, 60/minute or 5/10s")
    return Rate(int(found[1]), float(found[2] or 1) * unit)


class ToolRule(Frozen):
    """What is decided about the tools that a pattern fits. None leaves what the source says."""

    effect: Effect | None = None
    volatile: bool | None = None
    stable: bool | None = None
    closed_output: bool | None = None
    """The output has the fields that its schema names, and no other."""
    requires_approval: bool | None = None
    timeout_secs: float | None = None
    max_retries: int | None = None
    honours_key: bool | None = None
    errors_are_clean: bool | None = None
    secrets: tuple[str, ...] | None = None
    """Parameters that are secret, besides those that the source says."""
    max_concurrent: int | None = None
    """Calls side by side, in this process."""
    rate: str | None = None
    """Calls in a time, in this process: see `read_rate`."""
    verify: Verifier | None = None
    """How a call in doubt is settled by code."""
    substitutes: tuple[str, ...] | None = None
    """Tools that do the very same thing."""
    unique_by: tuple[str, ...] | None = None
    """Parameters by which its effects are told apart."""


class ToolRules(Frozen):
    """Patterns as in a shell (`*`, `?`, `[…]`), against a tool's id, its name at its source, and `source.name`."""

    allow: tuple[str, ...] = ()
    """Empty: every tool."""
    deny: tuple[str, ...] = ()
    rules: tuple[tuple[str, ToolRule], ...] = ()
    """The later over the earlier."""
    samples: bool = True
    """Samples of data may be shown to whoever plans."""


class Named(NamedTuple):
    """How a tool may be meant by a pattern."""

    tool_id: str
    source: str
    own_id: str

    def fits(self, pattern: str) -> bool:
        names = (self.tool_id, self.own_id, f"{self.source}.{self.own_id}")
        return any(fnmatchcase(name, pattern) for name in names)


def admits(rules: ToolRules, tool: Named) -> bool:
    """True if the tool may be used at all; to deny outweighs to allow."""
    if not rules.deny and not rules.allow:
        return True
    if any(tool.fits(pattern) for pattern in rules.deny):
        return False
    return not rules.allow or any(tool.fits(pattern) for pattern in rules.allow)


def rule_of(rules: ToolRules, tool: Named) -> ToolRule | None:
    """All that is decided about a tool; None if nothing is."""
    decided: dict[str, object] = {}
    for pattern, rule in rules.rules:
        if tool.fits(pattern):
            decided |= {name: value for name, value in rule.__dict__.items() if value is not None}
    return ToolRule.model_validate(decided) if decided else None


_OF_SPEC = (
    "effect",
    "volatile",
    "stable",
    "requires_approval",
    "timeout_secs",
    "max_retries",
    "honours_key",
    "errors_are_clean",
)


def applied(rule: ToolRule, spec: ToolSpec) -> ToolSpec:
    """The tool as the rule has it."""
    changes = {name: value for name in _OF_SPEC if (value := getattr(rule, name)) is not None}
    if rule.closed_output and spec.output_schema is not None:
        changes["output_schema"] = closed(spec.output_schema)
    if (
        rule.verify is not None and (rule.effect or spec.effect) == "once"
    ):  # of the others nothing is in doubt
        changes["verify"] = rule.verify
    if rule.substitutes:
        changes["substitutes"] = tuple(dict.fromkeys((*spec.substitutes, *rule.substitutes)))
    if rule.unique_by is not None:
        changes["unique_by"] = tuple(dict.fromkeys(rule.unique_by))
    if rule.secrets:
        changes["secrets"] = tuple(dict.fromkeys((*spec.secrets, *rule.secrets)))
    return spec.model_copy(update=changes) if changes else spec


def verifier_problems(
    tools: Iterable[ToolSpec],
    resolve: Callable[[str], ToolSpec | None],
    nearest: Callable[[str], Sequence[str]],
) -> list[tuple[str, str]]:
    """What is wrong with the verifiers that rules declare, each with the tool that it is declared for."""
    found = []
    for tool in tools:
        if tool.verify is not None and tool.verify.happened:
            from replan.core.calls.verify import problems_with  # loads JMESPath, which few tools need

            reader = resolve(tool.verify.tool)
            near = nearest(tool.verify.tool) if reader is None else ()
            found += [(tool.id, problem) for problem in problems_with(tool.verify, tool, reader, near)]
    return found


def unused(rules: ToolRules, tools: Iterable[Named]) -> list[str]:
    """The patterns that fit no tool, each once: likely a slip of the pen."""
    every = list(tools)
    patterns = dict.fromkeys((*rules.allow, *rules.deny, *(pattern for pattern, _ in rules.rules)))
    return [pattern for pattern in patterns if not any(tool.fits(pattern) for tool in every)]
