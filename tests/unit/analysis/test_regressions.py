"""What is to be said of a plan's runs: changes told, spikes and acknowledged shifts not, and what cannot be decided."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pydantic import ValidationError
from tests.samples.run_series import P50, noise, run_id, run_series

from stepbench.analysis.regressions import FALSE_ALARMS_PER_100_RUNS, find_regressions
from stepbench.analysis.series_detector import THRESHOLD, SeriesDetector, threshold_for
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import DetectorSettings, LastGreen, NamedRun, RollingMedian
from stepbench.errors import PlanError

if TYPE_CHECKING:
    from stepbench.contracts.regressions import Regressions, RunSeries, SeriesFinding, SeriesRun, SeriesValue

RESULT = Path(__file__).parents[3] / "benchmarks/results/regressions.json"


def found_in(given: RunSeries, settings: DetectorSettings | None = None) -> tuple[Regressions, SeriesFinding]:
    """Return what was found, and the finding about the only series."""
    found = find_regressions(given, settings or DetectorSettings())
    (finding,) = found.findings
    return found, finding


def _beyond(run: SeriesRun) -> SeriesRun:
    """Take the values from a run, as if too many events had not arrived; their lower limits stay."""
    gone = {"value": None, "high": None, "reason": "> drain limit"}
    values = [each.model_copy(update={"estimate": each.estimate.model_copy(update=gone)}) for each in run.values]
    return run.model_copy(update={"values": tuple(values)})


def _without(run: SeriesRun) -> SeriesValue:
    """Return a run's value, as if there had been too few events for it."""
    return run.values[0].model_copy(update={"estimate": Estimate(value=None, reason="n=200 < 368")})


def test_nothing_is_told_of_runs_that_only_differ() -> None:
    """40 runs of one level; the finding names how many runs would show a change."""
    found, finding = found_in(run_series(noise(40)))
    assert (finding.verdict, found.passed, found.confirm) == ("no_change", True, False)
    assert finding.runs_to_decide is not None
    assert finding.baseline_runs == 40


def test_a_slower_run_is_suspected_and_a_confirming_run_asked_for() -> None:
    """One run may be chance: nobody is told."""
    found, finding = found_in(run_series([*noise(40), 12.0]))
    assert (finding.verdict, finding.told, found.passed, found.confirm) == ("suspected", False, True, True)


def test_a_shift_is_told_once_confirmed_and_stands_until_it_is_gone() -> None:
    """20 % slower from run 40 on; run 41 confirms it, and with run 42 three lie on the new level."""
    values = [*noise(40), 12.0, 12.1, 11.9]
    found, finding = found_in(run_series(values, confirms={41: 40}))
    assert (finding.verdict, finding.told, found.passed) == ("regression", True, False)
    assert [(shift.run_id, shift.told_at) for shift in finding.shifts] == [(run_id(40), run_id(42))]
    assert finding.ratio is not None
    assert finding.ratio.value == pytest.approx(1.2, abs=0.03)
    found, later = found_in(run_series([*values, 12.0, 12.2], confirms={41: 40}))
    assert (later.verdict, later.told, found.passed) == ("regression", False, False)


def test_a_level_that_is_back_is_no_regression_any_more() -> None:
    """The pipeline goes on without anybody acknowledging anything."""
    values = [*noise(40), 12.0, 12.1, 11.9, 12.0, *noise(8, seed=8)]
    found, finding = found_in(run_series(values))
    assert (finding.verdict, found.passed) == ("no_change", True)


def test_a_spike_is_told_apart_from_a_shift() -> None:
    """The confirming run is as before, so the run before was one far off."""
    _, finding = found_in(run_series([*noise(40), 13.0, 10.0], confirms={41: 40}))
    assert (finding.verdict, finding.told, finding.spikes) == ("spike", False, (run_id(40),))


def test_an_acknowledged_shift_is_told_to_nobody_and_is_the_new_baseline() -> None:
    """A slower level that the team accepts; what comes on top of it is a regression again."""
    values = [*noise(40), *(1.2 * value for value in noise(20, seed=9))]
    acknowledged = {40: "TLS is on"}
    found, finding = found_in(run_series(values, acknowledged=acknowledged))
    assert (finding.verdict, found.passed) == ("no_change", True)
    assert [shift.acknowledged for shift in finding.shifts] == ["TLS is on"]
    found, finding = found_in(run_series([*values, 14.6, 14.4, 14.5], acknowledged=acknowledged))
    assert (finding.verdict, found.passed) == ("regression", False)
    _, fresh = found_in(run_series(values[:44], acknowledged=acknowledged))
    assert fresh.verdict == "shift"


def test_an_improvement_is_told_and_becomes_the_baseline() -> None:
    """Back to the old level is then a regression."""
    faster = [*noise(40), *(0.75 * value for value in noise(5, seed=9))]
    verdicts = [found_in(run_series(faster[:count]))[1] for count in range(42, 46)]
    assert [each.verdict for each in verdicts if each.told] == ["improvement"]
    found, finding = found_in(run_series([*faster, 10.0, 10.1, 9.9]))
    assert (finding.verdict, found.passed) == ("regression", False)


