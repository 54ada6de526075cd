"""
How Cassandra is configured: the five parameters that are tuned, what a node has, and what a change of them took.

Then the model that `stepbench tune` makes, and what was decided by it while the store ran; there, a configuration of
None is the released one.

Their published advice: concurrent writes eight a core; the file cache a quarter of the heap, 512 MiB at most; the
memtable's clean-up threshold from 0.11 (disks that turn) to 0.33 (that do not); compactors as many as disks or cores,
whichever are fewer, from 2 to 8 a core. No ranges were published with it: those here are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from stepbench.contracts.base import BrokenRule, Contract, RuledContract
from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES, StageName

if TYPE_CHECKING:
    from collections.abc import Iterator

Compaction = Literal["STCS", "LCS", "TWCS", "UCS"]
"""Size-tiered, levelled, by time windows, unified: how files are merged."""
WRITES, FILE_CACHE_MIB, CLEANUP, COMPACTORS = (2, 256), (64, 1_024), (0.05, 0.6), (1, 16)
"""From where to where parameters may be set, both included."""
NODE_SETTINGS = (
    "concurrent_compactors",
    "concurrent_writes",
    "file_cache_enabled",
    "file_cache_size",
    "memtable_cleanup_threshold",
)
"""What tuning writes into cassandra.yaml, for which a node is started anew."""
COMMANDS = ("setconcurrentcompactors", "setconcurrency")
"""What tuning asks nodetool for, while the node runs."""
RESTARTED_FOR = ("file_cache_mib", "memtable_cleanup_threshold")
"""Of the parameters, those for which a node is started anew; the others change while it runs."""


class CassandraConfiguration(Contract):
    """
    The parameters that are tuned together; the first two and the last change while the node runs.

    For the file cache and the threshold it is started anew.
    """

    compaction: Compaction = Field(description="The strategy of the trial's tables.")
    concurrent_writes: int = Field(ge=WRITES[0], le=WRITES[1], description="Threads that apply writes.")
    file_cache_mib: int = Field(
        ge=FILE_CACHE_MIB[0],
        le=FILE_CACHE_MIB[1],
        description="Memory for pieces of files, 32 MiB of it for buffers. Switches it on: as released it is off.",
    )
    memtable_cleanup_threshold: float = Field(
        ge=CLEANUP[0],
        le=CLEANUP[1],
        description="Share of the memtables' memory at which the largest is written to disk.",
    )
    concurrent_compactors: int = Field(ge=COMPACTORS[0], le=COMPACTORS[1], description="Merges of files at a time.")


RELEASED = CassandraConfiguration.model_construct(
    compaction="STCS", concurrent_writes=32, file_cache_mib=0, memtable_cleanup_threshold=1 / 3, concurrent_compactors=2
)
"""
What a released node has that has two cores and one folder of data, and so two compactors and two threads that write
memtables to disk. Its cache is off, which no plan can ask for.
"""


class EffectiveConfiguration(Contract):
    """
    What a node says that it has.

    Attributes:
        version: of Cassandra.
        compaction: of the trial's tables, each strategy once; none where there is no table yet.
        concurrent_writes: as named.
        file_cache_mib: 0 where the cache is off.
        memtable_cleanup_threshold: as named.
        concurrent_compactors: as named.
        notes: each parameter that has no effect as it is, or that this version advises against.
    """

    version: str
    compaction: tuple[str, ...]
    concurrent_writes: int
    file_cache_mib: int
    memtable_cleanup_threshold: float
    concurrent_compactors: int
    notes: tuple[str, ...] = ()


class AppliedConfiguration(Contract):
    """What became of a change. away_s: for how long the node did not serve, 0 where it was not started anew."""

    before: EffectiveConfiguration
    after: EffectiveConfiguration
    changed: tuple[str, ...]
    away_s: float = 0.0


ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$", max_length=40)]
MAX_POINTS = 400


class StoreWorkload(Contract):
    """What a store is asked for: W. Blobs of one size, put and got by so many clients at once."""

    read_share: float = Field(ge=0, le=1, description="Gets by all requests; 0.5 of a scatter, more of a broadcast.")
    blob_bytes: int = Field(ge=1, le=256 * 2**20)
    clients: int = Field(ge=1, le=1_000)


class ModelPoint(Contract):
    """One configuration under one workload, several times: H(W, C) as it was measured, in requests a second."""

    workload: StoreWorkload
    configuration: CassandraConfiguration | None = Field(description="None: as released.")
    per_s: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1, max_length=50)


class Confirmation(Contract):
    """
    A found configuration beside the released one, both started anew each time; gain is the ratio of throughputs.

    gain_low, gain_high: the 95 % interval of the median ratio; None for fewer than six starts, which have none.
    """

    workload: StoreWorkload
    configuration: CassandraConfiguration | None = Field(description="None: as released.")
    gains: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1, max_length=50, description="One a start.")
    found_gain: float = Field(gt=0, description="As the search has seen it, on the starts that chose it.")
    gain: float = Field(gt=0)
    gain_low: float | None = Field(default=None, gt=0)
    gain_high: float | None = Field(default=None, gt=0)
    predicted_per_s: float = Field(gt=0)
    measured_per_s: float = Field(gt=0)

    @property
    def starts(self) -> int:
        """Return how often both were started anew."""
        return len(self.gains)

    @property
    def holds(self) -> bool:
        """Return whether the gain is one for sure: the whole interval is above 1."""
        return self.gain_low is not None and self.gain_low > 1


class TunedModel(Contract):
    """What `stepbench tune` has found on one machine: a stack refuses it for another."""

    name: ModelName
    made_at: AwareDatetime
    machine: str = Field(
        max_length=300, description="A host's instance type, or processor, cores and system of somebody's own machine."
    )
    provider: str = Field(max_length=200, description="Name and version of what was tuned.")
    cores: int = Field(ge=1)
    heap_mib: int = Field(ge=1)
    restart_s: float = Field(gt=0, description="T_r with a restart: from its stop until it takes connections again.")
    live_s: float = Field(ge=0, description="T_r of a change while the store runs; load waits for it all the same.")
    blob_bytes: dict[StageName, Annotated[int, Field(ge=1, le=MAX_OBJECT_BYTES)]] = Field(
        default={}, max_length=20, description="Of an object as it was measured, by the DAG's name."
    )
    points: tuple[ModelPoint, ...] = Field(min_length=1, max_length=MAX_POINTS)
    confirmations: tuple[Confirmation, ...] = Field(default=(), max_length=50)

    @property
    def candidates(self) -> tuple[CassandraConfiguration | None, ...]:
        """Return the released configuration, and those whose gain has held when they were started anew."""
        held = (each.configuration for each in self.confirmations if each.holds)
        return tuple(dict.fromkeys((None, *held)))


class Expected(Contract):
    """A stretch of the look-ahead: this workload for so long."""

    workload: StoreWorkload
    duration_s: float = Field(gt=0)


class TuningDecision(RuledContract):
    """
    Whether a store was reconfigured before a phase, and all that this was decided by.

    Throughputs in requests a second, benefits and cost in requests: `new_benefit` - `old_benefit` > `cost` decides.
    """

    phase: str
    dag: str
    decided_ns: int = Field(ge=0, description="Since the epoch.")
    mode: Literal["static", "adaptive"]
    ahead: tuple[Expected, ...] = Field(max_length=200, description="None where nothing is passed on.")
    old: CassandraConfiguration | None = Field(description="None: as released.")
    new: CassandraConfiguration | None = Field(description="The best other one, also where it was not worth it.")
    nodes: int = Field(ge=1, description="That would be reconfigured: M.")
    old_per_s: float = Field(ge=0, description="H of the coming workload, as it is configured.")
    new_per_s: float = Field(ge=0)
    old_benefit: float = Field(ge=0)
    new_benefit: float = Field(ge=0)
    cost: float = Field(ge=0)
    reconfiguration_s: float = Field(ge=0, description="T_r, as the model has it.")
    reconfigure: bool
    reason: str = Field(max_length=500)

    @property
    def configured(self) -> CassandraConfiguration | None:
        """Return what the store has after it."""
        return self.new if self.reconfigure else self.old

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.reconfigure and self.old == self.new:
            yield BrokenRule("new", "is what the store has", "Do not reconfigure.")


class TuningStep(Contract):
    """One phase's decision, and what came of it: None where the store was not looked at."""

    decision: TuningDecision
    done: AppliedConfiguration | None = None

    @property
    def reconfigured(self) -> bool:
        """Return whether anything of the store was changed."""
        return self.done is not None and bool(self.done.changed)


