"""
All figures' specifications, written with Altair.

The data are named, not inlined, so the specifications are constants: `charts.json` holds what
`python -m stepbench_charts` prints. It is a product, made by `layers/core/Makefile` for the layer and for a
checkout, so rendering a report needs no Altair. These modules import Altair and what is pure, since that build has no
other library. Colours, fonts and widths are the page's business (`templates/page.js`): it knows light, dark and narrow.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from stepbench_charts import bars, curves, linear, log_between, over_time, rate_axis, settings, time_axis, transfers


def charts() -> dict[str, dict[str, Any]]:
    """Return all specifications by name; each names its data sets, such as `curves` and `quantiles`."""
    specified = {
        "ecdf": curves.distributions(),
        "boxes": bars.box_plot(),
        "latency": over_time.latency(),
        "rates": over_time.rates("offered", "acknowledged", "arrived"),
        "operation-rates": over_time.rates("offered", "acknowledged"),
        "concurrency": over_time.concurrency(),
        "percentiles": curves.percentiles(),
        "percentiles-runs": curves.percentiles(repeated=True),
        "scaling": curves.scaling(),
        "step-latency": over_time.step_latency(),
        "time-line-first": over_time.time_line(named_above=False),
        "time-line": over_time.time_line(named_above=True),
        "step-rates": over_time.step_rates(),
        "step-strip": over_time.step_strip(),
        "line-up": curves.line_up(log_between(), time_axis("y")),
        "line-up-from-0": curves.line_up(linear(), rate_axis()),
        "heat-map": curves.heat_map(),
        "sides": settings.sides(),
        "memory": settings.memory(),
        "shares": bars.shares(),
        "clock": curves.clocks(),
        "transfer-sizes": transfers.size_scatter(),
        "transfer-time": transfers.rate_over_time(),
        "transfer-curves": transfers.time_curves(),
        "transfer-hours": transfers.hour_map(),
        "transfer-progress": transfers.progress_curves(),
        "dataflow-gantt": bars.gantt(),
        "dataflow-time-parts": bars.stacked("mean time of an execution"),
        "dataflow-transfer-parts": bars.stacked("mean time of one object"),
        "dataflow-end-to-end": bars.end_to_end(),
        "dataflow-per-dollar": bars.per_dollar(),
        "dataflow-over-time": over_time.store_over_time(),
    }
    return {name: chart.to_dict() for name, chart in specified.items()}


if __name__ == "__main__":
    json.dump(charts(), sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")
