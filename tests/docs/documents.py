"""What is in the documents, and a model's judgement for those who run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


class Block(NamedTuple):
    document: Path
    line: int
    language: str
    text: str


def blocks_of(document: Path, language: str) -> list[Block]:
    """The blocks of a language in a document."""
    text = document.read_text("utf-8")
    return [
        Block(document, text[: match.start()].count("\n") + 1, language, match.group(2))
        for match in re.finditer(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if match.group(1) == language
    ]


def evaluation(answer: Any) -> dict[str, Any]:
    scores = {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90}
    return {
        "overall_score": 93, "is_successful": True, "dimensions": scores, "successes": ["done"], "failures": [],
        "improvement_suggestions": [], "final_output": answer,
    }  # fmt: skip
