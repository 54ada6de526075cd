"""The rules of a plan, and all rules of a trial together. Each yields what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts import dsql_rules, experiment_rules, load_rules, operations_rules
from stepbench.contracts.endpoint import endpoint_problem
from stepbench.contracts.rule import Broken, repeated_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import Plan, TrialPlan

MAX_TRIALS = 100
"""Of a plan, repeats and matrices expanded."""
MAX_PLANNED_BYTES = 200_000
"""Of the 256 KiB that `ValidatePlan` may hand on; the rest is for the trials' outcomes."""
PLANNED_TRIAL_BYTES, PLANNED_PHASE_BYTES = 350, 90


def _expansion_rules(plan: Plan) -> Iterator[Broken]:
    if plan.size <= MAX_TRIALS:
        return
    largest = max(range(len(plan.trials)), key=lambda index: plan.trials[index].copies)
    field = "repeats" if plan.trials[largest].matrix is None else "matrix"
    message = f"makes {plan.trials[largest].copies:,} of {plan.size:,} trials together, more than a plan's {MAX_TRIALS}"
    remedy = "Shorten the matrix, lower repeats, or split the plan."
    yield Broken(f"trials[{largest}].{field}", message, remedy)


def _planned_rules(plan: Plan) -> Iterator[Broken]:
    phases = sum(len(trial.run_phases) * trial.copies for trial in plan.trials)
    if plan.size <= MAX_TRIALS and plan.size * PLANNED_TRIAL_BYTES + phases * PLANNED_PHASE_BYTES > MAX_PLANNED_BYTES:
        message = f"have {phases:,} phases together, more than one state machine can hand on"
        yield Broken("trials", message, "Split the plan, or join phases.")


def _phase_rules(trial: TrialPlan) -> Iterator[Broken]:
    yield from repeated_names("phases", [phase.name for phase in trial.phases])
    probes = {phase.name for phase in trial.run_phases if phase.probe}
    for index, phase in enumerate(trial.phases):
        if not phase.probe and phase.name in probes:
            message = "is the name of a probe of find_rate"
            yield Broken(f"phases[{index}].name", message, "Give the phase another name.")
    if not any(phase.measured for phase in trial.phases):
        yield Broken("phases[0].measured", "is false, as in every phase", "Set measured: true on at least one phase.")


def _endpoint_rules(trial: TrialPlan) -> Iterator[Broken]:
    endpoint = trial.target.endpoint
    if endpoint is None:
        return
    if problem := endpoint_problem(endpoint):
        remedy = "Give a URL or host:port of a store of your own, or remove it to use the stack's."
        yield Broken("target.endpoint", problem, remedy)
    elif trial.target.store in {"s3", "dynamodb"} and "://" not in endpoint:
        yield Broken("target.endpoint", "is no URL", "Write http://host:port or https://host:port.")
    elif trial.target.store not in {"s3", "dynamodb"} and "://" in endpoint:
        yield Broken("target.endpoint", "is a URL, where host:port is needed", "Remove what stands before the host.")


def _name_rules(plan: Plan) -> Iterator[Broken]:
    yield from repeated_names("trials", [trial.name for trial in plan.trials])
    yield from repeated_names("applications", [application.name for application in plan.applications])


OF_TRIAL = (
    load_rules.concurrency_rules,
    load_rules.size_rules,
    load_rules.delete_rules,
    load_rules.watch_rules,
    load_rules.history_rules,
    experiment_rules.scale_rules,
    _phase_rules,
    _endpoint_rules,
    experiment_rules.published_rules,
    load_rules.log_rules,
    experiment_rules.find_rules,
    experiment_rules.same_sandbox_rules,
    load_rules.filter_rules,
    operations_rules.store_offers_rules,
    operations_rules.workload_rules,
    operations_rules.client_rules,
    dsql_rules.dsql_rules,
)
OF_PLAN = (_name_rules, _expansion_rules, _planned_rules)
