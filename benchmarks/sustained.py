"""
Whether one writer holds 3,000 events a second for five minutes, and what that does to its memory.

    python -m benchmarks.sustained [--rounds 1] [--seconds 300]

A writer as `RunWriter` runs it (`benchmarks.writer`) with its core to itself, the sink on the other: signs of life
every second, column files every ten. Memory is the writer's resident set when load begins, when it has ended, and at
most.
"""

from __future__ import annotations

import tempfile
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import command, machine, sinks, writer
from benchmarks.result import Case, Figure, Goal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

QUESTION = "Does one writer hold 3,000 events a second, punctually and in bounded memory?"
RATE_PER_S = 3_000
_QUICK_S = 12
"""Long enough for a flush under load."""


def measure(asked: argparse.Namespace) -> command.Found:
    """One case; a single round unless told otherwise, since it is long."""
    seconds = _QUICK_S if asked.quick else asked.seconds
    paused = machine.pauses()
    with sinks.sink(asked.tools) as sink:
        made = [_offered(sink, seconds) for _ in range(asked.rounds)]
    case = Case(name=f"{RATE_PER_S:,} events/s for {seconds:g} s", figures=_figures(made))
    flushed = f"{made[0].events:,} events a round, flushed to files every 10 s."
    return command.Found((case,), (flushed, paused.words()))


def _offered(sink: sinks.Sink, seconds: float) -> writer.Offered:
    with tempfile.TemporaryDirectory() as records:
        return writer.offered(sink.plain, RATE_PER_S, seconds, Path(records))


def _figures(made: Sequence[writer.Offered]) -> tuple[Figure, ...]:
    def figure(name: str, unit: str, of: Callable[[writer.Offered], float], at_most: float | None = None) -> Figure:
        goal = None if at_most is None else Goal(of="value", at_most=at_most)
        return Figure(name=name, unit=unit, ours=tuple(map(of, made)), goal=goal)

    return (
        figure("unsent", "events", attrgetter("unsent"), at_most=0),
        figure("lateness p50", "µs", attrgetter("p50_us")),
        figure("lateness p99", "µs", attrgetter("p99_us"), at_most=1_000),
        figure("lateness p99.9", "µs", attrgetter("p999_us")),
        figure("lateness, most", "µs", attrgetter("max_us")),
        figure("CPU", "µs/event", attrgetter("cpu_us")),
        figure("another had the core", "% of the time", lambda each: 100 * each.waited_share),
        figure("memory when load begins", "MB", lambda each: each.rss_mb[0]),
        figure("memory when it has ended", "MB", lambda each: each.rss_mb[1]),
        figure("memory at most", "MB", lambda each: each.rss_mb[2]),
    )


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=300, help="of each round")
    parser.set_defaults(rounds=1)


def main() -> None:
    """Measure, print, and keep the result if asked to."""
    command.run("sustained", QUESTION, measure, _options)


if __name__ == "__main__":
    main()
