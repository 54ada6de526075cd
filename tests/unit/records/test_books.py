from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.contracts.plan import LoadStep, Phase, Record, TrialPlan
from stepbench.contracts.target import EtcdTarget
from stepbench.drivers.protocol import Outcome
from stepbench.records.books import account, check
from stepbench.records.columns import UNSENT, ColumnFile
from stepbench.records.grid import build_grid
from stepbench.records.join import join
from stepbench.records.layout import attempt_id
from stepbench.records.t4 import Entry, parse_item
from stepbench.testing.records import column_header, t4_item, writer_rows

if TYPE_CHECKING:
    from stepbench.records.t4 import T4Item

SECOND_NS = 10**9
MS = 10**6
START_NS = 1_700_000_000 * SECOND_NS
NAMES = (
    *("offered", "sent", "unsent", "unrecorded", "ok", "failed", "unknown", "received", "lost"),
    *("duplicates", "retried", "late"),
    *("held_back", "leaked"),
    *("ok_arrived", "failed_arrived", "unknown_arrived", "unrecorded_arrived"),
)


@dataclass
class Truth:
    """What really happened, counted while it is made up."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    rows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    items: list[T4Item] = field(default_factory=list)

    def tell(self, *names: str) -> None:
        """One more of each."""
        for name in names:
            self.counts[name] += 1


WRITERS = 3
EVENTS = 60
PLANS = {
    share: TrialPlan(
        target=EtcdTarget(store="etcd"),
        record=Record(matching_share=share),
        phases=(Phase(name="load", load=(LoadStep(rate_per_s=10, count=EVENTS),)),),
        writers=WRITERS,
    )
    for share in (1, 0.4)
}
fates = st.tuples(
    st.sampled_from(["ok", "failed", "unknown", "unsent", "unrecorded"]),
    st.sampled_from(["arrives", "late", "never"]),
    st.lists(st.booleans(), max_size=3),  # repeats: Lambda's own retry, or not
)


def tell_arrivals(truth: Truth, event: int, arrival: str, repeats: list[bool]) -> None:
    """Deliver an event as its fate says; times are far from the drain limit on either side."""
    at_ms = 60_000.0 if arrival == "late" else 7_000.0
    writer, sequence = event % WRITERS, event // WRITERS
    for number, retry in enumerate([False, *repeats]):
        request = f"{event}" if retry or number == 0 else f"{event}-{number}"
        t4_ns = START_NS + round((at_ms + number) * MS)
        stored = t4_item([Entry(0, 0, writer, 0, 0, sequence, t4_ns)])
        truth.items.append(parse_item({"sk": f"{request}#{t4_ns:020d}", **stored}))
    truth.counts["duplicates"] += len(repeats)
    truth.counts["retried"] += sum(repeats)


@pytest.mark.parametrize("share", PLANS)
@settings(deadline=None, max_examples=100)
@given(st.lists(fates, min_size=EVENTS, max_size=EVENTS), st.randoms(use_true_random=False))
def test_the_books_balance_and_tell_the_truth_whatever_happens(
    share: float,
    lots: list[tuple[str, str, list[bool]]],
    random: Any,  # noqa: ANN401 -- random.Random
) -> None:
    """Random fates for every event, records in any order: each count is the one that was dealt."""
    truth = Truth()
    for event, (outcome, arrival, repeats) in enumerate(lots):
        truth.tell("offered", *(["sent"] if outcome in {"ok", "failed", "unknown"} else []), outcome)
        place = event // WRITERS
        matches = share == 1 or (place + 1) * 2 // 5 > place * 2 // 5
        if outcome == "unsent":
            truth.rows.setdefault(event % WRITERS, []).append((event, UNSENT))
            continue
        if outcome != "unrecorded":
            truth.rows.setdefault(event % WRITERS, []).append((event, int(Outcome[outcome.upper()])))
        if arrival == "arrives":
            truth.tell("received", f"{outcome}_arrived", *([] if matches else ["leaked"]))
        elif arrival == "late":
            truth.tell("late")
        if arrival != "never":
            tell_arrivals(truth, event, arrival, repeats)
        if outcome == "ok" and arrival != "arrives":
            truth.tell("lost" if matches else "held_back")
    files = []
    for writer, lines in truth.rows.items():
        rows = writer_rows([START_NS + event * 100 * MS for event, _ in lines], outcome=[code for _, code in lines])
        rows = rows._replace(sequence=np.array([event // WRITERS for event, _ in lines], dtype=np.int64))
        files.append(ColumnFile(column_header(writer=writer), rows))
    random.shuffle(files)
    random.shuffle(truth.items)
    started = {attempt_id(0, writer, 0, 0) for writer in range(WRITERS)}
    grid = build_grid(PLANS[share], {0: START_NS})
    joined = join(grid, started, files, truth.items, 20 * SECOND_NS)
    found = account(joined, np.ones(EVENTS, dtype=np.bool_))
    assert {name: getattr(found, name) for name in NAMES} == truth.counts
    check(found)
    parts = [account(joined, joined.grid.writer[joined.slot] == writer, apart=False) for writer in range(WRITERS)]
    assert sum(part.received for part in parts) == found.received
