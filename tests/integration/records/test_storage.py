"""Results table and runs bucket, as they are and behind the proxy: nothing is lost, doubled or waits for ever."""

from __future__ import annotations

import hashlib
import os
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import boto3
import pytest
from botocore.config import Config
from tests.samples.records import REF, column_header, t4_item, trial_spec, writer_rows
from tests.support.fault_proxy import (
    DYNAMODB_EXCEEDED,
    DYNAMODB_THROTTLING,
    S3_SLOW_DOWN,
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fault,
    FaultProxy,
    Rule,
    Throttle,
    fault_proxy,
    http1,
)

from stepbench.api.rows import offer_upload
from stepbench.clock import SystemClock
from stepbench.contracts.api import RowsFile, Upload
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.target import S3Target
from stepbench.contracts.values import content_key
from stepbench.errors import RecordsUnavailableError, TargetBusyError
from stepbench.records.formats.columns import PendingRows
from stepbench.records.formats.t4 import Entry
from stepbench.records.join.reader import count_malformed
from stepbench.records.storage import layout
from stepbench.records.storage.flusher import Flusher
from stepbench.records.storage.layout import ClockSample
from stepbench.records.storage.receiver_paths import open_bucket, open_table
from stepbench.records.storage.run_store import RunStore
from stepbench.records.storage.stored import RetainedRecords, StoredFiles, StoredItems
from stepbench.records.storage.t4_store import T4Store
from stepbench.records.storage.transfers import dataset_keys, dataset_names
from stepbench.records.storage.trial_table import FilePointer, TrialTable
from stepbench.records.storage.watch_log import read_watches
from stepbench.services import Services
from stepbench.stages.drop_results import empty_bucket
from stepbench.wire.http1.blocking import RetryLimits
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.emulator
Seen = TypeVar("Seen")

ONE = TrialRef(run_id="run-1", trial=0, tag=trial_tag("run-1", 0))
OTHER = TrialRef(run_id="run-2", trial=3, tag=trial_tag("run-2", 3))


def test_datasets_of_a_team_with_a_slash_are_found_and_no_other_files_listed(services: Services) -> None:
    """Its key has a percent sign, which S3's answers have to give back as it is."""
    keys = [layout.dataset_key("weekly", team, "2025-06-05", "run", 0) for team in ("default", "role/ci", "role/cia")]
    for key in [*keys, "datasets/weekly/report.html", "datasets/notes/report.html"]:
        services.runs.put_bytes(key, b"")
    assert list(services.runs.folders(layout.DATASETS)) == ["notes", "weekly"]
    assert dataset_names(services.runs) == dataset_names(services.runs, ["role/ci"]) == ("weekly",)
    assert dataset_names(services.runs, ["role/other"]) == ()
    assert dataset_keys("weekly", services.runs, ["role/ci"]) == (keys[1],)
    assert services.runs.get_bytes(keys[1]) == b""


def test_a_file_that_is_renewed_has_its_content_and_a_new_beginning(services: Services) -> None:
    """A lifecycle counts from it; S3 refuses a copy onto itself that changes nothing."""
    client, place = services.aws("s3"), {"Bucket": services.runs.bucket, "Key": "values/orders.json"}
    client.put_object(**place, Body=b"[{}]", Metadata={"owner": "shop"}, Tagging="a=b")
    before = client.head_object(**place)["LastModified"]
    time.sleep(1.1)  # a head's resolution
    services.runs.renew("values/orders.json")
    assert client.head_object(**place)["LastModified"] > before
    assert services.runs.get_bytes("values/orders.json") == b"[{}]"


def test_rows_are_taken_by_the_link_that_was_signed_for_them_and_no_others(services: Services) -> None:
    """The key names their content, which nobody looks at again before a run."""
    body = b'{"a": 1}\n'
    digest = hashlib.sha256(body).hexdigest()
    place = offer_upload(RowsFile(format="jsonl", size_bytes=len(body), sha256=digest), services)
    assert "content-length%3Bhost%3Bx-amz-checksum-sha256" in place.url
    with pytest.raises(urllib.error.HTTPError, match="400"):
        _put(place, b'{"a": 2}\n')
    assert services.runs.find_bytes(place.key) is None
    _put(place, body)
    assert place.key == content_key(body, "jsonl")
    assert services.runs.find_rows(place.key) == body


