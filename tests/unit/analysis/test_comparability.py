"""Which trials are compared, and which make a curve: of the presets, and where it is easy to be wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.comparisons import estimate, window
from tests.samples.comparisons import trial as summary_of
from tests.samples.operations import planned_results

from stepbench.analysis.comparability import ALWAYS, flatten_setup, shorten_path
from stepbench.analysis.pairs import TRIAL
from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.plan import TrialPlan
from stepbench.experiments.operations.scaling import scaling_curves
from stepbench.planning import group_names, parse_plan
from stepbench.planning.expansion import expand

if TYPE_CHECKING:
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.plan import Plan, TrialSpec
    from stepbench.contracts.result import TrialSummary

PRESETS = Path(__file__).parents[3] / "events/plans"
Pair = tuple[str, str, str]
"""Setting, second group, first group."""


def trials_of(plan: Plan) -> list[TrialSummary]:
    """Make up results of all trials, as RenderReport finds them."""
    return [result.summary for result in planned_results(expand(plan, "run"))]


def pairs(plan: Plan) -> list[Pair]:
    """Return what is compared."""
    return [
        (each.aspect, each.b.group, each.a.group)
        for each in plan_verdicts(trials_of(plan), group_names(plan))
        if each.primary and each.kind is None and each.aspect != TRIAL
    ]


def curves(plan: Plan) -> dict[str, list[int]]:
    """Return the numbers of clients of each curve; two of one name would be one too few."""
    return {
        curve.name: [point.clients for point in curve.points]
        for curve in scaling_curves(trials_of(plan), group_names(plan))
    }


def preset(name: str) -> Plan:
    """Parse a preset as it is shipped."""
    return parse_plan((PRESETS / f"{name}.json").read_text("utf-8"))


def written(*trials: dict[str, Any], order: str = "interleaved") -> Plan:
    """Parse a plan of reads by ten clients, with each trial's changes; `clients` and `think_ms` go into the phase."""
    return parse_plan({"name": "x", "trials": [_trial(**trial) for trial in trials], "order": order})


