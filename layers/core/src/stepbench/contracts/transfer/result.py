"""
What a report shows of transfers, of one trial, or of a dataset over a span.

Rates are in MiB/s and end in `_mib_per_s`; times are in the unit that their names end in. A rate without further words
is that of the transfer alone: all bytes of the file over the time from its start to its last byte.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from stepbench.contracts.base import Contract
from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.plan import Platform, PublishedTransfer, Source

TransferCaveat = Literal["few", "dependent", "warm", "cached", "wrong_digest", "client_limit", "unfinished"]
"""
few: too few transfers for an interval of p5 and p95. dependent: transfers depend on those before or on their sandbox,
so that intervals count fewer. warm: some are not proven cold, or of EFS what was in memory is unknown. cached: a part
of some files came from memory. wrong_digest: the bytes of some were not the file's. client_limit: the reading process
used most of a CPU, so that the rate may be its own. unfinished: some failed, or were cut off; they have no rate, and
might have been the slowest.
"""


class TransferAccounting(Contract):
    """
    What became of all reads. offered = ok + failed + unknown + missing, and ok + failed + unknown is all rows.

    Of the rows: cold, warm and unknown_start add up to them all; so do sound digests, wrong ones and unknown ones.
    """

    offered: int | None = Field(default=None, ge=0, description="None where nobody knows, as of a dataset of others.")
    ok: int = Field(ge=0)
    failed: int = Field(ge=0)
    unknown: int = Field(ge=0, description="Cut off by the process's own end.")
    missing: int | None = Field(default=None, ge=0, description="Offered, and without a row; None as `offered`.")
    cold: int = Field(ge=0)
    warm: int = Field(ge=0)
    unknown_start: int = Field(ge=0, description="Whether the sandbox was new is not known.")
    wrong_digest: int = Field(ge=0)
    untold_digest: int = Field(ge=0)
    errors: dict[str, int] = Field(default={}, description="Of failed and unknown reads; the most frequent first.")


class TransferMode(Contract):
    """One mode of a cell's rates: where its peak lies, and which share of the transfers lies about it."""

    mib_per_s: float
    share: float = Field(ge=0, le=1, description="Transfers between the valleys on either side.")


class TransferModes(Contract):
    """
    How many modes the rates of a cell have, on a logarithmic axis (Silverman's test, step by step).

    A change of level, a slow hour and stalls make modes of their own: n transfers are judged, which are those of the
    longest span without a change by 5 % or more, outside of hours that differ, that never stood still; of each sandbox
    the first one.
    p_value: of one mode. found: whether there is more than one, at the error that all findings of the report share.
    A cell that is judged lists one mode at least.
    """

    n: int = Field(default=0, ge=0)
    p_value: float | None = Field(default=None, ge=0, le=1, description="None where `reason` says why it is unknown.")
    found: bool = False
    modes: tuple[TransferMode, ...] = Field(default=(), description="Ascending.")
    reason: str | None = None


class TransferStalls(Contract):
    """
    Transfers that stood still: before their first byte or between two MiB, long in itself and beside their own pace.

    judged: transfers whose progress is known, of all that were ok. share is of these.
    """

    judged: int = Field(ge=0)
    stalls: int = Field(ge=0)
    transfers: int = Field(ge=0, description="That have at least one.")
    share: Estimate
    median_s: float | None = Field(default=None, description="Of the stalls.")
    longest_s: float | None = None


class TransferCell(Contract):
    """Transfers of files of one size from one source to one platform; `n` of them were ok and are what is measured."""

    platform: Platform
    source: Source
    file_size_mib: int = Field(ge=1)
    n: int = Field(ge=0)
    failed: int = Field(ge=0)
    unknown: int = Field(ge=0)
    mean_mib_per_s: Estimate = Field(description="With Student's interval, as the source published it.")
    median_mib_per_s: Estimate
    p5_mib_per_s: Estimate
    p95_mib_per_s: Estimate
    p95_over_p5: Estimate = Field(description="Of rates.")
    p50_s: Estimate
    p90_s: Estimate
    p99_s: Estimate
    fastest_s: float | None
    slowest_s: float | None
    slowest_over_fastest: float | None = Field(description="None of fewer than two transfers.")
    variation: float | None = Field(description="Coefficient of variation of rates: deviation over mean, n - 1.")
    first_byte_p50_ms: Estimate
    first_byte_p95_ms: Estimate
    steady_mib_per_s: Estimate = Field(description="Median of the rate after the first byte.")
    cpu_share: float | None = Field(default=None, description="Median of the process's CPU time over the transfer's.")
    modes: TransferModes
    stalls: TransferStalls
    caveats: tuple[TransferCaveat, ...] = ()


class TransferLevel(Contract):
    """
    Transfers of one hour of the day (0 to 23, UTC) or one weekday (0 is Monday).

    relative: geometric mean of rates, each over its cell's median; sizes that happen to be drawn do not matter.
    """

    at: int = Field(ge=0, le=23)
    n: int = Field(ge=0)
    mean_mib_per_s: float | None = Field(description="Over all sizes, as they were drawn.")
    relative: float | None
    differs: bool = Field(default=False, description="It is one of those that make the dependence.")


class TransferDependence(Contract):
    """Whether rates depend on the hour or the weekday. p_value: of so large differences if they do not."""

    levels: tuple[TransferLevel, ...]
    p_value: float | None = Field(default=None, ge=0, le=1, description="None where `reason` says why it is unknown.")
    found: bool = False
    reason: str | None = None


