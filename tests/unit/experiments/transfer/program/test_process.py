"""A process against a server that misbehaves: whatever becomes of a read is a row, and no row is lost in silence."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.samples.records import REF
from tests.samples.transfer_processes import DUE_NS, file_read, transfer_task
from tests.samples.transfer_server import (
    Exchange,
    Server,
    of_length,
    raw,
    refusal,
    reset,
    stalled,
    transfer_server,
    truncated,
)

from stepbench.contracts.transfer.rows import TransferRow, TransferRows
from stepbench.errors import RecordsLostError
from stepbench.experiments.transfer.program import sources
from stepbench.experiments.transfer.program.process import STORING_S, Invocation, Process, Sandbox
from stepbench.experiments.transfer.program.progress import MIB
from stepbench.experiments.transfer.program.surroundings import TaskPlace
from stepbench.records.formats.second_sources import parse_transfer_line
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.samples.transfer_server import Answer

    from stepbench.contracts.transfer.rows import FileRead, RunTransferInput
    from stepbench.experiments.transfer.program.process import Read
    from stepbench.experiments.transfer.program.progress import Progress

BODY = os.urandom(2 * MIB) + b"and a bit"
KEY = "files/7/2.bin"
ROWS_KEY = layout.transfer_key(REF, 5, 0)


@pytest.fixture
def server() -> Iterator[Server]:
    """Have the file, and nothing else."""
    with transfer_server() as made:
        made.objects[KEY] = BODY
        yield made


def run(server: Server, task: RunTransferInput, **more: str) -> list[TransferRow]:
    """Run a process in a new sandbox; return the rows that it has stored."""
    sandbox = Sandbox({**server.environ, **more}, TaskPlace("arn:task", "eu-west-1a"))
    returned = Process(task, Invocation(sandbox, "request-1")).run()
    stored = TransferRows.model_validate_json(server.stored[ROWS_KEY])
    assert stored == returned
    return list(stored.rows)


def test_a_row_says_where_and_how_the_file_came(server: Server) -> None:
    """It is all that the analysis has."""
    (row,) = run(server, transfer_task(file_read(BODY)))
    assert (row.outcome, row.error, row.digest_ok, row.received_bytes) == ("ok", "", True, len(BODY))
    assert (row.run_id, row.trial, row.number, row.attempt, row.place) == (REF.run_id, REF.trial, 5, 0, 0)
    assert (row.platform, row.source, row.path, row.due_at_ns) == ("lambda", "s3", KEY, DUE_NS)
    assert (row.task, row.zone, row.network_interface) == ("request-1", "eu-west-1a", "127.0.0.1")
    assert row.first_byte_ns is not None
    assert row.transfer_ns is not None
    first_mib_ns, second_mib_ns = row.mib_ns
    assert 0 < row.first_byte_ns <= first_mib_ns <= second_mib_ns <= row.transfer_ns
    assert (row.connect_ns or 0) > 0
    assert row.cpu_ns > 0
    assert row.digest_ns > 0
    assert row.memory_bytes > MIB


class Fault(NamedTuple):
    """What the server does, and what the row says."""

    answer: Answer
    error: str
    received: int | None = 0
    digest_ok: bool | None = None


WRONG = f"wrong-length: {MIB} bytes in place of {len(BODY)}"
FAULTS = {
    "not there": Fault(refusal(404, "NoSuchKey"), "HTTP 404 NoSuchKey"),
    "not ours": Fault(refusal(403, "AccessDenied"), "HTTP 403 AccessDenied"),
    "too much was asked": Fault(refusal(503, "SlowDown"), "HTTP 503 SlowDown"),
    "cut off in the middle": Fault(truncated(0.5), "connection-closed", len(BODY) // 2),
    "cut off before the body": Fault(truncated(0), "connection-closed"),
    "reset in the middle": Fault(reset(0.5), "connection-reset", None),
    "of another length": Fault(of_length(MIB), WRONG),
    "of other bytes": Fault(of_length(len(BODY)), "wrong-digest", len(BODY), digest_ok=False),
    "of no length": Fault(raw(b"HTTP/1.1 200 OK\r\n\r\nbody"), "no-content-length"),
    "no HTTP": Fault(raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "garbage-answer"),
    "nothing at all": Fault(raw(b""), "connection-closed"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_a_row_and_the_next_file_is_read(server: Server, fault: Fault) -> None:
    """A read that fails is a result, and no reason to lose another one."""
    server.objects["files/7/good.bin"] = BODY
    server.answers[KEY] = fault.answer
    bad, good = run(server, transfer_task(file_read(BODY), file_read(BODY, path="files/7/good.bin")))
    assert (bad.outcome, bad.error, bad.digest_ok) == ("failed", fault.error, fault.digest_ok)
    assert fault.received in (None, bad.received_bytes)
    assert bad.transfer_ns is None or fault.error == "wrong-digest"
    assert (good.outcome, good.place) == ("ok", 1)


def test_a_file_of_other_bytes_is_flagged_once_and_no_other_error_is_the_files_own(server: Server) -> None:
    """`SeedFiles` makes it anew by that; a file that only came badly is left as it is."""
    server.answers[KEY], server.answers["files/7/cut.bin"] = of_length(len(BODY)), truncated(0.5)
    run(server, transfer_task(file_read(BODY), file_read(BODY), file_read(BODY, path="files/7/cut.bin")))
    flags = [item for item in server.items if item["sk"]["S"].startswith("damaged#")]
    assert [(each["pk"]["S"], each["sk"]["S"], each["reason"]["S"]) for each in flags] == [
        ("trial#files", layout.damaged_flag("s3", "", KEY), "wrong-digest")
    ]


def test_a_connection_that_is_refused_is_a_row(server: Server) -> None:
    """Nobody listens there; no time of a transfer began."""
    with transfer_server() as gone:
        nobody = gone.url
    (row,) = run(server, transfer_task(file_read(BODY), endpoint=nobody))
    assert (row.outcome, row.error, row.connect_ns, row.first_byte_ns) == ("failed", "connect: refused", None, None)


def test_a_metadata_service_is_not_asked(server: Server) -> None:
    """A plan may name an endpoint, and the function has a role's credentials."""
    (row,) = run(server, transfer_task(file_read(BODY), endpoint="http://169.254.169.254"))
    assert (row.outcome, row.error) == ("failed", "connect: refused")