def _put(place: Upload, body: bytes) -> None:
    request = urllib.request.Request(place.url, body, place.headers, method="PUT")  # noqa: S310 -- of the emulator
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 -- likewise


def test_a_second_trial_is_refused_a_leased_target_and_told_who_holds_it(services: Services) -> None:
    """Two trials on one store would measure each other."""
    services.table.take_lease("s3#bucket", ONE, "arn:one", 1)
    services.table.take_lease("s3#bucket", ONE, "arn:one", 2)
    with pytest.raises(TargetBusyError, match="trial 1 of run run-1"):
        services.table.take_lease("s3#bucket", OTHER, "arn:two", 3)
    assert [lease.execution_arn for lease in services.table.leases()] == ["arn:one"]


def test_only_the_holder_releases_a_lease(services: Services) -> None:
    """A late tear-down must not free a target that somebody else has taken meanwhile."""
    services.table.take_lease("s3#bucket", ONE, "arn:one", 1)
    assert not services.table.release_lease("s3#bucket", OTHER.tag)
    assert services.table.find_lease("s3#bucket") is not None
    assert services.table.release_lease("s3#bucket", ONE.tag)
    assert services.table.find_lease("s3#bucket") is None
    assert services.table.leases() == []


def test_flags_heartbeats_and_pointers_come_back_as_they_went(services: Services) -> None:
    """They steer the run from the side."""
    table, tag = services.table, ONE.tag
    assert table.flag(tag, layout.CANCELLED) is None
    table.set_flag(tag, layout.CANCELLED, "Ctrl-C")
    assert table.flag(tag, layout.CANCELLED) == "Ctrl-C"
    table.beat(tag, "watcher#0", {"seen": 3})
    assert table.beats(tag)["watcher#0"]["progress"] == {"seen": 3}
    start = {"sandbox": "watcher-0-a", "established_ns": 5, "from_position": None, "pauses_ns": [(7, 9), (20, 30)]}
    table.beat(tag, "watcher#0-a", {"seen": 3}, **start, ended=True)
    (watch,) = read_watches(table, tag)
    assert watch[:2] == ("watcher-0-a", 5)
    assert watch.pauses_ns == ((7, 9), (20, 30))
    pointer = FilePointer(layout.attempt_id(1, 2, 3, 0), 7, "key", 10, 9, 123)
    table.add_file(tag, pointer)
    assert table.files(tag) == [pointer]
    sample = ClockSample("writer", "sandbox", 5, -17, 4)
    table.add_clock(tag, sample)
    assert table.clocks(tag) == [sample]


def test_where_a_phase_ends_is_said_once(services: Services) -> None:
    """Writers may have seen it already; phases are apart, and so are trials."""
    table = services.table
    assert (table.stop_at_ns(ONE.tag, 10), table.stops_ns(ONE.tag)) == (None, {})
    for phase, stop_at_ns in ((10, 500), (2, 400), (10, 600)):
        table.set_stop(ONE.tag, phase, stop_at_ns)
    assert table.stop_at_ns(ONE.tag, 10) == 500
    assert table.stops_ns(ONE.tag) == {2: 400, 10: 500}
    assert table.stops_ns(OTHER.tag) == {}


def test_a_watch_position_never_moves_back(services: Services) -> None:
    """Two overlapping watchers report in any order."""
    for position in (5, 9, 7):
        services.table.set_position(ONE.tag, position)
    assert services.table.position(ONE.tag) == 9


def test_t4_items_are_spread_over_shards_and_counted(services: Services) -> None:
    """One key would throttle at 1,000 writes a second."""
    for number in range(40):
        services.table.put_t4(ONE.tag, f"request-{number}", 1_000 + number, {"n": 2})
    items = list(services.table.t4_items(ONE.tag))
    assert len(items) == 40
    assert len({item["pk"] for item in items}) > 8
    assert services.table.t4_count(ONE.tag) == 80


def test_malformed_events_are_found_by_their_time(services: Services) -> None:
    """A trial counts those that came while it held the target."""
    services.table.put_malformed("s3", 100, "request", 0, "junk")
    services.table.put_malformed("s3", 900, "request", 1, "later")
    assert [item["body"] for item in services.table.malformed("s3", 50, 500)] == ["junk"]


def test_an_unreachable_table_is_named_in_the_error(services: Services) -> None:
    """The reader of a failed execution sees only this line."""
    services.table._table.delete()
    with pytest.raises(RecordsUnavailableError, match=r"results table t\d+-\d+-results"):
        services.table.flag(ONE.tag, layout.CANCELLED)