def _trial(clients: int = 10, think_ms: float = 0, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
    closed = {"clients": clients, "think_ms": think_ms, "duration_s": 8}
    usual = {"target": {"store": "redis"}, "workload": {"mix": {"read": 1}}}
    return {"experiment": "operations", "phases": [{"name": "steady", "closed": closed}], **usual, **changes}


def test_product_records_are_compared_by_store_and_tls() -> None:
    """Seed 5: 12 trials of throughput and 4 with pauses on each of four sides, and 16 curves."""
    plan, kinds = preset("paper-products"), ("read", "insert", "overwrite", "update")
    loads = [f"{kind}-{clients}" for kind in kinds for clients in (1, 10, 100)] + [f"{kind}-pauses" for kind in kinds]
    assert pairs(plan) == [
        *[
            ("target.tls", f"{store}-tls-{load}", f"{store}-{load}")
            for some in (loads[:12], loads[12:])
            for store in ("dynamodb", "redis")
            for load in some
        ],
        *[
            ("target.store", f"redis{tls}-{load}", f"dynamodb{tls}-{load}")
            for some in (loads[:12], loads[12:])
            for tls in ("", "-tls")
            for load in some
        ],
    ]
    names = [f"{side}-{kind}" for side in ("dynamodb", "dynamodb-tls", "redis", "redis-tls") for kind in kinds]
    assert curves(plan) == {name: [1, 10, 100] for name in names}


def test_dsql_is_compared_by_region_and_reuse() -> None:
    """Seed 2: each of 16 loads. Functions with one operation each are no clients that wait: they make no curve."""
    plan = preset("paper-dsql-reuse")
    loads = [f"{kind}-{clients}" for kind in ("insert", "select") for clients in (1, 50, 100, 200)]
    found = pairs(plan)
    assert {pair for pair in found if pair[0] == "target.region"} == {
        ("target.region", f"remote-{kind}-{way}-{clients}", f"local-{kind}-{way}-{clients}")
        for way in ("reconnect", "reuse")
        for kind, clients in (load.split("-") for load in loads)
    }
    assert {pair for pair in found if pair[0] == "workload.reuse"} == {
        ("workload.reuse", f"{place}-{kind}-reuse-{clients}", f"{place}-{kind}-reconnect-{clients}")
        for place in ("local", "remote")
        for kind, clients in (load.split("-") for load in loads)
    }
    assert len(found) == 32
    assert curves(plan) == {}


def test_dsql_of_two_regions_is_compared_with_one() -> None:
    """Repeats are runs of one side, however many there are."""
    plan = preset("paper-dsql-multiregion")
    loads = [f"{kind}-{clients}" for kind in ("insert", "select") for clients in (50, 100, 200)]
    assert pairs(plan) == [("target.cluster", f"multi-{load}", f"single-{load}") for load in loads]
    assert curves(plan) == {}


def test_writers_and_operations_may_grow_with_the_clients() -> None:
    """Seed 2's throughput: as many writers as functions at once, and 1,000 operations of each; an inline Map has 40."""
    plan = preset("paper-dsql-throughput")
    assert list(curves(plan).values()) == [[1, 10, 20, 30, 40, 50, 100, 200]]
    assert pairs(plan) == []


@pytest.mark.parametrize("name", ["quick-products", "ycsb-a"])
def test_four_stores_are_compared_with_the_first(name: str) -> None:
    """One row each; one number of clients makes no curve."""
    plan = preset(name)
    assert pairs(plan) == [("target.store", store, "dynamodb") for store in ("redis", "postgresql", "etcd")]
    assert curves(plan) == {}


def test_stores_are_compared_with_tls_or_without() -> None:
    """One that has no such choice goes without; DSQL, which has TLS always, with it."""
    targets = [{"store": "etcd"}, {"store": "redis"}, {"store": "redis", "tls": True}, {"store": "dsql"}]
    plan = written(*({"name": f"t{place}", "target": target} for place, target in enumerate(targets)))
    assert pairs(plan) == [("target.tls", "t2", "t1"), ("target.store", "t1", "t0"), ("target.store", "t3", "t2")]


def _windows(spec: TrialSpec) -> list[WindowResult]:
    measured = [(phase.name, each.name) for phase in spec.plan.phases if phase.measured for each in phase.all_windows()]
    return [window(estimate(1)).model_copy(update={"phase": phase, "name": name}) for phase, name in measured]


@pytest.mark.parametrize("name", sorted(path.stem for path in PRESETS.glob("*.json")))
def test_no_two_comparisons_of_a_preset_are_called_the_same(name: str) -> None:
    """A reader could not tell them apart: a matrix of two stores once had each size's sentence twice."""
    plan = preset(name)
    trials = [
        summary_of(
            spec.name, *_windows(spec), index=spec.index, group=spec.group, base=spec.base, point=spec.point,
            repeat=spec.repeat, store=spec.plan.target.store, setup=flatten_setup(spec.plan),
            experiment=spec.plan.experiment,
        )
        for spec in expand(plan, "run")
    ]  # fmt: skip
    subjects = Counter(each.subject for each in plan_verdicts(trials, group_names(plan)))
    assert [subject for subject, times in subjects.items() if times > 1] == []


def test_two_trials_of_one_store_are_two_sides() -> None:
    """Each beside the other store, and neither mixed with the other as if it were its repeat."""
    targets = [
        {"store": "etcd"},
        {"store": "redis", "endpoint": "one:6379"},
        {"store": "redis", "endpoint": "two:6379"},
    ]
    plan = written(*({"name": f"t{place}", "target": target} for place, target in enumerate(targets)))
    assert pairs(plan) == [("target.store", "t1", "t0"), ("target.store", "t2", "t0")]
    assert not any(each.over_runs for each in plan_verdicts(trials_of(plan)))


def test_two_settings_changed_are_no_comparison() -> None:
    """Nobody knows which of TLS and reuse made the difference where both changed."""
    both = {"target": {"store": "redis", "tls": True}, "workload": {"mix": {"read": 1}, "reuse": False}}
    assert pairs(written({"name": "plain"}, {"name": "both", **both})) == []


@pytest.mark.parametrize("change", [{"clients": 11}, {"writers": 2}, {"think_ms": 5}])
def test_another_load_is_no_comparison(change: dict[str, Any]) -> None:
    """All else has to be equal."""
    assert pairs(written({"name": "plain"}, {"name": "tls", "target": {"store": "redis", "tls": True}, **change})) == []


def test_each_matrix_is_compared_with_itself() -> None:
    """Two of one workload under two names: each has its own first value."""
    reuse = {"matrix": {"workload.reuse": [True, False]}}
    plan = written({"name": "one", **reuse}, {"name": "two", **reuse})
    assert pairs(plan) == [
        ("workload.reuse", "one.reuse-false", "one.reuse-true"),
        ("workload.reuse", "two.reuse-false", "two.reuse-true"),
    ]


def test_the_first_value_is_the_plans_in_whatever_order_trials_were_run() -> None:
    """Shuffled trials would otherwise turn some ratios upside down."""
    plans = [
        written(
            *(
                {"name": f"n{number}", "clients": number, "matrix": {"target.tls": [False, True]}}
                for number in range(1, 9)
            ),
            order=order,
        )
        for order in ("interleaved", "random")
    ]
    assert [trial.name for trial in trials_of(plans[0])] != [trial.name for trial in trials_of(plans[1])]
    assert pairs(plans[0]) == pairs(plans[1])
    assert pairs(plans[1])[0] == ("target.tls", "n1.tls-true", "n1.tls-false")


def test_a_curve_may_be_half_a_matrix() -> None:
    """A hundred clients written out, with the writers that they need, belong to those of the matrix."""
    plan = written(
        {"name": "reads", "matrix": {"phases[0].closed.clients": [1, 10]}},
        {"name": "reads-100", "clients": 100, "writers": 10, "max_concurrency": 10},
    )
    assert curves(plan) == {"reads": [1, 10, 100]}


def test_one_number_of_clients_with_more_writers_is_another_curve() -> None:
    """More writers are what is varied there, and not what more clients need."""
    plan = written({"name": "reads", "matrix": {"writers": [1, 5], "phases[0].closed.clients": [5, 10]}})
    assert curves(plan) == {"reads, writers = 1": [5, 10], "reads, writers = 5": [5, 10]}


def test_curves_of_one_name_are_told_apart_by_their_setup() -> None:
    """Names that have only a word in common say nothing of what differs."""
    plan = written(
        *(
            {"name": f"run-{number}", "clients": clients, "target": {"store": "redis", "tls": tls}}
            for number, (clients, tls) in enumerate([(1, False), (10, False), (1, True), (10, True)])
        )
    )
    assert curves(plan) == {"run, target.tls = false": [1, 10], "run, target.tls = true": [1, 10]}


REDIS: dict[str, Any] = {
    "experiment": "operations",
    "target": {"store": "redis"},
    "workload": {"mix": {"insert": 1}},
    "phases": [
        {"name": "warm-up", "measured": False, "closed": {"clients": 5, "duration_s": 2}},
        {"name": "steady", "closed": {"clients": 5, "duration_s": 8}},
    ],
}


def trial(**changes: Any) -> TrialPlan:  # noqa: ANN401 -- any JSON
    """Return the only trial of a plan with these changes."""
    return parse_plan({"name": "x", "trials": [{**REDIS, **changes}]}).offered_trials[0]


def test_a_setup_is_short_and_flat() -> None:
    """Defaults are left out, but for the settings that trials are compared by."""
    assert flatten_setup(trial()) == {
        "target.store": "redis",
        "target.tls": False,
        "target.cluster": False,
        "workload.mix.insert": 1.0,
        "workload.reuse": True,
        "writers": 1,
        "arrivals": "constant",
        "phases[steady].closed.clients": 5,
        "phases[steady].closed.duration_s": 8.0,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other", "repeats": 3, "seed": 8},
        {"workload": {"mix": {"insert": 1}, "seed": 8}},
        {"workload": {"mix": {"insert": 1}, "reuse": True}, "drain_limit_s": 5},
        {"published": [{"metric": "p50", "value_ms": 1, "source": "somebody"}]},
        {"phases": REDIS["phases"][1:]},
    ],
)
def test_names_seeds_and_warm_up_make_no_other_setup(changes: dict[str, Any]) -> None:
    """Fields without use for operations do not count either, nor a default that is written out."""
    assert flatten_setup(trial(**changes)) == flatten_setup(trial())


