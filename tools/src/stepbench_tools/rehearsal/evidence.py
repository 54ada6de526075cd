"""What a finished run shows: from its fetched folder, and from the stack while that is there."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.measure import traits_of
from stepbench.contracts.target import DynamoDbTarget
from stepbench.loading import read_model
from stepbench.records.formats.report_lines import LogCollection, ReportPage
from stepbench.records.formats.t4_items import RECEIVER, parse_item
from stepbench_tools.local.executions import Executions
from stepbench_tools.local.stack import TRIAL
from stepbench_tools.rehearsal.record import ColdStart, RunEvidence, TrialEvidence

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.result import TrialSummary
    from stepbench_tools.local.executions import RunSpec
    from stepbench_tools.local.running import RunOutcome
    from stepbench_tools.local.stack import Stack

AWAIT = "AwaitTarget"
TARGET_BUCKET = "TargetBucketName"


def gather(stack: Stack, run: RunSpec, outcome: RunOutcome, *, to_be_stopped: bool) -> RunEvidence:
    """Return what a run shows; `to_be_stopped` ones are looked at for what they leave."""
    summary = outcome.summary
    failure = str(outcome.error or outcome.cause or "")
    if summary is None:
        return RunEvidence(run_id=run.run_id, status="", to_be_stopped=to_be_stopped, failure=failure or "no report")
    if not failure and not to_be_stopped and summary.status != "succeeded":
        failure = "; ".join(_failure(trial) for trial in summary.trials if trial.failure) or summary.status
    trials = (_trial(stack, run.specs[trial.index], trial, outcome.folder) for trial in summary.trials)
    return RunEvidence(
        run_id=run.run_id,
        status=summary.status,
        to_be_stopped=to_be_stopped,
        trials=tuple(trials),
        clock_checks=summary.clock_checks,
        left=_left(stack, run) if to_be_stopped else (),
        failure=failure,
    )


def _trial(stack: Stack, spec: TrialSpec, summary: TrialSummary, folder: Path) -> TrialEvidence:
    window, target = next(iter(summary.windows), None), spec.plan.target
    reads = summary.transfers.accounting if summary.transfers else None
    logs = folder / "trials" / f"{spec.index:04d}" / "logs"
    collected = logs / "collection.json"
    collection = read_model(collected, LogCollection) if collected.exists() else None
    deliveries = window.deliveries if window else None
    return TrialEvidence(
        name=summary.name,
        store=summary.store,
        experiment=summary.experiment,
        writers=spec.plan.writers,
        reads=reads.ok + reads.failed + reads.unknown if reads else None,
        cold_reads=reads.cold if reads else None,
        batching_window_s=target.batching_window_s if isinstance(target, DynamoDbTarget) else 0,
        failure=_failure(summary) if summary.failure else "",
        accounting=summary.accounting,
        caveats=tuple(caveat.kind for caveat in summary.caveats),
        p50_ms=window.latency_ms.p50.value if window else None,
        offset_ms=summary.clock.offset_ms,
        bound_ms=summary.clock.bound_ms,
        reports=collection.seen if collection else None,
        reports_expected=collection.expected if collection else None,
        cold_starts=_cold_starts(stack, spec, logs / target.receiver) if _is_pushed(spec) else (),
        await_s=_await_s(stack, spec),
        records_per_batch=deliveries.mean if deliveries else None,
        estimate_usd=summary.cost_usd.estimate,
        counted_usd=summary.cost_usd.actual,
    )


def _is_pushed(spec: TrialSpec) -> bool:
    """Tell whether the trial's events invoke a receiver."""
    return traits_of(spec.plan.experiment).by_trigger and not spec.plan.pull


def _failure(trial: TrialSummary) -> str:
    return f"{trial.failure.error}: {trial.failure.cause}" if trial.failure else ""


def _cold_starts(stack: Stack, spec: TrialSpec, pages: Path) -> tuple[ColdStart, ...]:
    """Return what stamps and REPORT lines say of the receiver's invocations that one of them calls cold."""
    lines = (line for page in sorted(pages.glob("*.json")) for line in read_model(page, ReportPage).lines)
    reported = {line.request_id: line.init_ms for line in lines}
    stamped: dict[str, float | None] = {}
    for item in map(parse_item, stack.table.t4_items(spec.tag)):
        if item.source == RECEIVER:
            stamped[item.request_id] = item.init_ns / 1e6 if item.cold else stamped.get(item.request_id)
    both = {
        name: ColdStart(stamped_ms=stamped[name], reported_ms=reported[name]) for name in stamped if name in reported
    }
    return tuple(each for each in both.values() if each != ColdStart(stamped_ms=None, reported_ms=None))


def _await_s(stack: Stack, spec: TrialSpec) -> float | None:
    """Return how long AwaitTarget took, by the trial's execution; None where that does not say."""
    machine = stack.outputs[TRIAL].replace(":stateMachine:", ":execution:")
    history = stack.aws("stepfunctions").get_paginator("get_execution_history")
    entered = left = None
    with contextlib.suppress(ClientError, BotoCoreError):
        for page in history.paginate(executionArn=f"{machine}:{spec.tag}-{spec.name}"):
            for event in page["events"]:
                if _state(event, "stateEnteredEventDetails") == AWAIT:
                    entered = entered or event["timestamp"]
                if _state(event, "stateExitedEventDetails") == AWAIT:
                    left = event["timestamp"]
    return (left - entered).total_seconds() if entered and left else None


def _state(event: dict[str, Any], details: str) -> str:
    return str(event.get(details, {}).get("name", ""))


def _left(stack: Stack, run: RunSpec) -> tuple[str, ...]:
    """Return what a stopped run has left: leases, executions, objects."""
    tags = {spec.tag for spec in run.specs}
    leases = [f"lease of {lease.target}" for lease in stack.table.leases() if lease.tag in tags]
    executions = [f"execution {child.arn}" for child in Executions(stack, run).children()]
    pages = stack.aws("s3").get_paginator("list_object_versions").paginate(Bucket=stack.outputs[TARGET_BUCKET])
    keys = {item["Key"] for page in pages for kind in ("Versions", "DeleteMarkers") for item in page.get(kind, [])}
    return (*leases, *executions, *(f"object {key}" for key in sorted(keys)))