class TransferChange(Contract):
    """Since when rates lie on another level. before, after: geometric means of rates over their cells' medians."""

    at: AwareDatetime
    earliest: AwareDatetime = Field(description="Of its 95 % interval.")
    latest: AwareDatetime
    p_value: float = Field(ge=0, le=1)
    before: float
    after: float
    ratio: Estimate = Field(description="After over before.")


class TransferVariance(Contract):
    """
    Shares of the variance of logarithms of rates; those that are known add up to 1.

    deviation: of the logarithms, all shares together. sandbox has no value where each made one transfer only: what it
    makes is then in `rest`.
    """

    deviation: float | None
    sandbox: Estimate
    hour: Estimate
    size: Estimate
    rest: Estimate


class TransferPlateau(Contract):
    """
    From which size on the rate rises no more, and at which rate.

    client_limit: whether the plateau may be the reading process's own: None where its CPU time is not known.
    """

    from_mib: int | None = Field(description="None where it rises up to the largest size, or `reason` says why.")
    mib_per_s: float | None = Field(description="Mean of the means of those sizes.")
    rises: bool = Field(description="Whether the largest size's rate is above the smallest one's.")
    client_limit: bool | None = None
    reason: str | None = None


class TransferPair(Contract):
    """All transfers from one source to one platform."""

    platform: Platform
    source: Source
    n: int = Field(ge=0)
    slowest_over_fastest: float | None = Field(
        description="Mean over sizes of two transfers and more; as published, 9.47 of EFS on Fargate."
    )
    plateau: TransferPlateau
    hours: TransferDependence
    weekdays: TransferDependence
    changes: tuple[TransferChange, ...] = ()
    changes_reason: str | None = Field(default=None, description="Why changes are not looked for.")
    modes: TransferModes = Field(
        description="Of files of 100 MiB and more together (of all, where there are none), each size's rates scaled "
        "to the mean of all: of so many a small mode shows that no cell can show."
    )
    variance: TransferVariance


class TransferSandboxes(Contract):
    """Sandboxes of a platform that read from both sources: whether one that is slow for the one is so for the other."""

    platform: Platform
    n: int = Field(ge=0, description="Sandboxes.")
    correlation: Estimate = Field(
        description="Rank correlation of both rates, within sizes and beside their neighbours; 0: unrelated."
    )


class ScoredTransfer(Contract):
    """A published number, and ours beside it, whose value is None where it was not measured."""

    published: PublishedTransfer
    ours: Estimate = Field(description="In the unit of what was published.")
    ratio: Estimate = Field(description="Ours over what was published.")


class TransferFindings(Contract):
    """
    What transfers show.

    All that is called found is found at a family-wise error of 5 %: no more than one report of twenty finds anything
    where there is nothing. Stalls are counted, not tested.
    """

    n: int = Field(ge=0, description="Rows.")
    begin: AwareDatetime | None = Field(description="When the first read began; None without rows.")
    end: AwareDatetime | None = Field(description="When the last one did.")
    accounting: TransferAccounting
    cells: tuple[TransferCell, ...] = Field(description="By platform, source and size.")
    pairs: tuple[TransferPair, ...] = Field(description="By platform and source.")
    sandboxes: tuple[TransferSandboxes, ...] = Field(default=(), description="Where sandboxes are known.")
    answers: tuple[str, ...] = Field(description="One sentence each.")
    published: tuple[ScoredTransfer, ...] = Field(default=(), description="What the plan has of others' numbers.")


ProgressKind = Literal["fastest", "median", "slowest", "stalled"]


class PairPoints(Contract):
    """
    Transfers of one source to one platform that went well, as columns of equal length, in the order of their beginning.

    at_s: seconds since the epoch. Of very many, a part is drawn that has the fastest and slowest of each size.
    """

    platform: Platform
    source: Source
    at_s: tuple[float, ...]
    file_size_mib: tuple[int, ...]
    seconds: tuple[float, ...]
    left_out: int = Field(default=0, ge=0, description="So many are not drawn.")


class TransferCurve(Contract):
    """Empirical distribution of the transfer times of one cell, thinned to at most some hundred points."""

    platform: Platform
    source: Source
    file_size_mib: int
    seconds: tuple[float, ...] = Field(description="Ascending.")
    probability: tuple[float, ...]


class ProgressCurve(Contract):
    """One transfer from its start to its end: how many MiB were there after so many seconds."""

    platform: Platform
    source: Source
    file_size_mib: int
    kind: ProgressKind
    began_at_s: float
    seconds: tuple[float, ...]
    mib: tuple[float, ...]


class HourLevel(Contract):
    """
    Transfers that began in one hour of one weekday (0 is Monday), UTC.

    relative: geometric mean of rates, each over its cell's own geometric mean, so that 1 is what is usual.
    """

    platform: Platform
    source: Source
    weekday: int = Field(ge=0, le=6)
    hour: int = Field(ge=0, le=23)
    n: int = Field(ge=1)
    relative: float = Field(gt=0)


class TransferChartData(Contract):
    """Everything that the charts of transfers draw, but for what the findings have."""

    points: tuple[PairPoints, ...]
    curves: tuple[TransferCurve, ...]
    progress: tuple[ProgressCurve, ...]
    hours: tuple[HourLevel, ...]
