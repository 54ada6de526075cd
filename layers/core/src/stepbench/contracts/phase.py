"""A phase of a trial: its load, its windows, when it ends; and what stages store of it for those after them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from stepbench.contracts.base import BrokenRule, Contract, RuledContract, repeated_names
from stepbench.contracts.capacity import Capacity
from stepbench.contracts.workload import ClosedLoad, InvokedLoad

if TYPE_CHECKING:
    from collections.abc import Iterator

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", min_length=1, max_length=60)]

MAX_EVENTS_PER_TRIAL = 20_000_000
SLICE_S = 600
MAX_PRECISION_CHECKS = 30
"""Of one phase with `until`, after each quarter more of its events; of all phases that a threshold may end together."""
SHORTEST_CHECK_PAUSE_S = 5.0
"""Between two checks: each reads all records."""


class LoadStep(RuledContract):
    """A constant offered rate, for a time or for a number of events."""

    rate_per_s: float = Field(ge=0.001, le=200_000)
    of_found: float | None = Field(
        default=None,
        gt=0,
        le=10,
        description="Offer so many times the rate that `find_rate` found, but never more than rate_per_s.",
    )
    duration_s: float | None = Field(default=None, gt=0, le=7 * 86_400)
    count: int | None = Field(default=None, gt=0, le=MAX_EVENTS_PER_TRIAL)

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.duration_s is None and self.count is None:
            yield BrokenRule("duration_s", "is missing, and so is count", "Give exactly one of duration_s and count.")
        if self.of_found is not None and self.count is not None:
            yield BrokenRule("count", "is no length while the rate is not known", "Give duration_s instead.")
        if self.duration_s is not None and self.count is not None:
            yield BrokenRule("count", f"stands beside duration_s ({self.duration_s:g})", "Remove one of the two.")

    @property
    def length_s(self) -> float:
        """Return how long the step lasts, in seconds."""
        return self.duration_s if self.duration_s is not None else (self.count or 0) / self.rate_per_s

    @property
    def events(self) -> int:
        """Return how many events the step offers (expected number, for Poisson arrivals by duration)."""
        return self.count if self.count is not None else math.floor(self.rate_per_s * self.length_s + 1e-9)


class Window(RuledContract):
    """A span of a phase, by intended send time (t0), that is analysed on its own."""

    APART: ClassVar[bool] = True

    name: Name
    from_s: float = Field(ge=0)
    to_s: float = Field(gt=0)

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.to_s <= self.from_s:
            yield BrokenRule("to_s", f"is not after from_s ({self.from_s:g})", "Raise to_s or lower from_s.")


class Scale(Contract):
    """A change of the store's capacity, made after the settle time and before the load begins."""

    capacity: Capacity


class Until(Contract):
    """
    Stop when sure: the load goes on at its last rate until a quantile of trigger latency is known well enough.

    Relative width is the whole 95 % interval over the quantile. All of it has to fit into one slice: a state that waits
    for a later slice's turn cannot be notified that there will be none.
    """

    metric: Literal["p50", "p90", "p95", "p99", "p999"] = "p99"
    relative_width: float = Field(gt=0, le=2)
    max_events: int = Field(ge=1, le=MAX_EVENTS_PER_TRIAL, description="Of the phase, its load as planned included.")


