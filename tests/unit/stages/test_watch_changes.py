from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.records import REF, trial_spec
from tests.samples.services import MemoryServices, fail
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.clock import ClockOffset
from stepbench.contracts.identity import EventId
from stepbench.contracts.phase import LoadStep
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import WatchChangesInput, WatchChangesOutput
from stepbench.drivers.registry import lease_target
from stepbench.errors import RecordsUnavailableError, TargetUnavailableError
from stepbench.model.request import Change, ChangeBatch
from stepbench.records.formats.t4 import MAX_ENTRIES, decode_fallback
from stepbench.records.formats.t4_items import T4Item, parse_item
from stepbench.records.formats.t4_lines import parse_t4_line
from stepbench.records.storage import layout
from stepbench.records.storage.watch_log import read_watches
from stepbench.stages import watch_changes as stage
from stepbench.stages.watch_changes import Turns, WatchPace, watch_changes

SECOND_NS = 1_000_000_000
SPEC = trial_spec(EtcdTarget(store="etcd"), LoadStep(rate_per_s=1, duration_s=3_600))
TURNS = Turns(base_ns=1_000, length_ns=600, overlap_ns=10)


def value(sequence: int, tag: str = REF.tag) -> bytes:
    """Return an event's value."""
    return EventId(tag, 0, 0, 0, 0, sequence).text().encode() + b"xxxx"


class Watcher:
    """A lane in front of a store in memory; things happen at seconds after the trial took its target."""

    def __init__(self, lane: int = 0, now_s: float = 0, store: MemoryDriver | None = None) -> None:
        self.clock = FakeClock(START_NS + round(now_s * SECOND_NS))
        self.behind = MemoryServices(self.clock)
        self.services = self.behind.services
        self.table = self.services.table
        self.store = store or MemoryDriver(self.clock)
        self.lane = lane
        self.pace = WatchPace(run=self._run)
        self._plan: list[tuple[float, Callable[[], object]]] = []
        self.services.runs.put_model(layout.trial_key(REF, "trial.json"), SPEC)
        self.table.take_lease(lease_target(SPEC, self.services.settings), REF, "arn", START_NS)

    def at(self, second: float, action: Callable[[], object]) -> None:
        """Do something while the watch is held."""
        self._plan.append((second, action))

    def put_at(self, second: float, *sequences: int) -> None:
        """Let events come in."""
        for sequence in sequences:
            self.at(second, partial(self.store.put, f"key-{sequence}", value(sequence)))

    def flag_at(self, second: float, flag: str) -> None:
        """Let a flag be set."""
        self.at(second, lambda: self.table.set_flag(REF.tag, flag, "test"))

    def run(self, stop_s: float | None = None) -> WatchChangesOutput:
        """Run the stage; with `stop_s`, its flag to stop is set then."""
        if stop_s is not None:
            self.flag_at(stop_s, layout.STOP_WATCHING)
        task = WatchChangesInput(ref=REF, lane=self.lane)
        return watch_changes(task, self.services, lambda *_: cast("Any", self.store), self.pace)

    def _run(self, coroutine: Coroutine[Any, Any, bool]) -> bool:
        async def with_plan() -> bool:
            loop = asyncio.get_running_loop()
            for second, action in self._plan:
                loop.call_later(second - (self.clock.now_ns() - START_NS) / 1e9, action)
            return await coroutine

        return self.clock.run(with_plan())

    def items(self) -> list[T4Item]:
        """Return the stored t4 items, by first t4."""
        items = [parse_item(item) for item in self.table.t4_items(REF.tag)]
        return sorted(items, key=lambda item: item.request_id)

    def seen(self) -> list[tuple[int, float, int]]:
        """Return (sequence, seconds, position) of all stored entries."""
        return [
            (int(entry["sequence"]), (int(entry["t4_ns"]) - START_NS) / 1e9, int(entry["position"]))
            for item in self.items()
            for entry in item.entries
        ]


def at(second: float) -> datetime:
    """Return a moment of the trial."""
    return datetime.fromtimestamp(START_NS / 1e9 + second, UTC)


@pytest.fixture
def watcher() -> Watcher:
    """Return a watcher of a store in memory."""
    return Watcher()


