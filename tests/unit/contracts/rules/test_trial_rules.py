"""The rules of a trial that span fields: what each refuses, where, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.refusals import Refused, check_trial, plan_of, problems_of_plan

from stepbench.contracts.plan import Plan, TrialPlan
from stepbench.planning import parse_plan

STEP = {"rate_per_s": 1, "duration_s": 10}
PHASE = {"name": "load", "load": [STEP]}
FOUND = {**PHASE, "load": [{**STEP, "of_found": 0.8}]}
FIND = {"low_per_s": 10, "high_per_s": 100}
UNITS = {"mode": "provisioned", "write_units": 100}
TABLE = {"store": "dynamodb", "capacity": UNITS}
TRIAL = {"target": {"store": "s3"}, "phases": [PHASE]}
MINUTES = [{"name": name, "from_s": start, "to_s": start + 5} for name, start in (("one", 0), ("two", 5))]
NEXT = {**PHASE, "name": "next", "gapless": True}
LONG = {**PHASE, "load": [{"rate_per_s": 1, "duration_s": 29_400}]}
BY_HAND = [{"name": "f", "duration_ms": 5, "trigger": "measured"}]


def document(**trial: Any) -> dict[str, Any]:  # noqa: ANN401 -- a trial's JSON
    """Return a good plan of one S3 trial, with some of the trial's fields replaced."""
    return plan_of({**TRIAL, **trial})


def problem_of(plan: dict[str, Any]) -> tuple[str, str]:
    """Return path and message of the only problem of a plan."""
    (problem,) = problems_of_plan(plan)
    return problem.path, problem.message


