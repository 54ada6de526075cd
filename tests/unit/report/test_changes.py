"""Sentences on comparisons, change points, modes and gaps at load steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.results import latency

from stepbench import digits
from stepbench.contracts.chart_data import PhaseSpan, RateBins, StepSpan, WindowSpan
from stepbench.contracts.findings import ChangePoint, Comparison, Modality
from stepbench.contracts.measures import Estimate
from stepbench.report.changes import (
    bins_around,
    describe_change,
    describe_comparison,
    describe_modality,
    step_between,
    step_gap,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import TrialResult, TrialSummary

NO = Estimate(value=None, reason="14 blocks < 20")


def estimate(value: float, low: float | None = None, high: float | None = None, reason: str | None = None) -> Estimate:
    """Build an estimate with an interval, or the reason why it has none."""
    return Estimate(value=value, low=low, high=high, reason=reason)


def comparison(**ratios: Estimate) -> Comparison:
    """Build a comparison of the windows before and after."""
    found = {"median_shift_ms": NO, "median_ratio": NO, "iqr_ratio": NO, "tail_ratio": NO, **ratios}
    return Comparison(phase_a="step", a="before", phase_b="step", b="after", **found)


def span(*rates_per_s: float, windows: tuple[tuple[str, float, float], ...]) -> PhaseSpan:
    """Build a phase of steps of 40 s each."""
    steps = tuple(
        StepSpan(rate_per_s=rate, from_s=40.0 * place, to_s=40.0 * place + 40) for place, rate in enumerate(rates_per_s)
    )
    named = tuple(WindowSpan(name=name, from_s=begin, to_s=end) for name, begin, end in windows)
    return PhaseSpan(name="step", measured=True, from_s=0, to_s=40.0 * len(steps), steps=steps, windows=named)


STEP = span(2000, 4000, windows=(("before", 20, 40), ("after", 40, 60)))


@pytest.fixture
def trial(elastic: tuple[TrialResult, ...]) -> TrialSummary:
    """Return a trial with the windows before and after."""
    return elastic[0].summary


@pytest.mark.parametrize(
    ("ratios", "sentence"),
    [
        ({"median_ratio": estimate(1.1502, 1.1, 1.2)}, "the median was 15 % higher [10 to 20 %]{medians}."),
        (
            {
                "median_ratio": estimate(1.01, 0.98, 1.04),
                "iqr_ratio": estimate(2.0, 1.8, 2.2),
                "tail_ratio": estimate(0.5, 0.4, 0.61),
            },
            (
                "the median was 1 % higher [2 % lower to 4 % higher]{medians}, so no difference is shown. "
                "The interquartile range was 2.0 × as large [1.8 to 2.2]. "  # noqa: RUF001 -- times
                "p90 over median was 50 % lower [39 to 60 %]."
            ),
        ),
        (
            {"median_ratio": estimate(1.15, reason="14 blocks < 20")},
            "the median was about 15 % higher (no interval: 14 blocks < 20){medians}.",
        ),
        ({}, "the median cannot be compared: 14 blocks < 20."),
    ],
    ids=["median", "spread and tail", "no interval", "beyond the drain limit"],
)
def test_what_the_step_did_is_said_in_sentences(
    ratios: dict[str, Estimate], sentence: str, trial: TrialSummary
) -> None:
    """They are read before the table; a bare ratio would look as sure as any."""
    told = describe_comparison(trial, comparison(**ratios), [STEP])
    before, after = (digits.latency(window.latency_ms.p50.value) for window in trial.windows)
    assert told == f"After the step from 2,000/s to 4,000/s {sentence.format(medians=f', {after} against {before}')}"


FLOOR = "That is less than a bare trigger takes here (1.50 ms)"
FASTER, SLOWER = "More load should not make it faster", "Less load should not make it slower"


@pytest.mark.parametrize(
    ("rates_per_s", "ratio", "shift_ms", "doubt"),
    [
        ((2000, 4000), estimate(0.55, 0.52, 0.58), -4.0, FASTER),
        ((4000, 2000), estimate(1.4, 1.2, 1.6), 4.0, SLOWER),
        ((2000, 4000), estimate(1.2, 1.1, 1.3), 1.2, FLOOR),
        ((2000, 4000), estimate(0.55, reason="14 blocks < 20"), -4.0, FASTER),
        ((2000, 4000), estimate(1.4, 1.2, 1.6), 4.0, ""),
        ((4000, 2000), estimate(0.55, 0.52, 0.58), -4.0, ""),
        ((2000, 4000), estimate(0.9, 0.7, 1.1), -0.6, ""),
    ],
    ids=["faster", "slower", "below the floor", "no interval", "expected", "expected, too", "no difference"],
)
def test_the_step_is_not_blamed_for_what_it_need_not_have_done(
    rates_per_s: tuple[int, int], ratio: Estimate, shift_ms: float, doubt: str, trial: TrialSummary
) -> None:
    """A store that warms up is faster after any step, and a change below a bare trigger may be the machine's."""
    floored = trial.model_copy(update={"floor_ms": latency([1.5] * 100)})
    phases = [span(*rates_per_s, windows=(("before", 20, 40), ("after", 40, 60)))]
    told = describe_comparison(floored, comparison(median_ratio=ratio, median_shift_ms=estimate(shift_ms)), phases)
    why = f"{doubt}: warming up, or neighbours on this machine, may be why, and not the step."
    assert told.partition(". ")[2] == (why if doubt else "")


