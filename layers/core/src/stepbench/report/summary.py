"""From trials' results to the run's `summary.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stepbench.contracts.result import Caveat, Clock, Cost, Failure, RunSummary, TrialResult, TrialSummary
from stepbench.report.headline import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True)
class RunFacts:
    """What the report says of the run itself. `stopped`: ended by its user, not by itself."""

    run_id: str
    plan: str
    started_at: datetime
    finished_at: datetime
    stopped: bool = False


@dataclass(frozen=True)
class Store:
    """What a trial ran against."""

    store: str
    provider: str
    emulated: bool


def summarise(facts: RunFacts, results: Sequence[TrialResult]) -> RunSummary:
    """The run in numbers. Its status: stopped, or failed as soon as one trial is, or succeeded."""
    trials = tuple(result.summary for result in results)
    status: Literal["succeeded", "failed", "stopped"] = "failed" if failed_trials(trials) or not trials else "succeeded"
    return RunSummary(
        schema=1,
        run_id=facts.run_id,
        plan=facts.plan,
        status="stopped" if facts.stopped else status,
        started_at=facts.started_at.isoformat(),
        finished_at=facts.finished_at.isoformat(),
        trials=trials,
    )


def failed_trials(trials: Sequence[TrialSummary]) -> tuple[TrialSummary, ...]:
    """Those that failed or are incomplete; a skipped trial is neither."""
    return tuple(trial for trial in trials if state_of(trial) in {"failed", "incomplete"})


def missing_result(name: str, index: int, store: Store, failure: Failure, estimate_usd: float) -> TrialResult:
    """What the report shows of a trial that left no result: that it failed, and why."""
    summary = TrialSummary(
        name=name,
        index=index,
        store=store.store,
        provider=store.provider,
        emulated=store.emulated,
        incomplete=True,
        failure=failure,
        accounting=None,
        windows=(),
        clock=Clock(offset_ms=None, bound_ms=None, text="nothing was measured"),
        caveats=(),
        cost_usd=Cost(estimate=estimate_usd),
    )
    return TrialResult(summary=summary, series=(), phases=(), ecdf=())


def skipped_result(name: str, index: int, store: str, reason: str) -> TrialResult:
    """What the report shows of a trial that was left out: its name, and why; of the reason only what is no log."""
    caveat = Caveat(
        kind="skipped",
        text=f"{store} could not start on this machine: {reason.splitlines()[0].rstrip('.')}.",
        remedy="Mend that and run the plan again, give the target an endpoint, or run on a deployed stack.",
    )
    summary = TrialSummary(
        name=name,
        index=index,
        store=store,
        provider="not started",
        emulated=False,
        incomplete=False,
        accounting=None,
        windows=(),
        clock=Clock(offset_ms=None, bound_ms=None, text="nothing was measured"),
        caveats=(caveat,),
        cost_usd=Cost(estimate=0),
    )
    return TrialResult(summary=summary, series=(), phases=(), ecdf=())


def amended(result: TrialResult, failure: Failure | None) -> TrialResult:
    """The result with the failure that only the end of the run knows, where the result itself does not say it."""
    if failure is None or result.summary.failure:
        return result
    summary = result.summary.model_copy(update={"failure": failure, "incomplete": True})
    return result.model_copy(update={"summary": summary})
