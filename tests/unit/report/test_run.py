from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.samples.results import STORES, sample_result, sample_window

from stepbench.report.run import trial_labels, window_label, window_labels, window_rows

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary


def a_trial(name: str, index: int, windows: tuple[tuple[str, str], ...] = (("unloaded", "unloaded"),)) -> TrialSummary:
    """Build a trial of that name, with windows given as (phase, name)."""
    summary = sample_result(STORES[0], index, random.Random(index)).summary  # noqa: S311 -- no secret
    made = tuple(sample_window(window, [1.0, 2.0]).model_copy(update={"phase": phase}) for phase, window in windows)
    return summary.model_copy(update={"name": name, "windows": made})


def test_trials_of_one_name_get_their_numbers() -> None:
    """Two curves called "s3" could not be told apart; a lone name needs no number."""
    trials = [a_trial("s3", 0), a_trial("etcd", 1), a_trial("s3", 2)]
    assert trial_labels(trials) == ("s3 (trial 1)", "etcd", "s3 (trial 3)")


def test_windows_of_one_name_get_their_phase() -> None:
    """Window names are unique within a phase only."""
    trial = a_trial("s3", 0, (("low", "steady"), ("high", "steady"), ("high", "peak")))
    assert window_labels(trial) == ("low / steady", "high / steady", "peak")


def test_a_trials_only_window_goes_by_the_trials_name() -> None:
    """The common report compares stores; "s3 · unloaded" would say nothing more than "s3"."""
    rows = window_rows([a_trial("s3", 0), a_trial("etcd", 1, (("step", "before"), ("step", "after")))])
    assert [row.label for row in rows] == ["s3", "etcd · before", "etcd · after"]


def test_labels_stay_apart_even_when_names_look_like_labels() -> None:
    """Names are the user's: one may look like what the report makes of another."""
    rows = window_rows([a_trial("s3 · a", 0), a_trial("s3", 1, (("p", "a"), ("p", "b")))])
    assert [row.label for row in rows] == ["s3 · a", "s3 · a (2)", "s3 · b"]


def test_a_single_window_is_found_by_phase_and_name() -> None:
    """Comparisons name windows by both; one that the trial does not have keeps its name."""
    trial = a_trial("s3", 0, (("low", "after"), ("high", "after")))
    assert window_label(trial, "high", "after") == "high / after"
    assert window_label(trial, "high", "before") == "before"
