"""
Task `CheckPrecision`: whether a phase with `until` is sure enough to end; if so, fix when.

With `abort_on_fail`, also whether one cannot keep to a threshold any more: then it ends as well, and those after it are
passed over.

Load goes on meanwhile, and ends at a time that lies far enough ahead for every writer to have seen it. That time
stands in the results table and nowhere else, so that writers and analysis cannot differ; it is never changed.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.impossible import check_pause_s, find_impossible
from stepbench.analysis.precision import first_look_s, next_look_s, take_look
from stepbench.contracts.phase import MAX_PRECISION_CHECKS, PhaseSchedule, PrecisionLooks
from stepbench.contracts.tasks import CheckPrecisionInput, CheckPrecisionOutput
from stepbench.records.join.reader import read_records
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.join.joined import Joined
    from stepbench.services import Services

STOP_LEAD_S = 10.0
"""Writers look once a second; a look takes some milliseconds, on a laptop with more to do than it can seconds."""
SILENT_S = 60.0
"""Writers give a sign of life every second."""
_SECOND_NS = 10**9


class _Seen(NamedTuple):
    """A phase of a trial, and its records so far, as they were read at `now_ns`."""

    spec: TrialSpec
    phase: int
    start_ns: int
    now_ns: int
    joined: Joined


def check_precision(task: CheckPrecisionInput, services: Services) -> CheckPrecisionOutput:
    """
    Look once, if it is time to; Step Functions waits until `next_at` and calls again until `done`.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: table or bucket do not answer.
    """
    spec = services.trial(task.ref)
    phase = spec.offered.phases[task.phase]
    start_ns = services.runs.get_model(layout.phase_key(task.ref, task.phase, "plan.json"), PhaseSchedule).start_at_ns
    looks_key = layout.phase_key(task.ref, task.phase, "until.json")
    looks = services.runs.find_model(looks_key, PrecisionLooks) or PrecisionLooks()
    now_s = (services.clock.now_ns() - start_ns) / _SECOND_NS
    if not spec.may_end_early(task.phase) or looks.reason is not None:
        return _answer(start_ns, now_s, done=True)
    looks = _close(looks, spec, task, services, now_s)
    if looks.reason is None and now_s < _next_s(spec, task.phase, looks):
        return _answer(start_ns, _next_s(spec, task.phase, looks), done=False)
    if looks.reason is None:
        seen = _read(spec, task.phase, start_ns, services)
        look_due = phase.until is not None and now_s >= _next_look_s(phase, looks)
        if spec.may_abort(task.phase):
            looks = _check_thresholds(looks, seen, services)
        if looks.reason is None and look_due:
            looks = _add_look(looks, seen, services)
    services.runs.put_model(looks_key, looks)
    return _answer(start_ns, _next_s(spec, task.phase, looks), done=looks.reason is not None)


def _close(
    looks: PrecisionLooks, spec: TrialSpec, task: CheckPrecisionInput, services: Services, now_s: float
) -> PrecisionLooks:
    """Close the looks with a reason, where there is one that needs no look."""
    if services.table.stop_at_ns(spec.tag, task.phase) is not None:
        reason = "impossible" if looks.impossible else "sure"
        return looks.model_copy(update={"reason": reason})  # an earlier call fixed it, and could not say so
    if services.table.flag(spec.tag, layout.CANCELLED) is not None:
        return looks.model_copy(update={"reason": "cancelled"})
    if now_s >= spec.offered.phases[task.phase].length_s:
        return looks.model_copy(update={"reason": "max_events"})
    return looks


def _read(spec: TrialSpec, phase: int, start_ns: int, services: Services) -> _Seen:
    now_ns = services.clock.now_ns()
    return _Seen(spec, phase, start_ns, now_ns, read_records(spec, services.runs, services.table).joined)


def _check_thresholds(looks: PrecisionLooks, seen: _Seen, services: Services) -> PrecisionLooks:
    """End the load where a threshold cannot be kept any more; what shows it is stored before the end is fixed."""
    spec, phase, start_ns, now_ns, joined = seen
    looks = looks.model_copy(update={"checked_at_s": (now_ns - start_ns) / _SECOND_NS})
    found = find_impossible(spec, joined, phase, start_ns, now_ns)
    if found is None:
        return looks
    looks = looks.model_copy(update={"impossible": tuple(found)})
    services.runs.put_model(layout.phase_key(spec.ref, phase, "until.json"), looks)
    _end(seen, services)
    return looks.model_copy(update={"reason": "impossible"})


def _end(seen: _Seen, services: Services) -> None:
    """Fix when the load ends, unless it does so by itself before every writer has seen it."""
    stop_at_ns = services.clock.now_ns() + round(STOP_LEAD_S * _SECOND_NS)
    if stop_at_ns < seen.start_ns + seen.spec.offered.phases[seen.phase].length_s * _SECOND_NS:
        services.table.set_stop(seen.spec.tag, seen.phase, stop_at_ns)


def _add_look(looks: PrecisionLooks, seen: _Seen, services: Services) -> PrecisionLooks:
    spec, phase, start_ns, now_ns, joined = seen
    planned = spec.offered.phases[phase]
    found = take_look(joined, spec.offered, phase, start_ns, now_ns)
    looks = looks.model_copy(update={"looks": (*looks.looks, found)})
    width = math.inf if found.relative_width is None else found.relative_width
    if planned.until is not None and width <= planned.until.relative_width:
        _end(seen, services)
        return looks.model_copy(update={"reason": "sure"})
    if not _any_writer_alive(spec, phase, services):
        return looks.model_copy(update={"reason": "writers_gone"})
    return looks


def _any_writer_alive(spec: TrialSpec, phase: int, services: Services) -> bool:
    since_ns = services.clock.now_ns() - round(SILENT_S * _SECOND_NS)
    of_phase = f"writer#{phase:02x}-"
    beats = services.table.beats(spec.tag).items()
    return any(who.startswith(of_phase) and int(beat["at_ns"]) > since_ns for who, beat in beats)


def _next_s(spec: TrialSpec, phase: int, looks: PrecisionLooks) -> float:
    """Return when to call again, in seconds from the phase's start: at the end of its load at the latest."""
    planned = spec.offered.phases[phase]
    look_s = planned.length_s if planned.until is None else _next_look_s(planned, looks)
    check_s = looks.checked_at_s + check_pause_s(spec, phase) if spec.may_abort(phase) else planned.length_s
    return min(look_s, check_s, planned.length_s)


def _next_look_s(phase: Phase, looks: PrecisionLooks) -> float:
    """Return when to look next how well the quantile is known."""
    if not looks.looks:
        return min(first_look_s(phase), phase.length_s)
    if len(looks.looks) >= MAX_PRECISION_CHECKS:
        return phase.length_s
    return min(next_look_s(phase, looks.looks[-1].at_s), phase.length_s)


def _answer(start_ns: int, next_s: float, *, done: bool) -> CheckPrecisionOutput:
    # Late rather than early, when there would be nothing to see yet: a Wait state cuts its time stamp to the second.
    at_s = math.ceil(start_ns / _SECOND_NS + next_s + 0.001)
    return CheckPrecisionOutput(done=done, next_at=datetime.fromtimestamp(at_s, UTC))
