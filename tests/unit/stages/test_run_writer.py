from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.samples.records import REF, trial_spec, writer_item
from tests.samples.services import AWAY, MemoryServices
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.phase import LoadStep, Phase, Until
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import RunWriterInput, RunWriterOutput
from stepbench.errors import RecordsUnavailableError, TargetUnavailableError, TrialCancelledError
from stepbench.load.timer import LoopTimer
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT, ColumnFile, decode
from stepbench.records.storage import layout
from stepbench.stages.invocations import SANDBOX
from stepbench.stages.run_writer import Bench, run_writer

SECOND_NS = 1_000_000_000
LEAD_NS = 5 * SECOND_NS
SLOW = SlowSpells(looked_s=0.5, share=0.1, longest_ms=50, spells=1)


@dataclass
class Writer:
    """A writer in front of a store in memory; 10 events a second for 30 s unless told otherwise."""

    rate_per_s: float = 10
    duration_s: float = 30
    store: dict[str, Any] = field(default_factory=dict)
    start_at_ns: int = START_NS + LEAD_NS
    attempt: int = 0
    slice_: int = 0
    until: Until | None = None

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.behind = MemoryServices(self.clock)
        self.services = self.behind.services
        self.driver = MemoryDriver(self.clock, **self.store)
        self.looked_s: list[float] = []
        self.bench = Bench(
            clock=lambda: self.clock,
            timer=lambda clock, _: LoopTimer(clock),
            run=self.clock.run,
            check_core=self.check_core,
        )

    def check_core(self, seconds: float) -> SlowSpells:
        """Pretend to count work for so long."""
        self.looked_s.append(seconds)
        return SLOW

    def at(self, second: float, action: Callable[[], None]) -> None:
        """Do something while the writer runs: at its first sign of life so many seconds after the start of load."""
        beat = self.services.table.beat

        def beat_and_act(tag: str, who: str, progress: dict[str, int], **more: object) -> None:
            beat(tag, who, progress, **more)
            if self.clock.now_ns() - self.start_at_ns >= second * SECOND_NS and action not in done:
                done.append(action)
                action()

        done: list[Callable[[], None]] = []
        self.services.table.beat = beat_and_act  # type: ignore[method-assign]

    @property
    def spec(self) -> TrialSpec:
        """Return the specification: one phase, two writes in flight at most."""
        load = LoadStep(rate_per_s=self.rate_per_s, duration_s=self.duration_s)
        phase = Phase(name="measured", load=(load,), until=self.until)
        return trial_spec(EtcdTarget(store="etcd"), phases=(phase,), max_in_flight=2)

    def run(self) -> RunWriterOutput:
        """Run the stage."""
        self.services.runs.put_model(layout.trial_key(REF, "trial.json"), self.spec)
        item = writer_item(self.start_at_ns, slice_=self.slice_)
        task = RunWriterInput(item=item, attempt=self.attempt)
        return run_writer(task, self.services, lambda *_: self.driver, self.bench)

    def files(self) -> list[ColumnFile]:
        """Return the column files that the table points to."""
        pointers = self.services.table.files(REF.tag)
        return [decode(pointer.key, self.services.runs.get_bytes(pointer.key)) for pointer in pointers]

    def rows(self) -> list[tuple[int, int]]:
        """Return (sequence, outcome) of all files, as stored."""
        return [
            (int(sequence), int(outcome))
            for file in self.files()
            for sequence, outcome in zip(file.rows.sequence, file.rows.outcome, strict=True)
        ]

    def ended(self) -> dict[str, Any]:
        """Return the writer's last sign of life."""
        (beat,) = self.services.table.beats(REF.tag).values()
        return beat


class SlowToConnect(MemoryDriver):
    """Lets nobody in for so many seconds."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__(clock)
        self._seconds = seconds

    async def open(self) -> None:
        """Stand still first."""
        await asyncio.sleep(self._seconds)
        await super().open()


@pytest.fixture
def writer() -> Writer:
    """Return a writer."""
    return Writer()


def test_every_event_of_the_slice_is_offered_on_time_and_recorded_once(writer: Writer) -> None:
    """This is the measurement."""
    output = writer.run()
    assert output == RunWriterOutput(sent=300, ok=300, failed=0, unknown=0, unsent=0)
    assert writer.rows() == [(number, Outcome.OK) for number in range(300)]
    first = writer.files()[0].rows
    assert (first.t1_ns - writer.start_at_ns).tolist() == [number * 100_000_000 for number in range(len(first.t1_ns))]


def test_a_sandbox_that_a_writer_ran_in_is_not_cold_for_an_invocation_after_it(writer: Writer) -> None:
    """Whatever the process did before, its start is over."""
    before = SANDBOX.invocations
    writer.run()
    assert SANDBOX.invocations == before + 1


def test_records_go_out_every_ten_seconds_and_the_last_file_says_that_it_is(writer: Writer) -> None:
    """A writer that dies loses ten seconds at most; the clock's drift is known at the end only."""
    writer.run()
    files = writer.files()
    assert len(files) >= 3
    assert [file.header.last for file in files] == [False] * (len(files) - 1) + [True]
    assert [file.header.drift_ns for file in files] == [None] * (len(files) - 1) + [0]
    assert [file.header.cpu_share is None for file in files] == [True] * (len(files) - 1) + [False]
    assert [file.header.flush for file in files] == list(range(len(files)))