class Phase(RuledContract):
    """A stretch of load without a gap in it."""

    name: Name
    measured: bool = True
    settle_s: float = Field(default=0, ge=0, le=86_400)
    gapless: bool = Field(
        default=False, description="Follow on the phase before without a gap: the two are planned together."
    )
    scale: Scale | None = None
    dag: str | None = Field(
        default=None, max_length=30, description="`dataflow`: which of the trial's DAGs; needed if it has several."
    )
    load: tuple[LoadStep, ...] = Field(default=(), max_length=100, description="Open loop: offered rates.")
    closed: ClosedLoad | None = Field(
        default=None, description="Closed loop, of operations and DAGs, in place of `load`."
    )
    invoked: InvokedLoad | None = Field(
        default=None, description="Invocations as fast as `max_concurrency` permits, of operations, in place of `load`."
    )
    until: Until | None = None
    probe: bool = Field(
        default=False, description="One of the phases that `find_rate` puts in; a plan as written has none."
    )
    windows: tuple[Window, ...] = Field(
        default=(), max_length=50, description="Without any, the whole phase is one window with the phase's name."
    )

    def _broken_rules(self) -> list[BrokenRule]:
        return self._find_broken()[0]

    def _find_broken(self) -> tuple[list[BrokenRule], bool]:
        if broken := [*_kind_rules(self)]:
            return broken, True
        return [*_window_rules(self), *_until_rules(self)], False

    @property
    def steps(self) -> tuple[LoadStep, ...]:
        """Return the load, with its last step prolonged to where `until` gives up."""
        if self.until is None:
            return self.load
        *before, last = self.load
        left = self.until.max_events - sum(step.events for step in before)
        longest = last.model_copy(update={"duration_s": max(last.length_s, left / last.rate_per_s)})
        return (*before, longest)

    @property
    def length_s(self) -> float:
        """Return how long load is offered at most, in seconds."""
        return self._waits_s or sum(step.length_s for step in self.steps)

    @property
    def shortest_s(self) -> float:
        """Return how long load is offered at least, in seconds: `until` is checked only then."""
        return self._waits_s or sum(step.length_s for step in self.load)

    @property
    def is_open(self) -> bool:
        """Return whether it is open loop: the plan has a time for each event, whatever becomes of those before."""
        return self.closed is None and self.invoked is None

    @property
    def _waits_s(self) -> float | None:
        """Return for how long clients, or invocations, offer at most; None in open loop."""
        waiting = self.closed or self.invoked
        return waiting.duration_s if waiting else None

    @property
    def events(self) -> int:
        """Return how many events its steps offer at most, over all writers; for clients see `TrialFields.events_of`."""
        return sum(step.events for step in self.steps)

    def events_by(self, at_s: float) -> float:
        """Return how many events are due in the first `at_s` seconds, by the steps' rates."""
        due, begin_s = 0.0, 0.0
        for step in self.steps:
            due += step.rate_per_s * min(max(at_s - begin_s, 0), step.length_s)
            begin_s += step.length_s
        return due

    @property
    def uses_found_rate(self) -> bool:
        """Return whether its rate is unknown before `find_rate` has found one."""
        return any(step.of_found is not None for step in self.load)

    @property
    def offers_number(self) -> bool:
        """Return whether it offers a number of events as one window, and ends with the last of them."""
        if self.windows:
            return False
        if not self.is_open:
            return self.closed is None or self.closed.operations is not None
        return self.until is None and all(step.count is not None for step in self.load)

    @property
    def slices(self) -> int:
        """Return into how many slices of at most `SLICE_S` each writer's work is cut."""
        return max(1, math.ceil(self.length_s / SLICE_S - 1e-9))

    def all_windows(self, offered_s: float | None = None) -> tuple[Window, ...]:
        """
        Return the windows to analyse; none for an unmeasured phase.

        offered_s: where it ended, if that was earlier. Its windows end there, too; those that would begin later are
        left out: a window in which nothing was offered would say that the store did nothing.
        """
        if not self.measured:
            return ()
        ended_s = offered_s or self.length_s
        planned = self.windows or (Window(name=self.name, from_s=0, to_s=ended_s),)
        if ended_s >= self.length_s:
            return planned
        held = (window for window in planned if window.from_s < ended_s)
        return tuple(window.model_copy(update={"to_s": min(window.to_s, ended_s)}) for window in held)


class PhaseSchedule(Contract):
    """The start of a phase: stored as its `plan.json`, written once more if PlanPhase is retried."""

    start_at_ns: int = Field(description="The phase's time zero, ns since the epoch: its earliest t0.")


