"""Progress: what people read while they wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepbench.contracts.plan import LoadStep, Phase, Plan, TrialSpec, Until
from stepbench.local.progress import (
    Overheads,
    PhaseStart,
    Snapshot,
    activity,
    left_s,
    line,
    sent,
    share_done,
    trial_s,
)
from stepbench.planning import expand

S = 10**9
START_NS = 1_700_000_000 * S
COSTS = Overheads(prepare_s=10, phase_s=5, finish_s=20, report_s=3)


@pytest.fixture
def specs() -> tuple[TrialSpec, ...]:
    """Two trials of 40 s each: a warm-up of 10 s, 5 s of rest, 25 s measured."""
    phases = [
        {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 10, "duration_s": 10}]},
        {"name": "steady", "settle_s": 5, "load": [{"rate_per_s": 40, "duration_s": 25}]},
    ]
    trials = [{"target": {"store": store}, "phases": phases} for store in ("s3", "etcd")]
    return expand(Plan.model_validate({"name": "two", "trials": trials}), "run-1")


def at(specs: tuple[TrialSpec, ...], now_s: float, **known: object) -> Snapshot:
    """What is known `now_s` seconds after the start."""
    snapshot = Snapshot(specs, START_NS, START_NS + int(now_s * S))
    return Snapshot(**{**vars(snapshot), **known})


def phase(index: int, start_s: float) -> PhaseStart:
    """A phase whose time zero is so many seconds after the run's start."""
    return PhaseStart(index, START_NS + int(start_s * S))


def test_a_trial_takes_its_load_its_rests_and_the_orchestration(specs: tuple[TrialSpec, ...]) -> None:
    """10 to prepare, 40 of load and rest, 2 x 5 for phases, 20 to finish."""
    assert trial_s(specs[0], COSTS) == 80


@pytest.mark.parametrize(
    ("now_s", "known", "expected_s"),
    [
        (0, {}, 80 + 80 + 3),
        (1, {"trial": 0}, 80 + 80 + 3),
        (20, {"trial": 0, "phase": phase(0, 18)}, (10 - 2) + (5 + 25 + 5) + 20 + 80 + 3),
        (40, {"trial": 0, "phase": phase(1, 35)}, (25 - 5) + 20 + 80 + 3),
        (90, {"trial": 0, "phase": phase(1, 35)}, 20 + 80 + 3),
        (100, {"trial": None, "done": 1}, 80 + 3),
        (100, {"trial": 1, "done": 1}, 80 + 3),
        (180, {"trial": None, "done": 2}, 3),
    ],
)
def test_the_time_left_counts_what_is_still_to_come(
    specs: tuple[TrialSpec, ...], now_s: float, known: dict[str, object], expected_s: float
) -> None:
    """Worked by hand; a phase that is overdue has nothing left, never less than nothing."""
    assert left_s(at(specs, now_s, **known), COSTS) == expected_s


@pytest.mark.parametrize(
    ("now_s", "known", "expected"),
    [
        (0, {}, "validating the plan"),
        (1, {"trial": 0}, "preparing the target"),
        (15, {"trial": 0, "phase": phase(0, 18)}, "phase warm-up: writers get ready"),
        (20, {"trial": 0, "phase": phase(0, 18)}, "phase warm-up"),
        (30, {"trial": 0, "phase": phase(0, 18)}, "after phase warm-up"),
        (70, {"trial": 0, "phase": phase(1, 35)}, "arrivals and analysis"),
        (180, {"trial": None, "done": 2}, "writing the report"),
    ],
)
def test_the_activity_follows_the_clock(
    specs: tuple[TrialSpec, ...], now_s: float, known: dict[str, object], expected: str
) -> None:
    """A phase's plan fixes when it begins and ends, so no request is needed to know where it is."""
    assert activity(at(specs, now_s, **known)) == expected


def test_the_line_says_where_the_run_is(specs: tuple[TrialSpec, ...]) -> None:
    """Phase, events sent and received, time left: what issue 2 asks to be shown."""
    snapshot = at(specs, 40, trial=1, done=1, phase=phase(1, 35), sent=1_034, received=1_000)
    assert line(snapshot, COSTS) == (
        "trial 2/2 etcd · phase steady · sent 1,034 of 1,100, received 1,000 · about 43 s left"
    )


def test_what_two_watchers_saw_is_not_received_beyond_the_plan(specs: tuple[TrialSpec, ...]) -> None:
    """Both have what came while one took over from the other, and both are in the table."""
    snapshot = at(specs, 40, trial=1, done=1, phase=phase(1, 35), sent=1_100, received=1_117)
    assert "sent 1,100 of 1,100, received 1,100 " in line(snapshot, COSTS)


def test_a_phase_that_may_end_early_is_shown_at_its_longest_until_it_has(specs: tuple[TrialSpec, ...]) -> None:
    """600 events at 40/s at most, 15 s; stopped after 12 s there is nothing left of it."""
    until = Until(relative_width=0.1, max_events=600)
    load = (LoadStep(rate_per_s=40, duration_s=10),)
    spec = specs[1].model_copy(
        update={"plan": specs[1].plan.model_copy(update={"phases": (Phase(name="p", load=load, until=until),)})}
    )
    running = {"trial": 1, "done": 1, "phase": phase(0, 20)}
    before = at((specs[0], spec), 33, **running)
    assert (left_s(before, COSTS), activity(before)) == (2 + 20 + 3, "phase p")
    assert "sent 0 of up to 600" in line(before, COSTS)
    stopped = replace(phase(0, 20), stop_at_ns=START_NS + 32 * S)
    after = at((specs[0], spec), 33, **{**running, "phase": stopped})
    assert (left_s(after, COSTS), activity(after)) == (20 + 3, "arrivals and analysis")


def test_the_line_explains_why_less_arrives_than_was_sent(specs: tuple[TrialSpec, ...]) -> None:
    """Half of it missing would look like a loss."""
    record = specs[1].plan.record.model_copy(update={"matching_share": 0.5})
    filtered = specs[1].model_copy(update={"plan": specs[1].plan.model_copy(update={"record": record})})
    snapshot = at((specs[0], filtered), 40, trial=1, done=1, phase=phase(1, 35), sent=100, received=50)
    assert "sent 100 of 1,100, received 50 (the filter lets 0.5 pass)" in line(snapshot, COSTS)


def test_between_trials_the_line_has_no_events(specs: tuple[TrialSpec, ...]) -> None:
    """Zeros would look like a loss."""
    assert line(at(specs, 0), COSTS) == "validating the plan · about 2 min 43 s left"


def test_writers_counters_are_summed_and_watchers_left_out() -> None:
    """A watcher's own counter counts arrivals."""
    beats: dict[str, dict[str, object]] = {
        "writer#00-0000-0000-00": {"progress": {"sent": 3, "ok": 2}},
        "writer#00-0001-0000-00": {"progress": {"sent": 4}, "ended": True},
        "writer#00-0002-0000-00": {},
        "watcher#0": {"progress": {"sent": 50}},
    }
    assert sent(beats) == 7


def test_the_share_done_is_a_share_of_time(specs: tuple[TrialSpec, ...]) -> None:
    """37 s gone and 3 left make 92.5 %."""
    assert share_done(at(specs, 37, done=2), COSTS) == pytest.approx(37 / 40)


def test_a_run_without_anything_left_is_done(specs: tuple[TrialSpec, ...]) -> None:
    """No division by zero at the very end of a run that took no time."""
    free = Overheads(0, 0, 0, 0)
    assert share_done(at(specs, 0, done=2), free) == 1.0
