"""
What mix of requests a store has to expect of a DAG, how large the objects are, and how many tasks ask at once; pure.

Sizes are known of synthetic tasks only, whose parameters say them.

Source:
    Shankar et al. (2023), section 2.2 and the topology analyser of section 2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.report import ExpectedEdge, ExpectedLevel, ExpectedMix, MixKind
from stepbench.digits import count, counted, percent, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.contracts.dataflow.dag import Dag, Input, Stage

HEAVY = 0.6
SYNTHETIC, SYNTHETIC_MAKER = "synthetic", "synthetic.bytes"
SYNTHETIC_BYTES = 65_536
"""What synthetic tasks and inputs make if no parameter says otherwise."""


def expected_mix(dag: Dag) -> ExpectedMix:
    """Return what one execution of a DAG asks of the store."""
    sizes = _object_bytes(dag)
    edges = tuple(_edge(dag, stage, each, sizes[each.stage]) for stage in dag.stages for each in stage.inputs)
    levels = tuple(_level(edges, stages, number) for number, stages in enumerate(dag.levels))
    writes, reads = sum(edge.writes for edge in edges), sum(edge.reads for edge in edges)
    read_bytes, written_bytes = _read_bytes(edges), _written_bytes(edges)
    mix = ExpectedMix(
        dag=dag.name,
        tasks=dag.tasks,
        objects=writes,
        reads=reads,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        read_share=reads / (reads + writes) if edges else None,
        mix=_kind(reads, writes),
        concurrency=max(level.concurrency for level in levels),
        edges=edges,
        levels=levels,
        text="",
    )
    return mix.model_copy(update={"text": _text(mix)})


def _edge(dag: Dag, consumer: Stage, each: Input, blob_bytes: int | None) -> ExpectedEdge:
    producer = dag.by_name[each.stage]
    writes = consumer.tasks if each.kind == "scatter" else producer.tasks
    reads = producer.tasks * consumer.tasks if each.kind == "broadcast" else writes
    kind: MixKind = "balanced"
    if each.kind == "broadcast" and consumer.tasks > 1:
        kind = "read-heavy"
    if each.kind == "gather" and producer.tasks > consumer.tasks:
        kind = "write-heavy"
    return ExpectedEdge(
        producer=producer.name,
        consumer=consumer.name,
        kind=each.kind,
        writes=writes,
        reads=reads,
        writers=producer.tasks,
        readers=consumer.tasks,
        blob_bytes=blob_bytes,
        read_share=reads / (reads + writes),
        mix=kind,
    )


def _level(edges: Iterable[ExpectedEdge], stages: tuple[Stage, ...], number: int) -> ExpectedLevel:
    names = {stage.name for stage in stages}
    before = [edge for edge in edges if edge.consumer in names]
    after = [edge for edge in edges if edge.producer in names]
    reads, writes = sum(edge.reads for edge in before), sum(edge.writes for edge in after)
    return ExpectedLevel(
        level=number,
        stages=tuple(stage.name for stage in stages),
        concurrency=sum(stage.tasks for stage in stages),
        reads=reads,
        writes=writes,
        read_bytes=_read_bytes(before),
        written_bytes=_written_bytes(after),
        mix=_kind(reads, writes),
    )


def _read_bytes(edges: Iterable[ExpectedEdge]) -> int | None:
    return _sum(None if edge.blob_bytes is None else edge.reads * edge.blob_bytes for edge in edges)


def _written_bytes(edges: Iterable[ExpectedEdge]) -> int | None:
    return _sum(None if edge.blob_bytes is None else edge.writes * edge.blob_bytes for edge in edges)


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _kind(reads: int, writes: int) -> MixKind:
    if reads + writes == 0:
        return "none"
    share = reads / (reads + writes)
    return "read-heavy" if share >= HEAVY else "write-heavy" if share <= 1 - HEAVY else "balanced"


def _object_bytes(dag: Dag) -> dict[str, int | None]:
    """Return the size of each stage's objects; None where only the application knows it."""
    sizes: dict[str, int | None] = {}
    for stages in dag.levels:
        for stage in stages:
            sizes[stage.name] = _synthetic_bytes(dag, stage, sizes) if stage.application == SYNTHETIC else None
    return sizes


def _synthetic_bytes(dag: Dag, stage: Stage, sizes: dict[str, int | None]) -> int | None:
    """Return what `synthetic.work` makes of its parameters: `output_bytes` each, or `output_ratio` of what it reads."""
    if "output_ratio" not in stage.parameters:
        return int(stage.parameters.get("output_bytes", SYNTHETIC_BYTES))
    read = _read_by_each(dag, stage, sizes)
    parts = sum(
        consumer.tasks // stage.tasks if kind == "scatter" else 1 for consumer, kind in dag.consumers_of(stage.name)
    )
    return int(read * float(stage.parameters["output_ratio"]) / parts) if read is not None and parts else None


def _read_by_each(dag: Dag, stage: Stage, sizes: dict[str, int | None]) -> int | None:
    if stage.takes_input:
        is_synthetic = dag.input is not None and dag.input.source is None and dag.input.maker == SYNTHETIC_MAKER
        return int(dag.input.parameters.get("input_bytes", SYNTHETIC_BYTES)) if dag.input and is_synthetic else None
    stages = dag.by_name
    known: list[int | None] = []
    for edge in stage.inputs:
        each, before = sizes[edge.stage], stages[edge.stage].tasks
        objects = 1 if edge.kind == "scatter" else before if edge.kind == "broadcast" else before // stage.tasks
        known.append(None if each is None else each * objects)
    return _sum(known)


def _text(mix: ExpectedMix) -> str:
    ran = f"{counted(mix.tasks, 'task')} on {counted(len(mix.levels), 'level')}, up to {count(mix.concurrency)} at once"
    if mix.read_share is None:
        return f"{mix.dag}: {ran}, pass no data on"
    amounts = f"{counted(mix.objects, 'object')} written, {counted(mix.reads, 'read')} ({percent(mix.read_share)} reads"
    sizes = ", sizes known to the application only"
    if mix.read_bytes is not None and mix.written_bytes is not None:
        sizes = f", {size(mix.written_bytes)} written and {size(mix.read_bytes)} read"
    edges = "; ".join(
        f"{edge.kind} {edge.producer} to {edge.consumer}: {edge.mix}, {counted(edge.writers, 'task')} writing at once, "
        f"{count(edge.readers)} reading"
        for edge in mix.edges
    )
    return f"{mix.dag}: {ran}; {amounts}, {mix.mix}{sizes}); {edges}"
