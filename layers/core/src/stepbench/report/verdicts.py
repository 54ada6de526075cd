"""Which verdicts the first screen shows, in which words, and what their folded tables have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.comparability import STORE
from stepbench.analysis.effects import COMPARED_QUANTILES, OF_INTEREST_WORDS
from stepbench.analysis.judged import unit_of
from stepbench.analysis.pairs import TRIAL
from stepbench.analysis.verdict_text import describe_share
from stepbench.analysis.verdicts import take_turns
from stepbench.contracts.thresholds import COST, PER_DOLLAR, SHARED, THROUGHPUT
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.run import name_caveat_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.across_trials import ComparedCaveat, Effect, RunComparison, Side, Verdict
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import RunSummary

MOST_SHOWN = 8
"""More sentences are not read; the table below them has all."""
TERMINAL_LINES = 6
_MEDIAN = "p50"
_FOUND = {"lower": "faster", "higher": "slower", "undecided": "undecided"}


def of_settings(summary: RunSummary) -> bool:
    """Return whether a setting varies; of stores or trials that are only listed, each has its own answer first."""
    return any(verdict.aspect not in {STORE, TRIAL} for verdict in first_reported(summary.verdicts, MOST_SHOWN))


def verdict_lines(summary: RunSummary, most: int = TERMINAL_LINES) -> tuple[str, ...]:
    """Return a line for each verdict that is reported, `most` at most, and how many more there are."""
    lines = [format_verdict(verdict) for verdict in first_reported(summary.verdicts, most)]
    rest = len(summary.verdicts) - len(lines)
    more = f"{digits.counted(rest, 'more comparison')} in the report" if rest and lines else ""
    ending = "; ".join(filter(None, (more, describe_left_out(summary))))
    return tuple(filter(None, (*lines, summary.not_compared, ending)))


def describe_left_out(summary: RunSummary) -> str:
    """Return how many comparisons the summary has no verdict for, and how to make one; empty where it has all."""
    left_out = summary.verdicts_left_out
    were = "was" if left_out == 1 else "were"
    further = f"{digits.counted(left_out, 'further comparison')} {were} left out"
    return f"{further}; `stepbench compare RUN#TRIAL RUN#TRIAL` compares any two trials" if left_out else ""


def format_verdict(verdict: Verdict) -> str:
    """Return a line by itself: what is compared, and what came of it."""
    return f"{verdict.subject}: {format_result(verdict)}"


def format_result(verdict: Verdict) -> str:
    """Return the verdict's sentence, with what else may be the reason of a difference, and which sides are emulated."""
    doubtful = f" Doubtful: {', '.join(map(name_caveat_kind, verdict.doubts))}." if verdict.doubts else ""
    sides = [side.name for side in (verdict.a, verdict.b) if side.emulated]
    emulated = f" Emulated, not AWS: {', '.join(dict.fromkeys(sides))}." if sides else ""
    return f"{verdict.text}{doubtful}{emulated}"


def describe_caveat(caveat: ComparedCaveat) -> str:
    """Return which side has it, in which of its trials, and what it is: `B, s3 and 2 more trials: …`."""
    others = f" and {digits.counted(caveat.trials - 1, 'more trial')}" if caveat.trials > 1 else ""
    return f"{caveat.side}, {caveat.trial}{others}: {caveat.text}"


def caveat_lines(found: RunComparison) -> list[str]:
    """Return a line for each kind of caveat on each side that makes verdicts doubtful."""
    return [f"{name_caveat_kind(each.kind)}: {describe_caveat(each)} {each.remedy}" for each in found.caveats]


def describe_few_runs(verdicts: Sequence[Verdict]) -> str:
    """Return the words that verdicts speak of their own runs, where a side has fewer than `MIN_RUNS`; else empty."""
    fewest = [min(verdict.a.runs, verdict.b.runs) for verdict in verdicts if not verdict.over_runs]
    if not fewest:
        return ""
    runs = {1: "single runs", 2: "two runs of each"}.get(min(fewest), "few runs")
    runs = runs if min(fewest) == max(fewest) else "one or two runs of each"
    return f"These are {runs}: how far runs differ from one another shows with three or more of each (repeats)."


def effect_rows(verdict: Verdict) -> list[tuple[str, str, str, str, str]]:
    """Return what stands in a row for each measure that has a value on some side: it, both sides, ratio, finding."""
    return [_effect_row(each) for each in verdict.effects if each.a.at_least is not None or each.b.at_least is not None]


def _effect_row(effect: Effect) -> tuple[str, str, str, str, str]:
    if effect.ratio is None:
        b, a = (digits.percent(side.value) for side in (effect.b, effect.a))
        return effect.measure, b, a, digits.NONE, describe_share(effect).partition(":")[0]
    b, a = (format_side(side, effect.measure) for side in (effect.b, effect.a))
    return effect.measure, b, a, str(digits.shown(effect.ratio, digits.TIMES)), _found(effect)


