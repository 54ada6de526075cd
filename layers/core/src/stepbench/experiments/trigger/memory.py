"""
Memory of a measured function against latency and cost: which of the memories that a plan varies is the cheapest.

The cheapest is named of those that keep a threshold of the plan, or of all where it has none. The cost is that of the
function's own invocations, as Lambda bills them. A memory with which the function leaves events unprocessed is left
out: what fails early is cheap and fast. An emulator has no memories to choose from, so there none is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.analysis.comparability import format_value, shorten_path
from stepbench.analysis.effects import Runs, share
from stepbench.analysis.judged import MEDIAN, cost_per_million, describe, mean_of_exact, shown
from stepbench.contracts.thresholds import DEFAULTS, FAILED_IN_HANDLER, THRESHOLD_QUANTILES
from stepbench.report.groups import groups
from stepbench.report.matrix import MEMORY
from stepbench.report.thresholds import STATES, threshold_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.contracts.thresholds import Judge
    from stepbench.report.groups import TrialGroup
    from stepbench.report.thresholds import ThresholdRow

NOT_EMULATED = (
    "Memory is not emulated: every trial had what this machine has, whatever memory_mib says. So none is named the "
    "cheapest; on AWS the same plan decides."
)
_BOTH = 2
_FAILS = 0.01
"""A share of the events that arrived: a memory with which so many are not processed is no choice."""
KEPT, MISSED, OPEN = "kept", "missed", "not decided"
_WORDS = dict(zip(STATES, (MISSED, OPEN, KEPT), strict=True))


class Kept(NamedTuple):
    """Whether a setting keeps a threshold in all of its runs; what would decide it where that is not known."""

    state: str
    takes: str = ""


def _name(memory_mib: int) -> str:
    return f"{digits.count(memory_mib)} MiB"


class MemorySetting(NamedTuple):
    """
    One memory: what it is judged by, what a million events cost, and what became of each threshold about it.

    unprocessed: the share of the events that arrived, in all runs; no value where that is not known.
    """

    memory_mib: int
    group: TrialGroup
    judged: Estimate
    cost: Estimate
    kept: dict[str, Kept]
    unprocessed: Estimate

    @property
    def name(self) -> str:
        """Return `1,024 MiB`."""
        return _name(self.memory_mib)

    def keeps(self, threshold: str) -> bool:
        """Return whether it is known to keep a threshold, about which it may have no window at all."""
        return threshold in self.kept and self.kept[threshold].state == KEPT

    @property
    def fails(self) -> bool:
        """Return whether the function left events unprocessed with it, and not some single one."""
        return (self.unprocessed.value or 0) >= _FAILS

    @property
    def usd(self) -> str:
        """Return what sentences say of its cost: `$2.10 per million events`."""
        return f"{digits.dollars(self.cost.value)} per million events"


class MemorySweep(NamedTuple):
    """
    The memories of one function, ascending, with all other settings alike; `title` is empty of the only one.

    unmeasured: memories whose trials measured nothing.
    """

    title: str
    judge: Judge
    settings: tuple[MemorySetting, ...]
    emulated: bool
    unmeasured: tuple[int, ...]

    @property
    def thresholds(self) -> tuple[str, ...]:
        """Return the plan's own thresholds that are about its windows."""
        return tuple(dict.fromkeys(text for each in self.settings for text in each.kept))

    @property
    def working(self) -> tuple[MemorySetting, ...]:
        """Return the memories with which the function processes its events."""
        return tuple(each for each in self.settings if not each.fails)

    def words(self, setting: MemorySetting) -> str:
        """Return what a setting is judged by, as it is printed."""
        return str(shown(self.judge, setting.judged))

    def chosen(self) -> MemorySetting | None:
        """Return the cheapest that keeps every threshold; None where none is known to be it."""
        kept = [each for each in self.working if all(each.keeps(text) for text in self.thresholds)]
        return None if self.emulated else _cheapest(kept)


