"""A trial as its author writes it: before the rules that span several fields."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from stepbench.contracts.base import BrokenRule, Contract, RuledContract
from stepbench.contracts.dataflow.dag import Dag
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.identity import MAX_WRITERS, MIN_KEY_BYTES, MIN_VALUE_BYTES, VALUE_ATTRIBUTE
from stepbench.contracts.phase import MAX_PRECISION_CHECKS, SHORTEST_CHECK_PAUSE_S, SLICE_S, LoadStep, Name, Phase
from stepbench.contracts.published import Published
from stepbench.contracts.target import Target
from stepbench.contracts.values import RecordValues
from stepbench.contracts.workload import INLINE_ITERATIONS, MOST_OPERATIONS, ClosedLoad, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TRIALS = 100
"""The limit of a plan, repeats and matrices expanded."""
MAX_PHASES = 100
"""The limit of a trial, probes included; the number of a phase is one byte of an event's identity."""
DRAIN_LIMIT_S = 120
"""How long arrivals are awaited, beside the time that a measured function's attempts may take."""
WATCH_LOOP_S, SHORTEST_WATCH_LOOP_S = 15, 1

LoadFrom = Literal["lambda", "host"]
VALUE_BYTES = 889
ZIPF_EXPONENT, HOT_SHARE = 0.99, 0.5
"""Defaults; the exponent is that of YCSB, the Yahoo! Cloud Serving Benchmark."""


def _drain_limit_s(fields: dict[str, Any]) -> float:
    """Return how long arrivals are awaited where the plan does not say: of a measured function until its last try."""
    target = fields.get("target")  # absent where it is refused
    if target is None or target.function is None:
        return DRAIN_LIMIT_S
    return DRAIN_LIMIT_S + float(target.retried_s)


class Record(RuledContract):
    """What is written."""

    operation: Literal["put", "update", "delete"] = Field(
        default="put",
        description="`put` makes new keys; `update` overwrites one of `distinct_keys` existing ones; `delete` removes "
        "a key of its own, written before the load.",
    )
    key_bytes: int = Field(default=59, ge=MIN_KEY_BYTES, le=1_000)
    value_bytes: int = Field(default=VALUE_BYTES, ge=MIN_VALUE_BYTES, le=350_000)
    distinct_keys: int | None = Field(default=None, ge=1, le=1_000_000)
    key_distribution: Literal["uniform", "zipf", "hot"] = Field(
        default="uniform",
        description="Which of them an update overwrites: each alike; key k with a probability as 1 / (k + 1) ** "
        "zipf_exponent; or key 0 with probability hot_share, and the others alike.",
    )
    zipf_exponent: float = Field(default=ZIPF_EXPONENT, gt=0, le=10)
    hot_share: float = Field(default=HOT_SHARE, gt=0, lt=1)
    matching_share: float = Field(
        default=1,
        gt=0,
        le=1,
        description="Share of the events that the trigger's own filter lets pass; the others it holds back. "
        "1 sets no filter.",
    )
    values: RecordValues | None = Field(
        default=None, description="Rows of your own that events write, in place of `value_bytes` of filler."
    )
    identity: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,62}$",
        examples=["event_id"],
        description="With `values`: the attribute or column that has the event's identity. Without it, `value` where "
        "updates need one; of puts and deletes the key has it.",
    )

    @property
    def identity_attribute(self) -> str:
        """Return the name of the attribute or column that begins with an event's identity; "" where only keys do."""
        if self.values is None or self.operation == "update":
            return self.identity or VALUE_ATTRIBUTE
        return self.identity or ""

    @property
    def mean_value_bytes(self) -> float:
        """Return how large a record is beside its key, on average; before own rows were read, as planned without."""
        facts = self.values.facts if self.values else None
        return facts.mean_bytes if facts else self.value_bytes

    @property
    def largest_value_bytes(self) -> int:
        """Return how large a record is beside its key at most, likewise."""
        facts = self.values.facts if self.values else None
        return facts.largest_bytes if facts else self.value_bytes

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.operation == "update" and self.distinct_keys is None:
            yield BrokenRule(
                "distinct_keys", "is missing, and an update needs it", "Say how many keys are overwritten."
            )
        no_meaning = f"has no meaning for {self.operation}"
        if self.operation != "update" and self.distinct_keys is not None:
            yield BrokenRule("distinct_keys", no_meaning, 'Remove it, or set operation to "update".')
        if self.operation != "update" and self.key_distribution != "uniform":
            yield BrokenRule("key_distribution", no_meaning, 'Remove it, or set operation to "update".')
        if self.values is not None and self.value_bytes != VALUE_BYTES:
            yield BrokenRule("value_bytes", "has no effect: values are as large as their rows", "Remove it.")
        if self.values is None and self.identity is not None:
            yield BrokenRule("identity", "has no effect: without values an event is named by its value", "Remove it.")
        if self.key_distribution == "hot" and self.distinct_keys == 1:
            yield BrokenRule("distinct_keys", "leaves no key beside the hot one", "Raise it to 2 or more.")
        if self.key_distribution != "zipf" and self.zipf_exponent != ZIPF_EXPONENT:
            yield BrokenRule("zipf_exponent", "has no effect", 'Remove it, or set key_distribution to "zipf".')
        if self.key_distribution != "hot" and self.hot_share != HOT_SHARE:
            yield BrokenRule("hot_share", "has no effect", 'Remove it, or set key_distribution to "hot".')


