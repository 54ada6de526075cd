"""A matrix of trials as figures: one dimension as points, two as a heat map; more of them make more figures."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench import digits
from stepbench.analysis.comparability import STORE, format_value, shorten_path
from stepbench.contracts.experiment import measure_of
from stepbench.report import MATRIX_ROW_PX
from stepbench.report import document as doc
from stepbench.report.figures import Drawing
from stepbench.report.groups import groups_nodes
from stepbench.report.numbers import BEYOND
from stepbench.report.run import columns, drawn_interval, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.result import TrialSummary
    from stepbench.report.groups import TrialGroup
    from stepbench.report.run import Columns, Row

MAX_FIGURES = 12
_MIDDLE = 0.5
"""The colour scale's middle: darker tiles are written on in white."""


class _Slice(NamedTuple):
    """Groups that differ in one or two settings only; `ends` are those of the scale of p50."""

    title: str
    axes: tuple[str, ...]
    paths: tuple[str, ...]
    groups: tuple[TrialGroup, ...]
    ends: tuple[float, float]

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


def matrix_charts(found: Sequence[TrialGroup]) -> tuple[doc.Chart, ...]:
    """Return the charts of all matrices, `MAX_FIGURES` at most; those of one matrix share their scale."""
    slices = [part for matrix in _matrices([group for group in found if group.point]) for part in _slices(matrix)]
    return tuple(_chart(place, part) for place, part in enumerate(slices[:MAX_FIGURES]))


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


def _slices(matrix: Sequence[TrialGroup]) -> Iterator[_Slice]:
    """Yield a matrix in parts of which each varies two settings at most; none, where it varies nothing."""
    varied, paths, ends = _varied(matrix), tuple(matrix[0].point), _ends(matrix)
    axes, rest = varied[:2], varied[2:]
    parts: dict[tuple[str, ...], list[TrialGroup]] = {}
    for group in matrix if varied else ():
        parts.setdefault(tuple(_hashable(group.point[path]) for path in rest), []).append(group)
    for groups in parts.values():
        first = groups[0]
        titles = [_called(first)] if _called(first) else []
        titles += [first.window] if len(first.trial.windows) > 1 else []
        titles += [f"{shorten_path(path, paths)} = {format_value(first.point[path])}" for path in rest]
        yield _Slice(", ".join(titles) or "All trials", axes, paths, tuple(groups), ends)


def _chart(place: int, part: _Slice) -> doc.Chart:
    """Return a slice's chart: a line-up of one setting, a heat map of two."""
    across, *down = (shorten_path(path, part.paths) for path in part.axes)
    first = part.groups[0].trial
    if down:
        height_px = MATRIX_ROW_PX * len(part.labels(1))
        drawing = Drawing(f"matrix-{place}", "heat-map", _tiles(part), part.params, height_px, first.experiment)
        axes = f"across: {across}; down: {down[0]}"
    else:
        drawing = Drawing(f"matrix-{place}", "line-up", _points(part), part.params, experiment=first.experiment)
        axes = f"p50 against {across}"
    emulated = any(run.trial.emulated for group in part.groups for run in group.runs)
    title = (part.title, " " if emulated else "", doc.EMULATED if emulated else "")
    settings = " and ".join((across, *down))
    described = f"Median {measure_of(first.experiment).name} of {part.title} against {settings}"
    return doc.Chart(drawing, described, title, (doc.Sentence(axes, "note axes"),))


def _points(part: _Slice) -> dict[str, Columns]:
    """Return each run with its interval, and the means through which a line passes: none between categories."""
    runs: list[Row] = []
    means: list[Row] = []
    for group in part.groups:
        mean = group.quantile_over_runs("p50").mean.value
        if mean is not None and mean > 0:
            means.append((part.value(group, 0), short(mean)))
        for run in group.runs:
            p50 = run.window.latency_ms.p50
            if p50.value is not None and p50.value > 0:
                row = (part.value(group, 0), run.trial.repeat, run.label, p50.value, *drawn_interval(p50))
                runs.append((*row, str(digits.shown(p50))))
    if any(isinstance(group.point[part.axes[0]], str | None) for group in part.groups):
        means = []
    means.sort(key=lambda row: part.labels(0).index(str(row[0])))
    names = ("value", "repeat", "trial", "p50_ms", "low_ms", "high_ms", "words")
    return {"runs": columns(names, runs), "means": columns(("value", "p50_ms"), means)}


def _tiles(part: _Slice) -> dict[str, Columns]:
    rows: list[Row] = []
    for group in part.groups:
        p50 = group.quantile_over_runs("p50").mean
        value = short(p50.value) if p50.value is not None and p50.value > 0 else None
        text = BEYOND if BEYOND in (p50.reason or "") else "no median"
        text = text if p50.value is None else digits.latency(p50.value)
        rows.append((part.value(group, 0), part.value(group, 1), value, text, len(group.runs), _ink(value, part.ends)))
    return {"cells": columns(("column", "row", "p50_ms", "words", "runs", "ink"), rows)}


def _ends(matrix: Sequence[TrialGroup]) -> tuple[float, float]:
    """Return where the scale of p50 begins and ends, a little beyond all values and intervals."""
    estimates = [run.window.latency_ms.p50 for group in matrix for run in group.runs]
    values = [value for each in estimates for value in (each.value, each.low, each.high) if value and value > 0]
    return (short(min(values) / 1.15), short(max(values) * 1.15)) if values else (0.1, 1.0)


def _ink(value: float | None, ends: tuple[float, float]) -> str | None:
    if value is None:
        return None
    low, high = map(math.log, ends)
    return "dark" if (math.log(value) - low) / (high - low) > _MIDDLE else "light"


def _hashable(value: Any) -> str:  # noqa: ANN401 -- any JSON
    return f"{type(value).__name__}:{value!r}"


def repeats_section(
    found: Sequence[TrialGroup], trials: Sequence[TrialSummary], latency_title: str
) -> doc.Section | None:
    """Return the section on what a matrix varies; the table of groups is part of the answer where runs are repeated."""
    charts = matrix_charts(found)
    repeated = any(group.repeated for group in found)
    if not charts and (repeated or not found):
        return None
    nodes = () if repeated else groups_nodes(found, trials, latency_title)
    title, link = ("Settings and repeats", "Settings") if charts else ("Repeats", "Repeats")
    return doc.Section("repeats", title, (*((_figure(charts),) if charts else ()), *nodes), link=link)


def _figure(charts: tuple[doc.Chart, ...]) -> doc.Figure:
    lines = [chart.drawing.data["means"] for chart in charts if chart.drawing.chart == "line-up"]
    joined = "; the line joins the means of the runs' medians" if any(each["value"] for each in lines) else ""
    caption = "Median latency against the settings that the plan varies; plots of one matrix share their scale."
    if lines:
        caption += f" A mark is one run with its {doc.NINETY_FIVE} interval{joined}."
    if len(lines) < len(charts):
        caption += " A tile is the mean of its runs' medians, dark for fast and bright for slow."
    if len(charts) == MAX_FIGURES:
        caption += f" At most {MAX_FIGURES} plots are drawn; the table has every combination."
    return doc.Figure((doc.Multiples(charts, level=3),), caption, "still")
