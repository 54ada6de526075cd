"""The log of a measured function, taken into the results table look by look."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.function import MeasuredFunction
from stepbench.contracts.identity import EventId
from stepbench.errors import RecordsUnavailableError
from stepbench.records.formats.second_sources import ReportPage
from stepbench.records.storage import layout
from stepbench.stages import function_log as stage
from stepbench.stages.function_log import LogPosition, keep_reports, take_in

NOW_NS = 1_700_000_000_000_000_000
NOW_MS = NOW_NS // 10**6
FUNCTION = MeasuredFunction(package=f"functions/{'0' * 64}.zip", handler="app.handler", attempts=1)


class Log:
    """CloudWatch Logs with one group, whose lines become readable when `show` says so; pages hold two lines."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.error = ""

    def show(self, at_ms: int, *messages: str) -> None:
        """Let lines be readable that were printed then."""
        self.events += [{"timestamp": at_ms, "message": f"{message}\n"} for message in messages]

    def filter_log_events(self, **request: Any) -> dict[str, Any]:  # noqa: ANN401 -- parameters
        """Return a page of what was printed since `startTime` and holds the pattern."""
        if self.error:
            raise ClientError({"Error": {"Code": self.error, "Message": "no"}}, "FilterLogEvents")
        pattern = request.get("filterPattern", "").strip('"')
        found = [e for e in self.events if e["timestamp"] >= request["startTime"] and pattern in e["message"]]
        found.sort(key=lambda event: event["timestamp"])
        first = int(request.get("nextToken", 0))
        more = {"nextToken": str(first + 2)} if len(found) > first + 2 else {}
        return {"events": found[first : first + 2], **more}


class Scene:
    """A trial that measures a function on S3, and its log."""

    def __init__(self, **function: Any) -> None:  # noqa: ANN401 -- fields of the function
        self.log = Log()
        self.memory = MemoryServices(FakeClock(NOW_NS), aws={"logs": self.log}, function_prefix="stack")
        plan = small_plan("s3")
        target = plan.target.model_copy(update={"function": FUNCTION.model_copy(update=function)})
        self.ref = stored_trial(self.memory.services, plan.model_copy(update={"target": target}))
        self.memory.services.table.take_lease("s3#bucket", self.ref, "arn", NOW_NS)

    def line(self, name: str, number: int, **fields: Any) -> str:  # noqa: ANN401 -- fields of a line
        """Return a line of the invocation that brought this event."""
        return json.dumps({
            f"stepbench.{name}": {"trial": self.ref.tag, "request": f"r-{number}", "t4": NOW_NS + number, **fields}
        })  # fmt: skip

    def begin(self, number: int) -> str:
        """Return the first line."""
        key = f"{EventId(self.ref.tag, 0, 0, 0, 0, number).text()}/xxxxxxxx"
        record = [key, "ObjectCreated:Put", "2023-11-14T22:13:20.000Z", "v"]
        return self.line("t4", number, sandbox="s", batch=1, source="aws:s3", records=[record])

    def put(self, number: int, *lines: str, t5_ns: int, part: int = 0) -> None:
        """Put lines into the results table, as the layer does."""
        keys = layout.lines_pk(self.ref.tag, number % layout.T4_SHARDS), layout.lines_sk(t5_ns, f"r-{number}", part)
        self.memory.services.table.put_row(*keys, {"lines": "".join(f"{line}\n" for line in lines)})

    def look(self) -> dict[str, int]:
        """Take in, and return t5 less now by request."""
        take_in(self.memory.services.trial(self.ref), self.memory.services)
        items = self.memory.services.table.t4_items(self.ref.tag)
        return {str(i["sk"]).split("#")[0]: max(int(i["t5_ns"]) - NOW_NS, 0) for i in items}

    @property
    def position(self) -> LogPosition:
        """Return what is remembered between two looks."""
        return self.memory.services.runs.get_model(layout.trial_key(self.ref, "function-log.json"), LogPosition)


def test_each_look_adds_what_has_come_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines come late and out of order, and one invocation's may come in different looks."""
    monkeypatch.setattr(stage, "OVERLAP_MS", 1_000)
    scene = Scene()
    scene.log.show(NOW_MS, scene.begin(1), scene.begin(2), scene.line("t5", 2, t5=NOW_NS + 20))
    assert scene.look() == {"r-1": 0, "r-2": 20}

    scene.log.show(NOW_MS + 5_000, scene.line("t5", 1, t5=NOW_NS + 10))
    scene.log.show(NOW_MS - 500, scene.begin(3), scene.line("t5", 3, t5=NOW_NS + 30))
    assert scene.look() == {"r-1": 10, "r-2": 20, "r-3": 30}
    assert scene.position.open == {}
    assert scene.position.read_to_ms == NOW_MS + 5_000


