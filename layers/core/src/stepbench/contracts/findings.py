"""What is found of one trial: the rate looked for, how sure it was, how windows differ, the machine's speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.measures import Estimate
from stepbench.contracts.published import PublishedUnit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.contracts.published import Published


class Utilisation(Contract):
    """
    How busy the store was while a phase was offered. Stored as the phase's `utilisation.json`.

    `utilisation` is None where no metric came; `text` says of what it is, over how many periods.
    """

    phase: str
    probe: bool
    offered_per_s: float
    achieved_per_s: float
    utilisation: float | None = Field(ge=0, description="1 is all of it; servers with several cores may show more.")
    text: str


class FoundRate(Contract):
    """What the search for a rate came to. `rate_per_s` is None where it found none; `text` says why."""

    wanted: float = Field(description="The utilisation.")
    rate_per_s: float | None
    text: str
    phases: tuple[Utilisation, ...] = Field(description="Probes in order, then the phases at the rate found.")


class StoppedPhase(Contract):
    """
    Why a phase with `until` ended, or one of which a threshold could not be kept any more (`impossible`).

    Widths are relative: the 95 % interval over the quantile; of `impossible` there are none.
    """

    phase: str
    metric: str
    wanted: float | None
    reached: float | None = Field(description="At the last look; None where there was no interval.")
    final: float | None = Field(description="Of the window as analysed, which holds what came after that look as well.")
    events: int = Field(ge=0, description="Acknowledged and arrived, at the last look.")
    looks: int = Field(ge=0)
    stopped_at_s: float = Field(description="Where its load ended, in seconds from the phase's start.")
    threshold: str = Field(default="", description="Of `impossible`, as the plan has it.")
    window: str = Field(default="", description="Of `impossible`: where it could not be kept.")
    reason: Literal["sure", "max_events", "cancelled", "writers_gone", "unchecked", "impossible"] = Field(
        description="`unchecked`: CheckPrecision failed, so that the load went on to its longest."
    )
    text: str


class Comparison(Contract):
    """
    Latency of window `b` against window `a` of the same trial: across a scaling step, what the step did.

    Intervals are from resampling blocks of time in both windows; where that cannot be had, the estimates say why.
    """

    phase_a: str
    a: str
    phase_b: str
    b: str
    median_shift_ms: Estimate = Field(description="Median of b minus median of a.")
    median_ratio: Estimate
    iqr_ratio: Estimate = Field(description="Interquartile range of b over that of a.")
    tail_ratio: Estimate = Field(description="(p90 / median) of b over the same of a: whether the tail grew more.")


class ChangePoint(Contract):
    """
    Where one series of a phase changes its level most, with the probability of so large a change by chance.

    `achieved_per_s` is what was acknowledged, by t2, in bins of 100 ms; `latency_ms` is latency, medians of
    bins of a second by t0. `at_s` is seconds from the phase's first t0; its value is None where no change is seen.
    """

    phase: str
    series: Literal["achieved_per_s", "latency_ms"]
    at_s: Estimate
    p_value: float | None = Field(default=None, ge=0, le=1, description="None: not judged; `at_s` says why.")
    before: float | None = Field(default=None, description="The series' median before the change.")
    after: float | None = None


class Modality(Contract):
    """Whether a window's latency has more than one mode, on a logarithmic axis (Silverman's test)."""

    window: str
    phase: str
    p_value: float | None = Field(default=None, description="Of one mode; None where `reason` says why it is unknown.")
    modes_ms: tuple[float, ...] = Field(default=(), description="Where the modes lie; one if unimodality stands.")
    reason: str | None = None


class Replication(Contract):
    """
    A published number beside ours, of triggers for both readings of what the paper measured.

    `ratio` is ours over the published number, of a range over its nearer end, and 1 within it; its interval is that of
    ours.
    """

    metric: str = Field(description="As in the plan's `published`: p50, p90, ...; `ks` with a ClockCheck.")
    window: str
    phase: str
    over: str = Field(default="", description="What a ratio sets the metric over: `p50 of before`; empty for a time.")
    published: float
    published_to: float | None = Field(default=None, description="Of a published range: its upper end.")
    unit: PublishedUnit = Field(description="Of `published`, `ours` and `ours_after_ack`.")
    published_count: int | None = Field(
        default=None, description="Of a row of a published table of percentiles: how many took at most so long."
    )
    count: int | None = Field(default=None, description="The same of ours; None where none was published.")
    bound: Literal["above", "up_to"] | None = Field(
        default=None, description="Where `published` is a limit: the paper says more than this, or at most this."
    )
    source: str
    note: str = Field(default="", description="What to know of it: where its source contradicts it.")
    ours: Estimate = Field(description="From t4 - t1; of operations, and of `write_p50`, t2 - t1.")
    ours_after_ack: Estimate | None = Field(description="From t4 - t2. None for operations.")
    ratio: Estimate
    ratio_after_ack: Estimate | None

    @classmethod
    def of(cls, published: Published, ours: Estimate, ours_after_ack: Estimate | None, **place: Any) -> Self:  # noqa: ANN401 -- each checked by its field
        """
        Set ours beside a published number.

        Args:
            published: what the plan says of it.
            ours: ours, in its unit.
            ours_after_ack: the same without the write's time; None where there is no such reading.
            place: the other fields, such as the window.
        """
        return cls(
            metric=published.metric,
            published=published.number,
            published_to=published.to,
            unit=published.unit,
            bound=published.bound,
            source=published.source,
            note=published.note,
            ours=ours,
            ours_after_ack=ours_after_ack,
            ratio=published.score(ours),
            ratio_after_ack=None if ours_after_ack is None else published.score(ours_after_ack),
            **place,
        )


class TrialReplication(Replication):
    """A published ratio of one trial's number over another's, beside ours; repeats of a trial are taken together."""

    trial: str = Field(description="Its name, or that of its repeats.")
    over_trial: str
    emulated: tuple[str, ...] = Field(default=(), description="Those of the two whose store is an emulator's.")


SLOW = 0.6
"""Of the machine's speed. Clocks that fall from boost to base stay above it; two programs on one core do not."""
LEAST_SHARE = 0.02
"""A quiet machine runs something else for some milliseconds, too, once or twice a second."""
LEAST_OF_ONE = 0.05
"""A single spell is named from here on: a shorter one may be any program that ran once."""


