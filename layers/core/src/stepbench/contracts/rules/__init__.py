"""All rules of a trial that span several of its fields; each yields what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.base import BrokenRule, repeated_names
from stepbench.contracts.published import DAG_METRICS
from stepbench.contracts.rules import etcd, experiments, load
from stepbench.contracts.target import DynamoDbTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.trial import TrialFields


def _phase_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    yield from repeated_names("phases", [phase.name for phase in trial.phases])
    probes = {phase.name for phase in trial.run_phases if phase.probe}
    for index, phase in enumerate(trial.phases):
        if not phase.probe and phase.name in probes:
            message = "is the name of a probe of find_rate"
            yield BrokenRule(f"phases[{index}].name", message, "Give the phase another name.")
    if not any(phase.measured for phase in trial.phases):
        yield BrokenRule(
            "phases[0].measured", "is false, as in every phase", "Set measured: true on at least one phase."
        )


def _endpoint_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    target = trial.target
    if isinstance(target, DynamoDbTarget) and target.endpoint and target.tls is target.endpoint.startswith("http://"):
        yield BrokenRule("target.tls", "says otherwise than the endpoint's URL", "Remove it.")


def _published_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Published numbers have to name windows that are measured."""
    windows = [window.name for phase in trial.phases for window in phase.all_windows()]
    known = ", ".join(f'"{name}"' for name in dict.fromkeys(windows))
    for index, published in enumerate(trial.published):
        if published.metric == "ks" and not (isinstance(trial.target, DynamoDbTarget) and trial.target.same_sandbox):
            message = "is ks, the clock check's distance, and this trial has no same_sandbox"
            yield BrokenRule(f"published[{index}].metric", message, "Move it to the trial with same_sandbox: true.")
        if published.metric in DAG_METRICS and not trial.dags:
            message = f"is {published.metric}, which only dataflow has"
            yield BrokenRule(f"published[{index}].metric", message, "Move it to a trial of dataflow.")
        if published.count is not None and trial.workload is None:
            message = "belongs to the table of percentiles, which only operations have"
            yield BrokenRule(f"published[{index}].count", message, "Remove it.")
        if published.window is None and len(windows) > 1:
            message = "is missing, and there are several measured windows"
            yield BrokenRule(f"published[{index}].window", message, f"Name one of {known}.")
        for field, name in (("window", published.window), ("over", published.over)):
            if name is None or windows.count(name) == 1:
                continue
            if name in windows:
                message, remedy = "is the name of windows in several phases", "Give those windows names of their own."
            else:
                message, remedy = "names no measured window", f"Name one of {known}, or remove it."
            yield BrokenRule(f"published[{index}].{field}", message, remedy)


TRIAL_RULES = (
    load.concurrency_rules,
    load.size_rules,
    load.gapless_rules,
    load.delete_rules,
    load.watch_rules,
    load.history_rules,
    load.scale_rules,
    _phase_rules,
    _endpoint_rules,
    _published_rules,
    load.log_rules,
    load.find_rules,
    load.same_sandbox_rules,
    etcd.space_rules,
    load.filter_rules,
    experiments.client_rules,
    experiments.dsql_rules,
)
OWN_RULES = {
    "trigger": (experiments.trigger_rules, experiments.no_dag_rules),
    "operations": (experiments.operation_rules, experiments.no_dag_rules),
    "dataflow": (experiments.dag_rules, experiments.medium_rules, experiments.field_rules),
}
"""What one experiment demands, by its name."""
