"""The stores under test: one model per store, distinguished by `store`."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, field_validator

from stepbench.contracts.base import Contract, refuse
from stepbench.contracts.capacity import ConstantDelay, Delay, OnDemandCapacity, TableCapacity
from stepbench.contracts.endpoint import EndpointForm, endpoint_rules
from stepbench.contracts.function import ASYNCHRONOUS_RETRIES_S, STREAM_RETRY_S, MeasuredFunction
from stepbench.contracts.tuning import AsReleased, Tuning
from stepbench.contracts.workload import OPERATION_KINDS, Kind, Region

if TYPE_CHECKING:
    from collections.abc import Callable

Receiver = Literal["ReceiveEvents", "CheckClock", "MeasuredFunction"]
ETCD_QUOTA_GIB = 8  # of the stack's nodes and the local server: the most that etcd's documentation suggests
ALL_KINDS = frozenset(OPERATION_KINDS)
UNORDERED_KINDS = ALL_KINDS - {Kind.SCAN}
"""The operations of a store that keeps its records in no order of keys."""


class StoreTarget(Contract):
    """
    Everything that Stepbench needs to know of a store, whatever the trial; a new store declares what it has.

    The class variables state what the store and its driver are able to do. Rules of plans, costs, contract tests and
    the list of stores ask them; a driver whose capabilities differ from its target's declarations fails a test.
    """

    title: ClassVar[str] = ""
    """What its users call it."""
    on_aws: ClassVar[str] = ""
    """What a stack measures of it, unless a plan names a server; "" where that is none of AWS's."""
    trigger: ClassVar[Literal["push", "pull"] | None] = None
    """The way of changes: the store pushes them, or a watcher pulls them; None where the store has no trigger."""
    mechanism: ClassVar[str] = ""
    """What the trigger is made of, in a few words for `stepbench stores`; "" where there is none."""
    deletes: ClassVar[bool] = False
    """Its trigger fires on deletions, too."""
    delivers_batches: ClassVar[bool] = False
    """Its trigger may hand several records to one invocation."""
    filters: ClassVar[Literal["key", "value"] | None] = None
    """The part of a record by which the trigger's filter selects events; None where there is no filter."""
    operations: ClassVar[frozenset[Kind]] = frozenset()
    """The kinds of operation that the store offers; none where it has a trigger only."""
    rows_are: ClassVar[Literal["attributes", "columns", "bodies"] | None] = None
    """What its trigger's trials make of a row of the user's own; None where they write none."""
    holds_blobs: ClassVar[bool] = False
    """It can be the medium between the functions of a DAG."""
    endpoint_form: ClassVar[EndpointForm] = "address"
    default_port: ClassVar[int] = 0
    """The port of a server whose address names none; 0 where a store is no server's address."""
    needs_endpoint: ClassVar[bool] = True
    """Somebody has to run a server of the store: the plan's author, the stack, or this machine."""
    metered: ClassVar[bool] = False
    """A metric measures how busy the store is."""
    capacity_modes: ClassVar[tuple[str, ...]] = ()
    """The modes of capacity that `scale` may ask for; empty where the store cannot be scaled."""
    trigger_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the target that are about its trigger, so that trials of operations refuse them."""
    endpoint: str | None = Field(
        default=None,
        max_length=300,
        description="A store already running: a URL, or host:port. Without it, the stack's own. "
        "On AWS only where the stack's parameter AllowCustomEndpoints permits it; never link-local.",
    )
    function: MeasuredFunction | None = Field(
        default=None,
        description="A function of your own to measure, in place of the stack's receiver. Of push triggers only: S3, "
        "DynamoDB and PostgreSQL invoke functions.",
    )
    fastest_answer_s: ClassVar[float] = 30e-6
    """
    No operation is answered sooner on average: estimates are to be upper bounds.

    Servers on loopback took 39 µs and more, the client's part included.
    """

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, endpoint: str | None) -> str | None:
        if endpoint is not None:
            refuse(endpoint_rules(endpoint, cls.endpoint_form))
        return endpoint

    @property
    def is_pull(self) -> bool:
        """Return whether a watcher has to hold the trigger."""
        return self.trigger == "pull"

    @property
    def receiver(self) -> Receiver:
        """Return the name of the function that a push store delivers to: the stack's, or the copy of a measured one."""
        return "ReceiveEvents" if self.function is None else "MeasuredFunction"

    @property
    def attempts(self) -> int:
        """Return how often an event, or a batch, is handed to a measured function before it is given up."""
        return 1 if self.function is None else self.function.attempts

    @property
    def retried_s(self) -> float:
        """
        Return how long after its first attempt an event's last one is made, beside the time that they take themselves.

        Lambda tries batches of a stream again soon; single events wait.
        """
        if self.delivers_batches:
            return STREAM_RETRY_S * (self.attempts - 1)
        return sum(ASYNCHRONOUS_RETRIES_S[: self.attempts - 1])


