"""The program of `transfer`, in processes of its own, before the reference bucket: a few transfers, and no verdict."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench.wire.http1.download import HttpServer, connect
from stepbench_tools.calibration.reference_bucket import FILES, reference_bucket
from stepbench_tools.calibration.transfers import (
    FILE_BYTES,
    PIECE_BYTES,
    PIECES,
    Jitter,
    TrueTransfer,
    draw_fate,
    moment_ns,
)
from stepbench_tools.local import calibrating_transfers
from stepbench_tools.local.calibrating_transfers import RECORDS, SEED, calibrate_transfers_here, transfer_all
from stepbench_tools.local.processes import await_end, spawn

if TYPE_CHECKING:
    from pathlib import Path

N = 30
JITTER = Jitter(slow_share=0.3, stall_share=0.15, stall_s=1.0, slow_hour=5)
FATES = [draw_fate(JITTER, SEED, number) for number in range(N)]


def test_what_the_bucket_has_on_record_is_what_the_program_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that does not depend on how busy this machine is: whose row it is, its bytes, and who stood still."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")  # a user's own, where the bucket is not
    truth, rows = transfer_all(JITTER, N)
    truth.sort(key=lambda each: each.number)
    rows.sort(key=lambda row: row.number)
    assert [each.number for each in truth] == [row.number for row in rows] == list(range(N))
    assert [each.fate for each in truth] == FATES
    assert {each.sent_bytes for each in truth} == {FILE_BYTES}
    assert {(row.outcome, row.digest_ok, row.received_bytes, len(row.mib_ns)) for row in rows} == {
        ("ok", True, FILE_BYTES, 4)
    }
    assert [row.due_at_ns for row in rows] == [moment_ns(number) for number in range(N)]
    assert ({row.cold for row in rows}, len({row.sandbox for row in rows})) == ({True}, N)
    stalled = {number for number, fate in enumerate(FATES) if fate.stall_s}
    assert stalled
    assert stalled <= {each.number for each in truth if each.stood_ns + late_ns(each) >= 1e9}
    assert stalled <= {row.number for row in rows if (row.transfer_ns or 0) >= 1e9}


def late_ns(transfer: TrueTransfer) -> int:
    """Return how late the last piece before the stall went out: by so much it makes the pause shorter."""
    place = transfer.fate.stalled_before
    if not place:
        return 0
    return transfer.sent_at_ns[place - 1] - transfer.received_at_ns - round(transfer.fate.due_s(place - 1) * 1e9)


def test_a_piece_is_never_sent_before_its_time() -> None:
    """Then the truth may be late, as a machine is, and no transfer is faster than was drawn for it."""
    truth, rows = transfer_all(JITTER, 4)
    for each in truth:
        due_ns = [each.received_at_ns + round(each.fate.due_s(piece) * 1e9) for piece in range(PIECES)]
        assert all(sent_ns >= at_ns for sent_ns, at_ns in zip(each.sent_at_ns, due_ns, strict=True))
    slowest = max(rows, key=lambda row: row.transfer_ns or 0)
    assert (slowest.transfer_ns or 0) >= FATES[slowest.number].due_s(PIECES - 1) * 1e9


def test_a_transfer_that_is_broken_off_is_on_record() -> None:
    """A truth without it would say that nobody had asked."""
    with reference_bucket(bytes(FILE_BYTES), JITTER, SEED) as bucket:
        server = HttpServer.of(bucket.environ["AWS_ENDPOINT_URL"])
        leaving = connect(server)
        leaving.send(f"GET /{FILES}/transfers/0 HTTP/1.1\r\nhost: {server.authority}\r\n\r\n".encode())
        head, _ = leaving.answer(200)
        leaving.close()
        assert head.length == FILE_BYTES
    (transfer,) = bucket.truth
    assert transfer.sent_bytes < FILE_BYTES
    assert transfer.sent_bytes in {(len(transfer.sent_at_ns) - 1) * PIECE_BYTES, len(transfer.sent_at_ns) * PIECE_BYTES}


def test_truth_and_rows_are_kept_and_both_runs_are_judged(tmp_path: Path) -> None:
    """Who does not believe a verdict can look at what it was made of; so few transfers find nothing, and so fail."""
    report = calibrate_transfers_here(N, tmp_path, lambda _: None)
    assert ([trial.name for trial in report.trials], report.passed) == (["planted", "nothing planted"], False)
    assert [trial.n for trial in report.trials] == [N, N]
    lines = [json.loads(line) for line in (tmp_path / RECORDS).read_text().splitlines()]
    assert [(line["run"], *(line.keys() - {"run"})) for line in lines] == [
        *([("planted", "truth")] * N),
        *([("planted", "row")] * N),
        *([("nothing planted", "truth")] * N),
        *([("nothing planted", "row")] * N),
    ]


def test_a_process_that_is_killed_ends_the_calibration_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are missing for it would be taken for the program's fault."""

    def kill(readers: list[psutil.Process], within_s: float) -> list[psutil.Process]:
        for each in readers:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        return await_end(readers, within_s)

    monkeypatch.setattr(calibrating_transfers, "await_end", kill)  # which is called once they run
    with pytest.raises(LocalEnvironmentError, match=r"\d+ transfers have left no row"):
        transfer_all(Jitter(), N)


def test_readers_that_never_answer_are_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process that is suspended does not end; it is ended, and so is the command."""
    pids: list[int] = []

    def start(*_: object) -> int:
        pids.append(spawn([sys.executable, "-c", "import time; time.sleep(600)"], log=tmp_path / "log"))
        return pids[-1]

    monkeypatch.setattr(calibrating_transfers, "_start_reader", start)
    with pytest.raises(LocalEnvironmentError, match=r"no transfer has ended for 0\.1 s \(0 of 4 had\)"):
        transfer_all(JITTER, 4, stalled_s=0.1)
    assert pids
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)
