"""What the source's authors published, from their own rows; these are read where they lie beside the checkout."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from stepbench.contracts.plan import transfer_plan
from stepbench.contracts.transfer.result import TransferCell, TransferFindings, TransferPair
from stepbench.contracts.transfer.rows import TransferRow
from stepbench.experiments.transfer.analysis.findings import find_transfers
from stepbench.planning import parse_plan
from stepbench.planning.presets import find_plan
from stepbench.records.formats.transfer_columns import TransferColumns

SHARED = Path(os.environ.get("STEPBENCH_SHARED_DATA", Path(__file__).parents[5].parent / "shared/data"))
ROWS = SHARED / "ecs-lambda-read-perf.ndjson"


def read_row(number: int, line: str) -> TransferRow:
    """Return one of their lines as a row; it knows neither sandbox nor first byte."""
    row = json.loads(line)
    ended_ns = round(datetime.fromisoformat(f"{row['timestamp']}+00:00").timestamp() * 1_000) * 1_000_000
    return TransferRow(
        run_id="published",
        trial=0,
        number=number,
        attempt=0,
        place=0,
        due_at_ns=ended_ns - row["duration-ns"],
        began_at_ns=ended_ns - row["duration-ns"],
        platform=row["type"],
        source=row["storage"].lower(),
        path=row["file"],
        file_bytes=row["file-size"],
        received_bytes=row["file-size"],
        transfer_ns=row["duration-ns"],
        sandbox="",
        served=0,
        outcome="ok",
    )


@pytest.fixture(scope="module")
def findings() -> TransferFindings:
    """Return what their rows show."""
    if not ROWS.exists():
        pytest.skip(
            f"the authors' rows are not beside this checkout ({ROWS.name}); STEPBENCH_SHARED_DATA names a folder"
        )
    lines = ROWS.read_text().splitlines()
    rows = TransferColumns.of(read_row(number, line) for number, line in enumerate(lines))
    (trial,) = parse_plan(find_plan("paper-transfer")).trials
    return find_transfers(rows, published=transfer_plan(trial).published)


def pair(findings: TransferFindings, platform: str, source: str) -> TransferPair:
    """Return one of the four."""
    return next(each for each in findings.pairs if (each.platform, each.source) == (platform, source))


def cells(findings: TransferFindings, platform: str, source: str) -> dict[int, TransferCell]:
    """Return its nine cells, by size."""
    return {cell.file_size_mib: cell for cell in findings.cells if (cell.platform, cell.source) == (platform, source)}


def test_every_row_is_in_one_of_36_cells(findings: TransferFindings) -> None:
    """2,902 rows, of 5 December 2023 to 4 January 2024."""
    assert (findings.n, len(findings.cells)) == (2_902, 36)
    assert sum(cell.n for cell in findings.cells) == 2_902
    assert (f"{findings.begin:%Y-%m-%d}", f"{findings.end:%Y-%m-%d}") == ("2023-12-05", "2024-01-04")


@pytest.mark.parametrize(
    ("platform", "source", "published"),
    [("fargate", "efs", 9.478), ("lambda", "efs", 3.38), ("lambda", "s3", 1.22), ("fargate", "s3", 7.67)],
)
def test_the_slowest_over_the_fastest_in_the_mean_over_sizes(
    findings: TransferFindings, platform: str, source: str, published: float
) -> None:
    """9.47 is in the article; the others are in SEEDS.md."""
    found = pair(findings, platform, source).slowest_over_fastest
    assert found == pytest.approx(published, abs=0.005)


def test_500_mib_from_efs_to_fargate_take_1_1_to_15_8_seconds(findings: TransferFindings) -> None:
    """Published: up to 13.8 times slower."""
    cell = cells(findings, "fargate", "efs")[500]
    assert cell.fastest_s == pytest.approx(1.145, abs=0.001)
    assert cell.slowest_s == pytest.approx(15.816, abs=0.001)
    assert cell.slowest_over_fastest == pytest.approx(13.8, abs=0.05)


def test_s3_to_fargate_is_steady_from_250_mib_on(findings: TransferFindings) -> None:
    """Slowest over fastest: 1.06."""
    large = [cell for size, cell in cells(findings, "fargate", "s3").items() if size >= 250]
    assert [cell.slowest_over_fastest for cell in large] == pytest.approx([1.06] * 3, abs=0.006)


@pytest.mark.parametrize("platform", ["lambda", "fargate"])
def test_the_rate_from_s3_rises_up_to_a_plateau_from_250_mib_on(findings: TransferFindings, platform: str) -> None:
    """Published: levels off after 300 MiB, at 22 to 26 MiB/s. Nobody knows their client's CPU."""
    plateau = pair(findings, platform, "s3").plateau
    assert (plateau.rises, plateau.from_mib, plateau.client_limit) == (True, 250, None)
    assert plateau.mib_per_s is not None
    assert 22 <= plateau.mib_per_s <= 26
    means = [cell.mean_mib_per_s.value for cell in cells(findings, platform, "s3").values()]
    assert means == sorted(means, key=lambda mean: mean or 0)


