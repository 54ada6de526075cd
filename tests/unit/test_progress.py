"""Progress: what people read while they wait."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from tests.samples.dags import dataflow_trial
from tests.samples.refusals import plan_of

from stepbench.contracts.function import MeasuredFunction
from stepbench.contracts.phase import LoadStep, Phase, Until
from stepbench.contracts.plan import Plan, TrialSpec
from stepbench.costs.assumptions import AWS
from stepbench.planning import expand, parse_plan
from stepbench.planning.presets import find_preset
from stepbench.planning.wall_time import Overheads, run_s, trial_s
from stepbench.progress import (
    PhaseStart,
    RecentRate,
    Snapshot,
    activity,
    counted,
    fitted_lines,
    last_beat_ns,
    left_s,
    line,
    phase_times,
    share_done,
)

S = 10**9
START_NS = 1_700_000_000 * S
COSTS = Overheads(prepare_s=10, phase_s=5, finish_s=20, report_s=3)


def two_trials() -> tuple[TrialSpec, ...]:
    """Return two trials of 40 s each: a warm-up of 10 s, 5 s of rest, 25 s measured."""
    phases = [
        {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 10, "duration_s": 10}]},
        {"name": "steady", "settle_s": 5, "load": [{"rate_per_s": 40, "duration_s": 25}]},
    ]
    trials = [{"target": {"store": store}, "phases": phases} for store in ("s3", "etcd")]
    return expand(Plan.model_validate({"name": "two", "trials": trials}), "run-1")


@pytest.fixture
def specs() -> tuple[TrialSpec, ...]:
    """Return the trials of the tests' runs."""
    return two_trials()


def at(specs: tuple[TrialSpec, ...], now_s: float, **known: object) -> Snapshot:
    """Return what is known `now_s` seconds after the start."""
    snapshot = Snapshot(specs, START_NS, START_NS + int(now_s * S))
    return Snapshot(**{**vars(snapshot), **known})


def phase(index: int, start_s: float) -> PhaseStart:
    """Return a phase whose time zero is so many seconds after the run's start."""
    return PhaseStart(index, START_NS + int(start_s * S))


def test_executions_that_follow_each_other_take_their_levels_and_not_the_bound() -> None:
    """By hand: 6 of one client, of three levels each, 1 s a level, and not the 100 s that the load may last."""
    closed = {"closed": {"clients": 1, "operations": 6, "duration_s": 100}}
    trial = plan_of(dataflow_trial(phases=[{"name": "first", **closed}, {"name": "second", **closed}]))
    (spec,) = expand(Plan.model_validate(trial), "run-1")
    costs = replace(COSTS, assumed=replace(AWS, level_s=0.5, task_s={"": 0.5}))
    assert trial_s(spec.plan, costs) == 10 + 2 * (5 + 6 * 3) + 20
    in_the_first = at((spec,), 20, trial=0, phase=phase(0, 15))
    timed = at((spec,), 20, trial=0, phase=phase(0, 15), sent=2, service_times=Counter({320: 2}))
    assert " · this trial: 2 executions · 0 errors · start p50 ~1.1 ms" in line(timed, costs)
    assert left_s(in_the_first, costs) == (6 * 3 - 5) + (5 + 6 * 3) + 20 + costs.report_s


def test_a_trial_takes_its_load_its_rests_and_the_orchestration(specs: tuple[TrialSpec, ...]) -> None:
    """It takes 10 to prepare, 40 of load and rest, 2 x 5 for phases, and 20 to finish."""
    assert trial_s(specs[0].plan, COSTS) == 80


def test_a_phase_that_follows_without_a_gap_costs_no_orchestration() -> None:
    """Its writers start with those of the phase before: 10 to prepare, 15 of load, 5 for phases, 20 to finish."""
    phases = [
        {"name": "warm-up", "load": [{"rate_per_s": 1, "count": 10}]},
        {"name": "step", "gapless": True, "load": [{"rate_per_s": 1, "count": 5}]},
    ]
    plan = Plan.model_validate({"name": "one", "trials": [{"target": {"store": "s3"}, "phases": phases}]})
    (spec,) = expand(plan, "run-1")
    assert trial_s(spec.plan, COSTS) == 10 + 15 + 5 + 20
    begun = at((spec,), 1, trial=0, phase=phase(0, 0))
    assert left_s(begun, COSTS) == 9 + 5 + 20 + COSTS.report_s


def test_a_run_is_predicted_as_long_as_its_progress_begins_with(specs: tuple[TrialSpec, ...]) -> None:
    """`stepbench validate` says before what the bar says then."""
    assert run_s((spec.plan for spec in specs), COSTS) == 80 + 80 + 3


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
    """Values are worked by hand; a phase that is overdue has nothing left, never less than nothing."""
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


