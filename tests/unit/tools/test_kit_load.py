"""What stands behind `kit:`."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from replan.errors import InputError
from replan.tools.kit import load

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports, old").mkdir()
    sqlite3.connect(tmp_path / "a.db").close()
    (tmp_path / "a.db").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "name", "tools"),
    [
        ("files=.", "files", {"read_file", "list_files", "find_files", "search_files", "file_info"}),
        ("kit:time", "time", {"now", "read_time", "add_time", "time_between"}),
        ("time=Europe/Berlin", "time", {"now", "read_time", "add_time", "time_between"}),
        ("http", "http", {"http_get", "http_head"}),
        ("http,methods=get+post,allow=localhost:80+10.0.0.0/8,timeout=5", "http", {"http_get", "http_post"}),
        ("sql=a.db", "sql", {"sql_tables", "sql_query"}),
        ("sql=a.db, write=yes, keys=yes", "sql", {"sql_tables", "sql_query", "sql_execute"}),
        ("data=.", "data", {"sql_tables", "sql_query"}),
        ("shell=ls+cat", "shell", {"run_command"}),
        ("shell,reads=ls+cat", "shell", {"run_reading_command"}),
        ("shell=ls,reads=cat,cwd=.,timeout=3,env=A+B", "shell", {"run_command", "run_reading_command"}),
        ("python", "python", {"run_python"}),
        ("python,timeout=5,cpu=2,memory=256,network=no,repeatable=yes", "python", {"run_python"}),
    ],
)
async def test_what_can_be_loaded(spec: str, name: str, tools: set[str]) -> None:
    source = load(spec)
    assert source.name == name
    listed = await source.tools()
    assert {each.id for each in listed} == tools
    for each in listed:
        assert each.description
        assert all(field.get("description") for field in each.parameters["properties"].values()), each.id
        assert each.output_schema is not None or each.id == "run_python"
    await source.aclose()


async def test_a_comma_in_a_path_is_escaped() -> None:
    assert len(await load("files=reports\\, old,write=yes").tools()) == 12


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("", "there are files, http"),
        ("file=.", "did you mean files"),
        ("files", "needs a value; right is kit:files=DIR"),
        ("files=", "is empty"),
        ("files=nowhere", "does not exist"),
        ("files=.,write=maybe", "right is yes or no"),
        ("files=.,writes=yes", "it has: write"),
        ("files=.,write", "needs a value"),
        ("files=.,write=yes,write=no", "given twice"),
        ("http=x", "takes no value; right is kit:http"),
        ("http,methods=FETCH", "is not a method"),
        ("http,allow=http://x", "is not a host"),
        ("sql=no.db", "does not exist"),
        ("shell", "no program is allowed"),
        ("shell=no-such-program", "there is no program"),
        ("shell=ls,timeout=0", "a number of seconds above zero"),
        ("python,memory=1.5", "a whole number above zero"),
        ("time=Mars", "there is no time zone"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_right(spec: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        load(spec)


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = "import sys, replan.tools.kit as kit; kit.load('time'); print([m for m in ('httpx2', 'duckdb', 'sqlite3') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
