from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.plan import Phase
from stepbench.errors import PlanError
from stepbench.planning import parse_plan


def phase(**fields: Any) -> Phase:  # noqa: ANN401 -- a phase's fields
    """10 s at 100/s, then 20 s at 200/s and on, up to 15,000 events."""
    load = [{"rate_per_s": 100, "duration_s": 10}, {"rate_per_s": 200, "duration_s": 20}]
    until = {"metric": "p50", "relative_width": 0.05, "max_events": 15_000}
    return Phase.model_validate({"name": "steady", "load": load, "until": until, **fields})


def problems(**fields: Any) -> list[tuple[str, str]]:  # noqa: ANN401 -- a phase's fields
    """Path and message of what is wrong with a plan of that phase."""
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
    """As planned until something else is known; a phase that is not measured has none."""
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
