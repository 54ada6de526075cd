from __future__ import annotations

import contextlib
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.samples.lambda_api import Invocation, lambda_api
from tests.samples.records import REF, dynamodb_record, s3_record
from tests.samples.services import AWAY, MemoryServices, fail

from stepbench.clock import STEP_NS, ClockOffset
from stepbench.contracts.identity import EventId, put_key, trial_tag, update_key
from stepbench.errors import RecordsUnavailableError
from stepbench.records.formats.deliveries import UNKNOWN_STORE
from stepbench.records.formats.t4 import decode_fallback
from stepbench.records.formats.t4_items import T4Item, parse_item
from stepbench.records.formats.t4_lines import T4Line, parse_t4_line
from stepbench.records.storage import layout
from stepbench.records.storage.t4_store import T4Log, T4Store
from stepbench.stages import receive_events as stage
from stepbench.stages.receive_events import AHEAD_NS, TABLE_RETRY, Receiver, Sandbox, open_receiver, receive_events
from stepbench.wire.http1 import blocking

T4_NS = 1_800_000_000_000_000_000
MINUTE_NS = 60_000_000_000
EVENT = EventId(REF.tag, 1, 2, 3, 4, 5)
OTHER = EVENT._replace(tag=trial_tag("run-2", 7))
NOTHING_FAILED: dict[str, list[dict[str, str]]] = {"batchItemFailures": []}


@pytest.fixture
def behind() -> MemoryServices:
    """Return table and bucket."""
    return MemoryServices()


@pytest.fixture
def printed() -> list[str]:
    """Return the receiver's log."""
    return []


@pytest.fixture
def receiver(behind: MemoryServices, printed: list[str]) -> Receiver:
    """Return a sandbox whose handler began to load 250 ms before t4, and took 240 ms."""
    services = behind.services
    store = T4Store(services.table, services.runs)
    log = T4Log(lambda tag: services.table.flag(tag, layout.LOG_T4), printed.append)
    return Receiver(store, log, Sandbox("sandbox-1", T4_NS - 250_000_000, T4_NS - 10_000_000))


def logged(printed: list[str], tag: str = REF.tag) -> list[T4Line]:
    """Return a trial's t4 lines."""
    return [line for line in (parse_t4_line(text, tag) for text in printed) if line is not None]


def stored(behind: MemoryServices, tag: str = REF.tag) -> list[T4Item]:
    """Return the trial's t4 items."""
    return [parse_item(item) for item in behind.services.table.t4_items(tag)]


def test_one_item_holds_the_whole_batch(receiver: Receiver, behind: MemoryServices) -> None:
    """One write per invocation keeps the table out of the measurement's way."""
    records = [dynamodb_record(EVENT._replace(sequence=number)) for number in range(100)]
    assert receive_events({"Records": records}, T4_NS, "request-1", receiver) == NOTHING_FAILED
    (item,) = stored(behind)
    assert (item.entries["sequence"].tolist(), set(item.entries["t4_ns"].tolist())) == (list(range(100)), {T4_NS})
    assert (item.request_id, item.sandbox, item.batch, item.source) == ("request-1", "sandbox-1", 100, "receiver")
    assert item.t3_resolution_ns == 1_000_000_000


def test_the_first_invocation_is_cold_and_no_other(receiver: Receiver, behind: MemoryServices) -> None:
    """Cold starts are shown apart; init is what came before the first event."""
    for number in range(2):
        receive_events({"Records": [dynamodb_record(EVENT)]}, T4_NS + number, f"request-{number}", receiver)
    items = sorted(stored(behind), key=lambda item: item.request_id)
    assert ([item.cold for item in items], {item.init_ns for item in items}) == ([True, False], {240_000_000})


def test_a_sandbox_that_was_made_ahead_starts_nothing_cold(receiver: Receiver, behind: MemoryServices) -> None:
    """Lambda makes some before they are needed: the time until they are is idle, and no event waits for it."""
    t4_ns = receiver.sandbox.ready_ns + AHEAD_NS
    receive_events({"Records": [dynamodb_record(EVENT)]}, t4_ns, "request-1", receiver)
    (item,) = stored(behind)
    assert (item.cold, item.init_ns) == (False, 240_000_000)


