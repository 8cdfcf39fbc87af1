"""What a task was planned with, in digests: Replan, its prompts, and of each tool what a plan goes by.

Who goes on with a task compares one digest. Only where that is another is it looked at what has changed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import Field

from replan.core.ids import canonical, digest
from replan.core.memo import ByIdentity
from replan.core.types import Effect, Frozen, ToolId, ToolSpec, strength_of, unchecked


class ToolVersion(Frozen):
    """A tool as a plan has met it."""

    parameters: str
    """A digest of their schema."""
    output: str
    effect: Effect
    rules: str
    """A digest of what else matters: what is secret, what becomes metadata, whether readings last."""
    requires_approval: bool = Field(default=False, exclude_if=operator.not_)
    honours_key: bool = Field(default=False, exclude_if=operator.not_)
    errors_are_clean: bool | None = Field(default=None, exclude_if=lambda value: value is None)
    source: str = ""
    gone: bool = Field(default=False, exclude_if=operator.not_)
    """It is not there any more; the rest is as it was last."""


class Versions(Frozen):
    """Everything that a plan was made with."""

    digest: str = ""
    replan: str = ""
    prompts: str = ""
    """A digest of them all; empty where no model has planned."""
    tools: dict[ToolId, ToolVersion] = {}

    @classmethod
    def of(cls, replan: str, prompts: str, tools: Mapping[ToolId, ToolVersion]) -> Versions:
        return _made(
            digest=_digest_of(replan, prompts, tools), replan=replan, prompts=prompts, tools=dict(tools)
        )

    def now(self, replan: str, prompts: str, resolve: Callable[[str], ToolSpec | None]) -> Versions:
        """What it is now: the very same where nothing is otherwise."""
        here = versions_of(self.tools, resolve)
        tools = {name: here.get(name) or _gone(version) for name, version in self.tools.items()}
        return (
            self if _digest_of(replan, prompts, tools) == self.digest else Versions.of(replan, prompts, tools)
        )

    def with_more(self, more: Versions) -> Versions:
        """The same with other tools too, as those are."""
        return Versions.of(self.replan, self.prompts, {**self.tools, **more.tools})


_made = unchecked(Versions)


def _digest_of(replan: str, prompts: str, tools: Mapping[ToolId, ToolVersion]) -> str:
    return digest("\x00".join([replan, prompts, *(f"{name} {_text(tools[name])}" for name in sorted(tools))]))


def versions_of(
    names: Iterable[ToolId], resolve: Callable[[str], ToolSpec | None]
) -> dict[ToolId, ToolVersion]:
    """Those of the tools that are there, each under its own id."""
    found = {spec.id: spec for name in names if (spec := resolve(name)) is not None and spec.id == name}
    return {name: version_of(spec) for name, spec in found.items()}


def _version_of(spec: ToolSpec) -> ToolVersion:
    rules: list[Any] = [spec.output_params, spec.secrets, spec.volatile, spec.stable, spec.waits]
    if spec.unique_by:  # else the digest is that of older logs
        rules.append(spec.unique_by)
    return ToolVersion(
        parameters=_digest(spec.parameters),
        output=_digest(spec.output_schema),
        effect=spec.effect,
        rules=_digest(rules),
        requires_approval=spec.requires_approval,
        honours_key=spec.honours_key,
        errors_are_clean=spec.errors_are_clean,
        source=spec.source,
    )


def _digest(value: Any) -> str:
    return digest(canonical(value))[:12]


version_of: ByIdentity[ToolVersion] = ByIdentity(_version_of, most=5000)
"""The version of a tool, found once."""
_text: ByIdentity[str] = ByIdentity(
    lambda version: canonical(version.model_dump(exclude={"source"})), most=5000
)

_WORDS = {
    "parameters": "its parameters",
    "output": "what it gives",
    "effect": "its effect",
    "rules": "its rules",
    "requires_approval": "whether a person has to agree",
    "honours_key": "whether it honours keys",
    "errors_are_clean": "what its errors mean",
}


def _gone(version: ToolVersion) -> ToolVersion:
    return version if version.gone else version.model_copy(update={"gone": True})


def changed(before: ToolVersion, now: ToolVersion) -> tuple[str, ...]:
    """The names of what is otherwise; `gone` alone for a tool that is not there any more, `back` for one that is again."""
    if now.gone:
        return () if before.gone else ("gone",)
    what = tuple(name for name in _WORDS if getattr(before, name) != getattr(now, name))
    return ("back", *what) if before.gone else what


def in_words(tool_id: ToolId, what: Iterable[str]) -> str:
    """What has changed about a tool, as a sentence's beginning."""
    names = list(what)
    if names == ["gone"]:
        return f"the tool {tool_id!r} is gone"
    if names == ["back"]:
        return f"the tool {tool_id!r} is there again"
    return f"the tool {tool_id!r} has changed ({', '.join(_WORDS.get(name, name) for name in names)})"


def stricter(before: ToolVersion, now: ToolVersion) -> dict[str, Any]:
    """What of a tool stays as it was for this task, since now it would be taken less strictly."""
    held: dict[str, Any] = {}
    if strength_of(before.effect) > strength_of(now.effect):
        held["effect"] = before.effect
    if before.requires_approval and not now.requires_approval:
        held["requires_approval"] = True
    if now.honours_key and not before.honours_key:
        held["honours_key"] = False
    if before.errors_are_clean is False and now.errors_are_clean is not False:
        held["errors_are_clean"] = False
    return held
