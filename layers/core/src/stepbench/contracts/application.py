"""Applications whose functions start each other through data stores: how much of their time is the trigger's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from stepbench.contracts.base import BrokenRule, Contract, Text, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

Label = Annotated[Text, StringConstraints(min_length=1, max_length=60)]
FunctionName = Annotated[Text, StringConstraints(min_length=1, max_length=140)]
"""The longest name is Lambda's own, which X-Ray shows."""


class ApplicationFunction(Contract):
    """One function of a chain: how long it runs, and which store's trigger starts it."""

    name: FunctionName
    duration_ms: float | None = Field(
        default=None, ge=0, le=86_400_000, allow_inf_nan=False, description="Without it, the median in `traces`."
    )
    trigger: Literal["s3", "dynamodb", "postgresql", "etcd", "measured"] | None = Field(
        default=None,
        description="`measured`: whichever store a trial measures, so that stores can be compared. "
        "Without it, the function is called directly.",
    )


class Traces(Contract):
    """Where X-Ray has seen the application."""

    name: str = Field(
        min_length=1, max_length=200, description="Of the state machine, or of a function that is in every trace."
    )
    last_hours: float = Field(default=6, gt=0, le=24, allow_inf_nan=False, description="How far to look back.")
    max_traces: int = Field(default=100, ge=1, le=1_000)


class Application(Contract):
    """A chain of functions, one after the other, with the durations that somebody measured."""

    name: Label
    source: Text = Field(min_length=1, max_length=300, description="Where the durations are from.")
    traces: Traces | None = None
    functions: tuple[ApplicationFunction, ...] = Field(
        default=(),
        max_length=100,
        description="Without any, those that `traces` shows, by start; all but the first with a `measured` trigger.",
    )

    @model_validator(mode="after")
    def _has_a_trigger(self) -> Self:
        refuse(_trigger_rules(self))
        return self

    @property
    def needs_traces(self) -> bool:
        """Return whether a duration is missing that only its traces show."""
        return not self.functions or any(function.duration_ms is None for function in self.functions)


def _trigger_rules(application: Application) -> Iterator[BrokenRule]:
    if application.traces is not None and any(sign in application.traces.name for sign in '"\\'):
        yield BrokenRule("traces.name", "holds a quote or a backslash, which no such name does", "Give the name alone.")
    if application.traces is None and not application.functions:
        yield BrokenRule("functions", "are missing, and so are traces", "Give one of the two.")
        return
    for index, function in enumerate(application.functions):
        if function.duration_ms is None and application.traces is None:
            remedy = "Give it, or say in traces where X-Ray has seen the application."
            yield BrokenRule(f"functions[{index}].duration_ms", "is missing", remedy)
    if application.functions and all(function.trigger is None for function in application.functions):
        message = "have no trigger, so there is no share to tell"
        yield BrokenRule("functions", message, 'Set trigger on at least one, for instance to "measured".')
    if application.functions and all(function.duration_ms == 0 for function in application.functions):
        yield BrokenRule("functions", "take no time at all", "Give their durations in duration_ms.")
