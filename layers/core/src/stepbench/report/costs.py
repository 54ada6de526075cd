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
    """Say what the run cost, what it was estimated at, and what was dearest; "" of an older summary."""
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
    """Return the rows of the table, the best of each group first."""
    rows = {(row.trial.index, row.window.phase, row.window.name): row for row in window_rows(summary.trials)}
    ordered = sorted(summary.per_dollar, key=lambda each: (each.group, -each.value))
    return tuple(
        PerDollarRow(rows[each.trial, each.phase, each.window], each, each.times_worst is None) for each in ordered
    )


def describe_per_dollar(summary: RunSummary) -> tuple[str, ...]:
    """Return a sentence for each group of windows that may be compared: the best, and how many times the worst."""
    rows = per_dollar_rows(summary)
    groups = [[row for row in rows if row.found.group == group] for group in dict.fromkeys(r.found.group for r in rows)]
    return tuple(
        f"performance per dollar (1 / median / dollars of store and trigger): {group[0].row.label} "
        f"{digits.rounded(group[0].found.times_worst or 1, 2)} times {group[-1].row.label}"
        f"{', emulated, not AWS' if group[0].row.trial.emulated else ''}"
        for group in groups
        if len(group) > 1
    )
