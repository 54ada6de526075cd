"""Findings of transfers for pages, out of rows: rates are the rows', and what takes a test is made up."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from tests.samples.results import trial_summary

from stepbench.contracts.measures import Estimate
from stepbench.contracts.result import TrialResult
from stepbench.contracts.transfer.plan import MIB, PLATFORMS, SOURCES, Platform, PublishedTransfer, Source
from stepbench.contracts.transfer.result import (
    TransferAccounting,
    TransferCell,
    TransferChange,
    TransferDependence,
    TransferFindings,
    TransferLevel,
    TransferMode,
    TransferModes,
    TransferPair,
    TransferPlateau,
    TransferSandboxes,
    TransferStalls,
    TransferVariance,
)
from stepbench.experiments.transfer.analysis.chart_data import transfer_chart_data
from stepbench.experiments.transfer.analysis.published import score_published
from stepbench.experiments.transfer.words import TransferView
from stepbench.records.formats.transfer_columns import TransferColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.transfer.rows import TransferRow

FEW = "12 of 40 independent < 368"
TWO_MODES = TransferModes(
    p_value=0.0004,
    found=True,
    modes=(TransferMode(mib_per_s=44.5, share=0.31), TransferMode(mib_per_s=221.0, share=0.69)),
)
ONE_MODE = TransferModes(p_value=0.42, modes=(TransferMode(mib_per_s=25.0, share=1),))


def findings_of(rows: Sequence[TransferRow]) -> TransferFindings:
    """Return findings of rows, the cells' rates and times their own."""
    ok = [each for each in rows if each.outcome == "ok"]
    ends = sorted(each.began_at_ns for each in rows)
    pairs = [pair for platform in PLATFORMS for source in SOURCES if (pair := _of(ok, platform, source))]
    cells = [cell for pair in pairs for cell in _cells(pair)]
    return TransferFindings(
        n=len(rows),
        begin=_moment(ends[0]) if ends else None,
        end=_moment(ends[-1]) if ends else None,
        accounting=_accounting(rows),
        cells=tuple(cells),
        pairs=tuple(_pair(pair) for pair in pairs),
        sandboxes=tuple(
            TransferSandboxes(platform=platform, n=37, correlation=Estimate(value=0.41, low=0.1, high=0.65))
            for platform in PLATFORMS
        ),
        answers=tuple(
            f"A 500 MiB file from {pair[0].source} takes 5.2 s in half the cases on {pair[0].platform}."
            for pair in pairs
        ),
    )


