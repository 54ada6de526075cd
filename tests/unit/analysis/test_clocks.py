"""Offsets between sandboxes' clocks, and which events one sandbox wrote and received."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.estimates import present
from tests.samples.records import column_header, t4_item, writer_rows

from stepbench.analysis.clocks import SandboxOffset, certain_drift_ns, offset_between, same_sandbox
from stepbench.contracts.phase import LoadStep, Phase
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import DynamoDbTarget
from stepbench.records.formats.columns import ColumnFile, Rows
from stepbench.records.formats.t4 import Entry
from stepbench.records.formats.t4_items import T4Item, parse_item
from stepbench.records.join.grid import build_grid
from stepbench.records.join.trial import join

MS = 10**6
START_NS = 1_700_000_000 * 10**9
sides = st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 10**6)), min_size=1, max_size=6)


def test_one_pair_differs_by_its_readings_and_both_bounds() -> None:
    """Receiver 70 ± 5 ahead of the reference, writer 30 ± 10: 40 ± 15."""
    assert offset_between([SandboxOffset(70, 5)], [SandboxOffset(30, 10)]) == (40, 15)


def test_many_sandboxes_give_the_hull_of_all_pairs() -> None:
    """Worked by hand: low = 68 - 41 = 27, high = 105 - 20 = 85, so 56 ± 29."""
    receivers = [SandboxOffset(70, 2), SandboxOffset(100, 5)]
    writers = [SandboxOffset(30, 10), SandboxOffset(40, 1)]
    assert offset_between(receivers, writers) == (56, 29)


def test_an_unmeasured_side_leaves_the_offset_unmeasured() -> None:
    """Zero would read as perfect clocks."""
    assert offset_between([], [SandboxOffset(1, 1)]) is None
    assert offset_between([SandboxOffset(1, 1)], []) is None


@given(sides, sides)
def test_the_bound_holds_for_every_pair(r: list[tuple[int, int]], w: list[tuple[int, int]]) -> None:
    """It holds whichever receiver got whichever writer's event."""
    receivers, writers = [SandboxOffset(*each) for each in r], [SandboxOffset(*each) for each in w]
    offset_ns, bound_ns = present(offset_between(receivers, writers))
    for receiver in receivers:
        for writer in writers:
            middle, bound = receiver.offset_ns - writer.offset_ns, receiver.bound_ns + writer.bound_ns
            assert offset_ns - bound_ns <= middle - bound
            assert middle + bound <= offset_ns + bound_ns


def test_drift_is_what_the_bounds_cannot_explain() -> None:
    """10 ± 3 and then 20 ± 4: at least from 13 to 16. Overlapping readings say nothing."""
    assert certain_drift_ns([SandboxOffset(10, 3), SandboxOffset(20, 4)]) == 3
    assert certain_drift_ns([SandboxOffset(10, 3), SandboxOffset(14, 4)]) == 0
    assert certain_drift_ns([]) == 0


def rows(*tokens: str) -> Rows:
    """Build one row a token, 100 ms apart."""
    return writer_rows([START_NS + number * 100 * MS for number in range(len(tokens))], tokens=tokens)


def item(sandbox: str, sequence: int, after_ms: int, attempt: int = 0) -> T4Item:
    """Build one arrival."""
    entry = Entry(0, attempt, 0, 0, 0, sequence, START_NS + (100 * sequence + after_ms) * MS)
    return parse_item({"sk": f"r-{sandbox}-{sequence}#{entry.t4_ns}", **t4_item([entry], sandbox=sandbox)})


def compared(files: list[ColumnFile], items: list[T4Item], events: int) -> list[bool] | None:
    """Return for each event of one phase at 10/s whether its writer's sandbox received it."""
    phases = (Phase(name="only", load=(LoadStep(rate_per_s=10, count=events),)),)
    plan = TrialPlan(target=DynamoDbTarget(store="dynamodb"), phases=phases)
    joined = join(build_grid(plan, {0: START_NS}), {"00-0000-0000-00"}, files, items, 10**10)
    found = same_sandbox(files, items, joined)
    return None if found is None else found.tolist()


def test_the_ids_of_both_sides_are_compared_per_event() -> None:
    """Same, other, never arrived; and the writer that told none."""
    files = [ColumnFile(column_header(last=True), rows("a", "a", "a", ""))]
    items = [item("a", 0, 5), item("b", 1, 5), item("a", 3, 5)]
    assert compared(files, items, 4) == [True, False, False, False]


def test_the_arrival_that_counts_is_the_first() -> None:
    """A redelivery to the writing sandbox does not make the first delivery its own."""
    files = [ColumnFile(column_header(last=True), rows("a"))]
    items = [item("a", 0, 9), item("b", 0, 5)]
    assert compared(files, items, 1) == [False]


def test_the_row_that_counts_is_that_of_its_attempt() -> None:
    """A second attempt wrote from another sandbox; the event's latency is the first one's."""
    second = rows("b", "b")._replace(outcome=np.array([3, 0], dtype=np.uint8))
    files = [ColumnFile(column_header(), rows("a")), ColumnFile(column_header(attempt=1, last=True), second)]
    items = [item("a", 0, 5), item("b", 1, 5, attempt=1)]
    assert compared(files, items, 2) == [True, True]


def test_without_tokens_nothing_is_told() -> None:
    """Every other target has no such column: it is not "False"."""
    files = [ColumnFile(column_header(last=True), writer_rows([START_NS]))]
    items = [item("a", 0, 5)]
    assert compared(files, items, 1) is None
