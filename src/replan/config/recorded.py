"""What a task keeps of the configuration in its log, so that it goes on alike where that is another one, or none."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from replan.config.sections import (
    Approval,
    BudgetSection,
    Llm,
    Orchestrator,
    Recovery,
    Reflection,
    Section,
    Settings,
    ToolRuleTable,
    Tools,
    ToolService,
)
from replan.core.begun import destinations
from replan.core.secrets import MASK, settings_without_secrets
from replan.core.types import JsonObject
from replan.errors import InputError

S = TypeVar("S", bound=Section)
_NOT_OF_LLM = {
    "api_key",
    "service_name",
    "protocol",
    "max_streaming_indicators",
    "providers",
    "limits",
    "ca_file",
}
_NOT_OF_SERVICE = {"token", "service_name"}
"""Of each process by itself: its keys, and the services that its registry knows. A log must not say to whom a name leads."""
_HOLD_SECRETS = {
    "llm": ("endpoint", "fallback_endpoint"),
    "tools": ("sources", "mcp_servers", "openapi"),
    "tool_service": ("endpoint", "fallback_endpoint"),
}


_OF_THE_PROCESS = {"max_concurrent_tasks", "lend_place_after_secs"}
_OF_POLICY: dict[str, type[Section]] = {
    "approval": Approval,
    "budget": BudgetSection,
    "orchestrator": Orchestrator,
    "recovery": Recovery,
    "reflection": Reflection,
}
"""What these say stands in the task's policy, too: that is what counts."""
SECTIONS = (*_HOLD_SECRETS, *_OF_POLICY)
_STRICT = {"[tools] deny", "[tools] rules", "[approval] mode"}
"""Keys of which is told, too, that they are set no more."""


def recorded(settings: Settings) -> JsonObject:
    """What is kept: how models are asked, where tools come from, what is decided about them, and what a task is allowed. Without secrets."""
    sections: dict[str, JsonObject] = {
        "llm": settings.llm.model_dump(mode="json", exclude=_NOT_OF_LLM, exclude_unset=True),
        "tools": settings.tools.model_dump(mode="json", exclude_unset=True),
        "tool_service": settings.tool_service.model_dump(
            mode="json", exclude=_NOT_OF_SERVICE, exclude_unset=True
        ),
    }
    for name, section in sections.items():
        section |= {key: _shown(section[key]) for key in _HOLD_SECRETS[name] if key in section}
    for name in _OF_POLICY:
        own: Section = getattr(settings, name)
        sections[name] = own.model_dump(mode="json", exclude=_OF_THE_PROCESS, exclude_unset=True)
    return {name: section for name, section in sections.items() if section or name in _OF_POLICY}


class GoesOn(NamedTuple):
    """The settings that a task goes on with here."""

    settings: Settings
    changed: tuple[str, ...]
    """Keys for which the configuration here says something else, which does not count."""


def going_on(
    log: JsonObject,
    own: Settings,
    sections: Collection[str] = SECTIONS,
    *,
    trusted: bool = True,
    rules: bool = True,
) -> GoesOn:
    """The log's settings in these sections, with what only the configuration here has: keys, passwords, and what it forbids.

    `trusted`: the log is this database's own. Of another the environment here is shown nothing, unless the configuration here
    has the very same entry. `rules`: what needs a person's yes by those of the configuration here needs it. `InputError` for what the log had to leave a secret out of, where the configuration here has no such entry.
    """
    changes: dict[str, Section] = {}
    if "llm" in sections:
        changes["llm"] = _section("llm", Llm, log, own.llm, keep=_NOT_OF_LLM)
    if "tools" in sections:
        changes["tools"] = _restricted(
            _section("tools", Tools, log, own.tools, trusted=trusted), own.tools, rules=rules
        )
    if "tool_service" in sections:
        service = _section("tool_service", ToolService, log, own.tool_service, keep=_NOT_OF_SERVICE)
        there, here = (
            destinations(one.endpoint or one.fallback_endpoint, (), one.fallback_endpoint)
            for one in (service, own.tool_service)
        )
        if service.token and there - here:
            raise InputError(
                f"the task's log names the tool service {' and '.join(sorted(there - here))}, and the configuration here does "
                "not: its token is not sent there. Name it as [tool_service] endpoint, or leave the token out"
            )
        changes["tool_service"] = service
    for name, model in _OF_POLICY.items():
        if name in sections:
            changes[name] = _section(name, model, log, getattr(own, name), keep=_OF_THE_PROCESS)
    return GoesOn(own.model_copy(update=changes), tuple(_differing(log, recorded(own), sections)))


