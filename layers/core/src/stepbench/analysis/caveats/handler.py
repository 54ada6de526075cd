"""What a measured function did wrong: errors, events that it never processed, and those that it processed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.windows import windows_with
from stepbench.contracts.result import Caveat
from stepbench.digits import count, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings

_SHOWN = 3
LOG_REMEDY = "Look at the function's log of that time."


def find_never_processed(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events that arrived, and that the measured function had not processed by the drain limit."""
    failed = findings.total("failed_in_handler")
    if not failed:
        return
    limit = f"{evidence.spec.offered.drain_limit_s:g} s"
    text = f"{counted(failed, 'event')} arrived, and {limit} after the last acknowledgement no invocation had "
    given_up = sum(window.handler.given_up for window in findings.windows if window.handler)
    text += "processed them" + (f"; Lambda gave up {count(given_up)}." if given_up else ".")
    function = evidence.spec.offered.target.function
    attempts = f"{function.attempts} at present" if function else "as many as the plan says"
    remedy = f"{LOG_REMEDY} If a later try would do, raise target.function.attempts ({attempts}) and drain_limit_s."
    joined = evidence.joined
    about = windows_with(findings.measured_windows, joined.arrived & ~joined.processed)
    yield Caveat(kind="never_processed", text=text, remedy=remedy, windows=about)


def find_handler_errors(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report invocations of the measured function that failed or never ended."""
    joined, handlers = evidence.joined, [window.handler for window in findings.windows if window.handler]
    errors: dict[str, int] = {}
    for handler in handlers:
        for name, number in handler.errors.items():
            errors[name] = errors.get(name, 0) + number
    if partly := sum(handler.partly_failed for handler in handlers):
        errors["partial batch failures"] = partly
    if not errors or joined.processing is None:
        return
    first = sorted(errors.items(), key=lambda each: -each[1])
    names = ", ".join(f"{name} {count(number)}" for name, number in first[:_SHOWN])
    more = ", …" if len(first) > _SHOWN else ""
    never = sum(handler.never_ended for handler in handlers)
    text = f"{counted(sum(errors.values()), 'invocation')} of the measured function failed ({names}{more})"
    text += f", of which {count(never)} never ended" if never else ""
    text += f"; {counted(sum(handler.failed_once for handler in handlers), 'event')} had to be tried again."
    remedy = f"{LOG_REMEDY} Time to processed has the wait for the next try in it, handler time the failed try."
    about = windows_with(findings.measured_windows, np.not_equal(joined.processing.failed, 0))
    yield Caveat(kind="handler_errors", text=text, remedy=remedy, windows=about)


def find_processed_twice(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report events that the measured function processed more than once."""
    if (twice := findings.total("processed_twice")) and (processing := evidence.joined.processing):
        text = f"Processed again, after the first time: {counted(twice, 'event')}, each time counted."
        remedy = "The first time counts. Triggers deliver at least once: see that the function may do an event twice."
        about = windows_with(findings.measured_windows, np.not_equal(processing.again, 0))
        yield Caveat(kind="processed_twice", text=text, remedy=remedy, windows=about)
