"""The sentences, table and figure of a function's memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.experiments.trigger.memory import KEPT, MISSED, memory_answers, memory_sweeps
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, drawn_interval, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import RunSummary
    from stepbench.experiments.trigger.memory import MemorySetting, MemorySweep
    from stepbench.report.run import Row, RunView

QUESTION = "How much memory does it take, and at what cost?"
_COST = (
    "Cost: of the function's own invocations, requests and GB-seconds at list prices, by the billed time of its REPORT "
    "lines, in which cold starts' init is where Lambda bills it. Canaries and warm-up are in it; writes, the stream, "
    "logs and what SnapStart keeps are not."
)


def memory_sentences(summary: RunSummary) -> Iterator[doc.Sentences]:
    """Yield what is found of functions' memories as a list."""
    if said := tuple(map(doc.Sentence, memory_answers(summary))):
        yield doc.Sentences(said, most=None)


def memory_brief(summary: RunSummary) -> Iterator[doc.Node]:
    """Yield sentences and tables, as Markdown has them."""
    yield from memory_sentences(summary)
    yield from (_table(place, sweep) for place, sweep in enumerate(memory_sweeps(summary)))


def memory_sections(run: RunView) -> Iterator[doc.Section]:
    """Yield the section with figures and tables, if a plan varies memory."""
    sweeps = memory_sweeps(run.summary)
    if not sweeps:
        return
    parts: list[doc.Node] = []
    for place, sweep in enumerate(sweeps):
        parts += [_figure(place, sweep), _table(place, sweep)]
    yield doc.Section("memory", QUESTION, tuple(parts), link="Memory")


def _table(place: int, sweep: MemorySweep) -> doc.Table:
    of = f" of {sweep.title}" if sweep.title else ""
    emulated = " Memory is not emulated." if sweep.emulated else ""
    heads = (
        doc.Column("Runs"),
        doc.Column(sweep.judge.title),
        doc.Column("Cost of a million events", short="Cost"),
        *(doc.words(text, short=text) for text in sweep.thresholds),
    )
    return doc.Table(
        f"memory-{place}",
        f"Memory against {sweep.judge.name} and cost{of}.{emulated}",
        doc.columns("Memory", *heads, short="memory"),
        doc.body(_row(each, sweep) for each in sweep.settings),
        phone=True,
        note=_COST,
    )


def _row(setting: MemorySetting, sweep: MemorySweep) -> doc.Row:
    runs = len(setting.group.runs)
    unit = numbers.raw_unit(sweep.judge.statistic)
    states = [setting.kept.get(text) for text in sweep.thresholds]
    name: doc.Text = setting.name
    if sweep.emulated or setting.fails:
        badge = doc.Span(" not emulated", "badge emulated") if sweep.emulated else doc.Span(" left out", "bad")
        name = (setting.name, badge)
    cells = (
        numbers.value("runs", runs, str(runs)),
        numbers.estimate("memory.judged", setting.judged, unit, judge=sweep.judge.name),
        numbers.estimate("memory.usd_per_million", setting.cost, "usd_per_million"),
        *(
            doc.Cell(f"{found.state} ({found.takes})" if found.takes else found.state, {"state": found.state},
                     "bad" if found.state == MISSED else "")
            if found else doc.Cell(digits.NONE)
            for found in states
        ),
    )  # fmt: skip
    return doc.Row(doc.Cell(name), cells, {"memory_mib": setting.memory_mib, "group": setting.group.name})


def _limits(sweep: MemorySweep) -> Iterator[Row]:
    """Yield the limits of thresholds on what is judged."""
    for text in sweep.thresholds:
        threshold = parse_threshold(text)
        if (threshold.time, threshold.statistic) == (sweep.judge.time, sweep.judge.statistic):
            yield threshold.limit, text


def _figure(place: int, sweep: MemorySweep) -> doc.Figure:
    chosen, drawn = sweep.chosen(), [*_limits(sweep)]
    labels = [each.name for each in sweep.settings]
    data = {
        "latency": _curve(sweep.settings, [each.judged for each in sweep.settings]),
        "cost": _curve(sweep.settings, [each.cost for each in sweep.settings]),
        "limits": columns(("limit", "words"), drawn),
        "chosen": columns(("value",), [(chosen.name,)] if chosen and sweep.thresholds else []),
        "settings": columns(("value", "judged", "usd", "kept"), [_words(each, sweep) for each in sweep.settings]),
    }
    times = [
        *_ends([each.judged for each in sweep.settings]),
        *(limit for limit, _ in drawn if isinstance(limit, float)),
    ]
    dollars = _ends([each.cost for each in sweep.settings])
    params = {
        "labels": labels,
        "low": short(min(times, default=0.1) / 1.15),
        "high": short(max(times, default=1.0) * 1.15),
        "top": short(max(dollars, default=1.0) * 1.15),
    }
    experiment = sweep.settings[0].group.trial.experiment
    drawing = Drawing(f"memory-{place}", "memory", data, params, experiment=experiment, measure=sweep.judge.name)
    described = f"{sweep.judge.title} and cost of a million events against the function's memory"
    title = sweep.title or ("" if not sweep.emulated else sweep.settings[0].group.trial.base)
    badge = doc.Span("memory not emulated", "badge emulated") if sweep.emulated else ""
    chart = doc.Chart(drawing, described, (title, " " if badge else "", badge))
    caption = (
        f"{sweep.judge.title} (left) and the cost of a million events (right) against memory: means over the runs with "
        f"their {doc.NINETY_FIVE} intervals."
    )
    caption += f" Dashed: the {'threshold' if len(drawn) == 1 else 'thresholds'}." if drawn else ""
    caption += " Shaded: the cheapest that keeps every threshold." if data["chosen"]["value"] else ""
    return doc.Figure((doc.Multiples((chart,), level=3) if title else chart,), caption, "still")


def _curve(
    settings: Sequence[MemorySetting], estimates: Sequence[Estimate]
) -> dict[str, list[float | int | str | None]]:
    rows: list[Row] = [
        (setting.name, short(each.value), *drawn_interval(each))
        for setting, each in zip(settings, estimates, strict=True)
        if each.value is not None and each.value > 0
    ]
    return columns(("value", "is", "low", "high"), rows)


def _words(setting: MemorySetting, sweep: MemorySweep) -> Row:
    kept = [text for text, found in setting.kept.items() if found.state == KEPT]
    cost = str(digits.shown(setting.cost, digits.USD_PER_MILLION))
    return setting.name, sweep.words(setting), cost, f"keeps {digits.listed(kept)}" if kept else digits.NONE


def _ends(estimates: Sequence[Estimate]) -> list[float]:
    return [end for each in estimates for end in (each.value, each.low, each.high) if end is not None and end > 0]
