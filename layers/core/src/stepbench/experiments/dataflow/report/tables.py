"""The tables that a report has of DAGs: stores, edges, stages, objects, results, published numbers, decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.experiments.dataflow.report import words
from stepbench.report.document import (
    EVERYWHERE,
    NINETY_FIVE,
    NOT_ON_A_TERMINAL,
    Body,
    Cell,
    Column,
    Row,
    Span,
    Table,
    body,
    estimate,
    head,
    number,
    sentence_case,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.dataflow.published import DagReplication
    from stepbench.contracts.dataflow.result import DagWindow, EdgeResult, StageResult
    from stepbench.contracts.result import TrialSummary
    from stepbench.contracts.tuned import TuningStep
    from stepbench.experiments.dataflow.report.trials import FlowTrial
    from stepbench.report.document import Data, Text


def objects_table(trials: Sequence[FlowTrial]) -> Table:
    """Return what became of all objects, a column a trial."""
    caption = (
        "expected = written + not written; written = read as often as the DAG says + not read as often; reads expected "
        "= made + missing. Objects of executions that failed are counted, too."
    )
    rows = (
        Row(
            Cell(title),
            tuple(number(f"objects.{field}", getattr(trial.findings.objects, field)) for trial in trials),
            style=f"depth-{depth}",
        )
        for title, field, _, depth in words.object_rows(trials[0].findings.objects)
    )
    columns = (Column("Objects", number=False), *(Column(trial.label) for trial in trials))
    return Table("objects", caption, columns, body(rows), "reference")


def results_table(trials: Sequence[tuple[TrialSummary, str]]) -> Table | None:
    """Return what tasks have found, in which trials, and whether all their executions agree; None without any."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for trial, label in trials:
        for key in words.result_rows(trial.dataflow) if trial.dataflow else ():
            found.setdefault(key, []).append(f"{label} (emulated)" if trial.emulated else label)
    caption = (
        "What tasks found, whose inputs came through the store: right labels and accuracy prove that the data did."
    )
    columns = (
        Column("Task", number=False, short="task"),
        Column("Found", number=False, style="words wide", short="found", outputs=NOT_ON_A_TERMINAL),
        Column("Trials", number=False, style="wide", short="trials", outputs=NOT_ON_A_TERMINAL),
        Column("All executions agree", number=False, label="All agree", short="all agree", outputs=NOT_ON_A_TERMINAL),
    )
    rows = (
        Row(
            Cell(name),
            (Cell(text), Cell(digits.listed(labels)), Cell("yes" if agreed else "no", style="" if agreed else "bad")),
            {"result": name},
        )
        for (name, text, agreed), labels in found.items()
    )
    return Table("dag-results", caption, columns, body(rows)) if found else None


def published_table(found: Sequence[DagReplication], *, emulated: bool) -> Table:
    """Return published numbers beside ours."""
    caption = (
        f"Published numbers beside ours, with {NINETY_FIVE} intervals. Performance per dollar is at the prices of "
        "November 2022; whether idle hours count, the source does not say, so both are scored. A ratio is ours over "
        "the published number; its interval is that of ours alone."
    )
    machine = "This run was made on one machine: no number below replicates one of AWS's."
    columns = (
        Column("Number", number=False, short="number"),
        Column("Published", short="published", outputs=NOT_ON_A_TERMINAL),
        Column("Ours", short="ours", outputs=NOT_ON_A_TERMINAL),
        Column("Ratio", short="ratio", outputs=NOT_ON_A_TERMINAL),
        Column(
            "Ours, with idle hours",
            style="more",
            label="With idle hours",
            short="with idle hours",
            outputs=NOT_ON_A_TERMINAL,
        ),
        Column("Source", number=False, style="words wide"),
    )
    whole = (caption, " ", Span(machine, "not-aws")) if emulated else caption
    return Table("published-dags", whole, columns, body(map(_published, found)), phone=True)


def _published(each: DagReplication) -> Row:
    unit = "share" if each.unit == "share" else "ratio"
    of = each.dag if each.window == each.dag else f"{each.dag}, {each.window}"
    name = sentence_case(words.name_published(each))
    caveat = Span(each.caveat, "provider not-aws") if each.caveat else ""
    line = "; ".join(filter(None, (f"{name}, {of}", each.caveat)))
    cells = (
        Cell(words.format_published(each), {"value": each.published}),
        estimate("ours", each.ours, unit),
        estimate("ratio", each.ratio, "ratio"),
        estimate("ours_idle", each.ours_idle, unit),
        Cell((each.source, Span(each.note, "note") if each.note else "")),
    )
    data: Data = {"metric": each.metric, "trial": each.trial}
    return Row(Cell((name, Span(of, "provider"), caveat), line=line), cells, data)


