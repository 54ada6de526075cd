"""What a rehearsal's evidence says of one assumption each; pure. None where it says nothing."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.measure import traits_of
from stepbench_tools.rehearsal.plans import FIRST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stepbench.contracts.clock_check import ClockCheck
    from stepbench.contracts.result import Accounting
    from stepbench_tools.rehearsal.record import Rehearsal, RoundEvidence, TrialEvidence

REFUSALS = ("AccessDenied", "not authorized", "UnauthorizedOperation")
NOT_READY = "TargetUnavailableError"
MANY_WRITERS = 10
"""An inline Map would start as many side by side."""
SAID_BY = {
    "lost": "lost_events",
    "unsent": "unsent",
    "unrecorded": "unrecorded",
    "unknown": "unknown_outcomes",
    "malformed": "malformed_events",
}
"""Counts of an accounting that must not be above 0 without this caveat."""


class Finding(NamedTuple):
    """Whether the assumption holds by what was observed; None where that does not say."""

    holds: bool | None
    observed: str


def deployment(rehearsal: Rehearsal) -> Finding | None:
    """Judge by the first deployment."""
    first = rehearsal.round(FIRST)
    if first is None or not (first.deployed or first.failure):
        return None
    return Finding(first.deployed, first.failure or f"`sam deploy` took {first.deploy_s:.0f} s")


def latency(rehearsal: Rehearsal) -> Finding | None:
    """Judge by whether each trial of the first round has a median."""
    trials = _first_trials(rehearsal)
    found = "; ".join(f"{each.name}: {_median(each)}" for each in trials)
    return Finding(all(each.p50_ms is not None and not each.failure for each in trials), found) if trials else None


def accounting(rehearsal: Rehearsal) -> Finding | None:
    """Judge by the accounting of all trials that offered load."""
    trials = [(each, each.accounting) for each in rehearsal.trials if each.accounting is not None]
    if not trials:
        return None
    wrong = list(chain.from_iterable(_accounting_faults(each, account) for each, account in trials))
    sums = [
        f"{each.name}: {account.offered} offered, {account.ok} acknowledged"
        + (f", {account.ok_arrived} arrived, {account.lost} lost" if account.awaited else "")
        for each, account in trials
    ]
    return Finding(not wrong, "; ".join(wrong or sums))


def iam(rehearsal: Rehearsal) -> Finding | None:
    """Judge by what runs were refused; a deployment uses the rights of whoever rehearses."""
    runs = [run for each in rehearsal.rounds for run in each.runs]
    texts = [*(run.failure for run in runs), *(trial.failure for run in runs for trial in run.trials)]
    refused = [text for text in texts if any(word in text for word in REFUSALS)]
    if refused:
        return Finding(holds=False, observed="; ".join(refused))
    trials = rehearsal.trials
    if not trials or any(trial.failure for trial in trials):
        return None
    stores = ", ".join(sorted({trial.store for trial in trials}))
    return Finding(holds=True, observed=f"no call of {len(trials)} trials ({stores}) and a stop was refused")


def of_round(name: str) -> Callable[[Rehearsal], Finding | None]:
    """Return the judge of the stores of one round."""

    def judge(rehearsal: Rehearsal) -> Finding | None:
        found = rehearsal.round(name)
        if found is not None and found.left_out:
            return Finding(holds=None, observed=found.left_out)
        return None if found is None else _judge_round(found)

    return judge


def forced_cold(rehearsal: Rehearsal) -> Finding | None:
    """Judge by trials of transfers of which no read is missing: those of tasks are cold in any case."""
    trials = [each for each in rehearsal.trials if each.reads and not _reads_are_missing(each)]
    if not trials:
        return None
    cold, reads = (sum(getattr(each, name) or 0 for each in trials) for name in ("cold_reads", "reads"))
    return Finding(cold == reads, f"{cold} of {reads} reads were made by a new sandbox")


def vpc(rehearsal: Rehearsal) -> Finding | None:
    """Judge by rounds in a network: one trial that went through is enough, and none is a refutation."""
    rounds = [each for each in rehearsal.rounds if each.in_network and each.deployed]
    trials = list(chain.from_iterable(each.trials for each in rounds))
    if not trials:
        return None
    went = [each.name for each in trials if not each.failure]
    if went:
        return Finding(holds=True, observed=f"went through in the network: {', '.join(went)}")
    return Finding(holds=False, observed="; ".join(f"{each.name}: {each.failure}" for each in trials))


def trigger_delay(rehearsal: Rehearsal) -> Finding | None:
    """Judge by whether triggers delivered before the load began."""
    trials = [each for each in _first_trials(rehearsal) if traits_of(each.experiment).by_trigger]
    late = [each for each in trials if NOT_READY in each.failure]
    if late:
        return Finding(holds=False, observed="; ".join(f"{each.name}: {each.failure}" for each in late))
    ready = [each for each in trials if each.accounting is not None]
    waits = ", ".join(f"{each.name} {each.await_s:.1f} s" for each in ready if each.await_s is not None)
    return Finding(holds=True, observed=f"AwaitTarget took {waits or 'an unknown time'}") if ready else None


def logs(rehearsal: Rehearsal) -> Finding | None:
    """Judge by receivers' invocations and their REPORT lines."""
    trials = [each for each in rehearsal.trials if each.reports_expected]
    if not trials:
        return None
    seen, expected = (
        sum(each.reports or 0 for each in trials),
        sum(each.reports_expected or 0 for each in trials),
    )
    return Finding(seen == expected, f"{seen} of {expected} invocations have a REPORT line")


