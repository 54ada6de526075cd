"""
Our program's download of a file beside curl's, boto3's and s5cmd's, from one server, interleaved.

    python -m benchmarks.transfer [--rounds N] [--quick] [--tools DIRECTORY]

The server is VersityGW on a local folder, whose file is in memory: what is compared is what the client takes. Each
download is a process of its own. Ours and curl's are timed from the request to the last byte, boto3's from the call
on, s5cmd's as a whole process, since it tells no more. CPU is that of the transfer: of curl what the process takes
more than for the file's first byte alone, and of s5cmd likewise. boto3 and s5cmd have several connections, as they
have by default; ours and curl one. curl computes no digest; ours does.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from benchmarks import building, command, machine, rounds
from benchmarks.result import Case, Goal, Measure, figures_of

from stepbench_tools.local.processes import free_port
from stepbench_tools.local.stores.certificates import make_certificates

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

QUESTION = "How quickly does a file come from S3, and what does it take, beside other clients of the same server?"
NOTES = (
    "One connection for ours and curl; boto3 and s5cmd have several, as by default.",
    "Ours hashes every byte and marks every MiB; the others forget what they receive.",
    "Ours is the reader in a process of its own, without the sign of life and the rows of a task.",
)
MIB, GIB = 2**20, 2**30
SIZES_MIB = (100, 500)
QUICK_SIZES_MIB = (20,)
BUCKET = "files"
KEYS = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret-of-loopback"}
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
MOST_MIB = 64
MEASURES = (
    Measure("rate", "MiB/s", Goal(at_least=1.0)),
    Measure("CPU", "s/GiB", Goal(at_most=1.2)),
    Measure("memory", "MiB", Goal(of="value", at_most=MOST_MIB)),
    Measure("digest's share of the time", "%", Goal(of="value", at_most=10)),
)
"""The goals are set beside curl."""
_START_LIMIT_S = 20
_WRITTEN = "%{size_download} %{time_total} %{time_pretransfer}"


T = TypeVar("T")


class Subject(NamedTuple):
    """A file on a server. authority: the PEM file to trust; "": no TLS."""

    url: str
    path: str
    file_bytes: int
    authority: str

    def python(self, program: str, *more: str) -> list[float]:
        """Run a Python program with this subject; return what it prints."""
        line = [sys.executable, *program.split(), self.url, BUCKET, self.path, self.authority, *more]
        found: list[float] = json.loads(command.run_program(line, env=_environment()))
        return found


def ours(subject: Subject) -> tuple[float, ...]:
    """Read it by our program."""
    received, took_s, cpu_s, peak_mib, share = subject.python("-m benchmarks.transfer_read", str(subject.file_bytes))
    return *_figures(subject, received, took_s, cpu_s), peak_mib, share * 100


def boto3(subject: Subject) -> tuple[float, ...]:
    """Read it by boto3."""
    received, took_s, cpu_s, peak_mib = subject.python("benchmarks/comparators/boto3_download.py")
    return *_figures(subject, received, took_s, cpu_s), peak_mib


def curl(tool: str, subject: Subject) -> tuple[float, ...]:
    """Read it by curl."""
    whole, used_s = _counted(partial(_curl, tool, subject))
    _, started_s = _counted(partial(_curl, tool, subject, "--range", "0-0"))
    received, total_s, before_s = whole
    return _figures(subject, received, total_s - before_s, used_s - started_s)


def _curl(tool: str, subject: Subject, *options: str) -> tuple[float, float, float]:
    user = ":".join(KEYS.values())
    signing = [
        "--aws-sigv4",
        "aws:amz:us-east-1:s3",
        "--user",
        user,
        "--header",
        f"x-amz-content-sha256: {EMPTY_SHA256}",
    ]
    trusting = ["--cacert", subject.authority] if subject.authority else []
    url = f"{subject.url}/{BUCKET}/{subject.path}"
    line = [tool, "--silent", "--show-error", "--fail", "--output", "/dev/null", "--write-out", _WRITTEN]
    received, total_s, before_s = command.run_program([*line, *signing, *trusting, *options, url]).split()
    return float(received), float(total_s), float(before_s)


def s5cmd(tool: Path, subject: Subject) -> tuple[float, ...]:
    """Read it by s5cmd; its whole process is timed."""
    begun_s = time.perf_counter()
    _, used_s = _counted(partial(_s5cmd, tool, subject, "cat", f"s3://{BUCKET}/{subject.path}"))
    took_s = time.perf_counter() - begun_s
    _, started_s = _counted(partial(_s5cmd, tool, subject, "ls", f"s3://{BUCKET}/{subject.path}"))
    return _figures(subject, subject.file_bytes, took_s, used_s - started_s)


def _s5cmd(tool: Path, subject: Subject, *words: str) -> None:
    trusting = ["--no-verify-ssl"] if subject.authority else []
    line = [str(tool), "--endpoint-url", subject.url, *trusting, *words]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, env=_environment(), timeout=command.LIMIT_S)


def _counted(work: Callable[[], T]) -> tuple[T, float]:
    before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
    found = work()
    return found, rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s


def _figures(subject: Subject, received: float, took_s: float, cpu_s: float) -> tuple[float, float]:
    if received != subject.file_bytes:
        sys.exit(f"{received:,.0f} bytes came in place of {subject.file_bytes:,}")
    return received / MIB / took_s, cpu_s / (received / GIB)


def _environment() -> dict[str, str]:
    return {**os.environ, **KEYS, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def gateway(program: Path, folder: Path, *, tls: bool) -> Iterator[tuple[str, str]]:
    """Run the server on its core for the block; yield its URL and the PEM file to trust."""
    made = make_certificates(folder / "certificates") if tls else None
    port = free_port()
    line: list[str | Path] = [program, "--port", f"127.0.0.1:{port}", "--quiet"]
    line += ["--cert", str(made.certificate), "--key", str(made.key)] if made else []
    environ = {
        **os.environ,
        "ROOT_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"],
        "ROOT_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"],
    }
    words = machine.on_core([*line, "posix", folder / "served"])
    with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await_listener(port)
            yield f"{'https' if made else 'http'}://127.0.0.1:{port}", str(made.authority) if made else ""
        finally:
            process.kill()  # the folder is gone in a moment


def _await_listener(port: int) -> None:
    until_s = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < until_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    sys.exit(f"the server has not listened within {_START_LIMIT_S} s")


def cases_of(asked: argparse.Namespace, subject: Subject, name: str, tools: tuple[str, Path]) -> Iterator[Case]:
    """Run all four in turns; ours is compared with each of the others by the same rounds."""
    peers: dict[str, Callable[[], tuple[float, ...]]] = {
        _curl_version(tools[0]): partial(curl, tools[0], subject),
        "boto3's download_fileobj": partial(boto3, subject),
        f"s5cmd {building.S5CMD_VERSION}'s cat": partial(s5cmd, tools[1], subject),
    }
    found = machine.calmest(asked.rounds, (partial(ours, subject), *peers.values()))
    for place, peer in enumerate(peers, start=1):
        pairs = [(each[0], each[place]) for each in found]
        measures = MEASURES if place == 1 else tuple(each._replace(goal=None) for each in MEASURES)
        yield Case(name=name, peer=peer, figures=figures_of(measures, pairs))


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure both sizes without TLS, and the larger one with."""
    tool = shutil.which("curl")
    if tool is None:
        message = "curl is not on the PATH: apt-get install curl"
        raise command.MissingComparatorError(message)
    tools = tool, building.s5cmd(asked.tools)
    program = building.versity_gateway(asked.tools)
    sizes_mib = QUICK_SIZES_MIB if asked.quick else SIZES_MIB
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "served" / BUCKET).mkdir(parents=True)
        for size_mib in sizes_mib:
            (folder / "served" / BUCKET / f"{size_mib}.bin").write_bytes(os.urandom(size_mib * MIB))
        for tls in (False, True):
            with gateway(program, folder, tls=tls) as (url, authority):
                for size_mib in sizes_mib[-1:] if tls else sizes_mib:
                    subject = Subject(url, f"{size_mib}.bin", size_mib * MIB, authority)
                    cases += cases_of(asked, subject, f"{size_mib} MiB{', TLS' if tls else ''}", tools)
    return command.Found(tuple(cases), (f"Server: VersityGW {building.VERSITY_VERSION} on a local folder.", *NOTES))


def _curl_version(tool: str) -> str:
    return " ".join(command.run_program([tool, "--version"]).split()[:2])


if __name__ == "__main__":
    command.run("transfer", QUESTION, measure)
