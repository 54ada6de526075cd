from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.plan import TrialPlan
from stepbench.costs.estimate import store_lines
from stepbench.costs.prices import CostEstimate, Offered, bill
from stepbench.experiments.estimates import budgeted


def trial(store: str, events: int = 1_000_000, rate_per_s: float = 1_000, **fields: Any) -> TrialPlan:  # noqa: ANN401 -- JSON
    """Return a trial of one phase."""
    load = [{"rate_per_s": rate_per_s, "count": events}]
    target = {"store": store, **fields.pop("target", {})}
    return TrialPlan.model_validate({"target": target, "phases": [{"name": "a", "load": load}], **fields})


def usd(cost: CostEstimate, item: str) -> float:
    """Return the line of that name, 0 if there is none."""
    return sum(line.usd for line in cost.lines if line.item == item)


def test_the_paper_s_elastic_s3_plan_costs_29_dollars_of_puts() -> None:
    """40 min at 2,000/s, then 3 min at 2,000/s and 3 at 4,000/s: 5.88 M PUTs at $5 per million are $29.40."""
    phases = [
        {"name": "w", "measured": False, "load": [{"rate_per_s": 2000, "duration_s": 2400}]},
        {"name": "s", "load": [{"rate_per_s": 2000, "duration_s": 180}, {"rate_per_s": 4000, "duration_s": 180}]},
    ]
    plan = TrialPlan.model_validate({"target": {"store": "s3"}, "phases": phases, "writers": 10})
    assert plan.events == 5_880_000
    cost = budgeted(plan)
    assert usd(cost, "S3 PUT requests") == pytest.approx(29.40, abs=0.01)
    assert cost.biggest is not None
    assert cost.biggest.item == "S3 PUT requests"


@pytest.mark.parametrize(("value_bytes", "units"), [(889, 1), (945, 1), (946, 2), (4_000, 4), (10_000, 10)])
def test_dynamodb_bills_writes_by_the_kilobyte(value_bytes: int, units: int) -> None:
    """59 bytes of key, 20 of attribute names and the value, rounded up to whole kilobytes."""
    cost = budgeted(trial("dynamodb", record={"value_bytes": value_bytes}))
    assert usd(cost, "DynamoDB on-demand writes") == pytest.approx(0.625 * units, rel=1e-3)


def test_provisioned_capacity_is_billed_by_the_hour_not_by_the_write() -> None:
    """1,000 s of load, 120 s of draining, 300 s around: 1,420 s of 3,600 units at $0.00065 an hour each."""
    cost = budgeted(trial("dynamodb", target={"capacity": {"mode": "provisioned", "write_units": 3_600}}))
    assert usd(cost, "DynamoDB on-demand writes") == 0
    assert usd(cost, "DynamoDB provisioned write capacity") == pytest.approx(1_420 * 0.00065)


def test_warm_throughput_counts_against_a_budget() -> None:
    """96,000 units above a new table's own, each at most an hour's price: a plan of two events may cost $62."""
    cost = budgeted(trial("dynamodb", 2, 1, target={"capacity": {"mode": "on_demand", "warm_write_units": 100_000}}))
    assert usd(cost, "DynamoDB warm throughput (writes)") == pytest.approx(96_000 * 0.00065)


def test_writes_of_the_clock_check_are_invocations_too() -> None:
    """200 writes and 30 canaries through CheckClock, beside 230 deliveries, 1 writer and 40 control invocations."""
    apart, one = (budgeted(trial("dynamodb", 200, 1, target={"same_sandbox": same})) for same in (False, True))
    extra = usd(one, "Lambda requests") / usd(apart, "Lambda requests")
    assert extra == pytest.approx((230 + 230 + 1 + 40) / (230 + 1 + 40))


def test_a_scaling_phase_is_billed_at_its_capacity() -> None:
    """The highest capacity that is ever asked for stands until the end."""
    load = [{"rate_per_s": 1, "duration_s": 3_180}]
    phases = [{"name": "a", "load": load, "scale": {"capacity": {"mode": "provisioned", "write_units": 100}}}]
    target = {"store": "dynamodb", "capacity": {"mode": "provisioned", "write_units": 10}}
    cost = budgeted(TrialPlan.model_validate({"target": target, "phases": phases}))
    assert usd(cost, "DynamoDB provisioned write capacity") == pytest.approx(0.065)