def test_lambdas_retry_is_kept_beside_the_first_try(receiver: Receiver, behind: MemoryServices) -> None:
    """Same request id, other t4: a duplicate, and known as Lambda's own."""
    for t4_ns in (T4_NS, T4_NS + 1):
        receive_events({"Records": [dynamodb_record(EVENT)]}, t4_ns, "request-1", receiver)
    assert [item.request_id for item in stored(behind)] == ["request-1", "request-1"]


def test_events_of_two_trials_go_to_two_items(receiver: Receiver, behind: MemoryServices) -> None:
    """A late event of the last trial may share a batch with this one's."""
    receive_events({"Records": [dynamodb_record(EVENT), dynamodb_record(OTHER)]}, T4_NS, "request-1", receiver)
    assert [item.entries["batch_index"].tolist() for item in stored(behind)] == [[0]]
    assert [item.entries["batch_index"].tolist() for item in stored(behind, OTHER.tag)] == [[1]]


def test_versions_of_updates_are_kept(receiver: Receiver, behind: MemoryServices) -> None:
    """Nothing else tells which of a key's updates has arrived."""
    receive_events({"Records": [s3_record(update_key(REF.tag, 9, 59), version="abc")]}, T4_NS, "request-1", receiver)
    (item,) = stored(behind)
    assert (item.tokens, item.entries["sequence"].tolist()) == (("abc",), [9])


def test_removals_are_counted_as_ignored(receiver: Receiver, behind: MemoryServices) -> None:
    """They are no arrivals, and no loss either."""
    receive_events({"Records": [dynamodb_record(EVENT, name="REMOVE")]}, T4_NS, "request-1", receiver)
    (item,) = stored(behind)
    assert (item.entries.size, item.ignored) == (0, 1)


def test_a_malformed_event_is_kept_for_the_reader(receiver: Receiver, behind: MemoryServices) -> None:
    """It must neither be lost nor make Lambda deliver it for ever."""
    assert receive_events({"hello": "world"}, T4_NS, "request-1", receiver) == NOTHING_FAILED
    (item,) = behind.services.table.malformed(UNKNOWN_STORE, T4_NS, T4_NS)
    assert item["body"] == '{"hello": "world"}'


def test_while_the_table_is_away_t4_goes_to_the_bucket(receiver: Receiver, behind: MemoryServices) -> None:
    """An event that arrived must not count as lost because our own table throttles."""
    cast("Any", behind.table).put_item = fail
    event = {"Records": [s3_record(put_key(EVENT, 59)), {"eventSource": "aws:s3"}]}
    assert receive_events(event, T4_NS, "request-1", receiver) == NOTHING_FAILED
    (key,) = behind.services.runs.keys(layout.t4_fallback_prefix(REF.tag))
    item = parse_item(decode_fallback(key, behind.bucket.objects[key]))
    assert (item.request_id, item.entries["t4_ns"].tolist()) == ("request-1", [T4_NS])
    (malformed,) = behind.services.runs.keys(layout.malformed_fallback_prefix("s3"))
    assert behind.bucket.objects[malformed] == b'{"eventSource": "aws:s3"}'


def test_with_table_and_bucket_away_the_invocation_fails(receiver: Receiver, behind: MemoryServices) -> None:
    """The on-failure queue then holds the event; swallowed, nobody would know."""
    cast("Any", behind.table).put_item = cast("Any", behind.bucket).put_object = fail
    with pytest.raises(RecordsUnavailableError, match="cannot write"):
        receive_events({"Records": [s3_record(put_key(EVENT, 59))]}, T4_NS, "request-1", receiver)


def test_a_stream_is_told_from_where_to_deliver_again(receiver: Receiver, behind: MemoryServices) -> None:
    """Raised, the whole shard would stop without saying where."""
    cast("Any", behind.table).put_item = cast("Any", behind.bucket).put_object = fail
    records = [dynamodb_record(EVENT, sequence="700"), dynamodb_record(EVENT, sequence="701")]
    assert receive_events({"Records": records}, T4_NS, "request-1", receiver) == {
        "batchItemFailures": [{"itemIdentifier": "700"}]
    }


