"""`replan model serve` and `replan model conformance`, as commands."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
import warm_command

from replan.llm.grpc.proto import generate
from replan.testing import ScriptedEndpoint

ENV = {**os.environ, "MODELS_TOKEN": "a-token-of-the-tests", "NO_COLOR": "1"}


def test_models_are_served_tried_and_let_go(tmp_path: Path) -> None:
    with ScriptedEndpoint(lambda _: {"city": "Rome"}) as provider:
        named = ("--endpoint", provider.url, "--model", "scripted")
        command = ("model", "serve", *named, "--port", "0", "--json", "--token-env", "MODELS_TOKEN")
        server = warm_command.Process(command, tmp_path, ENV)
        told = json.loads(server.stdout.readline())
        assert told["url"].startswith("grpc://127.0.0.1:")
        assert told["models"] == ["scripted"]
        suite = ("model", "conformance", told["url"], "--token-env", "MODELS_TOKEN")
        tried = warm_command.run(suite, tmp_path, ENV, "", timeout=120)
        (tmp_path / "config.toml").write_text(
            f'[llm]\nprotocol = "grpc"\nendpoint = "{told["url"][7:]}"\ndefault_model = "scripted"\n'
        )
        key = {"APP_LLM_API_KEY": "a-token-of-the-tests"}
        doctor = warm_command.run(("doctor", "--json"), tmp_path, {**ENV, **key}, "", timeout=120)
        refused = warm_command.run(("doctor", "--json"), tmp_path, ENV, "", timeout=120)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert "7 rules, 0 broken" in tried.stdout
    (model,) = (one for one in json.loads(doctor.stdout)["checks"] if one["name"] == "model")
    (unknown,) = (one for one in json.loads(refused.stdout)["checks"] if one["name"] == "model")
    assert (model["state"], told["url"] in model["found"]) == ("ok", True)
    assert "APP_LLM_API_KEY" in unknown["todo"]
    assert (tried.returncode, server.returncode) == (0, 0)


def test_nobody_elses_machine_is_served_without_a_token(tmp_path: Path) -> None:
    refused = warm_command.run(("model", "serve", "--host", "0.0.0.0"), tmp_path, ENV, "", timeout=60)
    assert refused.returncode == 2
    assert "--token-env" in refused.stderr


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    made = generate.generate(tmp_path)
    committed = generate.FOLDER / "model_pb2.py"
    assert made.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), "run: make proto"
