"""Which room serves which target: that of its store's name, so that a new store has nothing to enter here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.transfer.plan import FilesTarget
from stepbench.deferred import load
from stepbench.drivers.access import endpoint_error, parse_endpoint
from stepbench.drivers.metering import MetricMeter, metric_of
from stepbench.errors import PlanError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.contracts.features import StoreFeatures
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.transfer.plan import AnyTarget
    from stepbench.drivers.blobs import BlobStore
    from stepbench.drivers.protocol import Driver, Meter, StoreRoom
    from stepbench.settings import Settings


def room_of(target: AnyTarget) -> StoreRoom:
    """Return what a target's store offers; imports only that store's room, which has the store's name."""
    found: StoreRoom = load(f"{__package__}.{target.store}:ROOM")
    return found


def features_of(store: str) -> StoreFeatures:
    """Return what is known of the trigger of a store, by the store's name; a room has it in its `features.py`."""
    found: StoreFeatures = load(f"{__package__}.{store}.features:FEATURES")
    return found


def build_driver(spec: TrialSpec, settings: Settings, clock: Clock) -> Driver:
    """
    Build the driver of a trial's store for what the trial measures; nothing is connected yet.

    Raises:
        PlanError: the target's own endpoint may not be used, or the store has no triggers, or no operations.
    """
    _admit_endpoint(spec, settings)
    room = room_of(spec.plan.target)
    experiment = spec.plan.experiment
    offers = {"trigger": room.trigger, "operations": room.operations, "transfer": room.transfer}
    build = offers.get(experiment)
    if build is None:
        raise _lacks(spec, {"trigger": "triggers"}.get(experiment, experiment))
    return build(spec, settings, clock)


def build_blobs(spec: TrialSpec, settings: Settings, clock: Clock) -> BlobStore:
    """
    Build what the functions of a trial pass data through; nothing is connected yet.

    Raises:
        PlanError: the target's own endpoint may not be used, or the store keeps no blobs.
    """
    _admit_endpoint(spec, settings)
    build = room_of(spec.plan.target).blobs
    if build is None:
        raise _lacks(spec, "blobs")
    return build(spec, settings, clock)


def build_meter(spec: TrialSpec, settings: Settings, aws: Callable[[str], Any]) -> Meter | None:
    """
    Return the meter of a trial's store; None where the stack knows no metric of it.

    Raises:
        ValueError: as `metric_of`.
    """
    metric = metric_of(spec.offered.target, settings)
    if metric is not None:
        return MetricMeter(metric, aws)
    build = room_of(spec.offered.target).meter
    return build(spec, settings, aws) if build else None


def _lacks(spec: TrialSpec, what: str) -> PlanError:
    """Return the refusal; a plan's own rules are earlier, but a stored trial of another version may get here."""
    problem = Problem(
        path="target.store", value=spec.plan.target.store, message=f"offers no {what}", remedy="Use another store."
    )
    return PlanError([problem])


def lease_target(spec: TrialSpec, settings: Settings) -> str:
    """
    Return the name under which a trial holds its store, so that no two trials measure one store at a time.

    A server is named by host and port, however its address is written, and whichever of its databases is used.
    """
    target = spec.plan.target
    stacks = room_of(target).lease(spec, settings)
    if isinstance(target, FilesTarget):
        return f"{target.store}#{stacks}"
    place = target.endpoint or stacks
    if target.default_port and place:
        servers = (parse_endpoint(each.strip(), target.default_port) for each in place.split(","))
        place = ",".join(sorted(f"{host}:{port}" for _, host, port, _ in servers))
    return f"{target.store}#{place}"


def _admit_endpoint(spec: TrialSpec, settings: Settings) -> None:
    """Refuse an endpoint that this stack does not allow; the plan's own validation has checked its form."""
    endpoint = spec.plan.target.endpoint
    if endpoint is None:
        return
    if not settings.permits_addresses:
        remedy = "Leave the endpoint out, or deploy the stack with AllowCustomEndpoints=true."
        raise endpoint_error(endpoint, "this stack allows no endpoints but its own", remedy)
