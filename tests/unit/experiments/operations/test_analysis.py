from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.samples.estimates import present
from tests.samples.finished_trials import AnalysedTrial
from tests.samples.records import column_header

from stepbench.contracts.tasks import StateError
from stepbench.contracts.workload import Kind
from stepbench.records.formats.columns import Rows, encode
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.measures import OperationsResult, WindowResult
    from stepbench.contracts.result import TrialResult

MS, SECOND = 1_000_000, 1_000_000_000
CLIENTS, EACH = 4, 300
STEADY = {"name": "steady", "closed": {"clients": CLIENTS, "duration_s": 120}}
ERRORS = ("", "not_found", "timeout")


def analysed(  # noqa: PLR0913 -- what can be different
    service_ns: NDArray[np.int64],
    extras: dict[str, NDArray[np.int64]] | None = None,
    *,
    outcome: NDArray[np.uint8] | None = None,
    error: NDArray[np.uint16] | None = None,
    phase: dict[str, Any] = STEADY,
    lateness_ns: int = 20_000,
    cpu_share: float | None = None,
    failure: StateError | None = None,
    **plan: Any,  # noqa: ANN401 -- a plan's fields
) -> TrialResult:
    """Analyse operations of four clients in turn, one every 25 ms, of a closed loop that ended in order."""
    n = service_ns.size
    fields = {"target": {"store": "redis"}, "experiment": "operations", "workload": {}, "phases": [phase]}
    target = {**fields, **plan}.pop("target")
    trial = AnalysedTrial(**{**fields, **plan, "target": target, "store": target["store"]})
    trial.records.plan_phase(0)
    t0_ns = trial.records.start_of(0) + np.arange(n) * 25 * MS
    t1_ns = t0_ns + lateness_ns
    rows = Rows(
        sequence=np.arange(n),
        t0_ns=t0_ns,
        t1_ns=t1_ns,
        t2_ns=t1_ns + service_ns,
        outcome=np.zeros(n, np.uint8) if outcome is None else outcome,
        error=np.zeros(n, np.uint16) if error is None else error,
        extras={"client": np.arange(n) % CLIENTS, "kind": np.zeros(n, np.int64), **(extras or {})},
    )
    header = column_header(trial.ref, phase=0, last=True, drift_ns=0, cpu_share=cpu_share, errors=ERRORS)
    key = layout.column_file_key(trial.ref, layout.attempt_id(0, 0, 0, 0), 0)
    trial.memory.services.runs.put_bytes(key, encode(header, rows))
    return trial.result(failure)


def drawn(n: int = CLIENTS * EACH) -> NDArray[np.int64]:
    """Draw service times around 2 ms."""
    return (np.random.default_rng(3).lognormal(0.7, 0.2, n) * MS).astype(np.int64)


def only(result: TrialResult) -> tuple[WindowResult, OperationsResult]:
    """Return the result's one window."""
    (window,) = result.summary.windows
    return window, present(window.operations)


def test_an_operations_latency_is_its_service_time_and_nothing_arrives() -> None:
    """Triggers' code serves them, from quantiles to boxes; what would need an arrival is not there."""
    service_ns = drawn()
    result = analysed(service_ns)
    window, found = only(result)
    median = float(np.median(service_ns)) / MS
    assert result.summary.experiment == "operations"
    assert window.latency_ms.p50.value == pytest.approx(median)
    assert window.latency_ms == window.service_ms
    assert (window.after_ack_ms, window.response_trigger_ms) == (None, None)
    assert window.response_write_ms.p50.value == pytest.approx(median + 0.02)
    assert (result.boxes[0].p50, result.ecdf[0].latency_ms[-1]) == pytest.approx((median, service_ns.max() / MS))
    assert result.series[0].p50_ms is not None
    assert (found.clients, found.retries, window.errors, found.connecting) == (CLIENTS, 0, {}, None)
    assert present(result.summary.accounting).lost == 0


