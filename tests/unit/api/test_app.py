"""The API in process: what callers ask for, what they get, and what nobody gets."""

from __future__ import annotations

import base64
import copy
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.samples.services import NOT_ALLOWED
from tests.unit.api.conftest import ANNA, BERT, MACHINE, Answer, Api

from stepbench.api.resolver import Caller
from stepbench.api.runs import submit
from stepbench.contracts.api import ProblemDetails, RunList, RunView
from stepbench.contracts.runs import QueueEntry, RunRequest, ValidatePlanInput
from stepbench.contracts.values import MOST_FILE_BYTES, MOST_TEXT_BYTES
from stepbench.errors import MOST_PROBLEMS, PlanError
from stepbench.planning import find_plan
from stepbench.planning.reading import MAX_PLAN_BYTES
from stepbench.records.storage import layout
from stepbench.stages.validate_plan import validate_plan

PRESET = "quick-unloaded-s3"


def problem(found: Answer, status: int, name: str) -> ProblemDetails:
    """Return the problem details of an answer with this status."""
    assert found.status == status, found
    assert found.headers["Content-Type"] == "application/problem+json"
    details = ProblemDetails.model_validate(found.body)
    assert (details.status, details.type) == (status, f"urn:stepbench:problem:{name}")
    return details


def start(api: Api, **more: Any) -> RunView:  # noqa: ANN401 -- see `Api.call`
    """Start a run of a preset."""
    found = api.call("POST", "/runs", {"plan": PRESET}, **more)
    assert found.status == 202, found
    return RunView.model_validate(found.body)


def test_a_run_is_started_with_its_caller_and_team(api: Api) -> None:
    """The execution's input says whose it is; the register has it before the execution begins."""
    run = start(api)
    assert (run.team, run.caller, run.source, run.state, run.plan) == ("role/anna", ANNA, "api", "submitted", PRESET)
    document = json.loads(api.machine.started[run.run_id])
    assert document == {"plan": PRESET, "team": "role/anna", "caller": ANNA, "source": "api"}
    assert run.links.report == f"/runs/{run.run_id}/report"


def test_a_preset_is_changed_by_path(api: Api) -> None:
    """So that nobody has to send a copy of it."""
    body = {"plan": PRESET, "set": {"trials[0].phases[1].load[0].count": 20}}
    assert (
        api.call("POST", "/plans/validate", body).body["events"]
        < api.call("POST", "/plans/validate", {"plan": PRESET}).body["events"]
    )


def test_a_preset_that_leaves_a_name_to_its_user_is_offered_with_it(api: Api) -> None:
    """Nothing runs until it is set; then one learns beforehand that a copy does what the function does."""
    offered = {plan["name"]: plan for plan in api.call("GET", "/plans").body["plans"]}
    (path,) = offered["your-function"]["to_set"]
    assert offered["your-function"]["refused"] == ""
    details = problem(api.call("POST", "/runs", {"plan": "your-function"}), 422, "refused")
    assert [(item.path, item.value) for item in details.problems] == [(path, '"YOUR-FUNCTION"')]
    found = api.call("POST", "/plans/validate", {"plan": "your-function", "set": {path: "orders"}})
    assert [note.partition(",")[0] for note in found.body["notes"]] == ["a copy of orders is invoked"]


def test_a_function_that_the_stack_may_not_read_is_refused_before_a_run(api: Api) -> None:
    """Validation that passes what the run then refuses would be worth little."""
    body = {"plan": "your-function", "set": {"trials[0].target.function.name": NOT_ALLOWED}}
    details = problem(api.call("POST", "/plans/validate", body), 422, "refused")
    assert [item.path for item in details.problems] == ["trials[0].target.function.name"]
    assert "MeasuredFunctions" in details.problems[0].message