@pytest.mark.parametrize(
    ("changes", "path", "value"),
    [
        ({"target": {"store": "redis", "tls": True}}, "target.tls", True),
        ({"target": {"store": "redis", "endpoint": "a:1"}}, "target.endpoint", "a:1"),
        ({"target": {"store": "dsql"}}, "target.region", None),
        ({"workload": {"keys": {"distribution": "zipfian"}}}, "workload.keys.distribution", "zipfian"),
        ({"writers": 2}, "writers", 2),
        (
            {"phases": [{"name": "open", "load": [{"rate_per_s": 9, "duration_s": 8}]}]},
            "phases[open].load[0].rate_per_s",
            9.0,
        ),
    ],
)
def test_what_changes_the_numbers_is_in_it(changes: dict[str, Any], path: str, value: object) -> None:
    """It has its path in the plan, with phases by name, so that a warm-up does not renumber them."""
    setup = flatten_setup(trial(**changes))
    assert path in setup
    assert setup[path] == value


def test_a_capacity_that_outlasts_its_phase_is_in_it() -> None:
    """It counts though the phase is not measured."""
    scale = {"capacity": {"mode": "provisioned", "write_units": 40}}
    phases = [{**REDIS["phases"][0], "scale": scale}, REDIS["phases"][1]]
    setup = flatten_setup(trial(target={"store": "dynamodb"}, phases=phases))
    assert setup["phases[warm-up].scale.capacity.write_units"] == 40
    assert not any(path.startswith("phases[warm-up].closed") for path in setup)