def memory_sweeps(summary: RunSummary) -> tuple[MemorySweep, ...]:
    """Return a sweep for each window and each combination of what else the plan varies."""
    families: dict[tuple[str, ...], list[TrialGroup]] = {}
    for group in groups(summary.trials):
        if isinstance(group.point.get(MEMORY), int):
            families.setdefault((group.phase, group.window, *_others(group.trial)), []).append(group)
    planned: dict[tuple[str, ...], set[int]] = {}
    for trial in summary.trials:
        if isinstance(trial.point.get(MEMORY), int):
            planned.setdefault(_others(trial), set()).add(trial.point[MEMORY])
    found = [members for members in families.values() if len(members) > 1]
    listed = [result.threshold for result in summary.thresholds]
    rows = [row for row in threshold_rows(summary) if row.result.threshold not in DEFAULTS]
    rows.sort(key=lambda row: listed.index(row.result.threshold))
    judge = summary.judge if summary.judge and summary.judge.statistic in THRESHOLD_QUANTILES else MEDIAN
    several = len(found) > 1
    return tuple(_sweep(members, judge, rows, planned[_others(members[0].trial)], several=several) for members in found)


def _others(trial: TrialSummary) -> tuple[str, ...]:
    """Return what the trials of one sweep have in common: their name in the plan, and the other settings."""
    return trial.base, *(f"{path}={value!r}" for path, value in sorted(trial.point.items()) if path != MEMORY)


def _sweep(
    members: Sequence[TrialGroup], judge: Judge, rows: Sequence[ThresholdRow], planned: set[int], *, several: bool
) -> MemorySweep:
    settings = [_setting(group, judge, rows) for group in members]
    first = members[0]
    titles = [first.trial.base or first.trial.store]
    titles += [first.window] if len(first.trial.windows) > 1 else []
    others = [path for path in first.point if path != MEMORY]
    titles += [f"{shorten_path(path, others)} = {format_value(first.point[path])}" for path in others]
    emulated = any(_is_emulated(run.trial) for group in members for run in group.runs)
    ordered = tuple(sorted(settings, key=lambda each: each.memory_mib))
    unmeasured = tuple(sorted(planned - {each.memory_mib for each in settings}))
    return MemorySweep(", ".join(titles) if several else "", judge, ordered, emulated, unmeasured)


def _is_emulated(trial: TrialSummary) -> bool:
    """Return whether the function ran on this machine; a real store may have been written to."""
    return trial.emulated or trial.cost_usd.emulated or "lambda" in trial.stand_ins


def _setting(group: TrialGroup, judge: Judge, rows: Sequence[ThresholdRow]) -> MemorySetting:
    cost = mean_of_exact([cost_per_million(run.trial, ("trigger",)) for run in group.runs])
    own = {run.trial.index for run in group.runs}
    kept: dict[str, Kept] = {}
    for row in rows:  # of a threshold missed ones first, passed ones last
        result = row.result
        if result.trial in own and (result.phase, result.window) == (group.phase, group.window):
            kept.setdefault(result.threshold, Kept(_WORDS[result.state], row.takes))
    unprocessed = share(FAILED_IN_HANDLER, Runs([run.window for run in group.runs]))
    return MemorySetting(group.point[MEMORY], group, group.judged(judge), cost, kept, unprocessed)


def memory_answers(summary: RunSummary) -> Iterator[str]:
    """Yield what is found of each function's memories, with its title where there are several."""
    for sweep in memory_sweeps(summary):
        yield from (": ".join(filter(None, (sweep.title, text))) for text in describe_sweep(sweep))


def describe_sweep(sweep: MemorySweep) -> Iterator[str]:
    """Yield which memory is the cheapest that keeps each threshold; without any, the cheapest and the fastest."""
    if sweep.emulated:
        yield NOT_EMULATED
        return
    thresholds, working = sweep.thresholds, sweep._replace(settings=sweep.working)
    for text in thresholds:
        yield _answer(working, text, [each.kept.get(text, Kept(OPEN, "not measured")) for each in working.settings])
    if len(thresholds) > 1 and (chosen := sweep.chosen()):
        every = "both" if len(thresholds) == _BOTH else f"all {len(thresholds)}"
        yield f"{chosen.name} is the cheapest memory that keeps {every} thresholds: {_cost(chosen)}."
    if not thresholds and working.settings:
        yield _cheapest_and_fastest(working)
    if failing := [f"{each.name} ({digits.percent(each.unprocessed.value)})" for each in sweep.settings if each.fails]:
        yield f"Left out, since events were not processed: {digits.listed(failing)}."
    if sweep.unmeasured:
        yield f"{digits.listed([_name(each) for each in sweep.unmeasured])} measured nothing, and may be cheaper."


