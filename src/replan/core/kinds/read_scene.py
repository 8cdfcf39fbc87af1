"""A scene as it is written, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replan.core.kinds.scene import DEFAULT, ROLES, Scene
from replan.core.kinds.written import (
    MOST_DESCRIPTION,
    Fault,
    Faulty,
    name_in,
    too_long,
    unknown_keys,
    words_in,
)
from replan.core.words import kind_of

MOST_GUIDANCE = 20_000
SCENE_KEYS = ("task_type", "description", *ROLES)


def read_scene(front: Any, parts: Mapping[str, str], digest: str) -> Scene:
    """`front`: what stands in the front matter; `parts`: what stands below it, by role. `Faulty` with everything that is wrong."""
    faults: list[Fault] = []
    if not isinstance(front, dict):
        raise Faulty(
            [
                Fault(
                    (),
                    f"the front matter has keys with values, as `task_type: report`; this is {kind_of(front)}",
                )
            ]
        )
    faults += unknown_keys(front, SCENE_KEYS, "a scene")
    name = name_in(front, "task_type", faults)
    texts = {"description": words_in(front, "description", MOST_DESCRIPTION, faults, needed=name != DEFAULT)}
    for role in ROLES:
        own = words_in(front, role, MOST_GUIDANCE, faults, needed=False)
        texts[role] = "\n\n".join(filter(None, (own, parts.get(role, "").strip())))
        if len(texts[role]) > MOST_GUIDANCE:
            faults.append(Fault((role,), too_long(role, len(texts[role]), MOST_GUIDANCE)))
    if not faults and not any(texts[role] for role in ROLES):
        listed = ", ".join(ROLES)
        faults.append(
            Fault((), f"it says nothing to anybody: write guidance under {listed}, or below the front matter")
        )
    if faults:
        raise Faulty(faults)
    return Scene(task_type=name, digest=digest, **texts)