READ_LIMIT_S = 1.0
GIVE_UP_LIMIT_S = 20
SPEC = trial_spec(S3Target(store="s3"))
STAY_OUT: dict[str, Fault] = {
    "throttle": Throttle(DYNAMODB_THROTTLING),
    "throttle, provisioned": Throttle(DYNAMODB_EXCEEDED),
    "drop request": Drop("request"),
    "reset before request": Cut("before-request"),
    "close before request": Cut("before-request", "fin"),
    "reset in request": Cut("in-request", after_bytes=300),
}
ARRIVE_UNHEARD: dict[str, Fault] = {
    "drop answer": Drop("answer"),
    "delay beyond the limit": Delay(answer_s=2 * READ_LIMIT_S),
    "reset before answer": Cut("before-answer"),
    "close before answer": Cut("before-answer", "fin"),
    "reset in answer": Cut("in-answer"),
    "close in answer": Cut("in-answer", "fin"),
}
HARMLESS: dict[str, Fault] = {"duplicate": Duplicate(), "delay": Delay(request_s=0.05, answer_s=0.05)}
EVERY = STAY_OUT | ARRIVE_UNHEARD | HARMLESS
WAITED_FOR = ("drop request", "drop answer", "delay beyond the limit")
LANES = (tuple(name for name in EVERY if name not in WAITED_FOR), *((name,) for name in WAITED_FOR))
"""Faults that are tried one after the other: those whose end is a time-out, each beside the others."""


class Records(NamedTuple):
    """The places where records go, reached through one proxy each."""

    ref: TrialRef
    at_table: FaultProxy
    at_bucket: FaultProxy
    table: TrialTable
    runs: RunStore
    receiver: T4Store
    watcher: T4Store
    direct: Services

    def found(self) -> list[tuple[str, list[int]]]:
        """Return what the analysis will find: (request id, sequences), read without the proxies."""
        items = StoredItems(self.ref, self.direct.runs, self.direct.table, RetainedRecords.of(SPEC))
        return sorted((item.request_id, item.entries["sequence"].tolist()) for item in items)

    def places(self) -> tuple[int, int]:
        """Count how many t4 items are in the table, and how many in the bucket."""
        in_bucket = list(self.direct.runs.keys(layout.t4_fallback_prefix(self.ref.tag)))
        return len(list(self.direct.table.t4_items(self.ref.tag))), len(in_bucket)


@pytest.fixture
def records(services: Services) -> Iterator[Records]:
    """Reach them by clients that try once, so that an outage is over soon; more tries change nothing else."""
    with _records(services, attempts=1) as made:
        yield made


@pytest.fixture
def lanes(services: Services) -> Iterator[list[Records]]:
    """Reach them so as `records`, once for each of `LANES`, each for a trial of its own."""
    with ExitStack() as stack:
        yield [stack.enter_context(_records(services, attempts=1, run_id=f"run-{n}")) for n in range(len(LANES))]


@pytest.fixture
def persistent(services: Services) -> Iterator[Records]:
    """Reach them by clients that try twice."""
    with _records(services, attempts=2) as made:
        yield made


@contextmanager
def _records(services: Services, attempts: int, run_id: str = REF.run_id) -> Iterator[Records]:
    ref = TrialRef(run_id=run_id, trial=0, tag=trial_tag(run_id, 0))
    retries = {"mode": "standard", "total_max_attempts": attempts}
    config = Config(retries=retries, connect_timeout=1, read_timeout=READ_LIMIT_S)  # type: ignore[arg-type]
    with (
        fault_proxy(services.settings.aws_endpoint_url, http1) as at_table,
        fault_proxy(services.settings.aws_endpoint_url, http1) as at_bucket,
        closing(boto3.client("s3", endpoint_url=at_bucket.url, config=config)) as s3,
    ):
        resource = boto3.resource("dynamodb", endpoint_url=at_table.url, config=config)
        table = TrialTable(resource.Table(services.settings.results_table))
        runs = RunStore(s3, services.settings.results_bucket)
        environ = _environment(services, AWS_ENDPOINT_URL_DYNAMODB=at_table.url, AWS_ENDPOINT_URL_S3=at_bucket.url)
        retry = RetryLimits(attempts, connect_s=1, answer_s=READ_LIMIT_S)
        receiver = T4Store(open_table(environ, retry), open_bucket(environ, retry))
        yield Records(ref, at_table, at_bucket, table, runs, receiver, T4Store(table, runs), services)
        resource.meta.client.close()