def test_what_was_taken_in_is_not_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look reads the last minute once more; to store it again would cost as many writes."""
    scene = Scene()
    puts: list[str] = []
    table = type(scene.memory.services.table)
    put = table.put_t4

    def note(self: Any, tag: str, request: str, t4_ns: int, item: Any) -> None:  # noqa: ANN401 -- a test's table
        puts.append(request)
        put(self, tag, request, t4_ns, item)

    monkeypatch.setattr(table, "put_t4", note)
    scene.log.show(NOW_MS, scene.begin(1), scene.line("t5", 1, t5=NOW_NS + 10))

    assert scene.look() == scene.look() == {"r-1": 10}
    assert puts == ["r-1"]


def test_what_came_later_than_any_look_goes_back_is_found_by_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """CloudWatch promises no time; `CollectLogs` reads the log once more, and stores only what it lacks."""
    monkeypatch.setattr(stage, "OVERLAP_MS", 1_000)
    scene = Scene()
    scene.log.show(NOW_MS, scene.begin(1), scene.line("t5", 1, t5=NOW_NS + 10))
    scene.log.show(NOW_MS + 9_000, scene.begin(3), scene.line("t5", 3, t5=NOW_NS + 30))
    assert scene.look() == {"r-1": 10, "r-3": 30}
    scene.log.show(NOW_MS, scene.begin(2), scene.line("t5", 2, t5=NOW_NS + 20))
    assert scene.look() == {"r-1": 10, "r-3": 30}

    take_in(scene.memory.services.trial(scene.ref), scene.memory.services, anew=True)
    assert scene.look() == {"r-1": 10, "r-2": 20, "r-3": 30}


def test_a_long_invocation_is_not_taken_for_one_whose_begin_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first line lies further back than looks do, and its last one is read again."""
    monkeypatch.setattr(stage, "OVERLAP_MS", 1_000)
    scene = Scene()
    scene.log.show(NOW_MS, scene.begin(1))
    scene.look()
    scene.log.show(NOW_MS + 60_000, scene.line("t5", 1, t5=NOW_NS + 60 * 10**9))
    scene.look()
    scene.look()
    assert scene.position.open == {}


def test_an_end_without_its_begin_waits_for_it() -> None:
    """Nobody knows which event it was until then."""
    scene = Scene()
    scene.log.show(NOW_MS, scene.line("t5", 1, t5=NOW_NS + 10))
    assert scene.look() == {}

    scene.log.show(NOW_MS, scene.begin(1))
    assert scene.look() == {"r-1": 10}


def test_lambdas_own_lines_are_taken_in_where_they_are_the_times() -> None:
    """They have no tag of the trial's: the log group is the copy's own. The function's own lines are passed over."""
    scene = Scene(times="platform")
    record, at = {"requestId": "r-1"}, "2023-11-14T22:13:20.000Z"
    start, report = (
        json.dumps({"time": at, "type": f"platform.{kind}", "record": {**record, **more}})
        for kind, more in (("start", {}), ("report", {"metrics": {"durationMs": 5}, "status": "success"}))
    )
    scene.log.show(NOW_MS, start, "the function's own")
    assert scene.look() == {"r-1": 0}
    assert len(scene.position.open) == 1

    scene.log.show(NOW_MS + 5, report)
    assert scene.look() == scene.look() == {"r-1": 5_000_000}
    assert scene.position.open == {}


def test_a_group_that_is_not_there_holds_nothing() -> None:
    """It is made with the copy, and goes with it."""
    scene = Scene()
    scene.log.error = "ResourceNotFoundException"
    assert scene.look() == {}


def test_a_log_that_cannot_be_read_is_waited_for() -> None:
    """Its error names the group, so that whoever looks finds the right."""
    scene = Scene()
    scene.log.error = "AccessDeniedException"
    with pytest.raises(RecordsUnavailableError, match="log group /aws/lambda/stack-measured-"):
        scene.look()


def test_a_trial_of_the_stacks_own_receiver_has_no_such_log() -> None:
    """It is asked for nothing: the right to read it is for copies alone."""
    memory = MemoryServices(FakeClock(NOW_NS), aws={}, function_prefix="stack")
    ref = stored_trial(memory.services)
    take_in(memory.services.trial(ref), memory.services)
    assert memory.services.runs.find_bytes(layout.trial_key(ref, "function-log.json")) is None


