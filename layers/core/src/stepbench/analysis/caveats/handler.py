"""What a measured function did wrong: errors, events that it never processed, and those that it processed again."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.handler import FURTHER_APART, given_up, measured_failures
from stepbench.analysis.latency import NS_PER_MS
from stepbench.analysis.windows import windows_with
from stepbench.contracts.result import Caveat
from stepbench.digits import count, counted, latency, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings

_SHOWN = 3
_COARSE_NS = 100_000
LOG_REMEDY = "Look at the function's log of that time."


def find_never_processed(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events that arrived, and that the measured function had not processed by the drain limit."""
    failed = findings.total("failed_in_handler")
    if not failed:
        return
    limit = f"{evidence.spec.offered.drain_limit_s:g} s"
    text = f"{counted(failed, 'event')} arrived, and {limit} after the last acknowledgement no invocation had "
    unprocessed = evidence.joined.failed_in_handler(evidence.cut_off_ns)
    lost = int(np.count_nonzero(np.isin(np.nonzero(unprocessed)[0], given_up(evidence))))
    text += "processed them" + (f"; Lambda gave up {count(lost)}." if lost else ".")
    function = evidence.spec.offered.target.function
    attempts = f"{function.attempts} at present" if function else "as many as the plan says"
    remedy = f"{LOG_REMEDY} If a later try would do, raise target.function.attempts ({attempts}) and drain_limit_s."
    about = windows_with(findings.measured_windows, unprocessed)
    yield Caveat(kind="never_processed", text=text, remedy=remedy, windows=about)


def find_handler_errors(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report invocations of the measured function that failed or never ended."""
    processing, found = evidence.joined.processing, measured_failures(evidence)
    if processing is None or not (found.errors or found.partly_failed):
        return
    clauses = [_describe_errors(found.errors)] if found.errors else []
    if found.partly_failed:
        clauses.append(f"{counted(found.partly_failed, 'invocation')} named records of the batch as failed")
    clauses.append(f"{counted(found.failed_once, 'event')} failed at least once")
    text = f"{'; '.join(clauses)}."
    remedy = f"{LOG_REMEDY} Time to processed has the wait for the next try in it, handler time the failed try."
    about = windows_with(findings.measured_windows, np.not_equal(processing.failed, 0))
    yield Caveat(kind="handler_errors", text=text, remedy=remedy, windows=about)


def _describe_errors(errors: Mapping[str, int]) -> str:
    """Return how many invocations failed or never ended, and of what most of them."""
    names = ", ".join(f"{name} {count(number)}" for name, number in islice(errors.items(), _SHOWN))
    others = sum(islice(errors.values(), _SHOWN, None))
    more = f", and {count(others)} of {counted(len(errors) - _SHOWN, 'other type')}" if others else ""
    return f"{counted(sum(errors.values()), 'invocation')} of the measured function failed ({names}{more})"


def find_throttles(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report invocations of the measured function that Lambda refused for want of concurrency."""
    metrics, function = evidence.collection and evidence.collection.metrics, evidence.spec.offered.target.function
    if function is None or not metrics or not metrics.throttles:
        return
    text = (
        f"Lambda throttled the measured function {counted(metrics.throttles, 'time')} up to {moment(metrics.until)}, "
        "when CloudWatch's values end: no concurrency was left for an invocation. Events waited for the next try, and "
        "their latencies have that wait in them."
    )
    reserved = f"target.function.reserved_concurrency ({function.reserved_concurrency} at present)"
    account = "the account's concurrency, or reserve some of it (target.function.reserved_concurrency)"
    limit = reserved if function.reserved_concurrency else account
    yield Caveat(kind="throttled", text=text, remedy=f"Raise {limit}; or offer fewer a second.")


def find_platform_times(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report whose times t4 and t5 are, where they are Lambda's own."""
    function = evidence.spec.offered.target.function
    if function is None or function.times != "platform":
        return
    text = (
        "t4 and t5 are of Lambda's own log lines: t4 is when the invocation began in its sandbox, in whole "
        "milliseconds and before the handler's first statement; t5 is the duration after it, with the work of the "
        "runtime and of extensions. Which event an invocation was of is found by the order of sends and starts."
    )
    remedy = 'For the handler\'s own times in nanoseconds use target.function.times "layer" or "own".'
    yield Caveat(kind="platform_times", text=text, remedy=remedy)


def find_coarse_times(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report a function whose clock is so coarse that it shows in its times."""
    runs = evidence.records.items.runs
    if runs is None or runs.resolution_ns <= _COARSE_NS:
        return
    text = (
        f"The measured function's clock is as coarse as {latency(runs.resolution_ns / NS_PER_MS)}: t4 and t5 may be "
        "off by that much."
    )
    remedy = "Take no smaller difference for one; a newer version of the runtime may have a finer clock."
    yield Caveat(kind="coarse_times", text=text, remedy=remedy)


def find_unpaired_events(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events that have arrived, though it is not known by which invocation."""
    if not (unpaired := findings.total("unpaired")):
        return
    text = (
        f"{count(unpaired)} of {counted(findings.total('received'), 'event')} that arrived have no latency of their "
        "own: each other's invocations could be theirs. They are in every count, and in handler times. Slow ones are "
        "more often among them, so that the quantiles of the others are rather too low."
    )
    about = windows_with(findings.measured_windows, evidence.joined.unpaired)
    yield Caveat(kind="unpaired_events", text=text, remedy=FURTHER_APART, windows=about)


def find_processed_twice(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events that the measured function processed more than once."""
    if (twice := findings.total("processed_twice")) and (processing := evidence.joined.processing):
        text = f"Processed again, after the first time: {counted(twice, 'event')}, each time counted."
        remedy = "The first time counts. Triggers deliver at least once: see that the function may do an event twice."
        about = windows_with(findings.measured_windows, np.not_equal(processing.again, 0))
        yield Caveat(kind="processed_twice", text=text, remedy=remedy, windows=about)