StoreRow = tuple["TrialSummary", str, "DagWindow"]
"""A trial with its label, and what it measured of a DAG in a window."""


def stores_table(dag: str, rows: Iterable[StoreRow]) -> Table:
    """Return a DAG's numbers by store."""
    caption = (
        f"{sentence_case(dag)} by store. Passing data is getting and putting, coding included, along the critical "
        "path; orchestration is all the time in which no task of the path runs."
    )
    columns = (
        Column("Store", number=False, short="store"),
        Column("n", style="more", short="executions", outputs=NOT_ON_A_TERMINAL),
        Column("End to end, p50", short="end to end, p50", outputs=EVERYWHERE),
        Column("p95", label="p95", style="more", outputs=EVERYWHERE),
        Column("Passing data", short="passing data", outputs=EVERYWHERE),
        Column("Orchestration", short="orchestration", outputs=EVERYWHERE),
        Column("Moved, MiB", style="more"),
        Column("Cold starts", style="more"),
        Column("1 / (s USD)", outputs=("markdown",)),
    )
    return Table(f"dag-{dag}-stores", caption, columns, body(_store(*row) for row in rows), phone=True)


def _store(trial: TrialSummary, label: str, found: DagWindow) -> Row:
    failed = f"; {digits.counted(found.failed, 'execution')} failed" if found.failed else ""
    moved = found.passed_mib.mean
    cells = (
        number("dag.n", found.n),
        estimate("dag.end_to_end_ms.p50", found.end_to_end_ms.p50),
        estimate("dag.end_to_end_ms.p95", found.end_to_end_ms.p95),
        estimate("dag.passing_on_path", found.passing_on_path, "share"),
        estimate("dag.orchestration", found.orchestration, "share"),
        Cell(digits.NONE if moved is None else digits.rounded(moved), {"metric": "dag.passed_mib", "value": moved}),
        number("dag.cold_starts", sum(stage.cold_starts for stage in found.stages)),
        Cell(_per_dollar(trial, found)),
    )
    first = head(label, trial, f"{trial.provider}{failed}")
    line = f"{label}{' (emulated)' if trial.emulated else ''}{failed}"
    return Row(first._replace(line=line), cells, {"trial": trial.index, "dag": found.dag, "window": found.window})


def _per_dollar(trial: TrialSummary, found: DagWindow) -> str:
    """Format the performance per dollar at the first table's prices, without idle hours."""
    key = (found.dag, found.phase, found.window, False)
    costs = trial.dataflow.costs if trial.dataflow else ()
    cost = next((each for each in costs if (each.dag, each.phase, each.window, each.idle) == key), None)
    return digits.NONE if cost is None else str(digits.shown(cost.perf_per_usd, digits.PLAIN))


Shown = tuple[tuple["FlowTrial", "DagWindow"], ...]


def edges_table(dag: str, shown: Shown) -> Table:
    """Return the transfers by edge and store."""
    caption = (
        "Transfers by edge and store, medians; times are without coding, rates are bytes over these times. Requests: "
        "what the store is sent for one object, more than one where its limits ask for chunks."
    )
    headings = ("Put", "Get", "Put, MiB/s", "Get, MiB/s", "Serialise", "Deserialise")
    columns = (
        *(Column("Store", number=False), *map(Column, headings)),
        *(Column("Requests", label="Requests, put and get"), Column("Failed")),
    )
    bodies = []
    for edge in shown[0][1].edges:
        ends = (edge.producer, edge.consumer)
        size = f"{digits.size(edge.blob_bytes.mean)} each" if edge.blob_bytes.mean is not None else ""
        note = f"{digits.counted(edge.objects, 'object')}, {digits.counted(edge.reads, 'read')}, {size}"
        rows = (
            _edge(trial, own) for trial, found in shown for own in found.edges if (own.producer, own.consumer) == ends
        )
        name = f"{edge.producer} to {edge.consumer}, {edge.kind} "
        bodies.append(Body(tuple(rows), (name, Span(note, "note"))))
    return Table(f"dag-{dag}-edges", caption, columns, tuple(bodies))


