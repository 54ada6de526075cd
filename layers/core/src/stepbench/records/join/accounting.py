"""The accounting: where every event went, and that the sums are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.result import Accounting
from stepbench.errors import AccountingError
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.records.join.sent import NOT_OFFERED, UNRECORDED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.records.join.joined import Joined


def account(
    joined: Joined, among: NDArray[np.bool_], *, malformed: int = 0, apart: bool = True, cut_off_ns: int | None = None
) -> Accounting:
    """
    Count where some of a trial's events went, and check that the sums are right.

    Args:
        joined: the trial's events.
        among: shape (events,), which of them.
        malformed: deliveries that named nothing, to be counted beside the events.
        apart: whether this accounting carries the trial's canaries, unmatched and malformed deliveries.
        cut_off_ns: of a trial that was stopped, since when its acknowledged events have not had the time to arrive.

    Raises:
        AccountingError: it does not balance.
    """
    counts = dict.fromkeys(_counts(joined.part(0, 0), among[:0], cut_off_ns), 0)
    for part in joined.parts():
        found = _counts(part, among[part.first : part.first + part.size] & part.offered, cut_off_ns)
        counts = {name: counts[name] + count for name, count in found.items()}
    accounting = Accounting(
        **counts,
        unmatched=joined.unmatched if apart else 0,
        malformed=malformed if apart else 0,
        canaries=joined.canaries if apart else 0,
        awaited=joined.grid.arrives,
    )
    check(accounting)
    return accounting


def _counts(part: Joined, among: NDArray[np.bool_], cut_off_ns: int | None) -> dict[str, int]:
    outcome, arrived, filtered = part.outcome, part.arrived & among, ~part.matching & among
    total, arrived_by = _by_outcome(outcome, among), _by_outcome(outcome, arrived)
    lost = part.lost(cut_off_ns)
    return {
        "offered": sum(total),
        "sent": sum(total[code] for code in Outcome),
        "unsent": total[UNSENT],
        "unrecorded": total[UNRECORDED],
        "ok": total[Outcome.OK],
        "failed": total[Outcome.FAILED],
        "unknown": total[Outcome.UNKNOWN],
        "ok_arrived": arrived_by[Outcome.OK],
        "failed_arrived": arrived_by[Outcome.FAILED],
        "unknown_arrived": arrived_by[Outcome.UNKNOWN],
        "unrecorded_arrived": arrived_by[UNRECORDED],
        "received": int(np.count_nonzero(arrived)),
        "lost": int(np.count_nonzero(lost & among)),
        "cut_off": int(np.count_nonzero(part.missing & ~lost & among)),
        "held_back": int(np.count_nonzero(filtered & (outcome == Outcome.OK) & ~arrived)) if part.grid.arrives else 0,
        "leaked": int(np.count_nonzero(filtered & arrived)),
        "watch_gap": int(np.count_nonzero(arrived & part.watch_gap)),
        "duplicates": int(part.first_arrivals.repeats[among].sum()),
        "retried": int(part.first_arrivals.retried[among].sum()),
        "out_of_order": int(np.count_nonzero(part.disorder & among)),
        "late": int(np.count_nonzero(part.late & among)),
    }


def _by_outcome(outcome: NDArray[np.uint8], among: NDArray[np.bool_]) -> list[int]:
    return [int(np.count_nonzero((outcome == code) & among)) for code in range(NOT_OFFERED)]


def check(found: Accounting) -> None:
    """
    Check the equations of `docs/measurement.md`.

    Raises:
        AccountingError: names the first that does not hold.
    """
    equations = {
        "offered = sent + unsent + unrecorded": found.offered == found.sent + found.unsent + found.unrecorded,
        "sent = ok + failed + unknown": found.sent == found.ok + found.failed + found.unknown,
        "received = ok + failed + unknown + unrecorded, arrived": found.received
        == found.ok_arrived + found.failed_arrived + found.unknown_arrived + found.unrecorded_arrived,
        "lost = ok - ok arrived - held back - cut off": found.lost
        == (found.ok - found.ok_arrived - found.held_back - found.cut_off if found.awaited else 0),
        "nothing arrives that is not awaited": found.awaited or found.received == 0,
        "leaked <= received": found.leaked <= found.received,
        "watch gap <= received": found.watch_gap <= found.received,
        "arrived <= all, for each outcome": found.ok_arrived <= found.ok
        and found.failed_arrived <= found.failed
        and found.unknown_arrived <= found.unknown
        and found.unrecorded_arrived <= found.unrecorded,
        "retried <= duplicates": found.retried <= found.duplicates,
    }
    broken = [equation for equation, holds in equations.items() if not holds]
    if broken:
        message = f"the accounting does not balance: {broken[0]}; {found.model_dump_json()}"
        raise AccountingError(message)
