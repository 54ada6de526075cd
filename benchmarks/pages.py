"""The pages of results: `docs/performance.md` has the conclusions, `benchmarks/results/README.md` every figure."""

from __future__ import annotations

import statistics
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.result import Case, Figure, Result


_HEAD = """# Performance

<!-- Written by `python -m benchmarks` from benchmarks/results/: change that, not this. -->

What do Stepbench's generator and its analysis cost, beside the best tools for the same work? The first table has
every goal: the ratio of ours to the tool's, or our own value where there is no tool. In times and CPU a ratio below
one is in our favour, in operations a second one above. Below it, each benchmark's conclusion, and why a goal is
missed. Every figure of every case is in [benchmarks/results](../benchmarks/results/README.md), with rounds, machine
and commit; each round's numbers are in the JSON files beside it.

Measured on one machine, ours and its peer on one core and servers on the other. The two take turns, and a ratio is
taken within a round, so that what else the machine does falls on both. A ratio is the median over the rounds, its
interval 95 % by order statistics (of six rounds or more). Rounds in which a virtual machine's host took the cores
away are measured again. A goal is met if the median is within it, and for sure if the interval is.

![The ratios that have a goal, with their intervals](images/performance.svg)
"""
_DATA_HEAD = """# Every figure of every benchmark

<!-- Written by `python -m benchmarks` from the JSON files beside it: change these, not this. -->

What they mean, and how they are taken: [performance](../../docs/performance.md). Given are medians over the rounds,
the median ratio, and its 95 % interval.
"""

_HOW = """
## How to run
    make bench                                    # set-up, then all of it; writes this page
    make bench BENCH="redis lateness --rounds 15" # some of it
    .venv/bin/python -m benchmarks --quick        # each once and short: whether it works, no figures to keep
    .venv/bin/python -m benchmarks.redis --help   # one by itself, with its options
    .venv/bin/python -m benchmarks.function_truth # by hand, 40 s a case: a measured function's stamps beside its own
    .venv/bin/python -m benchmarks.invocations    # by hand, 6 min: a Map's invocations, of known delay
    .venv/bin/python -m benchmarks.before_after   # by hand, 90 s a round: is a handler 10 % slower found, a copy not

Comparators are built into `.stepbench/bench/` from the ordinary registries: Go modules (`benchmarks/comparators/`,
etcd's benchmark) by `go`, the open loop in C by `cc`, Python packages by the lock `requirements/bench.txt`.
What is missing is named with its remedy, and the benchmarks that need it are reported as skipped. Nothing here is
part of the test suite: a timing decides no test.
"""
NO_REMARKS: Mapping[str, str] = MappingProxyType({})
_DASH = "–"  # noqa: RUF001 -- between two numbers, and for what is not there


def page(results: Sequence[Result], remarks: Mapping[str, str] = NO_REMARKS, lacking: Sequence[str] = ()) -> str:
    """
    Return the page of conclusions: the goals, and of each remark its first paragraph.

    Args:
        results: in the page's order.
        remarks: what a person has to say, by benchmark; the first paragraph is the conclusion.
        lacking: benchmarks that have no result.
    """
    parts = [_HEAD, _goals(results), _lacking(lacking)]
    for each in results:
        conclusion = remarks.get(each.benchmark, "").strip().partition("\n\n")[0]
        figures = f"[Figures](../benchmarks/results/README.md#{each.benchmark})."
        parts.append(f"\n## {each.benchmark}\n*{each.question}*\n\n{conclusion} {figures}\n")
    return "".join([*parts, _HOW])


def data_page(results: Sequence[Result], remarks: Mapping[str, str] = NO_REMARKS) -> str:
    """Return the page of all figures, with the whole remarks; arguments as those of `page`."""
    parts = [_DATA_HEAD]
    for each in results:
        remark = remarks.get(each.benchmark, "").strip()
        parts.append(f"\n{section(each)}" + (f"\n{remark}\n" if remark else ""))
    return "".join(parts)


def _lacking(names: Sequence[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in names)
    return f"\n**No result yet** of {listed}: a comparator was missing, or it was not run.\n" if names else ""


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
    """Return one table of all figures that have a goal; cases of one benchmark with the same goal share a row."""
    rows = [row for result in results for row in _goal_rows(result)]
    if not rows:
        return ""
    headings = ("| benchmark | figure | ours beside the peer's | goal | met |", "|---|---|---|---|---|")
    return "\n## Goals\n" + "\n".join([*headings, *rows]) + "\n"


def _goal_rows(result: Result) -> Iterator[str]:
    groups: dict[tuple[str, str], list[tuple[Case, Figure]]] = {}
    for case in result.cases:
        for figure in case.figures:
            if figure.goal is not None:
                groups.setdefault((figure.name, _goal_words(figure)), []).append((case, figure))
    link = f"[{result.benchmark}](#{result.benchmark})"
    for (name, goal), found in groups.items():
        yield _row(link, f"{name}{_beside(found)}", _span([figure for _, figure in found]), goal, _verdicts(found))


def _beside(found: Sequence[tuple[Case, Figure]]) -> str:
    """Return what a ratio is taken to; of several peers their number, and the data page names them."""
    peers = {case.peer.partition(" (")[0] for case, figure in found if figure.goal and figure.goal.of == "ratio"}
    names = peers.pop() if len(peers) == 1 else f"{len(peers)} peers"
    return f", beside {names}" if names != "0 peers" else ""


def _span(figures: Sequence[Figure]) -> str:
    """Return the ratio with its interval, or our value; of several cases the least and the largest."""
    if figures[0].goal is None or figures[0].goal.of == "value":
        values, unit = [statistics.median(each.ours) for each in figures], f" {figures[0].unit}"
    elif len(figures) == 1:
        return f"{_ratio_words(figures[0])} ×"  # noqa: RUF001 -- a multiplication sign
    else:
        values, unit = [each.ratio for each in figures if each.ratio is not None], " ×"  # noqa: RUF001 -- as above
    ends = dict.fromkeys(number(value) for value in (min(values), max(values)))
    return " to ".join(ends) + unit


def _verdicts(found: Sequence[tuple[Case, Figure]]) -> str:
    """Return the verdict of one case, or `3 of 4; **missed**: SET, 1 client (not sure)`."""
    if len(found) == 1:
        return _verdict(found[0][1])[-1]
    met = [figure for _, figure in found if figure.met]
    unsure = len([figure for figure in met or [each for _, each in found] if not figure.sure])
    count = f"{len(met) or '**none**'} of {len(found)}" + (f" ({unsure} not sure)" if unsure else "")
    missed = [case.name + ("" if figure.sure else " (not sure)") for case, figure in found if not figure.met]
    return f"{count}; **missed**: {'; '.join(missed)}" if missed and met else count
