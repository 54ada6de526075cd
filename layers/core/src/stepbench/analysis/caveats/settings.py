"""A store that something else plays, and settings of a plan that made no difference to what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Caveat
from stepbench.contracts.target import DynamoDbTarget
from stepbench.digits import count, counted, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence

_DEFAULT_BATCH = DynamoDbTarget.model_fields["batch_size"].default


def find_emulated_store(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report a store that something else plays."""
    if evidence.served.emulated:
        store = evidence.spec.offered.target.store
        functions = evidence.served.stand_ins.get("lambda")
        played = f"{store} is played by {evidence.served.provider}"
        how = f"{store}'s events end in functions of {functions}" if functions else played
        text = f"{how}: its latencies say nothing about AWS."
        yield Caveat(kind="emulated", text=text, remedy="Run the plan on AWS (sam deploy).")


def find_ignored_batching_window(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report a batching window that an emulator does not keep."""
    target = evidence.spec.offered.target
    if isinstance(target, DynamoDbTarget) and _is_window_ignored(target, evidence):
        text = f"{evidence.served.provider} ignores the batching window of {target.batching_window_s} s."
        yield Caveat(
            kind="batching_window_ignored", text=text, remedy="Measure batching windows on AWS.",
            setting="target.batching_window_s",
        )  # fmt: skip


def find_unreached_batch_size(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report a batch size that no invocation was handed, where the plan varies it or has another one than the default.

    A batch size of 1 is always reached.
    """
    target = evidence.spec.offered.target
    if not isinstance(target, DynamoDbTarget) or not _is_studied(evidence, target):
        return
    found = {place: each.deliveries for place, each in enumerate(findings.windows) if each.deliveries}
    places = tuple(place for place, deliveries in found.items() if deliveries.max < target.batch_size)
    if places:
        largest = max(found[place].max for place in places)
        invocations = counted(sum(found[place].invocations for place in places), "invocation")
        text = f"batch_size {count(target.batch_size)} was never reached: none of {invocations} was handed more than "
        text += f"{counted(largest, 'record')}. {_why_so_small(evidence, target)}"
        remedy = "Raise rate_per_s, or target.batching_window_s."
        if evidence.served.emulated:
            ignored = f"target.batching_window_s, which {evidence.served.provider} ignores"
            remedy = f"Raise rate_per_s; or run on AWS with {ignored}."
        yield Caveat(
            kind="setting_without_effect", text=text, remedy=remedy, windows=places, setting="target.batch_size"
        )


def find_filter(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report a filter on a stream: its events cannot be distinguished from lost ones, or it let everything pass."""
    target, account = evidence.spec.offered.target, findings.accounting
    if not isinstance(target, DynamoDbTarget) or target.filter is None:
        return
    if account and 0 < account.ok == account.ok_arrived:
        text = f"The filter held nothing back: all {counted(account.ok, 'acknowledged event')} arrived."
        remedy = "Compare target.filter with the records that the plan writes, and with the filter as the store has it."
        yield Caveat(kind="setting_without_effect", text=text, remedy=remedy, setting="target.filter")
        return
    text = "A filter holds events back, which count as not arrived."
    yield Caveat(kind="filtered", text=text, remedy="Compare `lost` with what the filter should hold back.")


def _is_studied(evidence: Evidence, target: DynamoDbTarget) -> bool:
    return target.batch_size > 1 and ("target.batch_size" in evidence.spec.point or target.batch_size != _DEFAULT_BATCH)


def _is_window_ignored(target: DynamoDbTarget, evidence: Evidence) -> bool:
    return bool(target.batching_window_s) and evidence.served.emulated


def _why_so_small(evidence: Evidence, target: DynamoDbTarget) -> str:
    """Return why batches stayed below their limit."""
    if _is_window_ignored(target, evidence):
        provider = evidence.served.provider
        return f"{provider} ignores the batching window, and hands over what has come since it last looked."
    if not target.batching_window_s:
        return "Without a batching window, an invocation is handed what has come since the one before: too few."
    due = max(step.rate_per_s for phase in evidence.spec.offered.phases if phase.measured for step in phase.load)
    return f"At {rate(due)}/s too few came in {target.batching_window_s} s to any of the table's shards."
