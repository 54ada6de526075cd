"""
How late our open loop sends, beside the same loop in C, on one core with the sink on the other.

    python -m benchmarks.lateness [--rounds 7] [--seconds 8]

Ours is a writer as `RunWriter` runs it (`benchmarks.writer`): it makes, signs, sends, parses answers, records and
flushes. The C program (`comparators/lateness.c`: epoll, timerfd, the least timer slack) sends a constant request of the
same size over and over and keeps one number of each. Lateness is t1 less t0: the clock just before the kernel gets the
request, less the time that the schedule says.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import building, command, machine, rounds, writer
from benchmarks.result import Case, Goal, Measure

from stepbench.contracts.identity import EventId
from stepbench.drivers.dynamodb.items import ItemRequests
from stepbench.workload.payloads import Payloads

if TYPE_CHECKING:
    import argparse

QUESTION = "How late does one writer send what is due, at an even pace?"
GOALS = {3_000: Goal(at_most=1.25), 15_000: Goal(of="value", at_most=1_000)}
"""The goal of lateness p99 by rate."""
_MORE_S = 30


def ours(sink: building.Sink, rate_per_s: int, seconds: float) -> tuple[float, ...]:
    """Run a writer of ours; return p50, p99, CPU, how many events it has not sent, how much it waited for its core."""
    with tempfile.TemporaryDirectory() as records:
        offered = writer.offered(sink.plain, rate_per_s, seconds, Path(records))
    return offered.p50_us, offered.p99_us, offered.cpu_us, offered.unsent, 100 * offered.waited_share


def theirs(tool: Path, sink: building.Sink, rate_per_s: int, seconds: float) -> tuple[float, ...]:
    """Run the loop in C; return p50, p99 and CPU."""
    host, port, _ = rounds.address_of(sink.plain)
    line = [tool, host, port, rate_per_s, seconds, writer.MAX_IN_FLIGHT]
    said = json.loads(command.run_program(line, seconds + _MORE_S, input=request()))
    if said["sent"] != said["events"]:  # its latest events would be missing from its quantiles
        sys.exit(f"the loop in C sent {said['sent']:,} of {said['events']:,} events")
    return said["p50_ns"] / 1e3, said["p99_ns"] / 1e3, said["cpu_us_per_request"]


def request() -> str:
    """Return a request as large as a signed PutItem of ours; the sink looks at nothing but its length."""
    event = EventId("aaaaaaaaaa-0000", 0, 0, 0, 0, 0)
    body = ItemRequests("target-aaaaaaaaaa-0000").put_body(Payloads(writer.RECORD, event, 1, 0).write(0))
    head = (
        "POST / HTTP/1.1\r\nhost: 127.0.0.1:00000\r\ncontent-type: application/x-amz-json-1.0\r\n"
        "x-amz-target: DynamoDB_20120810.PutItem\r\nx-amz-date: 20260101T000000Z\r\n"
        f"authorization: {'a' * 210}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head + body.decode()


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure both rates."""
    tool, seconds = building.lateness(asked.tools), 2 if asked.quick else asked.seconds
    paused = machine.pauses()
    with building.sink(asked.tools) as sink:
        cases = tuple(_case(tool, sink, rate_per_s, seconds, asked.rounds) for rate_per_s in GOALS)
    notes = (
        f"{seconds:g} s a round and a rate, up to {writer.MAX_IN_FLIGHT} requests in flight.",
        "The C program's request is constant: what ours makes, signs, parses and records is in its lateness.",
        "Ours waits without sleeping before each alarm where the rate allows it, which is in its CPU at 3,000/s.",
        paused.words(),
    )
    return command.Found(cases, notes)


def _case(tool: Path, sink: building.Sink, rate_per_s: int, seconds: float, times: int) -> Case:
    own = partial(ours, sink, rate_per_s, seconds)
    measures = (
        Measure("p50", "µs"),
        Measure("p99", "µs", GOALS[rate_per_s]),
        Measure("CPU", "µs/event"),
        Measure("unsent", "events", Goal(of="value", at_most=0)),
        Measure("another had the core", "% of the time"),
    )
    figures = rounds.compare(measures, own, partial(theirs, tool, sink, rate_per_s, seconds), times)
    return Case(name=f"{rate_per_s:,} events/s", peer="epoll + timerfd in C", figures=figures)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=8, help="of each rate and round")


if __name__ == "__main__":
    command.run("lateness", QUESTION, measure, _options)
