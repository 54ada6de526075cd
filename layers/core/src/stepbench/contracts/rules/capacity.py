"""The rules of a trial's capacity: how it is changed, which rate is looked for, what one sandbox can take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.base import BrokenRule
from stepbench.contracts.target import DynamoDbTarget, ProvisionedCapacity, ServerlessCapacity, stores_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.target import Capacity
    from stepbench.contracts.trial import TrialFields

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
