"""One trial of `transfer`: its result, from the rows that its processes left and from what the log says of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.analysis.caveats.conditions import name_this_machine
from stepbench.analysis.comparability import place_in_run
from stepbench.analysis.error_words import find_remedies
from stepbench.analysis.functions import summarise_functions
from stepbench.analysis.outcomes import name_errors
from stepbench.contracts.documents import Failure, Served
from stepbench.contracts.findings import Clock, SlowSpells
from stepbench.contracts.result import Accounting, Caveat, TrialResult, TrialSummary
from stepbench.contracts.transfer.plan import MIB
from stepbench.costs.transitions import Visits, trial_transitions
from stepbench.digits import counted
from stepbench.experiments.transfer.analysis.chart_data import transfer_chart_data
from stepbench.experiments.transfer.analysis.findings import find_transfers
from stepbench.experiments.transfer.offering import TransferUsage, transfer_cost
from stepbench.records.formats.second_sources import LogCollection, ReportPage
from stepbench.records.formats.transfer_columns import TransferColumns
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import find_served
from stepbench.records.storage.transfers import first_attempts, read_logged_transfers, read_transfers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.analysis.evidence import Stored
    from stepbench.contracts.invocations import Invocations
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tasks import StateError
    from stepbench.contracts.transfer.result import TransferFindings
    from stepbench.contracts.transfer.rows import TransferRow
    from stepbench.costs.standing import Deployment

NOTHING_TRANSFERRED = "NothingMeasuredError"
_WRITER = "writer#"
_SHOWN = 3
_CLOCK = Clock(offset_ms=None, bound_ms=None, text="not needed: each transfer is timed by one clock")


@dataclass(frozen=True)
class TransferEvidence:
    """
    The evidence of one trial of `transfer` holds all that its analysis reads.

    rows: of all attempts. begun: process and attempt that gave a sign of life. missing: why the state machine gave a
    process up, by its number. logged, damaged_lines: the reads as the log has them, by name, and which of its lines
    cannot be read.
    slow_spells: of this machine, in a local run.
    shared: another run used the functions.
    """

    spec: TrialSpec
    failure: StateError
    rows: tuple[TransferRow, ...]
    begun: frozenset[tuple[int, int]]
    missing: Mapping[int, Failure]
    logged: Mapping[str, TransferRow]
    damaged_lines: tuple[str, ...]
    served: Served
    slow_spells: SlowSpells | None
    pages: tuple[ReportPage, ...]
    collection: LogCollection | None
    deployment: Deployment


def gather_transfers(stored: Stored) -> TransferEvidence:
    """
    Read all that a trial of `transfer` left in the results bucket and the results table.

    Raises:
        RecordsUnavailableError: bucket or table do not answer.
    """
    spec, failure, runs, table, _, deployment = stored
    ref = spec.ref
    logged, damaged = read_logged_transfers(ref, runs)
    missing = table.missing_writers(ref.tag)
    ids = (who.removeprefix(_WRITER) for who in table.beats(ref.tag) if who.startswith(_WRITER))
    reports = (key for key in runs.keys(layout.trial_key(ref, "logs/")) if not key.endswith("/collection.json"))
    return TransferEvidence(
        spec=spec,
        failure=failure,
        rows=read_transfers(ref, runs),
        begun=frozenset((number, attempt) for _, number, _, attempt in map(layout.attempt_names, ids)),
        missing={number: Failure(error=error, cause=cause) for (_, number, _), (error, cause) in missing.items()},
        logged=logged,
        damaged_lines=damaged,
        served=find_served(ref, runs) or Served(provider=spec.plan.target.store, emulated=False),
        slow_spells=runs.find_model(layout.machine_key(spec.run_id), SlowSpells),
        pages=tuple(runs.get_model(key, ReportPage) for key in reports),
        collection=runs.find_model(layout.trial_key(ref, "logs/collection.json"), LogCollection),
        deployment=deployment,
    )


def analyse(stored: Stored) -> TrialResult:
    """Return everything that the report shows of the trial; raises as `gather_transfers` does."""
    evidence = gather_transfers(stored)
    spec, plan = evidence.spec, evidence.spec.transfer
    rows, again = first_attempts(evidence.rows)
    columns = TransferColumns.of(rows)
    findings = find_transfers(
        columns,
        offered=plan.reads,
        seed=plan.seed,
        cold_only=plan.cold == "required",
        published=plan.published,
    )
    accounting = _account(evidence, rows, again)
    failure = evidence.failure.failure() or _nothing_measured(findings)
    functions = summarise_functions(evidence.pages)
    summary = TrialSummary(
        **place_in_run(spec),
        name=spec.name,
        index=spec.index,
        store=plan.target.store,
        provider=evidence.served.provider,
        emulated=evidence.served.emulated,
        incomplete=failure is not None,
        failure=failure,
        accounting=accounting,
        windows=(),
        clock=_CLOCK,
        caveats=tuple(_caveats(evidence, rows, accounting, failure)),
        invocations=functions,
        slow_spells=evidence.slow_spells,
        cost_usd=transfer_cost(_billed_usage(evidence, functions), evidence.deployment, spec.estimate_usd),
        transfers=findings,
        stand_ins=evidence.served.stand_ins,
    )
    return TrialResult(summary=summary, series=(), phases=(), ecdf=(), transfers=transfer_chart_data(columns))


def _account(evidence: TransferEvidence, rows: tuple[TransferRow, ...], again: int) -> Accounting:
    """Account for each read once: what a process that has begun left no row of is unrecorded; others are unsent."""
    plan = evidence.spec.transfer
    counts = {outcome: sum(row.outcome == outcome for row in rows) for outcome in ("ok", "failed", "unknown")}
    stored = {row.number for row in rows}
    unrecorded = len(plan.sources) * len({number for number, _ in evidence.begun} - stored)
    nothing = dict.fromkeys(
        ("ok_arrived", "failed_arrived", "unknown_arrived", "unrecorded_arrived", "received", "lost", "out_of_order"), 0
    )
    return Accounting(
        offered=plan.reads,
        sent=len(rows),
        unsent=plan.reads - len(rows) - unrecorded,
        unrecorded=unrecorded,
        duplicates=again,
        awaited=False,
        **counts,
        **nothing,
    )


def _nothing_measured(findings: TransferFindings) -> Failure | None:
    if findings.accounting.ok:
        return None
    errors = findings.accounting.errors
    errors_text = f": {name_errors(errors)}. {find_remedies(list(errors)[:_SHOWN])}" if errors else ""
    return Failure(error=NOTHING_TRANSFERRED, cause=f"no file was read whole{errors_text}")


def _caveats(
    evidence: TransferEvidence, rows: tuple[TransferRow, ...], accounting: Accounting, failure: Failure | None
) -> Iterator[Caveat]:
    if failure is not None:
        text = f"The trial ended with {failure.error}; the reads up to then are shown."
        yield Caveat(kind="incomplete", text=text, remedy="Remove the cause, and run the trial again.")
    if evidence.served.stand_ins:
        stand_ins = "; ".join(f"{what}: {stand_in}" for what, stand_in in evidence.served.stand_ins.items())
        text = f"What was measured stands in for AWS's ({stand_ins}): its rates say nothing about AWS."
        yield Caveat(kind="emulated", text=text, remedy="Run the plan on AWS (sam deploy).")
    if accounting.failed:
        failed = Counter(row.error for row in rows if row.outcome == "failed")
        errors = dict(failed.most_common())
        yield Caveat(
            kind="failed_outcomes",
            text=f"{accounting.failed} of {counted(accounting.offered, 'read')} failed ({name_errors(errors)}); "
            "what failed has no rate.",
            remedy=find_remedies(list(errors)[:_SHOWN]),
        )
    yield from name_this_machine(evidence.slow_spells)
    yield from _missing(evidence, accounting)
    yield from _died(evidence)
    yield from _starts(evidence, rows)
    yield from _log_differences(evidence)


def _missing(evidence: TransferEvidence, accounting: Accounting) -> Iterator[Caveat]:
    if accounting.unsent or accounting.unrecorded:
        causes = dict.fromkeys(f"{each.error}: {each.cause}"[:200] for each in evidence.missing.values())
        listed = "; ".join(list(causes)[:_SHOWN]) or "no reason is on record"
        text = f"{counted(accounting.unsent, 'read')} never began, and {accounting.unrecorded} left no row ({listed})."
        yield Caveat(
            kind="missing_writer", text=text, remedy="Look at RunTransfer's log, and at the account's capacity."
        )


def _died(evidence: TransferEvidence) -> Iterator[Caveat]:
    """Report attempts that left no rows where a later one did: what they broke off may have been the slowest."""
    stored = {(row.number, row.attempt) for row in evidence.rows}
    died = {each for each in evidence.begun - stored if each[0] in {number for number, _ in stored}}
    if died:
        ended = counted(len(died), "attempt")
        text = f"{ended} ended without rows, and their files were read again; their own reads are not shown."
        yield Caveat(kind="unrecorded", text=text, remedy="Look at RunTransfer's log for what ended them.")


def _starts(evidence: TransferEvidence, rows: tuple[TransferRow, ...]) -> Iterator[Caveat]:
    warm = sum(row.cold is False for row in rows)
    if warm and evidence.spec.transfer.cold == "required":
        text = f"{warm} of {counted(len(rows), 'read')} came from a sandbox that had served before: not measured."
        yield Caveat(
            kind="cold_starts", text=text, remedy="Lower concurrency, so that no transfer meets another's sandbox."
        )


def _log_differences(evidence: TransferEvidence) -> Iterator[Caveat]:
    """Compare the rows with the log, which is a second source: numbers are from the rows alone."""
    logged = evidence.logged
    if not logged:
        yield Caveat(
            kind="missing_logs", text="No read was found in the log.", remedy="Look at RunTransfer's log group."
        )
        return
    stored = {row.name: row.model_copy(update={"mib_ns": ()}) for row in evidence.rows}
    only_logged = sorted(logged.keys() - stored.keys())
    only_stored = sorted(stored.keys() - logged.keys())
    differing = sorted(name for name in logged.keys() & stored.keys() if logged[name] != stored[name])
    if only_logged or only_stored or differing or evidence.damaged_lines:
        text = (
            f"Of {counted(len(stored), 'row')}, not in the log: {len(only_stored)}, there with other values: "
            f"{len(differing)}; in the log only: {counted(len(only_logged), 'read')}; "
            f"{counted(len(evidence.damaged_lines), 'line')} cannot be read."
        )
        yield Caveat(
            kind="log_disagreement", text=text, remedy="See the log's lines in t4-logs/ beside the trial's rows."
        )


def _billed_usage(evidence: TransferEvidence, functions: tuple[Invocations, ...]) -> TransferUsage:
    rows, collection = evidence.rows, evidence.collection
    known = collection is not None and not collection.shared and collection.seen >= collection.expected
    tasks: dict[str, int] = {}
    for row in rows:
        if row.platform == "fargate":
            tasks[row.task or row.sandbox] = tasks.get(row.task or row.sandbox, 0) + (row.transfer_ns or 0)
    used = functions if known else None
    return TransferUsage(
        efs_bytes=sum(row.received_bytes for row in rows if row.source == "efs"),
        s3_requests=sum(_requests(row, evidence.spec.transfer.connections) for row in rows),
        functions=used,
        transitions=None if used is None else trial_transitions(_visits(evidence, used)),
        task_s=tuple(spent / 1e9 for spent in tasks.values()),
        processes=len({(row.number, row.attempt) for row in rows}),
    )


def _requests(row: TransferRow, connections: int) -> int:
    """Return how many requests a read has made; each connection has a MiB at least."""
    return min(connections, max(1, row.file_bytes // MIB)) if row.source == "s3" and row.connect_ns is not None else 0


def _visits(evidence: TransferEvidence, used: tuple[Invocations, ...]) -> Visits:
    plan = evidence.spec.transfer
    invoked = {each.function: each.invocations for each in used}
    if evidence.collection is not None:
        invoked["CollectLogs"] = evidence.collection.calls
    return Visits(
        phases=1,
        needed=1,
        slices=plan.processes,
        on_host=False,
        invoked=invoked,
        missing=len(evidence.missing),
        transfers=plan.processes,
        tasks=plan.transfers if "fargate" in plan.platforms else 0,
    )
