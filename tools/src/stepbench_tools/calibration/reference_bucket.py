"""
The bucket that the real program reads from, on loopback: it hands pieces over at their times, and logs what it did.

It plays as much of AWS as `experiments.transfer.program` needs: the bucket of files (a GET, answered at the pace
that is drawn for the transfer whose number the key has), the results bucket (what is PUT there is kept) and the results
table (whose flags are never set). The truth is what happened, not what was drawn: a piece that goes out late says so.

    python -m stepbench_tools.calibration.reference_bucket TASKS

runs that program once for each task of a file, a line each, as a Fargate task would be started for it. Each run has a
sandbox of its own; to start a process for each would take longer than most of the transfers.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepbench.experiments.transfer.program.__main__ import main as run_program
from stepbench.wire.socket import ask_for_stamps, receive_stamped
from stepbench_tools.calibration.transfers import FILE_BYTES, PIECE_BYTES, TrueTransfer, draw_fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench_tools.calibration.transfers import Jitter

LOOPBACK = "127.0.0.1"
FILES, RESULTS = "files", "results"
"""Names of the two buckets."""
_READ_BYTES = 65_536
_BACKLOG = 128


class _Request(NamedTuple):
    """received_at_ns: when the kernel had its last byte."""

    method: str
    path: str
    body: bytes
    received_at_ns: int


class ReferenceBucket(socketserver.ThreadingTCPServer):
    """
    It is both buckets and the table. `truth` has the GETs in the order in which they ended; `stored`: PUTs, by key.

    Args:
        body: of each file; all are alike.
        jitter: what is planted.
        seed: of the fates.
    """

    daemon_threads = False
    """The server's end waits for its threads, so that the truth is whole then."""
    request_queue_size = _BACKLOG

    def __init__(self, body: bytes, jitter: Jitter, seed: int) -> None:
        super().__init__((LOOPBACK, 0), _Connection)
        ask_for_stamps(self.socket)
        self.body = memoryview(body)
        self.jitter = jitter
        self.seed = seed
        self.truth: list[TrueTransfer] = []
        self.stored: dict[str, bytes] = {}

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of a process to which this is all of AWS."""
        return {
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "reference",
            "AWS_SECRET_ACCESS_KEY": "reference",
            "RESULTS_TABLE": RESULTS,
            "RESULTS_BUCKET": RESULTS,
        }


class _Connection(socketserver.BaseRequestHandler):
    """One client, and its requests one after the other."""

    server: ReferenceBucket
    request: socket.socket

    def handle(self) -> None:
        """Answer until it goes away."""
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError):
            while request := self._receive():
                self._answer(request)

    def _answer(self, request: _Request) -> None:
        match request.method:
            case "GET":
                self._hand_over(request)
            case "PUT":
                self.server.stored[request.path.removeprefix(f"/{RESULTS}/")] = request.body
                self._reply(b"")
            case _:  # the table: an item is put, or a flag is looked for, and there is none
                self._reply(b"{}")

    def _receive(self) -> _Request | None:
        received, stamp_ns, needed = b"", 0, 1
        while len(received) < needed:
            more, kernel_ns = receive_stamped(self.request, _READ_BYTES)
            if not more:
                return None
            received, stamp_ns = received + more, kernel_ns or time.time_ns()
            head, end, _ = received.partition(b"\r\n\r\n")
            needed = len(head) + len(end) + _length(head) if end else len(received) + 1
        first, *_ = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        return _Request(method, path, received[len(head) + len(end) :], stamp_ns)

    def _hand_over(self, request: _Request) -> None:
        """Send a file, each piece at its time, and put on record when that was."""
        number = int(request.path.rpartition("/")[2])
        fate, sent_at_ns, sent = draw_fate(self.server.jitter, self.server.seed, number), [], 0
        try:
            for piece, at in enumerate(range(0, FILE_BYTES, PIECE_BYTES)):
                data = self.server.body[at : at + PIECE_BYTES]
                if not piece:
                    data = memoryview(_head(FILE_BYTES) + data)
                _sleep_until(request.received_at_ns + round(fate.due_s(piece) * 1e9))
                sent_at_ns.append(time.time_ns())
                self.request.sendall(data)
                sent += PIECE_BYTES
        finally:  # also of one that is broken off
            self.server.truth.append(TrueTransfer(number, fate, request.received_at_ns, tuple(sent_at_ns), sent))

    def _reply(self, body: bytes) -> None:
        self.request.sendall(_head(len(body)) + body)


@contextmanager
def reference_bucket(body: bytes, jitter: Jitter, seed: int) -> Iterator[ReferenceBucket]:
    """
    Run a bucket for the block, on threads of this process, which had better do nothing else.

    Its end waits until all clients have gone; only then is `truth` whole.
    """
    with ReferenceBucket(body, jitter, seed) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _head(length: int) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n".encode()


def _length(head: bytes) -> int:
    """Return how long the body of a request is to be."""
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


def _sleep_until(at_ns: int) -> None:
    if (left_ns := at_ns - time.time_ns()) > 0:
        time.sleep(left_ns / 1e9)


def read_tasks(tasks: Path) -> None:
    """
    Run them one after the other; the environment says where the bucket is.

    The program's lines are for a log group, which is not read here: what is left to print is what ended it.
    """
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        for task in tasks.read_text(encoding="utf-8").splitlines():
            run_program({**os.environ, "TRANSFER_TASK": task})


if __name__ == "__main__":
    read_tasks(Path(sys.argv[1]))
