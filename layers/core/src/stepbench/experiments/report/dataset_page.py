"""The report of a dataset of transfers over a span of days: what its rows show, and a page like a run's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import stepbench
from stepbench import digits
from stepbench.experiments.report.page import render_document
from stepbench.experiments.transfer.analysis.chart_data import transfer_chart_data
from stepbench.experiments.transfer.analysis.findings import find_transfers
from stepbench.experiments.transfer.report import transfer_section
from stepbench.experiments.transfer.words import NAMES, TransferView, describe_span
from stepbench.records.storage.transfer_datasets import columns_of, stand_ins_of

if TYPE_CHECKING:
    import pyarrow as pa

    from stepbench.contracts.transfer.plan import PublishedTransfer


def view_dataset(name: str, table: pa.Table, published: tuple[PublishedTransfer, ...] = ()) -> TransferView:
    """Return what a dataset's rows show; `published` numbers are set beside its own."""
    columns = columns_of(table)
    findings, charts = find_transfers(columns, published=published), transfer_chart_data(columns)
    return TransferView(name, "dataset", findings, charts, stand_ins_of(table))


def render_dataset(view: TransferView, span: str = "") -> str:
    """
    Render the whole page.

    Args:
        view: what the dataset shows; its label is the dataset's name.
        span: the days that were asked for, in words; empty for all.
    """
    return render_document(
        "dataset",
        (transfer_section(view, alone=True),),
        label=view.label,
        facts=(describe_span(view.findings), digits.counted(view.findings.n, "read")),
        stand_ins=[f"{NAMES[what]}: {stand_in}" for what, stand_in in view.stand_ins.items()],
        span=span,
        version=stepbench.__version__,
    )
