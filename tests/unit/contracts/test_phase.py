from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from stepbench.contracts.phase import LoadStep, Phase, Window
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import S3Target
from stepbench.errors import PlanError
from stepbench.planning import parse_plan


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
    """Every measured phase shows up in the report."""
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


def phase(**fields: Any) -> Phase:  # noqa: ANN401 -- a phase's fields
    """Return a phase of 10 s at 100/s, then 20 s at 200/s and on, up to 15,000 events."""
    load = [{"rate_per_s": 100, "duration_s": 10}, {"rate_per_s": 200, "duration_s": 20}]
    until = {"metric": "p50", "relative_width": 0.05, "max_events": 15_000}
    return Phase.model_validate({"name": "steady", "load": load, "until": until, **fields})


def problems(**fields: Any) -> list[tuple[str, str]]:  # noqa: ANN401 -- a phase's fields
    """Return path and message of what is wrong with a plan of that phase."""
    shown = {"name": "steady", "load": [{"rate_per_s": 100, "duration_s": 10}], **fields}
    plan = {"name": "plan", "trials": [{"target": {"store": "etcd"}, "phases": [shown]}]}
    with pytest.raises(PlanError) as caught:
        parse_plan(plan)
    return [(problem.path, problem.message) for problem in caught.value.problems]


def test_the_last_step_is_prolonged_to_where_until_gives_up() -> None:
    """1,000 events in the first step leave 14,000 at 200/s: 70 s."""
    steps = phase().steps
    assert [(step.rate_per_s, step.length_s) for step in steps] == [(100, 10), (200, 70)]
    assert (phase().shortest_s, phase().length_s, phase().events) == (30, 80, 15_000)


def test_events_are_due_by_their_steps_rates() -> None:
    """5 s of the first; the first and 20 s of the second; never more than all."""
    assert [phase().events_by(at_s) for at_s in (5, 30, 1_000)] == [500, 5_000, 15_000]


def test_without_until_nothing_is_prolonged() -> None:
    """The load is the schedule."""
    plain = phase(until=None)
    assert plain.steps == plain.load
    assert plain.length_s == plain.shortest_s == 30


def test_the_window_ends_where_the_phase_did() -> None:
    """The planned end holds until another is known; a phase that is not measured has no window."""
    assert [window.to_s for window in (*phase().all_windows(), *phase().all_windows(42.5))] == [80, 42.5]
    assert phase(measured=False, until=None).all_windows(3) == ()


UNTIL = {"relative_width": 0.05, "max_events": 5_000}


@pytest.mark.parametrize(
    ("fields", "path", "said"),
    [
        ({"measured": False, "until": UNTIL}, "until", "measured: false"),
        ({"windows": [{"name": "a", "from_s": 1, "to_s": 2}], "until": UNTIL}, "windows", "are fixed"),
        ({"load": [{"rate_per_s": 100, "count": 10}], "until": UNTIL}, "load[0].count", "prolongs the last step"),
        ({"until": {**UNTIL, "max_events": 999}}, "until.max_events", "below the 1,000 events"),
        ({"until": {**UNTIL, "max_events": 60_001}}, "until.max_events", "up to 600 s"),
        ({"until": {**UNTIL, "relative_width": 0}}, "until.relative_width", "greater than 0"),
        ({"until": {**UNTIL, "metric": "mean"}}, "until.metric", "not one of the choices"),
    ],
)
def test_what_cannot_be_done_is_refused_where_it_stands(fields: dict[str, Any], path: str, said: str) -> None:
    """Before anything is created; the remedy names the field."""
    found = problems(**fields)
    assert any(where == f"trials[0].phases[0].{path}" and said in message for where, message in found), found


def test_a_rate_that_is_still_to_be_found_has_no_known_length() -> None:
    """max_events at an unknown rate may take hours."""
    load = [{"rate_per_s": 100, "duration_s": 10, "of_found": 1}]
    assert any("still to be found" in message for _, message in problems(load=load, until=UNTIL))
