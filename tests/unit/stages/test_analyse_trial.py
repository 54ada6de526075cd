from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.samples.estimates import autoregressive, numbers, present
from tests.samples.finished_trials import PHASES
from tests.samples.finished_trials import AnalysedTrial as Trial
from tests.samples.records import column_header

from stepbench.analysis.evidence import FLOOR_PER_S
from stepbench.contracts.invocations import Invocations
from stepbench.contracts.result import TrialResult
from stepbench.contracts.tasks import StateError
from stepbench.records.formats.columns import Rows, encode
from stepbench.records.formats.second_sources import ReportLine, ReportPage
from stepbench.records.storage import layout
from stepbench.workload.arrivals import phase_offsets_ns
from stepbench_tools.local.floors import PER_S

MS = 10**6


def text_of(result: TrialResult, kind: str) -> str:
    """Return the text of the result's caveat of that kind."""
    return next(caveat.text for caveat in result.summary.caveats if caveat.kind == kind)


def test_a_good_trial_has_its_numbers() -> None:
    """200 of 200; the quantiles are those of the latencies that were made up."""
    trial = Trial().finish()
    summary = trial.result().summary
    counts, (window,) = summary.accounting, summary.windows
    assert counts is not None
    assert (counts.offered, counts.ok, counts.received, counts.lost, counts.duplicates) == (200, 200, 200, 0, 0)
    assert summary.warm_up is not None
    assert summary.warm_up.received == 40
    assert (window.name, window.phase, window.n, window.offered_per_s, window.achieved_per_s) == (
        *("steady", "steady", 200),
        *(20.0, 20.0),
    )
    latency_ms = trial.records.latency_ns[1] / 1e6
    for q, found in ((0.5, window.latency_ms.p50), (0.9, window.latency_ms.p90), (0.95, window.latency_ms.p95)):
        low, value, high = numbers(found)
        assert value == pytest.approx(np.quantile(latency_ms, q))
        assert low < value < high
    assert window.latency_ms.p99.reason == "n=200 < 368"
    assert window.latency_ms.max == pytest.approx(latency_ms.max())


def test_the_six_measures_are_the_differences_of_the_time_points() -> None:
    """Lateness 0.02 ms, service 2 ms, by construction; the others follow by adding and subtracting."""
    (window,) = Trial().finish().result().summary.windows
    assert (window.lateness_ms.max, window.service_ms.max) == pytest.approx((0.02, 2))
    assert window.response_write_ms.max == pytest.approx(2.02)
    assert window.latency_ms.min is not None
    assert window.after_ack_ms is not None
    assert window.response_trigger_ms is not None
    assert window.after_ack_ms.min == pytest.approx(window.latency_ms.min - 2)
    assert window.response_trigger_ms.min == pytest.approx(window.latency_ms.min + 0.02)


@pytest.mark.parametrize(("store", "resolution_ms"), [("s3", 1), ("dynamodb", 1_000), ("postgresql", 0.001)])
def test_where_the_store_tells_when_an_event_happened_latency_has_two_parts(store: str, resolution_ms: float) -> None:
    """t3 lies 1.5 ms after t1, by construction: what remains until t4 is the trigger's own."""
    (window,) = Trial(store=store).finish(event_ns=1_500_000).result().summary.windows
    assert window.event_resolution_ms == resolution_ms
    assert window.to_event_ms is not None
    assert window.from_event_ms is not None
    assert (window.to_event_ms.min, window.to_event_ms.max) == pytest.approx((1.5, 1.5))
    assert window.from_event_ms.max == pytest.approx((window.latency_ms.max or 0) - 1.5)
    assert (window.to_event_ms.n, window.to_event_ms.missing) == (200, 0)


def test_a_store_that_tells_no_event_time_has_no_parts_of_it() -> None:
    """An etcd event carries a revision and no time: 0 would be the year 1970."""
    (window,) = Trial(store="etcd").finish(source="watcher-a").result().summary.windows
    assert (window.event_resolution_ms, window.to_event_ms, window.from_event_ms) == (None, None, None)


