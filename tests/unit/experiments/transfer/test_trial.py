"""One trial of transfers: every read is accounted for, and the log is a second source."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.services import MemoryServices, stored_trial
from tests.samples.transfers import row
from tests.support.fake_clock import FakeClock

from stepbench.analysis import evidence
from stepbench.analysis.error_words import UNKNOWN, remedies
from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.result import TrialResult
from stepbench.contracts.tasks import StateError
from stepbench.contracts.transfer.plan import TransferTrial
from stepbench.contracts.transfer.rows import TransferRow, TransferRows
from stepbench.costs.standing import Deployment
from stepbench.experiments.transfer.trial import NOTHING_TRANSFERRED, analyse
from stepbench.records.formats.second_sources import transfer_line
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import T4Page

SANDBOXES = {number: f"sandbox-{number}" for number in range(8)}


class Stored:
    """A trial of four transfers from two sources, of which a test stores what it wants."""

    def __init__(self, **fields: Any) -> None:  # noqa: ANN401 -- a plan's JSON
        document = {"experiment": "transfer", "transfers": 4, "file_sizes_mib": [2], **fields}
        self.memory = MemoryServices(FakeClock(1))
        self.services = self.memory.services
        self.ref: TrialRef = stored_trial(self.services, TransferTrial.model_validate(document))
        noted = {"provider": "MiniStack; local file system", "emulated": True, "stand_ins": {"s3": "MiniStack"}}
        self.services.runs.put_json(layout.trial_key(self.ref, "provider.json"), noted)

    def process(self, number: int, *, attempt: int = 0, logged: bool = True, **changes: Any) -> list[TransferRow]:  # noqa: ANN401 -- a row's
        """Store the rows of a process's reads from both sources, and their lines."""
        of_all = {"run_id": self.ref.run_id, "number": number, "attempt": attempt, "sandbox": SANDBOXES[number]}
        rows = [
            row(**{**of_all, "place": place, "source": source, **changes}) for place, source in enumerate(("efs", "s3"))
        ]
        key = layout.transfer_key(self.ref, number, attempt)
        self.services.runs.put_model(key, TransferRows(rows=tuple(rows)))
        if logged:
            page = T4Page(lines=tuple(transfer_line(self.ref.tag, each) for each in rows))
            self.services.runs.put_model(layout.trial_key(self.ref, f"t4-logs/{number}-{attempt}.json"), page)
        return rows

    def begun(self, number: int) -> None:
        """Let a process have given a sign of life."""
        self.services.table.beat(self.ref.tag, f"writer#{layout.attempt_id(0, number, 0, 0)}", {"sent": 0})

    def result(self) -> TrialResult:
        """Return what the analysis makes of it."""
        spec = self.services.trial(self.ref)
        services = self.services
        return analyse(evidence.Stored(spec, StateError(), services.runs, services.table, services.clock, Deployment()))

    def kinds(self) -> set[str]:
        """Return the kinds of its caveats."""
        return {caveat.kind for caveat in self.result().summary.caveats}


def test_every_read_is_accounted_for() -> None:
    """Of 8 reads 4 went well, 2 left no row after a sign of life, 2 never began."""
    stored = Stored()
    stored.process(0)
    stored.process(1)
    stored.begun(2)
    found = stored.result().summary.accounting
    assert found is not None
    assert (found.offered, found.sent, found.ok, found.unrecorded, found.unsent) == (8, 4, 4, 2, 2)
    assert not found.awaited


def test_a_process_that_was_run_again_counts_once() -> None:
    """It had stored its rows, and died before it said so: its second attempt reads the file again."""
    stored = Stored()
    stored.process(0)
    stored.process(0, attempt=1)
    found = stored.result().summary.accounting
    assert found is not None
    assert (found.sent, found.duplicates) == (2, 2)


def test_a_slow_machine_is_named_beside_transfers_too() -> None:
    """Their rates are of the machine that reads as much as of the store."""
    stored = Stored()
    stored.process(0)
    found = SlowSpells(looked_s=2.6, share=0.077, longest_ms=55, spells=4)
    stored.services.runs.put_model(layout.machine_key(stored.ref.run_id), found)
    assert "slow_machine" in stored.kinds()
    assert stored.result().summary.slow_spells == found


def test_failed_reads_have_no_rate_and_are_told() -> None:
    """A mean without them would be too good."""
    stored = Stored()
    stored.process(0)
    stored.process(1, outcome="failed", transfer_ns=None, error="wrong-digest")
    result = stored.result()
    assert result.summary.transfers is not None
    assert sum(cell.n for cell in result.summary.transfers.cells) == 2
    (found,) = (each for each in result.summary.caveats if each.kind == "failed_outcomes")
    told = "2 of 8 reads failed (wrong-digest (not the bytes that were stored) 2); what failed has no rate."
    assert (found.text, found.remedy) == (told, remedies()["remade"])


def test_a_trial_without_one_whole_file_has_failed() -> None:
    """It passed all its states."""
    stored = Stored()
    stored.process(0, outcome="failed", transfer_ns=None, error="HTTP 403")
    failure = stored.result().summary.failure
    assert failure is not None
    assert failure.error == NOTHING_TRANSFERRED
    assert failure.cause == f"no file was read whole: HTTP 403 2. {UNKNOWN}"


def test_rows_that_the_log_tells_otherwise_are_a_disagreement() -> None:
    """The log depends on no bucket: where the two differ one of them is wrong."""
    stored = Stored()
    stored.process(0)
    assert "log_disagreement" not in stored.kinds()
    stored.process(1, logged=False)
    assert "log_disagreement" in stored.kinds()


def test_a_row_that_is_only_in_the_log_is_one_too() -> None:
    """The rows of a process that died before it could store them are there, and count for nothing."""
    stored = Stored()
    stored.process(0)
    key = layout.transfer_key(stored.ref, 0, 0)
    del stored.memory.bucket.objects[key]
    stored.process(1)
    (text,) = (each.text for each in stored.result().summary.caveats if each.kind == "log_disagreement")
    assert "in the log only: 2 reads;" in text


def test_a_used_sandbox_is_told_where_a_new_one_was_required() -> None:
    """Its network may be warm."""
    stored = Stored()
    stored.process(0, cold=False, served=1)
    assert "cold_starts" in stored.kinds()
    assert "cold_starts" not in Stored(cold="no").kinds()


def test_a_used_sandbox_is_not_measured_where_a_new_one_was_required() -> None:
    """Its rate is another question's answer."""
    for cold, n in (("required", 1), ("preferred", 2)):
        stored = Stored(cold=cold)
        stored.process(0)
        stored.process(1, cold=False, served=1)
        found = stored.result().summary.transfers
        assert found is not None
        assert {cell.n for cell in found.cells} == {n}
        assert found.accounting.warm == 2


def test_what_stands_in_for_aws_is_told() -> None:
    """A local folder's rate would be taken for EFS's."""
    stored = Stored()
    stored.process(0)
    (text,) = (each.text for each in stored.result().summary.caveats if each.kind == "emulated")
    assert "s3: MiniStack" in text


def test_what_was_read_from_efs_is_billed() -> None:
    """2 MiB from EFS at $0.03 a GB."""
    stored = Stored()
    stored.process(0)
    (item,) = (each for each in stored.result().summary.cost_usd.items if each.item.startswith("EFS"))
    assert item.usd == pytest.approx(2 * 2**20 / 1e9 * 0.03)
