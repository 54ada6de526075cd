"""
What logs and queues say of what our own records should hold. Pure.

- REPORT lines, which Lambda writes into a function's log group after every invocation.
- Reads of files as their processes print them, one JSON line a read, as soon as it has ended. It depends on no bucket:
  `stepbench.transfer` is the trial's tag, and `row` the row as `TransferRow` dumps it, but without `mib_ns`.
- What Lambda gave up to deliver to the receiver, as it reports to the on-failure queues. A message of an asynchronous
  invocation has its event. One of a stream's batch has only where the batch stands in the stream, whose records have to
  be read there: `Batch`.

Source: AWS Lambda's developer guide, "Capturing records of Lambda asynchronous invocations" and "Retain discarded
records for a DynamoDB event source".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.base import Contract
from stepbench.contracts.identity import UNRESOLVED_PHASE, EventId, parse_event_id
from stepbench.contracts.invocations import FunctionMetrics
from stepbench.contracts.transfer.rows import TransferRow
from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.deliveries import parse_delivery
from stepbench.records.formats.t4 import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


PATTERN = '"REPORT RequestId"'
"""`filterPattern` of FilterLogEvents."""
_MS_MB_PER_GB_S = 1_000 * 1_024
_REQUEST = re.compile(r"^REPORT RequestId: (\S+)")
_FAILURE = re.compile(r"\tStatus: (?:error\tError Type: )?(timeout|\S+\.\S+)")
_FIELD = re.compile(r"\b(Duration|Billed Duration|Init Duration|Memory Size|Max Memory Used): ([\d.]+) (?:ms|MB)")


class ReportLine(Contract):
    """
    One invocation. `init_ms` only where it was a cold start, `failure` only where Lambda ended it (not by emulators).

    at_ms: the log event's own time, since the epoch: a retry of an asynchronous invocation has its first try's request
    id, and a time of its own. 0 of lines that were stored without. failure: `timeout`, or an error type such as
    `Runtime.OutOfMemory`.
    """

    request_id: str
    at_ms: int = 0
    duration_ms: float
    billed_ms: float
    memory_mb: int
    max_memory_mb: int | None
    init_ms: float | None = None
    failure: str = ""

    @property
    def gb_s(self) -> float:
        """Return the billed time times the memory, in GB-seconds."""
        return self.billed_ms * self.memory_mb / _MS_MB_PER_GB_S


class ReportPage(Contract):
    """The content of one page of FilterLogEvents; stored as `logs/<function>/<slice>-<page>.json`."""

    function: str
    lines: tuple[ReportLine, ...]


class LogCollection(Contract):
    """The end of a collection; stored as `logs/collection.json`."""

    every: int
    """Every so many-th of the receiver's minutes was read; 1 = all."""
    expected: int
    """Invocations of the receivers by their t4 items, each try of a request by itself."""
    seen: int
    """So many of the expected invocations have a REPORT line."""
    t4_expected: int = 0
    """Request ids of all t4 items that the trial's `log_t4` wants in the log."""
    t4_seen: int = 0
    """So many of these ids have a t4 line."""
    calls: int = 1
    """How often CollectLogs was called."""
    shared: bool = False
    """Another run held a target between the trial's lease and the collection's end: it is in the same logs."""
    others: tuple[str, ...] = ()
    """In place of `shared`, of earlier versions: those runs."""
    metrics: FunctionMetrics | None = None
    """Of a measured function's copy; None on emulators, which have none."""


def parse_report(message: str) -> ReportLine | None:
    """Parse the line's numbers, as text or as JSON; return None for any other line."""
    if message.startswith("{"):
        return _parse_json_report(message)
    request = _REQUEST.match(message)
    # Fields are tab-separated, so "Billed Duration" is not also read as "Duration".
    found = (_FIELD.match(part.strip()) for part in message.split("\t"))
    fields = {field[1]: float(field[2]) for field in found if field is not None}
    if request is None or "Duration" not in fields:
        return None
    return ReportLine(
        request_id=request[1],
        duration_ms=fields["Duration"],
        billed_ms=fields.get("Billed Duration", fields["Duration"]),
        memory_mb=int(fields.get("Memory Size", 0)),
        max_memory_mb=int(fields["Max Memory Used"]) or None if "Max Memory Used" in fields else None,
        init_ms=fields.get("Init Duration"),
        failure=failure[1] if (failure := _FAILURE.search(message)) else "",
    )


