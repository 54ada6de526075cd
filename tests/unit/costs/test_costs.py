from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.plan import TrialPlan
from stepbench.costs import CostEstimate, Usage, actual_cost, estimate


def trial(store: str, events: int = 1_000_000, rate_per_s: float = 1_000, **fields: Any) -> TrialPlan:  # noqa: ANN401 -- JSON
    """A trial of one phase."""
    load = [{"rate_per_s": rate_per_s, "count": events}]
    target = {"store": store, **fields.pop("target", {})}
    return TrialPlan.model_validate({"target": target, "phases": [{"name": "a", "load": load}], **fields})


def usd(cost: CostEstimate, item: str) -> float:
    """The line of that name, 0 if there is none."""
    return sum(line.usd for line in cost.lines if line.item == item)


def test_the_paper_s_elastic_s3_plan_costs_29_dollars_of_puts() -> None:
    """40 min at 2,000/s, then 3 min at 2,000/s and 3 at 4,000/s: 5.88 M PUTs at $5 per million are $29.40."""
    phases = [
        {"name": "w", "measured": False, "load": [{"rate_per_s": 2000, "duration_s": 2400}]},
        {"name": "s", "load": [{"rate_per_s": 2000, "duration_s": 180}, {"rate_per_s": 4000, "duration_s": 180}]},
    ]
    plan = TrialPlan.model_validate({"target": {"store": "s3"}, "phases": phases, "writers": 10})
    assert plan.events == 5_880_000
    cost = estimate(plan)
    assert usd(cost, "S3 PUT requests") == pytest.approx(29.40, abs=0.01)
    assert cost.biggest is not None
    assert cost.biggest.item == "S3 PUT requests"


@pytest.mark.parametrize(("value_bytes", "units"), [(889, 1), (945, 1), (946, 2), (4_000, 4), (10_000, 10)])
def test_dynamodb_bills_writes_by_the_kilobyte(value_bytes: int, units: int) -> None:
    """59 bytes of key, 20 of attribute names and the value, rounded up to whole kilobytes."""
    cost = estimate(trial("dynamodb", record={"value_bytes": value_bytes}))
    assert usd(cost, "DynamoDB on-demand writes") == pytest.approx(0.625 * units, rel=1e-3)


def test_provisioned_capacity_is_billed_by_the_hour_not_by_the_write() -> None:
    """1,000 s of load, 120 s of draining, 300 s around: 1,420 s of 3,600 units at $0.00065 an hour each."""
    cost = estimate(trial("dynamodb", target={"capacity": {"mode": "provisioned", "write_units": 3_600}}))
    assert usd(cost, "DynamoDB on-demand writes") == 0
    assert usd(cost, "DynamoDB provisioned write capacity") == pytest.approx(1_420 * 0.00065)


def test_writes_of_the_clock_check_are_invocations_too() -> None:
    """200 writes and 30 canaries through CheckClock, beside 230 deliveries, 1 writer and 40 control invocations."""
    apart, one = (estimate(trial("dynamodb", 200, 1, target={"same_sandbox": same})) for same in (False, True))
    extra = usd(one, "Lambda requests") / usd(apart, "Lambda requests")
    assert extra == pytest.approx((230 + 230 + 1 + 40) / (230 + 1 + 40))


def test_a_scaling_phase_is_billed_at_its_capacity() -> None:
    """The highest capacity that is ever asked for stands until the end."""
    load = [{"rate_per_s": 1, "duration_s": 3_180}]
    phases = [{"name": "a", "load": load, "scale": {"capacity": {"mode": "provisioned", "write_units": 100}}}]
    target = {"store": "dynamodb", "capacity": {"mode": "provisioned", "write_units": 10}}
    cost = estimate(TrialPlan.model_validate({"target": target, "phases": phases}))
    assert usd(cost, "DynamoDB provisioned write capacity") == pytest.approx(0.065)


def test_aurora_is_billed_by_io_and_etcd_not_by_request() -> None:
    """A million writes are $0.20 of I/O; etcd's nodes run on EC2, by the hour, whether we write or not."""
    assert usd(estimate(trial("postgresql")), "Aurora I/O requests") == pytest.approx(0.20, rel=1e-3)
    assert not any("etcd" in line.item or "S3 PUT" in line.item for line in estimate(trial("etcd")).lines)


