"""Which driver a plan gets, whether it can do what its target declares, and which endpoints a plan may name."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.support.contracts.operations_subject import operations_spec
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.fake_clock import FakeClock

from stepbench.contracts.capacity import Metric
from stepbench.contracts.target import target_models
from stepbench.drivers.protocol import Meter, Reading, Scalable, Watchable
from stepbench.drivers.registry import build_meter, lease_target, room_of
from stepbench.errors import PlanError
from stepbench.experiments.registry import build_driver
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

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


SECOND_NS = 10**9
SPECS = {store: contract_spec({"store": store}) for store in ("s3", "dynamodb", "postgresql", "etcd")} | {
    "reference": contract_spec({"store": "reference", "delay": {"kind": "constant", "ms": 1}})
}
MINUTE = 1_700_000_040
"""A whole minute, seconds since the epoch."""
TWO_NODES = {
    "namespace": "AWS/EC2",
    "metric": "CPUUtilization",
    "dimensions": [{"InstanceId": "a"}, {"InstanceId": "b"}],
}


class Aws:
    """Real boto3 clients that are given their answers beforehand."""

    def __init__(self) -> None:
        secret = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
        self.clients = {name: boto3.client(name, **secret) for name in ("cloudwatch", "dynamodb")}  # type: ignore[call-overload]
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}

    def tells(self, series: dict[str, list[tuple[int, float]]], asked: dict[str, Any]) -> None:
        """Answer with series by query id, as (seconds after `MINUTE`, value)."""
        results = [
            {
                "Id": name,
                "Timestamps": [datetime.fromtimestamp(MINUTE + at_s, UTC) for at_s, _ in points],
                "Values": [value for _, value in points],
            }
            for name, points in series.items()
        ]
        self.stubs["cloudwatch"].add_response("get_metric_data", {"MetricDataResults": results}, asked)

    def has_table(self, units: int) -> None:
        """Have a table with so many provisioned write units."""
        table = {"Table": {"ProvisionedThroughput": {"WriteCapacityUnits": units}}}
        self.stubs["dynamodb"].add_response("describe_table", table)


@pytest.fixture
def aws() -> Iterator[Aws]:
    """Yield scripted clients, each of whose answers must have been asked for in the end."""
    found = Aws()
    for stub in found.stubs.values():
        stub.activate()
    yield found
    for stub in found.stubs.values():
        stub.assert_no_pending_responses()


def meter(aws: Aws, store: str, **settings: str) -> Meter | None:
    """Return the meter of a trial's store."""
    spec = SPECS[store]
    made = Settings(results_table="r", results_bucket="r", target_table_prefix="t-", **settings)
    return build_meter(spec, made, aws.clients.__getitem__)


def read(aws: Aws, store: str, from_s: int, to_s: int) -> Reading:
    """Return what the meter of a store, of servers with two nodes, reads between two seconds after `MINUTE`."""
    metric = {} if store == "dynamodb" else {f"{store}_metric": json.dumps(TWO_NODES)}
    found = meter(aws, store, **metric)
    assert found is not None
    return found.read((MINUTE + from_s) * SECOND_NS, (MINUTE + to_s) * SECOND_NS)


def asked(metrics: list[dict[str, Any]], statistic: str, from_s: int, to_s: int) -> dict[str, Any]:
    """Return a request for whole minutes."""
    return {
        "MetricDataQueries": [
            {"Id": f"m{number}", "MetricStat": {"Metric": metric, "Period": 60, "Stat": statistic}}
            for number, metric in enumerate(metrics)
        ],
        "StartTime": datetime.fromtimestamp(MINUTE + from_s, UTC),
        "EndTime": datetime.fromtimestamp(MINUTE + to_s, UTC),
    }


def cpu(instance: str) -> dict[str, Any]:
    """Return an instance's metric."""
    dimensions = [{"Name": "InstanceId", "Value": instance}]
    return {"Namespace": "AWS/EC2", "MetricName": "CPUUtilization", "Dimensions": dimensions}


BOTH = [cpu("a"), cpu("b")]


