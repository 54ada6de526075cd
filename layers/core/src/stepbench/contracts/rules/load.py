"""The rules of a trial's load and capacity: how much, how long, of what, at which rate. Each yields what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.base import BrokenRule
from stepbench.contracts.capacity import ProvisionedCapacity, ServerlessCapacity
from stepbench.contracts.identity import MAX_SLICES
from stepbench.contracts.phase import MAX_EVENTS_PER_TRIAL, SLICE_S
from stepbench.contracts.target import DynamoDbTarget, stores_with
from stepbench.contracts.trial import MAX_PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.capacity import Capacity
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.trial import TrialFields

MAX_DELETES = 200_000
"""Each has its key written before the load, which `PrepareTarget` has 15 minutes for; S3 takes some 500 a second."""
MAX_LOGGED_EVENTS = 500_000
MAX_ITEMS_PER_MAP = 50_000
"""The limit of writers times slices of the phases that one Distributed Map is given."""
MAX_WATCH_S = 8 * 3_600
MAX_HISTORY_EVENTS = 22_000
"""The part of an execution's 25,000 that loops may write; the rest is for what does not loop."""
EVENTS_PER_LOOP = 9
"""Task (entered, scheduled, started, succeeded, exited), Choice and Wait (entered, exited)."""
ARRIVALS_LOOP_S = 2
METRICS_LOOP_S, METRICS_WAIT_S = 5, 300
"""The period and the limit of MeasureUtilisation's loop."""


def concurrency_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """All writers run at once: in open loop, and where clients of several writers share the load; none is invoked."""
    if trial.max_concurrency is None or trial.max_concurrency >= trial.writers:
        return
    for phase in trial.phases:
        if phase.invoked is None:
            message = f"is below writers ({trial.writers}), and every writer has to run at once"
            remedy = f"Raise it to {trial.writers}, remove it, or lower writers."
            yield BrokenRule("max_concurrency", message, remedy)
            return


def size_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """A trial offers something, and no more than a trial, a Map and an identity can hold."""
    if len(trial.run_phases) > MAX_PHASES:
        message = f"are {len(trial.run_phases)} with the probes of find_rate, more than {MAX_PHASES}"
        yield BrokenRule("phases", message, "Lower find_rate.probes, or join phases.")
    if trial.events > MAX_EVENTS_PER_TRIAL:
        message = f"offer {trial.events:,} events together, more than a trial's {MAX_EVENTS_PER_TRIAL:,}"
        yield BrokenRule("phases", message, "Lower rate_per_s, duration_s or count, or split the trial.")
    for at, phase in _at_lowest(trial):
        if phase.events < 1:
            yield BrokenRule(
                at,
                f"offers no event at all{_format_condition(trial, phase)}",
                f"Raise {_name_rate_field(trial, phase)}.",
            )
    for index, phase in enumerate(trial.phases):
        together = trial.planned_together(index)
        slices = sum(trial.phases[each].slices for each in together)
        too_many = slices * trial.writers > MAX_ITEMS_PER_MAP and not phase.gapless
        if phase.slices > MAX_SLICES or too_many:
            followed = ", those of phases that follow without a gap included" if len(together) > 1 else ""
            message = f"takes {trial.writers} writers through {slices:,} slices of {SLICE_S} s{followed}: too much"
            remedy = "Shorten the phase, or lower writers" + (", or remove gapless." if followed else ".")
            yield BrokenRule(f"phases[{index}].load", message, remedy)


def _at_lowest(trial: TrialFields) -> Iterator[tuple[str, Phase]]:
    """Yield path and phase with rates, each at its lowest; of the probes, which are equal, the first."""
    find = trial.find_rate
    for index, phase in enumerate(trial.phases):
        if phase.is_open and not (find and phase.probe):
            yield f"phases[{index}].load", find.at_lowest(phase) if find else phase
    if find:
        yield "find_rate.low_per_s", find.at_lowest(find.phases()[0])


def _format_condition(trial: TrialFields, phase: Phase) -> str:
    if trial.find_rate is None or not (phase.probe or phase.uses_found_rate):
        return ""
    return f" where the search stays at {trial.find_rate.low_per_s:g}/s"


def _name_rate_field(trial: TrialFields, phase: Phase) -> str:
    if phase.probe and trial.find_rate:
        return "find_rate.low_per_s or find_rate.probe_s"
    return "find_rate.low_per_s or duration_s" if phase.uses_found_rate else "rate_per_s or duration_s"