def test_an_arrival_without_an_event_time_is_missing_from_its_parts() -> None:
    """A delivery may leave it out; its other times stand."""
    (window,) = Trial(store="s3").finish().result().summary.windows
    assert window.to_event_ms is not None
    assert (window.to_event_ms.missing, window.latency_ms.missing) == (200, 0)


def test_windows_select_by_intended_time() -> None:
    """From 2 s to 5 s of a phase at 20/s: events 40 to 99."""
    phases = [{**PHASES[1], "windows": [{"name": "middle", "from_s": 2, "to_s": 5}]}]
    trial = Trial(phases=phases)
    trial.records.phase(0)
    (window,) = trial.result().summary.windows
    assert (window.name, window.n, window.offered_per_s) == ("middle", 60, 20)
    assert window.latency_ms.max == pytest.approx(trial.records.latency_ns[0][40:100].max() / 1e6)


def test_lost_events_are_counted_in_every_quantile() -> None:
    """A twelfth lost: p50 stands, p95 lies beyond the drain limit, and the curve ends below 1."""
    trial = Trial().finish(lost=tuple(range(0, 200, 12)))
    result = trial.result()
    (window,), (curve,) = result.summary.windows, result.ecdf
    assert (window.latency_ms.n, window.latency_ms.missing) == (200, 17)
    assert (window.latency_ms.p95.value, window.latency_ms.p95.reason) == (None, "> drain limit (120 s)")
    assert window.latency_ms.p50.value is not None
    assert window.service_ms.missing == 0
    assert curve.probability[-1] == pytest.approx(183 / 200)
    assert "lost_events" in trial.kinds()


def test_lost_events_are_explained_by_receivers_that_died() -> None:
    """Their log tells, which is read twice where it came late: each invocation counts once."""
    trial = Trial().finish(lost=(0, 1, 2))
    ends = {"one": "Runtime.OutOfMemory", "two": "Runtime.OutOfMemory", "three": "timeout", "four": ""}
    lines = tuple(line(request, failure=failure) for request, failure in ends.items())
    for place in ("000000-0000", "000000-0001"):
        page = ReportPage(function="ReceiveEvents", lines=lines)
        trial.memory.services.runs.put_model(layout.trial_key(trial.ref, f"logs/ReceiveEvents/{place}.json"), page)
    text = text_of(trial.result(), "lost_events")
    assert text.endswith("Invocations of ReceiveEvents that Lambda ended: 2 by Runtime.OutOfMemory, 1 by timeout.")


def test_a_stored_arrival_that_cannot_be_read_is_named_beside_what_counts_as_lost_by_it() -> None:
    """It was no more than a number that nobody could explain: the event has arrived, and its item is cut."""
    trial = Trial().finish(lost=(3,))
    trial.memory.services.table.put_t4(trial.ref.tag, "cut", 1, {"n": 1, "entries": b"short"})
    texts = [caveat.text for caveat in trial.result().summary.caveats if caveat.kind == "lost_events"]
    assert texts[0].startswith("Stored arrivals that do not decode: 1. What is in them counts as lost. t4 item cut#")
    assert texts[1].startswith("1 acknowledged event had not arrived")


def test_the_time_line_has_every_second_and_phase() -> None:
    """2 s of warm-up, 5 s of pause without points, 10 s of load."""
    trial = Trial().finish(lost=(0,))
    result = trial.result()
    assert [(span.name, span.from_s, span.to_s) for span in result.phases] == [("warm-up", 0, 2), ("steady", 7, 17)]
    assert [point.second for point in result.series] == [0, 1, *range(7, 17)]
    first = result.series[2]
    assert (first.phase, first.offered, first.acknowledged, first.arrived, first.max_ms) == ("steady", 20, 20, 19, None)
    latency_ms = trial.records.latency_ns[1][20:40] / 1e6
    assert result.series[3].p90_ms == pytest.approx(np.quantile(latency_ms, 0.9))


