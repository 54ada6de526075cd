"""
What the measuring layer costs a function: an invocation with it beside the same handler without, by runtime.

    python -m benchmarks.shim [--rounds N]

Both sandboxes are processes as the embedded run starts them, under a Runtime API in this process, and take turns
invocation by invocation. The bare one has a wrapper, too, which does nothing: here a wrapper costs a second start of an
interpreter, which it does not on Lambda. Cold is from the start of the process to the first answer. What lies between
t4 and the handler is the layer's, and no part of handler time.
"""

from __future__ import annotations

import itertools
import socketserver
import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import command, rounds
from benchmarks.result import Case, Figure, Measure
from tests.samples.records import REF, dynamodb_record
from tests.support.measuring_layer import build_layer, measured_lines, pack_layer, zipped
from tests.support.sandboxes import call, layer, new_sandbox, start

from stepbench.contracts.identity import EventId

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from stepbench_tools.local.emulator.localstack.sandboxes import Sandbox

QUESTION = "What does the measuring layer cost a function, cold and warm, Python and Node.js?"
HANDLERS = {
    "python3.11": {"module.py": "def handler(event, context):\n    return None\n"},
    "nodejs20.x": {"module.js": "exports.handler = async () => null;\n"},
}
WARM, QUICK_WARM = 2_000, 100
COLD, QUICK_COLD = 15, 3
P99 = 0.99
ONE, MANY = 1, 100
PRINTED = "lines in the log"
NOTHING = '#!/bin/sh\nexec "$@"\n'


class Setting(NamedTuple):
    """A function with the layer, or with a wrapper that does nothing."""

    runtime: str
    archive: bytes
    wrapper: str
    folder: Path


_NUMBERS = itertools.count()


class Table(socketserver.StreamRequestHandler):
    """Stands for a results table that answers at once."""

    def handle(self) -> None:
        """Answer every request of a connection."""
        while line := self.rfile.readline():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
            elif line == b"\r\n":
                self.rfile.read(length)
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def open_sandbox(setting: Setting, place: str = "") -> Sandbox:
    """Start a new sandbox; with a place, its lines go there."""
    code = setting.folder / f"code-{next(_NUMBERS)}"
    layers = [layer(setting.archive, setting.wrapper)]
    config = {"runtime": setting.runtime, "layers": layers}
    sandbox = new_sandbox(code, HANDLERS[setting.runtime], setting.folder / setting.wrapper, **config)
    variables = {"STEPBENCH_TRIAL": REF.tag, "STEPBENCH_IDENTITY": "value", "STEPBENCH_RESULTS_TABLE": place}
    variables |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    return start(sandbox, AWS_LAMBDA_EXEC_WRAPPER=f"/opt/{setting.wrapper}", **variables)


def event_of(batch: int) -> dict[str, Any]:
    """Return a stream's batch of records of 1 KB."""
    first = EventId(REF.tag, 1, 2, 0, 0, 0)
    records = [dynamodb_record(first._replace(sequence=each), sequence=str(each), at_s=1) for each in range(batch)]
    for record in records:
        record["dynamodb"]["NewImage"]["value"]["S"] += "x" * 845
    return {"Records": records}


def warm_us(sandbox: Sandbox, event: object, count: int) -> tuple[float, float]:
    """Return p50 and p99 of so many invocations, in µs; the first are not counted."""
    times: list[float] = []
    for _ in range(count + count // 10):
        begun_ns = time.perf_counter_ns()
        call(sandbox, event)
        times.append((time.perf_counter_ns() - begun_ns) / 1e3)
    return quantiles(times[count // 10 :])


def quantiles(values: list[float]) -> tuple[float, float]:
    """Return p50 and p99."""
    return statistics.median(values), sorted(values)[int(P99 * (len(values) - 1))]


def cold_ms(setting: Setting, event: object, count: int) -> tuple[float, float]:
    """Return p50 and the most of so many first invocations, from the start of the process, in ms."""
    times: list[float] = []
    for _ in range(count):
        begun_ns = time.perf_counter_ns()
        sandbox = open_sandbox(setting)
        call(sandbox, event)
        times.append((time.perf_counter_ns() - begun_ns) / 1e6)
        sandbox.stop()
    return statistics.median(times), max(times)


def before_us(sandbox: Sandbox, event: object, count: int) -> tuple[float, float]:
    """Return p50 and p99 of the time from t4 to the handler's call, in µs."""
    times: list[float] = []
    for _ in range(count):
        result, _ = call(sandbox, event)
        fields = dict(measured_lines(result.logs.splitlines()))["stepbench.t5"]
        times.append((fields["called"] - fields["t4"]) / 1e3)
    return quantiles(times)


def cases_of(runtime: str, archive: bytes, folder: Path, asked: argparse.Namespace) -> Iterator[Case]:
    """Measure one runtime."""
    nothing = zipped({"nothing": NOTHING}, mode=0o755)
    settings = [Setting(runtime, archive, "stepbench-measure", folder), Setting(runtime, nothing, "nothing", folder)]
    warm, cold = (QUICK_WARM, QUICK_COLD) if asked.quick else (WARM, COLD)
    peer = "the bare handler"
    for batch in (ONE, MANY):
        event = event_of(batch)
        sandboxes = [open_sandbox(setting) for setting in settings]
        own, other = (partial(warm_us, sandbox, event, warm) for sandbox in sandboxes)
        measures = [Measure("p50", "µs"), Measure("p99", "µs")]
        figures = rounds.compare(measures, own, other, asked.rounds)
        held = [before_us(sandboxes[0], event, warm) for _ in range(asked.rounds)]
        names = ("from t4 to the handler, p50", "from t4 to the handler, p99")
        shares = (
            Figure(name=name, unit="µs", ours=tuple(each[place] for each in held)) for place, name in enumerate(names)
        )
        yield Case(name=f"{runtime}, warm, batch of {batch}", peer=peer, figures=(*figures, *shares))
        for sandbox in sandboxes:
            sandbox.stop()
    yield table_case(settings[0], asked.rounds, warm)
    own, other = (partial(cold_ms, setting, event_of(ONE), cold) for setting in settings)
    figures = rounds.compare([Measure("p50", "ms"), Measure("most", "ms")], own, other, asked.rounds)
    yield Case(name=f"{runtime}, cold", peer=peer, figures=figures)


def table_case(setting: Setting, number: int, count: int) -> Case:
    """Measure lines that go into the results table beside lines that are printed."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Table) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sandboxes = [open_sandbox(setting, place) for place in (f"http://127.0.0.1:{server.server_address[1]}/t", "")]
        own, other = (partial(warm_us, sandbox, event_of(ONE), count) for sandbox in sandboxes)
        figures = rounds.compare([Measure("p50", "µs"), Measure("p99", "µs")], own, other, number)
        for sandbox in sandboxes:
            sandbox.stop()
        server.shutdown()
    return Case(name=f"{setting.runtime}, warm, lines into a table that answers at once", peer=PRINTED, figures=figures)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure both runtimes."""
    with tempfile.TemporaryDirectory() as folder:
        archive = pack_layer(build_layer(Path(folder, "built")))
        found = [cases_of(runtime, archive, Path(folder, runtime), asked) for runtime in HANDLERS]
        cases = tuple(itertools.chain.from_iterable(found))
    size = f"The layer's archive has {len(archive) / 1e3:.0f} kB."
    return command.Found(cases, (size, f"{WARM} warm invocations a round, {COLD} cold ones; records of 1 KB."))


if __name__ == "__main__":
    command.run("shim", QUESTION, measure)
