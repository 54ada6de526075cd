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

from stepbench import digits
from stepbench.contracts.measure import TRIGGER_LATENCY, measure_of
from stepbench.costs.price_table import unit_price
from stepbench.report import (
    boxes,
    changes,
    comparisons,
    costs,
    headline,
    operations,
    percentiles,
    thresholds,
    transfers,
    verdicts,
)
from stepbench.report.accounting import (
    accounting_adds_up,
    accounting_is_whole,
    accounting_sections,
    describe_accounting,
)
from stepbench.report.answers import answers
from stepbench.report.caveats import caveat_groups
from stepbench.report.clock_check import MEASURES as CLOCK_MEASURES
from stepbench.report.clock_check import clock_drawings, clock_figures
from stepbench.report.datasets import time_figure
from stepbench.report.deliveries import describe_deliveries
from stepbench.report.figures import (
    javascript,
    json_for_script,
    own_file,
    page_data,
    run_drawings,
    run_figures,
    step_drawings,
    time_drawings,
)
from stepbench.report.groups import format_point, groups, unmeasured
from stepbench.report.labels import trial_labels, window_label, window_rows
from stepbench.report.matrix import MAX_FIGURES, matrix_figures
from stepbench.report.operations import scaling_figures
from stepbench.report.shares import format_share, share_figures, share_rows
from stepbench.report.steps import step_figures, step_starts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.drawn import PhaseSpan
    from stepbench.contracts.manifest import Manifest
    from stepbench.contracts.measure import LatencyDefinition
    from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary
    from stepbench.report.datasets import TimeFigure
    from stepbench.report.figures import Drawing
    from stepbench.report.labels import WindowRow
    from stepbench.report.steps import StepFigure
    from stepbench.report.transfers import TransferView

MAX_SENTENCES = 4
"""More are folded: a matrix would have more than anyone reads."""
MAX_OPEN_THRESHOLDS = 12
"""More rows are folded: the first are the worst."""
MAX_COLUMNS = 6
"""More trials beside one another are wider than paper."""
PHONE_ROWS, PHONE_SENTENCES = 6, 2
"""A phone shows no more rows of a table and sentences of a list at once; `templates/page.css` counts them, too."""
_LATENESS = ("lateness_ms", "Lateness of the generator", "t1 − t0")  # noqa: RUF001 -- a minus sign
MEASURES = {
    "trigger": (
        ("latency_ms", "Trigger latency", "t4 − t1"),  # noqa: RUF001
        ("after_ack_ms", "After acknowledgement", "t4 − t2"),  # noqa: RUF001
        ("to_event_ms", "Send to the store's event time", "t3 − t1"),  # noqa: RUF001
        ("from_event_ms", "The store's event time to the function", "t4 − t3"),  # noqa: RUF001
        ("response_trigger_ms", "Response time, trigger", "t4 − t0"),  # noqa: RUF001
        ("response_write_ms", "Response time, write", "t2 − t0"),  # noqa: RUF001
        ("service_ms", "Service time, write", "t2 − t1"),  # noqa: RUF001
        _LATENESS,
    ),
    "operations": (
        ("latency_ms", "Service time", "t2 − t1"),  # noqa: RUF001
        ("response_write_ms", "Response time", "t2 − t0"),  # noqa: RUF001
        _LATENESS,
    ),
}


@dataclass(frozen=True)
class TrialView:
    """It shows one trial to the templates."""

    label: str
    summary: TrialSummary
    rows: tuple[WindowRow, ...]
    phases: tuple[PhaseSpan, ...]
    over_time: TimeFigure | None
    steps: tuple[StepFigure, ...]
    anchor: str
    transfers: TransferView | None = None
    """Of the experiment `transfer` only: it has neither windows nor events, and so none of the other sections."""

    @property
    def measure(self) -> LatencyDefinition:
        """Return what its latency is."""
        return measure_of(self.summary.experiment)

    @property
    def whole(self) -> bool:
        """Return whether every event of it went its ordinary way."""
        return accounting_is_whole([self.summary.accounting])

    @property
    def changed(self) -> bool:
        """Return whether it has any steps, comparisons or change points to show."""
        return bool(self.steps or self.summary.comparisons or self.summary.change_points)

    def step_times(self, phase: str) -> tuple[float, ...]:
        """Return when the load of a phase changes, in its own seconds."""
        return next((step_starts(span) for span in self.phases if span.name == phase), ())


@dataclass(frozen=True)
class Script:
    """It holds an inline script, and the hash by which the page's policy allows it."""

    body: Markup
    source: str