def test_seconds_are_counted_from_the_start_of_their_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    """A phase that begins at 6.98 s of the trial: counted from there, one event would fall in its first second."""
    monkeypatch.setattr("tests.samples.finished_trials.GAP_NS", 4_980 * MS)
    series = Trial().finish().result().series
    assert [point.offered for point in series] == [20] * 12
    assert [point.second for point in series[:4]] == pytest.approx([0, 1, 6.98, 7.98])


@pytest.fixture
def trial() -> Trial:
    """Return a trial without records."""
    return Trial()


def test_achieved_is_what_was_acknowledged_during_the_window(trial: Trial) -> None:
    """Half of the events wait for 10 s in the queue: due in the window they are, but the store was not as fast."""
    trial.records.plan_phase(1)
    t0_ns = phase_offsets_ns(trial.plan, 1, 0) + trial.records.start_of(1)
    waited_ns = np.where(np.arange(200) < 100, 0, 10_000 * MS)
    ok, no_error = np.zeros(200, np.uint8), np.zeros(200, np.uint16)
    rows = Rows(np.arange(200), t0_ns, t0_ns, t0_ns + MS + waited_ns, ok, no_error)
    header = column_header(trial.ref, phase=1, last=True, drift_ns=0)
    key = layout.column_file_key(trial.ref, layout.attempt_id(1, 0, 0, 0), 0)
    trial.memory.services.runs.put_bytes(key, encode(header, rows))
    (window,) = trial.result().summary.windows
    assert (window.n, window.offered_per_s, window.achieved_per_s) == (200, 20, 10)


def test_clocks_give_an_offset_with_a_bound() -> None:
    """Receivers 1 µs ahead; both read to ± 0.5 µs."""
    clock = Trial().finish().result().summary.clock
    assert (clock.offset_ms, clock.bound_ms) == pytest.approx((0.001, 0.001))


def test_a_failed_trial_keeps_what_it_has(trial: Trial) -> None:
    """Only the warm-up was planned: the measured phase has neither window nor accounting."""
    trial.records.phase(0)
    failure = StateError(Error="TargetUnavailableError", Cause="gone")
    summary = trial.result(failure).summary
    assert summary.incomplete
    assert summary.failure is not None
    assert (summary.failure.error, summary.accounting, summary.windows) == ("TargetUnavailableError", None, ())
    assert summary.warm_up is not None
    assert summary.warm_up.received == 40
    assert "incomplete" in trial.kinds(failure)


def test_a_trial_that_measured_nothing_has_failed(trial: Trial) -> None:
    """Every state succeeded, but the writer came too late for every event: a green run would be a lie."""
    trial.records.phase(0)
    trial.records.plan_phase(1)
    trial.records.rows(1, np.array([], dtype=np.int64))
    summary = trial.result().summary
    assert summary.incomplete
    assert summary.failure is not None
    assert (summary.failure.error, summary.windows[0].n) == ("NothingMeasuredError", 0)
    assert "incomplete" in trial.kinds()


def test_a_trial_without_any_record_has_a_result(trial: Trial) -> None:
    """It failed before its first phase."""
    result = trial.result(StateError(Error="TargetBusyError", Cause=""))
    assert (result.summary.accounting, result.series, result.phases, result.ecdf) == (None, (), (), ())
    assert result.summary.provider == "s3"


def test_a_phase_that_no_writer_came_for_is_unsent(trial: Trial) -> None:
    """Planned, and that is all: 200 offered, none sent, and the writer is named with its cause."""
    trial.records.plan_phase(1)
    for key in [key for key in trial.memory.table.items if key[1].startswith(layout.STARTED)]:
        del trial.memory.table.items[key]
    cause = '{"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out after 900.00 seconds"}'
    given_up = {"pk": layout.trial_pk(trial.ref.tag), "sk": f"{layout.MISSING}1-0-0"}
    trial.memory.table.put_item(Item={**given_up, "error": "Sandbox.Timedout", "cause": cause})
    result = trial.result()
    found, (window,) = result.summary.accounting, result.summary.windows
    assert found is not None
    assert (found.offered, found.unsent, window.n, window.offered_per_s) == (200, 200, 0, 20)
    assert (window.sent, window.unsent) == (0, 200)
    assert window.latency_ms.p50.reason == "nothing was measured"
    assert "200 of 200" in text_of(result, "unsent")
    named = "writer 0 in slice 0 of steady (Sandbox.Timedout: Task timed out after 900.00 seconds)"
    assert named in text_of(result, "missing_writer")


