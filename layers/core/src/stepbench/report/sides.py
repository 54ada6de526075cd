"""
Two versions of a function side by side: quantiles of what the run is judged by, and how far they lie apart.

Each quantile is over the runs of a side, with its interval; the difference is what a verdict on it would say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.analysis.comparability import format_value
from stepbench.analysis.judged import judged_over_runs, shown
from stepbench.analysis.one_verdict import judged_effects, runs_of
from stepbench.analysis.pairs import Group
from stepbench.analysis.verdict_text import name_sides
from stepbench.analysis.verdicts import group_spells
from stepbench.contracts.experiment import QUANTILES
from stepbench.report import SIDES_ROW_PX
from stepbench.report import document as doc
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, drawn_interval, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.across_trials import Effect, Verdict
    from stepbench.contracts.thresholds import Judge
    from stepbench.report.groups import TrialGroup
    from stepbench.report.run import Row

_VERSIONS = re.compile(r"target\.function\.(package|name|snap_start)")
_TWO = 2
_SHOWN = ("p50", "p90", "p99")


class Compared(NamedTuple):
    """Two groups of one matrix, `b` against `a`, whose verdict is known; by which measure."""

    a: TrialGroup
    b: TrialGroup
    names: tuple[str, str]
    judge: Judge
    verdict: Verdict


def find_compared(
    path: str, groups: Sequence[TrialGroup], judge: Judge, verdicts: Sequence[Verdict]
) -> Compared | None:
    """Return two versions of a function that the plan sets against each other, judged by a quantile; else None."""
    if not _VERSIONS.fullmatch(path) or judge.statistic not in QUANTILES or len(groups) != _TWO:
        return None
    by_name = {group.name: group for group in groups}
    for verdict in verdicts:
        a, b = (by_name.get(side.group) for side in (verdict.a, verdict.b))
        place = (groups[0].phase, groups[0].window)
        if a and b and verdict.aspect == path and (verdict.b.phase, verdict.b.window) == place:
            said = name_sides(path, verdict.a, verdict.b)
            switched = isinstance(a.point[path], bool)  # no version is called true
            names = (said.a, said.b) if switched else (format_value(a.point[path]), format_value(b.point[path]))
            return Compared(a, b, names, judge, verdict)
    return None


def sides_chart(place: int, found: Compared) -> doc.Chart:
    """Return the chart: a row for each quantile, on which both sides lie, below the difference in words."""
    marks: list[Row] = []
    runs: list[Row] = []
    rows: list[Row] = []
    for judge in _judges(found.judge):
        sides = dict(zip(found.names, (found.a, found.b), strict=True))
        words = []
        for name, group in sides.items():
            estimate = judged_over_runs(judge, [(run.trial, run.window) for run in group.runs])
            words.append(str(shown(judge, estimate)))
            if estimate.value is not None and estimate.value > 0:
                marks.append((judge.statistic, name, short(estimate.value), *drawn_interval(estimate)))
            own = [judged_over_runs(judge, [(run.trial, run.window)]).value for run in group.runs]
            runs += [(judge.statistic, name, short(value)) for value in own if value is not None and value > 0]
        rows.append((judge.statistic, f"{judge.statistic}: {_difference(judge, found)}", *words))
    data = {
        "marks": columns(("row", "series", "judged", "low", "high"), marks),
        "runs": columns(("row", "series", "judged"), runs),
        "rows": columns(("row", "caption", "first", "second"), rows),
    }
    values = [value for row in (*marks, *runs) for value in row[2:] if isinstance(value, float)]
    ends = {"low": short(min(values, default=0.1) / 1.02), "top": short(max(values, default=1.0) * 1.02)}
    longest = max(map(len, found.names))
    params = {"labels": [*found.names], "rows": [row[0] for row in rows], "entry_px": 30 + 7 * longest, **ends}
    measure = found.judge.name.removesuffix(found.judge.statistic).strip()
    drawing = Drawing(
        f"sides-{place}", "sides", data, params, SIDES_ROW_PX * len(rows), found.a.trial.experiment,
        measure or "trigger latency",
    )  # fmt: skip
    described = f"{found.judge.title} of {found.names[1]} beside {found.names[0]}, at {digits.listed(_SHOWN)}"
    return doc.Chart(drawing, described)


def sides_figure(charts: Sequence[doc.Chart]) -> doc.Figure | None:
    """Return the figure of all that are compared."""
    if not charts:
        return None
    repeated = any(len(chart.drawing.data["runs"]["row"]) > len(chart.drawing.data["marks"]["row"]) for chart in charts)
    runs = (
        f"the mean over the runs with its {doc.NINETY_FIVE} interval, small dots for the single runs"
        if repeated
        else f"single runs with their {doc.NINETY_FIVE} intervals, which do not include how far runs lie apart"
    )
    caption = (
        f"Both sides at several quantiles: {runs}. Above each the second side against the first, with the interval of "
        "the difference."
    )
    return doc.Figure((doc.Multiples(tuple(charts), level=3),), caption, "still")


def _judges(judge: Judge) -> Iterator[Judge]:
    """Yield the measure at the quantiles that are shown, and at its own."""
    names = {*_SHOWN, judge.statistic}
    return (judge.model_copy(update={"statistic": name}) for name in QUANTILES if name in names)


def _difference(judge: Judge, found: Compared) -> str:
    """Return `9.8 % slower [8.9 to 10.7 %]`, or why there is no difference to show."""
    if found.verdict.unlike:
        return "not compared"
    effect = _effect(judge, found)
    if effect.ratio is None or effect.ratio.value is None or effect.ratio.low is None:
        reason = (effect.ratio.reason if effect.ratio else "") or "no interval"
        return f"not shown ({digits.brief(reason)})"
    return digits.effect(effect.ratio).replace("lower", "faster").replace("higher", "slower")


def _effect(judge: Judge, found: Compared) -> Effect:
    place = (found.a.phase, found.a.window)
    sides = [Group(group.name, tuple(run.trial for run in group.runs)) for group in (found.a, found.b)]
    spells = (group_spells(sides[0], place), group_spells(sides[1], place))
    return judged_effects(judge, runs_of(sides[0], place), runs_of(sides[1], place), spells)[0]
