"""
The comparisons that a plan makes, each with its verdict: settings, stores, trials by name, and windows of one trial.

In plain Python, since the report's function starts without NumPy.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.comparability import STORE, format_value, shorten_path
from stepbench.analysis.effects import Runs
from stepbench.analysis.one_verdict import judged_effects, make_verdict, runs_of
from stepbench.analysis.pairs import EMULATED, TRIAL, find_groups, find_pairs
from stepbench.analysis.slow_spells import SLOW_MACHINE, spells_of
from stepbench.analysis.verdict_text import (
    describe_unanswered,
    find_other_cause,
)
from stepbench.contracts.across_trials import OVERLAP
from stepbench.contracts.experiment import traits_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.analysis.pairs import Group, Pair
    from stepbench.contracts.across_trials import Side, Verdict
    from stepbench.contracts.findings import SlowSpells
    from stepbench.contracts.measures import KindName, WindowResult
    from stepbench.contracts.result import Caveat, TrialSummary
    from stepbench.contracts.thresholds import Judge

MOST_VERDICTS = 80
"""A summary has no more; it says how many it leaves out."""
WINDOW = "window"
ALL_KINDS = "all operations"
BATCH_SIZE = "target.batch_size"
_UNSET = {"target.region": "the stack's own region", "target.cluster": "no cluster"}
_COMPARED = frozenset(
    {
        "saturated_generator",
        "missing_writer",
        "host_jitter",
        "store_stalled",
        "failed_outcomes",
        "setting_without_effect",
        "batching_window_ignored",
        "lost_events",
        "unrecorded",
        "watch_gap",
        "unpaired_events",
        "throttled",
        "never_processed",
        "handler_errors",
        "processed_twice",
        "rate_not_found",
        "utilisation_missed",
        "other_sandbox",
        SLOW_MACHINE,
        "fell_behind",
        "latency_drift",
    }
)
"""Caveats that may be the reason of a difference, or hide one."""


def plan_verdicts(
    trials: Sequence[TrialSummary], listed: Sequence[str] = (), judge: Judge | None = None
) -> tuple[Verdict, ...]:
    """
    Return a verdict for each comparison that the plan makes, those with a first value first.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan, which decides what is set against what.
        judge: the measure that they answer first; None: quantiles of latency.
    """
    groups = find_groups(trials, listed)
    pairs = sorted(find_pairs(groups), key=lambda pair: not pair.primary)
    several_stores = len({group.first.store for group in groups}) > 1
    between = [verdict for pair in pairs for verdict in _between(pair, judge, several_stores=several_stores)]
    within = [verdict for group in groups for verdict in _within(group, judge)]
    primary = sum(verdict.primary for verdict in between)
    return (*between[:primary], *within, *between[primary:])


def describe_emulated(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> str:
    """Describe of which stores there is no verdict, since an emulator played them; empty where none is left out."""
    apart = [pair for pair in find_pairs(find_groups(trials, listed)) if pair.likeness.emulated]
    names = dict.fromkeys(group.first.store for pair in apart for group in (pair.a, pair.b) if group.first.emulated)
    if not names:
        return ""
    are = "is" if len(names) == 1 else "are"
    return f"{digits.listed(list(names))} {are} {EMULATED} with another store; on AWS the same plan decides."


def take_turns(verdicts: Sequence[Verdict], most: int) -> list[Verdict]:
    """Return so many verdicts at most, in order: the first of each setting, then the second of each, and so on."""
    seen: Counter[str] = Counter()
    ranks = []
    for verdict in verdicts:
        ranks.append(seen[verdict.aspect])
        seen[verdict.aspect] += 1
    chosen = sorted(range(len(verdicts)), key=lambda place: (ranks[place], place))[:most]
    return [verdicts[place] for place in sorted(chosen)]


def _between(pair: Pair, judge: Judge | None, *, several_stores: bool) -> Iterator[Verdict]:
    """Yield a verdict for each window; an emulator's store is set against no other."""
    likeness = pair.likeness
    if likeness.emulated:
        return
    for window in pair.b.first.windows:
        place = (window.phase, window.name)
        a, b = pair.a.windows(*place), pair.b.windows(*place)
        if not a or not b:
            continue
        sides = [_side(pair, group, place, group is pair.a) for group in (pair.a, pair.b)]
        subject = f"{_subject(pair, sides[0], sides[1])}{_context(pair, place, several_stores=several_stores)}"
        caveats = comparison_caveats((pair.a, pair.b), place)
        without_effect = _find_without_effect(pair, place)
        if without_effect:
            caveats = tuple(caveat for caveat in caveats if caveat != without_effect.kind)
        kinds = common_kinds(a, b)
        for kind in (None, *kinds):
            runs = runs_of(pair.a, place, kind), runs_of(pair.b, place, kind)
            effects = judged_effects(judge, *runs, (group_spells(pair.a, place), group_spells(pair.b, place)))
            of = f"{subject}, {ALL_KINDS}" if kinds and kind is None else subject
            found = make_verdict(
                pair.aspect, of, (sides[0], sides[1]), effects,
                kind=kind, caveats=caveats, unlike=likeness.reason, judge=judge,
            )  # fmt: skip
            asked = without_effect and likeness.is_same
            text = describe_unanswered(without_effect.text) if asked and without_effect else found.text
            yield found.model_copy(update={"primary": pair.primary, "text": text})


