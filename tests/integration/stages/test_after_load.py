"""The stages after the load, on a real table, bucket and log group: real edges."""

from __future__ import annotations

import io
import time
import zipfile
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest
from tests.samples.finished_trials import FinishedTrial
from tests.samples.records import REF, t4_item
from tests.samples.results import sample_results
from tests.samples.services import small_plan, stored_trial

from stepbench.contracts.documents import Manifest
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.result import RunSummary, TrialResult
from stepbench.contracts.runs import RenderReportInput, TrialOutcome
from stepbench.contracts.tasks import AnalyseTrialInput, AwaitArrivalsInput, CollectLogsInput, ExportRecordsInput
from stepbench.records.formats.t4 import Entry
from stepbench.records.formats.t4_lines import t4_lines
from stepbench.records.storage import layout
from stepbench.services import Services
from stepbench.stages import collect_logs as stage
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.stages.await_arrivals import await_arrivals
from stepbench.stages.collect_logs import collect_logs
from stepbench.stages.export_records import export_records
from stepbench.stages.render_report import render_report

pytestmark = pytest.mark.emulator

SECOND_NS = 10**9
PHASES = [
    {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 20}]},
    {"name": "steady", "load": [{"rate_per_s": 20, "count": 100}]},
]


@pytest.fixture
def trial(services: Services) -> FinishedTrial:
    """Return 120 events that ended some seconds ago, all delivered but one."""
    plan: TrialPlan = small_plan(phases=PHASES, drain_limit_s=1)
    finished = FinishedTrial(services, stored_trial(services, plan), plan, time.time_ns() - 60 * SECOND_NS)
    finished.phase(0)
    finished.phase(1, lost=(42,))
    services.table.take_lease("s3#bucket", finished.ref, "arn", finished.start_at_ns)
    return finished