@pytest.mark.parametrize(("platform", "bimodal"), [("lambda", 8), ("fargate", 9)])
def test_efs_has_two_modes_at_least_and_s3_has_one(findings: TransferFindings, platform: str, bimodal: int) -> None:
    """Published of EFS on both. Of 1 MiB on Lambda, with 74 rows, one mode stands at the error that all share."""
    assert pair(findings, platform, "efs").modes.found
    assert sum(cell.modes.found for cell in cells(findings, platform, "efs").values()) == bimodal
    assert not pair(findings, platform, "s3").modes.found
    assert not any(cell.modes.found for cell in cells(findings, platform, "s3").values())


def test_efs_to_fargate_has_a_third_group_above_220_mib_per_s(findings: TransferFindings) -> None:
    """Of files of 100 MiB and more together: three modes or four, of which the fastest holds about one in twenty."""
    modes = pair(findings, "fargate", "efs").modes.modes
    assert len(modes) in {3, 4}
    assert modes[0].mib_per_s == pytest.approx(50, rel=0.05)
    assert modes[-1].mib_per_s > 220
    assert modes[-1].share == pytest.approx(0.05, abs=0.02)


def test_efs_to_lambda_spreads_most_at_1_mib(findings: TransferFindings) -> None:
    """Published of EFS; to Fargate it does not: there 500 MiB spread most, by the same measure."""
    spread = {
        platform: {size: cell.variation or 0 for size, cell in cells(findings, platform, "efs").items()}
        for platform in ("lambda", "fargate")
    }
    assert max(spread["lambda"], key=spread["lambda"].__getitem__) == 1
    assert max(spread["fargate"], key=spread["fargate"].__getitem__) == 500


def test_efs_means_of_both_are_alike_and_fargate_varies_more(findings: TransferFindings) -> None:
    """Published: "average performances are similar"; means of means are 62 and 83 MiB/s, variations 0.32 and 0.81."""
    means, variations = [], []
    for platform in ("lambda", "fargate"):
        own = cells(findings, platform, "efs").values()
        means.append(sum(cell.mean_mib_per_s.value or 0 for cell in own) / 9)
        variations.append(sum(cell.variation or 0 for cell in own) / 9)
    assert means[1] / means[0] == pytest.approx(1.34, abs=0.01)
    assert variations[1] > 2 * variations[0]


def test_from_efs_lambda_reads_three_times_as_fast_as_from_s3(findings: TransferFindings) -> None:
    """Published: three times on average; 19 times at 1 MiB, 2.7 at 500."""
    efs, s3 = (cells(findings, "lambda", source) for source in ("efs", "s3"))
    ratios = {size: (efs[size].mean_mib_per_s.value or 0) / (s3[size].mean_mib_per_s.value or 1) for size in efs}
    assert ratios[1] == pytest.approx(19, abs=0.1)
    assert ratios[500] == pytest.approx(2.7, abs=0.05)


def test_the_preset_s_numbers_are_those_of_their_rows(findings: TransferFindings) -> None:
    """What is from the download within its rounding; of the text, what the rows give where it rounds or has no rule."""
    scored = [(each.published, each.ratio.value or 0) for each in findings.published]
    assert len(scored) == 51
    from_rows = [ratio for published, ratio in scored if "rows" in published.citation]
    assert len(from_rows) == 41
    assert from_rows == pytest.approx([1] * 41, abs=0.002)
    text = [(published.value, ratio) for published, ratio in scored if "text" in published.citation]
    ours = {9.47: [9.478], 13.8: [13.81], 1.1: [1.145], 15.8: [15.816], 3: [3.72, 2.69], 300: [250, 250], 2: [3, 3]}
    assert {value: [value * ratio for number, ratio in text if number == value] for value, _ in text} == {
        value: pytest.approx(found, rel=0.001) for value, found in ours.items()
    }


def test_what_their_rows_do_not_tell_is_not_told(findings: TransferFindings) -> None:
    """Neither starts nor first bytes, progress, digests or sandboxes."""
    accounting = findings.accounting
    assert (accounting.ok, accounting.unknown_start, accounting.untold_digest) == (2_902, 2_902, 2_902)
    assert (accounting.offered, accounting.missing) == (None, None)
    assert {cell.stalls.judged for cell in findings.cells} == {0}
    assert {cell.first_byte_p50_ms.value for cell in findings.cells} == {None}
    assert {each.variance.sandbox.value for each in findings.pairs} == {None}
