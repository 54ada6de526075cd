"""
The plan: what to run, in the user's words, and the applications whose time the triggers' share is given of.

`Plan` is what a user writes. `parse_plan` (in `stepbench.planning`) turns text into one or into a list of
problems, and expands it into `TrialSpec`s, which are what the state machines run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Discriminator, Field, StringConstraints, Tag

from stepbench.contracts.base import BrokenRule, Contract, RuledContract, Text, repeated_names
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.phase import SLICE_S, LoadStep, Name, Phase, Scale, Until, Window
from stepbench.contracts.published import Published
from stepbench.contracts.rules import OWN_RULES, TRIAL_RULES
from stepbench.contracts.rules.load import history_rules
from stepbench.contracts.target import stores_with
from stepbench.contracts.threshold_grammar import JudgeText, ThresholdText
from stepbench.contracts.thresholds import DEFAULTS
from stepbench.contracts.transfer.plan import TransferTrial
from stepbench.contracts.trial import MAX_TRIALS, FindRate, Record, TrialFields

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = [
    "SLICE_S",
    "FindRate",
    "LoadStep",
    "Phase",
    "Plan",
    "Published",
    "Record",
    "Scale",
    "TransferTrial",
    "TrialPlan",
    "TrialSpec",
    "Until",
    "Window",
]

Label = Annotated[Text, StringConstraints(min_length=1, max_length=60)]
FunctionName = Annotated[Text, StringConstraints(min_length=1, max_length=140)]
"""The longest name is Lambda's own, which X-Ray shows."""


if TYPE_CHECKING:
    FunctionTrigger = str
else:
    FunctionTrigger = Literal[*stores_with(lambda model: model.trigger), "measured"]


class ApplicationFunction(Contract):
    """One function of a chain: how long it runs, and which store's trigger starts it."""

    name: FunctionName
    duration_ms: float | None = Field(
        default=None, ge=0, le=86_400_000, description="Without it, the median in `traces`."
    )
    trigger: FunctionTrigger | None = Field(
        default=None,
        description="`measured`: whichever store a trial measures, so that stores can be compared. "
        "Without it, the function is called directly.",
    )


class Traces(Contract):
    """Where X-Ray has seen the application."""

    name: str = Field(
        min_length=1, max_length=200, description="Of the state machine, or of a function that is in every trace."
    )
    last_hours: float = Field(default=6, gt=0, le=24, description="How far to look back.")
    max_traces: int = Field(default=100, ge=1, le=1_000)


class Application(RuledContract):
    """A chain of functions, one after the other, with the durations that somebody measured."""

    APART: ClassVar[bool] = True

    name: Label
    source: Text = Field(min_length=1, max_length=300, description="Where the durations are from.")
    traces: Traces | None = None
    functions: tuple[ApplicationFunction, ...] = Field(
        default=(),
        max_length=100,
        description="Without any, those that `traces` shows, by start; all but the first with a `measured` trigger.",
    )

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.traces is not None and any(sign in self.traces.name for sign in '"\\'):
            yield BrokenRule(
                "traces.name", "holds a quote or a backslash, which no such name does", "Give the name alone."
            )
        if self.traces is None and not self.functions:
            yield BrokenRule("functions", "are missing, and so are traces", "Give one of the two.")
            return
        for index, function in enumerate(self.functions):
            if function.duration_ms is None and self.traces is None:
                remedy = "Give it, or say in traces where X-Ray has seen the application."
                yield BrokenRule(f"functions[{index}].duration_ms", "is missing", remedy)
        if self.functions and all(function.trigger is None for function in self.functions):
            message = "have no trigger, so there is no share to tell"
            yield BrokenRule("functions", message, 'Set trigger on at least one, for instance to "measured".')
        if self.functions and all(function.duration_ms == 0 for function in self.functions):
            yield BrokenRule("functions", "take no time at all", "Give their durations in duration_ms.")

    @property
    def needs_traces(self) -> bool:
        """Return whether a duration is missing that only its traces show."""
        return not self.functions or any(function.duration_ms is None for function in self.functions)