def test_kinds_are_told_apart_and_add_up() -> None:
    """Every third is an update, twice as slow; ok, failed and unknown are what was sent of each."""
    service_ns, n = drawn(), CLIENTS * EACH
    kind = np.where(np.arange(n) % 3 == 0, 3, 0)
    outcome, error = np.zeros(n, np.uint8), np.zeros(n, np.uint16)
    outcome[[1, 2, 3]], error[[1, 2, 3]] = [1, 1, 2], [1, 1, 2]
    result = analysed(
        np.where(kind == 3, 2 * service_ns, service_ns), {"kind": kind, "retries": kind}, outcome=outcome, error=error
    )
    window, found = only(result)
    read, update = found.kinds
    assert [(each.kind, each.ok, each.failed, each.unknown) for each in found.kinds] == [
        ("read", 2 * n // 3 - 2, 2, 0),
        ("update", n // 3 - 1, 0, 1),
    ]
    assert window.n == read.ok + update.ok == read.service_ms.n + update.response_ms.n
    assert update.service_ms.p50.value == pytest.approx(np.median(2 * service_ns[kind == 3][1:]) / MS, rel=0.01)
    assert (window.sent, window.failed, window.unknown, found.retries) == (n, 2, 1, n)
    assert window.errors == {"not_found": 2, "timeout": 1}


def test_the_table_has_a_count_beside_each_percentile() -> None:
    """1,200 values: half of them at most the median, all at most the largest; p99.9 is the largest but one."""
    _, found = only(analysed(drawn()))
    rows = {row.percentile: row for row in found.percentiles}
    assert list(rows) == [50, 75, 87.5, 93.75, 99.21875, 99.90234375, 100]
    assert (rows[50].count, rows[75].count, rows[100].count) == (600, 900, 1_200)
    assert rows[99.90234375].count == 1_198


def test_operations_a_minute_are_counted_by_their_answers() -> None:
    """1,200 operations every 25 ms are 30 s, all in the first of two minutes; a window of 8 s has no whole one."""
    service_ns = drawn()
    _, found = only(analysed(service_ns))
    assert found.per_minute == (1_200, 0)
    window = {"name": "all", "from_s": 0, "to_s": 8}
    short, found = only(analysed(service_ns, phase={**STEADY, "windows": [window]}))
    assert (short.n, found.per_minute) == (320, ())
    assert short.achieved_per_s == pytest.approx(40, rel=0.01)


def test_the_rate_of_clients_that_were_stopped_is_over_the_time_they_had() -> None:
    """1,200 operations in 30 of 120 s: 40/s, not the 10/s of a store that did nothing for the rest."""
    window, _ = only(analysed(drawn(), failure=StateError(Error="TrialCancelledError", Cause="stopped by the user")))
    assert window.achieved_per_s == pytest.approx(40, rel=0.01)
    window, _ = only(analysed(drawn()))
    assert window.achieved_per_s == pytest.approx(10, rel=0.01)


def test_connections_of_their_own_are_split_into_parts() -> None:
    """Connect, TLS and operate are 98 % of the service time; a store without authentication has no such row."""
    service_ns = drawn()
    shares = {"connect_ns": 0.1, "tls_ns": 0.5, "operate_ns": 0.38}
    extras = {name: (share * service_ns).astype(np.int64) for name, share in shares.items()}
    _, found = only(analysed(service_ns, extras, workload={"reuse": False}))
    assert found.connecting is not None
    assert found.connecting.authenticate_ms is None
    assert found.connecting.unaccounted_share == pytest.approx(0.02, abs=1e-4)
    assert present(found.connecting.tls_ms).p50.value == pytest.approx(0.5 * np.median(service_ns) / MS, rel=1e-3)


def test_a_stall_in_a_closed_loop_is_said_to_hide_others() -> None:
    """
    Nine seconds of one of four clients: one operation shows it, and on a schedule of one each 200 ms many would.

    Those due in the stall wait 9 s, 8.8 s, and so on; 45 of them. Then 4 ms of work each 200 ms leaves no other queue.
    """
    service_ns, phase = drawn(), {"name": "steady", "closed": {"clients": CLIENTS, "duration_s": 30}}
    assert "stalls_hidden" not in {caveat.kind for caveat in analysed(service_ns, phase=phase).summary.caveats}
    service_ns[700] = 9 * SECOND
    found = analysed(service_ns, phase=phase).summary.caveats
    (caveat,) = [each for each in found if each.kind == "stalls_hidden"]
    assert "the longest operation took 9000 ms" in caveat.text
    assert "0.083 % took more than 10 times p99" in caveat.text
    waited = float(caveat.text.split("half as fast, ")[1].split(" %")[0])
    assert waited == pytest.approx(100 * 45 / 1_200, abs=0.15)


def test_a_generator_that_holds_a_closed_loop_back_is_told() -> None:
    """Every operation 5 ms late after its client was free, beside answers of 2 ms."""
    kinds = {caveat.kind: caveat for caveat in analysed(drawn(), lateness_ns=5 * MS).summary.caveats}
    assert "the generator itself took 71 % of its clients' time" in kinds["saturated_generator"].text
    assert "may contain the generator's own delay" in kinds["saturated_generator"].text
    assert "fewer clients" in kinds["saturated_generator"].remedy


def test_a_writer_without_cpu_to_spare_holds_back_too() -> None:
    """Answers lie about until it gets to them: that is between t1 and t2, where nothing else would show it."""
    result = analysed(drawn(), cpu_share=0.93)
    _, found = only(result)
    (caveat,) = [each for each in result.summary.caveats if each.kind == "saturated_generator"]
    assert (found.generator_cpu, found.held_back) == (0.93, True)
    assert "the busiest writer used 93 % of the CPU that it can get" in caveat.text
    idle = analysed(drawn(), cpu_share=0.6)
    assert (only(idle)[1].generator_cpu, only(idle)[1].held_back) == (0.6, False)
    assert "saturated_generator" not in {each.kind for each in idle.summary.caveats}


def test_a_client_alone_with_its_writer_has_service_times_of_its_own() -> None:
    """Nobody else is served while its answer is read, so only its throughput is the generator's."""
    phase, alone = {"name": "steady", "closed": {"clients": 1, "duration_s": 120}}, np.zeros(CLIENTS * EACH, np.int64)
    found = analysed(drawn(), {"client": alone}, phase=phase, lateness_ns=5 * MS).summary.caveats
    (caveat,) = [each for each in found if each.kind == "saturated_generator"]
    assert "the store would take more" in caveat.text
    assert "service times" not in caveat.text


@pytest.mark.parametrize(("think_ms", "share"), [(0, 0.09 / 0.81), (370, 0.09 / 370.81)])
def test_a_pause_is_part_of_a_client_s_time(think_ms: float, share: float) -> None:
    """0.09 ms of 0.81 is a ninth of the throughput; beside a pause of 370 ms it is nothing, and no caveat."""
    phase = {"name": "steady", "closed": {"clients": CLIENTS, "duration_s": 120, "think_ms": think_ms}}
    result = analysed(np.full(CLIENTS * EACH, 720_000), phase=phase, lateness_ns=90_000)
    window, found = only(result)
    assert found.generator_share == pytest.approx(share)
    assert window.lateness_ms.p50.value == pytest.approx(0.09)
    assert ("saturated_generator" in {caveat.kind for caveat in result.summary.caveats}) == (think_ms == 0)


def test_operations_have_no_caveats_about_arrivals_and_clocks() -> None:
    """Their times are one clock's, and nothing is to arrive."""
    kinds = {caveat.kind for caveat in analysed(drawn()).summary.caveats}
    assert kinds.isdisjoint({"lost_events", "clock_unmeasured", "cold_starts", "t4_in_fallback", "missing_writer"})


def test_published_numbers_have_one_reading_for_operations() -> None:
    """Service time over 2 ms; there is no acknowledgement apart from the answer."""
    published = [{"metric": "p50", "value_ms": 2, "source": "A paper"}]
    result = analysed(drawn(), published=published)
    (found,), (window,) = result.summary.replication, result.summary.windows
    assert found.ours == window.latency_ms.p50
    assert (found.ours_after_ack, found.ratio_after_ack) == (None, None)
    assert found.ratio.value == pytest.approx((window.latency_ms.p50.value or 0) / 2)


def test_published_percentiles_and_counts_stand_beside_ours() -> None:
    """A histogram's rows: 900 of 1,200 take at most p75, and all of them the largest, which has no interval."""
    published = [
        {"metric": "p75", "value_ms": 2, "count": 19_557, "source": "A paper"},
        {"metric": "max", "value_ms": 95, "count": 26_062, "source": "A paper"},
    ]
    result = analysed(drawn(), published=published)
    p75, largest = result.summary.replication
    _, found = only(result)
    rows = {row.percentile: row for row in found.percentiles}
    assert (p75.ours.value, p75.count, p75.published_count) == (rows[75].value_ms, 900, 19_557)
    assert p75.ours.low is not None
    assert (largest.ours.value, largest.count) == (rows[100].value_ms, 1_200)
    assert largest.ours.reason == "the largest of the sample, which has no interval"
    assert largest.ratio.value == pytest.approx((rows[100].value_ms or 0) / 95)


def test_a_number_of_operations_has_its_wall_time() -> None:
    """1,200 operations, 25 ms apart, from the first send to the last answer; per minute it is what was published."""
    service_ns = np.full(CLIENTS * EACH, 5 * MS)
    phase = {"name": "steady", "load": [{"rate_per_s": 40, "count": CLIENTS * EACH}]}
    published = [{"metric": "throughput", "per_minute": 3_000, "source": "A paper"}]
    result = analysed(service_ns, phase=phase, published=published)
    _, found = only(result)
    assert found.wall_s == pytest.approx(1_199 * 0.025 + 0.005)
    assert found.per_wall_s == pytest.approx(1_200 / (1_199 * 0.025 + 0.005))
    (score,) = result.summary.replication
    assert score.ours.value == pytest.approx(60 * present(found.per_wall_s))
    assert score.ours.reason == "a count over the wall time, of which no interval is made"
    for timed in (
        {"load": [{"rate_per_s": 40, "duration_s": 30}]},
        {"closed": {"clients": CLIENTS, "duration_s": 120}},
    ):
        assert only(analysed(service_ns, phase={"name": "steady", **timed}))[1].wall_s is None


def test_a_summary_tells_what_the_trial_is() -> None:
    """Trials are compared by it, whatever their names are."""
    setup = analysed(drawn(), workload={"mix": {"read": 1}, "reuse": False}).summary.setup
    assert (setup["target.store"], setup["workload.reuse"]) == ("redis", False)
    assert setup["phases[steady].closed.clients"] == CLIENTS


def test_operations_are_billed_by_the_kinds_that_were_sent() -> None:
    """The plan says half reads; 900 were read, at half a unit each, and 100 + 300 inserted, a unit each."""
    kinds = np.repeat([Kind.READ, Kind.INSERT], [900, 300]).astype(np.int64)
    workload = {"mix": {"read": 1, "insert": 1}, "records": 100}
    cost = analysed(drawn(), {"kind": kinds}, target={"store": "dynamodb"}, workload=workload).summary.cost_usd
    found = {item.item: item.quantity for item in cost.items if item.part == "store"}
    assert found == {
        "DynamoDB on-demand reads": pytest.approx(450),
        "DynamoDB on-demand writes": pytest.approx(100 + 300),
    }


@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        ({"name": "steady", "load": [{"rate_per_s": 40, "duration_s": 30}]}, "fell_behind"),
        ({"name": "steady", "closed": {"clients": CLIENTS, "duration_s": 30}}, "latency_drift"),
    ],
    ids=["open loop", "closed loop"],
)
def test_a_schedule_falls_behind_and_clients_that_wait_cannot(phase: dict[str, Any], kind: str) -> None:
    """40 a second are due and 30 are answered; clients that wait for their answers see a slower store."""
    rising = np.arange(CLIENTS * EACH) * (25 * MS // 3) + 2 * MS
    result = analysed(rising, phase=phase)
    (window,) = result.summary.windows
    assert {each.kind for each in result.summary.caveats} & {"fell_behind", "latency_drift"} == {kind}
    behind = kind == "fell_behind"
    assert window.service_ms.p50.fell_behind == window.response_write_ms.p90.fell_behind == behind
    assert (None if window.kept_up_per_s is None else round(window.kept_up_per_s)) == (30 if behind else None)
    kinds = present(window.operations).kinds
    assert all(each.service_ms.p50.fell_behind == behind for each in kinds)


@pytest.mark.parametrize("overloaded", [True, False], ids=["overload", "outage"])
def test_requests_that_time_out_wait_in_a_queue_where_those_before_them_did(*, overloaded: bool) -> None:
    """40 a second are due and 20 are answered, until they wait for 5 s and time out; or answers cease after 10 s."""
    n, unknown = 1_200, 2
    service_ns = np.arange(n) * 25 * MS + 2 * MS if overloaded else np.full(n, 2 * MS)
    late = np.arange(n) >= 200 if overloaded else np.arange(n) >= 400
    result = analysed(
        np.where(late, 5 * SECOND, service_ns),
        outcome=np.where(late, unknown, 0).astype(np.uint8),
        error=np.where(late, ERRORS.index("timeout"), 0).astype(np.uint16),
        phase={"name": "steady", "load": [{"rate_per_s": 40, "duration_s": 30}]},
    )
    assert ("fell_behind" in {each.kind for each in result.summary.caveats}) == overloaded
    assert result.summary.windows[0].service_ms.p50.fell_behind == overloaded
