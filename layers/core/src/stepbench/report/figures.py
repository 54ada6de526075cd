"""Figures of a report: what `page.js` draws them from, and the drawing runtime as one script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from stepbench.contracts.experiment import measure_of, traits_of
from stepbench.errors import find_control, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.resources.abc import Traversable

    from stepbench.contracts.experiment import ExperimentName
    from stepbench.report.run import Columns


@dataclass(frozen=True)
class Drawing:
    """
    It draws one figure: a chart of `charts.json`, its data sets and its parameters, at a place on the page.

    `height_px`: another height than the chart's, for those that have rows. `experiment`: whose latency its titles name.
    `measure`: what its titles call what is judged; empty for the median of latency.
    """

    place: str
    chart: str
    data: Mapping[str, Columns]
    params: Mapping[str, Any]
    height_px: int | None = None
    experiment: ExperimentName = "trigger"
    measure: str = ""


def page_data(drawings: Sequence[Drawing]) -> dict[str, Any]:
    """Return the specifications in use, the data sets as columns (each once), and which figure takes which."""
    datasets: dict[str, Columns] = {}
    names: dict[int, str] = {}
    figures: dict[str, Any] = {}
    for drawing in drawings:
        for name, found in drawing.data.items():
            if id(found) not in names:
                names[id(found)] = f"{name}-{drawing.place.split('-', 1)[1]}"
                datasets[names[id(found)]] = found
        sources = {name: names[id(found)] for name, found in drawing.data.items()}
        figures[drawing.place] = {"chart": _chart_name(drawing), "data": sources, "params": dict(drawing.params)}
        if drawing.height_px is not None:
            figures[drawing.place]["height"] = drawing.height_px
    specified = specifications()
    charts = {
        _chart_name(drawing): _name_latency(specified[drawing.chart], drawing.experiment, drawing.measure)
        for drawing in drawings
        if drawing.chart in specified
    }
    return {"charts": charts, "datasets": datasets, "figures": figures}


def _chart_name(drawing: Drawing) -> str:
    """Return one name for each chart, experiment and measure, since titles name the latency and what is judged."""
    experiment = "" if traits_of(drawing.experiment).by_trigger else drawing.experiment
    return "-".join(filter(None, (drawing.chart, experiment, drawing.measure.replace(" ", "-"))))


_MEDIAN = "p50, {latency}"


def _name_latency(chart: dict[str, Any], experiment: ExperimentName, judged: str) -> dict[str, Any]:
    measure = measure_of(experiment)
    text = json.dumps(chart, ensure_ascii=False)
    for placeholder, words in (("judged", judged or _MEDIAN), ("latency", measure.name), ("formula", measure.formula)):
        text = text.replace(f"{{{placeholder}}}", words)
    named: dict[str, Any] = json.loads(text)
    return named


_SNIPPET = "window.vegaEmbed = vegaEmbed; window.vega = vega;"
_CLOSES_SCRIPT = re.compile(r"<(/script|!--)", re.IGNORECASE)


@lru_cache(maxsize=1)
def javascript() -> str:
    """
    Return Vega and its embedder as one script that sets `vegaEmbed` and `vega`, safe inside a script element.

    The function's layer has it ready. Elsewhere it is bundled, once per process: the bundler starts a JavaScript engine
    and takes 4 s of a processor.
    """
    try:
        text = files("stepbench_drawing").joinpath("vega.js").read_text("utf-8")
    except ModuleNotFoundError:
        import vl_convert  # noqa: PLC0415 -- not in the function's layers

        text = vl_convert.javascript_bundle(_SNIPPET)
    return for_script(text)


@lru_cache(maxsize=1)
def specifications() -> dict[str, Any]:
    """
    Return the figures' Vega-Lite specifications by name, as `layers/core/charts` wrote them.

    Raises:
        FileNotFoundError: the product is not made; it is in no checkout, but in every layer.
    """
    product = own_file("charts.json")
    if not product.is_file():
        message = "report/charts.json, the figures' specifications, is missing; `make setup` in the checkout makes it"
        raise FileNotFoundError(message)
    found: dict[str, Any] = json.loads(product.read_text("utf-8"))
    return found


def own_file(name: str) -> Traversable:
    """Return a file that the package ships beside this module."""
    return files("stepbench.report").joinpath(name)


def for_script(javascript_text: str) -> str:
    r"""Escape JavaScript so that it cannot end its element: `</script` inside its strings becomes `<\/script`."""
    return _CLOSES_SCRIPT.sub(lambda found: "<\\" + found[1], javascript_text)


def json_for_script(document: Any) -> str:  # noqa: ANN401 -- any JSON
    """
    Dump JSON without `<`, `>` and `&` outside escapes, so nothing can end its script element.

    What would control how the page shows a text stands spelled out in it.
    """
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    while character := find_control(text):
        text = text.replace(character, f"\\{printable(character)}")
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def page_scripts() -> dict[str, str]:
    """Return the two scripts of every page by the hashes for its policy: what draws, and what has it drawn."""
    texts = (javascript(), own_file("templates/page.js").read_text("utf-8"))
    return {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'": text for text in texts}
