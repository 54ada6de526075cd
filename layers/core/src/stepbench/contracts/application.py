"""Applications whose functions start each other through data stores: how much of their time is the trigger's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from stepbench.contracts.base import Contract
from stepbench.contracts.rule import Broken, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

Label = Annotated[str, StringConstraints(min_length=1, max_length=60)]


class ApplicationFunction(Contract):
    """One function of a chain: how long it runs, and which store's trigger starts it."""

    name: Label
    duration_ms: float = Field(ge=0, le=86_400_000, allow_inf_nan=False)
    trigger: Literal["s3", "dynamodb", "postgresql", "etcd", "measured"] | None = Field(
        default=None,
        description="`measured`: whichever store a trial measures, so that stores can be compared. "
        "Without it, the function is called directly.",
    )


class Application(Contract):
    """A chain of functions, one after the other, with the durations that somebody measured."""

    name: Label
    source: str = Field(min_length=1, max_length=300, description="Where the durations are from.")
    functions: tuple[ApplicationFunction, ...] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _has_a_trigger(self) -> Self:
        refuse(_trigger_rules(self))
        return self


def _trigger_rules(application: Application) -> Iterator[Broken]:
    if all(function.trigger is None for function in application.functions):
        message = "have no trigger, so there is no share to tell"
        yield Broken("functions", message, 'Set trigger on at least one, for instance to "measured".')
    if not any(function.duration_ms for function in application.functions):
        yield Broken("functions", "take no time at all", "Give their durations in duration_ms.")
