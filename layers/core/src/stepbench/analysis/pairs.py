"""
Which groups of trials a plan compares: those that differ in one setting, else those of one experiment.

And whether two sides are alike in all but what is under study, the one question of comparability: verdicts, `compare`
and the dashboard ask it of two trials. A series of regressions is stricter, but for the version of what serves, which
it notes (`run_series`). What is not alike decides nothing. In plain Python, since the report's function starts without
NumPy.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.analysis.comparability import (
    ALWAYS,
    SETTINGS,
    STORE,
    Setup,
    drop_setting,
    format_value,
    goes_with,
    in_plan_order,
    is_clients,
    matrix_key,
    shorten_path,
)
from stepbench.contracts.across_trials import Side
from stepbench.contracts.experiment import traits_of
from stepbench.digits import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import Scalar, TrialSummary


EMULATED = "emulated: no comparison"
SERVER = "server"
"""What is under study where nothing but the server, or its version, may differ."""
MOST_SHOWN_DIFFERENCES = 3
LONGEST = 2.0
"""Windows whose lengths lie within this factor are alike: a run may have been cut short."""
_TARGET = "target"
_LENGTHS = re.compile(r"phases\[[^\]]+\]\.(load\[\d+\]|closed)\.(duration_s|count|operations)")
_NOT_THE_SERVER = re.compile(
    r", (TLS[v.\d]*|plain HTTP|single-region|multi-region|active .+ after its creation)|"
    r",? in [a-z]+(-[a-z]+)+-\d|"
    r" \(\d+ (members|nodes)\)"
)
"""What a store says of itself that is a setting or an event: `Aurora DSQL, multi-region, in eu-west-1`."""


class Likeness(NamedTuple):
    """
    What two sides have different that is not under study.

    emulated: an emulator's numbers would be set against another store's. differences: each in a few words.
    """

    emulated: bool = False
    differences: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Return whether the two may be compared."""
        return not self.emulated and not self.differences

    @property
    def reason(self) -> str:
        """Return what stands in a verdict's first words: `not the same: rate_per_s 20 against 200`."""
        if self.emulated:
            return EMULATED
        shown, rest = self.differences[:MOST_SHOWN_DIFFERENCES], len(self.differences) - MOST_SHOWN_DIFFERENCES
        return f"not the same: {listed([*shown, *([f'{rest} more'] if rest > 0 else [])])}" if shown else ""


def compare_sides(
    a: TrialSummary, b: TrialSummary, studied: str | None = None, *, one_matrix: bool = False
) -> Likeness:
    """
    Return what b has different from a besides what is under study.

    Args:
        a: what is compared with.
        b: what is judged.
        studied: the dotted path of the setting under study, or `SERVER`; None: whatever it is, as long as it is one
            setting or the store's own; "" for nothing, as of one plan before and after.
        one_matrix: the two are points of one matrix that differ in what is under study alone, so that nothing else is
            set differently.
    """
    if (a.emulated or b.emulated) and (a.emulated != b.emulated or a.store != b.store):
        return Likeness(emulated=True)
    settings = {} if one_matrix else dict(_different_settings(a, b))
    if studied is None:
        studied = _only_one(settings)
    shown = [*(() if studied in {SERVER, STORE} else _different_servers(a, b)), *_different_hosts(a, b)]
    left = {path: text for path, text in settings.items() if studied is None or not _belongs(path, studied)}
    return Likeness(differences=(*shown, *left.values()))


def server_of(provider: str) -> str:
    """Return the product and its version of what a store calls itself: without TLS, region, and size of a cluster."""
    return _NOT_THE_SERVER.sub("", provider)


def _only_one(settings: dict[str, str]) -> str | None:
    """Return the setting that all which differs goes with, if there is one; the store's own count as one."""
    candidates = [STORE] if STORE in settings else [_TARGET, *settings]
    return next((each for each in candidates if all(_belongs(path, each) for path in settings)), None)


def _belongs(path: str, studied: str) -> bool:
    return path == studied or path.startswith((f"{studied}.", f"{studied}[")) or goes_with(path, studied)


def _different_servers(a: TrialSummary, b: TrialSummary) -> Iterator[str]:
    servers = server_of(a.provider), server_of(b.provider)
    if servers[0] != servers[1]:
        yield f"{servers[1]} against {servers[0]}"


def _different_hosts(a: TrialSummary, b: TrialSummary) -> Iterator[str]:
    if a.load_hosts != b.load_hosts:
        hosts = [", ".join(each.load_hosts) or "Lambda" for each in (b, a)]
        yield f"load from {hosts[0]} against {hosts[1]}"


def _different_settings(a: TrialSummary, b: TrialSummary) -> Iterator[tuple[str, str]]:
    """Yield the paths at which setups differ, and in words how; what an older summary did not note is unknown."""
    if not a.setup or not b.setup:
        return
    paths = [path for path in dict.fromkeys((*b.setup, *a.setup)) if _differs(a, b, path)]
    for path in paths:
        values = [_value(trial.setup.get(path), path) for trial in (b, a)]
        yield path, f"{shorten_path(path, paths)} {values[0]} against {values[1]}"


def _differs(a: TrialSummary, b: TrialSummary, path: str) -> bool:
    one, other = a.setup.get(path), b.setup.get(path)
    if one == other or (path in ALWAYS and (path not in a.setup or path not in b.setup) and not (one or other)):
        return False
    return not (_LENGTHS.fullmatch(path) and _as_long(one, other))


def _as_long(one: Scalar, other: Scalar) -> bool:
    if not isinstance(one, int | float) or not isinstance(other, int | float) or min(one, other) <= 0:
        return False
    return max(one, other) <= LONGEST * min(one, other)


def _value(value: Scalar, path: str) -> str:
    return "unset" if value is None and path not in ALWAYS else format_value(value)


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

    @staticmethod
    def has_window(trial: TrialSummary, place: tuple[str, str]) -> bool:
        """Return whether a trial has the window at (phase, name)."""
        return any((each.phase, each.name) == place for each in trial.windows)

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
