"""Presets: found by name, and offering what was published."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.analysis.application import TrialMedian, share
from stepbench.contracts.measures import Estimate
from stepbench.contracts.plan import TrialPlan, offered_plan
from stepbench.contracts.target import DynamoDbTarget, RedisTarget
from stepbench.errors import PlanError, Problem
from stepbench.planning import check_budget, find_plan, list_plans, parse_plan
from stepbench.planning.expansion import expand
from stepbench.stats.over_runs import MIN_RUNS

STORES = ("s3", "dynamodb", "postgresql", "etcd")


@pytest.mark.parametrize("name", list_plans())
def test_every_preset_is_a_plan_under_its_budget_and_named_as_its_file(name: str) -> None:
    """A preset that is refused is the worst first impression."""
    plan = parse_plan(find_plan(name))
    assert plan.name == name
    assert plan.description
    assert 0 < check_budget(plan) <= plan.budget_usd


@pytest.mark.parametrize(("kind", "rate_per_s"), [("quick", 20), ("paper", 1)])
def test_unloaded_presets_offer_what_the_paper_did(kind: str, rate_per_s: float) -> None:
    """200 events to warm up and 200 measured, one writer; for all four stores, and for each alone."""
    plans = [parse_plan(find_plan(name)) for name in (f"{kind}-unloaded", *(f"{kind}-unloaded-{s}" for s in STORES))]
    assert [[trial.target.store for trial in plan.trials] for plan in plans] == [list(STORES), *([s] for s in STORES)]
    for trial in (trial for plan in plans for trial in plan.offered_trials):
        assert [(phase.name, phase.measured) for phase in trial.phases] == [("warm-up", False), ("unloaded", True)]
        assert [(step.rate_per_s, step.count) for phase in trial.phases for step in phase.load] == [
            (rate_per_s, 200)
        ] * 2
        assert (trial.writers, trial.record.key_bytes, trial.record.value_bytes) == (1, 59, 889)


@pytest.mark.parametrize("store", STORES)
def test_elastic_presets_of_the_paper_step_as_the_paper_did(store: str) -> None:
    """Section VI-C: 15 min (S3: 40) at 2,000/s, then 3 min at 2,000 and 3 min at 4,000; minutes 3 and 4 count."""
    (trial,) = parse_plan(find_plan(f"paper-elastic-{store}")).offered_trials
    warm_up, step = trial.phases
    assert trial.target.store == store
    assert [(load.rate_per_s, load.duration_s) for load in warm_up.load] == [(2_000, 2_400 if store == "s3" else 900)]
    assert [(load.rate_per_s, load.duration_s) for load in step.load] == [(2_000, 180), (4_000, 180)]
    assert [(window.from_s, window.to_s) for window in step.windows] == [(120, 180), (180, 240)]
    assert (warm_up.measured, step.measured, step.gapless, trial.writers) == (False, True, True, 10)


@pytest.mark.parametrize("store", STORES)
def test_quick_elastic_presets_double_the_load_inside_one_phase(store: str) -> None:
    """Windows of 20 s on either side of the step, which blocks of a second fill twenty times."""
    (trial,) = parse_plan(find_plan(f"quick-elastic-{store}")).offered_trials
    first, second = trial.phases[1].load
    assert trial.target.store == store
    assert trial.phases[1].gapless
    assert second.rate_per_s == 2 * first.rate_per_s
    before, after = trial.phases[1].windows
    assert before.to_s == after.from_s == first.duration_s
    assert before.to_s - before.from_s == after.to_s - after.from_s == 20


def of_trials(preset: str) -> dict[str, list[tuple[object, ...]]]:
    """Return what a preset sets beside its trials: the number with its limit or upper end, and what it is over."""
    return {
        trial.target.store: [
            (each.metric, each.number, each.bound or each.to, each.over_trial or each.over or each.over_metric)
            for each in trial.published
        ]
        for trial in parse_plan(find_plan(preset)).offered_trials
    }


@pytest.mark.parametrize("preset", ["paper-unloaded", "paper-share"])
def test_unloaded_presets_carry_the_numbers_that_were_published(preset: str) -> None:
    """TriggerPerf, sections III-C, VI-A and IX."""
    times_etcd = ("p50", 10, 100, "etcd")
    assert of_trials(preset) == {
        "s3": [("p50", 1_157, None, None), ("p90", 1_700, "above", None), ("write_p50", 32, None, None), times_etcd],
        "dynamodb": [("p50", 170, None, None), times_etcd],
        "postgresql": [("p50", 103, None, None), times_etcd, ("p50", 0.08, None, "s3")],
        "etcd": [("p50", 2.6, None, None)],
    }


def test_elastic_presets_carry_the_numbers_that_were_published() -> None:
    """Section VI-C, and observations O-2 and O-4; of etcd it has none."""
    assert of_trials("paper-elastic") == {
        "s3": [("p50", 1_157, None, None), ("p50", 1_335, None, None), ("p50", 1.3, 1.4, "before")],
        "dynamodb": [("p50", 1, None, "before"), ("iqr", 1, None, "before")],
        "postgresql": [
            ("iqr", 2, "up_to", "before"),
            ("p50", 1, None, "before"),
            ("p90", 9, "up_to", "p50"),
            ("p90", 9, "up_to", "before"),
        ],
        "etcd": [],
    }


@pytest.mark.parametrize(
    "kind", [f"{speed}-{kind}" for speed in ("quick", "paper") for kind in ("unloaded", "load", "elastic")]
)
def test_the_plan_of_one_store_is_its_trial_in_the_plan_of_all(kind: str) -> None:
    """Whoever has one store measures it as whoever has four, but for what is set over another store."""
    for trial in parse_plan(find_plan(kind)).offered_trials:
        (alone,) = parse_plan(find_plan(f"{kind}-{trial.target.store}")).offered_trials
        own = tuple(each for each in trial.published if each.over_trial is None)
        assert alone == trial.model_copy(update={"published": own})


@pytest.mark.parametrize("name", list_plans())
def test_what_a_preset_sets_over_another_trial_names_one_of_its_own(name: str) -> None:
    """A name with a slip of the pen would be scored as not measured, in every run."""
    plan = parse_plan(find_plan(name))
    known = {spec.group or spec.name for spec in expand(plan, "run")}
    over = {
        each.over_trial
        for trial in plan.trials
        if trial.experiment != "transfer"
        for each in offered_plan(trial).published
    }
    assert over - {None} <= known


@pytest.mark.parametrize(
    ("number", "field", "message"),
    [
        ('"metric": "p50"', "value_ms", "is missing, and so is ratio"),
        ('"metric": "p50", "value_ms": 1, "ratio": 2', "value_ms", "stands beside ratio (2)"),
        ('"metric": "p50", "value_ms": 1, "over": "w"', "over", "belongs to a ratio, and there is none"),
        ('"metric": "iqr", "value_ms": 1', "metric", "is iqr, which is scored in ratios only"),
        ('"metric": "p50", "ratio": 2, "over": "w"', "ratio", "is of a number over itself"),
        ('"metric": "p50", "ratio": 2, "over": "v"', "over", "names no measured window"),
        ('"metric": "p50", "value_ms": 2, "over_trial": "s3"', "over_trial", "belongs to a ratio, and there is none"),
        (
            '"metric": "iqr", "ratio": 2, "over_trial": "s3"',
            "metric",
            "is iqr, of which a trial's summary has no interval to set against another trial's",
        ),
        ('"metric": "p50", "value_ms": 2, "to": 2', "to", "is not above the number itself (2)"),
        (
            '"metric": "p50", "value_ms": 2, "to": 3, "bound": "above"',
            "bound",
            "stands beside to, and a range is no limit",
        ),
        ('"metric": "p50", "value_ms": 2, "trial": "s3"', "trial", "does not go with p50"),
    ],
)
def test_a_published_number_is_a_time_or_a_ratio(number: str, field: str, message: str) -> None:
    """A ratio needs two things that are both measured."""
    plan = f"""{{"name": "one", "trials": [{{"target": {{"store": "etcd"}}, "phases": [
        {{"name": "w", "load": [{{"rate_per_s": 1, "count": 9}}]}}],
        "published": [{{{number}, "source": "x", "window": "w"}}]}}]}}"""
    with pytest.raises(PlanError) as refused:
        parse_plan(plan.encode())
    (problem,) = refused.value.problems
    assert (problem.path, problem.message) == (f"trials[0].published[0].{field}", message)


SEARCHED = ("dynamodb", "postgresql", "etcd")


@pytest.mark.parametrize("store", STORES)
def test_load_presets_of_the_paper_hold_it_for_five_minutes(store: str) -> None:
    """Section VI-B: 5 min, of which the third counts; unloaded before, so that the two stand beside each other."""
    (trial,) = parse_plan(find_plan(f"paper-load-{store}")).offered_trials
    warm_up, unloaded, load = trial.phases
    assert trial.target.store == store
    assert [(step.rate_per_s, step.count) for phase in (warm_up, unloaded) for step in phase.load] == [(1, 200)] * 2
    assert (warm_up.measured, unloaded.measured, load.measured, trial.writers) == (False, True, True, 10)
    assert [step.duration_s for step in load.load] == [300]
    assert [(window.name, window.from_s, window.to_s) for window in load.windows] == [("minute-3", 120, 180)]


@pytest.mark.parametrize("store", SEARCHED)
def test_load_presets_of_the_paper_look_for_80_per_cent(store: str) -> None:
    """The share is of CPU, or of write units; each probe holds two whole minutes of CloudWatch's."""
    (trial,) = parse_plan(find_plan(f"paper-load-{store}")).offered_trials
    assert trial.find_rate is not None
    assert (trial.find_rate.utilisation, trial.find_rate.probe_s) == (0.8, 180)
    assert [step.of_found for step in trial.phases[2].load] == [1]
    assert trial.phases[2].load[0].rate_per_s >= trial.find_rate.high_per_s


