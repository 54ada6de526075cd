from __future__ import annotations

import pytest
from pydantic import ValidationError

from stepbench.contracts.plan import LoadStep, Phase, TrialPlan, Window
from stepbench.contracts.target import S3Target


def test_a_step_by_duration_offers_rate_times_duration() -> None:
    """0.1/s over 30 s is 3, though 0.1 * 30 is 3.0000000000000004 in floating point, and 2.9999 elsewhere."""
    assert LoadStep(rate_per_s=0.1, duration_s=30).events == 3
    assert LoadStep(rate_per_s=1 / 3, duration_s=9).events == 3
    assert LoadStep(rate_per_s=2, duration_s=1.9).events == 3


def test_a_step_by_count_lasts_count_over_rate() -> None:
    """200 events at 20/s take 10 s."""
    assert LoadStep(rate_per_s=20, count=200).length_s == 10


@pytest.mark.parametrize(("duration_s", "slices"), [(1, 1), (600, 1), (600.5, 2), (1_200, 2), (2_400, 4)])
def test_a_phase_is_cut_into_slices_of_ten_minutes(duration_s: float, slices: int) -> None:
    """A function lives for 15 minutes at most."""
    assert Phase(name="a", load=(LoadStep(rate_per_s=1, duration_s=duration_s),)).slices == slices


def test_a_phase_without_windows_is_one_window() -> None:
    """So that every measured phase shows up in the report."""
    load = (LoadStep(rate_per_s=10, count=20), LoadStep(rate_per_s=1, duration_s=3))
    assert Phase(name="a", load=load).all_windows() == (Window(name="a", from_s=0, to_s=5),)
    assert Phase(name="a", measured=False, load=load).all_windows() == ()
    own = (Window(name="w", from_s=1, to_s=2),)
    assert Phase(name="a", load=load, windows=own).all_windows() == own


def test_a_trial_s_length_counts_settling() -> None:
    """The estimate of provisioned capacity is by time."""
    phase = Phase(name="a", settle_s=7, load=(LoadStep(rate_per_s=10, count=20),))
    trial = TrialPlan(target=S3Target(store="s3"), phases=(phase,))
    assert (trial.length_s, trial.events) == (9, 20)


def test_a_writer_has_its_share_of_the_clients() -> None:
    """Client c is one of writer c mod writers: the first has one more where they do not divide. Open load has none."""
    closed = {"name": "closed", "closed": {"clients": 7, "duration_s": 1}}
    opened = {"name": "open", "load": [{"rate_per_s": 10, "duration_s": 1}]}
    plan = {"experiment": "operations", "target": {"store": "etcd"}, "workload": {"mix": {"insert": 1}}, "writers": 2}
    assert TrialPlan.model_validate({**plan, "phases": [closed, opened]}).clients_of_writer == 4
    assert TrialPlan.model_validate({**plan, "phases": [opened]}).clients_of_writer == 0


def test_a_broken_rule_says_field_and_remedy_even_outside_of_parse_plan() -> None:
    """Stages and tests build plans from Python, and read pydantic's own error."""
    with pytest.raises(ValidationError, match=r"count: stands beside duration_s \(1\)\. Remove one of the two\."):
        LoadStep(rate_per_s=1, duration_s=1, count=1)