def _find_without_effect(pair: Pair, place: tuple[str, str]) -> Caveat | None:
    """Return the caveat that the setting which distinguishes the two took no effect there, in any run of one side."""
    for group, other in ((pair.b, pair.a), (pair.a, pair.b)):
        found = [_caveat_about(trial, pair.aspect, place) for trial in group.trials]
        if all(found) and not (pair.aspect == BATCH_SIZE and _batches_differ(group, other, place)):
            return found[0]
    return None


def _caveat_about(trial: TrialSummary, setting: str, place: tuple[str, str]) -> Caveat | None:
    about = [at for at, window in enumerate(trial.windows) if (window.phase, window.name) == place]
    caveats = (each for each in trial.caveats if each.setting == setting and any(map(each.is_about, about)))
    return next(caveats, None)


def _batches_differ(group: Group, other: Group, place: tuple[str, str]) -> bool:
    """Return whether batches of a group that did not reach its limit were larger than the other's may be."""
    limit = other.first.point.get(BATCH_SIZE, other.first.setup.get(BATCH_SIZE))
    largest = max((window.deliveries.max for window in group.windows(*place) if window.deliveries), default=0)
    return isinstance(limit, int) and largest > limit


def _within(group: Group, judge: Judge | None) -> Iterator[Verdict]:
    """Yield each window against the one before it, where a trial has several that do not overlap."""
    overlapping = {
        (each.phase_a, each.a, each.phase_b, each.b)
        for each in group.first.comparisons
        if each.median_ratio.reason == OVERLAP
    }
    for before, after in pairwise(group.first.windows):
        places = (before.phase, before.name), (after.phase, after.name)
        if len({_dag_of(group.first, place) for place in places}) > 1:
            continue
        if (*places[0], *places[1]) in overlapping:
            continue
        runs = [group.windows(*place) for place in places]
        if len(runs[0]) != len(runs[1]):
            continue
        names = [before.name, after.name] if before.name != after.name else [before.phase, after.phase]
        sides = [group.side(place, name) for name, place in zip(names, places, strict=True)]
        spells = group_spells(group, places[0]), group_spells(group, places[1])
        effects = judged_effects(judge, Runs(runs[0]), Runs(runs[1]), spells, paired=True)
        subject = f"{group.name}: {names[1]} against {names[0]}"
        yield make_verdict(
            WINDOW, subject, (sides[0], sides[1]), effects,
            caveats=comparison_caveats((group,), *places),
            cause=find_other_cause(effects, runs[0][0], runs[1][0], group.first.floor_ms),
            judge=judge,
        )  # fmt: skip


