"""
Whether one writer holds 3,000 events a second for five minutes, and what that does to its memory.

    python -m benchmarks.sustained [--rounds 1] [--seconds 300]

A writer as `RunWriter` runs it (`benchmarks.writer`) with its core to itself, the sink on the other: signs of life
every second, column files every ten. Memory is the writer's resident set when load begins, when it has ended, and at
most.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import building, command, machine, writer
from benchmarks.result import Case, Goal, Measure, figures_of

if TYPE_CHECKING:
    import argparse

QUESTION = "Does one writer hold 3,000 events a second, punctually and in bounded memory?"
RATE_PER_S = 3_000
_QUICK_S = 12
"""Long enough for a flush under load."""
MEASURES = (
    Measure("unsent", "events", Goal(of="value", at_most=0)),
    Measure("lateness p50", "µs"),
    Measure("lateness p99", "µs", Goal(of="value", at_most=1_000)),
    Measure("lateness p99.9", "µs"),
    Measure("lateness, most", "µs"),
    Measure("CPU", "µs/event"),
    Measure("another had the core", "% of the time"),
    Measure("memory when load begins", "MB"),
    Measure("memory when it has ended", "MB"),
    Measure("memory at most", "MB"),
)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure one case, for a single round unless told otherwise, since it is long."""
    seconds = _QUICK_S if asked.quick else asked.seconds
    paused = machine.pauses()
    with building.sink(asked.tools) as sink:
        made = [_offered(sink, seconds) for _ in range(asked.rounds)]
    figures = figures_of(MEASURES, [(_numbers(each), ()) for each in made])
    case = Case(name=f"{RATE_PER_S:,} events/s for {seconds:g} s", figures=figures)
    flushed = f"{made[0].events:,} events a round, flushed to files every 10 s."
    return command.Found((case,), (flushed, paused.words()))


def _offered(sink: building.Sink, seconds: float) -> writer.Offered:
    with tempfile.TemporaryDirectory() as records:
        return writer.offered(sink.plain, RATE_PER_S, seconds, Path(records))


def _numbers(offered: writer.Offered) -> tuple[float, ...]:
    late_us = (offered.p50_us, offered.p99_us, offered.p999_us, offered.max_us)
    return (offered.unsent, *late_us, offered.cpu_us, 100 * offered.waited_share, *offered.rss_mb)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=300, help="of each round")
    parser.set_defaults(rounds=1)


if __name__ == "__main__":
    command.run("sustained", QUESTION, measure, _options)