def test_arrivals_are_recorded_with_their_time_and_position(watcher: Watcher) -> None:
    """This is the measurement: t4 when the batch came, whenever it was flushed."""
    watcher.put_at(2.25, 0, 1)
    watcher.put_at(5.5, 2)
    assert watcher.run(8).stopped
    assert watcher.seen() == [(0, 2.25, 1), (1, 2.25, 2), (2, 5.5, 3)]
    assert [(item.source, item.batch) for item in watcher.items()] == [("watcher#0", 2), ("watcher#0", 1)]
    assert watcher.table.position(REF.tag) == 3


def test_a_watch_shows_life_only_once_it_is_established(watcher: Watcher) -> None:
    """AwaitTarget sends canaries as soon as it sees it: before, they would be missed."""
    beats: list[tuple[float, int]] = []
    beat = watcher.table.beat

    def noted(tag: str, who: str, progress: dict[str, int], **more: object) -> None:
        beats.append(((watcher.clock.now_ns() - START_NS) / 1e9, progress["seen"]))
        beat(tag, who, progress, **more)

    cast("Any", watcher.table).beat = noted
    watcher.put_at(1.5, 0)
    watcher.run(2.25)
    assert beats == [(0.0, 0), (1.0, 0), (1.5, 1), (2.5, 1), (3.5, 1), (3.5, 1)]  # the last is the end
    ((who, last),) = watcher.table.beats(REF.tag).items()
    assert (who.startswith("watcher#0-"), last["ended"]) == (True, True)


def test_events_on_their_way_when_the_watch_is_stopped_are_still_taken(watcher: Watcher) -> None:
    """AwaitArrivals may have given up on them; they count all the same."""
    watcher.flag_at(2.5, layout.STOP_WATCHING)
    watcher.put_at(3.5, 0)
    watcher.run()
    assert watcher.seen() == [(0, 3.5, 1)]


def test_a_cancelled_trial_without_a_writer_is_left_after_a_second_in_which_nothing_came(watcher: Watcher) -> None:
    """Partial results are results. The flag is seen after 3.25 s."""
    watcher.put_at(2.25, 0)
    watcher.flag_at(2.5, layout.CANCELLED)
    watcher.put_at(4.0, 1)
    assert watcher.run().stopped
    assert (watcher.seen(), watcher.clock.now_ns()) == ([(0, 2.25, 1), (1, 4.0, 2)], START_NS + 5_250_000_000)
    assert watcher.store.calls[-1] == "close"


@pytest.mark.parametrize(
    ("ends_s", "left_s"),
    [(4.5, 6.0), (60, 7.0)],
    ids=["the writer ends", "the writer is still there after five seconds"],
)
def test_a_watch_outlives_the_writers_of_a_cancelled_trial_but_not_for_long(ends_s: float, left_s: float) -> None:
    """What they still wrote would count as lost otherwise. The flag is seen after 2 s."""
    watcher = Watcher()
    who = f"writer#{layout.attempt_id(0, 0, 0, 0)}"
    watcher.table.beat(REF.tag, who, {})
    watcher.flag_at(1.5, layout.CANCELLED)
    watcher.at(ends_s, lambda: watcher.table.beat(REF.tag, who, {}, ended=True))
    watcher.put_at(4.4, 0)
    watcher.put_at(4.9, 1)
    assert watcher.run().stopped
    assert [sequence for sequence, _, _ in watcher.seen()] == [0, 1]
    assert (watcher.clock.now_ns() - START_NS) / 1e9 == left_s


def test_each_watch_tells_when_it_began_and_when_it_stood_still() -> None:
    """Only so what happened while nobody watched can be told from what the store held up."""
    watcher = Watcher(now_s=3)
    watcher.put_at(3.25, 0)
    watcher.at(5.5, lambda: watcher.clock.advance(4 * SECOND_NS))
    watcher.at(20.5, lambda: watcher.clock.advance(SECOND_NS))  # a busy machine
    watcher.run(30)
    (watch,) = read_watches(watcher.table, REF.tag)
    assert {item.sandbox for item in watcher.items()} == {watch.sandbox}
    assert watch.established_ns == START_NS + 3 * SECOND_NS
    assert watch.pauses_ns == ((START_NS + 6 * SECOND_NS, START_NS + 9_500_000_000),)
    (beat,) = watcher.table.beats(REF.tag).values()
    assert beat["from_position"] is None


