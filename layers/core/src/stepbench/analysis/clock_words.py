"""What a clock check lets one conclude, and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.report import digits

if TYPE_CHECKING:
    from stepbench.contracts.measures import Estimate, Ks
    from stepbench.contracts.result import Clock


def conclusion(ks: Ks | None, shift: Estimate, clock: Clock) -> str:
    """
    On the distributions, then on their medians.

    Args:
        ks: of the two samples; None where one of them measured nothing.
        shift: median with several sandboxes minus median with one, in ms.
        clock: offset of the several sandboxes' clocks, with its bound.
    """
    return f"{_of_distributions(ks, shift)} {_of_medians(shift, clock)}"


def elsewhere(name: str, events: int, same: int) -> str:
    """What spoils the check, to be said first; nothing where all was as it should be."""
    if same == events:
        return ""
    which = f"{events - same} of the {events} events of {name} were not received by the sandbox that wrote them"
    return f"{which}: two clocks stamped them, and they are in these numbers. "


def _of_distributions(ks: Ks | None, shift: Estimate) -> str:
    if ks is None:
        return "One of the two trials measured nothing, so there is nothing to compare."
    events = f"{ks.n} against {ks.m} events"
    if ks.d > ks.critical_d:
        return f"{events} do tell the two apart (D {ks.d:.3f} > {ks.critical_d:.3f}, {digits.p_value(ks.p_value)})."
    text = f"{events} do not tell the two apart (D {ks.d:.3f} ≤ {ks.critical_d:.3f}, {digits.p_value(ks.p_value)});"
    text += " that is not proof that they are equal"
    unseen_ms = _reach(shift)
    if unseen_ms is None:
        return f"{text}, and how large a difference would go unseen is not known."
    return f"{text}: a difference of medians up to {digits.latency(unseen_ms)} would go unseen."


def _of_medians(shift: Estimate, clock: Clock) -> str:
    if shift.value is None:
        return f"Their medians cannot be compared ({shift.reason})."
    medians = f"The medians differ by {digits.shown(shift)}"
    if shift.low is None or shift.high is None:
        return f"{medians}, without an interval that could be held against the clocks."
    if clock.offset_ms is None or clock.bound_ms is None:
        return f"{medians}; the clocks' offset was not measured, so nothing bounds what they may add to it."
    low, high = clock.offset_ms - clock.bound_ms, clock.offset_ms + clock.bound_ms
    offset = f"the clocks' measured offset ({digits.offset(clock.offset_ms, clock.bound_ms)})"
    if low <= shift.low and shift.high <= high:
        return f"{medians}, all of which {offset} could explain: nothing here speaks against the clocks' bound."
    if shift.high < low or high < shift.low:
        return (
            f"{medians}, which {offset} does not explain: the paths differ too (the one sandbox is warm from its "
            "write, and can receive only once that invocation has ended), or the clocks are further apart than "
            "measured."
        )
    return f"{medians}; {offset} could explain a part of that interval, and the events are too few to tell."


def _reach(shift: Estimate) -> float | None:
    if shift.low is None or shift.high is None:
        return None
    return max(abs(shift.low), abs(shift.high))
