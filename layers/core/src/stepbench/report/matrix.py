"""A matrix of trials as figures: one dimension as points, two as a heat map; more of them make more figures."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stepbench import digits
from stepbench.analysis.comparability import STORE, format_value, shorten_path
from stepbench.contracts.experiment import measure_of
from stepbench.report import MATRIX_ROW_PX
from stepbench.report import document as doc
from stepbench.report.boxes import BEYOND
from stepbench.report.figures import Drawing
from stepbench.report.groups import groups_nodes
from stepbench.report.run import columns, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.experiment import ExperimentName
    from stepbench.contracts.result import TrialSummary
    from stepbench.report.groups import TrialGroup
    from stepbench.report.run import Columns, Row

MAX_FIGURES = 12
_MIDDLE = 0.5
"""The colour scale's middle: darker tiles are written on in white."""


@dataclass(frozen=True)
class MatrixFigure:
    """
    It holds one figure; `data` its data sets and `params` its parameters by name.

    `across` and `down` name the settings on its axes (`down` is empty for a line-up), `title` says what all its
    trials have in common. `emulated`: at least one of its trials is.
    """

    chart: Literal["line-up", "heat-map"]
    title: str
    across: str
    down: str
    data: dict[str, Columns]
    params: dict[str, Any]
    emulated: bool
    height_px: int | None = None
    experiment: ExperimentName = "trigger"

    @property
    def joined(self) -> bool:
        """Return whether a line joins the medians."""
        return bool(self.data.get("means", {}).get("value"))


@dataclass(frozen=True)
class _Slice:
    """It holds trials that differ in one or two settings only."""

    title: str
    axes: tuple[str, ...]
    paths: tuple[str, ...]
    groups: tuple[TrialGroup, ...]


def matrix_figures(found: Sequence[TrialGroup]) -> tuple[MatrixFigure, ...]:
    """Return all figures of all matrices, `MAX_FIGURES` at most; those of one matrix share their scale."""
    figures: list[MatrixFigure] = []
    for matrix in _matrices([group for group in found if group.point]):
        varied = _varied(matrix)
        if not varied:
            continue
        ends = _ends(matrix)
        make = _line_up if len(varied) == 1 else _heat_map
        figures.extend(make(part, ends) for part in _slices(matrix, varied))
    return tuple(figures[:MAX_FIGURES])


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


def _slices(matrix: Sequence[TrialGroup], varied: tuple[str, ...]) -> Iterable[_Slice]:
    axes, rest = varied[:2], varied[2:]
    paths = tuple(matrix[0].point)
    parts: dict[tuple[str, ...], list[TrialGroup]] = {}
    for group in matrix:
        parts.setdefault(tuple(_hashable(group.point[path]) for path in rest), []).append(group)
    for groups in parts.values():
        first = groups[0]
        titles = [_called(first)] if _called(first) else []
        titles += [first.window] if len(first.trial.windows) > 1 else []
        titles += [f"{shorten_path(path, paths)} = {format_value(first.point[path])}" for path in rest]
        yield _Slice(", ".join(titles) or "All trials", axes, paths, tuple(groups))


def _line_up(part: _Slice, ends: tuple[float, float]) -> MatrixFigure:
    (path,) = part.axes
    runs: list[Row] = []
    means: list[Row] = []
    for group in part.groups:
        value = format_value(group.point[path])
        mean = group.quantile_over_runs("p50").mean.value
        if mean is not None and mean > 0:
            means.append((value, short(mean)))
        for run in group.runs:
            p50 = run.window.latency_ms.p50
            if p50.value is not None and p50.value > 0:
                bounded = p50.low is not None and p50.high is not None and p50.low > 0
                low, high = (p50.low, p50.high) if bounded else (None, None)
                runs.append((value, run.trial.repeat, run.label, p50.value, low, high, str(digits.shown(p50))))
    names = ("value", "repeat", "trial", "p50_ms", "low_ms", "high_ms", "words")
    if any(isinstance(group.point[path], str) or group.point[path] is None for group in part.groups):
        means = []  # between categories there is nothing for a line to pass through
    ordered = sorted(means, key=lambda row: _values(part.groups, path).index(str(row[0])))
    data = {"runs": columns(names, runs), "means": columns(("value", "p50_ms"), ordered)}
    params = {"labels": _values(part.groups, path), "low": ends[0], "top": ends[1]}
    across = shorten_path(path, part.paths)
    experiment = part.groups[0].trial.experiment
    return MatrixFigure("line-up", part.title, across, "", data, params, _emulated(part), None, experiment)