def cold_starts(rehearsal: Rehearsal) -> Finding | None:
    """Judge by receivers' invocations that either source calls cold; None where no REPORT line tells of any."""
    found = [each for trial in rehearsal.trials for each in trial.cold_starts]
    reported = [each for each in found if each.reported_ms is not None]
    if not reported:
        return None
    alone = len(found) - len(reported)
    unstamped = sum(each.stamped_ms is None for each in reported)
    longest = max(((each.stamped_ms or 0) - (each.reported_ms or 0) for each in reported), default=0.0)
    observed = (
        f"{len(reported)} cold starts by REPORT lines, {unstamped} of them without a stamp, {alone} by a stamp alone; "
        f"stamp minus Init Duration is at most {longest:+.1f} ms"
    )
    return Finding(not unstamped and not alone and longest <= 0, observed)


def clocks(rehearsal: Rehearsal) -> Finding | None:
    """Judge by the offsets of the first round, whose functions are outside of any network."""
    trials = [each for each in _first_trials(rehearsal) if traits_of(each.experiment).by_trigger and each.accounting]
    if not trials:
        return None
    unmeasured = [each.name for each in trials if each.offset_ms is None]
    if unmeasured:
        return Finding(holds=False, observed=f"unmeasured: {', '.join(unmeasured)}")
    measured = (f"{each.name} {each.offset_ms:+.3f} ± {each.bound_ms or 0:.3f} ms" for each in trials)
    return Finding(holds=True, observed="receivers minus writers: " + ", ".join(measured))


def clock_check(rehearsal: Rehearsal) -> Finding | None:
    """Judge by the medians of one sandbox and of two, with the interval of their difference."""
    checks = [check for each in rehearsal.rounds for run in each.runs for check in run.clock_checks if check.events]
    found = [finding for finding in map(_clock_finding, checks) if finding is not None]
    return Finding(all(each.holds for each in found), "; ".join(each.observed for each in found)) if found else None


def reserved_sandbox(rehearsal: Rehearsal) -> Finding | None:
    """Judge by the losses of the trial with one sandbox."""
    trial = next((each for each in rehearsal.trials if each.name == "one-sandbox" and each.accounting), None)
    if trial is None or trial.accounting is None:
        return None
    account = trial.accounting
    return Finding(not account.lost, f"{account.lost} of {account.ok} acknowledged events lost")


def batching_window(rehearsal: Rehearsal) -> Finding | None:
    """Judge by how many records an invocation got."""
    trial = next((each for each in rehearsal.trials if each.batching_window_s and each.records_per_batch), None)
    if trial is None or trial.records_per_batch is None:
        return None
    observed = f"{trial.records_per_batch:.1f} records an invocation with a window of {trial.batching_window_s} s"
    return Finding(trial.records_per_batch > 1, observed)


def distributed_map(rehearsal: Rehearsal) -> Finding | None:
    """Judge by the trial with more than ten writers."""
    trial = next((each for each in rehearsal.trials if each.writers > MANY_WRITERS), None)
    if trial is None or (trial.failure and trial.accounting is None):
        return None
    missing = trial.failure or ("writers are missing" if "missing_writer" in trial.caveats else "")
    return Finding(not missing, missing or f"{trial.writers} writers, each with its share")


def stopping(rehearsal: Rehearsal) -> Finding | None:
    """Judge by the run that was stopped on purpose."""
    run = next((run for each in rehearsal.rounds for run in each.runs if run.to_be_stopped and run.status), None)
    if run is None:
        return None
    left = ", ".join(run.left) or "nothing"
    holds = run.status == "stopped" and not run.left and not run.failure
    return Finding(
        holds, f"the run ended as {run.status}, and left {left}" + (f": {run.failure}" if run.failure else "")
    )