def test_the_clock_is_read_once_a_minute_for_each_trial(
    receiver: Receiver, behind: MemoryServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reading costs milliseconds of the sandbox's time."""
    monkeypatch.setattr(stage, "measure_offset", lambda *_: ClockOffset(-5, 2))
    monkeypatch.setattr(stage, "real_minus_monotonic_ns", lambda: receiver.sandbox.anchor_ns)  # nobody is interrupted
    for at_ns, event in ((0, EVENT), (1, EVENT), (2, OTHER), (MINUTE_NS, EVENT)):
        receive_events({"Records": [dynamodb_record(event)]}, T4_NS + at_ns, f"request-{at_ns}", receiver)
    samples = behind.services.table.clocks(REF.tag)
    assert [(each.role, each.sandbox, each.at_ns - T4_NS, each.offset_ns, each.bound_ns) for each in samples] == [
        ("receiver", "sandbox-1", 0, -5, 2),
        ("receiver", "sandbox-1", MINUTE_NS, -5, 2),
    ]
    assert len(behind.services.table.clocks(OTHER.tag)) == 1


def test_a_clock_that_was_set_is_read_again(
    receiver: Receiver, behind: MemoryServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Latencies were once off by 4 s without a word, and the store was said to fall behind."""
    apart_ns = [0, STEP_NS, 2 * STEP_NS + 1, 2 * STEP_NS + 1, 0]
    monkeypatch.setattr(stage, "real_minus_monotonic_ns", iter(apart_ns).__next__)
    monkeypatch.setattr(stage, "measure_offset", lambda *_: ClockOffset(-5, 2))
    receiver.sandbox.anchor_ns = 0
    for number in range(len(apart_ns)):
        receive_events({"Records": [dynamodb_record(EVENT)]}, T4_NS + number, f"request-{number}", receiver)
    assert [each.at_ns - T4_NS for each in behind.services.table.clocks(REF.tag)] == [0, 2, 4]


def test_trials_of_a_batch_share_a_reading_of_the_clock(
    receiver: Receiver, behind: MemoryServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the sandbox's clock; a reference that is silent takes half a second each time."""
    readings = iter([ClockOffset(-5, 2)])
    monkeypatch.setattr(stage, "measure_offset", lambda *_: next(readings))
    receive_events({"Records": [dynamodb_record(EVENT), dynamodb_record(OTHER)]}, T4_NS, "request-1", receiver)
    assert [len(behind.services.table.clocks(tag)) for tag in (REF.tag, OTHER.tag)] == [1, 1]


def test_trials_of_a_batch_share_the_time_that_each_place_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a time of its own, three would take more than the function has. The next invocation has it anew."""
    now_s = 1_000.0
    clock = SimpleNamespace(monotonic=lambda: now_s, time=lambda: 0.0, time_ns=lambda: 0)
    monkeypatch.setattr(stage, "time", clock)
    monkeypatch.setattr(blocking, "time", clock)

    def answer(asked: Invocation) -> bytes:
        nonlocal now_s
        if asked.path != "/":
            return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        now_s += TABLE_RETRY.whole_s
        return b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"

    with lambda_api() as server:
        server.answer = answer
        environ = {
            "AWS_ENDPOINT_URL": f"http://{server.endpoint}",
            "RESULTS_TABLE": "table",
            "RESULTS_BUCKET": "bucket",
        }
        receiver = open_receiver(environ, T4_NS)
        for number in range(2):
            records = [dynamodb_record(EVENT._replace(tag=trial_tag("run-2", trial))) for trial in range(3)]
            assert receive_events({"Records": records}, T4_NS, f"request-{number}", receiver) == NOTHING_FAILED
        asked = ["table" if each.path == "/" else "bucket" for each in server.invocations]
    assert asked == ["table", "bucket", "bucket", "bucket"] * 2


def test_an_offset_that_cannot_be_stored_fails_nothing(
    receiver: Receiver, behind: MemoryServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events are recorded already; a retry would record them twice."""

    def reading(*_: object) -> ClockOffset:
        cast("Any", behind.table).put_item = fail
        return ClockOffset(0, 1)

    monkeypatch.setattr(stage, "measure_offset", reading)
    assert receive_events({"Records": [dynamodb_record(EVENT)]}, T4_NS, "request-1", receiver) == NOTHING_FAILED
    assert len(stored(behind)) == 1


def test_nothing_is_printed_unless_the_trial_asks_for_it(receiver: Receiver, printed: list[str]) -> None:
    """Log lines cost money, and time of the sandbox."""
    for number in range(2):
        receive_events({"Records": [dynamodb_record(EVENT)]}, T4_NS, f"request-{number}", receiver)
    assert printed == []


def test_each_invocation_prints_what_it_stores(receiver: Receiver, behind: MemoryServices, printed: list[str]) -> None:
    """The second source has the same bytes, and comes by another way; each trial of a batch has its own line."""
    for tag in (REF.tag, OTHER.tag):
        behind.services.table.set_flag(tag, layout.LOG_T4, "all")
    for number in range(3):
        event = {"Records": [dynamodb_record(EVENT), dynamodb_record(OTHER)]}
        receive_events(event, T4_NS + number, f"request-{number}", receiver)
    for tag in (REF.tag, OTHER.tag):
        items = {(item.request_id, item.entries.tobytes()) for item in stored(behind, tag)}
        assert ({(line.request_id, line.entries) for line in logged(printed, tag)}, len(items)) == (items, 3)
    assert len(printed) == 6


def test_the_setting_is_read_once_a_sandbox_and_after_the_item_is_stored(
    receiver: Receiver, behind: MemoryServices, printed: list[str]
) -> None:
    """A request before each item would be on the receiver's path, and one a sandbox is enough."""
    behind.services.table.set_flag(REF.tag, layout.LOG_T4, "all")
    order: list[str] = []
    table = cast("Any", behind.table)
    put, get = table.put_item, table.get_item

    def noted(name: str, request: Any, **sent: Any) -> Any:  # noqa: ANN401 -- boto3's
        order.append(name)
        return request(**sent)

    table.put_item, table.get_item = partial(noted, "put", put), partial(noted, "get", get)
    for number in range(3):
        receive_events({"Records": [dynamodb_record(EVENT)]}, T4_NS + number, f"request-{number}", receiver)
    assert (order, len(printed)) == (["put", "get", "put", "put"], 3)


def test_a_table_and_a_bucket_that_are_away_leave_the_log(
    receiver: Receiver, behind: MemoryServices, printed: list[str]
) -> None:
    """Then it is the only source, so it does not wait for anybody's permission."""
    cast("Any", behind.table).put_item = cast("Any", behind.bucket).put_object = fail
    cast("Any", behind.table).get_item = fail
    with pytest.raises(RecordsUnavailableError):
        receive_events({"Records": [s3_record(put_key(EVENT, 59))]}, T4_NS, "request-1", receiver)
    (line,) = logged(printed)
    assert (line.request_id, line.t4_ns) == ("request-1", T4_NS)


@pytest.mark.parametrize("bucket_is_there", [True, False])
def test_a_table_that_took_no_item_is_asked_nothing(
    receiver: Receiver,
    behind: MemoryServices,
    printed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    bucket_is_there: bool,
) -> None:
    """Each question may take as long as the item did, and the function has 60 s for all of them."""
    table, refused = cast("Any", behind.table), list[str]()

    def refuse(name: str, **_: object) -> None:
        refused.append(name)
        raise AWAY

    table.put_item, table.get_item = partial(refuse, "put"), partial(refuse, "get")
    if not bucket_is_there:
        cast("Any", behind.bucket).put_object = fail
    monkeypatch.setattr(stage, "measure_offset", lambda *_: ClockOffset(0, 1))
    with contextlib.nullcontext() if bucket_is_there else pytest.raises(RecordsUnavailableError):
        receive_events({"Records": [s3_record(put_key(EVENT, 59))]}, T4_NS, "request-1", receiver)
    assert (refused, len(logged(printed))) == (["put"], 1)


def test_once_the_setting_is_known_the_line_is_printed_before_the_table_has_its_turn(
    receiver: Receiver, behind: MemoryServices, printed: list[str]
) -> None:
    """An invocation that is killed while the table does not answer leaves a trace all the same."""
    behind.services.table.set_flag(REF.tag, layout.LOG_T4, "all")
    receive_events({"Records": [dynamodb_record(EVENT)]}, T4_NS, "request-0", receiver)
    lines: list[int] = []
    cast("Any", behind.table).put_item = lambda **_: lines.append(len(printed))
    receive_events({"Records": [dynamodb_record(EVENT)]}, T4_NS, "request-1", receiver)
    assert lines == [2]