class FindRate(RuledContract):
    """
    Find the rate at which the store is so busy, by bracketing: probe phases, each at a rate of its own.

    What `of_found` in a load step refers to. What is looked at is CPU for servers, and consumed of provisioned write
    units for DynamoDB; S3 reports neither.
    """

    utilisation: float = Field(default=0.8, ge=0.01, le=0.95)
    tolerance: float = Field(default=0.05, ge=0.01, le=0.5, description="Near enough, either way.")
    low_per_s: float = Field(gt=0, le=200_000, description="The first probe's rate.")
    high_per_s: float = Field(gt=0, le=200_000, description="No probe offers more.")
    probe_s: float = Field(default=120, ge=5, le=SLICE_S)
    probes: int = Field(default=8, ge=2, le=20, description="At most; those that are not needed are left out.")

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.high_per_s <= self.low_per_s:
            yield BrokenRule("high_per_s", f"is not above low_per_s ({self.low_per_s:g})", "Raise it.")

    def phases(self) -> tuple[Phase, ...]:
        """Return the probes, at the highest rate that each may get."""
        load = (LoadStep(rate_per_s=self.high_per_s, duration_s=self.probe_s),)
        return tuple(
            Phase(name=f"probe-{number}", measured=False, probe=True, load=load) for number in range(1, self.probes + 1)
        )

    def at_lowest(self, phase: Phase) -> Phase:
        """Return the phase at the lowest rate that the search may leave it; unchanged where the rate is the plan's."""
        factors = [1.0 if phase.probe else step.of_found for step in phase.load]
        load = tuple(
            step if of is None else step.model_copy(update={"rate_per_s": min(step.rate_per_s, of * self.low_per_s)})
            for step, of in zip(phase.load, factors, strict=True)
        )
        return phase.model_copy(update={"load": load})


MatrixValues = Annotated[list[Any], Field(min_length=1, max_length=MAX_TRIALS)]