def test_rows_have_a_place_that_is_named_by_their_content(api: Api) -> None:
    """They do not pass through the API, whose log and answers so have none of them."""
    digest = "ab" * 32
    found = api.call("POST", "/values", {"format": "jsonl", "size_bytes": 9, "sha256": digest})
    checksum = base64.b64encode(bytes.fromhex(digest)).decode()
    assert found.body["key"] == f"values/{digest}.jsonl"
    assert found.body["url"] == f"https://bucket/values/{digest}.jsonl?300&ContentLength=9&ChecksumSHA256={checksum}"
    assert found.body["headers"] == {"x-amz-checksum-sha256": checksum}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"format": "xlsx"}, "format"),
        ({"size_bytes": 0}, "size_bytes"),
        ({"size_bytes": MOST_TEXT_BYTES + 1}, "size_bytes"),
        ({"format": "zip", "size_bytes": MOST_FILE_BYTES + 1}, "size_bytes"),
        ({"sha256": "../runs/x"}, "sha256"),
        ({"key": "runs/mine/report.html"}, "key"),
    ],
)
def test_a_file_that_no_trial_takes_has_no_place(api: Api, change: dict[str, Any], path: str) -> None:
    """Whoever has the link may write what it says, and nothing else."""
    asked = {"format": "jsonl", "size_bytes": 9, "sha256": "ab" * 32, **change}
    details = problem(api.call("POST", "/values", asked), 422, "refused")
    assert [item.path for item in details.problems] == [path]


def test_a_plan_of_ones_own_is_as_good_as_a_preset(api: Api) -> None:
    """It is the same document."""
    assert api.call("POST", "/runs", {"plan": json.loads(find_plan(PRESET))}).status == 202


REFUSED: dict[str, dict[str, Any]] = {
    "no server": {"plan": "quick-dataflow"},
    "an address": {"plan": PRESET, "set": {"trials[0].target.endpoint": "http://s3.example.com"}},
    "its own budget": {"plan": PRESET, "set": {"budget_usd": 1e-9}},
    "the account's sandboxes": {
        "plan": PRESET,
        "set": {"trials[0].writers": 900, "trials[0].phases[1].load[0].count": 90_000, "budget_usd": 99},
    },
    "a change that leads nowhere": {"plan": PRESET, "set": {"trials[7].writers": 1}},
}


@pytest.mark.parametrize("why", REFUSED)
def test_the_api_and_the_machine_refuse_a_plan_alike(api: Api, why: str) -> None:
    """A plan that one takes and the other refuses would be a run that ends as soon as it has begun."""
    answer = problem(api.call("POST", "/runs", REFUSED[why]), 422, "refused")
    task = {"plan": REFUSED[why], "run_id": "run-1", "started_at": "2026-01-02T03:04:05Z"}
    with pytest.raises(PlanError) as refused:
        validate_plan(ValidatePlanInput.model_validate(task), api.memory.services)
    assert [each.model_dump() for each in answer.problems] == [each._asdict() for each in refused.value.problems]


def test_a_plan_is_read_and_expanded_once(api: Api) -> None:
    """It was expanded eight times: for each rule, and each number of the answer."""
    calls: Counter[str] = Counter()
    sys.setprofile(lambda frame, event, _: calls.update([frame.f_code.co_name] if event == "call" else []))
    try:
        start(api)
    finally:
        sys.setprofile(None)
    assert {name: calls[name] for name in ("requested_plan", "parse_expanded", "expanded", "budgeted")} == {
        "requested_plan": 1,
        "parse_expanded": 1,
        "expanded": 1,
        "budgeted": 1,
    }


def test_a_plan_of_endlessly_many_mistakes_is_answered(api: Api) -> None:
    """A function's answer has 6 MB at most; API Gateway made 502 of it."""
    plan = {"name": "one", "trials": [{"target": {"store": "s3"}, "phases": [1] * 50_000}]}
    answer = api.call("POST", "/runs", {"plan": plan})
    assert (answer.status, len(answer.body["problems"])) == (422, MOST_PROBLEMS + 1)
    assert answer.body["problems"][-1]["path"] == "further problems"


