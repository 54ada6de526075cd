"""
The report: one HTML page that opens offline and needs nothing but itself.

Its content security policy allows no connection at all, and no script but the two that it carries (by hash).
Every text that came from outside passes Jinja's escaping, or `json_for_script`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stepbench.report import digits, headline
from stepbench.report.books import books
from stepbench.report.datasets import ecdf_figures, time_figure
from stepbench.report.labels import trial_labels, window_rows
from stepbench.report.runtime import javascript, json_for_script, own_file, specifications

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import Manifest, RunSummary, TrialResult, TrialSummary
    from stepbench.report.datasets import EcdfFigure, TimeFigure
    from stepbench.report.labels import WindowRow

MEASURES = (
    ("latency_ms", "Trigger latency", "t4 − t1"),  # noqa: RUF001 -- a minus sign
    ("after_ack_ms", "After acknowledgement", "t4 − t2"),  # noqa: RUF001
    ("response_trigger_ms", "Response time, trigger", "t4 − t0"),  # noqa: RUF001
    ("response_write_ms", "Response time, write", "t2 − t0"),  # noqa: RUF001
    ("service_ms", "Service time, write", "t2 − t1"),  # noqa: RUF001
    ("lateness_ms", "Lateness of the generator", "t1 − t0"),  # noqa: RUF001
)


@dataclass(frozen=True)
class TrialView:
    """One trial as the templates see it."""

    label: str
    summary: TrialSummary
    rows: tuple[WindowRow, ...]
    over_time: TimeFigure | None
    anchor: str


@dataclass(frozen=True)
class Script:
    """An inline script, and the hash that lets it run."""

    body: Markup
    source: str


def render_page(
    summary: RunSummary,
    results: Sequence[TrialResult],
    manifest: Manifest,
    plan: Any = None,  # noqa: ANN401 -- the plan as its user wrote it, any JSON
) -> str:
    """
    The whole page.

    Args:
        summary: the run, as `summary.json` has it.
        results: the trials' results in the same order; their summaries are not read.
        manifest: the provenance section.
        plan: the plan's JSON for the provenance section; None leaves it out.
    """
    curves = ecdf_figures([_with(result, trial) for result, trial in zip(results, summary.trials, strict=True)])
    trials = _trial_views(summary, results)
    scripts = [_script(javascript()), _script(own_file("templates/page.js").read_text("utf-8"))]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            run=summary,
            manifest=manifest,
            plan=None if plan is None else json.dumps(plan, indent=2, ensure_ascii=False),
            trials=trials,
            rows=window_rows(summary.trials),
            troubled=[view for view in trials if headline.state_of(view.summary) != "complete"],
            curves=curves,
            measures=MEASURES,
            style=Markup(own_file("templates/page.css").read_text("utf-8")),  # noqa: S704 -- our own file
            scripts=scripts,
            page_data=Markup(json_for_script(_page_data(curves, trials))),  # noqa: S704 -- escaped for its place
        )
    )


def _with(result: TrialResult, summary: TrialSummary) -> TrialResult:
    return result.model_copy(update={"summary": summary})


def _trial_views(summary: RunSummary, results: Sequence[TrialResult]) -> tuple[TrialView, ...]:
    rows = window_rows(summary.trials)
    return tuple(
        TrialView(
            label=label,
            summary=trial,
            rows=tuple(row for row in rows if row.trial is trial),
            over_time=time_figure(result),
            anchor=f"trial-{place}",
        )
        for place, (trial, label, result) in enumerate(
            zip(summary.trials, trial_labels(summary.trials), results, strict=True)
        )
    )


def _page_data(curves: Sequence[EcdfFigure], trials: Sequence[TrialView]) -> dict[str, Any]:
    """What `page.js` draws: specifications, data sets as columns, and which figure takes which."""
    datasets: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    for place, figure in enumerate(curves):
        datasets |= {f"curves-{place}": figure.curves, f"quantiles-{place}": figure.quantiles}
        named = {"curves": f"curves-{place}", "quantiles": f"quantiles-{place}"}
        figures[f"ecdf-{place}"] = {"chart": "ecdf", "data": named, "params": {"labels": figure.labels}}
    for view in trials:
        if view.over_time is None:
            continue
        datasets |= {f"seconds-{view.anchor}": view.over_time.seconds, f"phases-{view.anchor}": view.over_time.phases}
        named = {"seconds": f"seconds-{view.anchor}", "phases": f"phases-{view.anchor}"}
        figures[f"latency-{view.anchor}"] = {"chart": "latency", "data": named, "params": {}}
        top = {"top": view.over_time.top_per_s}
        figures[f"rates-{view.anchor}"] = {"chart": "rates", "data": named, "params": top}
    return {"charts": specifications(), "datasets": datasets, "figures": figures}


def _script(text: str) -> Script:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Script(Markup(text), f"'sha256-{digest}'")  # noqa: S704 -- our own files and the bundled runtime


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("stepbench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        books=books,
        caveat_words=headline.caveat_words,
        count=digits.count,
        dollars=digits.dollars,
        duration=digits.duration,
        elapsed_s=digits.elapsed_s,
        latency=digits.latency,
        moment=digits.moment,
        nothing=digits.NONE,
        offset=digits.offset,
        rate=digits.rate,
        sentence=headline.sentence,
        shown=digits.shown,
        state_of=headline.state_of,
        verdict=headline.verdict,
    )
    return environment
