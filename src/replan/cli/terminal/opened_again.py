"""Opening what a task goes on with here: in its folder, with what takes the place of files of tools that are gone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replan.cli.terminal.going_on import Given, GoingOn, enter_folder, going_on
from replan.cli.terminal.terminal import say
from replan.errors import InputError

if TYPE_CHECKING:
    from replan.app import Replan
    from replan.config import Settings
    from replan.core.begun import Begun
    from replan.core.state.task import State
    from replan.core.types import JsonObject

_FILE = re.compile(r"(?P<kind>openapi:)?(?P<place>[^#:]+)(?P<rest>[#:].*)?", re.IGNORECASE | re.DOTALL)


class Opened(NamedTuple):
    replan: Replan
    chosen: GoingOn
    begun: Begun
    given: bool
    """Something else than the log says: the log is to be told."""
    approve: str | None = None
    """Which calls need a person's yes, where somebody has said so just now, the same as the log or not."""

    async def anew(self) -> Begun:
        """With what the task goes on from here on; `replan` has been entered."""
        from replan.core.begun import begun_anew

        return begun_anew(self.begun, await self.replan.begun()) if self.given else self.begun

    async def instead(self) -> JsonObject:
        """What the log has to say of whoever goes on; `replan` has been entered."""
        from replan.core.begun import APPROVAL, given_instead

        instead = given_instead(self.begun, await self.anew())
        mode = self.chosen.approval or self.approve
        return instead if mode is None else {**instead, APPROVAL: mode}


def opened_again(
    task_id: str,
    begun: Begun,
    own: Settings,
    given: Given,
    state: State,
    *,
    calls: bool,
    seal_key: bytes,
    db: str,
) -> Opened:
    """A `Replan` that goes on with the task; not entered. `InputError` says what is gone, and what to give in its place."""
    chosen = going_on(begun, own, given, state.policy, asks=state.modelled, calls=calls, seal_key=seal_key)
    here = Path.cwd()
    if given.tools:  # they are named from here
        sources = [_absolute(one, Path(begun.folder or ".")) for one in chosen.settings.tools.sources]
        chosen, told = _with_sources(chosen, sources), ""
    else:
        told = enter_folder(begun)
    replaced: list[str] = []
    try:
        replan = _open(chosen, db)
    except InputError as error:
        chosen, replaced = _without_gone(chosen, begun, own, given, here, error)
        replan = _open(chosen, db)
    if lines := [*chosen.told[:1], *filter(None, [told]), *chosen.told[1:], *replaced]:
        say(f"{task_id} goes on with what it was begun with: {'; '.join(lines)}")
    return Opened(replan, chosen, begun, given.any or bool(replaced), given.approve)


def _open(chosen: GoingOn, db: str) -> Replan:
    from replan.cli.terminal.opening import driven_here, open_replan

    return open_replan(
        driven_here(chosen.settings),
        tools=chosen.tools,
        model=chosen.model,
        endpoint=chosen.endpoint,
        api_key=chosen.key,
        replay=chosen.replay,
        db=db,
    )


def _without_gone(
    chosen: GoingOn, begun: Begun, own: Settings, given: Given, here: Path, error: InputError
) -> tuple[GoingOn, list[str]]:
    """The same with what is given, or configured here, in place of what can no longer be loaded; the `error` where nothing is."""
    of_log, sources = [] if given.tools else chosen.tools, chosen.settings.tools.sources
    gone = [spec for spec in (*of_log, *sources) if not _loads(spec)]
    named = [_absolute(spec, here) for spec in own.tools.sources]
    instead = [
        spec for spec in named if _same(spec, here) not in {_same(one, here) for one in (*of_log, *sources)}
    ]
    if not gone:
        raise error
    if not (instead or given.tools):
        what = " ".join(
            [*(f"--tools {spec}" for spec in begun.tools), *(f"the configured {spec}" for spec in sources)]
        )
        where = f"in {begun.folder}" if begun.folder else "in the folder in which it was begun"
        raise InputError(
            f"{error}. The task was begun with {what} {where}: resume it there, or give its tools anew with --tools, or as "
            "[tools] sources of the configuration here"
        ) from error
    kept = [spec for spec in sources if spec not in gone]
    chosen = _with_sources(chosen, [*kept, *instead])
    chosen = chosen._replace(tools=[spec for spec in chosen.tools if spec not in gone or given.tools])
    told = f"{', '.join(gone)} is not to be had any more: {', '.join([*given.tools, *instead])} in its place"
    return chosen, [told]


def _with_sources(chosen: GoingOn, sources: Sequence[str]) -> GoingOn:
    if tuple(sources) == chosen.settings.tools.sources:
        return chosen
    tools = chosen.settings.tools.model_copy(update={"sources": tuple(sources)})
    return chosen._replace(settings=chosen.settings.model_copy(update={"tools": tools}))


def _loads(spec: str) -> bool:
    from replan.cli.terminal.terminal import own_stdout
    from replan.tools.specs import load_sources

    try:
        with own_stdout():
            load_sources(spec)
    except InputError:
        return False
    return True


def _same(spec: str, folder: Path) -> str:
    from replan.tools.specs import same_spec

    return same_spec(_absolute(spec, folder))


def _absolute(spec: str, folder: Path) -> str:
    """The SPEC of a file that is in that folder by its whole path, wherever the process goes to; any other as it is."""
    found = _FILE.fullmatch(spec)
    if found is None:
        return spec
    path = folder / Path(found["place"]).expanduser()
    try:
        return f"{found['kind'] or ''}{path.absolute()}{found['rest'] or ''}" if path.is_file() else spec
    except (OSError, ValueError):
        return spec
