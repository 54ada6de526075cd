"""What a command writes to, in such a way that it can be taken away from it: a terminal, pipes, a disk."""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

DISK_BYTES, HOME_BYTES = 8 << 20, 1 << 30
"""Of a disk for results; of one for a home, which `up` refuses with less than half of that free."""
POLL_S = 0.1


class Reader:
    """A reader takes what a command writes, since its buffers are small, from `start` on until it hangs up."""

    def __init__(self, *ends: int) -> None:
        self._ends = ends
        self._read = b""
        self._hung_up = threading.Event()
        self._thread = threading.Thread(target=self._drain, daemon=True)

    def start(self) -> None:
        """Begin to read; not before the command has been started, since one does not fork with threads."""
        self._thread.start()

    @property
    def text(self) -> str:
        """Return what has been read."""
        return self._read.decode(errors="replace")

    def hang_up(self) -> None:
        """Close the ends: who writes to the others from now on gets an error."""
        if not self._hung_up.is_set():
            self._hung_up.set()
            self._thread.join()
            for end in self._ends:
                os.close(end)

    def _drain(self) -> None:
        while not self._hung_up.is_set():
            for end in select.select(self._ends, [], [], POLL_S)[0]:
                with suppress(OSError):  # a terminal that nobody has open any more
                    self._read += os.read(end, 65_536)


@contextmanager
def terminal() -> Iterator[tuple[Reader, dict[str, Any]]]:
    """Yield the reader of a terminal, and the options of `Popen` for a process that has it as its own."""
    master, slave = os.openpty()
    reader = Reader(master)
    try:
        yield reader, {"stdout": None, "stderr": None, "preexec_fn": partial(os.login_tty, slave)}
    finally:
        reader.hang_up()
        os.close(slave)


@contextmanager
def pipes() -> Iterator[tuple[Reader, dict[str, Any]]]:
    """Yield the reader of two pipes, and the options of `Popen` for a process that writes to them."""
    (output, stdout), (errors, stderr) = os.pipe(), os.pipe()
    reader = Reader(output, errors)
    try:
        yield reader, {"stdout": stdout, "stderr": stderr}
    finally:
        reader.hang_up()
        os.close(stdout)
        os.close(stderr)


@contextmanager
def small_disk(folder: Path, size_bytes: int = DISK_BYTES) -> Iterator[Path]:
    """Mount a small file system there, for which one has to be root."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", folder], check=True, timeout=60)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, timeout=60)
        folder.rmdir()


FILLING = "filling"
_PIECES_BYTES = (1 << 20, 4096)


def fill(folder: Path) -> None:
    """Write until nothing more fits."""
    with (folder / FILLING).open("wb", buffering=0) as file:
        for piece_bytes in _PIECES_BYTES:
            with suppress(OSError):
                while True:
                    file.write(bytes(piece_bytes))


def make_room(folder: Path) -> None:
    """Remove what has filled a disk."""
    (folder / FILLING).unlink()
