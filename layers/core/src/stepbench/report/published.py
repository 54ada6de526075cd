"""A published number beside ours, in words that cannot be taken for more than they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.report import digits
from stepbench.report.labels import window_label

if TYPE_CHECKING:
    from stepbench.contracts.result import Estimate, Replication, TrialSummary


def place_words(trial: TrialSummary, *, aws_emulated: bool) -> str:
    """Where our number is from, if it is not from AWS; empty if it is."""
    if trial.emulated:
        return "an emulator's number, not AWS's"
    return "a number of this machine's, not AWS's" if aws_emulated else ""


def replication_sentence(trial: TrialSummary, each: Replication, *, aws_emulated: bool) -> str:
    """The published number, ours for both readings, and where ours is from."""
    window = window_label(trial, each.phase, each.window)
    where = f"{each.metric} of {window}" if len(trial.windows) > 1 else each.metric
    words = (
        f"{where}: published {digits.latency(each.published_ms)} ({each.source}); here "
        f"{_ours(each.latency_ms, each.ratio)} from the write's send and "
        f"{_ours(each.after_ack_ms, each.ratio_after_ack)} from its acknowledgement"
    )
    place = place_words(trial, aws_emulated=aws_emulated)
    return f"{words}. This is {place}." if place else f"{words}."


def _ours(latency: Estimate, ratio: Estimate) -> str:
    if latency.value is None:
        return f"no value ({latency.reason or 'no events'})"
    times = "" if ratio.value is None else f" ({digits.rounded(ratio.value, 2)} times as long)"
    return f"{digits.latency(latency.value)}{times}"
