"""
The plan: what to run, in the user's words.

`Plan` is what a user writes. `parse_plan` (in `stepbench.planning`) turns text into one or into a list of
problems, and expands it into `TrialSpec`s, which are what the state machines run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from stepbench.contracts.application import Application
from stepbench.contracts.base import Contract
from stepbench.contracts.endpoint import endpoint_problem
from stepbench.contracts.identity import MAX_SLICES, MAX_WRITERS, MIN_KEY_BYTES, MIN_VALUE_BYTES
from stepbench.contracts.rule import Broken, refuse
from stepbench.contracts.target import Capacity, ServerlessCapacity, Target, is_pull

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", min_length=1, max_length=60)]

MAX_TRIALS = 100
"""Of a plan, repeats and matrices expanded."""
MAX_EVENTS_PER_TRIAL = 20_000_000
MAX_DELETES = 200_000
"""Each has its key written before the load, which `PrepareTarget` has 15 minutes for; S3 takes some 500 a second."""
SLICE_S = 600
MAX_LOGGED_EVENTS = 500_000
MAX_ITEMS_PER_PHASE = 50_000
"""Writers times slices: what one Distributed Map is given."""
MAX_WATCH_S = 8 * 3_600
MAX_HISTORY_EVENTS = 22_000
"""Of the 25,000 that an execution may have; the rest is for what does not loop."""
EVENTS_PER_LOOP = 9
"""Task (entered, scheduled, started, succeeded, exited), Choice and Wait (entered, exited)."""
WATCH_LOOP_S, SHORTEST_WATCH_LOOP_S, ARRIVALS_LOOP_S = 15, 2, 2
MAX_PLANNED_BYTES = 200_000
"""Of the 256 KiB that `ValidatePlan` may hand on; the rest is for the trials' outcomes."""
PLANNED_TRIAL_BYTES, PLANNED_PHASE_BYTES = 350, 45


class LoadStep(Contract):
    """A constant offered rate, for a time or for a number of events."""

    rate_per_s: float = Field(gt=0, le=200_000, allow_inf_nan=False)
    duration_s: float | None = Field(default=None, gt=0, le=7 * 86_400, allow_inf_nan=False)
    count: int | None = Field(default=None, gt=0, le=MAX_EVENTS_PER_TRIAL)

    @model_validator(mode="after")
    def _exactly_one_length(self) -> Self:
        refuse(_length_rules(self))
        return self

    @property
    def length_s(self) -> float:
        """How long the step lasts, in seconds."""
        return self.duration_s if self.duration_s is not None else (self.count or 0) / self.rate_per_s

    @property
    def events(self) -> int:
        """How many events the step offers (expected number, for Poisson arrivals by duration)."""
        return self.count if self.count is not None else math.floor(self.rate_per_s * self.length_s + 1e-9)