def test_updates_pay_for_the_keys_that_they_overwrite() -> None:
    """Preloading a million keys costs as much as a million puts."""
    put = usd(estimate(trial("s3")), "S3 PUT requests")
    update = usd(estimate(trial("s3", record={"operation": "update", "distinct_keys": 1_000_000})), "S3 PUT requests")
    assert update - put == pytest.approx(5.0)


def test_keys_that_were_written_before_are_paid_for_though_the_phase_ended_early() -> None:
    """Each event's key stood there before the load, which `until` then cut short: 100,000 puts at $5 per million."""
    deletes = trial("s3", events=50, record={"operation": "delete"})
    written, fewer = (actual_cost(deletes, Usage(sent=50, preloaded=count)) for count in (100_050, 50))
    assert written - fewer == pytest.approx(0.5)


def test_a_pull_trigger_is_not_billed_an_invocation_per_event() -> None:
    """Two watchers take turns for as long as the trial lasts."""
    assert usd(estimate(trial("etcd")), "Lambda requests") < usd(estimate(trial("s3")), "Lambda requests") / 1_000


@pytest.mark.parametrize("store", ["s3", "dynamodb", "postgresql"])
def test_what_a_filter_holds_back_is_written_and_invokes_nothing(store: str) -> None:
    """Of a million events a tenth: the same million writes, and 100,030 invocations and the writers' for 1,000,030."""
    whole, tenth = estimate(trial(store)), estimate(trial(store, record={"matching_share": 0.1}))
    writes = {"s3": "S3 PUT requests", "dynamodb": "DynamoDB on-demand writes", "postgresql": "Aurora I/O requests"}
    assert usd(tenth, writes[store]) == usd(whole, writes[store])
    assert usd(whole, "Lambda requests") - usd(tenth, "Lambda requests") == pytest.approx(900_000 * 0.20e-6)


def test_counts_that_were_measured_replace_assumptions() -> None:
    """100 events per batch: 10,000 invocations, and t4 items of 4 KB each instead of a million of 1 KB."""
    plan = trial("dynamodb")
    usage = Usage(sent=1_000_000, batches=10_000, invocations=10_050, billed_ms=2_000_000, memory_mb=512)
    cost = actual_cost(plan, usage)
    lines = {
        "writes": 1_000_030 * 0.625e-6,
        "requests": 10_050 * 0.20e-6,
        "duration": 2_000 * 0.5 * 0.0000166667,
        "t4": 10_000 * 4 * 0.625e-6,
    }
    assert cost == pytest.approx(sum(lines.values()), abs=0.01)
    assert cost < estimate(plan).total_usd


def test_nothing_measured_but_sends_costs_what_was_estimated() -> None:
    """Logs may be missing: then the assumption stands, and the figure is still comparable."""
    plan = trial("s3", events=1_000)
    assert actual_cost(plan, Usage(sent=1_000)) == pytest.approx(estimate(plan).total_usd)
    assert actual_cost(plan, Usage(sent=0)) < actual_cost(plan, Usage(sent=1_000))


def test_more_events_never_cost_less() -> None:
    """Also through every rounding."""
    for store in ("s3", "dynamodb", "postgresql", "etcd"):
        totals = [estimate(trial(store, events=n)).total_usd for n in (1, 10, 999, 1_000, 1_001, 50_000)]
        assert totals == sorted(totals)
        assert totals[0] > 0


def test_an_empty_bill_has_no_biggest_line() -> None:
    """And costs nothing."""
    empty = CostEstimate(lines=())
    assert (empty.biggest, empty.total_usd) == (None, 0)


@pytest.mark.parametrize(("log_t4", "more_usd"), [("none", 0), ("sample", 0.062 / 20), ("all", 0.062)])
def test_the_second_source_is_billed_by_the_byte(log_t4: str, more_usd: float) -> None:
    """Half a million lines of 200 bytes with an entry of 36 bytes in base64, 48: 0.124 GB at $0.50."""
    phases = [{"name": "load", "load": [{"rate_per_s": 1_000, "count": 500_000}]}]
    without = usd(estimate(trial("s3", phases=phases)), "CloudWatch Logs ingestion")
    cost = usd(estimate(trial("s3", phases=phases, log_t4=log_t4)), "CloudWatch Logs ingestion")
    assert cost - without == pytest.approx(more_usd, rel=1e-3)