def test_aurora_is_billed_by_io_and_etcd_not_by_request() -> None:
    """A million writes are $0.60 of I/O (leaf, page, log); etcd's nodes run on EC2, by the hour, written to or not."""
    assert usd(budgeted(trial("postgresql")), "Aurora I/O requests") == pytest.approx(0.60, rel=1e-3)
    assert not any("etcd" in line.item or "S3 PUT" in line.item for line in budgeted(trial("etcd")).lines)


def test_updates_pay_for_the_keys_that_they_overwrite() -> None:
    """Preloading a million keys costs as much as a million puts."""
    put = usd(budgeted(trial("s3")), "S3 PUT requests")
    update = usd(budgeted(trial("s3", record={"operation": "update", "distinct_keys": 1_000_000})), "S3 PUT requests")
    assert update - put == pytest.approx(5.0)


def test_a_pull_trigger_is_not_billed_an_invocation_per_event() -> None:
    """Two watchers take turns for as long as the trial lasts."""
    assert usd(budgeted(trial("etcd")), "Lambda requests") < usd(budgeted(trial("s3")), "Lambda requests") / 1_000


@pytest.mark.parametrize("store", ["s3", "dynamodb", "postgresql"])
def test_what_a_filter_holds_back_is_written_and_invokes_nothing(store: str) -> None:
    """A tenth of a million passes: as many writes, but 100,030 invocations and the writers' in place of 1,000,030."""
    whole, tenth = budgeted(trial(store)), budgeted(trial(store, record={"matching_share": 0.1}))
    writes = {"s3": "S3 PUT requests", "dynamodb": "DynamoDB on-demand writes", "postgresql": "Aurora I/O requests"}
    assert usd(tenth, writes[store]) == usd(whole, writes[store])
    assert usd(whole, "Lambda requests") - usd(tenth, "Lambda requests") == pytest.approx(900_000 * 0.20e-6)


def test_lines_in_the_results_table_are_written_there_and_half_of_them_printed() -> None:
    """200,030 items of 750 bytes in place of as many lines of 280 bytes."""
    log, table = (
        budgeted(trial("s3", 200_000, target={"function": {"name": "f", "records": where, "attempts": 1}}))
        for where in ("log", "table")
    )
    writes, logs = "Results table writes", "CloudWatch Logs ingestion"
    assert usd(table, writes) - usd(log, writes) == pytest.approx(200_030 * 0.625e-6)
    assert usd(log, logs) - usd(table, logs) == pytest.approx(200_030 * 280 * 0.5e-9)


def test_more_events_never_cost_less() -> None:
    """No rounding makes it so. A watcher's idle lane looks more often in a short trial, which costs transitions."""
    for store in ("s3", "dynamodb", "postgresql"):
        totals = [budgeted(trial(store, events=n)).total_usd for n in (1, 10, 999, 1_000, 1_001, 50_000)]
        assert totals == sorted(totals)
        assert totals[0] > 0


def test_an_empty_bill_has_no_biggest_line() -> None:
    """It costs nothing, too."""
    empty = CostEstimate(lines=())
    assert (empty.biggest, empty.total_usd) == (None, 0)


@pytest.mark.parametrize(("log_t4", "more_usd"), [("none", 0), ("sample", 0.062 / 20), ("all", 0.062)])
def test_the_second_source_is_billed_by_the_byte(log_t4: str, more_usd: float) -> None:
    """Half a million lines of 200 bytes with an entry of 36 bytes in base64, 48: 0.124 GB at $0.50."""
    phases = [{"name": "load", "load": [{"rate_per_s": 1_000, "count": 500_000}]}]
    without = usd(budgeted(trial("s3", phases=phases)), "CloudWatch Logs ingestion")
    cost = usd(budgeted(trial("s3", phases=phases, log_t4=log_t4)), "CloudWatch Logs ingestion")
    assert cost - without == pytest.approx(more_usd, rel=1e-3)