@pytest.mark.parametrize(
    ("sent", "received", "shown"),
    [
        pytest.param(1_034, 1_000, "sent 1,034 of 1,100, received 1,000", id="both counts"),
        pytest.param(1_100, 1_117, "sent 1,100 of 1,100, received 1,100", id="some were seen by two watchers"),
    ],
)
def test_the_line_says_where_the_run_is(specs: tuple[TrialSpec, ...], sent: int, received: int, shown: str) -> None:
    """It has phase, events sent and received, and time left; never more received than the plan has."""
    snapshot = at(specs, 40, trial=1, done=1, phase=phase(1, 35), sent=sent, received=received)
    assert line(snapshot, COSTS) == f"trial 2/2 etcd · phase steady · this trial: {shown} · 0 errors · about 43 s left"


def test_a_phase_that_may_end_early_is_shown_at_its_longest_until_it_has(specs: tuple[TrialSpec, ...]) -> None:
    """It has 600 events at 40/s at most, 15 s; stopped after 12 s there is nothing left of it."""
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
    record = specs[1].offered.record.model_copy(update={"matching_share": 0.5})
    filtered = specs[1].model_copy(update={"plan": specs[1].plan.model_copy(update={"record": record})})
    snapshot = at((specs[0], filtered), 40, trial=1, done=1, phase=phase(1, 35), sent=100, received=50)
    assert "sent 100 of 1,100, received 50 (the filter lets 0.5 pass)" in line(snapshot, COSTS)


def test_what_a_measured_function_has_received_is_not_counted_before_it_is_read(specs: tuple[TrialSpec, ...]) -> None:
    """Its log is read after the load: "received 0" until then would look like a loss."""
    function = MeasuredFunction(name="orders")
    target = specs[1].plan.target.model_copy(update={"function": function})
    measured = specs[1].model_copy(update={"plan": specs[1].plan.model_copy(update={"target": target})})
    running = {"trial": 1, "done": 1, "phase": phase(1, 35), "sent": 100}
    assert "sent 100 of 1,100 · 0 errors" in line(at((specs[0], measured), 40, **running), COSTS)
    assert "sent 100 of 1,100, received 90" in line(at((specs[0], measured), 40, **running, received=90), COSTS)


@pytest.mark.parametrize("width", [80, 100, 160])
@pytest.mark.parametrize("name", ["s3", "dynamodb-streams-batch-size-100-poisson-arrivals-writers-8-repeat-12"])
def test_no_line_is_longer_than_the_terminal_and_only_the_name_is_shortened(
    specs: tuple[TrialSpec, ...], width: int, name: str
) -> None:
    """A line that wraps is drawn anew below itself, twice a second; names of trials differ at their ends."""
    named = specs[0].model_copy(update={"name": name})
    known = {"trial": 0, "phase": phase(1, 35), "sent": 1_034, "received": 1_000, "errors": 3, "rate_per_s": 39.8}
    snapshot = at((named, specs[1]), 40, **known)
    first, *others = lines = fitted_lines(snapshot, COSTS, width - 30, width)
    assert len(first) <= width - 30
    assert all(len(each) <= width for each in others)
    assert first.startswith(f"trial 1/2 {name[:2]}")
    assert f"{name[-2:]} · phase steady" in first
    expected = {"phase steady", "this trial: sent 1,034 of 1,100, received 1,000", "3 errors", "40/s"}
    assert expected <= set(" · ".join(lines).split(" · "))


def test_what_is_too_long_without_a_name_is_shortened_too(specs: tuple[TrialSpec, ...]) -> None:
    """A target's holder has a run's id in its name, of up to 80 characters."""
    waiting = {"trial": 0, "trial_seen_ns": START_NS, "holder": f"trial 2 of run {'x' * 80}"}
    first, *others = fitted_lines(at(specs, 35, **waiting), COSTS, 50, 80)
    assert first == "trial 1/2 s3"
    assert others[0].startswith("waiting for the target, which trial 2")
    assert others[0].endswith("xx holds")
    assert len(others[0]) == 80


def test_a_rate_is_that_of_the_last_seconds() -> None:
    """From the trial's beginning on, it would hide that writers have stopped; over one heartbeat it would flicker."""
    rate, seen = RecentRate(), []
    for second, count in [(0, 0), (2, 90), (4, 200), (12, 600), (14, 600), (24, 600)]:
        rate.add(second * S, count)
        seen.append(rate.per_s)
    assert seen == [None, None, 50.0, (600 - 90) / 10, (600 - 200) / 10, 0.0]


def test_counters_are_as_old_as_the_latest_heartbeat() -> None:
    """It is read up to three seconds later: by then's clock, 200/s looked like 159 and like 212."""
    beats: dict[str, dict[str, object]] = {
        "writer#00-0000-0000-00": {"at_ns": 5},
        "writer#00-0001-0000-00": {"at_ns": 7},
        "watcher#0": {"at_ns": 9},
    }
    assert last_beat_ns(beats) == 7
    assert last_beat_ns({"watcher#0": {"at_ns": 9}}) is None


def test_service_times_are_those_of_the_phases_writers() -> None:
    """A phase is numbered in hexadecimal; the warm-up's times would make the load look slow."""
    beats: dict[str, dict[str, object]] = {
        "writer#0a-0000-0000-00": {"service_times": "320:3 328:1"},
        "writer#0a-0001-0000-00": {"service_times": "320:2"},
        "writer#0a-0002-0000-00": {},
        "writer#00-0000-0000-00": {"service_times": "400:9"},
        "watcher#0": {},
    }
    assert phase_times(beats, 10) == {320: 5, 328: 1}


