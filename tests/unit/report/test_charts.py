from __future__ import annotations

import vl_convert

from stepbench.report.charts import charts
from stepbench.report.datasets import ecdf_figures, time_figure
from stepbench.report.runtime import for_script, json_for_script, specifications
from stepbench.testing.sample_results import sample_results

COLUMNS = {
    "curves": {"curve", "latency_ms", "probability"},
    "quantiles": {"curve", "quantile", "probability", "latency_ms", "low_ms", "high_ms"},
}


def test_the_shipped_specifications_are_current() -> None:
    """To renew: `python -m stepbench.report.charts > layers/core/src/stepbench/report/charts.json`."""
    assert specifications() == charts()


def test_specifications_carry_no_data() -> None:
    """They are shared by all trials: data are named, and come with the page."""
    for specification in charts().values():
        assert "datasets" not in specification
        assert {"name"} == {key for layer in specification["layer"] for key in layer["data"]}


def test_data_sets_have_the_columns_that_the_figures_read() -> None:
    """A renamed column would draw an empty figure, without an error."""
    results = sample_results()
    (figure,) = ecdf_figures(results)
    over_time = time_figure(results[0])
    assert over_time is not None
    assert set(figure.curves) == COLUMNS["curves"]
    assert set(figure.quantiles) == COLUMNS["quantiles"]
    assert set(over_time.phases) == {"phase", "kind", "from_s", "to_s"}
    assert {"second", "phase", "p50_ms", "p90_ms", "max_ms", "offered", "acknowledged", "arrived"} == set(
        over_time.seconds
    )


def test_every_specification_compiles_to_vega() -> None:
    """The page compiles them in the reader's browser: too late for an error."""
    for specification in charts().values():
        assert vl_convert.vegalite_to_vega(specification)["marks"]


def test_a_script_cannot_be_ended_by_what_it_holds() -> None:
    """`</script>` inside a string would end the element, whatever the language thinks."""
    assert for_script('x = "</script><!-- </SCRIPT>"') == 'x = "<\\/script><\\!-- <\\/SCRIPT>"'
    assert json_for_script({"a": "</script>&\u2028"}) == '{"a":"\\u003c/script\\u003e\\u0026\\u2028"}'
