"""What is asked of a trial that measures a function of the user's own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.refusals import Refused, check_trial

from stepbench.contracts.function import MOST_LOGGED_EVENTS, MOST_TABLED_EVENTS, MeasuredFunction
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.trial import DRAIN_LIMIT_S

UNTIL = {"metric": "p50", "relative_width": 0.1, "max_events": 1_000}
PHASE = {"name": "only", "load": [{"rate_per_s": 10, "count": 100}]}


BY_PLATFORM = {"times": "platform"}
STREAM = {"store": "dynamodb", "batch_size": 1, "function": {"name": "orders", **BY_PLATFORM}}


def trial(store: str = "s3", function: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a trial's document."""
    target = {"store": store, "function": {"name": "orders", **(function or {})}}
    return {"target": target, "phases": [PHASE], **fields}


@pytest.mark.parametrize(
    ("document", "path", "message"),
    [
        (trial("etcd"), "target.function", "is invoked by nobody: etcd pushes no events"),
        (trial(log_t4="all"), "log_t4", "a measured function always prints its times"),
        (trial(function={"attempts": 4}), "target.function.attempts", "more than the 3 of an asynchronous invocation"),
        (trial(function={"bisect": True}), "target.function.bisect", "has no meaning for single events"),
        (trial(drain_limit_s=100), "drain_limit_s", "is over before 3 attempts are made, the last of them after 180 s"),
        (
            trial(phases=[{"name": "only", "load": [{"rate_per_s": 1_000, "count": MOST_LOGGED_EVENTS + 1}]}]),
            "phases",
            "a measured function's are read from its log",
        ),
        (
            trial(
                function={"records": "table"},
                phases=[{"name": "only", "load": [{"rate_per_s": 1_000, "count": MOST_TABLED_EVENTS + 1}]}],
            ),
            "phases",
            "a measured function's are read from the results table",
        ),
        (trial(function={"records": "table", "times": "own"}), "target.function.records", "does not go with times"),
        (trial(function={"records": "table", "snap_start": True}), "target.function.records", "no credentials"),
        (
            trial(phases=[{**PHASE, "load": [{"rate_per_s": 10, "duration_s": 60}], "until": UNTIL}]),
            "phases[0].until",
            "looks at arrivals during the load",
        ),
        (trial(function={"code": "./app"}), "target.function", "has code and name"),
        (trial(function={"handler": "app.handler"}), "target.function.handler", "is the function's own"),
        (
            {"target": {"store": "dynamodb", "function": {"name": "orders", "times": "platform"}}, "phases": [PHASE]},
            "target.batch_size",
            "lets an invocation have several events",
        ),
        (
            trial("dynamodb", BY_PLATFORM) | {"target": {**STREAM, "filter": {"eventName": ["INSERT"]}}},
            "target.filter",
            "holds events back",
        ),
        (trial(function=BY_PLATFORM, record={"matching_share": 0.5}), "record.matching_share", "holds events back"),
        (
            trial(function=BY_PLATFORM, record={"operation": "update", "distinct_keys": 9}),
            "record.operation",
            "writes records before the load",
        ),
        (
            trial(function={"name": None, "code": "./app", "handler": "a.h", "runtime": "java21", "times": "own"}),
            "target.function.runtime",
            "is no runtime that an environment on one machine has",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(document: dict[str, Any], path: str, message: str) -> None:
    """Before anything is made, and with the way out."""
    check_trial(Refused(document, path, message=message))


@pytest.mark.parametrize(
    ("store", "attempts", "expected"),
    [("s3", 1, 0), ("s3", 2, 60), ("postgresql", 3, 180), ("dynamodb", 4, 6)],
)
def test_the_drain_limit_follows_from_the_attempts(store: str, attempts: int, expected: float) -> None:
    """Lambda waits one minute, then two, before it invokes a function again; a stream's batch comes again soon."""
    plan = TrialPlan.model_validate(trial(store, {"attempts": attempts}))

    assert plan.drain_limit_s == DRAIN_LIMIT_S + expected


def test_where_the_insert_waits_for_the_function_nothing_is_tried_again() -> None:
    """Lambda tries asynchronous invocations again: a trial would wait three minutes for what cannot come."""
    document = trial("postgresql", {"attempts": 3})
    document["target"]["invocation"] = "request_response"
    plan = TrialPlan.model_validate(document)

    assert (plan.target.attempts, plan.drain_limit_s) == (1, DRAIN_LIMIT_S)


def test_the_plans_own_drain_limit_stands() -> None:
    """Where it leaves the attempts their time."""
    assert TrialPlan.model_validate(trial(drain_limit_s=180)).drain_limit_s == 180
    without = TrialPlan.model_validate({"target": {"store": "s3"}, "phases": [PHASE]})
    assert without.drain_limit_s == DRAIN_LIMIT_S


def test_a_function_is_called_by_its_name_or_its_handler() -> None:
    """In sentences, where the place of its package would say nothing."""
    assert MeasuredFunction(name="orders:live").described == "orders:live"
    assert MeasuredFunction(code="./app", handler="app.handler").described == "app.handler"


def test_the_table_takes_more_events_than_a_log_that_is_read_page_by_page() -> None:
    """Half a million are a million lines in a log, and half of that beside the table."""
    phases = [{"name": "only", "load": [{"rate_per_s": 1_000, "count": MOST_LOGGED_EVENTS + 1}]}]
    TrialPlan.model_validate(trial(function={"records": "table"}, phases=phases))