def _differing(log: JsonObject, here: JsonObject, sections: Collection[str]) -> Iterator[str]:
    """Keys that are set otherwise here than where the task was begun; of what a task is forbidden also those that are set no more."""
    for name in sections:
        if name in _OF_POLICY and name not in log:  # of an earlier release, which kept none of them
            continue
        there, own, unset = log.get(name, {}), here.get(name, {}), _unset(name)
        there = unset | (there if isinstance(there, dict) else {})
        keys = [*own, *(key for key in there if key not in own and f"[{name}] {key}" in _STRICT)]
        yield from (f"[{name}] {key}" for key in keys if there.get(key) != (unset | own)[key])


@cache
def _unset(name: str) -> JsonObject:
    """A section in which nothing is set, as a log would have it."""
    section: Section = getattr(Settings(), name)
    return section.model_dump(mode="json")


def _section(
    name: str, model: type[S], log: JsonObject, own: S, *, keep: Collection[str] = (), trusted: bool = True
) -> S:
    """A section as the log has it; `keep`: keys that are those of the configuration here."""
    found = log.get(name, {})
    if isinstance(found, dict):
        found = {key: value for key, value in found.items() if key in model.model_fields}  # of this release
    _read(name, model, found)
    values: JsonObject = {}
    for key, value in found.items():
        mine, where = getattr(own, key), f"[{name}] {key}"
        if key not in _HOLD_SECRETS.get(name, ()):
            values[key] = value
        elif isinstance(value, dict):
            values[key] = {
                one: _filled(f"{where}.{one}", each, mine.get(one), trusted=trusted)
                for one, each in value.items()
            }
        elif isinstance(value, list):
            values[key] = [_filled(where, each, *mine, trusted=trusted) for each in value]
        else:
            values[key] = _filled(where, value, mine, trusted=trusted)
    values |= {key: getattr(own, key) for key in keep if key in own.model_fields_set}
    return _read(name, model, values)


def _read(name: str, model: type[S], values: Any) -> S:
    try:
        return model.model_validate_json(json.dumps(values))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        where = " ".join([f"[{name}]", *map(str, wrong["loc"])])
        raise InputError(
            f"the task was begun with {where} in a form that this release does not take ({wrong['msg']}): resume it "
            "with the release that it was begun with, or give what it needs with --tools, --model and --endpoint"
        ) from None


def _shown(value: Any) -> Any:
    """Without secrets. Each entry by itself, so that no name of a table is a reason to hide all that is in it."""
    if isinstance(value, dict):
        return {name: settings_without_secrets(one) for name, one in value.items()}
    return settings_without_secrets(value)


def _filled(where: str, kept: Any, *mine: Any, trusted: bool) -> Any:
    """What the log has, or where a secret was left out of it the same of the configuration here."""
    masked = any(MASK in text for text in _texts(kept))
    if not masked and (trusted or not any("${" in text for text in _texts(kept))):
        return kept
    for own in mine:
        if own is not None and settings_without_secrets(own) == kept:
            return own
    if not masked:
        raise InputError(
            f"the task comes from another database, and its log has variables of the environment in {where} = "
            f"{json.dumps(kept)[:300]}: they are filled in only where the configuration here has the very same entry"
        )
    raise InputError(
        f"the task was begun with {where} = {json.dumps(kept)[:300]}, whose secret no log keeps, and the configuration here has "
        "no such entry: set it as it was, or give what it is for with --tools or --endpoint"
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _restricted(tools: Tools, own: Tools, *, rules: bool) -> Tools:
    """What is forbidden here, and with `rules` what needs a person's yes here, stays so, whatever a log says."""
    found = dict(tools.rules)
    for pattern, rule in own.rules.items():
        if rules and rule.requires_approval:  # last: the later over the earlier
            known = found.pop(pattern, ToolRuleTable())
            found[pattern] = known.model_copy(update={"requires_approval": True})
    deny = (*tools.deny, *(pattern for pattern in own.deny if pattern not in tools.deny))
    stricter = {"deny": deny, "rules": found}
    return tools.model_copy(
        update={key: value for key, value in stricter.items() if value != getattr(tools, key)}
    )
