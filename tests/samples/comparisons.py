"""Made-up trials and runs to compare: a median, a p90 of twice it, and too few events for p99."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tests.samples.results import sample_results, sample_summary

from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.measures import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.across_trials import Verdict
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import RunSummary, TrialSummary

SAMPLE = sample_results()[0].summary
WINDOW_RESULT = SAMPLE.windows[0]
SHORT = Estimate(value=9, reason="n=200 < 368")


def estimate(value: float, half_width: float = 0.02) -> Estimate:
    """Build an estimate with an interval of this half-width on the logarithmic scale."""
    return Estimate(value=value, low=value * math.exp(-half_width), high=value * math.exp(half_width))


def window(p50: Estimate, name: str = "steady", **changes: Any) -> WindowResult:  # noqa: ANN401 -- a window's fields
    """Build a window with this median, a p90 of twice it, and too few events for p99."""
    p90 = Estimate(**{key: value and 2 * value for key, value in p50.model_dump(exclude={"reason"}).items()})
    latency = WINDOW_RESULT.latency_ms.model_copy(update={"p50": p50, "p90": p90, "p99": SHORT, "max": 12.0})
    return WINDOW_RESULT.model_copy(update={"name": name, "phase": name, "latency_ms": latency, **changes})


def trial(name: str, *windows: WindowResult, index: int = 0, **fields: Any) -> TrialSummary:  # noqa: ANN401 -- a summary's
    """Build a trial that went through whole."""
    own = {"name": name, "group": name, "index": index, "windows": windows, "incomplete": False, "caveats": ()}
    setup = {"target.store": fields.get("store", "etcd"), "arrivals": "constant"}
    return SAMPLE.model_copy(update={**own, "store": "etcd", "emulated": False, "setup": setup, **fields})


def matrix(path: str, medians: dict[Any, Sequence[float]]) -> list[TrialSummary]:
    """Build a group of runs for each value of a setting, with these medians."""
    runs = [(value, repeat, ms) for value in medians for repeat, ms in enumerate(medians[value])]
    return [
        trial(f"etcd.{value}", window(estimate(ms)), index=index, repeat=repeat, point={path: value}, base="etcd")
        for index, (value, repeat, ms) in enumerate(runs)
    ]


def etcd_trials(number: int) -> list[TrialSummary]:
    """Build trials without repeats and without anything in common but their store."""
    return [trial(f"t{index}", window(estimate(1)), index=index) for index in range(number)]


def etcd_verdicts(aspect: str, number: int) -> tuple[Verdict, ...]:
    """Build verdicts of one aspect, each of its own subject."""
    (one,) = plan_verdicts(matrix("writers", {1: [1.0], 2: [3.0]}))
    return tuple(one.model_copy(update={"aspect": aspect, "subject": f"{aspect} {n}"}) for n in range(number))


def run(*trials: TrialSummary, run_id: str = "run") -> RunSummary:
    """Build a run of these trials."""
    return sample_summary(sample_results()).model_copy(update={"trials": trials, "run_id": run_id})


def etcd(p50_ms: float, name: str = "etcd", **changes: Any) -> TrialSummary:  # noqa: ANN401 -- a window's fields
    """Build a trial with this median."""
    return trial(name, window(estimate(p50_ms), **changes))