def _environment(services: Services, **more: str) -> dict[str, str]:
    """Return a receiver's environment, with these endpoints."""
    settings = services.settings
    credentials = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    return {"RESULTS_TABLE": settings.results_table, "RESULTS_BUCKET": settings.results_bucket, **credentials, **more}


def _arrival(sequence: int) -> dict[str, Any]:
    return t4_item([Entry(phase=0, attempt=0, writer=0, slice=0, batch_index=0, sequence=sequence, t4_ns=1)])


def side_by_side(lanes: list[Records], try_faults: Callable[[Records, str], Seen]) -> dict[str, Seen]:
    """Try every fault, on each lane one after the other; return what came of each."""

    def run(records: Records, names: tuple[str, ...]) -> dict[str, Seen]:
        seen = {}
        for name in names:
            try:
                seen[name] = try_faults(records, name)
            except Exception as error:
                error.add_note(f"under the fault {name!r}")
                raise
        return seen

    with ThreadPoolExecutor(len(lanes)) as threads:
        return {name: seen for found in threads.map(run, lanes, LANES) for name, seen in found.items()}


def _put_under(records: Records, name: str) -> dict[str, tuple[int, int, list[list[int]]]]:
    """Put an arrival in both ways; return how many are in the table and in the bucket, and what analysis will find."""
    seen = {}
    for number, way in enumerate(("receiver", "watcher")):
        before, request_id = records.places(), f"{way}-{name}"
        records.at_table.follow(Rule(EVERY[name]))
        getattr(records, way).put(records.ref.tag, request_id, 1_000 + number, _arrival(number))
        records.at_table.follow()
        in_table, in_bucket = (now - then for now, then in zip(records.places(), before, strict=True))
        seen[way] = in_table, in_bucket, [sequences for found, sequences in records.found() if found == request_id]
    return seen


def test_an_arrival_survives_a_table_that_is_out(lanes: list[Records], subtests: pytest.Subtests) -> None:
    """Under every lasting fault it is found once: in the table, in the bucket, or in both and counted once."""
    for name, ways in side_by_side(lanes, _put_under).items():
        in_table, in_bucket = int(name not in STAY_OUT), int(name not in HARMLESS)
        for number, (way, seen) in enumerate(ways.items()):
            with subtests.test(f"{name}, {way}"):
                assert seen == (in_table, in_bucket, [[number]])


def test_an_arrival_that_is_sent_again_is_one(persistent: Records, subtests: pytest.Subtests) -> None:
    """After one fault the client repeats the request, with the same request id and t4: the same item, no second one."""
    records = persistent
    for number, (name, fault) in enumerate(EVERY.items()):
        with subtests.test(name):
            records.at_table.forget()
            records.at_table.follow(Rule(fault, times=1))
            records.receiver.put(REF.tag, f"request-{number:02}", 1_000, _arrival(number))
            assert records.at_table.stats().requests == 1 + (name not in HARMLESS)
            assert records.places() == (number + 1, 0)
            assert records.found()[-1] == (f"request-{number:02}", [number])


def test_a_bucket_that_is_out_too_is_told_to_the_caller(records: Records, subtests: pytest.Subtests) -> None:
    """Lambda's on-failure queue, or the stream's retry, then has the event; a silent return would lose it."""
    faults: dict[str, Fault] = {**EVERY, "slow down": Throttle(S3_SLOW_DOWN)}
    for name in faults.keys() - HARMLESS.keys():
        with subtests.test(name):
            started = time.monotonic()
            records.at_table.follow(Rule(Throttle()))
            records.at_bucket.follow(Rule(faults[name]))
            with pytest.raises(RecordsUnavailableError, match="t4-fallback"):
                records.receiver.put(REF.tag, "request", 1_000, _arrival(1))
            assert time.monotonic() - started < GIVE_UP_LIMIT_S


def test_a_malformed_event_survives_a_table_that_is_out(records: Records) -> None:
    """It is counted once, though the table has it and only the answer was lost."""
    faults: tuple[Fault, ...] = (Throttle(), Cut("before-answer"), Drop("request"))
    for place, fault in enumerate(faults):
        records.at_table.follow(Rule(fault))
        records.receiver.put_malformed("s3", 100, "request", place, "junk")
    assert count_malformed("s3", records.direct.runs, records.direct.table, 0, 1_000) == 3


