from __future__ import annotations

import numpy as np

from stepbench.contracts.plan import LoadStep, Phase, TrialPlan
from stepbench.contracts.target import DynamoDbTarget
from stepbench.records.columns import ColumnFile, Rows
from stepbench.records.grid import build_grid
from stepbench.records.join import Joined, join
from stepbench.records.sandboxes import same_sandbox
from stepbench.records.t4 import Entry, T4Item, parse_item
from stepbench.testing.records import column_header, t4_item, writer_rows

MS = 10**6
START_NS = 1_700_000_000 * 10**9


def rows(*tokens: str) -> Rows:
    """One row a token, 100 ms apart."""
    return writer_rows([START_NS + number * 100 * MS for number in range(len(tokens))], tokens=tokens)


def item(sandbox: str, sequence: int, after_ms: int, attempt: int = 0) -> T4Item:
    """One arrival."""
    entry = Entry(0, attempt, 0, 0, 0, sequence, START_NS + (100 * sequence + after_ms) * MS)
    return parse_item({"sk": f"r-{sandbox}-{sequence}#{entry.t4_ns}", **t4_item([entry], sandbox=sandbox)})


def joined(files: list[ColumnFile], items: list[T4Item], events: int) -> Joined:
    """Of one phase at 10 events a second."""
    phases = (Phase(name="only", load=(LoadStep(rate_per_s=10, count=events),)),)
    plan = TrialPlan(target=DynamoDbTarget(store="dynamodb"), phases=phases)
    return join(build_grid(plan, {0: START_NS}), {"00-0000-0000-00"}, files, items, 10**10)


def test_the_ids_of_both_sides_are_compared_per_event() -> None:
    """Same, other, never arrived; and the writer that told none."""
    files = [ColumnFile(column_header(last=True), rows("a", "a", "a", ""))]
    items = [item("a", 0, 5), item("b", 1, 5), item("a", 3, 5)]
    found = same_sandbox(files, items, joined(files, items, 4))
    assert found is not None
    assert found.tolist() == [True, False, False, False]


def test_the_arrival_that_counts_is_the_first() -> None:
    """A redelivery to the writing sandbox does not make the first delivery its own."""
    files = [ColumnFile(column_header(last=True), rows("a"))]
    items = [item("a", 0, 9), item("b", 0, 5)]
    found = same_sandbox(files, items, joined(files, items, 1))
    assert found is not None
    assert found.tolist() == [False]


def test_the_row_that_counts_is_that_of_its_attempt() -> None:
    """A second attempt wrote from another sandbox; the event's latency is the first one's."""
    second = rows("b", "b")._replace(outcome=np.array([3, 0], dtype=np.uint8))
    files = [ColumnFile(column_header(), rows("a")), ColumnFile(column_header(attempt=1, last=True), second)]
    items = [item("a", 0, 5), item("b", 1, 5, attempt=1)]
    found = same_sandbox(files, items, joined(files, items, 2))
    assert found is not None
    assert found.tolist() == [True, True]


def test_without_tokens_nothing_is_told() -> None:
    """As of every other target: not "False"."""
    files = [ColumnFile(column_header(last=True), writer_rows([START_NS]))]
    items = [item("a", 0, 5)]
    assert same_sandbox(files, items, joined(files, items, 1)) is None
