"""`replan init`: a first configuration and a first file of tools, ready to run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

CONFIG = """\
# Replan's configuration. `replan config show` prints every key with its value and where it came from.
# A variable APP_{SECTION}_{KEY} overrides the file; keys and passwords belong there: APP_LLM_API_KEY.

[llm]
# Without these two, the built-in local model answers (`replan model pull`).
# endpoint = "http://localhost:8000/v1"      # any OpenAI-compatible base URL
# default_model = "openai:gpt-4.1"           # provider:name, or a name that the endpoint knows

[tools]
sources = ["tools.py"]

[approval]
# mode = "destructive"    # ask a person before each call with an effect (needs --interactive)

[budget]
# max_cost_usd = 1.0
# max_llm_calls = 40
"""
TOOLS = '''\
"""Tools for Replan: each function with @tool. The schema comes from the signature, the text from the docstring."""

from replan import tool

NOTES: list[str] = []


@tool(effect="reads")
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


@tool(effect="once")
def add_note(text: str) -> int:
    """Add a note; returns how many there are."""
    NOTES.append(text)
    return len(NOTES)
'''


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where; default: here.", show_default=False)
    ] = Path(),
) -> None:
    """Write a first config.toml and tools.py; files that are there stay as they are."""
    from replan.cli.terminal.terminal import say
    from replan.errors import InputError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("config.toml", CONFIG), ("tools.py", TOOLS)):
            path = folder / name
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                say(f"{path} is there already and stays as it is")
            else:
                say(f"wrote {path}")
    except OSError as error:
        raise InputError(f"{folder} cannot be written to: {error.strerror or error}") from None
    there = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    say(f"next: {there}replan doctor && replan run \"How many words has 'to be or not to be'?\"")
