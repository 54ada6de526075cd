"""Which driver serves which target: the one place to add to for a new store."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from stepbench.contracts.problem import Problem
from stepbench.contracts.target import (
    CassandraTarget,
    DsqlTarget,
    DynamoDbTarget,
    EtcdTarget,
    PostgresqlTarget,
    RedisTarget,
    ReferenceTarget,
    S3Target,
)
from stepbench.drivers.addresses import endpoint_error
from stepbench.errors import PlanError

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver, Operable
    from stepbench.settings import Settings


def build_store(spec: TrialSpec, settings: Settings, clock: Clock) -> Driver | Operable:
    """As `build_operable` or `build_driver`, by the trial's experiment."""
    build = build_operable if spec.plan.experiment == "operations" else build_driver
    return build(spec, settings, clock)


def build_driver(spec: TrialSpec, settings: Settings, clock: Clock) -> Driver:
    """
    The driver of a store whose trigger is measured; nothing is connected yet. Imports only that store's libraries.

    Raises:
        PlanError: the target's own endpoint may not be used, or the store has no trigger.
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
        case RedisTarget() | DsqlTarget() | CassandraTarget():
            raise _not_offered(spec, "triggers")
        case _ as unreachable:
            assert_never(unreachable)


def build_operable(spec: TrialSpec, settings: Settings, clock: Clock) -> Operable:
    """
    The driver of a store whose operations are measured; otherwise as `build_driver`.

    Raises:
        PlanError: the target's own endpoint may not be used, or the store has no operations.
    """
    _admit_endpoint(spec, settings)
    match spec.plan.target:
        case DynamoDbTarget():
            from stepbench.drivers.operations.dynamodb import DynamoDbOperations  # noqa: PLC0415

            return DynamoDbOperations(spec, settings, clock)
        case PostgresqlTarget():
            from stepbench.drivers.operations.postgresql import PostgresqlOperations  # noqa: PLC0415

            return PostgresqlOperations(spec, settings, clock)
        case EtcdTarget():
            from stepbench.drivers.operations.etcd import EtcdOperations  # noqa: PLC0415

            return EtcdOperations(spec, settings, clock)
        case RedisTarget():
            from stepbench.drivers.operations.redis import RedisOperations  # noqa: PLC0415

            return RedisOperations(spec, settings, clock)
        case DsqlTarget():
            from stepbench.drivers.operations.dsql import DsqlOperations  # noqa: PLC0415

            return DsqlOperations(spec, settings, clock)
        case CassandraTarget():
            from stepbench.drivers.operations.cassandra import CassandraOperations  # noqa: PLC0415

            return CassandraOperations(spec, settings, clock)
        case S3Target() | ReferenceTarget():
            raise _not_offered(spec, "operations")
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
        case RedisTarget():
            own = settings.redis_endpoint
        case DsqlTarget():
            # A multi-region cluster is one, whichever of its endpoints a trial works with.
            own = "multi" if target.cluster == "multi" else f"single@{target.region or settings.aws_region}"
        case CassandraTarget():
            own = settings.cassandra_endpoint
        case ReferenceTarget():
            own = settings.reference_endpoint
        case _ as unreachable:
            assert_never(unreachable)
    return f"{target.store}#{target.endpoint or own}"


def _not_offered(spec: TrialSpec, what: str) -> PlanError:
    """A plan's own rules refuse it earlier; a stored trial of another version may get here."""
    store = spec.plan.target.store
    return PlanError(
        [Problem(path="target.store", value=store, message=f"offers no {what}", remedy="Use another store.")]
    )


def _admit_endpoint(spec: TrialSpec, settings: Settings) -> None:
    """Its form, and that it is not link-local, the plan's own validation has seen to."""
    endpoint = spec.plan.target.endpoint
    if endpoint is None:
        return
    if not (settings.allow_custom_endpoints or settings.emulator):
        remedy = "Leave the endpoint out, or deploy the stack with AllowCustomEndpoints=true."
        raise endpoint_error(endpoint, "this stack allows no endpoints but its own", remedy)
