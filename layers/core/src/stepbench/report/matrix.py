"""
A matrix of trials as figures: one dimension as points, two as a heat map; more of them make more figures.

They show what the run is judged by. Two versions of a function have a figure of their own.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench import digits
from stepbench.analysis.comparability import STORE, format_value, shorten_path
from stepbench.analysis.judged import MEDIAN, judged_over_runs, shown, unit_of
from stepbench.contracts.experiment import measure_of
from stepbench.report import MATRIX_ROW_PX
from stepbench.report import document as doc
from stepbench.report.figures import Drawing
from stepbench.report.groups import groups_nodes
from stepbench.report.numbers import BEYOND
from stepbench.report.run import columns, drawn_interval, short
from stepbench.report.sides import find_compared, sides_chart, sides_figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.across_trials import Verdict
    from stepbench.contracts.experiment import ExperimentName
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import RunSummary
    from stepbench.contracts.thresholds import Judge
    from stepbench.report.groups import GroupRun, TrialGroup
    from stepbench.report.run import Columns, Row
    from stepbench.report.sides import Compared

MEMORY = "target.function.memory_mib"
"""Its figure has the cost, too, in a section of its own."""
MAX_FIGURES = 12
_MIDDLE = 0.5
"""The colour scale's middle: darker tiles are written on in white."""


class _Slice(NamedTuple):
    """Groups that differ in one or two settings only; `ends` are those of the scale of what is judged."""

    title: str
    axes: tuple[str, ...]
    paths: tuple[str, ...]
    groups: tuple[TrialGroup, ...]
    ends: tuple[float, float]
    judge: Judge

    def labels(self, axis: int) -> list[str]:
        """Return all formatted values of a setting; numbers in their order, others as the plan lists them."""
        points = [group.point[self.axes[axis]] for group in self.groups]
        values = list({_hashable(value): value for value in points}.values())
        if all(isinstance(value, int | float) for value in values):
            values.sort()
        return [format_value(value) for value in values]

    def value(self, group: TrialGroup, axis: int) -> str:
        """Return a group's formatted value of a setting."""
        return format_value(group.point[self.axes[axis]])

    @property
    def params(self) -> dict[str, Any]:
        """Return the parameters of its chart: the first setting lies across, the second down."""
        rows = {"rows": self.labels(1)} if len(self.axes) > 1 else {}
        return {"labels": self.labels(0), **rows, "low": self.ends[0], "top": self.ends[1]}


def matrix_charts(
    found: Sequence[TrialGroup], judge: Judge | None = None, verdicts: Sequence[Verdict] = ()
) -> tuple[doc.Chart, ...]:
    """Return the charts of all matrices, `MAX_FIGURES` at most; those of one matrix share their scale."""
    slices = [part for part in _all_slices(found, judge) if part.axes != (MEMORY,) and not _compared(part, verdicts)]
    return tuple(_chart(place, part) for place, part in enumerate(slices[:MAX_FIGURES]))


def compared_figure(run: RunSummary, found: Sequence[TrialGroup]) -> doc.Figure | None:
    """Return the figure of versions of a function that the plan sets against each other; None without any."""
    slices = [(part, _compared(part, run.verdicts)) for part in _all_slices(found, run.judge)]
    pairs = [(part, sides) for part, sides in slices if sides is not None][:MAX_FIGURES]
    return sides_figure(
        [sides_chart(place, sides)._replace(title=_title(part)) for place, (part, sides) in enumerate(pairs)]
    )


def _all_slices(found: Sequence[TrialGroup], judge: Judge | None) -> list[_Slice]:
    matrices = _matrices([group for group in found if group.point])
    return [part for matrix in matrices for part in _slices(matrix, judge or MEDIAN)]


def _compared(part: _Slice, verdicts: Sequence[Verdict]) -> Compared | None:
    return find_compared(part.axes[0], part.groups, part.judge, verdicts)


def _title(part: _Slice) -> doc.Text:
    """Return the slice's title; its plot may be saved by itself, so that it says what is emulated."""
    emulated = any(run.trial.emulated for group in part.groups for run in group.runs)
    return (part.title, " " if emulated else "", doc.EMULATED if emulated else "")