class S3Target(StoreTarget):
    """S3 event notifications, filtered by prefix and, if asked for, suffix, on the stack's versioned target bucket."""

    store: Literal["s3"]
    title: ClassVar = "S3"
    on_aws: ClassVar = "Amazon S3"
    holds_blobs: ClassVar = True
    trigger: ClassVar = "push"
    mechanism: ClassVar = "event notification, by prefix"
    trigger_fields: ClassVar = ("suffix",)
    deletes: ClassVar = True
    rows_are: ClassVar = "bodies"
    filters: ClassVar = "key"
    endpoint_form: ClassVar = "url"
    needs_endpoint: ClassVar = False
    suffix: str = Field(
        default="",
        max_length=24,
        pattern=r"^[A-Za-z0-9._-]*$",
        examples=[".jpg"],
        description="What keys end with, beyond `key_bytes`, and what the notification's filter asks for beside the "
        "prefix.",
    )


class DynamoDbTarget(StoreTarget):
    """DynamoDB Streams through an event source mapping, on a table made for the trial."""

    store: Literal["dynamodb"]
    title: ClassVar = "DynamoDB"
    on_aws: ClassVar = "Amazon DynamoDB"
    trigger: ClassVar = "push"
    mechanism: ClassVar = "stream and event source mapping"
    deletes: ClassVar = True
    rows_are: ClassVar = "attributes"
    delivers_batches: ClassVar = True
    filters: ClassVar = "value"
    operations: ClassVar = UNORDERED_KINDS
    endpoint_form: ClassVar = "url"
    needs_endpoint: ClassVar = False
    metered: ClassVar = True
    capacity_modes: ClassVar = ("provisioned", "on_demand", "autoscaled")
    trigger_fields: ClassVar = (
        *("batch_size", "batching_window_s", "parallelization_factor"),
        *("filter", "stream_view", "same_sandbox"),
    )
    fastest_answer_s: ClassVar[float] = 1e-3  # on AWS, by HTTPS; a DynamoDB Local beside the writer may be faster
    batch_size: int = Field(default=100, ge=1, le=10_000, description="The most records of an invocation.")
    batching_window_s: int = Field(default=0, ge=0, le=300, description="How long a batch is waited for to fill.")
    parallelization_factor: int = Field(default=1, ge=1, le=10, description="Invocations at a time for each shard.")
    filter: dict[str, Any] | None = Field(
        default=None, description="An event filter pattern of Lambda's. What it holds back is counted as not arrived."
    )
    stream_view: Literal["new_image", "new_and_old_images"] = Field(
        default="new_image",
        description="What an event holds of its item: the new value, or the one before it, too, which makes events of "
        "updates twice as large.",
    )
    capacity: TableCapacity = Field(default=OnDemandCapacity(), description="What the table is made with.")
    tls: bool | None = Field(
        default=None,
        description="Of the load's requests. Without it HTTPS on AWS, elsewhere as the endpoint's URL says.",
    )
    same_sandbox: bool = Field(
        default=False, description="`CheckClock` writes and receives in one sandbox, by one clock, one event at a time."
    )

    @property
    def receiver(self) -> Receiver:
        """Return `CheckClock`, which also writes, where one sandbox does both."""
        return "CheckClock" if self.same_sandbox else super().receiver


class PostgresqlTarget(StoreTarget):
    """An AFTER INSERT OR UPDATE trigger that calls `aws_lambda.invoke`; Aurora, or PostgreSQL with the stand-in."""

    store: Literal["postgresql"]
    title: ClassVar = "PostgreSQL"
    on_aws: ClassVar = "Aurora PostgreSQL"
    default_port: ClassVar = 5432
    trigger: ClassVar = "push"
    mechanism: ClassVar = "AFTER trigger calls aws_lambda.invoke"
    deletes: ClassVar = True
    rows_are: ClassVar = "columns"
    filters: ClassVar = "value"
    operations: ClassVar = ALL_KINDS
    metered: ClassVar = True
    capacity_modes: ClassVar = ("serverless_v2",)
    trigger_fields: ClassVar = ("invocation",)
    invocation: Literal["event", "request_response"] = Field(
        default="event", description="`request_response` runs the receiver inside the INSERT."
    )
    tls: bool = Field(default=False, description="In operations: encrypted, with the server's certificate verified.")

    @property
    def attempts(self) -> int:
        """Return one where the INSERT waits for the answer: Lambda tries only asynchronous invocations again."""
        return 1 if self.invocation == "request_response" else super().attempts


