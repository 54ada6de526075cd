"""Whether a plan measures anything that its thresholds are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.base import alternatives, near_miss
from stepbench.contracts.experiment import traits_of
from stepbench.contracts.threshold_grammar import ThresholdError, parse_threshold
from stepbench.contracts.thresholds import OF_TRIGGERS
from stepbench.errors import Problem
from stepbench.planning.problems import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.thresholds import Threshold
    from stepbench.planning.expansion import Expanded


class _Planned(NamedTuple):
    """A measured window of a plan: its name, whether its events arrive, otherwise its kinds of operations."""

    name: str
    arrives: bool
    kinds: frozenset[str]
    transfers: bool = False

    def matches(self, threshold: Threshold) -> bool:
        return (
            (not self.transfers or threshold.statistic in {"errors", "unsent"})
            and threshold.window in {None, self.name}
            and (self.arrives or threshold.measure not in OF_TRIGGERS)
            and (threshold.kind is None or threshold.kind in self.kinds)
        )


def threshold_problems(texts: Sequence[Any], trials: Sequence[Expanded]) -> list[Problem]:
    """
    Return a problem for each name that none of the trials has, and for each threshold that is about nothing.

    Args:
        texts: the thresholds; what is none among them is passed over.
        trials: those of the plan.
    """
    windows = list(_windows(trials))
    return [
        Problem(f"thresholds[{place}]", shown(text), message, remedy)
        for place, text in enumerate(texts)
        for threshold in _parsed(text)
        for message, remedy in _problems(threshold, windows)
    ]


def _parsed(text: Any) -> list[Threshold]:  # noqa: ANN401 -- any JSON
    try:
        return [parse_threshold(text)] if isinstance(text, str) else []
    except ThresholdError:
        return []


def thresholds_about(texts: Sequence[str], trials: Sequence[Expanded]) -> tuple[str, ...]:
    """Return the thresholds that are about any window of the trials."""
    windows = list(_windows(trials))
    return tuple(text for text in texts if any(window.matches(parse_threshold(text)) for window in windows))


def _windows(trials: Sequence[Expanded]) -> Iterator[_Planned]:
    for trial in trials:
        traits = traits_of(trial.plan.experiment)
        mix = trial.plan.workload.mix if trial.plan.workload else None
        kinds = frozenset(kind.name.lower() for kind in mix.kinds) if mix else frozenset()
        for phase in trial.plan.phases:
            for window in phase.all_windows():
                yield _Planned(window.name, traits.latency.arrives, kinds, not traits.windows)


_NOTHING = (
    "is about no window: no trial has all that it names",
    "Split it, or name less in it; of transfers there are errors alone.",
)


def _problems(threshold: Threshold, windows: Sequence[_Planned]) -> list[tuple[str, str]]:
    if any(window.matches(threshold) for window in windows):
        return []
    names = list(dict.fromkeys(window.name for window in windows))
    kinds = sorted({kind for window in windows for kind in window.kinds})
    found = [*_unknown("window", threshold.window, names), *_unknown("kind of operation", threshold.kind, kinds)]
    if threshold.measure in OF_TRIGGERS and not any(window.arrives for window in windows):
        remedy = "Remove it; of operations there are latency, response, service, lateness, errors and throughput."
        found.append((f"limits {threshold.measure}, which triggers and DAGs have, and the plan has none", remedy))
    return found or [_NOTHING]


def _unknown(what: str, name: str | None, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    if name is not None and name not in known:
        there_are = f"The plan measures {alternatives(known)}." if known else "The plan has none."
        yield f'names a {what} that the plan does not measure: "{name}"', f"{near_miss(name, known)}{there_are}"
