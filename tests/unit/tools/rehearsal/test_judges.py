"""Each judge: evidence that confirms, evidence that refutes, and evidence that says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.tools.rehearsal.samples import account, one_round, rehearsal, run, trial

from stepbench.contracts.clock_check import ClockCheck, ClockComparison, Ks
from stepbench.contracts.measures import Estimate
from stepbench_tools.rehearsal import judges
from stepbench_tools.rehearsal.record import Bill, ColdStart, Deletion

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench_tools.rehearsal.judges import Finding
    from stepbench_tools.rehearsal.record import Rehearsal, TrialEvidence


def _of(*trials: TrialEvidence) -> Rehearsal:
    return rehearsal(one_round(run(*trials)))


def _check(low: float, high: float, offset_ms: float | None = 0.1) -> Rehearsal:
    shift = Estimate(value=(low + high) / 2, low=low, high=high)
    ks = Ks(d=0.1, at_ms=1, p_value=0.5, n=48, m=48, critical_d=0.27)
    compared = ClockComparison(measure="latency_ms", ks=ks, median_shift_ms=shift, text="")
    check = ClockCheck(
        a="one-sandbox",
        b="two-sandboxes",
        store="dynamodb",
        window="compared",
        events=48,
        same_sandbox=48,
        offset_ms=offset_ms,
        bound_ms=0.4,
        comparisons=(compared,),
    )
    return rehearsal(one_round(run(trial(), clock_checks=(check,))))


def _bill(tagged: float, whole: float, *, settled: bool = True) -> Rehearsal:
    return rehearsal(bill=Bill(tagged={"S3": tagged}, account={"S3": whole}, settled=settled))


def _stopped(**changes: object) -> Rehearsal:
    return rehearsal(one_round(run(trial(), to_be_stopped=True, **{"status": "stopped", **changes})))


READS = trial(
    "transfers", experiment="transfer", p50_ms=None, reads=16, cold_reads=16, accounting=account(awaited=False)
)
HALF = READS.model_copy(update={"accounting": account(awaited=False, sent=48, ok=48, failed=48)})
"""Of transfers one platform, or one source, did not work at all, which fails no trial."""
CASES: list[tuple[Callable[[Rehearsal], Finding | None], Rehearsal, bool | None]] = [
    (judges.latency, _of(trial()), True),
    (judges.latency, _of(trial(p50_ms=None)), False),
    (judges.latency, _of(), None),
    (judges.accounting, _of(trial()), True),
    (judges.accounting, _of(trial(accounting=account(offered=97))), False),
    (judges.accounting, _of(trial(accounting=account(offered=97, unsent=1))), False),
    (judges.accounting, _of(trial(accounting=account(offered=97, unsent=1), caveats=("unsent",))), True),
    (judges.accounting, _of(trial(accounting=account(ok_arrived=95))), False),
    (judges.accounting, _of(trial(accounting=account(unmatched=1))), False),
    (judges.accounting, _of(trial(accounting=account(ok_arrived=0, awaited=False))), True),
    (judges.accounting, _of(trial(accounting=None)), None),
    (judges.iam, _of(trial()), True),
    (judges.iam, _of(trial(failure="ClientError: User is not authorized to perform")), False),
    (judges.iam, _of(trial(failure="TargetBusyError: leased")), None),
    (judges.forced_cold, _of(READS), True),
    (judges.forced_cold, _of(READS.model_copy(update={"cold_reads": 15})), False),
    (judges.forced_cold, _of(HALF), None),
    (judges.forced_cold, _of(trial()), None),
    (judges.of_round("transfers"), rehearsal(one_round(run(READS), name="transfers")), True),
    (judges.of_round("transfers"), rehearsal(one_round(run(HALF), name="transfers")), False),
    (judges.vpc, rehearsal(one_round(run(trial()), name="etcd", in_network=True)), True),
    (judges.vpc, rehearsal(one_round(run(trial(failure="timed out")), name="etcd", in_network=True)), False),
    (judges.vpc, _of(trial()), None),
    (judges.trigger_delay, _of(trial(await_s=65.0)), True),
    (judges.trigger_delay, _of(trial(failure="TargetUnavailableError: no canary", accounting=None)), False),
    (judges.trigger_delay, _of(trial(failure="PlanError: no", accounting=None)), None),
    (judges.logs, _of(trial(reports=9, reports_expected=9)), True),
    (judges.logs, _of(trial(reports=8, reports_expected=9)), False),
    (judges.logs, _of(trial()), None),
    (judges.cold_starts, _of(trial(cold_starts=(ColdStart(stamped_ms=400, reported_ms=450),))), True),
    (judges.cold_starts, _of(trial(cold_starts=(ColdStart(stamped_ms=None, reported_ms=450),))), False),
    (judges.cold_starts, _of(trial(cold_starts=(ColdStart(stamped_ms=460, reported_ms=450),))), False),
    (judges.cold_starts, _of(trial(cold_starts=(ColdStart(stamped_ms=460, reported_ms=None),))), None),
    (judges.clocks, _of(trial(offset_ms=0.2, bound_ms=0.5)), True),
    (judges.clocks, _of(trial(offset_ms=0.2, bound_ms=0.5), trial("other")), False),
    (judges.clocks, _of(trial(experiment="operations")), None),
    (judges.clock_check, _check(-0.3, 0.7), True),
    (judges.clock_check, _check(0.6, 0.9), False),
    (judges.clock_check, _check(-0.3, 0.7, offset_ms=None), None),
    (judges.reserved_sandbox, _of(trial("one-sandbox")), True),
    (judges.reserved_sandbox, _of(trial("one-sandbox", accounting=account(lost=1))), False),
    (judges.reserved_sandbox, _of(trial()), None),
    (judges.batching_window, _of(trial(batching_window_s=1, records_per_batch=12.5)), True),
    (judges.batching_window, _of(trial(batching_window_s=1, records_per_batch=1.0)), False),
    (judges.batching_window, _of(trial(records_per_batch=12.5)), None),
    (judges.distributed_map, _of(trial(writers=12)), True),
    (judges.distributed_map, _of(trial(writers=12, caveats=("missing_writer",))), False),
    (judges.distributed_map, _of(trial(writers=10)), None),
    (judges.stopping, _stopped(), True),
    (judges.stopping, _stopped(left=("lease of s3",)), False),
    (judges.stopping, _stopped(status="succeeded"), False),
    (judges.stopping, _of(trial()), None),
    (judges.deletion, rehearsal(), True),
    (judges.deletion, rehearsal(deletion=Deletion(seconds=1, left={"buckets": ("b",)})), False),
    (judges.deletion, rehearsal(deletion=Deletion(seconds=1, failures=("sam delete: it failed",))), False),
    (judges.deletion, rehearsal(deletion=Deletion(seconds=1, unlisted={"hosts": "denied"})), None),
    (judges.deletion, rehearsal(deletion=None), None),
    (judges.estimate, _bill(0.2, 0.4), True),
    (judges.estimate, _bill(0.6, 0.9), False),
    (judges.estimate, _bill(0.2, 0.9), None),
    (judges.estimate, _bill(0.2, 0.4, settled=False), None),
    (judges.estimate, _bill(0, 0), None),
    (judges.estimate, rehearsal(), None),
]


@pytest.mark.parametrize(("judge", "found", "holds"), CASES)
def test_a_judge_goes_by_the_evidence(
    judge: Callable[[Rehearsal], Finding | None],
    found: Rehearsal,
    holds: bool | None,  # noqa: FBT001
) -> None:
    """The worked cases: what holds, what does not, and what nobody can tell."""
    finding = judge(found)
    assert (finding.holds if finding else None) is holds


def test_a_stopped_run_is_no_trial_that_should_have_gone_through() -> None:
    """It has lost events by design, and counts for nothing but stopping."""
    stopped = run(trial(accounting=account(lost=5)), to_be_stopped=True, status="stopped")
    finding = judges.accounting(rehearsal(one_round(run(trial()), stopped)))
    assert finding is not None
    assert finding.holds