def test_the_sandbox_is_looked_at_before_its_load() -> None:
    """For a tenth of the time until then, so that connecting is not late; each file has what was seen."""
    writer = Writer(duration_s=15)
    writer.run()
    assert writer.looked_s == [0.5]
    assert {file.header.slow_spells for file in writer.files()} == {SLOW}


@pytest.mark.parametrize(
    ("settings", "lead_ns"), [({"emulator": "one"}, LEAD_NS), ({"load_host": "c7g.large"}, LEAD_NS), ({}, SECOND_NS)]
)
def test_no_core_is_taken_from_others_or_from_the_load(settings: dict[str, str], lead_ns: int) -> None:
    """Where writers share a machine they would slow each other; a writer that comes late has no time to lose."""
    writer = Writer(duration_s=1, start_at_ns=START_NS + lead_ns)
    changed = writer.services.settings.model_copy(update=settings)
    writer.services = replace(writer.services, settings=changed)
    writer.run()
    assert writer.looked_s == []
    assert [file.header.slow_spells for file in writer.files()] == [None]


@pytest.mark.parametrize(("lead_s", "took_s", "late_s"), [(1, 0, 0), (1, 3, 2), (-2, 3, 3)])
def test_how_long_the_store_kept_the_writer_from_its_load_is_recorded(lead_s: int, took_s: int, late_s: int) -> None:
    """Connecting is before the load; what begins late itself is not the store's."""
    writer = Writer(duration_s=1, start_at_ns=START_NS + lead_s * SECOND_NS)
    writer.driver = SlowToConnect(writer.clock, took_s)
    writer.run()
    assert {file.header.connecting_ns for file in writer.files()} == {late_s * SECOND_NS}


def test_pointers_tell_what_to_expect() -> None:
    """AwaitArrivals reads these, and no column file."""
    writer = Writer(duration_s=1, store={"outcomes": {3: Outcome.FAILED}, "service_ns": (1_000_000,)})
    writer.run()
    (pointer,) = writer.services.table.files(REF.tag)
    assert (pointer.rows, pointer.expected) == (10, 9)
    assert pointer.last_t2_ns == writer.start_at_ns + 900_000_000 + 1_000_000


def test_started_is_said_before_the_first_event_and_the_end_after_the_last() -> None:
    """Without the mark, the slice's events count as unsent; the sweeper waits for the end."""
    writer = Writer(duration_s=1)
    writer.run()
    assert writer.services.table.started(REF.tag) == ["00-0000-0000-00"]
    assert writer.ended()["ended"] is True
    assert writer.ended()["progress"] == {"sent": 10, "ok": 10, "failed": 0, "unknown": 0, "planned": 10}


def test_signs_of_life_have_the_service_times_of_what_is_stored() -> None:
    """Live progress shows their quantiles; what failed took no service, and each row is in one file."""
    store = {"outcomes": {3: Outcome.FAILED}, "service_ns": (2**20 + 1,)}  # bucket 320 begins at 2 ** 20 ns
    writer, seen = Writer(duration_s=15, store=store), []
    writer.at(3, lambda: seen.append(writer.ended()["service_times"]))
    writer.at(9, lambda: seen.append(writer.ended()["service_times"]))
    writer.run()
    assert seen[0] == ""
    bucket, stored = seen[1].split(":")
    assert bucket == "320"
    assert 40 <= int(stored) <= 60  # what was flushed 10 s after the writer began, 5 s before load
    assert writer.ended()["service_times"] == "320:149"


def test_signs_of_life_count_while_load_is_offered() -> None:
    """Live progress shows them; the sweeper takes a writer without them for dead."""
    writer, seen = Writer(), []
    writer.at(9.5, lambda: seen.append(dict(writer.ended())))
    writer.run()
    assert 90 <= seen[0]["progress"]["sent"] <= 110
    assert "ended" not in seen[0]


