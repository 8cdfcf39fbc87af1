"""Examples of bodies, for the document of the interface."""

from __future__ import annotations

from typing import Any

SUBMIT: dict[str, Any] = {
    "words": {"summary": "A task in words", "value": {"task_description": "Compare the weather in Rome and Oslo"}},
    "bounded": {
        "summary": "With an id of its own, limits and a form of the answer",
        "value": {
            "task_description": "Sum up the open invoices of customer 7",
            "task_id": "invoices-7",
            "metadata": {"customer": 7},
            "context": {"session_id": "s-1"},
            "options": {
                "max_cost_usd": 0.5, "approval": "destructive",
                "output_schema": {"type": "object", "properties": {"total": {"type": "number"}}},
            },
        },
    },
    "planned": {
        "summary": "A plan that is given, without any model",
        "value": {
            "task_description": "Find the readme",
            "options": {
                "evaluation": "steps",
                "plan": {"steps": [{"step_id": "s1", "tool": "list_files", "parameters": {"path": "."}}]},
            },
        },
    },
    "dry_run": {
        "summary": "Only what it would do",
        "value": {"task_description": "Delete the files of last year", "dry_run": True},
    },
}  # fmt: skip
HINT: dict[str, Any] = {
    "hint": {"summary": "A hint", "value": {"text": "The report is in the folder `2026`, not in `reports`."}}
}
APPROVAL: dict[str, Any] = {
    "yes": {"summary": "Yes to the call that was shown", "value": {"approved": True, "hash": "f2c1…"}},
    "no": {"summary": "No, and why", "value": {"approved": False, "reason": "the amount is too high"}},
}
ANSWER: dict[str, Any] = {"answer": {"summary": "An answer", "value": {"text": "Use the second account."}}}
SIGNAL: dict[str, Any] = {
    "signal": {"summary": "What has come", "value": {"token": "cb_7f3a", "data": {"paid": True}}}
}
SETTLE: dict[str, Any] = {
    "happened": {"summary": "It took effect", "value": {"happened": True, "output": {"id": 7}}},
    "not": {"summary": "It did not", "value": {"happened": False}},
    "unknown": {"summary": "Nobody can tell", "value": {"happened": None}},
}
STREAM: dict[str, Any] = {
    "stream": {
        "summary": "The end of a stream",
        "value": 'id: 41\nevent: task_completed\ndata: {"seq":41,"task_id":"task_01J","ts":1764453600.1,"round":1,'
        '"type":"task_completed","data":{}}\n\n',
    }
}
