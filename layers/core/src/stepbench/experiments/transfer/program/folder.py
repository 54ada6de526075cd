"""
One file of a mounted folder, read whole through one buffer.

The kernel is asked to forget the file's pages first, and `cached_share` says whether it has. O_DIRECT is not used: it
would turn off the read-ahead that every ordinary program has on a network file system.

Source: Linux manual pages posix_fadvise(2) (DONTNEED drops clean pages, so they are written first) and mincore(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.experiments.transfer.program.progress import ReadFailedError, wrong_length
from stepbench.model.errors import NOT_FOUND

if TYPE_CHECKING:
    from stepbench.contracts.transfer.rows import FileRead
    from stepbench.experiments.transfer.program.progress import Progress

FIRST_BYTES = 4_096
"""The first read is of one page, so that the first byte's time is not that of a whole block."""
_PROT_READ, _MAP_SHARED = 1, 1
_MAP_FAILED = ctypes.c_void_p(-1).value
_IN_CORE = 1


def drop_pages(descriptor: int) -> None:
    """Have the file's pages leave the cache, as far as the system does that; not every file system can."""
    with contextlib.suppress(OSError, AttributeError):
        os.fsync(descriptor)
    with contextlib.suppress(OSError, AttributeError):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def cached_share(descriptor: int, file_bytes: int) -> float | None:
    """
    Return the share of the file's pages that are in memory; None if the kernel does not report it.

    Of a file that is neither ours nor to be written by us the kernel calls every page present (since Linux 5.2), so
    that nothing leaks: of such a one nothing is said here.
    """
    if not file_bytes or not _may_ask(descriptor):
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        pages = -(-file_bytes // mmap.PAGESIZE)
        present = (ctypes.c_ubyte * pages)()
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        address = libc.mmap(None, file_bytes, _PROT_READ, _MAP_SHARED, descriptor, 0)
    except (OSError, AttributeError):
        return None
    if address == _MAP_FAILED:
        return None
    try:
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(file_bytes), present):
            return None
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(file_bytes))
    return bytes(present).count(_IN_CORE) / pages


def _may_ask(descriptor: int) -> bool:
    try:
        owner = os.fstat(descriptor).st_uid
        return owner == os.geteuid() or os.geteuid() == 0 or os.access(f"/proc/self/fd/{descriptor}", os.W_OK)
    except OSError:
        return False


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
            self._read(descriptor)
        finally:
            os.close(descriptor)

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
