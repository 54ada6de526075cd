from __future__ import annotations

import pytest

from stepbench.contracts.identity import CANARY_PHASE, EventId, trial_tag
from stepbench.errors import CorruptRecordsError
from stepbench_tools.calibration.truth import Fate, TrueWrite, delivery_line, read_truth, write_line

EVENT = EventId(trial_tag("run", 0), 1, 2, 0, 0, 7)


def line(number: int, event: EventId = EVENT, fate: Fate | None = None) -> str:
    """Return the line of a write that is received at 1,000 ns and due at 3,000."""
    return write_line(number, event.text().encode(), 1_000, 3_000, fate or Fate(2_000), stalled=False)


def test_a_write_and_its_deliveries_come_back_together() -> None:
    """The earliest sending of a position counts: a second watcher's is no second delivery."""
    fate = Fate(2_000, duplicated=True, reordered=True)
    lines = [line(1, fate=fate), delivery_line(1, 1, 3_100), delivery_line(1, 1, 3_050), delivery_line(2, 1, 4_000)]
    (write,) = read_truth(lines)
    expected = TrueWrite(
        1, EVENT, 1_000, 3_000, dropped=False, duplicated=True, reordered=True, stalled=False, deliveries={}
    )
    expected.deliveries.update({1: 3_050, 2: 4_000})
    assert write == expected
    assert write.delivered_at_ns == 3_050


def test_canaries_stand_outside_and_what_names_nothing_does_not() -> None:
    """A canary is in no schedule; a write without an identity is something to be seen."""
    stranger = write_line(2, b"\xff\xfe", 1_000, 3_000, Fate(2_000), stalled=True)
    (write,) = read_truth([line(1, EVENT._replace(phase=CANARY_PHASE)), delivery_line(1, 1, 3_100), stranger])
    assert (write.number, write.event, write.delivered_at_ns, write.stalled) == (2, None, None, True)


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "[]",
        '{"write": 1}',
        '{"write": "1", "delivery": 1, "delivered_at_ns": 1}',
        '{"delivery": 1, "write": 9, "delivered_at_ns": 1}',
        line(2)[:40],
    ],
)
def test_a_broken_log_names_the_line(broken: str) -> None:
    """A truth that is guessed at is none; a killed store leaves half a line."""
    with pytest.raises(CorruptRecordsError, match="truth log, line 2"):
        read_truth([line(1), broken])
