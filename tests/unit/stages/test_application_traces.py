"""
What is asked of X-Ray, and what comes of its answers.

There is no X-Ray here: botocore's Stubber holds requests and answers against the service's own model.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.stub import Stubber
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.contracts.plan import Plan
from stepbench.contracts.run_tasks import ValidatePlanInput
from stepbench.errors import PlanError
from stepbench.planning import parse_plan
from stepbench.records.storage import layout
from stepbench.stages.application_traces import LIMIT_S, ROUNDS, resolve_traces
from stepbench.stages.validate_plan import validate_plan

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9
HOUR = timedelta(hours=1)


def xray_client(endpoint: str | None = None) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
    """Return a real client that never waits."""
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=2)
    session = boto3.session.Session("some", "body", region_name="us-east-1")
    return session.client("xray", endpoint_url=endpoint, config=config)


def document(traces: dict[str, Any] | None = None, **application: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return a plan with one application that X-Ray has seen."""
    seen = {"name": "app", "source": "ours", "traces": {"name": "chain", "last_hours": 1, **(traces or {})}}
    trial = {"target": {"store": "s3"}, "phases": [{"name": "m", "load": [{"rate_per_s": 1, "count": 5}]}]}
    return {"name": "traced", "trials": [trial], "applications": [{**seen, **application}]}


def summaries(since: datetime, until: datetime, token: str | None = None) -> dict[str, Any]:
    """Return the request for a part of the window."""
    request = {"TimeRangeType": "TraceId", "StartTime": since, "EndTime": until, "FilterExpression": 'service("chain")'}
    return request if token is None else {**request, "NextToken": token}


def page(*ids: str, then: str | None = None, partial: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return summaries of these traces, as X-Ray answers."""
    found = [{"Id": name, "IsPartial": name in partial} for name in (*ids, *partial)]
    return {"TraceSummaries": found} if then is None else {"TraceSummaries": found, "NextToken": then}


def trace(name: str, first_s: float = 0.2, second_s: float = 0.05) -> dict[str, Any]:
    """Return a trace of two functions, one after the other."""
    spans = (("resize", 100.0, first_s), ("store", 102.0, second_s))
    segments = [
        {"name": function, "origin": "AWS::Lambda::Function", "start_time": start, "end_time": start + length}
        for function, start, length in spans
    ]
    documents = [{"Id": str(number), "Document": json.dumps(each)} for number, each in enumerate(segments)]
    return {"Id": name, "Segments": documents}


def resolved(plan: dict[str, Any], stubber: Stubber) -> Plan:
    """Return the plan after X-Ray has been asked for all that was expected."""
    memory = MemoryServices(FakeClock(NOW_NS), {"xray": stubber.client})
    with stubber:
        found = resolve_traces(parse_plan(plan), memory.services)
    stubber.assert_no_pending_responses()
    return found


def refusal(plan: dict[str, Any], stubber: Stubber) -> str:
    """Return why the plan is refused, in one line."""
    with pytest.raises(PlanError) as refused:
        resolved(plan, stubber)
    (problem,) = refused.value.problems
    assert (problem.path, problem.value) == ("applications[0].traces", '"chain"')
    assert "duration_ms" in problem.remedy
    return problem.message


def test_durations_are_medians_of_all_traces_page_by_page() -> None:
    """Five ids go into one call; the report's source says from how many traces, and from when."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a", "b", then="more"), summaries(NOW - HOUR, NOW))
    stubber.add_response("get_trace_summaries", page("c", "d", "e", "f"), summaries(NOW - HOUR, NOW, "more"))
    five = [trace(name, first_s) for name, first_s in zip("abcd", (0.1, 0.2, 0.2, 0.4), strict=True)]
    stubber.add_response(
        "batch_get_traces", {"Traces": five, "NextToken": "more"}, {"TraceIds": ["a", "b", "c", "d", "e"]}
    )
    request = {"TraceIds": ["a", "b", "c", "d", "e"], "NextToken": "more"}
    stubber.add_response("batch_get_traces", {"Traces": [trace("e", 0.4)]}, request)
    stubber.add_response("batch_get_traces", {"Traces": [trace("f", 0.3)]}, {"TraceIds": ["f"]})
    (application,) = resolved(document(), stubber).applications
    durations = [(each.name, each.duration_ms, each.trigger) for each in application.functions]
    assert durations == [("resize", 250, None), ("store", 50, "measured")]
    assert application.source == "ours; X-Ray, medians of 6 traces, 2026-11-21 11:30 to 2026-11-21 12:30 UTC"


def test_the_newest_traces_are_taken_and_no_more_than_wanted() -> None:
    """Hour by hour backwards, and the last part is what is left of the window."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a", partial=("running",)), summaries(NOW - HOUR, NOW))
    stubber.add_response("get_trace_summaries", page(), summaries(NOW - 2 * HOUR, NOW - HOUR))
    oldest = summaries(NOW - 2.5 * HOUR, NOW - 2 * HOUR)
    stubber.add_response("get_trace_summaries", page("b", "c", then="there are more"), oldest)
    stubber.add_response("batch_get_traces", {"Traces": [trace("a"), trace("b")]}, {"TraceIds": ["a", "b"]})
    found = resolved(document({"last_hours": 2.5, "max_traces": 2}), stubber)
    assert "2 traces, 2026-11-21 10:00 to" in found.applications[0].source


def test_what_x_ray_leaves_unprocessed_is_asked_for_again() -> None:
    """A throttled part of a batch is no missing trace; what never comes is not counted."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a", "b"), summaries(NOW - HOUR, NOW))
    answer = {"Traces": [trace("a")], "UnprocessedTraceIds": ["b"]}
    stubber.add_response("batch_get_traces", answer, {"TraceIds": ["a", "b"]})
    for _ in range(ROUNDS - 1):
        stubber.add_response("batch_get_traces", {"UnprocessedTraceIds": ["b"]}, {"TraceIds": ["b"]})
    assert "medians of 1 trace," in resolved(document(), stubber).applications[0].source