MAX_PLANNED_BYTES = 200_000
"""The part of the 256 KiB that `ValidatePlan` may hand on; the rest is for the trials' outcomes."""
EXPERIMENT = "experiment"
PLANNED_TRIAL_BYTES, PLANNED_PHASE_BYTES = 350, 90


class TrialPlan(TrialFields, RuledContract):
    """One experiment on one store."""

    APART: ClassVar[bool] = True

    def _broken_rules(self) -> Iterator[BrokenRule]:
        for rule in (*TRIAL_RULES, *OWN_RULES[self.experiment]):
            yield from rule(self)


def _experiment_of(trial: Any) -> str:  # noqa: ANN401 -- anything may stand where a trial is expected
    """Return what decides which model a trial is of; without one it is a trigger's."""
    named = trial.get(EXPERIMENT, "trigger") if isinstance(trial, dict) else getattr(trial, EXPERIMENT, "trigger")
    return str(named)


AnyTrial = Annotated[
    Annotated[TrialPlan, Tag("trigger")]
    | Annotated[TrialPlan, Tag("operations")]
    | Annotated[TrialPlan, Tag("dataflow")]
    | Annotated[TransferTrial, Tag("transfer")],
    Discriminator(_experiment_of),
]
TRIAL_MODELS: dict[str, type[TrialPlan | TransferTrial]] = {
    "trigger": TrialPlan,
    "operations": TrialPlan,
    "dataflow": TrialPlan,
    "transfer": TransferTrial,
}
"""As `AnyTrial` has them, by experiment: a schema cannot tell from a function which is chosen."""


class Plan(RuledContract):
    """A benchmark: trials, run one after the other."""

    APART: ClassVar[bool] = True

    name: Name
    trials: tuple[AnyTrial, ...] = Field(min_length=1, max_length=MAX_TRIALS)
    order: Literal["interleaved", "random"] = Field(
        default="interleaved",
        description="All trials once, as listed, then all once more for the first repeat, and so on; "
        "`random` shuffles each of these rounds, by the first trial's seed.",
    )
    budget_usd: float = Field(default=5.0, ge=0, le=100_000)
    question: Text | None = Field(
        default=None, min_length=3, max_length=200, description="What the run is to answer; the report begins with it."
    )
    description: Text | None = Field(default=None, max_length=2_000)
    applications: tuple[Application, ...] = Field(
        default=(), max_length=50, description="Of whose time the report gives the triggers' share."
    )
    thresholds: tuple[ThresholdText, ...] = Field(
        default=DEFAULTS,
        max_length=20,
        description="What a run has to keep to in each measured window, such as `p99 of read in steady < 2 ms`. "
        "A run that misses one has the verdict `failed`, and ends with exit code 3; one that does not decide all of "
        "them is `undecided`, and ends so with --strict.",
    )
    judge: JudgeText | None = Field(
        default=None,
        description="The measure that the run is judged by, such as `p99`, `response p95`, `max`, `errors`, "
        "`throughput`, `cost` (per million events) or `time to processed p99`: answers and comparisons begin with it. "
        "Without it, with the median.",
    )
    abort_on_fail: bool = Field(
        default=False,
        description="End a trial's load as soon as a phase of it cannot keep to a threshold any more, whatever is "
        "still to come: that phase ends, those after it are passed over, the run's other trials go on.",
    )

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from repeated_names("trials", [trial.name for trial in self.trials])
        yield from repeated_names("applications", [application.name for application in self.applications])
        yield from _size_rules(self)
        yield from _abort_rules(self)

    @property
    def offered_trials(self) -> tuple[TrialPlan, ...]:
        """Return the trials whose load writers offer: all but those of transfers."""
        return tuple(offered_plan(trial) for trial in self.trials if traits_of(trial.experiment).windows)

    @property
    def size(self) -> int:
        """Return how many trials are run."""
        return sum(trial.copies for trial in self.trials)


class TrialRef(Contract):
    """Names one trial of one run; `tag` is its namespace (see `identity`)."""

    run_id: str
    trial: int = Field(ge=0, le=0xFFFF)
    tag: str


Planned = TypeVar("Planned", TrialPlan, TransferTrial)


