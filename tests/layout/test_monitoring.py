"""Alarms and dashboard look at metrics that are there, and each alarm has its section in the runbook."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from tests.samples.templates import ROOT, Json, load_template
from tests.unit.stages.test_await_turn import arrive, queue
from tests.unit.stages.test_conclude_run import report

from stepbench.contracts.runs import ConcludeRunInput, SweepTargetsInput
from stepbench.settings import Settings
from stepbench.stages.conclude_run import conclude_run
from stepbench.stages.sweep_targets import sweep_targets

MONITORING = load_template("stacks/monitoring.yaml")
ALARMS = {
    name: body["Properties"]
    for name, body in MONITORING["Resources"].items()
    if body["Type"] == "AWS::CloudWatch::Alarm"
}
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
_DOCS = "https://docs.aws.amazon.com/"


class Metric(NamedTuple):
    """A metric as CloudWatch tells it apart: with the names of its dimensions."""

    namespace: str
    name: str
    dimensions: tuple[str, ...]


UNTOLD = Metric("AWS/Events", "FailedInvocations", ("RuleName",))
"""Of a rule that most stacks have not got, so that it is on no dashboard."""
OF_SERVICES = {
    f"{_DOCS}step-functions/latest/dg/procedure-cw-metrics.html": {
        Metric("AWS/States", name, ("StateMachineArn",))
        for name in (
            "ExecutionsStarted",
            "ExecutionsSucceeded",
            "ExecutionsFailed",
            "ExecutionsTimedOut",
            "ExecutionsAborted",
            "ExecutionTime",
        )
    },
    f"{_DOCS}AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html": {
        Metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", ("QueueName",))
    },
    f"{_DOCS}lambda/latest/dg/monitoring-metrics-types.html": {
        Metric("AWS/Lambda", name, ("FunctionName",)) for name in ("Errors", "Throttles")
    },
    f"{_DOCS}amazondynamodb/latest/developerguide/metrics-dimensions.html": {
        Metric("AWS/DynamoDB", name, ("TableName",)) for name in ("WriteThrottleEvents", "ReadThrottleEvents")
    },
    f"{_DOCS}eventbridge/latest/userguide/eb-monitoring.html": {UNTOLD},
}
"""By the page that says that the service emits it, with these dimensions."""


@pytest.fixture
def emitted(capsys: pytest.CaptureFixture[str]) -> set[Metric]:
    """Return what AWS's services emit, and what our own code does when it is called."""
    memory, _ = queue()
    watched = memory.services.settings.model_copy(update={"monitoring": True, "function_prefix": "bench"})
    services = replace(memory.services, settings=watched)
    sweep_targets(SweepTargetsInput(), services)
    arrive(memory, "run-1", 1)
    conclude_run(ConcludeRunInput(run_id="run-1", report=report("run-1")), services)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    own = {
        Metric(directive["Namespace"], metric["Name"], tuple(dimensions))
        for line in lines
        for directive in line["_aws"]["CloudWatchMetrics"]
        for metric in directive["Metrics"]
        for dimensions in directive["Dimensions"]
    }
    return own.union(*OF_SERVICES.values())


def test_monitoring_is_off_unless_asked_for() -> None:
    """Alarms, a dashboard and metrics are billed by the month."""
    template = load_template("template.yaml")
    assert template["Parameters"]["Monitoring"]["Default"] == "off"
    assert template["Resources"]["MonitoringStack"]["Condition"] == "WithMonitoring"
    assert not Settings(results_table="t", results_bucket="b").monitoring
    assert Settings.model_validate({"results_table": "t", "results_bucket": "b", "monitoring": "on"}).monitoring


def test_each_alarm_looks_at_a_metric_that_somebody_emits(emitted: set[Metric]) -> None:
    """CloudWatch takes any name, and an alarm on one that nobody emits is never more than silent."""
    asked = {
        Metric(body["Namespace"], body["MetricName"], tuple(each["Name"] for each in body["Dimensions"]))
        for body in ALARMS.values()
    }
    assert asked - emitted == set()
    assert {metric.name for metric in asked if metric.namespace == "Stepbench"} == {
        "TargetsSwept",
        "TargetsPending",
        "SpentUsd",
    }


def test_each_alarm_goes_to_the_topic_and_says_nothing_while_nothing_happens() -> None:
    """Most of these metrics have no value in an hour without a run."""
    for name, body in ALARMS.items():
        assert body["AlarmActions"] == [{"Ref": "AlarmTopic"}], name
        assert body["TreatMissingData"] == "notBreaching", name


def test_each_alarm_has_a_section_in_the_runbook_and_each_section_an_alarm() -> None:
    """Whoever gets it by e-mail finds there what to do."""
    sections = re.findall(r"^## (.+)$", RUNBOOK, re.MULTILINE)
    named = {body["AlarmName"]["Fn::Sub"].removeprefix("${Stack}-"): body for body in ALARMS.values()}
    assert sections == [*named, "Without an alarm"]
    for name, body in named.items():
        assert body["AlarmDescription"].endswith(f"docs/runbook.md#{name.lower()}")


def _dashboard() -> Json:
    text = MONITORING["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    body: Json = json.loads(re.sub(r"\$\{([\w:]+)\}", "name", text))
    return body


def _metrics(rows: list[list[Any]]) -> list[Metric]:
    """Return a widget's metrics; in a row "." repeats the field above, "..." the whole beginning."""
    found: list[Metric] = []
    above: list[str] = []
    for row in rows:
        fields = [each for each in row if isinstance(each, str)]
        fields = above if fields == ["..."] else [above[i] if each == "." else each for i, each in enumerate(fields)]
        if fields:
            found.append(Metric(fields[0], fields[1], tuple(fields[2::2])))
        else:
            search = re.search(r"SEARCH\('\{([^}]+)\} MetricName=\"(\w+)\"", row[0]["expression"])
            assert search is not None, row
            namespace, *dimensions = search[1].split(",")
            found.append(Metric(namespace, search[2], tuple(dimensions)))
        above = fields
    return found


def test_the_dashboard_shows_metrics_that_somebody_emits(emitted: set[Metric]) -> None:
    """An empty graph looks like good news; and what an alarm looks at can be seen there."""
    shown = {metric for widget in _dashboard()["widgets"] for metric in _metrics(widget["properties"]["metrics"])}
    assert shown == emitted - {UNTOLD}


def test_no_two_widgets_stand_in_one_place() -> None:
    """CloudWatch would move them."""
    places = [(widget["x"], widget["y"]) for widget in _dashboard()["widgets"]]
    assert len(set(places)) == len(places)