@pytest.mark.parametrize(
    "phases",
    [
        (),
        (span(2000, 4000, windows=(("before", 0, 10),)),),
        (span(2000, 4000, windows=(("before", 0, 10), ("after", 10, 20))),),
        (span(1, 2, 3, windows=(("before", 0, 10), ("after", 90, 100))),),
    ],
    ids=["nothing known", "a window unknown", "no step between", "two steps between"],
)
def test_windows_that_no_single_step_parts_are_only_named(phases: tuple[PhaseSpan, ...], trial: TrialSummary) -> None:
    """Blaming a step that lies elsewhere would be wrong."""
    told = comparison(median_ratio=estimate(1.15, 1.1, 1.2))
    assert step_between(told, phases) is None
    assert describe_comparison(trial, told, phases).startswith("In after, against before, the median was")


@pytest.mark.parametrize(
    ("fields", "steps_s", "told"),
    [
        ({"at_s": NO, "p_value": 0.4}, (), "no change seen (p = 0.4)"),
        (
            {"before": 2000.0, "after": 3990.0},
            (40.0, 90.0),
            "changes from 2,000/s to 3,990/s at 40.10 s (40.00 to 40.20), 0.10 s after the step (p < 0.001)",
        ),
        (
            {"series": "latency_ms", "before": 5.0, "after": 7.5, "at_s": estimate(30.0), "p_value": 0.02},
            (40.0,),
            "changes from 5.00 ms to 7.50 ms at 30.0 s, 10.00 s before the step (p = 0.02)",
        ),
        ({}, (40.1,), "changes at 40.10 s (40.00 to 40.20), at the step (p < 0.001)"),
        ({"before": 1.0}, (), "changes at 40.10 s (40.00 to 40.20) (p < 0.001)"),
    ],
    ids=["none", "after the step", "before the step", "at the step", "a phase without steps"],
)
def test_a_change_is_told_with_levels_place_and_distance_from_the_step(
    fields: dict[str, Any], steps_s: tuple[float, ...], told: str
) -> None:
    """The experiment asks if the store took a second or a minute to follow; an empty cell would look not computed."""
    usual = {"phase": "step", "series": "achieved_per_s", "at_s": estimate(40.1, 40.0, 40.2), "p_value": 0.0005}
    assert describe_change(ChangePoint.model_validate(usual | fields), steps_s) == told


def test_modes_are_told_in_words() -> None:
    """That a second mode is not seen does not say that there is none."""
    one = Modality(window="a", phase="b", p_value=0.4, modes_ms=(12.0,))
    assert describe_modality(one) == "one mode near 12.0 ms; no second one seen (p = 0.4)"
    three = Modality(window="a", phase="b", p_value=0.002, modes_ms=(5.0, 12.0, 48.0))
    assert describe_modality(three) == "3 modes, near 5.00 ms, 12.0 ms and 48.0 ms (p = 0.002 for one)"
    assert describe_modality(Modality(window="a", phase="b", p_value=0.4)) == "one mode; no second one seen (p = 0.4)"
    assert describe_modality(Modality(window="a", phase="b", reason="n=20 < 50")) == "unknown: needs about 2 × longer"  # noqa: RUF001 -- times


def bins(offered: Sequence[int], empty: Sequence[int] = ()) -> RateBins:
    """Build 20 s in bins of 100 ms, in which all that was due was sent but for that of the empty bins."""
    sent = tuple(0 if place in empty else due for place, due in enumerate(offered))
    return RateBins(phase="step", bin_s=0.1, offered=tuple(offered), sent=sent, acknowledged=sent)


EVEN = (1,) * 200
ENDED = (1,) * 120 + (0,) * 80
NO_GAP = "no send gap of 100 ms or more within 5 s of the step at 10 s"
GAP = "the longest send gap within 5 s of the step at 10 s is"


@pytest.mark.parametrize(
    ("offered", "empty", "length", "due", "said"),
    [
        (EVEN, (), 0, 0, NO_GAP),
        (
            EVEN,
            (60, 70, 101, 102, 103),
            3,
            3,
            f"{GAP} 300 ms or somewhat more (3 bins of 100 ms); 3 events were due in it",
        ),
        ((1, 0) * 100, (), 1, 0, f"{GAP} 100 ms or somewhat more (1 bin of 100 ms); no event was due in it"),
        (EVEN, (100,), 1, 1, f"{GAP} 100 ms or somewhat more (1 bin of 100 ms); 1 event was due in it"),
        (EVEN, (49, 150), 0, 0, NO_GAP),
        (ENDED, (), 0, 0, NO_GAP),
    ],
    ids=["none", "the longest run counts", "5/s by design", "one event", "far from the step", "after the load"],
)
def test_the_longest_time_without_a_send_is_told_with_what_was_due(
    offered: tuple[int, ...], empty: tuple[int, ...], length: int, due: int, said: str
) -> None:
    """The elastic experiment stands on this sentence."""
    gap = step_gap(bins(offered, empty), 10.0)
    assert (gap.bins, gap.due, str(gap)) == (length, due, said)
    assert gap.gap_s == pytest.approx(length / 10)


@pytest.mark.parametrize(("step_s", "offered", "around"), [(10, ENDED, (50, 120)), (2, EVEN, (0, 70))])
def test_bins_around_a_step_lie_within_its_phase_and_its_load(
    step_s: float, offered: tuple[int, ...], around: tuple[int, int]
) -> None:
    """The bins of a phase may go on for what is acknowledged late; a step after 2 s has only these before it."""
    assert bins_around(bins(offered), step_s) == around