def _parse_json_report(message: str) -> ReportLine | None:
    try:
        line = json.loads(message)
        if line["type"] != "platform.report":
            return None
        record, metrics = line["record"], line["record"]["metrics"]
        status, kind = record.get("status", "success"), str(record.get("errorType", ""))
        return ReportLine(
            request_id=record["requestId"],
            duration_ms=metrics["durationMs"],
            billed_ms=metrics.get("billedDurationMs", metrics["durationMs"]),
            memory_mb=int(metrics.get("memorySizeMB", 0)),
            max_memory_mb=int(metrics.get("maxMemoryUsedMB", 0)) or None,
            init_ms=metrics.get("initDurationMs"),
            failure="timeout" if status == "timeout" else kind if "." in kind else "",  # those that Lambda ended
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # the function's own, whatever it looks like


def parse_reports(events: Iterable[dict[str, Any]]) -> tuple[ReportLine, ...]:
    """Parse the REPORT lines among the `events` of a FilterLogEvents answer."""
    found = ((parse_report(event["message"]), event.get("timestamp", 0)) for event in events)
    return tuple(line.model_copy(update={"at_ms": at_ms}) for line, at_ms in found if line is not None)


MARK = "stepbench.transfer"


def transfer_filter(tag: str) -> str:
    """Return the `filterPattern` that finds the lines of one trial; a function serves all of the stack."""
    return f'"{MARK}" "{tag}"'


def transfer_line(tag: str, row: TransferRow) -> str:
    """Return the line of one read."""
    return json.dumps({MARK: tag, "row": row.model_dump(mode="json", exclude={"mib_ns"})})


def parse_transfer_line(line: str) -> tuple[str, TransferRow]:
    """
    Return the trial's tag and the row, whose `mib_ns` is empty.

    Raises:
        CorruptRecordsError: the line is none of these.
    """
    try:
        found = json.loads(line)
        return str(found[MARK]), TransferRow.model_validate(found["row"])
    except (ValueError, KeyError, TypeError) as error:
        message = f"a log line with {MARK} cannot be read: {error}"
        raise CorruptRecordsError(message) from error


_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)


class RefusedDelivery(Contract):
    """
    One delivery that was given up.

    message_id: of the queue's message. condition: why Lambda gave it up, such as `RetriesExhausted`,
    `RetryAttemptsExhausted` or `EventAgeExceeded`. error: what the function failed with; empty if it was not invoked.
    records: how many it had. events: the trial's events among them, as `EventId.text`; of a batch whose stream can be
    read no more, and of an S3 object that is known by its version, there is none.
    """

    message_id: str
    condition: str
    error: str = ""
    records: int
    events: tuple[str, ...] = ()

    def entries(self) -> Iterator[Entry]:
        """Yield its events as they would have been recorded, with times 0."""
        for event in filter(None, map(parse_event_id, self.events)):
            yield Entry(event.phase, event.attempt, event.writer, event.slice, 0, event.sequence, 0)


class RefusedDeliveries(Contract):
    """A trial's deliveries that were given up; stored as `refused.json`."""

    deliveries: tuple[RefusedDelivery, ...] = ()


class Batch(NamedTuple):
    """Where a stream's batch stands: sequence numbers of its first and last record, both included."""

    stream_arn: str
    shard_id: str
    first: str
    last: str
    records: int


class Message(NamedTuple):
    """A message of an on-failure queue: `payload` is the event, or else `batch` says where its records are."""

    condition: str
    error: str
    payload: Any
    batch: Batch | None


def parse_message(body: str) -> Message | None:
    """Read a message's body; None where it is none of Lambda's, such as a start that a schedule could not deliver."""
    try:
        message = json.loads(body)
        condition = str(message["requestContext"]["condition"])
        answer = message.get("responsePayload")
        named = answer.get("errorType") if isinstance(answer, dict) else None
        error = str(named or (message.get("responseContext") or {}).get("functionError") or "")
        if "DDBStreamBatchInfo" in message:
            info = message["DDBStreamBatchInfo"]
            place = (str(info["streamArn"]), str(info["shardId"]))
            ends = (str(info["startSequenceNumber"]), str(info["endSequenceNumber"]))
            batch = Batch(*place, *ends, int(info["batchSize"]))
            return Message(condition, error, None, batch)
        return Message(condition, error, message["requestPayload"], None)
    except _UNREADABLE:
        return None


def stream_event(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the event that Lambda makes of a stream's records, as far as it names events."""
    return {
        "Records": [
            {
                "eventSource": "aws:dynamodb",
                "eventName": record["eventName"],
                "dynamodb": {name: record["dynamodb"].get(name, {}) for name in ("Keys", "NewImage")},
            }
            for record in records
        ]
    }


def events_of(event: Any, tag: str) -> tuple[int, tuple[str, ...]] | None:  # noqa: ANN401 -- whatever was delivered
    """Return how many records a delivery had, and the trial's events among them; None where nothing is the trial's."""
    found = parse_delivery(event, 0)
    own = [arrival.entry for arrival in found.arrivals if arrival.tag == tag]
    if not own and not any(removal.tag == tag for removal in found.removals):
        return None
    named = (entry for entry in own if entry.phase != UNRESOLVED_PHASE)
    ids = (EventId(tag, each.phase, each.writer, each.slice, each.attempt, each.sequence) for each in named)
    return found.batch, tuple(each.text() for each in ids)