def format_side(side: Estimate, measure: str) -> str:
    """Format a side without its interval, for which the table of all comparisons has the room."""
    if side.value is None:
        return side.reason or digits.NONE
    if measure == THROUGHPUT:
        return f"{digits.rate(round(side.value))}/s"
    if measure in SHARED:
        return digits.percent(side.value)
    unit = unit_of(measure)
    return digits.latency(side.value) if unit is None else f"{digits.rounded(side.value)} {unit.name}"


def _found(effect: Effect) -> str:
    """Return what was found of one measure, and where nothing was what would decide it, or why not."""
    match effect.finding:
        case "same":
            return f"the same within {OF_INTEREST_WORDS}"
        case "unknown" if effect.measure == "max":
            return ""
        case "unknown":
            return digits.takes(effect.ratio.reason or "") if effect.ratio else ""
        case "lower" | "higher" if effect.measure in {THROUGHPUT, COST, PER_DOLLAR}:
            return effect.finding
        case finding:
            return "; ".join(filter(None, (_FOUND[finding], effect.to_decide)))


NOTHING_IN_COMMON = "Nothing is compared: no trial that went through whole has a window in common"


def describe_outcome(found: RunComparison) -> str:
    """Return how many regressions there are, what was not alike, and which trials failed that did not in A."""
    worse = sum(len(regressions(verdict)) for verdict in found.verdicts)
    beyond = f"beyond {100 * found.tolerance:g} %"
    text = f"{digits.counted(worse, 'regression')} {beyond}" if worse else f"No regression {beyond} shown"
    apart = sum(bool(verdict.unlike) for verdict in found.verdicts)
    if apart == len(found.verdicts) and not (found.broken and not apart):
        text = f"Nothing is decided, {found.verdicts[0].unlike}" if apart else NOTHING_IN_COMMON
    elif apart:
        text += f"; {digits.counted(apart, 'comparison')} not decided, since the sides are not alike"
    text += f", but {', '.join(found.broken)} failed or broke off in B" if found.broken else ""
    text += f", but {digits.listed(found.behind)} fell behind in B" if found.behind else ""
    gone = [name for name in found.only_a if name not in found.broken]
    return f"{text}; not in B: {', '.join(gone)}" if gone else text


def regressions(verdict: Verdict) -> list[Effect]:
    """Return the effects that regressed."""
    return [effect for effect in verdict.effects if effect.regressed]


def first_reported(verdicts: Sequence[Verdict], most: int) -> list[Verdict]:
    """Return so many verdicts at most, in order: the first of each setting, then the second of each, and so on."""
    return take_turns(list(_reported(verdicts)), most)


