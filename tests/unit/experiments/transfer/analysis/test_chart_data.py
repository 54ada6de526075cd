"""What the charts of transfers draw: nothing that matters is thinned away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.transfers import DAY_NS, MIDNIGHT_NS, row

from stepbench.contracts.transfer.plan import MIB
from stepbench.experiments.transfer.analysis.chart_data import MOST_POINTS, MOST_STEPS, transfer_chart_data
from stepbench.records.formats.transfer_columns import TransferColumns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.contracts.transfer.result import TransferChartData
    from stepbench.contracts.transfer.rows import TransferRow

SECOND_NS = 10**9


def drawn(rows: Iterable[TransferRow]) -> TransferChartData:
    """Return what is drawn of rows."""
    return transfer_chart_data(TransferColumns.of(rows))


def of_size(size_mib: int, seconds: float, **fields: Any) -> TransferRow:  # noqa: ANN401 -- any field's
    """Return a read of so large a file in so long; nothing tells of its progress."""
    sizes = {"file_bytes": size_mib * MIB, "received_bytes": size_mib * MIB}
    return row(**{"transfer_ns": round(seconds * SECOND_NS), "mib_ns": (), **sizes, **fields})


def test_points_are_the_transfers_by_their_beginning() -> None:
    """A chart over time needs when, a chart by size how much, and both how long."""
    (pair,) = drawn(
        [
            of_size(10, 0.5, began_at_ns=MIDNIGHT_NS + DAY_NS, number=1),
            of_size(5, 0.25, began_at_ns=MIDNIGHT_NS),
        ]
    ).points
    assert (pair.file_size_mib, pair.seconds) == ((5, 10), (0.25, 0.5))
    assert pair.at_s == (MIDNIGHT_NS / 1e9, (MIDNIGHT_NS + DAY_NS) / 1e9)


def test_what_failed_is_no_point() -> None:
    """It has no rate; the accounting has it."""
    assert drawn([row(outcome="failed", transfer_ns=None)]).points == ()


def test_of_very_many_the_extremes_of_each_size_are_drawn() -> None:
    """The slowest of a month is the point of the chart."""
    many = [of_size(1 + number % 2, 1 + number / 100, number=number) for number in range(4 * MOST_POINTS)]
    lone = [of_size(500, 90, number=10**6), of_size(500, 30, number=10**6 + 1)]
    (pair,) = drawn([*many, *lone]).points
    assert len(pair.seconds) + pair.left_out == 4 * MOST_POINTS + 2
    assert abs(len(pair.seconds) - MOST_POINTS) <= 4
    assert {1.0, 1.01, 32.98, 32.99, 30, 90} <= {round(each, 2) for each in pair.seconds}


def test_a_curve_goes_from_the_fastest_to_the_slowest() -> None:
    """Its last point is at all of them, however it is thinned."""
    (curve,) = drawn([of_size(1, 1 + number, number=number) for number in range(1_000)]).curves
    assert len(curve.seconds) <= MOST_STEPS
    assert (curve.seconds[0], curve.probability[0]) == (1, 0.001)
    assert (curve.seconds[-1], curve.probability[-1]) == (1_000, 1)


def progressing(number: int, *steps_s: float) -> TransferRow:
    """Return a read of as many MiB, each of which took so long."""
    at_ns = [round(sum(steps_s[: place + 1]) * SECOND_NS) for place in range(len(steps_s))]
    return of_size(len(steps_s), sum(steps_s), number=number, mib_ns=tuple(at_ns))


def test_progress_is_that_of_the_fastest_the_median_and_the_slowest() -> None:
    """Three lines tell more than all of them."""
    curves = drawn([progressing(number, *[0.1 * (number + 1)] * 4) for number in range(5)]).progress
    assert [(curve.kind, curve.seconds[-1]) for curve in curves] == [("fastest", 0.4), ("median", 1.2), ("slowest", 2)]
    assert curves[0].mib == (0, 1, 2, 3, 4)
    assert curves[0].seconds == (0, 0.1, 0.2, 0.3, 0.4)


def test_a_transfer_that_stalled_is_drawn_with_both_ends_of_its_stall() -> None:
    """A thinned line would turn a stall of two seconds into a slope."""
    pace = [0.01] * 400
    stalled = [*pace[:200], 2.0, *pace[201:]]
    slow = [0.05] * 400
    curves = {
        curve.kind: curve
        for curve in drawn(
            [progressing(0, *pace), progressing(1, *pace), progressing(2, *slow), progressing(3, *stalled)]
        ).progress
    }
    assert len(curves["stalled"].seconds) <= MOST_STEPS + 3
    steps = zip(curves["stalled"].seconds, curves["stalled"].seconds[1:], strict=False)
    assert max(later - earlier for earlier, later in steps) == pytest.approx(2.0)


def test_no_stall_is_drawn_where_there_is_none() -> None:
    """Half a second is the least, whatever the pace."""
    curves = drawn([progressing(number, 0.01, 0.3, 0.01, 0.01) for number in range(5)]).progress
    assert {curve.kind for curve in curves} <= {"fastest", "median", "slowest"}


def test_rows_without_progress_have_no_lines() -> None:
    """Those of others tell none."""
    assert drawn([of_size(3, 1)]).progress == ()


def test_an_hours_level_does_not_depend_on_the_sizes_that_were_drawn() -> None:
    """Two hours of equal speed, one with small files only: both are as usual."""
    rows = [of_size(1, 1, number=0), of_size(100, 10, number=1)]
    rows += [of_size(1, 1, number=number, began_at_ns=MIDNIGHT_NS + 3_600 * SECOND_NS) for number in (2, 3)]
    assert [(level.weekday, level.hour, level.n, level.relative) for level in drawn(rows).hours] == [
        (3, 0, 2, 1.0),  # Thursday
        (3, 1, 2, 1.0),
    ]


def test_a_slow_hour_is_below_one() -> None:
    """Half as fast as the other: 1 / √2 and √2 about their mean."""
    rows = [of_size(1, 1), of_size(1, 2, number=1, began_at_ns=MIDNIGHT_NS + 7_200 * SECOND_NS)]
    assert [level.relative for level in drawn(rows).hours] == [1.4142, 0.7071]
