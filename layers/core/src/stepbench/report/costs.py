"""What a run cost, in words and rows: for the page, the terminal and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.report.labels import window_rows

if TYPE_CHECKING:
    from stepbench.contracts.cost import PerDollar
    from stepbench.contracts.result import RunSummary
    from stepbench.report.labels import WindowRow

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
