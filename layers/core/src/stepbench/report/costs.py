"""What a run cost, in words and rows: for the page, the terminal and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.costs.prices import unit_price
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.run import trial_labels, window_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.cost import CostItem, PerDollar, RunCost
    from stepbench.contracts.documents import Manifest
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.run import WindowRow

PART_NAMES = {
    "store": "store",
    "trigger": "its trigger's invocations",
    "load": "load",
    "control": "control",
    "records": "records and logs",
}
_QUANTITY_DIGITS = 4
EMULATED = "AWS was emulated, nothing was billed: AWS's prices times what was done here"


class PerDollarRow(NamedTuple):
    """A window's performance per dollar, with its name; `alone` where nothing did the same work."""

    row: WindowRow
    found: PerDollar
    alone: bool


def describe_cost(summary: RunSummary) -> str:
    """Return what the run cost, what it was estimated at, and what was dearest; "" of an older summary."""
    cost = summary.cost_usd
    if cost is None or cost.actual is None:
        return ""
    biggest = max(cost.items, key=lambda item: item.usd, default=None)
    most = f"; most of it {biggest.item} ({digits.dollars(biggest.usd)})" if biggest and biggest.usd else ""
    where = f" ({EMULATED})" if cost.emulated else ""
    missing = f"; {digits.counted(len(cost.left_out), 'amount')} not known" if cost.left_out else ""
    return (
        f"cost {digits.dollars(cost.actual)} counted, {digits.dollars(cost.estimate)} estimated{most}{missing}{where}"
    )


def quantity(value: float) -> str:
    """Format a number of units: whole ones as counts, others with four significant digits."""
    return digits.fixed(value, 0) if value == round(value) else digits.rounded(value, _QUANTITY_DIGITS)


def own_items(summary: RunSummary) -> float:
    """Return the dollars that belong to none of the trials."""
    if summary.cost_usd is None or summary.cost_usd.actual is None:
        return 0
    return max(0.0, summary.cost_usd.actual - sum(trial.cost_usd.actual or 0 for trial in summary.trials))


def per_dollar_rows(summary: RunSummary) -> tuple[PerDollarRow, ...]:
    """Return the rows of the table, the best of each group first, repeats of a trial beside each other."""
    rows = {(row.trial.index, row.window.phase, row.window.name): row for row in window_rows(summary.trials)}
    ordered = sorted(summary.per_dollar, key=lambda each: (each.group, -(each.times_worst or 0), -each.value))
    return tuple(
        PerDollarRow(rows[each.trial, each.phase, each.window], each, each.times_worst is None) for each in ordered
    )


def describe_per_dollar(summary: RunSummary) -> tuple[str, ...]:
    """Return a sentence for each group of windows that may be compared: how many times the worst the best is, if so."""
    rows = [row for row in per_dollar_rows(summary) if not row.alone]
    groups = [[row for row in rows if row.found.group == group] for group in dict.fromkeys(r.found.group for r in rows)]
    return tuple(
        f"performance per dollar (1 / median / dollars of store and trigger): {_compare(group[0], group[-1])}"
        for group in groups
    )


def cost_sentences(summary: RunSummary) -> tuple[str, ...]:
    """Return what the run cost, and which window gives most for a dollar: without a capital and a full stop."""
    return tuple(filter(None, (describe_cost(summary), *describe_per_dollar(summary))))


def times_interval(found: PerDollar) -> str:
    """Format the interval of a ratio; "" where there is none."""
    if found.times_low is None or found.times_high is None:
        return ""
    return f"[{digits.rounded(found.times_low, 2)}, {digits.rounded(found.times_high, 2)}]"


def _compare(best: PerDollarRow, worst: PerDollarRow) -> str:
    times = f"{digits.rounded(best.found.times_worst or 1, 2)} times"
    if best.found.times_low is not None and best.found.times_low > 1:
        return f"{_name(best)} {times} {_name(worst)} {times_interval(best.found)}"
    between = f"{_name(best)} and {_name(worst)}"
    return f"no difference shown between {between} ({times} {times_interval(best.found) or 'without an interval'})"


def _name(row: PerDollarRow) -> str:
    """Name a window, or all repeats of it together."""
    trial = row.row.trial
    return row.row.label.replace(trial.name, trial.group, 1) if trial.group else row.row.label


def cost_section(summary: RunSummary, manifest: Manifest) -> doc.Section:
    """Return the section on what the run cost."""
    if not summary.trials:
        return doc.Section("cost", "Cost", (doc.Sentence("Nothing ran, nothing was spent."),), link="Cost")
    estimated = sum(trial.cost_usd.estimate for trial in summary.trials)
    said = doc.sentence_case(describe_cost(summary)) or f"{digits.dollars(estimated)} by estimate"
    unbilled = manifest.emulated and not summary.cost_usd
    words = f"{said}, which AWS would charge: it was emulated" if unbilled else said
    return doc.Section("cost", "Cost", (doc.Fold(words, tuple(_cost_nodes(summary, manifest))),), link="Cost")


def _cost_nodes(summary: RunSummary, manifest: Manifest) -> Iterator[doc.Node]:
    whole = summary.cost_usd
    yield _trials_table(summary, manifest)
    if whole and whole.items:
        yield _items_table(whole)
    if whole and whole.left_out:
        yield doc.Sentence(f"Not known, and so not counted: {'; '.join(whole.left_out)}.", "note")
    if summary.per_dollar:
        yield _per_dollar_table(summary)