def test_the_results_table_is_looked_at_first_and_the_log_only_when_it_has_nothing_new() -> None:
    """The log has a line of each invocation: to read them all at each look would take what the table saves."""
    scene = Scene(records="table")
    scene.put(1, scene.begin(1), scene.line("t5", 1, t5=NOW_NS + 10), t5_ns=NOW_NS + 10)
    scene.log.show(NOW_MS, scene.begin(1), scene.begin(2))
    assert scene.look() == {"r-1": 10}
    assert scene.look() == {"r-1": 10, "r-2": 0}
    assert scene.position.open.keys() == {f"r-2#{NOW_NS + 2:020d}"}

    scene.put(2, scene.begin(2), scene.line("t5", 2, t5=NOW_NS + 20), t5_ns=NOW_NS + 20)
    assert scene.look() == {"r-1": 10, "r-2": 20}
    assert scene.position.open == {}


def test_a_line_ends_where_the_layer_has_ended_it() -> None:
    """Node.js writes what divides lines elsewhere as it is, such as U+2028 in an error's name."""
    scene = Scene(records="table")
    end = scene.line("t5", 1, t5=NOW_NS + 10, error="A?").replace("?", "\u2028")
    scene.put(1, scene.begin(1), end, t5_ns=NOW_NS + 10)
    assert scene.look() == {"r-1": 10}


def test_what_the_table_did_not_take_is_found_in_the_log() -> None:
    """The layer prints what it could not put."""
    scene = Scene(records="table")
    scene.log.show(NOW_MS, scene.begin(1), scene.line("t5", 1, t5=NOW_NS + 10))
    assert scene.look() == {"r-1": 10}


def test_what_died_is_found_by_the_last_look_though_all_else_came_by_the_table() -> None:
    """Else an event that came through at the second try would show no first one."""
    scene = Scene(records="table")
    scene.put(1, scene.begin(1), scene.line("t5", 1, t5=NOW_NS + 10), t5_ns=NOW_NS + 10)
    scene.log.show(NOW_MS, scene.begin(1), scene.begin(2))
    take_in(scene.memory.services.trial(scene.ref), scene.memory.services, anew=True)
    assert scene.look() == {"r-1": 10, "r-2": 0}


def test_an_item_that_comes_late_is_taken_in_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer may wait two seconds for the table; each look goes back further, the last one over all of it."""
    scene = Scene(records="table")
    puts: list[str] = []
    table = type(scene.memory.services.table)
    put = table.put_t4

    def note(self: Any, tag: str, request: str, t4_ns: int, item: Any) -> None:  # noqa: ANN401 -- a test's table
        puts.append(request)
        put(self, tag, request, t4_ns, item)

    monkeypatch.setattr(table, "put_t4", note)
    scene.put(1, scene.begin(1), scene.line("t5", 1, t5=NOW_NS + 10), t5_ns=NOW_NS + 10)
    scene.look()
    scene.put(2, scene.begin(2), scene.line("t5", 2, t5=NOW_NS), t5_ns=NOW_NS - 2 * 10**9)
    scene.look()
    scene.put(3, scene.begin(3), scene.line("t5", 3, t5=NOW_NS), t5_ns=NOW_NS - 11 * 10**9)
    scene.look()
    assert puts == ["r-1", "r-2"]

    take_in(scene.memory.services.trial(scene.ref), scene.memory.services, anew=True)
    assert puts == ["r-1", "r-2", "r-3"]


def test_an_invocation_of_several_items_is_stored_once_all_are_there() -> None:
    """A look may come between two of them."""
    scene = Scene(records="table")
    begin = scene.line("t4", 1, sandbox="s", batch=1, source="aws:s3", records=[])
    scene.put(1, begin, t5_ns=NOW_NS + 10)
    assert scene.look() == {}
    key = f"{EventId(scene.ref.tag, 0, 0, 0, 0, 1).text()}/xxxxxxxx"
    record = [key, "ObjectCreated:Put", "2023-11-14T22:13:20.000Z", "v"]
    scene.put(1, scene.line("t5", 1, t5=NOW_NS + 10, records=[record]), t5_ns=NOW_NS + 10, part=1)
    assert scene.look() == {"r-1": 10}


def test_reports_are_kept_before_the_log_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that was stopped they are collected after the copy and its log have been removed."""
    monkeypatch.setattr(stage, "PAGE_EVENTS", 2)
    scene = Scene()
    reports = [f"REPORT RequestId: r-{number}\tDuration: 2 ms\tBilled Duration: 3 ms" for number in range(3)]
    scene.log.show(NOW_MS, scene.begin(1), *reports)

    keep_reports(scene.memory.services.trial(scene.ref), scene.memory.services)

    runs = scene.memory.services.runs
    keys = runs.keys(layout.trial_key(scene.ref, "logs/MeasuredFunction/"))
    kept = [[line.request_id for line in runs.get_model(key, ReportPage).lines] for key in keys]
    assert kept == [["r-0", "r-1"], ["r-2"]]
