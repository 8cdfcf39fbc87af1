"""Samples of the data behind tools: a few rows, or what there is, for whoever plans. Small, and without what is secret."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from replan.core.data.strict_json import NotStorable, write_strictly
from replan.core.secrets import MASK, secret_places, secrets_of_schema, with_places, without_secrets_said
from replan.core.types import JsonObject, ToolId, ToolSpec
from replan.core.words import in_digits

MOST_BYTES = 2_048
"""Of one sample, as JSON."""


def sample_problem(sample: Any) -> str:
    """Why this is no sample; empty if it is one."""
    try:
        size = len(write_strictly(sample))
        json.dumps(
            sample
        )  # as it is shown: of sets, dates and models there is a form in JSON, but they are none
    except (NotStorable, RecursionError, TypeError) as error:
        return f"a sample is JSON: {error}"
    if size > MOST_BYTES:
        return f"a sample has at most {in_digits(MOST_BYTES)} bytes of JSON, and this has {in_digits(size)}: give fewer rows, or less of each"
    return ""


def with_seen_sample(spec: ToolSpec) -> ToolSpec:
    """The tool with its sample as it may be seen: what its schema calls secret, stands under such a name or looks like one is masked."""
    if spec.sample is None:
        return spec
    found = {".".join(path): MASK for path, _ in secret_places(spec.sample)}
    seen = with_places(spec.sample, found) if found else spec.sample
    hidden = {value for _, value in secrets_of_schema(spec.output_schema, spec.sample)}
    seen = _without(seen, hidden)
    return spec if seen == spec.sample else spec.put(sample=seen)


def _without(value: Any, hidden: set[Any]) -> Any:
    if isinstance(value, dict):
        return {without_secrets_said(name): _without(one, hidden) for name, one in value.items()}
    if isinstance(value, list):
        return [_without(one, hidden) for one in value]
    if hidden and isinstance(value, str | int | float) and value in hidden:
        return MASK
    return without_secrets_said(value) if isinstance(value, str) else value


def without_sample(spec: ToolSpec) -> ToolSpec:
    """The tool without any row of its data, in its description neither."""
    if spec.sample is None and not spec.plain_description:
        return spec
    return spec.put(sample=None, description=spec.plain_description or spec.description, plain_description="")


def as_many_as_fit(rows: Mapping[str, Sequence[Any]]) -> JsonObject | None:
    """The first of these groups that make a sample; None if none does."""
    found: JsonObject = {}
    for name, some in rows.items():
        more = {**found, name: list(some)}
        if sample_problem(more):
            break
        found = more
    return found or None


def shown_samples(tools: Iterable[ToolSpec], most: int) -> dict[ToolId, str]:
    """The samples that are shown within so many characters, each as a line, by the tools that have the very same one."""
    by_text: dict[str, list[ToolId]] = {}
    for tool in tools:
        if tool.sample is not None:
            by_text.setdefault(json.dumps(tool.sample, ensure_ascii=False), []).append(tool.id)
    found: dict[ToolId, str] = {}
    for text, names in by_text.items():
        line = f"{', '.join(names)}: {text}"
        if len(line) <= most:
            most -= len(line)
            found |= dict.fromkeys(names, line)
    return found
