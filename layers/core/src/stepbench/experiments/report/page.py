"""
The report: one HTML page that opens offline and needs nothing but itself.

Its content security policy allows no connection at all, and no script but the two that it carries (by hash).
Every text that came from outside passes Jinja's escaping, that of `report.html`, or `json_for_script`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

from jinja2 import PackageLoader
from markupsafe import Markup

from stepbench import digits
from stepbench.analysis.judged import first_sentence
from stepbench.contracts.experiment import ExperimentName
from stepbench.experiments.registry import experiment_of, experiments
from stepbench.experiments.report.headline import describe_window, headline_tables
from stepbench.report import document as doc
from stepbench.report.accounting import accounting_section
from stepbench.report.caveats import caveats_section, describe_conditions, problems_section
from stepbench.report.clock_check import clock_section
from stepbench.report.comparisons import published_section, share_rows, share_sentences, shares_section
from stepbench.report.costs import cost_section
from stepbench.report.deliveries import invocations_section, load_section
from stepbench.report.distribution import distribution_section
from stepbench.report.figures import json_for_script, own_file, page_data, page_scripts
from stepbench.report.groups import groups, groups_nodes
from stepbench.report.html import template_environment, to_html
from stepbench.report.matrix import compared_figure, repeats_section
from stepbench.report.run import run_view, window_rows
from stepbench.report.steps import steps_section
from stepbench.report.thresholds import describe_all_kept, describe_missed, describe_undecided, thresholds_section
from stepbench.report.times import over_time_section, times_section
from stepbench.report.verdicts import of_settings, verdict_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jinja2 import Environment

    from stepbench.contracts.documents import Manifest
    from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary
    from stepbench.contracts.thresholds import Judge
    from stepbench.experiments.protocol import Report
    from stepbench.report.figures import Drawing
    from stepbench.report.groups import TrialGroup
    from stepbench.report.run import RunView

MOST_BEFORE = 12
"""Answers of more windows than these stand behind the table, folded."""


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
    run = run_view(summary, results, manifest)
    return render_document(
        "page",
        (*_first_sections(run), *_answer_sections(run)),
        tuple(_last_sections(run)),
        run=summary,
        trials=run.trials,
        missed=doc.sentence_case(describe_missed(summary)),
        errors=any(row.window.errors for row in run.rows),
        manifest=manifest,
        plan=None if plan is None else json.dumps(plan, indent=2, ensure_ascii=False),
        trends=Markup(trends),  # noqa: S704 -- its own template has escaped it
    )


def _first_sections(run: RunView) -> Iterator[doc.Node]:
    """Yield what went wrong, then the sections of experiments whose every trial answers by itself."""
    if problems := problems_section(run):
        yield problems
    if run.windowless and run.summary.question:
        yield doc.Sentence(run.summary.question, "description")
    yield from _own_sections(run, lambda report: not report.QUESTION)


def _own_sections(run: RunView, stand_here: Callable[[Report], bool]) -> Iterator[doc.Section]:
    """Yield the sections of those experiments whose place this is."""
    for experiment in experiments():
        if stand_here(experiment.report):
            yield from experiment.report.sections(run)


def _answer_sections(run: RunView) -> Iterator[doc.Node]:
    """Yield the answer, and what is about all trials together."""
    summary, found = run.summary, groups(run.summary.trials)
    if not run.windowless:
        yield answer_section(run, found)
    yield from _own_sections(run, lambda report: report.LEADS)
    yield from filter(None, (thresholds_section(summary, troubled=bool(run.troubled)), published_section(run)))
    yield from _own_sections(run, lambda report: bool(report.QUESTION) and not report.LEADS)
    if not run.windowless:
        yield distribution_section(run)
    shares = shares_section(share_rows(summary.shares, summary.trials))
    repeats = repeats_section(summary, found, run.latency_title)
    clocks = clock_section(summary, run.results)
    yield from filter(None, (load_section(run), shares, clocks, steps_section(run), repeats))


def _last_sections(run: RunView) -> Iterator[doc.Node]:
    """Yield the sections on single events, of which files that are read have none, then those of all runs."""
    if not run.windowless:
        yield from (over_time_section(run), accounting_section(run), times_section(run))
    yield from (invocations_section(run), cost_section(run.summary, run.manifest), caveats_section(run.summary.trials))


def render_document(template: str, before: Sequence[doc.Node], after: Sequence[doc.Node] = (), **values: Any) -> str:  # noqa: ANN401 -- what the template uses
    """
    Render a page.

    Args:
        template: its name.
        before: what stands before the section on the plan's runs, if there is one.
        after: what stands behind it.
        values: what else the template uses.
    """
    nodes = (*before, *after)
    written = to_html(nodes)
    return (
        _environment()
        .get_template(f"{template}.html.j2")
        .render(
            **values,
            before=written[: len(before)],
            after=written[len(before) :],
            links=(links(before), links(after)),
            answer=_answer(nodes),
            style=Markup(own_file("templates/page.css").read_text("utf-8")),  # noqa: S704 -- our own file
            scripts={source: Markup(text) for source, text in page_scripts().items()},  # noqa: S704 -- our own files
            page_data=Markup(json_for_script(page_data([*drawings(nodes)]))),  # noqa: S704 -- escaped for its place
        )
    )


def _answer(nodes: Sequence[doc.Node]) -> str:
    """Return the name of the section that answers; the first, where there is none but of single trials."""
    names = [node.name for node in nodes if isinstance(node, doc.Section) and node.link]
    return "answer" if "answer" in names else names[0]


def drawings(nodes: Iterable[doc.Node]) -> Iterator[Drawing]:
    """Yield what a page's script draws, in order."""
    for node in nodes:
        match node:
            case doc.Chart():
                yield node.drawing
            case doc.Multiples():
                yield from (chart.drawing for chart in node.charts)
            case doc.Section() | doc.Group() | doc.Figure() | doc.Fold():
                yield from drawings(node.parts)
            case _:
                pass


