"""One sentence for the repeats of a trial, and one for a trial without any."""

from __future__ import annotations

from tests.samples.comparisons import estimate, matrix, trial, window
from tests.samples.results import sample_results, sample_summary

from stepbench.experiments.report.answer import answers
from stepbench.report.groups import groups


def test_repeats_have_one_sentence() -> None:
    """Six of them would hide what they say; the range tells how far runs lie apart."""
    run = sample_summary(sample_results()).model_copy(update={"trials": tuple(matrix("writers", {1: [1.0, 2.0, 1.5]}))})
    (answer,) = answers(run, groups(run.trials))
    assert answer.label == "etcd.1"
    arrived = f"all {3 * window(estimate(1)).n} events arrived."
    assert answer.text.startswith(
        "Median 1.4 ms (0.6 to 3.4; runs 1.00 to 2.00), p90 2.9 ms (1.2 to 6.9; runs 2.00 to "
    )
    assert answer.text.endswith(arrived)


def test_a_trial_without_repeats_has_its_own() -> None:
    """With its own interval."""
    run = sample_summary(sample_results()).model_copy(update={"trials": (trial("etcd", window(estimate(1))),)})
    (answer,) = answers(run, groups(run.trials))
    assert answer.text.startswith("Median 1.000 ms (0.980 to 1.020)")
