"""The sink of `comparators/` as a server: on its core, plain and with TLS, ended with the block."""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import building, machine

from stepbench.local.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator

_END_LIMIT_S = 10


class Sink(NamedTuple):
    """Where it listens, HOST:PORT each. authority: the PEM file that the TLS one is to be trusted by."""

    plain: str
    tls: str
    authority: Path


@contextmanager
def sink(tools: Path) -> Iterator[Sink]:
    """One for the block. Raises MissingComparatorError where it cannot be built."""
    program = building.sink(tools)
    with tempfile.TemporaryDirectory() as directory:
        made = make_certificates(Path(directory))
        command = machine.on_core([program, "-certificate", made.certificate, "-key", made.key])
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                said = process.stdout.readline() if process.stdout else ""
                if not said:
                    message = f"{program} ended with status {process.wait(_END_LIMIT_S)} before it listened"
                    raise RuntimeError(message)
                yield Sink(**json.loads(said), authority=made.authority)
            finally:
                process.kill()  # it holds nothing that would have to be written