def test_a_window_without_traces_is_refused() -> None:
    """A wrong name looks the same as an application that nobody used."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page(), summaries(NOW - HOUR, NOW))
    assert refusal(document(), stubber) == "are none in the last 1 h"


def test_traces_without_functions_are_refused() -> None:
    """A state machine can be traced while its functions are not."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a"), summaries(NOW - HOUR, NOW))
    machine = {"name": "chain", "origin": "AWS::StepFunctions::StateMachine", "start_time": 1.0, "end_time": 2.0}
    segments = [{"Id": "1", "Document": json.dumps(machine)}]
    stubber.add_response("batch_get_traces", {"Traces": [{"Id": "a", "Segments": segments}]}, {"TraceIds": ["a"]})
    assert refusal(document(), stubber) == "are 1, and none shows a Lambda function that has ended"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("AccessDeniedException", "are denied to ValidatePlan by X-Ray"),
        ("InvalidRequestException", "are refused by X-Ray: InvalidRequestException: no"),
    ],
)
def test_a_refusal_of_x_ray_is_one_of_the_plan(code: str, message: str) -> None:
    """Nothing has been created yet, and the plan's author can do something about it."""
    stubber = Stubber(xray_client())
    stubber.add_client_error("get_trace_summaries", service_error_code=code, service_message="no")
    assert refusal(document(), stubber) == message


def test_an_x_ray_that_does_not_answer_is_named() -> None:
    """A subnet without a way out; the connection is refused at once here."""
    memory = MemoryServices(FakeClock(NOW_NS), {"xray": xray_client("http://127.0.0.1:1")})
    with pytest.raises(PlanError, match="since X-Ray does not answer: Could not connect"):
        resolve_traces(parse_plan(document()), memory.services)


def test_a_slow_x_ray_is_given_up() -> None:
    """The function has three minutes, and a run that hangs in its first state tells nobody why."""
    clock = FakeClock(NOW_NS)

    class Slow:
        def get_trace_summaries(self, **_: object) -> dict[str, Any]:
            """Return another page, always."""
            clock.sleep(LIMIT_S / 4)
            return page(then="more")

    memory = MemoryServices(clock, {"xray": Slow()})
    (one,) = document()["applications"]
    plan = document() | {"applications": [one | {"name": f"app-{number}"} for number in range(5)]}
    with pytest.raises(PlanError, match=f"took X-Ray more than {LIMIT_S} s"):
        resolve_traces(parse_plan(plan), memory.services)
    assert clock.now_ns() <= NOW_NS + 1.5 * LIMIT_S * 10**9


def test_an_emulator_has_no_x_ray() -> None:
    """It answers 400 to anything, which would say nothing to a reader."""
    memory = MemoryServices(emulator="MiniStack 1.4.3")
    with pytest.raises(PlanError, match=r"applications\[0\].traces: needs X-Ray, which MiniStack 1.4.3 does not have"):
        resolve_traces(parse_plan(document()), memory.services)


def test_a_plan_with_all_durations_asks_nobody() -> None:
    """A stored plan can be run again, anywhere, with what X-Ray said then; its client would be a KeyError here."""
    functions = [{"name": "f", "duration_ms": 10, "trigger": "measured"}]
    plan = parse_plan(document(functions=functions))
    assert resolve_traces(plan, MemoryServices(emulator="MiniStack 1.4.3").services) == plan


def test_the_stored_plan_has_the_durations() -> None:
    """RenderReport reads them there, and need not know of X-Ray."""
    stubber = Stubber(xray_client())
    stubber.add_response("get_trace_summaries", page("a"), summaries(NOW - HOUR, NOW))
    stubber.add_response("batch_get_traces", {"Traces": [trace("a")]}, {"TraceIds": ["a"]})
    memory = MemoryServices(FakeClock(NOW_NS), {"xray": stubber.client})
    task = {"plan": document(), "run_id": "run-1", "started_at": NOW}
    with stubber:
        validate_plan(ValidatePlanInput.model_validate(task), memory.services)
    stored = memory.services.runs.get_model(layout.run_key("run-1", "plan.json"), Plan)
    assert [each.duration_ms for each in stored.applications[0].functions] == [200, 50]