def test_canaries_are_recorded_as_they_come_and_load_once_a_second(watcher: Watcher) -> None:
    """AwaitTarget waits for the former one by one; to write at each change of the load would disturb it."""
    recorded: list[float] = []
    put_t4 = watcher.table.put_t4

    def noted(*arguments: Any) -> None:  # noqa: ANN401 -- as the original's
        recorded.append((watcher.clock.now_ns() - START_NS) / 1e9)
        put_t4(*arguments)

    cast("Any", watcher.table).put_t4 = noted
    for turn in range(stage.PROMPT_BATCHES + 3):
        watcher.put_at(0.05 + 0.1 * turn, turn)
    watcher.run(1.5)
    # The watch's confirmation was the first; nine batches follow, and the rest waits for the second to pass.
    assert recorded == pytest.approx([*(0.05 + 0.1 * turn for turn in range(9)), 1.85])


@pytest.mark.parametrize("flag", [layout.CANCELLED, layout.STOP_WATCHING])
def test_a_lane_that_is_called_after_the_flag_does_not_begin(flag: str, watcher: Watcher) -> None:
    """Otherwise the state machine would not end before its turn does."""
    watcher.table.set_flag(REF.tag, flag, "test")
    assert watcher.run().stopped
    assert watcher.store.calls == []


def test_a_lane_out_of_turn_asks_again_soon() -> None:
    """It has to see the flag, so never more than 15 s ahead; at its own start to the second."""
    assert Watcher(lane=1, now_s=100).run() == WatchChangesOutput(stopped=False, next_at=at(115))
    assert Watcher(lane=1, now_s=590).run() == WatchChangesOutput(stopped=False, next_at=at(600))
    assert Watcher(lane=0, now_s=605).run() == WatchChangesOutput(stopped=False, next_at=at(620))


def test_a_wait_that_cuts_its_time_to_the_second_does_not_call_before_the_turn() -> None:
    """Step Functions does; the lane would only be told to wait again, over and over."""
    watcher = Watcher(lane=1, now_s=590)
    taken_ns = START_NS + 123_456_789
    watcher.table.release_lease(lease_target(SPEC, watcher.services.settings), REF.tag)
    watcher.table.take_lease(lease_target(SPEC, watcher.services.settings), REF, "arn", taken_ns)
    assert watcher.run() == WatchChangesOutput(stopped=False, next_at=at(601))


def test_a_turn_ends_after_the_next_one_has_begun(watcher: Watcher) -> None:
    """600 s, and 10 s of overlap; then this lane waits for its next turn."""
    watcher.put_at(609, 0)
    assert watcher.run() == WatchChangesOutput(stopped=False, next_at=at(625))
    assert (watcher.seen(), watcher.clock.now_ns()) == ([(0, 609.0, 1)], START_NS + 610 * SECOND_NS)


def test_a_turn_takes_up_where_the_recorded_changes_end() -> None:
    """A change between the old watcher's last flush and the new one's start is seen late, but not lost."""
    watcher = Watcher(lane=1, now_s=600)
    for sequence in range(5):
        watcher.store.put(f"key-{sequence}", value(sequence))
    watcher.table.set_position(REF.tag, 3)
    watcher.run(602)
    assert [(sequence, position) for sequence, _, position in watcher.seen()] == [(3, 4), (4, 5)]
    assert "watch from 3" in watcher.store.calls


def test_a_watch_that_the_store_ends_fails_the_turn_and_keeps_what_was_seen(watcher: Watcher) -> None:
    """The state machine then stops the load: without a watcher, all later events would count as lost."""
    watcher.put_at(2.25, 0)
    watcher.at(2.5, lambda: watcher.store.end_watch("compacted"))
    with pytest.raises(TargetUnavailableError, match="compacted"):
        watcher.run()
    assert watcher.seen() == [(0, 2.25, 1)]


