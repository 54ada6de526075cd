"""
What a trial ran under: how it ended, what of it is missing, what played the store, and a machine that was slow.

And settings of a plan that made no difference to what was measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.caveats.saturation import LITTLE_CPU
from stepbench.analysis.findings import STOPPED_REMEDY
from stepbench.analysis.functions import generator_cpu
from stepbench.analysis.slow_spells import SLOW_MACHINE, describe_slow_spells
from stepbench.contracts.result import Caveat
from stepbench.contracts.target import DynamoDbTarget
from stepbench.digits import count, counted, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.contracts.findings import SlowSpells


_SHOWN = 3
_CAUSE_CHARS = 120


def find_incomplete(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report a trial that failed or was stopped."""
    failure = findings.failure
    if failure is None:
        return
    text = f"The trial failed ({failure.error}: {failure.cause[:200]}); what had been recorded until then is shown."
    remedy = "Remove the cause, and run the trial again."
    if findings.cancelled:
        text = f"The run was stopped ({failure.cause[:200]}); what had been recorded until then is shown."
        if cut_off := findings.total("cut_off"):
            text += f" {counted(cut_off, 'acknowledged event')} had not arrived by then: cut off, not lost."
        if cut_off := findings.total("cut_off_in_handler"):
            text += f" {counted(cut_off, 'event')} that had arrived had not been processed: cut off, not failed."
        remedy = STOPPED_REMEDY
    yield Caveat(kind="incomplete", text=text, remedy=remedy)


def find_damaged_files(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report record files that do not decode."""
    if evidence.records.damaged:
        text = f"Record files that do not decode: {len(evidence.records.damaged)}. {evidence.records.damaged[0]}"
        yield Caveat(kind="unrecorded", text=text, remedy="Look at the bucket's object; run the trial again.")


def find_damaged_arrivals(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report stored arrivals that do not decode: what is in them counts as lost, and was not."""
    if damaged := evidence.records.damaged_items:
        text = f"Stored arrivals that do not decode: {len(damaged)}. What is in them counts as lost. {damaged[0]}"
        yield Caveat(kind="lost_events", text=text, remedy="Look at the item, or object; run the trial again.")


def find_missing_writers(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report writers that did not run, or did not end in order."""
    missing = _missing_writers(evidence)
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else ".")
        text = f"{counted(len(missing), 'writer')} did not run, or did not end in order: {shown}"
        where = "RunWriter" if evidence.spec.offered.load_from == "lambda" else "the load host"
        remedy = f"See the failed children of OfferLoad's map run, and the log of {where}."
        remedy = STOPPED_REMEDY if findings.cancelled else remedy
        yield Caveat(kind="missing_writer", text=text, remedy=remedy)


def _missing_writers(evidence: Evidence) -> list[str]:
    grid = evidence.joined.grid
    ended = {
        grid.slot(file.header.phase, file.header.writer, file.header.slice)
        for file in evidence.records.files
        if file.header.last
    }
    silent = ((grid.count > 0) | grid.closed) & ~np.isin(np.arange(grid.count.size), list(ended))
    slots = [(int(grid.phase[n]), int(grid.writer[n]), int(grid.slice[n])) for n in np.nonzero(silent)[0].tolist()]
    return [_describe_writer(slot, evidence) for slot in slots]


def _describe_writer(slot: tuple[int, int, int], evidence: Evidence) -> str:
    phase, writer, slice_ = slot
    failure = evidence.missing.get(slot)
    why = f" ({failure.error}: {failure.cause[:_CAUSE_CHARS]})" if failure else ""
    return f"writer {writer} in slice {slice_} of {evidence.spec.offered.phases[phase].name}{why}"


def find_missing_logs(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report invocations that left no REPORT line, or whose logs were not read."""
    collection = evidence.collection
    if collection is None:
        text = "The functions' logs were not collected."
    elif collection.every > 1:
        text = f"Of the receiver's log every {collection.every}th minute was read; its counts are a sample."
    elif collection.seen < collection.expected:
        missing = collection.expected - collection.seen
        text = f"{missing} of {collection.expected} receiver invocations left no REPORT line."
    else:
        return
    remedy = "Durations and cold starts come from logs only; the latencies do not."
    yield Caveat(kind="missing_logs", text=text, remedy=remedy)


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


def find_memory_without_effect(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report settings of a measured function's sandbox that an emulator does not have."""
    function = evidence.spec.offered.target.function
    if function is None or not (evidence.served.emulated or evidence.deployment.emulator):
        return
    for field, name in (("memory_mib", "Memory"), ("snap_start", "SnapStart")):
        if getattr(function, field):
            text = f"{name} is not emulated: the function had what this machine has, whatever {field} says."
            remedy = f"Measure target.function.{field} on AWS: the same plan decides there."
            setting = f"target.function.{field}"
            yield Caveat(kind="setting_without_effect", text=text, remedy=remedy, setting=setting)


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


def name_this_machine(found: SlowSpells | None) -> Iterator[Caveat]:
    """Report slow spells of the machine that all of a local run shares."""
    if found is not None and found.matter:
        remedy = "Close what else runs, let the machine cool, or use another one; then run it again."
        yield Caveat(kind=SLOW_MACHINE, text=f"{describe_slow_spells(found)}.", remedy=remedy)


def find_slow_machine(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report slow spells of the machine.

    Of a sandbox that writers have to themselves, only windows in which one used half of the CPU that it can get: the
    look takes all of it, and is stopped by a quota that a writer with little to do never meets.
    """
    found = evidence.slow_spells
    if found is None or not found.matter:
        return
    if not any(file.header.slow_spells for file in evidence.records.files):
        yield from name_this_machine(found)
        return
    used = [generator_cpu(evidence, window.phase) for window in findings.measured_windows]
    about = tuple(at for at, share in enumerate(used) if share is None or share >= LITTLE_CPU)
    if about:
        text = describe_slow_spells(found, "The writers' sandboxes") + "."
        remedy = "Give writers 1,769 MB or more (the stack's MeasuredMemorySize), or use more of them."
        yield Caveat(kind=SLOW_MACHINE, text=text, remedy=remedy, windows=about)
