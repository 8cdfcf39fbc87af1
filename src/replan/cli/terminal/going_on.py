"""With what a task goes on here: by its log, by the options that are given over it, and by what only this process has."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replan.cli.terminal.stricter_here import approval_of, as_begun, told_of
from replan.core.begun import Begun, destinations, proof_of, proof_of_config
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.core.limits.policy import Policy
    from replan.wiring import ModelChoice


class Given(NamedTuple):
    """The options of the command."""

    tools: Sequence[str]
    model: str | None
    endpoint: str | None
    key: str | None
    approve: str | None = None

    def is_elsewhere(self, begun: Begun) -> bool:
        """Models are asked at another place: nothing that the log says of how they were holds for them."""
        if self.endpoint is not None:
            return not self._names(begun.endpoint)
        return self.model is not None and ":" in self.model

    def _names(self, endpoint: str | None) -> bool:
        from replan.core.secrets import url_without_secrets

        return self.endpoint is not None and url_without_secrets(self.endpoint) == endpoint

    @property
    def any(self) -> bool:
        return bool(self.tools or self.model or self.endpoint or self.key or self.approve)


class GoingOn(NamedTuple):
    """What a `Replan` is opened with."""

    settings: Settings
    tools: list[str]
    model: ModelChoice
    endpoint: str | None
    key: str | None
    replay: Path | None
    told: list[str]
    """What of it comes from the log, in words for people."""
    approval: str | None = None
    """Which calls need a person's yes from here on; None: as the log says."""


def going_on(
    begun: Begun, own: Settings, given: Given, policy: Policy, *, asks: bool, calls: bool, seal_key: bytes
) -> GoingOn:
    """What it goes on with. `asks`: a model may be asked; `calls`: tools may be called. `InputError` says what cannot be had and what to give for it.

    Of what the log says nothing is taken for a key: which key there is, and where it may go, is for this process to say.
    """
    from replan.config.recorded import SECTIONS
    from replan.config.recorded import going_on as merged
    from replan.wiring import Models

    elsewhere = given.is_elsewhere(begun)
    sections = [name for name in SECTIONS if not (elsewhere and name == "llm")]
    trusted = begun.config is None or begun.config_proof == proof_of_config(seal_key, begun.config)
    settings, changed = (
        (own, ())
        if begun.config is None
        else merged(begun.config, own, sections, trusted=trusted, rules=not as_begun(given.approve, policy))
    )
    tools = list(given.tools) or _tools_of(begun, calls=calls)
    endpoint, model = given.endpoint, given.model
    replay = None
    if asks and not elsewhere:
        _check_models(begun, given)
        endpoint = given.endpoint or _endpoint_of(begun, settings)
        if begun.replay is not None and given.model is None:
            replay = _replay_of(begun.replay)
    choice: ModelChoice = model
    if choice is None and not (elsewhere and given.endpoint) and all(begun.models.values()):
        choice = begun.models or None  # type: ignore[assignment] # by role
    if asks and not elsewhere and replay is None and not given.key and not given.endpoint:
        wanted = Models(
            settings, model=choice, endpoint=endpoint
        ).destinations()  # what will be done, not what is said
        settings = _with_key(begun, settings, own, wanted, seal_key)
    told = [_line(begun, given, settings, replay, models=asks and not elsewhere)]
    approval = approval_of(own, given.approve, policy)
    mode = approval or policy.approval  # it has been decided here which of them counts
    settings = settings.model_copy(update={"approval": settings.approval.model_copy(update={"mode": mode})})
    told += told_of(changed, own, given.approve, approval, rules=not as_begun(given.approve, policy))
    lines = [line for line in told if line]
    return GoingOn(settings, tools, choice, endpoint, given.key, replay, lines, approval)


def enter_folder(begun: Begun) -> str:
    """Go to where the task was begun, so that relative places mean what they meant there. What is to be said of it."""
    sys.path += [folder for folder in begun.modules if folder not in sys.path and _is_folder(folder)]
    if begun.folder is None or begun.folder == str(Path.cwd()):
        return ""
    try:
        os.chdir(begun.folder)
    except (OSError, ValueError):
        return f"the folder {begun.folder}, in which the task was begun, is not here: relative places are looked for in this one"
    return f"in {begun.folder}, where it was begun"


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def _tools_of(begun: Begun, *, calls: bool) -> list[str]:
    """The tools that the task was begun with, if the log has all that they were named with."""
    from replan.core.secrets import MASK

    if not calls:
        return [spec for spec in begun.tools if MASK not in spec]
    if masked := [spec for spec in begun.tools if MASK in spec]:
        raise InputError(
            f"the task was begun with --tools {masked[0]!r}, whose secret no log keeps: give all its tools again "
            "with --tools"
        )
    if begun.unnamed:
        raise InputError(
            f"the task was begun with tools that only its program has ({', '.join(begun.unnamed[:10])}): go on with it there, by "
            "Replan.resume, or give its tools with --tools"
        )
    return list(begun.tools)


