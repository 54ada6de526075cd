"""What somebody sees who starts runs in the console, and what the logs hold of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.end_to_end.deployment import RUN_LIMIT_S, Deployment, plan, wait_for

from stepbench.experiments.report.headline import MAX_OUTPUT_BYTES
from stepbench_tools.local.stack import BENCHMARK, TRIAL

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(3 * RUN_LIMIT_S)]

MARK = "MARKED-PASSWORD"
PREFIX = "console"
Json = dict[str, Any]


@dataclass(frozen=True)
class Console:
    """Runs started as in the console: an execution's name and its input, and nothing of the command line."""

    deployment: Deployment

    def aws(self, service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        """Return a client."""
        return self.deployment.stack.aws(service)

    def run(self, name: str, given: Json) -> Json:
        """Return the execution as it is described at its end."""
        machine = self.deployment.stack.outputs[BENCHMARK]
        started = self.aws("stepfunctions").start_execution(
            stateMachineArn=machine, name=f"{PREFIX}-{name}", input=json.dumps(given)
        )
        described: Json = {}

        def has_ended() -> bool:
            described.update(self.aws("stepfunctions").describe_execution(executionArn=started["executionArn"]))
            return str(described["status"]) != "RUNNING"

        assert wait_for(has_ended, RUN_LIMIT_S)
        return described

    def histories(self) -> Iterator[Json]:
        """Yield the events of all executions of this module, less the input that a user gave."""
        client = self.aws("stepfunctions")
        for machine in (BENCHMARK, TRIAL):
            listed = client.list_executions(stateMachineArn=self.deployment.stack.outputs[machine])["executions"]
            for execution in listed:
                pages = client.get_paginator("get_execution_history").paginate(executionArn=execution["executionArn"])
                for event in pages.search("events[]"):
                    details = event.get("executionStartedEventDetails", {})
                    yield {**event, "executionStartedEventDetails": {**details, "input": ""}} if details else event

    def records(self) -> Iterator[str]:
        """Yield the lines of all functions and machines."""
        logs = self.aws("logs")
        for group in logs.get_paginator("describe_log_groups").paginate().search("logGroups[].logGroupName"):
            for stream in logs.describe_log_streams(logGroupName=group)["logStreams"]:
                events = logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"])["events"]
                yield from (event["message"] for event in events)


@pytest.fixture(scope="module")
def console(deployment: Deployment) -> Console:
    """Return the deployed stack as the console has it."""
    return Console(deployment)


@pytest.fixture(scope="module")
def ended(console: Console) -> dict[str, Json]:
    """Return a run that goes well, one whose plan is refused, and one whose store is not there."""
    wrong = plan("wrong", "etcd", "etcd", endpoint=f"admin:{MARK}@127.0.0.1:2379")
    wrong["trials"][1]["target"] = {"store": "etcd", "password": MARK}
    unreachable = plan("away", "etcd", endpoint="127.0.0.1:1")
    return {
        "good": console.run("good", plan("good", "s3", warm_up=10, measured=20)),
        "refused": console.run("refused", wrong),
        "away": console.run("away", unreachable),
    }


def test_the_output_says_how_it_went_and_where_the_rest_is(ended: dict[str, Json]) -> None:
    """A headline and addresses in the bucket; no link that would be good for whoever reads the history."""
    described = ended["good"]
    assert described["status"] == "SUCCEEDED", described
    assert len(described["output"]) < MAX_OUTPUT_BYTES
    output = json.loads(described["output"])
    assert (output["status"], output["run_id"]) == ("succeeded", f"{PREFIX}-good")
    assert output["headline"][0].startswith("s3: n 20, p50 ")
    assert [name.partition(" ")[0] for name in output["removed"]] == ["notification", "objects"]
    assert output["report"].startswith("s3://")
    assert output["report"].endswith(f"/runs/{PREFIX}-good/report.html")
    assert "X-Amz-" not in described["output"]


def test_a_refused_plan_says_where_what_and_how_to_mend_it(ended: dict[str, Json]) -> None:
    """A line for each mistake; who wrote a password into a plan does not find it again."""
    described = ended["refused"]
    assert (described["status"], described["error"]) == ("FAILED", "PlanError")
    lines = described["cause"].splitlines()
    assert {line.partition(":")[0] for line in lines} == {"trials[0].target.endpoint", "trials[1].target.password"}
    assert all("(got " in line and line.endswith(".") for line in lines)
    assert MARK not in described["cause"]


def test_a_store_that_is_not_there_is_named_with_what_to_do(ended: dict[str, Json]) -> None:
    """In the execution that was started, not only in its child."""
    described = ended["away"]
    assert (described["status"], described["error"]) == ("FAILED", "TrialsFailedError")
    head, reason = described["cause"].splitlines()
    assert head.startswith("1 of 1 trial failed; what there is of them is in s3://")
    assert reason.startswith("etcd: TargetUnreachableError: ")
    assert "127.0.0.1:1" in reason
    assert reason.endswith("See whether it runs, and whether the plan's endpoint is right")


def test_histories_hold_keys_and_no_secret(console: Console, ended: dict[str, Json]) -> None:
    """But for the plan, which is the user's own input: a presigned link or a record would be there for 90 days."""
    assert ended
    events = [json.dumps(event, default=str) for event in console.histories()]
    assert len(events) > 20
    passed_on = [event for event in events if "ValidatePlan" not in event]
    assert [event for event in passed_on if MARK in event] == []
    assert [event for event in events if "X-Amz-" in event or len(event) > 20_000] == []


def test_logs_name_the_run_and_hold_no_secret(console: Console, ended: dict[str, Json]) -> None:
    """Of every stage that measures nothing, what it did; and of a refusal the reason."""
    assert ended
    lines = list(console.records())
    assert [line for line in lines if MARK in line] == []
    records = [json.loads(line) for line in lines if line.startswith('{"level"')]
    of_runs = [record for record in records if str(record.get("run_id", "")).startswith(PREFIX)]
    assert {record["run_id"] for record in of_runs} == {f"{PREFIX}-{name}" for name in ended}
    stages = {str(record["function_name"]).rpartition("-")[2] for record in of_runs if record["message"] == "ended"}
    wanted = {"ValidatePlan", "PrepareTarget", "AwaitTarget", "PlanPhase", "AwaitArrivals", "CollectLogs"}
    assert stages >= wanted | {"AnalyseTrial", "ExportRecords", "TearDownTarget", "RenderReport"}
    trials = [record for record in of_runs if record["function_name"].endswith(("Target", "Phase", "Trial"))]
    assert all({"trial", "tag"} <= record.keys() for record in trials)
    (refusal,) = [record for record in of_runs if record.get("exception_name") == "PlanError"]
    assert refusal["run_id"] == f"{PREFIX}-refused"
