"""The scenes and workflows that there are at a moment."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from replan.core.kinds.scene import DEFAULT, Scene
from replan.core.kinds.workflow import Workflow
from replan.errors import InputError

_WORD = re.compile(r"\w{3,}")


class Known(NamedTuple):
    """What was found, and what could not be used."""

    scenes: Mapping[str, Scene] = {}
    """By kind of task."""
    workflows: Mapping[str, Workflow] = {}
    """By id."""
    problems: tuple[str, ...] = ()
    """Each with its file and line."""
    sources: Mapping[str, str] = {}
    """Where each comes from, by `scene NAME` and `workflow NAME`."""

    @property
    def kinds(self) -> list[Scene]:
        """The scenes among which there is a choice: none where there is but one for everything."""
        return list(self.scenes.values()) if self.scenes.keys() - {DEFAULT} else []

    @property
    def every_scene(self) -> list[Scene]:
        """By name, with the one for all other tasks, which is there also where nobody has anything to say on them."""
        found = {
            DEFAULT: Scene(task_type=DEFAULT, description="Every task that is of no other kind.")
        } | dict(self.scenes)
        return [found[name] for name in sorted(found)]

    @property
    def nothing(self) -> bool:
        """True if there is nothing to choose."""
        return not (self.kinds or self.workflows)

    def scene(self, task_type: str) -> Scene | None:
        """The scene of a kind of task, or the default one."""
        return self.scenes.get(task_type) or self.scenes.get(DEFAULT)

    def workflow(self, workflow_id: str) -> Workflow:
        """`InputError` names the nearest where there is none of that id."""
        found = self.workflows.get(unicodedata.normalize("NFC", workflow_id.strip()))
        if found is None:
            raise InputError(self.no_such_workflow(workflow_id))
        return found

    def no_such_workflow(self, workflow_id: str) -> str:
        """That there is none, and which there are."""
        near = difflib.get_close_matches(workflow_id, list(self.workflows), 3)
        if near:
            hint = f"did you mean {' or '.join(map(repr, near))}?"
        elif self.workflows:
            names = list(self.workflows)
            hint = f"there are: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}"
        else:
            hint = "there are none: name their files in [scenes] workflows"
        return f"there is no workflow {workflow_id[:200]!r}; {hint}"


NOTHING = Known()


class Offered(NamedTuple):
    """What a model may name in one answer."""

    scenes: tuple[Scene, ...] = ()
    workflows: tuple[Workflow, ...] = ()

    @property
    def without_workflows(self) -> Offered:
        return self._replace(workflows=())

    def workflow(self, workflow_id: object) -> Workflow | None:
        """The one that is meant, whatever its case, and whatever stands between its words where that tells it from the others."""
        said = unicodedata.normalize("NFC", str(workflow_id or "")).strip().casefold()
        for one in self.workflows:
            if one.workflow_id.casefold() == said:
                return one
        plain = _BETWEEN.sub("-", said)
        near = [one for one in self.workflows if _BETWEEN.sub("-", one.workflow_id.casefold()) == plain]
        return near[0] if len(near) == 1 else None

    def task_type(self, said: str) -> str:
        """The kind that is meant, whatever its case; as it was said where there is none of that name."""
        folded = unicodedata.normalize("NFC", said).strip().casefold()
        return next((one.task_type for one in self.scenes if one.task_type.casefold() == folded), said)


_BETWEEN = re.compile(r"[-_ .]")

NOTHING_OFFERED = Offered()


def nearest_workflows(task: str, workflows: Collection[Workflow], most: int) -> Sequence[Workflow]:
    """So many of them, those first that share the most words with the task."""
    if len(workflows) <= most:
        return list(workflows)
    words = set(_WORD.findall(task.casefold()))

    def shared(one: Workflow) -> int:
        told = f"{one.workflow_id.replace('_', ' ').replace('-', ' ')} {one.description}"
        return -len(words & set(_WORD.findall(told.casefold())))

    return sorted(workflows, key=shared)[:most]
