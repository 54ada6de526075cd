"""
The plan: what to run, in the user's words.

`Plan` is what a user writes. `parse_plan` (in `stepbench.planning`) turns text into one or into a list of
problems, and expands it into `TrialSpec`s, which are what the state machines run.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from stepbench.contracts import experiment_rules, plan_rules
from stepbench.contracts.application import Application
from stepbench.contracts.base import Contract
from stepbench.contracts.closed_load import MOST_OPERATIONS
from stepbench.contracts.identity import MAX_WRITERS
from stepbench.contracts.load_rules import MAX_PHASES
from stepbench.contracts.phase import SLICE_S, LoadStep, Name, Phase, Scale, Until, Window
from stepbench.contracts.plan_rules import MAX_TRIALS
from stepbench.contracts.record import Record
from stepbench.contracts.rule import Broken, refuse
from stepbench.contracts.target import Target, is_pull
from stepbench.contracts.workload import Workload

__all__ = [
    "SLICE_S",
    "FindRate",
    "LoadStep",
    "Phase",
    "Plan",
    "Published",
    "Record",
    "Scale",
    "TrialPlan",
    "TrialSpec",
    "Until",
    "Window",
]

WATCH_LOOP_S, SHORTEST_WATCH_LOOP_S = 15, 1


PublishedMetric = Literal["p50", "p90", "p95", "p99", "p999", "iqr", "throughput"]


class Published(Contract):
    """A number that somebody published for this experiment: a time, a rate or a ratio; ours is set beside it."""

    metric: PublishedMetric = Field(description="`iqr`, the interquartile range, in ratios only.")
    value_ms: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    per_minute: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Of `throughput`: acknowledged a minute."
    )
    ratio: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Of the metric over `over_metric` in window `over`."
    )
    over: Name | None = Field(default=None, description="A measured window; without it, the same one.")
    over_metric: PublishedMetric | None = Field(default=None, description="Without it, the same metric.")
    bound: Literal["above", "up_to"] | None = Field(
        default=None, description="Where no number was published, but a limit: more than this, or at most this."
    )
    source: str = Field(min_length=1, max_length=200, description='Where it stands: "TriggerPerf, Fig. 5".')
    window: Name | None = Field(default=None, description="Which window it is about; without it, the only one.")

    @model_validator(mode="after")
    def _one_number(self) -> Self:
        refuse(experiment_rules.published_number_rules(self))
        return self


class FindRate(Contract):
    """
    Find the rate at which the store is so busy, by bracketing: probe phases, each at a rate of its own.

    What `of_found` in a load step refers to. What is looked at is CPU for servers, and consumed of provisioned write
    units for DynamoDB; S3 tells neither.
    """

    utilisation: float = Field(default=0.8, ge=0.01, le=0.95, allow_inf_nan=False)
    tolerance: float = Field(default=0.05, ge=0.01, le=0.5, allow_inf_nan=False, description="Near enough, either way.")
    low_per_s: float = Field(gt=0, le=200_000, allow_inf_nan=False, description="The first probe's rate.")
    high_per_s: float = Field(gt=0, le=200_000, allow_inf_nan=False, description="No probe offers more.")
    probe_s: float = Field(default=120, ge=5, le=SLICE_S, allow_inf_nan=False)
    probes: int = Field(default=8, ge=2, le=20, description="At most; those that are not needed are left out.")

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        if self.high_per_s <= self.low_per_s:
            refuse([Broken("high_per_s", f"is not above low_per_s ({self.low_per_s:g})", "Raise it.")])
        return self

    def phases(self) -> tuple[Phase, ...]:
        """The probes, at the highest rate that each may get."""
        load = (LoadStep(rate_per_s=self.high_per_s, duration_s=self.probe_s),)
        return tuple(
            Phase(name=f"probe-{number}", measured=False, probe=True, load=load) for number in range(1, self.probes + 1)
        )

    def at_lowest(self, phase: Phase) -> Phase:
        """The phase at the lowest rate that the search may leave it; itself where the search has no say in it."""
        factors = [1.0 if phase.probe else step.of_found for step in phase.load]
        load = tuple(
            step if of is None else step.model_copy(update={"rate_per_s": min(step.rate_per_s, of * self.low_per_s)})
            for step, of in zip(phase.load, factors, strict=True)
        )
        return phase.model_copy(update={"load": load})


MatrixValues = Annotated[list[Any], Field(min_length=1, max_length=MAX_TRIALS)]


class TrialPlan(Contract):
    """One experiment on one store."""

    experiment: Literal["trigger", "operations"] = "trigger"
    name: Name | None = Field(default=None, description="Without it, named after its store.")
    target: Target
    record: Record = Record()
    workload: Workload | None = Field(default=None, description="What operations do; triggers have a `record`.")
    phases: tuple[Phase, ...] = Field(min_length=1, max_length=MAX_PHASES)
    find_rate: FindRate | None = None
    arrivals: Literal["constant", "poisson"] = "constant"
    writers: int = Field(default=1, ge=1, le=MAX_WRITERS)
    max_concurrency: int | None = Field(default=None, ge=1, le=MAX_WRITERS * 2)
    max_in_flight: int = Field(
        default=64, ge=1, le=10_000, description="Per writer; at the cap requests queue in order."
    )
    drain_limit_s: float = Field(default=120, gt=0, le=3_600, allow_inf_nan=False)
    log_t4: Literal["all", "sample", "none"] = "none"
    repeats: int = Field(default=1, ge=1, le=100)
    matrix: dict[str, MatrixValues] | None = Field(
        default=None,
        min_length=1,
        max_length=10,
        description="Values for paths such as `phases[0].load[0].rate_per_s`; expands the trial into all combinations.",
    )
    published: tuple[Published, ...] = Field(default=(), max_length=20)
    seed: int = Field(default=7, ge=0, lt=2**63)

    @model_validator(mode="after")
    def _is_runnable(self) -> Self:
        refuse(broken for rule in plan_rules.OF_TRIAL for broken in rule(self))
        return self

    @property
    def run_phases(self) -> tuple[Phase, ...]:
        """The phases as they are run: with the probes of `find_rate` before the first that needs what they find."""
        if self.find_rate is None or any(phase.probe for phase in self.phases):
            return self.phases
        first = next((index for index, phase in enumerate(self.phases) if phase.uses_found_rate), len(self.phases))
        return (*self.phases[:first], *self.find_rate.phases(), *self.phases[first:])

    @property
    def pull(self) -> bool:
        """Whether a watcher has to hold the trigger; operations have none."""
        return self.experiment == "trigger" and is_pull(self.target)

    @property
    def events(self) -> int:
        """How many events all phases offer together, at most."""
        return sum(self.events_of(phase) for phase in self.run_phases)

    def events_of(self, phase: Phase) -> int:
        """How many events one of the phases offers at most, over all writers, whatever the store can do."""
        if phase.closed is None:
            return phase.events
        offered = phase.closed.most_events(answer_s=self.target.fastest_answer_s, writers=self.writers)
        return min(offered, self.kept_operations(phase.length_s))

    def kept_operations(self, length_s: float) -> int:
        """
        How many operations of closed loop the writers offer at most in so long a time: its share of `MOST_OPERATIONS`.

        A trial's records are held in memory together, and nobody knows beforehand how fast a store is.
        """
        return int(MOST_OPERATIONS * length_s / sum(phase.length_s for phase in self.phases))

    @property
    def length_s(self) -> float:
        """Settle times and load together, in seconds; orchestration comes on top."""
        return sum(phase.settle_s + phase.length_s for phase in self.run_phases)

    @property
    def watch_loop_s(self) -> float:
        """How often the lane that does not hold the watch looks whether it has ended: a short trial is not to wait."""
        return min(WATCH_LOOP_S, max(SHORTEST_WATCH_LOOP_S, self.length_s / 20))

    @property
    def preloaded_keys(self) -> int:
        """How many keys are written before the load: a workload's records, keys of updates, one for each delete."""
        if self.workload is not None:
            return self.workload.records
        return self.events if self.record.operation == "delete" else self.record.distinct_keys or 0

    @property
    def clients_of_writer(self) -> int:
        """How many clients a writer has in the busiest closed phase; 0 where all load is open."""
        return max((-(-phase.closed.clients // self.writers) for phase in self.phases if phase.closed), default=0)

    @property
    def copies(self) -> int:
        """How many trials it expands into: the combinations of its matrix, each so often as it is repeated."""
        return math.prod(len(values) for values in (self.matrix or {}).values()) * self.repeats


class Plan(Contract):
    """A benchmark: trials, run one after the other."""

    name: Name
    trials: tuple[TrialPlan, ...] = Field(min_length=1, max_length=MAX_TRIALS)
    order: Literal["interleaved", "random"] = Field(
        default="interleaved",
        description="All trials once, as listed, then all once more for the first repeat, and so on; "
        "`random` shuffles each of these rounds, by the first trial's seed.",
    )
    budget_usd: float = Field(default=5.0, ge=0, le=100_000, allow_inf_nan=False)
    description: str | None = Field(default=None, max_length=2_000)
    applications: tuple[Application, ...] = Field(
        default=(), max_length=50, description="Of whose time the report tells the triggers' share."
    )

    @model_validator(mode="after")
    def _is_one_run(self) -> Self:
        refuse(broken for rule in plan_rules.OF_PLAN for broken in rule(self))
        return self

    @property
    def size(self) -> int:
        """How many trials are run."""
        return sum(trial.copies for trial in self.trials)


class TrialSpec(Contract):
    """One trial, expanded and named: what the trial machine runs. Stored as `runs/<run>/trials/<n>/trial.json`."""

    run_id: str
    index: int = Field(ge=0, le=0xFFFF)
    name: Name
    tag: str = Field(description="`<run tag>-<trial, 4 hex>`: the trial's namespace in every store and table.")
    plan: TrialPlan = Field(description="Without `matrix`, and with `repeats` 1: both are expanded.")
    estimate_usd: float = Field(ge=0)
    group: str = Field(default="", description="What the repeats of one trial have in common; empty for its name.")
    base: str = Field(default="", description="The trial's name as written, or its store's; empty where that varies.")
    repeat: int = Field(default=0, ge=0, description="Number within the group, from 0.")
    point: dict[str, Any] = Field(default={}, description="The matrix values of this trial, by dotted path.")