def test_a_killed_writer_leaves_books_that_add_up(trial: Trial) -> None:
    """100 of 200 rows flushed; 150 were delivered."""
    trial.records.plan_phase(1)
    start_ns = trial.records.start_of(1)
    t0_ns = phase_offsets_ns(trial.plan, 1, 0) + start_ns
    trial.records.rows(1, t0_ns[:100], last=False)
    for number in range(150):
        trial.records.deliver(1, number, int(t0_ns[number]) + 5 * MS)
    result = trial.result()
    found = result.summary.accounting
    assert found is not None
    assert (found.offered, found.sent, found.unrecorded, found.unrecorded_arrived) == (200, 100, 100, 50)
    assert (found.received, found.lost) == (150, 0)
    assert {"missing_writer", "unrecorded"} <= trial.kinds()
    page = ReportPage(function="RunWriter", lines=(line("one", failure="timeout"),))
    trial.memory.services.runs.put_model(layout.trial_key(trial.ref, "logs/RunWriter/000000-0000.json"), page)
    assert "Invocations of RunWriter that Lambda ended: 1 by timeout." in text_of(trial.result(), "unrecorded")


def line(request: str, **fields: Any) -> ReportLine:  # noqa: ANN401 -- a line's fields
    """Return a REPORT line."""
    default = {"duration_ms": 2.0, "billed_ms": 3.0, "memory_mb": 128, "max_memory_mb": 90}
    return ReportLine(request_id=request, **{**default, **fields})


def test_invocations_come_from_the_trials_own_report_lines() -> None:
    """Another trial's receivers wrote to the same log; writers say their cold starts, receivers stamp theirs."""
    trial = Trial().finish()
    lines = (line("request-1-0", duration_ms=8), line("request-1-1"), line("request-1-1"), line("somebody-else"))
    receivers = ReportPage(function="ReceiveEvents", lines=lines)
    writers = ReportPage(function="RunWriter", lines=(line("w", init_ms=400, billed_ms=9_000),))
    trial.collected(receivers, writers, expected=240, seen=2)
    found = {each.function: each for each in trial.result().summary.invocations}
    assert found["RunWriter"] == Invocations(
        function="RunWriter",
        invocations=1,
        cold_starts=1,
        init_ms_p50=400,
        init_ms_max=400,
        duration_ms_p50=2,
        duration_ms_max=2,
        billed_ms=9_000,
        billed_gb_s=9 / 8,
        max_memory_mb=90,
    )
    assert (found["ReceiveEvents"].invocations, found["ReceiveEvents"].duration_ms_p50) == (2, 5)
    assert (found["ReceiveEvents"].cold_starts, found["ReceiveEvents"].init_ms_p50) == (2, 250)
    assert "missing_logs" in trial.kinds()


def spent(trial: Trial, item: str) -> float:
    """Return the quantity of an item of the trial's cost; 0 where there is none."""
    return sum(each.quantity for each in trial.result().summary.cost_usd.items if each.item == item)


WRITERS_GB_S, TRIGGER_GB_S = "Lambda duration (x86), writers", "Lambda duration (x86), by the trigger"


@pytest.fixture(autouse=True)
def on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are priced by the processor that they run on, which is this machine's here."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def test_without_log_lines_what_lambda_bills_is_left_out_and_named() -> None:
    """A guess would pass for a bill: 240 invocations of a receiver may have lasted 5 ms or 5 s."""
    cost = Trial().finish().result().summary.cost_usd
    assert not any(item.item.startswith(("Lambda", "Step Functions")) for item in cost.items)
    assert "Lambda's requests, duration and log: no log was collected" in cost.left_out
    assert {"trigger", "load", "control"} <= set(cost.incomplete)
    assert "store" not in cost.incomplete


