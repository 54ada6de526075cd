"""Every number of a run computed from its trials' `records.parquet`, by the definitions of docs/measurement.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
BOX = {"p1": 0.01, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99}
PERCENTILES = (50.0, 75.0, 87.5, 93.75, 99.21875, 99.90234375, 100.0)
PARTS = ("connect", "tls", "authenticate", "operate")
OUTCOMES = ("ok", "failed", "unknown", "unsent", "unrecorded")


class Key(NamedTuple):
    """Where a number belongs; what is a whole trial's has no phase and no window, and what is of all kinds no kind."""

    trial: int
    phase: str
    window: str
    kind: str
    metric: str


Numbers = dict[Key, Any]
Samples = dict[Key, "NDArray[np.float64]"]


def quantile(ascending: NDArray[np.float64], q: float) -> float | None:
    """Return Hyndman and Fan's type 7; None where it lies in the missing mass (inf), even in part."""
    if not ascending.size:
        return None
    place = (ascending.size - 1) * q
    low, high = ascending[int(place)], ascending[min(int(place) + 1, ascending.size - 1)]
    share = place - int(place)
    value = low if share == 0 or low == high else low + share * (high - low)
    return float(value) if np.isfinite(value) else None


def measure(values_ms: NDArray[np.float64]) -> dict[str, Any]:
    """Return what is shown of a measure."""
    ascending = np.sort(values_ms)
    finite = ascending[np.isfinite(ascending)]
    whole = finite.size == ascending.size > 0
    found = {name: quantile(ascending, q) for name, q in QUANTILES.items()}
    found |= {"n": ascending.size, "missing": ascending.size - finite.size, "mean": finite.mean() if whole else None}
    return found | {"min": finite[0] if finite.size else None, "max": finite[-1] if finite.size else None}


def percentiles(values_ms: NDArray[np.float64]) -> dict[str, Any]:
    """Return the table of percentiles, with how many took at most so long."""
    ascending = np.sort(values_ms)
    found = {f"percentile.{p}": quantile(ascending, p / 100) for p in PERCENTILES}
    at_most = {f"count.{p}": np.searchsorted(ascending, found[f"percentile.{p}"] or -1, "right") for p in PERCENTILES}
    return found | at_most


class Trial:
    """One trial's records: the columns as arrays, times as integers with 0 for null."""

    def __init__(self, path: Path) -> None:
        frame = pd.read_parquet(path, dtype_backend="numpy_nullable")
        self.facts: dict[str, Any] = frame.attrs
        self.size = len(frame)
        self.column = {name: self._array(frame[name]) for name in frame.columns}
        self.arrives = self.facts["experiment"] in {"trigger", "dataflow"}
        outcome = self.column["outcome"]
        self.is_ = {name: outcome == name for name in OUTCOMES}
        self.sent = self.is_["ok"] | self.is_["failed"] | self.is_["unknown"]
        self.arrived = (self.get("t4_ns") > 0) & ~self.get("late").astype(bool)
        self.matching = self.get("matching").astype(bool) if self.arrives else np.ones(self.size, bool)
        self.timed = self.is_["ok"] & self.matching & ~self.get("watch_gap").astype(bool)

    @staticmethod
    def _array(column: pd.Series) -> NDArray[Any]:
        numeric = pd.api.types.is_numeric_dtype(column)
        return np.asarray(column.fillna(0).to_numpy(np.int64) if numeric else column.astype(str).to_numpy())

    def get(self, name: str) -> NDArray[Any]:
        """Return a column, all 0 where the file has none."""
        return self.column.get(name, np.zeros(self.size, np.int64))

    def elapsed_ms(self, rows: NDArray[np.bool_], begin: str, end: str) -> NDArray[np.float64]:
        """Return a time between two stamps, in order of t0; infinite where it never ended."""
        ms = (self.get(end)[rows] - self.get(begin)[rows]) / 1e6
        told = self.arrived & (self.get("t3_ns") > 0) if "t3_ns" in {begin, end} else self.arrived
        return np.where(told[rows], ms, np.inf) if end in {"t3_ns", "t4_ns"} else ms

    def measures(self) -> dict[str, tuple[str, str]]:
        """Return which times each measure lies between."""
        found = {"response_write_ms": ("t0_ns", "t2_ns"), "service_ms": ("t1_ns", "t2_ns")}
        found |= {"lateness_ms": ("t0_ns", "t1_ns"), "latency_ms": ("t1_ns", "t4_ns" if self.arrives else "t2_ns")}
        arrivals = {"after_ack_ms": ("t2_ns", "t4_ns"), "response_trigger_ms": ("t0_ns", "t4_ns")}
        if self.get("t3_ns").any():
            arrivals |= {"to_event_ms": ("t1_ns", "t3_ns"), "from_event_ms": ("t3_ns", "t4_ns")}
        return found | arrivals if self.arrives else found


