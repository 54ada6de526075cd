from __future__ import annotations

import importlib
import json
import logging
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.samples.services import MemoryServices
from tests.support.contracts.trigger_subject import contract_spec

from stepbench import observability
from stepbench.contracts.plan import TrialRef, TrialSpec
from stepbench.errors import PlanError
from stepbench.observability import log_keys, observed, put_metric, put_spent, trace_keys
from stepbench.planning.privacy import ROWS, VALUES
from stepbench.planning.problems import shown
from stepbench.records.storage import layout
from stepbench.services import stage_handler
from stepbench.settings import Settings, is_sampled

ROOT = Path(__file__).parents[2]
CONTEXT: Any = SimpleNamespace(
    function_name="f", memory_limit_in_mb=1, invoked_function_arn="arn", aws_request_id="request-1"
)
Json = dict[str, Any]
REF = {"run_id": "run-1", "trial": 3, "tag": "abc-0003"}
MARK = "MARKED-VALUE"
HANDLERS = {path.stem for path in (ROOT / "functions").glob("*.py")}
NAMED = {name: set(log_keys(json.loads((ROOT / f"events/tasks/{name}.json").read_text()))) for name in sorted(HANDLERS)}
SILENT = {"end_dataflow", "run_task", "run_transfer"}
"""On the measured path, where nothing decorates them: what they have to tell are rows, which name their trial."""
OF_A_TRIAL = sorted(name for name, keys in NAMED.items() if keys == {"run_id", "trial", "tag"} and name not in SILENT)
OF_A_RUN = sorted(name for name, keys in NAMED.items() if keys == {"run_id"})
PROGRAM = """
import sys
from types import SimpleNamespace
from stepbench.observability import observed
context = SimpleNamespace(function_name="f", memory_limit_in_mb=1, invoked_function_arn="arn", aws_request_id="r")
print(observed(lambda event, _context: event)({"answer": 42}, context)["answer"], "aws_xray_sdk" in sys.modules)
"""


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """Return what is logged, as it is logged."""
    written: list[Json] = []

    class Stream:
        def write(self, line: str) -> None:
            written.extend([json.loads(line)] if line.strip() else [])

        def flush(self) -> None:
            """Nothing is kept."""

    for handler in observability.logger.handlers:
        monkeypatch.setattr(handler, "stream", Stream())
    return written


@pytest.mark.parametrize(("sampled", "imported"), [("0", "False"), ("1", "True")])
def test_only_a_traced_invocation_pays_for_tracing(sampled: str, imported: str) -> None:
    """X-Ray's SDK was a third of most cold starts."""
    environ = {"_X_AMZN_TRACE_ID": f"Root=1-5;Parent=2;Sampled={sampled}", "LAMBDA_TASK_ROOT": "/var/task"}
    environ |= {"AWS_XRAY_CONTEXT_MISSING": "IGNORE_ERROR", "AWS_REGION": "us-east-1", "POWERTOOLS_LOG_LEVEL": "ERROR"}
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout.splitlines()[-1] == f"42 {imported}"


def test_without_a_word_from_lambda_nothing_is_traced() -> None:
    """Functions whose tracing is off get no such variable."""
    assert not is_sampled({})
    assert is_sampled({"_X_AMZN_TRACE_ID": "Root=1-5;Parent=2;Sampled=1"})


TRACED = """
import sys
from types import SimpleNamespace
import boto3
from botocore.config import Config
from stepbench.observability import observed
from stepbench.traces import annotate, subsegment

def stage(event, _context):
    annotate(store="s3", experiment="trigger")
    with subsegment("finish", run="run-0", trial=1):
        annotate(store="etcd", experiment="operations")
    config = Config(connect_timeout=1, retries={"total_max_attempts": 1})
    try:
        boto3.client("sqs", endpoint_url=sys.argv[1], config=config).list_queues()
    except Exception as error:
        print(type(error).__name__)
    return {}

context = SimpleNamespace(function_name="f", memory_limit_in_mb=1, invoked_function_arn="arn", aws_request_id="r")
observed(stage)({"item": {"ref": {"run_id": "run-1", "trial": 3, "tag": "abc-0003"}, "phase": 2}}, context)
"""


