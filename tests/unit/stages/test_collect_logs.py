from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from stepbench.contracts.tasks import CollectLogsInput, TrialRef
from stepbench.errors import RecordsUnavailableError
from stepbench.records import layout
from stepbench.records.report_lines import PATTERN, LogCollection, ReportPage
from stepbench.stages import collect_logs as stage
from stepbench.stages.collect_logs import FUNCTIONS, collect_logs
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.records import t4_item
from stepbench.testing.trials import stored_trial

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW_NS = 1_700_000_000_000_000_000
NOW_MS = NOW_NS // 10**6


class Logs:
    """CloudWatch Logs behind a Stubber, a trial that took its lease `since_s` ago, and its receivers' items."""

    def __init__(self, stubber: Stubber, client: Any, since_s: int = 30) -> None:  # noqa: ANN401 -- a boto3 client
        self.stubber = stubber
        self.clock = FakeClock(NOW_NS)
        self.memory = MemoryServices(self.clock, aws={"logs": client}, function_prefix="stack")
        self.ref: TrialRef = stored_trial(self.memory.services)
        self.memory.services.table.take_lease("s3#bucket", self.ref, "arn", NOW_NS - since_s * 10**9)

    def received(self, *requests: str) -> None:
        """Receivers' items with these request ids."""
        for request in requests:
            self.memory.services.table.put_t4(self.ref.tag, request, NOW_NS, t4_item([]))

    def page(self, function: str, *requests: str, then: str = "", **asked: Any) -> None:  # noqa: ANN401 -- parameters
        """Expect a question about a function, and answer with REPORT lines."""
        lines = [f"REPORT RequestId: {name}\tDuration: 2 ms\tBilled Duration: 3 ms" for name in requests]
        answer: dict[str, Any] = {"events": [{"message": line} for line in lines]}
        expected: dict[str, Any] = {"logGroupName": f"/aws/lambda/stack-{function}", "filterPattern": PATTERN}
        expected |= {"startTime": ANY, "endTime": ANY, **asked}
        self.stubber.add_response("filter_log_events", answer | ({"nextToken": then} if then else {}), expected)

    def nothing(self, *functions: str) -> None:
        """Functions without a log group."""
        for _ in functions:
            self.stubber.add_client_error("filter_log_events", "ResourceNotFoundException")

    def collect(self, token: str = "") -> str | None:
        """One call; the token to go on with, or None when done."""
        answer = collect_logs(CollectLogsInput(ref=self.ref, token=token), self.memory.services)
        return None if answer.done else answer.token

    def pages(self, function: str) -> list[list[str]]:
        """Request ids by stored page."""
        runs = self.memory.services.runs
        keys = runs.keys(layout.trial_key(self.ref, f"logs/{function}/"))
        return [[line.request_id for line in runs.get_model(key, ReportPage).lines] for key in keys]

    @property
    def collection(self) -> LogCollection:
        """What was concluded."""
        runs = self.memory.services.runs
        return runs.get_model(layout.trial_key(self.ref, "logs/collection.json"), LogCollection)


