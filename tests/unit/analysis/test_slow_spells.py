"""What slow spells of the machine may have made by themselves decides no threshold, verdict or regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from tests.samples.comparisons import estimate, run, trial, window
from tests.samples.estimates import present

from stepbench.analysis.regressions import find_regressions
from stepbench.analysis.run_comparison import Selected, compare_summaries
from stepbench.analysis.run_series import run_numbers, series_of_runs
from stepbench.analysis.slow_spells import SLOW_MACHINE, UNDECIDED, largest_certain, may_make, undecide_tails
from stepbench.analysis.thresholds import judge
from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.across_trials import Effect
from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import DetectorSettings
from stepbench.contracts.result import Caveat, TrialSummary
from stepbench.contracts.threshold_grammar import parse_threshold

if TYPE_CHECKING:
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.thresholds import Quantile

SLOW = SlowSpells(looked_s=2.6, share=0.03, longest_ms=50, spells=4)
CAVEAT = Caveat(kind="slow_machine", text="", remedy="", windows=(0,))


def with_tail(p50_ms: float, p90_ms: float, p99_ms: float) -> WindowResult:
    """Build a window with these quantiles, each known to 2 %."""
    made = window(estimate(p50_ms))
    tails = {"p90": estimate(p90_ms), "p95": estimate(p90_ms), "p99": estimate(p99_ms), "max": p99_ms + 1}
    return made.model_copy(update={"latency_ms": made.latency_ms.model_copy(update=tails)})


def on_slow_machine(made: TrialSummary, found: SlowSpells = SLOW) -> TrialSummary:
    """Return the trial with spells and the caveat about them."""
    return made.model_copy(update={"slow_spells": found, "caveats": (CAVEAT,)})


@pytest.mark.parametrize(
    ("share", "made", "surest"), [(0.03, ["p95", "p99", "max"], "p90"), (0.3, ["p50", "p90", "p99"], None)]
)
def test_quantiles_that_spells_can_make_are_those_beyond_twice_their_share(
    share: float, made: list[Quantile], surest: Quantile | None
) -> None:
    """What has waited in a spell is late as well: 3 % of the time are 6 % of the events."""
    found = SLOW.model_copy(update={"share": share})
    assert all(may_make(found, each) for each in made)
    assert largest_certain(found, "p99") == surest
    assert not may_make(None, "p99")


@pytest.mark.parametrize(
    ("text", "p99_ms", "clean", "slow"),
    [
        ("p99 < 20 ms", 30, "failed", "undecidable"),
        ("p99 < 20 ms", 90, "failed", "failed"),
        ("p99 < 20 ms", 10, "passed", "passed"),
        ("p99 > 20 ms", 30, "passed", "undecidable"),
        ("p99 > 20 ms", 10, "failed", "failed"),
        ("p99 < 1 ms", 30, "failed", "failed"),
        ("p90 < 1 ms", 30, "failed", "failed"),
        ("max < 20 ms", 30, "failed", "undecidable"),
        ("errors < 1 %", 30, "passed", "passed"),
    ],
    ids=["within a spell", "beyond it", "kept", "least kept by a spell", "least missed", "p90 misses it, too",
         "p90", "maximum", "no time"],
)  # fmt: skip
def test_a_threshold_is_left_undecided_where_a_spell_may_decide_it(
    text: str, p99_ms: float, clean: str, slow: str
) -> None:
    """p50 is 1 ms and p90 is 2 ms; a spell takes 50 ms off what is late, and makes nothing faster."""
    made = trial("etcd", with_tail(1, 2, p99_ms))
    found = [judge([parse_threshold(text)], [each])[0] for each in (made, on_slow_machine(made))]
    assert [each.state for each in found] == [clean, slow]
    assert found[1].reason == (UNDECIDED if clean != slow else found[0].reason)


def test_windows_that_the_caveat_is_not_about_are_decided() -> None:
    """A writer with little to do does not meet the quota."""
    made = on_slow_machine(trial("etcd", with_tail(1, 2, 30)))
    other = made.model_copy(update={"caveats": (CAVEAT.model_copy(update={"windows": (1,)}),)})
    assert judge([parse_threshold("p99 < 20 ms")], [other])[0].state == "failed"


@pytest.mark.parametrize(("p99_ms", "finding"), [(30, "undecided"), (90, "higher")])
def test_a_verdict_on_a_tail_within_a_spell_is_undecided(p99_ms: float, finding: str) -> None:
    """p50, which spells cannot make, decides on; the doubt stands beside it."""
    sides = trial("a", with_tail(1, 2, 3)), on_slow_machine(trial("b", with_tail(2, 2, p99_ms), index=1, store="redis"))
    (verdict,) = plan_verdicts(sides)
    assert (present(verdict.effect("p50")).finding, present(verdict.effect("p99")).finding) == ("higher", finding)
    assert verdict.doubts == (SLOW_MACHINE,)
    assert (present(verdict.effect("p99")).to_decide == UNDECIDED) == (finding == "undecided")


def test_a_throughput_is_doubted_as_far_as_the_time_of_spells_reaches() -> None:
    """With 3 % of the time in spells, 1,000 a second may have been 1,030 at speed, not 1,040; errors stay errors."""
    busy = SLOW.model_copy(update={"share": 0.6})
    made = trial("etcd", window(estimate(1), achieved_per_s=1_000))
    for found, text, state in (
        (SLOW, "throughput > 1030 /s", "undecidable"),
        (SLOW, "throughput > 1040 /s", "failed"),
        (SLOW, "throughput > 900 /s", "passed"),
        (busy, "throughput > 2000 /s", "undecidable"),
        (busy, "errors > 1 %", "failed"),
    ):
        assert judge([parse_threshold(text)], [on_slow_machine(made, found)])[0].state == state


@pytest.mark.parametrize(
    ("measure", "slow", "fast", "finding"),
    [
        ("throughput", 980, 1_000, "undecided"),
        ("throughput", 900, 1_000, "lower"),
        ("errors", 0.02, 0.01, "lower"),
    ],
)
def test_what_is_no_time_is_doubted_no_further(
    measure: Literal["throughput", "errors"], slow: float, fast: float, finding: str
) -> None:
    """Spells slow a throughput by their share at most, and make no errors; the faster side's explain nothing."""
    found = Effect(measure=measure, a=Estimate(value=fast), b=Estimate(value=slow), finding="lower")
    assert [each.finding for each in undecide_tails([found], [None], [SLOW])] == [finding]
    assert undecide_tails([found], [SLOW], [None]) == (found,)


