"""Which runs and numbers make a series."""

from __future__ import annotations

from tests.samples.comparisons import etcd, run
from tests.samples.run_series import noise, run_id, summaries

from stepbench.analysis.run_series import series_of_runs


def test_a_series_for_each_quantile_in_order_of_start() -> None:
    """Runs may be handed in in any order."""
    found = series_of_runs(list(reversed(summaries([1, 2, 3]))), {run_id(1): "why"}, {run_id(2): run_id(1)})
    runs = found.series.runs
    assert [each.run_id for each in runs] == [run_id(0), run_id(1), run_id(2)]
    assert [value.series.quantile for value in runs[0].values] == ["p50", "p90", "p99"]
    assert [runs[place].values[0].estimate.value for place in range(3)] == [1, 2, 3]
    assert (runs[1].acknowledged, runs[2].confirms) == ("why", run_id(1))


def test_runs_under_other_settings_are_left_out_and_named() -> None:
    """A plan that was changed measures something else."""
    old, *others = summaries(noise(3))
    changed = [each.model_copy(update={"setup": {**each.setup, "writers": 4}}) for each in old.trials]
    found = series_of_runs([old.model_copy(update={"trials": changed}), *others])
    assert (len(found.series.runs), found.not_comparable) == (2, (run_id(0),))


def test_trials_that_broke_off_have_no_numbers() -> None:
    """What is left of them is no measurement of the whole."""
    first, last = summaries(noise(2))
    broken = [each.model_copy(update={"incomplete": True}) for each in first.trials]
    found = series_of_runs([first.model_copy(update={"trials": broken}), last])
    assert [len(each.values) for each in found.series.runs] == [0, 3]


def test_repeats_within_a_run_are_one_number() -> None:
    """Their geometric mean."""
    medians = enumerate((1.0, 2.0, 4.0))
    repeats = [etcd(ms).model_copy(update={"index": place, "repeat": place}) for place, ms in medians]
    found = series_of_runs([run(*repeats)])
    value = found.series.runs[0].values[0].estimate.value
    assert value is not None
    assert abs(value - 2) < 1e-9