@pytest.fixture
def logs() -> Iterator[Logs]:
    """Every expected question must have been asked by the end."""
    client = boto3.client("logs", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")  # noqa: S106 -- none
    with Stubber(client) as stubber:
        yield Logs(stubber, client)
        stubber.assert_no_pending_responses()


def test_pages_are_followed_to_the_end_of_each_function(logs: Logs) -> None:
    """CloudWatch hands out tokens, at times with an empty page; the first page is not the log."""
    logs.received("a", "b")
    logs.page("ReceiveEvents", "a", then="t1")
    logs.page("ReceiveEvents", then="t2", nextToken="t1")
    logs.page("ReceiveEvents", "b", nextToken="t2")
    logs.page("RunWriter", "w")
    logs.nothing(*FUNCTIONS[2:])
    assert logs.collect() is None
    assert logs.pages("ReceiveEvents") == [["a"], ["b"]]
    assert logs.pages("RunWriter") == [["w"]]
    assert logs.collection == LogCollection(every=1, expected=2, seen=2)


def test_the_log_is_read_from_the_lease_on(logs: Logs) -> None:
    """5 s of margin on either side; receivers by the minute, the others in one piece."""
    begin, end = NOW_MS - 35_000, NOW_MS + 5_000
    logs.page("ReceiveEvents", startTime=begin, endTime=end)
    logs.page("RunWriter", startTime=begin, endTime=end)
    logs.nothing(*FUNCTIONS[2:])
    assert logs.collect() is None


def test_receivers_that_left_no_line_yet_are_read_again(logs: Logs) -> None:
    """CloudWatch delivers late; the second reading finds the line."""
    logs.received("a", "b")
    logs.page("ReceiveEvents", "a")
    logs.nothing(*FUNCTIONS[1:])
    token = logs.collect()
    assert token is not None
    logs.page("ReceiveEvents", "a", "b")
    logs.nothing(*FUNCTIONS[1:])
    assert logs.collect(token) is None
    assert logs.collection.seen == 2


def test_late_lines_are_given_up_after_five_minutes(logs: Logs) -> None:
    """The report then says that logs are missing."""
    logs.received("a", "b")
    logs.page("ReceiveEvents", "a")
    logs.nothing(*FUNCTIONS[1:])
    token = logs.collect()
    assert token is not None
    logs.clock.advance(300 * 10**9)
    logs.page("ReceiveEvents", "a")
    logs.nothing(*FUNCTIONS[1:])
    assert logs.collect(token) is None
    assert logs.collection == LogCollection(every=1, expected=2, seen=1)


def test_a_call_ends_after_some_seconds_and_the_next_goes_on(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Lambda that reads for a quarter of an hour would be killed with nothing to show."""
    monkeypatch.setattr(stage, "BUDGET_NS", -1)
    logs.page("ReceiveEvents", then="t1")
    token = logs.collect()
    assert token is not None
    logs.page("ReceiveEvents", nextToken="t1")
    token = logs.collect(token)
    assert token is not None
    monkeypatch.setattr(stage, "BUDGET_NS", 10**9)
    logs.nothing(*FUNCTIONS[1:])
    assert logs.collect(token) is None


def test_throttling_is_patience(logs: Logs) -> None:
    """A few requests a second is all that the account has; Step Functions waits and calls again."""
    logs.stubber.add_client_error("filter_log_events", "ThrottlingException")
    token = logs.collect()
    assert token is not None
    logs.page("ReceiveEvents")
    logs.nothing(*FUNCTIONS[1:])
    assert logs.collect(token) is None


def test_a_log_that_cannot_be_read_is_named(logs: Logs) -> None:
    """A missing permission, most of the time."""
    logs.stubber.add_client_error("filter_log_events", "AccessDeniedException")
    with pytest.raises(RecordsUnavailableError, match="/aws/lambda/stack-ReceiveEvents"):
        logs.collect()


def test_many_invocations_are_sampled_by_the_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million REPORT lines would take an hour to fetch; five minutes at every third are the first and the fourth."""
    monkeypatch.setattr(stage, "MAX_INVOCATIONS", 2)
    client = boto3.client("logs", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")  # noqa: S106 -- none
    with Stubber(client) as stubber:
        logs = Logs(stubber, client, since_s=280)
        logs.received("a", "b", "c", "d", "e")
        begin = NOW_MS - 285_000
        logs.page("ReceiveEvents", "a", startTime=begin, endTime=begin + 59_999)
        logs.page("ReceiveEvents", "d", startTime=begin + 180_000, endTime=begin + 239_999)
        logs.nothing(*FUNCTIONS[1:])
        assert logs.collect() is None
        assert logs.collection == LogCollection(every=3, expected=5, seen=2)
        stubber.assert_no_pending_responses()


def test_without_a_lease_the_log_is_read_from_an_hour_before_the_first_phase(logs: Logs) -> None:
    """The trial failed so early, or so oddly, that nobody holds its target."""
    logs.memory.services.table.release_lease("s3#bucket", logs.ref.tag)
    for _ in range(61):
        logs.page("ReceiveEvents")
    logs.nothing(*FUNCTIONS[1:])
    assert logs.collect() is None
