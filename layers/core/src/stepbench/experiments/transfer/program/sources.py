"""
Where a file is read from, whole: one object of S3, or of what speaks its protocol, and one file of a mounted folder.

An object is read by one GET, or by ranged GETs side by side. Nothing is tried again: a request that fails is the read's
result. Everything is received into one buffer a connection, hashed while it is in the processor's cache, and forgotten.

Of a file the kernel is asked to forget the pages first, and `page_cache` finds whether it has. O_DIRECT is not used:
it would turn off the read-ahead that every ordinary program has on a network file system.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepbench.experiments.transfer.program.page_cache import cached_share, drop_pages, server_bytes
from stepbench.experiments.transfer.program.progress import ReadFailedError, wrong_length
from stepbench.model.errors import CONNECTION_CLOSED, NOT_FOUND
from stepbench.wire.http1.download import HttpServer, connect, tls_context
from stepbench.wire.http1.sigv4 import Form, Signer, s3_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.contracts.transfer.rows import FileRead
    from stepbench.experiments.transfer.program.progress import Part, Progress
    from stepbench.records.storage.receiver_paths import BucketPlace
    from stepbench.wire.http1.download import Download
    from stepbench.wire.http1.sigv4 import Credentials

MOST_BUFFERED_BYTES = 8 * 2**20
"""The most bytes that several connections of a read buffer together: the process has 64 MiB, whatever it reads."""
LEAST_BLOCK_BYTES = 16_384
"""What TLS hands over at a time."""
GATHERED_BYTES = 131_072
"""
TLS is read in pieces of so many bytes. One by one, its records took 1.9 s of CPU a GiB, so 1.7 (curl: 1.5; VersityGW
on loopback, Python 3.11, OpenSSL 3.0). Without TLS the kernel hands over more than this at a time.
"""


class BucketAccess(NamedTuple):
    """How a bucket is asked. authorities: PEM file of the authorities to trust; None: the system's."""

    place: BucketPlace
    region: str
    credentials: Credentials
    authorities: str | None = None

    def request(self, path: str, part: Part | None) -> bytes:
        """Return the signed GET of an object, or of a part of it."""
        ranged = () if part is None else (("range", f"bytes={part.begin}-{part.begin + part.size - 1}"),)
        signer = Signer("s3", self.region, self.server.authority)
        whole_path = self.place.before_key + s3_path(path)
        return signer.signed(Form("GET", ranged), whole_path, b"", self.credentials, time.time_ns())

    @property
    def server(self) -> HttpServer:
        """Return the server that has the bucket."""
        return HttpServer.of(self.place.url)


class BucketRead:
    """Reads an object over so many connections."""

    def __init__(
        self, access: BucketAccess, file: FileRead, connections: int, block_bytes: int, progress: Progress
    ) -> None:
        self._access = access
        self._file = file
        self._progress = progress
        self._context = tls_context(access.server, access.authorities)
        self._parts = progress.divide(file.file_bytes, connections)
        most = MOST_BUFFERED_BYTES // len(self._parts) if len(self._parts) > 1 else block_bytes
        size = max(min(block_bytes, most), LEAST_BLOCK_BYTES)
        self._buffers = [memoryview(bytearray(size)) for _ in self._parts]  # made here, and not within the time
        self._downloads: list[Download] = []
        self._is_interrupted = False

    def run(self) -> None:
        """
        Connect, read all of it, end the connections.

        Raises:
            ReadFailedError, DownloadRefusedError, MalformedHttpError, OSError: of the connection that failed first.
        """
        try:
            self._connect()
            ranges = self._parts if len(self._parts) > 1 else [None]
            requests = [self._access.request(self._file.path, part) for part in ranges]
            self._progress.begin()
            each = zip(self._downloads, self._parts, requests, self._buffers, strict=True)
            self._side_by_side([self._receiver(*one) for one in each])
            self._progress.end()
        finally:
            for download in self._downloads:
                download.close()

    def interrupt(self) -> None:
        """Have it end at once; what it raises then is of no interest."""
        self._is_interrupted = True
        for download in self._downloads[:]:
            download.interrupt()

    def _connect(self) -> None:
        begun_ns = time.monotonic_ns()
        self._side_by_side([self._connect_once] * len(self._parts))
        self._progress.connect_ns = time.monotonic_ns() - begun_ns
        self._progress.own_address = self._downloads[0].own_address

    def _connect_once(self) -> None:
        download = connect(self._access.server, self._context)
        self._downloads.append(download)
        if self._is_interrupted:
            download.interrupt()

    def _receiver(self, download: Download, part: Part, request: bytes, buffer: memoryview) -> Callable[[], None]:
        def receive() -> None:
            download.send(request)
            head, begun = download.answer(200 if len(self._parts) == 1 else 206)
            if head.length is None:
                message = "no-content-length"
                raise ReadFailedError(message)
            if head.length != part.size:
                raise ReadFailedError(wrong_length(head.length, part.size))
            if begun:
                part.add(memoryview(begun))
            _receive_body(download, part, buffer, GATHERED_BYTES if self._access.server.tls else 1)

        return receive

    def _side_by_side(self, pieces: Sequence[Callable[[], None]]) -> None:
        """Do all at once, each on a thread of its own; the first that fails ends the others, and is raised."""
        if len(pieces) == 1:
            pieces[0]()
            return
        errors: list[Exception] = []

        def do(piece: Callable[[], None]) -> None:
            try:
                piece()
            except Exception as error:  # noqa: BLE001 -- raised below, on the thread that waits
                errors.append(error)
                self.interrupt()

        threads = [threading.Thread(target=do, args=(piece,), daemon=True) for piece in pieces]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]


