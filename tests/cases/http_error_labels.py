"""What the labels of the collected HTTP errors mean in our four classes.

Decided from the meaning of the labels alone, before any rule was written: nothing here looks at a status,
a code or a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OF_CATEGORY = {
    # It may pass by itself soon: the other side broke down, or was too slow.
    "server": "transient",
    "timeout": "transient",
    # The other side asks for a slower pace.
    "throttled": "throttled",
    # Another call is needed: other parameters, another id, another order of calls.
    "validation": "caller",
    "too_large": "caller",
    "not_found": "caller",
    "not_allowed": "caller",  # the resource does not offer this operation
    "conflict": "caller",  # the resource is in a state, or under a name, that this call does not fit
    "precondition": "caller",  # the call made itself depend on a state that does not hold
    # No call helps: an account, a contract or another service has to change first.
    "auth": "outside",
    "quota": "outside",  # a limit of the account; a limit of the pace is labelled `throttled`
    "dependency": "outside",  # something that the service itself needs is not there
    # Breakdowns, rights, limits and dependencies have labels of their own: what is left is about the call.
    "other": "caller",
}


def class_of(label: Mapping[str, Any]) -> str:
    """`transient`, `throttled`, `caller` or `outside`.

    Whoever marked an error as worth the same call again says that it passes by itself, whatever it is about:
    a conflict, say, with a change that is just being made. That outweighs the category. Asking for a slower
    pace is more than that, and stays apart.
    """
    if label["throttled"] or label["category"] == "throttled":
        return "throttled"
    if label["retry"]:
        return "transient"
    return OF_CATEGORY[label["category"]]
