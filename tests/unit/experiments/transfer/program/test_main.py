"""The program as a Fargate task runs it: a process of its own, its item and its settings in the environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.samples.records import REF
from tests.samples.transfer_processes import file_read, transfer_task
from tests.samples.transfer_server import Exchange, Server, stalled, transfer_server

import stepbench
from stepbench.contracts.transfer.rows import FileRead, TransferRow, TransferRows
from stepbench.experiments.transfer.program.progress import MIB, MibDigests, file_digest
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.transfer.rows import RunTransferInput

KEY = "files/7/2.bin"
BODY = bytes(range(256)) * 4_096 * 2
LARGE_MIB = 1_000
MOST_BYTES = 64 * MIB
LIMIT_S = 120


@pytest.fixture
def server() -> Iterator[Server]:
    """Have a file of two MiB."""
    with transfer_server() as made:
        made.objects[KEY] = BODY
        yield made


@contextmanager
def started(server: Server, task: RunTransferInput) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program for the block."""
    paths = [str(Path(stepbench.__file__).parents[1]), *sys.path]
    environ = {"PYTHONPATH": os.pathsep.join(paths), "TRANSFER_TASK": task.model_dump_json(), **server.environ}
    command = [sys.executable, "-m", "stepbench.experiments.transfer.program"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def ended(child: subprocess.Popen[bytes], server: Server) -> TransferRow:
    """Return the only row, once the program has ended with 0."""
    _, said = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, said) == (0, b"")
    (row,) = TransferRows.model_validate_json(server.stored[layout.transfer_key(REF, 5, 0)]).rows
    return row


@pytest.mark.parametrize(("connections", "block_bytes"), [(1, 16 * MIB), (64, MIB)])
def test_a_file_of_1000_mib_takes_no_more_memory_than_64(server: Server, connections: int, block_bytes: int) -> None:
    """At the most that a plan may ask for; what is kept of a file is its digest and its marks."""
    zeros, digests = bytes(MIB), MibDigests()
    digests.add(memoryview(zeros))

    def answer(exchange: Exchange) -> None:
        first, last = 0, LARGE_MIB * MIB - 1
        if "range" in exchange.headers:
            first, last = map(int, exchange.headers["range"].removeprefix("bytes=").split("-"))
        exchange.begin(206 if "range" in exchange.headers else 200, last + 1 - first)
        for _ in range((last + 1 - first) // MIB):
            exchange.wfile.write(zeros)

    server.answers[KEY] = answer
    digest = file_digest(digests.done * LARGE_MIB)
    large = FileRead(source="s3", path=KEY, file_bytes=LARGE_MIB * MIB, digest=digest)
    task = transfer_task(large, connections=connections, block_bytes=block_bytes, limit_s=LIMIT_S)
    with started(server, task) as child:
        row = ended(child, server)
    assert (row.outcome, row.received_bytes, len(row.mib_ns)) == ("ok", LARGE_MIB * MIB, LARGE_MIB)
    assert 20 * MIB < row.memory_bytes <= MOST_BYTES


def test_a_task_that_is_stopped_stores_what_it_has(server: Server) -> None:
    """ECS sends SIGTERM, and half a minute later SIGKILL."""
    with started(server, transfer_task(file_read(BODY))) as child:
        server.answers[KEY] = stalled(0.5, meanwhile=lambda: child.send_signal(signal.SIGTERM))
        row = ended(child, server)
    assert (row.outcome, row.error, row.transfer_ns) == ("unknown", "stopped", None)
    assert row.received_bytes <= MIB


def test_rows_that_cannot_be_stored_end_it_with_a_failure(server: Server) -> None:
    """The task's exit code is all that the state machine sees."""
    server.refusals = [403]
    with started(server, transfer_task(file_read(BODY))) as child:
        _, said = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 1
    assert b"RecordsLostError" in said
