"""Where a trial's model comes from."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from tests.samples.dags import dataflow_trial
from tests.samples.tuning import CACHED, model

from stepbench.errors import PlanError, raise_problems
from stepbench.planning import parse_plan
from stepbench.tuning.models import find_model, model_problems


def test_a_model_that_comes_along_is_taken_as_it_is() -> None:
    """On AWS there is no file that could be named."""
    assert find_model(model()) == model()


def test_a_model_that_does_not_ship_is_refused() -> None:
    """With what there is in its place."""
    with pytest.raises(PlanError, match="stepbench tune"):
        find_model("elsewhere")


def test_a_run_whose_model_does_not_ship_is_refused_before_anything_is_made() -> None:
    """It would be missed before the first phase; what the plan sets itself needs none."""
    elsewhere = {"mode": "adaptive", "model": "elsewhere"}
    own = {"mode": "static", "model": "elsewhere", "settings": CACHED.model_dump()}
    for tuning, refused in ((elsewhere, True), (own, False)):
        trial = dataflow_trial(target={"store": "cassandra", "tuning": tuning})
        plan = parse_plan({"name": "plan", "trials": [trial]})
        with pytest.raises(PlanError, match="elsewhere") if refused else nullcontext():
            raise_problems(model_problems(plan))
