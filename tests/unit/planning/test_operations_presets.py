from __future__ import annotations

import pytest

from stepbench.analysis.groups import MIN_RUNS
from stepbench.contracts.plan import TrialPlan
from stepbench.planning import find_plan, parse_plan

# Bianchi (2020), the "Throughput Comparison" tables: operations in a minute by 1, 10 and 100 clients. The driver speaks
# HTTPS with DynamoDB on AWS, so its column is "DynamoDB TLS".
A_MINUTE = {
    "redis-read": (89_013, 874_517, 2_040_388),
    "redis-insert": (83_921, 371_163, 370_851),
    "redis-overwrite": (83_634, 662_241, 849_334),
    "redis-update": (90_269, 794_710, 1_336_898),
    "redis-tls-read": (90_159, 864_270, 1_919_849),
    "redis-tls-insert": (80_460, 360_779, 370_100),
    "redis-tls-overwrite": (83_292, 660_878, 835_029),
    "redis-tls-update": (87_742, 790_974, 1_298_606),
    "dynamodb-read": (25_574, 173_521, 243_913),
    "dynamodb-insert": (14_862, 129_753, 135_363),
    "dynamodb-overwrite": (15_649, 145_962, 133_787),
    "dynamodb-update": (17_014, 139_004, 136_594),
}


def trials(preset: str) -> dict[str, TrialPlan]:
    """By their names."""
    return {trial.name or "": trial for trial in parse_plan(find_plan(preset)).trials}


@pytest.mark.parametrize("what", A_MINUTE)
@pytest.mark.parametrize(("place", "clients"), [(0, 1), (1, 10), (2, 100)])
def test_products_stand_beside_the_throughput_of_the_same_transport(what: str, place: int, clients: int) -> None:
    """A store with TLS beside numbers without would be twice as slow for no fault of its own (read by 100)."""
    trial = trials("paper-products")[f"{what}-{clients}"]
    (published,) = trial.published
    tls = "without TLS" if what.startswith("redis-") and "tls" not in what else "with TLS"
    assert (published.metric, published.per_minute) == ("throughput", A_MINUTE[what][place])
    assert published.source.endswith(tls)
    assert trial.phases[1].closed is not None
    assert (trial.phases[1].closed.clients, trial.phases[1].closed.duration_s) == (clients, 60)


def test_products_are_inserted_into_an_empty_store() -> None:
    """As the article says ("an initially empty database"); the others need what they work on."""
    for name, trial in trials("paper-products").items():
        assert trial.workload is not None
        assert trial.workload.records == (0 if "-insert-" in name else 100_000)


def test_latencies_without_tls_say_so_beside_a_store_that_has_it() -> None:
    """Of latency mode, the article prints only inserts with TLS: in its text, p99 and p99.9."""
    pauses = {name: trial.published for name, trial in trials("paper-products").items() if name.endswith("-pauses")}
    assert len(pauses) == 12
    assert all(each.source.endswith("without TLS, which ours on AWS has") for each in pauses["dynamodb-read-pauses"])
    told = {
        name.removesuffix("-pauses"): [(each.metric, each.value_ms) for each in published if "with TLS" in each.source]
        for name, published in pauses.items()
    }
    assert {name: numbers for name, numbers in told.items() if numbers} == {
        "dynamodb-insert": [("p99", 5.4), ("p999", 21)],
        "redis-tls-insert": [("p99", 2.9), ("p999", 8.3)],
    }


def test_dsql_throughput_stands_beside_the_published_but_for_the_map_s_limit() -> None:
    """Rows a second by 1 to 50 functions; that 100 did no more was the inline Map's doing."""
    numbers = {trial.writers: trial.published for trial in trials("paper-dsql-throughput").values()}
    per_s = {writers: each.per_minute / 60 for writers, found in numbers.items() for each in found if each.per_minute}
    assert per_s == {1: 103, 10: 1_002, 20: 2_048, 30: 3_065, 40: 3_905, 50: 4_996}
    assert set(numbers) == {*per_s, 100, 200}


def test_dsql_regions_are_compared_over_enough_runs() -> None:
    """Below that, no ratio has an interval."""
    plan = parse_plan(find_plan("paper-dsql-multiregion"))
    assert {trial.repeats for trial in plan.trials} == {MIN_RUNS}
    assert plan.order == "interleaved"


def test_dsql_numbers_say_what_they_contain() -> None:
    """Those without reuse hold more than ours from t1; those of one client are nobody's median."""
    for name, trial in trials("paper-dsql-reuse").items():
        for published in trial.published:
            assert ("which ours leaves out" in published.source) == ("-reconnect-" in name)
            assert ("not said to be a median" in published.source) == name.endswith("-1")