def gapless_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """What follows without a gap is planned with the phase before it, whose end has to be known by then."""
    for index, phase in enumerate(trial.phases):
        if not phase.gapless:
            continue
        at = f"phases[{index}]"
        if index == 0:
            yield BrokenRule(f"{at}.gapless", "has no phase before it to follow", "Remove it.")
        for name in ("settle_s", "scale"):
            if getattr(phase, name):
                message = "takes time, and gapless leaves none before the load"
                yield BrokenRule(f"{at}.{name}", message, "Move it to the phase before, or remove gapless.")
        for number in range(max(0, index - 1), index + 1):
            each = trial.phases[number]
            if not each.is_open or each.until or each.uses_found_rate:
                fixed = "needs load in steps, at rates and to an end that are known before either phase begins"
                fields = "invoked" if each.invoked else "closed, until and of_found"
                remedy = f"Take {fields} from phase {each.name}, or remove gapless."
                yield BrokenRule(f"{at}.gapless", fixed, remedy)


def delete_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """A key has to be written before it is deleted."""
    if trial.record.operation != "delete":
        return
    if trial.events > MAX_DELETES:
        message = f"delete {trial.events:,} keys together, more than the {MAX_DELETES:,} that can be written before"
        yield BrokenRule("phases", message, "Lower rate_per_s, duration_s or count, or split the trial.")
    if trial.target.trigger and not trial.target.deletes:
        message = f"is not offered by the {trial.target.store} store"
        yield BrokenRule("record.operation", message, 'Use "put" or "update".')


def watch_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """A watch is held for hours, not for days."""
    if trial.pull and trial.length_s > MAX_WATCH_S:
        message = f"last {trial.length_s / 3_600:.1f} h together, and {trial.target.store} is watched for 8 h at most"
        yield BrokenRule("phases", message, "Shorten the load or settle_s, or split the trial.")


def history_rules(trial: TrialFields, *, aborts: bool = False) -> Iterator[BrokenRule]:
    """
    An execution's history has an end, and every loop of the state machine writes to it, or iteration of an inline Map.

    aborts: of a plan whose thresholds may end phases.
    """
    loops = trial.drain_limit_s / ARRIVALS_LOOP_S
    loops += trial.most_checks(aborts=aborts) + len(trial.inline_phases) * trial.writers
    loops += sum(phase.probe or phase.uses_found_rate for phase in trial.run_phases) * METRICS_WAIT_S / METRICS_LOOP_S
    if trial.pull and trial.length_s <= MAX_WATCH_S:
        loops += (trial.length_s + trial.drain_limit_s) / trial.watch_loop_s
    if loops * EVENTS_PER_LOOP > MAX_HISTORY_EVENTS:
        message = f"is too long after {trial.length_s / 3_600:.1f} h of load for one execution's history"
        checks = "without abort_on_fail, or " if aborts else ""
        remedy = f"Lower it, shorten the load, have fewer probes, phases with until or inline Maps, {checks}"
        remedy += "or split the trial."
        yield BrokenRule("drain_limit_s", message, remedy)


def log_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """The analysis holds all lines of a log in memory, and a receiver prints one an event."""
    if trial.log_t4 == "all" and not trial.pull and trial.events > MAX_LOGGED_EVENTS:
        message = f"would print a line for each of {trial.events:,} events, more than {MAX_LOGGED_EVENTS:,}"
        yield BrokenRule("log_t4", message, 'Make it "sample", or offer fewer events.')