@pytest.mark.parametrize("store", ["quick-load-s3", "paper-load-s3"])
def test_s3_is_given_its_rate(store: str) -> None:
    """It tells no utilisation."""
    (trial,) = parse_plan(find_plan(store)).offered_trials
    assert trial.find_rate is None
    assert trial.phases[2].load[0].of_found is None


@pytest.mark.parametrize("store", STORES)
def test_quick_load_presets_take_minutes(store: str) -> None:
    """Probes take 8 s and orchestration as much; windows take 20 s, which blocks of a second fill twenty times."""
    (trial,) = parse_plan(find_plan(f"quick-load-{store}")).offered_trials
    assert trial.length_s <= 120
    (window,) = trial.phases[2].windows
    assert window.to_s - window.from_s == 20
    assert window.from_s > 10
    assert window.to_s < trial.phases[2].length_s


def test_load_presets_carry_the_ratios_that_were_published() -> None:
    """Sections VI-B, VII and IX, O-1 and the abstract, which contradict one another; none of them gives times."""
    ten_over_median = ("p90", 10, "up_to", "p50")
    assert of_trials("paper-load") == {
        "s3": [
            ten_over_median,
            ("p90", 10, None, "unloaded"),
            ("p50", 10, None, "unloaded"),
            ("p90", 100, None, "unloaded"),
        ],
        "dynamodb": [("p90", 1.1, None, "unloaded")],
        "postgresql": [
            ("p90", 3.5, 4, "unloaded"),
            ("p90", 10, None, "unloaded"),
            ten_over_median,
            ("p50", 0.06, None, "s3"),
        ],
        "etcd": [ten_over_median],
    }


