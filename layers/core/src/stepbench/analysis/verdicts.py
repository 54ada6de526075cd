"""
The comparisons that a plan makes, each with its verdict: settings, stores, trials by name, and windows of one trial.

In plain Python, since the report's function has no NumPy.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.analysis.comparability import (
    SETTINGS,
    Setup,
    drop_setting,
    format_value,
    in_plan_order,
    is_clients,
    matrix_key,
    shorten_path,
)
from stepbench.analysis.effects import Runs, compare_runs
from stepbench.analysis.verdict_text import describe_effects, describe_other_causes, describe_unanswered
from stepbench.contracts.measures import OVERLAP
from stepbench.contracts.verdict import Side, Verdict
from stepbench.stats.over_runs import MIN_RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import KindName, WindowResult
    from stepbench.contracts.result import Caveat, TrialSummary
    from stepbench.contracts.verdict import Effect

MOST_SIDES = 6
"""Of more values of one setting, each is compared with the first only."""
MOST_VERDICTS = 80
"""A summary has no more; it says how many it leaves out."""
TRIAL, WINDOW = "trial", "window"
WRITTEN_OUT = (*SETTINGS, "arrivals")
"""Settings of which trials that are written out, rather than points of a matrix, are compared."""
_UNSET = {"target.region": "the stack's own region", "target.cluster": "no cluster"}
_DOUBTS = frozenset(
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
        "rate_not_found",
        "utilisation_missed",
        "other_sandbox",
    }
)
"""Caveats that may be the reason of a difference, or hide one."""


@dataclass(frozen=True)
class Group:
    """It holds the repeats of one trial that went through whole."""

    name: str
    trials: tuple[TrialSummary, ...]

    @property
    def first(self) -> TrialSummary:
        """Return the first of its trials, whose setting and store are those of all."""
        return self.trials[0]

    def windows(self, phase: str, window: str) -> list[WindowResult]:
        """Return each run's result of a window."""
        return [each for trial in self.trials for each in trial.windows if (each.phase, each.name) == (phase, window)]


class Pair(NamedTuple):
    """Two groups to compare; `primary`: `a` is the first that `b` could be set against."""

    aspect: str
    a: Group
    b: Group
    primary: bool