def _receive_body(download: Download, part: Part, buffer: memoryview, gathered_bytes: int) -> None:
    """Receive the rest of a part; what came is taken whenever so many bytes are there, the first ones at once."""
    receive_into, add, size = download.receive_into, part.add, len(buffer)
    while left := part.size - part.received:
        most = min(left, size)
        wanted, filled, count = min(gathered_bytes, most) if part.received else 1, 0, 1
        while filled < wanted and count:
            filled += (count := receive_into(buffer[filled:most]))
        if filled:
            add(buffer[:filled])
        if not count:
            raise ReadFailedError(CONNECTION_CLOSED)


FIRST_BYTES = 4_096
"""The first read is of one page, so that the first byte's time is not that of a whole block."""


class FolderRead:
    """
    Reads a file below a folder.

    `interrupt` does nothing more than to have it end at the next block: a read that the kernel holds cannot be ended.
    """

    def __init__(self, folder: str, file: FileRead, block_bytes: int, progress: Progress) -> None:
        self._folder = folder
        self._file = file
        self._block_bytes = block_bytes
        self._progress = progress
        self._is_interrupted = False

    def run(self) -> None:
        """
        Read it whole.

        Raises:
            ReadFailedError: it is not there, is not as long as it has to be, or the mount is gone.
            OSError: the system's own word for what is wrong.
        """
        if not self._folder:
            message = "no-mount"
            raise ReadFailedError(message)
        descriptor = self._open()
        try:
            self._prepare(descriptor)
            before = server_bytes(self._folder)
            self._read(descriptor)
            after = server_bytes(self._folder)
        finally:
            os.close(descriptor)
        if before is not None and after is not None:
            self._progress.cached_share = max(0.0, 1 - (after - before) / self._file.file_bytes)

    def interrupt(self) -> None:
        """Have it end at the next block."""
        self._is_interrupted = True

    def _open(self) -> int:
        try:
            return os.open(Path(self._folder) / self._file.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            message = NOT_FOUND if Path(self._folder).is_dir() else "mount-gone"
            raise ReadFailedError(message) from error
        except OSError as error:
            if error.errno in {errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN}:
                message = "mount-gone"
                raise ReadFailedError(message) from error
            raise

    def _prepare(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return
        if found.st_size != self._file.file_bytes:
            raise ReadFailedError(wrong_length(found.st_size, self._file.file_bytes))
        drop_pages(descriptor)
        self._progress.cached_share = cached_share(descriptor, found.st_size)

    def _read(self, descriptor: int) -> None:
        progress, file_bytes = self._progress, self._file.file_bytes
        (part,) = progress.divide(file_bytes, 1)
        whole = memoryview(bytearray(max(self._block_bytes, FIRST_BYTES)))
        view = whole[: min(FIRST_BYTES, file_bytes)]
        progress.begin()
        while view and not self._is_interrupted:
            count = os.readv(descriptor, [view])
            if not count:
                raise ReadFailedError(wrong_length(part.received, file_bytes))
            part.add(view[:count])
            view = whole[: file_bytes - part.received]
        if not self._is_interrupted:
            progress.end()
