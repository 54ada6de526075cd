"""Which driver a plan gets, and which endpoints it may name."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.target import Target
from stepbench.drivers.registry import build_driver, build_operable, lease_target
from stepbench.errors import PlanError
from stepbench.settings import Settings
from stepbench.testing.driver_subject import contract_spec
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.operable_subject import operations_spec

SETTINGS = Settings(
    results_table="results",
    results_bucket="results",
    target_bucket="stack-target",
    target_table_prefix="stack-target-",
    postgresql_endpoint="pg.internal:5432/bench",
    etcd_endpoint="etcd.internal:2379",
    reference_endpoint="reference.internal:7300",
    redis_endpoint="redis.internal:6379",
    cassandra_endpoint="cassandra.internal:9042",
    dsql_endpoints="single=abc.dsql.us-east-1.on.aws",
)
DRIVERS = {
    "s3": "S3Driver",
    "dynamodb": "DynamoDbDriver",
    "postgresql": "PostgresqlDriver",
    "etcd": "EtcdDriver",
    "reference": "ReferenceDriver",
}
OPERABLES = {
    "dynamodb": "DynamoDbOperations",
    "postgresql": "PostgresqlOperations",
    "etcd": "EtcdOperations",
    "redis": "RedisOperations",
    "dsql": "DsqlOperations",
    "cassandra": "CassandraOperations",
}


@pytest.mark.parametrize(("store", "name"), DRIVERS.items())
def test_each_store_has_its_driver(store: str, name: str) -> None:
    """A store without one is refused by the type checker; this is for a wrong pairing."""
    driver = build_driver(contract_spec({"store": store}), SETTINGS, FakeClock())
    assert type(driver).__name__ == name


@pytest.mark.parametrize(("store", "name"), OPERABLES.items())
def test_each_store_of_operations_has_its_driver(store: str, name: str) -> None:
    """As above."""
    operable = build_operable(operations_spec({"store": store}), SETTINGS, FakeClock())
    assert type(operable).__name__ == name


def test_every_store_of_the_plan_is_covered_here() -> None:
    """A new target model without a line above would go untested."""
    union, _ = Target.__origin__.__args__, Target.__metadata__  # type: ignore[attr-defined]
    stores = {model.model_fields["store"].annotation.__args__[0] for model in union}
    assert stores == set(DRIVERS) | set(OPERABLES)


@pytest.mark.parametrize(
    ("store", "endpoint"),
    [
        ("s3", "https://10.0.0.7:9000"),
        ("dynamodb", "http://10.0.0.7:8000"),
        ("postgresql", "10.0.0.7:5432/bench"),
        ("etcd", "10.0.0.7:2379"),
        ("reference", "10.0.0.7:7300"),
    ],
)
def test_a_stack_that_allows_no_endpoints_refuses_them(store: str, endpoint: str) -> None:
    """On AWS a plan is data from other teams, and the writer's role is ours."""
    spec = contract_spec({"store": store, "endpoint": endpoint})
    with pytest.raises(PlanError, match="AllowCustomEndpoints=true"):
        build_driver(spec, SETTINGS, FakeClock())


@pytest.mark.parametrize("update", [{"allow_custom_endpoints": True}, {"emulator": "MiniStack 1.5.33"}])
def test_endpoints_are_allowed_by_parameter_and_on_an_emulator(update: dict[str, Any]) -> None:
    """`stepbench run` on a developer's machine measures the store that is there."""
    spec = contract_spec({"store": "s3", "endpoint": "http://10.0.0.7:9000"})
    assert build_driver(spec, SETTINGS.model_copy(update=update), FakeClock())


@pytest.mark.parametrize(
    ("target", "lease"),
    [
        ({"store": "s3"}, "s3#stack-target"),
        ({"store": "dynamodb"}, "dynamodb#stack-target-"),
        ({"store": "postgresql"}, "postgresql#pg.internal:5432/bench"),
        ({"store": "etcd"}, "etcd#etcd.internal:2379"),
        ({"store": "reference"}, "reference#reference.internal:7300"),
        ({"store": "redis"}, "redis#redis.internal:6379"),
        ({"store": "cassandra"}, "cassandra#cassandra.internal:9042"),
        ({"store": "etcd", "endpoint": "10.0.0.7:2379"}, "etcd#10.0.0.7:2379"),
        ({"store": "dsql", "region": "eu-west-1"}, "dsql#single@eu-west-1"),
        ({"store": "dsql", "cluster": "multi", "region": "eu-west-1"}, "dsql#multi"),
        ({"store": "dsql", "cluster": "multi", "region": "eu-west-2"}, "dsql#multi"),
    ],
)
def test_the_lease_names_what_is_shared(target: dict[str, Any], lease: str) -> None:
    """Two trials on one bucket would overwrite each other's notification, and measure each other's load."""
    operations = target["store"] in OPERABLES.keys() - DRIVERS.keys()
    spec = operations_spec(target) if operations else contract_spec(target)
    assert lease_target(spec, SETTINGS) == lease