def test_complete_logs_decide_the_bill() -> None:
    """10,000 s in 128 MB are 1,250 GB-seconds; dollars are quantity times price, and their sum is the trial's."""
    trial = Trial().finish()
    writers = (line("w-0", billed_ms=10_000_000), line("w-1", billed_ms=0))
    receivers = tuple(line(f"request-{phase}-{n}") for phase, count in enumerate((40, 200)) for n in range(count))
    pages = (ReportPage(function="RunWriter", lines=writers), ReportPage(function="ReceiveEvents", lines=receivers))
    trial.collected(*pages, expected=240, seen=240)
    cost = trial.result().summary.cost_usd
    assert spent(trial, WRITERS_GB_S) == pytest.approx(1_250)
    assert spent(trial, TRIGGER_GB_S) == pytest.approx(240 * 3 * 128 / 1_024 / 1_000)
    assert spent(trial, "S3 PUT requests") == 240
    assert all(item.usd == pytest.approx(item.quantity * item.unit_price_usd) for item in cost.items)
    assert cost.actual == pytest.approx(sum(item.usd for item in cost.items))
    assert "missing_logs" not in trial.kinds()


def test_a_sample_of_the_receivers_lines_is_scaled_and_said_to_be() -> None:
    """Every third minute was read: 80 lines stand for the 240 invocations that the trial's own records name."""
    trial = Trial().finish()
    writers = ReportPage(function="RunWriter", lines=(line("w-0"), line("w-1")))
    receivers = ReportPage(function="ReceiveEvents", lines=tuple(line(f"request-1-{n}") for n in range(80)))
    trial.collected(writers, receivers, expected=240, seen=80, every=3)
    assert spent(trial, TRIGGER_GB_S) == pytest.approx(240 * 3 * 128 / 1_024 / 1_000)
    assert spent(trial, "Lambda requests, by the trigger") == 240
    (item,) = (each for each in trial.result().summary.cost_usd.items if each.item == TRIGGER_GB_S)
    assert item.note == "ReceiveEvents; from a sample of the log lines: ReceiveEvents x 3"


@pytest.mark.parametrize(
    ("store", "pages", "why"),
    [
        ("s3", {"RunWriter": 1}, "1 of at least 2 invocations of RunWriter left a log line"),
        ("s3", {"RunWriter": 2}, "0 of 240 invocations of the receiver left a log line"),
        ("etcd", {"RunWriter": 2}, "0 of at least 1 invocation of WatchChanges left a log line"),
    ],
)
def test_logs_that_are_not_whole_do_not_decide_the_bill(store: str, pages: dict[str, int], why: str) -> None:
    """As a bill, half of them would leave out half of what the trial cost."""
    trial = Trial(store=store).finish(source="receiver" if store == "s3" else "watcher#0")
    found = (
        ReportPage(function=name, lines=tuple(line(f"w-{n}") for n in range(count))) for name, count in pages.items()
    )
    expected = 240 if store == "s3" else 0
    trial.collected(*found, expected=expected, seen=expected if pages["RunWriter"] == 1 else 0)
    cost = trial.result().summary.cost_usd
    assert f"Lambda's requests, duration and log: {why}" in cost.left_out
    assert spent(trial, WRITERS_GB_S) == 0


def test_another_run_s_invocations_are_in_the_same_logs() -> None:
    """Nothing tells them apart, so neither run is billed for them; whose run it was is nobody else's business."""
    trial = Trial().finish()
    trial.collected(ReportPage(function="RunWriter", lines=(line("w-0"), line("w-1"))), shared=True)
    left_out = trial.result().summary.cost_usd.left_out
    assert "Lambda's requests, duration and log: another run used the same functions meanwhile" in left_out


