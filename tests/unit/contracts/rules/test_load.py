"""Rules of capacity: how it is changed, whose utilisation `find_rate` needs and that its probes fit in, one sandbox."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.refusals import Refused, check_trial, plan_of, problems_of_plan

from stepbench.planning import parse_plan

FIND = {"low_per_s": 100, "high_per_s": 5_000}
STEP = {"rate_per_s": 3_000, "of_found": 1, "duration_s": 30}
LOAD = {"name": "load", "load": [STEP]}
AGAIN = {**LOAD, "name": "again"}
REST: dict[str, Any] = {"name": "rest", "measured": False, "load": [{"rate_per_s": 1, "count": 5}]}
ON_DEMAND = {"mode": "on_demand"}
UNITS = {"mode": "provisioned", "write_units": 10}
TABLE = {"store": "dynamodb", "capacity": UNITS}
AURORA = {"store": "postgresql"}
ONE_SANDBOX = {"store": "dynamodb", "same_sandbox": True}
AT_UNITS, AT_DEMAND = ({"scale": {"capacity": capacity}} for capacity in (UNITS, ON_DEMAND))


def finding(*phases: dict[str, Any], find: dict[str, Any] | None = None, **trial: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return a trial that looks for the rate of its phases, on etcd unless told otherwise."""
    return {
        "target": {"store": "etcd"},
        "phases": list(phases) or [LOAD],
        "find_rate": {**FIND, **(find or {})},
        **trial,
    }


def on_table(*phases: dict[str, Any], **target: Any) -> dict[str, Any]:  # noqa: ANN401 -- a target's fields
    """Return a trial that looks for the rate on a table, of provisioned units unless told otherwise."""
    return finding(*phases, target={**TABLE, **target})


def at_lowest(low_per_s: float, **step: Any) -> dict[str, Any]:  # noqa: ANN401 -- a step's fields
    """Return a trial whose probes of 8 s begin at that rate."""
    return finding({**LOAD, "load": [{**STEP, **step}]}, find={"low_per_s": low_per_s, "probe_s": 8})


def filtered(low_per_s: float) -> dict[str, Any]:
    """Return a trial of ten writers and probes of 60 s, of whose events a tenth passes the filter."""
    load = {**LOAD, "load": [{**STEP, "duration_s": 300}]}
    find = {"low_per_s": low_per_s, "probe_s": 60}
    return finding(load, find=find, writers=10, record={"matching_share": 0.1})


def scaled(store: dict[str, Any], **capacity: Any) -> dict[str, Any]:  # noqa: ANN401 -- a capacity's fields
    """Return a trial on that store whose only phase is scaled."""
    return {"target": store, "phases": [{**REST, "measured": True, "scale": {"capacity": capacity}}]}


