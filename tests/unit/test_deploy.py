"""What is in deploy/ is what the real tools take, and names nothing that does not exist."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from replan.config import Settings
from replan.config.keys import SECTIONS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return subprocess.run([found, *arguments], capture_output=True, text=True, timeout=60, check=False)


def manifests() -> list[dict[str, Any]]:
    return [one for path in MANIFESTS for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def containers() -> list[dict[str, Any]]:
    pods = [one["spec"]["template"]["spec"] for one in manifests() if one["kind"] == "Deployment"]
    return [container for pod in pods for container in pod["containers"]]


def test_the_image_passes_its_linter() -> None:
    done = run("hadolint", str(DEPLOY / "Dockerfile"))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_knows_every_field(path: Path) -> None:
    done = run("kubernetes-validate", "--strict", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_runs_as_root_or_writes_to_its_image() -> None:
    assert re.search(r"^USER (?!0|root)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    for one in containers():
        assert one["securityContext"]["readOnlyRootFilesystem"], one["name"]
        assert not one["securityContext"]["allowPrivilegeEscalation"], one["name"]
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    ours = {name: one for name, one in services.items() if one["image"].startswith("replan")}
    assert ours.keys() == {"api", "worker"}
    assert all(one["read_only"] and one["cap_drop"] == ["ALL"] for one in ours.values())
    assert ours["worker"]["deploy"]["replicas"] == 2


def test_every_variable_is_a_setting() -> None:
    known = {
        f"APP_{section}_{key}".upper() for section, keys in SECTIONS.items() for key in keys.model_fields
    }
    named = {
        name
        for path in DEPLOY.rglob("*")
        if path.is_file()
        for name in re.findall(r"\bAPP_[A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    assert named
    assert named - known == set()


def test_the_configuration_of_the_cluster_is_one() -> None:
    texts = [one["data"]["config.toml"] for one in manifests() if one["kind"] == "ConfigMap"]
    assert len(texts) == 1
    assert Settings.model_validate(tomllib.loads(texts[0])).engine.kind == "procrastinate"


def test_every_command_that_is_started_is_one_of_ours() -> None:
    from replan.cli.tree import app

    known = {str(one.name or getattr(one.callback, "__name__", "")) for one in app.registered_commands}
    started = {one["args"][0] for one in containers()}
    for path in UNITS:
        unit = configparser.RawConfigParser(strict=False)
        unit.optionxform = str  # type: ignore[method-assign,assignment]
        unit.read_string(path.read_text(encoding="utf-8"))
        started.add(unit["Service"]["ExecStart"].split()[1])
        assert int(unit["Service"]["LimitNOFILE"]) > 10_000
    assert started == {"serve", "worker"}
    assert started <= known


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_units(path: Path) -> None:
    done = run("systemd-analyze", "verify", str(path))
    said = [line for line in done.stderr.splitlines() if "is not executable" not in line]
    assert [line for line in said if path.stem.rstrip("@") in line] == []
