"""
Retries of a DynamoDB stream's mapping as on AWS; MiniStack delivers a batch that fails whole, and for ever.

`MaximumRetryAttempts`, `BisectBatchOnFunctionError`, `ReportBatchItemFailures` and the destination of what is given up,
as Lambda's guide has them ("Using Lambda to process records from DynamoDB", "Configuring partial batch response"): a
split does not count as an attempt; after a partial failure all from the lowest listed record on come again, and count
anew once the first of them has moved on; a response that names no record of the batch fails it whole; a batch that has
used up its attempts is passed over, and the destination is sent where it was. `shim.py` loads this by path.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
PARTIAL = "ReportBatchItemFailures"
GIVEN_UP = "RetryAttemptsExhausted"


@dataclass
class Progress:
    """How often a mapping's next batch has failed, and where the parts end into which one was split."""

    attempts: int = 0
    ends: list[int] = field(default_factory=list)

    def limit(self, position: int, batch_size: int) -> int:
        """Return how many records may be read from a position on: no more than are left of a part."""
        self.ends = [end for end in self.ends if end > position]
        return min([batch_size, *(end - position for end in self.ends[:1])])


def first_failed(mapping: Json, records: list[Json], result: Json) -> int:
    """Return the index of the first record that comes again; their number if none does."""
    if result.get("error"):
        return 0
    if PARTIAL not in (mapping.get("FunctionResponseTypes") or []):
        return len(records)
    body = result.get("body")
    try:
        answer = json.loads(body) if isinstance(body, str) and body else body
        failures = (answer or {}).get("batchItemFailures") or []
        places = {str(record["dynamodb"]["SequenceNumber"]): index for index, record in enumerate(records)}
        return min([places[item["itemIdentifier"]] for item in failures], default=len(records))
    except (ValueError, AttributeError, KeyError, TypeError):
        return 0  # it names no record of the batch


class Retries:
    """The decisions on all mappings; a poll goes through these functions of MiniStack's one after the other."""

    def __init__(self, service: Any, dynamodb: Any) -> None:
        self._service = service
        self._progress: dict[str, Progress] = {}
        self._turn = threading.local()
        self._mappings, self._read = service._iter_all_esms, dynamodb.stream_records_since
        self._execute = service._execute_function
        service._iter_all_esms, service._execute_function = self.mappings, self.execute
        dynamodb.stream_records_since = self.read

    def mappings(self) -> Iterator[Any]:
        """Go through the mappings, and note whose turn it is."""
        try:
            for account, region, mapping in self._mappings():
                streams = ":dynamodb:" in mapping.get("EventSourceArn", "")
                self._turn.mapping, self._turn.raw = (mapping if streams else None), []
                yield account, region, mapping
        finally:
            self._turn.mapping = None

    def read(self, table: str, position: int, limit: int, **scope: Any) -> list[Json]:
        """Read a batch, or the part that is left of one that was split."""
        mapping = getattr(self._turn, "mapping", None)
        if mapping is not None:
            limit = self._progress.setdefault(mapping["UUID"], Progress()).limit(position, limit)
        records: list[Json] = self._read(table, position, limit, **scope)
        if mapping is not None:
            self._turn.position, self._turn.raw = position, records
        return records

    def execute(self, function: Json, event: Any) -> Json:
        """Deliver; for a stream's batch that fails, return an error as long as it comes again."""
        result: Json = self._execute(function, event)
        mapping = getattr(self._turn, "mapping", None)
        if mapping is None or not self._turn.raw or result.get("throttle"):  # what did not reach it is no attempt
            return result
        records = event["Records"]
        failed = first_failed(mapping, records, result)
        progress = self._progress[mapping["UUID"]]
        if failed == len(records):
            progress.attempts = 0
            return result
        return self._fail(mapping, function, records[failed:], result)

    def _fail(self, mapping: Json, function: Json, left: list[Json], result: Json) -> Json:
        raw, position, name = self._turn.raw, self._turn.position, mapping["UUID"]
        progress, service = self._progress[name], self._service
        begin = position + next(index for index, record in enumerate(raw) if record is left[0])
        end = position + len(raw)
        if begin > position:
            progress.attempts = 0
            with service._dynamodb_stream_positions_lock:
                service._dynamodb_stream_positions[name] = begin
        if mapping.get("BisectBatchOnFunctionError") and result.get("error") and end - begin > 1:
            progress.ends[:0] = [begin + (end - begin) // 2, end]
            return result
        progress.attempts += 1
        most = mapping.get("MaximumRetryAttempts", -1)
        if most is None or most < 0 or progress.attempts <= most:
            return {**result, "error": True, "body": result.get("body") if result.get("error") else {}}
        progress.attempts = 0
        service._send_ddb_stream_failure_record(mapping, function, left, mapping["EventSourceArn"], result, GIVEN_UP)
        return {**result, "error": False}