@pytest.mark.parametrize("run_id", ["r-typo", "r" * 3_000, "\N{GRINNING FACE}" * 200, "r\x1b[2J"])
def test_a_named_baseline_that_nobody_has_made_is_refused(api: Api, run_id: str) -> None:
    """A mistyped id costs no run; so does another team's. One that no table takes as a key was "try again" (503)."""
    body = {"plan": PRESET, "regressions": {"baseline": {"kind": "named_run", "run_id": run_id}}}
    answer = api.call("POST", "/runs", body)
    assert (answer.status, len(api.machine.started)) == (422, 0)
    assert "regressions.baseline." in json.dumps(answer.body)


def test_twenty_requests_at_once_with_one_key_are_one_run(api: Api) -> None:
    """A caller whose connection broke asks again, and so does whoever calls for it; each call has its own sandbox."""
    request, caller = RunRequest(plan=PRESET), Caller(ANNA, "role/anna")
    with ThreadPoolExecutor(20) as threads:
        runs = list(threads.map(lambda _: submit(request, "deploy-17", caller, api.memory.services), range(20)))
    assert len({run.run_id for run in runs}) == 1
    assert len(api.machine.started) == 1


def test_a_key_is_a_teams_own_and_of_one_request(api: Api) -> None:
    """Another team's key is another key; another plan with a used one is a mistake."""
    headers = {"idempotency-key": "deploy-17"}
    mine, theirs = start(api, headers=headers), start(api, headers=headers, caller=BERT)
    assert mine.run_id != theirs.run_id
    problem(api.call("POST", "/runs", {"plan": "quick-unloaded-etcd"}, headers=headers), 409, "conflict")


def test_a_key_is_known_from_another_session_of_the_same_role(api: Api) -> None:
    """A pipeline that tries again has a new session; the execution's input stays the same, so it is the same run."""
    headers = {"idempotency-key": "deploy-17"}
    first = start(api, headers=headers)
    again = start(api, headers=headers, caller=ANNA.replace("session", "session-2"))
    assert (again.run_id, again.caller, len(api.machine.started)) == (first.run_id, ANNA, 1)


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_a_key_starts_no_run_again_that_step_functions_has_forgotten(api: Api, state: str) -> None:
    """After 90 days it would take the name for a new one, and the old run's documents would be written over."""
    headers = {"idempotency-key": "deploy-17"}
    run = start(api, headers=headers)
    api.memory.register.change(run.run_id, ("submitted",), state=state)
    api.machine.started.clear()
    assert (start(api, headers=headers).state, api.machine.started) == (state, {})


def test_a_run_that_cannot_be_started_gives_its_budget_back(api: Api) -> None:
    """Without a key nobody can ask for it again, and it would stay submitted with its estimate spent."""
    api.machine.refusal = "ThrottlingException"
    problem(api.call("POST", "/runs", {"plan": PRESET}), 503, "unavailable")
    (run,) = api.memory.register.runs.values()
    assert (run.state, run.spent_usd) == ("failed", 0)
    assert "ThrottlingException" in run.cause


def test_a_run_with_a_key_that_could_not_be_started_is_started_by_who_asks_again(api: Api) -> None:
    """The answer said: try again in a minute."""
    headers = {"idempotency-key": "deploy-17"}
    api.machine.refusal = "ThrottlingException"
    problem(api.call("POST", "/runs", {"plan": PRESET}, headers=headers), 503, "unavailable")
    api.machine.refusal = ""
    run = start(api, headers=headers)
    assert (run.state, list(api.machine.started), len(api.memory.register.runs)) == ("submitted", [run.run_id], 1)


def test_a_run_without_an_execution_is_stopped_in_the_register(api: Api) -> None:
    """There is nothing whose end would have the sweeper close it."""
    run = start(api)
    api.machine.started.clear()
    assert api.call("DELETE", f"/runs/{run.run_id}").body["state"] == "stopped"