def deletion(rehearsal: Rehearsal) -> Finding | None:
    """Judge by what is listed after the stack was deleted."""
    found = rehearsal.deletion
    if found is None:
        return None
    left = [f"{kind}: {', '.join(names)}" for kind, names in found.left.items()]
    unlisted = [f"{kind} could not be listed ({reason})" for kind, reason in found.unlisted.items()]
    if unlisted and not left:
        return None
    observed = "; ".join([*left, *unlisted, *found.failures]) or f"nothing is left after {found.seconds:.0f} s"
    return Finding(not left and not found.failures, observed)


def estimate(rehearsal: Rehearsal) -> Finding | None:
    """
    Judge by the bill, once it has something.

    The account's whole bill refutes nothing, since others may have spent it; a bill of what is tagged leaves out what
    takes no tags, so only the account's confirms.
    """
    if rehearsal.bill is None:
        return None
    tagged, account = sum(rehearsal.bill.tagged.values()), sum(rehearsal.bill.account.values())
    estimated = rehearsal.spent_usd
    finality = "" if rehearsal.bill.settled else ", not final yet"
    observed = f"estimate ${estimated:.2f}; bill ${tagged:.2f} by tag, ${account:.2f} of the account{finality}"
    if tagged > estimated:
        return Finding(holds=False, observed=observed)
    return Finding(holds=True, observed=observed) if 0 < account <= estimated and rehearsal.bill.settled else None


def _first_trials(rehearsal: Rehearsal) -> Sequence[TrialEvidence]:
    first = rehearsal.round(FIRST)
    return [each for each in first.trials if each.store in {"s3", "dynamodb"}] if first else []


def _median(trial: TrialEvidence) -> str:
    if trial.reads is not None and trial.accounting is not None:
        return trial.failure or f"{trial.accounting.ok} of {trial.accounting.offered} reads ok"
    return trial.failure or ("no median" if trial.p50_ms is None else f"p50 {trial.p50_ms:.1f} ms")


def _judge_round(found: RoundEvidence) -> Finding | None:
    if found.failure:
        return Finding(holds=False, observed=found.failure)
    if not found.trials:
        return None
    failed = [f"{each.name}: {each.failure}" for each in found.trials if each.failure]
    failed += [f"{each.name}: {_median(each)}" for each in found.trials if _reads_are_missing(each)]
    observed = failed or [
        f"deployed in {found.deploy_s:.0f} s",
        *(f"{each.name}: {_median(each)}" for each in found.trials),
    ]
    return Finding(not failed, "; ".join(observed))


def _reads_are_missing(trial: TrialEvidence) -> bool:
    """Tell whether a platform or a source may not have worked at all, which fails no trial."""
    account = trial.accounting
    return trial.reads is not None and not trial.failure and account is not None and account.ok < account.offered


def _accounting_faults(trial: TrialEvidence, account: Accounting) -> Iterable[str]:
    if account.offered != account.sent + account.unsent + account.unrecorded:
        yield f"{trial.name}: {account.offered} offered are not what was sent, unsent and unrecorded"
    if account.sent != account.ok + account.failed + account.unknown:
        yield f"{trial.name}: {account.sent} sent are not what was acknowledged, failed and unknown"
    if account.awaited and account.lost != account.ok - account.ok_arrived - account.held_back - account.cut_off:
        yield f"{trial.name}: {account.lost} lost are not what was acknowledged and did not arrive"
    for name, caveat in SAID_BY.items():
        number = getattr(account, name)
        if number and caveat not in trial.caveats:
            yield f"{trial.name}: {number} {name}, and no caveat says so"
    if account.lost or account.unmatched:
        yield f"{trial.name}: {account.lost} lost, {account.unmatched} arrivals of no event of the trial"


def _clock_finding(check: ClockCheck) -> Finding | None:
    compared = next((each for each in check.comparisons if each.measure == "latency_ms"), None)
    if compared is None or compared.ks is None or check.offset_ms is None:
        return None
    low, high, bound = (
        compared.median_shift_ms.low,
        compared.median_shift_ms.high,
        abs(check.offset_ms) + (check.bound_ms or 0),
    )
    if low is None or high is None:
        return None
    ks = compared.ks
    observed = (
        f"D = {ks.d:.3f} (critical {ks.critical_d:.3f}, {ks.n} and {ks.m} events); medians differ by {low:+.3f} to "
        f"{high:+.3f} ms, and clocks by {bound:.3f} ms at most"
    )
    return Finding(low <= bound and high >= -bound, observed)
