"""
What stores did with the same DAG, repeats together; in plain Python, since the report's function starts without NumPy.

Trials are set against each other if they differ in nothing but the store and its settings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.comparability import in_plan_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.dataflow.result import DagWindow
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialSummary


class Place(NamedTuple):
    """A window of a DAG."""

    dag: str
    phase: str
    window: str


@dataclass
class DagGroup:
    """The repeats of one trial that went through whole."""

    name: str
    trials: list[TrialSummary] = field(default_factory=list)

    @property
    def first(self) -> TrialSummary:
        """Return the first of them."""
        return self.trials[0]

    def windows(self, place: Place) -> list[DagWindow]:
        """Return each run's result of a window."""
        return [
            window
            for trial in self.trials
            for window in (trial.dataflow.windows if trial.dataflow else ())
            if (window.dag, window.phase, window.window) == place
        ]

    def end_to_end(self, place: Place) -> list[Estimate]:
        """Return each run's median time."""
        return [window.end_to_end_ms.p50 for window in self.windows(place)]

    def perf_per_usd(self, place: Place, prices: str, *, idle: bool) -> list[Estimate]:
        """Return each run's performance per dollar by one table; `prices`: what the table's name ends with."""
        return [
            cost.perf_per_usd
            for trial in self.trials
            for cost in (trial.dataflow.costs if trial.dataflow else ())
            if (cost.dag, cost.phase, cost.window) == place and cost.prices.endswith(prices) and cost.idle is idle
        ]


def dag_groups(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> dict[str, DagGroup]:
    """Return the trials of DAGs that went through whole, repeats together, in the order of the plan, by name."""
    found: dict[str, DagGroup] = {}
    for trial in in_plan_order(trials, listed):
        if trial.dataflow is not None:
            name = trial.group or trial.name
            found.setdefault(name, DagGroup(name)).trials.append(trial)
    return found


def same_work(groups: Sequence[DagGroup]) -> Iterator[tuple[Place, list[DagGroup]]]:
    """Yield each window with the groups that did the same work there, where there are several."""
    same: dict[tuple[Place, str], list[DagGroup]] = {}
    for group in groups:
        flow = group.first.dataflow
        for window in flow.windows if flow else ():
            place = Place(window.dag, window.phase, window.window)
            same.setdefault((place, _work(group.first, window.dag)), []).append(group)
    for (place, _), members in same.items():
        if len(members) > 1:
            yield place, members


def _work(trial: TrialSummary, dag: str) -> str:
    """Return what trials have in common that may be set against each other: all but the store and its settings."""
    setup = {path: value for path, value in trial.setup.items() if not path.startswith("target.")}
    dags = [
        each.model_dump(mode="json") for each in (trial.dataflow.dags if trial.dataflow else ()) if each.name == dag
    ]
    return json.dumps([dags, setup, trial.load_hosts], sort_keys=True, default=str)


def medium_names(groups: Sequence[DagGroup]) -> dict[str, str]:
    """Return how sentences call each group: by its store or, where several have that, by its own name, too."""
    stores = [group.first.store for group in groups]
    return {
        group.name: group.first.store if stores.count(group.first.store) == 1 else f"{group.first.store} ({group.name})"
        for group in groups
    }
