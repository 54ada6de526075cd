"""
All benchmarks, or some, one after the other; then `docs/performance.md` and its chart from all results that there are.

    python -m benchmarks [names…] [--rounds N] [--quick]

Each runs in a process of its own: what one leaves behind in memory, threads or affinity is no burden of the next. One
that lacks its comparator is skipped, with the remedy; one that fails is named, and the others run on. `--quick` shows
that all of them work: its results go to `.stepbench/bench/quick/`, and the page stays as it is. What a person has to
say of a result (why a goal is missed, with a profile, and what would close the gap) is `benchmarks/results/<name>.md`:
its first paragraph is the conclusion, which the page has; all of it stands below the figures in `results/README.md`.

The chart has the ratios that have a goal: a dot with its interval on a log axis, a tick where the goal is. Altair
writes the specification and vl-convert draws it, as with the report's figures. It stands on a light ground of its own,
so that it reads the same on a dark page.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import altair as alt
import vl_convert
from benchmarks.command import RESULTS, ROOT, SKIPPED, TOOLS
from benchmarks.pages import data_page, page
from benchmarks.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.result import Case, Figure, Goal


_VERDICTS = {True: "goal met", False: "goal missed"}
_COLORS = ["#0b7285", "#c2255c"]
"""Told apart by those who see no red or green, too; the shapes say the same."""
_SHAPES = ["circle", "diamond"]
_INK, _GROUND, _GRID = "#212529", "#ffffff", "#dee2e6"
_TITLE = "ours / peer's (log scale; dark tick: the goal)"
_WIDTH_PX, _ROW_PX, _LABEL_PX, _LINE_PX = 420, 36, 370, 14
_BREAK = "|"
"""Where a label goes on in its second line."""


def specification(results: Sequence[Result]) -> dict[str, Any]:
    """Return the chart of every figure whose ratio has a goal; the page's tables have the others, too."""
    values = [
        _row(result, case, figure)
        for result in results
        for case in result.cases
        for figure in case.figures
        if _bound(figure.goal) is not None and figure.met is not None
    ]
    order = [value["row"] for value in values]
    lines = alt.Axis(
        labelExpr=f"split(datum.label, '{_BREAK}')",
        labelLimit=_LABEL_PX,
        minExtent=_LABEL_PX,  # vl-convert takes text for narrower than browsers draw it
        labelLineHeight=_LINE_PX,
        ticks=False,
        domain=False,
    )
    y = alt.Y("row:N", sort=order, title=None, axis=lines)
    x = alt.X("ratio:Q", scale=alt.Scale(type="log"), title=_TITLE)
    color = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(_VERDICTS.values()), range=_COLORS))
    shape = alt.Shape("verdict:N", title=None, scale=alt.Scale(domain=list(_VERDICTS.values()), range=_SHAPES))
    rows = alt.Chart(alt.InlineData(values=values))
    even = alt.Chart(alt.InlineData(values=[{"ratio": 1}])).mark_rule(color=_INK, strokeDash=[3, 3]).encode(x=x)
    interval = rows.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=3, opacity=0.45)
    goal = rows.transform_filter("isValid(datum.goal)").mark_tick(color=_INK, thickness=2, size=14)
    dot = rows.mark_point(filled=True, size=70, opacity=1)
    layers = alt.layer(
        even,
        interval.encode(x=alt.X("low:Q", title=_TITLE), x2="high:Q", y=y, color=color),
        goal.encode(x=alt.X("goal:Q", title=_TITLE), y=y),
        dot.encode(x=x, y=y, color=color, shape=shape),
    )
    chart = layers.properties(width=_WIDTH_PX, height=alt.Step(_ROW_PX), background=_GROUND, padding=12)
    made: dict[str, Any] = chart.configure(**_style()).to_dict()
    return made


def _row(result: Result, case: Case, figure: Figure) -> dict[str, Any]:
    low, high = figure.interval or (None, None)
    more = ", more is better" if figure.unit.endswith("/s") else ""
    return {
        "row": f"{result.benchmark}: {case.name}, {figure.name}{more}{_BREAK}beside {case.peer}",
        "ratio": figure.ratio,
        "low": low,
        "high": high,
        "goal": _bound(figure.goal),
        "verdict": _VERDICTS[bool(figure.met)],
    }


def _bound(goal: Goal | None) -> float | None:
    """Return the bound of a ratio; it is one-sided, as all goals are."""
    if goal is None or goal.of != "ratio":
        return None
    return goal.at_least if goal.at_most is None else goal.at_most


