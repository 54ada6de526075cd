"""Evidence of rehearsals, made up for judges."""

from __future__ import annotations

from typing import Any

from stepbench.contracts.result import Accounting
from stepbench_tools.rehearsal.assumptions import judge_all
from stepbench_tools.rehearsal.plans import FIRST
from stepbench_tools.rehearsal.record import Deletion, Rehearsal, RoundEvidence, RunEvidence, TrialEvidence


def account(**changes: int) -> Accounting:
    """Return an accounting of 96 events that all arrived, with changes."""
    whole = dict.fromkeys(("offered", "sent", "ok", "ok_arrived", "received"), 96)
    none = ("unsent", "unrecorded", "failed", "unknown", "failed_arrived", "unknown_arrived", "unrecorded_arrived")
    return Accounting(**{**whole, **dict.fromkeys((*none, "lost", "duplicates", "out_of_order"), 0), **changes})


def trial(name: str = "s3", **changes: Any) -> TrialEvidence:  # noqa: ANN401
    """Return a trial that went through."""
    known = {"store": "s3", "experiment": "trigger", "accounting": account(), "p50_ms": 30.0}
    return TrialEvidence.model_validate({"name": name, **known, **changes})


def run(*trials: TrialEvidence, **changes: Any) -> RunEvidence:  # noqa: ANN401
    """Return a run of trials."""
    return RunEvidence.model_validate({"run_id": "r", "status": "succeeded", "trials": trials, **changes})


def one_round(*runs: RunEvidence, **changes: Any) -> RoundEvidence:  # noqa: ANN401
    """Return a round that was deployed."""
    return RoundEvidence.model_validate({"name": FIRST, "deployed": True, "deploy_s": 60, "runs": runs, **changes})


def rehearsal(*rounds: RoundEvidence, **changes: Any) -> Rehearsal:  # noqa: ANN401
    """Return a rehearsal on AWS that went through."""
    known = {
        "stepbench": "1",
        "stack": "rehearsed",
        "region": "eu-central-1",
        "emulator": "",
        "artefacts": "rehearsed-artefacts-0",
        "started_at": "2026-11-23T23:30:00+00:00",
        "ended_at": "2026-11-24T00:40:00+00:00",
        "budget_usd": 5,
        "bound_usd": 2,
        "spent_usd": 0.5,
        "deletion": Deletion(seconds=100),
    }
    return Rehearsal.model_validate({**known, "rounds": rounds, **changes})


def statuses(found: Rehearsal) -> dict[str, str]:
    """Return the status of each assumption by its id."""
    return {each.id: each.status for each in judge_all(found)}
