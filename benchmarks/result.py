"""What a benchmark has found, as it is kept in `benchmarks/results/`, and as Markdown in `docs/performance.md`."""

from __future__ import annotations

import math
import statistics
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import AwareDatetime, Field

from stepbench.contracts.base import Contract

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


LEVEL = 0.95


class Goal(Contract):
    """What was aimed at: of the ratio to the peer, or of our own value where there is none to compare with."""

    of: Literal["ratio", "value"] = "ratio"
    at_most: float | None = None
    at_least: float | None = None

    def met(self, value: float) -> bool:
        """Tell whether a value is within the goal."""
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)


class Figure(Contract):
    """One number of one case, once a round; `peer` is empty where nothing is compared."""

    name: str
    unit: str
    ours: tuple[float, ...] = Field(min_length=1)
    peer: tuple[float, ...] = ()
    goal: Goal | None = None

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return ours by the peer's, round by round; nothing where the peer has a 0."""
        if not self.peer or not all(self.peer):
            return ()
        return tuple(own / other for own, other in zip(self.ours, self.peer, strict=True))

    @property
    def ratio(self) -> float | None:
        """Return the median ratio."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the median ratio; None for fewer than six rounds, which have none."""
        return median_interval(self.ratios)

    @property
    def met(self) -> bool | None:
        """Tell whether the median meets the goal; None without a goal."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal.of == "ratio" else statistics.median(self.ours)
        return None if value is None else self.goal.met(value)

    @property
    def sure(self) -> bool:
        """Tell whether all of the interval says the same of the goal; without an interval the verdict stands."""
        if self.goal is None or self.goal.of != "ratio" or self.interval is None:
            return True
        return len({self.goal.met(bound) for bound in self.interval}) == 1


class Case(Contract):
    """One setting of a benchmark, such as "SET, 100 clients"."""

    name: str
    peer: str = Field(default="", description="With version; empty where nothing is compared.")
    figures: tuple[Figure, ...]

    @property
    def title(self) -> str:
        """Return the case's name, and what it is beside."""
        return f"{self.name}, beside {self.peer}" if self.peer else self.name


class Machine(Contract):
    """The machine that it ran on. load_average: over a minute, at the beginning and at the end."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    python: str
    load_average: tuple[float, float]


class Result(Contract):
    """One benchmark. question: what it answers. notes: what a reader has to know, one sentence or two each."""

    benchmark: str
    question: str
    taken_at: AwareDatetime
    commit: str
    machine: Machine
    rounds: int
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()


class Measure(NamedTuple):
    """The name, unit and goal of one of the numbers that every round gives."""

    name: str
    unit: str
    goal: Goal | None = None


def figures_of(measures: Sequence[Measure], pairs: Sequence[Sequence[Sequence[float]]]) -> tuple[Figure, ...]:
    """
    Return a figure of each measure, from rounds of ours and the peer's numbers in the measures' order.

    The peer may have fewer numbers, or none: what only ours has comes last.
    """
    ours, peer = (tuple(zip(*side, strict=True)) for side in zip(*pairs, strict=True))
    return tuple(
        Figure(name=each.name, unit=each.unit, ours=own, peer=other, goal=each.goal)
        for each, (own, other) in zip(measures, zip_longest(ours, peer, fillvalue=()), strict=True)
    )


def median_interval(values: tuple[float, ...]) -> tuple[float, float] | None:
    """
    Return the distribution-free interval of the median, 95 % at least; None for fewer than six values.

    Source:
        Conover, Practical Nonparametric Statistics (1999), section 3.2.
    """
    n, ordered = len(values), sorted(values)
    below = 0.0
    for k in range(n // 2):
        below += math.comb(n, k) / 2**n
        if 2 * below > 1 - LEVEL:
            return (ordered[k - 1], ordered[n - k]) if k else None
    k = n // 2
    return (ordered[k - 1], ordered[n - k]) if k else None


_HEAD = """# Performance

<!-- Written by `python -m benchmarks` from benchmarks/results/: change that, not this. -->

What our generator and our analysis cost, beside the best peers, on one machine: ours and its peer take turns, round by
round, and a ratio is taken within a round, so that what else the machine does falls on both. Rounds in which a virtual
machine's host took the cores away, or before which it slowed them down for spells at a time, are measured again; what
of that there was in those kept is told below each table. Given are the medians over the rounds, the median ratio, and
its 95 % interval by order statistics (of six rounds or more). Ours and the peer run on one core, servers on the other.
A goal is met if the median is within it, for sure if the interval is. In times and CPU a ratio below one is in our
favour, in operations a second one above.

![The ratios that have a goal, with their intervals](images/performance.svg)
"""

_HOW = """
## How to run
    make bench                                    # set-up, then all of it; writes this page
    make bench BENCH="redis lateness --rounds 15" # some of it
    .venv/bin/python -m benchmarks --quick        # each once and short: whether it works, no figures to keep
    .venv/bin/python -m benchmarks.redis --help   # one by itself, with its options

