"""The section that answers: the question, verdicts, and a row for each window, or for all repeats of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, get_args

from stepbench import digits
from stepbench.contracts.experiment import ExperimentName
from stepbench.experiments.registry import experiment_of
from stepbench.experiments.report.headline import describe_window, headline_tables
from stepbench.report import document as doc
from stepbench.report.caveats import describe_conditions
from stepbench.report.comparisons import share_rows, share_sentences
from stepbench.report.groups import groups_nodes
from stepbench.report.run import window_rows
from stepbench.report.thresholds import describe_all_kept, describe_undecided
from stepbench.report.verdicts import of_settings, verdict_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.experiments.protocol import Report
    from stepbench.report.groups import TrialGroup
    from stepbench.report.run import RunView

MOST_BEFORE = 12
"""Answers of more windows than these stand behind the table, folded."""


class Answer(NamedTuple):
    """A sentence on one window of a trial, or of its repeats; `trial` is the first of them."""

    label: str
    trial: TrialSummary
    text: str


def answers(summary: RunSummary, groups: Sequence[TrialGroup]) -> tuple[Answer, ...]:
    """Return all sentences, in the order of the trials; those of groups stand where their first run would."""
    repeated = [group for group in groups if group.repeated]
    firsts = {(group.trial.index, group.phase, group.window): group for group in repeated}
    others = {(run.trial.index, group.phase, group.window) for group in repeated for run in group.runs}
    found = []
    for row in window_rows(summary.trials):
        place = (row.trial.index, row.window.phase, row.window.name)
        if place in firsts:
            found.append(Answer(firsts[place].label, row.trial, describe_group(firsts[place])))
        elif place not in others:
            found.append(Answer(row.label, row.trial, describe_window(row)))
    return tuple(found)


def describe_group(group: TrialGroup) -> str:
    """Describe the median and another quantile over the runs, with their ranges, and how many events never arrived."""
    parts = []
    for name, words in (("p50", "Median"), ("p99" if group.operations else "p90", "")):
        over = group.quantile_over_runs(name).shown
        if over.value:
            within = [over.interval.strip("[]").replace(", ", " to "), over.note]
            parts.append(f"{words or name} {over.value} {over.unit} ({'; '.join(filter(None, within))})")
        else:
            parts.append(f"{words or name}: {over.note}")
    return f"{', '.join(parts)}, over {digits.counted(len(group.runs), 'run')}; {_came_to_nothing(group)}."


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
    said = tuple(doc.named(each.label, each.trial, each.text) for each in found)
    sentences = (doc.Sentences(said, "The others in sentences"),) if said else ()
    yield from () if behind else sentences
    yield from verdict_nodes(summary, run.latency_title)
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
        yield from groups_nodes(groups, run.summary.trials, run.latency_title)
        yield doc.Fold("Each run by itself", tables)
    else:
        yield from tables
