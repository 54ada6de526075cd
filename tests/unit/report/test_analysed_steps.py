from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.drawn import StepSpan, WindowSpan
from stepbench.report.page import render_page
from stepbench.report.summary import summarise
from stepbench.testing.analysed_trials import AnalysedTrial
from stepbench.testing.sample_results import sample_manifest

if TYPE_CHECKING:
    from stepbench.report.summary import RunFacts

STEP: dict[str, Any] = {
    "name": "step",
    "load": [{"rate_per_s": 20, "duration_s": 6}, {"rate_per_s": 40, "duration_s": 6}],
    "windows": [{"name": "before", "from_s": 0, "to_s": 6}, {"name": "after", "from_s": 6, "to_s": 12}],
}
WARM_UP: dict[str, Any] = {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 40}]}


def test_the_analysis_tells_where_steps_and_windows_lie_and_the_page_draws_them(facts: RunFacts) -> None:
    """Both ends of the contract: what the stage stores is what the page needs."""
    result = AnalysedTrial(phases=[WARM_UP, STEP]).finish().result()
    warm_up, step = result.phases
    assert step.steps == (StepSpan(rate_per_s=20, from_s=0, to_s=6), StepSpan(rate_per_s=40, from_s=6, to_s=12))
    assert step.windows == (WindowSpan(name="before", from_s=0, to_s=6), WindowSpan(name="after", from_s=6, to_s=12))
    assert (len(warm_up.steps), warm_up.windows) == (1, ())
    page = render_page(summarise(facts, [result]), [result], sample_manifest())
    assert "After the step from 20/s to 40/s the median" in page
    assert "No 100 ms bin without a send within 5 s of the step at 6 s." in page
    assert 'data-metric="box.p50"' in page
