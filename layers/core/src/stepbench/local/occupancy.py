"""
One run at a time in one environment.

Two at once would measure each other, and the first to end would take the servers from under the second. The lock is
the kernel's, so it ends with its process however that ends; the note in the locked file stays then, and tells the next
command that a run was killed, which may still be going on inside the emulator.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from stepbench.errors import LocalEnvironmentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OCCUPIED = "occupied"
_WARM, _COLD = "warm", "cold"


@dataclass(frozen=True)
class Occupancy:
    """
    The environment is ours.

    Attributes:
        killed: whether the last run ended without a clean-up.
        was_warm: whether it had found the environment up, so that `up` had been asked for before.
    """

    killed: bool
    was_warm: bool
    _note: TextIO

    def begin(self, *, warm: bool) -> None:
        """From here to `end`, a process that vanishes leaves a trace."""
        self._write(f"{os.getpid()} {_WARM if warm else _COLD}")

    def end(self) -> None:
        """All is in order again."""
        self._write("")

    def _write(self, text: str) -> None:
        self._note.seek(0)
        self._note.truncate()
        self._note.write(text)
        self._note.flush()


@contextlib.contextmanager
def occupied(home: Path) -> Iterator[Occupancy]:
    """
    Keep every other run, `up` and `down` out of a home.

    Raises:
        LocalEnvironmentError: somebody else is in it; with the pid of a run.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / OCCUPIED).open("a+") as note:
        note.seek(0)
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = note.read().partition(" ")[0]
            who = f"a run (pid {pid})" if pid else "another stepbench"
            message = (
                f"{who} is using the environment in {home}; wait for it, stop it with Ctrl-C (or `kill`), "
                "or set STEPBENCH_HOME to a folder of your own"
            )
            raise LocalEnvironmentError(message) from error
        left = note.read()
        yield Occupancy(killed=bool(left), was_warm=left.endswith(_WARM), _note=note)
