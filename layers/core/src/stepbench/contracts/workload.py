"""
The work of an `operations` trial: which operations, on what records, on which of them.

The core workloads of YCSB can be written down: A is `{"read": 50, "overwrite": 50}` with `zipfian` keys, D has `latest`
ones, E scans, F has `read_modify_write`. YCSB's update writes one field of ten; of a blob it is an overwrite (as with
`fieldcount=1`), of a product an `update`.

Source:
    Cooper et al. (2010), Benchmarking cloud serving systems with YCSB, SoCC '10, section 4 and table 2.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from stepbench.contracts.base import BrokenRule, Contract, RuledContract

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RECORDS = 10_000_000
MAX_PRELOADED_BYTES = 20_000_000_000
"""`PrepareTarget` has 15 minutes a call, and goes on where it was; more is another tool's work."""
MIN_OPERATION_KEY_BYTES = 37
"""Trial tag, "/rec-", 16 hexadecimal digits, "/"."""
PRODUCT_BYTES = 312
"""The size of the 12 values together (`workload.products`)."""
ROW_DATA = b"bench"
SCAN_ROWS, HOT_KEYS, HOT_SHARE, ZIPFIAN_CONSTANT = 100, 1, 0.5, 0.99

Weight = Annotated[float, Field(ge=0, le=1_000_000)]


class Kind(IntEnum):
    """
    A kind of request: operations by their place in `Mix.weights`, and deletions, which only triggers have.

    A scan returns the records from a key on, in the order of keys (Cassandra: of the keys' tokens).
    """

    READ = 0
    INSERT = 1
    OVERWRITE = 2
    UPDATE = 3
    READ_MODIFY_WRITE = 4
    SCAN = 5
    DELETE = 6


OPERATION_KINDS = tuple(kind for kind in Kind if kind is not Kind.DELETE)
"""The kinds that a mix may offer, in the order of its weights."""


class Mix(RuledContract):
    """
    Weights of the operations, of any sum.

    read: all of a record. insert: a new record. overwrite: all of an existing one. update: some fields of one.
    read_modify_write: a read, then an overwrite (blob) or update (product) of the same record, timed as one.
    scan: records in order, from a key on.
    """

    read: Weight = 0
    insert: Weight = 0
    overwrite: Weight = 0
    update: Weight = 0
    read_modify_write: Weight = 0
    scan: Weight = 0

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.total == 0:
            yield BrokenRule("read", "is 0, as every weight", "Give at least one operation a weight above 0.")

    @property
    def weights(self) -> tuple[float, ...]:
        """Return the weights by the number of the operation (`Kind`)."""
        return (self.read, self.insert, self.overwrite, self.update, self.read_modify_write, self.scan)

    @property
    def kinds(self) -> frozenset[Kind]:
        """Return the operations that are offered."""
        return frozenset(kind for kind in OPERATION_KINDS if self.weights[kind])

    @property
    def total(self) -> float:
        """Return the weights' sum."""
        return sum(self.weights)


class BlobRecord(Contract):
    """A key and one value."""

    shape: Literal["blob"] = "blob"
    key_bytes: int = Field(default=59, ge=MIN_OPERATION_KEY_BYTES, le=1_000)
    value_bytes: int = Field(default=889, ge=1, le=350_000)


class ProductRecord(Contract):
    """
    A product of 12 fields: a DynamoDB item's attributes, a Redis hash's fields, elsewhere JSON.

    They are id, creation and update time, name, description, category, count, price, seller, seller id, country, city.

    Source:
        Bianchi (2020), Swifter Than DynamoDB: Lambda Store - Serverless Redis.
    """

    shape: Literal["product"]
    key_bytes: int = Field(default=MIN_OPERATION_KEY_BYTES, ge=MIN_OPERATION_KEY_BYTES, le=1_000)

    @property
    def value_bytes(self) -> int:
        """Return how large the values are together."""
        return PRODUCT_BYTES


class RowRecord(Contract):
    """
    A row of a table `(id uuid, data text, created_at timestamptz)`, as it was published for Aurora DSQL.

    An insert names `id` and `data`; a read is `SELECT id, data … LIMIT 1`, whichever row comes. SQL stores only.

    Source:
        Testing Aurora DSQL write and read performance from AWS Lambda, sections 1 and 3.
    """

    shape: Literal["row"]

    @property
    def key_bytes(self) -> int:
        """Return how many digits an id has, which is written without hyphens."""
        return 32

    @property
    def value_bytes(self) -> int:
        """Return how long `ROW_DATA` is."""
        return len(ROW_DATA)


Region = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$", max_length=30, examples=["eu-west-1"])]