def _trials_table(summary: RunSummary, manifest: Manifest) -> doc.Table:
    whole = summary.cost_usd
    dates = whole.prices if whole else manifest.price_table_date
    caption = (
        "US dollars: estimated before the trial, an upper bound, and by what was counted after it, at AWS's list "
        f"prices of {dates}.{f' {EMULATED}.' if manifest.emulated else ''}"
    )
    columns = doc.columns("Trial", "Estimate", "Counted", "Of that, store and trigger")
    labels = trial_labels(summary.trials)
    rows = [_trial_row(trial, label) for trial, label in zip(summary.trials, labels, strict=True)]
    if whole:
        none = doc.Cell(digits.NONE)
        rows.append(doc.Row(doc.Cell("The run itself"), (none, doc.Cell(digits.dollars(own_items(summary))), none)))
    return doc.Table("cost-table", caption, columns, doc.body(rows), "reference narrow", foot=_sum_row(summary))


def _trial_row(trial: TrialSummary, label: str) -> doc.Row:
    own = trial.cost_usd
    part = own.of("store", "trigger") if own.items else None
    incomplete = doc.Span("incomplete", "note") if {"store", "trigger"} & set(own.incomplete) else ""
    data: doc.Data = {"metric": "cost_usd.store_and_trigger", "value": part} if own.items else {}
    counted = doc.Cell((digits.dollars(part), incomplete), data)
    return doc.Row(
        doc.Cell(label),
        (_usd("cost_usd.estimate", own.estimate), _usd("cost_usd.actual", own.actual), counted),
        {"trial": trial.index},
    )


def _sum_row(summary: RunSummary) -> doc.Row:
    whole = summary.cost_usd
    actual = [trial.cost_usd.actual for trial in summary.trials if trial.cost_usd.actual is not None]
    missing = len(actual) < len(summary.trials)
    known = f"{len(actual)} of {digits.counted(len(summary.trials), 'trial')} known"
    counted = whole.actual if whole and not missing else sum(actual) if actual else None
    data: doc.Data = {"metric": "cost_usd.actual", "value": whole.actual} if whole and whole.actual is not None else {}
    estimated = digits.dollars(sum(trial.cost_usd.estimate for trial in summary.trials))
    note = doc.Span(known, "note") if actual and missing else ""
    cells = (doc.Cell(estimated), doc.Cell((digits.dollars(counted), note), data), doc.Cell())
    return doc.Row(doc.Cell("Sum"), cells, {"group": "run"} if whole else {})


def _usd(metric: str, value: float | None) -> doc.Cell:
    return numbers.value(metric, value, digits.dollars(value))


def _items_table(whole: RunCost) -> doc.Table:
    caption = (
        "What was counted: dollars are quantity times price. Each trial's own items are in ",
        doc.Span("summary.json", "code"),
        ".",
    )
    columns = doc.columns("Item", "Dollars", "Quantity", "Price of one")
    found = dict.fromkeys(item.part for item in whole.items)
    bodies = [_items(part, [each for each in whole.items if each.part == part], PART_NAMES[part]) for part in found]
    if whole.idle:
        name = "idle: hours of the run in which none of its trials held it; not in the sum"
        bodies.append(_items("idle", whole.idle, name))
    return doc.Table("cost-items", caption, columns, tuple(bodies), "reference")


def _items(part: str, items: Sequence[CostItem], name: str) -> doc.Body:
    usd = sum(item.usd for item in items)
    return doc.Body(tuple(_item(part, item) for item in items), f"{name}, {digits.dollars(usd)}", {"group": "run"})


def _item(part: str, item: CostItem) -> doc.Row:
    place = f"cost.{part}.{item.item}"
    number: doc.Data = {"metric": f"{place}.quantity", "value": item.quantity}
    price: doc.Data = {"metric": f"{place}.unit_price_usd", "value": item.unit_price_usd}
    cells = (
        _usd(f"{place}.usd", item.usd),
        doc.Cell((f"{quantity(item.quantity)} ", doc.Span(item.unit, "unit")), number),
        doc.Cell(unit_price(item.unit_price_usd), price),
    )
    return doc.Row(doc.Cell((item.item, (" ", doc.Span(item.note, "note")) if item.note else "")), cells)


def _per_dollar_table(summary: RunSummary) -> doc.Table:
    caption = (
        "Performance per dollar: 1 / median latency / dollars of the store and its trigger in the whole trial. Only "
        "windows that did the same work are compared, repeats of a trial together; the interval is the median's."
    )
    headings = ("Median", "Dollars", f"1 / (s {digits.TIMES.name} $)", "Times the lowest")
    rows = per_dollar_rows(summary)
    groups = dict.fromkeys(row.found.group for row in rows)
    bodies = (doc.Body(tuple(_per_dollar_row(row) for row in rows if row.found.group == group)) for group in groups)
    columns = doc.columns("Window", *headings)
    return doc.Table("per-dollar", caption, columns, tuple(bodies), "reference")


def _per_dollar_row(row: PerDollarRow) -> doc.Row:
    found = row.found
    raw: doc.Data = {"metric": "per_dollar.p50", "value": found.value, "low": found.low, "high": found.high}
    interval = f"[{digits.rounded(found.low)}, {digits.rounded(found.high)}]"
    times = (f"{digits.rounded(found.times_worst or 1, 2)} ", doc.Span(times_interval(found), "interval"))
    cells = (
        numbers.value("per_dollar.latency_s", found.latency_s, digits.latency(found.latency_s * 1000)),
        _usd("per_dollar.usd", found.usd),
        doc.Cell((doc.Span(digits.rounded(found.value), "value"), " ", doc.Span(interval, "interval")), raw),
        doc.Cell(doc.Span("nothing to compare", "note"))
        if row.alone
        else numbers.value("per_dollar.times_worst", found.times_worst, times),
    )
    window: doc.Data = {"trial": found.trial, "phase": found.phase, "window": found.window}
    return doc.Row(doc.Cell((row.row.label, doc.badges(row.row.trial))), cells, window)
