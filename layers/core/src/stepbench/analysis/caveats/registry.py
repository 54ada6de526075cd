"""The registry names every caveat that a trial may have, the graver first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis import clocks
from stepbench.analysis.caveats import accounting, deliveries, ending, machine, settings, windows
from stepbench.analysis.caveats.saturation import find_saturation
from stepbench.analysis.found_rate import find_rate_caveats
from stepbench.analysis.outcomes import find_outcome_caveats
from stepbench.analysis.reconciliation import find_log_disagreements
from stepbench.analysis.stall_report import find_stall_caveats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.result import Caveat


def _find_graver(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    yield from findings.own.graver


def _find_unrecorded(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    yield from findings.own.unrecorded


def _find_milder(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    yield from findings.own.milder


CAVEATS: tuple[Callable[[Evidence, Findings], Iterator[Caveat]], ...] = (
    ending.find_incomplete,
    ending.find_damaged_files,
    ending.find_damaged_arrivals,
    ending.find_missing_writers,
    _find_graver,
    accounting.find_lost_events,
    accounting.find_leaked_events,
    accounting.find_unrecorded_events,
    _find_unrecorded,
    find_outcome_caveats,
    deliveries.find_watch_gaps,
    accounting.find_shortened_phases,
    accounting.find_unsent_events,
    windows.find_growth,
    find_stall_caveats,
    find_saturation,
    windows.find_hidden_stalls,
    machine.find_slow_machine,
    find_rate_caveats,
    windows.find_short_windows,
    windows.find_unsure_phases,
    clocks.find_unmeasured_clocks,
    clocks.find_clock_drift,
    clocks.find_other_sandboxes,
    deliveries.find_duplicates,
    deliveries.find_malformed_events,
    deliveries.find_records_in_fallback,
    deliveries.find_cold_starts,
    _find_milder,
    settings.find_emulated_store,
    settings.find_filter,
    settings.find_ignored_batching_window,
    settings.find_unreached_batch_size,
    ending.find_missing_logs,
    find_log_disagreements,
)


def find_caveats(evidence: Evidence, findings: Findings) -> tuple[Caveat, ...]:
    """Return all caveats, the graver first."""
    return tuple(caveat for find in CAVEATS for caveat in find(evidence, findings))
