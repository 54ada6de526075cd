from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from tests.samples.estimates import present
from tests.samples.finished_trials import SECOND_NS, START_NS, AnalysedTrial
from tests.samples.records import REF, t4_item

from stepbench.analysis.reconciliation import Reconciliation, Sighting, reconcile
from stepbench.records.formats.t4 import Entry
from stepbench.records.formats.t4_items import T4Item, parse_item
from stepbench.records.formats.t4_lines import T4Line, is_logged, parse_t4_line, t4_lines
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import T4Page

T4_NS = 1_800_000_000_000_000_000


def entry(sequence: int, t4_ns: int = T4_NS, **fields: int) -> Entry:
    """Build an arrival of phase 1."""
    return Entry(1, 0, 0, 0, 0, sequence, t4_ns)._replace(**fields)


def stored(request_id: str, *entries: Entry, **attributes: Any) -> T4Item:  # noqa: ANN401 -- an item's attributes
    """Build an item in the table."""
    key = layout.t4_sk(request_id, entries[0].t4_ns if entries else T4_NS)
    return parse_item({"sk": key, **t4_item(entries, **attributes)})


def printed(request_id: str, *entries: Entry, **attributes: Any) -> list[T4Line]:  # noqa: ANN401 -- as above
    """Return its lines in the log."""
    texts = t4_lines(REF.tag, request_id, entries[0].t4_ns, t4_item(entries, **attributes))
    return [line for line in (parse_t4_line(text, REF.tag) for text in texts) if line is not None]


def counts(found: Reconciliation) -> tuple[int, int, int, int]:
    """Return how many agreed, were only in the table, only in the log, and differed."""
    return found.agreed, len(found.table_only), len(found.log_only), len(found.differing)


def names(sightings: Iterable[Sighting]) -> list[tuple[str, int]]:
    """Return request and sequence."""
    return [(each.request_id, each.entry.sequence) for each in sightings]


def test_equal_sources_agree() -> None:
    """Each arrival once, whatever the order of items and lines."""
    items = [stored("a", entry(0), entry(1)), stored("b", entry(2))]
    lines = [*printed("b", entry(2)), *printed("a", entry(0), entry(1))]
    assert counts(reconcile(items, lines, "all")) == (3, 0, 0, 0)


def test_a_missing_table_item_is_known_by_the_log_alone() -> None:
    """It is never merged into the numbers, only counted."""
    found = reconcile([stored("a", entry(0))], [*printed("a", entry(0)), *printed("b", entry(1), entry(2))], "all")
    assert counts(found) == (1, 0, 2, 0)
    assert names(found.log_only) == [("b", 1), ("b", 2)]


def test_a_missing_line_is_known_by_the_table_alone() -> None:
    """The log is late, or lossy."""
    found = reconcile([stored("a", entry(0)), stored("b", entry(1))], printed("a", entry(0)), "all")
    assert counts(found) == (1, 1, 0, 0)
    assert names(found.table_only) == [("b", 1)]


@pytest.mark.parametrize(("field", "by_ns"), [("t4_ns", -1), ("t4_ns", 500), ("t3_ns", 7)])
def test_other_times_are_a_disagreement(field: str, by_ns: int) -> None:
    """A nanosecond is enough: both sources have the same stamp."""
    other = entry(1)._replace(**{field: getattr(entry(1), field) + by_ns})
    found = reconcile([stored("a", entry(0), entry(1))], printed("a", entry(0), other), "all")
    assert counts(found) == (1, 0, 0, 1)
    assert found.differences_ns == [by_ns if field == "t4_ns" else 0]


def test_a_lost_part_of_a_batch_names_its_arrivals_only() -> None:
    """One of several lines of an invocation; the others agree."""
    batch = [entry(number) for number in range(10_000)]
    lines = printed("a", *batch)
    found = reconcile([stored("a", *batch)], lines[1:], "all")
    missing = len(lines[0].entries) // 36
    assert counts(found) == (10_000 - missing, missing, 0, 0)
    assert [sequence for _, sequence in names(found.table_only)] == list(range(missing))


def test_lambda_s_retry_is_another_arrival_of_the_same_request() -> None:
    """Its second try agrees; the first, which the table does not have, is the log's alone."""
    late = entry(0, T4_NS + 60)
    found = reconcile([stored("a", late)], [*printed("a", entry(0)), *printed("a", late)], "all")
    assert counts(found) == (1, 0, 1, 0)


def test_the_order_of_a_retry_s_items_does_not_matter() -> None:
    """The table sorts by key, the log by time of arrival."""
    late = entry(0, T4_NS + 60)
    items = [stored("a", late), stored("a", entry(0))]
    assert counts(reconcile(items, [*printed("a", entry(0)), *printed("a", late)], "all")) == (2, 0, 0, 0)


def test_updates_are_told_apart_by_their_tokens() -> None:
    """S3's updates have no identity but the version id."""
    item, line = stored("a", entry(0), tokens=["v1"]), printed("a", entry(0), tokens=["v2"])
    found = reconcile([item], line, "all")
    assert counts(found) == (0, 1, 1, 0)
    assert (found.table_only[0].token, found.log_only[0].token) == ("v1", "v2")