S3_MEDIAN_MS = 1_157
"""TriggerPerf, Fig. 5."""


@pytest.mark.parametrize("preset", ["quick-share", "paper-share"])
def test_durations_are_those_that_the_published_shares_imply(preset: str) -> None:
    """2 % to 62 % is all that the paper tells; the third application is made up, and says so."""
    plan = parse_plan(find_plan(preset))
    assert [trial.target.store for trial in plan.trials] == ["s3", "dynamodb", "postgresql", "etcd"]
    s3 = {"measured": TrialMedian("s3", Estimate(value=S3_MEDIAN_MS, low=S3_MEDIAN_MS, high=S3_MEDIAN_MS))}
    *implied, example = plan.applications
    found = {each.name: share(each, s3, "s3").share.value for each in implied}
    assert found == {"Fig. 2, 62 %": pytest.approx(0.62, abs=1e-4), "Fig. 2, 2 %": pytest.approx(0.02, abs=1e-5)}
    assert all(each.source.startswith("Implied, not measured") for each in implied)
    assert example.source.startswith("Made up")


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
    "dynamodb-read": (26_062, 222_973, 561_681),
    "dynamodb-insert": (16_901, 157_384, 239_121),
    "dynamodb-overwrite": (18_135, 153_189, 239_800),
    "dynamodb-update": (15_628, 154_298, 239_579),
    "dynamodb-tls-read": (25_574, 173_521, 243_913),
    "dynamodb-tls-insert": (14_862, 129_753, 135_363),
    "dynamodb-tls-overwrite": (15_649, 145_962, 133_787),
    "dynamodb-tls-update": (17_014, 139_004, 136_594),
}


