"""`replan tools list|show|call|stats|serve|conformance`: what a task could use, how that does, and serving it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replan.cli.commands.offering.tools import conformance, serve
from replan.cli.terminal import options
from replan.cli.terminal.listing import Listed
from replan.cli.terminal.terminal import Out, own_stdout, say
from replan.core.words import in_digits

if TYPE_CHECKING:
    from replan.core.tools.stats import ToolKey, ToolStats
    from replan.core.types import ToolSpec

tools_app = typer.Typer(
    name="tools",
    help="List, show, call and serve tools, and see how they do.",
    cls=Listed,
    no_args_is_help=True,
    rich_markup_mode=None,
)

tools_app.command()(serve)
tools_app.command()(conformance)

ToolName = Annotated[str, typer.Argument(metavar="TOOL", help="The tool's id.")]


@tools_app.command(name="list")
def list_tools(
    tools: options.Tools = None,
    config: options.Config = None,
    server: options.Server = None,
    json: options.Json = False,
) -> None:
    """List the tools of the sources given with --tools and in the configuration; exit code 1 if none has any."""
    import asyncio

    from replan.cli.terminal.words import clean

    with own_stdout() as out:
        found, problems = asyncio.run(_specs(tools, config))
        if json:
            out.json([tool.model_dump(mode="json") for tool in found])
        else:
            width = max((len(tool.id) for tool in found), default=0)
            sources = {tool.source for tool in found}
            wide = max(map(len, sources)) + 2 if len(sources) > 1 else 0
            for tool in found:
                head = clean(tool.description.strip().split("\n")[0], 120)
                source = f"{tool.source:<{wide}}" if wide else ""
                out.line(f"{tool.id:<{width}}  {tool.effect:<10}  {source}{head}".rstrip())
    if not found:
        say(
            "no tools"
            if tools or problems
            else "no tools: name their sources with --tools, or in [tools] of config.toml"
        )
        raise typer.Exit(1)


@tools_app.command()
def show(
    tool: ToolName,
    tools: options.Tools = None,
    config: options.Config = None,
    server: options.Server = None,
    json: options.Json = False,
) -> None:
    """Show one tool: what it does and takes, and what may be done with it."""
    import asyncio

    with own_stdout() as out:
        spec = _one(asyncio.run(_specs(tools, config))[0], tool)
        if json:
            out.json(spec.model_dump(mode="json"))
        else:
            _tell(out, spec)


@tools_app.command()
def call(
    tool: ToolName,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE…", help="Parameters; a JSON VALUE is read as such.", show_default=False
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--parameters", metavar="FILE", help="Parameters as a JSON object; - for stdin."),
    ] = None,
    tools: options.Tools = None,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Call one tool and print what it gives: text as it is (JSON with --json), all else as JSON."""
    import asyncio

    from replan.cli.terminal.inputs import json_file
    from replan.errors import InputError

    values: Any = json_file(file, "parameters") if file else {}
    if not isinstance(values, dict):
        raise InputError(f"{file}: the parameters are an object; found {type(values).__name__}")
    with own_stdout() as out:
        output = asyncio.run(_call(tool, values, parameters or [], tools, config))
        if json:
            out.json(output)
        else:
            out.answer(output)


@tools_app.command()
def stats(
    tool: Annotated[
        str | None, typer.Argument(metavar="[TOOL]", help="Only this one.", show_default=False)
    ] = None,
    config: options.Config = None,
    db: options.Db = None,
    server: options.Server = None,
    json: options.Json = False,
) -> None:
    """Show how tools have done so far in all tasks: calls, successes, time taken, commonest errors."""
    import asyncio

    from replan.cli.commands.tool_stats import rows_of, table
    from replan.cli.terminal.remote.meant import service_of

    with own_stdout() as out:
        if (address := service_of(db)) is not None:
            rows = asyncio.run(_stats_of(address, tool))
        else:
            rows = rows_of(asyncio.run(_stats(config, db)), tool)
        if json:
            out.json(rows)
        else:
            for line in table(rows):
                out.line(line)


async def _stats_of(address: str, tool: str | None) -> list[dict[str, Any]]:
    from replan.cli.terminal.remote.served import Served, stats_rows

    async with Served(address) as service:
        return stats_rows(await service.tool_stats(tool))


async def _stats(config: Path | None, db: str | None) -> dict[ToolKey, ToolStats]:
    from replan.cli.terminal.opening import settings_of
    from replan.wiring import open_store

    store = open_store(db, settings_of(config))
    try:
        return await store.tool_stats()
    finally:
        await store.aclose()


async def _specs(tools: list[str] | None, config: Path | None) -> tuple[list[ToolSpec], list[str]]:
    """The tools, and what is wrong with their sources, which is told."""
    from replan.cli.terminal.opening import open_replan, settings_of, tell_tool_problems
    from replan.cli.terminal.remote.meant import service_of

    if (address := service_of(None, tools=tools, config=config)) is not None:
        from replan.cli.terminal.remote.served import Served

        async with Served(address) as service:
            return await service.tools(), []
    async with open_replan(settings_of(config), tools=tools) as replan:
        found = await replan.tools()
        tell_tool_problems(replan)
        return list(found), replan.tool_problems


