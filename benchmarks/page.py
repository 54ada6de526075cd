"""`docs/performance.md`: results as Markdown. Pure."""

from __future__ import annotations

import statistics
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.result import Case, Figure, Goal, Machine, Result

_HEAD = """# Performance

<!-- Written by `python -m benchmarks` from benchmarks/results/: change that, not this. -->

What our generator and our analysis cost, beside the best peers, on one machine: ours and its peer take
turns, round by round, and a ratio is taken within a round, so that what else the machine does falls on both. Rounds in
which a virtual machine's host took the cores away are measured again; what it took in those kept is told below each
table. Given are the medians over the rounds, the median ratio, and its 95 % interval by order statistics (of six rounds
or more). Ours and the peer run on one core, servers on the other. A goal is met if the median is within it, for sure if
the interval is. In times and CPU a ratio below one is in our favour, in operations a second one above.

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
    The whole document.

    remarks: what a person has to say, by benchmark. lacking: benchmarks that there is no result of.
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
    """One benchmark: its question, its table, its notes."""
    peers = {case.peer for case in result.cases if case.peer}
    beside = f" Beside {peers.pop()}." if len(peers) == 1 else ""
    lines = [f"## {result.benchmark}", f"{result.question}{beside}", "", *_HEADINGS]
    for case in result.cases:
        name = f"{case.name}, beside {case.peer}" if peers and case.peer else case.name
        for at, figure in enumerate(case.figures):
            lines.append(_row("" if at else name, figure))
    lines += ["", _origin(result), *[f"- {note}" for note in result.notes]]
    return "\n".join(lines) + "\n"


_HEADINGS = (
    "| case | figure | ours | peer's | ratio (95 % interval) | goal | |",
    "|---|---|--:|--:|---|---|---|",
)


def _row(case: str, figure: Figure) -> str:
    ours = number(statistics.median(figure.ours))
    peer = number(statistics.median(figure.peer)) if figure.peer else _DASH
    cells = (
        case,
        f"{figure.name}, {figure.unit}",
        ours,
        peer,
        ratio_words(figure),
        goal_words(figure),
        verdict(figure),
    )
    return f"| {' | '.join(cells)} |"


def ratio_words(figure: Figure) -> str:
    """`0.97 (0.95–0.99)`, or without an interval where there is none."""  # noqa: RUF002 -- a dash between two numbers
    if figure.ratio is None:
        return _DASH
    ratio = number(figure.ratio)
    if figure.interval is None:
        return ratio
    low, high = figure.interval
    return f"{ratio} ({number(low)}{_DASH}{number(high)})"


def goal_words(figure: Figure) -> str:
    """`≤ 1.1 ×` of a ratio, `≤ 1,000 µs` of a value."""  # noqa: RUF002 -- a multiplication sign
    if figure.goal is None:
        return ""
    return _bounds(figure.goal, "×" if figure.goal.of == "ratio" else figure.unit)  # noqa: RUF001 -- as above


def _bounds(goal: Goal, unit: str) -> str:
    bounds = (("≤", goal.at_most), ("≥", goal.at_least))
    return ", ".join(f"{sign} {number(bound)} {unit}" for sign, bound in bounds if bound is not None)


def verdict(figure: Figure) -> str:
    """Whether the goal is met; nothing where there is none. Not sure: the interval says both."""
    met = {None: "", True: "met", False: "**missed**"}[figure.met]
    return met if figure.sure else f"{met.strip('*')}, not sure"


def number(value: float) -> str:
    """Three digits, or all before the point: `1,234`, `57.4`, `0.031`."""
    size = abs(value)
    if size >= 100:  # noqa: PLR2004 -- three digits before the point
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):g}" if size else "0"


def _origin(result: Result) -> str:
    rounds = "1 round" if result.rounds == 1 else f"{result.rounds} rounds"
    return (
        f"{rounds}, {result.taken_at:%Y-%m-%d %H:%M} UTC, commit `{result.commit}`; {_machine_words(result.machine)}."
    )


def _machine_words(machine: Machine) -> str:
    before, after = machine.load_average
    hardware = f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB"
    return f"{hardware}, {machine.system}, Python {machine.python}; load average {before:g} before, {after:g} after"


def _goals(results: Sequence[Result]) -> str:
    """Every figure that has a goal, in one table."""
    rows = [
        _goal_row(result.benchmark, case, each) for result in results for case in result.cases for each in case.figures
    ]
    kept = [row for row in rows if row]
    if not kept:
        return ""
    headings = (
        "| benchmark | case | figure | ours | ratio (95 % interval) | goal | |",
        "|---|---|---|--:|---|---|---|",
    )
    return "\n## Goals\n" + "\n".join([*headings, *kept]) + "\n"


def _goal_row(benchmark: str, case: Case, figure: Figure) -> str:
    if figure.goal is None:
        return ""
    name = f"{case.name}, beside {case.peer}" if case.peer else case.name
    ours = number(statistics.median(figure.ours))
    cells = (f"[{benchmark}](#{benchmark})", name, f"{figure.name}, {figure.unit}", ours)
    return f"| {' | '.join((*cells, ratio_words(figure), goal_words(figure), verdict(figure)))} |"
