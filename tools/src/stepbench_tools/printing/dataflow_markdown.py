"""DAGs as one pastes them into a pull request: answers, a table of stores, what became of all objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.experiments.dataflow.report.words import (
    describe_objects,
    describe_published,
    first_media,
    format_share,
    result_rows,
)
from stepbench.report.labels import trial_labels
from stepbench_tools.printing.parts import escape, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.result import DagWindow, DataflowFindings
    from stepbench.contracts.result import RunSummary

_HEADINGS = ("store", "DAG", "executions", "end to end, p50", "passing data", "orchestration", "1 / (s USD)")
_TEXTS = frozenset({"store", "DAG"})


def dataflow_parts(summary: RunSummary) -> Iterator[str]:
    """Yield the parts of what executions of DAGs show, each a list or a table; nothing of a run without any."""
    found = [
        (f"{label} (emulated)" if trial.emulated else label, trial.dataflow)
        for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True)
        if trial.dataflow is not None
    ]
    if not found:
        return
    yield "\n".join(f"- {escape(label)}: {escape(describe_objects(each.objects))}." for label, each in found)
    if summary.media:
        yield "\n".join(f"- {escape(answer.text)}" for answer in first_media(summary.media))
    rows = [row for label, each in found for row in _rows(label, each)]
    if rows:
        yield "\n".join(table_lines(_HEADINGS, rows, _TEXTS))
    if summary.published_dags:
        yield "\n".join(f"- {escape(describe_published(each))}" for each in summary.published_dags)
    results = [
        f"- {escape(label)}, {escape(name)}: {escape(text)}{'' if agreed else ' (executions do not agree)'}"
        for label, each in found
        for name, text, agreed in result_rows(each)
    ]
    if results:
        yield "\n".join(results)


def _rows(label: str, found: DataflowFindings) -> Iterator[tuple[str, ...]]:
    for window in found.windows:
        name = window.dag if window.dag == window.window else f"{window.dag}, {window.window}"
        yield (
            escape(label),
            escape(name),
            digits.count(window.completed),
            escape(str(digits.shown(window.end_to_end_ms.p50))),
            escape(format_share(window.passing_on_path)),
            escape(format_share(window.orchestration)),
            escape(_per_dollar(found, window)),
        )


def _per_dollar(found: DataflowFindings, window: DagWindow) -> str:
    """Format the performance per dollar at the first table's prices, without idle hours."""
    key = (window.dag, window.phase, window.window, False)
    costs = (each for each in found.costs if (each.dag, each.phase, each.window, each.idle) == key)
    cost = next(costs, None)
    return digits.NONE if cost is None else str(digits.shown(cost.perf_per_usd, digits.PLAIN))
