"""The tables that a report has of DAGs: stores, edges, stages, objects, results, published numbers, decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.dataflow.result import Spread
from stepbench.experiments.dataflow.report import words
from stepbench.report import document as doc
from stepbench.report import numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.base import Contract
    from stepbench.contracts.dataflow.report import DagReplication
    from stepbench.contracts.dataflow.result import DagWindow, DataflowCost, EdgeResult, StageResult
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialSummary
    from stepbench.contracts.tuning import TuningStep
    from stepbench.experiments.dataflow.report.view import FlowTrial


def objects_table(trials: Sequence[FlowTrial]) -> doc.Table:
    """Return what became of all objects, a column a trial."""
    caption = (
        "expected = written + not written; written = read as often as the DAG says + not read as often; reads expected "
        "= made + missing. Objects of executions that failed are counted, too."
    )
    rows = (
        doc.Row(
            doc.Cell(title),
            tuple(numbers.number(f"objects.{field}", getattr(trial.findings.objects, field)) for trial in trials),
            style=f"depth-{depth}",
        )
        for title, field, depth in words.OBJECT_ROWS
    )
    columns = doc.columns("Objects", *(trial.label for trial in trials))
    return doc.Table("objects", caption, columns, doc.body(rows), "reference")


def results_table(trials: Sequence[tuple[TrialSummary, str]]) -> doc.Table | None:
    """Return what tasks have found, in which trials, and whether all their executions agree; None without any."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for trial, label in trials:
        for key in words.result_rows(trial.dataflow) if trial.dataflow else ():
            found.setdefault(key, []).append(f"{label} (emulated)" if trial.emulated else label)
    caption = (
        "What tasks found, whose inputs came through the store: right labels and accuracy prove that the data did."
    )
    found_by = (doc.words("Found", "words wide"), doc.words("Trials", "wide"))
    columns = doc.columns("Task", *found_by, doc.words("All executions agree"))
    rows = (
        doc.Row(
            doc.Cell(name),
            (
                doc.Cell(text),
                doc.Cell(digits.listed(labels)),
                doc.Cell("yes" if agreed else "no", style="" if agreed else "bad"),
            ),
            {"result": name},
        )
        for (name, text, agreed), labels in found.items()
    )
    return doc.Table("dag-results", caption, columns, doc.body(rows)) if found else None


def published_table(found: Sequence[DagReplication], *, emulated: bool) -> doc.Table:
    """Return published numbers beside ours."""
    caption = (
        f"Published numbers beside ours, with {doc.NINETY_FIVE} intervals. Performance per dollar is at the prices of "
        "November 2022; whether idle hours count, the source does not say, so both are scored. A ratio is ours over "
        "the published number; its interval is that of ours alone."
    )
    machine = "This run was made on one machine: no number below replicates one of AWS's."
    idle, source = doc.more("Ours, with idle hours"), doc.words("Source", "words wide", outputs=doc.PAGE)
    columns = doc.columns("Number", "Published", "Ours", "Ratio", idle, source)
    whole = (caption, " ", doc.Span(machine, "not-aws")) if emulated else caption
    return doc.Table("published-dags", whole, columns, doc.body(map(_published, found)), phone=True)


def _published(each: DagReplication) -> doc.Row:
    over = f" over {each.over_trial}" if each.over_trial else ""
    name = doc.sentence_case(f"{each.trial}{over}, {words.PUBLISHED_METRICS[each.metric]}")
    window = "all windows together" if "," in each.window else each.window
    of = each.dag if each.window == each.dag else f"{each.dag}, {window}"
    number = digits.percent(each.published) if each.unit == "share" else f"{digits.rounded(each.published)} ×"  # noqa: RUF001 -- times
    bound = {"above": "more than ", "up_to": "at most ", None: ""}[each.bound]
    caveat = doc.Span(each.caveat, "provider not-aws") if each.caveat else ""
    line = "; ".join(filter(None, (f"{name}, {of}", each.caveat)))
    cells = (
        doc.Cell(f"{bound}{number}", {"value": each.published}),
        numbers.estimate("ours", each.ours, each.unit),
        numbers.estimate("ratio", each.ratio, "ratio"),
        numbers.estimate("ours_idle", each.ours_idle, each.unit),
        doc.Cell((each.source, doc.Span(each.note, "note") if each.note else "")),
    )
    data: doc.Data = {"metric": each.metric, "trial": each.trial}
    return doc.Row(doc.Cell((name, doc.Span(of, "provider"), caveat), line=line), cells, data)


StoreRow = tuple["TrialSummary", str, "DagWindow"]
"""A trial with its label, and what it measured of a DAG in a window."""