def _flush_under(records: Records, name: str) -> dict[str, tuple[bool, list[list[int]], list[int]]]:
    """Flush a row at once and in the end; return whether it went at once, and the rows and pointers there are then."""
    seen = {}
    for place, (where, proxy) in enumerate((("bucket", records.at_bucket), ("table", records.at_table))):
        writer = 2 * [*EVERY].index(name) + place
        flusher = Flusher(records.runs, records.table, column_header(records.ref, writer=writer))
        flusher.add(PendingRows(1, partial(writer_rows, [1], first_sequence=writer)), ("",), last=True)
        proxy.follow(Rule(EVERY[name]))
        at_once = flusher.send()
        proxy.follow()
        flusher.finish(SystemClock())
        files = StoredFiles(records.ref, records.direct.runs, RetainedRecords.of(SPEC))
        rows = [each.rows.sequence.tolist() for each in files if each.header.writer == writer]
        attempt = layout.attempt_id(0, writer, 0, 0)
        pointers = [each.rows for each in records.direct.table.files(records.ref.tag) if each.attempt_id == attempt]
        seen[where] = at_once, [[number - writer for number in each] for each in rows], pointers
    return seen


def test_a_column_file_goes_out_once_the_fault_is_over(lanes: list[Records], subtests: pytest.Subtests) -> None:
    """A writer's rows exist nowhere else: they wait through an outage of the bucket or of the table, and come once."""
    for name, places in side_by_side(lanes, _flush_under).items():
        for where, seen in places.items():
            with subtests.test(f"{name}, {where}"):
                assert seen == (name in HARMLESS, [[0]], [1])


def test_a_condition_that_the_lost_request_has_met_is_no_refusal(persistent: Records) -> None:
    """The repeated request finds its own work done; read as a refusal it would fail the trial that holds the lease."""
    records = persistent
    lost = Rule(Cut("before-answer"), times=1)
    records.at_table.follow(lost)
    records.table.take_lease("s3#bucket", REF, "arn", 1)
    records.at_table.follow(lost)
    records.table.set_position(REF.tag, 7)
    assert records.table.position(REF.tag) == 7
    records.at_table.follow(lost)
    records.table.release_lease("s3#bucket", REF.tag)
    assert records.direct.table.leases() == []


def test_no_fault_leaves_a_connection_behind(persistent: Records) -> None:
    """A sandbox lives for hours: one leaked socket a fault, and it runs out of them."""
    records = persistent
    faults: tuple[Fault, ...] = (Cut("before-answer"), Drop("answer"), Throttle())
    for fault in faults:
        records.at_table.follow(Rule(fault, times=1))
        records.table.beat(REF.tag, "writer#1", {"sent": 1})
    records.at_table.follow()
    records.table.beat(REF.tag, "writer#1", {"sent": 2})
    assert records.at_table.open_connections <= 1


BUCKET, OBJECTS = "to-be-emptied", 1_001


def test_versions_markers_and_unfinished_uploads_go_page_by_page(emulator: str) -> None:
    """S3 deletes no bucket that has any of them, and lists a thousand at a time."""
    s3 = local_client("s3", emulator)
    s3.create_bucket(Bucket=BUCKET)
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    for number in range(OBJECTS):
        s3.put_object(Bucket=BUCKET, Key=f"key-{number:04d}", Body=b"")
    s3.put_object(Bucket=BUCKET, Key="key-0000", Body=b"again")
    s3.delete_object(Bucket=BUCKET, Key="key-0001")
    s3.create_multipart_upload(Bucket=BUCKET, Key="half")
    times = iter([True, True, False])
    partly = empty_bucket(s3, BUCKET, lambda: next(times))
    assert (partly.whole, partly.removed < OBJECTS + 3) == (False, True)
    rest = empty_bucket(s3, BUCKET)
    assert (rest.whole, partly.removed + rest.removed) == (True, OBJECTS + 3)
    assert s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []
    listed = s3.list_object_versions(Bucket=BUCKET)
    assert (listed.get("Versions", []), listed.get("DeleteMarkers", [])) == ([], [])
    s3.delete_bucket(Bucket=BUCKET)
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchBucket"):
        empty_bucket(s3, BUCKET)