def _check_models(begun: Begun, given: Given) -> None:
    if begun.unnamed_models and given.model is None:
        raise InputError(
            f"the task was begun with a model that only its program has ({', '.join(begun.unnamed_models)}): go on with it there, "
            "by Replan.resume, or give a model with --model"
        )


def _endpoint_of(begun: Begun, settings: Settings) -> str | None:
    """Where the task's models were asked, if the settings do not say that already."""
    from replan.core.secrets import url_without_secrets

    if begun.endpoint is None or begun.endpoint == url_without_secrets(settings.llm.endpoint or ""):
        return None
    if begun.endpoint_has_password:
        raise InputError(
            f"the task was begun with the endpoint {begun.endpoint}, whose password no log keeps: give the whole address "
            "again with --endpoint (or another --model)"
        )
    return begun.endpoint


def _replay_of(path: str) -> Path:
    if not Path(path).is_file():
        raise InputError(
            f"the task was begun with --replay {path}, which is not there any more: give a model with --model"
        )
    return Path(path)


def _with_key(
    begun: Begun, settings: Settings, own: Settings, wanted: frozenset[str], seal_key: bytes
) -> Settings:
    """The settings with a key that may go where it is `wanted`, or with none."""
    key = own.llm.api_key
    if not key:
        if begun.key_was_given or begun.proof:
            raise InputError(
                "the task was begun with a key for the model, which no log keeps: give it again with --api-key, or as "
                "APP_LLM_API_KEY in the environment"
            )
        return settings
    if not wanted - own_destinations(own) or begun.proof == proof_of(seal_key, key, wanted):
        return settings
    if begun.proof != "" and not _agreed(wanted):
        where = " and ".join(sorted(wanted))
        raise InputError(
            f"the task's log names {where} for its models, and the settings here do not: their key is not sent there. "
            f"Say so with --endpoint {begun.endpoint or 'URL'} if it may be, give a key for it with --api-key, or another --model"
        )
    kept = settings.llm.api_key if begun.proof != "" else None  # it was begun without one
    return settings.model_copy(update={"llm": settings.llm.model_copy(update={"api_key": kept})})


def own_destinations(own: Settings) -> frozenset[str]:
    """Whom the settings of this process name for their key."""
    from replan.wiring import ROLES, discovery_of

    llm = own.llm
    service = llm.service_name if discovery_of(own).models is not None else None
    if llm.endpoint is not None or service is not None:
        return destinations(llm.endpoint, (), llm.fallback_endpoint, service)
    roles = (getattr(llm, f"{role}_model") for role in ROLES)
    return destinations(None, filter(None, (llm.default_model, *roles)))


def _agreed(wanted: frozenset[str]) -> bool:
    """Ask a person at the terminal, where there is one."""
    from replan.cli.terminal.opening import interactive

    if not interactive():
        return False
    import typer

    where = " and ".join(sorted(wanted))
    return typer.confirm(
        f"The task's log names {where} for its models, and your settings do not. Send your key there?",
        default=False,
        err=True,
    )


def _line(begun: Begun, given: Given, settings: Settings, replay: Path | None, *, models: bool) -> str:
    """What comes from the log."""
    from replan.core.secrets import url_without_secrets

    parts = [] if given.tools else [f"--tools {spec}" for spec in begun.tools]
    if begun.config is not None:
        tools = settings.tools
        named = [*tools.sources, *tools.mcp_servers, *tools.openapi]
        service = settings.tool_service.endpoint
        parts += [f"the configured {name}" for name in (*named, *([service] if service else []))]
    if models:
        names = ", ".join(
            dict.fromkeys(filter(None, [given.model or ""] if given.model else begun.models.values()))
        )
        if replay is not None:
            parts.append(f"the answers of {replay}")
        elif names and not given.model:
            parts.append(f"the model {names}")
        endpoint = begun.endpoint or settings.llm.endpoint
        if endpoint and not given.endpoint and replay is None:
            parts.append(f"the endpoint {url_without_secrets(endpoint)}")
    return f"from its log: {', '.join(parts)}" if parts else ""