def leave_log(services: Services, *lines: str) -> None:
    """Leave a receiver's log of these lines."""
    logs, group = services.aws("logs"), f"/aws/lambda/{services.settings.function_prefix}-ReceiveEvents"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="stream")
    events = [{"timestamp": time.time_ns() // 10**6, "message": text} for text in lines]
    logs.put_log_events(logGroupName=group, logStreamName="stream", logEvents=events)


def test_arrivals_are_awaited_no_longer_than_the_drain_limit(services: Services, trial: FinishedTrial) -> None:
    """One is missing, and the limit has passed."""
    answer = await_arrivals(AwaitArrivalsInput(ref=trial.ref), services)
    assert (answer.done, answer.expected, answer.arrived) == (True, 120, 119)


def test_t4_lines_in_a_real_log_are_reconciled_with_the_real_table(
    services: Services, trial: FinishedTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line is missing, one is of an arrival that the table does not have: the event that counts as lost."""
    monkeypatch.setattr(stage, "LATE_NS", 0)
    stored_trial(services, trial.plan.model_copy(update={"log_t4": "all"}))
    lost = Entry(1, 0, 0, 0, 0, 42, trial.start_of(1) + 5 * SECOND_NS)
    found = [(str(item["sk"]).rpartition("#"), bytes(item["entries"])) for item in services.table.t4_items(REF.tag)]
    printed = [(name, int(t4), {"n": 1, "entries": entries}) for (name, _, t4), entries in found]
    printed = [each for each in printed if each[0] != "request-1-7"]
    printed.append(("request-1-42", lost.t4_ns, t4_item([lost])))
    lines = [line for name, t4_ns, item in printed for line in t4_lines(trial.ref.tag, name, t4_ns, item)]
    leave_log(services, "START RequestId: 1", *lines)
    assert collect_logs(CollectLogsInput(ref=trial.ref), services).done
    key = analyse_trial(AnalyseTrialInput(ref=trial.ref), services).result_key
    caveats = services.runs.get_model(key, TrialResult).summary.caveats
    (text,) = [caveat.text for caveat in caveats if caveat.kind == "log_disagreement"]
    assert "agree on 118 arrivals" in text
    assert "Only in the table: 1, such as sequence 7" in text
    assert "Only in the log, and in no number here: 1, of which 1 are of events that count as lost" in text


def test_stored_records_become_a_stored_result(services: Services, trial: FinishedTrial) -> None:
    """Numbers and binaries come back from DynamoDB as other types than they went in."""
    key = analyse_trial(AnalyseTrialInput(ref=trial.ref), services).result_key
    summary = services.runs.get_model(key, TrialResult).summary
    assert summary.accounting is not None
    assert (summary.accounting.offered, summary.accounting.received, summary.accounting.lost) == (100, 99, 1)
    assert summary.windows[0].latency_ms.p50.low is not None
    assert summary.clock.bound_ms is not None


def test_records_are_exported_by_upload(services: Services, trial: FinishedTrial) -> None:
    """boto3 sends files in parts, on threads of its own."""
    answer = export_records(ExportRecordsInput(ref=trial.ref), services)
    table = pq.read_table(io.BytesIO(services.runs.get_bytes(answer.key)))
    assert table.num_rows == answer.rows == 120
    assert table["t4_ns"].null_count == 1


def test_report_lines_are_collected_from_a_real_log_group(services: Services, trial: FinishedTrial) -> None:
    """Groups of functions that never ran are missing; the filter keeps other lines out."""
    requests = [f"request-0-{n}" for n in range(20)] + [f"request-1-{n}" for n in range(100) if n != 42]
    lines = [f"REPORT RequestId: {name}\tDuration: 2 ms\tBilled Duration: 3 ms" for name in requests]
    leave_log(services, "START RequestId: request-0-0", *lines)
    assert collect_logs(CollectLogsInput(ref=trial.ref), services).done
    key = analyse_trial(AnalyseTrialInput(ref=trial.ref), services).result_key
    (found,) = services.runs.get_model(key, TrialResult).summary.invocations
    assert (found.function, found.invocations, found.cold_starts) == ("ReceiveEvents", 119, 2)


RUN = "run-1"


def create_function(services: Services, name: str) -> None:
    """Create a function that the manifest can find; it is never invoked."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("index.py", "def handler(event, context): ...")
    services.aws("lambda").create_function(
        FunctionName=f"{services.settings.function_prefix}-{name}",
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/none",
        Handler="index.handler",
        MemorySize=512,
        Timeout=30,
        Code={"ZipFile": archive.getvalue()},
    )


def test_a_run_in_the_bucket_becomes_a_report_in_the_bucket(services: Services) -> None:
    """The real bucket, table and Lambda API: four trials, of which one ended early and another left nothing."""
    create_function(services, "RunWriter")
    for index, result in enumerate(sample_results()):
        ref = stored_trial(services, small_plan(result.summary.store), RUN, index)
        services.runs.put_model(layout.trial_key(ref, "result.json"), result)
    stored_trial(services, small_plan("s3"), RUN, 4)
    errors = ("", "", "", "States.TaskFailed", "States.TaskFailed")
    outcomes = tuple(TrialOutcome(trial=trial, error=error) for trial, error in enumerate(errors))
    output = render_report(
        RenderReportInput(run_id=RUN, started_at=datetime(2025, 6, 1, tzinfo=UTC), outcomes=outcomes), services
    )
    assert (output.status, output.failed_trials) == ("failed", ("etcd", "s3"))
    assert output.report == f"s3://{services.settings.results_bucket}/runs/{RUN}/report.html"
    stored = services.aws("s3").get_object(Bucket=services.settings.results_bucket, Key=f"runs/{RUN}/report.html")
    assert stored["ContentType"] == "text/html; charset=utf-8"
    assert stored["Body"].read().startswith(b"<!DOCTYPE html>")
    summary = services.runs.get_model(layout.run_key(RUN, "summary.json"), RunSummary)
    assert [trial.failure is None for trial in summary.trials] == [True, True, True, False, False]
    manifest = services.runs.get_model(layout.run_key(RUN, "manifest.json"), Manifest)
    prefix = services.settings.function_prefix
    assert list(manifest.functions) == [f"{prefix}-RunWriter"]
    assert manifest.functions[f"{prefix}-RunWriter"]["memory_mb"] == 512