def render_page(
    summary: RunSummary,
    results: Sequence[TrialResult],
    manifest: Manifest,
    plan: Any = None,  # noqa: ANN401 -- the plan as its user wrote it, any JSON
    trends: str = "",
) -> str:
    """
    Render the whole page.

    Args:
        summary: the run, as `summary.json` has it.
        results: the trials' results in the same order; their summaries are not read.
        manifest: the provenance section.
        plan: the plan's JSON for the provenance section; None leaves it out.
        trends: the section on the plan's runs, one after another; empty leaves it out.
    """
    pairs = zip(results, summary.trials, strict=True)
    own = [result.model_copy(update={"summary": trial}) for result, trial in pairs]
    trials = _trial_views(summary, own)
    grouped = groups(summary.trials)
    shares = share_rows(summary.shares, summary.trials)
    figures = run_figures(own, matrix_figures(grouped), share_figures(shares), scaling_figures(summary))
    clocks = clock_figures(summary, own)
    drawings = [*run_drawings(figures), *_trial_drawings(trials), *clock_drawings(clocks)]
    experiments = {trial.experiment for trial in summary.trials}
    return (
        page_environment()
        .get_template("page.html.j2")
        .render(
            run=summary,
            manifest=manifest,
            plan=None if plan is None else json.dumps(plan, indent=2, ensure_ascii=False),
            trials=trials,
            trends=trends,
            triggers=[view for view in trials if view.summary.experiment == "trigger"],
            operating=[view for view in trials if view.summary.experiment == "operations"],
            transferring=[view.transfers for view in trials if view.transfers is not None],
            loaded=[view for view in trials if view.summary.experiment != "transfer"],
            only_transfers=experiments == {"transfer"},
            latency_title=_latency_title(summary.trials),
            rows=window_rows(summary.trials),
            verdicts=verdicts.verdict_views(summary),
            caveat_groups=caveat_groups(summary.trials),
            answers=answers(summary, grouped),
            troubled=[view for view in trials if headline.state_of(view.summary) != "complete"],
            figures=figures,
            groups=grouped,
            repeated=any(group.repeated for group in grouped),
            share_rows=shares,
            clock_figures=clocks,
            unmeasured=unmeasured(summary.trials),
            published=[(view, each) for view in trials for each in comparisons.scored(view.summary, summary)],
            compared=[(view, each) for view in trials for each in view.summary.comparisons],
            changed=any(view.changed for view in trials),
            thresholds=thresholds.threshold_rows(summary),
            missed=thresholds.describe_missed(summary),
            undecided=thresholds.describe_undecided(summary),
            kept=thresholds.describe_all_kept(summary),
            per_dollar=costs.per_dollar_rows(summary),
            searching=[view for view in trials if view.summary.found_rate is not None],
            style=page_style(),
            scripts=page_scripts(),
            page_data=Markup(json_for_script(page_data(drawings))),  # noqa: S704 -- escaped for its place
        )
    )


def _trial_views(summary: RunSummary, results: Sequence[TrialResult]) -> tuple[TrialView, ...]:
    rows = window_rows(summary.trials)
    return tuple(
        TrialView(
            label=label,
            summary=trial,
            rows=tuple(row for row in rows if row.trial is trial),
            phases=result.phases,
            over_time=time_figure(result),
            steps=step_figures(result),
            anchor=f"trial-{place}",
            transfers=_transfers(label, f"trial-{place}", result),
        )
        for place, (trial, label, result) in enumerate(
            zip(summary.trials, trial_labels(summary.trials), results, strict=True)
        )
    )


def _transfers(label: str, anchor: str, result: TrialResult) -> TransferView | None:
    trial = result.summary
    if trial.transfers is None or result.transfers is None:
        return None
    shown = transfers.Transfers(trial.transfers, result.transfers, trial.stand_ins, trial.published_transfers)
    return transfers.transfer_view(label, anchor, shown)


def _trial_drawings(trials: Sequence[TrialView]) -> Iterator[Drawing]:
    for view in trials:
        for number, figure in enumerate(view.steps):
            yield from step_drawings(view.anchor, number, figure, view.summary.experiment)
        if view.over_time is not None:
            yield from time_drawings(view.anchor, view.over_time, view.summary.experiment)
        if view.transfers is not None:
            yield from view.transfers.figures.drawings


def _latency_title(trials: Sequence[TrialSummary]) -> str:
    """Return the title of the latency in tables of all trials."""
    experiments = {trial.experiment for trial in trials}
    if len(experiments) == 1:
        return measure_of(experiments.pop()).title
    return f"{TRIGGER_LATENCY.title}, of operations their service time,"


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def page_style() -> Markup:
    """Return the style sheet of every page."""
    return Markup(own_file("templates/page.css").read_text("utf-8"))  # noqa: S704 -- our own file


def page_scripts() -> list[Script]:
    """Return the two scripts of every page: what draws, and what has it drawn."""
    return [_script(javascript()), _script(own_file("templates/page.js").read_text("utf-8"))]


def _script(text: str) -> Script:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Script(Markup(text), f"'sha256-{digest}'")  # noqa: S704 -- our own files and the bundled runtime


_GLOBALS: dict[str, Any] = {
    "accounting_adds_up": accounting_adds_up,
    "accounting_sections": accounting_sections,
    "describe_accounting": describe_accounting,
    "boxes": boxes,
    "changes": changes,
    "clock_measures": CLOCK_MEASURES,
    "comparisons": comparisons,
    "describe_deliveries": describe_deliveries,
    "digits": digits,
    "headline": headline,
    "max_matrix_figures": MAX_FIGURES,
    "max_columns": MAX_COLUMNS,
    "max_open_thresholds": MAX_OPEN_THRESHOLDS,
    "max_sentences": MAX_SENTENCES,
    "phone_rows": PHONE_ROWS,
    "phone_sentences": PHONE_SENTENCES,
    "measure_of": measure_of,
    "measures": MEASURES,
    "ops": operations,
    "percentiles": percentiles,
    "format_point": format_point,
    "costs": costs,
    "unit_price": unit_price,
    "sentence_case": _sentence_case,
    "describe_kept": thresholds.describe_kept,
    "format_share": format_share,
    "units": {
        "ms": None,
        "ratio": digits.TIMES,
        "s": digits.SECONDS_AS_SUCH,
        "per_minute": digits.PER_MINUTE,
        "clients": operations.CLIENTS,
        "per_s": operations.PER_S,
        "share": operations.SHARE,
        "d": digits.DISTANCE,
        "mib_per_s": transfers.MIB_PER_S,
    },
    "transfers": transfers,
    "verdict_words": verdicts,
    "window_label": window_label,
}
"""The modules, functions and constants that the templates use."""


@lru_cache(maxsize=1)
def page_environment() -> Environment:
    """Return the templates of all pages, with what they use."""
    environment = Environment(
        loader=PackageLoader("stepbench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(_GLOBALS)
    return environment