def _style() -> dict[str, Any]:
    text = {
        "labelColor": _INK,
        "titleColor": _INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "view": {"stroke": None},
        "axis": {**text, "gridColor": _GRID},
        "legend": {**text, "orient": "top", "symbolOpacity": 1},
        "font": "sans-serif",
    }


NAMES = (
    "put_item",
    "redis",
    "etcd",
    "postgresql",
    "lateness",
    "sustained",
    "records",
    "receiver",
    "shim",
    "transfer",
    "blobs",
    "analysis",
    "overhead",
    "regressions",
    "tuning",
)
"""
In the page's order.

Run by hand, for other questions: `coverage`, `stopping`, `slices`, `verdicts`, `function_truth`, `before_after`,
`invocations`.
"""
PAGE = ROOT / "docs" / "performance.md"
DATA = RESULTS / "README.md"
CHART = ROOT / "docs" / "images" / "performance.svg"
_LIMIT_S = 3_600
_GRACE_S = 30
"""A benchmark that is to end has so long to stop its servers, which have sessions of their own and would outlive it."""


class Ended(NamedTuple):
    """A benchmark's end. status: 0, or `SKIPPED`, or that of a failure. why: the end of what it said of that."""

    name: str
    status: int
    why: str


def run(name: str, options: list[str]) -> Ended:
    """Run one of them, its output on ours."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    print(f"\n$ python -m benchmarks.{name} {' '.join(options)}", flush=True)
    with tempfile.TemporaryFile(mode="w+") as said:
        # In a group of its own, so that a Ctrl-C interrupts it once, by us, and not again while it stops its servers.
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=said, process_group=0)
        try:
            status = awaited(child)
        except subprocess.TimeoutExpired:
            return Ended(name, 1, f"not done in {_LIMIT_S} s")
        said.seek(0)
        lines = said.read().strip().splitlines()
    if lines:
        print("\n".join(lines), file=sys.stderr, flush=True)
    return Ended(name, status, lines[-1] if lines else f"status {status}")


def awaited(child: subprocess.Popen[bytes], limit_s: float = _LIMIT_S, grace_s: float = _GRACE_S) -> int:
    """
    Await the exit status of a leader of its group; if we are interrupted it is, too, and has time to clean up.

    Raises:
        subprocess.TimeoutExpired: it was not done in `limit_s`, and has ended.
    """
    try:
        return child.wait(limit_s)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
        raise
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def kept(directory: Path = RESULTS) -> list[Result]:
    """Return the results that there are, in the page's order."""
    files = [directory / f"{name}.json" for name in NAMES]
    return [Result.model_validate_json(file.read_bytes()) for file in files if file.exists()]


def rendered(results: list[Result], directory: Path = RESULTS) -> tuple[str, str]:
    """
    Return the page of conclusions and the page of data, with the remarks that lie beside the results.

    The remarks' links to other pages are relative to where they lie; on the page of conclusions to `docs/`.
    """
    have = [each.benchmark for each in results]
    written = {name: directory / f"{name}.md" for name in have}
    remarks = {name: file.read_text(encoding="utf-8") for name, file in written.items() if file.exists()}
    near = {name: text.replace("](../../docs/", "](") for name, text in remarks.items()}
    return page(results, near, [name for name in NAMES if name not in have]), data_page(results, remarks)


def render() -> None:
    """Write both pages and the chart, from what lies in the directory of results."""
    results = kept()
    for path, text in zip((PAGE, DATA), rendered(results), strict=True):
        path.write_text(text, encoding="utf-8")
    CHART.write_text(vl_convert.vegalite_to_svg(specification(results)), encoding="utf-8")
    print(f"\n{PAGE.relative_to(ROOT)}: {len(results)} of {len(NAMES)} benchmarks")


def main() -> None:
    """Exit with 1 if any has failed."""
    parser = argparse.ArgumentParser(description="Run benchmarks and write docs/performance.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default all: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="of each; default: its own")
    parser.add_argument("--quick", action="store_true", help="as little as shows that they work; the page stays")
    parser.add_argument("--render", action="store_true", help="run none, write the page anew")
    asked = parser.parse_args()
    unknown = set(asked.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    options = ["--into", str(TOOLS / "quick" if asked.quick else RESULTS)]
    options += ["--quick"] if asked.quick else []
    options += ["--rounds", str(asked.rounds)] if asked.rounds else []
    ended = [] if asked.render else [run(name, options) for name in asked.names or NAMES]
    if not asked.quick:
        render()
    for each in ended:
        if each.status:
            what = "skipped" if each.status == SKIPPED else "failed"
            print(f"`{each.name}` {what}: {each.why}", file=sys.stderr)
    sys.exit(any(each.status not in (0, SKIPPED) for each in ended))


if __name__ == "__main__":
    main()
