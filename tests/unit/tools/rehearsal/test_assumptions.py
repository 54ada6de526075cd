"""The list of what is assumed of AWS: one place, judged by evidence, and never by an emulator's."""

from __future__ import annotations

from pathlib import Path

from tests.unit.tools.rehearsal.samples import account, one_round, rehearsal, run, statuses, trial

from stepbench_tools.rehearsal.assumptions import ASSUMPTIONS, judge_all
from stepbench_tools.rehearsal.plans import FIRST, store_rounds
from stepbench_tools.rehearsal.record import Deletion
from stepbench_tools.rehearsal.text import assumptions_text

ROOT = Path(__file__).parents[4]


def test_the_docs_list_these_very_assumptions() -> None:
    """`python -m stepbench_tools.rehearsal --assumptions` prints the section, so that neither goes stale."""
    section = (ROOT / "docs/deploy.md").read_text().partition("## What was not run on AWS")[2].partition("\n## ")[0]
    assert section.strip().endswith(assumptions_text())
    assert section.count("\n- ") == len(ASSUMPTIONS)


def test_each_assumption_has_a_name_of_its_own_and_a_judge_or_a_reason() -> None:
    """What nothing judges has to say why."""
    names = [each.id for each in ASSUMPTIONS]
    assert len(set(names)) == len(names)
    assert [each.id for each in ASSUMPTIONS if (each.judge is None) != bool(each.not_by_this)] == []


def test_without_evidence_nothing_is_tried() -> None:
    """A rehearsal that ended before its first deployment has judged nothing."""
    assert set(statuses(rehearsal(deletion=None)).values()) == {"not tried"}


def test_an_emulator_confirms_and_refutes_nothing() -> None:
    """What is assumed is of AWS, however the emulator behaves; what it did is told all the same."""
    evidence = one_round(run(trial(), trial("broken", failure="TargetUnavailableError: no canary arrived")))
    judged = judge_all(rehearsal(evidence, emulator="MiniStack 1.5.33"))
    assert {each.status for each in judged} == {"not tried"}
    observed = {each.id: each.observed for each in judged}
    assert observed["deployment"] == "on MiniStack 1.5.33, which is not AWS, it held: `sam deploy` took 60 s"
    assert "did not hold" in observed["trigger-delay"]


def test_a_rehearsal_that_went_well_confirms_what_it_tried() -> None:
    """And says of the rest that it did not."""
    evidence = one_round(run(trial(offset_ms=0.1, bound_ms=0.5, reports=97, reports_expected=97)))
    found = statuses(rehearsal(evidence))
    confirmed = {name for name, status in found.items() if status == "confirmed"}
    assert confirmed == {
        *("deployment", "latency", "accounting", "iam", "trigger-delay", "logs", "clocks", "deletion"),
    }


def test_every_optional_round_is_judged() -> None:
    """A store that the stack can make stands in the list."""
    broken = (one_round(name=each.name, deployed=False, failure="CREATE_FAILED") for each in store_rounds())
    found = statuses(rehearsal(*broken, deletion=None))
    refuted = [name for name, status in found.items() if status == "refuted"]
    assert len(refuted) == len(store_rounds())


def test_what_was_left_out_says_why() -> None:
    """Which is what a second rehearsal with a larger budget would mend."""
    judged = judge_all(rehearsal(one_round(name="etcd", deployed=False, left_out="above the budget of $1")))
    found = next(each for each in judged if each.id == "etcd-nodes")
    assert (found.status, found.observed) == ("not tried", "above the budget of $1")


def test_a_failed_first_deployment_refutes_the_deployment_alone() -> None:
    """What would have come after it was not tried."""
    failed = one_round(name=FIRST, deployed=False, failure="`sam deploy` failed with exit code 1")
    found = statuses(rehearsal(failed, deletion=Deletion(seconds=1)))
    assert {name for name, status in found.items() if status == "refuted"} == {"deployment"}
    assert {name for name, status in found.items() if status == "confirmed"} == {"deletion"}


def test_an_interrupted_run_refutes_nothing() -> None:
    """Its last trial has no median because somebody stopped it; the one before went through."""
    cut_short = trial("batched", failure="TrialCancelledError: stopped by the user", p50_ms=None)
    found = statuses(rehearsal(one_round(run(trial(offset_ms=0, bound_ms=1), cut_short, status="stopped"))))
    assert found["latency"] == "confirmed"
    assert "refuted" not in found.values()


def test_a_loss_refutes_the_accounting() -> None:
    """Even where the report says so."""
    lossy = trial(accounting=account(ok_arrived=95, received=95, lost=1), caveats=("lost_events",))
    assert statuses(rehearsal(one_round(run(lossy))))["accounting"] == "refuted"