def test_a_store_that_cannot_be_reached_fails_the_turn() -> None:
    """Before any load is offered."""
    watcher = Watcher(store=MemoryDriver(FakeClock(), unavailable=True))
    with pytest.raises(TargetUnavailableError):
        watcher.run()
    assert watcher.store.calls == ["open", "close"]


def test_a_watch_that_just_ends_is_a_failure_too() -> None:
    """A driver's mistake must not look like a store without events."""

    class Ending(MemoryDriver):
        async def watch(self, from_position: int | None) -> AsyncIterator[ChangeBatch]:
            yield ChangeBatch(from_position or 0, ())

    with pytest.raises(TargetUnavailableError, match="watcher#0: the store ended the watch"):
        Watcher(store=Ending(FakeClock())).run()


def test_a_store_that_pushes_cannot_be_watched() -> None:
    """Only a wrong state machine asks for it; it is told so."""

    class Pushing:
        pass

    with pytest.raises(TargetUnavailableError, match="Pushing cannot be watched"):
        Watcher(store=cast("Any", Pushing())).run()


def test_a_trial_that_lost_its_target_is_not_watched(watcher: Watcher) -> None:
    """The sweeper gave it to somebody else."""
    watcher.table.release_lease(lease_target(SPEC, watcher.services.settings), REF.tag)
    with pytest.raises(TargetUnavailableError, match=r"does not hold etcd#127\.0\.0\.1:2379"):
        watcher.run()


def test_changes_that_name_no_event_of_the_trial_are_kept_aside(watcher: Watcher) -> None:
    """Counted as malformed; dropped, nobody would know of the second writer in our namespace."""
    watcher.at(1.25, lambda: watcher.store.put("a", b"\xff not an identity"))
    watcher.at(1.5, lambda: watcher.store.put("b", value(0, "bbbbbbbbbb-0000")))
    watcher.put_at(1.75, 7)
    watcher.run(2.5)
    assert watcher.seen() == [(7, 1.75, 3)]
    bodies = [item["body"] for item in watcher.table.malformed("etcd", START_NS, START_NS + 10 * SECOND_NS)]
    assert bodies == ["\\xff not an identity", value(0, "bbbbbbbbbb-0000").decode()]


def test_a_backlog_is_split_into_items_that_the_table_takes(watcher: Watcher) -> None:
    """After an outage the watch hands over everything at once."""
    watcher.store.changes.extend(Change(value(number), number + 1) for number in range(MAX_ENTRIES + 1))
    watcher.table.set_position(REF.tag, 0)
    watcher.run(1.5)
    assert [item.entries.size for item in watcher.items()] == [MAX_ENTRIES, 1]
    assert watcher.table.position(REF.tag) == MAX_ENTRIES + 1


def test_while_the_table_is_away_arrivals_go_to_the_bucket_once(watcher: Watcher) -> None:
    """The watch goes on; in both places, an arrival would count as a duplicate. The position is claimed later."""
    put_item = watcher.behind.table.put_item
    watcher.at(1.5, lambda: setattr(watcher.behind.table, "put_item", fail))
    watcher.put_at(2.25, 0)
    watcher.at(4.5, lambda: setattr(watcher.behind.table, "put_item", put_item))
    assert watcher.run(6.5).stopped
    (key,) = watcher.services.runs.keys(layout.t4_fallback_prefix(REF.tag))
    item = parse_item(decode_fallback(key, watcher.behind.bucket.objects[key]))
    assert (item.entries["sequence"].tolist(), watcher.seen(), watcher.table.position(REF.tag)) == ([0], [], 1)


def test_arrivals_that_can_be_stored_nowhere_fail_the_turn_and_say_how_many(watcher: Watcher) -> None:
    """They would look like lost events otherwise."""
    watcher.put_at(2.25, 0, 1, 2)
    watcher.at(1.5, lambda: setattr(watcher.behind.table, "put_item", fail))
    watcher.at(1.75, lambda: setattr(watcher.behind.bucket, "put_object", fail))
    with pytest.raises(RecordsUnavailableError, match=r"3 arrivals of watcher-0-\w+ could not be stored"):
        watcher.run()


