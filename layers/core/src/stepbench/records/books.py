"""The accounting: where every event went, and that the sums are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.result import Accounting
from stepbench.drivers.protocol import Outcome
from stepbench.errors import AccountingError
from stepbench.records.columns import UNSENT
from stepbench.records.sent import NOT_OFFERED, UNRECORDED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.records.join import Joined


def account(joined: Joined, among: NDArray[np.bool_], *, malformed: int = 0, apart: bool = True) -> Accounting:
    """
    The books of some of a trial's events, balanced.

    Args:
        joined: the trial's events.
        among: shape (events,), which of them.
        malformed: deliveries that named nothing, for the count beside the books.
        apart: whether these books carry the trial's canaries, unmatched and malformed deliveries.

    Raises:
        AccountingError: they do not balance.
    """
    counts = dict.fromkeys(_counts(joined.part(0, 0), among[:0]), 0)
    for part in joined.parts():
        found = _counts(part, among[part.first : part.first + part.size] & part.offered)
        counts = {name: counts[name] + count for name, count in found.items()}
    books = Accounting(
        **counts,
        unmatched=joined.unmatched if apart else 0,
        malformed=malformed if apart else 0,
        canaries=joined.canaries if apart else 0,
        awaited=joined.grid.arrives,
    )
    check(books)
    return books


def _counts(part: Joined, among: NDArray[np.bool_]) -> dict[str, int]:
    outcome, arrived, matching = part.outcome, part.arrived & among, part.matching
    total, came = _by_outcome(outcome, among), _by_outcome(outcome, arrived)
    missing = (outcome == Outcome.OK) & among & ~arrived & part.grid.arrives
    return {
        "offered": sum(total),
        "sent": sum(total[code] for code in Outcome),
        "unsent": total[UNSENT],
        "unrecorded": total[UNRECORDED],
        "ok": total[Outcome.OK],
        "failed": total[Outcome.FAILED],
        "unknown": total[Outcome.UNKNOWN],
        "ok_arrived": came[Outcome.OK],
        "failed_arrived": came[Outcome.FAILED],
        "unknown_arrived": came[Outcome.UNKNOWN],
        "unrecorded_arrived": came[UNRECORDED],
        "received": int(np.count_nonzero(arrived)),
        "lost": int(np.count_nonzero(missing & matching)),
        "held_back": int(np.count_nonzero(missing & ~matching)),
        "leaked": int(np.count_nonzero(arrived & ~matching)),
        "duplicates": int(part.came.repeats[among].sum()),
        "retried": int(part.came.retried[among].sum()),
        "out_of_order": int(np.count_nonzero(part.disorder & among)),
        "late": int(np.count_nonzero(part.late & among)),
    }


def _by_outcome(outcome: NDArray[np.uint8], among: NDArray[np.bool_]) -> list[int]:
    return [int(np.count_nonzero((outcome == code) & among)) for code in range(NOT_OFFERED)]


def check(books: Accounting) -> None:
    """
    Assert the equations of `docs/measurement.md`.

    Raises:
        AccountingError: names the first that does not hold.
    """
    equations = {
        "offered = sent + unsent + unrecorded": books.offered == books.sent + books.unsent + books.unrecorded,
        "sent = ok + failed + unknown": books.sent == books.ok + books.failed + books.unknown,
        "received = ok + failed + unknown + unrecorded, arrived": books.received
        == books.ok_arrived + books.failed_arrived + books.unknown_arrived + books.unrecorded_arrived,
        "lost = ok - ok arrived - held back": books.lost
        == (books.ok - books.ok_arrived - books.held_back if books.awaited else 0),
        "nothing arrives that is not awaited": books.awaited or books.received == 0,
        "leaked <= received": books.leaked <= books.received,
        "arrived <= all, for each outcome": books.ok_arrived <= books.ok
        and books.failed_arrived <= books.failed
        and books.unknown_arrived <= books.unknown
        and books.unrecorded_arrived <= books.unrecorded,
        "retried <= duplicates": books.retried <= books.duplicates,
    }
    broken = [equation for equation, holds in equations.items() if not holds]
    if broken:
        message = f"the books do not balance: {broken[0]}; {books.model_dump_json()}"
        raise AccountingError(message)