def test_a_cancelled_trial_stops_within_a_second_or_two_and_keeps_what_it_measured(writer: Writer) -> None:
    """Ctrl-C: the store is left alone, and the accounting balances."""
    writer.at(10, lambda: writer.services.table.set_flag(REF.tag, layout.CANCELLED, "Ctrl-C"))
    with pytest.raises(TrialCancelledError, match=r"stopped after 1\d\d events: cancelled \(Ctrl-C\)"):
        writer.run()
    outcomes = [outcome for _, outcome in writer.rows()]
    assert len(outcomes) == 300
    assert 100 <= outcomes.count(Outcome.OK) <= 121
    assert outcomes.count(UNSENT) == 300 - outcomes.count(Outcome.OK)
    assert writer.ended()["ended"] is True


def test_a_trial_that_is_cancelled_already_is_not_begun(writer: Writer) -> None:
    """Retries of the state machine come after the flag."""
    writer.services.table.set_flag(REF.tag, layout.CANCELLED, "swept")
    with pytest.raises(TrialCancelledError, match="is cancelled: swept"):
        writer.run()
    assert (writer.driver.calls, writer.services.table.started(REF.tag)) == ([], [])


def test_a_trial_that_is_cancelled_while_a_writer_connects_is_offered_nothing(writer: Writer) -> None:
    """Its tear-down has seen no writer, and what it sent now would stay."""
    mark = writer.services.table.mark_started

    def cancel_and_mark(tag: str, attempt_id: str) -> None:
        writer.services.table.set_flag(tag, layout.CANCELLED, "Ctrl-C")
        mark(tag, attempt_id)

    writer.services.table.mark_started = cancel_and_mark  # type: ignore[method-assign]
    with pytest.raises(TrialCancelledError, match=r"stopped after 0 events: cancelled \(Ctrl-C\)"):
        writer.run()
    assert writer.driver.offered == []
    assert [outcome for _, outcome in writer.rows()] == [UNSENT] * 300
    assert writer.ended()["ended"] is True


def test_a_newer_attempt_fences_an_older_one(writer: Writer) -> None:
    """Two attempts offering the same events would double the load."""
    writer.at(10, lambda: writer.services.table.mark_started(REF.tag, layout.attempt_id(0, 0, 0, 2)))
    output = writer.run()
    assert 100 <= output.sent <= 121
    assert (output.unsent, len(writer.rows())) == (0, output.sent)


UNTIL = Until(relative_width=0.1, max_events=600)
"""At 10 a second: 60 s at most."""


def test_a_phase_that_is_sure_ends_where_it_was_told_to_and_in_good_order() -> None:
    """Events from there on have no row: they are not unsent, since nobody was to send them."""
    writer = Writer(until=UNTIL)
    stop_ns = writer.start_at_ns + 15 * SECOND_NS
    writer.at(10, lambda: writer.services.table.set_stop(REF.tag, 0, stop_ns))
    assert writer.run() == RunWriterOutput(sent=150, ok=150, failed=0, unknown=0, unsent=0)
    assert writer.rows() == [(number, Outcome.OK) for number in range(150)]
    assert [file.header.last for file in writer.files()][-1] is True
    assert writer.ended()["ended"] is True


def test_a_phase_that_is_never_sure_goes_on_to_its_longest() -> None:
    """600 events are the most."""
    assert Writer(until=UNTIL).run().ok == 600


def test_an_end_that_is_seen_late_leaves_the_rows_of_what_was_sent() -> None:
    """The table was away: the truth is recorded, and the analysis looks at what was due before."""
    writer = Writer(until=UNTIL)
    stop_ns = writer.start_at_ns + 15 * SECOND_NS
    writer.at(20, lambda: writer.services.table.set_stop(REF.tag, 0, stop_ns))
    output = writer.run()
    assert 200 <= output.sent <= 221
    assert len(writer.rows()) == output.sent


def test_a_retry_after_the_end_offers_nothing_and_ends_in_good_order() -> None:
    """The attempt before it died; what that one sent stays unrecorded."""
    writer = Writer(until=UNTIL, start_at_ns=START_NS - 20 * SECOND_NS, attempt=1)
    writer.services.table.set_stop(REF.tag, 0, writer.start_at_ns + 15 * SECOND_NS)
    assert writer.run().sent == 0
    (file,) = writer.files()
    assert (file.header.last, file.rows.sequence.size, writer.driver.offered) == (True, 0, [])


def test_attempts_of_other_slices_fence_nobody() -> None:
    """The next slice's writer starts while this one ends."""
    writer = Writer(duration_s=3)
    for other in (layout.attempt_id(0, 0, 1, 1), layout.attempt_id(0, 1, 0, 1)):
        writer.services.table.mark_started(REF.tag, other)
    assert writer.run().sent == 30


def test_a_writer_that_comes_late_accounts_for_what_it_missed() -> None:
    """Sent in a bunch, it would be a burst that the plan does not have. 1 s late at 10 a second: 10 events."""
    writer = Writer(duration_s=3, start_at_ns=START_NS - SECOND_NS)
    output = writer.run()
    assert (output.sent, output.unsent) == (20, 10)
    assert writer.rows()[:11] == [(number, UNSENT) for number in range(10)] + [(10, Outcome.OK)]