class ClusterRecord(Contract):
    """
    A cluster of Aurora DSQL, which an insert creates: it is answered once the cluster is ACTIVE, a pair once both are.

    Of a pair, one cluster is in the target's region and the other in `peer_region`, with a witness in a third region.

    Source:
        Testing Aurora DSQL write and read performance from AWS Lambda, section 6.
    """

    shape: Literal["cluster"]
    peer_region: Region | None = None
    witness_region: Region | None = None

    @property
    def key_bytes(self) -> int:
        """Return the least: a cluster's name is the service's."""
        return MIN_OPERATION_KEY_BYTES

    @property
    def value_bytes(self) -> int:
        """Return 0: nothing is written into it."""
        return 0


RecordShape = Annotated[BlobRecord | ProductRecord | RowRecord | ClusterRecord, Field(discriminator="shape")]


class UniformKeys(Contract):
    """Every preloaded record alike."""

    distribution: Literal["uniform"] = "uniform"


class ZipfianKeys(Contract):
    """A few preloaded records much more often than the others, scattered over all; as YCSB's scrambled Zipfian."""

    distribution: Literal["zipfian"]
    constant: float = Field(default=ZIPFIAN_CONSTANT, gt=0, le=0.999)


class LatestKeys(Contract):
    """The younger, the more often: first what the client has inserted itself, then preloaded records from the last."""

    distribution: Literal["latest"]
    constant: float = Field(default=ZIPFIAN_CONSTANT, gt=0, le=0.999)


class HotKeys(Contract):
    """`hot_keys` of the preloaded records get `share` of the operations, the others the rest; alike within each."""

    distribution: Literal["hot"]
    hot_keys: int = Field(default=HOT_KEYS, ge=1, le=MAX_RECORDS)
    share: float = Field(default=HOT_SHARE, gt=0, lt=1)


KeyChoice = Annotated[UniformKeys | ZipfianKeys | LatestKeys | HotKeys, Field(discriminator="distribution")]


class Workload(RuledContract):
    """Operations on records, the same for every attempt with the same seed."""

    mix: Mix = Mix(read=1)
    record: RecordShape = BlobRecord()
    records: int = Field(default=1_000, ge=0, le=MAX_RECORDS, description="Preloaded before the load begins.")
    keys: KeyChoice = UniformKeys()
    key_order: Literal["hashed", "ordered"] = Field(
        default="hashed",
        description="Whether neighbours by number are neighbours by key: `ordered` inserts go to the index's end.",
    )
    scan_rows: int = Field(
        default=SCAN_ROWS, ge=1, le=10_000, description="A scan asks for 1 to so many records, each number alike."
    )
    reuse: bool = Field(
        default=True,
        description="Whether clients keep their connections; without, each operation makes its own, and its parts "
        "(connect, TLS, authentication) are timed.",
    )
    seed: int = Field(default=7, ge=0, lt=2**63)

    def _broken_rules(self) -> Iterator[BrokenRule]:
        for rule in (_record_rules, _shape_rules, _key_rules, _scan_rules):
            yield from rule(self)

    @property
    def touches_existing(self) -> bool:
        """Return whether any operation needs a record that is there already."""
        return self.mix.total > self.mix.insert


def _record_rules(workload: Workload) -> Iterator[BrokenRule]:
    if workload.touches_existing and workload.records == 0:
        message = "is 0, and the mix has operations on records that exist"
        yield BrokenRule("records", message, "Say how many records are preloaded, or leave only insert in the mix.")
    size = workload.records * (workload.record.key_bytes + workload.record.value_bytes)
    if size > MAX_PRELOADED_BYTES:
        message = f"makes {size / 1e9:,.0f} GB to preload, more than {MAX_PRELOADED_BYTES / 1e9:.0f} GB"
        yield BrokenRule("records", message, "Lower records, or the record's value_bytes.")


def _shape_rules(workload: Workload) -> Iterator[BrokenRule]:
    if workload.record.shape == "row":
        for kind in sorted(workload.mix.kinds - {Kind.READ, Kind.INSERT}):
            message = "was not published for rows, which are inserted and read only"
            yield BrokenRule(f"mix.{kind.name.lower()}", message, 'Remove it, or set record.shape to "blob".')
    elif workload.record.shape == "cluster":
        yield from _creation_rules(workload)
    elif workload.mix.update and workload.record.shape == "blob":
        message = "changes some fields of a record, and a blob has none"
        yield BrokenRule("mix.update", message, 'Use overwrite, or set record.shape to "product".')


