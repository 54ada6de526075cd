"""Sentences on records per invocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tests.samples.results import changed, sample_page

from stepbench.analysis.functions import describe_batches
from stepbench.report.deliveries import describe_deliveries

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult

ONES, SPREAD = (describe_batches(np.array(sizes, dtype=np.uint32)) for sizes in ([1] * 960, [1] * 50 + [10] * 15))


def test_equal_batches_are_said_in_a_few_words() -> None:
    """A table of ones would hide the answer."""
    assert describe_deliveries(ONES) == "1 record per invocation in all 960 invocations"


def test_batches_of_several_sizes_are_said_with_the_commonest() -> None:
    """Their mean alone would be of a size that none had."""
    assert describe_deliveries(SPREAD) == (
        "1 to 10 records per invocation in 65 invocations, median 1, p90 10, mean 3.08; "
        "most often 1 (50 times), 10 (15 times)"
    )


def test_only_windows_with_batches_are_named(results: tuple[TrialResult, ...]) -> None:
    """S3's triggers hand over one by one, by design."""
    window = results[1].summary.windows[0].model_copy(update={"deliveries": ONES})
    page = sample_page([results[0], changed(results[1], windows=(window,))])
    assert page.count("per invocation in all 960 invocations.") == 1
    assert 'id="deliveries"' not in sample_page(results)