def test_a_slow_drift_is_told_as_one_with_its_slope() -> None:
    """2 % a run, each of which is within the noise."""
    drifting = [value * 1.02**place for place, value in enumerate(noise(15, seed=11), start=1)]
    found, finding = found_in(run_series([*noise(40), *drifting]))
    assert (finding.verdict, found.passed) == ("drift", False)
    assert finding.slope is not None
    assert finding.slope.low is not None
    assert finding.slope.high is not None
    assert finding.slope.low < 1.02 < finding.slope.high


def test_what_cannot_be_decided_is_said_with_what_would_decide_it() -> None:
    """5 % slower, where runs lie 12 % apart: no window is long enough, so more runs are no way out."""
    slower = [1.05 * value for value in noise(10, sd=0.12, seed=4)]
    _, finding = found_in(run_series([*noise(60, sd=0.12, seed=3), *slower]))
    assert (finding.verdict, finding.runs_to_decide) == ("undecidable", None)
    assert finding.least_effect is not None
    assert 0.1 < finding.least_effect < 0.25
    assert "no number of them shows a change of 5 %" in finding.text
    assert "times as many repeats" in finding.text


@pytest.mark.parametrize("sd", [0.003, 0.02])
def test_four_of_five_changes_show_on_as_many_runs_as_is_said(sd: float) -> None:
    """Of the minimum effect itself: every other one seems smaller on three runs, however little noise there is."""
    found = []
    for seed in range(15):
        rng, detector = np.random.default_rng(seed), SeriesDetector(math.log(1.05))
        values = [*rng.normal(0, sd, 50), *(math.log(1.05) + rng.normal(0, sd, 25))]
        said = found_in(run_series([math.exp(value) for value in values[:50]]))[1].runs_to_decide
        assert said is not None
        assert said >= 8
        kinds = [change.kind for value in values[: 50 + said] if (change := detector.add(value))]
        found.append("worse" in kinds)
    assert sum(found) >= 12


@pytest.mark.parametrize("sd", [0.003, 0.01])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_change_below_the_minimum_effect_is_none(sd: float, sign: int) -> None:
    """2 %, however surely: whoever asks for 5 % has other things to do."""
    series = P50 if sign > 0 else P50.model_copy(update={"measure": "throughput", "quantile": None})
    for seed in range(2):
        values = [*noise(50, sd, seed), *(1.02**sign * value for value in noise(40, sd, seed + 100))]
        given = run_series(values, series=series)
        for runs in (53, 58, 65, 90):
            found, finding = found_in(given.model_copy(update={"runs": given.runs[:runs]}))
            assert (found.passed, finding.told) == (True, False)


def test_a_shift_that_recovers_below_the_minimum_effect_stands_no_more() -> None:
    """10 % slower, then 3 %: what is left is of no interest."""
    values = [
        *noise(50, 0.01),
        *(1.1 * each for each in noise(6, 0.01, 8)),
        *(1.03 * each for each in noise(12, 0.01, 9)),
    ]
    found, finding = found_in(run_series(values))
    assert (found.passed, finding.told) == (True, False)


def test_what_was_told_is_not_told_again_by_a_run_without_the_number() -> None:
    """Each telling is a mail, and each suspicion a run."""
    for values, verdict in (([*noise(40), 12.0, 12.1, 11.9], "regression"), ([*noise(40), 12.0], "undecidable")):
        given = run_series([*values, 10.0])
        last = given.runs[-1].model_copy(update={"values": (_without(given.runs[-1]),)})
        found, finding = found_in(given.model_copy(update={"runs": (*given.runs[:-1], last)}))
        assert (finding.verdict, finding.told, finding.last, found.confirm) == (verdict, False, None, False)
        assert "the last run has no number" in finding.text


def test_a_last_run_without_numbers_does_not_pass() -> None:
    """A regression stands, and the run that could have shown it gone has failed; nor is anything shown to be well."""
    for values, verdict in (([*noise(40), 12.0, 12.1, 11.9, 12.0], "regression"), (noise(40), "undecidable")):
        given = run_series([*values, 10.0])
        last = given.runs[-1].model_copy(update={"values": ()})
        found, finding = found_in(given.model_copy(update={"runs": (*given.runs[:-1], last)}))
        assert (finding.verdict, found.passed, found.missing) == (verdict, False, ("etcd",))


def test_beyond_the_drain_limit_is_no_more_than_at_least_so_much() -> None:
    """A two-sided interval would claim to know how slow it is."""
    given = run_series([*noise(40), 30.0, 30.0, 30.0])
    runs = [_beyond(each) if place >= 40 else each for place, each in enumerate(given.runs)]
    _, finding = found_in(given.model_copy(update={"runs": tuple(runs)}))
    assert finding.ratio is not None
    assert (finding.ratio.value, finding.ratio.high) == (None, None)
    assert finding.text.startswith("at least 2.")


