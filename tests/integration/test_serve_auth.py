"""Who is let into `replan serve`: a real process, keys made by the command, and tokens of somebody else's OpenID provider."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cli_process import environment, replan
from service_process import Service, events_of, plan, serving, step

TASK = plan(step("s1", "weather", city="Rome"))
DB = ("--db", "sqlite:///tasks.db")


def made(folder: Path, name: str, *more: str) -> str:
    done = replan("keys", "create", "--name", name, *more, *DB, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with serving(
        folder, env={"APP_SERVER_AUTH": "keys", "APP_SERVER_ALLOWED_HOSTS": "127.0.0.1,*.example.com"}
    ) as running:
        yield running


def test_a_key_made_while_it_runs_lets_in_until_it_is_revoked(service: Service) -> None:
    with service.client() as http:
        assert http.post("/tasks", json=TASK).status_code == 401
        key = made(service.folder, "ci", "--tenant", "acme")
        assert http.post("/tasks", json=TASK, headers=bearer(key)).status_code == 202
        assert http.get("/tasks", headers={"x-api-key": key}).status_code == 200
        assert replan("keys", "revoke", "ci", *DB, cwd=service.folder).returncode == 0
        began = time.monotonic()
        while http.get("/tasks", headers=bearer(key)).status_code == 200:
            assert time.monotonic() - began < 60
            time.sleep(0.1)
        answer = http.get("/tasks", headers=bearer(key))
        assert answer.status_code == 401
        assert answer.json()["type"] == "urn:replan:problem:not-signed-in"


def test_headers_that_are_sent_twice_or_made_up_let_nobody_in(service: Service) -> None:
    key = made(service.folder, "twice", "--scope", "read")
    with service.client() as http:
        for headers in (
            [("authorization", f"Bearer {key}"), ("authorization", f"Bearer {key}")],
            [("authorization", "Bearer x"), ("authorization", f"Bearer {key}")],
            [("x-api-key", key), ("x-api-key", key)],
            [("authorization", f"Bearer {key}"), ("x-api-key", key)],
            [("authorization", f"Bearer {key} ,")],
            [("authorization", f"Bearer\u00a0{key}".encode("latin-1"))],
            [("authorization", f"{key}")],
            [("authorization", b"Bearer \xff\xfe")],
            [("x-forwarded-user", "admin"), ("x-tenant", "acme")],
            [("cookie", f"authorization=Bearer {key}")],
        ):
            assert http.get("/tasks", headers=headers).status_code == 401, headers  # type: ignore[arg-type]
        assert http.get("/tasks", params={"access_token": key, "api_key": key}).status_code == 401
        assert http.get("/tasks", headers=[("authorization", f"bearer  {key}")]).status_code == 200
        assert http.get("/health").status_code == 200


def test_it_answers_to_its_own_names_only(service: Service) -> None:
    key = made(service.folder, "named", "--scope", "read")
    with service.client() as http:
        for host, code in (
            ("evil.example", 421),
            ("a.example.com", 200),
            ("example.com", 421),
            ("localhost", 421),
        ):
            answer = http.get("/tasks", headers={**bearer(key), "host": host})
            assert answer.status_code == code, host


def test_a_stream_ends_with_its_key_and_those_of_others_go_on(service: Service) -> None:
    gone, stays = (made(service.folder, name, "--tenant", "streams") for name in ("gone", "stays"))
    with service.client() as http:
        body = plan(step("s1", "until", name="streams"))
        task_id = http.post("/tasks", json=body, headers=bearer(stays)).json()["task_id"]
        address = f"/tasks/{task_id}/events"
        with (
            http.stream("GET", address, headers=bearer(gone)) as ends,
            http.stream("GET", address, headers=bearer(stays)) as goes_on,
        ):
            before, after = events_of(ends.iter_lines()), events_of(goes_on.iter_lines())
            assert next(before)["event"] == next(after)["event"] == "task_submitted"
            assert replan("keys", "revoke", "gone", *DB, cwd=service.folder).returncode == 0
            assert "task_completed" not in [one["event"] for one in before]
            assert http.get(address, headers=bearer(gone)).status_code == 401
            service.let_go("streams")
            assert [one["event"] for one in after][-1] == "task_completed"


def test_limits_that_are_set_while_it_runs_bind(service: Service) -> None:
    key = made(service.folder, "small", "--tenant", "small", "--scope", "run", "--scope", "read")
    limited = replan("keys", "limits", "small", "--tasks", "1", *DB, cwd=service.folder)
    assert limited.returncode == 0, limited.stderr
    with service.client(headers=bearer(key)) as http:
        waits = http.post("/tasks", json=plan(step("s1", "until", name="small")))
        assert waits.status_code == 202
        refused = http.post("/tasks", json=TASK)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert "1 unfinished" in refused.json()["detail"]
        service.let_go("small")
        assert http.get(f"/tasks/{waits.json()['task_id']}/result", params={"wait": 20}).status_code == 200
        assert http.post("/tasks", json=TASK).status_code == 202


@pytest.mark.parametrize("there_is_one", [False, True])
def test_a_service_that_nobody_can_call_yet_says_so(tmp_path: Path, there_is_one: bool) -> None:
    made(tmp_path, "gone")
    assert replan("keys", "revoke", "gone", *DB, cwd=tmp_path).returncode == 0
    if there_is_one:
        made(tmp_path, "ci")
    with serving(tmp_path, env={"APP_SERVER_AUTH": "keys"}) as running:
        told = running.end()
    assert ("replan keys create" in told) is not there_is_one


def test_it_does_not_listen_for_other_machines_before_it_asks_who_calls(tmp_path: Path) -> None:
    for more in (("--host", "0.0.0.0"), ("--host", "::")):
        done = replan("serve", "--port", "0", *more, *DB, cwd=tmp_path, env={"APP_SERVER_AUTH": "off"})
        assert done.returncode == 2
        assert "APP_SERVER_AUTH=keys" in done.stderr
    done = replan("serve", "--port", "0", *DB, cwd=tmp_path, env={"APP_SERVER_AUTH": "oidc"})
    assert done.returncode == 2
    assert "issuer" in done.stderr


# ── tokens ──


@contextmanager
def provider(folder: Path) -> Iterator[str]:
    """The URL of an OpenID provider that is not ours."""
    if find_spec("oidc_provider_mock") is None:
        pytest.skip("oidc-provider-mock is not installed")
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://localhost:{port}"
    try:
        began = time.monotonic()
        while True:
            try:
                httpx2.get(f"{url}/.well-known/openid-configuration", trust_env=False)
                break
            except httpx2.TransportError:
                assert process.poll() is None
                assert time.monotonic() - began < 60
                time.sleep(0.05)
        yield url
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        number: int = one.getsockname()[1]
        return number


def token(issuer: str, client: str, who: str) -> str:
    """As somebody gets it who signs in in a browser."""
    back = "http://localhost/back"
    asked = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": back,
        "scope": "openid",
        "state": "s",
        "nonce": "n",
    }
    with httpx2.Client(base_url=issuer, trust_env=False) as http:
        sent = http.post("/oauth2/authorize", params=asked, data={"sub": who})
        code = httpx2.URL(sent.headers["location"]).params["code"]
        given = http.post(
            "/oauth2/token",
            data={"grant_type": "authorization_code", "code": code, "redirect_uri": back},
            auth=(client, "secret"),
        )
        found: str = given.json()["id_token"]
        return found


def test_tokens_of_a_provider_let_in_and_those_for_others_do_not(tmp_path: Path) -> None:
    with provider(tmp_path) as issuer:
        settings: dict[str, Any] = {
            "APP_SERVER_AUTH": "keys+oidc", "APP_OIDC_ISSUER": issuer, "APP_OIDC_AUDIENCE": "replan", "APP_OIDC_TENANT": "acme",
            "APP_OIDC_DEFAULT_SCOPES": "read,run",
        }  # fmt: skip
        with serving(tmp_path, env=settings) as running, running.client() as http:
            assert http.get("/ready").json()["dependencies"][-1] == {
                "name": "issuer",
                "ready": True,
                "detail": "",
            }
            ann = bearer(token(issuer, "replan", "ann@example.com"))
            made_ = http.post("/tasks", json=TASK, headers=ann)
            assert made_.status_code == 202
            first = http.get(
                f"/tasks/{made_.json()['task_id']}/events", headers={**ann, "accept": "application/json"}
            ).json()["items"][0]
            assert (first["data"]["by"], first["data"]["tenant"]) == ("ann@example.com", "acme")
            assert (
                http.get("/tasks", headers=bearer(token(issuer, "another", "ann@example.com"))).status_code
                == 401
            )
            forged = re.sub(r"\.[^.]*$", ".AAAA", ann["authorization"])
            assert http.get("/tasks", headers={"authorization": forged}).status_code == 401
            key = made(tmp_path, "ci", "--tenant", "acme", "--scope", "read")
            assert len(http.get("/tasks", headers=bearer(key)).json()["items"]) == 1


def test_where_the_provider_does_not_answer_it_says_that_it_is_not_ready(tmp_path: Path) -> None:
    issuer = f"http://127.0.0.1:{free_port()}"
    settings = {"APP_SERVER_AUTH": "keys+oidc", "APP_OIDC_ISSUER": issuer, "APP_OIDC_AUDIENCE": "replan"}
    key = made(tmp_path, "ci", "--scope", "read")
    with serving(tmp_path, env=settings) as running, running.client() as http:
        head = "eyJhbGciOiJSUzI1NiIsImtpZCI6Im9uZSJ9"  # {"alg":"RS256","kid":"one"}
        answer = http.get("/tasks", headers=bearer(f"{head}.e30.AAAA"))
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:replan:problem:unavailable"
        assert int(answer.headers["retry-after"]) >= 1
        ready = http.get("/ready")
        assert ready.status_code == 503
        assert not ready.json()["ready"]
        assert issuer not in ready.text  # for the log
        assert http.get("/tasks", headers=bearer(key)).status_code == 200