def _answer(sweep: MemorySweep, threshold: str, kept: Sequence[Kept]) -> str:
    """Answer for one threshold; what is cheaper than the answer and not decided is named with it."""
    by_state: dict[str, list[MemorySetting]] = {KEPT: [], MISSED: [], OPEN: []}
    takes = {}
    for setting, found in zip(sweep.settings, kept, strict=True):
        by_state[found.state].append(setting)
        takes[setting.memory_mib] = found.takes
    keep, undecided = by_state[KEPT], by_state[OPEN]
    best = _cheapest(keep)
    if best is not None:
        cheaper = [each for each in undecided if _known(each) and (each.cost.value or 0) < (best.cost.value or 0)]
        also = f"; {_open(cheaper, takes)}, and would be cheaper" if cheaper else ""
        judged = f"{describe(sweep.judge, best.judged)}{_close(best, keep)}"
        return f"{best.name} is the cheapest memory that keeps {threshold}: {_cost(best)}, {judged}{also}."
    if keep:
        why = next(each.cost.reason for each in keep if not _known(each))
        names = digits.listed([each.name for each in keep])
        return f"{names} {'keeps' if len(keep) == 1 else 'keep'} {threshold}; what is cheapest is not known: {why}."
    if undecided:
        return f"No memory is shown to keep {threshold}: {_open(undecided, takes)}."
    nearest = _fastest(sweep)
    return f"No memory keeps {threshold}{f'; {_describe_fastest(sweep, nearest)}' if nearest else ''}."


def _open(settings: Sequence[MemorySetting], takes: dict[int, str]) -> str:
    names = digits.listed([each.name for each in settings])
    why = takes[settings[0].memory_mib]
    return f"{names} {'is' if len(settings) == 1 else 'are'} not decided{f' ({why})' if why else ''}"


def _cheapest_and_fastest(sweep: MemorySweep) -> str:
    fastest, cheapest = _fastest(sweep), _cheapest(sweep.settings)
    quick = _describe_fastest(sweep, fastest) if fastest else f"nothing is known of {sweep.judge.name}"
    if cheapest is None:
        why = next(each.cost.reason for each in sweep.settings if not _known(each))
        return f"{quick[:1].upper()}{quick[1:]}; what is cheapest is not known: {why}."
    close = _close(cheapest, sweep.settings)
    if cheapest is fastest:
        return f"{quick}, and the cheapest: {_cost(cheapest)}{close}."
    own = f"{cheapest.name} is the cheapest, {_cost(cheapest)}, {describe(sweep.judge, cheapest.judged)}{close}"
    return f"{own}; {quick}{f', for {fastest.usd}' if fastest else ''}."


def _cost(setting: MemorySetting) -> str:
    """Return what the cheapest costs, and in how many runs, where these are too few for an interval."""
    few = "" if setting.cost.low is not None else f" in {digits.counted(len(setting.group.runs), 'run')}"
    return f"{setting.usd}{few}"


def _describe_fastest(sweep: MemorySweep, fastest: MemorySetting) -> str:
    return f"{fastest.name} is the fastest, {describe(sweep.judge, fastest.judged)}"


def _known(setting: MemorySetting) -> bool:
    return setting.cost.value is not None


def _cheapest(settings: Sequence[MemorySetting]) -> MemorySetting | None:
    """Return the cheapest of them; None where there is none, or the cost of one is not known."""
    if not settings or not all(map(_known, settings)):
        return None
    return min(settings, key=lambda each: each.cost.value or 0)


def _fastest(sweep: MemorySweep) -> MemorySetting | None:
    known = [(each.judged.value, each.memory_mib, each) for each in sweep.settings if each.judged.value is not None]
    return min(known)[-1] if known else None


def _close(best: MemorySetting, others: Sequence[MemorySetting]) -> str:
    """Return which others may cost as little, by the intervals over their runs; without any, those that cost it."""
    close = [each.name for each in others if each is not best and _overlap(each.cost, best.cost)]
    return f", not shown to be cheaper than {digits.listed(close)}" if close else ""


def _overlap(one: Estimate, other: Estimate) -> bool:
    if None in {one.low, one.high, other.low, other.high}:
        return one.value == other.value
    return (one.low or 0) <= (other.high or 0) and (other.low or 0) <= (one.high or 0)
