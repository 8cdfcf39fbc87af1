"""Examples of bodies, for the document of the interface."""

from __future__ import annotations

from typing import Any

from replan.core.types import JsonObject

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
REVIEW: dict[str, Any] = {
    "yes": {"summary": "Yes to the plan that was shown", "value": {"approved": True, "hash": "8b0e…"}},
    "no": {"summary": "No, and why", "value": {"approved": False, "reason": "leave the archive alone"}},
    "other": {
        "summary": "Another plan in its place",
        "value": {
            "approved": True,
            "hash": "8b0e…",
            "plan": {"steps": [{"step_id": "rome", "tool": "weather", "parameters": {"city": "Rome"}}]},
        },
    },
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

_TASK: JsonObject = {
    "task_id": "task_01J9ZK3V7Q", "status": "executing", "description": "Compare the weather in Rome and Oslo",
    "created": 1764453600.1, "updated": 1764453601.9, "last_seq": 17, "current_round": 1, "current_step": "oslo", "total_steps": 3,
    "done_steps": 1, "progress": 0.3333333333333333, "plan_version": 1,
    "usage": {"llm_calls": 1, "tool_calls": 2, "input_tokens": 812, "output_tokens": 164, "cost_usd": 0.0021},
    "waiting_for": [], "session_id": "s-1", "tenant": None,
}  # fmt: skip
_STEP: JsonObject = {
    "step_id": "rome", "name": "The weather in Rome", "tool": "weather", "status": "succeeded",
    "output": {"city": "Rome", "degrees": 21}, "attempts": 1, "duration_secs": 0.4,
    "calls": [{"tool": "weather", "parameters": {"city": "Rome"}, "status": "succeeded", "effect": "reads"}],
}  # fmt: skip
_PLAN: JsonObject = {
    "version": 1, "round": 1, "seq": 6, "critical_path": ["rome", "both"],
    "plan": {
        "steps": [
            {"step_id": "rome", "tool": "weather", "parameters": {"city": "Rome"}},
            {"step_id": "oslo", "tool": "weather", "parameters": {"city": "Oslo"}},
            {"step_id": "both", "tool": "compare", "parameters": {"a": "${rome.output}", "b": "${oslo.output}"}},
        ]
    },
}  # fmt: skip
_WAITING: JsonObject = {
    "task_id": "task_01J9ZK3V7Q", "description": "Pay the invoice 7", "since": 1764453601.9, "hash": "f2c19a",
    "waiting_for": {
        "kind": "approval", "id": "apr_1", "text": "pay(amount=120)", "step_id": "pay", "tool_id": "pay",
        "parameters": {"amount": 120},
    },
    "sources": {"amount": ["${invoice.output.total}"]},
}  # fmt: skip
_SUBMITTED: JsonObject = {"task_id": "task_01J9ZK3V7Q", "status": "queued", "new": True}
_TOOL: JsonObject = {
    "id": "weather", "description": "The weather of a city", "effect": "reads", "source": "tools", "output_schema": None,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}  # fmt: skip
_PAGE: JsonObject = {
    "items": [
        {
            "seq": 3, "task_id": "task_01J9ZK3V7Q", "ts": 1764453600.2, "round": 1, "type": "round_started", "data": {"round": 1},
        }
    ],
    "next_after": 3,
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "submit": _SUBMITTED,
    "tasks": {
        "items": [{name: _TASK[name] for name in ("task_id", "status", "description", "created", "updated", "last_seq", "session_id")}],
        "next_cursor": "task_01J9ZK3V7Q",
    },
    "result": {
        "task_id": "task_01J9ZK3V7Q", "status": "succeeded", "is_success": True, "final_score": 93.0, "total_rounds": 1,
        "final_output": "Rome is 14 degrees warmer than Oslo.", "total_duration_secs": 2.3, "steps": [_STEP],
    },
    "plans": [_PLAN], "plan": _PLAN,
    "step": {"step": _STEP, "planned": _PLAN["plan"]["steps"][0], "depends_on": []},
    "output": {"offset": 0, "total": 28, "text": '{"city":"Rome","degrees":21}'},
    "waits": [_WAITING], "approval": _WAITING, "waiting": {"items": [_WAITING], "next_cursor": None},
    "events": _PAGE, "fork": {**_SUBMITTED, "task_id": "task_01J9ZK9C2D"}, "signal": {"new": True},
    "tools": [_TOOL],
    "tool_stats": {
        "tool_id": "weather", "source": "tools", "calls": 204, "success_rate": 0.98, "p50_secs": 0.4, "p95_secs": 1.1,
        "common_errors": [["timed out", 3]],
    },
    "workflows": [{
        "id": "city-report", "description": "Look up a city and send what was found", "required": ["city"], "steps": 2,
        "slots": {"city": {"type": "string"}}, "tools": ["weather"], "lacking": [], "task_type": "report", "built_in": False,
        "digest": "6f1ed002ab5595859014ebf0951522d9",
    }],
    "scenes": [{
        "task_type": "report", "description": "Something is to be reported", "guides": ["planning", "evaluation"],
        "digest": "c4ca4238a0b923820dcc509a6f75849b",
    }],
    "health": {"status": "healthy", "timestamp": "2026-11-29T22:02:27.368Z"},
    "ready": {"ready": True, "dependencies": [{"name": "store", "ready": True, "detail": ""}]},
}  # fmt: skip
"""What calls answer when all is well, by name; those that are not here answer with the task."""
TASK = _TASK
BODIES: dict[str, Any] = {
    "submit": SUBMIT, "hint": HINT, "approve": APPROVAL, "review": REVIEW, "answer": ANSWER, "signal": SIGNAL, "settle": SETTLE,
}  # fmt: skip
"""What calls take, by name."""
