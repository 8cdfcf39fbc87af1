"""`replan keys create|list|revoke|limits`: who may call the service, and what tenants may use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replan.cli.terminal import options
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.terminal import own_stdout, say
from replan.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from replan.core.types import JsonObject
    from replan.ports import Clock, Keys, StoredKey

keys_app = typer.Typer(
    name="keys",
    help="API keys of the service, and what its tenants may use.",
    cls=Listed,
    no_args_is_help=True,
    rich_markup_mode=None,
)
Tenant = Annotated[
    str,
    typer.Option("--tenant", metavar="NAME", help="Whose tasks it is for; default: those of the command."),
]
_UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
LAST_DAY = 253_370_764_800.0
"""The first of the year 9999."""
_LIMITS = {
    "tasks": "max_unfinished_tasks",
    "rate": "submits",
    "cost_per_task": "max_cost_usd_per_task",
    "tokens_per_task": "max_tokens_per_task",
    "cost_per_day": "max_cost_usd_per_day",
    "tokens_per_day": "max_tokens_per_day",
}


@keys_app.command()
def create(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What logs say of who did something.")],
    tenant: Tenant = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="read, run, approve or admin; several times. Default: read and run.",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="TIME", help="90d, 12h, or a day like 2027-01-31 (UTC); default: never."
        ),
    ] = None,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
) -> None:
    """Make a key and print it, this once: only a digest of it is kept."""
    from replan.server.auth.keys import create_key

    async def made(keys: Keys, clock: Clock) -> tuple[str, StoredKey]:
        now = clock.now()
        end = None if expires is None else _end(expires, now)
        return await create_key(
            keys, name=name, tenant=tenant, scopes=scope or ("read", "run"), now=now, expires=end
        )

    with own_stdout() as out:
        text, key = _with_keys(config, db, made, make=True)
        if json:
            out.json({"key": text, **_shown(key)})
            return
        out.line(text)
        whose = f"tenant {key.tenant!r}" if key.tenant else "the command's own tasks"
        if not key.tenant and "admin" in key.scopes:
            whose = "the tasks of every tenant"
        end = f"until {_day(key.expires)}" if key.expires is not None else "until it is revoked"
        say(f"for {whose}, with {', '.join(key.scopes)}, {end}; it is not shown again (id {key.key_id})")


@keys_app.command(name="list")
def list_keys(
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Of that one alone; default: all.")
    ] = None,
    revoked: Annotated[bool, typer.Option("--all", help="Those that are revoked or expired, too.")] = False,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
) -> None:
    """List keys: whose they are, what they may do, and when they were used last."""

    async def found(keys: Keys, clock: Clock) -> list[StoredKey]:
        now = clock.now()
        good = [(key, _state(key, now) == "good") for key in await keys.list_keys(tenant)]
        return [key for key, is_good in good if is_good or revoked]

    with own_stdout() as out:
        listed = _with_keys(config, db, found)
        if json:
            out.json({"keys": [_shown(key) for key in listed]})
            return
        if not listed:
            say("there are no keys" if revoked else "there are no good keys (`--all`: those that were)")
        for key in listed:
            out.line(_in_words(key))


@keys_app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its id, its name, or the key itself.")],
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Whose, where several have that name.")
    ] = None,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
) -> None:
    """Have a key count no more: services that run see it within 5 seconds."""

    async def done(keys: Keys, clock: Clock) -> tuple[StoredKey, bool]:
        found = _meant(key, await keys.list_keys(tenant))
        new = await keys.revoke_key(found.key_id, clock.now())
        return await keys.key(found.key_id) or found, new

    with own_stdout() as out:
        revoked, new = _with_keys(config, db, done)
        if json:
            out.json(_shown(revoked))
        elif new:
            say(
                f"key {revoked.name!r} ({revoked.key_id}) is revoked: within 5 seconds nobody gets in with it"
            )
        else:
            say(f"key {revoked.name!r} ({revoked.key_id}) was revoked before, on {_day(revoked.revoked)}")


@keys_app.command()
def limits(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help='Its name; "" is that of the command.')],
    tasks: Annotated[
        str | None,
        typer.Option(
            "--tasks", metavar="N", help="Unfinished tasks; none: no such limit; default: as [limits] says."
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="Submits in a time, like 10/second or 600/minute."),
    ] = None,
    cost_per_task: Annotated[
        str | None, typer.Option("--cost-per-task", metavar="USD", help="What one task may cost.")
    ] = None,
    tokens_per_task: Annotated[
        str | None, typer.Option("--tokens-per-task", metavar="N", help="Tokens that one task may use.")
    ] = None,
    cost_per_day: Annotated[
        str | None,
        typer.Option(
            "--cost-per-day", metavar="USD", help="What the tasks of a day (UTC) may cost together."
        ),
    ] = None,
    tokens_per_day: Annotated[
        str | None,
        typer.Option(
            "--tokens-per-day", metavar="N", help="Tokens that the tasks of a day may use together."
        ),
    ] = None,
    config: options.Config = None,
    db: options.Db = None,
    json: options.Json = False,
) -> None:
    """Show what a tenant may use, or set some of it: a number, `none`, or `default` for what the configuration says."""
    from replan.run.access.callers import checked_tenant
    from replan.run.access.tenants.limits import checked_limits, limits_of

    given = {
        "tasks": tasks, "rate": rate, "cost_per_task": cost_per_task, "tokens_per_task": tokens_per_task,
        "cost_per_day": cost_per_day, "tokens_per_day": tokens_per_day,
    }  # fmt: skip
    checked_tenant(tenant)

    async def kept(keys: Keys, clock: Clock) -> JsonObject:
        own = dict(await keys.tenant_limits(tenant) or {})
        for option, text in given.items():
            if text == "default":
                own.pop(_LIMITS[option], None)
            elif text is not None:
                own[_LIMITS[option]] = _limit(option, text)
        if any(text is not None for text in given.values()):
            await keys.set_tenant_limits(tenant, checked_limits(own) or None)
        return own

    from replan.cli.terminal.opening import settings_of

    with own_stdout() as out:
        own = _with_keys(config, db, kept, make=True)
        binding = limits_of(settings_of(config).limits, own).model_dump()
        if json:
            out.json({"tenant": tenant, "limits": binding, "own": own})
            return
        for name, value in binding.items():
            said = "none" if value is None else str(value)
            out.line(f"{name:<22} {said}{'' if name in own else '  (by the configuration)'}")


def _with_keys(
    config: Path | None, db: str | None, work: Callable[[Keys, Clock], Awaitable[Any]], *, make: bool = False
) -> Any:
    """What the work on the keys of the database comes to. `make`: also where there is no database yet."""
    import asyncio

    from replan.cli.terminal.opening import open_replan, open_stored, settings_of, without_tools
    from replan.ports import HasKeys

    async def main() -> Any:
        settings = settings_of(config)
        opened = open_replan(without_tools(settings), db=db) if make else open_stored(settings, db)
        async with opened as replan:
            parts = replan.service.parts
            if not isinstance(parts.store, HasKeys):
                raise InputError(f"{parts.store.shown} keeps no keys")
            return await work(parts.store.keys(), parts.clock)

    return asyncio.run(main())


def _meant(said: str, keys: list[StoredKey]) -> StoredKey:
    whole = re.fullmatch(r"rpk_([0-9a-f]{16})_[0-9a-f]{64}", said.strip())
    wanted = whole[1] if whole else said
    if found := [key for key in keys if key.key_id == wanted]:
        return found[0]
    named = [key for key in keys if key.name == said and not whole]
    named = [key for key in named if key.revoked is None] or named[:1]
    if not named:
        raise InputError("there is no such key; `replan keys list --all` shows those that there are")
    if len(named) > 1:
        whose = ", ".join(repr(key.tenant) for key in named)
        raise InputError(f"several tenants have a key {said!r} ({whose}): say --tenant, or give its id")
    return named[0]


def _limit(option: str, text: str) -> Any:
    if text == "none":
        return None
    if option == "rate":
        return text
    try:
        return float(text) if option.startswith("cost") else int(text)
    except ValueError:
        raise InputError(f"--{option.replace('_', '-')} {text!r}: write a number, none, or default") from None


def _end(text: str, now: float) -> float:
    from datetime import UTC, datetime

    if found := re.fullmatch(r"([0-9]{1,6})([mhdw])", text):
        return _bounded(now + int(found[1]) * _UNITS[found[2]])
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--expires {text!r}: write 90d, 12h, or a day like 2027-01-31") from None
    return _bounded((end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp())


def _bounded(end: float) -> float:
    if end > LAST_DAY:
        raise InputError("--expires: that is too far away; leave it out for a key that does not expire")
    return end


def _shown(key: StoredKey) -> JsonObject:
    """All but the digest."""
    shown = key._asdict()
    del shown["digest"]
    return {**shown, "scopes": list(key.scopes)}


def _state(key: StoredKey, now: float) -> str:
    if key.revoked is not None:
        return "revoked"
    return "expired" if key.expires is not None and now >= key.expires else "good"


def _in_words(key: StoredKey) -> str:
    parts = [
        key.key_id,
        key.name,
        f"tenant {key.tenant}" if key.tenant else "no tenant",
        ",".join(key.scopes),
        f"made {_day(key.created)}",
        f"used {_day(key.last_used)}" if key.last_used is not None else "never used",
    ]
    if key.revoked is not None:
        parts.append(f"revoked {_day(key.revoked)}")
    elif key.expires is not None:
        parts.append(f"expires {_day(key.expires)}")
    return "  ".join(parts)


def _day(ts: float | None) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(ts or 0, UTC):%Y-%m-%d %H:%M} UTC"
