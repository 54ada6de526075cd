"""
H(W, C): the throughput of a store under a workload with a configuration, out of what was measured. Pure.

H(W, C) = H(W, released) x G(W, C). The first is interpolated between the workloads under which the released
configuration was measured, the gain G between all measured pairs of a workload and a configuration: logarithms,
weighted by the inverse square of their distance. At a measured point it is what was measured there. Far from all of
them the gain is near their mean, in which the released configuration counts as 1 under each workload: where nothing was
measured, it promises less than the best that was seen.

Source:
    Shepard (1968), A two-dimensional interpolation function for irregularly-spaced data, ACM '68, 517-524.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from stepbench.contracts.tuning import StoreWorkload
from stepbench.tuning.ranges import squared_distance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.tuning import CassandraConfiguration, ModelPoint

_OCTAVES_OF_SIZE, _OCTAVES_OF_CLIENTS = 4.0, 4.0
"""Distances that count as much as the one from gets only to puts only: 64 KiB from 1 MiB, one client from 16."""
_SAME = 1e-12


class Throughput:
    """What a model's points say; under each of their workloads the released configuration was measured, too."""

    def __init__(self, points: Sequence[ModelPoint]) -> None:
        """
        Take the medians of the points' repeats.

        Raises:
            ValueError: the released configuration was not measured under one of the workloads.
        """
        released = {each.workload: _log_median(each) for each in points if each.configuration is None}
        if missing := {each.workload for each in points} - released.keys():
            message = f"the released configuration was not measured under {sorted(map(str, missing))}"
            raise ValueError(message)
        self._released = released
        self._gains = [
            (each.workload, each.configuration, _log_median(each) - released[each.workload]) for each in points
        ]

    def per_s(self, workload: StoreWorkload, configuration: CassandraConfiguration | None) -> float:
        """Return H(W, C), in requests a second."""
        base = _interpolated((_apart(workload, each), value) for each, value in self._released.items())
        gain = _interpolated(
            (_apart(workload, each) + squared_distance(configuration, other), value)
            for each, other, value in self._gains
        )
        return math.exp(base + gain)


def left_out(points: Sequence[ModelPoint]) -> tuple[tuple[ModelPoint, float], ...]:
    """Return what the model predicts of each tuned point without having seen it: how far it is to be trusted."""
    return tuple(
        (each, Throughput([*points[:at], *points[at + 1 :]]).per_s(each.workload, each.configuration))
        for at, each in enumerate(points)
        if each.configuration is not None
    )


def _log_median(point: ModelPoint) -> float:
    return math.log(statistics.median(point.per_s))


def _apart(one: StoreWorkload, other: StoreWorkload) -> float:
    """Return how far apart two workloads are, squared."""
    return (
        (one.read_share - other.read_share) ** 2
        + (math.log2(one.blob_bytes / other.blob_bytes) / _OCTAVES_OF_SIZE) ** 2
        + (math.log2(one.clients / other.clients) / _OCTAVES_OF_CLIENTS) ** 2
    )


def _interpolated(values: Iterable[tuple[float, float]]) -> float:
    """Return the mean of values weighted by the inverse of their squared distances; a value at no distance itself."""
    total, weights = 0.0, 0.0
    for squared, value in values:
        if squared < _SAME:
            return value
        total, weights = total + value / squared, weights + 1 / squared
    return total / weights
