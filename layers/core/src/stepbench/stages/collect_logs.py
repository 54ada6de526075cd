"""
Task `CollectLogs`: the REPORT lines of the trial's functions, page by page, into the bucket.

The receiver's log is read minute by minute: above 100,000 invocations only every n-th minute. Where the plan's `log_t4`
asks for it, the arrivals that receivers or watchers printed are collected beside them, every minute of them; of
transfers the reads that their processes printed, functions and tasks. Logs come late, so all are read again until there
is a line for everything that was recorded, for 5 minutes at most. Then CloudWatch is asked once for the metrics of a
measured function's copy. Last, the trial's messages are taken from the on-failure queues (`stages.refused_deliveries`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from stepbench.contracts.base import Contract
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import TrialRef, TrialSpec
from stepbench.contracts.tasks import CollectLogsInput, CollectLogsOutput, PreparedTarget
from stepbench.drivers.receivers.metrics import read_function_metrics
from stepbench.drivers.receivers.source import copy_name
from stepbench.experiments.registry import experiment_of
from stepbench.records.formats.second_sources import PATTERN, LogCollection, ReportPage, parse_reports
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import T4Page
from stepbench.stages.function_log import take_in
from stepbench.stages.log_pages import PAGE_EVENTS, read_page
from stepbench.stages.refused_deliveries import collect_refused

if TYPE_CHECKING:
    from stepbench.contracts.invocations import FunctionMetrics
    from stepbench.experiments.protocol import Logs
    from stepbench.services import Services

MEASURED = "MeasuredFunction"
"""Stands for the copy of a function of the user's own, whose log group is named after the trial."""
MAX_INVOCATIONS = 100_000
SLICE_MS = 60_000
LATE_NS = 300_000_000_000
BUDGET_NS = 5_000_000_000
"""How long one call goes on; Step Functions waits and calls again."""
_UNKNOWN_START_MS = 3_600_000
_MARGIN_MS = 5_000
_OWN_MARGIN_MS = 500
"""The margin where only the time shows whose invocation it was: an earlier trial's last one ended a second before."""


class _Cursor(Contract):
    """
    The content of the opaque token: where to read on. `every`: see `LogCollection`.

    `function` counts through the functions, of which `receiver` is the first; past their end come the records that
    were printed into `line_groups`. `calls`: see `LogCollection`.
    """

    function: int = 0
    slice: int = 0
    page: int = 0
    next: str = ""
    resume_ms: int = 0
    from_ms: int
    to_ms: int
    every: int
    deadline_ns: int
    line_groups: tuple[str, ...] = ()
    receiver: str
    functions: tuple[str, ...]
    calls: int = 0
    measured_pattern: str = PATTERN
    """Of a measured function's log: all lines where Lambda's own are JSON."""

    @property
    def done(self) -> bool:
        return self.function >= len(self.functions) + len(self.line_groups)

    @property
    def reads_lines(self) -> bool:
        return self.function >= len(self.functions)

    @property
    def name(self) -> str:
        if self.reads_lines:
            return self.line_groups[self.function - len(self.functions)]
        return self.functions[self.function]

    def group(self, prefix: str, tag: str) -> str:
        if self.reads_lines:
            return self.name
        name = copy_name(tag, prefix) if self.name == MEASURED else f"{prefix}-{self.name}"
        return f"/aws/lambda/{name}"

    @property
    def report_pattern(self) -> str:
        return self.measured_pattern if self.name == MEASURED else PATTERN

    @property
    def own_from_ms(self) -> int:
        """Return from when on all is the trial's own, unless another run is there."""
        return self.from_ms + _MARGIN_MS - _OWN_MARGIN_MS

    @property
    def sliced(self) -> bool:
        return self.name.rpartition("-")[2] == self.receiver  # of its log group as well

    @property
    def stride(self) -> int:
        """Return every how many-th minute is read; to sample lines of records is the plan's business."""
        return 1 if self.reads_lines else self.every

    def span_ms(self) -> tuple[int, int]:
        """Return from and to of the slice; both included."""
        if not self.sliced:
            begin = self.from_ms if self.reads_lines else self.own_from_ms  # such lines name their trial
            return max(begin, self.resume_ms), self.to_ms
        begin = self.from_ms + self.slice * SLICE_MS
        return max(begin, self.resume_ms), min(begin + SLICE_MS - 1, self.to_ms)

    def after(self, answer: dict[str, Any]) -> _Cursor:
        """Return the page that follows."""
        events, token = answer.get("events", ()), str(answer.get("nextToken", ""))
        if token:
            return self.model_copy(update={"page": self.page + 1, "next": token})
        if len(events) >= PAGE_EVENTS:  # some of the last millisecond's are read twice, and count once
            latest_ms = max(event["timestamp"] for event in events)
            resume_ms = max(latest_ms, self.resume_ms + 1)
            return self.model_copy(update={"page": self.page + 1, "next": "", "resume_ms": resume_ms})
        following = self.slice + self.stride
        if self.sliced and self.from_ms + following * SLICE_MS <= self.to_ms:
            return self.model_copy(update={"slice": following, "page": 0, "next": "", "resume_ms": 0})
        return self.at_function(self.function + 1)

    def at_function(self, function: int) -> _Cursor:
        """Return the first page of a function."""
        return self.model_copy(update={"function": function, "slice": 0, "page": 0, "next": "", "resume_ms": 0})


