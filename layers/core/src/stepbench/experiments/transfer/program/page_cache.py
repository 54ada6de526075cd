"""
What of a file this machine has in its memory: its pages before a read, or what a server has not sent during one.

Source: Linux manual pages posix_fadvise(2) (DONTNEED drops clean pages, so they are written first), mincore(2) and
proc_pid_mountstats(5); the kernel's nfs_iostat.h (the numbers of `bytes:`, of which the fifth counts what the client
has read from its server).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from pathlib import Path

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


MOUNTSTATS = Path("/proc/self/mountstats")
_SERVER_READ = 5
"""Its place among the words of `bytes:`."""


def server_bytes(folder: str) -> int | None:
    """
    Return how many bytes the kernel's NFS client has read from the server of the mount that a folder is in.

    Of a file that is read once, by nobody else meanwhile, what the server has not sent came from this machine's memory.
    Every process may read it, where `mincore` is refused of a file that it may not write. None: it is no NFS mount.
    """
    try:
        text = MOUNTSTATS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    mounts = [part for part in f"\n{text}".split("\ndevice ") if part]
    held = [(part, mount) for part in mounts if Path(folder).is_relative_to(mount := _mount_point(part))]
    part, _ = max(held, key=lambda each: len(each[1]), default=("", ""))
    counted = (line.split() for line in part.splitlines() if line.strip().startswith("bytes:"))
    return next((int(words[_SERVER_READ]) for words in counted if len(words) > _SERVER_READ), None)


def _mount_point(part: str) -> str:
    """Return where a device is mounted: `SERVER:/ mounted on /mnt/files with fstype nfs4 statvers=1.1`."""
    return part.partition(" mounted on ")[2].partition(" with fstype ")[0]