class PrecisionLook(Contract):
    """One look at how well a phase's quantile is known."""

    at_s: float = Field(description="Of the events due in so many seconds from the phase's start.")
    events: int = Field(ge=0, description="Of them, acknowledged and arrived.")
    relative_width: float | None = Field(description="The 95 % interval over the quantile; None where there is none.")


class PrecisionLooks(Contract):
    """
    All looks at a phase with `until`: stored as its `until.json`, after each.

    `reason` is None while looks go on. `writers_gone`: no writer gave a sign of life any more. `impossible`: which
    threshold cannot be kept any more, in which window, and what shows it.
    """

    looks: tuple[PrecisionLook, ...] = ()
    reason: Literal["sure", "max_events", "cancelled", "writers_gone", "impossible"] | None = None
    impossible: tuple[str, str, str] | None = None
    checked_at_s: float = Field(default=0, description="When thresholds were looked at last, from the phase's start.")


def _kind_rules(phase: Phase) -> Iterator[BrokenRule]:
    given = [name for name in ("load", "closed", "invoked") if getattr(phase, name)]
    if not given:
        one = "Give exactly one of load, closed and invoked."
        yield BrokenRule("load", "is missing or empty, and so are closed and invoked", one)
    if len(given) > 1:
        yield BrokenRule(given[0], f"stands beside {given[1]}", "Remove one of the two.")
    if phase.is_open:
        return
    if phase.until is not None:
        remedy = f"Remove it, or give load instead of {given[-1]}."
        yield BrokenRule("until", f"goes on at a rate, and {given[-1]} has none", remedy)
    if phase.invoked is not None and phase.windows:
        message = "are fixed, and the length of a phase with invoked is not"
        yield BrokenRule("windows", message, "Remove one of the two; without windows, the whole phase is one.")
    if phase.closed is None:
        return
    if phase.closed.operations is not None and phase.windows:
        message = "are fixed, and the length of a phase with closed.operations is not"
        yield BrokenRule("windows", message, "Remove one of the two; without windows, the whole phase is one.")
    if phase.closed.operations is not None and phase.slices > 1:
        message = f"ends the load early, which is offered for up to {SLICE_S} s"
        yield BrokenRule("closed.operations", message, "Remove it, or shorten closed.duration_s.")


def _until_rules(phase: Phase) -> Iterator[BrokenRule]:
    if phase.until is None:
        return
    if not phase.measured:
        yield BrokenRule("until", "belongs to a phase with measured: false", "Remove it, or set measured: true.")
    if phase.windows:
        yield BrokenRule("windows", "are fixed, and the length of a phase with until is not", "Remove one of the two.")
    if phase.uses_found_rate:
        message = "needs to know how long its events take, and the rate is still to be found"
        yield BrokenRule("until", message, "Remove it, or give the rate yourself instead of of_found.")
    if phase.load[-1].duration_s is None:
        message = "has a count, and until prolongs the last step"
        yield BrokenRule(
            f"load[{len(phase.load) - 1}].count", message, "Give its duration_s instead: the shortest one."
        )
    planned = sum(step.events for step in phase.load)
    if phase.until.max_events < planned:
        message = f"is below the {planned:,} events of load"
        yield BrokenRule("until.max_events", message, "Raise it, or shorten the load.")
    elif phase.slices > 1:
        message = f"takes the phase to {phase.length_s:,.0f} s, and until is offered up to {SLICE_S} s"
        yield BrokenRule("until.max_events", message, "Lower it, or raise the last rate_per_s.")


def _window_rules(phase: Phase) -> Iterator[BrokenRule]:
    for index, window in enumerate(phase.windows):
        if window.to_s > phase.length_s + 1e-6:
            message = f"lies after the end of the phase, which lasts {phase.length_s:g} s"
            yield BrokenRule(
                f"windows[{index}].to_s", message, f"Let it end by {phase.length_s:g}, or lengthen the load."
            )
    if phase.windows and not phase.measured:
        yield BrokenRule("windows", "belong to a phase with measured: false", "Remove them, or set measured: true.")
    yield from repeated_names("windows", [window.name for window in phase.windows])