def test_whole_periods_are_averaged_and_the_busiest_server_counts(aws: Aws) -> None:
    """A phase from second 10 to 200 holds the minutes 60 to 180; of 20 % and 70 %, the latter is the limit."""
    aws.tells({"m0": [(60, 10), (120, 30)], "m1": [(60, 60), (120, 80)]}, asked(BOTH, "Average", 60, 180))
    reading = read(aws, "etcd", 10, 200)
    assert reading.utilisation == pytest.approx(0.7)
    assert reading.whole
    assert reading.text == "CPUUtilization (AWS/EC2, a; b): 2 periods of 60 s, the busiest of 2 (20 %, 70 %)"


def test_values_that_are_still_missing_make_a_reading_unfinished(aws: Aws) -> None:
    """It is enough that one server's are missing; what there is is told."""
    aws.tells({"m0": [(0, 50), (60, 50)], "m1": [(0, 60)]}, asked(BOTH, "Average", 0, 120))
    reading = read(aws, "postgresql", 0, 120)
    assert (reading.utilisation, reading.whole) == (0.6, False)
    assert "1 of 2 periods" in reading.text


def test_a_value_outside_the_phase_is_none_of_it(aws: Aws) -> None:
    """Emulators are not exact about the end."""
    aws.tells({"m0": [(0, 50), (60, 90)], "m1": [(0, 50)]}, asked(BOTH, "Average", 0, 60))
    assert read(aws, "etcd", 0, 60).utilisation == 0.5


def test_no_value_at_all_is_no_utilisation(aws: Aws) -> None:
    """It is not zero either."""
    aws.tells({"m0": [], "m1": []}, asked(BOTH, "Average", 0, 60))
    reading = read(aws, "etcd", 0, 60)
    assert (reading.utilisation, reading.whole) == (None, False)


def test_a_phase_without_a_whole_period_asks_for_nothing(aws: Aws) -> None:
    """It does not wait for what cannot come either."""
    reading = read(aws, "etcd", 1, 119)
    assert (reading.utilisation, reading.whole) == (None, True)


def test_a_table_s_units_are_summed_over_its_minutes(aws: Aws) -> None:
    """4,800 + 4,800 units in two minutes of 100 a second that were provisioned: 80 %."""
    table = f"t-{SPECS['dynamodb'].tag}"
    consumed = {
        "Namespace": "AWS/DynamoDB",
        "MetricName": "ConsumedWriteCapacityUnits",
        "Dimensions": [{"Name": "TableName", "Value": table}],
    }
    aws.has_table(100)
    aws.tells({"m0": [(0, 4_800), (60, 4_800)]}, asked([consumed], "Sum", 0, 120))
    reading = read(aws, "dynamodb", 0, 120)
    assert (reading.utilisation, reading.whole) == (0.8, True)
    assert reading.text == "consumed of provisioned write units (100): 2 periods of 60 s"


def test_a_table_that_pays_per_request_has_no_utilisation(aws: Aws) -> None:
    """The plan's validation refuses it; a table may have been changed by hand."""
    aws.has_table(0)
    reading = read(aws, "dynamodb", 0, 120)
    assert (reading.utilisation, reading.whole) == (None, True)
    assert "no provisioned write units" in reading.text


@pytest.mark.parametrize("store", ["s3", "reference", "etcd", "postgresql"])
def test_a_store_that_nobody_knows_a_metric_of_has_no_meter(aws: Aws, store: str) -> None:
    """S3 tells nothing of the kind; servers only by the stack's parameter."""
    assert meter(aws, store) is None


@pytest.mark.parametrize(
    ("period_s", "kept"), [(1, True), (30, True), (120, True), (2, False), (45, False), (90, False)]
)
def test_a_period_is_one_that_cloudwatch_keeps(period_s: int, *, kept: bool) -> None:
    """Every probe of a search would be refused, one after the other."""
    with nullcontext() if kept else pytest.raises(ValueError, match="CloudWatch has no statistics for"):
        Metric.model_validate({**TWO_NODES, "period_s": period_s})