def test_traces_are_found_by_run_and_trial_and_show_calls_of_aws() -> None:
    """As X-Ray's daemon gets them: annotations are what its search finds; of another trial, what is done for that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon, socket.socket() as closed:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(10)
        closed.bind(("127.0.0.1", 0))  # and does not listen
        environ = {
            "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
            "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
            "LAMBDA_TASK_ROOT": "/var/task",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        command = [sys.executable, "-c", TRACED, address]
        answer = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)
        other, call, segment = (json.loads(daemon.recv(65_536).partition(b"\n")[2]) for _ in range(3))
    assert "EndpointConnectionError" in answer.stdout
    asked = {name: segment["annotations"][name] for name in ("run", "trial", "phase", "store", "experiment")}
    assert asked == {"run": "run-1", "trial": 3, "phase": 2, "store": "s3", "experiment": "trigger"}
    assert other["name"] == "finish"
    assert other["annotations"] == {"run": "run-0", "trial": 1, "store": "etcd", "experiment": "operations"}
    assert segment["name"] == "## stage"
    assert (call["name"], call["namespace"], call["aws"]["operation"]) == ("sqs", "aws", "ListQueues")
    assert call["parent_id"] == other["parent_id"] == segment["id"]


def test_who_measures_needs_no_tracer_though_the_trace_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda hands the machine's trace on to functions without tracing, whose layers have no SDK of X-Ray."""
    services = MemoryServices().services
    spec = contract_spec({"store": "s3"})
    services.runs.put_model(layout.trial_key(spec.ref, "trial.json"), spec)
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5;Parent=2;Sampled=1")
    monkeypatch.setitem(sys.modules, "aws_xray_sdk", None)
    assert services.trial(spec.ref) == spec


def test_annotations_are_of_what_the_event_is_about() -> None:
    """Also of one that is not valid: a name of another kind is none."""
    assert trace_keys({"ref": REF, "phase": 1}) == {"run": "run-1", "trial": 3, "phase": 1}
    assert trace_keys({"pathParameters": {"run_id": "run-2"}, "phase": ["x"]}) == {"run": "run-2"}
    assert trace_keys({}) == {}


def test_every_stage_of_a_trial_is_known_here() -> None:
    """Only who is about the whole run, the whole stack, or a single event names no trial."""
    others = HANDLERS - set(OF_A_TRIAL) - set(OF_A_RUN)
    known = {"bootstrap_dsql", "check_clock", "drop_results", "http_api", "receive_events", "sweep_targets"}
    assert others == known | SILENT | {"report_dataset"}
    assert {"await_turn", "conclude_run", "render_report", "validate_plan"} <= set(OF_A_RUN)


@pytest.mark.parametrize("name", [*OF_A_TRIAL, *OF_A_RUN])
def test_a_stage_that_fails_says_in_which_run_and_trial(
    name: str, monkeypatch: pytest.MonkeyPatch, records: list[Json]
) -> None:
    """Whoever looks for a run finds all of its records by one field; Lambda's own line has no such field."""
    for variable in ("RESULTS_TABLE", "RESULTS_BUCKET"):
        monkeypatch.delenv(variable, raising=False)
    event = json.loads((ROOT / f"events/tasks/{name}.json").read_text())
    handler = importlib.import_module(f"functions.{name}").handler
    with pytest.raises(ValueError, match="results_table"):
        handler(event, CONTEXT)
    (record,) = records
    assert (record["message"], record["exception_name"]) == ("failed", "ValidationError")
    assert {key: record[key] for key in log_keys(event)} == log_keys(event)
    assert record["run_id"]