def test_the_watchers_clock_is_read_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its offset belongs beside every latency that it took part in."""
    monkeypatch.setattr(stage, "measure_offset", lambda *_: ClockOffset(-5, 2))
    watcher = Watcher()
    watcher.run(100)
    samples = watcher.table.clocks(REF.tag)
    assert [(each.role, (each.at_ns - START_NS) / 1e9) for each in samples] == [("receiver", 0.0), ("receiver", 60.0)]
    assert samples[0].sandbox.startswith("watcher-0-")


def test_a_clock_that_is_set_is_read_again_and_is_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that was seen then once counted as unwatched, and the latencies after it were off by the step, unsaid."""
    monkeypatch.setattr(stage, "measure_offset", lambda _, clock: ClockOffset(clock.stepped_ns, 2))
    watcher = Watcher()
    watcher.at(5.5, lambda: watcher.clock.step(4 * SECOND_NS))
    watcher.run(20)
    assert [sample.offset_ns for sample in watcher.table.clocks(REF.tag)] == [0, 4 * SECOND_NS]
    (watch,) = read_watches(watcher.table, REF.tag)
    assert watch.pauses_ns == ()


@pytest.mark.parametrize(("log_t4", "lines"), [("all", 2), ("none", 0)])
def test_what_is_packed_is_printed_once_though_the_table_has_to_be_asked_again(
    log_t4: Literal["all", "none"], lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second source has each arrival once, with the time and position that the table gets."""
    watcher = Watcher()
    spec = trial_spec(EtcdTarget(store="etcd"), log_t4=log_t4)
    watcher.services.runs.put_model(layout.trial_key(REF, "trial.json"), spec)
    table, bucket = cast("Any", watcher.behind.table), cast("Any", watcher.behind.bucket)
    puts = table.put_item, bucket.put_object

    def set_puts(put_item: object, put_object: object) -> None:
        table.put_item, bucket.put_object = put_item, put_object

    watcher.put_at(2.25, 0)
    watcher.at(2.5, partial(set_puts, fail, fail))
    watcher.put_at(5.5, 1, 2)
    watcher.at(8.5, partial(set_puts, *puts))
    watcher.at(9.2, lambda: watcher.table.set_flag(REF.tag, layout.STOP_WATCHING, "test"))
    watcher.run()
    texts = capsys.readouterr().out.splitlines()
    printed = [line for line in (parse_t4_line(text, REF.tag) for text in texts) if line is not None]
    assert len(texts) == len(printed) == lines
    stored = {(item.request_id, item.entries.tobytes()) for item in watcher.items()}
    assert ({(line.request_id, line.entries) for line in printed}, len(stored)) == (stored if lines else set(), 2)


def test_lanes_take_turns() -> None:
    """By hand: turns begin at 1000, 1600, 2200; the first is lane 0's and ends 10 after the second begins."""
    assert (TURNS.ends_ns(0, 1_000), TURNS.ends_ns(1, 1_000)) == (1_610, None)
    assert (TURNS.ends_ns(0, 1_600), TURNS.ends_ns(1, 1_600)) == (None, 2_210)
    assert (TURNS.next_start_ns(0, 1_000), TURNS.next_start_ns(1, 1_000)) == (2_200, 1_600)
    assert (TURNS.next_start_ns(0, 1_605), TURNS.next_start_ns(1, 1_605)) == (2_200, 2_800)


def test_a_clock_behind_the_one_that_took_the_target_counts_as_the_first_turn() -> None:
    """Two hosts' clocks differ by a millisecond; lane 0 begins all the same."""
    assert TURNS.ends_ns(0, 990) == 1_610


@given(st.integers(1_000, 10**7))
def test_at_every_moment_exactly_one_lane_may_begin_and_the_next_begins_before_it_ends(now_ns: int) -> None:
    """A moment that nobody watches is a lost event."""
    holder = next(lane for lane in (0, 1) if TURNS.ends_ns(lane, now_ns) is not None)
    other = 1 - holder
    assert TURNS.ends_ns(other, now_ns) is None
    ends_ns = TURNS.ends_ns(holder, now_ns)
    assert ends_ns is not None
    assert now_ns < TURNS.next_start_ns(other, now_ns) == ends_ns - 10
    assert TURNS.ends_ns(other, TURNS.next_start_ns(other, now_ns)) is not None