class EtcdTarget(StoreTarget):
    """etcd Watch on a prefix, held by `WatchChanges`."""

    store: Literal["etcd"]
    title: ClassVar = "etcd"
    on_aws: ClassVar = "etcd on EC2"
    default_port: ClassVar = 2379
    trigger: ClassVar = "pull"
    mechanism: ClassVar = "Watch, held by WatchChanges"
    deletes: ClassVar = True
    rows_are: ClassVar = "bodies"
    filters: ClassVar = "key"
    operations: ClassVar = ALL_KINDS
    metered: ClassVar = True
    quota_gib: float | None = Field(
        default=None, gt=0, le=100,
        description="The server's --quota-backend-bytes, in GiB; a trial that writes more is refused. Without it 8, "
        "as the stack's and the local server have, and for `endpoint` etcd's default of 2.",
    )  # fmt: skip

    @property
    def quota_bytes(self) -> float:
        """Return how large the server's file may become."""
        return 2**30 * (self.quota_gib or (ETCD_QUOTA_GIB if self.endpoint is None else 2))


class RedisTarget(StoreTarget):
    """Redis or Valkey: a server, ElastiCache, or its Serverless (a cluster with TLS). For operations and dataflow."""

    store: Literal["redis"]
    title: ClassVar = "Redis or Valkey"
    on_aws: ClassVar = "ElastiCache"
    default_port: ClassVar = 6379
    holds_blobs: ClassVar = True
    operations: ClassVar = UNORDERED_KINDS
    tls: bool = Field(default=False, description="Encrypted, with the server's certificate verified.")
    cluster: bool = Field(default=False, description="Keys lie in slots on several nodes, which the client looks up.")


class DsqlTarget(StoreTarget):
    """
    Aurora DSQL, with TLS and a token that IAM has signed, always. Operations only.

    Without `endpoint`, the stack's cluster of that kind and region (`Settings.dsql_endpoints`).
    """

    store: Literal["dsql"]
    title: ClassVar = "Aurora DSQL"
    on_aws: ClassVar = "Aurora DSQL"
    operations: ClassVar = ALL_KINDS
    fastest_answer_s: ClassVar[float] = 1e-3  # a transaction's commit, from another network
    cluster: Literal["single", "multi"] = Field(
        default="single", description="In one region, or one of two peers in two regions, with a witness in a third."
    )
    region: Region | None = Field(
        default=None, description="Of the endpoint that is connected to; without it, the stack's own."
    )


class CassandraTarget(StoreTarget):
    """Cassandra or ScyllaDB, by CQL. For operations and dataflow."""

    store: Literal["cassandra"]
    title: ClassVar = "Cassandra or ScyllaDB"
    on_aws: ClassVar = "Cassandra on EC2"
    default_port: ClassVar = 9042
    holds_blobs: ClassVar = True
    operations: ClassVar = ALL_KINDS
    consistency: Literal["one", "local_quorum"] = Field(
        default="one", description="How many replicas, of those in the server's data centre, have to answer."
    )
    replication: int = Field(default=1, ge=1, le=9, description="Copies of each record, in each data centre.")
    tls: bool = Field(default=False, description="Encrypted, with the server's certificate verified.")
    host: str | None = Field(
        default=None,
        pattern=r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$",
        examples=["m5.large"],
        max_length=24,
        description="Which of the hosts that the stack has side by side, by instance type; without it, the first.",
    )
    tuning: Tuning = Field(default=AsReleased(), description="In `dataflow`: how it is configured for the DAGs.")


class ReferenceTarget(StoreTarget):
    """
    The reference store: it delivers after delays that it draws and keeps on record, so that we can be measured.

    It is a server of ours (`stepbench_tools.calibration.reference_store.server`), watched like etcd.
    """

    store: Literal["reference"]
    title: ClassVar = "Reference store"
    default_port: ClassVar = 7300
    trigger: ClassVar = "pull"
    mechanism: ClassVar = "held by WatchChanges"
    delay: Delay = Field(default=ConstantDelay(kind="constant", ms=5), description="Of each delivery.")
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


@cache
def target_models() -> dict[str, type[StoreTarget]]:
    """Return the model of each store, by the store's name, in the order of `Target`; not to be changed."""
    models: tuple[type[StoreTarget], ...] = get_args(get_args(Target)[0])
    return {get_args(model.model_fields["store"].annotation)[0]: model for model in models}


def stores_with(has: Callable[[type[StoreTarget]], object]) -> list[str]:
    """Return the names of all stores whose model has something, sorted."""
    return sorted(store for store, model in target_models().items() if has(model))


def configures(target: object, phase: int) -> bool:
    """Return whether a target's store may be configured before a phase."""
    return isinstance(target, CassandraTarget) and target.tuning.configures(phase)
