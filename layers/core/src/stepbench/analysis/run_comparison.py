"""
Runs compared with other runs: each group of trials with its namesake, window by window, and what got worse.

Pure, and from summaries alone. Several runs of one side are repeats of one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.effects import OF_INTEREST, Runs, compare_runs, compare_shares
from stepbench.analysis.verdict_text import describe_effects
from stepbench.analysis.verdicts import Group, common_kinds, find_doubts, find_groups
from stepbench.contracts.measure import measure_of
from stepbench.contracts.verdict import RunComparison, Side, Verdict
from stepbench.stats.over_runs import MIN_RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import RunSummary
    from stepbench.contracts.verdict import Effect, Kind

RUN = "run"


class Selected(NamedTuple):
    """Runs of one side; with a `group`, only that group of trials of them."""

    runs: Sequence[RunSummary]
    group: str = ""

    def groups(self) -> dict[str, Group]:
        """Return the groups by name, the runs' trials together in order."""
        found = find_groups([trial for run in self.runs for trial in run.trials])
        return {group.name: group for group in found if self.group in {"", group.name}}


def compare_summaries(a: Selected, b: Selected, tolerance: float) -> RunComparison:
    """
    Compare b with a.

    Args:
        a: what is compared with: the baseline.
        b: what is judged.
        tolerance: a share above 0; what is shown to be worse by more than this is a regression. Shares of lost events
            and of errors have none: more of them is a regression as soon as it is shown.
    """
    of_a, of_b = a.groups(), b.groups()
    if len(of_a) == len(of_b) == 1:  # two trials that are called differently are compared if nothing else can be meant
        names = [(next(iter(of_a)), next(iter(of_b)))]
    else:
        names = [(name, name) for name in of_b if name in of_a]
    places: dict[str, tuple[set[str], set[str]]] = {}
    verdicts = []
    for name_a, name_b in names:
        places[name_b] = _places(of_a[name_a]), _places(of_b[name_b])
        verdicts += list(_compare_groups(of_a[name_a], of_b[name_b], tolerance))
    matched_a, matched_b = {name for name, _ in names}, {name for _, name in names}
    return RunComparison(
        a=tuple(run.run_id for run in a.runs),
        b=tuple(run.run_id for run in b.runs),
        tolerance=tolerance,
        verdicts=tuple(verdicts),
        only_a=(*(name for name in of_a if name not in matched_a), *_only(places, 0)),
        only_b=(*(name for name in of_b if name not in matched_b), *_only(places, 1)),
        passed=not any(effect.regressed for verdict in verdicts for effect in verdict.effects),
    )


def _places(group: Group) -> set[str]:
    return {f"{group.name} · {window.phase} / {window.name}" for trial in group.trials for window in trial.windows}


def _only(places: dict[str, tuple[set[str], set[str]]], side: int) -> list[str]:
    """Return the windows that the other side has not; groups of two names are told by the windows' own."""
    found = []
    for own in places.values():
        names = [{place.partition(" · ")[2]: place for place in each} for each in own]
        found += [place for name, place in sorted(names[side].items()) if name not in names[1 - side]]
    return found


def _compare_groups(a: Group, b: Group, tolerance: float) -> Iterator[Verdict]:
    for window in b.first.windows:
        place = (window.phase, window.name)
        windows = a.windows(*place), b.windows(*place)
        if not all(windows):
            continue
        several = f" · {window.name}" if len(b.first.windows) > 1 else ""
        name = b.name if a.name == b.name else f"{b.name} against {a.name}"
        for kind in (None, *common_kinds(*windows)):
            yield _compare(
                f"{name}{several}", (a, b), place, (Runs(windows[0], kind), Runs(windows[1], kind)), tolerance
            )


def _compare(
    subject: str, groups: tuple[Group, Group], place: tuple[str, str], runs: tuple[Runs, Runs], tolerance: float
) -> Verdict:
    a, b = runs
    effects = compare_runs(b, a)
    if a.kind is None:
        if measure_of(groups[1].first.experiment).arrives:
            effects = (*effects, compare_shares("lost", b, a))
        effects = (*effects, compare_shares("errors", b, a))
    judged = tuple(each.model_copy(update={"regressed": _regressed(each, tolerance)}) for each in effects)
    sides = [
        Side(name=side, group=group.name, phase=place[0], window=place[1], runs=len(own.windows),
             emulated=group.first.emulated)
        for side, group, own in zip(("A", "B"), groups, runs, strict=True)
    ]  # fmt: skip
    return Verdict(
        aspect=RUN,
        subject=_with_kind(subject, a.kind),
        a=sides[0],
        b=sides[1],
        kind=a.kind,
        effects=judged,
        over_runs=min(side.runs for side in sides) >= MIN_RUNS,
        doubts=find_doubts(groups, place),
        text=describe_effects(judged, OF_INTEREST),
    )


def _with_kind(subject: str, kind: Kind | None) -> str:
    return f"{subject}, {kind.replace('_', '-')}" if kind else subject


def _regressed(effect: Effect, tolerance: float) -> bool | None:
    """Tell whether an effect is shown to be for the worse, beyond the tolerance; a maximum tells nothing."""
    if effect.measure == "max":
        return None
    if effect.ratio is None:
        return effect.finding == "higher"
    if effect.ratio.value is None:
        return None
    if effect.measure == "throughput":
        return effect.finding == "lower" and effect.ratio.value < 1 - tolerance
    return effect.finding == "higher" and effect.ratio.value > 1 + tolerance
