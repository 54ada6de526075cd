"""
Runs compared with other runs: each group of trials with its namesake, window by window, and what got worse.

Pure, and from summaries alone. Several runs of one side are repeats of one another.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.effects import compare_shares, has_regressed, quantile_effect
from stepbench.analysis.one_verdict import judged_effects, make_verdict, runs_of
from stepbench.analysis.pairs import Group, compare_sides, find_groups
from stepbench.analysis.verdicts import ALL_KINDS, common_kinds, comparison_caveats, group_spells
from stepbench.contracts.across_trials import ComparedCaveat, RunComparison
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.thresholds import PER_DOLLAR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.analysis.effects import Runs
    from stepbench.contracts.across_trials import Effect, Verdict
    from stepbench.contracts.experiment import ExperimentName
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import Caveat, RunSummary, TrialSummary
    from stepbench.contracts.thresholds import Judge, Shared

RUN = "run"


class Selected(NamedTuple):
    """Runs of one side; with a `group`, only that group of trials of them, or the trial of that name."""

    runs: Sequence[RunSummary]
    group: str = ""

    def groups(self) -> dict[str, Group]:
        """Return the groups by name, the runs' trials together in order."""
        return {group.name: group for group in find_groups([trial for _, trial in self._trials()])}

    def unfinished(self) -> Counter[str]:
        """Return of each group how many trials failed or broke off; what was to be skipped is none."""
        found = [trial for _, trial in self._trials() if trial.incomplete and not trial.skipped]
        return Counter(trial.group or trial.name for trial in found)

    def shared_runs(self, other: Selected) -> tuple[str, ...]:
        """Return the ids of runs of which both sides have one and the same trial."""
        return tuple(dict.fromkeys(run_id for run_id, *_ in sorted(self._places() & other._places())))

    def _places(self) -> set[tuple[str, int, str]]:
        return {(run_id, trial.index, trial.name) for run_id, trial in self._trials()}

    def _trials(self) -> Iterator[tuple[str, TrialSummary]]:
        """Yield the chosen trials, each with its run's id."""
        every = ((run.run_id, trial) for run in self.runs for trial in run.trials)
        yield from (each for each in every if self.group in {"", each[1].group or each[1].name, each[1].name})


def describe_shared(run_ids: Sequence[str]) -> str:
    """Return the words that both sides have the same runs, one at least: `both sides are run x`."""
    return f"both sides are, or hold, the same {'run' if len(run_ids) == 1 else 'runs'}, {', '.join(run_ids)}"


def compare_summaries(a: Selected, b: Selected, tolerance: float, studied: str = "") -> RunComparison:
    """
    Compare b with a. What is not alike in all but what is under study decides nothing, and is reported.

    Args:
        a: what is compared with: the baseline.
        b: what is judged.
        tolerance: a share above 0; what is shown to be worse by more than this is a regression. Shares of lost events
            and of errors have none: more of them is a regression as soon as it is shown.
        studied: what may differ (see `pairs.compare_sides`). Of two groups of different names that is the one
            setting in which they differ.
    """
    of_a, of_b = a.groups(), b.groups()
    if len(of_a) == len(of_b) == 1:  # two trials that are called differently are compared if nothing else can be meant
        names = [(next(iter(of_a)), next(iter(of_b)))]
    else:
        names = [(name, name) for name in of_b if name in of_a]
    names = [(one, other) for one, other in names if of_a[one].first.experiment == of_b[other].first.experiment]
    pairs = [(of_a[name_a], of_b[name_b]) for name_a, name_b in names]
    asked = _Asked(tolerance, studied, next((run.judge for run in reversed(b.runs) if run.judge), None))
    verdicts = [verdict for pair in pairs for verdict in _compare_groups(*pair, asked)]
    regressed = any(effect.regressed for verdict in verdicts for effect in verdict.effects)
    behind = tuple(dict.fromkeys(verdict.b.group for verdict in verdicts if verdict.newly_behind))
    failed_a, failed_b = a.unfinished(), b.unfinished()
    broken = [name for name in failed_b if failed_b[name] > failed_a[name] or (name in of_a and name not in of_b)]
    matched_a, matched_b = {name for name, _ in names}, {name for _, name in names}
    return RunComparison(
        a=tuple(run.run_id for run in a.runs),
        b=tuple(run.run_id for run in b.runs),
        tolerance=tolerance,
        verdicts=tuple(verdicts),
        only_a=(*(name for name in of_a if name not in matched_a), *_only([(a, b) for a, b in pairs])),
        only_b=(*(name for name in of_b if name not in matched_b), *_only([(b, a) for a, b in pairs])),
        unfinished_a=tuple(failed_a),
        unfinished_b=tuple(failed_b),
        broken=tuple(broken),
        behind=behind,
        caveats=tuple(_caveats(pairs, {kind for verdict in verdicts for kind in verdict.doubts})),
        passed=any(not each.unlike for each in verdicts) and not regressed and not broken and not behind,
    )


