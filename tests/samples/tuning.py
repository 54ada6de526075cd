"""A model of a tuned store, as small as can be: two workloads, two configurations."""

from __future__ import annotations

import datetime as dt

from stepbench.contracts.tuning import CassandraConfiguration, Confirmation, ModelPoint, StoreWorkload, TunedModel

SCATTER = StoreWorkload(read_share=0.5, blob_bytes=65_536, clients=8)
BROADCAST = StoreWorkload(read_share=0.9, blob_bytes=65_536, clients=8)
CACHED = CassandraConfiguration(
    compaction="STCS",
    concurrent_writes=16,
    file_cache_mib=512,
    memtable_cleanup_threshold=0.33,
    concurrent_compactors=2,
)
LEVELED = CACHED.model_copy(update={"compaction": "LCS"})
"""Differs from it in what is changed while the node runs."""
POINTS = (
    ModelPoint(workload=SCATTER, configuration=None, per_s=(90, 100, 130)),
    ModelPoint(workload=SCATTER, configuration=LEVELED, per_s=(80,)),
    ModelPoint(workload=SCATTER, configuration=CACHED, per_s=(100,)),
    ModelPoint(workload=BROADCAST, configuration=None, per_s=(200,)),
    ModelPoint(workload=BROADCAST, configuration=LEVELED, per_s=(220,)),
    ModelPoint(workload=BROADCAST, configuration=CACHED, per_s=(300,)),
)


def confirmation(
    configuration: CassandraConfiguration, workload: StoreWorkload, *, low: float | None = 1.05
) -> Confirmation:
    """Return one of twenty starts; without a lower bound, of five."""
    return Confirmation(
        workload=workload,
        configuration=configuration,
        gains=(1.1,) * (5 if low is None else 20),
        found_gain=1.2,
        gain=1.1,
        gain_low=low,
        gain_high=None if low is None else 1.15,
        predicted_per_s=240,
        measured_per_s=220,
    )


def model(
    points: tuple[ModelPoint, ...] = POINTS,
    confirmations: tuple[Confirmation, ...] = (confirmation(LEVELED, BROADCAST), confirmation(CACHED, BROADCAST)),
) -> TunedModel:
    """Return a model by which a restart takes 20 s, and a change without one 2 s."""
    return TunedModel(
        name="sample",
        made_at=dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        machine="2 cores",
        provider="Cassandra 5.0.5",
        cores=2,
        heap_mib=1024,
        restart_s=20,
        live_s=2,
        points=points,
        confirmations=confirmations,
    )