def collect_logs(task: CollectLogsInput, services: Services) -> CollectLogsOutput:
    """
    Read some pages.

    Raises:
        RecordsUnavailableError: the logs, the table or the bucket do not answer.
    """
    began_ns = services.clock.now_ns()
    spec = services.trial(task.ref)
    logs = experiment_of(spec.plan.experiment).staging.logs(spec.plan)
    cursor = _resume(task.token) or _begin(spec, logs, services, began_ns)
    cursor = cursor.model_copy(update={"calls": cursor.calls + 1})
    while not cursor.done:
        following = _read_page(task.ref, cursor, logs, services)
        if following is None or services.clock.now_ns() - began_ns > BUDGET_NS:
            return CollectLogsOutput(done=False, token=(following or cursor).model_dump_json())
        cursor = following
    take_in(spec, services)
    collection = _compare(task.ref, cursor, logs, services)
    measured = spec.plan.target.function is not None
    log_is_gone = measured and services.runs.find_bytes(layout.trial_key(task.ref, "removed.json")) is not None
    waiting = cursor.every == 1 and collection.seen < collection.expected and not log_is_gone
    if (waiting or collection.t4_seen < collection.t4_expected) and services.clock.now_ns() < cursor.deadline_ns:
        return CollectLogsOutput(done=False, token=cursor.at_function(0).model_dump_json())
    if measured:
        take_in(spec, services, anew=True)
        collection = _compare(task.ref, cursor, logs, services)
        collection = collection.model_copy(update={"metrics": _read_metrics(spec, cursor, collection, services)})
    collect_refused(task.ref, services)
    services.runs.put_model(layout.trial_key(task.ref, "logs/collection.json"), collection)
    return CollectLogsOutput(done=True, token="")


def _read_metrics(
    spec: TrialSpec, cursor: _Cursor, collection: LogCollection, services: Services
) -> FunctionMetrics | None:
    """Return what CloudWatch has of the copy by now; None on emulators."""
    if services.settings.emulator:
        return None
    name = copy_name(spec.tag, services.settings.function_prefix)
    span_s = cursor.from_ms // 1_000, services.clock.now_ns() // 1_000_000_000
    streamed = spec.plan.target.delivers_batches
    found = read_function_metrics(services.aws, name, span_s, streamed=streamed)
    return found.model_copy(update={"recorded": collection.expected})


def _resume(token: str) -> _Cursor | None:
    """Return where to read on; None without a token, and of one of another version's: an update begins anew."""
    try:
        return _Cursor.model_validate_json(token) if token else None
    except ValidationError:
        return None


