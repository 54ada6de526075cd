"""
Task `CollectLogs`: the REPORT lines of the trial's functions, page by page, into the bucket.

The receiver's log is read minute by minute: above 100,000 invocations only every n-th minute. Logs come late, so the
receiver's are read again until there is a line for every request id that the receivers recorded, for 5 minutes at
most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from stepbench.contracts.base import Contract
from stepbench.contracts.tasks import CollectLogsInput, CollectLogsOutput, PhaseSchedule, TrialRef
from stepbench.errors import RecordsUnavailableError
from stepbench.records import layout
from stepbench.records.report_lines import PATTERN, LogCollection, ReportPage, parse_reports

if TYPE_CHECKING:
    from stepbench.stages.services import Services

RECEIVER = "ReceiveEvents"
FUNCTIONS = (
    RECEIVER,
    "RunWriter",
    "WatchChanges",
    "PrepareTarget",
    "AwaitTarget",
    "ScaleTarget",
    "PlanPhase",
    "AwaitArrivals",
)
"""Which functions a trial runs before its logs are read, and so whose logs it reads."""
MAX_INVOCATIONS = 100_000
SLICE_MS = 60_000
LATE_NS = 300_000_000_000
BUDGET_NS = 5_000_000_000
"""How long one call goes on; Step Functions waits and calls again."""
_UNKNOWN_START_MS = 3_600_000
_MARGIN_MS = 5_000
_THROTTLED = frozenset({"ThrottlingException", "LimitExceededException", "TooManyRequestsException"})


class _Cursor(Contract):
    """What the opaque token says: where to read on. `every`: see `LogCollection`."""

    function: int = 0
    slice: int = 0
    page: int = 0
    next: str = ""
    from_ms: int
    to_ms: int
    every: int
    deadline_ns: int

    @property
    def name(self) -> str:
        return FUNCTIONS[self.function]

    @property
    def sliced(self) -> bool:
        return self.name == RECEIVER

    def span_ms(self) -> tuple[int, int]:
        """From and to of the slice; both included."""
        if not self.sliced:
            return self.from_ms, self.to_ms
        begin = self.from_ms + self.slice * SLICE_MS
        return begin, min(begin + SLICE_MS - 1, self.to_ms)

    def after(self, next_token: str) -> _Cursor:
        """The page that follows."""
        if next_token:
            return self.model_copy(update={"page": self.page + 1, "next": next_token})
        following = self.slice + self.every
        if self.sliced and self.from_ms + following * SLICE_MS <= self.to_ms:
            return self.model_copy(update={"slice": following, "page": 0, "next": ""})
        return self.at_function(self.function + 1)

    def at_function(self, function: int) -> _Cursor:
        """The first page of a function."""
        return self.model_copy(update={"function": function, "slice": 0, "page": 0, "next": ""})


def collect_logs(task: CollectLogsInput, services: Services) -> CollectLogsOutput:
    """
    Read some pages.

    Raises:
        RecordsUnavailableError: the logs, the table or the bucket do not answer.
    """
    began_ns = services.clock.now_ns()
    cursor = _Cursor.model_validate_json(task.token) if task.token else _begin(task.ref, services, began_ns)
    while cursor.function < len(FUNCTIONS):
        following = _read_page(task.ref, cursor, services)
        if following is None or services.clock.now_ns() - began_ns > BUDGET_NS:
            return CollectLogsOutput(done=False, token=(following or cursor).model_dump_json())
        cursor = following
    collection = _compare(task.ref, cursor, services)
    waiting = cursor.every == 1 and collection.seen < collection.expected
    if waiting and services.clock.now_ns() < cursor.deadline_ns:
        return CollectLogsOutput(done=False, token=cursor.at_function(0).model_dump_json())
    services.runs.put_model(layout.trial_key(task.ref, "logs/collection.json"), collection)
    return CollectLogsOutput(done=True, token="")


def _begin(ref: TrialRef, services: Services, now_ns: int) -> _Cursor:
    expected = len(_receiver_requests(ref, services))
    return _Cursor(
        from_ms=_trial_start_ms(ref, services, now_ns) - _MARGIN_MS,
        to_ms=now_ns // 1_000_000 + _MARGIN_MS,
        every=-(-expected // MAX_INVOCATIONS) or 1,
        deadline_ns=now_ns + LATE_NS,
    )


def _trial_start_ms(ref: TrialRef, services: Services, now_ns: int) -> int:
    """When the trial took its lease; without one, its first phase's start, or an hour ago."""
    for lease in services.table.leases():
        if lease.tag == ref.tag:
            return lease.taken_at_ns // 1_000_000
    schedule = services.runs.find_model(layout.phase_key(ref, 0, "plan.json"), PhaseSchedule)
    return (schedule.start_at_ns if schedule else now_ns) // 1_000_000 - _UNKNOWN_START_MS


def _read_page(ref: TrialRef, cursor: _Cursor, services: Services) -> _Cursor | None:
    """Store one page; the cursor of the next, or None where CloudWatch asks for patience."""
    answer = _ask(cursor, services)
    if answer is None:
        return None
    lines = parse_reports(answer.get("events", ()))
    if lines:
        key = layout.trial_key(ref, f"logs/{cursor.name}/{cursor.slice:06d}-{cursor.page:04d}.json")
        services.runs.put_model(key, ReportPage(function=cursor.name, lines=lines))
    return cursor.after(str(answer.get("nextToken", "")))


def _ask(cursor: _Cursor, services: Services) -> dict[str, Any] | None:
    from_ms, to_ms = cursor.span_ms()
    group = f"/aws/lambda/{services.settings.function_prefix}-{cursor.name}"
    more = {"nextToken": cursor.next} if cursor.next else {}
    try:
        answer: dict[str, Any] = services.aws("logs").filter_log_events(
            logGroupName=group, startTime=from_ms, endTime=to_ms, filterPattern=PATTERN, **more
        )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ResourceNotFoundException":
            return {}  # a function that never ran has no log group
        if code in _THROTTLED:
            return None
        message = f"cannot read log group {group}: {error}; the report lacks its invocations"
        raise RecordsUnavailableError(message) from error
    return answer


def _compare(ref: TrialRef, cursor: _Cursor, services: Services) -> LogCollection:
    expected = _receiver_requests(ref, services)
    seen: set[str] = set()
    for key in services.runs.keys(layout.trial_key(ref, f"logs/{RECEIVER}/")):
        seen.update(line.request_id for line in services.runs.get_model(key, ReportPage).lines)
    return LogCollection(every=cursor.every, expected=len(expected), seen=len(expected & seen))


def _receiver_requests(ref: TrialRef, services: Services) -> set[str]:
    items = services.table.t4_items(ref.tag)
    return {str(item["sk"]).rpartition("#")[0] for item in items if item["source"] == "receiver"}