def test_of_a_sample_only_the_sampled_are_missed() -> None:
    """A line that nobody asked for is compared like the others."""
    requests = [f"request-{number}" for number in range(400)]
    items = [stored(name, entry(number)) for number, name in enumerate(requests)]
    sampled = {number for number, name in enumerate(requests) if is_logged("sample", name)}
    unasked = next(number for number in range(400) if number not in sampled)
    assert counts(reconcile(items, [], "sample")) == (0, len(sampled), 0, 0)
    shown = [*sampled - {min(sampled)}, unasked]
    lines = [line for number in shown for line in printed(requests[number], entry(number))]
    found = reconcile(items, lines, "sample")
    assert counts(found) == (len(sampled), 1, 0, 0)
    assert names(found.table_only) == [(requests[min(sampled)], min(sampled))]


def test_items_without_arrivals_are_not_expected_in_the_log() -> None:
    """Removals have no t4."""
    assert counts(reconcile([stored("a", ignored=1)], [], "all")) == (0, 0, 0, 0)


Fault = Callable[[AnalysedTrial, list[str]], list[str]]


def caveats(fault: Fault = lambda _, lines: lines, *, collected: bool = True, log_t4: str = "all") -> list[str]:
    """Return the texts of `log_disagreement` after a trial of 240 events whose log has been spoilt."""
    trial = AnalysedTrial(log_t4=log_t4).finish(lost=(7,))
    items = list(trial.memory.services.table.t4_items(trial.ref.tag))
    lines = [
        line
        for item in items
        for request_id, _, t4 in [str(item["sk"]).rpartition("#")]
        for line in t4_lines(trial.ref.tag, request_id, int(t4), item)
    ]
    lines = fault(trial, lines)
    runs = trial.memory.services.runs
    for page in range(0, len(lines), 100):
        key = layout.trial_key(trial.ref, f"t4-logs/000000-{page:04d}.json")
        runs.put_model(key, T4Page(lines=tuple(lines[page : page + 100])))
    if collected:
        trial.collected()
    return [caveat.text for caveat in trial.result().summary.caveats if caveat.kind == "log_disagreement"]


def test_sources_that_agree_say_nothing() -> None:
    """A caveat is for what a reader should doubt."""
    assert caveats() == []


def test_without_a_second_source_nothing_is_said() -> None:
    """Nobody asked for one."""
    assert caveats(lambda *_: [], log_t4="none") == []


def test_an_arrival_that_only_the_log_knows_stays_lost_and_is_reported() -> None:
    """The accounting is the table's; the reader learns that the loss may be ours."""

    def fault(trial: AnalysedTrial, lines: list[str]) -> list[str]:
        arrival = Entry(1, 0, 0, 0, 0, 7, START_NS + 20 * SECOND_NS)
        canary = Entry(0xFF, 0, 0, 0, 0, 0, START_NS)
        lost = t4_lines(trial.ref.tag, "request-x", arrival.t4_ns, t4_item([arrival, canary]))
        return [*lines, *lost]

    (text,) = caveats(fault)
    assert "agree on 239 arrivals" in text
    assert "Only in the log, and in no number here: 2, of which 1 are of events that count as lost" in text
    assert "sequence 7 (phase 1, writer 0, slice 0, attempt 0) of request request-x" in text


def test_missing_lines_and_other_times_are_counted_with_examples() -> None:
    """Five lines are gone, and one says another time."""

    def fault(_: AnalysedTrial, lines: list[str]) -> list[str]:
        late = present(parse_t4_line(lines[0], REF.tag))
        (arrival,) = (Entry(*each) for each in parse_item_entries(late))
        moved = arrival._replace(t4_ns=arrival.t4_ns + 500_000)
        (spoilt,) = t4_lines(REF.tag, late.request_id, late.t4_ns, t4_item([moved]))
        return [spoilt, *lines[6:]]

    (text,) = caveats(fault)
    assert "agree on 233 arrivals" in text
    assert "Only in the table: 5, such as" in text
    assert ", …" in text
    assert "In both at different times: 1, by 0.500000 ms at most" in text


def parse_item_entries(line: T4Line) -> list[tuple[int, ...]]:
    """Return the entries of a line."""
    return [tuple(each) for each in parse_item({"sk": "x#1", **t4_item([]), "n": 1, "entries": line.entries}).entries]


def test_a_cut_line_is_told_beside_the_arrivals_that_it_held() -> None:
    """Otherwise the reader would look for a receiver that forgot to print."""
    (text,) = caveats(lambda _, lines: [lines[0][:-9], *lines[1:]])
    assert "Only in the table: 1" in text
    assert "1 log lines are cut or garbled" in text


def test_logs_that_were_never_collected_are_one_caveat_not_two() -> None:
    """`missing_logs` says it; a line per arrival would drown it."""
    assert caveats(lambda *_: [], collected=False) == []
