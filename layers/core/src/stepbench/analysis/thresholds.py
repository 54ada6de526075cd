"""Whether a run kept to its plan's thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.threshold import ThresholdResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import TrialSummary
    from stepbench.contracts.threshold import Threshold


def judge(thresholds: Sequence[Threshold], trials: Sequence[TrialSummary]) -> tuple[ThresholdResult, ...]:
    """
    Return for each threshold the windows that miss it, the worst first; where none does, the one that came closest.

    Only measured windows have results: neither unmeasured phases nor the probes of `find_rate` are among them. A
    threshold has no result where nothing was sent in any.
    """
    return tuple(result for threshold in thresholds for result in _judge_one(threshold, trials))


def _judge_one(threshold: Threshold, trials: Sequence[TrialSummary]) -> list[ThresholdResult]:
    found = sorted(_in_windows(threshold, trials), key=lambda result: result.share, reverse=True)
    return [result for result in found if not result.passed] or found[:1]


def _in_windows(threshold: Threshold, trials: Sequence[TrialSummary]) -> Iterator[ThresholdResult]:
    for trial in trials:
        for window in trial.windows:
            if (share := window.error_share) is not None:
                yield ThresholdResult(
                    threshold=threshold.text,
                    trial=trial.index,
                    name=trial.name,
                    phase=window.phase,
                    window=window.name,
                    share=share,
                    limit=threshold.limit,
                    passed=share < threshold.limit,
                )
