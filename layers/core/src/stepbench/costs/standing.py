"""What a stack pays by the hour whether a trial runs or not, by the template's own parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepbench.compiled import processor
from stepbench.costs import prices
from stepbench.costs.prices import DEFAULT_REGION, HOURS_PER_MONTH, Amount, instance, line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from stepbench.settings import Settings

LOAD_HOST, NETWORK = "load-host", "network"
"""Beside the stores' names: what stands there for writers, and for all that is in the stack's own network."""
ETCD_NODES, ETCD_VOLUME_GB, HOST_VOLUME_GB, BESIDE_VOLUME_GB = 3, 40, 20, 100
LEAST_ACU, LEAST_ELASTICACHE_GB = 0.5, 0.1
NETWORK_ENDPOINTS, AURORA_ENDPOINTS, CASSANDRA_ENDPOINTS, LOGS_ENDPOINTS = 4, 1, 1, 1
"""Interface endpoints of `stacks/network.yaml`, and those for Aurora, Cassandra, or measured functions alone."""
DEFAULT_TYPES = {
    "AuroraInstanceClass": "db.r6g.large",
    "EtcdInstanceType": "m6i.large",
    "ElastiCacheNodeType": "cache.r7g.large",
    "CassandraInstanceType": "i4i.large",
    "LoadHostInstanceType": "i4i.2xlarge",
}
"""The template's defaults."""
_OPTIONS = {
    "postgresql": "AuroraPostgresql",
    "etcd": "EtcdNodes",
    "redis": "ElastiCache",
    "cassandra": "CassandraNode",
    LOAD_HOST: "LoadHost",
}


@dataclass(frozen=True)
class Deployment:
    """
    What of a stack decides its prices.

    options: its parameters by name, as far as they make something that is billed by the hour, or decide how long
    something is stored.
    """

    region: str = DEFAULT_REGION
    arm64: bool = False
    emulator: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def days(self, option: str) -> float:
        """Return a retention in days; 0 where the stack does not tell it."""
        return float(self.options.get(option) or 0)

    def stands(self, name: str) -> bool:
        """Return whether the stack has made a store's server, or a load host."""
        return self.options.get(_OPTIONS.get(name, ""), "off") not in {"", "off", "own"}


def parse_options(text: str) -> dict[str, str]:
    """Parse `Name=value;…`, as the template passes its parameters on."""
    pairs = (entry.partition("=") for entry in text.split(";") if entry)
    return {name: value for name, _, value in pairs}


def standing(deployment: Deployment) -> dict[str, tuple[Amount, ...]]:
    """Return what an hour is billed for, by the store that it serves, `LOAD_HOST` or `NETWORK`."""
    found = {name: tuple(_HOURLY[name](deployment.options)) for name in _HOURLY if deployment.stands(name)}
    if found:
        found[NETWORK] = tuple(_network(deployment, found))
    return found


def _aurora(options: Mapping[str, str]) -> Iterator[Amount]:
    if options["AuroraPostgresql"] == "serverless":
        yield line(prices.ACU_HOUR, LEAST_ACU, f"{LEAST_ACU} ACU, the least: what it scaled to is not read")
    else:
        yield line(instance("aurora", options["AuroraInstanceClass"]), 1)
    yield line(prices.SECRET_MONTH, 1 / HOURS_PER_MONTH)


def _etcd(options: Mapping[str, str]) -> Iterator[Amount]:
    yield from _hosts(options["EtcdInstanceType"], ETCD_NODES, ETCD_VOLUME_GB)


def _elasticache(options: Mapping[str, str]) -> Iterator[Amount]:
    if options["ElastiCache"] == "serverless":
        yield line(prices.ELASTICACHE_GB_HOUR, LEAST_ELASTICACHE_GB, "100 MB, the least")
    else:
        yield line(instance("elasticache", options["ElastiCacheNodeType"]), 1)


def _cassandra(options: Mapping[str, str]) -> Iterator[Amount]:
    beside = [type_ for type_ in options.get("CassandraBesideTypes", "").split(",") if type_]
    for type_ in (options["CassandraInstanceType"], *beside):
        yield from cassandra_host(options, type_)


def cassandra_host(options: Mapping[str, str], type_: str | None) -> Iterator[Amount]:
    """Yield an hour of one of the stack's hosts with Cassandra, by instance type; without one of the first."""
    first = options["CassandraInstanceType"]
    data_gb = int(options.get("CassandraDataVolumeGib") or 0) if type_ in {None, first} else BESIDE_VOLUME_GB
    yield from _hosts(type_ or first, 1, HOST_VOLUME_GB + data_gb)


def _load_host(options: Mapping[str, str]) -> Iterator[Amount]:
    hosts = _hosts(options["LoadHostInstanceType"], 1, HOST_VOLUME_GB)
    yield from (amount._replace(price=amount.price._replace(part="load")) for amount in hosts)


def _hosts(type_: str, count: int, volume_gb: int) -> Iterator[Amount]:
    """Yield EC2 hosts, each with a volume and a public address: the way to what they fetch."""
    yield line(instance("ec2", type_), count)
    yield line(prices.VOLUME_GB_MONTH, count * volume_gb / HOURS_PER_MONTH)
    yield line(prices.ADDRESS_HOUR, count)


def _network(deployment: Deployment, stands: Collection[str]) -> Iterator[Amount]:
    zones = len([zone for zone in deployment.options.get("AvailabilityZones", "").split(",") if zone]) or 2
    endpoints = NETWORK_ENDPOINTS
    endpoints += AURORA_ENDPOINTS if "postgresql" in stands else 0
    endpoints += CASSANDRA_ENDPOINTS if "cassandra" in stands else 0
    endpoints += LOGS_ENDPOINTS if deployment.options.get("MeasuredFunctions") == "on" else 0
    note = "of the stack's network, which no trial holds: all the run's hours"
    yield line(prices.ENDPOINT_HOUR._replace(part="control"), endpoints * zones, note)


_HOURLY = {"postgresql": _aurora, "etcd": _etcd, "redis": _elasticache, "cassandra": _cassandra, LOAD_HOST: _load_host}


def hours(amounts: tuple[Amount, ...], count: float) -> tuple[Amount, ...]:
    """Return the amounts of so many hours."""
    return tuple(amount._replace(quantity=amount.quantity * count) for amount in amounts)


def deployment(settings: Settings) -> Deployment:
    """Return it from the settings, and from this function's own processor, which all of them share."""
    return Deployment(
        region=settings.aws_region,
        arm64=processor() == "arm64",
        emulator=settings.emulator,
        options=parse_options(settings.stack_options),
    )
