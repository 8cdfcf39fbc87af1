"""What every store promises of API keys, and of the limits of tenants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replan.errors import InputError
from replan.ports import HasKeys, Keys, Store, StoredKey
from replan.store.postgres.store import PostgresStore
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two processes' way to one database."""
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_schema")
        opened: list[Store] = [PostgresStore(address), PostgresStore(address)]
    else:
        opened = [SqliteStore(tmp_path / "log.db"), SqliteStore(tmp_path / "log.db")]
    yield opened[0], opened[1]
    for store in opened:
        await store.aclose()


@pytest.fixture
def keys(both: tuple[Store, Store]) -> Keys:
    return keys_of(both[0])


def keys_of(store: Store) -> Keys:
    assert isinstance(store, HasKeys)
    return store.keys()


def key(n: int = 1, tenant: str = "acme", name: str = "ci", **more: object) -> StoredKey:
    return StoredKey(f"{n:016x}", tenant, name, f"{n:064x}", ("read", "run"), 10.0 + n)._replace(**more)  # type: ignore[arg-type]


async def test_a_key_is_found_by_its_id_as_it_was_added(keys: Keys) -> None:
    wanted = key(name="日本 🦀", expires=99.5)
    await keys.add_key(wanted)

    assert await keys.key(wanted.key_id) == wanted
    for nobody in ("", "0" * 16, "a\0b", "\ud800", wanted.key_id.upper() + "x"):
        assert await keys.key(nobody) is None


async def test_keys_are_listed_newest_first_of_one_tenant_or_all(keys: Keys) -> None:
    mine, other, own = key(1), key(2, "bolt"), key(3, "")
    for one in (mine, other, own):
        await keys.add_key(one)
    await keys.revoke_key(other.key_id, 50.0)

    assert await keys.list_keys() == [own, other._replace(revoked=50.0), mine]
    assert await keys.list_keys("acme") == [mine]
    assert await keys.list_keys("") == [own]
    assert await keys.list_keys("nobody\0") == []


async def test_a_tenant_has_one_key_of_a_name_until_it_is_revoked(keys: Keys) -> None:
    await keys.add_key(key(1))
    await keys.add_key(key(2, "bolt"))
    with pytest.raises(InputError, match="'acme' has a key 'ci'"):
        await keys.add_key(key(3))
    assert await keys.key(key(3).key_id) is None

    await keys.revoke_key(key(1).key_id, 50.0)
    await keys.add_key(key(3))
    assert [one.key_id for one in await keys.list_keys("acme")] == [key(3).key_id, key(1).key_id]


async def test_of_many_who_add_a_key_of_one_name_one_does(both: tuple[Store, Store]) -> None:
    adding = [keys_of(both[n % 2]).add_key(key(n)) for n in range(8)]
    done = await asyncio.gather(*adding, return_exceptions=True)

    assert [type(one) for one in done if one is not None] == [InputError] * 7
    assert len(await keys_of(both[0]).list_keys()) == 1


async def test_a_revoked_key_stays_as_it_was_revoked_first(both: tuple[Store, Store]) -> None:
    here, there = map(keys_of, both)
    await here.add_key(key(1))
    assert await here.revoke_key(key(1).key_id, 50.0) is True
    assert await there.revoke_key(key(1).key_id, 60.0) is False

    found = await there.key(key(1).key_id)
    assert found is not None
    assert found.revoked == 50.0
    with pytest.raises(InputError, match="no key"):
        await here.revoke_key("f" * 16, 50.0)


async def test_the_last_use_is_kept_and_goes_back_never(keys: Keys) -> None:
    await keys.add_key(key(1))
    for ts in (70.0, 60.0):
        await keys.key_used(key(1).key_id, ts)
    await keys.key_used("f" * 16, 70.0)  # deleted by hand, say

    found = await keys.key(key(1).key_id)
    assert found is not None
    assert found.last_used == 70.0


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"name": ""}, id="no name"),
        pytest.param({"name": "a\0b"}, id="a name with a NUL"),
        pytest.param({"name": "\ud800"}, id="half a sign"),
        pytest.param({"name": "a\nb"}, id="two lines"),
        pytest.param({"name": "x" * 201}, id="a long name"),
        pytest.param({"tenant": "../etc"}, id="no tenant"),
        pytest.param({"key_id": "a'; --"}, id="no id"),
        pytest.param({"digest": "secret"}, id="no digest"),
    ],
)
async def test_what_is_no_key_is_refused(keys: Keys, wrong: dict[str, str]) -> None:
    with pytest.raises(InputError):
        await keys.add_key(key(1)._replace(**wrong))  # type: ignore[arg-type]
    assert await keys.list_keys() == []


async def test_limits_of_a_tenant_are_kept_changed_and_taken_off(both: tuple[Store, Store]) -> None:
    here, there = map(keys_of, both)
    assert await here.tenant_limits("acme") is None

    for limits in ({"tasks": 3, "note": "日本"}, {}, {"budget": {"usd": 1.5}}):
        await here.set_tenant_limits("acme", limits)
        assert await there.tenant_limits("acme") == limits
    assert await there.tenant_limits("bolt") is None
    await there.set_tenant_limits("acme", None)
    await there.set_tenant_limits("acme", None)
    assert await here.tenant_limits("acme") is None
    with pytest.raises(InputError, match="name of a tenant"):
        await here.set_tenant_limits("No Tenant", {})
