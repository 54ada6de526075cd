"""
The run's `summary.json` is made here from its trials' results.

`python -m stepbench.report.summary > docs/summary.schema.json` publishes its JSON Schema.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from stepbench.analysis.thresholds import judge
from stepbench.contracts.cost import Cost
from stepbench.contracts.documents import EndedServer, Failure
from stepbench.contracts.findings import Clock
from stepbench.contracts.result import SUMMARY_SCHEMA, Caveat, RunSummary, TrialResult, TrialSummary
from stepbench.errors import ServerEndedError
from stepbench.report.run import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stepbench.contracts.tasks import PreparedTarget
    from stepbench.contracts.thresholds import Judge, Threshold, ThresholdResult


MISSING = "MissingResult"
"""The error's name where a trial has left nothing at all."""
LEFT_REMEDY = (
    "Mend the store, then run stepbench sweep (with --stack NAME for a stack on AWS, which tries it each hour itself):"
    " it removes that, and frees the target."
)
NO_ACCOUNT = "the trial left no account of it; see its execution"


@dataclass(frozen=True)
class RunFacts:
    """It holds what the report says of the run itself; `stopped` means by its user."""

    run_id: str
    plan: str
    started_at: datetime
    finished_at: datetime
    stopped: bool = False


@dataclass(frozen=True)
class TrialStore:
    """It names the store that a trial ran against, and who provided it."""

    store: str
    provider: str
    emulated: bool


def summarise(
    facts: RunFacts,
    results: Sequence[TrialResult],
    thresholds: Sequence[Threshold] = (),
    judged_by: Judge | None = None,
) -> RunSummary:
    """
    Summarise the run. It is stopped, or failed as soon as one trial is, or succeeded.

    Its verdict is that it failed if it did not succeed or missed one of its plan's thresholds, otherwise that it is
    undecided if one is: a run that is too short shows neither that a limit is kept to nor that it is not.
    """
    trials = tuple(result.summary for result in results)
    status: Literal["succeeded", "failed", "stopped"] = "failed" if failed_trials(trials) or not trials else "succeeded"
    status = "stopped" if facts.stopped else status
    judged = judge(thresholds, trials)
    return RunSummary(
        schema=SUMMARY_SCHEMA,
        run_id=facts.run_id,
        plan=facts.plan,
        status=status,
        verdict=_verdict(status, judged),
        thresholds=judged,
        judge=judged_by,
        started_at=facts.started_at.isoformat(),
        finished_at=facts.finished_at.isoformat(),
        trials=trials,
    )


def _verdict(status: str, judged: Sequence[ThresholdResult]) -> Literal["passed", "failed", "undecided"]:
    states = {result.state for result in judged}
    if status != "succeeded" or "failed" in states:
        return "failed"
    return "undecided" if "undecidable" in states else "passed"


def summary_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) that every `summary.json` of this version fulfils."""
    schema = RunSummary.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Stepbench summary"}


def failed_trials(trials: Sequence[TrialSummary]) -> tuple[TrialSummary, ...]:
    """Return the trials that failed or are incomplete; a skipped trial is neither."""
    return tuple(trial for trial in trials if state_of(trial) in {"failed", "incomplete"})


def missing_result(name: str, index: int, store: TrialStore, failure: Failure, estimate_usd: float) -> TrialResult:
    """Return what the report shows of a trial that left no result: that it failed, and why."""
    return _empty_result(name, index, store, incomplete=True, failure=failure, cost_usd=Cost(estimate=estimate_usd))


def skipped_result(name: str, index: int, store: str, reason: str) -> TrialResult:
    """Return what the report shows of a trial that was left out: its name, and the reason's first line."""
    caveat = Caveat(
        kind="skipped",
        text=f"{store} cannot run on this machine: {reason.splitlines()[0].rstrip('.')}.",
        remedy="Mend that and run the plan again, give the target an endpoint, or run on a deployed stack.",
    )
    absent = TrialStore(store, "not started", emulated=False)
    return _empty_result(name, index, absent, incomplete=False, caveats=(caveat,), cost_usd=Cost(estimate=0))


def _empty_result(name: str, index: int, store: TrialStore, **fields: Any) -> TrialResult:  # noqa: ANN401 -- a summary's
    clock = Clock(offset_ms=None, bound_ms=None, text="nothing was measured")
    nothing = {"accounting": None, "windows": (), "clock": clock, "caveats": (), **fields}
    summary = TrialSummary(name=name, index=index, **asdict(store), **nothing)
    return TrialResult(summary=summary, series=(), phases=(), ecdf=())


def add_failure(result: TrialResult, failure: Failure | None) -> TrialResult:
    """Add the failure that only the end of the run knows, unless the result itself has one."""
    if failure is None or result.summary.failure:
        return result
    summary = result.summary.model_copy(update={"failure": failure, "incomplete": True})
    return result.model_copy(update={"summary": summary})


def add_left(result: TrialResult, prepared: PreparedTarget) -> TrialResult:
    """Note that what the trial made in its store has not been removed, and what removes it."""
    text = f"What it made in {prepared.target} has not been removed: {', '.join(prepared.names)}."
    caveat = Caveat(kind="left_in_store", text=text, remedy=LEFT_REMEDY)
    summary = result.summary.model_copy(update={"caveats": (*result.summary.caveats, caveat)})
    return result.model_copy(update={"summary": summary})


def add_ended_server(result: TrialResult, server: EndedServer) -> TrialResult:
    """Note that the server which the trial needed has ended; the trial's own account of that follows."""
    own = result.summary.failure
    lines = [f"{server.text}."]
    if own is not None and own.error != MISSING:
        lines.append(f"The trial: {own.error}: {own.cause}")
    if server.log:
        lines += ["The last lines of its log:", *server.log]
    failure = Failure(error=ServerEndedError.__name__, cause="\n".join(lines))
    caveats = result.summary.caveats
    if not any(caveat.kind == "incomplete" for caveat in caveats):
        text = f"{server.text}; what had been recorded until then is shown."
        caveats = (Caveat(kind="incomplete", text=text, remedy="Remove the cause, and run the trial again."), *caveats)
    update = {"failure": failure, "incomplete": True, "caveats": caveats}
    return result.model_copy(update={"summary": result.summary.model_copy(update=update)})


if __name__ == "__main__":
    json.dump(summary_schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")
