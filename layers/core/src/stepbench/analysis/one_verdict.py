"""One comparison put together: its effects, the measure that the run is judged by first, and its sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.effects import OF_INTEREST_WORDS, Runs, compare_runs, undecided_effects
from stepbench.analysis.judged import cost_per_million, judge_of_kind, put_first, unit_of, what_decides
from stepbench.analysis.slow_spells import undecide_tails
from stepbench.analysis.verdict_text import (
    COMPARED_WORDS,
    OPPOSITE,
    SHARED_WORDS,
    describe_effects,
    describe_rest,
    describe_share,
    describe_unlike,
    join,
    name_sides,
    sizes,
    why_unknown,
    with_unprocessed,
)
from stepbench.contracts.across_trials import Verdict
from stepbench.contracts.thresholds import COST, FAILED_IN_HANDLER, PER_DOLLAR, SHARED, THROUGHPUT
from stepbench.stats.over_runs import MIN_RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.analysis.pairs import Group
    from stepbench.analysis.verdict_text import Names, OtherCause
    from stepbench.contracts.across_trials import Effect, Side
    from stepbench.contracts.findings import SlowSpells
    from stepbench.contracts.measures import KindName
    from stepbench.contracts.thresholds import Judge

    Spells = tuple[Sequence[SlowSpells | None], Sequence[SlowSpells | None]]
    """Of the trials of both sides."""


def runs_of(group: Group, place: tuple[str, str], kind: KindName | None = None) -> Runs:
    """Return a group's runs of a window, with what each of them cost."""
    costs = [cost_per_million(trial) for trial in group.trials if group.has_window(trial, place)]
    return Runs(group.windows(*place), kind, costs)


def judged_effects(
    judge: Judge | None, a: Runs, b: Runs, spells: Spells, *, paired: bool = False
) -> tuple[Effect, ...]:
    """Return the effects of b against a, that on what the run is judged by first; of tails what spells leave."""
    judge = judge_of_kind(judge, b.kind)
    effects = put_first(judge, compare_runs(b, a, paired=paired), b, a, paired=paired)
    return undecide_tails(effects, *spells)


def make_verdict(  # noqa: PLR0913 -- what a comparison is made of
    aspect: str,
    subject: str,
    sides: tuple[Side, Side],
    effects: tuple[Effect, ...],
    *,
    kind: KindName | None = None,
    caveats: tuple[str, ...] = (),
    cause: OtherCause | None = None,
    unlike: str = "",
    judge: Judge | None = None,
) -> Verdict:
    """
    Put together what was found of two sides, the first of which is what the second is set against.

    `unlike` says why nothing is decided, though there are numbers on both sides; it is empty where they are alike.
    """
    effects = undecided_effects(effects, unlike) if unlike else effects
    judge = judge_of_kind(judge, kind)
    return Verdict(
        aspect=aspect,
        subject=f"{subject}, {kind.replace('_', '-')}" if kind else subject,
        a=sides[0],
        b=sides[1],
        kind=kind,
        effects=effects,
        over_runs=min(side.runs for side in sides) >= MIN_RUNS,
        doubts=caveats,
        judged=judge.name if judge else "",
        unlike=unlike,
        text=_text(effects, name_sides(aspect, *sides), cause, unlike, judge),
    )


def _text(effects: tuple[Effect, ...], names: Names, cause: OtherCause | None, unlike: str, judge: Judge | None) -> str:
    if unlike:
        return describe_unlike(effects, unlike, judge.name if judge else "")
    return describe_judged(effects, names, cause) if judge else describe_effects(effects, names, cause)


def describe_judged(effects: Sequence[Effect], names: Names, cause: OtherCause | None = None) -> str:
    """
    Return the sentence on the effects of one comparison, which answers the first of them, then as much as fits.

    Args:
        effects: that on the measure which the run is judged by, and the others.
        names: of the two sides.
        cause: what else may be why they differ.
    """
    own, others = effects[0], effects[1:]
    begin = _begin(own, others, names, cause)
    said = with_unprocessed(begin, others, names)
    return join(said, *_further(own, [each for each in others if each.measure != FAILED_IN_HANDLER]))