async def _call(
    tool: str, values: dict[str, Any], pairs: list[str], tools: list[str] | None, config: Path | None
) -> Any:
    from replan.cli.terminal.inputs import metadata_of
    from replan.cli.terminal.opening import open_replan, settings_of, tell_tool_problems

    async with open_replan(settings_of(config), tools=tools) as replan:
        found = await replan.tools()
        tell_tool_problems(replan)
        spec = _one(found, tool)
        properties = spec.parameters.get("properties", {})
        texts = {
            name
            for name, schema in properties.items()
            if isinstance(schema, dict) and schema.get("type") == "string"
        }
        return await replan.call(spec.id, values | metadata_of(pairs, texts))


def _one(found: list[ToolSpec], name: str) -> ToolSpec:
    """The tool of that id or alias, whatever its case and separators."""
    from replan.errors import InputError
    from replan.tools.names import folded, nearest

    for spec in found:
        if spec.id == name:
            return spec
    alike = [spec for spec in found if folded(name) in map(folded, (spec.id, *spec.aliases))]
    if len(alike) == 1:
        return alike[0]
    if not found:
        raise InputError(
            f"there is no tool {name!r}: there are no tools at all; name a source of them with --tools tools.py, or in "
            "[tools] sources of config.toml"
        )
    near = nearest(name, [spec.id for spec in found])
    hint = f"; the nearest are: {', '.join(near)}" if near else "; `replan tools list` has them all"
    raise InputError(f"there is no tool {name!r}{hint}")


_EFFECTS = {
    "reads": "only reads: may be retried and called again",
    "repeatable": "changes something, and calling it again does no harm",
    "once": "changes something: never called again blindly",
}


_ERRORS = {
    None: "",
    True: "mean that nothing has happened, whatever they say",
    False: "may come after a part of the effect",
}


def _verifier(spec: ToolSpec) -> list[tuple[str, str]]:
    """How a call in doubt is settled."""
    import json

    from replan.core.calls.verify import DEFAULT_AFTER_SECS

    if spec.verify is None:
        return (
            [("in doubt", "a person is asked; declare `verify` to have code decide")]
            if (spec.effect == "once" and not spec.honours_key)
            else []
        )
    verify = spec.verify
    after = verify.after_secs
    if after is None:
        after = spec.timeout_secs or DEFAULT_AFTER_SECS
    by = "its own function"
    if verify.happened:
        asked = json.dumps(verify.parameters, ensure_ascii=False) if verify.parameters else ""
        by = f"{verify.tool}{asked}, happened if {verify.happened}"
        by += f", output {verify.output}" if verify.output else ""
    return [("in doubt", f"verified by {by}; a no counts after {in_digits(after)} s")]


def _tell(out: Out, spec: ToolSpec) -> None:
    import json

    from replan.cli.terminal.words import printable

    out.line(f"{spec.id}" + (f"  ({spec.name})" if spec.name and spec.name != spec.id else ""))
    if spec.description:
        out.line("\n".join(f"  {line}" for line in printable(spec.description).strip().splitlines()))
    out.line(f"  effect: {spec.effect} ({_EFFECTS[spec.effect]})")
    rows: list[tuple[str, Any]] = [
        ("source", spec.source),
        ("also called", ", ".join(spec.aliases)),
        ("retries", "" if spec.max_retries is None else str(spec.max_retries)),
        ("time limit", f"{in_digits(spec.timeout_secs)} s" if spec.timeout_secs else ""),
        ("output goes to metadata", ", ".join(spec.output_params)),
        ("masked parameters", ", ".join(spec.secrets)),
        ("approval", "a person has to agree to each call" if spec.requires_approval else ""),
        (
            "readings",
            "change by themselves" if spec.volatile else "do not change by themselves" if spec.stable else "",
        ),
        ("idempotency key", "honoured: a retry is safe" if spec.honours_key else ""),
        ("substitutes", f"{', '.join(spec.substitutes)} (they do the same)" if spec.substitutes else ""),
        ("one effect", f"calls with the same {', '.join(spec.unique_by)}" if spec.unique_by else ""),
        ("errors", _ERRORS[spec.errors_are_clean]),
        *_verifier(spec),
    ]
    for label, value in rows:
        if value:
            out.line(f"  {label}: {value}")
    out.line("  parameters:" + _indented(json.dumps(spec.parameters, ensure_ascii=False, indent=2)))
    if spec.output_schema:
        out.line("  output:" + _indented(json.dumps(spec.output_schema, ensure_ascii=False, indent=2)))
    if spec.sample is not None:
        out.line("  sample:" + _indented(printable(json.dumps(spec.sample, ensure_ascii=False, indent=2))))


def _indented(text: str) -> str:
    return "".join(f"\n    {line}" for line in text.splitlines())
