"""The rules of what a trial looks into: capacity, published numbers, rates, clocks. Each yields what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.rule import Broken
from stepbench.contracts.target import DynamoDbTarget, ProvisionedCapacity, ServerlessCapacity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import Published, TrialPlan
    from stepbench.contracts.target import Capacity

UTILISED_STORES = frozenset({"dynamodb", "postgresql", "etcd"})
MAX_SAME_SANDBOX_PER_S = 10.0
"""A write and its delivery have to be over before the next one is due."""


def scale_rules(trial: TrialPlan) -> Iterator[Broken]:
    """A capacity that the store has, of a store that has any."""
    store = trial.target.store
    for index, phase in enumerate(trial.phases):
        if phase.scale is None:
            continue
        mode, serverless = phase.scale.capacity.mode, isinstance(phase.scale.capacity, ServerlessCapacity)
        if store not in {"dynamodb", "postgresql"}:
            message = f"is supported for dynamodb and postgresql only, not for {store}"
            yield Broken(f"phases[{index}].scale", message, "Remove it.")
        elif serverless != (store == "postgresql"):
            modes = "serverless_v2" if store == "postgresql" else "provisioned, on_demand or autoscaled"
            yield Broken(f"phases[{index}].scale.capacity.mode", f"is {mode} for {store}", f"Make it {modes}.")
        elif trial.target.endpoint is not None and serverless:
            message = "is for the stack's own cluster, and target.endpoint names another server"
            yield Broken(f"phases[{index}].scale", message, "Remove one of the two.")


def published_number_rules(published: Published) -> Iterator[Broken]:
    """A time, a rate, or a ratio of two different things."""
    given = [name for name in ("value_ms", "per_minute", "ratio") if getattr(published, name) is not None]
    wanted = "per_minute" if published.metric == "throughput" else "value_ms"
    if not given:
        yield Broken(wanted, "is missing, and so is ratio", f"Give exactly one of {wanted} and ratio.")
    elif len(given) > 1:
        yield Broken(
            given[0],
            f"stands beside {given[1]} ({getattr(published, given[1]):g})",
            f"Give exactly one of {wanted} and ratio.",
        )
    elif given[0] == "ratio":
        yield from _ratio_rules(published)
    else:
        yield from _value_rules(published, given[0], wanted)


def _value_rules(published: Published, given: str, wanted: str) -> Iterator[Broken]:
    if given != wanted:
        yield Broken(given, f"does not go with {published.metric}", f"Give {wanted} instead.")
    for name in ("over", "over_metric"):
        if getattr(published, name) is not None:
            yield Broken(name, "belongs to a ratio, and there is none", "Remove it, or give ratio.")
    if published.metric == "iqr":
        yield Broken("metric", "is iqr, which is scored in ratios only", "Give ratio instead of value_ms.")


def _ratio_rules(published: Published) -> Iterator[Broken]:
    if "throughput" in {published.metric, published.over_metric}:
        yield Broken("metric", "is throughput, which is scored by itself only", "Give per_minute instead of ratio.")
    elif published.over in {None, published.window} and published.over_metric in {None, published.metric}:
        remedy = "Name another window in over, or another metric in over_metric."
        yield Broken("ratio", "is of a number over itself", remedy)


def published_rules(trial: TrialPlan) -> Iterator[Broken]:
    """Numbers of windows that are measured."""
    windows = [window.name for phase in trial.phases for window in phase.all_windows()]
    known = ", ".join(f'"{name}"' for name in dict.fromkeys(windows))
    for index, published in enumerate(trial.published):
        if published.window is None and len(windows) > 1:
            message = "is missing, and there are several measured windows"
            yield Broken(f"published[{index}].window", message, f"Name one of {known}.")
        for field, name in (("window", published.window), ("over", published.over)):
            if name is None or windows.count(name) == 1:
                continue
            if name in windows:
                message, remedy = "is the name of windows in several phases", "Give those windows names of their own."
            else:
                message, remedy = "names no measured window", f"Name one of {known}, or remove it."
            yield Broken(f"published[{index}].{field}", message, remedy)


def find_rules(trial: TrialPlan) -> Iterator[Broken]:
    """A rate is found if somebody needs it, on a store that tells how busy it is."""
    users = [index for index, phase in enumerate(trial.phases) if phase.uses_found_rate]
    if trial.find_rate is None:
        for index in users:
            message = "stands in for a rate that nothing finds"
            yield Broken(f"phases[{index}].load", f"has of_found, which {message}", "Remove it, or add find_rate.")
        for index, phase in enumerate(trial.phases):
            if phase.probe:
                yield Broken(f"phases[{index}].probe", "is set by find_rate only", "Remove it.")
        return
    if not users:
        yield Broken("find_rate", "finds a rate that no load step uses", "Set of_found in one, or remove it.")
    if trial.target.store not in UTILISED_STORES:
        message = f"needs to know how busy the store is, which {trial.target.store} does not tell"
        yield Broken("find_rate", message, "Remove it, and give the rates yourself.")
    yield from utilised_rules(trial)


def utilised_rules(trial: TrialPlan) -> Iterator[Broken]:
    """Whose utilisation it would be has to be known, and must not move by itself."""
    if trial.record.operation == "delete":
        message = "needs its keys before the load, and how many is not known while the rate is not"
        yield Broken("record.operation", message, 'Use "put" or "update", or give the rates yourself.')
    if trial.target.endpoint is not None:
        message = "names a server of your own, whose metrics nobody knows"
        yield Broken("target.endpoint", message, "Remove it or find_rate; the stack's parameters know metrics.")
    users = [index for index, phase in enumerate(trial.phases) if phase.uses_found_rate]
    for index in range(users[0], users[-1] + 1) if users else ():
        if trial.phases[index].scale is not None:
            message = (
                "changes the capacity after the rate was looked for, and a phase with of_found would get that rate"
            )
            yield Broken(f"phases[{index}].scale", message, "Scale in an earlier phase, before any with of_found.")
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
        yield Broken(f"{at}.mode", message, 'Make it "provisioned", or remove find_rate.')


def same_sandbox_rules(trial: TrialPlan) -> Iterator[Broken]:
    """One sandbox writes and receives: it can do one thing at a time."""
    if not isinstance(trial.target, DynamoDbTarget) or not trial.target.same_sandbox:
        return
    if trial.target.endpoint is not None:
        message = "stands beside same_sandbox, and CheckClock writes to the stack's own DynamoDB"
        yield Broken("target.endpoint", message, "Remove one of the two.")
    if trial.find_rate is not None:
        message = f"stands beside same_sandbox, which takes {MAX_SAME_SANDBOX_PER_S:g} events a second at most"
        yield Broken("find_rate", message, "Remove one of the two.")
    if trial.writers != 1:
        yield Broken("writers", f"is {trial.writers}, and one sandbox writes and receives", "Make it 1.")
    for index, phase in enumerate(trial.phases):
        rate = max((step.rate_per_s for step in phase.load), default=0)
        if rate > MAX_SAME_SANDBOX_PER_S:
            message = f"reach {rate:g} events a second, and one sandbox writes and receives"
            remedy = f"Offer {MAX_SAME_SANDBOX_PER_S:g} a second at most."
            yield Broken(f"phases[{index}].load", message, remedy)
    if trial.log_t4 != "none":
        yield Broken("log_t4", "is not offered by CheckClock", 'Make it "none", or remove same_sandbox.')