@pytest.mark.parametrize(("slow_side", "passed"), [("b", True), ("a", False)])
def test_a_comparison_finds_no_regression_within_a_spell_of_the_candidate(slow_side: str, *, passed: bool) -> None:
    """If the baseline was the slow one, what got worse did so all the more."""
    a, b = trial("etcd", with_tail(1, 2, 3)), trial("etcd", with_tail(1, 2, 30))
    if slow_side == "a":
        a = on_slow_machine(a)
    else:
        b = on_slow_machine(b)
    assert compare_summaries(Selected([run(a)]), Selected([run(b)]), 0.05).passed is passed


def test_series_have_no_number_of_a_tail_within_a_spell() -> None:
    """The run is passed over in that series; repeats on a quiet machine stand for it."""
    slow, quiet = on_slow_machine(trial("etcd", with_tail(1, 2, 30))), trial("etcd", with_tail(1, 2, 4))

    def values(*trials: TrialSummary) -> dict[str | None, float | None]:
        made = run_numbers(run(*trials)).groups["etcd"].values
        return {each.series.quantile: each.estimate.value for each in made}

    assert values(slow) == {"p50": 1, "p90": 2, "p99": None}
    assert values(slow, quiet)["p99"] == pytest.approx(4)
    assert values(slow, slow)["p99"] is None
    assert values(on_slow_machine(trial("etcd", with_tail(1, 2, 90))))["p99"] == 90


@pytest.mark.parametrize(("named", "verdict"), [(False, "suspected"), (True, "undecidable")])
def test_runs_of_a_slow_machine_are_no_regression(*, named: bool, verdict: str) -> None:
    """Of twenty nightly runs the last three have a p99 three times as long, on a host with spells of 50 ms."""
    runs = []
    rng = np.random.default_rng(3)
    for number, factor in enumerate([1] * 17 + [3] * 3):
        p50, p90, p99 = np.array([1, 2, 10 * factor]) * np.exp(rng.normal(0, 0.03, 3))
        made = trial("etcd", with_tail(float(p50), float(p90), float(p99)))
        made = on_slow_machine(made) if named and factor > 1 else made
        started_at = f"2026-01-{number + 1:02d}T00:00:00+00:00"
        runs.append(run(made, run_id=f"r{number}").model_copy(update={"started_at": started_at}))
    findings = find_regressions(series_of_runs(map(run_numbers, runs)).series, DetectorSettings()).findings
    assert [each.verdict for each in findings if each.series.quantile == "p99"] == [verdict]
