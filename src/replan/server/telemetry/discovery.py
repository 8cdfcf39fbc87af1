"""What operators see of registries: of the services that are looked for, and of the registration of this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from replan.ports import ServiceState

if TYPE_CHECKING:
    from replan.discovery.consul.registration import Registration


_LABELS = ["service", "purpose"]


class Registries(Collector):
    """Read at the time of asking."""

    def __init__(
        self, states: Callable[[], Sequence[tuple[str, ServiceState]]], registration: Registration | None
    ) -> None:
        self._states = states
        self._registration = registration

    def collect(self) -> Iterator[Metric]:
        known = GaugeMetricFamily(
            "replan_discovery_instances", "Instances of a service that are known.", labels=_LABELS
        )
        well = GaugeMetricFamily(
            "replan_discovery_up",
            "Whether its registry answers, and lists some that can be used.",
            labels=_LABELS,
        )
        looks = CounterMetricFamily("replan_discovery_answers", "Answers of its registry.", labels=_LABELS)
        changes = CounterMetricFamily(
            "replan_discovery_changes", "Answers with others than before.", labels=_LABELS
        )
        failures = CounterMetricFamily(
            "replan_discovery_failures", "Questions that its registry did not answer.", labels=_LABELS
        )
        for purpose, state in self._states():
            labels = [state.service, purpose]
            known.add_metric(labels, state.instances)
            well.add_metric(labels, 0 if state.problem else 1)
            looks.add_metric(labels, state.looks)
            changes.add_metric(labels, state.changes)
            failures.add_metric(labels, state.failures)
        yield from (known, well, looks, changes, failures)
        stands = GaugeMetricFamily("replan_registered", "Whether this service is registered.")
        made = CounterMetricFamily("replan_registrations", "How often it was registered.")
        if (mine := self._registration) is not None:  # else nobody wants it to be
            stands.add_metric([], 0 if mine.problem else 1)
            made.add_metric([], mine.made)
        yield from (stands, made)