def links(nodes: Iterable[doc.Node]) -> tuple[tuple[str, str], ...]:
    """Return names and words of the sections and headings that the navigation leads to, in order."""
    found: list[tuple[str, str]] = []
    for node in nodes:
        if isinstance(node, doc.Section | doc.Heading) and node.link:
            found.append((node.name, node.link))
        if isinstance(node, doc.Section):
            found.extend(links(node.parts))
    return tuple(found)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = template_environment(PackageLoader("stepbench.report"))
    environment.globals.update(digits=digits)
    return environment


def answers(summary: RunSummary, groups: Sequence[TrialGroup]) -> tuple[tuple[str, TrialSummary, str], ...]:
    """
    Return all sentences on windows, with label and trial, in the order of the trials.

    Those of groups stand where their first run would, and have its trial.
    """
    repeated = [group for group in groups if group.repeated]
    firsts = {(group.trial.index, group.phase, group.window): group for group in repeated}
    others = {(run.trial.index, group.phase, group.window) for group in repeated for run in group.runs}
    found = []
    for row in window_rows(summary.trials, summary.judge):
        place = (row.trial.index, row.window.phase, row.window.name)
        if place in firsts:
            found.append((firsts[place].label, row.trial, describe_group(firsts[place], summary.judge)))
        elif place not in others:
            found.append((row.label, row.trial, describe_window(row)))
    return tuple(found)


def describe_group(group: TrialGroup, judge: Judge | None = None) -> str:
    """Describe median and another quantile over the runs, behind what they are judged by, and what came to nothing."""
    first = first_sentence(judge, [(run.trial, run.window) for run in group.runs])
    parts = []
    for name, words in (("p50", "Median"), ("p99" if group.operations else "p90", "")):
        if first and judge is not None and judge.name == name:
            continue
        over = group.quantile_over_runs(name).shown
        if over.value:
            within = [over.interval.strip("[]").replace(", ", " to "), over.note]
            parts.append(f"{words or name} {over.value} {over.unit} ({'; '.join(filter(None, within))})")
        else:
            parts.append(f"{words or name}: {over.note}")
    return f"{first}{', '.join(parts)}, over {digits.counted(len(group.runs), 'run')}; {_came_to_nothing(group)}."


