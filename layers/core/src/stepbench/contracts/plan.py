"""
The plan: what to run, in the user's words.

`Plan` is what a user writes. `parse_plan` (in `stepbench.planning`) turns text into one or into a list of
problems, and expands it into `TrialSpec`s, which are what the state machines run.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.identity import MAX_SLICES, MAX_WRITERS, MIN_KEY_BYTES, MIN_VALUE_BYTES
from stepbench.contracts.target import Capacity, Target

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", min_length=1, max_length=60)]

MAX_EVENTS_PER_TRIAL = 20_000_000
SLICE_S = 600


class LoadStep(Contract):
    """A constant offered rate, for a time or for a number of events."""

    rate_per_s: float = Field(gt=0, le=200_000, allow_inf_nan=False)
    duration_s: float | None = Field(default=None, gt=0, le=7 * 86_400, allow_inf_nan=False)
    count: int | None = Field(default=None, gt=0, le=MAX_EVENTS_PER_TRIAL)

    @model_validator(mode="after")
    def _exactly_one_length(self) -> Self:
        if (self.duration_s is None) == (self.count is None):
            found = "both" if self.count is not None else "neither"
            message = f"a load step takes exactly one of duration_s and count; this one has {found}"
            raise ValueError(message)
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
            message = "a window ends after it begins (to_s > from_s)"
            raise ValueError(message)
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
        for window in self.windows:
            if window.to_s > self.length_s + 1e-6:
                message = f"window {window.name!r} ends at {window.to_s} s, after the phase ({self.length_s} s)"
                raise ValueError(message)
        if self.windows and not self.measured:
            message = "an unmeasured phase has no windows"
            raise ValueError(message)
        if len({window.name for window in self.windows}) < len(self.windows):
            message = "window names are unique within a phase"
            raise ValueError(message)
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


class Record(Contract):
    """What is written."""

    operation: Literal["put", "update"] = Field(
        default="put", description="`put` makes new keys; `update` overwrites one of `distinct_keys` existing ones."
    )
    key_bytes: int = Field(default=59, ge=MIN_KEY_BYTES, le=1_000)
    value_bytes: int = Field(default=889, ge=MIN_VALUE_BYTES, le=350_000)
    distinct_keys: int | None = Field(default=None, ge=1, le=1_000_000)

    @model_validator(mode="after")
    def _updates_need_keys(self) -> Self:
        if (self.operation == "update") != (self.distinct_keys is not None):
            message = "`distinct_keys` belongs to `update`, and an update needs it"
            raise ValueError(message)
        return self


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
    matrix: dict[str, list[Any]] | None = None
    seed: int = Field(default=7, ge=0, lt=2**63)

    @model_validator(mode="after")
    def _is_runnable(self) -> Self:
        for check in (_not_yet, _fits_concurrency, _fits_sizes, _scales_only_where_it_can, _names_are_unique):
            check(self)
        return self

    @property
    def events(self) -> int:
        """How many events all phases offer together."""
        return sum(phase.events for phase in self.phases)

    @property
    def length_s(self) -> float:
        """Settle times and load together, in seconds; orchestration comes on top."""
        return sum(phase.settle_s + phase.length_s for phase in self.phases)


def _not_yet(trial: TrialPlan) -> None:
    if trial.repeats > 1:
        message = "`repeats` above 1 is not supported yet; list the trial again instead"
        raise ValueError(message)
    if trial.matrix is not None:
        message = "`matrix` is not supported yet; list one trial per combination instead"
        raise ValueError(message)


def _fits_concurrency(trial: TrialPlan) -> None:
    if trial.max_concurrency is not None and trial.max_concurrency < trial.writers:
        message = (
            f"max_concurrency {trial.max_concurrency} is below writers {trial.writers}: in open loop every writer "
            "has to run at once; raise max_concurrency or lower writers"
        )
        raise ValueError(message)


def _fits_sizes(trial: TrialPlan) -> None:
    if trial.events > MAX_EVENTS_PER_TRIAL:
        message = f"{trial.events} events are more than a trial's {MAX_EVENTS_PER_TRIAL}; lower rate or duration"
        raise ValueError(message)
    if trial.events < 1:
        message = "the load offers no event at all; raise rate_per_s or duration_s"
        raise ValueError(message)
    for phase in trial.phases:
        if phase.slices > MAX_SLICES:
            message = f"phase {phase.name!r} is longer than {MAX_SLICES} slices of {SLICE_S} s"
            raise ValueError(message)


def _scales_only_where_it_can(trial: TrialPlan) -> None:
    if any(phase.scale for phase in trial.phases) and trial.target.store != "dynamodb":
        message = f"`scale` is supported for dynamodb only, not for {trial.target.store}; remove it"
        raise ValueError(message)


def _names_are_unique(trial: TrialPlan) -> None:
    if len({phase.name for phase in trial.phases}) < len(trial.phases):
        message = "phase names are unique within a trial"
        raise ValueError(message)
    if not any(phase.measured for phase in trial.phases):
        message = "no phase is measured; set measured: true on at least one"
        raise ValueError(message)


class Plan(Contract):
    """A benchmark: trials, run one after the other."""

    name: Name
    trials: tuple[TrialPlan, ...] = Field(min_length=1, max_length=100)
    order: Literal["interleaved", "random"] = Field(
        default="interleaved", description="How repeats are ordered; without repeats, as listed."
    )
    budget_usd: float = Field(default=5.0, ge=0, le=100_000, allow_inf_nan=False)
    description: str | None = Field(default=None, max_length=2_000)

    @model_validator(mode="after")
    def _trial_names_are_unique(self) -> Self:
        named = [trial.name for trial in self.trials if trial.name]
        if len(set(named)) < len(named):
            message = "trial names are unique within a plan"
            raise ValueError(message)
        return self


class TrialSpec(Contract):
    """One trial, expanded and named: what the trial machine runs. Stored as `runs/<run>/trials/<n>/trial.json`."""

    run_id: str
    index: int = Field(ge=0, le=0xFFFF)
    name: Name
    tag: str = Field(description="`<run tag>-<trial, 4 hex>`: the trial's namespace in every store and table.")
    plan: TrialPlan
    estimate_usd: float = Field(ge=0)
