"""A published number beside ours, in words that cannot be taken for more than they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.report import digits
from stepbench.report.labels import window_label

if TYPE_CHECKING:
    from stepbench.contracts.measures import Estimate, Replication
    from stepbench.contracts.result import TrialSummary


def place_words(trial: TrialSummary, *, aws_emulated: bool) -> str:
    """Where our number is from, if it is not from AWS; empty if it is."""
    if trial.emulated:
        return "an emulator's number, not AWS's"
    return "a number of this machine's, not AWS's" if aws_emulated else ""


def replication_sentence(trial: TrialSummary, each: Replication, *, aws_emulated: bool) -> str:
    """The published number, ours (of triggers for both readings), and where ours is from."""
    window = window_label(trial, each.phase, each.window)
    where = f"{each.metric} of {window}" if len(trial.windows) > 1 else each.metric
    over = f" over {each.over}" if each.over else ""
    ours = _ours(each, each.ours, each.ratio)
    if each.ours_after_ack is not None and each.ratio_after_ack is not None:
        after_ack = _ours(each, each.ours_after_ack, each.ratio_after_ack)
        ours = f"{ours} from the write's send and {after_ack} from its acknowledgement"
    words = f"{where}{over}: published {published_number(each)} ({each.source}); here {ours}"
    place = place_words(trial, aws_emulated=aws_emulated)
    return f"{words}. This is {place}." if place else f"{words}."


def published_number(each: Replication) -> str:
    """A time, a rate or a factor as it was published: `above 1,700 ms`, `up to 9 ×`."""  # noqa: RUF002 -- a multiplication sign
    bound = {"above": "above ", "up_to": "up to ", None: ""}[each.bound]
    return f"{bound}{_number(each, each.published)}"


def _number(each: Replication, value: float) -> str:
    if each.unit == "ms":
        return digits.latency(value)
    unit = digits.PER_MINUTE if each.unit == "per_minute" else digits.TIMES
    return f"{digits.rounded(value)} {unit.name}"


def _ours(each: Replication, ours: Estimate, ratio: Estimate) -> str:
    if ours.value is None:
        return f"no value ({ours.reason or 'no events'})"
    if ratio.value is None:
        return _number(each, ours.value)
    than = "that limit" if each.bound else "as long" if each.unit == "ms" else "as much"
    return f"{_number(each, ours.value)} ({digits.rounded(ratio.value, 2)} times {than})"
