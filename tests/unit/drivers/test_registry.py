"""Which driver a plan gets, and which endpoints it may name."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.target import Target
from stepbench.drivers.registry import build_driver, lease_target
from stepbench.errors import PlanError
from stepbench.settings import Settings
from stepbench.testing.driver_contract import contract_spec
from stepbench.testing.fake_clock import FakeClock

SETTINGS = Settings(
    results_table="results",
    results_bucket="results",
    target_bucket="stack-target",
    target_table_prefix="stack-target-",
    postgresql_endpoint="pg.internal:5432/bench",
    etcd_endpoint="etcd.internal:2379",
    reference_endpoint="reference.internal:7300",
)
DRIVERS = {
    "s3": "S3Driver",
    "dynamodb": "DynamoDbDriver",
    "postgresql": "PostgresqlDriver",
    "etcd": "EtcdDriver",
    "reference": "ReferenceDriver",
}


@pytest.mark.parametrize(("store", "name"), DRIVERS.items())
def test_each_store_has_its_driver(store: str, name: str) -> None:
    """A store without one is refused by the type checker; this is for a wrong pairing."""
    driver = build_driver(contract_spec({"store": store}), SETTINGS, FakeClock())
    assert type(driver).__name__ == name


def test_every_store_of_the_plan_is_covered_here() -> None:
    """A new target model without a line above would go untested."""
    union, _ = Target.__origin__.__args__, Target.__metadata__  # type: ignore[attr-defined]
    stores = {model.model_fields["store"].annotation.__args__[0] for model in union}
    assert stores == set(DRIVERS)


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
        ({"store": "etcd", "endpoint": "10.0.0.7:2379"}, "etcd#10.0.0.7:2379"),
    ],
)
def test_the_lease_names_what_is_shared(target: dict[str, Any], lease: str) -> None:
    """Two trials on one bucket would overwrite each other's notification, and measure each other's load."""
    assert lease_target(contract_spec(target), SETTINGS) == lease
