from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import vl_convert

from stepbench.report import figures
from stepbench.report.figures import for_script, json_for_script, specifications
from stepbench_charts.__main__ import charts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def written() -> dict[str, dict[str, Any]]:
    """Return what the sources write: a second and a half of Altair's."""
    return charts()


def test_the_product_is_what_the_sources_write(written: dict[str, dict[str, Any]]) -> None:
    """`make setup` and the layer's build make it; a stale one would draw yesterday's figures."""
    assert specifications() == written


def test_the_product_is_the_same_each_time() -> None:
    """Equal sources have to make an equal layer, or every build would be deployed anew: `make setup` was the first."""
    command = [sys.executable, "-m", "stepbench_charts"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert printed == figures.own_file("charts.json").read_bytes()


def test_a_missing_product_says_how_it_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is in no checkout before `make setup`, and a bare FileNotFoundError would not say so."""
    monkeypatch.setattr(figures, "own_file", lambda name: tmp_path / name)
    with pytest.raises(FileNotFoundError, match="make setup"):
        specifications.__wrapped__()


def test_specifications_carry_no_data(written: dict[str, dict[str, Any]]) -> None:
    """They are shared by all trials: data are named, and come with the page."""
    for specification in written.values():
        assert "datasets" not in specification
        assert {"name"} == {key for layer in specification["layer"] for key in layer["data"]}


def test_every_specification_compiles_to_vega(written: dict[str, dict[str, Any]]) -> None:
    """The page compiles them in the reader's browser: too late for an error."""
    for specification in written.values():
        assert vl_convert.vegalite_to_vega(specification)["marks"]


def test_a_script_cannot_be_ended_by_what_it_holds() -> None:
    """`</script>` inside a string would end the element, whatever the language thinks."""
    assert for_script('x = "</script><!-- </SCRIPT>"') == 'x = "<\\/script><\\!-- <\\/SCRIPT>"'
    assert json_for_script({"a": "</script>&\u2028"}) == '{"a":"\\u003c/script\\u003e\\u0026\\\\u2028"}'
