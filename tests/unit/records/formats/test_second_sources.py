"""REPORT lines, lines of reads and messages of on-failure queues, as they come, and as they are cut."""

import json
from typing import Any

import pytest
from tests.samples.records import REF, dynamodb_record, postgresql_delivery, s3_record
from tests.samples.refused_deliveries import refused_batch, refused_event

from stepbench.contracts.identity import EventId, put_key, update_key
from stepbench.contracts.transfer.rows import TransferRow
from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.second_sources import (
    Batch,
    RefusedDelivery,
    ReportLine,
    events_of,
    parse_message,
    parse_report,
    parse_reports,
    parse_transfer_line,
    stream_event,
    transfer_filter,
    transfer_line,
)
from stepbench.records.formats.t4 import Entry

LINE = (
    "REPORT RequestId: 3604209a-e9a3-11e6-939a-754dd98c7be3\tDuration: 12.34 ms\tBilled Duration: 100 ms\t"
    "Memory Size: 128 MB\tMax Memory Used: 18 MB"
)


def test_a_report_line_gives_its_numbers() -> None:
    """The line of the AWS Lambda Developer Guide; "Billed Duration" is not read as "Duration"."""
    assert parse_report(LINE + "\t\n") == ReportLine(
        request_id="3604209a-e9a3-11e6-939a-754dd98c7be3",
        duration_ms=12.34,
        billed_ms=100,
        memory_mb=128,
        max_memory_mb=18,
    )


def test_a_cold_start_has_an_init_duration() -> None:
    """The only mark of it."""
    found = parse_report(LINE + "\tInit Duration: 165.89 ms\t\nXRAY TraceId: 1-5e\tSegmentId: 5")
    assert found is not None
    assert found.init_ms == 165.89


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        ("\tStatus: timeout", "timeout"),
        ("\tStatus: error\tError Type: Runtime.OutOfMemory\nXRAY TraceId: 1-5e", "Runtime.OutOfMemory"),
        ("\tInit Duration: 165.89 ms", ""),
    ],
)
def test_an_invocation_that_lambda_ended_says_how(end: str, failure: str) -> None:
    """Nothing else tells that it was the memory: the process is killed without a word of its own."""
    found = parse_report(LINE + end)
    assert found is not None
    assert found.failure == failure


def test_other_lines_are_no_reports() -> None:
    """A function may print the word, and a line may be cut."""
    messages = ["START RequestId: 1", "REPORT of nothing", "REPORT RequestId: 1\tBilled", LINE]
    assert len(parse_reports({"message": message} for message in messages)) == 1


ROW = TransferRow(
    run_id=REF.run_id,
    trial=0,
    number=5,
    attempt=1,
    place=0,
    due_at_ns=1,
    began_at_ns=2,
    platform="fargate",
    source="efs",
    path="files/7/5000.bin",
    file_bytes=5_000 * 2**20,
    received_bytes=5_000 * 2**20,
    mib_ns=tuple(range(5_000)),
    sandbox="sandbox",
    served=0,
    outcome="ok",
)


def test_a_line_comes_back_without_its_marks() -> None:
    """5,000 of them would be most of what a log event may hold, and are in the bucket."""
    line = transfer_line(REF.tag, ROW)
    assert parse_transfer_line(line) == (REF.tag, ROW.model_copy(update={"mib_ns": ()}))
    assert len(line) < 2_000


def test_the_filter_has_what_a_line_has() -> None:
    """CloudWatch finds a line by its words."""
    line = transfer_line(REF.tag, ROW)
    assert all(f'"{word.strip(chr(34))}"' in line for word in transfer_filter(REF.tag).split())


@pytest.mark.parametrize("line", ["", "{}", '{"stepbench.transfer": "tag"}', '{"stepbench.transfer": "t", "row": {}}'])
def test_another_line_is_refused(line: str) -> None:
    """Half a line must not count as a read."""
    with pytest.raises(CorruptRecordsError):
        parse_transfer_line(line)


