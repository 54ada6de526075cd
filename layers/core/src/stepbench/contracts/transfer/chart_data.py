"""The data of the charts of transfers: points, distributions, progress, and levels by hour and weekday."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.transfer.plan import Platform, Source

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
