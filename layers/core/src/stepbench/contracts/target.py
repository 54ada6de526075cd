"""The stores under test: one model per store, told apart by `store`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.rule import Broken, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Target(Contract):
    """What every target can say."""

    endpoint: str | None = Field(
        default=None,
        max_length=300,
        description="A store already running: a URL, or host:port. Without it, the stack's own. "
        "On AWS only where the stack's parameter AllowCustomEndpoints permits it; never link-local.",
    )
    fastest_answer_s: ClassVar[float] = 30e-6
    """
    For estimates, which are to be upper bounds: no operation is answered sooner on average.

    Servers on loopback took 39 µs and more, the client's part included.
    """


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


class AutoscaledCapacity(Contract):
    """Provisioned write units that Application Auto Scaling moves between two bounds; read units stay."""

    mode: Literal["autoscaled"]
    read_units: int = Field(default=5, ge=1, le=40_000)
    min_write_units: int = Field(ge=1, le=40_000)
    max_write_units: int = Field(ge=1, le=40_000)
    target_utilisation_percent: int = Field(default=70, ge=20, le=90)

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        refuse(_bound_rules("write_units", self.min_write_units, self.max_write_units))
        return self


class ServerlessCapacity(Contract):
    """Between which bounds Aurora Serverless v2 moves, in ACU (halves). Torn down to what it was before."""

    mode: Literal["serverless_v2"]
    min_acu: float = Field(ge=0.5, le=256, multiple_of=0.5)
    max_acu: float = Field(ge=1, le=256, multiple_of=0.5)

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        refuse(_bound_rules("acu", self.min_acu, self.max_acu))
        return self


def _bound_rules(of: str, low: float, high: float) -> Iterator[Broken]:
    if high < low:
        yield Broken(f"max_{of}", f"is below min_{of} ({low:g})", f"Raise max_{of} or lower min_{of}.")


TableCapacity = Annotated[ProvisionedCapacity | OnDemandCapacity | AutoscaledCapacity, Field(discriminator="mode")]
Capacity = Annotated[
    ProvisionedCapacity | OnDemandCapacity | AutoscaledCapacity | ServerlessCapacity, Field(discriminator="mode")
]


class DynamoDbTarget(_Target):
    """DynamoDB Streams through an event source mapping, on a table made for the trial."""

    store: Literal["dynamodb"]
    fastest_answer_s: ClassVar[float] = 1e-3  # on AWS, by HTTPS; a DynamoDB Local beside the writer may be faster
    batch_size: int = Field(default=100, ge=1, le=10_000)
    batching_window_s: int = Field(default=0, ge=0, le=300)
    parallelization_factor: int = Field(default=1, ge=1, le=10)
    filter: dict[str, Any] | None = Field(
        default=None,
        description="An event filter pattern, as Lambda's event source mapping takes it. What it holds back "
        "is counted as not arrived.",
    )
    capacity: TableCapacity = OnDemandCapacity()
    same_sandbox: bool = Field(
        default=False,
        description="One sandbox of `CheckClock` writes and receives, one event at a time, so that one clock stamps "
        "both ends. Beside a trial without it this checks the clocks.",
    )


class PostgresqlTarget(_Target):
    """An AFTER INSERT OR UPDATE trigger that calls `aws_lambda.invoke`; Aurora, or PostgreSQL with the stand-in."""

    store: Literal["postgresql"]
    invocation: Literal["event", "request_response"] = Field(
        default="event",
        description="`request_response` runs the receiver inside the INSERT.",
    )
    tls: bool = Field(default=False, description="In operations: encrypted, with the server's certificate verified.")


class EtcdTarget(_Target):
    """etcd Watch on a prefix, held by `WatchChanges`."""

    store: Literal["etcd"]


class RedisTarget(_Target):
    """Redis or Valkey: a server, ElastiCache, or ElastiCache Serverless (a cluster with TLS). Operations only."""

    store: Literal["redis"]
    tls: bool = False
    cluster: bool = Field(default=False, description="Keys lie in slots on several nodes, which the client looks up.")


class DsqlTarget(_Target):
    """
    Aurora DSQL, with TLS and a token that IAM has signed, always. Operations only.

    Without `endpoint`, the stack's cluster of that kind and region (`Settings.dsql_endpoints`).
    """

    store: Literal["dsql"]
    fastest_answer_s: ClassVar[float] = 1e-3  # a transaction's commit, from another network
    cluster: Literal["single", "multi"] = Field(
        default="single", description="In one region, or one of two peers in two regions, with a witness in a third."
    )
    region: str | None = Field(
        default=None,
        pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$",
        max_length=30,
        description="Of the endpoint that is connected to; without it, the stack's own.",
    )


class CassandraTarget(_Target):
    """Cassandra or ScyllaDB, by CQL. Operations only."""

    store: Literal["cassandra"]
    consistency: Literal["one", "local_quorum"] = Field(
        default="one", description="How many replicas, of those in the server's data centre, have to answer."
    )
    replication: int = Field(default=1, ge=1, le=9, description="Copies of each record, in each data centre.")
    tls: bool = False


class ConstantDelay(Contract):
    """Always the same."""

    kind: Literal["constant"]
    ms: float = Field(ge=0, le=60_000, allow_inf_nan=False)


class BimodalDelay(Contract):
    """One of two, with a normal scatter of 2 % around each."""

    kind: Literal["bimodal"]
    low_ms: float = Field(ge=0, le=60_000, allow_inf_nan=False)
    high_ms: float = Field(ge=0, le=60_000, allow_inf_nan=False)
    high_share: float = Field(gt=0, lt=1)


class ParetoDelay(Contract):
    """A heavy tail: at least `scale_ms`, with P(delay > x) = (scale / x) ** shape, cut at 10 s."""

    kind: Literal["pareto"]
    scale_ms: float = Field(gt=0, le=10_000, allow_inf_nan=False)
    shape: float = Field(gt=0.5, le=20)


class StallDelay(Contract):
    """`base_ms`, but the store stands still for `stall_ms` every `every_s`: what falls into it comes at its end."""

    kind: Literal["stalls"]
    base_ms: float = Field(ge=0, le=60_000, allow_inf_nan=False)
    stall_ms: float = Field(gt=0, le=60_000, allow_inf_nan=False)
    every_s: float = Field(gt=0, le=3_600, allow_inf_nan=False)


Delay = Annotated[ConstantDelay | BimodalDelay | ParetoDelay | StallDelay, Field(discriminator="kind")]


class ReferenceTarget(_Target):
    """
    The reference store: it delivers after delays that it draws and keeps on record, so that we can be measured.

    It is a server of ours (`stepbench.testing.reference_store`), watched like etcd.
    """

    store: Literal["reference"]
    delay: Delay = ConstantDelay(kind="constant", ms=5)
    drop_share: float = Field(default=0, ge=0, lt=1, description="Acknowledged, and never delivered.")
    duplicate_share: float = Field(default=0, ge=0, lt=1, description="Delivered twice.")
    reorder_share: float = Field(default=0, ge=0, lt=1, description="Delivered after the event that follows it.")


Target = Annotated[
    S3Target
    | DynamoDbTarget
    | PostgresqlTarget
    | EtcdTarget
    | RedisTarget
    | DsqlTarget
    | CassandraTarget
    | ReferenceTarget,
    Field(discriminator="store"),
]

TRIGGER_STORES = frozenset({"s3", "dynamodb", "postgresql", "etcd", "reference"})
OPERATION_STORES = frozenset({"dynamodb", "postgresql", "etcd", "redis", "dsql", "cassandra"})
PULL_STORES = frozenset({"etcd", "reference"})
"""Stores whose changes are fetched by a watcher; all others push to `receiver_of(target)`."""


def receiver_of(target: Target) -> Literal["ReceiveEvents", "CheckClock"]:
    """The function that a push store delivers to."""
    return "CheckClock" if isinstance(target, DynamoDbTarget) and target.same_sandbox else "ReceiveEvents"


def is_pull(target: Target) -> bool:
    """Whether a watcher has to hold the trigger."""
    return target.store in PULL_STORES
