"""The page's files keep their own rules."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from replan.page.assets import assets, source_of

STATIC = Path(__import__("replan.page", fromlist=["page"]).__file__).parent / "static"
OWN = sorted((STATIC / "js").rglob("*.js"))
_IMPORT = re.compile(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""")


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_a_module_imports_by_bare_names_that_there_are_and_writes_no_html(path: Path) -> None:
    text = path.read_text()
    assert set(_IMPORT.findall(text)) <= set(assets().modules)
    for banned in (
        "dangerouslySetInnerHTML",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
    ):
        assert banned not in text
    assert len(text.splitlines()) <= 350


def test_no_folder_has_many_files() -> None:
    for folder in (STATIC / "js", *(one for one in (STATIC / "js").rglob("*") if one.is_dir())):
        assert len([one for one in folder.iterdir() if one.is_file()]) <= 18


@pytest.mark.parametrize(
    "folder", [STATIC / "vendor", Path(__file__).parent / "vendor"], ids=["page", "tests"]
)
def test_vendored_files_are_those_that_their_list_names(folder: Path) -> None:
    listed = json.loads((folder / "list.json").read_text())
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {"list.json", *(file["path"] for one in listed for file in one["files"])}
    for one in listed:
        assert one["version"]
        assert one["licence"]
        for file in one["files"]:
            body = (folder / file["path"]).read_bytes()
            assert hashlib.sha256(body).hexdigest() == file["sha256"], file["path"]


def test_the_policy_names_the_import_map_that_is_there() -> None:
    found = assets()
    text = found.html.decode()
    inline = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", text, re.DOTALL)
    assert len(inline) == 1
    assert f"'{source_of(inline[0])}'" in found.policy
    assert "unsafe" not in found.policy
    assert not re.search(r"\sstyle=|\son[a-z]+=", text)
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", text)
