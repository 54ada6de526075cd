"""A window's edges: their objects' ways to the store and back, gathered execution by execution, by due time."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.dataflow.result import EdgeResult
from stepbench.experiments.dataflow.analysis.spread import MIB, NS_PER_MS, spread
from stepbench.workload.topology import edge_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.dataflow.dag import Dag, Input, Stage
    from stepbench.contracts.dataflow.result import Spread
    from stepbench.contracts.dataflow.rows import BlobRow
    from stepbench.experiments.dataflow.analysis.executions import ExecutionTasks

NS_PER_S = 1e9
_COLUMNS = ("blob_bytes", "code_ns", "wait_ns", "whole_ns", "requests")


class _Transfers:
    """Columns of transfers that went well: there may be a million."""

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in _COLUMNS}

    def add(self, blob: BlobRow) -> None:
        for name, column in self._columns.items():
            column.append(getattr(blob, name))

    def of(self, name: str) -> NDArray[np.float64]:
        return np.array(self._columns[name], dtype=np.float64)

    @property
    def network_ns(self) -> NDArray[np.float64]:
        network: NDArray[np.float64] = self.of("whole_ns") - self.of("wait_ns")
        return network

    @property
    def mib_per_s(self) -> NDArray[np.float64]:
        whole_ns, sizes = self.of("whole_ns"), self.of("blob_bytes")
        rates: NDArray[np.float64] = sizes[whole_ns > 0] / MIB / (whole_ns[whole_ns > 0] / NS_PER_S)
        return rates

    @property
    def requests(self) -> float | None:
        counts = self.of("requests")
        return float(counts.mean()) if counts.size else None


class EdgeTallies:
    """Gathers the transfers of all edges of a DAG: of attempts that count, those that went well."""

    def __init__(self, dag: Dag) -> None:
        stages = dag.by_name
        self._edges = {
            (each.stage, stage.name): _Edge(stages[each.stage], stage, each)
            for stage in dag.stages
            for each in stage.inputs
        }
        self._executions = 0

    def add(self, tasks: ExecutionTasks) -> float:
        """Take one execution, and return how many MiB it passed, written and read."""
        self._executions += 1
        passed = 0
        for name, rows in tasks.attempts.items():
            for row in rows:
                counts = tasks.counted.get(name) is row
                for blob in row.blobs:
                    edge = self._edges.get(edge_of(blob.object))
                    if edge is None:
                        continue
                    if blob.outcome != "ok":
                        edge.failed += 1
                    elif counts:
                        (edge.puts if blob.operation == "put" else edge.gets).add(blob)
                        passed += blob.blob_bytes
        return passed / MIB

    def results(self) -> Iterator[EdgeResult]:
        """Yield what the report shows, edge by edge."""
        return (edge.result(self._executions) for edge in self._edges.values())


class _Edge:
    def __init__(self, producer: Stage, consumer: Stage, edge: Input) -> None:
        self._producer, self._consumer, self._kind = producer, consumer, edge.kind
        self.puts, self.gets = _Transfers(), _Transfers()
        self.failed = 0

    def result(self, n: int) -> EdgeResult:
        puts, gets = self.puts, self.gets

        def ms(values_ns: NDArray[np.float64]) -> Spread:
            return spread(values_ns / NS_PER_MS, n)

        objects = self._consumer.tasks if self._kind == "scatter" else self._producer.tasks
        return EdgeResult(
            producer=self._producer.name,
            consumer=self._consumer.name,
            kind=self._kind,
            objects=objects,
            reads=objects * self._consumer.tasks if self._kind == "broadcast" else objects,
            blob_bytes=spread(puts.of("blob_bytes"), n),
            put_ms=ms(puts.of("whole_ns")),
            get_ms=ms(gets.of("whole_ns")),
            serialise_ms=ms(puts.of("code_ns")),
            put_network_ms=ms(puts.network_ns),
            put_store_ms=ms(puts.of("wait_ns")),
            get_store_ms=ms(gets.of("wait_ns")),
            get_network_ms=ms(gets.network_ns),
            deserialise_ms=ms(gets.of("code_ns")),
            put_mib_per_s=spread(puts.mib_per_s, n),
            get_mib_per_s=spread(gets.mib_per_s, n),
            put_requests=puts.requests,
            get_requests=gets.requests,
            failed=self.failed,
        )
