"""The committed code is what protoc makes of `tools.proto`."""

from __future__ import annotations

from pathlib import Path

import pytest

from replan.tools.remote.proto import generate


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    made = generate.generate(tmp_path)
    committed = generate.FOLDER / "tools_pb2.py"
    assert made.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), "run: make proto"