EVENT = EventId(REF.tag, 1, 2, 3, 4, 5)
ARN = "arn:aws:dynamodb:us-east-1:1:table/target-x/stream/2026"


def test_an_event_that_a_function_failed_at_comes_with_its_error() -> None:
    """It names what was lost, and why."""
    found = parse_message(refused_event(postgresql_delivery(EVENT)))
    assert found is not None
    assert (found.condition, found.error, found.batch) == ("RetriesExhausted", "Sandbox.Timedout", None)
    assert events_of(found.payload, REF.tag) == (1, (EVENT.text(),))


def test_an_event_that_waited_too_long_has_no_error() -> None:
    """The account's concurrency was used up: nothing was invoked."""
    found = parse_message(refused_event(postgresql_delivery(EVENT), condition="EventAgeExceeded", error=""))
    assert found is not None
    assert (found.condition, found.error) == ("EventAgeExceeded", "")


def test_a_batch_says_where_its_records_stand() -> None:
    """Its message has none of them."""
    found = parse_message(refused_batch(ARN, "100", "199", 7, "shardId-9"))
    assert found is not None
    assert (found.condition, found.error, found.payload) == ("RetryAttemptsExhausted", "Unhandled", None)
    assert found.batch == Batch(ARN, "shardId-9", "100", "199", 7)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[]",
        "null",
        '{"StateMachineArn": "arn", "Input": "{}"}',
        '{"requestContext": {"condition": "RetriesExhausted"}}',
        '{"requestContext": 3, "requestPayload": {}}',
        json.dumps({"requestContext": {"condition": "x"}, "DDBStreamBatchInfo": {"batchSize": "many"}}),
    ],
)
def test_what_is_none_of_lambdas_is_nobodys(body: str) -> None:
    """A schedule's undelivered start waits in the same queue, and has to stay there."""
    assert parse_message(body) is None


def test_a_streams_records_become_the_event_that_lambda_makes_of_them() -> None:
    """`GetRecords` gives times as dates, which JSON has not, and no name of the source."""
    records = [dynamodb_record(EVENT), dynamodb_record(EVENT._replace(sequence=6), name="REMOVE")]
    for record in records:
        del record["eventSource"]
        record["dynamodb"]["ApproximateCreationDateTime"] = object()
    assert events_of(stream_event(records), REF.tag) == (2, (EVENT.text(),))


@pytest.mark.parametrize(
    ("event", "found"),
    [
        ({"Records": [s3_record(put_key(EVENT, 59)), s3_record(put_key(EVENT._replace(sequence=6), 59))]}, 2),
        ({"Records": [s3_record(update_key(REF.tag, 3, 59))]}, 0),
        ({"Records": [s3_record(put_key(EVENT, 59), name="ObjectRemoved:Delete")]}, 0),
    ],
    ids=["puts", "an update, known by its version", "a removal"],
)
def test_what_cannot_be_named_is_the_trials_all_the_same(event: dict[str, Any], found: int) -> None:
    """It is counted, and leaves the queue."""
    told = events_of(event, REF.tag)
    assert told is not None
    assert (told[0], len(told[1])) == (len(event["Records"]), found)


@pytest.mark.parametrize(
    "event", [postgresql_delivery(EVENT), {"Records": []}, None, "text", {"Event": "s3:TestEvent"}]
)
def test_another_trials_events_are_not_taken(event: Any) -> None:  # noqa: ANN401 -- whatever was delivered
    """Two runs share a stack's queues."""
    assert events_of(event, "other-tag") is None


def test_events_are_found_again_by_their_names() -> None:
    """As a receiver would have recorded them."""
    told = RefusedDelivery(message_id="m", condition="c", records=2, events=(EVENT.text(), "garbled"))
    assert list(told.entries()) == [Entry(1, 4, 2, 3, 0, 5, 0)]
