"""What a verdict says, in one sentence that is read in a few seconds."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

import pytest
from tests.samples.comparisons import estimate, matrix, trial, window

from stepbench.analysis.effects import COMPARED_QUANTILES, Runs, compare_runs
from stepbench.analysis.verdict_text import MOST_WORDS, Names, OtherCause, describe_effects, describe_unanswered
from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.across_trials import Effect, Verdict
from stepbench.contracts.measures import Estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.across_trials import Finding
    from stepbench.contracts.measures import WindowResult

NAMES = Names("batching window s 300", "batching window s 60")
BEHIND = Estimate(value=1_234, low=900, reason="fell behind: kept up with 1,958.3 of 2,000.5/s")
BEYOND = Estimate(value=None, low=30_000, reason="> drain limit (30 s)")
SHORT = Estimate(value=1_234.5, reason="32 of 155807 independent < 3688")
NOTHING = Estimate(value=None, reason="nothing was measured")
UNTIL = (
    "12 runs of each would show 10 %",
    "runs differ too much: 30 of each would not show 10 %; a quieter machine, or both sides in turns, may",
    "",
)
CAUSES = (None, OtherCause("though the load rose", ""), OtherCause("by less than a bare trigger takes", ""))


def quantile(measure: str, ratio: float, finding: Finding, to_decide: str = "", half_width: float = 0.1) -> Effect:
    """Build an effect on a quantile."""
    b, a = estimate(1_234.5 * ratio), estimate(1_234.5)
    found = estimate(ratio, half_width)
    return Effect(measure=measure, a=a, b=b, ratio=found, finding=finding, to_decide=to_decide)


def unknown(measure: str, b: Estimate, a: Estimate, finding: Finding = "unknown") -> Effect:
    """Build an effect without an interval."""
    over = b.value / a.value if a.value and b.value else None
    ratio = Estimate(value=over, reason=b.reason or a.reason)
    return Effect(measure=measure, a=a, b=b, ratio=ratio, finding=finding)


def share(measure: Literal["lost", "errors"], finding: Finding) -> Effect:
    """Build an effect on a share."""
    a, b = (Estimate(value=each, low=each, high=each) for each in (0.0012, 0.0451))
    return Effect(measure=measure, a=a, b=b, difference=a, finding=finding)


def kinds(measure: str) -> Iterator[Effect]:
    """Yield every kind of effect on a quantile."""
    yield quantile(measure, 1 / 3.2, "lower")
    yield quantile(measure, 1_123.4, "higher")
    yield quantile(measure, 30, "higher", half_width=1.5)
    yield quantile(measure, 1.01, "same")
    yield from (quantile(measure, 1.21, "undecided", each, half) for each in UNTIL for half in (0.3, 3.0))
    yield unknown(measure, BEYOND, estimate(3), "higher")
    sides = (estimate(1_234), BEHIND, SHORT, NOTHING)
    yield from (unknown(measure, b, a) for b, a in itertools.product(sides, sides) if (b, a) != (sides[0], sides[0]))


def test_no_sentence_is_longer_than_twenty_five_words() -> None:
    """Over all kinds of findings at each quantile, with more or fewer errors and losses, and another cause."""
    every = [list(kinds(measure)) for measure in COMPARED_QUANTILES]
    others = [(), (share("lost", "higher"), share("errors", "higher")), (share("errors", "undecided"),)]
    texts = {
        describe_effects((*quantiles, *other), NAMES, cause)
        for quantiles in itertools.product(*every)
        for other, cause in itertools.product(others, CAUSES)
    }
    assert max(len(text.split()) for text in texts) <= MOST_WORDS
    assert all(text.endswith(".") and text.count(". ") == 0 for text in texts)
    assert not any("shorter" in text or "single runs" in text or "×" in text for text in texts)  # noqa: RUF001 -- times


def test_a_reason_of_any_length_is_cut() -> None:
    """Stores' names and addresses are part of some."""
    assert describe_unanswered("word " * 40) == f"Not answered: {' '.join(['word'] * (MOST_WORDS - 3))} …"
    assert describe_unanswered("It was never reached. It came one by one.") == "Not answered: It was never reached."


