"""Rules of `find_rate`: whose utilisation it is, and that its probes fit in."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.errors import PlanError
from stepbench.planning import parse_plan

FIND = {"low_per_s": 100, "high_per_s": 5_000}
LOAD = {"name": "load", "load": [{"rate_per_s": 3_000, "of_found": 1, "duration_s": 30}]}
PROVISIONED = {"mode": "provisioned", "write_units": 10}


def problems(
    store: str = "etcd",
    phases: list[Any] | None = None,
    record: dict[str, Any] | None = None,
    trial_fields: dict[str, Any] | None = None,
    **target: Any,  # noqa: ANN401 -- JSON
) -> list[tuple[str, str]]:
    """Paths and messages, after the trial's own path."""
    trial = {"target": {"store": store, **target}, "phases": phases or [LOAD], "find_rate": FIND}
    trial |= {"record": record} if record else {}
    trial |= trial_fields or {}
    try:
        parse_plan({"name": "p", "trials": [trial]})
    except PlanError as error:
        return [(problem.path.removeprefix("trials[0]."), problem.message) for problem in error.problems]
    return []


def test_a_phase_may_not_have_a_probe_s_name() -> None:
    """The report tells phases apart by their names."""
    ((path, message),) = problems(phases=[{**LOAD, "name": "probe-2"}])
    assert (path, message) == ("phases[0].name", "is the name of a probe of find_rate")


def test_a_server_of_one_s_own_has_no_metric() -> None:
    """The stack's metric is about the stack's server."""
    ((path, message),) = problems(endpoint="10.0.0.1:2379")
    assert path == "target.endpoint"
    assert "whose metrics nobody knows" in message


@pytest.mark.parametrize(
    ("capacity", "where"),
    [
        ({"mode": "on_demand"}, "target.capacity.mode"),
        ({"mode": "autoscaled", "min_write_units": 5, "max_write_units": 50}, "target.capacity.mode"),
    ],
)
def test_a_table_needs_units_that_stay(capacity: dict[str, Any], where: str) -> None:
    """Nothing can be a share of what does not exist, or of what moves."""
    ((path, message),) = problems("dynamodb", capacity=capacity)
    assert path == where
    assert "no units to be a share of" in message


def test_the_capacity_in_force_at_the_probes_counts() -> None:
    """An earlier phase may have scaled the table, either way."""
    warm_up = {"name": "w", "measured": False, "load": [{"rate_per_s": 1, "count": 5}]}
    to_units = {**warm_up, "scale": {"capacity": PROVISIONED}}
    to_demand = {**warm_up, "scale": {"capacity": {"mode": "on_demand"}}}
    assert problems("dynamodb", [to_units, LOAD]) == []
    assert [path for path, _ in problems("dynamodb", [to_demand, LOAD], capacity=PROVISIONED)] == [
        "phases[0].scale.capacity.mode"
    ]
    assert problems("dynamodb", [LOAD, {**to_demand, "name": "after"}], capacity=PROVISIONED) == []


def test_deletes_need_their_keys_before() -> None:
    """Those of a rate that nobody knows yet cannot be written."""
    short = {**LOAD, "load": [{"rate_per_s": 10, "of_found": 1, "duration_s": 5}]}
    found = dict(problems(phases=[short], record={"operation": "delete"}))
    assert "how many is not known" in found["record.operation"]


def test_probes_have_an_event_that_passes_the_filter_at_the_lowest_rate() -> None:
    """60 events over 10 writers, a tenth of which passes: the plan would hold at the highest rate only."""
    load = {**LOAD, "load": [{"rate_per_s": 3_000, "of_found": 1, "duration_s": 300}]}
    fields = {"writers": 10, "find_rate": {"low_per_s": 1, "high_per_s": 5_000, "probe_s": 60}}
    ((path, message),) = problems(phases=[load], record={"matching_share": 0.1}, trial_fields=fields)
    assert path == "find_rate.low_per_s"
    assert "none of a writer's 6 events pass the filter" in message
    fields["find_rate"] = {"low_per_s": 2, "high_per_s": 5_000, "probe_s": 60}
    assert problems(phases=[load], record={"matching_share": 0.1}, trial_fields=fields) == []


@pytest.mark.parametrize(
    ("low_per_s", "load", "paths"),
    [
        (0.1, {"duration_s": 30}, ["find_rate.low_per_s"]),
        (1, {"duration_s": 30, "of_found": 0.01}, ["phases[0].load"]),
        (1, {"duration_s": 30, "of_found": 0.1}, []),
        (1, {"duration_s": 30, "rate_per_s": 0.01}, ["phases[0].load"]),
    ],
)
def test_each_phase_offers_an_event_at_the_lowest_rate(
    low_per_s: float, load: dict[str, float], paths: list[str]
) -> None:
    """Whatever the search finds, the trial can be run at it."""
    phase = {**LOAD, "load": [{"rate_per_s": 3_000, "of_found": 1, **load}]}
    find = {"low_per_s": low_per_s, "high_per_s": 5_000, "probe_s": 8}
    found = problems(phases=[phase], trial_fields={"find_rate": find})
    assert [path for path, _ in found] == paths
    assert all("offers no event at all where the search stays at" in message for _, message in found)


def test_the_rate_is_used_at_the_capacity_at_which_it_was_looked_for() -> None:
    """Probes run before the first phase with of_found, so that what it is scaled to is not what they saw."""
    scale = {"capacity": {"mode": "provisioned", "write_units": 100}}
    again: dict[str, Any] = {**LOAD, "name": "again"}
    rest: dict[str, Any] = {"name": "rest", "load": [{"rate_per_s": 1, "count": 5}], "scale": scale}
    for phases, index in [
        ([{**LOAD, "scale": scale}], 0),
        ([LOAD, {**again, "scale": scale}], 1),
        ([LOAD, rest, again], 1),
    ]:
        ((path, message),) = problems("dynamodb", phases, capacity=PROVISIONED)
        assert path == f"phases[{index}].scale"
        assert "after the rate was looked for" in message
    assert problems("dynamodb", [rest, LOAD, again], capacity={"mode": "on_demand"}) == []


def test_a_scale_of_the_phase_itself_makes_no_units_for_the_probes() -> None:
    """They run before it."""
    found = dict(problems("dynamodb", [{**LOAD, "scale": {"capacity": PROVISIONED}}], capacity={"mode": "on_demand"}))
    assert set(found) == {"phases[0].scale", "target.capacity.mode"}


def test_one_sandbox_takes_no_search() -> None:
    """Its probes would offer more than it can write and receive."""
    slow = {**LOAD, "load": [{"rate_per_s": 5, "of_found": 1, "duration_s": 30}]}
    ((path, message),) = problems("dynamodb", [slow], capacity=PROVISIONED, same_sandbox=True)
    assert path == "find_rate"
    assert "beside same_sandbox" in message
