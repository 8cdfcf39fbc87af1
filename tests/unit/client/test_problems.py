"""What a service says that went wrong is the error that the library raises for the same."""

from __future__ import annotations

import inspect
import json
import re

import pytest

from replan import errors as e
from replan.client.problems import error_of

EVERY = [one for one in vars(e).values() if isinstance(one, type) and issubclass(one, e.ReplanError)]


def _problem(kind: str, status: int = 409, **more: object) -> bytes:
    return json.dumps(
        {"type": f"urn:replan:problem:{kind}", "status": status, "detail": "so it is", **more}
    ).encode()


@pytest.mark.parametrize("kind", EVERY)
def test_each_error_comes_back_as_itself_with_its_words(kind: type[e.ReplanError]) -> None:
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
    found = error_of(409, _problem(name))
    assert type(found) is kind
    assert str(found) == "so it is"
    assert found.exit_code == kind.exit_code
    for base in kind.__mro__:
        if "__init__" in vars(base) and issubclass(base, e.ReplanError):
            for attribute in re.findall(r"self\.(\w+) =", inspect.getsource(base.__init__)):
                assert hasattr(found, attribute), attribute
    repr(found)


def test_what_stands_beside_the_words_comes_along() -> None:
    invalid = error_of(422, _problem("plan-invalid", 422, violations=["a", "b"]))
    assert isinstance(invalid, e.PlanInvalid)
    assert invalid.violations == ("a", "b")
    undone = error_of(409, _problem("task-not-done", task_status="waiting"))
    assert isinstance(undone, e.TaskNotDone)
    assert undone.status == "waiting"
    many = error_of(429, _problem("too-many", 429), {"retry-after": "2"})
    assert isinstance(many, e.TooMany)
    assert many.retry_after == 2


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, e.InputError),
        (401, e.NotSignedIn),
        (403, e.NotAllowed),
        (404, e.NoSuchPart),
        (413, e.InputError),
        (429, e.TooMany),
        (500, e.ServiceError),
        (501, e.NotBuilt),
        (502, e.ServiceError),
        (503, e.ServiceError),
    ],
)
@pytest.mark.parametrize(
    "body", [b"", b"<html>Bad gateway</html>", b"[1]", b"\xff\xfe", b'{"type": 3}', b"[" * 100_000]
)
def test_what_stands_between_says_its_status_in_its_own_words(
    status: int, kind: type[e.ReplanError], body: bytes
) -> None:
    found = error_of(status, body)
    assert type(found) is kind
    assert str(status) in str(found)


def test_a_kind_of_a_later_release_goes_by_its_status_and_keeps_its_words() -> None:
    found = error_of(403, _problem("moon-in-the-wrong-phase", 403))
    assert type(found) is e.NotAllowed
    assert str(found) == "so it is"
