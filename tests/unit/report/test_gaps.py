from __future__ import annotations

import pytest

from stepbench.contracts.drawn import RateBins
from stepbench.report.gaps import bins_around, step_gap


def bins(sent: list[int], offered: list[int] | None = None) -> RateBins:
    """20 s in bins of 100 ms with one event due in each, unless told otherwise."""
    due = offered or [1] * len(sent)
    return RateBins(phase="step", bin_s=0.1, offered=tuple(due), sent=tuple(sent), acknowledged=tuple(sent))


def test_no_empty_bin_is_said_in_words() -> None:
    """The sentence that the elastic experiment stands on."""
    assert str(step_gap(bins([1] * 200), 10.0)) == "no 100 ms bin without a send within 5 s of the step at 10 s"


def test_the_longest_time_without_a_send_is_told_with_what_was_due() -> None:
    """Two single bins and a run of three: the run counts."""
    sent = [1] * 200
    sent[60] = sent[70] = sent[101] = sent[102] = sent[103] = 0
    gap = step_gap(bins(sent), 10.0)
    assert (gap.bins, gap.due) == (3, 3)
    assert gap.gap_s == pytest.approx(0.3)
    assert str(gap) == (
        "the longest time without a send within 5 s of the step at 10 s is 300 ms or somewhat more (3 bins of 100 ms); "
        "3 events were due in it"
    )


def test_an_empty_bin_in_which_nothing_was_due_is_no_fault() -> None:
    """At 5/s every other bin of 100 ms is empty by design."""
    offered = [1, 0] * 100
    gap = step_gap(bins(offered, offered), 10.0)
    assert str(gap).endswith("is 100 ms or somewhat more (1 bin of 100 ms); no event was due in it")


def test_one_event_due_is_one_event() -> None:
    """Words agree with their number."""
    sent = [1] * 200
    sent[100] = 0
    assert str(step_gap(bins(sent), 10.0)).endswith("(1 bin of 100 ms); 1 event was due in it")


def test_gaps_far_from_the_step_are_not_of_the_step() -> None:
    """They show in the figure, and are told by lateness."""
    sent = [1] * 200
    sent[49] = sent[150] = 0
    assert step_gap(bins(sent), 10.0).bins == 0


def test_the_time_after_the_load_is_no_gap() -> None:
    """The bins of a phase may go on for what is acknowledged late."""
    offered = [1] * 120 + [0] * 80
    assert bins_around(bins(offered, offered), 10.0) == (50, 120)
    assert step_gap(bins(offered, offered), 10.0).bins == 0


def test_bins_do_not_begin_before_the_phase() -> None:
    """A step 2 s after the start has only these 2 s before it."""
    assert bins_around(bins([1] * 200), 2.0) == (0, 70)
