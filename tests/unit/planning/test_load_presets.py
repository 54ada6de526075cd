from __future__ import annotations

import pytest

from stepbench.planning import find_plan, parse_plan

STORES = ("s3", "dynamodb", "postgresql", "etcd")
SEARCHED = ("dynamodb", "postgresql", "etcd")


@pytest.mark.parametrize("store", STORES)
def test_load_presets_of_the_paper_hold_it_for_five_minutes(store: str) -> None:
    """Section VI-B: 5 min, of which the third counts; unloaded before, so that the two stand beside each other."""
    (trial,) = parse_plan(find_plan(f"paper-load-{store}")).trials
    warm_up, unloaded, load = trial.phases
    assert trial.target.store == store
    assert [(step.rate_per_s, step.count) for phase in (warm_up, unloaded) for step in phase.load] == [(1, 200)] * 2
    assert (warm_up.measured, unloaded.measured, load.measured, trial.writers) == (False, True, True, 10)
    assert [step.duration_s for step in load.load] == [300]
    assert [(window.name, window.from_s, window.to_s) for window in load.windows] == [("minute-3", 120, 180)]


@pytest.mark.parametrize("store", SEARCHED)
def test_load_presets_of_the_paper_look_for_80_per_cent(store: str) -> None:
    """Of CPU, or of write units; each probe holds two whole minutes of CloudWatch's."""
    (trial,) = parse_plan(find_plan(f"paper-load-{store}")).trials
    assert trial.find_rate is not None
    assert (trial.find_rate.utilisation, trial.find_rate.probe_s) == (0.8, 180)
    assert [step.of_found for step in trial.phases[2].load] == [1]
    assert trial.phases[2].load[0].rate_per_s >= trial.find_rate.high_per_s


@pytest.mark.parametrize("store", ["quick-load-s3", "paper-load-s3"])
def test_s3_is_given_its_rate(store: str) -> None:
    """It tells no utilisation."""
    (trial,) = parse_plan(find_plan(store)).trials
    assert trial.find_rate is None
    assert trial.phases[2].load[0].of_found is None


@pytest.mark.parametrize("store", STORES)
def test_quick_load_presets_take_minutes(store: str) -> None:
    """With probes of 8 s and orchestration of as much; windows of 20 s, which blocks of a second fill twenty times."""
    (trial,) = parse_plan(find_plan(f"quick-load-{store}")).trials
    assert trial.length_s <= 120
    (window,) = trial.phases[2].windows
    assert window.to_s - window.from_s == 20
    assert window.from_s > 10
    assert window.to_s < trial.phases[2].length_s


def test_load_presets_carry_the_ratios_that_were_published() -> None:
    """Section VI-B gives no times; of etcd it says nothing in numbers."""
    told = {
        store: [
            (each.metric, each.ratio, each.over, each.over_metric, each.bound)
            for each in parse_plan(find_plan(f"paper-load-{store}")).trials[0].published
        ]
        for store in STORES
    }
    assert told == {
        "s3": [("p90", 10, None, "p50", "up_to")],
        "dynamodb": [("p90", 1.1, "unloaded", None, None)],
        "postgresql": [("p90", 3.5, "unloaded", None, "above"), ("p90", 4, "unloaded", None, "up_to")],
        "etcd": [],
    }
