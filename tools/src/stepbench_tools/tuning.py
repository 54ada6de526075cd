"""
The offline search: thirty evaluations at most, most of them chosen by a surrogate, the last to tell luck from gain.

An evaluation starts the store anew with a configuration and returns how its throughput compares with the released
configuration's, measured beside it in turns: the machine's moods fall on both. What is the best of many noisy values
is in part the luckiest one. So the best few are evaluated again on new starts by successive rejects, which spend most
of what is left on those hardest to tell apart; what decides there is only what was measured there. Whether the one
that was found keeps its gain is confirmed by further starts beside the released one.

Source:
    Bergstra, Bardenet, Bengio & Kégl (2011), Algorithms for hyper-parameter optimization, NIPS 24 (the surrogate: TPE,
    of Optuna); Audibert, Bubeck & Munos (2010), Best arm identification in multi-armed bandits, COLT, section 3
    (successive rejects).
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.tuning import CassandraConfiguration, Confirmation
from stepbench.errors import MissingLibraryError, StepbenchError
from stepbench.stats.quantiles import at_level, min_sample, order_statistic_levels
from stepbench.tuning.models import CACHE_STEP_MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import optuna

    from stepbench.contracts.tuning import StoreWorkload
    from stepbench.tuning.models import Ranges

BUDGET, LEAST_BUDGET, FINALISTS, PULLS = 30, 3, 4, 8
"""Evaluations in all, at most and at least; how many of the found are evaluated again, and how often all together."""
_LEAST_EXPLORED = 8
"""Chosen at random before the surrogate has anything to say; of five parameters it needs more than that."""
_THRESHOLD_STEP = 0.01


class Evaluation(NamedTuple):
    """
    One start with a configuration.

    released_per_s, per_s: throughputs in turns, as many of the one as of the other.
    """

    configuration: CassandraConfiguration
    released_per_s: tuple[float, ...]
    per_s: tuple[float, ...]

    @property
    def gain(self) -> float:
        """Return the median of the ratios within the turns."""
        return statistics.median(own / other for own, other in zip(self.per_s, self.released_per_s, strict=True))


class Searched(NamedTuple):
    """
    What a search has found.

    explored: one evaluation of each configuration, in the order in which they were tried. finals: those of the best
    again, on new starts. best: the last that was not rejected, with its gain in the finals alone.
    """

    explored: tuple[Evaluation, ...]
    finals: tuple[Evaluation, ...]
    best: CassandraConfiguration
    found_gain: float


def search(
    ranges: Ranges,
    evaluate: Callable[[CassandraConfiguration], Evaluation],
    *,
    first: Iterable[CassandraConfiguration] = (),
    budget: int = BUDGET,
    seed: int = 7,
) -> Searched:
    """
    Search the ranges for the configuration with the highest gain.

    Args:
        ranges: where.
        evaluate: starts the store with a configuration and measures it.
        first: evaluated before any other, such as the advised one.
        budget: how many evaluations there may be, those of the finals included; of fewer than BUDGET both get less.
        seed: of the surrogate.

    Raises:
        ValueError: the budget is too small.
        StepbenchError: of `evaluate`, where no configuration could be evaluated, or one of the best not again.
    """
    if budget < LEAST_BUDGET:
        message = f"a search takes {LEAST_BUDGET} evaluations at least, and {budget} are allowed"
        raise ValueError(message)
    pulls = max(1, budget * PULLS // BUDGET)
    explored = _explore(ranges, evaluate, tuple(first), budget - pulls, seed)
    ranked = sorted(explored, key=lambda each: each.gain, reverse=True)
    arms = tuple(dict.fromkeys(each.configuration for each in ranked))[: min(FINALISTS, pulls)]
    finals = successive_rejects(arms, evaluate, pulls)
    best = finals[-1].configuration
    own = [each.gain for each in finals if each.configuration == best]
    return Searched(explored, finals, best, statistics.median(own))


def _explore(
    ranges: Ranges,
    evaluate: Callable[[CassandraConfiguration], Evaluation],
    first: Sequence[CassandraConfiguration],
    count: int,
    seed: int,
) -> tuple[Evaluation, ...]:
    """Evaluate so many configurations, the later where the surrogate sees most promise; one that fails is no arm."""
    try:
        import optuna  # noqa: PLC0415 -- an extra, of `stepbench tune` alone
    except ImportError as error:
        message = 'the search needs Optuna: pip install "stepbench[tuning]"'
        raise MissingLibraryError(message) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_LEAST_EXPLORED)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for each in first:
        study.enqueue_trial(each.model_dump())
    distributions = _distributions(ranges)
    explored = []
    for _ in range(count):
        trial = study.ask(distributions)
        try:
            explored.append(evaluate(CassandraConfiguration.model_validate(trial.params)))
        except StepbenchError:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            if len(study.trials) == count and not explored:
                raise
        else:
            study.tell(trial, math.log(explored[-1].gain))
    return tuple(explored)


def _distributions(ranges: Ranges) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna import distributions as of  # noqa: PLC0415 -- as above

    return {
        "compaction": of.CategoricalDistribution(ranges.compaction),
        "concurrent_writes": of.IntDistribution(*ranges.concurrent_writes, log=True),
        "file_cache_mib": of.IntDistribution(*ranges.file_cache_mib, step=CACHE_STEP_MIB),
        "memtable_cleanup_threshold": of.FloatDistribution(*ranges.memtable_cleanup_threshold, step=_THRESHOLD_STEP),
        "concurrent_compactors": of.IntDistribution(*ranges.concurrent_compactors, log=True),
    }


def pulls_of(arms: int, budget: int) -> tuple[int, ...]:
    """
    Return how often each remaining arm has been pulled at the end of each phase of successive rejects.

    Args:
        arms: K, at least one.
        budget: n, at least as many as arms.

    Source:
        Audibert, Bubeck & Munos (2010), figure 2: n_k = ceil((n - K) / (log*(K) (K + 1 - k))), with
        log*(K) = 1/2 + sum of 1/i for i from 2 to K.
    """
    scale = 0.5 + sum(1 / i for i in range(2, arms + 1))
    return tuple(max(1, math.ceil((budget - arms) / (scale * (arms + 1 - phase)))) for phase in range(1, arms)) or (1,)


def successive_rejects(
    arms: Sequence[CassandraConfiguration], evaluate: Callable[[CassandraConfiguration], Evaluation], budget: int
) -> tuple[Evaluation, ...]:
    """
    Evaluate the arms in phases, and reject the worst after each; return all evaluations, the best arm's last.

    Raises:
        ValueError: there are no arms.
    """
    if not arms:
        message = "nothing was explored"
        raise ValueError(message)
    left, done = list(arms), {arm: list[Evaluation]() for arm in arms}
    for pulls in pulls_of(len(arms), budget):
        for _ in range(pulls - len(done[left[0]])):
            for arm in left:  # in turns, so that what changes with time falls on all
                done[arm].append(evaluate(arm))
        if len(left) > 1:
            left.remove(min(left, key=lambda arm: statistics.median(each.gain for each in done[arm])))
    best = left[0]
    others = [each for arm, evaluations in done.items() if arm != best for each in evaluations]
    return (*others, *done[best])


_MEDIAN = 0.5


def confirm(
    workload: StoreWorkload, starts: Sequence[Evaluation], *, found_gain: float, predicted_per_s: float
) -> Confirmation:
    """
    Return what starts say that nobody chose the configuration by.

    Args:
        workload: under which all of them were measured.
        starts: of one configuration, at least one; each is one value, since turns within a start are alike.
        found_gain: what the search has seen.
        predicted_per_s: what the model says.
    """
    gains = np.sort([each.gain for each in starts])
    interval: tuple[float | None, float | None] = (None, None)
    if gains.size >= min_sample(_MEDIAN):
        levels = order_statistic_levels(gains.size, _MEDIAN)
        interval = at_level(gains, levels.low), at_level(gains, levels.high)
    return Confirmation(
        workload=workload,
        configuration=starts[0].configuration,
        gains=tuple(each.gain for each in starts),
        found_gain=found_gain,
        gain=float(np.median(gains)),
        gain_low=interval[0],
        gain_high=interval[1],
        predicted_per_s=predicted_per_s,
        measured_per_s=statistics.median(value for each in starts for value in each.per_s),
    )


def kept_share(confirmation: Confirmation) -> float | None:
    """Return how much of the gain above 1 that the search has seen is there on new starts; None where it saw none."""
    found = confirmation.found_gain - 1
    return (confirmation.gain - 1) / found if found > 0 else None
