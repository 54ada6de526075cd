"""
What has a price, and the terms that several stores' bills have in common; the prices are in `price_table`.

What runs by the hour whether a trial runs or not (Aurora instances, EC2 hosts, endpoints) is in `standing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.cost import CostItem
from stepbench.contracts.workload import Kind
from stepbench.costs.price_table import DEFAULT_REGION, find_price

if TYPE_CHECKING:
    from stepbench.contracts.capacity import Capacity
    from stepbench.contracts.cost import Part
    from stepbench.contracts.workload import Workload


class Price(NamedTuple):
    """What is billed by the unit; `key` is its name in the price table, which has the unit."""

    key: str
    item: str
    part: Part


S3_PUT = Price("s3_put", "S3 PUT requests", "store")
DYNAMODB_WRITE = Price("dynamodb_write", "DynamoDB on-demand writes", "store")
DYNAMODB_TARGET_READ = Price("dynamodb_read", "DynamoDB on-demand reads", "store")
DYNAMODB_PROVISIONED_WRITE = Price("dynamodb_write_hour", "DynamoDB provisioned write capacity", "store")
DYNAMODB_PROVISIONED_READ = Price("dynamodb_read_hour", "DynamoDB provisioned read capacity", "store")
DYNAMODB_WARM_WRITE = Price("dynamodb_write_hour", "DynamoDB warm throughput (writes)", "store")
DYNAMODB_READ = Price("dynamodb_read", "Results table reads", "records")
RESULTS_WRITE = Price("dynamodb_write", "Results table writes", "records")
RESULTS_STORED = Price("dynamodb_storage", "Results table storage", "records")
RESULTS_PUT = Price("s3_put", "Results bucket PUT requests", "records")
BUCKET_STORED = Price("s3_storage", "Results bucket storage", "records")
AURORA_IO = Price("aurora_io", "Aurora I/O requests", "store")
DSQL_DPU = Price("dsql_dpu", "Aurora DSQL activity", "store")
ELASTICACHE_ECPU = Price("elasticache_ecpu", "ElastiCache Serverless (Valkey) processing", "store")
LAMBDA_REQUEST = Price("lambda_request", "Lambda requests", "control")
LAMBDA_GB_S = Price("lambda_gb_s", "Lambda duration (x86)", "control")
LAMBDA_ARM_GB_S = Price("lambda_arm_gb_s", "Lambda duration (arm64)", "control")
LOAD_QUEUE = Price("sqs_fifo", "SQS FIFO requests", "load")
STATE_TRANSITION = Price("state_transition", "Step Functions state transitions", "control")
LOGS_GB = Price("logs_ingestion", "CloudWatch Logs ingestion", "records")
LOGS_STORED = Price("logs_storage", "CloudWatch Logs storage", "records")
S3_GET = Price("s3_get", "S3 GET requests", "store")
EFS_READ = Price("efs_read", "EFS elastic throughput, read", "store")
EFS_WRITE = Price("efs_write", "EFS elastic throughput, written", "store")
TASK_ADDRESS_HOUR = Price("public_ipv4", "Public IPv4 addresses of tasks", "load")
FARGATE_VCPU_HOUR = Price("fargate_vcpu_hour", "Fargate vCPU (x86)", "load")
FARGATE_GB_HOUR = Price("fargate_gb_hour", "Fargate memory (x86)", "load")

ACU_HOUR = Price("aurora_acu_hour", "Aurora Serverless v2 capacity", "store")
ELASTICACHE_GB_HOUR = Price("elasticache_gb_hour", "ElastiCache Serverless (Valkey) data", "store")
VOLUME_GB_MONTH = Price("ebs_gp3", "EBS volumes (gp3)", "store")
ADDRESS_HOUR = Price("public_ipv4", "Public IPv4 addresses", "store")
ENDPOINT_HOUR = Price("vpc_endpoint", "VPC interface endpoints", "store")
EFS_GB_MONTH = Price("efs_storage", "EFS storage (Standard)", "store")
SECRET_MONTH = Price("secret", "Secrets Manager secrets", "store")


def instance(service: str, type_: str, part: Part = "store") -> Price:
    """Return the hour of an instance: of `ec2`, `aurora` or `elasticache`."""
    return Price(f"{service}:{type_}", f"{type_} ({_SERVICES[service]})", part)


_SERVICES = {"ec2": "EC2", "aurora": "Aurora PostgreSQL", "elasticache": "ElastiCache for Valkey"}
LOAD_HOST = instance("ec2", "i4i.2xlarge", "load")._replace(item="Load host (EC2, i4i.2xlarge)")
"""The dearer of the two that the stack offers."""
HOURS_PER_MONTH = 730
DAYS_PER_MONTH = HOURS_PER_MONTH / 24


class Amount(NamedTuple):
    """So many units of something; `note` says what they rest on, where they are no plain count."""

    price: Price
    quantity: float
    note: str = ""


class CostEstimate(NamedTuple):
    """What has a quantity, priced; `unpriced` are those of which the table has no price."""

    lines: tuple[CostItem, ...]
    unpriced: tuple[Price, ...] = ()

    @property
    def total_usd(self) -> float:
        """Sum of all lines."""
        return sum(line.usd for line in self.lines)

    @property
    def biggest(self) -> CostItem | None:
        """Return the line to look at first."""
        return max(self.lines, key=lambda line: line.usd, default=None)


def line(price: Price, quantity: float, note: str = "") -> Amount:
    """Return `quantity` units, to be billed."""
    return Amount(price, quantity, note)


def bill(*amounts: Amount, region: str = DEFAULT_REGION) -> CostEstimate:
    """Price all that has a quantity; what the region's prices lack is taken from us-east-1's, and noted."""
    lines, unpriced = [], []
    for price, quantity, note in amounts:
        if quantity <= 0:
            continue
        row = find_price(price.key, region)
        if row is None:
            unpriced.append(price)
            continue
        notes = [note, "" if row.region == region else f"{row.region}'s price"]
        lines.append(
            CostItem(
                part=price.part,
                item=price.item,
                unit=row.unit,
                quantity=quantity,
                unit_price_usd=row.usd,
                usd=quantity * row.usd,
                note="; ".join(filter(None, notes)),
            )
        )
    return CostEstimate(lines=tuple(lines), unpriced=tuple(unpriced))


BLOB_NAMES_BYTES, PRODUCT_NAMES_BYTES = 20, 150
"""DynamoDB bills names of attributes too."""
READS = (Kind.READ, Kind.READ_MODIFY_WRITE)
REWRITES = (Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
WRITES = (Kind.INSERT, *REWRITES)


class Stretch(NamedTuple):
    """A part of a trial in which its table had one capacity; `number` and `hours` as in `Offered`, with canaries."""

    capacity: Capacity
    number: int
    hours: float


class Offered(NamedTuple):
    """
    What a store is asked for, or was: a bill's quantities.

    number: events or operations and what is preloaded; canaries: writes before the load; hours: how long the target is
    held; stretches: all of it by the capacity that a table had, in order, once that is known. objects: how many objects
    an event puts and gets on average, where it is none itself.
    """

    number: int
    canaries: int
    hours: float
    stretches: tuple[Stretch, ...] = ()
    objects: tuple[float, float] | None = None


def record_bytes(workload: Workload) -> int:
    """Return the size of a record as it is stored, names of attributes included."""
    names = BLOB_NAMES_BYTES if workload.record.shape == "blob" else PRODUCT_NAMES_BYTES
    return workload.record.key_bytes + workload.record.value_bytes + names


def share(workload: Workload, kinds: tuple[Kind, ...]) -> float:
    """Return the share of operations of these kinds; one that is named twice counts twice."""
    return sum(workload.mix.weights[kind] for kind in kinds) / workload.mix.total


def operated(workload: Workload, offered: int) -> int:
    """Return how many operations the load makes of everything that is offered, the preloaded records included."""
    return max(0, offered - workload.records)
