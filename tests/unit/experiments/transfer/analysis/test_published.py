"""Published numbers beside ours: of one size, of all, and of one source over another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.transfers import row

from stepbench.contracts.transfer.plan import MIB, PublishedTransfer
from stepbench.contracts.transfer.result import ScoredTransfer
from stepbench.experiments.transfer.analysis.findings import find_transfers
from stepbench.records.formats.transfer_columns import TransferColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.transfer.rows import TransferRow

SECONDS = {("efs", 1): (0.5, 1.0), ("efs", 10): (1.0, 4.0), ("s3", 1): (1.0, 1.0), ("s3", 10): (2.0, 2.0)}
"""Of 1 MiB from EFS 2 and 1 MiB/s, of 10 MiB 10 and 2.5; from S3 1 and 1, 5 and 5."""
ROWS = [
    row(number=number, source=source, file_bytes=mib * MIB, transfer_ns=round(seconds * 1e9), mib_ns=())
    for (source, mib), both in SECONDS.items()
    for number, seconds in enumerate(both)
]


def score(
    metric: str,
    value: float = 1,
    mib: int | None = None,
    source: str = "efs",
    rows: Sequence[TransferRow] = ROWS,
    **fields: Any,  # noqa: ANN401 -- any field
) -> ScoredTransfer:
    """Set one published number of Lambda beside the rows."""
    number = {"platform": "lambda", "source": source, "metric": metric, "file_size_mib": mib, "value": value}
    published = PublishedTransfer.model_validate({**number, "citation": "x", **fields})
    (scored,) = find_transfers(TransferColumns.of(rows), published=[published]).published
    return scored


@pytest.mark.parametrize(
    ("metric", "mib", "ours"),
    [
        ("fastest_s", 10, 1.0),
        ("slowest_s", 10, 4.0),
        ("slowest_over_fastest", 10, 4.0),
        ("slowest_over_fastest", None, 3.0),
        ("mean", 10, 6.25),
        ("mean", None, 3.875),
        ("median", 1, 1.5),
    ],
)
def test_a_number_is_of_one_size_or_of_all(metric: str, mib: int | None, ours: float) -> None:
    """Slowest over fastest of all sizes is the mean over them: (2 + 4) / 2. A mean of all is that of all transfers."""
    scored = score(metric, 2, mib)
    assert scored.ours.value == pytest.approx(ours)
    assert scored.ratio.value == pytest.approx(ours / 2)


@pytest.mark.parametrize(("mib", "ours"), [(1, 1.5), (10, 1.25), (None, 3.875 / 3)])
def test_one_source_is_set_over_another(mib: int | None, ours: float) -> None:
    """Published: "three times faster than that for S3"."""
    assert score("mean", 3, mib, over_source="s3").ratio.value == pytest.approx(ours / 3)


@pytest.mark.parametrize("fields", [{"platform": "fargate"}, {"mib": 5}, {"platform": "fargate", "over_source": "s3"}])
def test_what_was_not_measured_has_no_ratio(fields: dict[str, Any]) -> None:
    """It stays on the page: a number that is not there would look like one that nobody published."""
    scored = score("mean", **fields)
    assert (scored.ours.value, scored.ratio.value, scored.ours.reason) == (None, None, "not measured")


def test_where_nothing_is_judged_the_reason_stands() -> None:
    """Two transfers of a size show neither modes nor a plateau."""
    for metric in ("modes", "plateau_from_mib", "plateau_mib_per_s"):
        assert score(metric).ours.value is None
        assert score(metric).ours.reason


@pytest.mark.parametrize("metric", ["slowest_over_fastest", "fastest_s", "slowest_s"])
def test_one_transfer_has_no_extremes(metric: str) -> None:
    """Its one time would be the fastest and the slowest, and the ratio 1."""
    scored = score(metric, mib=1, rows=ROWS[:1])
    assert (scored.ours.value, scored.ratio.value, scored.ours.reason) == (None, None, "not measured: one transfer")


def test_sizes_of_one_transfer_are_no_part_of_the_mean_over_sizes() -> None:
    """By hand: of 1 MiB there is one time, of 10 MiB there are 1 and 4 s; (1 + 4) / 2 would be 2.5."""
    assert score("slowest_over_fastest", rows=ROWS[1:]).ours.value == pytest.approx(4)
    alone = score("slowest_over_fastest", rows=ROWS[1:3]).ours
    assert (alone.value, alone.reason) == (None, "not measured: one transfer of each size")
