"""What a trial writes to etcd: estimated after measurements of a real one, and refused above its quota."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.refusals import Refused, check_trial, plan_of

from stepbench.contracts.rules import GIB, bytes_written, revision_bytes
from stepbench.planning import parse_plan


def etcd_trial(rate_per_s: float, duration_s: float, target: dict[str, Any] | None = None, **fields: Any) -> Any:  # noqa: ANN401 -- JSON
    """Return a trial of one phase in open loop."""
    load = {"rate_per_s": rate_per_s, "duration_s": duration_s}
    return {"target": {"store": "etcd", **(target or {})}, "phases": [{"name": "a", "load": [load]}], **fields}


def operations(mix: dict[str, float], duration_s: float, records: int = 1_000) -> Any:  # noqa: ANN401 -- JSON
    """Return a trial of operations in a closed loop, which nobody knows the rate of beforehand."""
    phase = {"name": "a", "closed": {"clients": 100, "duration_s": duration_s}}
    workload = {"records": records, "mix": mix}
    return {"experiment": "operations", "target": {"store": "etcd"}, "workload": workload, "phases": [phase]}


def written(trial: Any) -> float:  # noqa: ANN401 -- JSON
    """Return the estimate, in bytes."""
    return bytes_written(parse_plan(plan_of(trial)).offered_trials[0])


@pytest.mark.parametrize(
    ("key_bytes", "value_bytes", "measured"),
    [
        (59, 64, 197),
        (37, 312, 460),
        (59, 889, 1_379),
        (1_000, 64, 1_380),
        (59, 1_900, 2_067),
        (59, 4_000, 6_164),
        (59, 10_000, 10_265),
        (59, 350_000, 357_253),
    ],
)
def test_a_revision_takes_what_was_measured(key_bytes: int, value_bytes: int, measured: int) -> None:
    """Growth of etcd 3.5.1's file a put, of 300 to 60,000 puts by 32 clients; the estimate is an upper bound."""
    assert 0.999 * measured < revision_bytes(key_bytes + value_bytes) < 1.07 * measured


def test_new_keys_all_stay() -> None:
    """2,880,000 puts of the median record, three to a page of 4 KiB: 2.5 GiB of keys and values are 3.7 on disk."""
    assert written(etcd_trial(2_000, 1_440)) == pytest.approx(2_880_000 * 4_096 / 3, rel=0.03)


def test_what_is_overwritten_stays_for_eleven_minutes() -> None:
    """A key that is written a thousand times a second for hours takes no more than the history until a compaction."""
    update = {"operation": "update", "distinct_keys": 1_000}
    short, long, longer = (written(etcd_trial(1_000, each, record=update)) for each in (600, 1_200, 3_600))
    assert short < long == longer == pytest.approx((660_000 + 1_000) * revision_bytes(948))


def test_a_server_of_ones_own_compacts_nothing() -> None:
    """That is etcd's default, and nobody has told us otherwise."""
    update = {"operation": "update", "distinct_keys": 1_000}
    own = etcd_trial(1_000, 3_600, {"endpoint": "10.0.0.1:2379", "quota_gib": 8}, record=update)
    assert written(own) == pytest.approx(3_601_000 * revision_bytes(948))


def test_clients_of_a_loop_write_no_faster_than_etcd() -> None:
    """30 µs an operation, the bound of costs, would be 3.3 million writes a second, and would refuse every loop."""
    assert written(operations({"insert": 1}, 10, records=0)) == pytest.approx(10 * 20_000 * revision_bytes(948))
    large = operations({"overwrite": 1}, 10)
    large["workload"]["record"] = {"shape": "blob", "value_bytes": 100_000 - 59}
    assert written(large) == pytest.approx((10 * 1_000 + 1_000) * revision_bytes(100_000))
    reads = operations({"read": 1}, 100)
    assert written(reads) == pytest.approx(1_000 * revision_bytes(948))


@pytest.mark.parametrize(
    "refused",
    [
        Refused(etcd_trial(8_000, 900), "phases", "rate_per_s", 'Of "update" as record.operation', "quota of 8 GiB"),
        Refused(
            etcd_trial(2_000, 1_440, {"endpoint": "10.0.0.1:2379"}),
            "phases",
            "rate_per_s",
            "say so in target.quota_gib",
            "write some 3.7 GiB to etcd, more than its quota of 2 GiB",
        ),
        Refused(etcd_trial(100, 60, {"quota_gib": 0.001}), "phases", "100", "Lower rates", "0.001 GiB"),
        Refused(operations({"insert": 1}, 600, records=0), "phases", "clients", "split the trial", "8 GiB"),
    ],
)
def test_a_trial_above_the_quota_is_refused(refused: Refused) -> None:
    """Etcd would take a part of it, then refuse every write until somebody clears its alarm."""
    check_trial(refused)


def test_a_larger_server_is_believed() -> None:
    """Only its owner knows the quota: etcd 3.5 tells it to nobody."""
    target = {"endpoint": "10.0.0.1:2379", "quota_gib": 8}
    assert written(etcd_trial(2_000, 1_440, target)) < 8 * GIB