def _caveats(pairs: Sequence[tuple[Group, Group]], kinds: set[str]) -> Iterator[ComparedCaveat]:
    """Yield of each side the first caveat of each kind, and how many trials have one."""
    for side, groups in (("A", [a for a, _ in pairs]), ("B", [b for _, b in pairs])):
        found: dict[str, list[tuple[str, Caveat]]] = {}
        for trial in (trial for group in groups for trial in group.trials):
            own = {each.kind: each for each in reversed(trial.caveats) if each.kind in kinds}
            for caveat in own.values():
                found.setdefault(caveat.kind, []).append((trial.name, caveat))
        for kind, having in found.items():
            name, first = having[0]
            yield ComparedCaveat(
                kind=kind, side=side, trial=name, trials=len(having), text=first.text, remedy=first.remedy
            )


def _only(pairs: Sequence[tuple[Group, Group]]) -> list[str]:
    """Name the windows of each first group that the second has not."""
    return [
        f"{one.name} · {phase} / {window}"
        for one, other in pairs
        for phase, window in dict.fromkeys((each.phase, each.name) for trial in one.trials for each in trial.windows)
        if not other.windows(phase, window)
    ]


class _Asked(NamedTuple):
    """How two sides are compared; `judge`: what the newest of b's runs is judged by."""

    tolerance: float
    studied: str
    judge: Judge | None


def _compare_groups(a: Group, b: Group, asked: _Asked) -> Iterator[Verdict]:
    likeness = compare_sides(a.first, b.first, asked.studied or (None if a.name != b.name else ""))
    for window in b.first.windows:
        place = (window.phase, window.name)
        windows = a.windows(*place), b.windows(*place)
        if not all(windows):
            continue
        several = f" · {b.window_label(*place)}" if len(b.first.windows) > 1 else ""
        name = b.name if a.name == b.name else f"{b.name} against {a.name}"
        kinds = common_kinds(*windows)
        for kind in (None, *kinds):
            subject = f"{name}{several}, {ALL_KINDS}" if kinds and kind is None else f"{name}{several}"
            runs = runs_of(a, place, kind), runs_of(b, place, kind)
            effects = judged_effects(asked.judge, *runs, (group_spells(a, place), group_spells(b, place)))
            effects = _with_shares(effects, *runs, experiment=b.first.experiment)
            effects = (*effects, *_per_dollar(a, b, place))
            if not likeness.reason:
                found = ((each, has_regressed(each, asked.tolerance)) for each in effects)
                effects = tuple(each.model_copy(update={"regressed": worse}) for each, worse in found)
            sides = a.side(place, "A"), b.side(place, "B")
            caveats = comparison_caveats((a, b), place)
            yield make_verdict(
                RUN, subject, sides, effects, kind=kind, caveats=caveats, unlike=likeness.reason, judge=asked.judge
            )


def _per_dollar(a: Group, b: Group, place: tuple[str, str]) -> Iterator[Effect]:
    """Yield the effect on performance per dollar, of DAGs, without idle hours: by the first table that both have."""
    sides = [
        [_perf_by_table(trial, place) for trial in each.trials if each.has_window(trial, place)] for each in (b, a)
    ]
    every = [table for side in sides for table in side]
    for prices in [name for name in every[0] if all(name in table for table in every)][:1]:
        yield quantile_effect(PER_DOLLAR, *([table[prices] for table in side] for side in sides), paired=False)


def _perf_by_table(trial: TrialSummary, place: tuple[str, str]) -> dict[str, Estimate]:
    costs = trial.dataflow.costs if trial.dataflow else ()
    return {each.prices: each.perf_per_usd for each in costs if not each.idle and each.place[1:] == place}


def _with_shares(effects: tuple[Effect, ...], a: Runs, b: Runs, *, experiment: ExperimentName) -> tuple[Effect, ...]:
    """Add the effects on shares, of all kinds of operations together, that are not among them."""
    if a.kind is not None:
        return effects
    shares: tuple[Shared, ...] = ("lost", "errors") if measure_of(experiment).arrives else ("errors",)
    have = {each.measure for each in effects}
    return (*effects, *(compare_shares(measure, b, a) for measure in shares if measure not in have))
