"""What many tools declare of secrets is looked for once, and anew where they are others."""

from __future__ import annotations

import pytest

from replan.core.events import TaskSubmitted
from replan.core.secrets import KnownSecrets
from replan.core.types import ToolSpec
from replan.run.session.known_secrets import known_to, may_hold_secrets
from replan.testing import FakeSource, FakeTool
from replan.tools.catalog.catalog import Catalog

pytestmark = pytest.mark.anyio

PLAIN = {"type": "object", "properties": {"to": {"type": "string"}}}
SECRET = {"type": "object", "properties": {"door": {"type": "string", "format": "password"}}}


class Changing(FakeSource):
    """Its list is what it is set to."""

    def __init__(self, *parameters: dict[str, object]) -> None:
        super().__init__({f"t{n}": FakeTool() for n in range(len(parameters))})
        self.parameters = parameters

    async def tools(self) -> list[ToolSpec]:
        return [ToolSpec(id=f"t{n}", parameters=each) for n, each in enumerate(self.parameters)]


async def test_tools_that_have_changed_are_looked_at_anew() -> None:
    source = Changing(*[PLAIN] * 1200)  # more than are remembered one by one
    catalog = Catalog([source])
    event = TaskSubmitted(description="open", metadata={"door": "kx-81-Lm"})
    for with_secret in (False, True, False, True):
        source.parameters = (*[PLAIN] * 1200, *([SECRET] if with_secret else []))
        await catalog.open()
        for _ in range(2):
            assert may_hold_secrets(catalog) is with_secret
            hidden = known_to(event, catalog, KnownSecrets()).hide("it is kx-81-Lm")
            assert hidden == ("it is ***" if with_secret else "it is kx-81-Lm")
    await catalog.aclose()


@pytest.mark.parametrize("many", [1, 99, 100, 101, 400])
async def test_a_long_list_is_taken_as_a_short_one_is(many: int) -> None:
    catalog = Catalog([Changing(*[SECRET] * many)])
    await catalog.open()
    assert [spec.secrets for spec in catalog.specs()] == [("door",)] * many
    assert catalog.problems == []
    await catalog.aclose()