def test_triggers_have_their_load_and_arrivals() -> None:
    """Etcd at constant intervals and by Poisson differ in nothing else."""
    phases = [{"name": "unloaded", "load": [{"rate_per_s": 1, "count": 9}]}]
    plan = parse_plan({"name": "x", "trials": [{"target": {"store": "etcd"}, "phases": phases}]})
    assert flatten_setup(plan.trials[0]) == {
        "target.store": "etcd",
        "writers": 1,
        "arrivals": "constant",
        "phases[unloaded].load[0].count": 9,
        "phases[unloaded].load[0].rate_per_s": 1.0,
    }


def test_what_is_always_told_is_a_field_of_some_plan() -> None:
    """A renamed field would silently be told only where it has no default."""
    told = {path for store in ("redis", "dsql") for path in flatten_setup(trial(target={"store": store}))}
    assert told >= ALWAYS


@pytest.mark.parametrize(
    ("path", "others", "shown"),
    [
        ("record.value_bytes", ["writers"], "value_bytes"),
        ("phases[0].load[0].rate_per_s", [], "rate_per_s"),
        ("a.capacity.mode", ["b.mode"], "capacity.mode"),
        ("phases[0].settle_s", ["phases[1].settle_s"], "phases[0].settle_s"),
        ("mode", ["capacity.mode"], "mode"),
    ],
)
def test_a_setting_is_called_by_as_little_of_its_path_as_tells_it_apart(
    path: str, others: list[str], shown: str
) -> None:
    """A trial's name, a verdict and a curve's label have room for a word or two."""
    assert shorten_path(path, [path, *others]) == shown
