"""
Models of tuned stores, those that ship and those that a plan brings along: what they cover, and what they predict.

No ranges are published in which the five parameters are searched: these are ours. They lie within what the contract
admits, depend on the machine as the published advice does, and reach beyond it on both sides.

H(W, C), the throughput under a workload with a configuration, is H(W, released) x G(W, C). The first is interpolated
between the workloads under which the released configuration was measured, the gain G between all measured pairs of a
workload and a configuration: logarithms, weighted by the inverse square of their distance. At a measured point it is
what was measured there. Far from all of them the gain is near their mean, in which the released configuration counts as
1 under each workload: where nothing was measured, it promises less than the best that was seen.

Source:
    Shepard (1968), A two-dimensional interpolation function for irregularly-spaced data, ACM '68, 517-524.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.target import CassandraTarget
from stepbench.contracts.trial import TrialFields
from stepbench.contracts.tuning import (
    CLEANUP,
    COMPACTORS,
    FILE_CACHE_MIB,
    RELEASED,
    RESTARTED_FOR,
    WRITES,
    AdaptiveTuning,
    CassandraConfiguration,
    Compaction,
    StaticTuning,
    StoreWorkload,
    TunedModel,
)
from stepbench.digits import listed
from stepbench.errors import PlanError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.resources.abc import Traversable

    from stepbench.contracts.plan import Plan
    from stepbench.contracts.tuning import ModelPoint
    from stepbench.settings import Settings

SUFFIX = ".json"


def shipped() -> dict[str, Traversable]:
    """Return the models that ship, by name."""
    folder = files("stepbench.tuning") / "models"
    if not folder.is_dir():
        return {}
    return {each.name.removesuffix(SUFFIX): each for each in folder.iterdir() if each.name.endswith(SUFFIX)}


def model_problems(plan: Plan) -> list[Problem]:
    """Return a problem for each trial that needs a model which does not ship."""
    return [
        problem
        for place, trial in enumerate(plan.trials)
        if isinstance(trial, TrialFields) and isinstance(trial.target, CassandraTarget)
        if (named := _deciding(trial.target)) is not None
        if (problem := _problem(named, f"trials[{place}].target.tuning.model"))
    ]


def host_problems(at: str, target: CassandraTarget, settings: Settings) -> Iterator[Problem]:
    """
    Yield why a stack's Cassandra cannot be measured or configured as a target says.

    The stack has no such host, or tunes another; or a model decides that was measured on another machine: what one
    machine's node gains says nothing of another's. On an emulator a shipped one may, as an example.
    """
    hosts, named = settings.cassandra_hosts, _deciding(target)
    if target.host is not None and target.host not in hosts:
        message = f"is no host of this stack, which has {listed(list(hosts)) if hosts else 'none of its own'}"
        remedy = "Deploy with it (docs/servers.md), or remove it: without it, all trials are on the same host."
        yield Problem(f"{at}.host", f'"{target.host}"', message, remedy)
        return
    here = next(iter(hosts), this_machine() if settings.emulator else "")
    if target.tuning.tunes and (not here or target.host not in {None, here}):
        message = f"is for the first host that the stack has made, {here or 'and this one has made none'}"
        remedy = "Remove it or target.host, or deploy with CassandraNode=on."
        yield Problem(f"{at}.tuning", f'"{target.tuning.mode}"', message, remedy)
        return
    if named is None or _problem(named, at) or (settings.emulator and isinstance(named, str)):
        return
    model = find_model(named)
    if model.machine != here:
        message = f"was measured on {model.machine}, and would configure {here}"
        remedy = f"Give what `stepbench tune PLAN{'' if settings.emulator else ' --stack NAME'}` finds there."
        yield Problem(f"{at}.tuning.model", f'"{model.name}"', message, remedy)


def this_machine() -> str:
    """Return how a model names the machine that this runs on."""
    return f"{platform.machine()}, {os.cpu_count() or 1} cores, {platform.system()}"


def _deciding(target: CassandraTarget) -> TunedModel | str | None:
    """Return the model that decides how a target is configured; None where none does."""
    tuning = target.tuning
    given = isinstance(tuning, StaticTuning) and tuning.settings is not None
    return tuning.model if isinstance(tuning, StaticTuning | AdaptiveTuning) and not given else None


def find_model(named: TunedModel | str) -> TunedModel:
    """
    Return the model that a plan has, or has named.

    Raises:
        PlanError: no model of this name ships.
    """
    if problem := _problem(named, "target.tuning.model"):
        raise PlanError([problem])
    return named if isinstance(named, TunedModel) else TunedModel.model_validate_json(shipped()[named].read_bytes())


def _problem(named: TunedModel | str, path: str) -> Problem | None:
    if isinstance(named, TunedModel) or named in shipped():
        return None
    known = ", ".join(sorted(shipped())) or "none"
    remedy = f"Name one of those that ship ({known}), or give what `stepbench tune` writes."
    return Problem(path=path, value=named, message="is no model that ships", remedy=remedy)


STRATEGIES: tuple[Compaction, ...] = ("STCS", "LCS", "UCS")
"""The strategy for time series is left out: no read asks for a DAG's blobs in order of time."""
CACHE_STEP_MIB = 32


