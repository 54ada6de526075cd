"""The report of a dataset of transfers over a span of days: as a page like a run's, and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

import stepbench
from stepbench import digits
from stepbench.report import transfers
from stepbench.report.figures import json_for_script, page_data
from stepbench.report.markdown import escape, table_lines
from stepbench.report.page import page_environment, page_scripts, page_style
from stepbench.report.transfer_figures import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.report.transfers import TransferView


def render_dataset(view: TransferView, span: str = "") -> str:
    """
    Render the whole page.

    Args:
        view: what the dataset shows; its label is the dataset's name.
        span: the days that were asked for, in words; empty for all.
    """
    return (
        page_environment()
        .get_template("dataset.html.j2")
        .render(
            view=view,
            span=span,
            names=NAMES,
            version=stepbench.__version__,
            style=page_style(),
            scripts=page_scripts(),
            page_data=Markup(json_for_script(page_data(list(view.figures.drawings)))),  # noqa: S704 -- escaped for its place
        )
    )


def render_dataset_markdown(view: TransferView) -> str:
    """Render the answers, the table of cells, and what was found over time."""
    found = view.findings
    parts = [f"### {escape(view.label)}: {transfers.describe_span(found)}, {digits.counted(found.n, 'read')}"]
    if view.stand_ins:
        said = ", ".join(f"{NAMES[what]}: {stand_in}" for what, stand_in in view.stand_ins.items())
        parts.append(f"**Not AWS's: {escape(said)}**")
    if found.answers:
        parts.append("\n".join(f"- {escape(answer)}" for answer in found.answers))
    parts.append("\n".join(_cell_lines(view)))
    changes = [transfers.describe_change(view.name(pair), change) for pair, change in view.changes]
    hours = [f"{view.name(pair)}: {transfers.describe_hours(pair.hours)}" for pair in found.pairs if pair.hours.found]
    if changes or hours:
        parts.append("\n".join(f"- {escape(line)}" for line in (*changes, *hours)))
    parts.append(f"{escape(transfers.describe_accounting(found.accounting))}.")
    return "\n\n".join(parts) + "\n"


def _cell_lines(view: TransferView) -> Iterator[str]:
    headings = ("transfers", "MiB", "n", "mean, MiB/s", "median", "p5", "p95", "slowest / fastest", "modes")
    rows = [
        (
            escape(view.name(cell)),
            digits.count(cell.file_size_mib),
            digits.count(cell.n),
            *(
                escape(str(digits.shown(estimate, transfers.RATIO)))
                for estimate in (
                    cell.mean_mib_per_s,
                    cell.median_mib_per_s,
                    cell.p5_mib_per_s,
                    cell.p95_mib_per_s,
                )
            ),
            digits.NONE if cell.slowest_over_fastest is None else digits.rounded(cell.slowest_over_fastest),
            escape(transfers.format_modes(cell.modes)),
        )
        for cell in view.cells
    ]
    return table_lines(headings, rows, texts={"transfers", "modes"})