def operations(store: str, mix: dict[str, float], events: int = 1_000_000, **workload: Any) -> TrialPlan:  # noqa: ANN401 -- a workload's fields
    """Return operations at a rate, on no preloaded records but those named."""
    return trial(store, events, experiment="operations", workload={"mix": mix, **workload})


def blob(value_bytes: int) -> dict[str, Any]:
    """Return a record with a key of 59 bytes."""
    return {"shape": "blob", "key_bytes": 59, "value_bytes": value_bytes}


def test_a_million_reads_of_a_kilobyte_from_dynamodb_cost_half_a_read_unit_each() -> None:
    """Eventually consistent: half of $0.125 per million units; 1,000 preloaded records are 1,000 writes."""
    cost = budgeted(operations("dynamodb", {"read": 1}))
    assert usd(cost, "DynamoDB on-demand reads") == pytest.approx(0.0625, rel=1e-3)
    assert usd(cost, "DynamoDB on-demand writes") == pytest.approx(1_000 * 0.625 / 1e6)


@pytest.mark.parametrize(
    ("mix", "value_bytes", "reads", "writes"),
    [
        ({"insert": 1}, 889, 0, 1),
        ({"read": 50, "overwrite": 50}, 889, 0.25, 0.5),
        ({"read_modify_write": 1}, 889, 0.5, 1),
        ({"read": 3, "insert": 1}, 889, 0.375, 0.25),
        ({"read": 1, "overwrite": 1}, 5_000, 0.5, 2.5),
    ],
)
def test_each_kind_is_billed_for_what_it_does(
    mix: dict[str, float], value_bytes: int, reads: float, writes: float
) -> None:
    """By hand: below 1 KB a write unit and half a read unit; of 5,000 bytes 5 write units and 2 halves."""
    cost = budgeted(operations("dynamodb", mix, record=blob(value_bytes), records=1))
    assert usd(cost, "DynamoDB on-demand reads") == pytest.approx(0.125 * reads, rel=1e-3)
    assert usd(cost, "DynamoDB on-demand writes") == pytest.approx(0.625 * writes, rel=1e-3)


def test_operations_invoke_no_receivers_and_watch_nothing() -> None:
    """2 slices of a writer and 40 control invocations, on a pull store too."""
    for store in ("redis", "etcd", "dynamodb", "postgresql", "cassandra"):
        cost = budgeted(operations(store, {"read": 1}))
        assert usd(cost, "Lambda requests") == pytest.approx(42 * 0.20 / 1e6)
    redis = {line.item for line in budgeted(operations("redis", {"read": 1})).lines}
    assert not any("DynamoDB on" in item or "Aurora" in item for item in redis)


@pytest.mark.parametrize(
    ("workload", "requests"),
    [
        # A leaf and a page to find a row, and the log to write it.
        ({"mix": {"read": 1}}, 2),
        ({"mix": {"insert": 1}}, 3),
        ({"mix": {"overwrite": 1}}, 3),
        ({"mix": {"read_modify_write": 1}}, 5),
        ({"mix": {"read": 1, "insert": 1}}, 2.5),
        # 100 entries of 91 bytes take 2 leaves, or parts of 3; 100 rows of 968 bytes 12 pages, or parts of 13, if they
        # lie side by side, and otherwise 100.
        ({"mix": {"scan": 1}, "key_order": "hashed"}, 103),
        ({"mix": {"scan": 1}, "key_order": "ordered"}, 16),
        ({"mix": {"scan": 1, "overwrite": 1}, "key_order": "ordered"}, 53),
        # 20,079 bytes: 2 leaves, the row, its value in 3 pages or parts of 4; to write it, 6 records of log, too.
        ({"mix": {"read": 1}, "record": blob(20_000)}, 7),
        ({"mix": {"insert": 1}, "record": blob(20_000)}, 13),
    ],
)
def test_aurora_bills_pages_and_records_of_log(workload: dict[str, Any], requests: float) -> None:
    """Nothing in memory: that is what an upper bound is."""
    cost = budgeted(operations("postgresql", **workload, records=1))
    assert usd(cost, "Aurora I/O requests") == pytest.approx(0.20 * requests, rel=1e-3)


