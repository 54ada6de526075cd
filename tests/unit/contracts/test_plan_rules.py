"""The rules of a trial that span fields: what each refuses, where, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.plan import Plan, TrialPlan
from stepbench.errors import PlanError
from stepbench.planning import parse_plan

STEP = {"rate_per_s": 1, "duration_s": 10}
PHASE = {"name": "load", "load": [STEP]}
FOUND = {**PHASE, "load": [{**STEP, "of_found": 0.8}]}
FIND = {"low_per_s": 10, "high_per_s": 100}
UNITS = {"mode": "provisioned", "write_units": 100}
TABLE = {"store": "dynamodb", "capacity": UNITS}
MINUTES = [{"name": name, "from_s": start, "to_s": start + 5} for name, start in (("one", 0), ("two", 5))]
BY_HAND = [{"name": "f", "duration_ms": 5, "trigger": "measured"}]


def document(**trial: Any) -> dict[str, Any]:  # noqa: ANN401 -- a trial's JSON
    """A good plan of one S3 trial, with some of the trial's fields replaced."""
    return {"name": "ruled", "trials": [{"target": {"store": "s3"}, "phases": [PHASE], **trial}]}


def problems(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """Where and why a plan is refused."""
    with pytest.raises(PlanError) as refused:
        parse_plan(plan)
    return [(problem.path, problem.message) for problem in refused.value.problems]


def published(**fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 -- JSON
    """A number that somebody published."""
    return [{"metric": "p50", "value_ms": 1, "source": "a paper", **fields}]


RULES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a line for each of too many events": (
        {"log_t4": "all", "phases": [{"name": "p", "load": [{"rate_per_s": 1_000, "count": 500_001}]}]},
        "log_t4",
        "would print a line for each of 500,001 events",
    ),
    "a published number for one of two windows": (
        {"phases": [{**PHASE, "windows": MINUTES}], "published": published()},
        "published[0].window",
        "is missing, and there are several measured windows",
    ),
    "a published number for no window": (
        {"published": published(window="warm-up")},
        "published[0].window",
        "names no measured window",
    ),
    "a published number for a window that is there twice": (
        {
            "phases": [{**PHASE, "name": name, "windows": MINUTES} for name in ("a", "b")],
            "published": published(window="one"),
        },
        "published[0].window",
        "is the name of windows in several phases",
    ),
    "a found rate that nothing finds": ({"phases": [FOUND]}, "phases[0].load", "a rate that nothing finds"),
    "a probe by hand": ({"phases": [{**PHASE, "probe": True}]}, "phases[0].probe", "is set by find_rate only"),
    "a rate that is found for nothing": (
        {"target": TABLE, "find_rate": FIND},
        "find_rate",
        "finds a rate that no load step uses",
    ),
    "a store that does not tell how busy it is": (
        {"phases": [FOUND], "find_rate": FIND},
        "find_rate",
        "which s3 does not tell",
    ),
    "bounds of a search in the wrong order": (
        {"target": TABLE, "phases": [FOUND], "find_rate": {"low_per_s": 10, "high_per_s": 10}},
        "find_rate.high_per_s",
        "is not above low_per_s (10)",
    ),
    "too many phases with the probes": (
        {
            "target": TABLE,
            "phases": [*({**PHASE, "name": f"p{number}"} for number in range(80)), FOUND],
            "find_rate": {**FIND, "probes": 20},
        },
        "phases",
        "are 101 with the probes of find_rate",
    ),
    "a count of events at an unknown rate": (
        {"target": TABLE, "phases": [{"name": "p", "load": [{"rate_per_s": 9, "of_found": 1, "count": 9}]}]},
        "phases[0].load[0].count",
        "is no length while the rate is not known",
    ),
    "one sandbox with two writers": (
        {"target": {"store": "dynamodb", "same_sandbox": True}, "writers": 2},
        "writers",
        "is 2, and one sandbox writes and receives",
    ),
    "one sandbox at 11 a second": (
        {
            "target": {"store": "dynamodb", "same_sandbox": True},
            "phases": [{"name": "p", "load": [STEP, {"rate_per_s": 11, "count": 11}]}],
        },
        "phases[0].load",
        "reach 11 events a second",
    ),
    "one sandbox that logs": (
        {"target": {"store": "dynamodb", "same_sandbox": True}, "log_t4": "all"},
        "log_t4",
        "is not offered by CheckClock",
    ),
    "one sandbox and a table elsewhere": (
        {"target": {"store": "dynamodb", "same_sandbox": True, "endpoint": "http://10.0.0.1:8000"}},
        "target.endpoint",
        "CheckClock writes to the stack's own DynamoDB",
    ),
    "a share of events in the reference store": (
        {"target": {"store": "reference"}, "record": {"matching_share": 0.5}},
        "record.matching_share",
        "the reference store has no filter",
    ),
    "a share beside a filter": (
        {
            "target": {"store": "dynamodb", "filter": {"eventName": ["INSERT"]}},
            "record": {"matching_share": 0.5},
        },
        "record.matching_share",
        "stands beside a filter of your own",
    ),
    "a share in one sandbox": (
        {"target": {"store": "dynamodb", "same_sandbox": True}, "record": {"matching_share": 0.5}},
        "record.matching_share",
        "stands beside same_sandbox",
    ),
    "a share of nothing": (
        {"record": {"matching_share": 0.05}},
        "phases[0].load",
        "lets none of a writer's 10 events pass",
    ),
    "a share by keys that are few": (
        {"record": {"matching_share": 0.5, "operation": "update", "distinct_keys": 5}},
        "record.matching_share",
        "is told by the key on s3",
    ),
}


