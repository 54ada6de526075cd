"""All numbers of one window's executions, one by one: for CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.base import Contract
    from stepbench.contracts.dataflow.result import DagWindow, DataflowCost, Spread
    from stepbench.contracts.measures import Estimate

_SHARES = ("passing_on_path", "passing_of_tasks", "orchestration")
_STAGE = ("duration_ms", "task_ms", "open_ms", "input_ms", "get_ms", "compute_ms", "put_ms", "rest_ms", "stragglers")
_EDGE = ("put_ms", "get_ms", "serialise_ms", "put_network_ms", "put_store_ms", "get_store_ms", "get_network_ms",
         "deserialise_ms", "put_mib_per_s", "get_mib_per_s")  # fmt: skip


class DagNumber(NamedTuple):
    """One number; kind: whose it is, such as `stage train` or `edge pca-train`."""

    kind: str
    measure: str
    statistic: str
    estimate: Estimate


def dag_numbers(window: DagWindow, costs: Sequence[DataflowCost]) -> Iterator[DagNumber]:
    """Yield them: of the executions, of their path, stages and edges, and by price table."""
    whose = f"dag {window.dag}"
    for statistic in ("p50", "p90", "p95", "p99"):
        yield DagNumber(whose, "end_to_end_ms", statistic, getattr(window.end_to_end_ms, statistic))
    for share in _SHARES:
        yield DagNumber(whose, share, "share", getattr(window, share))
    for part in window.path:
        yield DagNumber(f"path {part.part}", "share", "share", part.share)
        yield from _of_spread(f"path {part.part}", "ms", part.ms)
    for stage in window.stages:
        yield from _of_fields(f"stage {stage.name}", stage, _STAGE)
    for edge in window.edges:
        yield from _of_fields(f"edge {edge.producer}-{edge.consumer}", edge, _EDGE)
    for cost in costs:
        if (cost.dag, cost.phase, cost.window) == (window.dag, window.phase, window.window):
            kind = f"{cost.prices}{', idle hours' if cost.idle else ''}"
            yield DagNumber(kind, "usd", "mean", cost.usd)
            yield DagNumber(kind, "perf_per_usd", "p50", cost.perf_per_usd)


def _of_fields(kind: str, found: Contract, fields: Sequence[str]) -> Iterator[DagNumber]:
    for field in fields:
        spread: Spread | None = getattr(found, field)
        if spread is not None:
            yield from _of_spread(kind, field, spread)


def _of_spread(kind: str, measure: str, spread: Spread) -> Iterator[DagNumber]:
    yield DagNumber(kind, measure, "p50", spread.p50)
    yield DagNumber(kind, measure, "p95", spread.p95)