def test_a_record_is_one_line_whatever_a_caller_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unicode ends a line at a dozen characters, of which JSON escapes only some by itself."""
    written: list[str] = []
    for handler in observability.logger.handlers:
        monkeypatch.setattr(handler, "stream", SimpleNamespace(write=written.append, flush=lambda: None))
    name = "a\x0bb\x85c\u2028d\u2029e\U000162fc"
    observed(lambda _event, _context: {})({"pathParameters": {"run_id": name}}, CONTEXT)
    (line,) = "".join(written).splitlines()
    assert json.loads(line)["run_id"] == name


def test_a_record_has_a_length_whatever_a_store_says() -> None:
    """CloudWatch cuts a line in two, and neither half can be read: an error is logged with what caused it."""
    error = OSError("x" * 10_000_000)
    cause = (type(error), error, None)
    record = logging.LogRecord("stepbench", logging.ERROR, __file__, 1, "said %s", ("y" * 10_000_000,), cause)
    line = str(observability.logger.registered_formatter.format(record))
    assert len(line) < 300_000
    assert json.loads(line)["exception_name"] == "OSError"


def test_what_a_stage_logs_is_about_its_own_run(records: list[Json]) -> None:
    """A sandbox serves one trial after the other; keys of the one before would lead astray."""

    def stage(_event: Json, _context: object) -> Json:
        observability.logger.warning("at work")
        return {}

    observed(stage)({"ref": REF}, CONTEXT)
    observed(stage)({"item": {"ref": {**REF, "trial": 4}}}, CONTEXT)
    observed(stage)({"pathParameters": {"run_id": "run-2"}}, CONTEXT)
    observed(stage)({}, CONTEXT)
    assert [(each["message"], each.get("run_id"), each.get("trial")) for each in records] == [
        ("at work", "run-1", 3),
        ("ended", "run-1", 3),
        ("at work", "run-1", 4),
        ("ended", "run-1", 4),
        ("at work", "run-2", None),
        ("ended", "run-2", None),
        ("at work", None, None),
        ("ended", None, None),
    ]


def test_events_and_answers_are_not_logged(records: list[Json]) -> None:
    """They hold plans, and plans are somebody's."""
    observed(lambda _event, _context: {"answer": MARK})({"ref": REF, "plan": {"name": MARK}}, CONTEXT)
    assert len(records) == 1
    assert MARK not in json.dumps(records)


def test_metrics_are_of_the_stack_and_cost_nothing_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """CloudWatch bills each by the month; and the alarms look for these very names and dimensions."""
    unwatched = Settings(results_table="t", results_bucket="b", function_prefix="bench")
    put_spent(0.25, "analytics", unwatched)
    assert capsys.readouterr().out == ""
    watched = unwatched.model_copy(update={"monitoring": True})
    put_metric(observability.TARGETS_SWEPT, 0, watched)
    put_spent(0.25, "analytics", watched)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [
        (each["_aws"]["CloudWatchMetrics"][0]["Dimensions"], each["Stack"], each.get("Team")) for each in found
    ] == [
        ([["Stack"]], "bench", None),
        ([["Stack"]], "bench", None),
        ([["Stack", "Team"]], "bench", "analytics"),
    ]
    assert [each.get("SpentUsd") for each in found] == [None, [0.25], [0.25]]
    assert found[0]["TargetsSwept"] == [0]


def test_no_password_of_a_plan_gets_into_logs_or_history(
    monkeypatch: pytest.MonkeyPatch, records: list[Json], capsys: pytest.CaptureFixture[str]
) -> None:
    """Who writes one into a plan is told so; the refusal is the execution's cause, and stands in two logs."""
    memory = MemoryServices()
    monkeypatch.setattr("stepbench.services.connect", lambda _environ: memory.services)
    target = {"store": "postgresql", "endpoint": f"admin:{MARK}@db.example:5432/bench", "password": MARK}
    plan = {"name": "p", "trials": [{"target": target, "phases": [], "login": {"secret": MARK}}], "db": f"//u:{MARK}@h"}
    event = {"plan": plan, "run_id": "run-1", "started_at": "2026-01-02T03:04:05Z"}
    handler = importlib.import_module("functions.validate_plan").handler
    with pytest.raises(PlanError) as refused:
        handler(event, CONTEXT)
    assert {problem.path for problem in refused.value.problems} >= {"trials[0].target.password", "db"}
    said = [str(refused.value), json.dumps(records), str(memory.services.register.find("run-1")), *capsys.readouterr()]
    assert records
    assert not any(MARK in text for text in said)


def test_no_field_of_a_plan_is_taken_for_a_password() -> None:
    """Its value would be hidden from whoever has to mend it; only rows of the user's own are."""
    schema = (ROOT / "docs/plan.schema.json").read_text()
    names = {name for each in json.loads(schema)["$defs"].values() for name in each.get("properties", {})}
    assert {name for name in names if "hidden" in shown({name: 1})} == {ROWS, VALUES}


def test_a_stored_document_that_is_refused_is_not_repeated(records: list[Json]) -> None:
    """What pydantic found would be in its message."""
    with pytest.raises(ValueError, match="plan") as refused:
        observed(stage_handler(lambda _task, _services: TrialRef(**REF), TrialSpec))({**REF, "plan": MARK}, CONTEXT)
    assert MARK not in str(refused.value)
    assert MARK not in json.dumps(records)
