from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepbench.contracts.drawn import PhaseSpan, StepSpan, WindowSpan
from stepbench.contracts.measures import ChangePoint, Comparison, Estimate, Modality
from stepbench.report.changes import change_words, comparison_sentence, modality_words, step_between

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult, TrialSummary

NO = Estimate(value=None, reason="14 blocks < 20")


def estimate(value: float, low: float | None = None, high: float | None = None, reason: str | None = None) -> Estimate:
    """With an interval, or the reason why not."""
    return Estimate(value=value, low=low, high=high, reason=reason)


def comparison(**ratios: Estimate) -> Comparison:
    """Of the windows before and after."""
    found = {"median_shift_ms": NO, "median_ratio": NO, "iqr_ratio": NO, "tail_ratio": NO, **ratios}
    return Comparison(phase_a="step", a="before", phase_b="step", b="after", **found)


def span(*rates_per_s: float, windows: tuple[tuple[str, float, float], ...]) -> PhaseSpan:
    """Steps of 40 s each."""
    steps = tuple(
        StepSpan(rate_per_s=rate, from_s=40.0 * place, to_s=40.0 * place + 40) for place, rate in enumerate(rates_per_s)
    )
    named = tuple(WindowSpan(name=name, from_s=begin, to_s=end) for name, begin, end in windows)
    return PhaseSpan(name="step", measured=True, from_s=0, to_s=40.0 * len(steps), steps=steps, windows=named)


STEP = span(2000, 4000, windows=(("before", 20, 40), ("after", 40, 60)))


@pytest.fixture
def trial(elastic: tuple[TrialResult, ...]) -> TrialSummary:
    """With the windows before and after."""
    return elastic[0].summary


def test_what_the_step_did_is_said_in_a_sentence(trial: TrialSummary) -> None:
    """It is read before the table."""
    told = comparison(median_ratio=estimate(1.1502, 1.1, 1.2))
    assert comparison_sentence(trial, told, [STEP]) == (
        "After the step from 2,000/s to 4,000/s the median was 1.15 times as high (1.10 to 1.20)."
    )


def test_spread_and_tail_follow_the_median(trial: TrialSummary) -> None:
    """The paper's finding for Aurora: the median returns, the spread doubles."""
    told = comparison(
        median_ratio=estimate(1.01, 0.98, 1.04), iqr_ratio=estimate(2.0, 1.8, 2.2), tail_ratio=estimate(0.5, 0.4, 0.61)
    )
    sentence = comparison_sentence(trial, told, [STEP])
    assert "1.01 times as high (0.98 to 1.04), which is no difference that can be told from chance." in sentence
    assert "The middle half of the latencies spread 2.00 times as wide (1.80 to 2.20)." in sentence
    assert sentence.endswith("p90 over median was 0.500 times as large (0.400 to 0.610).")


def test_a_ratio_without_an_interval_says_why(trial: TrialSummary) -> None:
    """A bare ratio would look as sure as any."""
    told = comparison(median_ratio=estimate(1.15, reason="14 blocks < 20"))
    assert "1.15 times as high (no interval: 14 blocks < 20)" in comparison_sentence(trial, told, [STEP])


def test_medians_that_cannot_be_compared_say_why(trial: TrialSummary) -> None:
    """Half of the events may lie beyond the drain limit."""
    assert comparison_sentence(trial, comparison(), [STEP]).endswith("the median cannot be compared: 14 blocks < 20.")


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
    """To blame a step that lies elsewhere would be wrong."""
    told = comparison(median_ratio=estimate(1.15, 1.1, 1.2))
    assert step_between(told, phases) is None
    assert comparison_sentence(trial, told, phases).startswith("In after, against before, the median was")


def change(**fields: Any) -> ChangePoint:  # noqa: ANN401 -- a change point's fields
    """Of the acknowledged rate."""
    found = {"phase": "step", "series": "achieved_per_s", "at_s": estimate(40.1, 40.0, 40.2), "p_value": 0.0005}
    return ChangePoint.model_validate(found | fields)


def test_no_change_is_said_with_its_probability() -> None:
    """The words of the brief; an empty cell would look like something not computed."""
    assert (
        change_words(change(at_s=Estimate(value=None, reason="no change"), p_value=0.4)) == "no change seen (p = 0.4)"
    )


def test_a_change_is_told_with_levels_place_and_distance_from_the_step() -> None:
    """Whether the store took a second or a minute to follow is the point of the experiment."""
    told = change_words(change(before=2000.0, after=3990.0), (40.0, 90.0))
    assert told == "changes from 2,000/s to 3,990/s at 40.10 s (40.00 to 40.20), 0.10 s after the step (p < 0.001)"


def test_a_change_may_lie_before_the_step_at_it_or_in_a_phase_without() -> None:
    """Latency may change for another reason."""
    latency = change(series="latency_ms", before=5.0, after=7.5, at_s=estimate(30.0), p_value=0.02)
    assert (
        change_words(latency, (40.0,))
        == "changes from 5.00 ms to 7.50 ms at 30.0 s, 10.00 s before the step (p = 0.02)"
    )
    assert ", at the step (" in change_words(change(), (40.1,))
    assert change_words(change(before=1.0)) == "changes at 40.10 s (40.00 to 40.20) (p < 0.001)"


def test_modes_are_told_in_words() -> None:
    """That a second mode is not seen does not say that there is none."""
    one = Modality(window="a", phase="b", p_value=0.4, modes_ms=(12.0,))
    assert modality_words(one) == "one mode near 12.0 ms; no second one seen (p = 0.4)"
    three = Modality(window="a", phase="b", p_value=0.002, modes_ms=(5.0, 12.0, 48.0))
    assert modality_words(three) == "3 modes, near 5.00 ms, 12.0 ms and 48.0 ms (p = 0.002 for one)"
    assert modality_words(Modality(window="a", phase="b", p_value=0.4)) == "one mode; no second one seen (p = 0.4)"
    assert modality_words(Modality(window="a", phase="b", reason="n=20 < 50")) == "not told: n=20 < 50"
