"""A world in which secrets of every kind pass by: tools that hold, repeat, quote and encode them, and a finder of what is left."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

SECRETS = {
    "declared": "Declared/Value+One=1",
    "optional": 'optional "quoted" pass\'word',
    "behind_ref": "behind-ref-é-ünïcode-77",
    "nested": "nested&secret?in=list",
    "metadata": "metadata-token-4f9a11",
    "given": "given-by-source-99ab",
    "model_key": "sk-model-key-000111222",
    "endpoint": "endp0int-passw0rd-x",
    "oauth": "oauth-access-token-abcdef",
    "client": "client-secret-zzz-123",
    "header": "header-value-secret-55",
    "url": "url-query-key-8080",
    "literal": "literal-in-the-plan-31",
    "output": "made-by-a-tool-and-declared-so",
}


def spellings(secret: str) -> dict[str, str]:
    """How a secret may be written: found by other means than those that hide it."""
    raw = secret.encode()
    found = {
        "as it is": secret,
        "as JSON": json.dumps(secret)[1:-1],
        "as JSON in Unicode": json.dumps(secret, ensure_ascii=False)[1:-1],
        "as JSON in JSON": json.dumps(json.dumps(secret)[1:-1])[1:-1],
        "as Python": repr(secret)[1:-1],
        "in an address": quote(secret, safe=""),
        "in a form": quote_plus(secret),
    }
    for before in range(3):
        text = base64.b64encode(b"." * before + raw).decode().rstrip("=")
        core = text[4 if before else 0 : -2]
        if len(core) >= 12:
            found[f"in base64, {before} behind the start"] = core
    return found


def leaks(where: str, data: bytes | str) -> list[str]:
    """Every secret that the data hold, and how it is written there."""
    blob = data.encode() if isinstance(data, str) else data
    return [
        f"{where}: {name} ({how})"
        for name, secret in SECRETS.items()
        for how, text in spellings(secret).items()
        if text.encode() in blob
    ]


def leaks_of_files(*folders: Path) -> list[str]:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [found for file in files for found in leaks(file.name, file.read_bytes())]


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def verdict(score: float, output: Any, *, success: bool) -> dict[str, Any]:
    return {
        "overall_score": score,
        "is_successful": success,
        "dimensions": {"completeness": score, "correctness": score, "efficiency": 80, "reliability": 80},
        "successes": [],
        "failures": [] if success else ["the first round did not do"],
        "improvement_suggestions": [],
        "final_output": output,
    }
