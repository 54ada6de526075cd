"""Which groups of trials a plan compares: those that differ in one setting, else those of one experiment."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.analysis.comparability import SETTINGS, Setup, drop_setting, in_plan_order, is_clients, matrix_key
from stepbench.analysis.likeness import Likeness, compare_sides
from stepbench.contracts.across_trials import Side
from stepbench.contracts.experiment import traits_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import TrialSummary

MOST_SIDES = 6
"""Of more values of one setting, each is compared with the first only."""
TRIAL = "trial"
"""What pairs differ in that differ in several settings at once."""
WRITTEN_OUT = ("arrivals", *reversed(SETTINGS))
"""
Settings of which trials that are written out, rather than points of a matrix, are compared; stores last, since whoever
varies something else asks about that.
"""


@dataclass(frozen=True)
class Group:
    """It holds the repeats of one trial that went through whole."""

    name: str
    trials: tuple[TrialSummary, ...]

    @property
    def first(self) -> TrialSummary:
        """Return the first of its trials, whose setting and store are those of all."""
        return self.trials[0]

    def window_label(self, phase: str, window: str) -> str:
        """Return a window's name, with its phase's where two phases have a window of that name."""
        shared = sum(each.name == window for each in self.first.windows) > 1
        return f"{phase} / {window}" if shared else window

    def side(self, place: tuple[str, str], name: str) -> Side:
        """Return it as a side of a comparison of the window at (phase, name), under the name that sentences use."""
        runs = len(self.windows(*place))
        return Side(
            name=name, group=self.name, phase=place[0], window=place[1], runs=runs, emulated=self.first.emulated
        )

    def windows(self, phase: str, window: str) -> list[WindowResult]:
        """Return each run's result of a window."""
        return [each for trial in self.trials for each in trial.windows if (each.phase, each.name) == (phase, window)]


class Pair(NamedTuple):
    """Two groups to compare; `primary`: `a` is the first that `b` could be set against."""

    aspect: str
    a: Group
    b: Group
    primary: bool

    @property
    def likeness(self) -> Likeness:
        """Return what else differs than the aspect."""
        a, b = self.a.first, self.b.first
        of_matrix = self.aspect in a.point and self.aspect in b.point
        return compare_sides(a, b, None if self.aspect == TRIAL else self.aspect, one_matrix=of_matrix)


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


def find_pairs(groups: Sequence[Group]) -> list[Pair]:
    """Return the pairs of groups that differ in one setting; of groups without any such, those of one experiment."""
    settings = dict.fromkeys((*(path for group in groups for path in group.first.point), *WRITTEN_OUT))
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
    for experiment in dict.fromkeys(group.first.experiment for group in groups):
        if traits_of(experiment).completes or not traits_of(experiment).windows:
            continue
        members = [group for group in groups if group.first.experiment == experiment and not group.first.point]
        members = [group for group in members if not any(is_clients(path) for path in group.first.setup)]
        for place, (a, b) in enumerate(combinations(members, 2)):
            if len(members) <= MOST_SIDES:
                yield Pair(TRIAL, a, b, primary=place < len(members) - 1)