class Window(Contract):
    """A span of a phase, by intended send time (t0), that is analysed on its own."""

    name: Name
    from_s: float = Field(ge=0, allow_inf_nan=False)
    to_s: float = Field(gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.to_s <= self.from_s:
            refuse([Broken("to_s", f"is not after from_s ({self.from_s:g})", "Raise to_s or lower from_s.")])
        return self


class Scale(Contract):
    """A change of the store's capacity, made after the settle time and before the load begins."""

    capacity: Capacity


class Phase(Contract):
    """A stretch of load without a gap in it."""

    name: Name
    measured: bool = True
    settle_s: float = Field(default=0, ge=0, le=86_400, allow_inf_nan=False)
    scale: Scale | None = None
    load: tuple[LoadStep, ...] = Field(min_length=1, max_length=100)
    windows: tuple[Window, ...] = Field(
        default=(), max_length=50, description="Without any, the whole phase is one window with the phase's name."
    )

    @model_validator(mode="after")
    def _windows_lie_inside(self) -> Self:
        refuse(_window_rules(self))
        return self

    @property
    def length_s(self) -> float:
        """How long load is offered, in seconds."""
        return sum(step.length_s for step in self.load)

    @property
    def events(self) -> int:
        """How many events the phase offers over all writers."""
        return sum(step.events for step in self.load)

    @property
    def slices(self) -> int:
        """Into how many slices of at most `SLICE_S` each writer's work is cut."""
        return max(1, math.ceil(self.length_s / SLICE_S - 1e-9))

    def all_windows(self) -> tuple[Window, ...]:
        """The windows to analyse; none for an unmeasured phase."""
        if not self.measured:
            return ()
        return self.windows or (Window(name=self.name, from_s=0, to_s=self.length_s),)


ZIPF_EXPONENT, HOT_SHARE = 0.99, 0.5
"""Defaults; the exponent is that of YCSB, the Yahoo! Cloud Serving Benchmark."""


class Record(Contract):
    """What is written."""

    operation: Literal["put", "update", "delete"] = Field(
        default="put",
        description="`put` makes new keys; `update` overwrites one of `distinct_keys` existing ones; `delete` removes "
        "a key of its own, written before the load.",
    )
    key_bytes: int = Field(default=59, ge=MIN_KEY_BYTES, le=1_000)
    value_bytes: int = Field(default=889, ge=MIN_VALUE_BYTES, le=350_000)
    distinct_keys: int | None = Field(default=None, ge=1, le=1_000_000)
    key_distribution: Literal["uniform", "zipf", "hot"] = Field(
        default="uniform",
        description="Which of them an update overwrites: each alike; key k with a probability as 1 / (k + 1) ** "
        "zipf_exponent; or key 0 with probability hot_share, and the others alike.",
    )
    zipf_exponent: float = Field(default=ZIPF_EXPONENT, gt=0, le=10, allow_inf_nan=False)
    hot_share: float = Field(default=HOT_SHARE, gt=0, lt=1)

    @model_validator(mode="after")
    def _updates_need_keys(self) -> Self:
        refuse(_key_rules(self))
        return self


def _key_rules(record: Record) -> Iterator[Broken]:
    if record.operation == "update" and record.distinct_keys is None:
        yield Broken("distinct_keys", "is missing, and an update needs it", "Say how many keys are overwritten.")
    no_meaning = f"has no meaning for {record.operation}"
    if record.operation != "update" and record.distinct_keys is not None:
        yield Broken("distinct_keys", no_meaning, 'Remove it, or set operation to "update".')
    if record.operation != "update" and record.key_distribution != "uniform":
        yield Broken("key_distribution", no_meaning, 'Remove it, or set operation to "update".')
    if record.key_distribution == "hot" and record.distinct_keys == 1:
        yield Broken("distinct_keys", "leaves no key beside the hot one", "Raise it to 2 or more.")
    if record.key_distribution != "zipf" and record.zipf_exponent != ZIPF_EXPONENT:
        yield Broken("zipf_exponent", "has no effect", 'Remove it, or set key_distribution to "zipf".')
    if record.key_distribution != "hot" and record.hot_share != HOT_SHARE:
        yield Broken("hot_share", "has no effect", 'Remove it, or set key_distribution to "hot".')


class Published(Contract):
    """A number that somebody published for this experiment; ours is set beside it."""

    metric: Literal["p50", "p90", "p95", "p99"]
    value_ms: float = Field(gt=0, allow_inf_nan=False)
    source: str = Field(min_length=1, max_length=200, description='Where it stands: "TriggerPerf, Fig. 5".')
    window: Name | None = Field(default=None, description="Which window it is about; without it, the only one.")


MatrixValues = Annotated[list[Any], Field(min_length=1, max_length=MAX_TRIALS)]


class TrialPlan(Contract):
    """One experiment on one store."""

    experiment: Literal["trigger"] = "trigger"
    name: Name | None = Field(default=None, description="Without it, named after its store.")
    target: Target
    record: Record = Record()
    phases: tuple[Phase, ...] = Field(min_length=1, max_length=50)
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
        of_load = (_concurrency_rules, _size_rules, _delete_rules, _watch_rules)
        rules = (*of_load, _scale_rules, _phase_rules, _endpoint_rules)
        refuse(broken for rule in (*rules, _published_rules, _log_rules) for broken in rule(self))
        return self

    @property
    def events(self) -> int:
        """How many events all phases offer together."""
        return sum(phase.events for phase in self.phases)

    @property
    def length_s(self) -> float:
        """Settle times and load together, in seconds; orchestration comes on top."""
        return sum(phase.settle_s + phase.length_s for phase in self.phases)

    @property
    def watch_loop_s(self) -> float:
        """How often the lane that does not hold the watch looks whether it has ended: a short trial is not to wait."""
        return min(WATCH_LOOP_S, max(SHORTEST_WATCH_LOOP_S, self.length_s / 10))

    @property
    def preloaded_keys(self) -> int:
        """How many keys are written before the load: those that updates overwrite, or one for each delete."""
        return self.events if self.record.operation == "delete" else self.record.distinct_keys or 0

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
        names = [trial.name for trial in self.trials]
        applications = [application.name for application in self.applications]
        repeated = [*_repeated("trials", names), *_repeated("applications", applications)]
        refuse([*repeated, *_expansion_rules(self), *_planned_rules(self)])
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
    repeat: int = Field(default=0, ge=0, description="Number within the group, from 0.")
    point: dict[str, Any] = Field(default={}, description="The matrix values of this trial, by dotted path.")


# --- rules that span fields: each yields what is broken ------------------------------------------------------


def _length_rules(step: LoadStep) -> Iterator[Broken]:
    if step.duration_s is None and step.count is None:
        yield Broken("duration_s", "is missing, and so is count", "Give exactly one of duration_s and count.")
    if step.duration_s is not None and step.count is not None:
        yield Broken("count", f"stands beside duration_s ({step.duration_s:g})", "Remove one of the two.")


def _window_rules(phase: Phase) -> Iterator[Broken]:
    for index, window in enumerate(phase.windows):
        if window.to_s > phase.length_s + 1e-6:
            message = f"lies after the end of the phase, which lasts {phase.length_s:g} s"
            yield Broken(f"windows[{index}].to_s", message, f"Let it end by {phase.length_s:g}, or lengthen the load.")
    if phase.windows and not phase.measured:
        yield Broken("windows", "belong to a phase with measured: false", "Remove them, or set measured: true.")
    yield from _repeated("windows", [window.name for window in phase.windows])


def _concurrency_rules(trial: TrialPlan) -> Iterator[Broken]:
    if trial.max_concurrency is not None and trial.max_concurrency < trial.writers:
        message = f"is below writers ({trial.writers}), and in open loop every writer has to run at once"
        yield Broken("max_concurrency", message, f"Raise it to {trial.writers}, remove it, or lower writers.")


def _size_rules(trial: TrialPlan) -> Iterator[Broken]:
    if trial.events > MAX_EVENTS_PER_TRIAL:
        message = f"offer {trial.events:,} events together, more than a trial's {MAX_EVENTS_PER_TRIAL:,}"
        yield Broken("phases", message, "Lower rate_per_s, duration_s or count, or split the trial.")
    for index, phase in enumerate(trial.phases):
        if phase.events < 1:
            yield Broken(f"phases[{index}].load", "offers no event at all", "Raise rate_per_s or duration_s.")
        if phase.slices > MAX_SLICES or phase.slices * trial.writers > MAX_ITEMS_PER_PHASE:
            message = f"takes {trial.writers} writers through {phase.slices:,} slices of {SLICE_S} s, which is too much"
            yield Broken(f"phases[{index}].load", message, "Shorten the phase, or lower writers.")


def _delete_rules(trial: TrialPlan) -> Iterator[Broken]:
    if trial.record.operation != "delete":
        return
    if trial.events > MAX_DELETES:
        message = f"delete {trial.events:,} keys together, more than the {MAX_DELETES:,} that can be written before"
        yield Broken("phases", message, "Lower rate_per_s, duration_s or count, or split the trial.")
    if trial.target.store == "reference":
        yield Broken("record.operation", "is not offered by the reference store", 'Use "put" or "update".')


def _watch_rules(trial: TrialPlan) -> Iterator[Broken]:
    """A watch is held by lanes that ask for their turns again and again, and an execution's history has an end."""
    if not is_pull(trial.target):
        return
    if trial.length_s > MAX_WATCH_S:
        message = f"last {trial.length_s / 3_600:.1f} h together, and {trial.target.store} is watched for 8 h at most"
        yield Broken("phases", message, "Shorten the load or settle_s, or split the trial.")
        return
    loops = (trial.length_s + trial.drain_limit_s) / trial.watch_loop_s + trial.drain_limit_s / ARRIVALS_LOOP_S
    if loops * EVENTS_PER_LOOP > MAX_HISTORY_EVENTS:
        message = f"is too long after {trial.length_s / 3_600:.1f} h of load for one execution's history"
        yield Broken("drain_limit_s", message, "Lower it, shorten the load, or split the trial.")


def _expansion_rules(plan: Plan) -> Iterator[Broken]:
    if plan.size <= MAX_TRIALS:
        return
    largest = max(range(len(plan.trials)), key=lambda index: plan.trials[index].copies)
    field = "repeats" if plan.trials[largest].matrix is None else "matrix"
    message = f"makes {plan.trials[largest].copies:,} of {plan.size:,} trials together, more than a plan's {MAX_TRIALS}"
    remedy = "Shorten the matrix, lower repeats, or split the plan."
    yield Broken(f"trials[{largest}].{field}", message, remedy)


def _planned_rules(plan: Plan) -> Iterator[Broken]:
    phases = sum(len(trial.phases) * trial.copies for trial in plan.trials)
    if plan.size <= MAX_TRIALS and plan.size * PLANNED_TRIAL_BYTES + phases * PLANNED_PHASE_BYTES > MAX_PLANNED_BYTES:
        message = f"have {phases:,} phases together, more than one state machine can hand on"
        yield Broken("trials", message, "Split the plan, or join phases.")


def _scale_rules(trial: TrialPlan) -> Iterator[Broken]:
    store = trial.target.store
    for index, phase in enumerate(trial.phases):
        if phase.scale is None:
            continue
        mode, serverless = phase.scale.capacity.mode, isinstance(phase.scale.capacity, ServerlessCapacity)
        if store not in {"dynamodb", "postgresql"}:
            message = f"is supported for dynamodb and postgresql only, not for {store}"
            yield Broken(f"phases[{index}].scale", message, "Remove it.")
        elif serverless != (store == "postgresql"):
            modes = "serverless_v2" if store == "postgresql" else "provisioned, on_demand or autoscaled"
            yield Broken(f"phases[{index}].scale.capacity.mode", f"is {mode} for {store}", f"Make it {modes}.")
        elif trial.target.endpoint is not None and serverless:
            message = "is for the stack's own cluster, and target.endpoint names another server"
            yield Broken(f"phases[{index}].scale", message, "Remove one of the two.")


def _phase_rules(trial: TrialPlan) -> Iterator[Broken]:
    yield from _repeated("phases", [phase.name for phase in trial.phases])
    if not any(phase.measured for phase in trial.phases):
        yield Broken("phases[0].measured", "is false, as in every phase", "Set measured: true on at least one phase.")


def _log_rules(trial: TrialPlan) -> Iterator[Broken]:
    """The analysis holds all lines of a log in memory, and a receiver prints one an event."""
    if trial.log_t4 == "all" and not is_pull(trial.target) and trial.events > MAX_LOGGED_EVENTS:
        message = f"would print a line for each of {trial.events:,} events, more than {MAX_LOGGED_EVENTS:,}"
        yield Broken("log_t4", message, 'Make it "sample", or offer fewer events.')


def _published_rules(trial: TrialPlan) -> Iterator[Broken]:
    windows = [window.name for phase in trial.phases for window in phase.all_windows()]
    known = ", ".join(f'"{name}"' for name in dict.fromkeys(windows))
    for index, published in enumerate(trial.published):
        if published.window is None and len(windows) > 1:
            message = "is missing, and there are several measured windows"
            yield Broken(f"published[{index}].window", message, f"Name one of {known}.")
        if published.window is None or windows.count(published.window) == 1:
            continue
        if published.window in windows:
            message, remedy = "is the name of windows in several phases", "Give those windows names of their own."
        else:
            message, remedy = "names no measured window", f"Name one of {known}, or remove it."
        yield Broken(f"published[{index}].window", message, remedy)


def _endpoint_rules(trial: TrialPlan) -> Iterator[Broken]:
    endpoint = trial.target.endpoint
    if endpoint is None:
        return
    if problem := endpoint_problem(endpoint):
        remedy = "Give a URL or host:port of a store of your own, or remove it to use the stack's."
        yield Broken("target.endpoint", problem, remedy)
    elif trial.target.store in {"s3", "dynamodb"} and "://" not in endpoint:
        yield Broken("target.endpoint", "is no URL", "Write http://host:port or https://host:port.")
    elif trial.target.store not in {"s3", "dynamodb"} and "://" in endpoint:
        yield Broken("target.endpoint", "is a URL, where host:port is needed", "Remove what stands before the host.")


def _repeated(field: str, names: Sequence[str | None]) -> Iterator[Broken]:
    for index, name in enumerate(names):
        if name is not None and name in names[:index]:
            message = f"is the name of {field}[{names.index(name)}] too"
            yield Broken(f"{field}[{index}].name", message, f"Give each of the {field} a name of its own.")