class Ranges(NamedTuple):
    """Both ends included. Writes and compactors are searched on a logarithmic scale, the cache in steps."""

    compaction: tuple[Compaction, ...]
    concurrent_writes: tuple[int, int]
    file_cache_mib: tuple[int, int]
    memtable_cleanup_threshold: tuple[float, float]
    concurrent_compactors: tuple[int, int]


def ranges_for(cores: int, heap_mib: int) -> Ranges:
    """
    Return the ranges on such a machine.

    Writes from two to 64 a core (advised: 8), the cache up to half of the heap (advised: a quarter, 512 MiB at most),
    compactors from one in all to eight a core (advised: two at least).
    """
    return Ranges(
        STRATEGIES,
        (_within(2 * cores, WRITES), _within(64 * cores, WRITES)),
        (FILE_CACHE_MIB[0], _within(heap_mib // 2, FILE_CACHE_MIB) // CACHE_STEP_MIB * CACHE_STEP_MIB),
        CLEANUP,
        (1, _within(8 * cores, COMPACTORS)),
    )


def advised(cores: int, heap_mib: int) -> CassandraConfiguration:
    """
    Return the configuration that is advised for a machine with one disk that does not turn, whatever is asked of it.

    Source:
        Shankar et al. (2023), Asgard, section 2.4; size-tiered compaction is what Cassandra is released with.
    """
    return CassandraConfiguration(
        compaction="STCS",
        concurrent_writes=_within(8 * cores, WRITES),
        file_cache_mib=_within(min(heap_mib // 4, 512), FILE_CACHE_MIB),
        memtable_cleanup_threshold=0.33,
        concurrent_compactors=2,
    )


def needs_restart(old: CassandraConfiguration | None, new: CassandraConfiguration | None) -> bool:
    """Return whether a node of the old configuration has to be started anew for the new one."""
    before, after = old or RELEASED, new or RELEASED
    return any(getattr(before, name) != getattr(after, name) for name in RESTARTED_FOR)


def squared_distance(one: CassandraConfiguration | None, other: CassandraConfiguration | None) -> float:
    """Return how far apart two configurations are, squared; ends of a parameter are 1 apart, strategies too."""
    first, second = one or RELEASED, other or RELEASED
    places = zip(_places(first), _places(second), strict=True)
    return float(first.compaction != second.compaction) + sum((here - there) ** 2 for here, there in places)


def _places(configuration: CassandraConfiguration) -> tuple[float, ...]:
    """Return where the numbers are between the ends that the contract admits; a cache that is off is half the least."""
    least = FILE_CACHE_MIB[0] / 2
    low, high = CLEANUP
    return (
        _log_place(configuration.concurrent_writes, *WRITES),
        _log_place(max(configuration.file_cache_mib, least), least, FILE_CACHE_MIB[1]),
        (configuration.memtable_cleanup_threshold - low) / (high - low),
        _log_place(configuration.concurrent_compactors, *COMPACTORS),
    )


def _log_place(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)


def _within(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(bounds[1], value))


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