def _came_to_nothing(group: TrialGroup) -> str:
    windows = [run.window for run in group.runs]
    if group.operations:
        failed = sum(window.failed + window.unknown for window in windows)
        return f"{digits.count(failed)} of {digits.count(sum(window.sent for window in windows))} failed"
    lost = sum(window.latency_ms.missing for window in windows)
    n = sum(window.n for window in windows)
    if lost:
        return f"{digits.count(lost)} of {digits.count(n)} lost"
    return "the one event arrived" if n == 1 else f"all {digits.count(n)} events arrived"


def answer_section(run: RunView, groups: Sequence[TrialGroup]) -> doc.Section:
    """Return the section; `groups` are the run's."""
    reports = _reports(run)
    asked = run.summary.question or " ".join(report.QUESTION for report in reports)
    return doc.Section("answer", asked, tuple(_nodes(run, reports, groups)), link="Answer")


def _reports(run: RunView) -> list[Report]:
    """Return the reports of the experiments with windows; of a run that measured nothing that of triggers."""
    found = {view.summary.experiment for view in run.loaded} or {"trigger"}
    return [experiment_of(name).report for name in get_args(ExperimentName) if name in found]


def _nodes(run: RunView, reports: Sequence[Report], groups: Sequence[TrialGroup]) -> Iterator[doc.Node]:
    summary = run.summary
    yield from _before(run)
    leading = [(report, node) for report in reports for node in report.answers(run)]
    yield from (node for _, node in leading)
    if shares := share_rows(summary.shares, summary.trials):
        yield share_sentences(shares)
    found = answers(summary, groups)
    led = any(report.LEADS and isinstance(node, doc.Sentences) for report, node in leading)
    behind = of_settings(summary) or len(run.rows) > MOST_BEFORE or led
    said = tuple(doc.named(label, trial, text) for label, trial, text in found)
    sentences = (doc.Sentences(said, "The others in sentences"),) if said else ()
    yield from () if behind else sentences
    verdicts = [*verdict_nodes(summary, run.latency_title)]
    yield from (node for node in verdicts if not isinstance(node, doc.Fold))
    yield from filter(None, (compared_figure(summary, groups),))
    yield from (node for node in verdicts if isinstance(node, doc.Fold))
    yield from _tables(run, groups)
    if behind and sentences:
        yield doc.Fold("Each in a sentence", sentences)


def _before(run: RunView) -> Iterator[doc.Node]:
    summary = run.summary
    if conditions := describe_conditions(summary.trials):
        yield doc.Sentence(conditions, "conditions")
    if undecided := describe_undecided(summary):
        yield doc.Sentence(f"{doc.sentence_case(undecided)}.", "notice undecided")
    if kept := describe_all_kept(summary):
        yield doc.Sentence(kept, "notice kept")
    if not run.rows:
        yet = (
            " yet. The errors above say what to mend; the records that exist lie below ",
            doc.Span("trials/", "code"),
            " beside this page",
        )
        yield doc.Sentence(("No trial measured anything, so there is no answer", yet if run.trials else "", "."))


def _tables(run: RunView, groups: Sequence[TrialGroup]) -> Iterator[doc.Node]:
    """Yield the tables of all windows, behind that of groups where runs are repeated."""
    tables = tuple(table for table in headline_tables(run.summary) if table.columns_of("page"))
    if any(group.repeated for group in groups):
        yield from groups_nodes(groups, run.summary.trials, run.latency_title, run.summary.judge)
        yield doc.Fold("Each run by itself", tables)
    else:
        yield from tables