def trials(preset: str) -> dict[str, TrialPlan]:
    """Return the preset's trials by their names."""
    return {trial.name or "": trial for trial in parse_plan(find_plan(preset)).offered_trials}


@pytest.mark.parametrize("what", A_MINUTE)
@pytest.mark.parametrize(("place", "clients"), [(0, 1), (1, 10), (2, 100)])
def test_products_stand_beside_the_throughput_of_the_same_transport(what: str, place: int, clients: int) -> None:
    """A store with TLS beside numbers without would be twice as slow for no fault of its own (read by 100)."""
    trial = trials("paper-products")[f"{what}-{clients}"]
    (published,) = (each for each in trial.published if each.metric == "throughput")
    assert isinstance(trial.target, DynamoDbTarget | RedisTarget)
    assert trial.target.tls is ("-tls-" in what)
    tls = "with TLS" if trial.target.tls else "without TLS"
    assert published.per_minute == A_MINUTE[what][place]
    assert published.source.endswith(tls)
    assert trial.phases[1].closed is not None
    assert (trial.phases[1].closed.clients, trial.phases[1].closed.duration_s) == (clients, 60)


def test_products_are_inserted_into_an_empty_store() -> None:
    """The article says "an initially empty database"; the others need what they work on."""
    for name, trial in trials("paper-products").items():
        assert trial.workload is not None
        assert trial.workload.records == (0 if "-insert-" in name else 100_000)


def test_products_without_tls_stand_beside_the_published_histograms() -> None:
    """Sixteen for each store; the largest value's count is all that were counted, in throughput mode of a minute."""
    tables = {
        name: {each.metric: (each.value_ms, each.count) for each in trial.published if each.count}
        for name, trial in trials("paper-products").items()
    }
    assert {name for name, table in tables.items() if table} == {name for name in tables if "-tls-" not in name}
    for name, table in tables.items():
        if table:
            assert list(table) == ["p50", "p75", "p875", "p9375", "p9921875", "p9990234375", "max"]
            assert list(table.values()) == sorted(table.values())
            side, _, clients = name.rpartition("-")
            if clients != "pauses":
                assert table["max"][1] == A_MINUTE[side][("1", "10", "100").index(clients)]
    assert tables["dynamodb-read-1"]["p9921875"] == (3.969023, 25_859)
    assert tables["redis-update-pauses"]["max"] == (12.918783, 4_784)


def test_numbers_with_tls_are_those_of_the_text() -> None:
    """The article prints no histogram with TLS."""
    told = {
        name: [(each.metric, each.value_ms) for each in trial.published if each.value_ms]
        for name, trial in trials("paper-products").items()
        if "-tls-" in name
    }
    assert {name: numbers for name, numbers in told.items() if numbers} == {
        "dynamodb-tls-read-100": [("p999", 419), ("max", 978)],
        "dynamodb-tls-update-10": [("max", 245)],
        "dynamodb-tls-insert-pauses": [("p99", 5.4), ("p999", 21), ("max", 37)],
        "redis-tls-read-100": [("max", 35)],
        "redis-tls-insert-pauses": [("p99", 2.9), ("p999", 8.3), ("max", 15.8)],
    }


def scores(preset: str, metric: str) -> dict[str, float]:
    """Return the published numbers of a metric by trial."""
    found = ((name, each) for name, trial in trials(preset).items() for each in trial.published)
    return {name: each.number for name, each in found if each.metric == metric}


def test_dsql_throughput_stands_beside_the_published() -> None:
    """1,000 rows by each of 1 to 100 functions: together, alone, and the wall time; ours goes on to 200."""
    by = "paper-dsql-throughput"
    functions = [f"insert-{each}" for each in (1, 10, 20, 30, 40, 50, 100)]
    inline = {f"insert-{each}-inline" for each in (40, 50, 100)}
    expected = {
        "throughput": (103, 1_002, 2_048, 3_065, 3_905, 4_996, 5_000),
        "wall": (9.7, 10.0, 9.8, 9.8, 10.2, 10.0, 20.0),
        "function_throughput": (105, 111, 113, 117, 116, 116, 117),
    }
    for metric, numbers in expected.items():
        found = scores(by, metric)
        assert {name: found[name] for name in functions} == dict(zip(functions, numbers, strict=True))
        assert set(found) == {*functions, *inline}
    for name, trial in trials(by).items():
        load = trial.phases[-1].invoked
        assert load is not None
        assert (load.operations, load.map == "inline", trial.max_concurrency) == (1_000, name in inline, trial.writers)
    assert set(trials(by)) == {*functions, *inline, "insert-200"}