class TrialFields(Contract):
    """The fields of a trial, and what follows from them; `TrialPlan` holds only those that the rules allow."""

    experiment: Literal["trigger", "operations", "dataflow"] = "trigger"
    name: Name | None = Field(default=None, description="Without it, named after its store.")
    target: Target
    record: Record = Record()
    workload: Workload | None = Field(default=None, description="What operations do; triggers have a `record`.")
    dags: tuple[Dag, ...] = Field(default=(), max_length=20, description="What `dataflow` starts executions of.")
    phases: tuple[Phase, ...] = Field(min_length=1, max_length=MAX_PHASES)
    find_rate: FindRate | None = None
    arrivals: Literal["constant", "poisson"] = "constant"
    writers: int = Field(default=1, ge=1, le=MAX_WRITERS)
    load_from: LoadFrom = Field(
        default="lambda",
        description="Where writers run: each in a sandbox of Lambda's, or as a process on the stack's load host.",
    )
    max_concurrency: int | None = Field(default=None, ge=1, le=MAX_WRITERS * 2)
    max_in_flight: int = Field(
        default=64, ge=1, le=10_000, description="Per writer; at the cap requests queue in order."
    )
    drain_limit_s: float = Field(
        default_factory=_drain_limit_s, gt=0, le=3_600, json_schema_extra={"default": DRAIN_LIMIT_S}
    )
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

    @property
    def run_phases(self) -> tuple[Phase, ...]:
        """Return the phases as they are run: with the probes of `find_rate` before the first that needs their rate."""
        if self.find_rate is None or any(phase.probe for phase in self.phases):
            return self.phases
        first = next((index for index, phase in enumerate(self.phases) if phase.uses_found_rate), len(self.phases))
        return (*self.phases[:first], *self.find_rate.phases(), *self.phases[first:])

    def planned_together(self, phase: int) -> range:
        """Return the phase's number, and those of the phases that follow it without a gap."""
        later = range(phase + 1, len(self.phases))
        return range(phase, next((each for each in later if not self.phases[each].gapless), later.stop))

    def may_be_ended(self, phase: int) -> bool:
        """Return whether a threshold may end a phase: it is measured, in open loop, and planned by itself."""
        planned = self.phases[phase]
        alone = not planned.gapless and len(self.planned_together(phase)) == 1
        return alone and planned.measured and planned.is_open

    @property
    def threshold_checks(self) -> int:
        """Return how often thresholds are checked in each phase that they may end: not more in many than in one."""
        phases = sum(map(self.may_be_ended, range(len(self.phases))))
        return max(1, MAX_PRECISION_CHECKS // max(1, phases))

    def most_checks(self, *, aborts: bool) -> int:
        """
        Return how often `CheckPrecision` is called at most.

        aborts: whether thresholds may end phases. The call with which each of these begins finds nothing to check.
        """
        checks = MAX_PRECISION_CHECKS * sum(phase.until is not None for phase in self.phases)
        for phase in filter(self.may_be_ended, range(len(self.phases)) if aborts else ()):
            pauses = math.ceil(self.phases[phase].length_s / SHORTEST_CHECK_PAUSE_S)
            checks += 1 + min(pauses, self.threshold_checks)
        return checks

    def concurrency(self, phase: int) -> int:
        """
        Return how many writers run at once in a phase, those that wait for their slice included.

        A slice's successor waits beside it. A phase's last slice may be so short that the one after it, of the phase
        that follows without a gap, has to wait already when it begins; the others are long.
        """
        at_once, phases = self.max_concurrency or self.writers, self.planned_together(phase)
        if self.phases[phase].invoked is not None:
            return min(at_once, self.writers, INLINE_ITERATIONS if phase in self.inline_phases else self.writers)
        return at_once * min(sum(self.phases[each].slices for each in phases), 1 + len(phases))

    @property
    def inline_phases(self) -> tuple[int, ...]:
        """Return the phases whose invocations an inline Map begins."""
        found = enumerate(self.phases)
        return tuple(index for index, phase in found if phase.invoked is not None and phase.invoked.map == "inline")

    @property
    def most_concurrent(self) -> int:
        """Return how many writers run at once in the phase that has the most."""
        return max(map(self.concurrency, range(len(self.phases))))

    @property
    def writer_sandboxes(self) -> int:
        """Return how many sandboxes of Lambda writers need at once; none where a load host runs them."""
        return 0 if self.load_from == "host" else self.most_concurrent

    def dag_of(self, phase: Phase) -> Dag:
        """Return the DAG whose executions a phase of `dataflow` starts: the one it names, or the only one."""
        return next(dag for dag in self.dags if phase.dag in {None, dag.name})

    @property
    def pull(self) -> bool:
        """Return whether a watcher has to hold the trigger; operations have none."""
        return traits_of(self.experiment).by_trigger and self.target.is_pull

    @property
    def receiver(self) -> str:
        """Return the function whose first statement an event arrives by."""
        return traits_of(self.experiment).receiver or self.target.receiver

    @property
    def events(self) -> int:
        """Return how many events all phases offer together, at most."""
        return sum(self.events_of(phase) for phase in self.run_phases)

    def events_of(self, phase: Phase) -> int:
        """Return how many events a phase offers at most, over all writers, whatever the store can do."""
        loop = self.loop_of(phase)
        if loop is None:
            return phase.events
        offered = loop.most_events(answer_s=self.target.fastest_answer_s, writers=self.writers)
        return offered if phase.invoked else min(offered, self.kept_operations(phase.length_s))

    def loop_of(self, phase: Phase) -> ClosedLoad | None:
        """Return the clients that wait for their answers, the plan's or one for each invocation; None in open loop."""
        return phase.invoked.loop(self.writers) if phase.invoked else phase.closed

    def waiting_clients(self, phase: int) -> int | None:
        """Return how many clients wait for their answers at once, or how many invocations run; None in open loop."""
        planned = self.phases[phase]
        if planned.invoked:
            return self.concurrency(phase)
        return planned.closed.clients if planned.closed else None

    def kept_operations(self, length_s: float) -> int:
        """
        Return how many operations of closed loop the writers offer at most in that time, a share of `MOST_OPERATIONS`.

        A trial's records are held in memory together, and nobody knows beforehand how fast a store is.
        """
        return int(MOST_OPERATIONS * length_s / sum(phase.length_s for phase in self.phases))

    @property
    def length_s(self) -> float:
        """Return settle times and load together, in seconds; orchestration comes on top."""
        return sum(phase.settle_s + phase.length_s for phase in self.run_phases)

    @property
    def watch_loop_s(self) -> float:
        """Return how often the idle lane checks whether the watch has ended, in seconds: short trials do not wait."""
        return min(WATCH_LOOP_S, max(SHORTEST_WATCH_LOOP_S, self.length_s / 20))

    @property
    def preloaded_keys(self) -> int:
        """Return how many keys are written before the load: a workload's records, keys of updates and deletes."""
        if self.workload is not None:
            return self.workload.records
        return self.events if self.record.operation == "delete" else self.record.distinct_keys or 0

    @property
    def clients_of_writer(self) -> int:
        """Return how many clients a writer has in the phase with the most that wait; 0 where all load is open."""
        loops = filter(None, map(self.loop_of, self.phases))
        return max((-(-loop.clients // self.writers) for loop in loops), default=0)

    @property
    def copies(self) -> int:
        """Return how many trials it expands into: the combinations of its matrix times its repeats."""
        return math.prod(len(values) for values in (self.matrix or {}).values()) * self.repeats
