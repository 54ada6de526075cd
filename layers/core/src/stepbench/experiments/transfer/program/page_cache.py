"""
The page cache of one file: to drop it, and to say how much of the file is in it, which is the proof of a cold read.

Source: Linux manual pages posix_fadvise(2) (DONTNEED drops clean pages, so they are written first) and mincore(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os

_PROT_READ, _MAP_SHARED = 1, 1
_MAP_FAILED = ctypes.c_void_p(-1).value
_IN_CORE = 1


def drop(descriptor: int) -> None:
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
