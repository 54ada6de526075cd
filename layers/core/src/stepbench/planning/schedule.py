"""
Whether an event is due in each measured window of a plan, by its schedule and seeds: without one, its trial would fail.

Evenly spaced events are counted without libraries. Random ones, and those that pass a filter, are drawn as writers draw
them, with NumPy; where there is none, as where `ValidatePlan` runs on AWS, they are left to the trial.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.phase import Window
from stepbench.contracts.plan import offered_plan
from stepbench.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.phase import LoadStep, Phase
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.workload import ClosedLoad
    from stepbench.planning.expansion import Expanded

_SECOND_NS = 1_000_000_000
_SURELY_SOME = 40
"""Where so many events are expected, none comes with a probability of 4e-18, and nothing is drawn."""
MOST_SAMPLED = 200_000
"""A phase of more events is not drawn: that takes time, and its windows are seldom so small."""


def schedule_problems(trials: Sequence[Expanded]) -> list[Problem]:
    """
    Return a problem for each measured window in which no event is due, and where none is in the first probe.

    A writer without an event of its own is none: it ends at once, and the others offer what is due.
    """
    found = (
        problem
        for trial in trials
        if traits_of(trial.plan.experiment).windows
        for problem in _trial_problems(trial, offered_plan(trial.plan))
    )
    return list(dict.fromkeys(found))  # once, however often a trial is repeated


def _trial_problems(trial: Expanded, plan: TrialPlan) -> Iterator[Problem]:
    """Take every rate that is to be found at its lowest, and of the probes the first, whose rate that is."""
    find, at = plan.find_rate, f"trials[{trial.source}]"
    of_trial = f" in {trial.group}" if trial.point else ""
    if find:
        plan = plan.model_copy(update={"phases": tuple(map(find.at_lowest, plan.phases))})
    probes = [number for number, phase in enumerate(plan.phases) if phase.probe]
    for number, phase in enumerate(plan.phases):
        if number in probes[1:]:
            continue
        place = f"{at}.phases[{number - sum(probe < number for probe in probes)}]"
        if phase.probe:
            place = f"{at}.find_rate.low_per_s"
        windows = (Window(name=phase.name, from_s=0, to_s=phase.length_s),) if phase.probe else phase.all_windows()
        for window, why, remedy in _empty(plan, number, windows):
            path = _path(place, phase, window)
            value = f"{window.name}: {window.from_s:g} to {window.to_s:g} s"
            yield Problem(path, value, f"has no event that is due{of_trial}: {why}", remedy)


def _path(place: str, phase: Phase, window: Window) -> str:
    """Return where a window stands, or what one depends on that is the whole phase."""
    if phase.probe:
        return place
    if window in phase.windows:
        return f"{place}.windows[{phase.windows.index(window)}]"
    return f"{place}.closed" if phase.closed else f"{place}.load"


def _empty(plan: TrialPlan, number: int, windows: Sequence[Window]) -> Iterator[tuple[Window, str, str]]:
    """Yield the windows of a phase without an event, each with the reason and a remedy."""
    phase = plan.phases[number]
    if phase.invoked is not None:
        return
    if phase.closed is not None:
        yield from _before_all_clients(plan, number, phase.closed, windows)
    elif plan.arrivals == "constant" and plan.record.matching_share == 1:
        yield from _between_events(phase.steps, windows)
    else:
        yield from _without_sampled(plan, number, windows)


def _between_events(steps: Sequence[LoadStep], windows: Sequence[Window]) -> Iterator[tuple[Window, str, str]]:
    for window in windows:
        due_ns = first_due_ns(steps, round(window.from_s * _SECOND_NS))
        if due_ns is None:
            yield window, "the last one is due before it begins", "Let it begin earlier, or raise rate_per_s."
        elif due_ns >= round(window.to_s * _SECOND_NS):
            due_s = f"{due_ns / _SECOND_NS:.10g} s"
            yield window, f"the next one is due at {due_s}", f"Let it end after {due_s}, or raise rate_per_s."


def first_due_ns(steps: Sequence[LoadStep], at_ns: int) -> int | None:
    """Return when the first evenly spaced event from a time on is due, in ns from the phase's start; None for none."""
    begin_s = 0.0
    for step in steps:
        begin_ns, gap_ns = round(begin_s * _SECOND_NS), _SECOND_NS / step.rate_per_s
        near = max(0, math.floor((at_ns - begin_ns) / gap_ns) - 1)
        for place in range(near, min(near + 4, step.events)):  # rounding moves it by one at most
            if (due_ns := begin_ns + round(place * gap_ns)) >= at_ns:
                return due_ns
        begin_s += step.length_s
    return None


def _without_sampled(plan: TrialPlan, number: int, windows: Sequence[Window]) -> Iterator[tuple[Window, str, str]]:
    """Draw the phase's events for the windows that few are expected in, and yield those that none comes in."""
    phase, share = plan.phases[number], plan.record.matching_share
    some = _SURELY_SOME * (plan.writers if share < 1 else 1) / share  # a filter lets each writer's pass at like times
    few = [each for each in windows if phase.events_by(each.to_s) - phase.events_by(each.from_s) < some]
    if not few or phase.events > MOST_SAMPLED:
        return
    try:
        from stepbench.workload.payloads import windows_without  # noqa: PLC0415 -- with NumPy, for these alone
    except ImportError:
        return
    filtered = " that passes the filter" if share < 1 else ""
    seeded = f" with seed {plan.seed}" if plan.arrivals != "constant" else ""
    remedy = f"Let it last longer, raise rate_per_s{' or matching_share' if filtered else ''}"
    for window in windows_without(plan, number, few):
        yield window, f"none{filtered} comes{seeded}", f"{remedy}{', or take another seed' if seeded else ''}."


def _before_all_clients(
    plan: TrialPlan, number: int, load: ClosedLoad, windows: Sequence[Window]
) -> Iterator[tuple[Window, str, str]]:
    """Yield the windows that end before the first pauses do: clients begin at a random part of one."""
    early = [each for each in windows if load.clients * each.to_s < _SURELY_SOME * load.think_ms / 1e3]
    if not early:
        return
    try:
        from stepbench.workload.payloads import first_client_ns  # noqa: PLC0415 -- with NumPy, for these alone
    except ImportError:
        return
    begin_ns = first_client_ns(plan, number, load)
    for window in early:
        if begin_ns >= round(window.to_s * _SECOND_NS):
            why = f"the first client's pause ends at {begin_ns / _SECOND_NS:.4g} s"
            yield window, why, "Lower think_ms, raise clients, or let the window end later."
