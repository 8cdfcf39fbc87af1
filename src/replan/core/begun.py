"""What a log says for whoever goes on with the task in another process: what it was begun with. Never a key."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from replan.core.events import Record, TaskForked, TaskResumed, TaskStarted, TaskSubmitted
from replan.core.ids import canonical
from replan.core.types import Frozen, JsonObject

APPROVAL = "approval"
"""Where `instead` has which calls need a person's yes from there on."""
_DEFAULT_PORTS = {"https": 443, "http": 80}


class Begun(Frozen):
    """What a task was begun with, beside its request and its policy, as the `settings` of `task_submitted` have it."""

    tools: tuple[str, ...] = ()
    """SPECs that were given with it."""
    unnamed: tuple[str, ...] = ()
    """Tools and sources of tools that only the program had which submitted it."""
    models: dict[str, str] = {}
    """By role."""
    unnamed_models: tuple[str, ...] = ()
    """Of them, those that were objects of that program."""
    endpoint: str | None = None
    endpoint_has_password: bool = False
    key_was_given: bool = False
    """By hand: no configuration has it."""
    proof: str | None = None
    """Of the key that models were asked with (`proof_of`). Empty: there was none. None: that is not known."""
    answer_type: str | None = None
    """Whose validators its answer has to pass, by name."""
    replay: str | None = None
    config_proof: str | None = None
    """That the database which the log is in has had that of its own submitters (`proof_of_config`)."""
    config: JsonObject | None = None
    """What of the configuration a task goes on with. None: an earlier release, which did not say."""
    ids: tuple[str, ...] | None = None
    """Of the tools that there were, where workers might go on with it."""
    folder: str | None = None
    """Where it was begun, and what relative places are relative to."""
    modules: tuple[str, ...] = ()
    """Folders that its tools were imported from."""

    @property
    def settings(self) -> JsonObject:
        """The form that an event has."""
        return self.model_dump(mode="json", exclude={"tools"}, exclude_defaults=True)


def begun_with(records: Iterable[Record]) -> Begun:
    """By the log: what was given in its place where the task was resumed counts for every later resumption, too."""
    found: JsonObject = {}
    for record in records:
        match record.event:
            case TaskSubmitted() as event:
                found = {**event.settings, "tools": event.tools}
            case TaskStarted() | TaskResumed() as event:
                found |= event.instead
            case TaskForked() as event:
                if event.settings is not None:
                    found = {**event.settings, "tools": found.get("tools", ())}
                if event.tools is not None:
                    found["tools"] = event.tools
            case _:
                pass
    try:
        return Begun.model_validate(found)
    except ValidationError as error:  # of another release: what can be read of it
        odd = {one["loc"][0] for one in error.errors()}
        return Begun.model_validate({name: value for name, value in found.items() if name not in odd})


def wants_yes(settings: JsonObject) -> tuple[tuple[str, bool], ...]:
    """By the `[tools.rules]` that such settings have: patterns of tools, and whether calls of those need a person's yes. The later over the earlier."""
    found: Any = settings
    for name in ("config", "tools", "rules"):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return ()
    said = (
        (pattern, rule.get("requires_approval")) for pattern, rule in found.items() if isinstance(rule, dict)
    )
    rules = tuple((pattern, wanted) for pattern, wanted in said if isinstance(wanted, bool))
    return rules if any(wanted for _, wanted in rules) else ()


def begun_anew(begun: Begun, now: Begun) -> Begun:
    """With what the task goes on, where that is what whoever drives it has `now`."""
    return now.model_copy(update={"ids": begun.ids, "answer_type": begun.answer_type})


def given_instead(begun: Begun, anew: Begun) -> JsonObject:
    """What an event has to say of a drive that goes on with something else."""
    before, after = (one.model_dump(mode="json") for one in (begun, anew))
    return {name: value for name, value in after.items() if before[name] != value}


def destinations(
    endpoint: str | None,
    models: Iterable[str],
    fallback_endpoint: str | None = None,
    service: str | None = None,
) -> frozenset[str]:
    """Whom a key is told with which these models are asked: the origins of addresses, or providers.

    `service`: whose instances are looked for, and asked before those addresses.
    """
    found = frozenset() if service is None else frozenset({f"service {service}"})
    if endpoint is not None or found:
        return found | frozenset(map(_origin, filter(None, (endpoint, fallback_endpoint))))
    return frozenset(
        f"{provider}:" for name in models if (provider := name.partition(":")[0]) not in ("", "local")
    )


def proof_of(seal_key: bytes, key: str, places: Iterable[str]) -> str:
    """That whoever has submitted a task had this very key, and sent it to these places: nobody else can make it."""
    text = "\x00".join([key, *sorted(places)])
    return hmac.new(seal_key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:32]


def proof_of_config(seal_key: bytes, config: JsonObject) -> str:
    """That this was written by a process of this database: a log from elsewhere may say what it likes."""
    return hmac.new(
        seal_key, f"config\x00{canonical(config)}".encode("utf-8", "surrogatepass"), "sha256"
    ).hexdigest()[:32]


def _origin(address: str) -> str:
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port = parts.port
    except ValueError:
        return address
    return f"{parts.scheme}://{parts.hostname or ''}:{port or _DEFAULT_PORTS.get(parts.scheme, '')}"