def _heat_map(part: _Slice, ends: tuple[float, float]) -> MatrixFigure:
    across, down = part.axes
    rows: list[Row] = []
    for group in part.groups:
        p50 = group.quantile_over_runs("p50")
        mean = p50.mean.value
        value = short(mean) if mean is not None and mean > 0 else None
        text = (
            digits.latency(mean) if mean is not None else BEYOND if BEYOND in (p50.mean.reason or "") else "no median"
        )
        place = (format_value(group.point[across]), format_value(group.point[down]))
        rows.append((*place, value, text, len(group.runs), _ink(value, ends)))
    data = {"cells": columns(("column", "row", "p50_ms", "words", "runs", "ink"), rows)}
    labels, lines = _values(part.groups, across), _values(part.groups, down)
    params = {"labels": labels, "rows": lines, "low": ends[0], "top": ends[1]}
    height = MATRIX_ROW_PX * len(lines)
    names = [shorten_path(path, part.paths) for path in part.axes]
    experiment = part.groups[0].trial.experiment
    return MatrixFigure("heat-map", part.title, names[0], names[1], data, params, _emulated(part), height, experiment)


def _values(found: Sequence[TrialGroup], path: str) -> list[str]:
    """Return all formatted values of a path; numbers in their order, others as the plan lists them."""
    values = list({_hashable(group.point[path]): group.point[path] for group in found}.values())
    if all(isinstance(value, int | float) for value in values):
        values.sort()
    return [format_value(value) for value in values]


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


def _emulated(part: _Slice) -> bool:
    return any(run.trial.emulated for group in part.groups for run in group.runs)


def _hashable(value: Any) -> str:  # noqa: ANN401 -- any JSON
    return f"{type(value).__name__}:{value!r}"


def repeats_section(
    found: Sequence[TrialGroup], trials: Sequence[TrialSummary], latency_title: str
) -> doc.Section | None:
    """Return the section on what a matrix varies; the table of groups is part of the answer where runs are repeated."""
    figures = matrix_figures(found)
    repeated = any(group.repeated for group in found)
    if not figures and (repeated or not found):
        return None
    nodes = () if repeated else groups_nodes(found, trials, latency_title)
    title, link = ("Settings and repeats", "Settings") if figures else ("Repeats", "Repeats")
    return doc.Section("repeats", title, (*((_drawn(figures),) if figures else ()), *nodes), link=link)


def _drawn(figures: Sequence[MatrixFigure]) -> doc.Figure:
    lines = [figure for figure in figures if figure.chart == "line-up"]
    joined = "; the line joins the means of the runs' medians" if any(figure.joined for figure in figures) else ""
    caption = "Median latency against the settings that the plan varies; plots of one matrix share their scale."
    if lines:
        caption += f" A mark is one run with its {doc.NINETY_FIVE} interval{joined}."
    if len(lines) < len(figures):
        caption += " A tile is the mean of its runs' medians, dark for fast and bright for slow."
    if len(figures) == MAX_FIGURES:
        caption += f" At most {MAX_FIGURES} plots are drawn; the table has every combination."
    charts = tuple(_chart(place, figure) for place, figure in enumerate(figures))
    return doc.Figure((doc.Multiples(charts, level=3),), caption, "still")


def _chart(place: int, each: MatrixFigure) -> doc.Chart:
    drawing = Drawing(f"matrix-{place}", each.chart, each.data, each.params, each.height_px, each.experiment)
    settings = f"{each.across} and {each.down}" if each.down else each.across
    axes = f"across: {each.across}; down: {each.down}" if each.down else f"p50 against {each.across}"
    title = (each.title, " " if each.emulated else "", doc.EMULATED if each.emulated else "")
    described = f"Median {measure_of(each.experiment).name} of {each.title} against {settings}"
    return doc.Chart(drawing, described, title, (doc.Sentence(axes, "note axes"),))