def window_numbers(trial: Trial, phase: dict[str, Any], window: dict[str, Any], samples: Samples) -> Numbers:
    """Return all that is shown of a window, by kind and metric; and what the bootstrap needs."""
    length_s = window["to_s"] - window["from_s"]
    begin, end = (phase["start_ns"] + round(window[name] * 1e9) for name in ("from_s", "to_s"))
    own, t0, t2 = trial.get("phase") == phase["name"], trial.get("t0_ns"), trial.get("t2_ns")
    inside = own & (t0 >= begin) & (t0 < end)
    done = own & trial.is_["ok"] & (t2 >= begin) & (t2 < end)
    held, at = inside & trial.timed, (trial.facts["trial"], phase["name"], window["name"])
    found: dict[tuple[str, str], Any] = {("", name): (inside & trial.is_[name]).sum() for name in ("failed", "unknown")}
    found |= {("", "n"): held.sum(), ("", "sent"): (inside & trial.sent).sum()}
    found |= {("", "ok"): (inside & trial.is_["ok"]).sum(), ("", "clients"): phase["clients"]}
    found |= {("", "offered_per_s"): inside.sum() / length_s, ("", "achieved_per_s"): done.sum() / length_s}
    found |= {("", name): count for name, count in arrivals_numbers(trial, inside).items()}
    refused = inside & (trial.is_["failed"] | trial.is_["unknown"])
    codes = np.where(trial.get("error") == "", trial.get("outcome"), trial.get("error"))[refused]
    found |= {("", f"error.{code}"): count for code, count in Counter(codes.tolist()).items()}
    found["", "errors"] = refused.sum()
    found["", "errors.share"] = refused.sum() / (inside & trial.sent).sum() if (inside & trial.sent).any() else None
    rate = found["", "throughput_per_s"] = done.sum() / length_s
    values = {("", name): trial.elapsed_ms(held, *stamps) for name, stamps in trial.measures().items()}
    ascending = np.sort(values["", "latency_ms"])
    found |= {("", f"box.{name}"): quantile(ascending, q) for name, q in BOX.items()}
    if not trial.arrives:
        found |= {("", name): each for name, each in percentiles(ascending).items()}
        found |= {("", name): each for name, each in operations_numbers(trial, phase, inside, held).items()}
        if phase["offers_number"] and held.any():
            found |= {("", name): each for name, each in invocations_numbers(phase.get("invocations", ())).items()}
            wall_s = found.get(("", "wall_s"), (t2[held].max() - trial.get("t1_ns")[held].min()) / 1e9)
            rate = held.sum() / wall_s
            found |= {("", "wall_s"): wall_s, ("", "per_wall_s"): rate, ("", "throughput_per_s"): rate}
        minutes = (t2[own & trial.is_["ok"]] - begin) // 60_000_000_000
        found |= {("", f"minute.{m}"): (minutes == m).sum() for m in range(int(length_s / 60 + 1e-9))}
        for kind in np.unique(trial.get("kind")[inside & trial.sent]).tolist():
            own_kind = inside & (trial.get("kind") == kind)
            found |= {(kind, name): (own_kind & trial.is_[name]).sum() for name in ("ok", "failed", "unknown")}
            found[kind, "per_s"] = rate * found[kind, "ok"] / max(found["", "ok"], 1)
            values[kind, "service_ms"] = trial.elapsed_ms(own_kind & trial.is_["ok"], "t1_ns", "t2_ns")
            values[kind, "response_ms"] = trial.elapsed_ms(own_kind & trial.is_["ok"], "t0_ns", "t2_ns")
            found |= {(kind, name): each for name, each in percentiles(values[kind, "service_ms"]).items()}
    for (kind, name), sample in values.items():
        samples[Key(*at, kind, name)] = sample
        found |= {(kind, f"{name}.{shown}"): value for shown, value in measure(sample).items()}
    return {Key(*at, kind, name): value for (kind, name), value in found.items()}


def arrivals_numbers(trial: Trial, inside: NDArray[np.bool_]) -> dict[str, int | None]:
    """Return a window's lost events and its duplicates; none of operations."""
    if not trial.arrives:
        return {"lost": None, "duplicates": None}
    return {name: accounting(trial, inside, measured=True)[name] for name in ("lost", "duplicates")}