def _matrices(found: Sequence[TrialGroup]) -> Iterable[list[TrialGroup]]:
    """
    Return the groups of each matrix: the same settings vary, of trials that have one name in the plan.

    Two matrices without a name may have the same settings; the second value of one point then belongs to the second.
    """
    matrices: dict[tuple[Any, ...], list[TrialGroup]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for group in found:
        key = (_called(group), tuple(sorted(group.point)), group.phase, group.window)
        point = (*key, *[_hashable(group.point[path]) for path in sorted(group.point)])
        matrices.setdefault((*key, seen[point]), []).append(group)
        seen[point] += 1
    return matrices.values()


def _called(group: TrialGroup) -> str:
    """Return the trial's name in the plan, or its store; nothing where the store is a setting."""
    return group.trial.base or ("" if STORE in group.point else group.trial.store)


def _varied(matrix: Sequence[TrialGroup]) -> tuple[str, ...]:
    """Return the paths with more than one value, those with most first: they become the axes."""
    values = {path: {_hashable(group.point[path]) for group in matrix} for path in matrix[0].point}
    return tuple(sorted((path for path in values if len(values[path]) > 1), key=lambda path: -len(values[path])))


def _slices(matrix: Sequence[TrialGroup], judge: Judge) -> Iterator[_Slice]:
    """Yield a matrix in parts of which each varies two settings at most; none, where it varies nothing."""
    varied, paths, ends = _varied(matrix), tuple(matrix[0].point), _ends(matrix, judge)
    axes, rest = varied[:2], varied[2:]
    parts: dict[tuple[str, ...], list[TrialGroup]] = {}
    for group in matrix if varied else ():
        parts.setdefault(tuple(_hashable(group.point[path]) for path in rest), []).append(group)
    for groups in parts.values():
        first = groups[0]
        titles = [_called(first)] if _called(first) else []
        titles += [first.window] if len(first.trial.windows) > 1 else []
        titles += [f"{shorten_path(path, paths)} = {format_value(first.point[path])}" for path in rest]
        yield _Slice(", ".join(titles) or "All trials", axes, paths, tuple(groups), ends, judge)


def _chart(place: int, part: _Slice) -> doc.Chart:
    """Return a slice's chart: a line-up of one setting, a heat map of two."""
    across, *down = (shorten_path(path, part.paths) for path in part.axes)
    first, judge = part.groups[0].trial, part.judge
    if down:
        height_px = MATRIX_ROW_PX * len(part.labels(1))
        drawing = Drawing(
            f"matrix-{place}", "heat-map", _tiles(part), part.params, height_px, first.experiment, _measure(judge)
        )
        axes = f"across: {across}; down: {down[0]}"
    else:
        chart = "line-up" if unit_of(judge.statistic) is None else "line-up-from-0"
        drawing = Drawing(
            f"matrix-{place}", chart, _points(part), part.params, experiment=first.experiment, measure=_measure(judge)
        )
        axes = f"{_measure(judge) or judge.name} against {across}"
    settings = " and ".join((across, *down))
    described = f"{_name(judge, first.experiment)} of {part.title} against {settings}"
    return doc.Chart(drawing, described, _title(part), (doc.Sentence(axes, "note axes"),))


def _measure(judge: Judge) -> str:
    """Return what axes call it, with its unit where that is on neither ticks nor tiles."""
    unit = unit_of(judge.statistic)
    return "" if judge == MEDIAN else f"{judge.name} ({unit.name})" if unit else judge.name


def _name(judge: Judge, experiment: ExperimentName) -> str:
    return f"Median {measure_of(experiment).name}" if judge == MEDIAN else judge.title


def _of_run(run: GroupRun, judge: Judge) -> Estimate:
    return judged_over_runs(judge, [(run.trial, run.window)])


def _in_unit(judge: Judge, found: Estimate) -> Estimate:
    """Return it as it is drawn: a share in per cent, what is no time in its unit, a time in ms."""
    unit = unit_of(judge.statistic)
    ends = {name: value for name in ("value", "low", "high") if (value := getattr(found, name)) is not None}
    return found.model_copy(update={name: value * unit.per_ms for name, value in ends.items()} if unit else {})


def _points(part: _Slice) -> dict[str, Columns]:
    """Return each run with its interval, and the means through which a line passes: none between categories."""
    runs: list[Row] = []
    means: list[Row] = []
    timed = unit_of(part.judge.statistic) is None
    lowest = 0.0 if timed else -math.inf
    for group in part.groups:
        mean = _in_unit(part.judge, group.judged(part.judge)).value
        if mean is not None and mean > lowest:
            means.append((part.value(group, 0), short(mean)))
        for run in group.runs:
            words = str(shown(part.judge, estimate := _of_run(run, part.judge)))
            found = _in_unit(part.judge, estimate)
            if found.value is not None and found.value > lowest:
                ends = drawn_interval(found) if timed else (found.low, found.high)
                runs.append((part.value(group, 0), run.trial.repeat, run.label, found.value, *ends, words))
    if any(isinstance(group.point[part.axes[0]], str | None) for group in part.groups):
        means = []
    means.sort(key=lambda row: part.labels(0).index(str(row[0])))
    names = ("value", "repeat", "trial", "judged", "low", "high", "words")
    return {"runs": columns(names, runs), "means": columns(("value", "judged"), means)}


def _tiles(part: _Slice) -> dict[str, Columns]:
    rows: list[Row] = []
    for group in part.groups:
        found = _in_unit(part.judge, group.judged(part.judge))
        value = short(found.value) if found.value is not None and found.value > 0 else None
        row = (part.value(group, 0), part.value(group, 1), value, _tile(part.judge, found))
        rows.append((*row, len(group.runs), _ink(value, part.ends)))
    return {"cells": columns(("column", "row", "judged", "words", "runs", "ink"), rows)}


def _tile(judge: Judge, found: Estimate) -> str:
    """Return what is written on a tile: there is no room for an interval, nor for the longer units."""
    if found.value is None:
        return BEYOND if BEYOND in (found.reason or "") else f"no {'median' if judge == MEDIAN else 'value'}"
    return digits.latency(found.value) if unit_of(judge.statistic) is None else digits.rounded(found.value)


def _ends(matrix: Sequence[TrialGroup], judge: Judge) -> tuple[float, float]:
    """Return where the scale begins and ends, a little beyond all values and intervals."""
    estimates = [_in_unit(judge, _of_run(run, judge)) for group in matrix for run in group.runs]
    values = [value for each in estimates for value in (each.value, each.low, each.high) if value and value > 0]
    return (short(min(values) / 1.15), short(max(values) * 1.15)) if values else (0.1, 1.0)


def _ink(value: float | None, ends: tuple[float, float]) -> str | None:
    if value is None:
        return None
    low, high = map(math.log, ends)
    return "dark" if (math.log(value) - low) / (high - low) > _MIDDLE else "light"


def _hashable(value: Any) -> str:  # noqa: ANN401 -- any JSON
    return f"{type(value).__name__}:{value!r}"


def repeats_section(run: RunSummary, found: Sequence[TrialGroup], latency_title: str) -> doc.Section | None:
    """Return the section on what a matrix varies; the table of groups is part of the answer where runs are repeated."""
    charts = matrix_charts(found, run.judge, run.verdicts)
    repeated = any(group.repeated for group in found)
    if not charts and (repeated or not found):
        return None
    nodes = () if repeated else groups_nodes(found, run.trials, latency_title, run.judge)
    title, link = ("Settings and repeats", "Settings") if charts else ("Repeats", "Repeats")
    figures = (_figure(charts, run.judge or MEDIAN),) if charts else ()
    return doc.Section("repeats", title, (*figures, *nodes), link=link)


def _figure(charts: tuple[doc.Chart, ...], judge: Judge) -> doc.Figure:
    kinds = [chart.drawing.chart for chart in charts]
    lines = [chart.drawing.data["means"] for chart in charts if chart.drawing.chart.startswith("line-up")]
    runs = [chart.drawing.data["runs"] for chart in charts if "runs" in chart.drawing.data]
    median = judge == MEDIAN
    joined = "; the line joins the means of the runs" if any(each["value"] for each in lines) else ""
    joined += "' medians" if joined and median else ""
    measure = _measure(judge)
    name = "Median latency" if median else f"{judge.title}{measure.removeprefix(judge.name)}"
    caption = f"{name} against the settings that the plan varies; plots of one matrix share their scale."
    if lines:
        bounded = any(low is not None for each in runs for low in each["low"])
        interval = f" with its {doc.NINETY_FIVE} interval" if bounded else ""
        caption += f" A mark is one run{interval}{joined}."
    if "heat-map" in kinds:
        looks = "dark for fast and bright for slow" if unit_of(judge.statistic) is None else "dark for low"
        of = "runs' medians" if median else "runs"
        caption += f" A tile is the mean of its {of}, {looks}."
    if len(charts) == MAX_FIGURES:
        caption += f" At most {MAX_FIGURES} plots are drawn; the table has every combination."
    return doc.Figure((doc.Multiples(charts, level=3),), caption, "still")