def _reported(verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """Yield those against a first value; where kinds of operations differ, those of each kind before that of all."""
    comparisons: dict[tuple[str, Side, Side], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.primary:
            comparisons.setdefault((verdict.aspect, verdict.a, verdict.b), []).append(verdict)
    for found in comparisons.values():
        yield from (verdict for verdict in found if verdict.kind is not None and _differ(found))
        yield from (verdict for verdict in found if verdict.kind is None)


def _differ(verdicts: Sequence[Verdict]) -> bool:
    """Return whether one comparison comes to something else for one kind: in its first words, or in size."""
    if len(set(map(_lead, verdicts))) > 1:  # what is known of all kinds together alone is no measure of how they differ
        verdicts = [each for each in verdicts if each.kind is not None]
    ratios = [effect.ratio for each in verdicts if (effect := each.effect(_lead(each))) and effect.ratio]
    lows = [ratio.low for ratio in ratios if ratio.low is not None]
    highs = [ratio.high for ratio in ratios if ratio.high is not None]
    apart = bool(lows and highs) and max(lows) > min(highs)
    return apart or len({each.text.partition(":")[0].partition(" at ")[0] for each in verdicts}) > 1


def verdict_sentence(verdict: Verdict) -> doc.Sentence:
    """Return a comparison for a page: what is compared, what came of it, what makes it doubtful, all its measures."""
    lead, colon, rest = verdict.text.partition(": ")
    links = [doc.Span(name_caveat_kind(kind), "caveat", f"#caveat-{kind}") for kind in verdict.doubts]
    doubtful = doc.Span(("Doubtful: ", doc.joined(links, " ")), "doubts") if links else ""
    text = (
        doc.Span(_subject(verdict), "strong"),
        " ",
        doc.Span(lead + colon, "finding"),
        doc.Span(rest, "effects"),
        " " if links else "",
        doubtful,
    )
    ratio, found = doc.Column("Ratio", style="ratio"), doc.words("Found", "words")
    columns = doc.columns("At", verdict.b.name, verdict.a.name, ratio, found)
    rows = [doc.Row(doc.Cell(measure), tuple(map(doc.Cell, rest))) for measure, *rest in effect_rows(verdict)]
    table = doc.Table("", "", columns, doc.body(rows), style="", label=f"{verdict.subject}: all measures")
    below = (doc.Fold("All quantiles", (table,), style="fold effect-table"),) if rows else ()
    return doc.Sentence(text, data=_sides(verdict), parts=below)


def _subject(verdict: Verdict) -> doc.Text:
    return (verdict.subject, (" ", doc.EMULATED) if verdict.a.emulated or verdict.b.emulated else "")


def _sides(verdict: Verdict) -> dict[str, str]:
    return {"aspect": verdict.aspect, "a": verdict.a.group, "b": verdict.b.group}


def verdict_nodes(summary: RunSummary, latency_title: str) -> Iterator[doc.Node]:
    """Yield what a page shows of a run's comparisons: the first as sentences, and a table of all."""
    if summary.not_compared:
        yield doc.Sentence(doc.sentence_case(summary.not_compared), "note", name="not-compared")
    shown, count = first_reported(summary.verdicts, MOST_SHOWN), len(summary.verdicts)
    if not shown:
        return
    yield doc.Sentences(tuple(map(verdict_sentence, shown)), "The next comparisons", style="sentences verdicts")
    if few := describe_few_runs(shown):
        yield doc.Sentence(few, "note")
    left_out = summary.verdicts_left_out
    which = f"The first comparisons of {count + left_out}" if left_out else "All comparisons"
    note = (doc.Sentence(f"{describe_left_out(summary)}.", "note", name="left-out"),) if left_out else ()
    caption = (
        f"Each comparison that the plan makes: {latency_title} of the second side over that of the first, of shares "
        f"their difference, with {doc.NINETY_FIVE} intervals. A ratio whose interval holds 1 shows no difference; that "
        "is not the same as none. One in twenty intervals misses the truth."
    )
    table = verdict_table(summary.verdicts, caption=caption)
    yield doc.Fold(f"{which}, with both sides ({count})", (table, *note))


def verdict_table(verdicts: Sequence[Verdict], a: str = "first", b: str = "second", caption: str = "") -> doc.Table:
    """Return the comparisons with both sides; Markdown has them in words, with what regressed and what is doubtful."""
    lead = lead_of(verdicts)
    columns = doc.columns(
        *(
            "Second, against first",
            doc.more("Runs", outputs=doc.PAGE),
            doc.more(f"{lead}, {a}"),
            doc.more(f"{lead}, {b}"),
        ),
        *(doc.more(name) if name == "p90" != lead else name for name in ratios(lead)),
        *(doc.Column("Throughput", outputs=doc.PAGE) for _ in range(lead != THROUGHPUT)),
        doc.words("Remarks", outputs=("markdown",)),
        short="comparison",
    )
    rows = (_verdict_row(verdict, number, lead) for number, verdict in enumerate(verdicts))
    return doc.Table("verdicts", caption, columns, doc.body(rows), phone=True)


def _verdict_row(verdict: Verdict, number: int, lead: str) -> doc.Row:
    runs = f"{verdict.b.runs} against {verdict.a.runs}"
    own, throughput = verdict.effect(lead), verdict.effect(THROUGHPUT)
    rate = numbers.estimate("throughput.ratio", throughput.ratio if throughput else None, "ratio")
    remarks: list[doc.Text] = [doc.Span(f"{effect.measure} regressed", "strong") for effect in regressions(verdict)]
    remarks += [verdict.unlike] if verdict.unlike else []
    remarks += [f"doubtful: {name_caveat_kind(kind)}" for kind in verdict.doubts]
    cells = (
        numbers.value("runs", verdict.b.runs, runs),
        _side(f"{lead}.a", lead, own.a if own else None),
        _side(f"{lead}.b", lead, own.b if own else None),
        *(_ratio(verdict.effect(name)) for name in ratios(lead)),
        *(rate for _ in range(lead != THROUGHPUT)),
        doc.Cell(doc.joined(remarks, ", ")),
    )
    data = {"verdict": number, **_sides(verdict), "kind": verdict.kind or None}
    return doc.Row(doc.Cell(_subject(verdict), line=verdict.subject), cells, data)


def _lead(verdict: Verdict) -> str:
    """Return the measure that a comparison answers first."""
    return verdict.judged or _MEDIAN


def lead_of(verdicts: Sequence[Verdict]) -> str:
    """Return the measure whose two sides stand in a table of verdicts: what the run is judged by, or the median."""
    return next((verdict.judged for verdict in verdicts if verdict.judged), _MEDIAN)


def ratios(lead: str) -> tuple[str, ...]:
    """Return the measures whose ratios stand in a table of verdicts, in order."""
    return (lead, *(name for name in COMPARED_QUANTILES if name != lead))


def _side(metric: str, measure: str, side: Estimate | None) -> doc.Cell:
    cell = numbers.estimate(metric, side, numbers.raw_unit(measure))
    return cell._replace(line=digits.NONE if side is None else format_side(side, measure))


def _ratio(effect: Effect | None) -> doc.Cell:
    """Return how far the sides are apart: on a page as a number, elsewhere in words; of shares their difference."""
    if effect is None:
        return doc.Cell(digits.NONE)
    if effect.ratio is None:
        cell = numbers.estimate(f"{effect.measure}.difference", effect.difference, "points")
        return cell if effect.difference and effect.difference.value is not None else cell._replace(line=digits.NONE)
    ratio = effect.ratio
    unknown = ratio.value is None and effect.finding == "unknown"
    return numbers.estimate(f"{effect.measure}.ratio", ratio, "ratio")._replace(
        line=digits.NONE if unknown else digits.effect(ratio)
    )
