"""The lists of commands in the help."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from replan.cli.tree import app


@pytest.mark.parametrize("group", [(), ("tasks",), ("tools",), ("model",), ("config",)])
def test_no_sentence_is_cut_in_a_list_of_commands(group: tuple[str, ...]) -> None:
    told = CliRunner().invoke(app, [*group, "--help"], terminal_width=60)
    assert told.exit_code == 0
    listed = told.output.partition("Commands:")[2]
    assert listed
    assert "..." not in listed