class SlowSpells(Contract):
    """
    The spells in which a machine ran below 60 % of its own speed, while a loop counted its work by slices of 5 ms.

    One spell goes on through better times that are too short to make up for it.
    """

    looked_s: float = Field(gt=0, description="For how long the work was counted.")
    share: float = Field(ge=0, le=1, description="Of that time, in slices below 60 % of the speed.")
    longest_ms: float = Field(ge=0, description="The longest spell.")
    spells: int = Field(ge=0)

    @classmethod
    def merged(cls, looks: Iterable[Self]) -> Self | None:
        """Return several looks as one; None of none."""
        found = tuple(looks)
        looked_s = sum(each.looked_s for each in found)
        if not found:
            return None
        return cls(
            looked_s=looked_s,
            share=min(1.0, sum(each.share * each.looked_s for each in found) / looked_s),
            longest_ms=max(each.longest_ms for each in found),
            spells=sum(each.spells for each in found),
        )

    @property
    def matter(self) -> bool:
        """Return whether the machine may have made tails of its own: nothing but a single preemption does not."""
        return self.share >= (LEAST_SHARE if self.spells > 1 else LEAST_OF_ONE)


class Clock(Contract):
    """Receiver clock minus writer clock, with its error bound; None where unmeasured."""

    offset_ms: float | None
    bound_ms: float | None
    text: str = ""