def offered_plan(trial: AnyTrial) -> TrialPlan:
    """Return a trial whose load writers offer as such; raises TypeError for another."""
    return _narrowed(trial, TrialPlan)


def transfer_plan(trial: AnyTrial) -> TransferTrial:
    """Return a trial of `transfer` as such; raises TypeError for another."""
    return _narrowed(trial, TransferTrial)


def _narrowed(trial: AnyTrial, kind: type[Planned]) -> Planned:
    if isinstance(trial, kind):
        return trial
    message = f"a trial of {trial.experiment} is none that is a {kind.__name__}"
    raise TypeError(message)


class TrialSpec(Contract):
    """One trial, expanded and named: what the trial machine runs. Stored as `runs/<run>/trials/<n>/trial.json`."""

    run_id: str
    index: int = Field(ge=0, le=0xFFFF)
    name: Name
    tag: str = Field(description="`<run tag>-<trial, 4 hex>`: the trial's namespace in every store and table.")
    plan: AnyTrial = Field(description="Without `matrix`, and with `repeats` 1: both are expanded.")
    estimate_usd: float = Field(ge=0)
    group: str = Field(default="", description="What the repeats of one trial have in common; empty for its name.")
    base: str = Field(default="", description="The trial's name as written, or its store's; empty where that varies.")
    repeat: int = Field(default=0, ge=0, description="Number within the group, from 0.")
    point: dict[str, Any] = Field(default={}, description="The matrix values of this trial, by dotted path.")
    abort_on: tuple[str, ...] = Field(
        default=(), description="Thresholds that end its load as soon as they cannot be kept any more."
    )

    def may_abort(self, phase: int) -> bool:
        """Return whether a phase may be ended by a threshold."""
        windows = traits_of(self.plan.experiment).windows
        return bool(self.abort_on) and windows and self.offered.may_be_ended(phase)

    def may_end_early(self, phase: int) -> bool:
        """Return whether a phase may end before its schedule does."""
        return self.plan.phases[phase].until is not None or self.may_abort(phase)

    @property
    def offered(self) -> TrialPlan:
        """
        Return the plan of a trial whose load writers offer, for rooms that no other trial gets to.

        Raises:
            TypeError: it is another experiment's.
        """
        return offered_plan(self.plan)

    @property
    def transfer(self) -> TransferTrial:
        """Return the plan of a trial of `transfer`, likewise."""
        return transfer_plan(self.plan)

    @property
    def ref(self) -> TrialRef:
        """Return the trial's name by which stages and records find what belongs to it."""
        return TrialRef(run_id=self.run_id, trial=self.index, tag=self.tag)


def _abort_rules(plan: Plan) -> Iterator[BrokenRule]:
    """Refuse trials whose machine has no room in its history for checks of thresholds, beside all else."""
    for index, trial in enumerate(plan.trials if plan.abort_on_fail else ()):
        if traits_of(trial.experiment).windows:
            offered = offered_plan(trial)
            for rule in history_rules(offered, aborts=True) if not any(history_rules(offered)) else ():
                yield rule._replace(at=f"trials[{index}].{rule.at}")


def _size_rules(plan: Plan) -> Iterator[BrokenRule]:
    """Refuse more trials than a plan may have; or, if they are no more, more phases than a machine can hand on."""
    if plan.size <= MAX_TRIALS:
        phases = sum(len(trial.run_phases) * trial.copies for trial in plan.trials)
        if plan.size * PLANNED_TRIAL_BYTES + phases * PLANNED_PHASE_BYTES > MAX_PLANNED_BYTES:
            message = f"have {phases:,} phases together, more than one state machine can hand on"
            yield BrokenRule("trials", message, "Split the plan, or join phases.")
        return
    largest = max(range(len(plan.trials)), key=lambda index: plan.trials[index].copies)
    field = "repeats" if plan.trials[largest].matrix is None else "matrix"
    message = f"makes {plan.trials[largest].copies:,} of {plan.size:,} trials together, more than a plan's {MAX_TRIALS}"
    remedy = "Shorten the matrix, lower repeats, or split the plan."
    yield BrokenRule(f"trials[{largest}].{field}", message, remedy)
