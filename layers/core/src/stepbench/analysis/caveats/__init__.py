"""The caveats are all that should make a reader doubt a number, each with its remedy; `CAVEATS` has them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis import clocks
from stepbench.analysis.caveats import accounting, conditions, handler, windows
from stepbench.analysis.caveats.saturation import find_saturation
from stepbench.analysis.outcomes import find_outcome_caveats
from stepbench.analysis.precision import find_rate_caveats
from stepbench.analysis.reconciliation import find_log_disagreements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.contracts.result import Caveat

CAVEATS: tuple[Callable[[Evidence, Findings], Iterable[Caveat]], ...] = (
    conditions.find_incomplete,
    conditions.find_damaged_files,
    conditions.find_damaged_arrivals,
    conditions.find_missing_writers,
    lambda _evidence, findings: findings.own.graver,
    accounting.find_lost_events,
    handler.find_never_processed,
    handler.find_handler_errors,
    handler.find_throttles,
    accounting.find_leaked_events,
    accounting.find_unrecorded_events,
    lambda _evidence, findings: findings.own.unrecorded,
    find_outcome_caveats,
    accounting.find_watch_gaps,
    handler.find_unpaired_events,
    accounting.find_shortened_phases,
    accounting.find_unsent_events,
    windows.find_growth,
    windows.find_stall_caveats,
    find_saturation,
    windows.find_hidden_stalls,
    conditions.find_slow_machine,
    find_rate_caveats,
    windows.find_short_windows,
    windows.find_unsure_phases,
    clocks.find_unmeasured_clocks,
    clocks.find_clock_drift,
    clocks.find_other_sandboxes,
    accounting.find_duplicates,
    handler.find_processed_twice,
    accounting.find_malformed_events,
    accounting.find_records_in_fallback,
    accounting.find_cold_starts,
    lambda _evidence, findings: findings.own.milder,
    handler.find_platform_times,
    handler.find_coarse_times,
    conditions.find_emulated_store,
    conditions.find_memory_without_effect,
    conditions.find_filter,
    conditions.find_ignored_batching_window,
    conditions.find_unreached_batch_size,
    conditions.find_missing_logs,
    find_log_disagreements,
)


def find_caveats(evidence: Evidence, findings: Findings) -> tuple[Caveat, ...]:
    """Return all caveats, the graver first."""
    return tuple(caveat for find in CAVEATS for caveat in find(evidence, findings))
