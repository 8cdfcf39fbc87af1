"""Outputs as files: what is written, and what becomes of the file that was there."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from replan.cli.commands.saving import save
from replan.errors import InputError


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("data:image/png;base64,AAEC", b"\0\1\2", id="bytes"),
        pytest.param({"data": "data:;base64,AAEC", "name": "a"}, b"\0\1\2", id="an object about bytes"),
        pytest.param("data:image/png;base64,é", "data:image/png;base64,é".encode(), id="nearly bytes"),
        pytest.param("half \ud800", b"half ?", id="text"),
        pytest.param([1], b"[\n  1\n]\n", id="all else"),
    ],
)
def test_what_is_written(value: object, written: bytes, tmp_path: Path) -> None:
    file = tmp_path / "out"
    assert save(value, file) == len(written)
    assert file.read_bytes() == written
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_stays_a_link_and_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    save("after", link)
    assert link.is_symlink()
    assert file.read_text() == "after"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, 0o640), (0o600, 0o600), (0o444, 0o444)],
    ids=["new", "private", "for reading"],
)
def test_nobody_reads_what_is_written_who_may_not_read_the_file(
    before: int | None, after: int, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    if before is not None:
        file.write_text("before")
        file.chmod(before)
    usual = os.umask(0o027)
    try:
        save("after", file)
    finally:
        os.umask(usual)
    assert stat.S_IMODE(file.stat().st_mode) == after
    assert file.read_text() == "after"


def test_no_link_that_lies_in_wait_is_followed(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_text("mine")
    for name in (f".replan-{os.getpid()}.part", ".replan-.part"):
        (tmp_path / name).symlink_to(private)
    save("after", tmp_path / "file")
    assert private.read_text() == "mine"
    assert (tmp_path / "file").read_text() == "after"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    save("through", pipe)
    reader.join()
    assert read == [b"through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", [".", "/", "folder", "missing/file", "ring", "n" * 300])
def test_what_cannot_be_written_is_said(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(InputError, match="cannot be written"):
        save("text", Path(name))
    assert sorted(os.listdir(tmp_path)) == ["folder", "ring"]