def filter_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Each store has a filter of its own kind, and something has to pass it."""
    if trial.record.matching_share == 1:
        return
    if trial.target.trigger and trial.target.filters is None:
        message = f"has no meaning: the {trial.target.store} store has no filter"
        yield BrokenRule("record.matching_share", message, "Remove it.")
    if isinstance(trial.target, DynamoDbTarget) and trial.target.filter is not None:
        message = "stands beside a filter of your own"
        yield BrokenRule("record.matching_share", message, "Remove one of the two: matching_share sets its own filter.")
    if isinstance(trial.target, DynamoDbTarget) and trial.target.same_sandbox:
        message = "stands beside same_sandbox, where each event waits for the one before to arrive"
        yield BrokenRule("record.matching_share", message, "Remove one of the two.")
    for at, phase in _at_lowest(trial):
        in_slice = phase.events // (trial.writers * phase.slices)
        if in_slice * trial.record.matching_share < 1:
            message = f"lets none of a writer's {in_slice} events pass the filter (in a slice of 10 minutes at most)"
            remedy = f"Raise record.matching_share, {_name_rate_field(trial, phase)}, or lower writers."
            yield BrokenRule(at, message + _format_condition(trial, phase), remedy)
    if trial.target.filters == "key" and trial.record.operation == "update":
        message = f"is distinguished by the key on {trial.target.store}, and an update has one of few"
        yield BrokenRule("record.matching_share", message, 'Use "put", or leave matching_share out.')


MAX_SAME_SANDBOX_PER_S = 10.0
"""A write and its delivery have to be over before the next one is due."""


def scale_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """A capacity has to be of a mode that the store has."""
    target = trial.target
    for index, phase in enumerate(trial.phases):
        if phase.scale is None:
            continue
        mode = phase.scale.capacity.mode
        if not target.capacity_modes:
            able = " and ".join(stores_with(lambda model: model.capacity_modes))
            message = f"is supported for {able} only, not for {target.store}"
            yield BrokenRule(f"phases[{index}].scale", message, "Remove it.")
        elif mode not in target.capacity_modes:
            *others, last = target.capacity_modes
            modes = f"{', '.join(others)} or {last}" if others else last
            at = f"phases[{index}].scale.capacity.mode"
            yield BrokenRule(at, f"is {mode} for {target.store}", f"Make it {modes}.")
        elif target.endpoint is not None and isinstance(phase.scale.capacity, ServerlessCapacity):
            message = "is for the stack's own cluster, and target.endpoint names another server"
            yield BrokenRule(f"phases[{index}].scale", message, "Remove one of the two.")


def find_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """A search has to be needed by a load step, and the store has to tell how busy it is."""
    users = [index for index, phase in enumerate(trial.phases) if phase.uses_found_rate]
    if trial.find_rate is None:
        for index in users:
            message = "stands in for a rate that nothing finds"
            yield BrokenRule(f"phases[{index}].load", f"has of_found, which {message}", "Remove it, or add find_rate.")
        for index, phase in enumerate(trial.phases):
            if phase.probe:
                yield BrokenRule(f"phases[{index}].probe", "is set by find_rate only", "Remove it.")
        return
    if not users:
        yield BrokenRule("find_rate", "finds a rate that no load step uses", "Set of_found in one, or remove it.")
    if not trial.target.metered:
        message = f"needs to know how busy the store is, which {trial.target.store} does not tell"
        yield BrokenRule("find_rate", message, "Remove it, and give the rates yourself.")
    yield from utilised_rules(trial)


def utilised_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """The capacity whose utilisation is read has to be known, and must not move by itself."""
    if trial.record.operation == "delete":
        message = "needs its keys before the load, and how many is not known while the rate is not"
        yield BrokenRule("record.operation", message, 'Use "put" or "update", or give the rates yourself.')
    if trial.target.endpoint is not None:
        message = "names a server of your own, whose metrics nobody knows"
        yield BrokenRule("target.endpoint", message, "Remove it or find_rate; the stack's parameters know metrics.")
    users = [index for index, phase in enumerate(trial.phases) if phase.uses_found_rate]
    for index in range(users[0], users[-1] + 1) if users else ():
        if trial.phases[index].scale is not None:
            message = (
                "changes the capacity after the rate was looked for, and a phase with of_found would get that rate"
            )
            yield BrokenRule(f"phases[{index}].scale", message, "Scale in an earlier phase, before any with of_found.")
    if not isinstance(trial.target, DynamoDbTarget):
        return
    capacity: Capacity = trial.target.capacity
    at = "target.capacity"
    for index, phase in enumerate(trial.phases):
        if phase.probe or phase.uses_found_rate:
            break
        if phase.scale is not None:
            capacity, at = phase.scale.capacity, f"phases[{index}].scale.capacity"
    if not isinstance(capacity, ProvisionedCapacity):
        message = f"is {capacity.mode} where the rate is looked for, so there are no units to be a share of"
        yield BrokenRule(f"{at}.mode", message, 'Make it "provisioned", or remove find_rate.')


def same_sandbox_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """One sandbox writes and receives: it can do one thing at a time."""
    if not isinstance(trial.target, DynamoDbTarget) or not trial.target.same_sandbox:
        return
    if trial.target.endpoint is not None:
        message = "stands beside same_sandbox, and CheckClock writes to the stack's own DynamoDB"
        yield BrokenRule("target.endpoint", message, "Remove one of the two.")
    if trial.find_rate is not None:
        message = f"stands beside same_sandbox, which takes {MAX_SAME_SANDBOX_PER_S:g} events a second at most"
        yield BrokenRule("find_rate", message, "Remove one of the two.")
    if trial.writers != 1:
        yield BrokenRule("writers", f"is {trial.writers}, and one sandbox writes and receives", "Make it 1.")
    for index, phase in enumerate(trial.phases):
        rate = max((step.rate_per_s for step in phase.load), default=0)
        if rate > MAX_SAME_SANDBOX_PER_S:
            message = f"reach {rate:g} events a second, and one sandbox writes and receives"
            remedy = f"Offer {MAX_SAME_SANDBOX_PER_S:g} a second at most."
            yield BrokenRule(f"phases[{index}].load", message, remedy)
    if trial.log_t4 != "none":
        yield BrokenRule("log_t4", "is not offered by CheckClock", 'Make it "none", or remove same_sandbox.')