@pytest.mark.parametrize(("kind", "named"), [("trigger", "write"), ("operations", "service time")])
def test_the_quantiles_are_named_for_what_they_are(specs: tuple[TrialSpec, ...], kind: str, named: str) -> None:
    """Of a trigger it is the write alone; the mark says that they have no interval. 2 ** 20.03 ns are 1.07 ms."""
    spec = specs[0].model_copy(update={"plan": specs[0].plan.model_copy(update={"experiment": kind})})
    known = {"trial": 0, "phase": phase(0, 18), "sent": 100}
    times = Counter({320: 98, 400: 2})
    assert f" · {named} p50 ~1.1 ms, p99 ~34 ms · " in line(at((spec,), 20, **known, service_times=times), COSTS)
    assert "p50" not in line(at((spec,), 20, **known), COSTS)


def test_between_phases_no_rate_is_shown(specs: tuple[TrialSpec, ...]) -> None:
    """It would be that of the phase before."""
    known = {"trial": 0, "phase": phase(0, 18), "sent": 100, "errors": 1, "rate_per_s": 10.0}
    assert " · 1 error · 10/s · " in line(at(specs, 20, **known), COSTS)
    assert "/s" not in line(at(specs, 30, **known), COSTS)


def test_between_trials_the_line_has_no_events(specs: tuple[TrialSpec, ...]) -> None:
    """Zeros would look like a loss."""
    assert line(at(specs, 0), COSTS) == "validating the plan · about 2 min 43 s left"


@pytest.mark.parametrize(
    ("preset", "known", "shown"),
    [
        ("quick-transfer", {}, r"this trial: read 1 of \d+ files · 0 errors"),
        ("quick-clients", {"phase": phase(0, 18)}, "this trial: 1 operation · 0 errors"),
        ("quick-dataflow", {"phase": phase(0, 18)}, "this trial: 1 execution · 0 errors"),
        ("quick-invoked", {"phase": phase(0, 18)}, "phase warm-up · about"),
    ],
)
def test_each_experiment_counts_what_it_does(preset: str, known: dict[str, object], shown: str) -> None:
    """Files, operations and executions, each in the singular, too; of invocations only those that last would count."""
    specs = expand(parse_plan(find_preset(preset)), "run-1")
    assert re.search(shown, line(at(specs, 20, trial=0, sent=1, **known), COSTS))


def test_a_trial_that_waits_says_for_whom_and_how_long_at_most(specs: tuple[TrialSpec, ...]) -> None:
    """It may be ten minutes, and somebody wonders whether the run hangs."""
    waiting = {"trial": 0, "trial_seen_ns": START_NS + 5 * S, "holder": "trial 2 of run other"}
    text = line(at(specs, 35, **waiting), COSTS)
    assert "waiting for the target, which trial 2 of run other holds · at most 9 min 30 s more" in text
    assert "at most 0 s more" in line(at(specs, 5_000, **waiting), COSTS)
    assert activity(at(specs, 35, **waiting)) == activity(at(specs, 36, **waiting))  # or a log would get each second
    assert "more" not in line(at(specs, 40, **waiting, phase=phase(0, 38)), COSTS)


def test_writers_counters_are_summed_and_watchers_left_out() -> None:
    """A watcher's own counter counts arrivals."""
    beats: dict[str, dict[str, object]] = {
        "writer#00-0000-0000-00": {"progress": {"sent": 3, "ok": 2, "failed": 1}},
        "writer#00-0001-0000-00": {"progress": {"sent": 4, "failed": 1, "unknown": 2}, "ended": True},
        "writer#00-0002-0000-00": {},
        "watcher#0": {"progress": {"sent": 50}},
    }
    assert (counted(beats, "sent"), counted(beats, "failed", "unknown")) == (7, 4)


@pytest.mark.parametrize(
    ("now_s", "overheads", "share"),
    [pytest.param(37, COSTS, 37 / 40, id="3 s are left"), pytest.param(0, Overheads(0, 0, 0, 0), 1.0, id="no time")],
)
def test_the_share_done_is_a_share_of_time(
    specs: tuple[TrialSpec, ...], now_s: float, overheads: Overheads, share: float
) -> None:
    """Nothing is divided by zero at the very end of a run that took no time."""
    assert share_done(at(specs, now_s, done=2), overheads) == pytest.approx(share)


@pytest.mark.parametrize(("ahead", "behind"), [(1, "another run"), (3, "3 other runs")])
def test_a_run_that_waits_for_its_turn_says_so(ahead: int, behind: str) -> None:
    """Otherwise it would seem to validate its plan for an hour."""
    snapshot = Snapshot(specs=two_trials(), started_ns=0, now_ns=1, ahead=ahead)
    assert activity(snapshot) == f"waiting for its turn, behind {behind}"