Comparators are built into `.stepbench/bench/` from the ordinary registries: Go modules (`benchmarks/comparators/`,
etcd's benchmark, go-ycsb) by `go`, the open loop in C by `cc`, Python packages by the lock `requirements/bench.txt`.
What is missing is named with its remedy, and the benchmarks that need it are reported as skipped. Results lie in
`benchmarks/results/` as JSON. Nothing here is part of the test suite: a timing decides no test.
"""
NO_REMARKS: Mapping[str, str] = MappingProxyType({})
_DASH = "–"  # noqa: RUF001 -- between two numbers, and for what is not there


def page(results: Sequence[Result], remarks: Mapping[str, str] = NO_REMARKS, lacking: Sequence[str] = ()) -> str:
    """
    Return the whole document.

    Args:
        results: in the page's order.
        remarks: what a person has to say, by benchmark.
        lacking: benchmarks that have no result.
    """
    parts = [_HEAD, _goals(results)]
    if lacking:
        names = ", ".join(f"`{name}`" for name in lacking)
        parts.append(f"\n**No result yet** of {names}: a comparator was missing, or it was not run.\n")
    for each in results:
        remark = remarks.get(each.benchmark, "").strip()
        parts.append(f"\n{section(each)}" + (f"\n{remark}\n" if remark else ""))
    return "".join([*parts, _HOW])


def section(result: Result) -> str:
    """Return the part of one benchmark: its question, its table, its notes."""
    peers = {case.peer for case in result.cases if case.peer}
    beside = f" Beside {peers.pop()}." if len(peers) == 1 else ""
    lines = [f"## {result.benchmark}", f"{result.question}{beside}", "", *_HEADINGS]
    for case in result.cases:
        title = case.name if beside else case.title
        for at, figure in enumerate(case.figures):
            peer = number(statistics.median(figure.peer)) if figure.peer else _DASH
            lines.append(_row("" if at else title, *_words(figure), peer, *_verdict(figure)))
    lines += ["", _origin(result), *[f"- {note}" for note in result.notes]]
    return "\n".join(lines) + "\n"


_HEADINGS = ("| case | figure | ours | peer's | ratio (95 % interval) | goal | |", "|---|---|--:|--:|---|---|---|")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _words(figure: Figure) -> tuple[str, str]:
    """Return the cells of name and our median."""
    return f"{figure.name}, {figure.unit}", number(statistics.median(figure.ours))


def _verdict(figure: Figure) -> tuple[str, str, str]:
    """Return the cells of ratio, goal and verdict, which is not sure where the interval says both."""
    met = {None: "", True: "met", False: "**missed**"}[figure.met]
    return _ratio_words(figure), _goal_words(figure), met if figure.sure else f"{met.strip('*')}, not sure"


def _ratio_words(figure: Figure) -> str:
    """Return `0.97 (0.95–0.99)`, or without an interval where there is none."""  # noqa: RUF002 -- between two numbers
    if figure.ratio is None:
        return _DASH
    ratio = number(figure.ratio)
    if figure.interval is None:
        return ratio
    low, high = figure.interval
    return f"{ratio} ({number(low)}{_DASH}{number(high)})"


def _goal_words(figure: Figure) -> str:
    """Return `≤ 1.1 ×` of a ratio, `≤ 1,000 µs` of a value."""  # noqa: RUF002 -- a multiplication sign
    if figure.goal is None:
        return ""
    unit = "×" if figure.goal.of == "ratio" else figure.unit  # noqa: RUF001 -- as above
    bounds = (("≤", figure.goal.at_most), ("≥", figure.goal.at_least))
    return ", ".join(f"{sign} {number(bound)} {unit}" for sign, bound in bounds if bound is not None)


def number(value: float) -> str:
    """Return three digits, or all before the point: `1,234`, `57.4`, `0.031`."""
    size = abs(value)
    if size >= 100:  # noqa: PLR2004 -- three digits before the point
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):g}" if size else "0"


def _origin(result: Result) -> str:
    rounds = "1 round" if result.rounds == 1 else f"{result.rounds} rounds"
    machine, (before, after) = result.machine, result.machine.load_average
    return (
        f"{rounds}, {result.taken_at:%Y-%m-%d %H:%M} UTC, commit `{result.commit}`; {machine.cpu}, "
        f"{machine.cores} cores, {machine.memory_gb:g} GB, {machine.system}, Python {machine.python}; "
        f"load average {before:g} before, {after:g} after."
    )


def _goals(results: Sequence[Result]) -> str:
    """Return one table of all figures that have a goal."""
    rows = [
        _row(f"[{result.benchmark}](#{result.benchmark})", case.title, *_words(figure), *_verdict(figure))
        for result in results
        for case in result.cases
        for figure in case.figures
        if figure.goal is not None
    ]
    if not rows:
        return ""
    headings = (
        "| benchmark | case | figure | ours | ratio (95 % interval) | goal | |",
        "|---|---|---|--:|---|---|---|",
    )
    return "\n## Goals\n" + "\n".join([*headings, *rows]) + "\n"