def stores_table(dag: str, rows: Iterable[StoreRow]) -> doc.Table:
    """Return a DAG's numbers by store."""
    caption = (
        f"{doc.sentence_case(dag)} by store. Passing data is getting and putting, coding included, along the critical "
        "path; orchestration is all the time in which no task of the path runs."
    )
    columns = doc.columns(
        *("Store", doc.more("n", "executions"), "End to end, p50", doc.more("p95"), "Passing data", "Orchestration"),
        *(doc.more("Moved, MiB", outputs=doc.PAGE), doc.more("Cold starts", outputs=doc.PAGE)),
        doc.Column("1 / (s USD)", outputs=("markdown",)),
    )
    return doc.Table(f"dag-{dag}-stores", caption, columns, doc.body(_store(*row) for row in rows), phone=True)


def _store(trial: TrialSummary, label: str, found: DagWindow) -> doc.Row:
    failed = f"; {digits.counted(found.failed, 'execution')} failed" if found.failed else ""
    moved = found.passed_mib.mean
    cells = (
        numbers.number("dag.n", found.n),
        numbers.estimate("dag.end_to_end_ms.p50", found.end_to_end_ms.p50),
        numbers.estimate("dag.end_to_end_ms.p95", found.end_to_end_ms.p95),
        numbers.estimate("dag.passing_on_path", found.passing_on_path, "share"),
        numbers.estimate("dag.orchestration", found.orchestration, "share"),
        numbers.value("dag.passed_mib", moved, digits.NONE if moved is None else digits.rounded(moved)),
        numbers.number("dag.cold_starts", sum(stage.cold_starts for stage in found.stages)),
        doc.Cell(_per_dollar(trial, found)),
    )
    first = doc.head(label, trial, f"{trial.provider}{failed}")
    line = f"{label}{' (emulated)' if trial.emulated else ''}{failed}"
    return doc.Row(first._replace(line=line), cells, {"trial": trial.index, "dag": found.dag, "window": found.window})


def _per_dollar(trial: TrialSummary, found: DagWindow) -> str:
    """Format the performance per dollar at the first table's prices, without idle hours."""
    costs = trial.dataflow.costs if trial.dataflow else ()
    cost = next((each for each in costs if each.place == found.place and not each.idle), None)
    return digits.NONE if cost is None else str(digits.shown(cost.perf_per_usd, digits.PLAIN))


Shown = tuple[tuple["FlowTrial", "DagWindow"], ...]


def edges_table(dag: str, shown: Shown) -> doc.Table:
    """Return the transfers by edge and store."""
    caption = (
        "Transfers by edge and store, medians; times are without coding, rates are bytes over these times. Requests: "
        "what the store is sent for one object, more than one where its limits ask for chunks."
    )
    headings = ("Put", "Get", "Put, MiB/s", "Get, MiB/s", "Serialise", "Deserialise")
    requests = doc.Column("Requests", label="Requests, put and get")
    columns = doc.columns("Store", *headings, requests, "Failed")
    bodies = []
    for edge in shown[0][1].edges:
        ends = (edge.producer, edge.consumer)
        size = f"{digits.size(edge.blob_bytes.mean)} each" if edge.blob_bytes.mean is not None else ""
        note = f"{digits.counted(edge.objects, 'object')}, {digits.counted(edge.reads, 'read')}, {size}"
        rows = (
            _edge(trial, own) for trial, found in shown for own in found.edges if (own.producer, own.consumer) == ends
        )
        name = f"{edge.producer} to {edge.consumer}, {edge.kind} "
        bodies.append(doc.Body(tuple(rows), (name, doc.Span(note, "note"))))
    return doc.Table(f"dag-{dag}-edges", caption, columns, tuple(bodies))


def _edge(trial: FlowTrial, own: EdgeResult) -> doc.Row:
    requests = ", ".join(
        digits.NONE if each is None else digits.rounded(each, 2) for each in (own.put_requests, own.get_requests)
    )
    cells = (
        numbers.estimate("edge.put_ms.p50", own.put_ms.p50),
        numbers.estimate("edge.get_ms.p50", own.get_ms.p50),
        numbers.estimate("edge.put_mib_per_s.p50", own.put_mib_per_s.p50, "mib_per_s"),
        numbers.estimate("edge.get_mib_per_s.p50", own.get_mib_per_s.p50, "mib_per_s"),
        numbers.estimate("edge.serialise_ms.p50", own.serialise_ms.p50),
        numbers.estimate("edge.deserialise_ms.p50", own.deserialise_ms.p50),
        doc.Cell(requests),
        numbers.number("edge.failed", own.failed),
    )
    data: doc.Data = {"trial": trial.summary.index, "edge": f"{own.producer}-{own.consumer}"}
    return doc.Row(doc.head(trial.label, trial.summary), cells, data)


def stages_table(dag: str, shown: Shown) -> doc.Table:
    """Return the tasks by stage and store."""
    caption = (
        "Tasks by stage and store, medians. Stragglers: of each execution the slowest task's time over the median "
        "one's."
    )
    headings = ("Task", "Get", "Compute", "Put", "Passing data", "Stragglers", "Cold starts", "Retries", "Memory, MiB")
    bodies = []
    for stage in shown[0][1].stages:
        note = f"{stage.task}, {digits.counted(stage.tasks, 'task')}, level {stage.level + 1}"
        rows = (_stage(trial, own) for trial, found in shown for own in found.stages if own.name == stage.name)
        bodies.append(doc.Body(tuple(rows), (f"{stage.name} ", doc.Span(note, "note"))))
    columns = doc.columns("Store", *headings)
    return doc.Table(f"dag-{dag}-stages", caption, columns, tuple(bodies))


