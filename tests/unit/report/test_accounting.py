from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.samples.estimates import present
from tests.samples.results import STORES, accounting, sample_result

from stepbench import digits
from stepbench.report.accounting import (
    accounting_adds_up,
    accounting_is_whole,
    accounting_sections,
    describe_accounting,
)

if TYPE_CHECKING:
    from stepbench.contracts.result import Accounting, RunSummary


def test_every_number_of_the_accounting_is_in_the_tables(summary: RunSummary) -> None:
    """A number that is not shown is one that nobody can check."""
    account = present(summary.trials[3].accounting)
    account = account.model_copy(update={"held_back": 2, "leaked": 1, "cut_off": 3, "watch_gap": 4, "unpaired": 8})
    account = account.model_copy(
        update={"processed": 5, "failed_in_handler": 6, "cut_off_in_handler": 9, "processed_twice": 7}
    )
    shown = {
        line.field: line.numbers[0] for group in accounting_sections([account]) for line in group.lines if line.field
    }
    assert shown == account.model_dump(exclude={"awaited"})


def test_a_measured_function_s_events_are_processed_or_have_failed(summary: RunSummary) -> None:
    """What arrived splits once more; other trials beside it have no such numbers."""
    account = present(summary.trials[0].accounting)
    measured = account.model_copy(update={"processed": 188, "failed_in_handler": 12, "processed_twice": 3})
    found = accounting_sections([measured, account])[3]
    assert found.equation == "received = processed + failed in the handler"
    assert found.sums == (("200 = 188 + 12", True), (digits.NONE, None))
    assert not accounting_is_whole([measured])
    assert describe_accounting([summary.trials[0].model_copy(update={"accounting": measured})]) == (
        "Of 200 events: 12 failed in the handler"
    )
    fields = {line.field for group in accounting_sections([account]) for line in group.lines}
    assert not {"processed", "failed_in_handler", "processed_twice"} & fields
    stopped = measured.model_copy(update={"failed_in_handler": 2, "cut_off_in_handler": 10})
    found = accounting_sections([stopped])[3]
    assert found.equation == "received = processed + failed in the handler + cut off there"
    assert found.sums == (("200 = 188 + 2 + 10", True),)


def test_the_filter_s_numbers_are_shown_where_there_was_one(summary: RunSummary) -> None:
    """Two rows of zeros in every other report would say nothing; of the trials beside it, they stand with zeros."""
    account = present(summary.trials[0].accounting)
    filtered = account.model_copy(update={"ok_arrived": 90, "held_back": 100, "leaked": 3, "lost": 10})
    lost = accounting_sections([filtered, account])[3]
    assert lost.equation == "lost = ok − arrived of ok − held back"  # noqa: RUF001 -- a minus sign
    assert {line.field: line.numbers for line in lost.lines if line.field} == {
        "lost": (10, 0),
        "held_back": (100, 0),
        "leaked": (3, 0),
    }
    assert lost.sums == (("10 = 200 − 90 − 100", True), ("0 = 200 − 200 − 0", True))  # noqa: RUF001 -- as above
    assert not {"held_back", "leaked", "cut_off", "watch_gap"} & {
        line.field for group in accounting_sections([account]) for line in group.lines
    }


def test_what_a_stop_cut_off_is_taken_off_the_lost(summary: RunSummary) -> None:
    """Else the sum would not hold, or they would pass for losses."""
    account = present(summary.trials[0].accounting)
    stopped = account.model_copy(update={"ok_arrived": 190, "cut_off": 10})
    lost = accounting_sections([stopped])[3]
    assert lost.equation == "lost = ok − arrived of ok − cut off"  # noqa: RUF001 -- a minus sign
    assert lost.sums == (("0 = 200 − 190 − 10", True),)  # noqa: RUF001 -- as above


def test_sums_are_spelled_out_and_hold(summary: RunSummary) -> None:
    """The reader sees the equation with this trial's numbers in it."""
    sums = [group.sums for group in accounting_sections([summary.trials[3].accounting])]
    assert [each[0] for each in sums if each] == [
        ("200 = 130 + 0 + 70", True),
        ("130 = 130 + 0 + 0", True),
        ("165 = 130 + 0 + 0 + 35", True),
        ("0 = 130 − 130", True),  # noqa: RUF001 -- a minus sign
    ]


