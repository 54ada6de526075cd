"""Runs of a rehearsal, made up for its judges."""

from __future__ import annotations

from typing import Any

from tests.samples.results import accounting, sample_facts, sample_window, trial_summary

from stepbench.contracts.documents import Failure
from stepbench.contracts.findings import Clock
from stepbench.contracts.result import Caveat, RunSummary, TrialSummary
from stepbench.report.summary import summarise
from stepbench_tools.rehearsal.judges import Deletion, Judgement, Rehearsal, judge_all


def trial(name: str = "s3", *, caveat: str = "", error: str = "", **fields: Any) -> TrialSummary:  # noqa: ANN401
    """Return a trial that went through, or failed with this error."""
    known = {
        "windows": (sample_window("measured", [30.0] * 96),),
        "accounting": accounting(offered=96, sent=96, ok=96, ok_arrived=96, received=96),
        "clock": Clock(offset_ms=0.1, bound_ms=0.5),
        "failure": Failure(error=error, cause="so it was") if error else None,
        "caveats": (Caveat(kind=caveat, text=f"It is {caveat}.", remedy="Mend it."),) if caveat else (),
    }
    return trial_summary(name, "s3", **{**known, **fields})


def run(*trials: TrialSummary, status: str = "succeeded") -> RunSummary:
    """Return the summary of a run of these trials."""
    return summarise(sample_facts(), (), ()).model_copy(update={"trials": trials, "status": status})


def rehearsal(**changes: Any) -> Rehearsal:  # noqa: ANN401
    """Return a rehearsal on AWS that went through."""
    known = {
        "stepbench": "1",
        "stack": "rehearsed",
        "region": "eu-central-1",
        "emulator": "",
        "artefacts": "rehearsed-artefacts-0",
        "started_at": "2026-11-23T23:30:00+00:00",
        "budget_usd": 5,
        "bound_usd": 2,
        "deploy_s": 60,
        "deletion": Deletion(seconds=100),
    }
    return Rehearsal.model_validate({**known, **changes})


def judged(found: Rehearsal, **summaries: RunSummary) -> dict[str, Judgement]:
    """Return each judgement by its id; `s3_and_dynamodb` is the part `s3-and-dynamodb`."""
    by_part = {name.replace("_", "-"): summary for name, summary in summaries.items()}
    names = ("deployment", "deletion", "stopping", "latency", "accounting", "iam", "vpc", "aurora", "transfers")
    more = ("forced-cold", "trigger-delay", "logs", "clocks", "reserved-sandbox", "batching-window", "distributed-map")
    return {each.id: each for each in judge_all(dict.fromkeys((*names, *more), "It holds."), found, by_part)}
