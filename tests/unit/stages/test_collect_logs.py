from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber
from tests.samples.estimates import present
from tests.samples.records import t4_item
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import CollectLogsInput, PreparedTarget, TornDown
from stepbench.contracts.transfer.plan import TransferTrial
from stepbench.errors import RecordsUnavailableError
from stepbench.experiments.trigger.staging import FUNCTIONS as OTHERS
from stepbench.experiments.trigger.staging import RECEIVER
from stepbench.records.formats.second_sources import PATTERN, LogCollection, ReportPage, parse_reports
from stepbench.records.formats.t4 import Entry
from stepbench.records.formats.t4_lines import is_logged, t4_filter, t4_lines
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import T4Page
from stepbench.stages import collect_logs as stage
from stepbench.stages.collect_logs import LATE_NS, collect_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.invocations import FunctionMetrics

NOW_NS = 1_700_000_000_000_000_000
NOW_MS = NOW_NS // 10**6
ARRIVAL = Entry(0, 0, 0, 0, 0, 0, NOW_NS)

FUNCTIONS = (RECEIVER, *OTHERS)


class Quiet:
    """CloudWatch Logs without a line."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def filter_log_events(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401 -- parameters
        """Answer with nothing."""
        self.asked.append(request["logGroupName"])
        return {"events": []}


class Metrics:
    """CloudWatch: one minute of a function."""

    def __init__(self, *, refused: bool = False) -> None:
        self.refused = refused
        self.functions: list[str] = []

    def get_metric_data(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401 -- parameters
        """Answer that Lambda throttled twice."""
        if self.refused:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetMetricData")
        self.functions += [
            query["MetricStat"]["Metric"]["Dimensions"][0]["Value"] for query in request["MetricDataQueries"]
        ]
        return {"MetricDataResults": [{"Id": "throttles", "Timestamps": [request["StartTime"]], "Values": [2.0]}]}


class Logs:
    """CloudWatch Logs behind a Stubber, a trial that took its lease `since_s` ago, and its receivers' items."""

    def __init__(self, stubber: Stubber, client: Any, since_s: int = 30) -> None:  # noqa: ANN401 -- a boto3 client
        self.stubber = stubber
        self.clock = FakeClock(NOW_NS)
        self.memory = MemoryServices(self.clock, aws={"logs": client, "cloudwatch": Metrics()}, function_prefix="stack")
        self.ref: TrialRef = stored_trial(self.memory.services)
        self.memory.services.table.take_lease("s3#bucket", self.ref, "arn", NOW_NS - since_s * 10**9)

    def logs_t4(self, mode: str, store: str = "s3") -> None:
        """Let the trial's plan ask for t4 lines from now on."""
        stored_trial(self.memory.services, small_plan(store, log_t4=mode))

    def arrived(self, *requests: str, source: str = "receiver") -> None:
        """Leave items with one arrival each."""
        for request in requests:
            self.memory.services.table.put_t4(self.ref.tag, request, NOW_NS, t4_item([ARRIVAL], source=source))

    def t4_page(self, function: str, *requests: str, then: str = "", **asked: Any) -> None:  # noqa: ANN401 -- parameters
        """Expect a question for the trial's t4 lines, and answer with one for each request."""
        item = t4_item([ARRIVAL])
        texts = [line for name in requests for line in t4_lines(self.ref.tag, name, NOW_NS, item)]
        events = [{"message": text, "timestamp": NOW_MS} for text in texts]
        answer: dict[str, Any] = {"events": events} | ({"nextToken": then} if then else {})
        expected: dict[str, Any] = {"logGroupName": f"/aws/lambda/stack-{function}"}
        expected |= {"filterPattern": t4_filter(self.ref.tag)}
        expected |= {"startTime": ANY, "endTime": ANY, **asked}
        self.stubber.add_response("filter_log_events", answer, expected)

    def t4_logs(self) -> list[int]:
        """Return how many lines each stored page has."""
        runs = self.memory.services.runs
        return [len(runs.get_model(key, T4Page).lines) for key in runs.keys(layout.trial_key(self.ref, "t4-logs/"))]

    def received(self, *requests: str) -> None:
        """Leave receivers' items with these request ids."""
        for request in requests:
            self.memory.services.table.put_t4(self.ref.tag, request, NOW_NS, t4_item([]))

    def page(self, function: str, *requests: str, then: str = "", **asked: Any) -> None:  # noqa: ANN401 -- parameters
        """Expect a question about a function, and answer with REPORT lines."""
        answer: dict[str, Any] = {"events": [{"message": self.report(name)} for name in requests]}
        expected: dict[str, Any] = {"logGroupName": f"/aws/lambda/stack-{function}", "filterPattern": PATTERN}
        expected |= {"startTime": ANY, "endTime": ANY, **asked}
        self.stubber.add_response("filter_log_events", answer | ({"nextToken": then} if then else {}), expected)

    @staticmethod
    def report(request: str) -> str:
        """Return the REPORT line of an invocation."""
        return f"REPORT RequestId: {request}\tDuration: 2 ms\tBilled Duration: 3 ms"

    def nothing(self, *functions: str) -> None:
        """Expect questions about functions without a log group."""
        for _ in functions:
            self.stubber.add_client_error("filter_log_events", "ResourceNotFoundException")

    def collect(self, token: str = "") -> str | None:
        """Call once; return the token to go on with, or None when done."""
        answer = collect_logs(CollectLogsInput(ref=self.ref, token=token), self.memory.services)
        return None if answer.done else answer.token

    def begin(self, token: str = "") -> str:
        """Make a call that does not come to the end, and return the token to go on with."""
        answer = self.collect(token)
        assert answer is not None
        return answer

    def finish(self, token: str = "") -> None:
        """Make the last call; all functions but the first have no log group."""
        self.nothing(*FUNCTIONS[1:])
        assert self.collect(token) is None

    def pages(self, function: str) -> list[list[str]]:
        """Return request ids by stored page."""
        runs = self.memory.services.runs
        keys = runs.keys(layout.trial_key(self.ref, f"logs/{function}/"))
        return [[line.request_id for line in runs.get_model(key, ReportPage).lines] for key in keys]

    @property
    def collection(self) -> LogCollection:
        """Return what the stage concluded."""
        runs = self.memory.services.runs
        return runs.get_model(layout.trial_key(self.ref, "logs/collection.json"), LogCollection)


