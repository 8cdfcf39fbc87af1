"""What the documents show is true: code runs, commands exist, configuration loads, links lead somewhere."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import DOCUMENTS, ROOT, Block, blocks_of, evaluation

from replan.config import load_settings
from replan.testing import ScriptedEndpoint


def blocks(language: str) -> list[Any]:
    """Every block of a language, as test parameters named by their place."""
    return [
        pytest.param(block, id=f"{document.relative_to(ROOT)}:{block.line}")
        for document in DOCUMENTS
        for block in blocks_of(document, language)
    ]


def plum_plan() -> dict[str, Any]:
    return {
        "steps": [
            {"step_id": "step_1", "tool": "stock", "parameters": {"fruit": "plums"}},
            {"step_id": "step_2", "tool": "price", "parameters": {"fruit": "plums"}},
        ]
    }


def word_plan() -> dict[str, Any]:
    return {
        "steps": [{"step_id": "step_1", "tool": "word_count", "parameters": {"text": "to be or not to be"}}]
    }


ANSWERS = {
    "plums": (plum_plan, {"fruit": "plums", "euros": 1.75}, "1.75"),
    "words": (word_plan, "6 words", "6 words"),
}


@pytest.fixture
def own_modules() -> Iterator[None]:
    """Modules that a block imports are gone afterwards."""
    known, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - known:
        if name == "tools":
            del sys.modules[name]


@pytest.mark.parametrize("block", blocks("python"))
def test_python_blocks_run(
    block: Block,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    own_modules: None,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(str(tmp_path))
    if "from tools import" in block.text:
        first = next(p.values[0] for p in blocks("python") if "# tools.py" in p.values[0].text)
        (tmp_path / "tools.py").write_text(first.text, "utf-8")
    wanted = next((name for name in ANSWERS if name in block.text and "endpoint" in block.text), None)
    if wanted is None:
        exec(compile(block.text, f"{block.document.name}:{block.line}", "exec"), {"__name__": "block"})
        return
    plan, answer, shown = ANSWERS[wanted]
    with ScriptedEndpoint({"execution_plan": plan(), "evaluation": evaluation(answer)}) as endpoint:
        text = block.text.replace("http://localhost:8000/v1", endpoint.url)
        assert text != block.text
        names: dict[str, Any] = {"__name__": "block"}
        exec(compile(text, f"{block.document.name}:{block.line}", "exec"), names)
        if "asyncio.run" not in text:
            asyncio.run(names["main"]())
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize("block", blocks("json"))
def test_json_blocks_are_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks("toml"))
def test_toml_blocks_are_configuration(block: Block, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(block.text, "utf-8")
    loaded = load_settings(env={}, cwd=tmp_path)
    assert loaded.files
    assert not loaded.warnings


def command_lines() -> list[Any]:
    """Every `replan …` of a console block."""
    found = []
    for parameter in blocks("console"):
        block = parameter.values[0]
        for number, line in enumerate(block.text.splitlines(), 1):
            match = re.match(r"\$ (?:[A-Z_]+=\S+ )*(replan .*?)(?:\s+#.*)?$", line)
            if match:
                place = f"{block.document.relative_to(ROOT)}:{block.line + number}"
                found.append(pytest.param(re.split(r" [|>] ", match.group(1))[0], id=place))
    return found


@pytest.mark.parametrize("line", command_lines())
def test_commands_and_options_exist(line: str) -> None:
    import typer

    from replan.cli.tree import app

    command: Any = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{words[0]!r} is no command of {command.name}"
        command = command.commands[words.pop(0)]
    options = {name for parameter in command.params for name in parameter.opts} | {"--help", "-h"}
    for word in words:
        if word.startswith("-"):
            assert word.split("=")[0] in options, f"{word} is no option of {line}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [t for t in targets if "://" not in t and not (document.parent / t).exists()]
    assert not missing


def test_every_event_kind_is_documented() -> None:
    from replan.core.events import KINDS

    text = (ROOT / "docs/reference/events.md").read_text("utf-8")
    missing = [
        kind
        for kind in KINDS
        if f"`{kind}`" not in text and kind not in ("plan_updated", "outcome_settled", "budget_warning")
    ]
    assert not missing


def test_every_setting_is_documented() -> None:
    from replan.config import Settings

    text = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
    missing = [
        f"[{section}] {key}"
        for section, field in Settings.model_fields.items()
        for key in getattr(field.annotation, "model_fields", {})
        if f"`{key}`" not in text or f"[{section}]" not in text
    ]
    assert not missing
