"""A phase's rate where the plan leaves it to `find_rate`: what the probes so far make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.problem import Problem
from stepbench.drivers.meters import PARAMETERS, TABLE_PERIOD_S, metric_of
from stepbench.errors import PlanError, RateNotFoundError
from stepbench.planning import expanded
from stepbench.planning.bracketing import Decision, decide_after, probe_words
from stepbench.records.utilisations import read_utilisations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import FindRate, Phase, Plan, TrialPlan
    from stepbench.contracts.result import Utilisation
    from stepbench.settings import Settings
    from stepbench.stages.services import Services

PERIODS_NEEDED = 2
"""Of the metric: any stretch of so many holds a whole one."""


def admit_finding(plan: Plan, settings: Settings) -> None:
    """
    A trial whose store's utilisation nobody can read would find out after its first probe.

    Raises:
        PlanError: the stack knows no metric of a store, or the probes are too short for it.
    """
    problems = dict.fromkeys(
        problem
        for trial in expanded(plan)
        if trial.plan.find_rate is not None
        for problem in _finding_problems(trial.source, trial.plan, trial.plan.find_rate, settings)
    )
    if problems:
        raise PlanError([Problem(path=at, value=value, message=why, remedy=do) for at, value, why, do in problems])


def _finding_problems(
    source: int, trial: TrialPlan, find: FindRate, settings: Settings
) -> Iterator[tuple[str, str, str, str]]:
    """Path, value, message, remedy."""
    at, store = f"trials[{source}].find_rate", trial.target.store
    parameter = PARAMETERS.get(store, "")
    try:
        metric = metric_of(trial.target, settings)
    except ValueError as error:
        yield at, store, f"needs this stack's metric of {store}, and {error}", f"Deploy with another {parameter}."
        return
    if metric is None and store != "dynamodb":
        message = f"needs to know how busy {store} is, and this stack knows no metric of it"
        yield at, store, message, f"Deploy with {parameter} (see docs/plans.md), or give the rates yourself."
        return
    shortest_s = PERIODS_NEEDED * (metric.period_s if metric else TABLE_PERIOD_S)
    if find.probe_s < shortest_s:
        message = f"is too short: the metric of {store} comes every {shortest_s / PERIODS_NEEDED:g} s"
        remedy = f"Raise it to {shortest_s:g}: two periods hold a whole one."
        yield f"{at}.probe_s", f"{find.probe_s:g}", message, remedy


def with_found_rate(spec: TrialSpec, phase: int, services: Services) -> TrialSpec | None:
    """
    The trial with the phase's rate in it; the same object where nothing is to be found, None for a probe too many.

    A retry decides the same: the probes before it are over.

    Raises:
        RateNotFoundError: the phase needs the rate, and there is none; or the trial is no valid one with it.
    """
    planned, find = spec.plan.phases[phase], spec.plan.find_rate
    if find is None or not (planned.probe or planned.uses_found_rate):
        return spec
    before = {each.name for each in spec.plan.phases[:phase]}
    known = [each for each in read_utilisations(spec, services.runs) if each.phase in before]
    decision = decide_after(find, known)
    if planned.probe:
        return None if decision.next_per_s is None else _with_rates(spec, phase, _at(planned, decision.next_per_s))
    if decision.found_per_s is None:
        raise RateNotFoundError(_not_found(find, planned, decision, known))
    return _with_rates(spec, phase, _of_found(planned, decision.found_per_s))


def _at(phase: Phase, rate_per_s: float) -> list[float]:
    return [min(step.rate_per_s, rate_per_s) for step in phase.load]


def _of_found(phase: Phase, found_per_s: float) -> list[float]:
    """Never more than the plan allows, which is what its price was estimated for."""
    return [
        step.rate_per_s if step.of_found is None else min(step.rate_per_s, step.of_found * found_per_s)
        for step in phase.load
    ]


def _with_rates(spec: TrialSpec, phase: int, rates_per_s: list[float]) -> TrialSpec:
    planned = spec.plan.phases[phase]
    load = tuple(
        step.model_copy(update={"rate_per_s": rate}) for step, rate in zip(planned.load, rates_per_s, strict=True)
    )
    phases = list(spec.plan.phases)
    phases[phase] = planned.model_copy(update={"load": load})
    rated = spec.model_copy(update={"plan": spec.plan.model_copy(update={"phases": tuple(phases)})})
    try:  # copies are not validated, and what no stage can read would keep its lease
        return TrialSpec.model_validate(rated.model_dump())
    except ValidationError as error:
        raise RateNotFoundError(_not_valid(planned, rates_per_s, error)) from error


def _not_valid(phase: Phase, rates_per_s: list[float], error: ValidationError) -> str:
    rates = ", ".join(f"{rate:,.4g}/s" for rate in rates_per_s)
    broken = "; ".join(each["msg"] for each in error.errors(include_url=False))
    return (
        f"phase {phase.name} would be offered at {rates}, as find_rate has it, and the plan does not hold at that: "
        f"{broken.rstrip('.')}. Raise find_rate.low_per_s, or give the rate yourself."
    )


def _not_found(find: FindRate, phase: Phase, decision: Decision, known: list[Utilisation]) -> str:
    probes = "; ".join(probe_words(each) for each in known if each.probe) or "none"
    return (
        f"phase {phase.name} is to be offered at the rate that makes the store {100 * find.utilisation:.0f} % busy, "
        f"and none was found: {decision.text}. Probes: {probes}. "
        "Widen find_rate.low_per_s and high_per_s, raise probes, tolerance or writers, or give the rate yourself."
    )
