"""What a report says of DAGs: which store passes their data the fastest, and where their time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.experiment import EXECUTION_LATENCY
from stepbench.experiments.dataflow.report import tables, words
from stepbench.experiments.dataflow.report.view import dag_views, flow_trials
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.run import describe_latency

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import RunSummary
    from stepbench.experiments.dataflow.report.view import DagView, FlowTrial, WindowView
    from stepbench.report.run import RunView, WindowRow

QUESTION = "Which store passes the data of a DAG the fastest?"
LEADS = True


def headline(summary: RunSummary) -> doc.Table | None:
    """Return the table of all windows, for a terminal and Markdown: a page has a table for each DAG."""
    table = doc.Table("executions", "", doc.columns("Store", short="trial"), ())
    bare = numbers.bare_trigger([trial for trial in summary.trials if trial.experiment == "dataflow"])
    fields = (numbers.PROVIDER, numbers.COUNT, *numbers.quantiles(), numbers.LOST, *bare, numbers.CAVEATS)
    return numbers.window_table(table, summary, "dataflow", tuple(map(numbers.off_page, fields)))


def describe_window(row: WindowRow) -> str:
    """Answer for one window: how long executions took, and whether they came to their ends."""
    missing, executions = row.window.latency_ms.missing, digits.counted(row.window.n, "execution")
    ended = f"{digits.count(missing)} of {executions} did not complete" if missing else f"all of {executions} completed"
    return f"{describe_latency(row.window.latency_ms, 'p90', row.judge)}; {ended}."


def answers(run: RunView) -> Iterator[doc.Node]:
    """Yield what became of all objects, and which store is the best for each DAG."""
    trials = run.of("dataflow")
    found = [view.summary.dataflow.objects for view in trials if view.summary.dataflow]
    if not found:
        return
    whole = all(each.complete for each in found)
    yield doc.Sentence(words.describe_all_objects(found), "notice kept" if whole else "notice missed")
    first = words.first_media(run.summary.media)
    said = [each.text for each in (*first, *(each for each in run.summary.media if each not in first))]
    said = said or [text for view in trials if view.summary.dataflow for text in view.summary.dataflow.answers]
    if said:
        yield doc.Sentences(tuple(doc.Sentence(text, "medium") for text in said), "The others in sentences")


def brief(summary: RunSummary) -> Iterator[doc.Node]:
    """Yield what Markdown says of DAGs: objects, answers, a table for each DAG, published numbers, results."""
    trials = [(trial, label) for trial, label, _ in numbers.trials_of(summary, "dataflow") if trial.dataflow]
    if not trials:
        return
    yield doc.Sentence(
        f"Quantiles above are of {EXECUTION_LATENCY.name}, {EXECUTION_LATENCY.formula}; those of a DAG's stores below "
        f"are of end-to-end time, t4 {digits.MINUS} t0, which counts what a late start has cost, too."
    )
    objects = (
        doc.Sentence(
            f"{label}{' (emulated)' if trial.emulated else ''}: {words.describe_objects(trial.dataflow.objects)}."
        )
        for trial, label in trials
        if trial.dataflow
    )
    yield doc.Sentences(tuple(objects), most=None)
    if summary.media:
        yield doc.Sentences(tuple(doc.Sentence(answer.text) for answer in words.first_media(summary.media)), most=None)
    rows = [(trial, label, each) for trial, label in trials if trial.dataflow for each in trial.dataflow.windows]
    for dag in dict.fromkeys(each.dag for _, _, each in rows):
        own = [row for row in rows if row[2].dag == dag]
        yield doc.Sentence(doc.Span(f"DAG {dag}", "strong"))
        yield tables.stores_table(dag, _labelled(own))
    if summary.published_dags:
        yield tables.published_table(summary.published_dags, emulated=False)
    if results := tables.results_table(trials):
        yield results


def _labelled(rows: Sequence[tables.StoreRow]) -> Iterator[tables.StoreRow]:
    """Yield the rows, with their window's name behind the trial's where there are several."""
    names = {(found.phase, found.window) for _, _, found in rows}
    for trial, label, found in rows:
        window = found.window if found.window == found.phase else f"{found.phase} / {found.window}"
        yield trial, f"{label} · {window}" if len(names) > 1 else label, found


def sections(run: RunView) -> Iterator[doc.Section]:
    """Yield the section on data through the store."""
    trials = flow_trials(run.results, [view.label for view in run.trials])
    if not trials:
        return
    nodes = [*_objects(trials)]
    if results := tables.results_table([(trial.summary, trial.label) for trial in trials]):
        nodes.append(results)
    if run.summary.published_dags:
        table = tables.published_table(run.summary.published_dags, emulated=run.manifest.emulated)
        nodes += [doc.Heading("Against published numbers", name="published-dags-title"), table]
    for view in dag_views(run.summary, run.results, trials):
        nodes += _dag(view)
    nodes += [*_over_time(trials), *(tables.tuning_table(trial) for trial in trials if trial.findings.tuning)]
    yield doc.Section("dataflow", "Data through the store", tuple(nodes), "Data through the store", "dataflow")


def _objects(trials: Sequence[FlowTrial]) -> Iterator[doc.Node]:
    yield doc.Sentences(tuple(map(_describe_objects, trials)), most=None)
    executions = tuple(map(_describe_executions, trials))
    table = tables.objects_table(trials)
    yield doc.Fold("Accounting of executions and objects", (table, doc.Sentences(executions, most=None, style="")))


def _describe_objects(trial: FlowTrial) -> doc.Sentence:
    found = trial.findings.objects
    said = doc.Span(f"{doc.sentence_case(words.describe_objects(found))}.", "" if found.complete else "bad")
    data = {"objects": trial.summary.index, "complete": found.complete}
    return doc.Sentence((doc.Span(trial.label, "strong"), doc.badges(trial.summary), " ", said), data=data)


def _describe_executions(trial: FlowTrial) -> doc.Sentence:
    errors = (*trial.findings.executions.errors.items(), *trial.findings.objects.errors.items())
    named = tuple((" ", doc.Span(error, "code"), f": {digits.count(number)}.") for error, number in errors)
    said = f": {words.describe_executions(trial.findings.executions)}."
    return doc.Sentence((doc.Span(trial.label, "strong"), said, *named))


def _dag(view: DagView) -> Iterator[doc.Node]:
    name, several = view.dag.name, len(view.windows) > 1
    yield doc.Heading(f"DAG {name}", name=f"dag-{name}", link=name)
    yield doc.Figure(view.drawings, _describe_edges(view))
    for window in view.windows:
        if window.first:
            yield _bars(window, several=several)
    yield tables.stores_table(
        name,
        _labelled([(trial.summary, trial.label, found) for window in view.windows for trial, found in window.rows]),
    )
    for window in view.windows:
        if window.stacks:
            yield _stacks(window, several=several)
    if view.gantts:
        first = " of its first window" if several else ""
        caption = (
            f"Of each store the execution whose time is nearest to the median{first}: a row for each attempt at a "
            "task, its parts one after the other. Outlined: the last of its level, for which the next one waits. "
            "Dashed: started, and ended."
        )
        yield doc.Figure((doc.Heading("One execution, task by task", 4), doc.Multiples(view.gantts)), caption, "still")
    if shown := next((window for window in view.windows if window.shown), None):
        yield _details(name, shown, several=several)


def _describe_edges(view: DagView) -> str:
    kinds = {each.kind for stage in view.dag.stages for each in stage.inputs}
    said = [f"{doc.sentence_case(kind)}: {what}." for kind, what in words.EDGE_WORDS.items() if kind in kinds]
    if view.expected:
        said.append(f"Expected of the DAG alone: {view.expected.text.replace(f'{view.dag.name}: ', '', 1)}.")
    stages = "Stages from the first to the last, and what an execution moves over each edge, read as often as it is."
    return " ".join((stages, *said))


def _title(window: WindowView, *, several: bool) -> tuple[doc.Node, ...]:
    return (doc.Heading(window.label, 4),) if several else ()


def _bars(window: WindowView, *, several: bool) -> doc.Figure:
    others = doc.Fold(f"By other prices ({len(window.others)})", (doc.Multiples(window.others, phone=False),))
    costs = (cost for trial, _ in window.rows for cost in trial.findings.costs)
    modelled = list(dict.fromkeys(cost.modelled for cost in costs if cost.modelled))
    dollars = f" Dollars: {'; '.join(modelled)}." if modelled else ""
    caption = (
        "Median end-to-end time, from when an execution was due to the first statement of EndDataflow, and "
        f"1{digits.NBSP}/ that time / the dollars of an execution. Bars in black are {doc.NINETY_FIVE} "
        f"intervals.{dollars}"
    )
    first = (*_title(window, several=several), doc.Multiples(window.first))
    return doc.Figure((*first, others) if window.others else first, caption, "still")


def _stacks(window: WindowView, *, several: bool) -> doc.Figure:
    titles = ("Time of an execution", "Time of an object")
    charts = tuple(chart._replace(title=titles[min(place, 1)]) for place, chart in enumerate(window.stacks))
    caption = (
        "Of an execution: the mean time along the critical path, on each level of which the last task counts; waiting "
        "is what lateness, Step Functions and Lambda take. Of an object: its mean way into the store and out of it, "
        "for each edge and store. Network: bytes move; store: none does."
    )
    return doc.Figure((*_title(window, several=several), doc.Multiples(charts, phone=False)), caption, "still")


def _details(dag: str, window: WindowView, *, several: bool) -> doc.Fold:
    critical = tuple(
        doc.Sentence(
            (
                doc.Span(trial.label, "strong"),
                (
                    f": the critical path goes through {words.describe_critical(found.critical)}. "
                    f"{words.describe_passing(found)}"
                ),
            )
        )
        for trial, found in window.shown
        if found.critical
    )
    which = f", {window.label} (others: CSV)" if several else ""
    parts = (tables.edges_table(dag, window.shown), tables.stages_table(dag, window.shown))
    return doc.Fold(
        f"Edges and stages of {dag} by store{which}", (*parts, doc.Sentences(critical, most=None, style=""))
    )


def _over_time(trials: Sequence[FlowTrial]) -> Iterator[doc.Node]:
    charts = tuple(
        trial.store._replace(title=f"{trial.label} (emulated)" if trial.summary.emulated else trial.label)
        for trial in trials
        if trial.store
    )
    tuned = " Dashed: a decision, thick where the store was configured anew; shaded: it did not answer."
    caption = "MiB put to and got from the store a second, over all phases."
    caption += tuned if any(trial.findings.tuning for trial in trials) else ""
    if charts:
        yield doc.Heading("The store over time")
        yield doc.Figure((doc.Multiples(charts),), caption, "zooms")
