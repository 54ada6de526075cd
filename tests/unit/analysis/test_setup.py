from __future__ import annotations

from typing import Any

import pytest

from stepbench.analysis.setup import ALWAYS, setup_of
from stepbench.contracts.plan import TrialPlan
from stepbench.planning import parse_plan

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
    """The plan's only trial."""
    return parse_plan({"name": "x", "trials": [{**REDIS, **changes}]}).trials[0]


def test_a_setup_is_short_and_flat() -> None:
    """What has its default is left out, but for the settings that trials are compared by."""
    assert setup_of(trial()) == {
        "target.store": "redis",
        "target.tls": False,
        "target.cluster": False,
        "workload.mix.insert": 1.0,
        "workload.reuse": True,
        "writers": 1,
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
    """Nor does what operations have no use for, or a default that is written out."""
    assert setup_of(trial(**changes)) == setup_of(trial())


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
    """By the path that it has in the plan, phases by name: a trial without warm-up counts them otherwise."""
    setup = setup_of(trial(**changes))
    assert path in setup
    assert setup[path] == value


def test_a_capacity_that_outlasts_its_phase_is_in_it() -> None:
    """Though the phase is not measured."""
    scale = {"capacity": {"mode": "provisioned", "write_units": 40}}
    phases = [{**REDIS["phases"][0], "scale": scale}, REDIS["phases"][1]]
    setup = setup_of(trial(target={"store": "dynamodb"}, phases=phases))
    assert setup["phases[warm-up].scale.capacity.write_units"] == 40
    assert not any(path.startswith("phases[warm-up].closed") for path in setup)


def test_triggers_have_none() -> None:
    """They are compared by window."""
    phases = [{"name": "unloaded", "load": [{"rate_per_s": 1, "count": 9}]}]
    plan = parse_plan({"name": "x", "trials": [{"target": {"store": "etcd"}, "phases": phases}]})
    assert setup_of(plan.trials[0]) == {}


def test_what_is_always_told_is_a_field_of_some_plan() -> None:
    """A renamed field would silently be told only where it has no default."""
    told = {path for store in ("redis", "dsql") for path in setup_of(trial(target={"store": store}))}
    assert told >= ALWAYS
