"""Which driver a plan gets, whether it can do what its target declares, and which endpoints a plan may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.contracts.operations_subject import operations_spec
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.fake_clock import FakeClock

from stepbench.contracts.target import target_models
from stepbench.drivers.protocol import Scalable, Watchable
from stepbench.drivers.registry import lease_target, room_of
from stepbench.errors import PlanError
from stepbench.experiments.registry import build_driver
from stepbench.settings import Settings

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec

MODELS = target_models()
EACH_STORE = pytest.mark.parametrize("store", MODELS)
ADDRESSES = {name: f"{name}.internal:1" for name in Settings.model_fields if name.endswith("_endpoint")}
SETTINGS = Settings(
    results_table="results",
    results_bucket="results",
    target_bucket="stack-target",
    target_table_prefix="stack-target-",
    dsql_endpoints="single=abc.dsql.us-east-1.on.aws",
    allow_custom_endpoints=True,
    **ADDRESSES,
)


def _specs(store: str, **fields: str) -> dict[str, TrialSpec]:
    """Return a trial of each experiment that the store has, with an endpoint where no stack has a server of it."""
    model = MODELS[store]
    if model.needs_endpoint and not SETTINGS.knows_server(store):
        fields = {"endpoint": "10.0.0.7:7000", **fields}
    target = {"store": store, **fields}
    triggers = {"trigger": contract_spec(target)} if model.trigger else {}
    return {**triggers, "operations": operations_spec(target)} if model.operations else triggers


@EACH_STORE
def test_each_store_has_its_drivers(store: str) -> None:
    """A store without one is refused by the type checker; this is for a wrong pairing. A `driver` may serve both."""
    for experiment, spec in _specs(store).items():
        package, _, module = type(build_driver(spec, SETTINGS, FakeClock())).__module__.rpartition(".")
        assert package == f"stepbench.drivers.{store}"
        assert module in {experiment, "driver"}


@EACH_STORE
def test_a_store_offers_what_its_target_declares(store: str) -> None:
    """Plans are checked by the declaration: a pull store that is taken for a push one fails after two minutes."""
    declared, specs = MODELS[store], _specs(store)
    drivers = {experiment: build_driver(spec, SETTINGS, FakeClock()) for experiment, spec in specs.items()}
    if "trigger" in drivers:
        assert isinstance(drivers["trigger"], Watchable) is (declared.trigger == "pull")
    assert declared.trigger == "pull" or not any(isinstance(driver, Watchable) for driver in drivers.values())
    assert any(isinstance(driver, Scalable) for driver in drivers.values()) is bool(declared.capacity_modes)
    meter = room_of(next(iter(specs.values())).plan.target).meter
    assert declared.metered is (meter is not None or f"{store}_metric" in Settings.model_fields)


@EACH_STORE
def test_a_stack_that_allows_no_endpoints_refuses_them(store: str) -> None:
    """On AWS a plan is data from other teams, and the writer's role is ours."""
    endpoint = "https://10.0.0.7:9000" if MODELS[store].endpoint_form == "url" else "10.0.0.7:9000"
    closed = SETTINGS.model_copy(update={"allow_custom_endpoints": False})
    for spec in _specs(store, endpoint=endpoint).values():
        with pytest.raises(PlanError, match="AllowCustomEndpoints=true"):
            build_driver(spec, closed, FakeClock())


@pytest.mark.parametrize("update", [{"allow_custom_endpoints": True}, {"emulator": "MiniStack 1.5.33"}])
def test_endpoints_are_allowed_by_parameter_and_on_an_emulator(update: dict[str, Any]) -> None:
    """`stepbench run` on a developer's machine measures the store that is there."""
    spec = contract_spec({"store": "s3", "endpoint": "http://10.0.0.7:9000"})
    closed = SETTINGS.model_copy(update={"allow_custom_endpoints": False})
    assert build_driver(spec, closed.model_copy(update=update), FakeClock())


@pytest.mark.parametrize("store", [store for store in MODELS if f"{store}_endpoint" in ADDRESSES])
def test_the_lease_of_a_server_is_its_address(store: str) -> None:
    """Trials that name no endpoint measure the stack's one server; another server is another lease."""
    for experiment, spec in _specs(store).items():
        server = "tls_endpoint" if (store, experiment) == ("postgresql", "operations") else "endpoint"
        assert lease_target(spec, SETTINGS) == f"{store}#{store}_{server}.internal:1"
    for spec in _specs(store, endpoint="10.0.0.7:2379").values():
        assert lease_target(spec, SETTINGS) == f"{store}#10.0.0.7:2379"


@pytest.mark.parametrize(
    ("store", "endpoint", "server"),
    [
        ("postgresql", "DB.internal:5432/one", "db.internal:5432"),
        ("postgresql", "db.internal:5432/two", "db.internal:5432"),
        ("redis", "10.0.0.7:6379/3", "10.0.0.7:6379"),
    ],
)
def test_a_server_is_one_target_however_it_is_written(store: str, endpoint: str, server: str) -> None:
    """Two databases of a server share its processors, and its members are named in any order."""
    for spec in _specs(store, endpoint=endpoint).values():
        assert lease_target(spec, SETTINGS) == f"{store}#{server}"
    members = SETTINGS.model_copy(update={"etcd_endpoint": "10.0.0.2:2379, 10.0.0.1"})
    for spec in _specs("etcd").values():
        assert lease_target(spec, members) == "etcd#10.0.0.1:2379,10.0.0.2:2379"


@pytest.mark.parametrize(
    ("target", "lease"),
    [
        ({"store": "s3"}, "s3#stack-target"),
        ({"store": "dynamodb"}, "dynamodb#stack-target-"),
        ({"store": "dsql", "region": "eu-west-1"}, "dsql#single@eu-west-1"),
        ({"store": "dsql", "cluster": "multi", "region": "eu-west-1"}, "dsql#multi"),
        ({"store": "dsql", "cluster": "multi", "region": "eu-west-2"}, "dsql#multi"),
    ],
)
def test_the_lease_names_what_is_shared(target: dict[str, str], lease: str) -> None:
    """Two trials on one bucket would overwrite each other's notification, and measure each other's load."""
    assert {lease_target(spec, SETTINGS) for spec in _specs(**target).values()} == {lease}
