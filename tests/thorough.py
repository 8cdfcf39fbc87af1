"""How many examples a property is tried with: some in every run of the tests, all of them in the proof."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

PROOF = "prove"
"""The profile of `make prove`."""
_SHARE = 4
"""Every run tries one in so many."""
_MOST = 100
"""Of a property that does not say how many."""


def register() -> None:
    """The two profiles; in neither does a test fail because the machine is busy."""
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("replan", patient, max_examples=_MOST // _SHARE)
    settings.register_profile(PROOF, patient, max_examples=_MOST)
    settings.load_profile("replan")  # `--hypothesis-profile` comes after it


def examples(count: int) -> int:
    """As many of `count` examples as this run tries."""
    return count if settings.get_current_profile_name() == PROOF else max(1, count // _SHARE)