def test_a_request_that_is_too_large_with_whose_run_it_is_reserves_nothing(api: Api) -> None:
    """Step Functions would refuse it after it has been entered."""
    plan = json.loads(find_plan(PRESET))
    body = {"plan": plan, "set": {"trials[0].name": ""}}
    body["set"]["trials[0].name"] = "x" * (MAX_PLAN_BYTES - len(json.dumps(body)))
    assert len(json.dumps(body)) == MAX_PLAN_BYTES
    details = problem(api.call("POST", "/runs", body), 422, "refused")
    assert details.problems[0].message.startswith("is larger than")
    assert (api.machine.started, api.memory.register.runs) == ({}, {})


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("DELETE", ""), ("GET", "/report"), ("GET", "/summary"), ("GET", "/records")],
)
def test_another_teams_run_does_not_exist(api: Api, method: str, path: str) -> None:
    """404 and not 403: that there is such a run is nobody else's business."""
    run = start(api)
    problem(api.call(method, f"/runs/{run.run_id}{path}", caller=BERT), 404, "not-found")
    assert api.machine.stopped == []


def test_everybody_sees_the_default_teams_runs_and_stops_none(api: Api) -> None:
    """They come from the console and from schedules."""
    run = start(api, caller="arn:aws:iam::000000000000:root")
    assert api.call("GET", f"/runs/{run.run_id}").body["team"] == "default"
    problem(api.call("DELETE", f"/runs/{run.run_id}"), 403, "not-permitted")
    listed = RunList.model_validate(api.call("GET", "/runs", query={"team": "default"}).body)
    assert [each.run_id for each in listed.runs] == [run.run_id]
    problem(api.call("GET", "/runs", query={"team": "role/bert"}), 403, "not-permitted")


def test_a_run_is_stopped_by_its_execution(api: Api) -> None:
    """What follows is the sweeper's, as for every execution that is stopped; stopping twice is stopping."""
    run = start(api)
    assert api.call("DELETE", f"/runs/{run.run_id}").status == 202
    assert api.machine.stopped == [f"{MACHINE.replace(':stateMachine:', ':execution:')}:{run.run_id}"]
    api.memory.register.change(run.run_id, ("submitted",), state="stopped")
    assert api.call("DELETE", f"/runs/{run.run_id}").body["state"] == "stopped"
    assert len(api.machine.stopped) == 1