def test_a_second_attempt_offers_what_is_still_ahead_and_no_rows_for_the_rest() -> None:
    """Events that the first one sent and could not record are unrecorded, and not unsent."""
    writer = Writer(duration_s=3, start_at_ns=START_NS - SECOND_NS, attempt=1)
    output = writer.run()
    assert (output.sent, output.unsent, [sequence for sequence, _ in writer.rows()]) == (20, 0, list(range(10, 30)))
    assert writer.files()[0].header.attempt == 1
    assert writer.driver.offered[0].value.startswith(f"{REF.tag}/00-0000-0000-01-0000000a".encode())


def test_the_second_slice_goes_on_where_the_first_ends() -> None:
    """700 s at 1 a second: 100 events in slice 1, the first of them due 600 s into the phase."""
    writer = Writer(rate_per_s=1, duration_s=700, slice_=1, start_at_ns=START_NS + 600 * SECOND_NS)
    assert (writer.run().sent, writer.files()[0].rows.t0_ns[0]) == (100, START_NS + 600 * SECOND_NS)
    assert writer.driver.offered[0].value.startswith(f"{REF.tag}/00-0000-0001-00-00000000".encode())


def test_an_unreachable_store_is_reported_before_anything_is_said_or_sent() -> None:
    """The state machine tries again; until it succeeds, the slice's events count as unsent."""
    writer = Writer(store={"unavailable": True})
    with pytest.raises(TargetUnavailableError):
        writer.run()
    assert (writer.services.table.started(REF.tag), writer.driver.calls) == ([], ["open", "close"])


def test_a_bucket_that_is_away_for_a_while_costs_no_record(writer: Writer) -> None:
    """Files wait in memory and go out with the next flush."""
    behind, tries = writer.behind.bucket, []
    put = behind.put_object

    def away_for_two_flushes(**kwargs: Any) -> None:  # noqa: ANN401 -- boto3's
        tries.append(kwargs["Key"])
        if 1 < len(tries) <= 3:
            raise AWAY
        put(**kwargs)

    behind.put_object = away_for_two_flushes  # type: ignore[method-assign]
    assert (writer.run().ok, writer.rows()) == (300, [(number, Outcome.OK) for number in range(300)])


def test_a_bucket_that_stays_away_fails_the_writer_and_says_what_is_lost() -> None:
    """Silence would make the lost records look like events that were never sent."""
    writer = Writer(duration_s=3)
    put = writer.behind.bucket.put_object

    def away(**kwargs: Any) -> None:  # noqa: ANN401 -- boto3's
        if kwargs["Key"].endswith(".sbc"):
            raise AWAY
        put(**kwargs)

    writer.behind.bucket.put_object = away  # type: ignore[method-assign]
    with pytest.raises(RecordsUnavailableError, match="30 records of writer 00-0000-0000-00 could not be stored"):
        writer.run()


@pytest.mark.parametrize("until_s", [65, 3_600])
def test_a_table_that_is_throttled_stops_no_load_and_costs_no_record(until_s: int) -> None:
    """For a minute, or to the end: heartbeats, flags and pointers are missed, the files are in the bucket."""
    writer = Writer(duration_s=90)
    table = writer.behind.table

    def throttle(call: Callable[..., Any]) -> Callable[..., Any]:
        def attempt(**request: object) -> Any:  # noqa: ANN401 -- boto3's
            if 5 <= (writer.clock.now_ns() - writer.start_at_ns) / SECOND_NS < until_s:
                raise ClientError({"Error": {"Code": "ThrottlingException", "Message": ""}}, "any")
            return call(**request)

        return attempt

    for name in ("put_item", "get_item", "query"):
        setattr(table, name, throttle(getattr(table, name)))
    assert writer.run().ok == 900
    files = [decode(key, body) for key, body in sorted(writer.behind.bucket.objects.items()) if key.endswith(".sbc")]
    assert [number for file in files for number in file.rows.sequence.tolist()] == list(range(900))
    assert [file.header.last for file in files][-1]


def test_what_the_engine_had_recorded_survives_its_own_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug after an hour of load must not take the hour along; the file does not claim to be the last."""
    writer = Writer(duration_s=3)

    def broken(*_: object) -> None:
        message = "a bug"
        raise ZeroDivisionError(message)

    monkeypatch.setattr("stepbench.load.open_loop.OpenLoop._close_rows", broken)
    with pytest.raises(ZeroDivisionError):
        writer.run()
    assert [file.header.last for file in writer.files()][-1] is False
    assert (len(writer.rows()), writer.driver.calls[-1]) == (30, "close")