@pytest.mark.parametrize("preset", ["paper-dsql-reuse", "paper-dsql-multiregion"])
def test_dsql_is_asked_by_as_many_functions_as_were_published(preset: str) -> None:
    """50, 100 and 200 invocations of one operation each, begun as fast as the Map may: nothing is held ready."""
    found = {name: trial for name, trial in trials(preset).items() if not name.endswith("-1")}
    for name, trial in found.items():
        functions = int(name.rpartition("-")[2])
        assert (trial.writers, trial.max_concurrency) == (functions, functions)
        assert [phase.invoked and phase.invoked.operations for phase in trial.phases] == [1, 1]
        assert trial.workload is not None
        assert trial.workload.record.shape == "row"
    assert {trial.writers for trial in found.values()} == {50, 100, 200}


RPS = {
    "local-insert-reconnect": (28.3, 44.7, 48.7),
    "local-select-reconnect": (53.8, 48.8, 53.4),
    "remote-insert-reconnect": (21.9, 24.3, 27.3),
    "remote-select-reconnect": (24.4, 27.8, 28.3),
    "local-insert-reuse": (48.4, 58.1, 63.3),
    "local-select-reuse": (64.0, 63.9, 66.4),
    "remote-insert-reuse": (36.4, 62.3, 60.0),
    "remote-select-reuse": (62.3, 74.5, 69.6),
}


def test_the_published_requests_a_second_of_dsql_stand_beside_ours() -> None:
    """All 24 cells, by wall time."""
    places = (
        (f"{cell}-{at}", per_s) for cell, row in RPS.items() for at, per_s in zip((50, 100, 200), row, strict=True)
    )
    assert scores("paper-dsql-reuse", "throughput") == dict(places)


def test_the_clock_check_stands_beside_the_published_distance() -> None:
    """TriggerPerf, Fig. 4."""
    told = {name: [(each.metric, each.d) for each in trial.published] for name, trial in trials("paper-clock").items()}
    assert told == {"one-sandbox": [("ks", 0.14)], "two-sandboxes": []}


def test_dsql_regions_are_compared_over_enough_runs() -> None:
    """Below that, no ratio has an interval."""
    plan = parse_plan(find_plan("paper-dsql-multiregion"))
    assert {trial.repeats for trial in plan.trials} == {MIN_RUNS}
    assert plan.order == "interleaved"


def test_the_published_ratios_of_two_regions_to_one_stand_beside_ours() -> None:
    """Section 6, beside the times that they are made of."""
    published = {"insert": ((65, 10, 6.5), (64, 10, 6.4), (64, 9, 7.1)), "select": ((4, 4, 1.0),) * 3}
    for kind, rows in published.items():
        for at, (multi_ms, single_ms, ratio) in zip((50, 100, 200), rows, strict=True):
            names = (f"single-{kind}-{at}", f"multi-{kind}-{at}")
            single, multi = (trials("paper-dsql-multiregion")[name].published for name in names)
            assert [each.value_ms for each in single] == [single_ms]
            assert [(each.value_ms, each.ratio, each.over_trial) for each in multi] == [
                (multi_ms, None, None),
                (None, ratio, names[0]),
            ]


def test_the_creation_of_dsql_clusters_stands_beside_the_published_times() -> None:
    """About 8 s; 100 to 115 s with peering, in the published regions."""
    found = trials("paper-dsql-creation")
    assert {
        name: [(each.metric, each.value_ms, each.to) for each in trial.published] for name, trial in found.items()
    } == {
        "single": [("p50", 8_000, None)],
        "pair": [("p50", 100_000, 115_000)],
    }
    assert {trial.repeats for trial in parse_plan(find_plan("paper-dsql-creation")).trials} == {MIN_RUNS}


