"""The stores under test: one model per store, told apart by `store`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from stepbench.contracts.base import Contract


class _Target(Contract):
    """What every target can say."""

    endpoint: str | None = Field(
        default=None,
        max_length=300,
        description="A store already running: a URL, or host:port. Without it, the stack's own. "
        "On AWS only where the stack's parameter AllowCustomEndpoints permits it; never link-local.",
    )


class S3Target(_Target):
    """S3 event notifications, filtered by prefix, on the stack's versioned target bucket."""

    store: Literal["s3"]


class ProvisionedCapacity(Contract):
    """Read and write units that the table is created with, or scaled to."""

    mode: Literal["provisioned"] = "provisioned"
    read_units: int = Field(default=5, ge=1, le=40_000)
    write_units: int = Field(ge=1, le=40_000)


class OnDemandCapacity(Contract):
    """Pay per request, optionally pre-warmed."""

    mode: Literal["on_demand"] = "on_demand"
    warm_write_units: int | None = Field(default=None, ge=4_000, le=1_000_000)


Capacity = Annotated[ProvisionedCapacity | OnDemandCapacity, Field(discriminator="mode")]


class DynamoDbTarget(_Target):
    """DynamoDB Streams through an event source mapping, on a table made for the trial."""

    store: Literal["dynamodb"]
    batch_size: int = Field(default=100, ge=1, le=10_000)
    batching_window_s: int = Field(default=0, ge=0, le=300)
    parallelization_factor: int = Field(default=1, ge=1, le=10)
    filter: dict[str, Any] | None = Field(
        default=None,
        description="An event filter pattern, as Lambda's event source mapping takes it. What it holds back "
        "is counted as not arrived.",
    )
    capacity: Capacity = OnDemandCapacity()


class PostgresqlTarget(_Target):
    """An AFTER INSERT OR UPDATE trigger that calls `aws_lambda.invoke`; Aurora, or PostgreSQL with the stand-in."""

    store: Literal["postgresql"]
    invocation: Literal["event", "request_response"] = Field(
        default="event",
        description="`request_response` runs the receiver inside the INSERT.",
    )


class EtcdTarget(_Target):
    """etcd Watch on a prefix, held by `WatchChanges`."""

    store: Literal["etcd"]


Target = Annotated[S3Target | DynamoDbTarget | PostgresqlTarget | EtcdTarget, Field(discriminator="store")]

PULL_STORES = frozenset({"etcd"})
"""Stores whose changes are fetched by a watcher; all others push to `ReceiveEvents`."""


def is_pull(target: Target) -> bool:
    """Whether a watcher has to hold the trigger."""
    return target.store in PULL_STORES
