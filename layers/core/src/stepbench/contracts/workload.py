"""
What an `operations` trial does: which operations, on what records, on which of them.

The core workloads of YCSB can be written down: A is `{"read": 50, "overwrite": 50}` with `zipfian` keys, D has `latest`
ones, E scans, F has `read_modify_write`. YCSB's update writes one field of ten; of a blob it is an overwrite (as with
`fieldcount=1`), of a product an `update`.

Source:
    Cooper et al. (2010), Benchmarking cloud serving systems with YCSB, SoCC '10, section 4 and table 2.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.rule import Broken, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RECORDS = 10_000_000
MAX_PRELOADED_BYTES = 20_000_000_000
"""`PrepareTarget` has 15 minutes a call, and goes on where it was; more is another tool's work."""
MIN_OPERATION_KEY_BYTES = 37
"""Trial tag, "/rec-", 16 hexadecimal digits, "/"."""
PRODUCT_BYTES = 312
"""What the 12 values take together (`load.products`)."""
SCAN_ROWS, HOT_KEYS, HOT_SHARE, ZIPFIAN_CONSTANT = 100, 1, 0.5, 0.99
SCANNING_STORES = frozenset({"postgresql", "dsql", "etcd", "cassandra"})
"""Stores that return the records from a key on, in the order of keys (Cassandra: of the keys' tokens)."""

Weight = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class Kind(IntEnum):
    """An operation, by its place in `Mix.weights`."""

    READ = 0
    INSERT = 1
    OVERWRITE = 2
    UPDATE = 3
    READ_MODIFY_WRITE = 4
    SCAN = 5


class Mix(Contract):
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

    @model_validator(mode="after")
    def _offers_something(self) -> Self:
        if self.total == 0:
            refuse([Broken("read", "is 0, as every weight", "Give at least one operation a weight above 0.")])
        return self

    @property
    def weights(self) -> tuple[float, ...]:
        """By the number of the operation (`Kind`)."""
        return (self.read, self.insert, self.overwrite, self.update, self.read_modify_write, self.scan)

    @property
    def kinds(self) -> frozenset[Kind]:
        """Those that are offered."""
        return frozenset(kind for kind in Kind if self.weights[kind])

    @property
    def total(self) -> float:
        """The weights' sum."""
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
        """How large the values are together."""
        return PRODUCT_BYTES


RecordShape = Annotated[BlobRecord | ProductRecord, Field(discriminator="shape")]


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


class Workload(Contract):
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

    @model_validator(mode="after")
    def _can_be_offered(self) -> Self:
        rules = (_record_rules, _shape_rules, _key_rules, _scan_rules)
        refuse(broken for rule in rules for broken in rule(self))
        return self

    @property
    def touches_existing(self) -> bool:
        """Whether any operation needs a record that is there already."""
        return self.mix.total > self.mix.insert


def store_rules(workload: Workload, store: str) -> Iterator[Broken]:
    """What of the workload the store cannot do; paths start at the workload."""
    if workload.mix.scan and store not in SCANNING_STORES:
        able = ", ".join(sorted(SCANNING_STORES))
        yield Broken(
            "mix.scan",
            f"needs records in the order of their keys, which {store} does not keep",
            f"Remove it, or use one of {able}.",
        )


def _record_rules(workload: Workload) -> Iterator[Broken]:
    if workload.touches_existing and workload.records == 0:
        message = "is 0, and the mix has operations on records that exist"
        yield Broken("records", message, "Say how many records are preloaded, or leave only insert in the mix.")
    size = workload.records * (workload.record.key_bytes + workload.record.value_bytes)
    if size > MAX_PRELOADED_BYTES:
        message = f"makes {size / 1e9:,.0f} GB to preload, more than {MAX_PRELOADED_BYTES / 1e9:.0f} GB"
        yield Broken("records", message, "Lower records, or the record's value_bytes.")


def _shape_rules(workload: Workload) -> Iterator[Broken]:
    if workload.mix.update and workload.record.shape == "blob":
        message = "changes some fields of a record, and a blob has none"
        yield Broken("mix.update", message, 'Use overwrite, or set record.shape to "product".')


def _key_rules(workload: Workload) -> Iterator[Broken]:
    if not workload.touches_existing and workload.keys.distribution != "uniform":
        remedy = "Remove it, or add an operation on existing records to the mix."
        yield Broken("keys", "has no effect, since inserts make keys of their own", remedy)
    if isinstance(workload.keys, HotKeys) and 0 < workload.records <= workload.keys.hot_keys:
        message = f"is not below records ({workload.records:,}), so that no record is left beside the hot ones"
        yield Broken("keys.hot_keys", message, "Lower it, or raise records.")


def _scan_rules(workload: Workload) -> Iterator[Broken]:
    if not workload.mix.scan and workload.scan_rows != SCAN_ROWS:
        yield Broken("scan_rows", "has no effect without scans", "Remove it, or add scan to the mix.")