def test_a_table_s_writes_and_hours_are_split_where_a_phase_scales_it() -> None:
    """40 writes on demand; then 3,600 units from the second phase's start, at 7 of 60 s, and 200 writes within them."""
    scaled = {**PHASES[1], "scale": {"capacity": {"mode": "provisioned", "write_units": 3_600}}}
    trial = Trial(store="dynamodb", phases=[PHASES[0], scaled]).finish()
    assert spent(trial, "DynamoDB on-demand writes") == 40
    assert spent(trial, "DynamoDB provisioned write capacity") == pytest.approx(53)
    assert spent(trial, "DynamoDB provisioned read capacity") == pytest.approx(5 * 53 / 3_600)
    broken_off = Trial(store="dynamodb", phases=[PHASES[0], scaled])
    broken_off.records.phase(0)
    assert spent(broken_off, "DynamoDB provisioned write capacity") == 0


def test_a_store_s_hours_are_those_that_the_trial_held_it() -> None:
    """60 s from the lease to the analysis, of three etcd nodes with 40 GB each at $0.096 an hour."""
    options = "EtcdNodes=on;EtcdInstanceType=m6i.large;LogRetentionDays=14"
    trial = Trial(store="etcd", stack_options=options).finish(source="watcher#0")
    trial.memory.services.table.take_lease(
        "etcd#stack", trial.ref, "arn", trial.memory.services.clock.now_ns() - 60 * 10**9
    )
    assert spent(trial, "m6i.large (EC2)") == pytest.approx(3 / 60)
    assert spent(trial, "EBS volumes (gp3)") == pytest.approx(120 / 730 / 60)
    assert not any("server" in text for text in trial.result().summary.cost_usd.left_out)


def test_the_hours_of_a_server_that_is_not_the_stack_s_are_left_out_and_named() -> None:
    """Nobody knows what it is, and so what it costs."""
    cost = Trial(store="etcd").finish(source="watcher#0").result().summary.cost_usd
    assert "the hours of etcd's server, which is not the stack's own" in cost.left_out
    assert "store" in cost.incomplete


def test_without_logs_receivers_speak_for_themselves() -> None:
    """Request ids are in the items; durations are not. A sample of the logs is said to be one."""
    trial = Trial().finish()
    (found,) = trial.result().summary.invocations
    assert (found.function, found.invocations, found.cold_starts, found.duration_ms_p50) == (
        "ReceiveEvents",
        240,
        2,
        None,
    )
    assert "missing_logs" in trial.kinds()
    trial.collected(every=3)
    assert "missing_logs" in trial.kinds()


def test_a_watched_store_has_no_receiver_function() -> None:
    """etcd: items come from the watcher; its floor is the bare watch."""
    trial = Trial(store="etcd").finish(source="watcher#0")
    floor = trial.floor_ms(async_invoke=[9.0] * 50, etcd_watch=[0.7, 0.8, 0.9] * 20)
    assert trial.result().summary.invocations == ()
    assert floor is not None
    assert (floor.n, floor.min, floor.max) == (60, 0.7, 0.9)


def test_an_etcd_elsewhere_has_no_floor() -> None:
    """Floors are measured on this machine's own etcd."""
    trial = Trial(store="etcd", target={"endpoint": "etcd.example:2379"}).finish(source="watcher#0")
    assert trial.floor_ms(async_invoke=[5.0] * 10, etcd_watch=[0.7] * 10) is None


def test_a_floor_that_could_not_be_measured_is_left_out() -> None:
    """An empty list is what a probe without arrivals leaves."""
    assert Trial().finish().floor_ms(async_invoke=[]) is None


def test_a_floor_has_the_time_axis_that_it_was_sent_on() -> None:
    """200 calls in 10 s, each like those before: on an axis of 0.2 s they would be too short for any interval."""
    assert FLOOR_PER_S == PER_S
    values_ms = np.exp(autoregressive(0.6, 200))
    floor = Trial().finish().floor_ms(async_invoke=values_ms.tolist())
    assert floor is not None
    assert numbers(floor.p50)[1] == pytest.approx(np.median(values_ms))