def operations_numbers(
    trial: Trial, phase: dict[str, Any], inside: NDArray[np.bool_], held: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return what operations have beside their measures: retries, the generator's share, parts of connecting."""
    found: dict[str, Any] = {"retries": trial.get("retries")[inside].sum()}
    if phase["think_ms"] is not None and held.any():
        cycles = trial.elapsed_ms(held, "t0_ns", "t2_ns").sum() + held.sum() * phase["think_ms"]
        found["generator_share"] = trial.elapsed_ms(held, "t0_ns", "t1_ns").sum() / cycles
    parts = {name: trial.get(f"{name}_ns")[held] / 1e6 for name in PARTS}
    if any(part.any() for part in parts.values()):
        for name, part in parts.items():
            if part.any() or name in {"connect", "operate"}:
                found |= {f"{name}_ms.{shown}": value for shown, value in measure(part).items()}
        parts_sum = sum(part.sum() for part in parts.values())
        found["unaccounted_share"] = 1 - parts_sum / trial.elapsed_ms(held, "t1_ns", "t2_ns").sum()
    return found


def invocations_numbers(invocations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how fast a Map got its invocations done, by what each of them noted; nothing of other phases."""
    if not invocations:
        return {}
    times = pd.DataFrame(invocations).astype({"stored_ns": "Float64"})
    begin, end, worked = times["begin_ns"], times["end_ns"], times[times["operating_ns"] > 0]
    per_s = 1e9 * worked["acknowledged"] / worked["operating_ns"]
    marking_ms, stored_ms = (times[name].dropna().median() / 1e6 for name in ("marking_ns", "stored_ns"))
    found = {"wall_s": (end.max() - begin.min()) / 1e9, "invocation_ms": (end - begin).median() / 1e6}
    found |= {"function_per_s": per_s.median(), "slowest_per_s": per_s.min(), "fastest_per_s": per_s.max()}
    found |= {"recorded": times["writer"].nunique(), "sandboxes": times["sandbox"].nunique()}
    found |= {"cold_sandboxes": times["cold"].sum(), "recording_ms": 2 * marking_ms}
    found["most_at_once"] = max(((begin <= at) & (at < end)).sum() for at in begin)
    return found if pd.isna(stored_ms) else found | {"recording_ms": marking_ms + stored_ms}


def accounting(trial: Trial, among: NDArray[np.bool_], *, measured: bool) -> dict[str, int]:
    """Count where the events went: section Accounting of docs/measurement.md."""
    every = {name: among & rows for name, rows in trial.is_.items()}
    arrived, ok, none = among & trial.arrived, every["ok"], np.zeros(trial.size, bool)
    missing = ok & ~arrived if trial.arrives else none
    stopped = trial.facts["failure"] == "TrialCancelledError"
    since_ns = trial.get("t2_ns").max(initial=0) - round(trial.facts["drain_limit_s"] * 1e9)
    cut_off = missing & trial.matching & (trial.get("t2_ns") > since_ns) if stopped else none
    rows = {**every, "offered": among, "sent": among & trial.sent, "received": arrived, "cut_off": cut_off}
    rows |= {f"{name}_arrived": every[name] & arrived for name in OUTCOMES if name != "unsent"}
    rows |= {"lost": missing & trial.matching & ~cut_off, "held_back": missing & ~trial.matching}
    rows |= {"leaked": arrived & ~trial.matching, "watch_gap": arrived & trial.get("watch_gap").astype(bool)}
    rows |= {name: among & trial.get(name).astype(bool) for name in ("late", "out_of_order")}
    counts = {name: int(chosen.sum()) for name, chosen in rows.items()}
    times = "processings" if "processings" in trial.column else "arrivals"
    counts["duplicates"] = int(np.maximum(trial.get(times)[among] - 1, 0).sum())
    counts["retried"] = int(trial.get("retried")[among].sum())
    return counts | {name: count if measured else 0 for name, count in trial.facts["beside"].items()}


def recompute(run: Path, samples: Samples) -> Numbers:
    """Return every number of a run that its records tell."""
    found: Numbers = {}
    for path in sorted(run.glob("trials/*/records.parquet")):
        trial = Trial(path)
        phases = trial.facts["phases"]
        for phase in phases:
            for window in phase["windows"]:
                found |= window_numbers(trial, phase, window, samples)
        for name, measured in (("accounting", True), ("warm_up", False)):
            names = [phase["name"] for phase in phases if phase["measured"] is measured]
            if names:
                counts = accounting(trial, np.isin(trial.get("phase"), names), measured=measured)
                found |= {Key(trial.facts["trial"], "", "", "", f"{name}.{each}"): n for each, n in counts.items()}
    return found
