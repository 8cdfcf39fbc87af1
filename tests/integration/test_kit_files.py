"""Files under a root: what they give, and that nothing leads out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools.kit import files

pytestmark = pytest.mark.anyio


async def call(source: Any, tool: str, /, **parameters: Any) -> Any:
    return await source.call(ToolCall(tool, parameters, "key", deadline_secs=20))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path / "root"
    (inside / "sub" / "deep").mkdir(parents=True)
    (inside / "a.txt").write_text("one\ntwo\nthree\n")
    (inside / "sub" / "b.md").write_text("# Title\nTwo words\n")
    (inside / "sub" / "deep" / "c.txt").write_text("two")
    (inside / ".hidden").write_text("two")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "root-beside").mkdir()
    (tmp_path / "root-beside" / "x").write_text("secret")
    return inside


async def test_effects_are_as_documented(root: Path) -> None:
    reading = {spec.id: spec.effect for spec in await files(root).tools()}
    assert set(reading.values()) == {"reads"}
    writing = {spec.id: spec.effect for spec in await files(root, write=True).tools()}
    assert {tool: effect for tool, effect in writing.items() if tool not in reading} == {
        "write_file": "repeatable",
        "write_binary": "repeatable",
        "append_file": "once",
        "copy_file": "repeatable",
        "move_file": "once",
        "delete_file": "repeatable",
        "make_folder": "repeatable",
    }


async def test_listing_finding_and_reading(root: Path) -> None:
    source = files(root)
    listed = await call(source, "list_files")
    assert [(entry["path"], entry["kind"]) for entry in listed["entries"]] == [
        (".hidden", "file"),
        ("a.txt", "file"),
        ("sub", "folder"),
    ]
    assert (await call(source, "list_files", limit=1))["truncated"] is True
    assert (await call(source, "find_files", pattern="*.txt"))["paths"] == ["a.txt", "sub/deep/c.txt"]
    assert (await call(source, "find_files", pattern="sub/*.md"))["paths"] == ["sub/b.md"]
    assert (await call(source, "find_files", pattern="*", path="sub/deep"))["paths"] == ["sub/deep/c.txt"]
    assert (await call(source, "find_files", pattern=".*"))["paths"] == [".hidden"]
    read = await call(source, "read_file", path="./sub/../a.txt")
    assert (read["path"], read["text"], read["total_lines"]) == ("a.txt", "one\ntwo\nthree\n", 3)
    part = await call(source, "read_file", path="a.txt", first_line=2, last_line=2)
    assert (part["text"], part["last_line"], part["truncated"]) == ("two\n", 2, True)
    assert (await call(source, "read_file", path=str(root / "a.txt")))["size"] == 14
    info = await call(source, "file_info", path="a.txt")
    assert (info["kind"], info["size"], info["media_type"], info["hard_links"]) == (
        "file",
        14,
        "text/plain",
        1,
    )


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        pytest.param("grün 北京".encode(), "utf-8", "grün 北京", id="UTF-8"),
        pytest.param("\ufeffgrün".encode(), "utf-8-sig", "grün", id="UTF-8 with a mark"),
        pytest.param("grün".encode("utf-16"), "utf-16", "grün", id="UTF-16"),
        pytest.param("grün".encode("utf-32"), "utf-32", "grün", id="UTF-32"),
        pytest.param("grün €".encode("cp1252"), "cp1252", "grün €", id="Windows"),
        pytest.param(b"", "utf-8", "", id="empty"),
        pytest.param(b"a\r\nb", "utf-8", "a\r\nb", id="line ends stay"),
    ],
)
async def test_the_encoding_is_found_and_told(root: Path, data: bytes, encoding: str, text: str) -> None:
    (root / "x").write_bytes(data)
    read = await call(files(root), "read_file", path="x")
    assert (read["encoding"], read["text"]) == (encoding, text)


async def test_what_is_no_text_comes_as_a_data_url_and_goes_back(root: Path) -> None:
    data = bytes(range(256))
    (root / "x.png").write_bytes(data)
    source = files(root, write=True)
    read = await call(source, "read_file", path="x.png")
    assert read["data_url"].startswith("data:image/png;base64,")
    assert "text" not in read
    await call(source, "write_binary", path="y.png", data=read["data_url"])
    assert (root / "y.png").read_bytes() == data


async def test_a_large_file_is_read_in_parts(root: Path) -> None:
    (root / "big").write_text("".join(f"line {n}\n" for n in range(100_000)))
    source = files(root, most_text_bytes=1000)
    first = await call(source, "read_file", path="big")
    assert first["truncated"] is True
    assert len(first["text"]) <= 1000
    assert first["total_lines"] is None
    then = await call(source, "read_file", path="big", first_line=first["last_line"] + 1, last_line=99_999)
    assert then["text"].startswith(f"line {first['last_line']}\n")
    (root / "one-line").write_text("x" * 5_000_000)
    one = await call(source, "read_file", path="one-line")
    assert (len(one["text"]), one["truncated"]) == (1000, True)


async def test_names_in_another_unicode_form_are_found(root: Path) -> None:
    (root / "u\u0308ber.txt").write_text("x")
    source = files(root, write=True)
    assert (await call(source, "read_file", path="\u00fcber.txt"))["text"] == "x"
    await call(source, "write_file", path="\u00fcber.txt", text="y")
    assert (root / "u\u0308ber.txt").read_text() == "y"
    assert len(os.listdir(root)) == 4
    (root / "🏳️‍🌈 x.txt").write_text("z")
    assert (await call(source, "find_files", pattern="🏳*"))["paths"] == ["🏳️‍🌈 x.txt"]


OUT = [
    "../secret.txt",
    "sub/../../secret.txt",
    "/etc/passwd",
    "../root-beside/x",
    "sub/../..",
    "a\0b",
    "..",
    "x/" * 100,
]


@pytest.mark.parametrize("path", OUT)
async def test_no_path_leads_out(root: Path, path: str) -> None:
    source = files(root, write=True)
    calls = {
        "read_file": {"path": path},
        "list_files": {"path": path},
        "file_info": {"path": path},
        "find_files": {"path": path, "pattern": "*"},
        "search_files": {"path": path, "query": "s"},
        "write_file": {"path": path, "text": "x"},
        "append_file": {"path": path, "text": "x"},
        "delete_file": {"path": path},
        "make_folder": {"path": path},
        "copy_file": {"source": "a.txt", "destination": path},
        "move_file": {"source": path, "destination": "b"},
    }
    for tool, parameters in calls.items():
        with pytest.raises(ToolCallError) as caught:
            await call(source, tool, **parameters)
        assert (caught.value.kind, caught.value.happened) == ("parameter", "no"), tool
    assert (root.parent / "secret.txt").read_text() == "secret"


LINKS: dict[str, Callable[[Path], object]] = {
    "file": lambda root: os.symlink("../secret.txt", root / "link"),
    "absolute": lambda root: os.symlink("/etc/passwd", root / "link"),
    "folder": lambda root: os.symlink("..", root / "link", target_is_directory=True),
    "loop": lambda root: os.symlink("link", root / "link"),
    "dangling": lambda root: os.symlink("../new.txt", root / "link"),
}


@pytest.mark.parametrize("make", LINKS.values(), ids=LINKS)
async def test_links_are_listed_and_not_followed(root: Path, make: Callable[[Path], object]) -> None:
    make(root)
    source = files(root, write=True)
    assert {"path": "link", "kind": "link"}.items() <= (await call(source, "file_info", path="link")).items()
    for path in ("link", "link/secret.txt"):
        for tool, more in (("read_file", {}), ("append_file", {"text": "x"}), ("write_file", {"text": "x"})):
            with pytest.raises(ToolCallError, match="link") as caught:
                await call(source, tool, path=path, **more)
            assert caught.value.happened == "no"
    assert "link/secret.txt" not in (await call(source, "find_files", pattern="**"))["paths"]
    assert (await call(source, "search_files", query="secret"))["hits"] == []
    assert (await call(source, "delete_file", path="link"))["deleted"] is True
    assert (root.parent / "secret.txt").read_text() == "secret"
    assert not (root.parent / "new.txt").exists()


async def test_a_folder_that_is_swapped_for_a_link_all_the_time_leads_nowhere(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("secret")
    (root / "real").mkdir()
    (root / "real" / "f").write_text("good")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            os.rename(root / "real", root / "kept")
            with contextlib.suppress(OSError):  # a writer may have made it anew
                os.symlink(outside, root / "real")
                os.unlink(root / "real")
            while (root / "kept").exists():
                shutil.rmtree(root / "real", ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.rename(root / "kept", root / "real")

    thread = threading.Thread(target=swap)
    thread.start()
    source = files(root, write=True)
    texts = set()
    try:
        for n in range(300):
            try:
                texts.add((await call(source, "read_file", path="real/f"))["text"])
                await call(source, "write_file", path="real/new", text=str(n))
            except ToolCallError:
                continue
    finally:
        done.set()
        thread.join()
    assert texts <= {"good"}
    assert sorted(each.name for each in outside.iterdir()) == ["f"]


async def test_pipes_and_devices_are_refused_and_do_not_hang(root: Path) -> None:
    os.mkfifo(root / "pipe")
    source = files(root, write=True)
    for tool, more in (("read_file", {}), ("append_file", {"text": "x"}), ("write_file", {"text": "x"})):
        with pytest.raises(ToolCallError, match=r"pipe|special"):
            await call(source, tool, path="pipe", **more)
    with pytest.raises(ToolCallError, match="device"):
        await call(files("/dev"), "read_file", path="zero")


async def test_a_hard_link_is_not_appended_to(root: Path) -> None:
    os.link(root.parent / "secret.txt", root / "hard")
    source = files(root, write=True)
    assert (await call(source, "file_info", path="hard"))["hard_links"] == 2
    with pytest.raises(ToolCallError, match="hard link"):
        await call(source, "append_file", path="hard", text="x")
    await call(source, "write_file", path="hard", text="new")
    assert (root.parent / "secret.txt").read_text() == "secret"


async def test_writing_appending_moving_copying_deleting(root: Path) -> None:
    source = files(root, write=True)
    os.chmod(root / "a.txt", 0o640)
    assert await call(source, "write_file", path="a.txt", text="ü") == {"path": "a.txt", "size": 2}
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o640
    await call(source, "write_file", path="new/er/x.txt", text="x")
    await call(source, "append_file", path="new/er/x.txt", text="y")
    assert (root / "new/er/x.txt").read_text() == "xy"
    await call(source, "copy_file", source="new/er/x.txt", destination="copy.txt")
    await call(source, "move_file", source="copy.txt", destination="moved/copy.txt")
    assert (root / "moved/copy.txt").read_text() == "xy"
    with pytest.raises(ToolCallError, match="already"):
        await call(source, "move_file", source="a.txt", destination="moved/copy.txt")
    await call(source, "move_file", source="new", destination="newer")
    with pytest.raises(ToolCallError, match="not empty"):
        await call(source, "delete_file", path="newer")
    assert await call(source, "delete_file", path="a.txt") == {"path": "a.txt", "deleted": True}
    assert await call(source, "delete_file", path="a.txt") == {"path": "a.txt", "deleted": False}
    assert await call(source, "delete_file", path="no/such/thing") == {
        "path": "no/such/thing",
        "deleted": False,
    }
    assert not [name for _, _, names in os.walk(root) for name in names if name.endswith(".part")]


async def test_readers_see_a_whole_file_while_it_is_written(root: Path) -> None:
    source = files(root, write=True)
    texts = [letter * 200_000 for letter in "ab"]
    await call(source, "write_file", path="x", text=texts[0])

    async def write() -> None:
        for n in range(20):
            await call(source, "write_file", path="x", text=texts[n % 2])

    writing = asyncio.create_task(write())
    while not writing.done():
        assert (await call(source, "read_file", path="x"))["text"] in texts
    await writing


async def test_searching(root: Path) -> None:
    source = files(root)
    (root / "bin").write_bytes(b"two\0two")
    found = await call(source, "search_files", query="two")
    assert [(hit["path"], hit["line"]) for hit in found["hits"]] == [("a.txt", 2), ("sub/deep/c.txt", 1)]
    assert found["skipped"] == ["bin"]
    upper = await call(source, "search_files", query="TWO", ignore_case=True, pattern="*.md")
    assert [(hit["path"], hit["text"]) for hit in upper["hits"]] == [("sub/b.md", "Two words")]
    regex = await call(source, "search_files", query="^t(wo|hree)$", regex=True, limit=1)
    assert (len(regex["hits"]), regex["truncated"]) == (1, True)
    with pytest.raises(ToolCallError, match="not a regular expression"):
        await call(source, "search_files", query="(", regex=True)


async def test_a_regular_expression_that_never_ends_is_stopped_and_the_loop_goes_on(root: Path) -> None:
    (root / "x").write_text("a" * 60 + "b")
    source = files(root)
    search = asyncio.create_task(
        source.call(
            ToolCall(
                "search_files", {"query": "^(a+)+$", "regex": True, "pattern": "x"}, "key", deadline_secs=1.0
            )
        )
    )
    turns = 0
    while not search.done():
        await asyncio.sleep(0)
        turns += 1
    with pytest.raises(ToolCallError, match="simpler"):
        await search
    assert turns > 100


@pytest.mark.parametrize(
    ("tool", "parameters", "match"),
    [
        ("read_file", {"path": "a.text"}, "there is no file 'a.text'; '.' has: a.txt"),
        ("read_file", {"path": "sub"}, "is a folder"),
        ("list_files", {"path": "a.txt"}, "is a file, not a folder"),
        ("read_file", {"path": "a.txt", "first_line": 5, "last_line": 2}, "before first_line"),
        ("read_file", {"path": "n" * 300}, "File name too long"),
        ("find_files", {"pattern": ""}, "not a pattern"),
        ("write_file", {"path": ".", "text": ""}, "the folder itself"),
    ],
)
async def test_errors_say_what_would_be_right(
    root: Path, tool: str, parameters: dict[str, Any], match: str
) -> None:
    with pytest.raises(ToolCallError, match=match) as caught:
        await call(files(root, write=True), tool, **parameters)
    assert caught.value.happened == "no"
    assert str(root) not in str(caught.value)


def test_a_root_that_is_no_folder_is_refused(root: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        files(root / "a.txt")
    with pytest.raises(InputError, match="does not exist"):
        files(root / "nowhere")