def _begin(spec: TrialSpec, logs: Logs, services: Services, now_ns: int) -> _Cursor:
    ref, function = spec.ref, spec.plan.target.function
    prefix = services.settings.function_prefix
    expected = logs.recorded(ref, services.runs, services.table)[0].total()
    return _Cursor(
        from_ms=_trial_start_ms(ref, services, now_ns) - _MARGIN_MS,
        to_ms=now_ns // 1_000_000 + _MARGIN_MS,
        every=-(-expected // MAX_INVOCATIONS) or 1,
        deadline_ns=now_ns + LATE_NS,
        line_groups=tuple(each.format(prefix=prefix) for each in logs.line_groups),
        receiver=logs.functions[0],
        functions=logs.functions,
        measured_pattern="" if function is not None and function.times == "platform" else PATTERN,
    )


def were_shared(run_id: str, since_ns: int, services: Services) -> bool:
    """Return whether another run holds a target, or has held one since, and so is in the same functions' logs."""
    ended = services.table.beats(layout.HOLDERS).items()
    others = {who for who, beat in ended if int(beat["at_ns"]) >= since_ns}
    return bool({*others, *(lease.run_id for lease in services.table.leases())} - {run_id})


def _trial_start_ms(ref: TrialRef, services: Services, now_ns: int) -> int:
    """
    Return when the trial took its lease; where nobody knows, an hour before its first phase's start, or before now.

    The lease of one that was stopped is gone; with the hour, each run before it would have shared its functions.
    """
    prepared = services.runs.find_model(layout.trial_key(ref, "made.json"), PreparedTarget)
    if prepared is not None and prepared.taken_at_ns:
        return prepared.taken_at_ns // 1_000_000
    for lease in services.table.leases():
        if lease.tag == ref.tag:
            return lease.taken_at_ns // 1_000_000
    schedule = services.runs.find_model(layout.phase_key(ref, 0, "plan.json"), PhaseSchedule)
    return (schedule.start_at_ns if schedule else now_ns) // 1_000_000 - _UNKNOWN_START_MS


def _read_page(ref: TrialRef, cursor: _Cursor, logs: Logs, services: Services) -> _Cursor | None:
    """Store one page; the cursor of the next, or None where CloudWatch asks for patience."""
    answer = _request_page(ref, cursor, logs, services)
    if answer is None:
        return None
    events, place = answer.get("events", ()), f"{cursor.slice:06d}-{cursor.page:04d}.json"
    if cursor.reads_lines:
        place = f"{cursor.function:02d}-{place}"
        page = T4Page(lines=tuple(event["message"] for event in events))
        if page.lines:
            services.runs.put_model(layout.trial_key(ref, f"t4-logs/{place}"), page)
    elif lines := parse_reports(events):
        key = layout.trial_key(ref, f"logs/{cursor.name}/{place}")
        services.runs.put_model(key, ReportPage(function=cursor.name, lines=lines))
    return cursor.after(answer)


def _request_page(ref: TrialRef, cursor: _Cursor, logs: Logs, services: Services) -> dict[str, Any] | None:
    from_ms, to_ms = cursor.span_ms()
    pattern = logs.pattern(ref.tag) if cursor.reads_lines else cursor.report_pattern
    more = {**({"filterPattern": pattern} if pattern else {}), **({"nextToken": cursor.next} if cursor.next else {})}
    asked = {"startTime": from_ms, "endTime": to_ms, **more}
    return read_page(cursor.group(services.settings.function_prefix, ref.tag), asked, services)


def _compare(ref: TrialRef, cursor: _Cursor, logs: Logs, services: Services) -> LogCollection:
    expected, wanted = logs.recorded(ref, services.runs, services.table)
    keys = services.runs.keys(layout.trial_key(ref, f"logs/{cursor.receiver}/"))
    lines = (line for key in keys for line in services.runs.get_model(key, ReportPage).lines)
    seen = Counter(request_id for request_id, _ in {(line.request_id, line.at_ms) for line in lines})
    return LogCollection(
        every=cursor.every,
        expected=expected.total(),
        seen=(expected & seen).total(),
        t4_expected=len(wanted),
        t4_seen=len(wanted & logs.printed(ref, services.runs)) if wanted else 0,
        calls=cursor.calls,
        shared=were_shared(ref.run_id, cursor.own_from_ms * 1_000_000, services),
    )
