"""Tokens of an OpenID provider: which of them count, and what is made of them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from issuer import Issuer, b64, issuing, private_key, public, signed

from replan.config.sections import Oidc
from replan.errors import ConfigError, NotAllowed
from replan.run.access.callers import Caller, need
from replan.server.auth.claims import caller_of
from replan.server.auth.oidc import MOST_CHARS, TokenCheck, check_oidc
from replan.server.auth.refused import Refused

NOW = 1_700_000_000.0
AUDIENCE = "replan"


class Standing:
    """A clock that stands where the test puts it."""

    def __init__(self, at: float = NOW) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    async def sleep(self, secs: float) -> None:
        raise NotImplementedError


def claims(issuer: Issuer, **more: Any) -> dict[str, Any]:
    found = {
        "iss": issuer.url,
        "aud": AUDIENCE,
        "sub": "ann",
        "exp": NOW + 60,
        "iat": NOW,
        "scope": "read run",
        **more,
    }
    return {name: value for name, value in found.items() if value is not None}


@asynccontextmanager
async def checking(**settings: Any) -> AsyncIterator[tuple[Issuer, TokenCheck, Standing]]:
    async with issuing() as issuer:
        clock = Standing()
        check = TokenCheck(Oidc(issuer=issuer.url, audience=(AUDIENCE,), **settings), clock)
        try:
            yield issuer, check, clock
        finally:
            await check.aclose()


def why_not(make: Callable[[Issuer], str], *, instead: list[Any] | None = None, **settings: Any) -> str:
    async def main() -> str:
        async with checking(**settings) as (issuer, check, _):
            if instead is not None:
                issuer.keys = instead
            with pytest.raises(Refused) as caught:
                await check.caller(make(issuer))
            return caught.value.why

    return asyncio.run(main())


def caller(make: Callable[[Issuer], str], *, instead: list[Any] | None = None, **settings: Any) -> Caller:
    async def main() -> Caller:
        async with checking(**settings) as (issuer, check, _):
            if instead is not None:
                issuer.keys = instead
            return await check.caller(make(issuer))

    return asyncio.run(main())


def test_a_good_token_is_of_its_subject_with_its_scopes() -> None:
    assert caller(lambda issuer: signed(claims(issuer))) == Caller("ann", "", frozenset({"read", "run"}))


@pytest.mark.parametrize("kind", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
def test_each_algorithm_goes(kind: str) -> None:
    name = f"by {kind}"
    assert (
        caller(lambda issuer: signed(claims(issuer), name, kind), instead=[public(name, kind)]).who == "ann"
    )


@pytest.mark.parametrize("kind", [None, "JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_types_that_are_tokens_to_call_with(kind: str | None) -> None:
    header = {"alg": "RS256", "kid": "one"} | ({} if kind is None else {"typ": kind})
    assert caller(lambda issuer: signed(claims(issuer), header=header)).who == "ann"


# ── what does not count ──


def hs256(issuer: Issuer, secret: bytes, header: dict[str, Any]) -> str:
    text = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims(issuer)).encode())}"
    return f"{text}.{b64(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def test_a_public_key_used_as_a_shared_secret_signs_nothing() -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = private_key("one").public_key()
    for secret in (
        key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(public("one")).encode(),
        b"",
    ):
        for alg in ("HS256", "hs256", "RS256"):
            why_not(lambda issuer, s=secret, a=alg: hs256(issuer, s, {"alg": a, "kid": "one"}))


@pytest.mark.parametrize(
    "alg", ["none", "None", "NONE", "nOnE", "", None, 0, True, ["RS256"], {"RS256": 1}, "HS256", "RS1", "RS512", "ES256"]
)  # fmt: skip
def test_other_algorithms_are_not_taken(alg: Any) -> None:
    def make(issuer: Issuer) -> str:
        return signed(claims(issuer), header={"alg": alg, "kid": "one", "typ": "JWT"})

    assert why_not(make)
    assert why_not(lambda issuer: make(issuer).rpartition(".")[0] + ".") == "not in the form of a token"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("crit", ["exp"]), ("crit", ["b64"]), ("crit", []), ("crit", None), ("b64", False), ("b64", True), ("zip", "DEF"), ("enc", "A256GCM"),
        ("cty", "JWT"),
    ],
)  # fmt: skip
def test_what_changes_the_meaning_of_a_token_is_not_understood(name: str, value: Any) -> None:
    header = {"alg": "RS256", "kid": "one", name: value}
    assert repr(name) in why_not(lambda issuer: signed(claims(issuer), header=header))


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt", "secevent+jwt", "JWE", 1, ["JWT"], ""])
def test_other_types_are_no_tokens_to_call_with(kind: Any) -> None:
    header = {"alg": "RS256", "kid": "one", "typ": kind}
    assert why_not(lambda issuer: signed(claims(issuer), header=header)) == "not of a type to call with"


def test_keys_that_a_token_brings_along_are_not_looked_at_nor_fetched() -> None:
    async def main() -> None:
        async with checking() as (issuer, check, _), issuing() as evil:
            evil.keys = [public("evil")]
            header = {
                "alg": "RS256", "kid": "evil", "jku": f"{evil.url}/keys", "x5u": f"{evil.url}/x", "jwk": public("evil"),
                "x5c": [base64.b64encode(b"x").decode()],
            }  # fmt: skip
            for kid in ("evil", "one"):
                with pytest.raises(Refused):
                    await check.caller(signed(claims(issuer), "evil", header={**header, "kid": kid}))
            assert evil.asked == []

    asyncio.run(main())


@pytest.mark.parametrize(
    "kid", ["../../dev/null", "/etc/passwd", "file:///dev/null", "' OR 1=1 --", "one\0", "ONE", "", "o" * 999, "é"]
)  # fmt: skip
def test_the_id_of_a_key_is_only_looked_up(kid: str) -> None:
    assert "the issuer has no key" in why_not(
        lambda issuer: signed(claims(issuer), header={"alg": "RS256", "kid": kid})
    )


@pytest.mark.parametrize("kid", [1, True, ["one"], {"a": 1}, "o" * 1_001])
def test_an_id_that_is_no_text(kid: Any) -> None:
    assert why_not(lambda issuer: signed(claims(issuer), header={"alg": "RS256", "kid": kid}))


def test_a_token_without_an_id_goes_where_the_issuer_has_one_key_only() -> None:
    header = {"alg": "RS256"}
    assert caller(lambda issuer: signed(claims(issuer), header=header)).who == "ann"
    both = [public("one"), public("two")]
    assert "without an id" in why_not(lambda issuer: signed(claims(issuer), header=header), instead=both)


def test_two_keys_of_one_id_are_both_tried() -> None:
    both = [public("two", kid="one"), public("one")]
    assert caller(lambda issuer: signed(claims(issuer)), instead=both).who == "ann"


@pytest.mark.parametrize(
    "change",
    [
        {"use": "enc"}, {"key_ops": ["encrypt"]}, {"alg": "RS512"}, {"alg": "RSA-OAEP"}, {"kty": "oct", "k": "c2VjcmV0"}, {"kty": "EC"},
        {"crv": "P-256"}, {"n": "AQAB"}, {"n": 1}, {"n": ""}, {"e": None}, {"d": "AQAB"}, {"kid": 1},
    ],
)  # fmt: skip
def test_keys_that_are_not_to_sign_with_do_not_count(change: dict[str, Any]) -> None:
    good = public("two")
    assert why_not(lambda issuer: signed(claims(issuer)), instead=[{**public("one"), **change}, good])


def test_a_weak_key_does_not_count() -> None:
    header = {"alg": "RS256", "kid": "weak"}
    weak, good = public("weak", "weak"), public("one")
    assert "no key 'weak'" in why_not(
        lambda issuer: signed(claims(issuer), "weak", "weak", header=header), instead=[weak, good]
    )


@pytest.mark.parametrize("junk", [[], [1, "x", None, {}], {"keys": 1}, "x"])
def test_other_things_in_the_key_set_are_passed_over(junk: Any) -> None:
    listed = [*junk, public("one")] if isinstance(junk, list) else [junk, public("one")]
    assert caller(lambda issuer: signed(claims(issuer)), instead=listed).who == "ann"


def test_a_changed_token_has_no_good_signature() -> None:
    def forged(issuer: Issuer) -> str:
        head, _, signature = signed(claims(issuer)).split(".")
        return f"{head}.{b64(json.dumps(claims(issuer, sub='bob')).encode())}.{signature}"

    assert why_not(forged) == "wrong signature"
    assert (
        why_not(lambda issuer: signed(claims(issuer), "two", header={"alg": "RS256", "kid": "one"}))
        == "wrong signature"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "a.b.c.d.e",
        "e30.e30.e30",
        "bnVsbA.e30.e30",
        "W10.e30.e30",
        "=.=.=",
        "a.b.c\n",
        "é.e30.e30",
    ],
)
def test_what_is_no_token(text: str) -> None:
    assert why_not(lambda issuer: text)


def test_tokens_that_are_huge_or_deep_cost_nothing() -> None:
    deep = b64(b"[" * 20_000)
    assert why_not(lambda issuer: f"{b64(b'{}')}.{'a' * MOST_CHARS}.aaaa") == "not in the form of a token"
    assert why_not(lambda issuer: f"{deep[:8_000]}.e30.aaaa") == "its header is too long"
    assert "no JSON" in why_not(lambda issuer: f"{b64(b'[' * 1_400)}.e30.aaaa")
    assert "no JSON" in why_not(lambda issuer: f"{b64(b'9' * 1_500)}.e30.aaaa")


def test_a_signed_payload_that_is_deep_or_no_object_is_refused() -> None:
    nested: Any = 1
    for _ in range(900):
        nested = [nested]
    for payload in (nested, [], "x", None, 1):
        assert why_not(lambda issuer, p=payload: signed(p)).startswith("its payload is no ")


@given(st.text(max_size=200), st.binary(max_size=200), st.binary(max_size=60))
def test_no_text_makes_it_fall_over(text: str, header: bytes, payload: bytes) -> None:
    async def main() -> None:
        check = TokenCheck(
            Oidc(issuer="http://127.0.0.1:9", audience=("x",), jwks_url="http://127.0.0.1:9"), Standing()
        )
        for token in (text, f"{b64(header)}.{b64(payload)}.AAAA"):
            with pytest.raises(Refused):
                await check.caller(token)
        await check.aclose()

    asyncio.run(main())


def test_a_token_that_was_good_before_is_looked_at_again_each_time() -> None:
    async def main() -> None:
        async with checking() as (issuer, check, clock):
            good = signed(claims(issuer, exp=NOW + 5))
            assert (await check.caller(good)).who == (await check.caller(good)).who == "ann"
            for other in (
                good[:-2] + ("AA" if good[-2:] != "AA" else "BB"),
                good + "A",
                f"{good} ",
                good.replace(".", "..", 1),
            ):
                with pytest.raises(Refused):
                    await check.caller(other)
            clock.at += 35
            with pytest.raises(Refused) as caught:
                await check.caller(good)
            assert caught.value.why == "expired"

    asyncio.run(main())


@pytest.mark.parametrize("kid", [None, "one"])
def test_a_token_that_was_good_before_is_not_once_its_key_is_taken_back(kid: str | None) -> None:
    async def main() -> None:
        time = 0.0
        async with issuing() as issuer:
            settings = Oidc(issuer=issuer.url, audience=(AUDIENCE,), keys_for_secs=60)
            check = TokenCheck(settings, Standing(), monotonic=lambda: time)
            header = {"alg": "RS256"} | ({} if kid is None else {"kid": kid})
            good = signed(claims(issuer), header=header)
            await check.caller(good)
            issuer.keys = [public("two")]
            time = 61.0
            await check.caller(signed(claims(issuer), "two"))
            with pytest.raises(Refused):
                await check.caller(good)
            await check.aclose()

    asyncio.run(main())


# ── claims ──


SETTINGS = Oidc(issuer="https://id.example", audience=("replan", "replan2"))


def of(settings: Oidc = SETTINGS, now: float = NOW, **more: Any) -> Caller:
    found = {"iss": "https://id.example", "aud": "replan", "sub": "ann", "exp": NOW + 60, **more}
    return caller_of({name: value for name, value in found.items() if value is not None}, settings, now)


def refused(settings: Oidc = SETTINGS, now: float = NOW, **more: Any) -> str:
    with pytest.raises(Refused) as caught:
        of(settings, now, **more)
    return caught.value.why


@pytest.mark.parametrize(
    "issuer",
    ["https://id.example/", "https://ID.example", "http://id.example", "", 1, ["https://id.example"]],
)
def test_the_issuer_is_just_that_one(issuer: Any) -> None:
    assert refused(iss=issuer) == "of another issuer"


@pytest.mark.parametrize("audience", ["replan", "replan2", ["other", "replan"], ["replan2"]])
def test_one_of_the_audiences(audience: Any) -> None:
    assert of(aud=audience).who == "ann"


@pytest.mark.parametrize(
    "audience", ["other", "repla", "replan ", ["other"], [], {}, 1, ["replan3", 1], {"replan": 1}]
)
def test_for_others(audience: Any) -> None:
    assert refused(aud=audience) == "for another audience"


def test_without_an_issuer_audience_subject_or_end_it_does_not_count() -> None:
    base = {"iss": "https://id.example", "aud": "replan", "sub": "ann", "exp": NOW + 60}
    for name in base:
        with pytest.raises(Refused):
            caller_of({key: value for key, value in base.items() if key != name}, SETTINGS, NOW)


@pytest.mark.parametrize(
    ("claim", "now", "good"),
    [
        ({"exp": NOW}, NOW + 29.9, True), ({"exp": NOW}, NOW + 30, False), ({"nbf": NOW}, NOW - 30, True), ({"nbf": NOW}, NOW - 30.1, False),
        ({"iat": NOW}, NOW - 30, True), ({"iat": NOW}, NOW - 31, False), ({"exp": NOW + 0.5}, NOW + 30.4, True), ({"nbf": 0, "iat": 0}, NOW, True),
    ],
)  # fmt: skip
def test_clocks_may_differ_by_the_skew_and_no_more(claim: dict[str, Any], now: float, good: bool) -> None:
    if good:
        assert of(now=now, **claim).who == "ann"
    else:
        assert refused(now=now, **claim)


@pytest.mark.parametrize("value", [True, "9999999999", float("inf"), float("nan"), [9e9], {}, -1])
def test_an_end_that_is_no_time(value: Any) -> None:
    assert refused(exp=value)


def test_a_token_bound_to_a_key_is_not_taken_without_its_proof() -> None:
    assert "proof" in refused(cnf={"jkt": "x"})


@pytest.mark.parametrize("name", ["events", "htm", "htu"])
def test_a_token_of_another_kind_is_known_by_its_claims_whatever_its_header_says(name: str) -> None:
    assert name in refused(**{name: {"http://schemas.openid.net/event/backchannel-logout": {}}})


@pytest.mark.parametrize(
    "who", ["", "key:ci", "KEY:ci", " key:ci", "key：ci", "a\nb", "\x1b[31m", 1, ["ann"], "a" * 201]
)
def test_a_subject_that_would_mislead_a_reader_of_the_log(who: Any) -> None:
    assert refused(sub=who)


def test_who_by_another_claim() -> None:
    settings = SETTINGS.model_copy(update={"who_claim": "user.email"})
    assert of(settings, user={"email": "ann@example.com"}).who == "ann@example.com"


TENANTS = SETTINGS.model_copy(update={"tenant_claim": "org"})


def test_the_tenant_is_what_the_claim_says_and_never_that_of_the_command() -> None:
    assert of(TENANTS, org="acme").tenant == "acme"
    for odd in (None, "", " ", "Acme", "a b", "../x", "é", 1, ["acme"], {"acme": 1}, "a" * 65, "acme\n"):
        assert refused(TENANTS, org=odd)


def test_the_tenant_by_a_table_or_within_another_claim_or_fixed() -> None:
    table = TENANTS.model_copy(update={"tenants": {"org_XY": "acme"}})
    assert of(table, org="org_XY").tenant == "acme"
    assert refused(table, org="acme")
    nested = SETTINGS.model_copy(update={"tenant_claim": "app.org"})
    assert of(nested, app={"org": "acme"}).tenant == "acme"
    assert refused(nested, app={"other": 1})
    assert refused(nested, app="org")
    dotted = SETTINGS.model_copy(update={"tenant_claim": "https://example.com/org"})
    assert of(dotted, **{"https://example.com/org": "acme"}).tenant == "acme"
    assert of(SETTINGS.model_copy(update={"tenant": "acme"}), org="other").tenant == "acme"


@pytest.mark.parametrize(
    ("said", "scopes"),
    [
        ("read run", {"read", "run"}), (["read", "approve"], {"read", "approve"}), ("openid profile", set()), ("", set()), ([], set()),
        ("READ", set()), ("read,run", set()), ([["read"], 1, None], set()), ({"read": True}, set()), (True, set()), ("admin", {"admin"}),
    ],
)  # fmt: skip
def test_scopes_as_the_claim_says(said: Any, scopes: set[str]) -> None:
    assert of(scope=said).scopes == scopes


def test_scopes_by_a_table_and_those_of_a_token_without_any() -> None:
    table = SETTINGS.model_copy(
        update={"scope_claim": "realm_access.roles", "scopes": {"operator": "read run", "boss": "approve"}}
    )
    assert of(table, realm_access={"roles": ["operator", "boss", "read", "admin"]}).scopes == {
        "read",
        "run",
        "approve",
    }
    assert of(table, scope="admin").scopes == frozenset()
    assert of(SETTINGS.model_copy(update={"default_scopes": ("read",)})).scopes == {"read"}
    assert of(SETTINGS.model_copy(update={"default_scopes": ("read",)}), scope="x").scopes == frozenset()


def test_whoever_has_no_scope_may_do_nothing() -> None:
    with pytest.raises(NotAllowed, match="has: none"):
        need(of(scope="openid"), "read")


# ── settings ──


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"issuer": None}, "set .oidc. issuer"), ({"issuer": "http://id.example"}, "https"), ({"issuer": "id.example"}, "https"),
        ({"jwks_url": "http://id.example/keys"}, "jwks_url"), ({"jwks_url": "file:///etc/passwd"}, "jwks_url"), ({"audience": ()}, "audience"),
        ({"algorithms": ("HS256",)}, "HS256"), ({"algorithms": ("RS256", "none")}, "none"), ({"algorithms": ()}, "empty"),
        ({"scopes": {"x": "fly"}}, "fly"), ({"default_scopes": ("all",)}, "all"), ({"tenant": "A B"}, "tenant"), ({"tenants": {"x": "A B"}}, "tenant"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_told_before_it_starts(change: dict[str, Any], said: str) -> None:
    check_oidc(SETTINGS)
    with pytest.raises(ConfigError, match=said):
        check_oidc(SETTINGS.model_copy(update=change))