def _stage(trial: FlowTrial, own: StageResult) -> doc.Row:
    parts = (("get", own.get_ms), ("compute", own.compute_ms), ("put", own.put_ms))
    cells = (
        numbers.estimate("stage.task_ms.p50", own.task_ms.p50),
        *(numbers.estimate(f"stage.{name}_ms.p50", spread.p50 if spread else None) for name, spread in parts),
        numbers.estimate("stage.passing_share", own.passing_share, "share"),
        numbers.estimate("stage.stragglers.p50", own.stragglers.p50 if own.stragglers else None, "ratio"),
        numbers.number("stage.cold_starts", own.cold_starts),
        numbers.number("stage.retries", own.retries),
        doc.Cell(digits.NONE if own.memory_mib is None else digits.rounded(own.memory_mib)),
    )
    return doc.Row(doc.head(trial.label, trial.summary), cells, {"trial": trial.summary.index, "stage": own.name})


def tuning_table(trial: FlowTrial) -> doc.Table:
    """Return the decisions on a store's configuration before phases."""
    steps = trial.findings.tuning
    weighed: doc.Text = (
        " The store is configured anew where B",
        doc.Span("new", "sub"),
        f"{digits.NBSP}{digits.MINUS}{digits.NBSP}B",
        doc.Span("old", "sub"),
        (
            f"{digits.NBSP}>{digits.NBSP}C: the requests it would answer more during the look-ahead, against those "
            "that it misses while it is away. As printed, B is the total throughput; the difference is what decides."
        ),
    )
    adaptive = any(step.decision.mode == "adaptive" for step in steps)
    was, best = doc.words("Was", "wide"), doc.words("Best other", "wide")
    weighed_by = (doc.words("Weighed", "wide"), doc.words("Decision", "wide"))
    columns = doc.columns("Phase", was, best, "Predicted, requests/s", *weighed_by)
    caption = (f"{trial.label}: decisions before phases.", weighed if adaptive else "")
    return doc.Table(f"tuning-{trial.summary.index}", caption, columns, doc.body(map(_decision, steps)))


def _decision(step: TuningStep) -> doc.Row:
    decision, outcome = step.decision, "reconfigured" if step.reconfigured else "kept"
    away = f", away for {digits.duration(step.done.away_s)}" if step.reconfigured and step.done else ""
    notes = "; ".join((decision.reason, *(step.done.after.notes if step.done else ())))
    predicted = (
        f"{digits.rounded(decision.old_per_s)} to {digits.rounded(decision.new_per_s)}" if decision.new_per_s else ""
    )
    cells = (
        doc.Cell(words.format_configuration(decision.old)),
        doc.Cell(words.format_configuration(decision.new)),
        doc.Cell(predicted or digits.NONE),
        doc.Cell(words.describe_decision(decision)),
        doc.Cell((f"{outcome}{away}", doc.Span(notes, "note"))),
    )
    data: doc.Data = {"phase": decision.phase, "decision": outcome}
    return doc.Row(doc.Cell((f"{decision.phase} ", doc.Span(decision.dag, "note"))), cells, data)


def dag_numbers(window: DagWindow, costs: Sequence[DataflowCost]) -> Iterator[tuple[str, str, str, Estimate]]:
    """
    Yield all numbers of a window for CSV: of its executions, their path, stages and edges, and by price table.

    Each is whose it is, such as `stage train` or `edge pca-train`, the measure, the statistic, and the number.
    """
    whose = f"dag {window.dag}"
    for statistic in ("p50", "p90", "p95", "p99"):
        yield whose, "end_to_end_ms", statistic, getattr(window.end_to_end_ms, statistic)
    for share in ("passing_on_path", "passing_of_tasks", "orchestration"):
        yield whose, share, "share", getattr(window, share)
    for part in window.path:
        yield f"path {part.part}", "share", "share", part.share
        yield from _spreads(f"path {part.part}", part)
    for stage in window.stages:
        yield from _spreads(f"stage {stage.name}", stage)
    for edge in window.edges:
        yield from _spreads(f"edge {edge.producer}-{edge.consumer}", edge)
    for cost in costs:
        if cost.place == window.place:
            kind = f"{cost.prices}{', idle hours' if cost.idle else ''}"
            yield kind, "usd", "mean", cost.usd
            yield kind, "perf_per_usd", "p50", cost.perf_per_usd


def _spreads(kind: str, found: Contract) -> Iterator[tuple[str, str, str, Estimate]]:
    """Yield the quantiles of all measures that something has, but for sizes."""
    for measure, spread in found:
        if isinstance(spread, Spread) and measure != "blob_bytes":
            yield kind, measure, "p50", spread.p50
            yield kind, measure, "p95", spread.p95
