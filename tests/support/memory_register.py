"""The register of runs in memory, for unit tests of what uses it; the real one passes the same tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.runs import RunRecord
from stepbench.records.storage.run_queue import First, Turn
from stepbench.records.storage.run_register import Budgets, OverBudgetError, RunPage, RunRegister

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from stepbench.contracts.runs import QueueEntry, RunState
    from stepbench.records.storage.run_register import RunQuery


class MemoryRegister(RunRegister):
    """It keeps runs, the queue's entries and tokens by run, who holds which target, and numbers, in dictionaries."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRecord] = {}
        self.places: dict[str, QueueEntry] = {}
        self.turns: dict[str, Turn] = {}
        self.held: dict[str, str] = {}
        self.numbers: dict[str, dict[str, int]] = {}
        self.claims: dict[str, str] = {}

    def add(self, record: RunRecord, budgets: Budgets = Budgets()) -> bool:  # noqa: B008 -- it is immutable
        """See the register."""
        if record.run_id in self.runs:
            return False
        spent = self.spent(record.month)
        team_usd, all_usd = spent.get(record.team, 0.0), spent.get("*", 0.0)
        if budgets.team_usd and record.spent_usd and team_usd + record.spent_usd > budgets.team_usd:
            raise OverBudgetError(budgets.team_usd, team_usd, "team")
        if budgets.account_usd and record.spent_usd and all_usd + record.spent_usd > budgets.account_usd:
            raise OverBudgetError(budgets.account_usd, all_usd, "account")
        self.runs[record.run_id] = record
        return True

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

    def starting(self, before: datetime) -> list[str]:
        """See the register."""
        return [run.run_id for run in self.runs.values() if run.state == "submitted" and run.submitted_at < before]

    def spent(self, month: str) -> dict[str, float]:
        """See the register."""
        runs = [run for run in self.runs.values() if run.month == month and run.estimate_usd]
        teams = {run.team for run in runs}
        found = {team: sum(run.spent_usd for run in runs if run.team == team) for team in teams}
        return {**found, "*": sum(found.values())} if runs else {}

    def keep(self, name: str, numbers: dict[str, int], seconds: float) -> None:
        """See the register."""
        self.numbers[name] = numbers if seconds > 0 else {}

    def kept(self, name: str) -> dict[str, int]:
        """See the register."""
        return self.numbers.get(name, {})

    def claim(self, scheduled: str, run_id: str) -> str:
        """See the register."""
        return self.claims.setdefault(scheduled, run_id)

    def page(self, wanted: RunQuery) -> RunPage:
        """See the register."""
        first, last = wanted.times
        found = [
            run
            for run in sorted(self.runs.values(), key=lambda run: run.place, reverse=True)
            if run.team == wanted.team and wanted.plan in {"", run.plan}
            if not wanted.states or run.state in wanted.states
            if first <= run.place <= last and (not wanted.after or run.place < wanted.after)
        ]
        shown = found[: wanted.limit]
        return RunPage(tuple(shown), shown[-1].place if len(found) > len(shown) else "")

    def join(self, entry: QueueEntry, token: str, now: datetime) -> bool:
        """See the register."""
        if entry.run_id not in self.places and self.change(
            entry.run_id, ("submitted", "queued"), state="queued", queued_at=now
        ):
            self.places[entry.run_id] = entry
        elif entry.run_id not in self.turns:
            return False
        self.turns[entry.run_id] = Turn(token, resumed=False)
        return True

    def entries(self) -> list[QueueEntry]:
        """See the register."""
        return sorted(self.places.values(), key=lambda entry: entry.order)

    def entry(self, run_id: str) -> QueueEntry | None:
        """See the register."""
        return self.places.get(run_id)

    def first(self, target: str) -> First | None:
        """See the register."""
        if target in self.held:
            return First(self.held[target], has_it=True)
        waiting = (entry for entry in self.queue() if not entry.admitted_at and target in entry.targets)
        entry = next(waiting, None)
        return First(entry.run_id, has_it=False) if entry else None

    def turn(self, run_id: str) -> Turn | None:
        """See the register."""
        return self.turns.get(run_id)

    def admit(self, entry: QueueEntry, now: datetime) -> bool:
        """See the register."""
        known = self.places.get(entry.run_id)
        is_waiting = known is not None and not known.admitted_at and not known.left_at
        if known is None or not is_waiting or not self.held.keys().isdisjoint(entry.targets):
            return False
        self.held.update(dict.fromkeys(entry.targets, entry.run_id))
        self.places[entry.run_id] = known.model_copy(update={"admitted_at": now})
        return True

    def mark_resumed(self, run_id: str, token: str) -> None:
        """See the register."""
        if self.turns.get(run_id) in {Turn(token, resumed=False), Turn(token, resumed=True)}:
            self.turns[run_id] = Turn(token, resumed=True)

    def release(self, entry: QueueEntry, now: datetime) -> bool:
        """See the register."""
        known = self.places.get(entry.run_id)
        if known is None or known.left_at or bool(known.admitted_at) != bool(entry.admitted_at):
            return False
        self.places[entry.run_id] = known.model_copy(update={"left_at": now})
        del self.turns[entry.run_id]
        self.held = {target: run for target, run in self.held.items() if run != entry.run_id}
        return True

    def forget(self, entry: QueueEntry) -> None:
        """See the register."""
        known = self.places.get(entry.run_id)
        if known and known.left_at:
            del self.places[entry.run_id]