def _creation_rules(workload: Workload) -> Iterator[BrokenRule]:
    """Clusters are created, and that is all; none is there before the load."""
    for kind in sorted(workload.mix.kinds - {Kind.INSERT}):
        yield BrokenRule(
            f"mix.{kind.name.lower()}", "has no meaning for clusters, which are created only", "Remove it."
        )
    if workload.records:
        yield BrokenRule(
            "records", f"is {workload.records:,}, and no cluster is created before the load", "Set it to 0."
        )
    if not workload.reuse:
        yield BrokenRule("reuse", "has no effect: a creation takes no connection to a database", "Remove it.")


def _key_rules(workload: Workload) -> Iterator[BrokenRule]:
    if not workload.touches_existing and workload.keys.distribution != "uniform":
        remedy = "Remove it, or add an operation on existing records to the mix."
        yield BrokenRule("keys", "has no effect, since inserts make keys of their own", remedy)
    if isinstance(workload.keys, HotKeys) and 0 < workload.records <= workload.keys.hot_keys:
        message = f"is not below records ({workload.records:,}), so that no record is left beside the hot ones"
        yield BrokenRule("keys.hot_keys", message, "Lower it, or raise records.")


def _scan_rules(workload: Workload) -> Iterator[BrokenRule]:
    if not workload.mix.scan and workload.scan_rows != SCAN_ROWS:
        yield BrokenRule("scan_rows", "has no effect without scans", "Remove it, or add scan to the mix.")


MAX_CLIENTS = 10_000
MOST_OPERATIONS = 10_000_000
"""The limit of a trial's closed loops: AnalyseTrial joins some 140 to 210 bytes a row, and has 3 GB."""
MOST_PER_WRITER_S = 100_000
"""For upper bounds: a writer's own loop takes 18 µs an operation and more; about half of that, for faster machines."""


class ClosedLoad(RuledContract):
    """
    So many clients, each of which offers its next operation once the last was answered and a pause has passed.

    Clients are numbered over all writers; client c is one of writer c mod writers.
    """

    clients: int = Field(ge=1, le=MAX_CLIENTS)
    think_ms: float = Field(default=0, ge=0, le=600_000, description="The pause between an answer and what follows.")
    think: Literal["constant", "exponential"] = Field(
        default="constant", description="How pauses are distributed around it."
    )
    duration_s: float = Field(gt=0, le=7 * 86_400, description="Nothing is offered after that.")
    operations: int | None = Field(
        default=None,
        ge=1,
        le=MOST_OPERATIONS,
        description="Of all clients together, shared out evenly; with them done the load ends before duration_s.",
    )

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.operations is not None and self.operations < self.clients:
            message = f"is below clients ({self.clients:,}), so that some would offer nothing"
            yield BrokenRule("operations", message, "Raise it, or lower clients.")
        if self.think != "constant" and self.think_ms == 0:
            yield BrokenRule("think", "has no effect without a pause", "Give think_ms, or remove it.")

    def most_events(self, *, answer_s: float, writers: int) -> int:
        """Return how many operations the writers offer at most to a store that never answers before `answer_s`."""
        per_s = min(self.clients / (self.think_ms / 1e3 + answer_s), writers * MOST_PER_WRITER_S)
        unbounded = math.ceil(self.duration_s * per_s)
        return unbounded if self.operations is None else min(self.operations, unbounded)

    def operations_of(self, client: int) -> int | None:
        """Return how many operations a client offers at most; None where only time ends it."""
        if self.operations is None:
            return None
        share, rest = divmod(self.operations, self.clients)
        return share + (client < rest)


INLINE_ITERATIONS = 40
"""An inline Map runs so many at once, whatever its MaxConcurrency asks for (Step Functions Developer Guide, "Map")."""
MOST_PER_INVOCATION = 5_000
"""Rows of one invocation have to fit into one item of 400 KB, of at most some 40 bytes each."""
INVOKED_S = 600.0


class InvokedLoad(Contract):
    """
    One invocation for each of the trial's writers, which does its operations one after the other, records, and ends.

    A Map begins them as fast as max_concurrency lets it: nothing is held ready, and no operation has a time at which it
    is due. How fast that is, is the result.
    """

    operations: int = Field(default=1, ge=1, le=MOST_PER_INVOCATION, description="Of each invocation, in a row.")
    map: Literal["distributed", "inline"] = Field(
        default="distributed",
        description=f"Which Map begins the invocations; an inline one runs {INLINE_ITERATIONS} at once, at most.",
    )
    duration_s: float = Field(
        default=INVOKED_S, gt=0, le=INVOKED_S, description="No operation begins later after the phase does."
    )

    def loop(self, writers: int) -> ClosedLoad:
        """Return the same as clients, each of which waits for its answers: one in each invocation."""
        return ClosedLoad(clients=writers, duration_s=self.duration_s, operations=writers * self.operations)