def _dag_of(trial: TrialSummary, place: tuple[str, str]) -> str:
    """Return which DAG's executions a window has; "" of other experiments."""
    windows = trial.dataflow.windows if trial.dataflow else ()
    return next((each.dag for each in windows if (each.phase, each.window) == place), "")


def _side(pair: Pair, group: Group, place: tuple[str, str], is_first: bool) -> Side:  # noqa: FBT001 -- which side
    trial = group.first
    name = group.name
    if pair.aspect == STORE:
        other = (pair.b if is_first else pair.a).first
        by_store = (
            trial.store != other.store and not traits_of(trial.experiment).completes
        )  # plans of DAGs have one twice
        name = trial.store if by_store else group.name
    elif pair.aspect != TRIAL:
        value = trial.point.get(pair.aspect, trial.setup.get(pair.aspect))
        name = _UNSET.get(pair.aspect, "none") if value is None else format_value(value)
    return group.side(place, name)


def _subject(pair: Pair, a: Side, b: Side) -> str:
    setting = "" if pair.aspect in {TRIAL, STORE} else f"{shorten_path(pair.aspect, [pair.aspect])}: "
    return f"{setting}{b.name} against {a.name}"


def _context(pair: Pair, place: tuple[str, str], *, several_stores: bool) -> str:
    """Return what both sides have in common and other pairs of the plan have not: other settings, and the window."""
    parts: list[str] = []
    trial = pair.b.first
    rest = {path: value for path, value in trial.point.items() if path != pair.aspect}
    if pair.aspect != TRIAL:
        parts += filter(None, [_common_base(pair, several_stores=several_stores)])
    parts += [f"{shorten_path(path, list(rest))} {format_value(value)}" for path, value in rest.items()]
    if not trial.point and pair.aspect not in {TRIAL, STORE} and not parts:
        parts.append(trial.store)
    if len(trial.windows) > 1:
        parts.append(pair.b.window_label(*place))
    return f" ({', '.join(parts)})" if parts else ""


def _common_base(pair: Pair, *, several_stores: bool) -> str:
    """Return what both trials are called in the plan, less the words in which they differ."""
    a, b = pair.a.first.base, pair.b.first.base
    if a == b == pair.b.first.store:
        return b if several_stores and pair.aspect != STORE else ""
    return b if a == b else "-".join(word for word in b.split("-") if word in a.split("-"))


def common_kinds(a: Sequence[WindowResult], b: Sequence[WindowResult]) -> list[KindName]:
    """Return the kinds of operations that all runs have, where there are several."""
    sets = [{each.kind for each in window.operations.kinds} if window.operations else set() for window in (*a, *b)]
    common = set.intersection(*sets) if sets else set()
    ordered: list[KindName] = (
        [each.kind for each in b[0].operations.kinds if each.kind in common] if b[0].operations else []
    )
    return ordered if len(ordered) > 1 else []


def group_spells(group: Group, place: tuple[str, str]) -> list[SlowSpells | None]:
    """Return what is to be doubted of each trial's machine in a window."""
    return [spells_of(trial, *place) for trial in group.trials]


def comparison_caveats(groups: Sequence[Group], *places: tuple[str, str]) -> tuple[str, ...]:
    """Return the kinds of caveats about these windows that may be the reason of a difference, or hide one."""
    kinds: dict[str, None] = {}
    for group in groups:
        for trial in group.trials:
            about = [at for at, window in enumerate(trial.windows) if (window.phase, window.name) in places]
            for caveat in trial.caveats:
                if caveat.kind in _COMPARED and any(caveat.is_about(at) for at in about):
                    kinds[caveat.kind] = None
    return tuple(kinds)
