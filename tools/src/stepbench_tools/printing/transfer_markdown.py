"""Transfers as one pastes them into a pull request: answers, a table of cells, and what was found over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.experiments.transfer.report import view as transfers
from stepbench.experiments.transfer.report import words as transfer_words
from stepbench_tools.printing.parts import escape, table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.contracts.transfer.result import TransferFindings

_HEADINGS = ("transfers", "MiB", "n", "mean, MiB/s", "median", "p5", "p95", "slowest / fastest", "modes")
_TEXTS = frozenset({"transfers", "modes"})


def render_dataset_markdown(name: str, found: TransferFindings, stand_ins: Mapping[str, str]) -> str:
    """Render what a dataset shows, without a word that its page has not."""
    head = f"### {escape(name)}: {transfer_words.describe_span(found)}, {digits.counted(found.n, 'read')}"
    return "\n\n".join([head, *transfer_parts(found, stand_ins)]) + "\n"


def transfer_parts(found: TransferFindings, stand_ins: Mapping[str, str]) -> Iterator[str]:
    """Yield the parts of what transfers show, each a paragraph, a list or a table."""
    if stand_ins:
        yield f"**{escape(transfer_words.describe_stand_ins(stand_ins))}**"
    if found.answers:
        yield "\n".join(f"- {escape(answer)}" for answer in found.answers)
    if any(cell.n for cell in found.cells):
        yield "\n".join(table_lines(_HEADINGS, list(_cells(found, stand_ins)), _TEXTS))
    if changes := [
        transfer_words.describe_change(transfers.pair_name(pair, stand_ins), change)
        for pair in found.pairs
        for change in pair.changes
    ]:
        yield "\n".join(f"- {escape(line)}" for line in changes)
    yield f"{escape(transfer_words.describe_accounting(found.accounting))}."


def _cells(found: TransferFindings, stand_ins: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for cell in found.cells:
        rates = (cell.mean_mib_per_s, cell.median_mib_per_s, cell.p5_mib_per_s, cell.p95_mib_per_s)
        ratio = cell.slowest_over_fastest
        yield (
            escape(transfers.pair_name(cell, stand_ins)),
            digits.count(cell.file_size_mib),
            digits.count(cell.n),
            *(escape(str(digits.shown(rate, digits.PLAIN))) for rate in rates),
            digits.NONE if ratio is None else digits.rounded(ratio),
            escape(transfer_words.format_modes(cell.modes)),
        )
