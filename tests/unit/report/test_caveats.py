"""Caveats by kind, in place of six times the same."""

from __future__ import annotations

from tests.samples.comparisons import etcd_trials
from tests.samples.results import EMULATED

from stepbench.report.caveats import caveat_groups


def test_a_kind_is_told_once_with_how_many_trials_have_it() -> None:
    """Six times the same would be read once at most."""
    trials = [trial.model_copy(update={"caveats": (EMULATED,)}) for trial in etcd_trials(5)]
    (group,) = caveat_groups([*trials, etcd_trials(6)[-1]])
    assert (group.kind, group.extent) == ("emulated", "5 of 6 trials")
    assert [group.label(trial) for trial, _ in group.caveats] == ["t0", "t1", "t2", "t3", "t4"]


def test_one_trial_needs_no_count() -> None:
    """There is no other."""
    (trial,) = etcd_trials(1)
    (group,) = caveat_groups([trial.model_copy(update={"caveats": (EMULATED,)})])
    assert group.extent == ""
    assert caveat_groups([trial]) == ()
