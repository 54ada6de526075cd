"""A run's answer in a line or two: what it is made of, and where it may be cut."""

from __future__ import annotations

import pytest
from tests.samples.comparisons import etcd, run
from tests.samples.results import sample_results, sample_summary

from stepbench.analysis.verdicts import plan_verdicts
from stepbench.experiments.report.headline import headline_lines
from stepbench.experiments.report.short_answer import short_answer
from stepbench.report.run import fit


def test_the_answer_of_a_run_that_compares_is_its_first_verdict() -> None:
    """The p50 of the first trial answers nothing."""
    trials = (etcd(2.0, "slow"), etcd(1.0, "fast"))
    summary = run(*trials).model_copy(update={"verdicts": plan_verdicts(trials)})
    (line,) = short_answer(summary)
    assert line.startswith("fast against slow: ")


def test_without_a_verdict_it_is_a_line_for_each_trial() -> None:
    """As the report has them."""
    summary = sample_summary(sample_results())
    assert short_answer(summary) == headline_lines(summary)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (85, "a: n 1,800, p50 8.53 ms [8.41, 8.70], lost 0; b: n 20, p50 9 ms (no interval: 1, 2)"),
        (60, "a: n 1,800, p50 8.53 ms [8.41, 8.70], lost 0; b: n 20, …"),
        (36, "a: n 1,800, …"),
        (5, "a: n…"),
    ],
)
def test_no_number_and_no_interval_is_cut(width: int, text: str) -> None:
    """One that is cut off is another number."""
    lines = ("a: n 1,800, p50 8.53 ms [8.41, 8.70], lost 0", "b: n 20, p50 9 ms (no interval: 1, 2).")
    assert fit(lines, width) == text