def find_groups(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> list[Group]:
    """
    Return the trials that went through whole, repeats together, in the order of the plan.

    Args:
        trials: the run's, which may have been shuffled.
        listed: the groups' names as the plan has them.
    """
    found: dict[str, list[TrialSummary]] = {}
    for trial in in_plan_order(trials, listed):
        found.setdefault(trial.group or trial.name, []).append(trial)
    return [Group(name, tuple(members)) for name, members in found.items()]


def plan_verdicts(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[Verdict, ...]:
    """
    Return a verdict for each comparison that the plan makes, those with a first value first.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan, which decides what is set against what.
    """
    groups = find_groups(trials, listed)
    pairs = sorted(find_pairs(groups), key=lambda pair: not pair.primary)
    between = [verdict for pair in pairs for verdict in _between(pair)]
    within = [verdict for group in groups for verdict in _within(group)]
    primary = sum(verdict.primary for verdict in between)
    return (*between[:primary], *within, *between[primary:])


def find_pairs(groups: Sequence[Group]) -> list[Pair]:
    """Return the pairs of groups that differ in one setting; of groups without any such, those of one experiment."""
    settings = dict.fromkeys((*WRITTEN_OUT, *(path for group in groups for path in group.first.point)))
    pairs = [pair for setting in settings if not is_clients(setting) for pair in _setting_pairs(setting, groups)]
    paired = {group.name for pair in pairs for group in (pair.a, pair.b)}
    return [*pairs, *_named_pairs([group for group in groups if group.name not in paired])]


class _Member(NamedTuple):
    group: Group
    value: str
    matrix: tuple[str, str]


def _setting_pairs(setting: str, groups: Sequence[Group]) -> Iterator[Pair]:
    families: dict[tuple[Any, ...], list[_Member]] = {}
    for group in groups:
        trial = group.first
        matrix = matrix_key(trial, re.compile(re.escape(setting)))
        family: tuple[Any, ...]
        if setting in trial.setup and setting in WRITTEN_OUT:
            rest: Setup = drop_setting(trial.setup, setting)
            value, family = trial.setup[setting], (setting, rest)
        elif setting in trial.point:
            value, family = trial.point[setting], (setting, trial.experiment, *matrix)
        else:
            continue
        families.setdefault(family, []).append(_Member(group, json.dumps(value), matrix))
    for members in families.values():
        yield from _family_pairs(setting, members)


def _family_pairs(setting: str, members: Sequence[_Member]) -> Iterator[Pair]:
    """Yield each member of another value against one of the first value: of its own matrix, else the first."""
    firsts = [member for member in members if member.value == members[0].value]
    others = [member for member in members if member.value != members[0].value]
    for other in others:
        first = next((each for each in firsts if each.matrix == other.matrix), members[0])
        yield Pair(setting, first.group, other.group, primary=True)
    if len(members) <= MOST_SIDES:
        for one, other in combinations(others, 2):
            if one.value != other.value and one.matrix == other.matrix:
                yield Pair(setting, one.group, other.group, primary=False)


def _named_pairs(groups: Sequence[Group]) -> Iterator[Pair]:
    """Yield pairs of trials that are written out and differ in several settings: what of it counts is not known."""
    for experiment in ("trigger", "operations"):
        members = [group for group in groups if group.first.experiment == experiment and not group.first.point]
        members = [group for group in members if not any(is_clients(path) for path in group.first.setup)]
        for place, (a, b) in enumerate(combinations(members, 2)):
            if len(members) <= MOST_SIDES:
                yield Pair(TRIAL, a, b, primary=place < len(members) - 1)


def _between(pair: Pair) -> Iterator[Verdict]:
    for window in pair.b.first.windows:
        place = (window.phase, window.name)
        a, b = pair.a.windows(*place), pair.b.windows(*place)
        if not a or not b:
            continue
        sides = [_side(pair, group, place, group is pair.a) for group in (pair.a, pair.b)]
        subject = f"{_subject(pair, sides[0], sides[1])}{_context(pair, window.name)}"
        doubts = find_doubts((pair.a, pair.b), place)
        without_effect = _find_without_effect(pair, place)
        if without_effect:
            doubts = tuple(doubt for doubt in doubts if doubt != without_effect.kind)
        for kind in (None, *common_kinds(a, b)):
            effects = compare_runs(Runs(b, kind), Runs(a, kind))
            found = make_verdict(pair.aspect, subject, (sides[0], sides[1]), effects, kind=kind, doubts=doubts)
            text = describe_unanswered(effects, without_effect.text) if without_effect else found.text
            yield found.model_copy(update={"primary": pair.primary, "text": text})


def _find_without_effect(pair: Pair, place: tuple[str, str]) -> Caveat | None:
    """Return the caveat that the setting which tells the two apart took no effect there, on either side."""
    for trial in (*pair.a.trials, *pair.b.trials):
        about = [at for at, window in enumerate(trial.windows) if (window.phase, window.name) == place]
        for caveat in trial.caveats:
            if caveat.setting == pair.aspect and any(map(caveat.is_about, about)):
                return caveat
    return None


def make_verdict(  # noqa: PLR0913 -- what a comparison is made of
    aspect: str,
    subject: str,
    sides: tuple[Side, Side],
    effects: tuple[Effect, ...],
    *,
    kind: KindName | None = None,
    doubts: tuple[str, ...] = (),
) -> Verdict:
    """Put together what was found of two sides, the first of which is what the second is set against."""
    return Verdict(
        aspect=aspect,
        subject=f"{subject}, {kind.replace('_', '-')}" if kind else subject,
        a=sides[0],
        b=sides[1],
        kind=kind,
        effects=effects,
        over_runs=min(side.runs for side in sides) >= MIN_RUNS,
        doubts=doubts,
        text=describe_effects(effects),
    )


def _within(group: Group) -> Iterator[Verdict]:
    """Yield each window against the one before it, where a trial has several that do not overlap."""
    overlapping = {
        (each.phase_a, each.a, each.phase_b, each.b)
        for each in group.first.comparisons
        if each.median_ratio.reason == OVERLAP
    }
    for before, after in pairwise(group.first.windows):
        places = (before.phase, before.name), (after.phase, after.name)
        if (*places[0], *places[1]) in overlapping:
            continue
        runs = [group.windows(*place) for place in places]
        if len(runs[0]) != len(runs[1]):
            continue
        names = [before.name, after.name] if before.name != after.name else [before.phase, after.phase]
        sides = [
            Side(name=name, group=group.name, phase=place[0], window=place[1], runs=len(own),
                 emulated=group.first.emulated)
            for name, place, own in zip(names, places, runs, strict=True)
        ]  # fmt: skip
        effects = compare_runs(Runs(runs[1]), Runs(runs[0]), paired=True)
        subject = f"{group.name}: {names[1]} against {names[0]}"
        found = make_verdict(WINDOW, subject, (sides[0], sides[1]), effects, doubts=find_doubts((group,), *places))
        why = describe_other_causes(effects, runs[0][0], runs[1][0], group.first.floor_ms)
        yield found.model_copy(update={"text": f"{found.text} {why}".rstrip()})


def _side(pair: Pair, group: Group, place: tuple[str, str], is_first: bool) -> Side:  # noqa: FBT001 -- which side
    trial = group.first
    name = group.name
    if pair.aspect == "target.store":
        other = (pair.b if is_first else pair.a).first
        name = trial.store if trial.store != other.store else group.name
    elif pair.aspect != TRIAL:
        value = trial.point.get(pair.aspect, trial.setup.get(pair.aspect))
        name = _UNSET.get(pair.aspect, "none") if value is None else format_value(value)
    return Side(
        name=name, group=group.name, phase=place[0], window=place[1], runs=len(group.windows(*place)),
        emulated=trial.emulated,
    )  # fmt: skip


def _subject(pair: Pair, a: Side, b: Side) -> str:
    setting = "" if pair.aspect in {TRIAL, "target.store"} else f"{shorten_path(pair.aspect, [pair.aspect])}: "
    return f"{setting}{b.name} against {a.name}"


def _context(pair: Pair, window: str) -> str:
    """Say what both sides have in common and other pairs of the plan have not: other settings, and the window."""
    parts = []
    trial = pair.b.first
    rest = {path: value for path, value in trial.point.items() if path != pair.aspect}
    if trial.base and pair.aspect != TRIAL and trial.base != trial.store:
        parts.append(trial.base)
    parts += [f"{shorten_path(path, list(rest))} {format_value(value)}" for path, value in rest.items()]
    if not trial.point and pair.aspect not in {TRIAL, "target.store"} and not parts:
        parts.append(trial.store)
    if len(trial.windows) > 1:
        parts.append(window)
    return f" ({', '.join(parts)})" if parts else ""


def common_kinds(a: Sequence[WindowResult], b: Sequence[WindowResult]) -> list[KindName]:
    """Return the kinds of operations that all runs have, where there are several."""
    sets = [{each.kind for each in window.operations.kinds} if window.operations else set() for window in (*a, *b)]
    common = set.intersection(*sets) if sets else set()
    ordered: list[KindName] = (
        [each.kind for each in b[0].operations.kinds if each.kind in common] if b[0].operations else []
    )
    return ordered if len(ordered) > 1 else []


def find_doubts(groups: Sequence[Group], *places: tuple[str, str]) -> tuple[str, ...]:
    """Return the kinds of caveats about these windows that may be the reason of a difference, or hide one."""
    kinds: dict[str, None] = {}
    for group in groups:
        for trial in group.trials:
            about = [at for at, window in enumerate(trial.windows) if (window.phase, window.name) in places]
            for caveat in trial.caveats:
                if caveat.kind in _DOUBTS and any(caveat.is_about(at) for at in about):
                    kinds[caveat.kind] = None
    return tuple(kinds)