def _begin(own: Effect, others: Sequence[Effect], names: Names, cause: OtherCause | None) -> str:
    """Return what came of the measure itself, or why nothing did and which run would decide it."""
    if own.measure in SHARED and None not in {own.a.value, own.b.value}:
        if own.a.value == own.b.value == 0:
            has_function = own.measure == "errors" and any(each.measure == FAILED_IN_HANDLER for each in others)
            of = " of writes" if has_function else ""
            return f"{names.b} is the same in {SHARED_WORDS[own.measure]}{of}: none on either side"
        return f"{names.b} has {describe_share(own)}"
    if own.finding == "unknown":
        return f"Not decided: {_why(own, others, names)}"
    why = f" {cause.aside}" if cause and own.finding in OPPOSITE else ""
    said = f"{_found(own, names)}{why}: {sizes(own, own.finding, unit_of(own.measure))}"
    return f"{said}; {own.to_decide.partition(': ')[0]}" if own.to_decide else said


def _found(own: Effect, names: Names) -> str:
    """Return the finding: `etcd is slower at p99`, `etcd has a higher throughput`, `etcd costs less`."""
    measure = own.measure
    if measure == COST:
        words = {"lower": "costs less", "higher": "costs more", "same": f"costs the same within {OF_INTEREST_WORDS}"}
        return f"{names.b} {words.get(own.finding, 'is undecided in cost')}"
    if own.finding == "undecided":
        return f"{names.b} is undecided {'in' if measure == THROUGHPUT else 'at'} {measure}"
    if measure == THROUGHPUT:
        same = f"is the same within {OF_INTEREST_WORDS} in throughput"
        return f"{names.b} {same if own.finding == 'same' else f'has a {own.finding} throughput'}"
    if own.finding == "same":
        return f"{names.b} is the same within {OF_INTEREST_WORDS} at {measure}"
    return f"{names.b} is {COMPARED_WORDS[own.finding]} at {measure}"


def _why(own: Effect, others: Sequence[Effect], names: Names) -> str:
    """Return why the measure is not decided: first of all the run that would decide it."""
    if any(side.fell_behind for each in (own, *others) for side in (each.a, each.b)):
        return why_unknown([own, *others], names)
    values = sizes(own.model_copy(update={"ratio": None}), "unknown", unit_of(own.measure))
    reason = (own.ratio.reason if own.ratio else "") or own.a.reason or own.b.reason or "no value"
    if not values:
        return f"{own.measure} cannot be compared ({reason})"
    return f"{own.measure} is {values}; {what_decides(reason)}"


def _further(own: Effect, others: Sequence[Effect]) -> list[tuple[str, ...]]:
    """Return what else was found: shares, performance per dollar, then latency in other quantiles."""
    per_dollar = [each for each in others if each.measure == PER_DOLLAR and each.finding in OPPOSITE]
    others = [each for each in others if each.measure != PER_DOLLAR]
    shares = [describe_share(each) for each in others if each.measure in SHARED and each.finding in OPPOSITE]
    parts: list[tuple[str, ...]] = [(said, said.partition(":")[0]) for said in shares]
    parts += [(f"{'less' if each.finding == 'lower' else 'more'} performance per dollar",) for each in per_dollar]
    for finding in OPPOSITE:
        found = [each.measure for each in others if each.finding == finding and each.measure.startswith("p")]
        also = "also " if own.finding == finding and own.measure not in {COST, THROUGHPUT, *SHARED} else ""
        if found:
            parts.append((f"{also}{COMPARED_WORDS[finding]} at {digits.listed(found)}",))
    if not parts and own.finding == "unknown":
        parts.append((describe_rest(others),))
    return parts
