from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.samples.estimates import present

from stepbench.report.figures import Drawing, page_data, specifications

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.report.run import Columns

NEW = {"boxes", "step-latency", "step-rates", "step-strip", "line-up", "heat-map", "shares"}


def data_of(page: str) -> dict[str, Any]:
    """Return what the page's figures are drawn from."""
    found = present(re.search(r'id="page-data">(.*?)</script>', page, flags=re.DOTALL))
    data: dict[str, Any] = json.loads(found[1])
    return data


def fields_of(layer: dict[str, Any]) -> Iterator[str]:
    """Yield the columns that a layer's channels and filters read, less those that it works out or looks up itself."""
    own = {each["as"] for each in layer.get("transform", []) if "as" in each}
    own |= {field for each in layer.get("transform", []) if "lookup" in each for field in each["from"]["fields"]}
    for channel in layer["encoding"].values():
        for each in channel if isinstance(channel, list) else [channel]:
            if "field" in each and each["field"] not in own:
                yield each["field"]
    for each in layer.get("transform", []):
        if isinstance(each.get("filter"), dict):
            yield each["filter"]["field"]
        elif "filter" in each:
            yield from re.findall(r"datum\.(\w+)", each["filter"])


def test_data_sets_have_the_columns_that_the_figures_read(experiments_page: str) -> None:
    """A renamed column would draw an empty figure, without an error."""
    data = data_of(experiments_page)
    assert {figure["chart"] for figure in data["figures"].values()} >= NEW
    for place, figure in data["figures"].items():
        for layer in data["charts"][figure["chart"]]["layer"]:
            columns = data["datasets"][figure["data"][layer["data"]["name"]]]
            assert set(fields_of(layer)) <= set(columns), place
            for each in layer.get("transform", []):
                if "lookup" in each:
                    names = data["datasets"][figure["data"][each["from"]["data"]["name"]]]
                    assert {each["lookup"], *each["from"]["fields"]} == set(names), place
                    assert set(columns[each["lookup"]]) <= set(names[each["from"]["key"]]), place


def test_parameters_are_those_that_the_figures_have(experiments_page: str) -> None:
    """One that a chart does not know would be dropped without a word."""
    data = data_of(experiments_page)
    for place, figure in data["figures"].items():
        known = {each["name"] for each in data["charts"][figure["chart"]]["params"]}
        assert set(figure["params"]) == known - {"zoom", "pick", "touched"}, place


def test_every_figure_has_a_place_and_every_place_a_figure(experiments_page: str) -> None:
    """A place without a figure stops the drawing of all that follow."""
    places = re.findall(r'<div class="chart" id="([^"]+)"', experiments_page)
    assert sorted(places) == sorted(data_of(experiments_page)["figures"])


def test_a_page_carries_only_the_specifications_that_it_draws(page: str) -> None:
    """A run without steps has no use for theirs."""
    assert set(data_of(page)["charts"]) == {"ecdf", "latency", "rates"}
    assert set(specifications()) >= NEW


def test_a_data_set_of_several_figures_is_carried_once() -> None:
    """Steps and windows lie under latency and rates."""
    steps: Columns = {"from_s": [0, 40]}
    drawings = [
        Drawing("step-latency-0", "a", {"steps": steps}, {}),
        Drawing("step-rates-0", "b", {"steps": steps}, {}),
    ]
    made = page_data(drawings)
    assert len(made["datasets"]) == 1
    assert made["figures"]["step-latency-0"]["data"] == made["figures"]["step-rates-0"]["data"]