def _moment(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns // 10**9, UTC)


def _of(rows: Sequence[TransferRow], platform: Platform, source: Source) -> list[TransferRow]:
    return [each for each in rows if (each.platform, each.source) == (platform, source)]


def _accounting(rows: Sequence[TransferRow]) -> TransferAccounting:
    outcomes = [each.outcome for each in rows]
    return TransferAccounting(
        offered=len(rows) + 1,
        ok=outcomes.count("ok"),
        failed=outcomes.count("failed"),
        unknown=outcomes.count("unknown"),
        missing=1,
        cold=len(rows),
        warm=0,
        unknown_start=0,
        wrong_digest=0,
        untold_digest=outcomes.count("failed"),
        errors={"ConnectionReset": outcomes.count("failed")} if "failed" in outcomes else {},
    )


def _cells(rows: Sequence[TransferRow]) -> list[TransferCell]:
    ranked = sorted(rows, key=lambda each: each.file_bytes)
    return [_cell(list(own)) for _, own in groupby(ranked, key=lambda each: each.file_bytes)]


def _cell(rows: Sequence[TransferRow]) -> TransferCell:
    seconds = sorted((each.transfer_ns or 0) / 1e9 for each in rows)
    size = rows[0].file_bytes // MIB
    rates = sorted(size / each for each in seconds)
    mean, deviation = statistics.fmean(rates), statistics.pstdev(rates)
    half = 2 * deviation / len(rates) ** 0.5
    middle = _about(rates[len(rates) // 2])
    return TransferCell(
        platform=rows[0].platform,
        source=rows[0].source,
        file_size_mib=size,
        n=len(rows),
        failed=0,
        unknown=0,
        mean_mib_per_s=Estimate(value=mean, low=mean - half, high=mean + half),
        median_mib_per_s=middle,
        p5_mib_per_s=Estimate(value=rates[len(rates) // 20], reason=FEW),
        p95_mib_per_s=_about(rates[-1 - len(rates) // 20]),
        p95_over_p5=_about(2.0),
        p50_s=_about(seconds[len(seconds) // 2]),
        p90_s=_about(seconds[-1 - len(seconds) // 10]),
        p99_s=Estimate(value=None, reason=FEW),
        fastest_s=seconds[0],
        slowest_s=seconds[-1],
        slowest_over_fastest=seconds[-1] / seconds[0],
        variation=deviation / mean,
        first_byte_p50_ms=_about(20.0),
        first_byte_p95_ms=_about(40.0),
        steady_mib_per_s=middle,
        cpu_share=0.12,
        modes=TWO_MODES if rows[0].source == "efs" else ONE_MODE,
        stalls=TransferStalls(judged=len(rows), stalls=1, transfers=1, share=_about(0.01), median_s=2.0, longest_s=2.1),
        caveats=("few",) if len(rows) < 300 else (),
    )


def _about(value: float) -> Estimate:
    return Estimate(value=value, low=value * 0.93, high=value * 1.06)


def _pair(rows: Sequence[TransferRow]) -> TransferPair:
    changed = _moment(sorted(each.began_at_ns for each in rows)[len(rows) // 2])
    efs = rows[0].source == "efs"
    level = TransferLevel(at=3, n=12, mean_mib_per_s=9.0, relative=0.6, differs=True)
    hours = TransferDependence(levels=(level,), p_value=0.0007, found=True) if efs else _unjudged()
    change = TransferChange(
        at=changed, earliest=changed, latest=changed, p_value=0.001, before=1.1, after=0.8, ratio=_about(0.72)
    )
    return TransferPair(
        platform=rows[0].platform,
        source=rows[0].source,
        n=len(rows),
        slowest_over_fastest=9.47 if efs else 1.2,
        plateau=TransferPlateau(from_mib=None if efs else 250, mib_per_s=None if efs else 24.6, rises=True),
        hours=hours,
        weekdays=_unjudged(),
        changes=(change,) if efs else (),
        changes_reason=None if efs else "there are too few",
        modes=TWO_MODES if efs else ONE_MODE,
        variance=TransferVariance(
            deviation=0.9,
            sandbox=Estimate(value=None, reason="each made one transfer only"),
            hour=_about(0.05),
            size=_about(0.6),
            rest=_about(0.35),
        ),
    )


def _unjudged() -> TransferDependence:
    return TransferDependence(levels=(), reason="all began in one hour")


STAND_INS = {"s3": "emulated", "efs": "local file system", "fargate": "process"}
PUBLISHED = (
    PublishedTransfer(
        platform="fargate", source="efs", file_size_mib=500, metric="slowest_over_fastest", value=13.8, citation="blog"
    ),
    PublishedTransfer(
        platform="lambda", source="s3", file_size_mib=500, metric="mean", value=22.4, citation="raw rows"
    ),
    PublishedTransfer(platform="lambda", source="s3", file_size_mib=7, metric="p5", value=1, citation="of no size"),
)


def transfers_of(rows: Sequence[TransferRow], name: str = "steady") -> TransferView:
    """Return what is shown of rows, as of a dataset; nothing stood in for anything."""
    return TransferView(name, "dataset", findings_of(rows), transfer_chart_data(TransferColumns.of(rows)))


def transfer_trial(rows: Sequence[TransferRow], name: str = "files", index: int = 0) -> TrialResult:
    """Return the result of a trial of `transfer`."""
    shown = transfers_of(rows)
    found = shown.findings
    scored = tuple(score_published(found.cells, found.pairs, PUBLISHED))
    summary = trial_summary(
        name,
        "files",
        index=index,
        experiment="transfer",
        windows=(),
        emulated=True,
        transfers=found.model_copy(update={"published": scored}),
        stand_ins=STAND_INS,
    )
    return TrialResult(summary=summary, series=(), phases=(), ecdf=(), transfers=shown.charts)