@pytest.mark.parametrize(("series", "confirming"), [(1, True), (30, False)])
def test_one_series_of_many_is_not_suspected_as_soon(series: int, confirming: bool) -> None:  # noqa: FBT001 -- a case
    """Each suspicion costs a whole run, and among thirty series one is always a little off."""
    given = run_series([*noise(40), 10.8])
    names = [P50.model_copy(update={"group": f"g{number:02d}"}) for number in range(series)]
    runs = [
        run.model_copy(update={"values": tuple(run.values[0].model_copy(update={"series": name}) for name in names)})
        for run in given.runs
    ]
    found = find_regressions(given.model_copy(update={"runs": tuple(runs)}), DetectorSettings())
    assert found.confirm is confirming


def test_the_rate_of_false_alarms_is_given_for_the_settings_that_it_is_of() -> None:
    """Whoever allows more of them, or looks for smaller changes, gets more."""
    usual, _ = found_in(run_series(noise(12)))
    other, _ = found_in(run_series(noise(12)), DetectorSettings(min_effect=0.02))
    assert "two modes" in usual.false_alarms
    assert "two modes" not in other.false_alarms


def test_few_runs_decide_nothing() -> None:
    """How far runs lie apart is not known from four of them."""
    _, finding = found_in(run_series([10, 10.1, 9.9, 20]))
    assert (finding.verdict, finding.runs_to_decide) == ("undecidable", 6)


def test_throughput_is_worse_when_it_falls() -> None:
    """The same numbers, read the other way round."""
    rates = P50.model_copy(update={"measure": "throughput", "quantile": None})
    found, finding = found_in(run_series([*noise(40), 8.0, 8.1, 7.9], series=rates))
    assert (finding.verdict, found.passed) == ("regression", False)
    assert finding.ratio is not None
    assert finding.ratio.value == pytest.approx(0.8, abs=0.03)


def test_runs_that_missed_their_thresholds_are_no_baseline_if_asked() -> None:
    """Ten red runs, 20 % slower one and all, that nobody has looked at."""
    values = [*noise(40), *(1.2 * value for value in noise(10, seed=5))]
    green = DetectorSettings(baseline=LastGreen())
    found, finding = found_in(run_series(values, red=range(40, 50)), green)
    assert (finding.verdict, found.passed) == ("regression", False)
    assert finding.baseline is not None
    assert finding.baseline.value == pytest.approx(10, abs=0.2)


def test_a_named_baseline_begins_with_its_run_and_does_not_roll() -> None:
    """The first 40 runs are of another level, which is of no interest any more."""
    values = [*(2 * value for value in noise(40)), *noise(60, seed=6)]
    settings = DetectorSettings(baseline=NamedRun(run_id=run_id(40), runs=40))
    found, finding = found_in(run_series(values), settings)
    assert (finding.verdict, finding.baseline_runs, found.passed) == ("no_change", 40, True)
    unknown = DetectorSettings(baseline=NamedRun(run_id="gone"))
    with pytest.raises(PlanError, match="gone"):
        found_in(run_series(values), unknown)


def test_a_run_beyond_the_drain_limit_counts_as_what_it_is_at_least() -> None:
    """Its p99 has no value, and is no reason to pass."""
    given = run_series([*noise(40), 30.0, 30.0, 30.0])
    runs = [_beyond(each) if place >= 40 else each for place, each in enumerate(given.runs)]
    found, finding = found_in(given.model_copy(update={"runs": tuple(runs)}))
    assert (finding.verdict, found.passed) == ("regression", False)


@pytest.mark.parametrize(("series", "allowed", "more"), [(1, 0.1, 0.0), (12, 0.1, 2.485), (1, 1.0, -2.303)])
def test_the_threshold_rises_with_the_number_of_series(series: int, allowed: float, more: float) -> None:
    """As the logarithm of how many there are, over how many false alarms are allowed; it has a floor."""
    assert threshold_for(series, allowed) - THRESHOLD == pytest.approx(more, abs=0.01)


@pytest.mark.parametrize("runs", [9, 401])
def test_baselines_have_bounds(runs: int) -> None:
    """Less says nothing, more is not kept."""
    with pytest.raises(ValidationError):
        RollingMedian(runs=runs)


def test_runs_out_of_order_are_refused_with_their_path() -> None:
    """Whoever hands them in that way has another series than the one he thinks of."""
    given = run_series([10, 11])
    with pytest.raises(ValidationError, match=r"runs\[1\]\.started_at: is before"):
        type(given)(plan="nightly", runs=tuple(reversed(given.runs)))


def test_the_rate_of_false_alarms_is_the_one_that_was_measured() -> None:
    """It stands beside every verdict, so it must not be older than the benchmark's result."""
    cases = json.loads(RESULT.read_text("utf-8"))["cases"]
    measured = {
        case["name"].removeprefix("no change, "): case["figures"][0]["ours"][0]
        for case in cases
        if case["name"].startswith("no change, ")
    }
    assert measured == FALSE_ALARMS_PER_100_RUNS
