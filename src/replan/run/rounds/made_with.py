"""What a plan is made with: recorded beside it, so that whoever goes on with it elsewhere sees what is otherwise there."""

from __future__ import annotations

from collections.abc import Iterable

from replan.core.tools.versions import Versions, versions_of
from replan.core.types import Step
from replan.core.waits.tools import names_of_tools
from replan.reasoning.prompting.prompts import digest_of_all
from replan.run.rounds.held_tools import as_they_are
from replan.run.session.context import Run


def made_with(run: Run, steps: Iterable[Step]) -> Versions:
    """The versions of Replan, its prompts, and the tools of these steps."""
    resolve = as_they_are(run.parts.tools).resolve
    ids = sorted({spec.id for name in names_of_tools(steps) if (spec := resolve(name)) is not None})
    prompts = digest_of_all() if run.state.modelled else ""
    return Versions.of(run.parts.version, prompts, versions_of(ids, resolve))