SERVERLESS = {"cluster": True, "tls": True}
ECPU = "ElastiCache Serverless (Valkey) processing"


@pytest.mark.parametrize(
    ("workload", "ecpus"),
    [
        ({"mix": {"read": 1}}, 1 + 2),
        ({"mix": {"read_modify_write": 1}}, 2 + 2),
        ({"mix": {"read": 1}, "reuse": False}, 1 + 2 + 3),
        ({"mix": {"read": 1}, "record": {"shape": "product"}}, 12 + 2),
        ({"mix": {"insert": 1}, "record": blob(10_161)}, 10 + 2),
    ],
)
def test_a_cluster_behind_tls_is_billed_as_elasticache_serverless(workload: dict[str, Any], ecpus: float) -> None:
    """A unit a command and kilobyte, 12 for a hash's 12 fields, 2 for the record's removal; $0.0023 a million."""
    fields: dict[str, Any] = {"experiment": "operations", "workload": {"records": 1, **workload}}
    cost = budgeted(trial("redis", target=SERVERLESS, **fields))
    assert usd(cost, ECPU) == pytest.approx(0.0023 * ecpus, rel=1e-3)
    for target in ({}, {"tls": True}, {"cluster": True}):
        assert usd(budgeted(trial("redis", target=target, **fields)), ECPU) == 0


@pytest.mark.parametrize(
    ("kind", "clients", "per_s"),
    [("read", 1, 22_219), ("read", 4, 31_659), ("overwrite", 1, 12_126), ("insert", 4, 13_092)],
)
def test_what_a_postgresql_beside_the_writer_takes_does_not_cost_more_than_estimated(
    kind: str, clients: int, per_s: float
) -> None:
    """Measured on two cores, its answers come in 0.03 ms, thirty times sooner than DynamoDB's."""
    phases = [{"name": "a", "closed": {"clients": clients, "duration_s": 10}}]
    fields = {"experiment": "operations", "workload": {"mix": {kind: 1}, "records": 1}}
    plan = TrialPlan.model_validate({"target": {"store": "postgresql"}, "phases": phases, **fields})
    done = bill(*store_lines(plan, Offered(int(10 * per_s), 0, 0)))
    assert done.total_usd < usd(budgeted(plan), "Aurora I/O requests")


def test_the_estimate_of_closed_loop_is_that_of_the_fastest_dynamodb() -> None:
    """10 clients for 60 s, a millisecond an answer: 600,000 at most; the bill counts what was sent."""
    phases = [{"name": "a", "closed": {"clients": 10, "duration_s": 60}}]
    fields = {"experiment": "operations", "workload": {"mix": {"insert": 1}, "records": 0}}
    plan = TrialPlan.model_validate({"target": {"store": "dynamodb"}, "phases": phases, **fields})
    assert usd(budgeted(plan), "DynamoDB on-demand writes") == pytest.approx(0.375, rel=1e-3)
    done = bill(*store_lines(plan, Offered(60_000, 0, 0)))
    assert done.total_usd == pytest.approx(0.0375)


def test_a_load_host_is_billed_by_the_hour_in_place_of_its_writers() -> None:
    """1,000 s of load, 120 s of draining, 90 s around: 1,210 s at $0.686 an hour; 4 slices, a poll each 5 s."""
    plans = [trial("s3", writers=2, load_from=place) for place in ("lambda", "host")]
    function, host = map(budgeted, plans)
    assert usd(host, "Load host (EC2, i4i.2xlarge)") == pytest.approx(1_210 / 3_600 * 0.686)
    assert usd(host, "SQS FIFO requests") == pytest.approx((4 * 3 + 1_210 / 5) * 0.5e-6)
    assert usd(function, "Load host (EC2, i4i.2xlarge)") == usd(function, "SQS FIFO requests") == 0
    writers_gb_s = 2 * 1_000 + 4 * 45
    saved_usd = usd(function, "Lambda duration (x86)") - usd(host, "Lambda duration (x86)")
    assert saved_usd == pytest.approx(writers_gb_s * 0.0000166667)
    requests = usd(function, "Lambda requests") - usd(host, "Lambda requests")
    assert requests == pytest.approx(4 * 0.2e-6)
