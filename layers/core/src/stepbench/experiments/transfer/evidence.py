"""The evidence of a trial of `transfer`, gathered in one place so that everything after is pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.contracts.documents import Failure, Served
from stepbench.contracts.findings import SlowSpells
from stepbench.records.formats.second_sources import LogCollection, ReportPage
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import find_served
from stepbench.records.storage.transfers import read_logged_transfers, read_transfers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.analysis.evidence import Stored
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tasks import StateError
    from stepbench.contracts.transfer.rows import TransferRow
    from stepbench.costs.standing import Deployment
    from stepbench.records.storage.trial_table import TrialTable

_WRITER = "writer#"


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
    reports = (key for key in runs.keys(layout.trial_key(ref, "logs/")) if not key.endswith("/collection.json"))
    return TransferEvidence(
        spec=spec,
        failure=failure,
        rows=read_transfers(ref, runs),
        begun=frozenset(_begun(table, ref.tag)),
        missing={number: Failure(error=error, cause=cause) for (_, number, _), (error, cause) in missing.items()},
        logged=logged,
        damaged_lines=damaged,
        served=find_served(ref, runs) or Served(provider=spec.plan.target.store, emulated=False),
        slow_spells=runs.find_model(layout.machine_key(spec.run_id), SlowSpells),
        pages=tuple(runs.get_model(key, ReportPage) for key in reports),
        collection=runs.find_model(layout.trial_key(ref, "logs/collection.json"), LogCollection),
        deployment=deployment,
    )


def _begun(table: TrialTable, tag: str) -> set[tuple[int, int]]:
    """Return the number and the attempt of each process that gave a sign of life."""
    ids = (who.removeprefix(_WRITER) for who in table.beats(tag) if who.startswith(_WRITER))
    return {(number, attempt) for _, number, _, attempt in map(layout.attempt_names, ids)}