def published(**fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 -- JSON
    """Return a number that somebody published."""
    return [{"metric": "p50", "value_ms": 1, "source": "a paper", **fields}]


def phase(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- a phase's fields
    """Return a trial whose only phase has these fields too."""
    return {"phases": [{**PHASE, **fields}]}


def load(**step: Any) -> dict[str, Any]:  # noqa: ANN401 -- a step's fields
    """Return a trial whose only phase has this one load step."""
    return phase(load=[step])


ONE_SANDBOX = {"store": "dynamodb", "same_sandbox": True}
UPDATE = {"operation": "update", "distinct_keys": 5}
RULES = {
    "no event at all": Refused(load(rate_per_s=0.1, duration_s=1), "phases[0].load", "0.1", "Raise rate_per_s"),
    "no measured phase": Refused(phase(measured=False), "phases[0].measured", "false", "at least one phase"),
    "window outside": Refused(
        phase(windows=[{"name": "end", "from_s": 1, "to_s": 11}]), "phases[0].windows[0].to_s", "11", "Let it end by 10"
    ),
    "window backwards": Refused(
        phase(windows=[{"name": "w", "from_s": 1, "to_s": 1}]), "phases[0].windows[0].to_s", "1", "Raise to_s"
    ),
    "window names": Refused(phase(windows=MINUTES[:1] * 2), "phases[0].windows[1].name", '"one"', "a name of its own"),
    "window of a warm-up": Refused(
        {"phases": [PHASE, {**PHASE, "name": "w", "measured": False, "windows": MINUTES}]},
        *("phases[1].windows", "from_s", "measured: true"),
    ),
    "phase names": Refused({"phases": [PHASE, PHASE]}, "phases[1].name", '"load"', "a name of its own"),
    "nothing to follow": Refused(phase(gapless=True), "phases[0].gapless", "true", "Remove it"),
    "a pause without a gap": Refused(
        {"phases": [PHASE, {**NEXT, "settle_s": 1}]}, "phases[1].settle_s", "1", "Move it to the phase before"
    ),
    "a rate to be found, and what follows it": Refused(
        {"target": TABLE, "find_rate": FIND, "phases": [FOUND, NEXT]},
        *("phases[1].gapless", "true", "Take closed, until and of_found from phase load"),
    ),
    "an end to be found, and what follows it": Refused(
        {"phases": [{**PHASE, "until": {"relative_width": 0.1, "max_events": 10}}, NEXT]},
        *("phases[1].gapless", "true", "Take closed, until and of_found from phase load"),
    ),
    "watched for days": Refused(
        {"target": {"store": "etcd"}, **load(rate_per_s=1, duration_s=28_801)}, "phases", "28801", "split the trial"
    ),
    "watched and drained for hours": Refused(
        {"target": {"store": "etcd"}, "drain_limit_s": 1_800, **load(rate_per_s=1, duration_s=28_800)},
        *("drain_limit_s", "1800", "Lower it"),
    ),
    "max_concurrency below writers": Refused(
        {"writers": 4, "max_concurrency": 2}, "max_concurrency", "2", "Raise it to 4"
    ),
    "too many slices": Refused(
        {"writers": 100, **load(rate_per_s=1, duration_s=604_800)}, "phases[0].load", "604800", "Shorten the phase"
    ),
    "too many slices of phases without a gap": Refused(
        {"writers": 1_000, "phases": [{**LONG, "name": "alone"}, LONG, {**NEXT, "load": LONG["load"]}]},
        *("phases[1].load", "29400", "or remove gapless"),
        "takes 1000 writers through 98 slices of 600 s, those of phases that follow without a gap included",
    ),
    "zipf of a put": Refused({"record": {"key_distribution": "zipf"}}, "record.key_distribution", '"zipf"', '"update"'),
    "delete with keys": Refused(
        {"record": {"operation": "delete", "distinct_keys": 5}}, "record.distinct_keys", "5", '"update"'
    ),
    "too many deletes": Refused(
        {"record": {"operation": "delete"}, **load(rate_per_s=1e3, count=200_001)},
        *("phases", "200001", "split the trial"),
    ),
    "deletes in the reference store": Refused(
        {"record": {"operation": "delete"}, "target": {"store": "reference"}},
        *("record.operation", '"delete"', 'Use "put"'),
    ),
    "one key is hot": Refused(
        {"record": {"operation": "update", "distinct_keys": 1, "key_distribution": "hot"}},
        *("record.distinct_keys", "1", "Raise it to 2"),
    ),
    "exponent without zipf": Refused(
        {"record": {**UPDATE, "zipf_exponent": 2}}, "record.zipf_exponent", "2", 'key_distribution to "zipf"'
    ),
    "share without a hot key": Refused(
        {"record": {**UPDATE, "hot_share": 0.9}}, "record.hot_share", "0.9", 'key_distribution to "hot"'
    ),
    "update without keys": Refused(
        {"record": {"operation": "update"}}, "record.distinct_keys", "nothing", "how many keys"
    ),
    "put with keys": Refused({"record": {"distinct_keys": 5}}, "record.distinct_keys", "5", '"update"'),
    "link-local endpoint": Refused(
        {"target": {"store": "s3", "endpoint": "http://169.254.169.254/"}},
        *("target.endpoint", "169.254.169.254", "a store of your own"),
    ),
    "endpoint without scheme": Refused(
        {"target": {"store": "s3", "endpoint": "minio:9000"}}, "target.endpoint", "minio:9000", "http://"
    ),
    "endpoint with scheme": Refused(
        {"target": {"store": "etcd", "endpoint": "http://etcd:2379"}},
        *("target.endpoint", "http://etcd:2379", "before the host"),
    ),
    "store without triggers": Refused({"target": {"store": "redis"}}, "target.store", '"redis"', "Use one of"),
    "a line for each of too many events": Refused(
        {"log_t4": "all", **load(rate_per_s=1_000, count=500_001)},
        *("log_t4", "all", "", "would print a line for each of 500,001 events"),
    ),
    "a published number for one of two windows": Refused(
        {**phase(windows=MINUTES), "published": published()},
        *("published[0].window", "", "", "is missing, and there are several measured windows"),
    ),
    "a published number for no window": Refused(
        {**phase(windows=MINUTES), "published": published(window="on")},
        "published[0].window",
        *('"on"', 'Name one of "one", "two", or remove it.', "names no measured window"),
    ),
    "a published number for a window that is there twice": Refused(
        {
            "phases": [{**PHASE, "name": name, "windows": MINUTES} for name in ("a", "b")],
            "published": published(window="one"),
        },
        *("published[0].window", "", "", "is the name of windows in several phases"),
    ),
    "a distance without a clock check": Refused(
        {"published": [{"metric": "ks", "d": 0.14, "source": "a paper"}]},
        *("published[0].metric", '"ks"', "same_sandbox: true", "and this trial has no same_sandbox"),
    ),
    "a published count of arrivals": Refused(
        {"published": published(count=100)},
        *("published[0].count", "100", "Remove it.", "the table of percentiles, which only operations have"),
    ),
    "TLS to a plain endpoint": Refused(
        {"target": {"store": "dynamodb", "endpoint": "http://10.0.0.7:8000", "tls": True}},
        *("target.tls", "true", "Remove it", "says otherwise than the endpoint's URL"),
    ),
    "no TLS to an endpoint with it": Refused(
        {"target": {"store": "dynamodb", "endpoint": "https://10.0.0.7:8000", "tls": False}},
        *("target.tls", "false", "Remove it", "says otherwise than the endpoint's URL"),
    ),
    "too many phases with the probes": Refused(
        {
            "target": TABLE,
            "phases": [*({**PHASE, "name": f"p{number}"} for number in range(80)), FOUND],
            "find_rate": {**FIND, "probes": 20},
        },
        *("phases", "", "", "are 101 with the probes of find_rate"),
    ),
    "a share of events in the reference store": Refused(
        {"target": {"store": "reference"}, "record": {"matching_share": 0.5}},
        *("record.matching_share", "0.5", "Remove it", "the reference store has no filter"),
    ),
    "a share beside a filter": Refused(
        {"target": {"store": "dynamodb", "filter": {}}, "record": {"matching_share": 0.5}},
        *("record.matching_share", "0.5", "Remove one of the two", "stands beside a filter of your own"),
    ),
    "a share in one sandbox": Refused(
        {"target": ONE_SANDBOX, "record": {"matching_share": 0.5}},
        *("record.matching_share", "0.5", "Remove one of the two", "stands beside same_sandbox"),
    ),
    "a share of nothing": Refused(
        {"record": {"matching_share": 0.05}},
        *("phases[0].load", '"duration_s": 10', "Raise record.matching_share"),
        "lets none of a writer's 10 events pass",
    ),
    "a share by keys that are few": Refused(
        {"record": {**UPDATE, "matching_share": 0.5}},
        *("record.matching_share", "0.5", 'Use "put"', "is distinguished by the key on s3"),
    ),
}


@pytest.mark.parametrize("refused", RULES.values(), ids=RULES.keys())
def test_a_trial_that_breaks_a_rule_is_told_which(refused: Refused) -> None:
    """Found out later, it would cost a run; and one mistake is one line."""
    check_trial(refused._replace(document={**TRIAL, **refused.document}))


RUNNABLE = {
    "a line for each of many watched events": {
        "target": {"store": "etcd"},
        "log_t4": "all",
        **load(rate_per_s=1_000, count=500_001),
    },
    "two phases without a gap": {"phases": [{**PHASE, "settle_s": 5}, NEXT, {**NEXT, "name": "last"}]},
    "the only window": {"published": published()},
    "a window by name": {"phases": [{**PHASE, "windows": MINUTES}], "published": published(window="two")},
    "a rate for provisioned units": {"target": TABLE, "phases": [FOUND], "find_rate": FIND},
    "a share": {"record": {"matching_share": 0.1}},
}


@pytest.mark.parametrize("trial", RUNNABLE.values(), ids=RUNNABLE.keys())
def test_a_trial_within_the_rules_is_taken(trial: dict[str, Any]) -> None:
    """Each of these stands just on this side of a rule."""
    assert parse_plan(document(**trial)).size == 1


@pytest.mark.parametrize("store", ["dynamodb", "postgresql", "etcd"])
def test_loops_are_counted_for_every_store(store: str) -> None:
    """The history of an execution ends at 25,000 events, whoever writes them; it ends without a Catch."""
    until = {"relative_width": 0.1, "max_events": 100}
    phases = [{**PHASE, "name": f"p{number}", "until": until} for number in range(80)]
    target = {"target": {"store": store}, "drain_limit_s": 3_600}
    told = ("trials[0].drain_limit_s", "is too long after 2.2 h of load for one execution's history")
    assert problem_of(document(**target, phases=phases)) == told
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
    assert problem_of(plan) == (f"applications[0].{path}", message)


def test_two_applications_of_one_name_are_refused() -> None:
    """Their bars could not be told apart."""
    application = {"name": "app", "source": "by hand", "functions": BY_HAND}
    told = ("applications[1].name", "is the name of applications[0] too")
    assert problem_of({**document(), "applications": [application] * 2}) == told


def test_an_application_that_x_ray_has_seen_may_leave_its_durations_to_it() -> None:
    """Traces may give all durations, or some."""
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
