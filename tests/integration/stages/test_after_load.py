"""The stages after the load, on a real table, bucket and log group: real edges."""

from __future__ import annotations

import io
import time

import pyarrow.parquet as pq
import pytest

from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.result import TrialResult
from stepbench.contracts.tasks import (
    AnalyseTrialInput,
    AwaitArrivalsInput,
    CollectLogsInput,
    ExportRecordsInput,
)
from stepbench.records.t4 import Entry
from stepbench.records.t4_lines import t4_lines
from stepbench.stages import collect_logs as stage
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.stages.await_arrivals import await_arrivals
from stepbench.stages.collect_logs import collect_logs
from stepbench.stages.export_records import export_records
from stepbench.stages.services import Services
from stepbench.testing.finished_trials import FinishedTrial
from stepbench.testing.records import REF, t4_item
from stepbench.testing.trials import small_plan, stored_trial

pytestmark = pytest.mark.emulator

SECOND_NS = 10**9
PHASES = [
    {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 20}]},
    {"name": "steady", "load": [{"rate_per_s": 20, "count": 100}]},
]


@pytest.fixture
def trial(services: Services) -> FinishedTrial:
    """120 events that ended some seconds ago, all delivered but one."""
    plan: TrialPlan = small_plan(phases=PHASES, drain_limit_s=1)
    finished = FinishedTrial(services, stored_trial(services, plan), plan, time.time_ns() - 60 * SECOND_NS)
    finished.phase(0)
    finished.phase(1, lost=(42,))
    services.table.take_lease("s3#bucket", finished.ref, "arn", finished.start_at_ns)
    return finished


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
    logs, group = services.aws("logs"), f"/aws/lambda/{services.settings.function_prefix}-ReceiveEvents"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="stream")
    events = [{"timestamp": time.time_ns() // 10**6, "message": text} for text in ("START RequestId: 1", *lines)]
    logs.put_log_events(logGroupName=group, logStreamName="stream", logEvents=events)
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
    logs = services.aws("logs")
    group = f"/aws/lambda/{services.settings.function_prefix}-ReceiveEvents"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="stream")
    requests = [f"request-0-{n}" for n in range(20)] + [f"request-1-{n}" for n in range(100) if n != 42]
    lines = [f"REPORT RequestId: {name}\tDuration: 2 ms\tBilled Duration: 3 ms" for name in requests]
    now_ms = time.time_ns() // 10**6
    events = [{"timestamp": now_ms, "message": text} for text in ("START RequestId: request-0-0", *lines)]
    logs.put_log_events(logGroupName=group, logStreamName="stream", logEvents=events)
    answer = collect_logs(CollectLogsInput(ref=trial.ref), services)
    assert answer.done
    key = analyse_trial(AnalyseTrialInput(ref=trial.ref), services).result_key
    (found,) = services.runs.get_model(key, TrialResult).summary.invocations
    assert (found.function, found.invocations, found.cold_starts) == ("ReceiveEvents", 119, 2)
