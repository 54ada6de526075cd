from __future__ import annotations

import numpy as np

from stepbench.experiments.transfer.analysis import family


def test_shares_add_up_to_five_per_cent() -> None:
    """All findings together are wrong in one report of twenty."""
    assert round(family.MODES + family.HOURS + family.WEEKDAYS + family.CHANGES, 12) == 0.05


def test_the_rule_is_hochbergs() -> None:
    """By hand, at 5 %: 0.04 is more than 0.05, no; 0.03 more than 0.025; 0.01 is at most 0.05 / 3."""
    assert family.found_among([0.01, 0.06, 0.03], 0.05) == (True, False, False)
    assert family.found_among([0.04, 0.05, 0.03], 0.05) == (True, True, True)


def test_what_is_not_told_is_not_found_and_does_not_count() -> None:
    """A cell of few transfers takes nothing from the others."""
    assert family.found_among([None, 0.04], 0.05) == (False, True)
    assert family.found_among([], 0.05) == ()


def test_it_errs_in_at_most_its_share() -> None:
    """Ten tests without anything to find, 4,000 times: 5 % ± 0.7 by chance."""
    p_values = np.random.default_rng(1).random((4_000, 10))
    assert np.mean([any(family.found_among(row.tolist(), 0.05)) for row in p_values]) < 0.058
