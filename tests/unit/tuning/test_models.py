"""Where a trial's model comes from."""

from __future__ import annotations

import pytest
from tests.samples.tuning import model

from stepbench.errors import PlanError
from stepbench.tuning.models import find_model


def test_a_model_that_comes_along_is_taken_as_it_is() -> None:
    """On AWS there is no file that could be named."""
    assert find_model(model()) == model()


def test_a_model_that_does_not_ship_is_refused() -> None:
    """With what there is in its place."""
    with pytest.raises(PlanError, match="stepbench tune"):
        find_model("elsewhere")