def test_dsql_numbers_say_what_they_contain() -> None:
    """Numbers without reuse hold more than ours from t1; those of one client are nobody's median."""
    for name, trial in trials("paper-dsql-reuse").items():
        for published in trial.published:
            of_latency = published.value_ms is not None
            assert ("which ours leaves out" in published.source) == ("-reconnect-" in name and of_latency)
            assert ("not said to be a median" in published.source) == name.endswith("-1")


EXAMPLE = """
{"name": "dynamodb-elastic",
 "trials": [{
   "experiment": "trigger",
   "target": {"store": "dynamodb", "batch_size": 100, "batching_window_s": 0, "filter": null},
   "record": {"operation": "put", "key_bytes": 59, "value_bytes": 889, "distinct_keys": null},
   "phases": [
     {"name": "warm-up", "measured": false, "load": [{"rate_per_s": 2000, "duration_s": 900}]},
     {"name": "step", "settle_s": 10,
      "load": [{"rate_per_s": 2000, "duration_s": 180}, {"rate_per_s": 4000, "duration_s": 180}],
      "windows": [{"name": "before", "from_s": 120, "to_s": 180}, {"name": "after", "from_s": 180, "to_s": 240}]}],
   "arrivals": "constant", "writers": 10, "max_concurrency": 10, "drain_limit_s": 120, "repeats": 1, "seed": 7}],
 "order": "interleaved", "budget_usd": 5.0}
"""


def test_the_design_s_own_example_is_a_plan() -> None:
    """It is what every reader tries first."""
    plan = parse_plan(EXAMPLE)
    (trial,) = plan.trials
    assert isinstance(trial.target, DynamoDbTarget)
    assert trial.events == 2000 * 900 + 2000 * 180 + 4000 * 180
    assert trial.phases[0].slices == 2


def test_text_bytes_and_parsed_json_mean_the_same() -> None:
    """The command line has bytes, the state machine has an object, an editor may add a byte order mark."""
    plan = parse_plan(EXAMPLE)
    assert parse_plan(EXAMPLE.encode()) == plan
    assert parse_plan(b"\xef\xbb\xbf" + EXAMPLE.encode()) == plan
    assert parse_plan("\ufeff" + EXAMPLE) == plan
    assert parse_plan(json.loads(EXAMPLE)) == plan


def test_a_plan_has_two_thresholds_unless_it_says_otherwise() -> None:
    """Writes refused or not sent fail a run whose author thought of none; an empty list switches that off."""
    assert parse_plan(EXAMPLE).thresholds == ("errors < 1 %", "unsent < 1 %")
    assert parse_plan({**json.loads(EXAMPLE), "thresholds": []}).thresholds == ()


def test_a_stored_plan_reads_back_as_itself() -> None:
    """`plan.json` of a run is a plan that can be run again."""
    plan = parse_plan(EXAMPLE)
    assert parse_plan(plan.model_dump_json()) == plan


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ("name", "trials", "target", "store", "phases", "load", "rate_per_s", "count", "windows", "x")
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_no_input_breaks_the_parser_itself(document: object) -> None:
    """Whatever is pasted into the console, the answer is a list of problems, never a traceback."""
    problems = _problems(document)
    assert all(problem.path and problem.remedy for problem in problems)
    assert problems or document


def _problems(document: object) -> tuple[Problem, ...]:
    try:
        parse_plan(document)  # type: ignore[arg-type]
    except PlanError as refused:
        return refused.problems
    return ()


@pytest.mark.parametrize("field", ["question", "description"])
@pytest.mark.parametrize(
    ("text", "said"), [("a \x1b[31mred\x1b[0m word", "U+001B"), ("left \u202etfel", "U+202E"), ("bell\x07", "U+0007")]
)
def test_what_controls_a_terminal_is_refused_where_it_enters(field: str, text: str, said: str) -> None:
    """It reached terminal, Markdown and page as it was."""
    with pytest.raises(PlanError) as raised:
        parse_plan({**json.loads(find_plan("quick-unloaded-etcd")), field: text})
    (problem,) = raised.value.problems
    assert (problem.path, said in problem.message) == (field, True)
    assert problem.value.isprintable()


def test_a_text_over_several_lines_is_one() -> None:
    """YAML's folded texts end with a line break."""
    plan = parse_plan({**json.loads(find_plan("quick-unloaded-etcd")), "description": "Two\n  lines.\n"})
    assert plan.description == "Two lines."