class TuningMode(Contract):
    """How a store comes to its configuration."""

    tunes: ClassVar[bool] = True

    def configures(self, phase: int) -> bool:
        """Return whether the store may be configured before a phase."""
        return self.tunes and phase >= 0


class AsReleased(TuningMode):
    """Nothing is set: what the store came with."""

    mode: Literal["default"] = "default"
    tunes: ClassVar = False


class ByModel(TuningMode):
    """Configured by a model, for what the DAGs are expected to ask."""

    model: TunedModel | ModelName = Field(default="local", description="A shipped model's name, or a model itself.")
    blob_bytes: dict[StageName, Annotated[int, Field(ge=1, le=MAX_OBJECT_BYTES)]] = Field(
        default={},
        max_length=20,
        description="Of an object, by the DAG's name; without it as the model has it, or the stages say.",
    )


class StaticTuning(ByModel):
    """Configured once, before the first phase."""

    mode: Literal["static"]
    settings: CassandraConfiguration | None = Field(
        default=None, description="Without it, the model's best for all phases together."
    )

    def configures(self, phase: int) -> bool:
        """See `TuningMode`: before the first one."""
        return phase == 0


class AdaptiveTuning(ByModel):
    """Configured anew before a phase wherever the model says that it pays."""

    mode: Literal["adaptive"]
    look_ahead_s: float = Field(
        default=300, ge=1, le=86_400, description="T_L: how much of the phases to come counts. Published without value."
    )


Tuning = Annotated[AsReleased | StaticTuning | AdaptiveTuning, Field(discriminator="mode")]
