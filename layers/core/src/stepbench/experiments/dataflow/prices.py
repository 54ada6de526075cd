"""
What executions of a DAG cost: functions, orchestration and the store, at today's prices and at those of November 2022.

A server is paid by the hour: with idle hours for all of the window, shared by its executions; without for the time in
which any of them went on. Where none of the stack's stands (locally, or a server of somebody else's), the published
hosts are taken: cache.r5.large, i3.large. S3 is paid by the request, and deletions are free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.costs import prices
from stepbench.costs.price_table import DEFAULT_REGION, describe_prices, find_price
from stepbench.costs.prices import HOURS_PER_MONTH, Amount, instance, line
from stepbench.costs.redis import ECPU_BYTES
from stepbench.costs.standing import HOST_VOLUME_GB, standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepbench.costs.standing import Deployment

TASK_MEMORY_MB, END_MEMORY_MB = 1_769, 1_024
"""The template's defaults."""
REDIS_NODE, CASSANDRA_HOST = "cache.r5.large", "i3.large"
"""The source's."""
STATES, STATES_OF_LEVEL = 5, 2
"""Transitions of the DAG machine: an execution's own, and those of each level."""
MODELLED_LOCALLY = "modelled: AWS price x local time"


class ExecutionUsage(NamedTuple):
    """
    What one execution used.

    latency_s: t4 - t0. task_s, end_s: of all attempts at its tasks, and of its end. tasks, attempts, levels: counts.
    puts, gets: requests to the store. moved_bytes: by both.
    """

    latency_s: float
    task_s: float
    end_s: float
    tasks: int
    attempts: int
    levels: int
    puts: int
    gets: int
    moved_bytes: int


class WindowUsage(NamedTuple):
    """A window's executions. busy_s: for how long any went on. whole_s: from its begin to its end, or their last."""

    executions: tuple[ExecutionUsage, ...]
    busy_s: float
    whole_s: float


class WindowCost(NamedTuple):
    """
    What its executions cost by one table.

    prices: the table's name. usd: of each. parts: means, by what it is spent on. modelled: why it was not paid; "" if
    it was.
    """

    prices: str
    idle: bool
    usd: tuple[float, ...]
    parts: dict[str, float]
    modelled: str


def window_costs(usage: WindowUsage, store: str, deployment: Deployment, *, own_server: bool) -> Iterator[WindowCost]:
    """
    Yield costs by each price table, with and without idle hours.

    Args:
        usage: of one execution at least.
        store: its name.
        deployment: of the stack.
        own_server: whether the store is one that the plan has named, and not the stack's.
    """
    paid = deployment.stands(store) and not own_server
    amounts = standing(deployment)[store] if paid else tuple(_published(store))
    modelled = _modelled(store, deployment, paid=paid, own_server=own_server)
    for name, priced in _tables(deployment.region):
        per_hour = priced.usd(amounts)
        for idle in (False, True):
            hours = (usage.whole_s if idle else usage.busy_s) / 3_600 / len(usage.executions)
            each = [_parts(one, store, priced, deployment, paid=paid) for one in usage.executions]
            for parts in each:
                parts["store"] += hours * per_hour
            usd = tuple(sum(parts.values()) for parts in each)
            means = {part: sum(parts[part] for parts in each) / len(each) for part in each[0]}
            yield WindowCost(name, idle, usd, means, modelled)


class _Prices(NamedTuple):
    """The prices of one region, or those of November 2022 and, where there is none, of today."""

    region: str
    published: bool = False

    def usd(self, amounts: Iterable[Amount]) -> float:
        """Price amounts."""
        found = ((each.quantity, find_price(each.price.key, self.region, published=self.published)) for each in amounts)
        return sum(quantity * quote.usd for quantity, quote in found if quote is not None)


def _tables(region: str) -> Iterator[tuple[str, _Prices]]:
    yield describe_prices(region), _Prices(region)
    yield f"{DEFAULT_REGION}, November 2022", _Prices(DEFAULT_REGION, published=True)


def _modelled(store: str, deployment: Deployment, *, paid: bool, own_server: bool) -> str:
    if deployment.emulator:
        return MODELLED_LOCALLY
    if store in _PUBLISHED and not paid:
        return f"modelled: the price of {_PUBLISHED[store]} for a server that is not the stack's"
    if store == "s3" and own_server:
        return "modelled: S3's prices for a server that is not the stack's"
    return ""


_PUBLISHED = {"redis": REDIS_NODE, "cassandra": CASSANDRA_HOST}


def _published(store: str) -> Iterator[Amount]:
    """Yield an hour of the host that the source had."""
    if store == "redis":
        yield line(instance("elasticache", REDIS_NODE), 1)
    elif store == "cassandra":
        yield line(instance("ec2", CASSANDRA_HOST), 1)
        yield line(prices.VOLUME_GB_MONTH, HOST_VOLUME_GB / HOURS_PER_MONTH)
        yield line(prices.ADDRESS_HOUR, 1)


def _requests(one: ExecutionUsage, store: str, deployment: Deployment, *, paid: bool) -> Iterator[Amount]:
    if store == "s3":
        yield line(prices.S3_PUT, one.puts)
        yield line(prices.S3_GET, one.gets)
    elif store == "redis" and paid and deployment.options.get("ElastiCache") == "serverless":
        yield line(prices.ELASTICACHE_ECPU, max(one.puts + one.gets, one.moved_bytes / ECPU_BYTES))


def _parts(one: ExecutionUsage, store: str, priced: _Prices, deployment: Deployment, *, paid: bool) -> dict[str, float]:
    """Return the dollars of one execution, but for the hours of a server."""
    duration = prices.LAMBDA_ARM_GB_S if deployment.arm64 else prices.LAMBDA_GB_S
    task_gb = float(deployment.options.get("TaskMemorySize") or TASK_MEMORY_MB) / 1_024
    functions = (
        line(duration, one.task_s * task_gb + one.end_s * END_MEMORY_MB / 1_024),
        line(prices.LAMBDA_REQUEST, one.attempts + 1),
    )
    transitions = (line(prices.STATE_TRANSITION, transitions_of(one.levels, one.tasks, one.attempts)),)
    requests = tuple(_requests(one, store, deployment, paid=paid))
    return {"functions": priced.usd(functions), "orchestration": priced.usd(transitions), "store": priced.usd(requests)}


def transitions_of(levels: int, tasks: int, attempts: int) -> int:
    """Return how many transitions an execution is billed for: each attempt is one, and each task's choice before it."""
    return STATES + STATES_OF_LEVEL * levels + tasks + attempts