def test_what_a_failed_trial_has_lost_may_only_not_have_been_waited_for() -> None:
    """It has had no time for its last events."""
    trial = Trial().finish(lost=(3, 5, 8))
    results = {failure: trial.result(StateError(Error=failure)) for failure in ("", "WatchLostError")}
    told = {failure: text_of(result, "lost_events") for failure, result in results.items()}
    assert told[""].startswith("3 acknowledged events had not arrived ")
    assert "after the last acknowledgement" in told[""]
    assert "may not have waited" in told["WatchLostError"]


STOPPED = StateError(Error="TrialCancelledError", Cause="stopped by the user")


def test_what_a_stop_cuts_off_is_not_lost() -> None:
    """Each of them might have arrived; nothing is to be mended, and no writer to be given more time."""
    trial = Trial(drain_limit_s=20)
    trial.records.phase(1, lost=(3, 197), to_s=9.95)
    result = trial.result(STOPPED)
    accounting = present(result.summary.accounting)
    assert (accounting.lost, accounting.cut_off, accounting.ok_arrived) == (0, 2, 197)
    assert result.summary.windows[0].lost == 0
    assert "2 acknowledged events had not arrived by then" in text_of(result, "incomplete")
    assert "the run was stopped before" in text_of(result, "unsent")
    assert "lost_events" not in {caveat.kind for caveat in result.summary.caveats}
    about_the_end = {"incomplete", "unsent", "missing_writer", "short_sample"}
    remedies = {caveat.remedy for caveat in result.summary.caveats if caveat.kind in about_the_end}
    assert remedies == {"The run was stopped: run it again, to its end."}


def test_what_a_dead_writer_may_have_sent_does_not_make_the_stop_later() -> None:
    """It was killed after 5 s, and might have sent until 10 s; event 97 was acknowledged 0.1 s before its last one."""
    trial = Trial(drain_limit_s=2)
    trial.records.phase(1, lost=(3, 97), to_s=5, last=False)
    accounting = present(trial.result(STOPPED).summary.accounting)
    assert (accounting.unrecorded, accounting.lost, accounting.cut_off) == (100, 1, 1)


def test_what_had_the_whole_drain_limit_to_arrive_is_lost_though_the_run_was_stopped() -> None:
    """Events 3 and 150 were acknowledged 9.8 s and 2.45 s before the last one, and a second is the limit."""
    trial = Trial(drain_limit_s=1).finish(lost=(3, 150, 190))
    result = trial.result(STOPPED)
    accounting = present(result.summary.accounting)
    assert (accounting.lost, accounting.cut_off) == (2, 1)
    assert text_of(result, "lost_events").startswith("2 acknowledged events had not arrived after 1 s")


def test_what_writers_ran_on_is_told_where_it_was_no_function() -> None:
    """By their own signs of life: a plan says what was wanted."""
    for place, hosts in (("lambda", ()), ("host", ("i4i.2xlarge, 8 cores, x86_64",))):
        trial = Trial(load_from=place).finish()
        for phase in (0, 1):
            who = f"writer#{layout.attempt_id(phase, 0, 0, 0)}"
            host = "i4i.2xlarge, 8 cores, x86_64" if place == "host" else ""
            trial.memory.services.table.beat(trial.ref.tag, who, {}, load_host=host)
        summary = trial.result().summary
        assert summary.load_hosts == hosts
        assert summary.setup.get("load_from") == ("host" if hosts else None)
        assert summary.sides.partition("; load from ")[2] == "".join(hosts)


def test_a_host_s_trial_is_billed_by_its_logs_without_a_line_of_the_writers() -> None:
    """They leave none, and are not waited for: the host's hours are billed, if it is the stack's own."""
    options = "LoadHost=on;LoadHostInstanceType=m6g.xlarge"
    found = {}
    for place in ("lambda", "host"):
        trial = Trial(load_from=place, stack_options=options).finish()
        trial.collected()
        found[place] = trial.result().summary.cost_usd
    assert any(item.item == "m6g.xlarge (EC2)" for item in found["host"].items)
    assert any("RunWriter" in text for text in found["lambda"].left_out)
    assert not any("Lambda" in text for text in found["host"].left_out)