def test_a_sum_that_does_not_hold_is_shown_as_such(summary: RunSummary) -> None:
    """Were the analysis wrong, the report would be the last place to notice."""
    account = present(summary.trials[0].accounting)
    wrong = account.model_copy(update={"unsent": 7, "lost": 2})
    sums = [group.sums[0] for group in accounting_sections([wrong]) if group.sums]
    assert sums[0] == ("200 ≠ 200 + 7 + 0", False)
    assert sums[3] == ("2 ≠ 200 − 200", False)  # noqa: RUF001 -- a minus sign


def test_what_did_not_arrive_is_worked_out_for_all_but_the_lost(summary: RunSummary) -> None:
    """`lost` counts acknowledged events only; unrecorded ones may be missing as well."""
    lost = accounting_sections([summary.trials[3].accounting])[3]
    assert {line.title: line.numbers[0] for line in lost.lines} == {
        "lost": 0,
        "failed, not arrived": 0,
        "unknown, not arrived": 0,
        "unrecorded, not arrived": 35,
    }


def test_a_trial_without_accounting_keeps_its_column(summary: RunSummary) -> None:
    """Columns stand under their trials' names, whatever became of them."""
    for group in accounting_sections([summary.trials[0].accounting, None]):
        assert all(len(line.numbers) == 2 and line.numbers[1] is None for line in group.lines)
        assert all(each == ("–", None) for each in group.sums[1:])  # noqa: RUF001 -- an en dash for "none"


def test_an_accounting_without_anything_amiss_is_one_sentence() -> None:
    """Its table is folded; of a loss the sentence says so."""
    whole, lossy = (sample_result(store, 0, random.Random(7)).summary for store in STORES[:2])  # noqa: S311
    offered = present(whole.accounting).offered
    assert accounting_is_whole([whole.accounting])
    assert describe_accounting([whole]) == f"All {offered} events were sent, acknowledged, and arrived"
    assert not accounting_is_whole([whole.accounting, lossy.accounting])
    assert describe_accounting([whole, lossy]) == f"Of {2 * offered} events: 3 lost"
    assert not accounting_is_whole([None])
    missing = whole.model_copy(update={"accounting": None})
    assert describe_accounting([whole, missing]) == (
        f"All {offered} events were sent, acknowledged, and arrived; 1 trial without accounting"
    )


def described(*accounts: Accounting) -> str:
    """Describe trials that have these accountings."""
    summary = sample_result(STORES[0], 0, random.Random(7)).summary  # noqa: S311
    return describe_accounting([summary.model_copy(update={"accounting": each}) for each in accounts])


NOTHING = accounting(offered=0, sent=0, ok=0)
OPERATIONS = accounting(offered=1_000, sent=1_000, ok=1_000, awaited=False)
FILTERED = accounting(offered=200, sent=200, ok=200, ok_arrived=100, received=100, held_back=100)


def test_what_a_filter_held_back_did_not_arrive() -> None:
    """It is as it should be, so the table stays folded; but half of the events never came."""
    assert accounting_is_whole([FILTERED])
    assert described(FILTERED) == (
        "All 200 events were sent and acknowledged: 100 arrived, 100 held back by the filter"
    )
    lossy = FILTERED.model_copy(update={"ok_arrived": 97, "received": 97, "lost": 3})
    assert described(lossy) == "Of 200 events: 3 lost, 100 held back by the filter"


def test_operations_are_counted_apart_from_events_and_do_not_arrive() -> None:
    """Beside triggers they passed for events that arrived."""
    assert described(OPERATIONS) == "All 1,000 operations were sent and answered"
    failed = OPERATIONS.model_copy(update={"ok": 999, "failed": 1})
    one = accounting(offered=1, sent=1, ok=1, ok_arrived=1, received=1)
    assert described(failed, one, OPERATIONS) == (
        "The one event was sent, acknowledged, and arrived; of 2,000 operations: 1 failed"
    )


def test_nothing_offered_is_said_as_such() -> None:
    """Nothing can have gone well with "all 0 events"."""
    assert described() == described(NOTHING) == "No event was offered"
    assert described(NOTHING.model_copy(update={"awaited": False})) == "No operation was offered"
    assert described(NOTHING, OPERATIONS) == described(OPERATIONS)


def test_operations_are_whole_though_nothing_arrives() -> None:
    """Nothing of theirs has to arrive, so no sum is about arrivals; a sum that is wrong is seen all the same."""
    whole = accounting(offered=10, sent=10, ok=10, awaited=False)
    assert accounting_is_whole([whole])
    assert not accounting_adds_up([whole.model_copy(update={"sent": 9})])