def test_a_stall_beyond_the_limit_is_given_up_with_what_had_come(server: Server) -> None:
    """Its row shows where it stood still."""
    server.answers[KEY] = stalled(0.75)
    (row,) = run(server, transfer_task(file_read(BODY), limit_s=2))
    assert (row.outcome, row.error, row.transfer_ns) == ("failed", "timeout", None)
    assert row.received_bytes == round(len(BODY) * 0.75)
    assert len(row.mib_ns) == 1


def test_a_cancelled_trial_ends_the_read_and_those_after_it(server: Server) -> None:
    """How they would have gone nobody knows; each is a row all the same."""
    server.answers[KEY] = stalled(0.5, meanwhile=server.cancelled.set)
    rows = run(server, transfer_task(file_read(BODY), file_read(BODY)))
    assert [(row.outcome, row.error) for row in rows] == [("unknown", "cancelled")] * 2
    assert [row.received_bytes for row in rows] == [len(BODY) // 2, 0]


def test_a_trial_that_is_cancelled_already_reads_nothing(server: Server) -> None:
    """An item that waited in the Map for its turn must not begin."""
    server.cancelled.set()
    (row,) = run(server, transfer_task(file_read(BODY)))
    assert (row.outcome, row.error, row.received_bytes, server.requests) == ("unknown", "cancelled", 0, [])


def test_a_process_that_is_told_to_end_stores_what_it_has(server: Server) -> None:
    """A task that is stopped has 30 s left."""
    invocation = Invocation(Sandbox(server.environ), "task")
    server.answers[KEY] = stalled(0.5, meanwhile=lambda: invocation.stop("stopped"))
    Process(transfer_task(file_read(BODY)), invocation).run()
    (row,) = TransferRows.model_validate_json(server.stored[ROWS_KEY]).rows
    assert (row.outcome, row.error) == ("unknown", "stopped")


def test_a_function_whose_time_is_over_keeps_enough_of_it_for_its_rows(server: Server) -> None:
    """Lambda would kill it without a trace."""
    server.answers[KEY] = stalled(0.5)
    ends_s = time.monotonic() + STORING_S + 0.3
    Process(transfer_task(file_read(BODY)), Invocation(Sandbox(server.environ), "request", ends_s)).run()
    (row,) = TransferRows.model_validate_json(server.stored[ROWS_KEY]).rows
    assert (row.outcome, row.error) == ("unknown", "process-timeout")


def test_several_connections_make_the_same_file(server: Server) -> None:
    """Ranges of whole MiBs, each by its own connection; the digest is the file's, in whatever order they came."""
    (row,) = run(server, transfer_task(file_read(BODY), connections=8))
    assert (row.outcome, row.digest_ok, row.received_bytes) == ("ok", True, len(BODY))
    asked = sorted(request["range"] for request in server.requests)
    assert asked == [f"bytes=0-{MIB - 1}", f"bytes={MIB}-{2 * MIB - 1}", f"bytes={2 * MIB}-{len(BODY) - 1}"]
    assert list(row.mib_ns) == sorted(row.mib_ns)
    assert len(row.mib_ns) == 2


def test_a_connection_that_fails_ends_the_others(server: Server) -> None:
    """Else the row would wait for bytes that are no use any more."""

    def answer(exchange: Exchange) -> None:
        (truncated(0.5) if exchange.headers["range"].startswith("bytes=0-") else stalled(0))(exchange)

    server.answers[KEY] = answer
    (row,) = run(server, transfer_task(file_read(BODY), connections=2))
    assert (row.outcome, row.error, row.received_bytes) == ("failed", "connection-closed", MIB // 2)


def test_a_sandbox_is_cold_once(server: Server) -> None:
    """What it has served before is the proof, and nothing else is."""
    sandbox = Sandbox(server.environ)
    found: list[TransferRow] = []
    for _ in range(2):
        found += Process(transfer_task(file_read(BODY), file_read(BODY)), Invocation(sandbox, "request")).run().rows
    assert [(row.cold, row.served) for row in found] == [(True, 0), (True, 0), (False, 1), (False, 1)]
    assert {row.sandbox for row in found} == {sandbox.id}
    assert Sandbox(server.environ).id != sandbox.id


def test_rows_are_stored_again_while_the_bucket_is_down(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The read cannot be repeated, its storing can."""
    monkeypatch.setattr("random.random", lambda: 0.0)
    server.refusals = [503, 500]
    (row,) = run(server, transfer_task(file_read(BODY)))
    assert row.outcome == "ok"


def test_rows_that_cannot_be_stored_are_no_silent_loss(server: Server) -> None:
    """The state machine has to see it."""
    server.refusals = [403]
    with pytest.raises(RecordsLostError, match="403 Refused"):
        run(server, transfer_task(file_read(BODY)))


def test_a_log_line_says_the_same_as_the_row(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """CollectLogs reconciles the two; the marks are left out, since they would not fit."""
    rows = run(server, transfer_task(file_read(BODY), file_read(BODY)))
    lines = [parse_transfer_line(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [(REF.tag, row.model_copy(update={"mib_ns": ()})) for row in rows]


def test_a_process_shows_that_it_lives_and_that_it_has_ended(server: Server) -> None:
    """The sweeper waits for those that still run."""
    run(server, transfer_task(file_read(BODY)))
    beats = [(item["sk"]["S"], item["progress"]["M"]["ok"]["N"], "ended" in item) for item in server.items]
    who = f"{layout.HEARTBEAT}writer#00-0005-0000-00"
    assert (beats[0], beats[-1]) == ((who, "0", False), (who, "1", True))


def folder_task(body: bytes = BODY, **more: float) -> RunTransferInput:
    """Read from the mount."""
    return transfer_task(file_read(body, "efs", "2.bin"), **more)  # type: ignore[arg-type]


def test_a_file_of_a_folder_is_read_whole(server: Server, tmp_path: Path) -> None:
    """EFS is a folder to the program."""
    (tmp_path / "2.bin").write_bytes(BODY)
    (row,) = run(server, folder_task(), FILES_FOLDER=str(tmp_path))
    assert (row.outcome, row.digest_ok, row.received_bytes, row.connect_ns) == ("ok", True, len(BODY), None)
    assert row.network_interface != "127.0.0.1"
    assert row.cached_share in (0.0, 1.0)  # some file systems are in memory
    assert len(row.mib_ns) == 2


@pytest.mark.parametrize(("sent", "share"), [(len(BODY), 0.0), (len(BODY) + 4_096, 0.0), (0, 1.0)])
def test_what_an_nfs_server_has_not_sent_came_from_memory(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: int, share: float
) -> None:
    """A function may not ask for the pages of a file on EFS, and may read what its kernel has had from there."""
    (tmp_path / "2.bin").write_bytes(BODY)
    counts = iter([10**6, 10**6 + sent])
    monkeypatch.setattr(sources, "server_bytes", lambda _folder: next(counts))
    (row,) = run(server, folder_task(), FILES_FOLDER=str(tmp_path))
    assert row.cached_share == share


FOLDERS = {
    "the file is missing": ("", None, "not_found"),
    "the file is too short": ("", BODY[:-1], f"wrong-length: {len(BODY) - 1} bytes in place of {len(BODY)}"),
    "the file is another one": ("", bytes(len(BODY)), "wrong-digest"),
    "the mount is gone": ("gone", BODY, "mount-gone"),
}


@pytest.mark.parametrize(("below", "body", "error"), FOLDERS.values(), ids=FOLDERS)
def test_a_fault_of_a_folder_is_a_row(
    server: Server, tmp_path: Path, below: str, body: bytes | None, error: str
) -> None:
    """The process goes on to the file on S3."""
    if body is not None:
        (tmp_path / "2.bin").write_bytes(body)
    task = transfer_task(file_read(BODY, "efs", "2.bin"), file_read(BODY))
    bad, good = run(server, task, FILES_FOLDER=str(tmp_path / below))
    assert (bad.outcome, bad.error) == ("failed", error)
    assert good.outcome == "ok"


def test_without_a_mount_the_read_fails(server: Server) -> None:
    """A stack may have no EFS."""
    (row,) = run(server, folder_task())
    assert (row.outcome, row.error) == ("failed", "no-mount")


def test_a_read_that_the_kernel_holds_is_left_alone(server: Server, tmp_path: Path) -> None:
    """A hard mount whose server has gone never returns; a pipe that nobody writes to is as silent."""
    os.mkfifo(tmp_path / "2.bin")
    holder = os.open(tmp_path / "2.bin", os.O_RDWR)
    try:
        (row,) = run(server, folder_task(limit_s=0.2), FILES_FOLDER=str(tmp_path))
        assert (row.outcome, row.error, row.received_bytes) == ("failed", "timeout", 0)
    finally:
        os.write(holder, bytes(2**16))  # so that the thread, which is none of the program's any more, ends
        os.close(holder)
        for thread in threading.enumerate():
            if thread.name == "reader":
                thread.join(10)


def test_a_read_that_ends_just_when_it_is_given_up_stays_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took longer than it may: a row that failed has neither a time nor a digest that was right."""

    def build(_process: Process, _file: FileRead, progress: Progress) -> Read:
        return LateRead(progress)

    monkeypatch.setattr(Process, "_build", build)
    (row,) = run(server, transfer_task(file_read(BODY), limit_s=0.2))
    assert (row.outcome, row.error, row.received_bytes) == ("failed", "timeout", len(BODY))
    assert (row.transfer_ns, row.digest_ok) == (None, None)


class LateRead:
    """Has all bytes, and says so only when it is told to end."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._messages = threading.Event()

    def run(self) -> None:
        """Read."""
        (part,) = self._progress.divide(len(BODY), 1)
        self._progress.begin()
        part.add(memoryview(BODY))
        self._messages.wait(30)
        self._progress.end()

    def interrupt(self) -> None:
        """End."""
        self._messages.set()


def test_an_unforeseen_error_is_a_row_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in the reader must not lose what the other reads found."""

    def fail(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr("stepbench.experiments.transfer.program.sources.connect", fail)
    (row,) = run(server, transfer_task(file_read(BODY)))
    assert (row.outcome, row.error) == ("failed", "KeyError in the program")


@pytest.mark.parametrize(
    ("endpoint", "error"), [("https://127.0.0.1:1", "ENOENT"), ("ftp://127.0.0.1", "KeyError in the program")]
)
def test_a_server_that_cannot_even_be_asked_is_a_row(server: Server, endpoint: str, error: str) -> None:
    """The authorities are missing; the address is none."""
    (row,) = run(server, transfer_task(file_read(BODY), endpoint=endpoint), AWS_CA_BUNDLE="/nowhere/authority.pem")
    assert (row.outcome, row.error) == ("failed", error)
