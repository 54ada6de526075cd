"""
The suite on a machine that somebody else computes on: `python -m tests.suite.steadiness FOLDER --runs 5`.

Beside two busy loops and a process that writes to the disk, all at the suite's own priority, `make test` is run so many
times. Each run leaves its outcomes in the folder as a JSON file; what is there is not run again, so that a series that
was interrupted goes on. The exit code is 0 if no test failed in any run.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.suite.again import environment_with, read, run_through

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(10**6):
        pass
"""
WRITES = """
import os, sys
parent = os.getppid()
while os.getppid() == parent:
    with open(sys.argv[1], "wb") as file:
        for _ in range(64):
            file.write(os.urandom(2**20))
            file.flush()
            os.fsync(file.fileno())
"""
BUSY_LOOPS = 2


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Keep two cores and the disk busy meanwhile."""
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        programs = [[BUSY]] * BUSY_LOOPS + [[WRITES, str(Path(folder, "written"))]]
        processes = [subprocess.Popen([sys.executable, "-c", *program]) for program in programs]
        try:
            yield
        finally:
            for process in processes:
                process.kill()
                process.wait()


def run_once(file: Path, command: Sequence[str]) -> None:
    """Run the suite once; its outcomes are written to the file, what it prints beside it."""
    with file.with_suffix(".log").open("w") as log:
        run_through(command, env=environment_with(file), stdout=log, stderr=log)


def describe(file: Path, seconds: float | None) -> tuple[str, bool]:
    """Return a line on a run and whether all of its tests passed; what left no outcomes did not end."""
    suite = read(file)
    if suite is None:
        return f"{file.stem}: did not end; see {file.with_suffix('.log')}", False
    took = f" in {seconds:.0f} s" if seconds is not None else ""
    failures = [f"  {each.nodeid}: {each.seen}" for each in suite.failures]
    return "\n".join(
        [f"{file.stem}: exit code {suite.exit_code}, {suite.counts}{took}", *failures]
    ), not suite.exit_code


def main(arguments: Sequence[str]) -> int:
    """Run what is not there yet; describe all."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--command", nargs=argparse.REMAINDER, default=["make", "test"])
    options = parser.parse_args(arguments)
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    steady = True
    for number in range(1, options.runs + 1):
        file, seconds = folder / f"run-{number}.json", None
        if read(file) is None:
            began = time.monotonic()
            with load():
                run_once(file, options.command)
            seconds = time.monotonic() - began
        text, passed = describe(file, seconds)
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        steady &= passed
    return int(not steady)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
