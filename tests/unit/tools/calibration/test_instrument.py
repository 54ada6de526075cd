"""Errors and counts by hand: one writer, five events of phase 1 after one of the warm-up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.samples.records import REF, column_header, read_item, trial_spec, writer_rows

from stepbench.contracts.identity import EventId
from stepbench.contracts.phase import LoadStep, Phase
from stepbench.contracts.target import ReferenceTarget
from stepbench.records.formats.columns import ColumnFile
from stepbench.records.formats.t4 import Entry
from stepbench.records.join.grid import build_grid
from stepbench.records.join.trial import join
from stepbench.records.storage.layout import attempt_id
from stepbench_tools.calibration.instrument import Calibration, Count, QuantileError, calibrate
from stepbench_tools.calibration.report import HEADINGS, judge, table_rows, verdict_lines
from stepbench_tools.calibration.truth import TrueWrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.records.join.joined import Joined

MS = 1_000_000
START_NS = 1_700_000_000_000_000_000
HOP_NS = 30_000
PHASES = (
    Phase(name="warm-up", measured=False, load=(LoadStep(rate_per_s=1, count=1),)),
    Phase(name="steady", load=(LoadStep(rate_per_s=100, count=5),)),
)
SPEC = trial_spec(ReferenceTarget(store="reference"))
PLAN = SPEC.offered.model_copy(update={"phases": PHASES})
STARTS_NS = {0: START_NS, 1: START_NS + 2_000 * MS}
KEPT_MS = (5, 5, 5, 5, 50)
"""How long the store kept each event of phase 1."""

OFF = QuantileError(metric="p99", truth_ms=5, measured_ms=7, error_ms=2, limit_ms=1)
MISCOUNTED = Count(metric="lost", truth=0, measured=1, differing=1)


def t1_ns(phase: int, sequence: int) -> int:
    """Return a t1 that is 50 µs late, as `writer_rows` has it."""
    return STARTS_NS[phase] + sequence * 10 * MS + 50_000


def true_write(
    sequence: int, kept_ms: int, positions: Sequence[int], *, phase: int = 1, stalled: bool = False
) -> TrueWrite:
    """Return a write received a hop after t1, delivered so much later, and a second time 1 ms after that."""
    received_ns = t1_ns(phase, sequence) + HOP_NS
    delivered_ns = received_ns + kept_ms * MS
    event = EventId(SPEC.tag, phase, 0, 0, 0, sequence)
    return TrueWrite(
        number=phase * 100 + sequence,
        event=event,
        received_at_ns=received_ns,
        due_ns=delivered_ns,
        dropped=not positions,
        duplicated=len(positions) > 1,
        reordered=False,
        stalled=stalled,
        deliveries={position: delivered_ns + n * MS for n, position in enumerate(positions)},
    )


def truth(changed: dict[int, TrueWrite] | None = None) -> list[TrueWrite]:
    """Return writes that are all delivered once and in order, unless changed."""
    first = true_write(0, 5, [1], phase=0)
    return [first, *((changed or {}).get(n) or true_write(n, kept, [n + 2]) for n, kept in enumerate(KEPT_MS))]


def seen(truth: Sequence[TrueWrite], back_ns: int = HOP_NS) -> Joined:
    """Return what an instrument without faults makes of it, a hop after each delivery."""
    entries = [
        Entry(write.event.phase, 0, 0, 0, 0, write.event.sequence, at_ns + back_ns, 0, position)
        for write in truth
        if write.event is not None
        for position, at_ns in write.deliveries.items()
    ]
    files = []
    for phase, start_ns in STARTS_NS.items():
        due_ns = [start_ns + n * 10 * MS for n in range(PLAN.phases[phase].events)]
        files.append(ColumnFile(column_header(phase=phase, last=True, drift_ns=0), writer_rows(due_ns)))
    started = {attempt_id(phase, 0, 0, 0) for phase in STARTS_NS}
    items = [read_item(*entries, source="watcher#0")] if entries else []
    return join(build_grid(PLAN, STARTS_NS), started, files, items, 10_000 * MS)


def judged(joined: Joined, truth: Sequence[TrueWrite]) -> Calibration:
    """Judge phase 1."""
    return calibrate("trial", joined, truth, [False, True])


def counts(calibration: Calibration) -> dict[str, tuple[int, int, int]]:
    """Return truth, measured and differing events by name."""
    return {each.metric: (each.truth, each.measured, each.differing) for each in calibration.counts}


def test_a_faultless_instrument_is_wrong_by_its_two_hops() -> None:
    """Of 5, 5, 5, 5, 50 p50 is 5, p90 is 32, p99 is 48.2, each measured 0.06 ms longer; the warm-up does not count."""
    found = judged(seen(truth()), truth())
    assert [each.metric for each in found.errors] == ["p50", "p90", "p99"]
    assert [each.truth_ms for each in found.errors] == pytest.approx([5, 32, 48.2])
    assert [each.error_ms for each in found.errors] == pytest.approx([0.06] * 3)
    assert [each.limit_ms for each in found.errors] == [0.1, None, 1.0]
    assert (found.n, found.out_ms, found.back_ms) == (5, 0.03, 0.03)
    assert counts(found) == {
        "acknowledged": (5, 5, 0),
        "lost": (0, 0, 0),
        "duplicates": (0, 0, 0),
        "out_of_order": (0, 0, 0),
    }
    assert found.failures() == ()


def test_a_median_that_is_off_by_more_than_its_limit_fails() -> None:
    """0.03 + 0.08 ms are above 0.1."""
    found = judged(seen(truth(), back_ns=80_000), truth())
    assert found.failures() == ("p50: error +0.110 ms, limit 0.100 ms",)


def test_the_limit_of_the_tail_is_one_per_cent_where_that_is_more() -> None:
    """Of 1,000 ms it is 10 ms."""
    slow = truth({n: true_write(n, 1_000, [n + 2]) for n in range(5)})
    assert judged(seen(slow), slow).errors[-1].limit_ms == pytest.approx(10.0)


def test_faults_that_are_seen_as_they_were_are_exact() -> None:
    """Event 1 is dropped, 2 comes twice, and 3 comes after 4."""
    changed = {
        1: true_write(1, 5, []),
        2: true_write(2, 5, [3, 4]),
        3: true_write(3, 70, [6]),
        4: true_write(4, 50, [5]),
    }
    found = judged(seen(truth(changed)), truth(changed))
    assert counts(found)["lost"] == (1, 1, 0)
    assert counts(found)["duplicates"] == (1, 1, 0)
    assert counts(found)["out_of_order"] == (1, 1, 0)
    assert (found.n, found.exact) == (4, True)


def test_mistakes_that_cancel_each_other_are_found() -> None:
    """The store dropped event 1, the instrument has lost event 2: both count one, and both are wrong."""
    real, believed = truth({1: true_write(1, 5, [])}), truth({2: true_write(2, 5, [])})
    found = judged(seen(believed), real)
    assert counts(found)["lost"] == (1, 1, 2)
    assert not found.exact
    assert "lost: measured 1, truth 1, 2 differ" in found.failures()


@pytest.mark.parametrize(
    ("changed", "metric", "expected"),
    [
        ({2: true_write(2, 5, [4, 5])}, "duplicates", (1, 0, 1)),
        ({3: true_write(3, 70, [6]), 4: true_write(4, 50, [5])}, "out_of_order", (1, 0, 1)),
        ({1: true_write(1, 5, [])}, "lost", (1, 0, 1)),
    ],
)
def test_each_fault_that_the_instrument_does_not_see_is_found(
    changed: dict[int, TrueWrite], metric: str, expected: tuple[int, int, int]
) -> None:
    """The instrument believes that all went well."""
    found = judged(seen(truth()), truth(changed))
    assert counts(found)[metric] == expected
    assert not found.exact


def test_a_write_that_the_store_never_got_must_not_be_acknowledged() -> None:
    """The truth knows four, the writer five."""
    found = judged(seen(truth()), truth()[:-1])
    assert counts(found)["acknowledged"] == (4, 5, 1)


@pytest.mark.parametrize(("arrives_ms", "missed"), [(50, 0), (5, 1)])
def test_an_event_that_a_stall_delayed_is_seen_with_its_delay(arrives_ms: int, missed: int) -> None:
    """An instrument that timed from somewhere later would make the stall shorter."""
    stalled = true_write(4, 50, [6], stalled=True)
    joined = seen(truth({4: true_write(4, arrives_ms, [6])}))
    found = judged(joined, truth({4: stalled}))
    assert (found.stalled, found.stalled_seen) == (1, 1 - missed)
    assert ("stalls: 1 of 1 delayed ones not seen as such" in found.failures()) == bool(missed)


@pytest.mark.parametrize(
    "event",
    [None, EventId(SPEC.tag, 7, 0, 0, 0, 0), EventId(SPEC.tag, 1, 0, 0, 0, 5), EventId(SPEC.tag, 1, 0, 0, 0, 4)],
)
def test_what_the_schedule_does_not_have_is_a_stranger(event: EventId | None) -> None:
    """It may have no identity, be of another phase, lie beyond the last event, or come a second time."""
    stranger = replace(true_write(0, 5, []), event=event)
    found = judged(seen(truth()), [*truth(), stranger])
    assert (found.strangers, found.exact) == (1, False)
    assert "1 of truth and records have no counterpart" in found.failures()


def test_nothing_delivered_is_no_success() -> None:
    """Where there is no event there is no error, and that must not pass."""
    nothing = [true_write(0, 5, [], phase=0), *(true_write(n, 5, []) for n in range(5))]
    found = judged(seen(nothing), nothing)
    assert (found.n, found.errors, found.out_ms, found.back_ms) == (0, (), None, None)
    assert found.failures() == ("nothing was measured",)
    assert not judge("plan", (found,)).passed
    assert not judge("runs", (found,)).passed
    assert not judge("runs", ()).passed


def test_short_runs_are_judged_by_their_counts_alone() -> None:
    """Writer and watcher share a process there; a plan is judged by everything."""
    late = judged(seen(truth(), back_ns=80_000), truth())
    assert judge("runs", (late,)).passed
    assert not judge("plan", (late,)).passed


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ({"errors": (OFF,)}, "latency"),
        ({"counts": (MISCOUNTED,)}, "counts"),
        ({"strangers": 1}, "counts"),
        ({"stalled": 2, "stalled_seen": 1}, "stalls"),
        ({"errors": (OFF,), "counts": (MISCOUNTED,)}, "latency and counts"),
        ({"errors": (OFF,), "stalled": 2, "strangers": 1}, "latency, stalls and counts"),
        ({"n": 0}, "sample"),
    ],
)
def test_only_what_fails_is_said_to_fail(fault: dict[str, Any], named: str) -> None:
    """Latencies beyond their limit with exact counts once read "FAILS (latency and counts)"."""
    good = judged(seen(truth()), truth())
    report = judge("plan", (good, good.model_copy(update=fault)))
    assert list(verdict_lines(report))[-1] == f"the instrument FAILS ({named})"
    assert report.fails == tuple(named.replace("latency", "times").replace(" and ", ", ").split(", "))
    assert json.loads(report.model_dump_json())["fails"] == list(report.fails)
    short = judge("runs", (good.model_copy(update=fault),))
    assert short.fails == tuple(each for each in report.fails if each in {"counts", "sample"})
    assert list(verdict_lines(judge("plan", (good,))))[-1] == (
        "the instrument keeps its limits (latency, stalls and counts)"
    )


def test_a_short_run_that_measured_nothing_says_so() -> None:
    """Its counts are exact, and it fails: not by them."""
    nothing = judged(seen(truth()), truth()).model_copy(update={"n": 0})
    assert list(verdict_lines(judge("runs", (nothing,)))) == [
        *("trial: nothing was measured", "counts exact in 1 of 1", "the instrument FAILS (sample)")
    ]


def test_the_table_and_the_sentences_say_it_all() -> None:
    """People read a row a quantile, then failures, hops and verdict."""
    wrong = judged(seen(truth()), truth({1: true_write(1, 5, [])}))
    rows = list(table_rows((wrong,)))
    assert {len(row) for row in rows} == {len(HEADINGS)}
    assert rows[0] == (
        *("trial", "4", "p50", "5.000", "5.060", "+0.060", "0.100"),
        "acknowledged 5, lost 0 (truth 1), duplicates 0, out_of_order 0",
        "-",
    )
    assert rows[1][:3] == ("", "", "p90")
    assert rows[1][6:] == ("-", "", "")
    report = judge("plan", (wrong, judged(seen(truth()), truth())))
    assert list(verdict_lines(report)) == [
        "trial: lost: measured 0, truth 1, 1 differ",
        "trial: median of the hops: out 0.030 ms, back 0.030 ms",
        "trial: median of the hops: out 0.030 ms, back 0.030 ms",
        "counts exact in 1 of 2",
        "the instrument FAILS (counts)",
    ]
    assert next(verdict_lines(judge("runs", (wrong,)))) == "trial: lost: measured 0, truth 1, 1 differ"
    assert list(verdict_lines(judge("runs", (judged(seen(truth()), truth()),)))) == [
        "counts exact in 1 of 1",
        "the instrument keeps its limits (counts)",
    ]
    stalled = truth({4: true_write(4, 50, [6], stalled=True)})
    assert next(table_rows((judged(seen(stalled), stalled),)))[-1] == "1 of 1"


def test_the_order_of_arrivals_is_looked_at_over_the_whole_trial() -> None:
    """The warm-up's last event arrives after the first measured one: that is the warm-up's disorder, not ours."""
    late = true_write(0, 2_100, [3], phase=0)
    writes = [
        late,
        true_write(0, 5, [1]),
        true_write(1, 5, [2]),
        *(true_write(n, KEPT_MS[n], [n + 2]) for n in (2, 3, 4)),
    ]
    joined = seen(writes)
    assert np.flatnonzero(joined.disorder).tolist() == [0]
    assert counts(judged(joined, writes))["out_of_order"] == (0, 0, 0)
    assert counts(calibrate("trial", joined, writes, [True, True]))["out_of_order"] == (1, 1, 0)
    assert REF.tag == SPEC.tag
