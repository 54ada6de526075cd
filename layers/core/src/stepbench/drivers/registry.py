"""Which driver serves which target: the one place to add to for a new store."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from stepbench.contracts.target import DynamoDbTarget, EtcdTarget, PostgresqlTarget, ReferenceTarget, S3Target
from stepbench.drivers.addresses import endpoint_error

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver
    from stepbench.settings import Settings


def build_driver(spec: TrialSpec, settings: Settings, clock: Clock) -> Driver:
    """
    The driver of a trial's store; nothing is connected yet. Imports only the libraries of that store.

    Raises:
        PlanError: the target's own endpoint may not be used.
    """
    _admit_endpoint(spec, settings)
    match spec.plan.target:
        case S3Target():
            from stepbench.drivers.s3 import S3Driver  # noqa: PLC0415

            return S3Driver(spec, settings, clock)
        case DynamoDbTarget(same_sandbox=True):
            from stepbench.drivers.same_sandbox import SameSandboxDriver  # noqa: PLC0415

            return SameSandboxDriver(spec, settings, clock)
        case DynamoDbTarget():
            from stepbench.drivers.dynamodb import DynamoDbDriver  # noqa: PLC0415

            return DynamoDbDriver(spec, settings, clock)
        case PostgresqlTarget():
            from stepbench.drivers.postgresql import PostgresqlDriver  # noqa: PLC0415

            return PostgresqlDriver(spec, settings, clock)
        case EtcdTarget():
            from stepbench.drivers.etcd import EtcdDriver  # noqa: PLC0415

            return EtcdDriver(spec, settings, clock)
        case ReferenceTarget():
            from stepbench.drivers.reference import ReferenceDriver  # noqa: PLC0415

            return ReferenceDriver(spec, settings, clock)
        case _ as unreachable:
            assert_never(unreachable)


def lease_target(spec: TrialSpec, settings: Settings) -> str:
    """
    The name under which a trial holds its store, so that no two trials measure one store at a time.

    S3's is the bucket, because its notification configuration is one document for all prefixes.
    """
    target = spec.plan.target
    match target:
        case S3Target():
            own = settings.target_bucket
        case DynamoDbTarget():
            own = settings.target_table_prefix
        case PostgresqlTarget():
            own = settings.postgresql_endpoint
        case EtcdTarget():
            own = settings.etcd_endpoint
        case ReferenceTarget():
            own = settings.reference_endpoint
        case _ as unreachable:
            assert_never(unreachable)
    return f"{target.store}#{target.endpoint or own}"


def _admit_endpoint(spec: TrialSpec, settings: Settings) -> None:
    """Its form, and that it is not link-local, the plan's own validation has seen to."""
    endpoint = spec.plan.target.endpoint
    if endpoint is None:
        return
    if not (settings.allow_custom_endpoints or settings.emulator):
        remedy = "Leave the endpoint out, or deploy the stack with AllowCustomEndpoints=true."
        raise endpoint_error(endpoint, "this stack allows no endpoints but its own", remedy)
