"""The logs of local servers and tools, shown while they are written."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EVERY_S = 0.5
"""Reading costs time on the machine that is being measured."""


class LogReader:
    """It reads what is new in a folder's logs since it was last asked, of files that begin anew, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = {path: path.stat().st_size for path in folder.glob("*.log")}

    def new_lines(self) -> Iterator[str]:
        """Yield `etcd: the line`; an unfinished line waits for its end."""
        for path in sorted(self._folder.glob("*.log")):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                begin = self._read.get(path, 0)
                begin = begin if begin <= path.stat().st_size else 0
                file.seek(begin)
                whole, newline, _ = file.read().rpartition(b"\n")
                self._read[path] = begin + len(whole) + len(newline)
                lines = whole.decode(errors="replace").split("\n") if newline else ()
                yield from (f"{path.stem}: {line}" for line in lines)


@contextlib.contextmanager
def following_logs(folder: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Show new lines of all logs in a folder, every half second until the end."""
    reader, ended = LogReader(folder), threading.Event()

    def follow() -> None:
        while not ended.wait(EVERY_S):
            for line in reader.new_lines():
                notify(line)

    thread = threading.Thread(target=follow, name="logs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for line in reader.new_lines():
            notify(line)
