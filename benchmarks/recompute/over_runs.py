"""What a run says of several trials at once, from each trial's own numbers: groups of repeats, and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.recompute.records import QUANTILES, Key, Numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

VERDICT = "(verdict)"
"""It stands for the phase of what belongs to a comparison, whose number stands for the trial's."""
ALL = -1
"""It stands for the trial of what belongs to all runs of a group."""
SIDES = ("a", "b", "ratio")


def of_group(name: str, window: dict[str, Any] | Key, metric: str) -> Key:
    """Return where a number of a group of repeats belongs."""
    phase, own = (window.phase, window.window) if isinstance(window, Key) else (window["phase"], window["window"])
    return Key(ALL, phase, own, "", f"{name}: {metric}")


def over_runs(summary: dict[str, Any], found: Numbers) -> Numbers:
    """Return the numbers of all groups and verdicts; which trials and windows are meant, the summary says."""
    whole: dict[str, list[int]] = {}
    for trial in summary["trials"]:
        if not trial["incomplete"]:
            whole.setdefault(trial["group"] or trial["name"], []).append(trial["index"])
    ours: Numbers = {}
    for group in summary["groups"]:
        for window in group["windows"]:
            own = [Key(index, window["phase"], window["window"], "", "") for index in whole.get(group["name"], ())]
            own = [key for key in own if key._replace(metric="n") in found]
            ours[of_group(group["name"], window, "runs")] = len(own)
            for q in QUANTILES:
                runs = [found[key._replace(metric=f"latency_ms.{q}")] for key in own]
                ours[of_group(group["name"], window, f"over_runs.{q}")] = mean(runs)
    for number, verdict in enumerate(summary["verdicts"]):
        sides = [list(_runs(verdict, side, whole, found)) for side in "ab"]
        ours[Key(number, VERDICT, "", "", "runs")] = len(sides[1])
        for effect in verdict["effects"]:
            name = _metric(effect["measure"], verdict["kind"])
            values = [[found.get(key._replace(metric=name)) for key in side] for side in sides]
            a, b = (_of_side(effect["measure"], each) for each in values)
            ratio = b / a if a and b and not verdict["unlike"] else None
            for part, value in zip(SIDES, (a, b, ratio), strict=True):
                ours[Key(number, VERDICT, "", "", f"{effect['measure']}.{part}")] = value
    return ours


def of_summary(summary: dict[str, Any]) -> Iterator[tuple[Key, Any]]:
    """Yield what `summary.json` says of groups and verdicts."""
    for group in summary["groups"]:
        for window in group["windows"]:
            yield of_group(group["name"], window, "runs"), window["runs"]
            for q in QUANTILES:
                if q in window:
                    yield of_group(group["name"], window, f"over_runs.{q}"), window[q]["value"]
    for number, verdict in enumerate(summary["verdicts"]):
        for effect in verdict["effects"]:
            for part in SIDES:
                yield Key(number, VERDICT, "", "", f"{effect['measure']}.{part}"), effect[part]["value"]


def mean(runs: list[float | None]) -> float | None:
    """Return the geometric mean; none where a run has no value, or none above 0."""
    values = np.array([run or 0.0 for run in runs])
    return float(np.exp(np.log(values).mean())) if values.size and values.min() > 0 else None


def _runs(verdict: dict[str, Any], side: str, whole: dict[str, list[int]], found: Numbers) -> Iterator[Key]:
    place = verdict[side]
    for index in whole[place["group"]]:
        key = Key(index, place["phase"], place["window"], verdict["kind"] or "", "")
        if key._replace(kind="", metric="n") in found:
            yield key


def _metric(measure: str, kind: str | None) -> str:
    if measure == "throughput":
        return "throughput_per_s"
    return f"{'service_ms' if kind else 'latency_ms'}.{measure}"


def _of_side(measure: str, runs: list[float | None]) -> float | None:
    if measure == "max":
        return max((run for run in runs if run is not None), default=None)
    return runs[0] if len(runs) == 1 else mean(runs)
