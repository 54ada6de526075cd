from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from stepbench.analysis.stalls import delayed, find_standstills
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.records.join.sent import UNRECORDED

if TYPE_CHECKING:
    from stepbench.records.join.joined import Joined

MS = 10**6
DUE_NS = np.arange(200) * 50 * MS
STOPPED = (DUE_NS >= 3_000 * MS) & (DUE_NS < 6_000 * MS)


def slot(outcome: int = Outcome.OK, service_ms: int = 2) -> Joined:
    """Return a writer's events: it is stopped from 3 s to 6 s, and what was due then has another outcome."""
    outcomes = np.where(STOPPED, np.uint8(outcome), np.uint8(Outcome.OK))
    lateness_ns = np.where(STOPPED & (outcomes <= Outcome.UNKNOWN), 6_000 * MS - DUE_NS, 0)
    t1_ns = DUE_NS + lateness_ns
    times = {"t0_ns": DUE_NS, "t1_ns": t1_ns, "t2_ns": t1_ns + service_ms * MS}
    return cast("Joined", SimpleNamespace(outcome=outcomes, lateness_ns=lateness_ns, **times))


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.FAILED, UNSENT])
def test_a_writer_that_sent_nothing_though_events_were_due_stood_still(outcome: int) -> None:
    """From its last send at 2.95 s on, whatever became of what was due."""
    ((begin_ns, end_ns),) = find_standstills(slot(outcome), places=10)
    assert (begin_ns, end_ns) == (2_950 * MS, 6_000 * MS)


def test_where_records_are_missing_nobody_knows() -> None:
    """They may have been sent."""
    assert list(find_standstills(slot(UNRECORDED), places=10)) == []


def test_who_has_no_place_left_stands_still_for_the_store() -> None:
    """The one that was sent at 2.95 s takes 4 s."""
    assert list(find_standstills(slot(service_ms=4_000), places=1)) == []


def test_what_was_never_sent_was_not_on_time() -> None:
    """All 60 of the standstill waited, and none after it, which was sent on time."""
    assert np.array_equal(delayed([(2_950 * MS, 6_000 * MS)], slot(UNSENT)), STOPPED | (DUE_NS == 2_950 * MS))