@contextmanager
def cloudwatch(since_s: int = 30) -> Iterator[Logs]:
    """Every expected question must have been asked by the end."""
    client = boto3.client("logs", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")  # noqa: S106 -- none
    with Stubber(client) as stubber:
        yield Logs(stubber, client, since_s)
        stubber.assert_no_pending_responses()


@pytest.fixture
def logs() -> Iterator[Logs]:
    """Yield the logs of a trial that took its lease 30 s ago."""
    with cloudwatch() as logs:
        yield logs


def test_pages_are_followed_to_the_end_of_each_function(logs: Logs) -> None:
    """CloudWatch hands out tokens, at times with an empty page; the first page is not the log."""
    logs.received("a", "b")
    logs.page("ReceiveEvents", "a", then="t1")
    logs.page("ReceiveEvents", then="t2", nextToken="t1")
    logs.page("ReceiveEvents", "b", nextToken="t2")
    logs.page("RunWriter", "w")
    logs.nothing(*FUNCTIONS[2:])
    assert logs.collect() is None
    assert (logs.pages("ReceiveEvents"), logs.pages("RunWriter")) == ([["a"], ["b"]], [["w"]])
    assert logs.collection == LogCollection(every=1, expected=2, seen=2)


def test_of_a_clock_check_the_checkers_log_is_the_receivers(logs: Logs) -> None:
    """Looked for in ReceiveEvents' log, the lines would be awaited for five minutes, and then be missing."""
    stored_trial(logs.memory.services, small_plan("dynamodb", target={"same_sandbox": True}))
    logs.received("a")
    logs.page("CheckClock", "write-a", "a")
    logs.finish()
    assert logs.pages("CheckClock") == [["write-a", "a"]]
    assert logs.collection == LogCollection(every=1, expected=1, seen=1)


def test_the_log_is_read_from_the_lease_on(logs: Logs) -> None:
    """
    5 s of margin on either side; receivers by the minute, the others in one piece.

    Before the lease these have half a second: an earlier trial's writer, 2 s before it, was billed to this one as well.
    """
    begin, end = NOW_MS - 35_000, NOW_MS + 5_000
    logs.page("ReceiveEvents", startTime=begin, endTime=end)
    logs.page("RunWriter", startTime=NOW_MS - 30_500, endTime=end)
    logs.nothing(*FUNCTIONS[2:])
    assert logs.collect() is None


def test_receivers_that_left_no_line_yet_are_read_again(logs: Logs) -> None:
    """CloudWatch delivers late; the second reading finds the line."""
    logs.received("a", "b")
    logs.page("ReceiveEvents", "a")
    logs.nothing(*FUNCTIONS[1:])
    token = logs.begin()
    logs.page("ReceiveEvents", "a", "b")
    logs.finish(token)
    assert logs.collection.seen == 2


def test_each_try_of_a_request_is_expected_to_leave_a_line_of_its_own(logs: Logs) -> None:
    """Lambda's retry has the request id of the first try: by ids alone, two of three billed invocations are lost."""
    table = logs.memory.services.table
    for number in range(3):
        table.put_t4(logs.ref.tag, "a", NOW_NS + number, t4_item([]))
    lines = [{"message": logs.report("a"), "timestamp": NOW_MS + minute * 60_000} for minute in range(2)]
    again = [*lines, {"message": logs.report("a"), "timestamp": NOW_MS + 180_000}]
    for events in (lines, again):
        logs.stubber.add_response("filter_log_events", {"events": events})
        logs.nothing(*FUNCTIONS[1:])

    token = logs.begin()
    assert logs.collect(token) is None
    assert (logs.collection.seen, logs.collection.expected) == (3, 3)


def test_the_log_of_a_copy_that_is_gone_is_not_waited_for(logs: Logs) -> None:
    """The sweeper has removed both: somebody who had stopped the run waited 20 s for lines that could not come."""
    runs = logs.memory.services.runs
    stored_trial(logs.memory.services, small_plan("s3", target={"function": {"name": "orders", "attempts": 1}}))
    logs.received("a", "b")
    kept = ReportPage(function="MeasuredFunction", lines=parse_reports([{"message": logs.report("a")}]))
    runs.put_model(layout.trial_key(logs.ref, "logs/MeasuredFunction/removed-0000.json"), kept)
    runs.put_model(layout.trial_key(logs.ref, "removed.json"), TornDown(removed=()))

    logs.nothing("the copy", *FUNCTIONS[1:], "its lines", "its lines anew")
    assert logs.collect() is None
    assert (logs.collection.seen, logs.collection.expected) == (1, 2)


def test_a_token_of_another_version_begins_anew(logs: Logs) -> None:
    """A stack may be updated while a trial's logs are read: its measurement would end as failed."""
    logs.received("a")
    before = '{"function":1,"from_ms":1,"to_ms":2,"every":1,"deadline_ns":3,"log_t4":"none","receiver":"ReceiveEvents"}'
    logs.page("ReceiveEvents", "a")
    logs.finish(before)
    assert logs.collection == LogCollection(every=1, expected=1, seen=1, calls=1)


def test_late_lines_are_given_up_after_five_minutes(logs: Logs) -> None:
    """The report then says that logs are missing."""
    logs.received("a", "b")
    logs.page("ReceiveEvents", "a")
    logs.nothing(*FUNCTIONS[1:])
    token = logs.begin()
    logs.clock.advance(300 * 10**9)
    logs.page("ReceiveEvents", "a")
    logs.finish(token)
    assert logs.collection == LogCollection(every=1, expected=2, seen=1, calls=2)


@pytest.mark.parametrize(("until_s", "shared"), [(None, True), (-29, True), (-31, False)])
def test_another_run_that_held_a_target_meanwhile_is_noted(logs: Logs, until_s: int | None, *, shared: bool) -> None:
    """Its invocations are in the same logs, so the lines are no bill of this trial: also if it is over by now."""
    if until_s is None:
        other = TrialRef(run_id="run-9", trial=0, tag="other-0000")
        logs.memory.services.table.take_lease("etcd#stack", other, "arn", NOW_NS)
    else:
        logs.memory.held_until("run-9", NOW_NS + until_s * 10**9)
    logs.memory.held_until(logs.ref.run_id, NOW_NS)
    logs.page("ReceiveEvents")
    logs.finish()
    assert logs.collection.shared == shared


def test_a_run_before_one_that_was_stopped_has_not_shared_its_functions(logs: Logs) -> None:
    """Its lease is gone by the time its logs are read, and the plan before it was blamed for what it cost."""
    logs.memory.services.table.release_lease("s3#bucket", logs.ref.tag)
    prepared = PreparedTarget(target="s3#bucket", execution_arn="arn", names=(), taken_at_ns=NOW_NS - 30 * 10**9)
    logs.memory.services.runs.put_model(layout.trial_key(logs.ref, "made.json"), prepared)
    logs.memory.held_until("run-9", NOW_NS - 31 * 10**9)
    logs.page("ReceiveEvents")
    logs.finish()
    assert logs.collection.shared is False


def test_a_call_ends_after_some_seconds_and_the_next_goes_on(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lambda that reads for a quarter of an hour would be killed with nothing to show."""
    monkeypatch.setattr(stage, "BUDGET_NS", -1)
    logs.page("ReceiveEvents", then="t1")
    token = logs.begin()
    logs.page("ReceiveEvents", nextToken="t1")
    token = logs.begin(token)
    monkeypatch.setattr(stage, "BUDGET_NS", 10**9)
    logs.finish(token)


def test_throttling_is_retry(logs: Logs) -> None:
    """A few requests a second is all that the account has; Step Functions waits and calls again."""
    logs.stubber.add_client_error("filter_log_events", "ThrottlingException")
    token = logs.begin()
    logs.page("ReceiveEvents")
    logs.finish(token)


def test_a_log_that_cannot_be_read_is_named(logs: Logs) -> None:
    """A missing permission, most of the time."""
    logs.stubber.add_client_error("filter_log_events", "AccessDeniedException")
    with pytest.raises(RecordsUnavailableError, match="/aws/lambda/stack-ReceiveEvents"):
        logs.collect()


def test_many_invocations_are_sampled_by_the_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million REPORT lines would take an hour to fetch; five minutes at every third are the first and the fourth."""
    monkeypatch.setattr(stage, "MAX_INVOCATIONS", 2)
    with cloudwatch(since_s=280) as logs:
        logs.received("a", "b", "c", "d", "e")
        begin = NOW_MS - 285_000
        logs.page("ReceiveEvents", "a", startTime=begin, endTime=begin + 59_999)
        logs.page("ReceiveEvents", "d", startTime=begin + 180_000, endTime=begin + 239_999)
        logs.finish()
        assert logs.collection == LogCollection(every=3, expected=5, seen=2)


def test_without_a_lease_the_log_is_read_from_an_hour_before_the_first_phase(logs: Logs) -> None:
    """The trial failed so early, or so oddly, that nobody holds its target."""
    logs.memory.services.table.release_lease("s3#bucket", logs.ref.tag)
    for _ in range(61):
        logs.page("ReceiveEvents")
    logs.finish()


def test_t4_lines_are_collected_beside_report_lines(logs: Logs) -> None:
    """Page by page, from the log of whoever receives; an empty page leaves nothing."""
    logs.logs_t4("all")
    logs.arrived("a", "b", "c")
    logs.page("ReceiveEvents", "a", "b", "c")
    logs.nothing(*FUNCTIONS[1:])
    logs.t4_page("ReceiveEvents", "a", "b", then="t1")
    logs.t4_page("ReceiveEvents", then="t2", nextToken="t1")
    logs.t4_page("ReceiveEvents", "c", nextToken="t2")
    assert logs.collect() is None
    assert logs.t4_logs() == [2, 1]
    assert logs.collection == LogCollection(every=1, expected=3, seen=3, t4_expected=3, t4_seen=3)


def test_a_watcher_s_t4_lines_come_from_the_watcher_s_log(logs: Logs) -> None:
    """Pull triggers invoke no receiver; its log is read in one piece, since its lines are few."""
    logs.logs_t4("all", "etcd")
    logs.arrived("watcher-0-000001", source="watcher#0")
    logs.nothing(*FUNCTIONS)
    logs.t4_page("WatchChanges", "watcher-0-000001", startTime=NOW_MS - 35_000, endTime=NOW_MS + 5_000)
    assert logs.collect() is None
    assert (logs.collection.t4_expected, logs.collection.t4_seen) == (1, 1)


def test_t4_lines_that_are_late_are_read_again_and_given_up_after_five_minutes(logs: Logs) -> None:
    """The analysis then says which are missing."""
    logs.logs_t4("all")
    logs.arrived("a", "b")
    token = ""
    for found in (["a"], ["a"]):
        logs.page("ReceiveEvents", "a", "b")
        logs.nothing(*FUNCTIONS[1:])
        logs.t4_page("ReceiveEvents", *found)
        token = logs.collect(token) or ""
        logs.clock.advance(300 * 10**9)
    assert (token, logs.collection.t4_expected, logs.collection.t4_seen) == ("", 2, 1)


def test_of_a_sample_only_the_sampled_are_awaited(logs: Logs) -> None:
    """The others are not in the log, and waiting for them would take five minutes."""
    logs.logs_t4("sample")
    names = [f"request-{number}" for number in range(100)]
    sampled = [name for name in names if is_logged("sample", name)]
    logs.arrived(*names)
    logs.page("ReceiveEvents", *names)
    logs.nothing(*FUNCTIONS[1:])
    logs.t4_page("ReceiveEvents", *sampled)
    assert logs.collect() is None
    assert 0 < logs.collection.t4_expected == logs.collection.t4_seen < 100


def test_items_without_arrivals_are_not_awaited(logs: Logs) -> None:
    """They have no t4, and so no line."""
    logs.logs_t4("all")
    logs.received("a")
    logs.page("ReceiveEvents", "a")
    logs.nothing(*FUNCTIONS[1:])
    logs.t4_page("ReceiveEvents")
    assert logs.collect() is None
    assert logs.collection.t4_expected == 0


def test_every_minute_of_t4_lines_is_read_where_report_lines_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many arrivals are logged is the plan's business; a line that was not read would look like one missing."""
    monkeypatch.setattr(stage, "MAX_INVOCATIONS", 1)
    with cloudwatch(since_s=100) as logs:
        logs.logs_t4("all")
        logs.arrived("a", "b")
        begin = NOW_MS - 105_000
        logs.page("ReceiveEvents", "a", startTime=begin, endTime=begin + 59_999)
        logs.nothing(*FUNCTIONS[1:])
        logs.t4_page("ReceiveEvents", "a", startTime=begin, endTime=begin + 59_999)
        logs.t4_page("ReceiveEvents", "b", startTime=begin + 60_000, endTime=NOW_MS + 5_000)
        assert logs.collect() is None
        assert (logs.collection.every, logs.collection.t4_seen) == (2, 2)


def test_a_full_page_without_a_token_is_followed_by_time(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulators stop at the limit; taken for the end, every later line would count as missing."""
    monkeypatch.setattr(stage, "PAGE_EVENTS", 2)
    logs.logs_t4("all")
    logs.arrived("a", "b", "c", "d")
    logs.page("ReceiveEvents", "a", "b", "c", "d", then="t")
    logs.page("ReceiveEvents", nextToken="t")
    logs.nothing(*FUNCTIONS[1:])
    logs.t4_page("ReceiveEvents", "a", "b")
    logs.t4_page("ReceiveEvents", "b", "c", startTime=NOW_MS)
    logs.t4_page("ReceiveEvents", "b", "c", startTime=NOW_MS + 1)
    logs.t4_page("ReceiveEvents", "d", startTime=NOW_MS + 2)
    assert logs.collect() is None
    assert (logs.t4_logs(), logs.collection.t4_expected, logs.collection.t4_seen) == ([2, 2, 2, 1], 4, 4)


@pytest.mark.parametrize("platforms", [("lambda",), ("fargate",), ("lambda", "fargate")])
def test_of_transfers_only_groups_of_their_platforms_are_read(platforms: tuple[str, ...]) -> None:
    """A stack without tasks has no right to ask for their group, and a refusal would fail the trial."""
    quiet = Quiet()
    memory = MemoryServices(FakeClock(NOW_NS), aws={"logs": quiet}, function_prefix="stack")
    plan = TransferTrial.model_validate({"experiment": "transfer", "transfers": 1, "platforms": platforms})
    assert collect_logs(CollectLogsInput(ref=stored_trial(memory.services, plan)), memory.services).done
    assert ("/aws/ecs/stack-RunTransferTask" in quiet.asked) == ("fargate" in platforms)
    assert "/aws/lambda/stack-SeedFiles" in quiet.asked
    assert "/aws/lambda/stack-RunWriter" not in quiet.asked


def metrics_of(cloudwatch: Metrics, function: dict[str, str] | None, **settings: str) -> FunctionMetrics | None:
    """Return what is stored of a trial whose logs are empty, but for one invocation."""
    clients: dict[str, object] = {"logs": Quiet(), "cloudwatch": cloudwatch}
    clock = FakeClock(NOW_NS)
    memory = MemoryServices(clock, aws=clients, function_prefix="stack", **settings)
    ref = stored_trial(memory.services, small_plan("s3", target={"function": function} if function else {}))
    memory.services.table.put_t4(ref.tag, "a", NOW_NS, t4_item([]))
    done, token = False, ""
    while not done:
        answer = collect_logs(CollectLogsInput(ref=ref, token=token), memory.services)
        done, token = answer.done, answer.token
        clock.advance(LATE_NS)
    assert set(cloudwatch.functions) <= {f"stack-measured-{ref.tag}"}
    return memory.services.runs.get_model(layout.trial_key(ref, "logs/collection.json"), LogCollection).metrics


def test_metrics_of_a_copy_are_read_when_its_logs_are_complete() -> None:
    """No log line has a throttle. The trial's own count of invocations says how much CloudWatch lacks."""
    found = present(metrics_of(Metrics(), {"name": "orders"}))
    assert (found.throttles, found.recorded, found.until) == (2, 1, "2023-11-14T21:14:00+00:00")


def test_metrics_that_cannot_be_read_fail_no_trial() -> None:
    """The reason stands in their place."""
    assert "AccessDenied" in present(metrics_of(Metrics(refused=True), {"name": "orders"})).reason


@pytest.mark.parametrize(("function", "emulator"), [(None, ""), ({"name": "orders"}, "MiniStack 1")])
def test_cloudwatch_is_asked_neither_of_the_stack_s_receiver_nor_on_emulators(
    function: dict[str, str] | None, emulator: str
) -> None:
    """An emulator has no metrics of Lambda, and zeros would be none."""
    cloudwatch = Metrics()
    assert metrics_of(cloudwatch, function, emulator=emulator) is None
    assert not cloudwatch.functions
