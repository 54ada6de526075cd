"""The register of runs in memory, for unit tests of what uses it; the real one passes the same tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.runs import RunRecord
from stepbench.records.storage.run_register import RunPage, RunRegister

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stepbench.contracts.runs import QueueEntry, RunState
    from stepbench.records.storage.run_register import RunQuery


class MemoryRegister(RunRegister):
    """It keeps runs, the queue's entries by run, and who holds which target, in dictionaries."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRecord] = {}
        self.entries: dict[str, QueueEntry] = {}
        self.held: dict[str, str] = {}

    def add(self, record: RunRecord) -> bool:
        """See the register."""
        return self.runs.setdefault(record.run_id, record) is record

    def find(self, run_id: str) -> RunRecord | None:
        """See the register."""
        return self.runs.get(run_id)

    def change(self, run_id: str, states: Sequence[RunState], **changes: Any) -> RunRecord | None:  # noqa: ANN401 -- fields
        """See the register."""
        current = self.runs.get(run_id)
        if current is None or current.state not in states:
            return None
        self.runs[run_id] = RunRecord.model_validate({**current.model_dump(), **changes})
        return self.runs[run_id]

    def page(self, wanted: RunQuery) -> RunPage:
        """See the register."""
        submitted = {f"{run.model_dump(mode='json')['submitted_at']}#{run.run_id}": run for run in self.runs.values()}
        found = [
            (at, run)
            for at, run in sorted(submitted.items(), reverse=True)
            if run.team == wanted.team and wanted.plan in {"", run.plan}
            if not wanted.states or run.state in wanted.states
            if wanted.since <= at <= f"{wanted.until}~" and (not wanted.after or at < wanted.after)
        ]
        shown = found[: wanted.limit]
        return RunPage(tuple(run for _, run in shown), shown[-1][0] if len(found) > len(shown) else "")

    def join(self, entry: QueueEntry) -> QueueEntry:
        """See the register."""
        known = self.entries.get(entry.run_id)
        renewed = known.model_copy(update={"token": entry.token, "resumed": False}) if known else entry
        self.entries[entry.run_id] = renewed
        return renewed

    def queue(self) -> list[QueueEntry]:
        """See the register."""
        return sorted(self.entries.values(), key=lambda entry: entry.order)

    def admit(self, entry: QueueEntry, now: datetime) -> bool:
        """See the register."""
        known = self.entries.get(entry.run_id)
        if known is None or known.admitted_at or not self.held.keys().isdisjoint(entry.targets):
            return False
        self.held.update(dict.fromkeys(entry.targets, entry.run_id))
        self.entries[entry.run_id] = known.model_copy(update={"admitted_at": now})
        return True

    def mark_resumed(self, entry: QueueEntry) -> None:
        """See the register."""
        known = self.entries.get(entry.run_id)
        if known and known.token == entry.token:
            self.entries[entry.run_id] = known.model_copy(update={"resumed": True})

    def leave(self, entry: QueueEntry) -> bool:
        """See the register."""
        known = self.entries.get(entry.run_id)
        if known is None or bool(known.admitted_at) != bool(entry.admitted_at):
            return False
        del self.entries[entry.run_id]
        self.held = {target: run for target, run in self.held.items() if run != entry.run_id}
        return True
