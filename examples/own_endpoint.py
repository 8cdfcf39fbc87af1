"""Your own functions with any OpenAI-compatible endpoint: a hosted one, or vLLM, Ollama or llama.cpp at home.

    python examples/own_endpoint.py http://127.0.0.1:11434/v1 MODEL
    API_KEY=… python examples/own_endpoint.py https://api.example.com/v1 MODEL "Which example is the shortest?"

The same without a program:
    replan run --endpoint http://127.0.0.1:11434/v1 --model MODEL --tools examples/own_endpoint.py "…"
"""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from pathlib import Path

from replan import Replan, TaskResult, tool

EXAMPLES = Path(__file__).parent
QUESTION = "How many lines do typed_answer.py and resume.py have together, and what is each about?"


def _source(file: str) -> str:
    # A tool gets its parameters from a model: take only what is in the folder, whatever is asked for.
    known = {path.name: path for path in EXAMPLES.glob("*.py")}
    if file not in known:
        raise FileNotFoundError(f"there is no {file}; there are: {', '.join(sorted(known))}")
    return known[file].read_text(encoding="utf-8")


@tool(effect="reads")
def list_examples() -> list[str]:
    """The file names of all examples."""
    return sorted(path.name for path in EXAMPLES.glob("*.py"))


@tool(effect="reads")
def count_lines(file: str) -> int:
    """How many lines an example has."""
    return len(_source(file).splitlines())


@tool(effect="reads")
def first_sentence(file: str) -> str:
    """What an example is about: the first line of its docstring."""
    return (ast.get_docstring(ast.parse(_source(file))) or "").partition("\n")[0]


async def ask(endpoint: str, model: str, question: str) -> TaskResult:
    """Run one task with the endpoint's model; the key, if it wants one, comes from `API_KEY`."""
    async with Replan(
        model,
        [list_examples, count_lines, first_sentence],
        endpoint=endpoint,
        api_key=os.environ.get("API_KEY"),
    ) as replan:
        return await replan.run(question)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    endpoint, model, *words = sys.argv[1:]
    result = asyncio.run(ask(endpoint, model, " ".join(words) or QUESTION))
    print(result.output if result.succeeded else result.failure)
    raise SystemExit(0 if result.succeeded else 1)
