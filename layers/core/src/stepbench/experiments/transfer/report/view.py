"""What the page shows of transfers: a view of one trial, or of a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.contracts.measures import Estimate
from stepbench.experiments.transfer.report.figures import TransferFigures, name_of, transfer_figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.transfer.plan import PublishedTransfer
    from stepbench.contracts.transfer.result import (
        TransferCell,
        TransferChartData,
        TransferFindings,
        TransferPair,
    )

ANSWERED_MIB = 500
"""The answers are about files of this size, or the next smaller one."""
CAVEATS = {
    "few": (
        "few",
        "There are too few transfers for an interval of p5 and p95, or even of the median.",
        "Run the plan more often.",
    ),
    "dependent": (
        "dependent",
        "Transfers depend on those before them or on their sandbox, so that intervals count fewer than there are.",
        "Spread them over more hours and sandboxes.",
    ),
    "warm": (
        "not proven cold",
        "Of some transfers nobody has proven that their sandbox was new.",
        "Use cold: required.",
    ),
    "cached": ("cached", "Pages of some files were in memory before they were read.", "Use cold: required."),
    "wrong_digest": (
        "wrong digest",
        "The bytes of some were not the file's.",
        "Run again: what was read wrong is made anew.",
    ),
    "client_limit": (
        "client's limit",
        "The reading process used most of a CPU, so that the rate may be its own and not the source's.",
        "Give it more memory, which is more CPU, or more connections.",
    ),
    "unfinished": (
        "unfinished",
        "Some failed or were cut off: they have no rate, and might have been the slowest.",
        "See the errors below.",
    ),
}
"""In a word, in a sentence, and what to do."""


class Transfers(NamedTuple):
    """
    What is shown of one trial, or of a dataset.

    stand_ins: what was measured in place of AWS's, by platform and source. published: what others found.
    """

    findings: TransferFindings
    charts: TransferChartData
    stand_ins: Mapping[str, str] = MappingProxyType({})
    published: Sequence[PublishedTransfer] = ()


class PublishedRow(NamedTuple):
    """A published number of one cell beside ours; `ours` and `ratio` are None where nothing was measured there."""

    published: PublishedTransfer
    label: str
    ours: Estimate | None
    ratio: Estimate | None


@dataclass(frozen=True)
class TransferView:
    """It shows the transfers of one trial, or of a dataset, to the templates."""

    label: str
    anchor: str
    findings: TransferFindings
    figures: TransferFigures
    stand_ins: Mapping[str, str]
    published: tuple[PublishedRow, ...]

    @property
    def cells(self) -> tuple[TransferCell, ...]:
        """Return the cells in which anything was read."""
        return read_cells(self.findings)

    @property
    def caveats(self) -> tuple[str, ...]:
        """Return the kinds of caveats of all cells, each once."""
        return tuple(dict.fromkeys(kind for cell in self.cells for kind in cell.caveats))

    @property
    def stalled(self) -> tuple[TransferCell, ...]:
        """Return the cells whose transfers' progress is known."""
        return tuple(cell for cell in self.cells if cell.stalls.judged)

    def name(self, each: TransferCell | TransferPair | PublishedTransfer) -> str:
        """Name a pair: `EFS on Fargate`."""
        return pair_name(each, self.stand_ins)


def pair_name(each: TransferCell | TransferPair | PublishedTransfer, stand_ins: Mapping[str, str]) -> str:
    """Name a source and a platform, with what stood in for them: `EFS (local file system) on Lambda`."""
    return f"{name_of(each.source, stand_ins)} on {name_of(each.platform, stand_ins)}"


def read_cells(found: TransferFindings) -> tuple[TransferCell, ...]:
    """Return the cells in which anything was read."""
    return tuple(cell for cell in found.cells if cell.n or cell.failed or cell.unknown)


def phone_sizes(cells: Sequence[TransferCell]) -> frozenset[int]:
    """Return the sizes that a phone shows first: the smallest, the middle one, and that of the answers."""
    sizes = sorted({cell.file_size_mib for cell in cells})
    answered = max((size for size in sizes if size <= ANSWERED_MIB), default=sizes[0])
    return frozenset({sizes[0], sizes[len(sizes) // 2], answered})


def transfer_view(label: str, anchor: str, shown: Transfers) -> TransferView:
    """Return the view; `anchor` is unique on the page."""
    figures = transfer_figures(anchor, shown.findings, shown.charts, shown.stand_ins)
    rows = tuple(_published_row(each, shown.findings, shown.stand_ins) for each in shown.published)
    return TransferView(label, anchor, shown.findings, figures, shown.stand_ins, rows)


def _published_row(
    published: PublishedTransfer, findings: TransferFindings, stand_ins: Mapping[str, str]
) -> PublishedRow:
    key = (published.platform, published.source, published.file_size_mib)
    of = pair_name(published, stand_ins)
    label = f"{of}, {digits.count(published.file_size_mib)} MiB, {METRICS[published.metric]}"
    cell = next((each for each in findings.cells if (each.platform, each.source, each.file_size_mib) == key), None)
    ours = _measured(cell, published.metric) if cell is not None and cell.n else None
    return PublishedRow(published, label, ours, None if ours is None else ours.over(published.value))


METRICS = {
    "mean": "mean",
    "median": "median",
    "p5": "p5",
    "p95": "p95",
    "slowest_over_fastest": "slowest over fastest",
}


def _measured(cell: TransferCell, metric: str) -> Estimate | None:
    if metric == "slowest_over_fastest":
        ratio = cell.slowest_over_fastest
        return None if ratio is None else Estimate(value=ratio, reason="of two extremes")
    found: Estimate = getattr(cell, f"{metric}_mib_per_s")
    return found if found.value is not None else None