@pytest.mark.parametrize(("trial", "path", "words"), RULES.values(), ids=RULES.keys())
def test_a_trial_that_breaks_a_rule_is_told_which(trial: dict[str, Any], path: str, words: str) -> None:
    """Found out later, it would cost a run; and one mistake is one line."""
    ((found, message),) = problems(document(**trial))
    assert found == f"trials[0].{path}"
    assert words in message


RUNNABLE = {
    "a line for each of many watched events": {
        "target": {"store": "etcd"},
        "log_t4": "all",
        "phases": [{"name": "p", "load": [{"rate_per_s": 1_000, "count": 500_001}]}],
    },
    "the only window": {"published": published()},
    "a window by name": {"phases": [{**PHASE, "windows": MINUTES}], "published": published(window="two")},
    "a rate for provisioned units": {"target": TABLE, "phases": [FOUND], "find_rate": FIND},
    "a rate for a server": {"target": {"store": "etcd"}, "phases": [FOUND], "find_rate": FIND},
    "one sandbox": {"target": {"store": "dynamodb", "same_sandbox": True}},
    "a share": {"record": {"matching_share": 0.1}},
}


@pytest.mark.parametrize("trial", RUNNABLE.values(), ids=RUNNABLE.keys())
def test_a_trial_within_the_rules_is_taken(trial: dict[str, Any]) -> None:
    """What stands just on this side of each rule."""
    assert parse_plan(document(**trial)).size == 1


@pytest.mark.parametrize("store", ["dynamodb", "postgresql", "etcd"])
def test_loops_are_counted_for_every_store(store: str) -> None:
    """The history of an execution ends at 25,000 events, whoever writes them; it ends without a Catch."""
    until = {"relative_width": 0.1, "max_events": 100}
    phases = [{**PHASE, "name": f"p{number}", "until": until} for number in range(80)]
    target = {"target": {"store": store}, "drain_limit_s": 3_600}
    assert problems(document(**target, phases=phases)) == [
        ("trials[0].drain_limit_s", "is too long after 2.2 h of load for one execution's history")
    ]
    assert TrialPlan.model_validate(document(**target, phases=phases[:2])["trials"][0])


def test_probes_stand_before_the_first_phase_that_needs_what_they_find() -> None:
    """The warm-up is at a rate of its own; and a trial that is expanded already gets no second set."""
    plan = {"target": TABLE, "phases": [{**PHASE, "name": "warm-up"}, FOUND], "find_rate": {**FIND, "probes": 2}}
    trial = TrialPlan.model_validate(plan)
    expanded = trial.model_copy(update={"phases": trial.run_phases})
    assert [phase.name for phase in expanded.run_phases] == ["warm-up", "probe-1", "probe-2", "load"]
    assert trial.events == 2 * 120 * 100 + 20


@pytest.mark.parametrize(
    ("application", "path", "message"),
    [
        ({}, "functions", "are missing, and so are traces"),
        ({"functions": [{"name": "f", "trigger": "s3"}]}, "functions[0].duration_ms", "is missing"),
        (
            {"functions": [{"name": "f", "duration_ms": 5}]},
            "functions",
            "have no trigger, so there is no share to tell",
        ),
        ({"functions": [{"name": "f", "duration_ms": 0, "trigger": "s3"}]}, "functions", "take no time at all"),
        (
            {"traces": {"name": 'chain") OR service("x'}},
            "traces.name",
            "holds a quote or a backslash, which no such name does",
        ),
    ],
)
def test_an_application_without_a_share_is_refused(application: dict[str, Any], path: str, message: str) -> None:
    """The report would have nothing to draw, and say so after the whole run."""
    plan = {**document(), "applications": [{"name": "app", "source": "by hand", **application}]}
    assert problems(plan) == [(f"applications[0].{path}", message)]


def test_two_applications_of_one_name_are_refused() -> None:
    """Their bars could not be told apart."""
    application = {"name": "app", "source": "by hand", "functions": BY_HAND}
    ((path, message),) = problems({**document(), "applications": [application] * 2})
    assert (path, message) == ("applications[1].name", "is the name of applications[0] too")


def test_an_application_that_x_ray_has_seen_may_leave_its_durations_to_it() -> None:
    """Whole, or in part."""
    applications = [
        {"name": "all", "source": "ours", "traces": {"name": "chain"}},
        {
            "name": "some",
            "source": "ours",
            "traces": {"name": "chain"},
            "functions": [{"name": "a"}, {"name": "b", "duration_ms": 5, "trigger": "s3"}],
        },
        {"name": "none", "source": "ours", "traces": {"name": "chain"}, "functions": BY_HAND},
    ]
    plan: Plan = parse_plan({**document(), "applications": applications})
    assert [application.needs_traces for application in plan.applications] == [True, True, False]