def _edge(trial: FlowTrial, own: EdgeResult) -> Row:
    requests = ", ".join(
        digits.NONE if each is None else digits.rounded(each, 2) for each in (own.put_requests, own.get_requests)
    )
    cells = (
        estimate("edge.put_ms.p50", own.put_ms.p50),
        estimate("edge.get_ms.p50", own.get_ms.p50),
        estimate("edge.put_mib_per_s.p50", own.put_mib_per_s.p50, "mib_per_s"),
        estimate("edge.get_mib_per_s.p50", own.get_mib_per_s.p50, "mib_per_s"),
        estimate("edge.serialise_ms.p50", own.serialise_ms.p50),
        estimate("edge.deserialise_ms.p50", own.deserialise_ms.p50),
        Cell(requests),
        number("edge.failed", own.failed),
    )
    data: Data = {"trial": trial.summary.index, "edge": f"{own.producer}-{own.consumer}"}
    return Row(head(trial.label, trial.summary), cells, data)


def stages_table(dag: str, shown: Shown) -> Table:
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
        bodies.append(Body(tuple(rows), (f"{stage.name} ", Span(note, "note"))))
    columns = (Column("Store", number=False), *map(Column, headings))
    return Table(f"dag-{dag}-stages", caption, columns, tuple(bodies))


def _stage(trial: FlowTrial, own: StageResult) -> Row:
    parts = (("get", own.get_ms), ("compute", own.compute_ms), ("put", own.put_ms))
    cells = (
        estimate("stage.task_ms.p50", own.task_ms.p50),
        *(estimate(f"stage.{name}_ms.p50", spread.p50 if spread else None) for name, spread in parts),
        estimate("stage.passing_share", own.passing_share, "share"),
        estimate("stage.stragglers.p50", own.stragglers.p50 if own.stragglers else None, "ratio"),
        number("stage.cold_starts", own.cold_starts),
        number("stage.retries", own.retries),
        Cell(digits.NONE if own.memory_mib is None else digits.rounded(own.memory_mib)),
    )
    return Row(head(trial.label, trial.summary), cells, {"trial": trial.summary.index, "stage": own.name})


def tuning_table(trial: FlowTrial) -> Table:
    """Return the decisions on a store's configuration before phases."""
    steps = trial.findings.tuning
    weighed: Text = (
        " The store is configured anew where B",
        Span("new", "sub"),
        f"{digits.NBSP}{digits.MINUS}{digits.NBSP}B",
        Span("old", "sub"),
        (
            f"{digits.NBSP}>{digits.NBSP}C: the requests it would answer more during the look-ahead, against those "
            "that it misses while it is away. As printed, B is the total throughput; the difference is what decides."
        ),
    )
    adaptive = any(step.decision.mode == "adaptive" for step in steps)
    columns = (
        Column("Phase", number=False),
        Column("Was", number=False, style="wide"),
        Column("Best other", number=False, style="wide"),
        Column("Predicted, requests/s"),
        Column("Weighed", number=False, style="wide"),
        Column("Decision", number=False, style="wide"),
    )
    caption = (f"{trial.label}: decisions before phases.", weighed if adaptive else "")
    return Table(f"tuning-{trial.summary.index}", caption, columns, body(map(_decision, steps)))


def _decision(step: TuningStep) -> Row:
    decision, outcome = step.decision, words.tuning_outcome(step)
    away = f", away for {digits.duration(step.done.away_s)}" if step.reconfigured and step.done else ""
    notes = "; ".join((decision.reason, *(step.done.after.notes if step.done else ())))
    predicted = (
        f"{digits.rounded(decision.old_per_s)} to {digits.rounded(decision.new_per_s)}" if decision.new_per_s else ""
    )
    cells = (
        Cell(words.format_configuration(decision.old)),
        Cell(words.format_configuration(decision.new)),
        Cell(predicted or digits.NONE),
        Cell(words.describe_decision(decision)),
        Cell((f"{outcome}{away}", Span(notes, "note"))),
    )
    data: Data = {"phase": decision.phase, "decision": outcome}
    return Row(Cell((f"{decision.phase} ", Span(decision.dag, "note"))), cells, data)