def in_one_sandbox(**trial: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return a trial in one sandbox."""
    return {"target": ONE_SANDBOX, "phases": [{**REST, "measured": True}], **trial}


NOTHING_AT_LOWEST = "offers no event at all where the search stays at"
LATE = "after the rate was looked for"
RULES = {
    "scale on s3": Refused(scaled({"store": "s3"}, **ON_DEMAND), "phases[0].scale", "on_demand", "Remove it"),
    "a table's capacity for postgresql": Refused(
        scaled(AURORA, **ON_DEMAND), "phases[0].scale.capacity.mode", "on_demand", "Make it serverless_v2"
    ),
    "a cluster's capacity for another server": Refused(
        scaled({**AURORA, "endpoint": "10.0.0.1:5432"}, mode="serverless_v2", min_acu=1, max_acu=2),
        *("phases[0].scale", "serverless_v2", "Remove one of the two"),
    ),
    "bounds in the wrong order": Refused(
        scaled(AURORA, mode="serverless_v2", min_acu=4, max_acu=2),
        *("phases[0].scale.capacity.max_acu", "2", "Raise max_acu"),
    ),
    "a found rate that nothing finds": Refused(
        {"target": TABLE, "phases": [LOAD]}, "phases[0].load", message="a rate that nothing finds"
    ),
    "a probe by hand": Refused(
        {"target": TABLE, "phases": [REST, {**REST, "name": "a", "measured": True, "probe": True}]},
        *("phases[1].probe", "true", "", "is set by find_rate only"),
    ),
    "a rate that is found for nothing": Refused(
        on_table({**REST, "measured": True}), "find_rate", message="finds a rate that no load step uses"
    ),
    "a store that does not tell how busy it is": Refused(
        finding(target={"store": "s3"}), "find_rate", message="which s3 does not tell"
    ),
    "bounds of a search in the wrong order": Refused(
        finding(find={"high_per_s": 100}), "find_rate.high_per_s", "100", message="is not above low_per_s (100)"
    ),
    "a count of events at an unknown rate": Refused(
        {"target": TABLE, "phases": [{"name": "p", "load": [{"rate_per_s": 9, "of_found": 1, "count": 9}]}]},
        *("phases[0].load[0].count", "9", "", "is no length while the rate is not known"),
    ),
    "a phase with the name of a probe": Refused(
        finding({**LOAD, "name": "probe-2"}), "phases[0].name", message="is the name of a probe of find_rate"
    ),
    "a server of one's own, which the stack's metric is not about": Refused(
        finding(target={"store": "etcd", "endpoint": "10.0.0.1:2379", "quota_gib": 8}),
        *("target.endpoint", "", "", "whose metrics nobody knows"),
    ),
    "no units to have a share of": Refused(
        on_table(capacity=ON_DEMAND), "target.capacity.mode", message="no units to be a share of"
    ),
    "units that move": Refused(
        on_table(capacity={"mode": "autoscaled", "min_write_units": 5, "max_write_units": 50}),
        *("target.capacity.mode", "", "", "no units to be a share of"),
    ),
    "no units any more at the probes": Refused(
        on_table({**REST, **AT_DEMAND}, LOAD), "phases[0].scale.capacity.mode", message="no units to be a share of"
    ),
    "a filter that none of 60 events over 10 writers passes": Refused(
        filtered(1), "find_rate.low_per_s", message="none of a writer's 6 events pass the filter"
    ),
    "a probe without an event": Refused(at_lowest(0.1), "find_rate.low_per_s", message=NOTHING_AT_LOWEST),
    "a share without an event": Refused(at_lowest(1, of_found=0.01), "phases[0].load", message=NOTHING_AT_LOWEST),
    "a rate without an event": Refused(at_lowest(1, rate_per_s=0.01), "phases[0].load", message=NOTHING_AT_LOWEST),
    # Probes run before the first phase with of_found, so that what that is scaled to is not what they saw.
    "a capacity that the probes did not see": Refused(on_table({**LOAD, **AT_UNITS}), "phases[0].scale", message=LATE),
    "another capacity for the second phase": Refused(
        on_table(LOAD, {**AGAIN, **AT_UNITS}), "phases[1].scale", message=LATE
    ),
    "another capacity between two phases": Refused(
        on_table(LOAD, {**REST, **AT_UNITS}, AGAIN), "phases[1].scale", message=LATE
    ),
    "one sandbox that is to search": Refused(
        on_table({**LOAD, "load": [{**STEP, "rate_per_s": 5}]}, same_sandbox=True),
        *("find_rate", "", "", "beside same_sandbox"),
    ),
    "one sandbox with two writers": Refused(
        in_one_sandbox(writers=2), "writers", "2", "Make it 1", "is 2, and one sandbox writes and receives"
    ),
    "one sandbox at 11 a second": Refused(
        in_one_sandbox(phases=[{"name": "p", "load": [*REST["load"], {"rate_per_s": 11, "count": 11}]}]),
        *("phases[0].load", '"rate_per_s": 11', "Offer 10 a second at most", "reach 11 events a second"),
    ),
    "one sandbox that logs": Refused(
        in_one_sandbox(log_t4="all"), "log_t4", '"all"', "remove same_sandbox", "is not offered by CheckClock"
    ),
    "one sandbox and a table elsewhere": Refused(
        in_one_sandbox(target={**ONE_SANDBOX, "endpoint": "http://10.0.0.1:8000"}),
        *("target.endpoint", "http://10.0.0.1:8000", "Remove one of the two"),
        "CheckClock writes to the stack's own DynamoDB",
    ),
}


@pytest.mark.parametrize("refused", RULES.values(), ids=RULES.keys())
def test_what_cannot_be_scaled_or_found_is_refused(refused: Refused) -> None:
    """Whatever the search finds, the trial can be run at it, and a capacity be measured against."""
    check_trial(refused)


TAKEN = {
    "units from an earlier phase": on_table({**REST, **AT_UNITS}, LOAD, capacity=ON_DEMAND),
    "units for two phases": on_table({**REST, **AT_UNITS}, LOAD, AGAIN, capacity=ON_DEMAND),
    "no units, after the load": on_table(LOAD, {**REST, **AT_DEMAND}),
    "a filter that one of 12 events passes": filtered(2),
    "a share of an event a second": at_lowest(1, of_found=0.1),
    "a rate on a server": finding(),
    "one sandbox": in_one_sandbox(),
}


@pytest.mark.parametrize("trial", TAKEN.values(), ids=TAKEN.keys())
def test_a_trial_just_within_these_rules_is_taken(trial: dict[str, Any]) -> None:
    """A rule that refuses too much costs a measurement."""
    assert parse_plan(plan_of(trial)).size == 1


def test_deletes_need_their_keys_before() -> None:
    """Keys of a rate that nobody knows yet cannot be written."""
    short = {**LOAD, "load": [{"rate_per_s": 10, "of_found": 1, "duration_s": 5}]}
    found = problems_of_plan(plan_of(finding(short, record={"operation": "delete"})))
    (message,) = (problem.message for problem in found if problem.path == "trials[0].record.operation")
    assert "how many is not known" in message


def test_a_scale_of_the_phase_itself_makes_no_units_for_the_probes() -> None:
    """They run before it."""
    found = problems_of_plan(plan_of(on_table({**LOAD, **AT_UNITS}, capacity=ON_DEMAND)))
    assert {problem.path for problem in found} == {"trials[0].phases[0].scale", "trials[0].target.capacity.mode"}
