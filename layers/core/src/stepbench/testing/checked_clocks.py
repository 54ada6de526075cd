"""A made-up pair of trials that check the clocks: for tests of what compares them, and of what shows it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from stepbench.contracts.drawn import WindowSample
from stepbench.contracts.measures import WindowResult
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.result import Clock, Cost, TrialResult, TrialSummary
from stepbench.testing.sample_results import latency, sample_window

if TYPE_CHECKING:
    from collections.abc import Sequence

EVENTS = 200
_WRITE_MS = 3.0


def checked_pair(shift_ms: float = 0.0, seed: int = 7) -> tuple[list[TrialSpec], list[TrialResult]]:
    """200 events each; those of the second trial, with different sandboxes, take `shift_ms` longer."""
    rng = random.Random(seed)  # noqa: S311
    pair = [([rng.gauss(12, 1) + longer_ms for _ in range(EVENTS)], longer_ms == 0) for longer_ms in (0.0, shift_ms)]
    specs = [clock_spec("one-sandbox", 0, same_sandbox=True), clock_spec("two-sandboxes", 1, same_sandbox=False)]
    results = [clock_result(spec, latencies) for spec, (latencies, _) in zip(specs, pair, strict=True)]
    return specs, results


def clock_spec(name: str, index: int, *, same_sandbox: bool, **spec: Any) -> TrialSpec:  # noqa: ANN401 -- its fields
    """A trial of one window at ten events a second."""
    plan = TrialPlan.model_validate(
        {
            "target": {"store": "dynamodb", "same_sandbox": same_sandbox},
            "phases": [{"name": "compared", "load": [{"rate_per_s": 10, "count": EVENTS}]}],
        }
    )
    return TrialSpec(
        **{"run_id": "run-1", "index": index, "name": name, "tag": name, "plan": plan, "estimate_usd": 0, **spec}
    )


def clock_result(
    spec: TrialSpec, latency_ms: Sequence[float | None], *, elsewhere: int = 0, bound_ms: float | None = 0.05
) -> TrialResult:
    """What its analysis leaves; `elsewhere`: how many events another sandbox received."""
    in_one = getattr(spec.plan.target, "same_sandbox", False)
    values: list[float | None] = list(latency_ms)
    summary = TrialSummary(
        name=spec.name,
        index=spec.index,
        store=spec.plan.target.store,
        provider="MiniStack 1.5.33",
        emulated=True,
        incomplete=False,
        accounting=None,
        windows=(_window(values),),
        clock=Clock(offset_ms=None if bound_ms is None else 0.0, bound_ms=bound_ms),
        caveats=(),
        cost_usd=Cost(estimate=0),
    )
    sample = WindowSample(
        window="compared",
        phase="compared",
        length_s=EVENTS / 10,
        at_s=tuple(number / 10 for number in range(len(values))),
        latency_ms=tuple(values),
        after_ack_ms=tuple(None if value is None else value - _WRITE_MS for value in values),
        same_sandbox=tuple(number >= elsewhere for number in range(len(values))) if in_one else None,
    )
    return TrialResult(summary=summary, series=(), phases=(), ecdf=(), samples=(sample,))


def _window(values: list[float | None]) -> WindowResult:
    came = [value - _WRITE_MS for value in values if value is not None]
    return sample_window("compared", values).model_copy(update={"after_ack_ms": latency(came, len(values) - len(came))})
