"""Numbers as cells of a table: what is written, with unit and interval or why there is none, and the raw values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.measures import Estimate

BEYOND = "> drain limit"
UNITS: Mapping[str, digits.Unit | None] = {
    "ms": None,
    "ratio": digits.TIMES,
    "s": digits.SECONDS_AS_SUCH,
    "per_minute": digits.PER_MINUTE,
    "d": digits.PLAIN,
    "clients": digits.Unit("clients", 1.0),
    "per_s": digits.PER_S,
    "share": digits.Unit("%", 100.0),
    "mib_per_s": digits.MIB_PER_S,
}
"""Units of raw estimates, by the names that scripts read, and how they are shown: None for the fitting unit of time."""


def estimate(
    metric: str, value: Estimate | None, unit: str = "ms", *, shown: digits.Shown | None = None, **data: doc.Value
) -> doc.Cell:
    """
    Return a number with its unit and its interval, or why it has none; a dash for None.

    Args:
        metric: what scripts call it.
        value: in `unit`.
        unit: one of `UNITS`.
        shown: how it is written, if not as numbers of that unit are.
        data: further raw values.
    """
    if value is None:
        return doc.Cell(digits.NONE)
    words = shown or digits.shown(value, UNITS[unit])
    unsure = shown is None and bool(words.value and words.note)
    text = _estimate_text(words, unsure=unsure)
    return doc.Cell(text, _estimate_data(metric, value, unit) | data, "unsure" if unsure else "", str(words))


def _estimate_data(metric: str, value: Estimate, unit: str) -> dict[str, doc.Value]:
    ends = {"value": value.value, "low": value.low, "high": value.high, "reason": value.reason or None}
    return {"metric": metric, **ends, "unit": unit}


def _estimate_text(words: digits.Shown, *, unsure: bool) -> doc.Text:
    shown: list[doc.Text] = []
    if words.value:
        shown.append(
            doc.Span((words.value, doc.Span(f"{digits.NBSP}{words.unit}", "unit") if words.unit else ""), "value")
        )
    if words.interval:
        shown.append(doc.Span(words.interval, "interval"))
    if words.note:
        brief = digits.brief(words.note)
        lead = doc.Span("no interval: ", "more") if unsure else ""
        shown.append(doc.Span((lead, brief), "note", title=words.note if brief != words.note else ""))
    return tuple(shown)


def value(metric: str, raw: doc.Value, text: doc.Text, **data: doc.Value) -> doc.Cell:
    """Return a raw value as it is written."""
    return doc.Cell(text, {"metric": metric, "value": raw, **data})


def number(metric: str, raw: int | None, style: str = "") -> doc.Cell:
    """Return a whole number."""
    return doc.Cell(digits.count(raw), {"metric": metric, "value": raw}, style)


def harm(metric: str, raw: int | None, style: str = "") -> doc.Cell:
    """Return a whole number of what should not have happened; in the `style` where it has not."""
    return number(metric, raw, "bad" if raw else style)


def time(metric: str, value_ms: float | None) -> doc.Cell:
    """Return a time without an interval."""
    return value(metric, value_ms, digits.latency(value_ms), unit="ms")


def p_value(p: float | None) -> doc.Cell:
    """Return a test's probability."""
    return doc.Cell(digits.NONE if p is None else digits.p_value(p), {"metric": "p_value", "value": p})
