"""What is assumed of AWS: one list, judged by the runs' own summaries, and never by an emulator's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.samples.results import accounting
from tests.unit.tools.rehearsal.samples import judged, rehearsal, run, trial

from stepbench.contracts.invocations import Deliveries
from stepbench_tools.rehearsal.judges import RULES, Deletion, Judgement, RehearsedRun, read_assumptions

ROOT = Path(__file__).parents[4]
BATCHED = (
    trial("batched")
    .windows[0]
    .model_copy(update={"deliveries": Deliveries(invocations=9, min=1, p50=9, p90=9, max=9, mean=9, commonest=())})
)
CASES: list[tuple[str, str, tuple[Any, ...], str]] = [
    ("latency", "s3_and_dynamodb", (trial(),), "confirmed"),
    ("latency", "s3_and_dynamodb", (trial(windows=()),), "refuted"),
    ("latency", "s3_and_dynamodb", (), "not tried"),
    ("accounting", "aurora", (trial(),), "confirmed"),
    ("accounting", "aurora", (trial(accounting=accounting(offered=1, ok=1, lost=1)),), "refuted"),
    ("accounting", "aurora", (trial(accounting=accounting(offered=1, ok=1, unmatched=1)),), "refuted"),
    ("iam", "aurora", (trial(),), "confirmed"),
    ("iam", "aurora", (trial(error="AccessDeniedException"),), "refuted"),
    ("iam", "aurora", (trial(error="TargetBusyError"),), "not tried"),
    ("aurora", "aurora", (trial(),), "confirmed"),
    ("aurora", "aurora", (trial(), trial("operations", error="TargetUnreachableError")), "refuted"),
    ("aurora", "own_postgresql", (trial(),), "not tried"),
    ("vpc", "aurora", (trial(),), "confirmed"),
    ("vpc", "aurora", (trial(error="TargetUnreachableError"),), "not tried"),
    ("vpc", "s3_and_dynamodb", (trial(),), "not tried"),
    ("forced-cold", "transfers", (trial(),), "confirmed"),
    ("forced-cold", "transfers", (trial(caveat="cold_starts"),), "refuted"),
    ("trigger-delay", "s3_and_dynamodb", (trial(),), "confirmed"),
    ("trigger-delay", "s3_and_dynamodb", (trial(), trial(error="TargetUnavailableError")), "refuted"),
    ("trigger-delay", "s3_and_dynamodb", (trial(experiment="operations"),), "not tried"),
    ("logs", "s3_and_dynamodb", (trial(caveat="missing_logs"),), "refuted"),
    ("logs", "s3_and_dynamodb", (trial(), trial(experiment="operations", caveat="missing_logs")), "confirmed"),
    ("clocks", "s3_and_dynamodb", (trial(caveat="clock_unmeasured"),), "refuted"),
    ("reserved-sandbox", "clock_check", (trial("one-sandbox"),), "confirmed"),
    ("reserved-sandbox", "clock_check", (trial("two-sandboxes"),), "not tried"),
    ("batching-window", "s3_and_dynamodb", (trial("batched", windows=(BATCHED,)),), "confirmed"),
    ("batching-window", "s3_and_dynamodb", (trial("batched"),), "refuted"),
    ("distributed-map", "distributed_map", (trial(caveat="missing_writer"),), "refuted"),
]


@pytest.mark.parametrize(("name", "part", "trials", "status"), CASES)
def test_an_assumption_is_judged_by_trials(name: str, part: str, trials: tuple[Any, ...], status: str) -> None:
    """The worked cases: what holds, what does not, and what nobody can tell."""
    assert judged(rehearsal(), **{part: run(*trials)})[name].status == status


@pytest.mark.parametrize(
    ("name", "changes", "status"),
    [
        ("deployment", {}, "confirmed"),
        ("deployment", {"deploy_s": None, "undeployed": "CREATE_FAILED"}, "refuted"),
        ("deployment", {"deploy_s": None}, "not tried"),
        ("stopping", {"runs": (RehearsedRun(part="stopping", run_id="r", status="stopped"),)}, "confirmed"),
        ("stopping", {"runs": (RehearsedRun(part="stopping", run_id="r", status="succeeded"),)}, "refuted"),
        ("stopping", {"runs": (RehearsedRun(part="stopping", run_id="r", failure="left a lease"),)}, "refuted"),
        ("stopping", {}, "not tried"),
        ("deletion", {}, "confirmed"),
        ("deletion", {"deletion": Deletion(seconds=1, left={"buckets": ("b",)})}, "refuted"),
        ("deletion", {"deletion": Deletion(seconds=1, failures=("deleting the stack: no",))}, "refuted"),
        ("deletion", {"deletion": Deletion(seconds=1, unlisted={"hosts": "denied"})}, "not tried"),
        ("deletion", {"deletion": None}, "not tried"),
    ],
)
def test_a_stack_is_judged_by_its_beginning_and_end(name: str, changes: dict[str, Any], status: str) -> None:
    """A run that was to be stopped has to end so, and a stack without anything left."""
    assert judged(rehearsal(**changes))[name].status == status


def test_an_emulator_confirms_and_refutes_nothing() -> None:
    """What is assumed is of AWS, however the emulator behaves; what it did is told all the same."""
    found = judged(rehearsal(emulator="MiniStack"), s3_and_dynamodb=run(trial(), trial(error="TargetUnavailableError")))
    assert {each.status for each in found.values()} == {"not tried"}
    assert found["deployment"].observed == "on MiniStack, which is not AWS, it held: `sam deploy` took 60 s"
    assert "did not hold" in found["trigger-delay"].observed


def test_an_interrupted_run_refutes_nothing() -> None:
    """Its last trial has no median because somebody stopped it; the one before went through."""
    cut_short = trial("batched", error="TrialCancelledError", windows=())
    found = judged(rehearsal(), s3_and_dynamodb=run(trial(), cut_short, status="stopped"))
    assert found["latency"].status == "confirmed"
    assert "refuted" not in {each.status for each in found.values()}


def test_a_stopped_run_is_no_trial_that_should_have_gone_through() -> None:
    """It has lost events by design, and counts for nothing but stopping."""
    lost = trial(accounting=accounting(offered=9, ok=9, lost=5))
    found = judged(rehearsal(), aurora=run(trial()), stopping=run(lost, status="stopped"))
    assert found["accounting"].status == "confirmed"


def test_what_was_judged_stays_where_there_is_no_evidence_now() -> None:
    """DELETE=… of a killed rehearsal has no summaries, and judges the deletion alone."""
    before = Judgement(id="latency", sentence="It holds.", status="confirmed", observed="p50 30 ms")
    found = judged(rehearsal(assumptions=(before,)))
    assert (found["latency"], found["deletion"].status) == (before, "confirmed")


def test_the_docs_list_every_assumption_and_why_some_are_not_judged() -> None:
    """They are the one list; what nothing judges has to say so there."""
    assumptions = read_assumptions((ROOT / "docs/rehearse.md").read_text())
    named = {*RULES, "deployment", "stopping", "deletion"}
    assert named <= assumptions.keys()
    assert {name for name, sentence in assumptions.items() if "(Not judged: " not in sentence} == named