@pytest.mark.parametrize(
    ("effects", "said"),
    [
        (
            (quantile("p50", 1 / 3.2, "lower"),),
            "tls on is faster at p50: 386 against 1,234 ms, 3.2 times [2.9, 3.5].",
        ),
        (
            (quantile("p50", 1.3, "higher"), quantile("p90", 9.58, "higher"), quantile("p99", 0.5, "lower")),
            "tls on is slower at p90, faster at p99: 11.8 against 1.23 s, 9.6 times [8.7, 10.6]; also at p50.",
        ),
        (
            (quantile("p50", 30, "higher", half_width=1.5),),
            "tls on is slower at p50: 37.0 against 1.23 s, at least 6.7 times.",
        ),
        (
            (quantile("p50", 1.21, "undecided", UNTIL[0], 3.0),),
            (
                "tls on is undecided at p50: 1,494 against 1,234 ms, not known within a factor of ten; "
                "12 runs of each would show 10 %."
            ),
        ),
        (
            (quantile("p50", 1.21, "undecided", UNTIL[1], 0.3),),
            "tls on is undecided at p50: 1,494 against 1,234 ms, 1.21 times [0.90, 1.63]; runs differ too much.",
        ),
        (
            (quantile("p50", 1.01, "same"), share("errors", "higher")),
            "tls on has more errors: 4.5 % against 0.1 %; latency is the same within 10 %.",
        ),
        ((unknown("p50", BEYOND, estimate(3), "higher"),), "tls on is slower at p50: over 30.0 s against 3.00 ms."),
        (
            (unknown("p50", BEHIND, estimate(3)),),
            "Not decided: tls on fell behind and kept up with 1,958.3 of 2,000.5/s.",
        ),
        ((unknown("p50", BEHIND, BEHIND),), "Not decided: tls on and tls off both fell behind."),
        (
            (unknown("p50", SHORT, estimate(3)),),
            "Not decided: p50 is 1,234 against 3.00 ms, without an interval (only 32 of 155807 independent).",
        ),
    ],
)
def test_each_finding_has_its_sentence(effects: tuple[Effect, ...], said: str) -> None:
    """The largest difference that is shown comes first."""
    assert describe_effects(effects, Names("tls on", "tls off")) == said


def test_tails_that_differ_in_all_repeats_alike_are_told_first() -> None:
    """p90 of 11.9 against 114 ms in each of three repeats, of which 32 events are worth one: once a verdict on p50."""
    reason = "32 of 200 independent < 36"
    runs = [
        Runs([_with_p90(2.0, Estimate(value=p90 * more, reason=reason)) for more in (0.97, 1.0, 1.04)])
        for p90 in (114.0, 11.9)
    ]
    effects = compare_runs(*runs)
    assert describe_effects(effects, Names("B", "A")).startswith("B is slower at p90: 114 against 11.9 ms, 9.6 times [")


@pytest.mark.parametrize(
    "behind",
    [BEHIND, BEYOND.model_copy(update={"reason": f"{BEYOND.reason}; {BEHIND.reason}"})],
    ids=["known", "beyond"],
)
def test_what_fell_behind_decides_nothing(behind: Estimate) -> None:
    """Neither latency nor errors: both grow with the length of the run, be it within or beyond the drain limit."""
    one, other = matrix("writers", {1: [1.0], 2: [60.0]})
    grown = _with_p90(60.0, behind).model_copy(update={"kept_up_per_s": 1958.3})
    times = grown.latency_ms.model_copy(update={"p50": behind, "p99": behind})
    grown = grown.model_copy(update={"latency_ms": times})
    (found,) = plan_verdicts([one, other.model_copy(update={"windows": (grown,)})])
    assert {effect.finding for effect in found.effects} == {"unknown"}
    assert found.text.startswith("Not decided: writers 2 fell behind and kept up with 1,958.3")
    assert Verdict.model_validate_json(found.model_dump_json()).newly_behind


def test_windows_are_called_by_their_names() -> None:
    """As the plan has them."""
    (found,) = plan_verdicts([trial("etcd", window(estimate(1), "before"), window(estimate(2), "after"))])
    assert found.text.startswith(
        "after is slower at p50 by less than a bare trigger takes: 2.00 against 1.00 ms, 2.00 times ["
    )


def _with_p90(p50_ms: float, p90: Estimate) -> WindowResult:
    made = window(estimate(p50_ms))
    return made.model_copy(update={"latency_ms": made.latency_ms.model_copy(update={"p90": p90})})
