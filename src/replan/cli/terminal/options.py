"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from replan.cli.terminal.again import carried_config, carried_db, carried_key
from replan.cli.terminal.remote.meant import meant, refused

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration file instead of ./config.toml; its sibling NAME.{APP_ENV}.toml overrides it.",
        callback=carried_config,
    ),
]
Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="sqlite:///FILE or postgresql://HOST/DATABASE; default: one in the state folder.",
        callback=carried_db,
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="A service in place of a database; default: REPLAN_SERVER. REPLAN_API_KEY is the key (itself, env:VARIABLE or file:PATH).",
        callback=meant,
    ),
]
NoServer = Annotated[str | None, typer.Option("--server", metavar="URL", hidden=True, callback=refused)]
PlanForm: TypeAlias = Literal["json", "mermaid", "dot", "svg"]
PlanFormat = Annotated[
    PlanForm, typer.Option("--format", help="JSON, or a drawing: Mermaid, Graphviz DOT, SVG.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        metavar="KEY",
        help="The endpoint's key: env:VARIABLE, file:PATH, or itself (which stays in the shell's history).",
        callback=carried_key,
    ),
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option("--log-level", help="Least serious line that is told; default: [logging] level."),
]
LogFormat = Annotated[
    Literal["text", "json"] | None,
    typer.Option("--log-format", help="Lines for people, or JSON objects; default: [logging] format."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        "-t",
        metavar="SPEC",
        help="Where tools come from: tools.py, package.module, module:name, mcp:COMMAND, mcp.json, openapi:FILE, grpc://…, http://… or kit:…. May be given several times.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER:NAME",
        help="The model, like openai:gpt-4.1; with --endpoint a bare name.",
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint", metavar="URL", help="OpenAI-compatible base URL, like http://127.0.0.1:8000/v1."
    ),
]
Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME=env:VAR",
        help="Secret metadata, which no log or prompt shows: NAME=env:VARIABLE or NAME=file:PATH.",
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT",
        help="What is to be done, in quotes; - reads it from stdin.",
        show_default=False,
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "-m",
        "--metadata",
        metavar="KEY=VALUE",
        help="Metadata of the task; a JSON VALUE is read as such.",
    ),
]
NewTaskId = Annotated[
    str | None, typer.Option("--task-id", metavar="ID", help="The task's id; default: a new one.")
]
Session = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="ID",
        help="The session that it belongs to: it knows of the last tasks with the same one.",
    ),
]
After = Annotated[
    str | None,
    typer.Option(
        "--after",
        metavar="TASK",
        help="The task that it follows, by its id, the beginning of one, or `last`: it knows what that has done and given.",
    ),
]
Approve = Annotated[
    Literal["never", "destructive", "all"] | None,
    typer.Option("--approve", help="Which calls a person has to approve first."),
]
ReviewPlan = Annotated[
    bool,
    typer.Option(
        "--review-plan", help="Hold each plan until a person has agreed to it (`replan tasks review`)."
    ),
]
Evaluation = Annotated[
    Literal["model", "steps"] | None,
    typer.Option("--evaluation", help="Who judges: the model, or the steps' success alone."),
]
PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", metavar="FILE", help="Run this plan (JSON; - for stdin) without the planner."),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", min=0, help="Seconds that the task may take.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No picture of the progress on stderr.")]
Events = Annotated[bool, typer.Option("--events", help="Print the events as NDJSON on stdout.")]