def test_a_run_that_ends_while_it_is_stopped_is_no_error(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is entered in a moment, whichever it is."""
    run = start(api)

    def stop(**_: str) -> None:
        raise ClientError({"Error": {"Code": "ValidationException", "Message": "not running"}}, "StopExecution")

    monkeypatch.setattr(api.machine, "stop_execution", stop)
    assert api.call("DELETE", f"/runs/{run.run_id}").status == 202


def test_a_level_is_acknowledged_by_its_team(api: Api) -> None:
    """With a reason, once the run has gone through; saying it again changes the reason."""
    run = start(api)
    path = f"/runs/{run.run_id}/acknowledgement"
    problem(api.call("PUT", path, {"why": "TLS is on"}), 409, "conflict")
    api.memory.register.change(run.run_id, ("submitted",), state="succeeded")
    problem(api.call("PUT", path, {"why": "TLS is on"}, caller=BERT), 404, "not-found")
    for body in ({}, {"why": ""}, {"why": 1}, {"why": "x", "by": "me"}, {"why": "x" * 501}, "[]", ""):
        assert problem(api.call("PUT", path, body), 422, "refused").problems
    for why in ("TLS is on", "TLS is on since 2.1"):
        assert api.call("PUT", path, {"why": why}).body["acknowledged"] == why
    own = start(api, caller="arn:aws:iam::000000000000:root")
    problem(api.call("PUT", f"/runs/{own.run_id}/acknowledgement", {"why": "x"}), 403, "not-permitted")


def test_a_waiting_run_shows_whom_it_waits_for(api: Api) -> None:
    """A run of another team has no name there."""
    runs = [start(api, caller=caller) for caller in (BERT, ANNA, ANNA)]
    for place, run in enumerate(runs):
        entry = {"run_id": run.run_id, "team": run.team, "plan": run.plan, "targets": ("s3#b",), "expected_s": 60}
        arrived = {"arrived_at": f"2026-01-02T03:04:0{place}Z", "execution_arn": "arn"}
        joined = QueueEntry.model_validate({**entry, **arrived})
        assert api.memory.register.join(joined, "secret-token", joined.arrived_at)
    first = api.memory.register.queue()[0]
    api.memory.register.admit(first, first.arrived_at)
    found = api.call("GET", f"/runs/{runs[2].run_id}")
    queue = found.body["queue"]
    assert (queue["position"], [each["run_id"] for each in queue["waits_for"]]) == (2, [None, runs[1].run_id])
    assert "secret-token" not in json.dumps(found.body)


def test_runs_are_listed_page_by_page(api: Api) -> None:
    """Each once, newest first."""
    started = [start(api).run_id for _ in range(5)]
    seen: list[str] = []
    page: dict[str, Any] = {"limit": 2}
    while True:
        found = RunList.model_validate(api.call("GET", "/runs", query=page).body)
        seen += [run.run_id for run in found.runs]
        if found.next is None:
            break
        page["page"] = found.next
    assert sorted(seen) == sorted(started)
    assert len(seen) == 5


def test_documents_are_links_that_expire(api: Api) -> None:
    """Made at each request, never stored; a run without them says so."""
    run = start(api)
    problem(api.call("GET", f"/runs/{run.run_id}/report"), 404, "not-found")
    api.memory.services.runs.put_bytes(layout.run_key(run.run_id, "report.html"), b"<html>")
    found = api.call("GET", f"/runs/{run.run_id}/report")
    assert (found.status, found.headers["Location"]) == (303, f"https://bucket/runs/{run.run_id}/report.html?300")
    assert found.body["url"] == found.headers["Location"]


def test_a_request_that_nobody_has_signed_is_refused(api: Api) -> None:
    """API Gateway has refused it before; this is for a route whose authorisation somebody took away."""
    for method, path in (("GET", "/runs"), ("POST", "/runs"), ("GET", "/plans"), ("GET", "/schema")):
        problem(api.call(method, path, {"plan": PRESET}, caller=""), 401, "not-signed")


def test_an_endpoint_outside_of_the_stack_is_refused(api: Api) -> None:
    """Whoever may start a run must not reach through it what they could not reach by themselves."""
    plan = json.loads(find_plan("quick-unloaded-etcd"))
    plan["trials"][0]["target"]["endpoint"] = "10.0.0.7:2379"
    details = problem(api.call("POST", "/runs", {"plan": plan}), 422, "refused")
    assert details.problems[0].path == "trials[0].target.endpoint"
    assert api.machine.started == {}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"plan": PRESET, "team": "bert"}, "team"),
        ({"plan": PRESET, "source": "schedule"}, "source"),
        ({"plan": "../../etc/passwd"}, "plan"),
        ({"plan": "/etc/passwd"}, "plan"),
        ({"plan": None}, "plan"),
        ({}, "plan"),
        ("", "plan"),
        ("{", "line 1, column 2"),
        ({"plan": PRESET, "set": {"nothing": 1}}, "--set nothing"),
        ({"plan": PRESET, "set": {"a b": 1}}, "set.a b"),
        ({"plan": PRESET, "set": []}, "set"),
    ],
)
def test_a_bad_request_says_where_and_what_to_do(api: Api, body: Any, path: str) -> None:  # noqa: ANN401 -- JSON
    """And creates nothing."""
    details = problem(api.call("POST", "/runs", body), 422, "refused")
    assert path in {item.path for item in details.problems}
    assert all(item.message and item.remedy for item in details.problems)
    assert (api.machine.started, api.memory.register.runs) == ({}, {})


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"plan": "x", "\\ud800": 1}', "?"),
        (
            json.dumps({"plan": PRESET, "set": {f"trials[{'9' * 5_000}].seed": 1}}),
            f"set.trials[{'9' * 1_960}... (5,017 characters in all)",
        ),
    ],
)
def test_what_no_text_or_number_can_hold_is_refused(api: Api, body: str, path: str) -> None:
    """Half a character cannot be sent back, and Python reads no number of 5,000 digits: neither is our mistake."""
    details = problem(api.call("POST", "/runs", body), 422, "refused")
    assert [item.path for item in details.problems] == [path]


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/runs"), ("POST", "/plans/validate"), ("PUT", "/runs/r/acknowledgement")]
)
def test_a_body_that_is_no_text_is_refused(api: Api, method: str, path: str) -> None:
    """API Gateway hands on as base64 whatever its type does not call text."""
    for body in (base64.b64encode(b"\xff").decode(), "no base64"):
        details = problem(api.call(method, path, body, encoded=True), 422, "refused")
        assert [item.path for item in details.problems] == ["body"]
    good = base64.b64encode(json.dumps({"plan": PRESET}).encode()).decode()
    assert api.call("POST", "/runs", good, encoded=True).status == 202


def test_a_summary_of_another_version_cannot_be_compared(api: Api) -> None:
    """It outlives updates of the stack."""
    run = start(api)
    api.memory.services.runs.put_json(layout.run_key(run.run_id, "summary.json"), {"of": "another version"})
    found = problem(api.call("GET", "/compare", query={"a": run.run_id, "b": run.run_id}), 422, "refused")
    assert "another version" in found.detail


@pytest.mark.parametrize("query", [{"limit": 0}, {"state": "done"}, {"since": "yesterday"}, {"page": "x"}])
def test_a_bad_parameter_is_named(api: Api, query: dict[str, Any]) -> None:
    """400, as for everything that cannot be read."""
    problem(api.call("GET", "/runs", query=query), 400, "bad-request")


def test_a_time_before_its_beginning_has_no_runs(api: Api) -> None:
    """DynamoDB takes no such range; an empty page is the answer to the question."""
    start(api)
    api.memory.register.page = None  # type: ignore[assignment,method-assign] # it is not asked
    assert api.call("GET", "/runs", query={"since": "2027", "until": "2026"}).body == {"runs": [], "next": None}


def test_an_unknown_path_is_a_problem_too(api: Api) -> None:
    """Clients need one way to read errors."""
    problem(api.call("GET", "/nothing"), 404, "not-found")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def bad_plans(draw: st.DrawFn) -> Any:  # noqa: ANN401 -- JSON
    """Return a preset with one value replaced, removed, or put in beside the others."""
    document = json.loads(find_plan(PRESET))
    document.pop("description", None)
    at: Any = document
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or not at[key] or draw(st.booleans()):
            break
        at = at[key]
    kind = draw(st.sampled_from(("replaced", "added", "removed")))
    if kind == "removed":
        del at[key]
    elif kind == "added" and isinstance(at, dict):
        at[draw(st.text(min_size=1, max_size=8))] = draw(JSON)
    else:
        at[key] = draw(JSON)
    return document


@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=bad_plans())
def test_a_thousand_plans_with_a_mistake_create_nothing(api: Api, plan: Any) -> None:  # noqa: ANN401 -- JSON
    """Each is a 4xx with a path; those that are right by chance are started, and nothing else is."""
    api.machine.started.clear()
    api.memory.register.runs.clear()
    found = api.call("POST", "/runs", {"plan": copy.deepcopy(plan)})
    if found.status == 202:
        assert len(api.machine.started) == 1
        return
    details = problem(found, 422, "refused")
    assert details.problems
    assert all(item.path and item.remedy for item in details.problems)
    assert (api.machine.started, api.memory.register.runs) == ({}, {})
