"""`replan keys`: what it makes lets in whoever has it, until it is revoked, and is read nowhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_process import replan

from replan import Replan
from replan.config.sections import Limits, Oidc, Server, Settings
from replan.errors import ConfigError, NotSignedIn
from replan.ports import HasKeys
from replan.run.access.callers import Caller
from replan.run.access.tenants.limits import Quotas
from replan.server.auth.authenticator import known_callers
from replan.server.auth.credentials import Credentials
from replan.server.auth.keys import MOST_OF_A_NAME
from replan.server.auth.refused import Refused
from replan.testing import MemoryStore
from replan.wiring import SystemClock, open_store

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_database"))
    return f"sqlite:///{tmp_path / 'service.db'}"


def keys(folder: Path, db: str, *args: str, code: int = 0) -> Any:
    done = replan("keys", *args, "--db", db, cwd=folder)
    assert done.returncode == code, done.stderr
    if "--json" in args:
        return json.loads(done.stdout)
    return done.stdout.rstrip("\n") if code == 0 else done.stderr


async def let_in(db: str, text: str) -> Caller:
    settings = Settings(server=Server(auth="keys"))
    store = open_store(db, settings)
    known = known_callers(settings, store, SystemClock())
    assert known is not None
    try:
        return await known(Credentials(api_key=text))
    finally:
        await known.aclose()
        await store.aclose()


async def test_a_key_lets_in_until_it_is_revoked(tmp_path: Path, db: str) -> None:
    text = keys(
        tmp_path, db, "create", "--name", "ci", "--tenant", "acme", "--scope", "read", "--expires", "1d"
    )
    assert re.fullmatch(r"rpk_[0-9a-f]{16}_[0-9a-f]{64}", text)
    assert (await let_in(db, text))[:3] == ("key:ci", "acme", {"read"})
    (listed,) = keys(tmp_path, db, "list", "--json")["keys"]
    assert listed["last_used"] is not None
    assert "digest" not in listed
    assert text[-64:] not in json.dumps(listed)
    keys(tmp_path, db, "revoke", text)
    with pytest.raises(NotSignedIn):
        await let_in(db, text)
    assert keys(tmp_path, db, "list", "--json") == {"keys": []}
    assert keys(tmp_path, db, "list", "--all", "--json")["keys"][0]["revoked"] is not None


async def test_keys_of_one_name(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'service.db'}"
    first = keys(tmp_path, db, "create", "--name", "ci", "--tenant", "acme", "--json")
    other = keys(tmp_path, db, "create", "--name", "ci", "--tenant", "globex", "--scope", "admin", "--json")
    assert first["scopes"] == ["read", "run"]
    assert "revoke it first" in keys(tmp_path, db, "create", "--name", "ci", "--tenant", "acme", code=2)
    assert "--tenant" in keys(tmp_path, db, "revoke", "ci", code=2)
    keys(tmp_path, db, "revoke", "ci", "--tenant", "acme")
    again = keys(tmp_path, db, "create", "--name", "ci", "--tenant", "acme", "--json")
    assert keys(tmp_path, db, "revoke", "ci", "--tenant", "acme", "--json")["key_id"] == again["key_id"]
    assert [key["key_id"] for key in keys(tmp_path, db, "list", "--json")["keys"]] == [other["key_id"]]
    with pytest.raises(Refused) as caught:
        await let_in(db, first["key"])
    assert caught.value.why == "revoked"


def test_the_key_itself_is_stored_nowhere(tmp_path: Path) -> None:
    text = keys(tmp_path, f"sqlite:///{tmp_path / 'service.db'}", "create", "--name", "ci")
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert text[4:20].encode() in stored
    assert text[-64:].encode() not in stored


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--name", ""), "cannot be the name of a key"), (("--name", "a\nb"), "cannot be the name of a key"),
        (("--name", "x" * (MOST_OF_A_NAME + 1)), "cannot be the name of a key"), (("--name", "ci", "--scope", "fly"), "no scope"),
        (("--name", "ci", "--tenant", "Acme Inc"), "tenant"), (("--name", "ci", "--expires", "soon"), "90d"), (("--name", "ci", "--expires", "2001-01-01"), "expired"),
        (("--name", "ci", "--expires", "999999w"), "too far"),
        (("--name", "ci", "--expires", "9999-12-31T23:59:59-12:00"), "too far"),
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_is_told(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    assert said in keys(tmp_path, f"sqlite:///{tmp_path / 'k.db'}", "create", *args, code=2)


async def test_limits_of_a_tenant_are_set_shown_and_taken_back(tmp_path: Path, db: str) -> None:
    (tmp_path / "config.toml").write_text('[limits]\nsubmits = "5/second"\nmax_unfinished_tasks = 7\n')
    shown = keys(
        tmp_path, db, "limits", "acme", "--tasks", "20", "--rate", "none", "--cost-per-day", "2.5", "--json"
    )
    assert shown["own"] == {"max_unfinished_tasks": 20, "submits": None, "max_cost_usd_per_day": 2.5}
    assert shown["limits"]["max_tokens_per_day"] is None

    async with Replan(db=db) as there:
        store = there.service.parts.store
        assert isinstance(store, HasKeys)
        quotas = Quotas(Limits(submits="5/second", max_unfinished_tasks=7), there.service, store.keys())
        assert (await quotas.limits("acme")).max_unfinished_tasks == 20
        assert (await quotas.limits("other")).max_unfinished_tasks == 7

    shown = keys(tmp_path, db, "limits", "acme", "--tasks", "default", "--json")
    assert shown["limits"]["max_unfinished_tasks"] == 7
    assert "by the configuration" in keys(tmp_path, db, "limits", "acme")
    assert "write a number" in keys(tmp_path, db, "limits", "acme", "--tasks", "many", code=2)
    assert "no rate" in keys(tmp_path, db, "limits", "acme", "--rate", "many", code=2)
    assert "tenant" in keys(tmp_path, db, "limits", "Acme Inc", code=2)


def test_a_store_that_keeps_no_keys_and_a_provider_that_is_not_told_are_told_at_the_start() -> None:
    with pytest.raises(ConfigError, match="cannot keep keys"):
        known_callers(Settings(server=Server(auth="keys")), MemoryStore(), SystemClock())
    with pytest.raises(ConfigError, match="issuer"):
        known_callers(Settings(server=Server(auth="oidc"), oidc=Oidc()), MemoryStore(), SystemClock())
    assert known_callers(Settings(), MemoryStore(), SystemClock()) is None
