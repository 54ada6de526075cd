"""Which verdicts the first screen shows, and in which words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.comparability import STORE
from stepbench.analysis.pairs import TRIAL
from stepbench.analysis.verdicts import take_turns
from stepbench.report.headline import name_caveat_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import RunSummary
    from stepbench.contracts.verdict import Effect, RunComparison, Side, Verdict

MOST_SHOWN = 8
"""More sentences are not read; the table below them has all."""
TERMINAL_LINES = 6
ONE_RUN = "These are single runs: how far runs differ from one another shows with three or more of each (repeats)."


@dataclass(frozen=True)
class VerdictViews:
    """It holds the verdicts that are shown as sentences, and all of them for the table."""

    shown: tuple[Verdict, ...]
    all: tuple[Verdict, ...]

    @property
    def of_settings(self) -> bool:
        """Tell whether a setting varies; where stores or trials are only listed, each one has its own answer first."""
        return any(verdict.aspect not in {STORE, TRIAL} for verdict in self.shown)

    @property
    def of_one_run(self) -> bool:
        """Tell whether some verdict speaks of its own runs alone."""
        return any(not verdict.over_runs for verdict in self.shown)


def verdict_views(summary: RunSummary) -> VerdictViews:
    """Return what the page shows of the run's verdicts."""
    return VerdictViews(tuple(first_told(summary.verdicts, MOST_SHOWN)), summary.verdicts)


def verdict_lines(summary: RunSummary, most: int = TERMINAL_LINES) -> tuple[str, ...]:
    """Return a line for each verdict that is told, `most` at most, and how many more there are."""
    lines = [tell(verdict) for verdict in first_told(summary.verdicts, most)]
    rest = len(summary.verdicts) - len(lines)
    more = f"{digits.counted(rest, 'more comparison')} in the report" if rest and lines else ""
    ending = "; ".join(filter(None, (more, describe_left_out(summary))))
    return tuple(filter(None, (*lines, summary.not_compared, ending)))


def describe_left_out(summary: RunSummary) -> str:
    """Tell how many comparisons the summary has no verdict for, and how to make one; empty where it has all."""
    left_out = summary.verdicts_left_out
    were = "was" if left_out == 1 else "were"
    further = f"{digits.counted(left_out, 'further comparison')} {were} left out"
    return f"{further}; `stepbench compare RUN#TRIAL RUN#TRIAL` compares any two trials" if left_out else ""


def tell(verdict: Verdict) -> str:
    """Return a line by itself: what is compared, and what came of it."""
    return f"{verdict.subject}: {tell_result(verdict)}"


def tell_result(verdict: Verdict) -> str:
    """Return the verdict's sentence, with what makes it doubtful, and which sides are an emulator's."""
    sides = [side.name for side in (verdict.a, verdict.b) if side.emulated]
    emulated = f" Emulated, not AWS: {', '.join(dict.fromkeys(sides))}." if sides else ""
    return f"{describe(verdict)}{emulated}"


def describe(verdict: Verdict) -> str:
    """Return the verdict's sentence, with what may be the reason of a difference beside the setting."""
    return f"{verdict.text}{describe_doubts(verdict)}"


def describe_doubts(verdict: Verdict) -> str:
    """Name what may be the reason of a difference beside the setting, after a space; empty where there is nothing."""
    return f" Doubtful: {', '.join(map(name_caveat_kind, verdict.doubts))}." if verdict.doubts else ""


def describe_outcome(found: RunComparison) -> str:
    """Return how many regressions there are, what was not alike, and which trials failed that did not in A."""
    worse = sum(len(regressions(verdict)) for verdict in found.verdicts)
    beyond = f"beyond {100 * found.tolerance:g} %"
    told = f"{digits.counted(worse, 'regression')} {beyond}" if worse else f"No regression {beyond} shown"
    apart = sum(bool(verdict.unlike) for verdict in found.verdicts)
    if apart == len(found.verdicts) and apart:
        told = f"Nothing is decided, {found.verdicts[0].unlike}"
    elif apart:
        told += f"; {digits.counted(apart, 'comparison')} not decided, since the sides are not alike"
    told += f", but {', '.join(found.broken)} failed or broke off in B" if found.broken else ""
    gone = [name for name in found.only_a if name not in found.broken]
    return f"{told}; not in B: {', '.join(gone)}" if gone else told


def regressions(verdict: Verdict) -> list[Effect]:
    """Return the effects that regressed."""
    return [effect for effect in verdict.effects if effect.regressed]


def first_told(verdicts: Sequence[Verdict], most: int) -> list[Verdict]:
    """Return so many verdicts at most, in order: the first of each setting, then the second of each, and so on."""
    return take_turns(list(_told(verdicts)), most)


def _told(verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """Yield those against a first value; where kinds of operations differ, those of each kind before that of all."""
    comparisons: dict[tuple[str, Side, Side], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.primary:
            comparisons.setdefault((verdict.aspect, verdict.a, verdict.b), []).append(verdict)
    for found in comparisons.values():
        yield from (verdict for verdict in found if verdict.kind is not None and _differ(found))
        yield from (verdict for verdict in found if verdict.kind is None)


def _differ(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether one comparison comes to something else for one kind: in its first words, or in size at p50."""
    ratios = [effect.ratio for each in verdicts if (effect := each.effect("p50")) and effect.ratio]
    lows = [ratio.low for ratio in ratios if ratio.low is not None]
    highs = [ratio.high for ratio in ratios if ratio.high is not None]
    apart = bool(lows and highs) and max(lows) > min(highs)
    return apart or len({each.text.partition(":")[0] for each in verdicts}) > 1
