"""Collected t4 lines in the bucket: raw as they were printed, so that nothing is lost before it is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.base import Contract
from stepbench.errors import CorruptRecordsError
from stepbench.records import layout
from stepbench.records.t4_lines import T4Line, parse_t4_line

if TYPE_CHECKING:
    from stepbench.contracts.tasks import TrialRef
    from stepbench.records.run_store import RunStore


class T4Page(Contract):
    """What one page of FilterLogEvents held; stored as `t4-logs/<slice>-<page>.json`."""

    lines: tuple[str, ...]


def read_t4_lines(ref: TrialRef, runs: RunStore) -> tuple[tuple[T4Line, ...], tuple[str, ...]]:
    """
    The trial's lines, each once, and a message for each that is cut or garbled.

    The log may have been read more than once, with other page limits: equal lines are one. (A retry that Lambda makes
    has another t4, so that no two lines of one trial are equal.)

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    lines: dict[T4Line, None] = {}
    damaged: dict[str, None] = {}
    for key in runs.keys(layout.trial_key(ref, "t4-logs/")):
        for message in runs.get_model(key, T4Page).lines:
            try:
                line = parse_t4_line(message, ref.tag)
            except CorruptRecordsError as error:
                damaged[str(error)] = None
            else:
                if line is not None:
                    lines[line] = None
    return tuple(lines), tuple(damaged)


def logged_requests(ref: TrialRef, runs: RunStore) -> set[str]:
    """Of which request ids there is a line."""
    return {line.request_id for line in read_t4_lines(ref, runs)[0]}
